/* The kinds of jobs, and what their transactions have in common. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/metric.h"
#include "work_private.h"

enum { CHORES_MS = 1000 };

const struct run_kind WORK_KINDS[] = {
	{JOB_ITEMS, work_items},
	{JOB_REFRESH, work_refresh},
	{JOB_RELEASE, work_release},
};
const size_t WORK_KIND_COUNT = ARRAY_LEN(WORK_KINDS);

static struct job_counts counts_of(const struct apply_summary *s)
{
	return (struct job_counts){.processed = s->total,
				   .accepted = s->accepted,
				   .replay = s->replay,
				   .quarantined = s->quarantined,
				   .rejected = s->rejected,
				   .tombstoned = s->tombstoned};
}

static bool checkpoint(struct db *db, const struct work_part *p, struct fail *f)
{
	struct job_counts delta = counts_of(&p->summary);
	struct job j = *p->j;

	j.phase = p->phase;
	j.resume_after = p->resume_after;
	return queue_checkpoint(db, &j, &delta, p->chunks, p->r->conf->lease_ms,
				f);
}

static enum db_step part_work(struct db *db, const struct db_attempt *at,
			      void *arg, struct fail *f)
{
	struct work_part *p = arg;
	struct apply a = {
		.arena = p->r->arena,
		.partner_id = p->j->partner_id,
		.collection = (enum collection)p->j->collection,
		.mode = p->mode,
		.batch_id = p->j->batch_id,
		.wall_ms = db_wall_ms(db),
		.lock = at->no > 1,
		.scope = scope_read(p->r->arena, p->j->warehouses),
		.confirm = p->j->confirmed,
		.part = true,
		.next_position = p->j->total + p->j->counts.tombstoned,
	};

	p->phase = p->j->phase;
	p->resume_after = p->j->resume_after;
	p->summary = (struct apply_summary){0};
	if (!queue_hold(db, p->j, p->r->arena, f))
		return DB_STEP_FAIL;
	switch (p->work(db, p, &a, f)) {
	case APPLY_DONE:
		p->summary = a.summary;
		return checkpoint(db, p, f) ? DB_STEP_COMMIT : DB_STEP_FAIL;
	case APPLY_RACED:
		return DB_STEP_AGAIN;
	case APPLY_FAIL:
		return DB_STEP_FAIL;
	}
	bug("apply result");
}

static void count(const struct apply_summary *s)
{
	metric_add(METRIC_ITEMS, s->accepted, "accepted");
	metric_add(METRIC_ITEMS, s->replay, "replay");
	metric_add(METRIC_ITEMS, s->quarantined, "quarantined");
	metric_add(METRIC_ITEMS, s->rejected, "rejected");
	metric_add(METRIC_ITEMS, s->tombstoned, "tombstoned");
}

bool work_part(struct work_part *p, struct fail *f)
{
	if (!db_txn(p->r->db,
		    &(struct db_txn){.name = "job.part",
				     .work = part_work,
				     .arg = p,
				     .deadline_ms =
					     clock_mono_ms() + WORK_BUDGET_MS,
				     .rerun = true},
		    f))
		return false;
	count(&p->summary);
	return true;
}

bool work_chores(struct run *r, struct work_chores *w, bool *more_r,
		 struct fail *f)
{
	bool released, dropped;

	*more_r = false;
	if (clock_mono_ms() < w->due_ms)
		return true;
	if (!work_auto_release(r, w, &released, f) ||
	    !work_drop_names(r, &dropped, f))
		return false;
	*more_r = released || dropped;
	w->due_ms = *more_r ? 0 : clock_mono_ms() + CHORES_MS;
	return true;
}
