/* The queue of jobs: enqueueing, leasing, checkpoints, finishing.
 *
 * A job is leased by database time and fenced by a token: every write of its
 * work says `token = ? AND next_chunk = ?`, so that a late owner's commit
 * writes nothing.
 *
 * In the transaction that takes a job in (all chunks are stored already):
 *
 *	queue_add(db, &job, f)		FAIL_JOB_IN_FLIGHT: the lane's rules
 *
 * A worker:
 *
 *	switch (queue_claim(db, lease_ms, arena, &job, f)) {
 *	case QUEUE_JOB:   ours until the lease ends
 *	case QUEUE_EMPTY: nothing to do
 *	case QUEUE_FAIL:  f says why
 *	}
 *	in each chunk's transaction, last:
 *		queue_checkpoint(db, &job, &delta, lease_ms, f)
 *				false with FAIL_FENCED: stop, write nothing
 *	queue_finish(db, &job, state, why)	in a transaction
 *	queue_give_back(db, &job)		SIGTERM, or another's turn
 *
 * Guarantees, cited by tests:
 *  Q1  Jobs of one partner and collection run one after another, in order of
 *      arrival.
 *  Q2  A job has one owner that can write.
 *  Q3  A job whose owner dies or hangs is claimed by another after the lease;
 *      after three such in a row without a checkpoint it is FAILED.
 *  Q4  Counters and checkpoint move in the transaction of the chunk.
 *  Q5  The partner who waited longest is served next.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_QUEUE_H
#define WAYBILL_QUEUE_H

#include "base/arena.h"
#include "base/ids.h"
#include "db/session.h"

/* The numbers stand in the database: never reuse one. */
enum job_kind { JOB_ITEMS = 1, JOB_REFRESH = 2, JOB_RELEASE = 3 };
enum job_state {
	JOB_QUEUED = 1,
	JOB_RUNNING = 2,
	JOB_COMPLETED = 3,
	JOB_FAILED = 4,
	JOB_CANCELLED = 5,
};
enum job_phase { JOB_GUARD = 1, JOB_APPLY = 2, JOB_TOMBSTONE = 3 };

const char *job_state_name(enum job_state s);	 /* "QUEUED" */
enum job_state job_state_of(struct sv name);	 /* 0: no such word */

struct job_counts {
	uint32_t processed, accepted, replay, quarantined, rejected, tombstoned;
};

struct job {
	uint32_t partner_id;
	struct id job_id, batch_id;
	int collection; /* -1: none */
	enum job_kind kind;
	unsigned mode; /* as it was asked for: enum batch_mode */
	enum job_state state;
	enum job_phase phase;
	uint32_t attempt;
	uint64_t token;
	uint32_t next_chunk, chunk_count;
	struct sv resume_after;
	uint32_t total;
	uint64_t bytes;
	struct job_counts counts;
	bool confirmed, cancel_requested;
	struct sv filter_missing;
	uint64_t created_wall_ms;
};

/* Inside the transaction of the intake. Sets nothing but the database. */
MUST_CHECK bool queue_add(struct db *db, const struct job *j, struct fail *f);

enum queue_result { QUEUE_JOB, QUEUE_EMPTY, QUEUE_FAIL };

/* Transactions of its own. A job that lost its third owner is made FAILED on
 * the way and not handed out. */
enum queue_result queue_claim(struct db *db, uint64_t lease_ms, struct arena *a,
			      struct job *job_r, struct fail *f);

/* In the chunk's transaction, as its last statement: adds `delta`, moves
 * next_chunk by `chunks` (0 or 1), sets phase and resume_after as *j has
 * them, renews the lease. Also tells whether a cancel was asked for. */
MUST_CHECK bool queue_checkpoint(struct db *db, struct job *j,
				 const struct job_counts *delta,
				 uint32_t chunks, uint64_t lease_ms,
				 struct fail *f);

/* In a transaction: final state, and the lane is free for the next. */
MUST_CHECK bool queue_finish(struct db *db, const struct job *j,
			     enum job_state state, const struct fail *why,
			     struct fail *f);

/* A transaction of its own. Does not count as an attempt. not_before_ms: how
 * long to leave it alone (backoff); waiting_for NULL, or "quota". */
MUST_CHECK bool queue_give_back(struct db *db, const struct job *j,
				uint64_t not_before_ms,
				const char *waiting_for, struct fail *f);

/* Is another partner waiting while we go on with this one? */
MUST_CHECK bool queue_others_wait(struct db *db, uint32_t partner_id,
				  bool *wait_r, struct fail *f);

#endif
