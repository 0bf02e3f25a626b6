-- Statements of tests/unit/test_db.c; in programs built with --enable-faults.
-- Their table is made by the test:
--	t_thing (k VARBINARY(64) PRIMARY KEY, v BIGINT NULL, w LONGBLOB NULL)
-- SPDX-License-Identifier: Apache-2.0

-- name: test_rows
-- rows: 1 a new row, 2 a changed one, 0 one that was like that
-- row: (?, ?, ?)
INSERT INTO t_thing (k, v, w) VALUES {row}
ON DUPLICATE KEY UPDATE v = VALUES(v), w = VALUES(w);

-- name: test_keys
-- rows: one for each key of the list that is there and has v >= the first argument
SELECT k, v FROM t_thing WHERE v >= ? AND k IN ({list}) ORDER BY k;

-- name: test_insert
-- rows: 1; a key that exists is a duplicate
INSERT INTO t_thing (k, v) VALUES (?, ?);

-- name: test_add
-- rows: 1 if the key is there
UPDATE t_thing SET v = v + ? WHERE k = ?;

-- name: test_lock
-- rows: one, locked
SELECT k FROM t_thing WHERE k = ? FOR UPDATE;

-- name: test_get
-- rows: one, or none
SELECT v, w FROM t_thing WHERE k = ?;

-- name: test_connection
-- rows: one: this connection's number
SELECT CONNECTION_ID();

-- name: test_settings_mariadb
-- rows: one: the settings that the session promises
-- only: mariadb
SELECT @@session.tx_isolation, @@session.autocommit, @@session.time_zone,
	@@session.sql_mode, @@session.character_set_client,
	@@session.innodb_lock_wait_timeout, @@session.wait_timeout,
	@@session.in_predicate_conversion_threshold;

-- name: test_settings_mysql
-- rows: as test_settings_mariadb
-- only: mysql
SELECT @@session.transaction_isolation, @@session.autocommit,
	@@session.time_zone, @@session.sql_mode,
	@@session.character_set_client,
	@@session.innodb_lock_wait_timeout, @@session.wait_timeout, 0;
