-- The public views of items, batches, quarantine and requests.
--
-- Text made from what is stored is for reading; no index finds it. So each
-- view v_x has a twin v_x_by_key, with the stored bytes of its ids as last
-- columns, whose names end in _key. source_id is the stored bytes in both.
-- Joins go along unique keys, and every view can be merged into the query that
-- uses it. A word for a number stands at that number in an ELT list; a unit
-- test compares them with the C names.
-- SPDX-License-Identifier: Apache-2.0

-- The collections as include/item/collection.def has them, in its order.
CREATE TABLE collection_name (
	collection TINYINT UNSIGNED NOT NULL,
	area VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	name VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	prefix VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	PRIMARY KEY (collection),
	UNIQUE KEY collection_name_name (name)
) ENGINE = InnoDB;

INSERT INTO collection_name (collection, area, name, prefix) VALUES
	(0, 'master', 'uoms', 'uom'),
	(1, 'master', 'addresses', 'adr'),
	(2, 'master', 'locations', 'loc'),
	(3, 'master', 'skus', 'sku'),
	(4, 'master', 'boms', 'bom'),
	(5, 'master', 'lots', 'lot'),
	(6, 'master', 'serials', 'ser'),
	(7, 'documents', 'purchase-orders', 'po'),
	(8, 'documents', 'sales-orders', 'so'),
	(9, 'documents', 'receivers', 'rcv'),
	(10, 'documents', 'shippers', 'shp'),
	(11, 'documents', 'work-orders', 'wo'),
	(12, 'documents', 'transfer-orders', 'to');

-- The APIs that have request keys.
CREATE TABLE surface_name (
	surface TINYINT UNSIGNED NOT NULL,
	name VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	PRIMARY KEY (surface),
	UNIQUE KEY surface_name_name (name)
) ENGINE = InnoDB;

INSERT INTO surface_name (surface, name) VALUES (1, 'wms-ingest');

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER
VIEW v_item_by_key AS
SELECT
	p.name AS partner_id,
	n.area AS area,
	n.name AS collection,
	i.source_id AS source_id,
	CONVERT(i.source_id USING utf8mb4) AS source_text,
	i.source_version AS source_version,
	ELT(i.state, 'ACTIVE', 'INACTIVE') AS state,
	CONCAT(n.prefix, '-', LOWER(HEX(i.internal_id))) AS internal_id,
	i.rev AS rev,
	CONCAT('bat-', LOWER(HEX(i.created_batch))) AS created_batch_id,
	CONCAT('bat-', LOWER(HEX(i.last_batch))) AS batch_id,
	CONCAT(REPLACE(i.created_at, ' ', 'T'), 'Z') AS created_at,
	CONCAT(REPLACE(i.updated_at, ' ', 'T'), 'Z') AS updated_at,
	CONVERT(i.payload USING utf8mb4) AS payload,
	i.internal_id AS internal_key
FROM item i
JOIN partner p ON p.partner_id = i.partner_id
JOIN collection_name n ON n.collection = i.collection;

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER VIEW v_item AS
SELECT
	partner_id, area, collection, source_id, source_text, source_version,
	state, internal_id, rev, created_batch_id, batch_id, created_at,
	updated_at, payload
FROM v_item_by_key;

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER
VIEW v_batch_by_key AS
SELECT
	CONCAT('bat-', LOWER(HEX(b.batch_id))) AS batch_id,
	p.name AS partner_id,
	n.area AS area,
	n.name AS collection,
	ELT(b.mode, 'upsert', 'full-refresh', 'bulk', 'release', 'discard',
		'undo-refresh') AS mode,
	b.total AS total,
	b.accepted AS accepted,
	b.replay AS replay,
	b.quarantined AS quarantined,
	b.rejected AS rejected,
	b.tombstoned AS tombstoned,
	CONCAT('job-', LOWER(HEX(b.job_id))) AS job_id,
	CONCAT(REPLACE(b.received_at, ' ', 'T'), 'Z') AS received_at,
	b.warehouses AS warehouses,
	b.batch_id AS batch_key
FROM batch b
JOIN partner p ON p.partner_id = b.partner_id
LEFT JOIN collection_name n ON n.collection = b.collection;

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER VIEW v_batch AS
SELECT
	batch_id, partner_id, area, collection, mode, total, accepted, replay,
	quarantined, rejected, tombstoned, job_id, received_at, warehouses
FROM v_batch_by_key;

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER
VIEW v_batch_item_by_key AS
SELECT
	CONCAT('bat-', LOWER(HEX(t.batch_id))) AS batch_id,
	p.name AS partner_id,
	n.area AS area,
	n.name AS collection,
	t.position AS position,
	t.line AS line,
	t.source_id AS source_id,
	CONVERT(t.source_id USING utf8mb4) AS source_text,
	t.source_version AS source_version,
	ELT(t.status, 'ACCEPTED', 'REPLAY', 'QUARANTINED', 'REJECTED',
		'TOMBSTONED', 'RESTORED') AS status,
	ELT(t.change_kind, 'created', 'updated', 'reactivated', 'unchanged')
		AS change_kind,
	t.flags & 1 AS is_conflict,
	t.held_version AS held_version,
	t.rev AS rev,
	CONVERT(t.detail USING utf8mb4) AS detail,
	CONCAT(REPLACE(b.received_at, ' ', 'T'), 'Z') AS received_at,
	t.batch_id AS batch_key
FROM batch_item t
JOIN batch b ON b.batch_id = t.batch_id AND b.day = t.day
JOIN partner p ON p.partner_id = b.partner_id
LEFT JOIN collection_name n ON n.collection = b.collection;

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER VIEW v_batch_item AS
SELECT
	batch_id, partner_id, area, collection, position, line, source_id,
	source_text, source_version, status, change_kind, is_conflict,
	held_version, rev, detail, received_at
FROM v_batch_item_by_key;

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER
VIEW v_quarantine_by_key AS
SELECT
	CONCAT('qua-', LOWER(HEX(q.quarantine_id))) AS quarantine_id,
	p.name AS partner_id,
	n.area AS area,
	n.name AS collection,
	q.source_id AS source_id,
	CONVERT(q.source_id USING utf8mb4) AS source_text,
	q.source_version AS source_version,
	ELT(q.state, 'OPEN', 'RELEASED', 'SUPERSEDED', 'DISCARDED') AS state,
	ELT(q.code, 'reference-missing', 'reference-inactive',
		'reference-wrong-kind', 'lot-of-other-sku', 'same-warehouse',
		'bom-cycle', 'cross-warehouse-credential') AS code,
	CONVERT(q.reason USING utf8mb4) AS reason,
	CONVERT(q.missing USING utf8mb4) AS missing,
	q.attempts AS attempts,
	CONCAT('bat-', LOWER(HEX(q.batch_id))) AS batch_id,
	CONCAT(REPLACE(q.first_seen, ' ', 'T'), 'Z') AS first_seen,
	CONCAT(REPLACE(q.last_seen, ' ', 'T'), 'Z') AS last_seen,
	CONVERT(q.payload USING utf8mb4) AS payload,
	q.warehouses AS warehouses,
	q.quarantine_id AS quarantine_key
FROM quarantine q
JOIN partner p ON p.partner_id = q.partner_id
JOIN collection_name n ON n.collection = q.collection;

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER VIEW v_quarantine AS
SELECT
	quarantine_id, partner_id, area, collection, source_id, source_text,
	source_version, state, code, reason, missing, attempts, batch_id,
	first_seen, last_seen, payload, warehouses
FROM v_quarantine_by_key;

-- status is NULL once the answer is dropped, some days after it expired.
CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER
VIEW v_request_by_key AS
SELECT
	p.name AS partner_id,
	s.name AS surface,
	LOWER(CONCAT_WS('-', HEX(SUBSTRING(k.correlation_id, 1, 4)),
		HEX(SUBSTRING(k.correlation_id, 5, 2)),
		HEX(SUBSTRING(k.correlation_id, 7, 2)),
		HEX(SUBSTRING(k.correlation_id, 9, 2)),
		HEX(SUBSTRING(k.correlation_id, 11, 6)))) AS correlation_id,
	n.area AS area,
	n.name AS collection,
	ELT(k.mode, 'upsert', 'full-refresh', 'bulk', 'release', 'discard',
		'undo-refresh') AS mode,
	r.status AS status,
	CONCAT('bat-', LOWER(HEX(k.batch_id))) AS batch_id,
	CONCAT(REPLACE(k.created_at, ' ', 'T'), 'Z') AS received_at,
	CONCAT(REPLACE(k.expires_at, ' ', 'T'), 'Z') AS expires_at,
	k.expires_at <= UTC_TIMESTAMP(3) AS is_expired,
	k.warehouses AS warehouses,
	k.correlation_id AS correlation_key,
	k.batch_id AS batch_key
FROM request_key k
JOIN partner p ON p.partner_id = k.partner_id
JOIN surface_name s ON s.surface = k.surface
LEFT JOIN collection_name n ON n.collection = k.collection
LEFT JOIN response r ON r.batch_id = k.batch_id;

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER VIEW v_request AS
SELECT
	partner_id, surface, correlation_id, area, collection, mode, status,
	batch_id, received_at, expires_at, is_expired, warehouses
FROM v_request_by_key;
