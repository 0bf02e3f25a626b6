-- Partners and their credentials.
-- SPDX-License-Identifier: Apache-2.0

-- Names are compared byte for byte. NULL in a limit: no limit.
CREATE TABLE partner (
	partner_id INT UNSIGNED NOT NULL,
	name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	rate_per_s INT UNSIGNED NULL,
	burst INT UNSIGNED NULL,
	quota_items_per_day BIGINT UNSIGNED NULL,
	is_strict TINYINT UNSIGNED NOT NULL,
	auto_release TINYINT UNSIGNED NOT NULL,
	mtls_only TINYINT UNSIGNED NOT NULL,
	created_at DATETIME(3) NOT NULL,
	updated_at DATETIME(3) NOT NULL,
	PRIMARY KEY (partner_id),
	UNIQUE KEY partner_name (name),
	CONSTRAINT partner_state CHECK (state IN ('ACTIVE', 'DISABLED'))
) ENGINE = InnoDB;

-- kind is KEY or CERT; hash is that of the key, or the certificate's
-- fingerprint; scopes: 1 ingest, 2 read, 4 admin; warehouses: a JSON array,
-- or NULL for all.
CREATE TABLE credential (
	credential_id VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	partner_id INT UNSIGNED NOT NULL,
	kind VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	hash BINARY(32) NOT NULL,
	scopes TINYINT UNSIGNED NOT NULL,
	warehouses MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
	created_at DATETIME(3) NOT NULL,
	expires_at DATETIME(3) NULL,
	revoked_at DATETIME(3) NULL,
	last_used_at DATETIME(3) NULL,
	PRIMARY KEY (credential_id),
	UNIQUE KEY credential_hash (hash),
	KEY credential_partner (partner_id),
	CONSTRAINT credential_kind CHECK (kind IN ('KEY', 'CERT'))
) ENGINE = InnoDB;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW v_partner AS
SELECT
	name AS partner_id,
	partner_id AS partner_no,
	state,
	rate_per_s,
	burst,
	quota_items_per_day,
	is_strict,
	auto_release,
	mtls_only,
	CONCAT(REPLACE(created_at, ' ', 'T'), 'Z') AS created_at,
	CONCAT(REPLACE(updated_at, ' ', 'T'), 'Z') AS updated_at
FROM partner;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW v_credential AS
SELECT
	c.credential_id,
	p.name AS partner_id,
	c.kind,
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
