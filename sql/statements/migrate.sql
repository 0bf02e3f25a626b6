-- The record of migrations. Version 0 is no migration: its row is the lock
-- that a run holds. This table is made here and never changed by a migration,
-- since the lock's transaction would stand in the way.
-- SPDX-License-Identifier: Apache-2.0

-- name: migrate_table
-- rows: none
CREATE TABLE IF NOT EXISTS schema_version (
	version INT UNSIGNED NOT NULL,
	name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	checksum BINARY(32) NOT NULL,
	steps_done INT UNSIGNED NOT NULL,
	started_at DATETIME(3) NOT NULL,
	finished_at DATETIME(3) NULL,
	PRIMARY KEY (version)
) ENGINE = InnoDB;

-- name: migrate_lock_row
-- rows: 1: made; 0: it was there
INSERT INTO schema_version
	(version, name, checksum, steps_done, started_at, finished_at)
VALUES (0, 'LOCK', REPEAT(CHAR(0), 32), 0, NOW(3), NOW(3))
ON DUPLICATE KEY UPDATE version = version;

-- name: migrate_lock
-- rows: one, locked to the end of the transaction
SELECT version FROM schema_version WHERE version = 0 FOR UPDATE;

-- name: migrate_held
-- rows: one for each migration begun: version, name, checksum, steps done, 1 if finished
SELECT version, name, checksum, steps_done, finished_at IS NOT NULL
FROM schema_version
WHERE version > 0
ORDER BY version;

-- name: migrate_begin
-- rows: 1
INSERT INTO schema_version
	(version, name, checksum, steps_done, started_at, finished_at)
VALUES (?, ?, ?, 0, NOW(3), NULL);

-- Arguments: steps done now, version, steps done before.
-- name: migrate_step_done
-- rows: 1: recorded; 0: somebody else moved this migration
UPDATE schema_version SET steps_done = ?
WHERE version = ? AND steps_done = ? AND finished_at IS NULL;

-- name: migrate_finish
-- rows: 1: recorded; 0: somebody else moved this migration
UPDATE schema_version SET finished_at = NOW(3)
WHERE version = ? AND steps_done = ? AND finished_at IS NULL;

-- name: migrate_version
-- rows: one: the highest finished migration, 0 if none; the server's clock, unix ms
SELECT CAST(COALESCE(MAX(version), 0) AS UNSIGNED),
	CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED)
FROM schema_version
WHERE finished_at IS NOT NULL;
