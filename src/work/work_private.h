/* What the kinds of jobs share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_WORK_PRIVATE_H
#define WAYBILL_WORK_PRIVATE_H

#include "db/txn.h"
#include "gate/quota.h"
#include "item/apply.h"
#include "work/work.h"

/* How long one transaction of a job may take, retries included: well below
 * the lease. */
enum { WORK_BUDGET_MS = 10000 };

/* One transaction of a job: the job is held, `work` fills in what was done,
 * the checkpoint goes with it. */
struct work_part {
	struct run *r;
	struct job *j;
	/* Of the job's batch; its arena, batch and clock are set. */
	enum apply_result (*work)(struct db *db, struct work_part *p,
				  struct apply *a, struct fail *f);
	void *arg;
	enum batch_mode mode;
	uint32_t chunks; /* next_chunk moves by so many */
	bool charges;    /* to `quota`, which says whose and how much it is */
	uint64_t charge_most; /* what these items can cost */
	struct quota quota;

	/* set by work(): as the checkpoint shall have them */
	enum job_phase phase;
	struct sv resume_after;
	struct apply_summary summary;
};
MUST_CHECK bool work_part(struct work_part *p, struct fail *f);

enum run_step work_items(struct run *r, struct job *j, struct fail *f);
enum run_step work_refresh(struct run *r, struct job *j, struct fail *f);
enum run_step work_release(struct run *r, struct job *j, struct fail *f);
enum run_step work_undo(struct run *r, struct job *j, struct fail *f);

/* The next chunk, which must be there, as one transaction. */
enum run_step work_chunk(struct run *r, struct job *j, enum batch_mode mode,
			 struct fail *f);

/* A part of work_chores(). */
MUST_CHECK bool work_auto_release(struct run *r, struct work_chores *w,
				  bool *more_r, struct fail *f);

#endif
