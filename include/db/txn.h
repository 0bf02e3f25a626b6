/* Transactions: the only place that retries.
 *
 *	static enum db_step work(struct db *db, const struct db_attempt *at,
 *				 void *arg, struct fail *f)
 *	{
 *		...db_exec(), db_query(); on false return DB_STEP_FAIL...
 *		return DB_STEP_COMMIT;
 *	}
 *	if (!db_txn(db, &(struct db_txn){.name = "key.create", .work = work,
 *			.arg = &x, .deadline_ms = at}, f))
 *
 * work() may run several times: it starts from nothing each time. It is run
 * again after a deadlock, a lock wait, a certification failure or a lost
 * connection, at most 8 times, jittered, inside the deadline; *f is then
 * empty again. A read that stands alone needs none of this: db/stmt.h.
 *
 * Guarantees:
 * 1. After true, what the last run of work() wrote is durable (or, after
 *    DB_STEP_ROLLBACK, nothing is written).
 * 2. After false with any code but FAIL_COMMIT_UNKNOWN nothing was written by
 *    the last run, and no earlier run's writes exist, except one whose COMMIT
 *    was in doubt and which work() was told of.
 * 3. When a connection is lost while COMMIT is on its way, and `rerun` is
 *    set, work() runs again on a new connection with at->maybe_committed: it
 *    must find out by its own key (an INSERT that decides, never a SELECT).
 *    Without `rerun`: FAIL_COMMIT_UNKNOWN.
 * 4. After an error inside work() nothing more runs in that transaction.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_TXN_H
#define WAYBILL_TXN_H

#include "db/stmt.h"

enum db_step {
	DB_STEP_COMMIT,
	DB_STEP_ROLLBACK, /* done, and nothing shall be written */
	DB_STEP_AGAIN,    /* somebody raced us: ROLLBACK and run again */
	DB_STEP_FAIL,     /* f says why; retried if the class allows it */
};

struct db_attempt {
	unsigned no;          /* from 1 */
	bool maybe_committed; /* an earlier run's COMMIT is in doubt */
};

struct db_txn {
	const char *name;
	enum db_step (*work)(struct db *db, const struct db_attempt *at,
			     void *arg, struct fail *f);
	void *arg;
	uint64_t deadline_ms; /* clock_mono_ms(); 0: none */
	bool rerun;           /* work() is safe after an unknown COMMIT */
};

MUST_CHECK bool db_txn(struct db *db, const struct db_txn *t, struct fail *f);

#endif
