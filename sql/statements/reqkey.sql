-- Request keys and the answers kept for them.
-- SPDX-License-Identifier: Apache-2.0

-- The claim. Each column is taken over only if the row that is there has
-- expired; expires_at comes last, because assignments are made from left to
-- right and all of them look at it.
-- Arguments: partner_id, surface, correlation_id, batch_id, fingerprint,
-- collection or NULL, mode, warehouses or NULL, retention in microseconds.
-- name: reqkey_claim
-- rows: 1: the key is ours; 2: an expired one was taken over; 0: somebody has it
INSERT INTO request_key
	(partner_id, surface, correlation_id, batch_id, fingerprint,
	collection, mode, warehouses, created_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, NOW(3), NOW(3) + INTERVAL ? MICROSECOND)
ON DUPLICATE KEY UPDATE
	batch_id = IF(expires_at <= NOW(3), VALUES(batch_id), batch_id),
	fingerprint = IF(expires_at <= NOW(3), VALUES(fingerprint),
		fingerprint),
	collection = IF(expires_at <= NOW(3), VALUES(collection), collection),
	mode = IF(expires_at <= NOW(3), VALUES(mode), mode),
	warehouses = IF(expires_at <= NOW(3), VALUES(warehouses), warehouses),
	created_at = IF(expires_at <= NOW(3), VALUES(created_at), created_at),
	expires_at = IF(expires_at <= NOW(3), VALUES(expires_at), expires_at);

-- The day of the answer is computed from the time inside the batch id, so
-- that one partition is looked at and not all of them.
-- Arguments: partner_id, surface, correlation_id.
-- name: reqkey_look
-- rows: one for a live key: batch_id, fingerprint, collection or NULL, mode, expires (unix ms), then status, encoding, body, all NULL if the answer is gone, then warehouses or NULL, method and path (NULL: kept without them), created (unix ms); none: the key is free
-- literals: '1970-01-01'
SELECT k.batch_id, k.fingerprint, k.collection, k.mode,
	TIMESTAMPDIFF(MICROSECOND, '1970-01-01', k.expires_at) DIV 1000,
	r.status, r.encoding, r.body, k.warehouses, r.method, r.path,
	TIMESTAMPDIFF(MICROSECOND, '1970-01-01', k.created_at) DIV 1000
FROM request_key k
LEFT JOIN response r ON r.batch_id = k.batch_id
	AND r.day = CAST(CONV(HEX(LEFT(k.batch_id, 6)), 16, 10) AS UNSIGNED)
		DIV 86400000
WHERE k.partner_id = ? AND k.surface = ? AND k.correlation_id = ?
	AND k.expires_at > NOW(3);

-- Method and path stand here and not with the key: a row of its own for each
-- batch, so that a worker of an earlier version that takes over an expired key
-- leaves them NULL and not those of the request before.
-- Arguments: batch_id, day, status, encoding (0 as it is, 1 gzip), body,
-- method, path.
-- name: reqkey_store
-- rows: 1; an answer that is there already is a duplicate
INSERT INTO response (batch_id, day, status, encoding, body, method, path)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- What GET /requests/{correlation_id} tells. The counts are NULL where the
-- request had no batch.
-- Arguments: partner_id, surface, correlation_id.
-- name: reqkey_report
-- rows: one for a live key: created (unix ms), status or NULL, mode, collection or NULL, batch_id, job_id or NULL, expires (unix ms), total, accepted, replay, quarantined, rejected, tombstoned, warehouses or NULL; none: nothing is committed under it
-- literals: '1970-01-01'
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', k.created_at) DIV 1000,
	r.status, k.mode, k.collection, k.batch_id, b.job_id,
	TIMESTAMPDIFF(MICROSECOND, '1970-01-01', k.expires_at) DIV 1000,
	b.total, b.accepted, b.replay, b.quarantined, b.rejected, b.tombstoned,
	k.warehouses
FROM request_key k
LEFT JOIN response r ON r.batch_id = k.batch_id
	AND r.day = CAST(CONV(HEX(LEFT(k.batch_id, 6)), 16, 10) AS UNSIGNED)
		DIV 86400000
LEFT JOIN batch b ON b.batch_id = k.batch_id
	AND b.day = CAST(CONV(HEX(LEFT(k.batch_id, 6)), 16, 10) AS UNSIGNED)
		DIV 86400000
WHERE k.partner_id = ? AND k.surface = ? AND k.correlation_id = ?
	AND k.expires_at > NOW(3);

-- Whether a key is live is decided by expires_at: one that is swept late, or
-- taken over at the same moment, is no less right.
-- name: reqkey_sweep
-- rows: as many as were swept, at most 1000
DELETE FROM request_key WHERE expires_at <= NOW(3)
ORDER BY expires_at
LIMIT 1000;
