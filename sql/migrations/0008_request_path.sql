-- What an answer was given to: method and path.
-- SPDX-License-Identifier: Apache-2.0

-- NULL: kept by a version that did not note them. Both are as they were sent,
-- without the query; of a path at most its first 1024 bytes.
ALTER TABLE response
	ADD COLUMN method VARBINARY(16) NULL,
	ADD COLUMN path VARBINARY(1024) NULL;

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
		'undo-refresh', 'cancel') AS mode,
	r.status AS status,
	CONCAT('bat-', LOWER(HEX(k.batch_id))) AS batch_id,
	CONCAT(REPLACE(k.created_at, ' ', 'T'), 'Z') AS received_at,
	CONCAT(REPLACE(k.expires_at, ' ', 'T'), 'Z') AS expires_at,
	k.expires_at <= UTC_TIMESTAMP(3) AS is_expired,
	k.warehouses AS warehouses,
	CONVERT(r.method USING utf8mb4) AS method,
	CONVERT(r.path USING utf8mb4) AS path,
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
	batch_id, received_at, expires_at, is_expired, warehouses, method, path
FROM v_request_by_key;
