-- The audit trail of credentials and settings.
-- SPDX-License-Identifier: Apache-2.0

-- A partner as it is before or after a change, locked. Argument: its name.
-- name: audit_partner
-- rows: one, or none: partner_id, name, state, rate_per_s, burst, quota_items_per_day, is_strict, auto_release, mtls_only
SELECT partner_id, name, state, rate_per_s, burst, quota_items_per_day,
	is_strict, auto_release, mtls_only
FROM partner
WHERE name = ?
FOR UPDATE;

-- A credential likewise. Argument: its id.
-- name: audit_credential
-- rows: one, or none: partner_id, credential_id, kind, fingerprint, scopes (ingest,read,admin), warehouses, expires_at, revoked_at
SELECT c.partner_id, c.credential_id, v.kind, v.fingerprint, v.scopes,
	v.warehouses, v.expires_at, v.revoked_at
FROM credential c
JOIN v_credential v ON v.credential_id = c.credential_id
WHERE c.credential_id = ?
FOR UPDATE;

-- Arguments: audit_id, actor, action, partner_id, subject, detail.
-- name: audit_add
-- rows: 1
INSERT INTO audit
	(audit_id, at, actor, account, action, partner_id, subject, detail)
VALUES (?, NOW(3), ?, CURRENT_USER(), ?, ?, ?, ?);

-- Arguments: a partner's name or NULL for all, twice; how many.
-- name: audit_list
-- rows: one a change, newest first: at, partner's name, action, subject, actor, account, audit_id, detail (JSON)
SELECT at, partner_id, action, subject, actor, account, audit_id, detail
FROM v_audit
WHERE (? IS NULL OR partner_id = ?)
ORDER BY at DESC, audit_id DESC
LIMIT ?;
