/* Releases: of all that match, as a job; and by themselves, for partners set
 * to auto_release.
 *
 * The second is level-triggered: nobody tells that a thing has come, the
 * worker looks who waits for something that is there. A record that is looked
 * at in vain notes the revs of what it waits for (quarantine_wait.seen_rev),
 * so that it is not looked at again before one of them changes. What is let
 * go is there for the next round, and so chains heal.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metric.h"
#include "item/quarantine.h"
#include "work_private.h"

enum { STRETCHES_MAX = 20 }; /* of waiters, at one call */

static enum apply_result release_some(struct db *db, struct work_part *p,
				      struct apply *a, struct fail *f)
{
	const struct quarantine_some *s = p->arg;

	p->resume_after = sv_from(s->last.b, sizeof(s->last.b));
	if (!s->count)
		return APPLY_DONE;
	return quarantine_release_some(db, p->r->conf, s,
				       p->j->counts.processed, a, f);
}

enum run_step work_release(struct run *r, struct job *j, struct fail *f)
{
	const struct quarantine_match m = {
		.partner_id = j->partner_id,
		.collection = j->collection,
		.missing = j->filter_missing,
		.asked = j->job_id,
		.scope = scope_read(r->arena, j->warehouses)};
	struct quarantine_some some;

	if (!quarantine_pick(r->db, &m, j->resume_after, r->arena, &some, f))
		return RUN_FAULT;
	if (some.ended)
		return RUN_END;
	return work_part(&(struct work_part){.r = r,
					     .j = j,
					     .work = release_some,
					     .arg = &some,
					     .mode = BATCH_RELEASE},
			 f)
		       ? RUN_MORE
		       : RUN_FAULT;
}

/* By themselves. */

struct letting {
	struct run *r;
	uint32_t partner_id;
	struct quarantine_some some;
	struct id batch_id;
	uint32_t accepted;
};

static enum db_step let_go(struct db *db, const struct db_attempt *at,
			   void *arg, struct fail *f)
{
	struct letting *l = arg;
	struct apply a = {.arena = l->r->arena,
			  .partner_id = l->partner_id,
			  .batch_id = l->batch_id,
			  .wall_ms = db_wall_ms(db),
			  .lock = at->no > 1};

	switch (quarantine_release_some(db, l->r->conf, &l->some, 0, &a, f)) {
	case APPLY_DONE:
		l->accepted = a.summary.accepted;
		return a.count ? DB_STEP_COMMIT : DB_STEP_ROLLBACK;
	case APPLY_RACED:
		return DB_STEP_AGAIN;
	case APPLY_FAIL:
		return DB_STEP_FAIL;
	}
	bug("apply result");
}

/* A COMMIT in doubt is not run again: what is left is found in the next
 * round. */
static bool let_some_go(struct letting *l, struct fail *f)
{
	l->batch_id = id_new(db_wall_ms(l->r->db));
	if (!db_txn(l->r->db,
		    &(struct db_txn){
			    .name = "auto_release", .work = let_go, .arg = l},
		    f))
		return false;
	metric_add(METRIC_AUTO_RELEASES, l->accepted);
	return true;
}

static bool next_partner(struct run *r, struct work_chores *w, struct fail *f)
{
	struct db_table t;

	if (!db_query(r->db, STMT_AUTO_RELEASE_PARTNER,
		      DB_ARGS(db_uint(w->partner_id)), r->arena, &t, f))
		return false;
	w->partner_id = t.rows ? (uint32_t)db_cell(&t, 0, 0)->u : 0;
	w->after = (struct id){{0}};
	return true;
}

/* One stretch of one partner's waiters. */
static bool look_at_stretch(struct run *r, struct work_chores *w, bool *more_r,
			    struct fail *f)
{
	struct letting l = {.r = r, .partner_id = w->partner_id};
	bool ended;

	if (!quarantine_ready(r->db, w->partner_id, &w->after, r->arena,
			      &l.some, &ended, f))
		return false;
	*more_r = l.some.count > 0;
	if (*more_r)
		return let_some_go(&l, f);
	return !ended || next_partner(r, w, f);
}

/* All partners once, or until something was done; a partner with very many
 * waiters is left in the middle and gone on with the next time. */
bool work_auto_release(struct run *r, struct work_chores *w, bool *more_r,
		       struct fail *f)
{
	*more_r = false;
	if (!w->partner_id && !next_partner(r, w, f))
		return false;
	for (int i = 0; w->partner_id && !*more_r && i < STRETCHES_MAX; i++)
		if (!look_at_stretch(r, w, more_r, f))
			return false;
	return true;
}
