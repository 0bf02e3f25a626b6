/* Requests that have a key: one effect and one answer, kept and replayed.
 *
 * A handler of a keyed route does its work in one transaction:
 *
 *	static enum db_step work(struct db *db, const struct db_attempt *at,
 *				 struct keyed *k, struct fail *f)
 *	{
 *		struct thing *t = k->arg;
 *		...reads and writes, k->batch_id being the batch's id...
 *		buf_addf(&k->x->answer.body, ...);
 *		return DB_STEP_COMMIT;
 *	}
 *	struct keyed k = {.x = x, .mode = BATCH_UPSERT, .collection = c,
 *			  .work = work, .arg = &t};
 *	return keyed_run(&k, f);
 *
 * work() runs once for each attempt, with an empty answer of status 200, after
 * the key is claimed and before the answer is kept: it returns
 *
 *	DB_STEP_COMMIT	done; x->answer is 2xx, is kept, then committed
 *	DB_STEP_AGAIN	it was raced: from the beginning
 *	DB_STEP_FAIL	f says why; nothing is kept, the key stays free
 *
 * and never DB_STEP_ROLLBACK. Of a dry run (x->dry_run) it must not write;
 * then nothing is claimed or kept, whatever it returns is rolled back, and
 * batch_id is all zero.
 *
 * Guarantees:
 *  R1  At most one run of work() for a key is ever committed, together with
 *      its answer. Answers other than 2xx are never kept.
 *  R2  Whoever comes second gets the kept status and body, byte for byte: at
 *      keyed_replay() when the first is done, else after its claim waited.
 *  R3  After a COMMIT in doubt the answer is what is kept under our own
 *      batch_id, and is not marked as a replay.
 *  R4  An answer is in x->answer only once it is durable.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_KEYED_H
#define WAYBILL_KEYED_H

#include "api/exchange.h"
#include "db/txn.h"
#include "item/apply.h"

struct keyed {
	/* set by the caller */
	struct exchange *x;
	enum batch_mode mode;
	int collection; /* enum collection; -1: none */
	enum db_step (*work)(struct db *db, const struct db_attempt *at,
			     struct keyed *k, struct fail *f);
	void *arg;
	bool entered; /* keyed_enter() was called */

	/* set by keyed_run(); the id is the same in every attempt */
	struct id batch_id;
	bool in_doubt; /* after false: a run of work() may be committed yet */
};

/* The handler's part: x->answer is to be sent, or f says why not. */
MUST_CHECK bool keyed_run(struct keyed *k, struct fail *f);

/* The pipeline's part, before the body is looked at: if the key has an answer
 * already, it is put into x->answer and x->answered is set. */
MUST_CHECK bool keyed_replay(struct exchange *x, struct fail *f);

/* Before work that is long and outside the transaction (a job's intake): of
 * the duplicates on this host one goes on, the others wait their turn as long
 * as they may, or get FAIL_REQUEST_IN_PROGRESS. After true, unless x->answered
 * (the one waited for is done): keyed_leave() at the end. */
MUST_CHECK bool keyed_enter(struct exchange *x, struct fail *f);
void keyed_leave(void);

/* The headers of a 202, Location and Retry-After, from its body. */
#define KEYED_JOBS "/wms-ingest/v1/jobs/"
void keyed_job_headers(struct exchange *x);

#endif
