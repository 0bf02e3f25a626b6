-- The item quota: how much of a UTC day a partner has used.
-- SPDX-License-Identifier: Apache-2.0

-- A partner's day is spread over slots, so that two requests of one partner do
-- not wait for each other's COMMIT: the sum of them is what is used. turn
-- changes whenever a slot is taken, so that taking it is a write on every node
-- of a cluster. day: days since 1970-01-01. See include/gate/quota.h.
CREATE TABLE quota_use (
	partner_id INT UNSIGNED NOT NULL,
	day SMALLINT UNSIGNED NOT NULL,
	slot SMALLINT UNSIGNED NOT NULL,
	used BIGINT UNSIGNED NOT NULL,
	turn BIGINT UNSIGNED NOT NULL,
	PRIMARY KEY (partner_id, day, slot),
	KEY quota_use_day (day)
) ENGINE = InnoDB;

-- limit_items is the quota as it is now; NULL: it has none any more.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW v_quota AS
SELECT
	p.name AS partner_id,
	CAST(DATE_ADD('1970-01-01', INTERVAL u.day DAY) AS CHAR(10)) AS day,
	CAST(SUM(u.used) AS UNSIGNED) AS used_items,
	p.quota_items_per_day AS limit_items
FROM quota_use u
JOIN partner p ON p.partner_id = u.partner_id
GROUP BY p.partner_id, p.name, p.quota_items_per_day, u.day;
