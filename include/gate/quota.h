/* The item quota: how many items of a partner may be charged on a UTC day.
 *
 * In the transaction that applies items, of a partner that has a quota, after
 * the key or the job is held and before any item is looked at:
 *
 *	struct quota q = {.partner_id = p, .limit = l};	kept over attempts
 *	switch (quota_begin(db, &q, most, arena, f)) {
 *	case QUOTA_GO:    q.room may be charged; decide on the items
 *	case QUOTA_AGAIN: DB_STEP_AGAIN
 *	case QUOTA_FAIL:  f says why
 *	}
 *	more than q.room would be charged: quota_refused(&q, charged, what, f)
 *	else quota_charge(db, &q, charged, f)
 *
 * `most` is the most these items can cost; what they do cost is known when all
 * are decided on. What is charged becomes visible with the items, or not at
 * all: a transaction that is run again has charged nothing before.
 *
 * A partner's day is QUOTA_SLOTS rows, and what is used is their sum. A
 * transaction is fast or strict:
 *
 *  fast    adds `most` to a slot of its own and reads the sum. It goes on if
 *          as much again as all the slots could hold of others, unseen, would
 *          still fit. Afterwards it gives back what was free.
 *  strict  writes all slots, in order, so that nobody else of this partner
 *          charges meanwhile; then it reads the sum, which is exact.
 *
 * A fast transaction holds its slot until COMMIT, so there is never more than
 * one unseen a slot, and none of them took more than quota_fast_max(). That
 * bound follows from the limit and from constants alone: every process has to
 * agree on it. What is fast is so for all but the last stretch of a day (at
 * most its last quarter), and for all but very large batches of partners with
 * a very small quota. A process remembers whose day is in its last stretch.
 *
 * Guarantees, cited by tests:
 *  U1  What is charged on a day never passes the limit, not by one, not for a
 *      moment. (After a change of the limit: the higher one, for auth_cache.)
 *  U2  What is refused would have passed it.
 *  U3  The day is the database's, and one transaction charges one day.
 *  U4  Fast ones of a partner do not wait for each other, unless they meet in
 *      a slot: slots go by the connection's number, and who had to wait takes
 *      another one the next time.
 *
 * Order of locks: key or job, slots, items.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_QUOTA_H
#define WAYBILL_QUOTA_H

#include "base/arena.h"
#include "db/session.h"

enum { QUOTA_SLOTS = 64 };

/* How a day stands. */
struct quota_state {
	uint64_t limit, used, remaining;
	uint64_t reset_s;       /* until the next day */
	uint64_t reset_wall_ms; /* when that begins */
};

struct quota {
	/* set by the caller */
	uint32_t partner_id;
	uint64_t limit;

	/* quota_begin()'s own, kept from attempt to attempt */
	bool begun, strict;
	uint32_t day; /* since 1970 */
	unsigned slot;
	uint64_t taken; /* in the slot */

	/* set by quota_begin() */
	uint64_t room; /* the most that may be charged */
	bool known;    /* state is */
	struct quota_state state;

	/* set by quota_refused(): no day has room for so much */
	bool never;
};

enum quota_result { QUOTA_GO, QUOTA_AGAIN, QUOTA_FAIL };

enum quota_result quota_begin(struct db *db, struct quota *q, uint64_t most,
			      struct arena *a, struct fail *f);

/* After all items are written: what they cost. Not more than room. */
MUST_CHECK bool quota_charge(struct db *db, struct quota *q, uint64_t charged,
			     struct fail *f);

/* In place of it: sets *f (FAIL_QUOTA_EXHAUSTED), and counts it. `what` is a
 * "request" or a "chunk". Returns false. */
bool quota_refused(struct quota *q, uint64_t charged, const char *what,
		   struct fail *f);

/* The most a fast transaction may take. */
uint64_t quota_fast_max(uint64_t limit);

/* How the day stands now: one read, in a transaction or outside of one. */
MUST_CHECK bool quota_look(struct db *db, uint32_t partner_id, uint64_t limit,
			   struct arena *a, struct quota_state *s_r,
			   struct fail *f);

/* The same, as this process saw it a second ago at most: by a read, or told by
 * quota_seen(). For what answers tell in passing: a read each would cost
 * replays a third of their speed. */
MUST_CHECK bool quota_lately(struct db *db, uint32_t partner_id, uint64_t limit,
			     struct arena *a, struct quota_state *s_r,
			     struct fail *f);
void quota_seen(uint32_t partner_id, const struct quota_state *s);

/* Transactions of its own, by the owner: days before this one, a few rows at
 * a time. */
enum { QUOTA_DAYS_KEPT = 32 };
MUST_CHECK bool quota_sweep(struct db *owner, uint32_t before_day,
			    uint64_t *swept_r, struct fail *f);

#endif
