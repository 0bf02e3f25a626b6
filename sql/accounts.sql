-- The schema and its three accounts, on any MariaDB (10.11 or later) or MySQL
-- (8 or later). A DBA runs this once, as root; running it again is harmless
-- and sets the passwords anew.
--
--	sed -e 's/@OWNER_PASSWORD@/.../' -e 's/@SERVICE_PASSWORD@/.../' \
--	    -e 's/@RO_PASSWORD@/.../' sql/accounts.sql | mariadb -uroot
--
-- Passwords must not hold ' or \. An empty one means "no password": only for
-- an account that is reached over a private socket. Where the service runs on
-- another host, replace 'localhost' by that host, here and in waybill.conf
-- (db_service_account, db_ro_account); where the schema has another name,
-- replace `waybill` (db_name). What the last two accounts may do is granted
-- by the owner, at the end of every `waybill migrate`.
-- SPDX-License-Identifier: Apache-2.0

CREATE DATABASE IF NOT EXISTS `waybill`
	CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Owns the schema: `waybill migrate` and the operator's commands.
CREATE USER IF NOT EXISTS 'waybill_owner'@'localhost'
	IDENTIFIED BY '@OWNER_PASSWORD@';
ALTER USER 'waybill_owner'@'localhost' IDENTIFIED BY '@OWNER_PASSWORD@';
GRANT ALL PRIVILEGES ON `waybill`.* TO 'waybill_owner'@'localhost'
	WITH GRANT OPTION;
-- So that migrate and doctor see what the other two may do: names of rights,
-- no passwords.
GRANT SELECT ON mysql.db TO 'waybill_owner'@'localhost';
GRANT SELECT ON mysql.tables_priv TO 'waybill_owner'@'localhost';
GRANT SELECT ON mysql.columns_priv TO 'waybill_owner'@'localhost';

-- The service: FastCGI and job workers.
CREATE USER IF NOT EXISTS 'waybill'@'localhost'
	IDENTIFIED BY '@SERVICE_PASSWORD@';
ALTER USER 'waybill'@'localhost' IDENTIFIED BY '@SERVICE_PASSWORD@';

-- Read-only, for scripts: the v_ views.
CREATE USER IF NOT EXISTS 'waybill_ro'@'localhost'
	IDENTIFIED BY '@RO_PASSWORD@';
ALTER USER 'waybill_ro'@'localhost' IDENTIFIED BY '@RO_PASSWORD@';
