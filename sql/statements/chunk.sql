-- Chunks of jobs: stored at intake, read back one by one.
-- SPDX-License-Identifier: Apache-2.0

-- Arguments: job_id, chunk_no, day, first_index, items, body.
-- name: chunk_add
-- rows: 1; a duplicate is ours, of a COMMIT that was in doubt
INSERT INTO job_chunk (job_id, chunk_no, day, first_index, items, body)
VALUES (?, ?, ?, ?, ?, ?);

-- An item may be named more than once.
-- name: chunk_add_names
-- rows: 1 each, 0 for a name that is there already
-- row: (?, ?)
INSERT INTO refresh_name (job_id, source_id)
VALUES {row}
ON DUPLICATE KEY UPDATE source_id = VALUES(source_id);

-- Arguments: job_id, chunk_no, day.
-- name: chunk_get
-- rows: one, or none: first_index, items, body
SELECT first_index, items, body
FROM job_chunk
WHERE job_id = ? AND chunk_no = ? AND day = ?;

-- Arguments: job_id, day.
-- name: chunk_count
-- rows: one: how many there are
SELECT COUNT(*) FROM job_chunk WHERE job_id = ? AND day = ?;

-- What a job has is never deleted here. From the last to the first, so that
-- chunk 0 is there as long as any is: chunk_orphans looks for it.
-- Arguments: job_id, day, job_id.
-- name: chunk_drop
-- rows: 1 each, at most 100 at a time
DELETE FROM job_chunk
WHERE job_id = ? AND day = ?
	AND NOT EXISTS (SELECT 1 FROM job j WHERE j.job_id = ?)
ORDER BY chunk_no DESC
LIMIT 100;

-- Arguments: job_id, job_id.
-- name: chunk_drop_names
-- rows: 1 each, at most 1000 at a time
DELETE FROM refresh_name
WHERE job_id = ? AND NOT EXISTS (SELECT 1 FROM job j WHERE j.job_id = ?)
ORDER BY source_id
LIMIT 1000;

-- Ids begin with their time. Argument: the first id that is too young.
-- name: chunk_orphans
-- rows: one for each intake that never became a job, at most 100: job_id
SELECT c.job_id
FROM job_chunk c
LEFT JOIN job j ON j.job_id = c.job_id
WHERE c.chunk_no = 0 AND c.job_id < ? AND j.job_id IS NULL
LIMIT 100;

-- The batch of a job. What becomes of its items is counted by the job.
-- Arguments: batch_id, day, partner_id, collection, mode, total, job_id,
-- warehouses.
-- name: batch_add_job
-- rows: 1
INSERT INTO batch
	(batch_id, day, partner_id, collection, mode, total, accepted, replay,
	quarantined, rejected, tombstoned, job_id, warehouses, received_at)
VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, ?, ?, NOW(3));
