/* Day partitions: made ahead of time and dropped afterwards, by the owner of
 * the schema.
 *
 *	struct partition_state s[PARTITION_TABLES];
 *	partition_run(owner, today, s, f)	make what is missing
 *	partition_drop(owner, day, s, f)	drop what is older than that
 *	partition_look(db, s, f)		how far they reach
 *
 * What is partitioned is dropped day by day instead of deleted row by row. A
 * row whose day has no partition yet goes into the catch-all: nothing is
 * refused then, but it can no longer be dropped cheaply, so somebody must
 * look (stray).
 *
 * Guarantees:
 * 1. After true every table has a partition of its own for today and the
 *    PARTITION_DAYS_AHEAD days after it. Rows the catch-all held for those
 *    days are in them, and those of older days in today's.
 * 2. Again, at once with another, or killed at any point: the same result.
 *    Each table is changed by one statement, or not.
 * 3. No row is lost by it and no other partition is touched.
 * 4. partition_drop() drops the partitions that hold nothing but earlier days,
 *    and nothing else; again, at once with another, or killed at any point:
 *    the same result.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_PARTITION_H
#define WAYBILL_PARTITION_H

#include "db/session.h"

enum { PARTITION_TABLES = 4, PARTITION_DAYS_AHEAD = 7 };

struct partition_state {
	const char *table;
	uint32_t next; /* the first day without a partition; 0: all days */
	unsigned made, dropped; /* by this run */
	bool stray;             /* the catch-all holds rows */
};

/* `owner`: a session of DB_OWNER, outside a transaction; it is disconnected
 * afterwards. today: UTC, days since 1970, by the database's clock. */
MUST_CHECK bool partition_run(struct db *owner, uint32_t today,
			      struct partition_state s_r[PARTITION_TABLES],
			      struct fail *f);

/* Of every table, the days before keep_from. Adds to s->dropped. */
MUST_CHECK bool partition_drop(struct db *owner, uint32_t keep_from,
			       struct partition_state s[PARTITION_TABLES],
			       struct fail *f);

MUST_CHECK bool partition_look(struct db *db,
			       struct partition_state s_r[PARTITION_TABLES],
			       struct fail *f);

#endif
