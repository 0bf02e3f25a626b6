-- The public views of jobs. See 0003_views.sql for how views are made here.
-- SPDX-License-Identifier: Apache-2.0

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER
VIEW v_job_by_key AS
SELECT
	CONCAT('job-', LOWER(HEX(j.job_id))) AS job_id,
	CONCAT('bat-', LOWER(HEX(j.batch_id))) AS batch_id,
	p.name AS partner_id,
	n.area AS area,
	n.name AS collection,
	ELT(j.kind, 'items', 'full-refresh', 'release', 'undo-refresh')
		AS kind,
	ELT(j.mode, 'upsert', 'full-refresh', 'bulk', 'release', 'discard',
		'undo-refresh', 'cancel') AS mode,
	ELT(j.state, 'QUEUED', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED')
		AS state,
	j.total AS total,
	j.processed AS processed,
	j.accepted AS accepted,
	j.replay AS replay,
	j.quarantined AS quarantined,
	j.rejected AS rejected,
	j.tombstoned AS tombstoned,
	j.restored AS restored,
	j.bytes AS bytes,
	j.attempt AS attempt,
	j.cancel_requested AS cancel_requested,
	j.waiting_for AS waiting_for,
	j.error_slug AS error_code,
	CONVERT(j.error_detail USING utf8mb4) AS error_detail,
	CONCAT(REPLACE(j.created_at, ' ', 'T'), 'Z') AS created_at,
	CONCAT(REPLACE(j.started_at, ' ', 'T'), 'Z') AS started_at,
	CONCAT(REPLACE(j.progressed_at, ' ', 'T'), 'Z') AS progressed_at,
	CONCAT(REPLACE(j.lease_until, ' ', 'T'), 'Z') AS lease_until,
	CONCAT(REPLACE(j.finished_at, ' ', 'T'), 'Z') AS finished_at,
	j.job_id AS job_key,
	j.batch_id AS batch_key
FROM job j
JOIN partner p ON p.partner_id = j.partner_id
LEFT JOIN collection_name n ON n.collection = j.collection;

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER VIEW v_job AS
SELECT
	job_id, batch_id, partner_id, area, collection, kind, mode, state,
	total, processed, accepted, replay, quarantined, rejected, tombstoned,
	restored, bytes, attempt, cancel_requested, waiting_for, error_code,
	error_detail, created_at, started_at, progressed_at, lease_until,
	finished_at
FROM v_job_by_key;

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER
VIEW v_job_item_by_key AS
SELECT
	CONCAT('job-', LOWER(HEX(j.job_id))) AS job_id,
	p.name AS partner_id,
	n.area AS area,
	n.name AS collection,
	t.position AS position,
	t.line AS line,
	t.source_id AS source_id,
	CONVERT(t.source_id USING utf8mb4) AS source_text,
	t.source_version AS source_version,
	ELT(t.status, 'ACCEPTED', 'REPLAY', 'QUARANTINED', 'REJECTED',
		'TOMBSTONED', 'RESTORED') AS status,
	ELT(t.change_kind, 'created', 'updated', 'reactivated', 'unchanged')
		AS change_kind,
	t.flags & 1 AS is_conflict,
	t.held_version AS held_version,
	t.rev AS rev,
	CONVERT(t.detail USING utf8mb4) AS detail,
	j.job_id AS job_key
FROM job j
JOIN batch_item t ON t.batch_id = j.batch_id
	AND t.day = CAST(CONV(HEX(LEFT(j.batch_id, 6)), 16, 10) AS UNSIGNED)
		DIV 86400000
JOIN partner p ON p.partner_id = j.partner_id
LEFT JOIN collection_name n ON n.collection = j.collection;

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER VIEW v_job_item AS
SELECT
	job_id, partner_id, area, collection, position, line, source_id,
	source_text, source_version, status, change_kind, is_conflict,
	held_version, rev, detail
FROM v_job_item_by_key;

-- As in 0003_views.sql, with one mode more.
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
	k.correlation_id AS correlation_key,
	k.batch_id AS batch_key
FROM request_key k
JOIN partner p ON p.partner_id = k.partner_id
JOIN surface_name s ON s.surface = k.surface
LEFT JOIN collection_name n ON n.collection = k.collection
LEFT JOIN response r ON r.batch_id = k.batch_id;
