-- The queue of jobs: lanes, leases, checkpoints.
--
-- Whoever locks a job does so by its primary key, and the writes say so: left
-- to choose, MariaDB takes job_by_id for an UPDATE and the primary key for a
-- SELECT ... FOR UPDATE, and then two of them lock each other out.
-- SPDX-License-Identifier: Apache-2.0

-- A job enters its lane if the lane's rules let it; the row stays locked, so
-- that jobs of a lane are numbered in order of arrival. The assignments run
-- from left to right: what decides is changed last.
-- Arguments: partner_id, collection.
-- name: lane_enter_items
-- rows: 1 or 2: it is in; 0: a full-refresh is unfinished
INSERT INTO lane (partner_id, collection, next_seq, open_jobs, open_refreshes)
VALUES (?, ?, 2, 1, 0)
ON DUPLICATE KEY UPDATE
	next_seq = IF(open_refreshes = 0, next_seq + 1, next_seq),
	open_jobs = IF(open_refreshes = 0, open_jobs + 1, open_jobs);

-- name: lane_enter_refresh
-- rows: 1 or 2: it is in; 0: a job is unfinished
INSERT INTO lane (partner_id, collection, next_seq, open_jobs, open_refreshes)
VALUES (?, ?, 2, 1, 1)
ON DUPLICATE KEY UPDATE
	next_seq = IF(open_jobs = 0, next_seq + 1, next_seq),
	open_refreshes = IF(open_jobs = 0, 1, open_refreshes),
	open_jobs = IF(open_jobs = 0, 1, open_jobs);

-- A synchronous full-refresh goes through the lane: no job enters before it
-- is committed. It uses up a number, since only what is written is compared
-- between the nodes of a cluster.
-- name: lane_pass_refresh
-- rows: 1 or 2: go on; 0: a job is unfinished
INSERT INTO lane (partner_id, collection, next_seq, open_jobs, open_refreshes)
VALUES (?, ?, 2, 0, 0)
ON DUPLICATE KEY UPDATE
	next_seq = IF(open_jobs = 0, next_seq + 1, next_seq);

-- A synchronous undo waits for no bulk, but for the refresh it may be about.
-- name: lane_pass_undo
-- rows: 1 or 2: go on; 0: a full-refresh is unfinished
INSERT INTO lane (partner_id, collection, next_seq, open_jobs, open_refreshes)
VALUES (?, ?, 2, 0, 0)
ON DUPLICATE KEY UPDATE
	next_seq = IF(open_refreshes = 0, next_seq + 1, next_seq);

-- name: lane_look
-- rows: one, or none: unfinished jobs
SELECT open_jobs FROM lane WHERE partner_id = ? AND collection = ?;

-- Arguments: how many of them are refreshes, partner_id, collection, the same.
-- name: lane_leave
-- rows: 1
UPDATE lane SET open_jobs = open_jobs - 1, open_refreshes = open_refreshes - ?
WHERE partner_id = ? AND collection = ? AND open_jobs > 0
	AND open_refreshes >= ?;

-- A job of a lane that it has entered in this transaction.
-- Arguments: job_id, batch_id, kind, mode, phase, chunk_count, total, bytes,
-- confirmed, filter_missing, undoes, warehouses, partner_id, collection.
-- name: job_add
-- rows: 1
INSERT INTO job
	(partner_id, job_id, batch_id, collection, kind, mode, seq, open_as,
	state, phase, attempt, token, step, next_chunk, chunk_count, total,
	bytes, processed, accepted, replay, quarantined, rejected, tombstoned,
	restored, confirmed, cancel_requested, filter_missing, undoes,
	warehouses, created_at)
SELECT partner_id, ?, ?, collection, ?, ?, next_seq - 1, 1,
	1, ?, 0, 0, 0, 0, ?, ?,
	?, 0, 0, 0, 0, 0, 0,
	0, ?, 0, ?, ?,
	?, NOW(3)
FROM lane
WHERE partner_id = ? AND collection = ?;

-- A job of no lane. Arguments: partner_id, job_id, batch_id, collection or
-- NULL, then as job_add from kind on to warehouses.
-- name: job_add_free
-- rows: 1
INSERT INTO job
	(partner_id, job_id, batch_id, collection, kind, mode, seq, open_as,
	state, phase, attempt, token, step, next_chunk, chunk_count, total,
	bytes, processed, accepted, replay, quarantined, rejected, tombstoned,
	restored, confirmed, cancel_requested, filter_missing, undoes,
	warehouses, created_at)
VALUES (?, ?, ?, ?, ?, ?, 0, 2,
	1, ?, 0, 0, 0, 0, ?, ?,
	?, 0, 0, 0, 0, 0, 0,
	0, ?, 0, ?, ?,
	?, NOW(3));

-- Who may be claimed: the oldest of each lane and those of no lane, if nobody
-- has them. One look into job_lane for each lane that has any, however long
-- the lane is; the index is named, because by its own choice the server reads
-- all that is queued. Argument: most rows.
-- name: job_candidates
-- rows: one each, in the order to be tried: partner_id, job_id, token
SELECT c.partner_id, c.job_id, c.token
FROM (SELECT j.partner_id, j.job_id, j.token, j.created_at
	FROM lane l
	STRAIGHT_JOIN job j FORCE INDEX (job_lane)
		ON j.open_as = 1 AND j.partner_id = l.partner_id
		AND j.collection = l.collection
		AND j.seq = (SELECT o.seq
			FROM job o FORCE INDEX (job_lane)
			WHERE o.open_as = 1 AND o.partner_id = l.partner_id
				AND o.collection = l.collection
			ORDER BY o.seq
			LIMIT 1)
	WHERE l.open_jobs > 0
		AND (j.lease_until IS NULL OR j.lease_until < NOW(6))
		AND (j.not_before IS NULL OR j.not_before <= NOW(6))
	UNION ALL
	SELECT j.partner_id, j.job_id, j.token, j.created_at
	FROM job j
	WHERE j.open_as = 2
		AND (j.lease_until IS NULL OR j.lease_until < NOW(6))
		AND (j.not_before IS NULL OR j.not_before <= NOW(6))) c
LEFT JOIN job_turn t ON t.partner_id = c.partner_id
ORDER BY t.served_at, c.created_at, c.job_id
LIMIT ?;

-- The claim: only of a job that is still as it was seen, or that an attempt of
-- this claim has already, its COMMIT being in doubt. A lease that ran out is an
-- owner lost. Arguments: token, token, lease (us), partner_id, job_id, token,
-- the token it was seen with.
-- name: job_claim
-- rows: 1: ours; 0: somebody was faster
UPDATE job FORCE INDEX (PRIMARY) SET
	attempt = attempt + (lease_until IS NOT NULL AND token <> ?),
	token = ?,
	state = 2,
	lease_until = NOW(6) + INTERVAL ? MICROSECOND,
	not_before = NULL,
	waiting_for = NULL,
	started_at = COALESCE(started_at, NOW(6))
WHERE partner_id = ? AND job_id = ? AND open_as IS NOT NULL
	AND (token = ? OR (token = ?
		AND (lease_until IS NULL OR lease_until < NOW(6))));

-- Argument: partner_id.
-- name: job_turn_take
-- rows: 1 or 2
INSERT INTO job_turn (partner_id, served_at) VALUES (?, NOW(6))
ON DUPLICATE KEY UPDATE served_at = VALUES(served_at);

-- Arguments: partner_id, job_id.
-- name: job_get
-- rows: one, or none: batch_id, collection, kind, mode, state, phase, attempt, token, step, next_chunk, chunk_count, resume_after, total, bytes, processed, accepted, replay, quarantined, rejected, tombstoned, restored, confirmed, cancel_requested, filter_missing, undoes, warehouses, created (unix ms), quota_items_per_day of the partner
-- literals: '1970-01-01'
SELECT batch_id, collection, kind, mode, state, phase, attempt, token, step,
	next_chunk, chunk_count, resume_after, total, bytes, processed,
	accepted, replay, quarantined, rejected, tombstoned, restored,
	confirmed, cancel_requested, filter_missing, undoes, warehouses,
	TIMESTAMPDIFF(MICROSECOND, '1970-01-01', created_at) DIV 1000,
	(SELECT p.quota_items_per_day FROM partner p
	WHERE p.partner_id = job.partner_id)
FROM job
WHERE partner_id = ? AND job_id = ?;

-- The same, locked: whoever had it before is done with it.
-- name: job_lock
-- rows: as job_get, without the quota
-- literals: '1970-01-01'
SELECT batch_id, collection, kind, mode, state, phase, attempt, token, step,
	next_chunk, chunk_count, resume_after, total, bytes, processed,
	accepted, replay, quarantined, rejected, tombstoned, restored,
	confirmed, cancel_requested, filter_missing, undoes, warehouses,
	TIMESTAMPDIFF(MICROSECOND, '1970-01-01', created_at) DIV 1000
FROM job
WHERE partner_id = ? AND job_id = ?
FOR UPDATE;

-- Arguments: processed, accepted, replay, quarantined, rejected, tombstoned,
-- restored, chunks, phase, resume_after, lease (us), partner_id, job_id, token,
-- step, next_chunk.
-- name: job_checkpoint
-- rows: 1; 0: it has another owner, or this was done already
UPDATE job FORCE INDEX (PRIMARY) SET
	processed = processed + ?,
	accepted = accepted + ?,
	replay = replay + ?,
	quarantined = quarantined + ?,
	rejected = rejected + ?,
	tombstoned = tombstoned + ?,
	restored = restored + ?,
	next_chunk = next_chunk + ?,
	phase = ?,
	resume_after = ?,
	step = step + 1,
	attempt = 0,
	lease_until = NOW(6) + INTERVAL ? MICROSECOND,
	progressed_at = NOW(6)
WHERE partner_id = ? AND job_id = ? AND token = ? AND step = ?
	AND next_chunk = ?;

-- Arguments: state, error_slug, error_detail, partner_id, job_id, token.
-- name: job_finish
-- rows: 1; 0: it has another owner, or is finished
UPDATE job FORCE INDEX (PRIMARY) SET
	state = ?,
	open_as = NULL,
	lease_until = NULL,
	not_before = NULL,
	waiting_for = NULL,
	error_slug = ?,
	error_detail = ?,
	finished_at = NOW(6)
WHERE partner_id = ? AND job_id = ? AND token = ? AND open_as IS NOT NULL;

-- Arguments: owners lost by it (0 or 1), how long to leave it alone (us),
-- waiting_for, partner_id, job_id, token.
-- name: job_give_back
-- rows: 1; 0: it has another owner, or is finished
UPDATE job FORCE INDEX (PRIMARY) SET
	state = 1,
	attempt = attempt + ?,
	token = 0,
	lease_until = NULL,
	not_before = NOW(6) + INTERVAL ? MICROSECOND,
	waiting_for = ?
WHERE partner_id = ? AND job_id = ? AND token = ? AND open_as IS NOT NULL;

-- Who changes the quota writes the partner's row first and then looks for jobs
-- that wait for it: so one either waits already, or sees the change here.
-- Argument: partner_id.
-- name: job_quota_hold
-- rows: one: quota_items_per_day
SELECT quota_items_per_day FROM partner WHERE partner_id = ?
LOCK IN SHARE MODE;

-- Jobs of a partner that wait for the quota. The index is named: a partner may
-- have many jobs that are finished. Argument: partner_id.
-- name: job_waiting
-- rows: one each: job_id
-- literals: 'quota'
SELECT job_id
FROM job FORCE INDEX (job_lane)
WHERE open_as IN (1, 2) AND partner_id = ? AND waiting_for = 'quota';

-- Arguments: partner_id, job_id.
-- name: job_wake
-- rows: 1; 0: it waits no longer
-- literals: 'quota'
UPDATE job FORCE INDEX (PRIMARY) SET not_before = NULL, waiting_for = NULL
WHERE partner_id = ? AND job_id = ? AND waiting_for = 'quota';

-- Arguments: partner_id, job_id.
-- name: job_ask_cancel
-- rows: 1; 0: it was asked already
UPDATE job FORCE INDEX (PRIMARY) SET cancel_requested = 1
WHERE partner_id = ? AND job_id = ? AND open_as IS NOT NULL;

-- Argument: the partner who has its turn, twice.
-- name: job_others_wait
-- rows: one if a job of another partner could be claimed: 1
SELECT 1
FROM (SELECT j.lease_until
	FROM lane l
	STRAIGHT_JOIN job j FORCE INDEX (job_lane)
		ON j.open_as = 1 AND j.partner_id = l.partner_id
		AND j.collection = l.collection
		AND j.seq = (SELECT o.seq
			FROM job o FORCE INDEX (job_lane)
			WHERE o.open_as = 1 AND o.partner_id = l.partner_id
				AND o.collection = l.collection
			ORDER BY o.seq
			LIMIT 1)
	WHERE l.open_jobs > 0 AND l.partner_id <> ?
		AND (j.lease_until IS NULL OR j.lease_until < NOW(6))
		AND (j.not_before IS NULL OR j.not_before <= NOW(6))
	UNION ALL
	SELECT j.lease_until
	FROM job j
	WHERE j.open_as = 2 AND j.partner_id <> ?
		AND (j.lease_until IS NULL OR j.lease_until < NOW(6))
		AND (j.not_before IS NULL OR j.not_before <= NOW(6))) c
LIMIT 1;

-- Ids begin with their time.
-- name: job_oldest
-- rows: one: the oldest id that an unfinished job needs; NULL: there is none
SELECT MIN(LEAST(job_id, batch_id, COALESCE(undoes, job_id)))
FROM job
WHERE open_as IN (1, 2);

-- name: job_gauges
-- rows: one, of what is unfinished: queued, running, leased, age of the oldest (s)
SELECT COUNT(CASE WHEN state = 1 THEN 1 END),
	COUNT(CASE WHEN state = 2 THEN 1 END),
	COUNT(CASE WHEN lease_until >= NOW(6) THEN 1 END),
	CAST(COALESCE(GREATEST(0, TIMESTAMPDIFF(SECOND, MIN(created_at),
		NOW(3))), 0) AS UNSIGNED)
FROM job
WHERE open_as IN (1, 2);
