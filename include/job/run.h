/* The worker's way through the queue: claim a job, do it step by step.
 *
 * A step is one transaction of the job's kind: queue_hold() first,
 * queue_checkpoint() last. Between steps the job may be cancelled, given back
 * because a partner waits or because the worker is to leave, or found to have
 * another owner.
 *
 *	struct run r = {...};
 *	switch (run_next(&r, f)) {
 *	case RUN_WORKED: there may be more
 *	case RUN_IDLE:   nothing to do
 *	case RUN_AWAY:   f says why: the database is away
 *	}
 *
 * Guarantees, cited by tests:
 *  N1  A job that goes on for longer than run_slice gives way to another
 *      partner's, after its step.
 *  N2  While the database is away the job is kept in hand: that is no attempt
 *      lost.
 *  N3  A fault that is not of that kind is a strike: three in a row without a
 *      step make the job FAILED with it.
 *  N4  Told to leave, a worker ends its step and gives the job back.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_RUN_H
#define WAYBILL_RUN_H

#include "job/queue.h"

struct run;

enum run_step {
	RUN_MORE,    /* one step is committed */
	RUN_END,     /* nothing is left to do: COMPLETED */
	RUN_REFUSED, /* f says why: FAILED */
	RUN_WAIT,    /* not now: r->wait_ms and r->waiting_for are set */
	RUN_FAULT,   /* f says why; nothing was written */
};

struct run_kind {
	enum job_kind kind;
	/* Everything in r->arena and of *j holds until it returns. */
	enum run_step (*step)(struct run *r, struct job *j, struct fail *f);
};

struct run {
	/* set by the caller */
	const struct conf *conf;
	struct db *db;
	struct arena *arena; /* of one step */
	const struct run_kind *kinds;
	size_t kind_count;
	bool (*leaving)(void *arg, uint64_t wait_ms); /* waits so long */
	void *arg;
	/* Called between steps, with an arena that is emptied afterwards: what
	 * a busy worker must not forget. Or NULL. */
	void (*between)(struct run *r);

	/* set by a step */
	uint64_t wait_ms;
	const char *waiting_for;
};

enum run_result { RUN_WORKED, RUN_IDLE, RUN_AWAY };

enum run_result run_next(struct run *r, struct fail *f);

#endif
