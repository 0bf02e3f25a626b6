-- The item core: picture, items, history, quarantine, audit.
-- SPDX-License-Identifier: Apache-2.0

-- Arguments: partner_id, collection, then source ids.
-- name: item_picture
-- rows: one a source_id that is held: source_id, rev, source_version, state, content_hash, internal_id, trait, content_rev, home
SELECT source_id, rev, source_version, state, content_hash, internal_id, trait,
	content_rev, home
FROM item
WHERE partner_id = ? AND collection = ? AND source_id IN ({list});

-- The same, after a race: whoever reads so waits for the writer before it.
-- name: item_picture_locked
-- rows: as item_picture, locked in the order of the primary key
SELECT source_id, rev, source_version, state, content_hash, internal_id, trait,
	content_rev, home
FROM item
WHERE partner_id = ? AND collection = ? AND source_id IN ({list})
ORDER BY source_id
FOR UPDATE;

-- Arguments: when the refresh was received (unix ms), partner_id, collection,
-- most rows.
-- name: item_active
-- rows: one an ACTIVE item: source_id, rev, internal_id, touched since (0/1), trait, home
-- literals: '1970-01-01'
SELECT source_id, rev, internal_id,
	updated_at > '1970-01-01' + INTERVAL ? * 1000 MICROSECOND,
	trait, home
FROM item
WHERE partner_id = ? AND collection = ? AND state = 1
ORDER BY source_id
LIMIT ?;

-- name: item_active_locked
-- rows: as item_active, locked
-- literals: '1970-01-01'
SELECT source_id, rev, internal_id,
	updated_at > '1970-01-01' + INTERVAL ? * 1000 MICROSECOND,
	trait, home
FROM item
WHERE partner_id = ? AND collection = ? AND state = 1
ORDER BY source_id
LIMIT ?
FOR UPDATE;

-- The end of a stretch of a collection. Arguments: partner_id, collection,
-- source_id above this.
-- name: refresh_stretch
-- rows: one, or none: the 10,000th source_id; none: there are fewer
SELECT source_id
FROM item
WHERE partner_id = ? AND collection = ? AND source_id > ?
ORDER BY source_id
LIMIT 1 OFFSET 9999;

-- What a full-refresh job finds in a stretch: ACTIVE items, and those of them
-- that are not named and not touched since it was received (unix ms).
-- Arguments: received, job_id, partner_id, collection, source_id above this
-- and up to this.
-- name: refresh_count
-- rows: one: active, doomed
-- literals: '1970-01-01'
SELECT COUNT(*), COUNT(CASE WHEN n.source_id IS NULL AND i.updated_at
	< TIMESTAMPADD(MICROSECOND, 1000 * ?, '1970-01-01') THEN 1 END)
FROM item i
LEFT JOIN refresh_name n ON n.job_id = ? AND n.source_id = i.source_id
WHERE i.partner_id = ? AND i.collection = ? AND i.source_id > ?
	AND i.source_id <= ? AND i.state = 1;

-- The same one by one, for a refresh that concerns some warehouses only.
-- Arguments as refresh_count.
-- name: refresh_look
-- rows: one an ACTIVE item: source_id, trait, home, doomed (0/1)
-- literals: '1970-01-01'
SELECT i.source_id, i.trait, i.home, n.source_id IS NULL AND i.updated_at
	< TIMESTAMPADD(MICROSECOND, 1000 * ?, '1970-01-01')
FROM item i
LEFT JOIN refresh_name n ON n.job_id = ? AND n.source_id = i.source_id
WHERE i.partner_id = ? AND i.collection = ? AND i.source_id > ?
	AND i.source_id <= ? AND i.state = 1;

-- Arguments: job_id, partner_id, collection, source_id above this and up to
-- this, received, most rows.
-- name: refresh_doomed
-- rows: one each, in order: source_id, rev, internal_id, NULL, trait, home
-- literals: '1970-01-01'
SELECT i.source_id, i.rev, i.internal_id, NULL, i.trait, i.home
FROM item i
LEFT JOIN refresh_name n ON n.job_id = ? AND n.source_id = i.source_id
WHERE i.partner_id = ? AND i.collection = ? AND i.source_id > ?
	AND i.source_id <= ? AND i.state = 1 AND n.source_id IS NULL
	AND i.updated_at < TIMESTAMPADD(MICROSECOND, 1000 * ?, '1970-01-01')
ORDER BY i.source_id
LIMIT ?;

-- A compare-and-swap on rev: a row that is not at VALUES(rev) - 1 is left
-- alone. rev is assigned last: the assignments run from left to right.
-- name: item_upsert
-- rows: 1 a new row, 2 a changed one, 0 one that somebody raced us to
-- row: (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NOW(3), ?, ?, NOW(3), NOW(3))
INSERT INTO item
	(partner_id, collection, source_id, rev, source_version, state, trait,
	home, content_hash, internal_id, payload, content_rev, content_batch,
	content_at, created_batch, last_batch, created_at, updated_at)
VALUES {row}
ON DUPLICATE KEY UPDATE
	source_version = IF(rev + 1 = VALUES(rev), VALUES(source_version), source_version),
	state = IF(rev + 1 = VALUES(rev), VALUES(state), state),
	trait = IF(rev + 1 = VALUES(rev), VALUES(trait), trait),
	home = IF(rev + 1 = VALUES(rev), VALUES(home), home),
	content_hash = IF(rev + 1 = VALUES(rev), VALUES(content_hash), content_hash),
	payload = IF(rev + 1 = VALUES(rev), VALUES(payload), payload),
	content_rev = IF(rev + 1 = VALUES(rev), VALUES(content_rev), content_rev),
	content_batch = IF(rev + 1 = VALUES(rev), VALUES(content_batch), content_batch),
	content_at = IF(rev + 1 = VALUES(rev), VALUES(content_at), content_at),
	last_batch = IF(rev + 1 = VALUES(rev), VALUES(last_batch), last_batch),
	updated_at = IF(rev + 1 = VALUES(rev), VALUES(updated_at), updated_at),
	rev = IF(rev + 1 = VALUES(rev), VALUES(rev), rev);

-- Tombstones and their undoing: only the state changes. The row is there, as
-- items are never deleted, so that nothing is ever inserted.
-- name: item_set_state
-- rows: 2 a changed row, 0 one that somebody raced us to
-- row: (?, ?, ?, ?, NULL, ?, NULL, '', ?, '', 0, '', NOW(3), ?, ?, NOW(3), NOW(3))
-- literals: ''
INSERT INTO item
	(partner_id, collection, source_id, rev, source_version, state, trait,
	content_hash, internal_id, payload, content_rev, content_batch,
	content_at, created_batch, last_batch, created_at, updated_at)
VALUES {row}
ON DUPLICATE KEY UPDATE
	state = IF(rev + 1 = VALUES(rev), VALUES(state), state),
	last_batch = IF(rev + 1 = VALUES(rev), VALUES(last_batch), last_batch),
	updated_at = IF(rev + 1 = VALUES(rev), VALUES(updated_at), updated_at),
	rev = IF(rev + 1 = VALUES(rev), VALUES(rev), rev);

-- What is about to be replaced. FOR UPDATE: an item's row is locked before its
-- history is, by everybody. Whether it still is what was decided on shows the
-- swap that follows.
-- name: item_keep_replaced
-- rows: 1 a source_id that is held
INSERT INTO item_history
	(partner_id, collection, source_id, rev, sub, source_version, state,
	trait, home, payload, batch_id, accepted_at)
SELECT partner_id, collection, source_id, rev, 0, source_version, state,
	trait, home, payload, content_batch, content_at
FROM item
WHERE partner_id = ? AND collection = ? AND source_id IN ({list})
ORDER BY source_id
FOR UPDATE;

-- Versions accepted and overtaken inside one transaction.
-- name: item_keep_overtaken
-- rows: 1 each
-- row: (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, NOW(3))
INSERT INTO item_history
	(partner_id, collection, source_id, rev, sub, source_version, state,
	trait, home, payload, batch_id, accepted_at)
VALUES {row};

-- Arguments: partner_id, collection, then source ids.
-- name: quarantine_picture
-- rows: one an open record: source_id, quarantine_id, rev, source_version, attempts, seen_rev, trait, home, warehouses
SELECT source_id, quarantine_id, rev, source_version, attempts, seen_rev,
	trait, home, warehouses
FROM quarantine
WHERE partner_id = ? AND collection = ? AND is_open = 1
	AND source_id IN ({list});

-- Arguments: partner_id, collection, first and last source id, most rows.
-- name: quarantine_stretch
-- rows: as quarantine_picture, of all source ids between the two
SELECT source_id, quarantine_id, rev, source_version, attempts, seen_rev,
	trait, home, warehouses
FROM quarantine FORCE INDEX (quarantine_near)
WHERE partner_id = ? AND collection = ? AND is_open = 1
	AND source_id BETWEEN ? AND ?
LIMIT ?;

-- One that is being written is waited for.
-- name: quarantine_stretch_any
-- rows: one, if any record is open there: 1
SELECT 1
FROM quarantine FORCE INDEX (quarantine_near)
WHERE partner_id = ? AND collection = ? AND is_open = 1
	AND source_id BETWEEN ? AND ?
LIMIT 1
LOCK IN SHARE MODE;

-- name: quarantine_picture_locked
-- rows: as quarantine_picture, locked
SELECT source_id, quarantine_id, rev, source_version, attempts, seen_rev,
	trait, home, warehouses
FROM quarantine
WHERE partner_id = ? AND collection = ? AND is_open = 1
	AND source_id IN ({list})
ORDER BY source_id
FOR UPDATE;

-- New records and new contents of open ones. A compare-and-swap as
-- item_upsert; another record that is open for the same item counts as a
-- race too, since its id is another.
-- name: quarantine_put
-- rows: 1 a new record, 2 a changed one, 0 one that somebody raced us to
-- row: (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NOW(3), NOW(3))
INSERT INTO quarantine
	(partner_id, quarantine_id, rev, collection, source_id, is_open, state,
	source_version, code, reason, missing, attempts, seen_rev, trait, home,
	warehouses, payload, batch_id, first_seen, last_seen)
VALUES {row}
ON DUPLICATE KEY UPDATE
	is_open = IF(rev + 1 = VALUES(rev) AND quarantine_id = VALUES(quarantine_id), VALUES(is_open), is_open),
	state = IF(rev + 1 = VALUES(rev) AND quarantine_id = VALUES(quarantine_id), VALUES(state), state),
	source_version = IF(rev + 1 = VALUES(rev) AND quarantine_id = VALUES(quarantine_id), VALUES(source_version), source_version),
	code = IF(rev + 1 = VALUES(rev) AND quarantine_id = VALUES(quarantine_id), VALUES(code), code),
	reason = IF(rev + 1 = VALUES(rev) AND quarantine_id = VALUES(quarantine_id), VALUES(reason), reason),
	missing = IF(rev + 1 = VALUES(rev) AND quarantine_id = VALUES(quarantine_id), VALUES(missing), missing),
	attempts = IF(rev + 1 = VALUES(rev) AND quarantine_id = VALUES(quarantine_id), VALUES(attempts), attempts),
	seen_rev = IF(rev + 1 = VALUES(rev) AND quarantine_id = VALUES(quarantine_id), VALUES(seen_rev), seen_rev),
	trait = IF(rev + 1 = VALUES(rev) AND quarantine_id = VALUES(quarantine_id), VALUES(trait), trait),
	home = IF(rev + 1 = VALUES(rev) AND quarantine_id = VALUES(quarantine_id), VALUES(home), home),
	warehouses = IF(rev + 1 = VALUES(rev) AND quarantine_id = VALUES(quarantine_id), VALUES(warehouses), warehouses),
	payload = IF(rev + 1 = VALUES(rev) AND quarantine_id = VALUES(quarantine_id), VALUES(payload), payload),
	batch_id = IF(rev + 1 = VALUES(rev) AND quarantine_id = VALUES(quarantine_id), VALUES(batch_id), batch_id),
	last_seen = IF(rev + 1 = VALUES(rev) AND quarantine_id = VALUES(quarantine_id), VALUES(last_seen), last_seen),
	rev = IF(rev + 1 = VALUES(rev) AND quarantine_id = VALUES(quarantine_id), VALUES(rev), rev);

-- Closing a record that keeps its contents. Arguments: state, then
-- partner_id, quarantine_id and the rev it was decided on.
-- name: quarantine_close
-- rows: 1: closed; 0: somebody raced us
UPDATE quarantine SET is_open = NULL, state = ?, rev = rev + 1
WHERE partner_id = ? AND quarantine_id = ? AND rev = ? AND is_open = 1;

-- Arguments: partner_id, then quarantine ids.
-- name: quarantine_wait_drop
-- rows: as many as it waited for
DELETE FROM quarantine_wait
WHERE partner_id = ? AND quarantine_id IN ({list});

-- name: quarantine_wait_add
-- rows: 1 each
-- row: (?, ?, ?, ?, ?)
INSERT INTO quarantine_wait
	(partner_id, collection, source_id, quarantine_id, seen_rev)
VALUES {row};

-- Arguments: partner_id, then SKUs.
-- name: bom_edges
-- rows: one a component of an ACTIVE BOM of these SKUs: sku, component, bom
SELECT e.sku, e.component, e.bom
FROM bom_edge e
JOIN item i ON i.partner_id = e.partner_id AND i.collection = 4
	AND i.source_id = e.bom AND i.state = 1
WHERE e.partner_id = ? AND e.sku IN ({list});

-- A partner's edge of no BOM (all names empty) is its graph's lock.
-- Arguments: partner_id, then BOMs.
-- name: bom_edges_of
-- rows: one a component: bom, sku, component
SELECT bom, sku, component
FROM bom_edge
WHERE partner_id = ? AND bom IN ({list})
ORDER BY bom;

-- Arguments: partner_id, then BOMs.
-- name: bom_edge_drop
-- rows: as many as they had
DELETE FROM bom_edge WHERE partner_id = ? AND bom IN ({list});

-- name: bom_edge_add
-- rows: 1 each
-- row: (?, ?, ?, ?)
INSERT INTO bom_edge (partner_id, sku, component, bom) VALUES {row};

-- Arguments: batch_id, day, partner_id, collection, mode, total, accepted,
-- replay, quarantined, rejected, tombstoned, warehouses.
-- name: batch_add
-- rows: 1
INSERT INTO batch
	(batch_id, day, partner_id, collection, mode, total, accepted, replay,
	quarantined, rejected, tombstoned, job_id, warehouses, received_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, NOW(3));

-- A part of a job's batch. Arguments: accepted, replay, quarantined, rejected,
-- tombstoned, batch_id, day.
-- name: batch_more
-- rows: 1, or 0 where nothing is counted
UPDATE batch SET accepted = accepted + ?, replay = replay + ?,
	quarantined = quarantined + ?, rejected = rejected + ?,
	tombstoned = tombstoned + ?
WHERE batch_id = ? AND day = ?;

-- name: batch_item_add
-- rows: 1 each
-- row: (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
INSERT INTO batch_item
	(batch_id, position, day, status, change_kind, flags, source_id,
	source_version, held_version, line, rev, detail)
VALUES {row};

-- Arguments: batch_id, day, partner_id.
-- name: batch_find
-- rows: one, or none: collection, mode, total, tombstoned, warehouses
SELECT collection, mode, total, tombstoned, warehouses
FROM batch
WHERE batch_id = ? AND day = ? AND partner_id = ?;

-- What a refresh tombstoned, and whether nobody touched it since: then the rev
-- is still the tombstone's. Arguments: batch_id, day, position from, most
-- rows, partner_id, collection.
-- name: undo_candidates
-- rows: one a tombstone: position, source_id, rev, internal_id or NULL: touched, trait, home
SELECT b.position, b.source_id, b.rev, i.internal_id, i.trait, i.home
FROM (SELECT position, source_id, rev
	FROM batch_item
	WHERE batch_id = ? AND day = ? AND position >= ? AND status = 5
	ORDER BY position
	LIMIT ?) b
LEFT JOIN item i ON i.partner_id = ? AND i.collection = ?
	AND i.source_id = b.source_id AND i.rev = b.rev AND i.state = 2
ORDER BY b.source_id;

-- One record, for release and discard. Arguments: partner_id, quarantine_id.
-- name: quarantine_lock
-- rows: one, or none: collection, source_id, state, rev, payload, trait, home, warehouses
SELECT collection, source_id, state, rev, payload, trait, home, warehouses
FROM quarantine
WHERE partner_id = ? AND quarantine_id = ?
FOR UPDATE;

-- Several of them. Arguments: partner_id, then quarantine_ids.
-- name: quarantine_lock_some
-- rows: one for each that is there, in order: quarantine_id, collection, source_id, state, payload, warehouses
SELECT quarantine_id, collection, source_id, state, payload, warehouses
FROM quarantine
WHERE partner_id = ? AND quarantine_id IN ({list})
ORDER BY quarantine_id
FOR UPDATE;

-- What others lead to on the way to their warehouse. Arguments: partner_id,
-- collection, then source ids.
-- name: scope_steps
-- rows: one a source_id that is held: source_id, trait, home
SELECT source_id, trait, home
FROM item
WHERE partner_id = ? AND collection = ? AND source_id IN ({list});
