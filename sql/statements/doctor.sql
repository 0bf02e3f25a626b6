-- What `waybill doctor` asks.
-- SPDX-License-Identifier: Apache-2.0

-- The table is there, so this changes nothing; but only an account that may
-- create tables gets an answer to it.
-- name: doctor_ddl
-- rows: 0; refused without the right to create
CREATE TABLE IF NOT EXISTS partner (never INT NOT NULL);

-- Settings of the server, as the service sees them, each with whether it is as
-- it should be. A binary log that is off needs no flushing.
-- Arguments: least max_allowed_packet, least max_connections.
-- name: doctor_server
-- rows: one: pairs of a value and 1 or 0, in the order of enum setting in doctor_db.c
-- literals: '1'
SELECT
	CAST(@@global.innodb_flush_log_at_trx_commit AS CHAR),
	@@global.innodb_flush_log_at_trx_commit = 1,
	IF(@@global.log_bin, CAST(@@global.sync_binlog AS CHAR), 'OFF'),
	NOT @@global.log_bin OR @@global.sync_binlog = 1,
	CAST(@@global.innodb_doublewrite AS CHAR),
	CAST(@@global.innodb_doublewrite AS CHAR) IN ('1', 'ON'),
	CAST(@@global.max_allowed_packet AS CHAR),
	@@global.max_allowed_packet >= ?,
	CAST(@@global.max_connections AS CHAR),
	@@global.max_connections >= ?,
	CAST(@@global.read_only AS CHAR),
	@@global.read_only = 0;

-- Everybody sees their own rights there. USAGE is none.
-- name: doctor_foreign
-- rows: one: who the server takes us for, how many rights we have outside this schema
SELECT CURRENT_USER(),
	(SELECT COUNT(*) FROM information_schema.user_privileges
		WHERE privilege_type <> 'USAGE')
	+ (SELECT COUNT(*) FROM information_schema.schema_privileges
		WHERE table_schema <> DATABASE())
	+ (SELECT COUNT(*) FROM information_schema.table_privileges
		WHERE table_schema <> DATABASE());

-- A job waits for a worker if nobody has a lease on it, it is nobody else's
-- turn in its lane, and it waits for nothing else (quota, a pause).
-- Arguments: seconds.
-- name: doctor_jobs
-- rows: one: unfinished jobs, those that have been waiting for so long
SELECT COUNT(*), CAST(COALESCE(SUM(
	j.waiting_for IS NULL
	AND (j.lease_until IS NULL OR j.lease_until < NOW(6))
	AND (j.not_before IS NULL OR j.not_before < NOW(6))
	AND COALESCE(j.progressed_at, j.created_at)
		< NOW(6) - INTERVAL ? SECOND
	AND NOT EXISTS (
		SELECT 1 FROM job o
		WHERE o.open_as = j.open_as AND o.partner_id = j.partner_id
			AND o.collection = j.collection
			AND o.lease_until >= NOW(6))), 0) AS UNSIGNED)
FROM job j
WHERE j.open_as IS NOT NULL;
