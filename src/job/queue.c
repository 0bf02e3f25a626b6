/* The queue of jobs. The guarantees Q1 to Q5 stand in the header: Q1 is kept
 * by lane_enter_* and job_candidates, Q2 by the token, Q3 by job_claim, Q4 by
 * the checkpoint being part of the chunk's transaction, Q5 by job_turn.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "job/queue.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/metric.h"
#include "db/txn.h"

enum {
	CANDIDATES = 8,
	LOOKS_MAX = 3,  /* when all candidates went to others */
	OWNERS_MAX = 3, /* so many may be lost without a checkpoint */
	IN_FLIGHT_RETRY_S = 5,
};

static const struct state_row {
	enum job_state state;
	const char *name;
} STATES[] = {
	{JOB_QUEUED, "QUEUED"},       {JOB_RUNNING, "RUNNING"},
	{JOB_COMPLETED, "COMPLETED"}, {JOB_FAILED, "FAILED"},
	{JOB_CANCELLED, "CANCELLED"},
};

const char *job_state_name(enum job_state s)
{
	for (size_t i = 0; i < ARRAY_LEN(STATES); i++)
		if (STATES[i].state == s)
			return STATES[i].name;
	bug("job state %d", (int)s);
}

enum job_state job_state_of(struct sv name)
{
	for (size_t i = 0; i < ARRAY_LEN(STATES); i++)
		if (sv_eq(sv_of(STATES[i].name), name))
			return STATES[i].state;
	return (enum job_state)0;
}

static struct db_val text_or_null(struct sv s)
{
	return s.p ? db_text(s) : db_null();
}

static struct db_val undoes_val(const struct job *j)
{
	return j->kind == JOB_UNDO ? db_id(&j->undoes) : db_null();
}

static struct db_val collection_val(const struct job *j)
{
	return j->collection < 0 ? db_null() : db_uint((uint64_t)j->collection);
}

static bool fenced(const struct job *j, struct fail *f)
{
	char hex[ID_HEX];

	id_hex(j->job_id, hex);
	return fail_set(f, FAIL_FENCED,
			"job-%s is past this step or has another owner", hex);
}

static bool in_flight(enum job_kind kind, struct fail *f)
{
	fail_set(f, FAIL_JOB_IN_FLIGHT, "%s of this collection is unfinished",
		 kind == JOB_REFRESH ? "a bulk or full-refresh job"
				     : "a full-refresh job");
	f->retry_after_s = IN_FLIGHT_RETRY_S;
	return false;
}

/* Lanes. */

static bool enter_lane(struct db *db, const struct job *j, struct fail *f)
{
	uint64_t affected;

	if (!db_exec(db,
		     j->kind == JOB_REFRESH ? STMT_LANE_ENTER_REFRESH
					    : STMT_LANE_ENTER_ITEMS,
		     DB_ARGS(db_uint(j->partner_id), collection_val(j)),
		     &affected, f))
		return false;
	return affected || in_flight(j->kind, f);
}

static bool leave_lane(struct db *db, const struct job *j, struct fail *f)
{
	uint64_t refreshes = j->kind == JOB_REFRESH;
	uint64_t affected;

	if (j->kind == JOB_RELEASE)
		return true;
	if (!db_exec(db, STMT_LANE_LEAVE,
		     DB_ARGS(db_uint(refreshes), db_uint(j->partner_id),
			     collection_val(j), db_uint(refreshes)),
		     &affected, f))
		return false;
	return affected == 1 ||
	       fail_set(f, FAIL_INTERNAL, "the lane does not know of the job");
}

static enum job_phase first_phase(const struct job *j)
{
	return j->kind == JOB_REFRESH ? JOB_GUARD : JOB_APPLY;
}

static bool add_free(struct db *db, const struct job *j, uint64_t *affected,
		     struct fail *f)
{
	return db_exec(db, STMT_JOB_ADD_FREE,
		       DB_ARGS(db_uint(j->partner_id), db_id(&j->job_id),
			       db_id(&j->batch_id), collection_val(j),
			       db_uint(j->kind), db_uint(j->mode),
			       db_uint(first_phase(j)), db_uint(j->chunk_count),
			       db_uint(j->total), db_uint(j->bytes),
			       db_uint(j->confirmed),
			       text_or_null(j->filter_missing), undoes_val(j),
			       text_or_null(j->warehouses)),
		       affected, f);
}

static bool add_to_lane(struct db *db, const struct job *j, uint64_t *affected,
			struct fail *f)
{
	return enter_lane(db, j, f) &&
	       db_exec(db, STMT_JOB_ADD,
		       DB_ARGS(db_id(&j->job_id), db_id(&j->batch_id),
			       db_uint(j->kind), db_uint(j->mode),
			       db_uint(first_phase(j)), db_uint(j->chunk_count),
			       db_uint(j->total), db_uint(j->bytes),
			       db_uint(j->confirmed),
			       text_or_null(j->filter_missing), undoes_val(j),
			       text_or_null(j->warehouses),
			       db_uint(j->partner_id), collection_val(j)),
		       affected, f);
}

bool queue_add(struct db *db, const struct job *j, struct fail *f)
{
	uint64_t affected = 0;

	if (j->kind != JOB_RELEASE && j->collection < 0)
		bug("a job of no lane");
	if (j->kind == JOB_RELEASE ? !add_free(db, j, &affected, f)
				   : !add_to_lane(db, j, &affected, f))
		return false;
	if (affected != 1)
		bug("a job was not added");
	return true;
}

bool queue_check_refresh(struct db *db, uint32_t partner_id, int collection,
			 bool dry_run, struct arena *a, struct fail *f)
{
	struct db_args lane =
		DB_ARGS(db_uint(partner_id), db_uint((uint64_t)collection));
	struct db_table t;
	uint64_t affected;

	if (dry_run) {
		if (!db_query(db, STMT_LANE_LOOK, lane, a, &t, f))
			return false;
		return !t.rows || !db_cell(&t, 0, 0)->u ||
		       in_flight(JOB_REFRESH, f);
	}
	if (!db_exec(db, STMT_LANE_PASS_REFRESH, lane, &affected, f))
		return false;
	return affected || in_flight(JOB_REFRESH, f);
}

bool queue_check_undo(struct db *db, uint32_t partner_id, int collection,
		      struct fail *f)
{
	uint64_t affected;

	if (!db_exec(
		    db, STMT_LANE_PASS_UNDO,
		    DB_ARGS(db_uint(partner_id), db_uint((uint64_t)collection)),
		    &affected, f))
		return false;
	return affected || in_flight(JOB_UNDO, f);
}

/* Reading a job. */

/* Columns of STMT_JOB_GET and STMT_JOB_LOCK. */
enum {
	J_BATCH,
	J_COLLECTION,
	J_KIND,
	J_MODE,
	J_STATE,
	J_PHASE,
	J_ATTEMPT,
	J_TOKEN,
	J_STEP,
	J_NEXT_CHUNK,
	J_CHUNK_COUNT,
	J_RESUME_AFTER,
	J_TOTAL,
	J_BYTES,
	J_PROCESSED,
	J_ACCEPTED,
	J_REPLAY,
	J_QUARANTINED,
	J_REJECTED,
	J_TOMBSTONED,
	J_RESTORED,
	J_CONFIRMED,
	J_CANCEL,
	J_MISSING,
	J_UNDOES,
	J_WAREHOUSES,
	J_CREATED,
	J_QUOTA /* of STMT_JOB_GET alone */
};

static uint32_t u32(const struct db_table *t, size_t col)
{
	return (uint32_t)db_cell(t, 0, col)->u;
}

static struct sv text_of(const struct db_table *t, size_t col)
{
	const struct db_val *v = db_cell(t, 0, col);

	return v->kind == DB_NULL ? (struct sv){0} : v->bytes;
}

static struct job_counts counts_of(const struct db_table *t)
{
	return (struct job_counts){.processed = u32(t, J_PROCESSED),
				   .accepted = u32(t, J_ACCEPTED),
				   .replay = u32(t, J_REPLAY),
				   .quarantined = u32(t, J_QUARANTINED),
				   .rejected = u32(t, J_REJECTED),
				   .tombstoned = u32(t, J_TOMBSTONED),
				   .restored = u32(t, J_RESTORED)};
}

static void fill(struct job *j, const struct db_table *t)
{
	const struct db_val *collection = db_cell(t, 0, J_COLLECTION);

	memcpy(j->batch_id.b, db_cell(t, 0, J_BATCH)->bytes.p,
	       sizeof(j->batch_id.b));
	j->collection = collection->kind == DB_NULL ? -1 : (int)collection->u;
	j->kind = (enum job_kind)u32(t, J_KIND);
	j->mode = u32(t, J_MODE);
	j->state = (enum job_state)u32(t, J_STATE);
	j->phase = (enum job_phase)u32(t, J_PHASE);
	j->attempt = u32(t, J_ATTEMPT);
	j->token = db_cell(t, 0, J_TOKEN)->u;
	j->step = u32(t, J_STEP);
	j->next_chunk = u32(t, J_NEXT_CHUNK);
	j->chunk_count = u32(t, J_CHUNK_COUNT);
	j->resume_after = text_of(t, J_RESUME_AFTER);
	j->total = u32(t, J_TOTAL);
	j->bytes = db_cell(t, 0, J_BYTES)->u;
	j->counts = counts_of(t);
	j->confirmed = u32(t, J_CONFIRMED);
	j->cancel_requested = u32(t, J_CANCEL);
	j->filter_missing = text_of(t, J_MISSING);
	if (j->kind == JOB_UNDO)
		memcpy(j->undoes.b, db_cell(t, 0, J_UNDOES)->bytes.p,
		       sizeof(j->undoes.b));
	j->warehouses = text_of(t, J_WAREHOUSES);
	j->created_wall_ms = db_cell(t, 0, J_CREATED)->u;
}

static void fill_quota(struct job *j, const struct db_val *v)
{
	j->has_quota = v->kind != DB_NULL;
	j->quota_items = j->has_quota ? v->u : 0;
}

/* Sets all of *j but partner_id and job_id, which say which one. */
static bool read_job(struct db *db, enum stmt id, struct job *j,
		     struct arena *a, bool *found_r, struct fail *f)
{
	struct db_table t;

	if (!db_query(db, id,
		      DB_ARGS(db_uint(j->partner_id), db_id(&j->job_id)), a, &t,
		      f))
		return false;
	*found_r = t.rows > 0;
	if (t.rows)
		fill(j, &t);
	if (t.rows && id == STMT_JOB_GET)
		fill_quota(j, db_cell(&t, 0, J_QUOTA));
	return true;
}

bool queue_reload(struct db *db, struct job *j, struct arena *a, struct fail *f)
{
	struct job now = *j;
	bool found;

	if (!read_job(db, STMT_JOB_GET, &now, a, &found, f))
		return false;
	if (!found || now.token != j->token || now.state != JOB_RUNNING)
		return fenced(j, f);
	*j = now;
	return true;
}

bool queue_hold(struct db *db, const struct job *j, struct arena *a,
		struct fail *f)
{
	struct job now = *j;
	bool found;

	if (!read_job(db, STMT_JOB_LOCK, &now, a, &found, f))
		return false;
	return (found && now.token == j->token && now.step == j->step &&
		now.state == JOB_RUNNING) ||
	       fenced(j, f);
}

bool queue_checkpoint(struct db *db, const struct job *j,
		      const struct job_counts *delta, uint32_t chunks,
		      uint64_t lease_ms, struct fail *f)
{
	uint64_t affected;

	if (!db_exec(db, STMT_JOB_CHECKPOINT,
		     DB_ARGS(db_uint(delta->processed),
			     db_uint(delta->accepted), db_uint(delta->replay),
			     db_uint(delta->quarantined),
			     db_uint(delta->rejected),
			     db_uint(delta->tombstoned),
			     db_uint(delta->restored), db_uint(chunks),
			     db_uint(j->phase), text_or_null(j->resume_after),
			     db_uint(lease_ms * 1000), db_uint(j->partner_id),
			     db_id(&j->job_id), db_uint(j->token),
			     db_uint(j->step), db_uint(j->next_chunk)),
		     &affected, f))
		return false;
	return affected == 1 || fenced(j, f);
}

/* Finishing and giving back. */

bool queue_finish(struct db *db, const struct job *j, enum job_state state,
		  const struct fail *why, struct fail *f)
{
	uint64_t affected;

	if (!db_exec(db, STMT_JOB_FINISH,
		     DB_ARGS(db_uint(state),
			     why ? db_text(sv_of(fail_info(why->code)->slug))
				 : db_null(),
			     why ? db_text(sv_of(why->detail)) : db_null(),
			     db_uint(j->partner_id), db_id(&j->job_id),
			     db_uint(j->token)),
		     &affected, f))
		return false;
	return affected == 1 ? leave_lane(db, j, f) : fenced(j, f);
}

/* A job on its way out of its owner's hands. */
struct parting {
	const struct job *j;
	uint64_t not_before_ms;
	const char *waiting_for;
	const struct fail *why; /* a strike */
};

static bool give_back(struct db *db, const struct parting *p,
		      uint64_t *affected_r, struct fail *f)
{
	return db_exec(db, STMT_JOB_GIVE_BACK,
		       DB_ARGS(db_uint(p->why != NULL),
			       db_uint(p->not_before_ms * 1000),
			       p->waiting_for ? db_text(sv_of(p->waiting_for))
					      : db_null(),
			       db_uint(p->j->partner_id), db_id(&p->j->job_id),
			       db_uint(p->j->token)),
		       affected_r, f);
}

/* The partner's row stays as it is until we are waiting. */
static bool quota_changed(struct db *db, const struct job *j, bool *changed_r,
			  struct fail *f)
{
	struct job now = {.partner_id = j->partner_id};
	struct db_table t;
	struct arena a;
	bool ok;

	arena_init(&a, 256);
	ok = db_query(db, STMT_JOB_QUOTA_HOLD, DB_ARGS(db_uint(j->partner_id)),
		      &a, &t, f);
	if (ok && t.rows)
		fill_quota(&now, db_cell(&t, 0, 0));
	*changed_r = now.has_quota != j->has_quota ||
		     now.quota_items != j->quota_items;
	arena_release(&a);
	return ok;
}

/* What was waited for has changed meanwhile: it is tried again at once. */
static bool check_wait(struct db *db, struct parting *p, struct fail *f)
{
	bool changed;

	if (!p->waiting_for)
		return true;
	if (!quota_changed(db, p->j, &changed, f))
		return false;
	if (changed) {
		p->waiting_for = NULL;
		p->not_before_ms = 0;
	}
	return true;
}

static enum db_step part(struct db *db, const struct db_attempt *at, void *arg,
			 struct fail *f)
{
	struct parting *p = arg;
	uint64_t affected = 0;

	if (p->why && p->j->attempt + 1 >= OWNERS_MAX)
		return queue_finish(db, p->j, JOB_FAILED, p->why, f)
			       ? DB_STEP_COMMIT
			       : DB_STEP_FAIL;
	if (!check_wait(db, p, f) || !give_back(db, p, &affected, f))
		return DB_STEP_FAIL;
	if (affected == 1 || at->maybe_committed)
		return DB_STEP_COMMIT;
	fenced(p->j, f);
	return DB_STEP_FAIL;
}

static bool run_parting(struct db *db, struct parting *p, struct fail *f)
{
	return db_txn(db,
		      &(struct db_txn){.name = "job.give_back",
				       .work = part,
				       .arg = p,
				       .rerun = true},
		      f);
}

bool queue_give_back(struct db *db, const struct job *j, uint64_t not_before_ms,
		     const char *waiting_for, struct fail *f)
{
	return run_parting(db,
			   &(struct parting){.j = j,
					     .not_before_ms = not_before_ms,
					     .waiting_for = waiting_for},
			   f);
}

bool queue_wake(struct db *db, uint32_t partner_id, struct arena *a,
		struct fail *f)
{
	struct db_table t;
	uint64_t affected;

	if (!db_query(db, STMT_JOB_WAITING, DB_ARGS(db_uint(partner_id)), a, &t,
		      f))
		return false;
	for (size_t i = 0; i < t.rows; i++)
		if (!db_exec(db, STMT_JOB_WAKE,
			     DB_ARGS(db_uint(partner_id), *db_cell(&t, i, 0)),
			     &affected, f))
			return false;
	return true;
}

bool queue_strike(struct db *db, const struct job *j, uint64_t not_before_ms,
		  const struct fail *why, struct fail *f)
{
	return run_parting(db,
			   &(struct parting){.j = j,
					     .not_before_ms = not_before_ms,
					     .why = why},
			   f);
}

bool queue_cancel(struct db *db, uint32_t partner_id, struct id job_id,
		  struct arena *a, enum job_state *state_r, struct fail *f)
{
	struct job j = {.partner_id = partner_id, .job_id = job_id};
	uint64_t affected;
	bool found;

	if (!read_job(db, STMT_JOB_LOCK, &j, a, &found, f))
		return false;
	if (!found)
		return fail_set(f, FAIL_NOT_FOUND, "there is no such job");
	*state_r = j.state;
	switch (j.state) {
	case JOB_QUEUED:
		*state_r = JOB_CANCELLED;
		return queue_finish(db, &j, JOB_CANCELLED, NULL, f);
	case JOB_RUNNING:
		return db_exec(db, STMT_JOB_ASK_CANCEL,
			       DB_ARGS(db_uint(partner_id), db_id(&job_id)),
			       &affected, f);
	case JOB_COMPLETED:
	case JOB_FAILED:
	case JOB_CANCELLED:
		return true;
	}
	bug("job state %d", (int)j.state);
}

static bool chunks_there(struct db *db, const struct job *j, struct arena *a,
			 struct fail *f)
{
	struct db_table t;

	if (!db_query(db, STMT_CHUNK_COUNT,
		      DB_ARGS(db_id(&j->job_id),
			      db_uint(clock_day(id_wall_ms(j->job_id)))),
		      a, &t, f))
		return false;
	return db_cell(&t, 0, 0)->u == j->chunk_count ||
	       fail_set(f, FAIL_JOB_KEPT,
			"the items of the job are no longer kept");
}

static bool may_requeue(const struct job *j, const struct requeue *how,
			struct fail *f)
{
	if (j->state != JOB_FAILED && j->state != JOB_CANCELLED)
		return fail_set(f, FAIL_JOB_KEPT, "the job is %s",
				job_state_name(j->state));
	if (id_wall_ms(j->job_id) < how->not_before_wall_ms)
		return fail_set(f, FAIL_JOB_KEPT,
				"the job is older than the retention");
	if (how->confirm && j->kind != JOB_REFRESH)
		return fail_set(f, FAIL_JOB_KEPT,
				"there is nothing to confirm: the job is no "
				"full-refresh");
	return true;
}

/* What a full-refresh names was the whole collection when it was sent. It may
 * still be made so as long as nothing came in between that was meant to follow
 * it: no bulk, no other refresh, no undoing. What single requests touched
 * since is not tombstoned by it anyway. */
static bool put_in_lane(struct db *db, const struct job *j,
			const struct requeue *how, uint64_t *affected_r,
			struct fail *f)
{
	if (!enter_lane(db, j, f) ||
	    !db_exec(db, STMT_JOB_REQUEUE,
		     DB_ARGS(db_uint(how->confirm), db_uint(j->partner_id),
			     db_id(&j->job_id)),
		     affected_r, f))
		return false;
	return *affected_r || j->kind != JOB_REFRESH ||
	       fail_set(f, FAIL_JOB_KEPT,
			"a full-refresh is not queued again after others came "
			"to its collection; it has to be sent anew");
}

static bool put_back(struct db *db, const struct job *j,
		     const struct requeue *how, struct fail *f)
{
	uint64_t affected = 0;
	bool ok;

	if (j->kind == JOB_RELEASE)
		ok = db_exec(db, STMT_JOB_REQUEUE_FREE,
			     DB_ARGS(db_uint(j->partner_id), db_id(&j->job_id)),
			     &affected, f);
	else
		ok = put_in_lane(db, j, how, &affected, f);
	if (ok && affected != 1)
		bug("a job was not queued again");
	return ok;
}

bool queue_requeue(struct db *db, uint32_t partner_id, struct id job_id,
		   const struct requeue *how, struct arena *a, struct fail *f)
{
	struct job j = {.partner_id = partner_id, .job_id = job_id};
	bool found;

	if (!read_job(db, STMT_JOB_LOCK, &j, a, &found, f))
		return false;
	if (!found)
		return fail_set(f, FAIL_NOT_FOUND, "there is no such job");
	return may_requeue(&j, how, f) && chunks_there(db, &j, a, f) &&
	       put_back(db, &j, how, f);
}

bool queue_oldest_day(struct db *db, uint32_t *day_r, struct fail *f)
{
	struct db_table t;
	struct arena a;
	struct id id;
	bool ok;

	*day_r = UINT32_MAX;
	arena_init(&a, 1024);
	ok = db_query(db, STMT_JOB_OLDEST, DB_NO_ARGS, &a, &t, f);
	if (ok && db_cell(&t, 0, 0)->kind != DB_NULL) {
		memcpy(id.b, db_cell(&t, 0, 0)->bytes.p, sizeof(id.b));
		*day_r = clock_day(id_wall_ms(id));
	}
	arena_release(&a);
	return ok;
}

/* Claiming. */

struct claim {
	struct arena *a;
	uint64_t lease_ms, token;
	uint64_t seen_token;
	struct job *job;
	bool got, lost; /* lost: it has lost too many owners, and is FAILED */
};

static bool fail_lost(struct db *db, const struct job *j, struct fail *f)
{
	struct fail why = FAIL_INIT;

	fail_set(&why, FAIL_WORKER_LOST,
		 "%d workers were lost at chunk %" PRIu32 " of %" PRIu32
		 ", after %" PRIu32 " of %" PRIu32 " items",
		 OWNERS_MAX, j->next_chunk, j->chunk_count, j->counts.processed,
		 j->total);
	return queue_finish(db, j, JOB_FAILED, &why, f);
}

/* Ours now: read it, and see whether it has lost too many. */
static bool settle(struct db *db, struct claim *c, struct fail *f)
{
	uint64_t affected;

	if (!read_job(db, STMT_JOB_GET, c->job, c->a, &c->got, f) ||
	    !db_exec(db, STMT_JOB_TURN_TAKE,
		     DB_ARGS(db_uint(c->job->partner_id)), &affected, f))
		return false;
	c->lost = c->job->attempt >= OWNERS_MAX;
	return !c->lost || fail_lost(db, c->job, f);
}

static enum db_step claim_work(struct db *db, const struct db_attempt *at,
			       void *arg, struct fail *f)
{
	struct claim *c = arg;
	uint64_t affected;

	(void)at;
	c->got = c->lost = false;
	if (!db_lock_wait(db, 0, f))
		return DB_STEP_FAIL;
	if (!db_exec(db, STMT_JOB_CLAIM,
		     DB_ARGS(db_uint(c->token), db_uint(c->token),
			     db_uint(c->lease_ms * 1000),
			     db_uint(c->job->partner_id),
			     db_id(&c->job->job_id), db_uint(c->token),
			     db_uint(c->seen_token)),
		     &affected, f))
		/* Somebody is claiming it, or its owner is late but at work. */
		return db_last_class(db) == DB_LOCK_WAIT ? DB_STEP_ROLLBACK
							 : DB_STEP_FAIL;
	if (!affected)
		return DB_STEP_ROLLBACK;
	if (!db_lock_wait(db, db_lock_wait_default_s(db), f))
		return DB_STEP_FAIL;
	return settle(db, c, f) ? DB_STEP_COMMIT : DB_STEP_FAIL;
}

/* Columns of STMT_JOB_CANDIDATES. */
enum { C_PARTNER, C_JOB, C_TOKEN };

static bool try_one(struct db *db, struct claim *c, const struct db_table *t,
		    size_t row, struct fail *f)
{
	c->job->partner_id = (uint32_t)db_cell(t, row, C_PARTNER)->u;
	memcpy(c->job->job_id.b, db_cell(t, row, C_JOB)->bytes.p,
	       sizeof(c->job->job_id.b));
	c->seen_token = db_cell(t, row, C_TOKEN)->u;
	if (!db_txn(db,
		    &(struct db_txn){.name = "job.claim",
				     .work = claim_work,
				     .arg = c,
				     .rerun = true},
		    f))
		return false;
	*f = FAIL_INIT;
	if (c->got && c->seen_token)
		metric_add(METRIC_LEASES_LOST, 1);
	if (c->lost)
		metric_add(METRIC_JOBS_FINISHED, 1, job_state_name(JOB_FAILED));
	return true;
}

/* One look at the candidates. *again_r: all went to others meanwhile. */
static enum queue_result look(struct db *db, struct claim *c, bool *again_r,
			      struct fail *f)
{
	struct db_table t;

	if (!db_query(db, STMT_JOB_CANDIDATES, DB_ARGS(db_uint(CANDIDATES)),
		      c->a, &t, f))
		return QUEUE_FAIL;
	for (size_t i = 0; i < t.rows; i++) {
		if (!try_one(db, c, &t, i, f))
			return QUEUE_FAIL;
		if (c->got && !c->lost)
			return QUEUE_JOB;
	}
	*again_r = t.rows > 0;
	return QUEUE_EMPTY;
}

enum queue_result queue_claim(struct db *db, uint64_t lease_ms, struct arena *a,
			      struct job *job_r, struct fail *f)
{
	struct claim c = {.a = a, .lease_ms = lease_ms, .job = job_r};
	enum queue_result got = QUEUE_EMPTY;
	bool again = true;

	/* Never 0: that is nobody's. */
	digest_random(&c.token, sizeof(c.token));
	c.token |= 1;
	*job_r = (struct job){.partner_id = 0};
	for (int i = 0; got == QUEUE_EMPTY && again && i < LOOKS_MAX; i++)
		got = look(db, &c, &again, f);
	return got;
}

bool queue_others_wait(struct db *db, uint32_t partner_id, struct arena *a,
		       bool *wait_r, struct fail *f)
{
	struct db_table t;

	if (!db_query(db, STMT_JOB_OTHERS_WAIT,
		      DB_ARGS(db_uint(partner_id), db_uint(partner_id)), a, &t,
		      f))
		return false;
	*wait_r = t.rows > 0;
	return true;
}
