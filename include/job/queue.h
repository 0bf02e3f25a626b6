/* The queue of jobs: enqueueing, leasing, checkpoints, finishing.
 *
 * A job is leased by database time and fenced by a token: a transaction of its
 * work begins by locking the row as its owner and ends with a checkpoint that
 * says `token = ? AND step = ?`, so that a late owner's commit writes nothing
 * and a COMMIT in doubt is never done twice.
 *
 * In the transaction that takes a job in (all chunks are stored already):
 *
 *	queue_add(db, &job, f)		FAIL_JOB_IN_FLIGHT: the lane's rules
 *
 * In the transaction of a synchronous full-refresh, before its items, and of
 * an undo, before it looks at what was tombstoned:
 *
 *	queue_check_refresh(db, partner_id, collection, dry_run, f)
 *	queue_check_undo(db, partner_id, collection, f)
 *
 * A worker:
 *
 *	switch (queue_claim(db, lease_ms, arena, &job, f)) {
 *	case QUEUE_JOB:   ours until the lease ends
 *	case QUEUE_EMPTY: nothing to do
 *	case QUEUE_FAIL:  f says why
 *	}
 *	in each chunk's transaction, first and last:
 *		queue_hold(db, &job, arena, f)
 *		queue_checkpoint(db, &job, &delta, chunks, lease_ms, f)
 *				false with FAIL_FENCED: stop, write nothing
 *	after its COMMIT, and after FAIL_FENCED:
 *		queue_reload(db, &job, arena, f)	where it stands now
 *	queue_finish(db, &job, state, why, f)	in a transaction
 *	queue_give_back(db, &job, ...)		SIGTERM, or another's turn
 *
 * Guarantees, cited by tests:
 *  Q1  Jobs of one partner and collection run one after another, in order of
 *      arrival.
 *  Q2  A job has one owner that can write.
 *  Q3  A job whose owner dies or hangs is claimed by another after the lease;
 *      after three such in a row without a checkpoint it is FAILED.
 *  Q4  Counters and checkpoint move in the transaction of the chunk.
 *  Q5  The partner who waited longest is served next.
 *
 * Order of locks: job, then items, then lane.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_QUEUE_H
#define WAYBILL_QUEUE_H

#include "base/arena.h"
#include "base/ids.h"
#include "db/session.h"

/* The numbers stand in the database: never reuse one. */
enum job_kind {
	JOB_ITEMS = 1,
	JOB_REFRESH = 2,
	JOB_RELEASE = 3,
	JOB_UNDO = 4,
};
enum job_state {
	JOB_QUEUED = 1,
	JOB_RUNNING = 2,
	JOB_COMPLETED = 3,
	JOB_FAILED = 4,
	JOB_CANCELLED = 5,
};
enum job_phase { JOB_GUARD = 1, JOB_APPLY = 2, JOB_TOMBSTONE = 3 };

const char *job_state_name(enum job_state s); /* "QUEUED" */
enum job_state job_state_of(struct sv name);  /* 0: no such word */

struct job_counts {
	uint32_t processed, accepted, replay, quarantined, rejected, tombstoned;
	uint32_t restored;
};

struct job {
	/* set by the intake */
	uint32_t partner_id;
	struct id job_id, batch_id;
	int collection; /* -1: all of them (of a release) */
	enum job_kind kind;
	unsigned mode; /* as it was asked for: enum batch_mode */
	uint32_t chunk_count, total;
	uint64_t bytes;
	bool confirmed;
	struct sv filter_missing; /* of a release; p NULL: any */
	struct id undoes;         /* of an undo: the refresh's batch */
	struct sv warehouses;     /* scope of the credential; p NULL: all */

	/* the queue's */
	enum job_state state;
	enum job_phase phase;
	uint32_t attempt;
	uint64_t token;
	uint32_t step, next_chunk;
	struct sv resume_after; /* p NULL: from the beginning */
	struct job_counts counts;
	bool cancel_requested;
	uint64_t created_wall_ms;
	/* The partner's quota, at the last claim or reload. */
	bool has_quota;
	uint64_t quota_items;
};

/* Inside the transaction of the intake. Sets nothing but the database. A
 * release is in no lane: it runs beside the others. */
MUST_CHECK bool queue_add(struct db *db, const struct job *j, struct fail *f);

/* FAIL_JOB_IN_FLIGHT: a job of the lane is unfinished. After true none enters
 * it before the transaction ends. A dry run only looks. */
MUST_CHECK bool queue_check_refresh(struct db *db, uint32_t partner_id,
				    int collection, bool dry_run,
				    struct arena *a, struct fail *f);

/* FAIL_JOB_IN_FLIGHT: a full-refresh job of the lane is unfinished. After true
 * none enters it before the transaction ends. */
MUST_CHECK bool queue_check_undo(struct db *db, uint32_t partner_id,
				 int collection, struct fail *f);

enum queue_result { QUEUE_JOB, QUEUE_EMPTY, QUEUE_FAIL };

/* Transactions of its own. A job that lost its third owner is made FAILED on
 * the way and not handed out. */
enum queue_result queue_claim(struct db *db, uint64_t lease_ms, struct arena *a,
			      struct job *job_r, struct fail *f);

/* In the chunk's transaction, as its first statement: locks the job. false
 * with FAIL_FENCED: it has another owner, or is past this step, because a
 * COMMIT in doubt was done after all. */
MUST_CHECK bool queue_hold(struct db *db, const struct job *j, struct arena *a,
			   struct fail *f);

/* In the chunk's transaction, as its last statement: adds `delta`, moves
 * next_chunk by `chunks` (0 or 1), sets phase and resume_after as *j has
 * them, renews the lease. */
MUST_CHECK bool queue_checkpoint(struct db *db, const struct job *j,
				 const struct job_counts *delta,
				 uint32_t chunks, uint64_t lease_ms,
				 struct fail *f);

/* Outside of one: the job as it stands, cancel_requested too. FAIL_FENCED: it
 * is no longer ours. */
MUST_CHECK bool queue_reload(struct db *db, struct job *j, struct arena *a,
			     struct fail *f);

/* In a transaction: final state, and the lane is free for the next. `why` of
 * a FAILED one, else NULL. FAIL_FENCED: it is no longer ours. */
MUST_CHECK bool queue_finish(struct db *db, const struct job *j,
			     enum job_state state, const struct fail *why,
			     struct fail *f);

/* A transaction of its own. Does not count as an attempt. not_before_ms: how
 * long to leave it alone (backoff); waiting_for NULL, or "quota": then it
 * waits only if the quota is still as *j has it, and whoever changes that
 * finds it waiting. */
MUST_CHECK bool queue_give_back(struct db *db, const struct job *j,
				uint64_t not_before_ms, const char *waiting_for,
				struct fail *f);

/* In the transaction that has changed the partner's quota: its jobs that wait
 * for it may be tried at once. */
MUST_CHECK bool queue_wake(struct db *db, uint32_t partner_id, struct arena *a,
			   struct fail *f);

/* As queue_give_back() after a fault that may not go away: an owner lost, and
 * the third makes the job FAILED with `why`. */
MUST_CHECK bool queue_strike(struct db *db, const struct job *j,
			     uint64_t not_before_ms, const struct fail *why,
			     struct fail *f);

/* In a transaction: a job nobody has is CANCELLED at once, a running one
 * after its chunk. *state_r: as it is now; a finished job stays as it is.
 * FAIL_NOT_FOUND: this partner has no such job. */
MUST_CHECK bool queue_cancel(struct db *db, uint32_t partner_id,
			     struct id job_id, struct arena *a,
			     enum job_state *state_r, struct fail *f);

/* In a transaction: a FAILED or CANCELLED job is QUEUED again, at the end of
 * its lane, and goes on from its checkpoint. FAIL_JOB_KEPT: it is not
 * finished, completed, older than the retention, its chunks are gone, or it
 * is a full-refresh and something has entered its lane since.
 * FAIL_JOB_IN_FLIGHT: the lane's rules. */
struct requeue {
	uint64_t not_before_wall_ms; /* older ones may be dropped any time */
	bool confirm; /* of a full-refresh: the destruction is meant */
};
MUST_CHECK bool queue_requeue(struct db *db, uint32_t partner_id,
			      struct id job_id, const struct requeue *how,
			      struct arena *a, struct fail *f);

/* The first day (UTC, since 1970) of which an unfinished job needs anything:
 * its chunks, its batch, or the refresh it undoes. UINT32_MAX: there is none.
 */
MUST_CHECK bool queue_oldest_day(struct db *db, uint32_t *day_r,
				 struct fail *f);

/* Is another partner waiting while we go on with this one? */
MUST_CHECK bool queue_others_wait(struct db *db, uint32_t partner_id,
				  struct arena *a, bool *wait_r,
				  struct fail *f);

#endif
