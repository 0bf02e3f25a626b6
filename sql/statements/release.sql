-- Releasing many: by a job, and by themselves; and what refreshes leave.
-- SPDX-License-Identifier: Apache-2.0

-- Arguments: partner_id, quarantine_id above this and up to this, collections
-- from and to, most rows.
-- name: release_pick
-- rows: one an OPEN record, in order: quarantine_id, collection, source_id, trait, home, warehouses
SELECT quarantine_id, collection, source_id, trait, home, warehouses
FROM quarantine
WHERE partner_id = ? AND quarantine_id > ? AND quarantine_id <= ?
	AND collection BETWEEN ? AND ? AND is_open = 1
ORDER BY quarantine_id
LIMIT ?;

-- Those that wait for a thing of this source_id, of whatever collection.
-- Arguments: partner_id, source_id that is waited for, then as release_pick
-- from the second on.
-- name: release_pick_waiters
-- rows: as release_pick
SELECT q.quarantine_id, q.collection, q.source_id, q.trait, q.home,
	q.warehouses
FROM collection_name n
STRAIGHT_JOIN quarantine_wait w
	ON w.partner_id = ? AND w.collection = n.collection
	AND w.source_id = ?
JOIN quarantine q
	ON q.partner_id = w.partner_id AND q.quarantine_id = w.quarantine_id
WHERE q.quarantine_id > ? AND q.quarantine_id <= ?
	AND q.collection BETWEEN ? AND ? AND q.is_open = 1
GROUP BY q.partner_id, q.quarantine_id
ORDER BY q.quarantine_id
LIMIT ?;

-- Arguments: partner_id, quarantine_id up to this, collections from and to.
-- name: release_count
-- rows: one: OPEN records
SELECT COUNT(*)
FROM quarantine
WHERE partner_id = ? AND quarantine_id <= ? AND collection BETWEEN ? AND ?
	AND is_open = 1;

-- Arguments: partner_id, source_id that is waited for, then as release_count
-- from the second on.
-- name: release_count_waiters
-- rows: one: OPEN records
SELECT COUNT(DISTINCT q.quarantine_id)
FROM collection_name n
STRAIGHT_JOIN quarantine_wait w
	ON w.partner_id = ? AND w.collection = n.collection
	AND w.source_id = ?
JOIN quarantine q
	ON q.partner_id = w.partner_id AND q.quarantine_id = w.quarantine_id
WHERE q.quarantine_id <= ? AND q.collection BETWEEN ? AND ?
	AND q.is_open = 1;

-- Argument: partner_id above this.
-- name: auto_release_partner
-- rows: one, or none: the next partner who has it set: partner_id
SELECT partner_id
FROM partner
WHERE partner_id > ? AND auto_release = 1 AND state = 'ACTIVE'
ORDER BY partner_id
LIMIT 1;

-- Arguments: partner_id, quarantine_id above this.
-- name: auto_release_stretch
-- rows: one, or none: quarantine_id of the 5,000th wait; none: there are fewer
SELECT quarantine_id
FROM quarantine_wait
WHERE partner_id = ? AND quarantine_id > ?
ORDER BY quarantine_id
LIMIT 1 OFFSET 4999;

-- Records that wait for a thing that is ACTIVE and was not so, or was another,
-- when they were looked at last. Arguments: partner_id, quarantine_id above
-- this and up to this, most rows.
-- name: auto_release_pick
-- rows: one each, by collection: quarantine_id, collection
SELECT q.quarantine_id, q.collection
FROM quarantine_wait w
JOIN item i ON i.partner_id = w.partner_id AND i.collection = w.collection
	AND i.source_id = w.source_id AND i.state = 1 AND i.rev <> w.seen_rev
JOIN quarantine q ON q.partner_id = w.partner_id
	AND q.quarantine_id = w.quarantine_id AND q.is_open = 1
WHERE w.partner_id = ? AND w.quarantine_id > ? AND w.quarantine_id <= ?
GROUP BY q.collection, q.quarantine_id
ORDER BY q.collection, q.quarantine_id
LIMIT ?;

-- name: refresh_leftover
-- rows: one, or none: a COMPLETED job whose names are still there: job_id
SELECT n.job_id
FROM (SELECT DISTINCT job_id FROM refresh_name) n
JOIN job j ON j.job_id = n.job_id AND j.state = 3
LIMIT 1;

-- Without its chunks a FAILED or CANCELLED job cannot be queued again.
-- name: refresh_forgotten
-- rows: one, or none: a finished job that has names, but no chunks any more: job_id
SELECT n.job_id
FROM (SELECT DISTINCT job_id FROM refresh_name) n
JOIN job j ON j.job_id = n.job_id AND j.open_as IS NULL
LEFT JOIN job_chunk c ON c.job_id = n.job_id AND c.chunk_no = 0
WHERE c.job_id IS NULL
LIMIT 1;

-- Arguments: job_id, most rows.
-- name: refresh_name_drop
-- rows: as many as were dropped
DELETE FROM refresh_name WHERE job_id = ? ORDER BY source_id LIMIT ?;
