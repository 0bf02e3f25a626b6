-- What the GET routes of jobs ask, and the operator's commands.
-- SPDX-License-Identifier: Apache-2.0

-- One row tells everything, so that no figure is ahead of another. Jobs
-- before it: the unfinished ones of its lane, counted only while it is QUEUED.
-- Arguments: partner_id, job_id.
-- name: job_show
-- rows: one, or none: job_id, batch_id, collection, kind, mode, state, attempt, total, processed, accepted, replay, quarantined, rejected, tombstoned, restored, cancel_requested, waiting_for, error_slug, error_detail, created_at, started_at, finished_at, time at work (us), jobs before it or NULL, warehouses or NULL
-- literals: ' ' 'T' 'Z'
SELECT j.job_id, j.batch_id, j.collection, j.kind, j.mode, j.state, j.attempt,
	j.total, j.processed, j.accepted, j.replay, j.quarantined, j.rejected,
	j.tombstoned, j.restored, j.cancel_requested, j.waiting_for,
	j.error_slug, j.error_detail,
	CONCAT(REPLACE(j.created_at, ' ', 'T'), 'Z'),
	CONCAT(REPLACE(j.started_at, ' ', 'T'), 'Z'),
	CONCAT(REPLACE(j.finished_at, ' ', 'T'), 'Z'),
	TIMESTAMPDIFF(MICROSECOND, j.started_at,
		COALESCE(j.finished_at, j.progressed_at)),
	IF(j.state = 1, (SELECT COUNT(1) FROM job o
		WHERE o.open_as = 1 AND o.partner_id = j.partner_id
			AND o.collection = j.collection AND o.seq < j.seq
			AND j.open_as = 1), NULL),
	j.warehouses
FROM job j
WHERE j.partner_id = ? AND j.job_id = ?;

-- Arguments: partner_id, job_id below this.
-- name: job_page_end
-- rows: one, or none: the job_id of the 10,000th row; none: there are fewer
SELECT job_id
FROM job
WHERE partner_id = ? AND job_id < ?
ORDER BY job_id DESC
LIMIT 1 OFFSET 9999;

-- Arguments: partner_id, job_id below this and down to this, states from and
-- to, collections from and to, most rows. A job of all collections is number
-- 255, so that only a listing without that filter has it.
-- name: job_page
-- rows: one a job, newest first; columns as job_show, jobs before it NULL
-- literals: ' ' 'T' 'Z'
SELECT j.job_id, j.batch_id, j.collection, j.kind, j.mode, j.state, j.attempt,
	j.total, j.processed, j.accepted, j.replay, j.quarantined, j.rejected,
	j.tombstoned, j.restored, j.cancel_requested, j.waiting_for,
	j.error_slug, j.error_detail,
	CONCAT(REPLACE(j.created_at, ' ', 'T'), 'Z'),
	CONCAT(REPLACE(j.started_at, ' ', 'T'), 'Z'),
	CONCAT(REPLACE(j.finished_at, ' ', 'T'), 'Z'),
	TIMESTAMPDIFF(MICROSECOND, j.started_at,
		COALESCE(j.finished_at, j.progressed_at)),
	NULL, j.warehouses
FROM job j
WHERE j.partner_id = ? AND j.job_id < ? AND j.job_id >= ?
	AND j.state BETWEEN ? AND ?
	AND COALESCE(j.collection, 255) BETWEEN ? AND ?
ORDER BY j.job_id DESC
LIMIT ?;

-- Arguments: batch_id, day, position from.
-- name: job_result_end
-- rows: one, or none: the position of the 10,000th row; none: there are fewer
SELECT position
FROM batch_item
WHERE batch_id = ? AND day = ? AND position >= ?
ORDER BY position
LIMIT 1 OFFSET 9999;

-- Arguments: batch_id, day, position from and to, statuses from and to, most
-- rows.
-- name: job_result_sizes
-- rows: one an item, in order: bytes of its detail
SELECT COALESCE(LENGTH(detail), 0)
FROM batch_item
WHERE batch_id = ? AND day = ? AND position BETWEEN ? AND ?
	AND status BETWEEN ? AND ?
ORDER BY position
LIMIT ?;

-- Arguments: as job_result_sizes, without the last.
-- name: job_result_count
-- rows: one: how many there are
SELECT COUNT(*)
FROM batch_item
WHERE batch_id = ? AND day = ? AND position BETWEEN ? AND ?
	AND status BETWEEN ? AND ?;

-- Arguments: partner_id, collection or NULL, then as job_result_sizes.
-- name: job_result_page
-- rows: one an item, in order: position, line, source_id, source_version, status, change_kind, flags, held_version, detail, internal_id or NULL
SELECT t.position, t.line, t.source_id, t.source_version, t.status,
	t.change_kind, t.flags, t.held_version, t.detail, i.internal_id
FROM batch_item t
LEFT JOIN item i ON i.partner_id = ? AND i.collection = ?
	AND i.source_id = t.source_id
WHERE t.batch_id = ? AND t.day = ? AND t.position BETWEEN ? AND ?
	AND t.status BETWEEN ? AND ?
ORDER BY t.position
LIMIT ?;

-- The operator's commands, over all partners.

-- Arguments: partner's name, collection, state, each twice, NULL for all;
-- most rows.
-- name: operate_job_list
-- rows: one a job, newest first: job_id, partner, collection, mode, state, processed, total, quarantined, rejected, attempt, created_at, finished_at
SELECT job_id, partner_id, collection, mode, state, processed, total,
	quarantined, rejected, attempt, created_at, finished_at
FROM v_job
WHERE (? IS NULL OR partner_id = ?)
	AND (? IS NULL OR collection = ?)
	AND (? IS NULL OR state = ?)
ORDER BY job_id DESC
LIMIT ?;

-- Argument: the 16 bytes of a job_id.
-- name: operate_job_show
-- rows: one, or none: job_id, batch_id, partner, collection, kind, mode, state, total, processed, accepted, replay, quarantined, rejected, tombstoned, restored, bytes, attempt, cancel_requested, waiting_for, error_code, error_detail, created_at, started_at, progressed_at, lease_until, finished_at
SELECT job_id, batch_id, partner_id, collection, kind, mode, state, total,
	processed, accepted, replay, quarantined, rejected, tombstoned,
	restored, bytes, attempt, cancel_requested, waiting_for, error_code,
	error_detail, created_at, started_at, progressed_at, lease_until, finished_at
FROM v_job_by_key
WHERE job_key = ?;

-- Argument: the 16 bytes of a job_id.
-- name: operate_job_partner
-- rows: one, or none: partner_id
SELECT partner_id FROM job WHERE job_id = ?;

-- A finished job is QUEUED again, at the end of its lane, which it has
-- entered in this transaction; a full-refresh only if nothing has entered it
-- since. Arguments: confirmed (0 or 1), partner_id, job_id.
-- name: job_requeue
-- rows: 1; 0: it is neither FAILED nor CANCELLED, or the lane has moved on
UPDATE job j
JOIN lane l ON l.partner_id = j.partner_id AND l.collection = j.collection
SET j.state = 1,
	j.open_as = 1,
	j.seq = l.next_seq - 1,
	j.attempt = 0,
	j.token = 0,
	j.step = j.step + 1,
	j.cancel_requested = 0,
	j.confirmed = GREATEST(j.confirmed, ?),
	j.error_slug = NULL,
	j.error_detail = NULL,
	j.finished_at = NULL
WHERE j.partner_id = ? AND j.job_id = ? AND j.open_as IS NULL
	AND j.state IN (4, 5) AND (j.kind <> 2 OR j.seq = l.next_seq - 2);

-- The same for a job of no lane.
-- name: job_requeue_free
-- rows: 1; 0: it is neither FAILED nor CANCELLED
UPDATE job
SET state = 1,
	open_as = 2,
	attempt = 0,
	token = 0,
	step = step + 1,
	cancel_requested = 0,
	error_slug = NULL,
	error_detail = NULL,
	finished_at = NULL
WHERE partner_id = ? AND job_id = ? AND open_as IS NULL
	AND state IN (4, 5);
