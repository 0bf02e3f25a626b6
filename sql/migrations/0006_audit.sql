-- Who changed credentials and settings, and what they were. The service has
-- no right on the table: only the operator's commands write it, each row in
-- the transaction of the change it tells of.
-- SPDX-License-Identifier: Apache-2.0

-- actor is the operating system's user and host, account that of the
-- database; subject is a partner's name or a credential_id; detail is a JSON
-- object of what differs: {"old":{...},"new":{...}}.
CREATE TABLE audit (
	audit_id BINARY(16) NOT NULL,
	at DATETIME(3) NOT NULL,
	actor VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	account VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	action VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	partner_id INT UNSIGNED NOT NULL,
	subject VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	detail MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	PRIMARY KEY (audit_id),
	KEY audit_partner (partner_id, audit_id)
) ENGINE = InnoDB;

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER VIEW v_audit AS
SELECT
	CONCAT('aud-', LOWER(HEX(a.audit_id))) AS audit_id,
	CONCAT(REPLACE(a.at, ' ', 'T'), 'Z') AS at,
	a.actor AS actor,
	a.account AS account,
	a.action AS action,
	p.name AS partner_id,
	a.subject AS subject,
	a.detail AS detail
FROM audit a
JOIN partner p ON p.partner_id = a.partner_id;

-- As in 0001_partners.sql, with the fingerprint of a certificate, which is no
-- secret. The hash of a key is not shown.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW v_credential AS
SELECT
	c.credential_id,
	p.name AS partner_id,
	c.kind,
	IF(c.kind = 'CERT', LOWER(HEX(c.hash)), NULL) AS fingerprint,
	CONCAT_WS(',',
		IF(c.scopes & 1, 'ingest', NULL),
		IF(c.scopes & 2, 'read', NULL),
		IF(c.scopes & 4, 'admin', NULL)) AS scopes,
	c.warehouses,
	CONCAT(REPLACE(c.created_at, ' ', 'T'), 'Z') AS created_at,
	CONCAT(REPLACE(c.expires_at, ' ', 'T'), 'Z') AS expires_at,
	CONCAT(REPLACE(c.revoked_at, ' ', 'T'), 'Z') AS revoked_at,
	CONCAT(REPLACE(c.last_used_at, ' ', 'T'), 'Z') AS last_used_at
FROM credential c
JOIN partner p ON p.partner_id = c.partner_id;
