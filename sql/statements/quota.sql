-- The item quota: see include/gate/quota.h.
-- SPDX-License-Identifier: Apache-2.0

-- One slot of a day, taken until COMMIT.
-- Arguments: partner_id, day, slot, how much to add.
-- name: quota_add
-- rows: 1 or 2
INSERT INTO quota_use (partner_id, day, slot, used, turn)
VALUES (?, ?, ?, ?, 1)
ON DUPLICATE KEY UPDATE used = used + VALUES(used), turn = turn + 1;

-- All slots of a day, in order, those too that were not there yet. Written,
-- not only locked: nodes of a cluster compare what is written.
-- Arguments of a row: partner_id, day, slot.
-- name: quota_take_all
-- rows: 1 or 2 each
-- row: (?, ?, ?, 0, 1)
INSERT INTO quota_use (partner_id, day, slot, used, turn)
VALUES {row}
ON DUPLICATE KEY UPDATE turn = turn + 1;

-- What was taken for items that turned out to be free.
-- Arguments: how much, partner_id, day, slot, how much.
-- name: quota_give_back
-- rows: 1
UPDATE quota_use SET used = used - ?
WHERE partner_id = ? AND day = ? AND slot = ? AND used >= ?;

-- Arguments: partner_id, day.
-- name: quota_sum
-- rows: one: used, the day it is by the database's clock, seconds of it that are left
-- literals: '1970-01-01'
SELECT CAST(COALESCE(SUM(used), 0) AS UNSIGNED),
	TIMESTAMPDIFF(DAY, '1970-01-01', NOW()),
	86400 - TIME_TO_SEC(TIME(NOW()))
FROM quota_use
WHERE partner_id = ? AND day = ?;

-- The same of the day it is. Argument: partner_id.
-- name: quota_look
-- rows: as quota_sum
-- literals: '1970-01-01'
SELECT CAST(COALESCE(SUM(used), 0) AS UNSIGNED),
	TIMESTAMPDIFF(DAY, '1970-01-01', NOW()),
	86400 - TIME_TO_SEC(TIME(NOW()))
FROM quota_use
WHERE partner_id = ? AND day = TIMESTAMPDIFF(DAY, '1970-01-01', NOW());

-- Old days, a few rows at a time. Arguments: the first day that is kept, most
-- rows.
-- name: quota_sweep
-- rows: how many were deleted
DELETE FROM quota_use WHERE day < ? LIMIT ?;
