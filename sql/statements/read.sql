-- What the GET routes of items, mappings and quarantine ask. Every statement
-- names the partner. Times come out as text (UTC, RFC 3339).
--
-- A listing asks for the sizes of its rows first and then for as many rows as
-- fit into a page (api/page.h). The *_page_end statements bound what a page
-- may look at where a filter has no index: they give the position of the
-- 10,000th row (PAGE_SCAN_MAX).
-- SPDX-License-Identifier: Apache-2.0

-- Arguments: partner_id, collection, source_id.
-- name: item_get
-- rows: one, or none: source_id, source_version, state, internal_id, created_at, updated_at, last_batch, payload, rev, trait, home, content_batch, content_at
-- literals: ' ' 'T' 'Z'
SELECT source_id, source_version, state, internal_id,
	CONCAT(REPLACE(created_at, ' ', 'T'), 'Z'),
	CONCAT(REPLACE(updated_at, ' ', 'T'), 'Z'),
	last_batch, payload, rev, trait, home, content_batch,
	CONCAT(REPLACE(content_at, ' ', 'T'), 'Z')
FROM item
WHERE partner_id = ? AND collection = ? AND source_id = ?;

-- Arguments: partner_id, collection, source_id above this.
-- name: item_page_end
-- rows: one, or none: the source_id of the 10,000th row; none: there are fewer
SELECT source_id
FROM item
WHERE partner_id = ? AND collection = ? AND source_id > ?
ORDER BY source_id
LIMIT 1 OFFSET 9999;

-- Arguments: partner_id, collection, source_id above this and up to this,
-- states from and to, most rows.
-- name: item_page_sizes
-- rows: one an item, in order: bytes of its payload
SELECT LENGTH(payload)
FROM item
WHERE partner_id = ? AND collection = ? AND source_id > ? AND source_id <= ?
	AND state BETWEEN ? AND ?
ORDER BY source_id
LIMIT ?;

-- Arguments as item_page_sizes.
-- name: item_page
-- rows: one an item, in order; columns as item_get, up to home
-- literals: ' ' 'T' 'Z'
SELECT source_id, source_version, state, internal_id,
	CONCAT(REPLACE(created_at, ' ', 'T'), 'Z'),
	CONCAT(REPLACE(updated_at, ' ', 'T'), 'Z'),
	last_batch, payload, rev, trait, home
FROM item
WHERE partner_id = ? AND collection = ? AND source_id > ? AND source_id <= ?
	AND state BETWEEN ? AND ?
ORDER BY source_id
LIMIT ?;

-- For a credential limited to warehouses: what it may see is found out first.
-- Arguments as item_page_sizes.
-- name: item_page_look
-- rows: one an item, in order: source_id, trait, home, bytes of its payload
SELECT source_id, trait, home, LENGTH(payload)
FROM item
WHERE partner_id = ? AND collection = ? AND source_id > ? AND source_id <= ?
	AND state BETWEEN ? AND ?
ORDER BY source_id
LIMIT ?;

-- Arguments: partner_id, collection, states from and to, then source ids.
-- name: item_page_some
-- rows: one for each of the list that is there; columns as item_page
-- literals: ' ' 'T' 'Z'
SELECT source_id, source_version, state, internal_id,
	CONCAT(REPLACE(created_at, ' ', 'T'), 'Z'),
	CONCAT(REPLACE(updated_at, ' ', 'T'), 'Z'),
	last_batch, payload, rev, trait, home
FROM item
WHERE partner_id = ? AND collection = ? AND state BETWEEN ? AND ?
	AND source_id IN ({list})
ORDER BY source_id;

-- Arguments: partner_id, collection, source_id, the item's rev (what it held
-- before has a lower one), rev and sub from which on, as rev, rev, sub, most
-- rows.
-- name: item_history_sizes
-- rows: one a version, oldest first: bytes of its payload
SELECT LENGTH(payload)
FROM item_history
WHERE partner_id = ? AND collection = ? AND source_id = ? AND rev < ?
	AND (rev > ? OR (rev = ? AND sub >= ?))
ORDER BY rev, sub
LIMIT ?;

-- Arguments as item_history_sizes.
-- name: item_history_page
-- rows: one a version, oldest first: source_version, state, batch_id, accepted_at, payload, rev, sub, source_id, trait, home
-- literals: ' ' 'T' 'Z'
SELECT source_version, state, batch_id,
	CONCAT(REPLACE(accepted_at, ' ', 'T'), 'Z'),
	payload, rev, sub, source_id, trait, home
FROM item_history
WHERE partner_id = ? AND collection = ? AND source_id = ? AND rev < ?
	AND (rev > ? OR (rev = ? AND sub >= ?))
ORDER BY rev, sub
LIMIT ?;

-- Arguments: partner_id, collection, source_id.
-- name: mapping_by_source
-- rows: one, or none: collection, source_id, internal_id, state, trait, home
SELECT collection, source_id, internal_id, state, trait, home
FROM item
WHERE partner_id = ? AND collection = ? AND source_id = ?;

-- Arguments: partner_id, internal_id.
-- name: mapping_by_internal
-- rows: one, or none: collection, source_id, internal_id, state, trait, home
SELECT collection, source_id, internal_id, state, trait, home
FROM item
WHERE partner_id = ? AND internal_id = ?;

-- Arguments: partner_id, quarantine_id.
-- name: quarantine_get
-- rows: one, or none: quarantine_id, collection, source_id, source_version, state, code, reason, missing, attempts, first_seen, last_seen, batch_id, trait, home, warehouses, payload
-- literals: ' ' 'T' 'Z'
SELECT quarantine_id, collection, source_id, source_version, state, code,
	reason, missing, attempts,
	CONCAT(REPLACE(first_seen, ' ', 'T'), 'Z'),
	CONCAT(REPLACE(last_seen, ' ', 'T'), 'Z'),
	batch_id, trait, home, warehouses, payload
FROM quarantine
WHERE partner_id = ? AND quarantine_id = ?;

-- Arguments: partner_id, quarantine_id above this.
-- name: quarantine_page_end
-- rows: one, or none: the quarantine_id of the 10,000th row; none: there are fewer
SELECT quarantine_id
FROM quarantine
WHERE partner_id = ? AND quarantine_id > ?
ORDER BY quarantine_id
LIMIT 1 OFFSET 9999;

-- Arguments: partner_id, quarantine_id above this and up to this, collections
-- from and to, codes from and to, states from and to, most rows.
-- name: quarantine_page_keys
-- rows: one a record, in order: quarantine_id, bytes of what is missing, collection, source_id, trait, home, warehouses
SELECT quarantine_id, LENGTH(missing), collection, source_id, trait, home,
	warehouses
FROM quarantine
WHERE partner_id = ? AND quarantine_id > ? AND quarantine_id <= ?
	AND collection BETWEEN ? AND ?
	AND code BETWEEN ? AND ?
	AND state BETWEEN ? AND ?
ORDER BY quarantine_id
LIMIT ?;

-- Who waits for a thing of this source_id, whatever its collection: a look
-- into quarantine_wait for each of the few collections. Arguments: partner_id,
-- source_id that is waited for, then as quarantine_page_keys from the second
-- on.
-- name: quarantine_waiters
-- rows: as quarantine_page_keys
SELECT q.quarantine_id, LENGTH(q.missing), q.collection, q.source_id, q.trait,
	q.home, q.warehouses
FROM collection_name n
STRAIGHT_JOIN quarantine_wait w
	ON w.partner_id = ? AND w.collection = n.collection
	AND w.source_id = ?
JOIN quarantine q
	ON q.partner_id = w.partner_id AND q.quarantine_id = w.quarantine_id
WHERE q.quarantine_id > ? AND q.quarantine_id <= ?
	AND q.collection BETWEEN ? AND ?
	AND q.code BETWEEN ? AND ?
	AND q.state BETWEEN ? AND ?
GROUP BY q.partner_id, q.quarantine_id
ORDER BY q.quarantine_id
LIMIT ?;

-- Arguments: partner_id, states from and to, then quarantine_ids.
-- name: quarantine_page
-- rows: one for each of the list that is there, in order: as quarantine_get without payload
-- literals: ' ' 'T' 'Z'
SELECT quarantine_id, collection, source_id, source_version, state, code,
	reason, missing, attempts,
	CONCAT(REPLACE(first_seen, ' ', 'T'), 'Z'),
	CONCAT(REPLACE(last_seen, ' ', 'T'), 'Z'),
	batch_id, trait, home, warehouses
FROM quarantine
WHERE partner_id = ? AND state BETWEEN ? AND ?
	AND quarantine_id IN ({list})
ORDER BY quarantine_id;
