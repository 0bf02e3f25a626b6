-- What a session is set to, how that is verified, and its transactions.
-- SPDX-License-Identifier: Apache-2.0

-- lock_wait_timeout is for metadata locks: without it a statement waits a day
-- for somebody's DDL. The net timeouts are wait_timeout's for a session that
-- freezes in the middle of a statement: by default the server waits a minute
-- for somebody who does not read, and keeps the locks.
-- name: session_set_mariadb
-- rows: none
-- only: mariadb
-- literals: 'READ-COMMITTED' '+00:00'
-- literals: 'STRICT_TRANS_TABLES,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE,NO_ENGINE_SUBSTITUTION,NO_AUTO_CREATE_USER'
SET SESSION
	tx_isolation = 'READ-COMMITTED',
	autocommit = 0,
	time_zone = '+00:00',
	sql_mode = 'STRICT_TRANS_TABLES,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE,NO_ENGINE_SUBSTITUTION,NO_AUTO_CREATE_USER',
	in_predicate_conversion_threshold = 0,
	innodb_lock_wait_timeout = ?,
	lock_wait_timeout = ?,
	wait_timeout = ?,
	net_read_timeout = ?,
	net_write_timeout = ?;

-- name: session_set_mysql
-- rows: none
-- only: mysql
-- literals: 'READ-COMMITTED' '+00:00'
-- literals: 'STRICT_TRANS_TABLES,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE,NO_ENGINE_SUBSTITUTION'
SET SESSION
	transaction_isolation = 'READ-COMMITTED',
	autocommit = 0,
	time_zone = '+00:00',
	sql_mode = 'STRICT_TRANS_TABLES,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE,NO_ENGINE_SUBSTITUTION',
	innodb_lock_wait_timeout = ?,
	lock_wait_timeout = ?,
	wait_timeout = ?,
	net_read_timeout = ?,
	net_write_timeout = ?;

-- name: session_check_mariadb
-- rows: one: 1 for each setting that is as it must be, in the order of CHECKS in session.c, then flush at commit, max_allowed_packet, unix ms
-- only: mariadb
-- literals: 'READ-COMMITTED' '+00:00' 'utf8mb4'
SELECT
	@@session.tx_isolation = 'READ-COMMITTED',
	@@session.autocommit = 0,
	@@session.time_zone = '+00:00',
	FIND_IN_SET('STRICT_ALL_TABLES', @@session.sql_mode) > 0,
	@@session.character_set_client = 'utf8mb4'
		AND @@session.character_set_connection = 'utf8mb4'
		AND @@session.character_set_results = 'utf8mb4',
	@@session.innodb_lock_wait_timeout = ?,
	@@session.lock_wait_timeout = ?,
	@@session.wait_timeout = ?,
	@@session.net_read_timeout = ?,
	@@session.net_write_timeout = ?,
	@@session.in_predicate_conversion_threshold = 0,
	@@global.innodb_flush_log_at_trx_commit,
	@@session.max_allowed_packet,
	CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED);

-- name: session_check_mysql
-- rows: as session_check_mariadb
-- only: mysql
-- literals: 'READ-COMMITTED' '+00:00' 'utf8mb4'
SELECT
	@@session.transaction_isolation = 'READ-COMMITTED',
	@@session.autocommit = 0,
	@@session.time_zone = '+00:00',
	FIND_IN_SET('STRICT_ALL_TABLES', @@session.sql_mode) > 0,
	@@session.character_set_client = 'utf8mb4'
		AND @@session.character_set_connection = 'utf8mb4'
		AND @@session.character_set_results = 'utf8mb4',
	@@session.innodb_lock_wait_timeout = ?,
	@@session.lock_wait_timeout = ?,
	@@session.wait_timeout = ?,
	@@session.net_read_timeout = ?,
	@@session.net_write_timeout = ?,
	1,
	@@global.innodb_flush_log_at_trx_commit,
	@@session.max_allowed_packet,
	CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED);

-- How long the next statements wait for a row lock, in seconds.
-- name: session_lock_wait
-- rows: none
SET SESSION innodb_lock_wait_timeout = ?;

-- name: server_now
-- rows: one: the server's clock, unix ms
SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED);

-- name: commit
-- rows: none
-- protocol: text
COMMIT;

-- name: rollback
-- rows: none
-- protocol: text
ROLLBACK;
