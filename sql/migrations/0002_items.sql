-- Items, their history, quarantine, and the keys and answers of requests.
-- SPDX-License-Identifier: Apache-2.0

-- One row a request key: narrow and not partitioned, because uniqueness and
-- dropping by day cannot be one table. Whether a key is live is decided by
-- expires_at, never by whether it was swept. surface: 1 wms-ingest.
-- collection NULL: a request that has none (release, undo). warehouses: the
-- scope of the credential that sent it, as credential has it; NULL: no limit.
CREATE TABLE request_key (
	partner_id INT UNSIGNED NOT NULL,
	surface TINYINT UNSIGNED NOT NULL,
	correlation_id BINARY(16) NOT NULL,
	batch_id BINARY(16) NOT NULL,
	fingerprint BINARY(32) NOT NULL,
	collection TINYINT UNSIGNED NULL,
	mode TINYINT UNSIGNED NOT NULL,
	warehouses MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
	created_at DATETIME(3) NOT NULL,
	expires_at DATETIME(3) NOT NULL,
	PRIMARY KEY (partner_id, surface, correlation_id),
	KEY request_key_expires (expires_at)
) ENGINE = InnoDB;

-- The answer of a request, byte for byte. day is the UTC day (since 1970)
-- inside the batch id. encoding: 0 as it is, 1 gzip.
CREATE TABLE response (
	batch_id BINARY(16) NOT NULL,
	day SMALLINT UNSIGNED NOT NULL,
	status SMALLINT UNSIGNED NOT NULL,
	encoding TINYINT UNSIGNED NOT NULL,
	body MEDIUMBLOB NOT NULL,
	PRIMARY KEY (batch_id, day)
) ENGINE = InnoDB
PARTITION BY RANGE (day) (PARTITION pmax VALUES LESS THAN MAXVALUE);

-- mode: 1 upsert, 2 full-refresh, 3 bulk, 4 release, 5 discard,
-- 6 undo-refresh. finished_at equals received_at but for jobs. warehouses: as
-- in request_key.
CREATE TABLE batch (
	batch_id BINARY(16) NOT NULL,
	day SMALLINT UNSIGNED NOT NULL,
	partner_id INT UNSIGNED NOT NULL,
	collection TINYINT UNSIGNED NULL,
	mode TINYINT UNSIGNED NOT NULL,
	total INT UNSIGNED NOT NULL,
	accepted INT UNSIGNED NOT NULL,
	replay INT UNSIGNED NOT NULL,
	quarantined INT UNSIGNED NOT NULL,
	rejected INT UNSIGNED NOT NULL,
	tombstoned INT UNSIGNED NOT NULL,
	job_id BINARY(16) NULL,
	warehouses MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
	received_at DATETIME(3) NOT NULL,
	PRIMARY KEY (batch_id, day)
) ENGINE = InnoDB
PARTITION BY RANGE (day) (PARTITION pmax VALUES LESS THAN MAXVALUE);

-- status: 1 ACCEPTED, 2 REPLAY, 3 QUARANTINED, 4 REJECTED, 5 TOMBSTONED,
-- 6 RESTORED. change_kind: 1 created, 2 updated, 3 reactivated, 4 unchanged.
-- flags: 1 conflict, 2 the held item is INACTIVE. rev: the item's after it.
-- detail: the ready-made end of the result, for QUARANTINED and REJECTED.
CREATE TABLE batch_item (
	batch_id BINARY(16) NOT NULL,
	position INT UNSIGNED NOT NULL,
	day SMALLINT UNSIGNED NOT NULL,
	status TINYINT UNSIGNED NOT NULL,
	change_kind TINYINT UNSIGNED NULL,
	flags TINYINT UNSIGNED NOT NULL,
	source_id VARBINARY(128) NULL,
	source_version BIGINT UNSIGNED NULL,
	held_version BIGINT UNSIGNED NULL,
	line INT UNSIGNED NULL,
	rev INT UNSIGNED NULL,
	detail MEDIUMBLOB NULL,
	PRIMARY KEY (batch_id, position, day)
) ENGINE = InnoDB
PARTITION BY RANGE (day) (PARTITION pmax VALUES LESS THAN MAXVALUE);

-- The state. rev grows by one with every transaction that changes the row;
-- races are decided by it. state: 1 ACTIVE, 2 INACTIVE. trait: the one
-- attribute others check (a location's kind, a lot's or BOM's SKU). home: what
-- its own fields say of the warehouse it is of, one source id or two, joined
-- by a line feed: a parent, an order, a warehouse.
-- content_*: when the payload was accepted, which a tombstone and its undoing
-- leave alone; rev, last_batch and updated_at they do not.
CREATE TABLE item (
	partner_id INT UNSIGNED NOT NULL,
	collection TINYINT UNSIGNED NOT NULL,
	source_id VARBINARY(128) NOT NULL,
	rev INT UNSIGNED NOT NULL,
	source_version BIGINT UNSIGNED NULL,
	state TINYINT UNSIGNED NOT NULL,
	trait VARBINARY(128) NULL,
	home VARBINARY(257) NULL,
	content_hash BINARY(16) NOT NULL,
	internal_id BINARY(16) NOT NULL,
	payload MEDIUMBLOB NOT NULL,
	content_rev INT UNSIGNED NOT NULL,
	content_batch BINARY(16) NOT NULL,
	content_at DATETIME(3) NOT NULL,
	created_batch BINARY(16) NOT NULL,
	last_batch BINARY(16) NOT NULL,
	created_at DATETIME(3) NOT NULL,
	updated_at DATETIME(3) NOT NULL,
	PRIMARY KEY (partner_id, collection, source_id),
	UNIQUE KEY item_internal (partner_id, internal_id)
) ENGINE = InnoDB;

-- What was held before. rev is the one the row had; sub 0 is the replaced
-- row, 1 and up are versions accepted and overtaken by the transaction that
-- replaced it.
CREATE TABLE item_history (
	partner_id INT UNSIGNED NOT NULL,
	collection TINYINT UNSIGNED NOT NULL,
	source_id VARBINARY(128) NOT NULL,
	rev INT UNSIGNED NOT NULL,
	sub INT UNSIGNED NOT NULL,
	source_version BIGINT UNSIGNED NULL,
	state TINYINT UNSIGNED NOT NULL,
	trait VARBINARY(128) NULL,
	home VARBINARY(257) NULL,
	payload MEDIUMBLOB NOT NULL,
	batch_id BINARY(16) NOT NULL,
	accepted_at DATETIME(3) NOT NULL,
	PRIMARY KEY (partner_id, collection, source_id, rev, sub)
) ENGINE = InnoDB;

-- Held back items. is_open is 1 or NULL, so that the unique key allows one
-- open record an item and any number of closed ones. state: 1 OPEN,
-- 2 RELEASED, 3 SUPERSEDED, 4 DISCARDED. rev as in item. seen_rev: the item's
-- content_rev when it was held back. trait and home as in item. warehouses: the
-- scope of who sent it; a release is bound by it.
CREATE TABLE quarantine (
	partner_id INT UNSIGNED NOT NULL,
	quarantine_id BINARY(16) NOT NULL,
	rev INT UNSIGNED NOT NULL,
	collection TINYINT UNSIGNED NOT NULL,
	source_id VARBINARY(128) NOT NULL,
	is_open TINYINT UNSIGNED NULL,
	state TINYINT UNSIGNED NOT NULL,
	source_version BIGINT UNSIGNED NULL,
	code TINYINT UNSIGNED NOT NULL,
	reason VARBINARY(512) NOT NULL,
	missing MEDIUMBLOB NOT NULL,
	attempts INT UNSIGNED NOT NULL,
	seen_rev INT UNSIGNED NOT NULL,
	trait VARBINARY(128) NULL,
	home VARBINARY(257) NULL,
	warehouses MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
	payload MEDIUMBLOB NOT NULL,
	batch_id BINARY(16) NOT NULL,
	first_seen DATETIME(3) NOT NULL,
	last_seen DATETIME(3) NOT NULL,
	PRIMARY KEY (partner_id, quarantine_id),
	UNIQUE KEY quarantine_open (partner_id, collection, source_id, is_open),
	KEY quarantine_near (partner_id, collection, is_open, source_id)
) ENGINE = InnoDB;

-- Who waits for X: one index range. Rows of open records only.
CREATE TABLE quarantine_wait (
	partner_id INT UNSIGNED NOT NULL,
	collection TINYINT UNSIGNED NOT NULL,
	source_id VARBINARY(128) NOT NULL,
	quarantine_id BINARY(16) NOT NULL,
	PRIMARY KEY (partner_id, collection, source_id, quarantine_id),
	KEY quarantine_wait_id (partner_id, quarantine_id)
) ENGINE = InnoDB;

-- What a BOM is made of, as last accepted, for finding cycles.
CREATE TABLE bom_edge (
	partner_id INT UNSIGNED NOT NULL,
	sku VARBINARY(128) NOT NULL,
	component VARBINARY(128) NOT NULL,
	bom VARBINARY(128) NOT NULL,
	PRIMARY KEY (partner_id, sku, component, bom),
	KEY bom_edge_bom (partner_id, bom)
) ENGINE = InnoDB;
