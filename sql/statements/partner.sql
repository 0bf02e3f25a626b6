-- Partners and their credentials. Times come out as text (UTC, RFC 3339).
-- SPDX-License-Identifier: Apache-2.0

-- `expires` by TIMESTAMPDIFF: UNIX_TIMESTAMP ends in 2038.
-- name: credential_find
-- rows: one, or none: credential_id, partner_id, partner's name, partner's state, hash, scopes, expires (unix ms or NULL), revoked (0/1), kind, mtls_only, expired (0/1), is_strict, rate_per_s, burst, quota_items_per_day (NULL: no limit), warehouses (JSON array or NULL)
-- literals: '1970-01-01'
SELECT c.credential_id, c.partner_id, p.name, p.state, c.hash, c.scopes,
	TIMESTAMPDIFF(MICROSECOND, '1970-01-01', c.expires_at) DIV 1000,
	c.revoked_at IS NOT NULL,
	c.kind,
	p.mtls_only,
	COALESCE(c.expires_at <= NOW(3), 0),
	p.is_strict,
	p.rate_per_s,
	p.burst,
	p.quota_items_per_day,
	c.warehouses
FROM credential c
JOIN partner p ON p.partner_id = c.partner_id
WHERE c.credential_id = ?;

-- Argument: a certificate's fingerprint, or the hash of a key.
-- name: credential_of_hash
-- rows: one, or none: credential_id, partner's name, revoked (0/1)
SELECT c.credential_id, p.name, c.revoked_at IS NOT NULL
FROM credential c
JOIN partner p ON p.partner_id = c.partner_id
WHERE c.hash = ?;

-- Locks the row, or fails at once if somebody has it. A time ahead of now is
-- that of a clock that was wrong.
-- Arguments: credential_id, the least time between two writes in microseconds.
-- name: credential_due
-- rows: one: its use is to be written down; none: it was a moment ago
SELECT credential_id
FROM credential
WHERE credential_id = ? AND (last_used_at IS NULL
	OR last_used_at > NOW(3)
	OR last_used_at <= NOW(3) - INTERVAL ? MICROSECOND)
FOR UPDATE NOWAIT;

-- name: credential_used
-- rows: 1
UPDATE credential SET last_used_at = NOW(3) WHERE credential_id = ?;

-- Arguments: credential_id, partner_id, kind (KEY or CERT), hash, scopes,
-- warehouses (JSON array or NULL), days until it expires or NULL.
-- name: credential_add
-- rows: 1; a credential_id or hash that exists is a duplicate
INSERT INTO credential
	(credential_id, partner_id, kind, hash, scopes, warehouses,
	created_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, NOW(3), NOW(3) + INTERVAL ? DAY);

-- Arguments: KEY or CERT; a partner's name, or NULL for all.
-- name: credential_list
-- rows: one a credential: credential_id, partner's name, fingerprint of a CERT or the word KEY, scopes (ingest,read,admin), warehouses (JSON array or NULL), created_at, expires_at, revoked_at, last_used_at
SELECT credential_id, partner_id, COALESCE(fingerprint, kind), scopes,
	warehouses, created_at, expires_at, revoked_at, last_used_at
FROM v_credential
WHERE kind = ? AND partner_id = COALESCE(?, partner_id)
ORDER BY partner_id, created_at, credential_id;

-- name: credential_revoke
-- rows: 1: revoked now; 0: no such credential, or it was revoked already
UPDATE credential SET revoked_at = NOW(3)
WHERE credential_id = ? AND revoked_at IS NULL;

-- name: partner_find
-- rows: one, or none: partner_id, name, state, rate_per_s, burst, quota_items_per_day, is_strict, auto_release, mtls_only, created_at
-- literals: ' ' 'T' 'Z'
SELECT partner_id, name, state, rate_per_s, burst, quota_items_per_day,
	is_strict, auto_release, mtls_only,
	CONCAT(REPLACE(created_at, ' ', 'T'), 'Z')
FROM partner
WHERE name = ?;

-- name: partner_list
-- rows: one a partner, by name; columns as partner_find
-- literals: ' ' 'T' 'Z'
SELECT partner_id, name, state, rate_per_s, burst, quota_items_per_day,
	is_strict, auto_release, mtls_only,
	CONCAT(REPLACE(created_at, ' ', 'T'), 'Z')
FROM partner
ORDER BY name;

-- name: partner_limits
-- rows: one, or none: rate_per_s, burst, quota_items_per_day (NULL: no limit), is_strict, auto_release
SELECT rate_per_s, burst, quota_items_per_day, is_strict, auto_release
FROM partner
WHERE partner_id = ?;

-- Two who read the same number: one of them meets a duplicate at partner_add.
-- name: partner_next_id
-- rows: one: the lowest number above all that are used
SELECT CAST(COALESCE(MAX(partner_id), 0) + 1 AS UNSIGNED) FROM partner;

-- Arguments: partner_id, name, rate_per_s, burst, quota_items_per_day,
-- is_strict, auto_release, mtls_only.
-- name: partner_add
-- rows: 1; a name or number that exists is a duplicate
INSERT INTO partner
	(partner_id, name, state, rate_per_s, burst, quota_items_per_day,
	is_strict, auto_release, mtls_only, created_at, updated_at)
VALUES (?, ?, 'ACTIVE', ?, ?, ?, ?, ?, ?, NOW(3), NOW(3));

-- Arguments: rate_per_s, burst, quota_items_per_day, is_strict,
-- auto_release, mtls_only, name. All of them are set.
-- name: partner_set
-- rows: 1: set; 0: no such partner
UPDATE partner SET rate_per_s = ?, burst = ?, quota_items_per_day = ?,
	is_strict = ?, auto_release = ?, mtls_only = ?,
	updated_at = GREATEST(NOW(3), updated_at + INTERVAL 1000 MICROSECOND)
WHERE name = ?;

-- name: partner_disable
-- rows: 1: disabled now; 0: no such partner, or it was disabled already
UPDATE partner SET state = 'DISABLED', updated_at = NOW(3)
WHERE name = ? AND state = 'ACTIVE';

-- name: partner_enable
-- rows: 1: enabled now; 0: no such partner, or it was not disabled
UPDATE partner SET state = 'ACTIVE', updated_at = NOW(3)
WHERE name = ? AND state = 'DISABLED';
