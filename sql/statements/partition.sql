-- Day partitions. A partition p20775 holds the UTC day 20775 (since 1970) and
-- whatever is older and has none of its own; pmax, the catch-all, holds what
-- is newer than all of them, and should hold nothing.
-- SPDX-License-Identifier: Apache-2.0

-- Argument: a table's name.
-- name: partition_next
-- rows: one: the first day that pmax holds; 0: there is no other partition
SELECT CAST(COALESCE(MAX(CAST(partition_description AS UNSIGNED)), 0)
	AS UNSIGNED)
FROM information_schema.partitions
WHERE table_schema = DATABASE() AND table_name = ?
	AND partition_description <> 'MAXVALUE';

-- Rows that pmax holds for these days move into the new partitions.
-- name: partition_make_response
-- rows: none; 1517 or 1493: somebody else made one of these partitions
-- protocol: text
-- day: PARTITION p{day} VALUES LESS THAN ({next}),
ALTER TABLE response REORGANIZE PARTITION pmax INTO
	({days} PARTITION pmax VALUES LESS THAN MAXVALUE);

-- name: partition_make_batch
-- rows: as partition_make_response
-- protocol: text
-- day: PARTITION p{day} VALUES LESS THAN ({next}),
ALTER TABLE batch REORGANIZE PARTITION pmax INTO
	({days} PARTITION pmax VALUES LESS THAN MAXVALUE);

-- name: partition_make_batch_item
-- rows: as partition_make_response
-- protocol: text
-- day: PARTITION p{day} VALUES LESS THAN ({next}),
ALTER TABLE batch_item REORGANIZE PARTITION pmax INTO
	({days} PARTITION pmax VALUES LESS THAN MAXVALUE);

-- name: partition_make_job_chunk
-- rows: as partition_make_response
-- protocol: text
-- day: PARTITION p{day} VALUES LESS THAN ({next}),
ALTER TABLE job_chunk REORGANIZE PARTITION pmax INTO
	({days} PARTITION pmax VALUES LESS THAN MAXVALUE);

-- Arguments: a table's name, a day.
-- name: partition_old
-- rows: one for each partition that holds earlier days alone, oldest first: its day
SELECT CAST(partition_description AS UNSIGNED) - 1
FROM information_schema.partitions
WHERE table_schema = DATABASE() AND table_name = ?
	AND partition_description <> 'MAXVALUE'
	AND CAST(partition_description AS UNSIGNED) <= ?
ORDER BY CAST(partition_description AS UNSIGNED);

-- name: partition_drop_response
-- rows: none; 1507: somebody else dropped it
-- protocol: text
ALTER TABLE response DROP PARTITION p{day};

-- name: partition_drop_batch
-- rows: as partition_drop_response
-- protocol: text
ALTER TABLE batch DROP PARTITION p{day};

-- name: partition_drop_batch_item
-- rows: as partition_drop_response
-- protocol: text
ALTER TABLE batch_item DROP PARTITION p{day};

-- name: partition_drop_job_chunk
-- rows: as partition_drop_response
-- protocol: text
ALTER TABLE job_chunk DROP PARTITION p{day};

-- name: partition_stray_response
-- rows: one if pmax holds any, else none
SELECT 1 FROM response PARTITION (pmax) LIMIT 1;

-- name: partition_stray_batch
-- rows: one if pmax holds any, else none
SELECT 1 FROM batch PARTITION (pmax) LIMIT 1;

-- name: partition_stray_batch_item
-- rows: one if pmax holds any, else none
SELECT 1 FROM batch_item PARTITION (pmax) LIMIT 1;

-- name: partition_stray_job_chunk
-- rows: one if pmax holds any, else none
SELECT 1 FROM job_chunk PARTITION (pmax) LIMIT 1;
