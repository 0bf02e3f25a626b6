-- What the operator's commands ask, over all partners.
-- SPDX-License-Identifier: Apache-2.0

-- Arguments: partner's name, collection, state, each twice, NULL for all;
-- most rows.
-- name: operate_quarantine_list
-- rows: one a record, newest first: quarantine_id, partner, collection, source_id, source_version, state, code, attempts, first_seen, last_seen
SELECT quarantine_id, partner_id, collection, source_id, source_version,
	state, code, attempts, first_seen, last_seen
FROM v_quarantine
WHERE (? IS NULL OR partner_id = ?)
	AND (? IS NULL OR collection = ?)
	AND (? IS NULL OR state = ?)
ORDER BY quarantine_id DESC
LIMIT ?;

-- Argument: the 16 bytes of a quarantine_id.
-- name: operate_quarantine_show
-- rows: one, or none: as operate_quarantine_list, then batch_id, reason, missing, payload
SELECT quarantine_id, partner_id, collection, source_id, source_version,
	state, code, attempts, first_seen, last_seen, batch_id, reason,
	missing, payload
FROM v_quarantine_by_key
WHERE quarantine_key = ?;

-- Whose record it is. Argument: the 16 bytes of a quarantine_id. There is no
-- index for it: an operator's command may scan.
-- name: operate_quarantine_partner
-- rows: one, or none: partner_id
SELECT partner_id FROM quarantine WHERE quarantine_id = ?;
