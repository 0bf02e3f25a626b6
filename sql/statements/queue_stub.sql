-- Stands in for the queue until branch `drain` is merged; then it goes.
-- SPDX-License-Identifier: Apache-2.0

-- Arguments: partner_id, collection.
-- name: stub_lane_items
-- rows: 1 or 2: it is in; 0: a full-refresh is unfinished
INSERT INTO lane (partner_id, collection, next_seq, open_jobs, open_refreshes)
VALUES (?, ?, 2, 1, 0)
ON DUPLICATE KEY UPDATE
	next_seq = IF(open_refreshes = 0, next_seq + 1, next_seq),
	open_jobs = IF(open_refreshes = 0, open_jobs + 1, open_jobs);

-- Arguments: partner_id, collection.
-- name: stub_lane_refresh
-- rows: 1 or 2: it is in; 0: a job is unfinished
INSERT INTO lane (partner_id, collection, next_seq, open_jobs, open_refreshes)
VALUES (?, ?, 2, 1, 1)
ON DUPLICATE KEY UPDATE
	next_seq = IF(open_jobs = 0, next_seq + 1, next_seq),
	open_refreshes = IF(open_jobs = 0, 1, open_refreshes),
	open_jobs = IF(open_jobs = 0, 1, open_jobs);

-- Arguments: partner_id, job_id, batch_id, collection, kind, mode, phase,
-- chunk_count, total, bytes, confirmed.
-- name: stub_job_add
-- rows: 1
INSERT INTO job
	(partner_id, job_id, batch_id, collection, kind, mode, seq, state,
	phase, attempt, token, next_chunk, chunk_count, total, bytes,
	processed, accepted, replay, quarantined, rejected, tombstoned,
	confirmed, cancel_requested, created_at)
VALUES (?, ?, ?, ?, ?, ?, 0, 1, ?, 0, 0, 0, ?, ?, ?, 0, 0, 0, 0, 0, 0, ?, 0,
	NOW(3));
