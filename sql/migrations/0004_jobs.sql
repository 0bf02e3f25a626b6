-- Jobs: batches worked off later.
-- SPDX-License-Identifier: Apache-2.0

-- The lane of a partner and collection: order of arrival, and what decides
-- the 409 rules, by conditional UPDATE in the transaction that enqueues or
-- finishes a job.
CREATE TABLE lane (
	partner_id INT UNSIGNED NOT NULL,
	collection TINYINT UNSIGNED NOT NULL,
	next_seq BIGINT UNSIGNED NOT NULL,
	open_jobs INT UNSIGNED NOT NULL,
	open_refreshes INT UNSIGNED NOT NULL,
	PRIMARY KEY (partner_id, collection)
) ENGINE = InnoDB;

-- kind: 1 items, 2 full-refresh, 3 release, 4 undo-refresh. mode: as it was asked for, see
-- batch. state: 1 QUEUED, 2 RUNNING, 3 COMPLETED, 4 FAILED, 5 CANCELLED.
-- phase, of a refresh: 1 GUARD, 2 APPLY, 3 TOMBSTONE; else 2.
-- token: the fencing token of the present owner; every write of a job's work
-- says it. lease_until NULL: nobody has it. attempt: owners lost since the
-- last checkpoint. step: counts checkpoints, so that an owner knows after a
-- COMMIT in doubt whether it was done. resume_after: the last key of TOMBSTONE,
-- release or undo. undoes: the batch of the refresh that an undo takes back. open_as: 1 unfinished, in its lane; 2 unfinished, in no lane (a
-- release, whose collection may be NULL: all); NULL finished. warehouses: the
-- scope of the credential that sent it, as credential has it.
CREATE TABLE job (
	partner_id INT UNSIGNED NOT NULL,
	job_id BINARY(16) NOT NULL,
	batch_id BINARY(16) NOT NULL,
	collection TINYINT UNSIGNED NULL,
	kind TINYINT UNSIGNED NOT NULL,
	mode TINYINT UNSIGNED NOT NULL,
	seq BIGINT UNSIGNED NOT NULL,
	open_as TINYINT UNSIGNED NULL,
	state TINYINT UNSIGNED NOT NULL,
	phase TINYINT UNSIGNED NOT NULL,
	attempt INT UNSIGNED NOT NULL,
	token BIGINT UNSIGNED NOT NULL,
	lease_until DATETIME(6) NULL,
	not_before DATETIME(6) NULL,
	step INT UNSIGNED NOT NULL,
	next_chunk INT UNSIGNED NOT NULL,
	chunk_count INT UNSIGNED NOT NULL,
	resume_after VARBINARY(160) NULL,
	total INT UNSIGNED NOT NULL,
	bytes BIGINT UNSIGNED NOT NULL,
	processed INT UNSIGNED NOT NULL,
	accepted INT UNSIGNED NOT NULL,
	replay INT UNSIGNED NOT NULL,
	quarantined INT UNSIGNED NOT NULL,
	rejected INT UNSIGNED NOT NULL,
	tombstoned INT UNSIGNED NOT NULL,
	restored INT UNSIGNED NOT NULL,
	confirmed TINYINT UNSIGNED NOT NULL,
	cancel_requested TINYINT UNSIGNED NOT NULL,
	waiting_for VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NULL,
	error_slug VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
	error_detail VARBINARY(512) NULL,
	filter_missing VARBINARY(128) NULL,
	undoes BINARY(16) NULL,
	warehouses MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
	created_at DATETIME(3) NOT NULL,
	started_at DATETIME(6) NULL,
	progressed_at DATETIME(6) NULL,
	finished_at DATETIME(6) NULL,
	PRIMARY KEY (partner_id, job_id),
	KEY job_by_id (job_id),
	KEY job_lane (open_as, partner_id, collection, seq)
) ENGINE = InnoDB;

-- When a worker last took up a job of this partner: who waited longest is
-- served next.
CREATE TABLE job_turn (
	partner_id INT UNSIGNED NOT NULL,
	served_at DATETIME(6) NOT NULL,
	PRIMARY KEY (partner_id)
) ENGINE = InnoDB;

-- Items of a job, as NDJSON and a trailer, gzipped: see src/job/chunks.c.
-- first_index: of its first item. Chunks are there before their job is; those
-- that never get one are swept after 24 h.
CREATE TABLE job_chunk (
	job_id BINARY(16) NOT NULL,
	chunk_no INT UNSIGNED NOT NULL,
	day SMALLINT UNSIGNED NOT NULL,
	first_index INT UNSIGNED NOT NULL,
	items INT UNSIGNED NOT NULL,
	body MEDIUMBLOB NOT NULL,
	PRIMARY KEY (job_id, chunk_no, day)
) ENGINE = InnoDB
PARTITION BY RANGE (day) (PARTITION pmax VALUES LESS THAN MAXVALUE);

-- What a refresh job names.
CREATE TABLE refresh_name (
	job_id BINARY(16) NOT NULL,
	source_id VARBINARY(128) NOT NULL,
	PRIMARY KEY (job_id, source_id)
) ENGINE = InnoDB;

-- The rev of the awaited item when the record was looked at; 0: it was not
-- there. An ACTIVE item of another rev is worth another look.
ALTER TABLE quarantine_wait
	ADD COLUMN seen_rev INT UNSIGNED NOT NULL DEFAULT 0;
