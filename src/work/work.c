/* The kinds of jobs, and what their transactions have in common. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/metric.h"
#include "job/chunks.h"
#include "work_private.h"

enum { CHORES_MS = 1000 };

const struct run_kind WORK_KINDS[] = {
	{JOB_ITEMS, work_items},
	{JOB_REFRESH, work_refresh},
	{JOB_RELEASE, work_release},
	{JOB_UNDO, work_undo},
};
const size_t WORK_KIND_COUNT = ARRAY_LEN(WORK_KINDS);

static struct job_counts counts_of(const struct apply_summary *s)
{
	return (struct job_counts){.processed = s->total,
				   .accepted = s->accepted,
				   .replay = s->replay,
				   .quarantined = s->quarantined,
				   .rejected = s->rejected,
				   .tombstoned = s->tombstoned,
				   .restored = s->restored};
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

/* Between the job and the items: see gate/quota.h. */
static enum quota_result begin_quota(struct db *db, struct work_part *p,
				     struct apply *a, struct fail *f)
{
	enum quota_result r;

	if (!p->charges)
		return QUOTA_GO;
	r = quota_begin(db, &p->quota, p->charge_most, a->arena, f);
	a->limited = true;
	a->charge_max = p->quota.room;
	return r;
}

static enum db_step applied(struct db *db, struct work_part *p,
			    const struct apply *a, struct fail *f)
{
	p->summary = a->summary;
	if (p->charges && !quota_charge(db, &p->quota, a->summary.charged, f))
		return DB_STEP_FAIL;
	return checkpoint(db, p, f) ? DB_STEP_COMMIT : DB_STEP_FAIL;
}

static enum db_step do_part(struct db *db, struct work_part *p, struct apply *a,
			    struct fail *f)
{
	switch (begin_quota(db, p, a, f)) {
	case QUOTA_GO:
		break;
	case QUOTA_AGAIN:
		return DB_STEP_AGAIN;
	case QUOTA_FAIL:
		return DB_STEP_FAIL;
	}
	switch (p->work(db, p, a, f)) {
	case APPLY_DONE:
		return applied(db, p, a, f);
	case APPLY_RACED:
		return DB_STEP_AGAIN;
	case APPLY_FAIL:
		if (a->over)
			quota_refused(&p->quota, a->summary.charged, "chunk",
				      f);
		return DB_STEP_FAIL;
	}
	bug("apply result");
}

/* Where the next tombstone or restored item stands in the batch: tombstones
 * stand behind the items that were sent. */
static uint32_t next_position(const struct job *j)
{
	return j->kind == JOB_UNDO ? j->counts.restored
				   : j->total + j->counts.tombstoned;
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
		.next_position = next_position(p->j),
	};

	p->phase = p->j->phase;
	p->resume_after = p->j->resume_after;
	p->summary = (struct apply_summary){0};
	if (!queue_hold(db, p->j, p->r->arena, f))
		return DB_STEP_FAIL;
	return do_part(db, p, &a, f);
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
	if (p->charges)
		metric_add(METRIC_QUOTA_ITEMS, p->summary.charged);
	return true;
}

bool work_chores(struct run *r, struct work_chores *w, bool *more_r,
		 struct fail *f)
{
	uint64_t dropped;
	bool released;

	*more_r = false;
	if (clock_mono_ms() < w->due_ms)
		return true;
	if (!work_auto_release(r, w, &released, f) ||
	    !chunks_drop_names(r->db, CHUNKS_DONE, r->arena, &dropped, f))
		return false;
	*more_r = released || dropped > 0;
	w->due_ms = *more_r ? 0 : clock_mono_ms() + CHORES_MS;
	return true;
}
