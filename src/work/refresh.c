/* A full-refresh as a job: GUARD, APPLY, TOMBSTONE.
 *
 * Both guards count the collection stretch by stretch, outside of any
 * transaction: what is touched meanwhile is not tombstoned anyway.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "work_private.h"

/* What was touched since the first byte came is left alone: the id of the job
 * is made then, the row when all is stored. */
static uint64_t received_ms(const struct job *j)
{
	uint64_t begun_ms = id_wall_ms(j->job_id);

	return begun_ms < j->created_wall_ms ? begun_ms : j->created_wall_ms;
}

static struct refresh_walk walk_of(const struct job *j)
{
	return (struct refresh_walk){.job_id = j->job_id,
				     .received_ms = received_ms(j),
				     .after = j->resume_after};
}

static enum apply_result nothing(struct db *db, struct work_part *p,
				 struct apply *a, struct fail *f)
{
	const enum job_phase *phase = p->arg;

	(void)db;
	(void)a;
	(void)f;
	p->phase = *phase;
	p->resume_after = (struct sv){0};
	return APPLY_DONE;
}

/* A checkpoint that renews the lease and may change the phase. */
static bool mark(struct run *r, struct job *j, enum job_phase phase,
		 struct fail *f)
{
	if (!work_part(&(struct work_part){.r = r,
					   .j = j,
					   .work = nothing,
					   .arg = &phase,
					   .mode = BATCH_REFRESH},
		       f))
		return false;
	j->step++;
	return true;
}

/* Counts all of it, and keeps the lease meanwhile. *left_r: told to leave. */
static bool count_all(struct run *r, struct job *j, struct refresh_walk *w,
		      bool *left_r, struct fail *f)
{
	const struct apply a = {.arena = r->arena,
				.partner_id = j->partner_id,
				.collection = (enum collection)j->collection,
				.scope = scope_read(r->arena, j->warehouses)};
	uint64_t renew_ms = clock_mono_ms() + r->conf->lease_ms / 4;

	while (!w->ended) {
		*left_r = r->leaving(r->arg, 0);
		if (*left_r)
			return true;
		if (!refresh_count(r->db, &a, w, f))
			return false;
		if (clock_mono_ms() < renew_ms)
			continue;
		if (!mark(r, j, j->phase, f))
			return false;
		renew_ms = clock_mono_ms() + r->conf->lease_ms / 4;
	}
	return true;
}

/* May it be done? Then on to the next phase. */
static enum run_step guard(struct run *r, struct job *j, enum job_phase next,
			   struct fail *f)
{
	struct refresh_walk w = walk_of(j);
	bool left = false;

	if (!count_all(r, j, &w, &left, f))
		return RUN_FAULT;
	if (left)
		return RUN_MORE;
	if (!refresh_guard(&w, j->confirmed, f))
		return RUN_REFUSED;
	return mark(r, j, next, f) ? RUN_MORE : RUN_FAULT;
}

static enum apply_result tombstone_some(struct db *db, struct work_part *p,
					struct apply *a, struct fail *f)
{
	struct refresh_walk *w = p->arg;
	enum apply_result result;

	*w = walk_of(p->j);
	result = apply_tombstone(db, a, w, f);
	p->resume_after = w->after;
	return result;
}

static enum run_step tombstone(struct run *r, struct job *j, struct fail *f)
{
	struct refresh_walk w;

	if (!work_part(&(struct work_part){.r = r,
					   .j = j,
					   .work = tombstone_some,
					   .arg = &w,
					   .mode = BATCH_REFRESH},
		       f))
		return RUN_FAULT;
	return w.ended ? RUN_END : RUN_MORE;
}

enum run_step work_refresh(struct run *r, struct job *j, struct fail *f)
{
	switch (j->phase) {
	case JOB_GUARD:
		return guard(r, j, JOB_APPLY, f);
	case JOB_APPLY:
		if (j->next_chunk >= j->chunk_count)
			return guard(r, j, JOB_TOMBSTONE, f);
		return work_chunk(r, j, BATCH_REFRESH, f);
	case JOB_TOMBSTONE:
		return tombstone(r, j, f);
	}
	bug("phase %d", (int)j->phase);
}
