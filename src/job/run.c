/* The worker's way through the queue: see job/run.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "job/run.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "db/txn.h"

enum {
	AWAY_MS_MIN = 100,
	AWAY_MS_MAX = 2000,
	BUSY_MS = 1000,    /* left alone after it lost every race */
	STRIKE_MS = 10000, /* and after a fault nobody knows */
};

/* What becomes of the job after a step. */
enum after { GO_ON, LET_GO };

/* Is it a fault that time mends? The database's own, not the job's. */
static bool is_away(const struct fail *f)
{
	return f->code == FAIL_DB_AWAY || f->code == FAIL_COMMIT_UNKNOWN ||
	       f->code == FAIL_NOT_READY;
}

static void log_job(enum log_level level, const char *what, const struct job *j,
		    const struct fail *f)
{
	struct log_line l;
	char hex[ID_HEX], name[ID_HEX + 4];

	id_hex(j->job_id, hex);
	snprintf(name, sizeof(name), "job-%s", hex);
	log_begin(&l, level, what);
	log_str(&l, "job_id", sv_of(name));
	log_str(&l, "state", sv_of(job_state_name(j->state)));
	log_num(&l, "processed", j->counts.processed);
	log_num(&l, "total", j->total);
	if (f)
		log_fail(&l, f);
	log_end(&l);
}

struct ending {
	const struct job *j;
	enum job_state state;
	const struct fail *why;
};

static enum db_step end_work(struct db *db, const struct db_attempt *at,
			     void *arg, struct fail *f)
{
	const struct ending *e = arg;

	(void)at;
	return queue_finish(db, e->j, e->state, e->why, f) ? DB_STEP_COMMIT
							   : DB_STEP_FAIL;
}

/* After a COMMIT in doubt it is found fenced, which is as good. */
static bool finish(struct run *r, struct job *j, enum job_state state,
		   const struct fail *why, struct fail *f)
{
	struct ending e = {j, state, why};

	if (!db_txn(r->db,
		    &(struct db_txn){.name = "job.finish",
				     .work = end_work,
				     .arg = &e,
				     .rerun = true},
		    f))
		return false;
	j->state = state;
	metric_add(METRIC_JOBS_FINISHED, 1, job_state_name(state));
	log_job(LOG_INFO, "job-ended", j, why);
	return true;
}

/* A job that cannot be ended or given back now is kept, to be tried again;
 * one that is no longer ours is let go. */
static enum after ended(struct run *r, bool done, const struct job *j,
			struct fail *f)
{
	(void)r;
	if (done)
		return LET_GO;
	if (is_away(f) || f->code == FAIL_DB_BUSY)
		return GO_ON;
	log_job(f->code == FAIL_FENCED ? LOG_WARN : LOG_ERROR, "job", j, f);
	return LET_GO;
}

/* N1, N4: is it somebody else's turn, or time to leave? */
static bool is_over(struct run *r, const struct job *j, uint64_t until_ms,
		    struct fail *f)
{
	bool wait = false;

	if (r->leaving(r->arg, 0))
		return true;
	if (clock_mono_ms() < until_ms)
		return false;
	return queue_others_wait(r->db, j->partner_id, r->arena, &wait, f) &&
	       wait;
}

static const struct run_kind *kind_of(const struct run *r, const struct job *j)
{
	for (size_t i = 0; i < r->kind_count; i++)
		if (r->kinds[i].kind == j->kind)
			return &r->kinds[i];
	return NULL;
}

static enum run_step step(struct run *r, struct job *j, struct fail *f)
{
	const struct run_kind *k = kind_of(r, j);

	if (k)
		return k->step(r, j, f);
	fail_set(f, FAIL_INTERNAL, "this worker does not know jobs of kind %d",
		 (int)j->kind);
	return RUN_FAULT;
}

/* N3. What is fenced is looked at again: the step may have been done by a
 * COMMIT that was in doubt, and then it is still ours. */
static enum after fault(struct run *r, const struct job *j, struct fail *f)
{
	struct fail why = *f;

	if (f->code == FAIL_FENCED || is_away(f))
		return GO_ON;
	*f = FAIL_INIT;
	if (why.code == FAIL_DB_BUSY)
		return ended(r, queue_give_back(r->db, j, BUSY_MS, NULL, f), j,
			     f);
	log_job(LOG_ERROR, "job", j, &why);
	return ended(r, queue_strike(r->db, j, STRIKE_MS, &why, f), j, f);
}

static enum after do_step(struct run *r, struct job *j, struct fail *f)
{
	struct fail why = FAIL_INIT;

	switch (step(r, j, &why)) {
	case RUN_MORE:
		metric_add(METRIC_JOB_CHUNKS, 1);
		return GO_ON;
	case RUN_END:
		return ended(r, finish(r, j, JOB_COMPLETED, NULL, f), j, f);
	case RUN_REFUSED:
		return ended(r, finish(r, j, JOB_FAILED, &why, f), j, f);
	case RUN_WAIT:
		return ended(r,
			     queue_give_back(r->db, j, r->wait_ms,
					     r->waiting_for, f),
			     j, f);
	case RUN_FAULT:
		*f = why;
		return fault(r, j, f);
	}
	bug("a step");
}

/* One turn with a job in hand. */
static enum after turn(struct run *r, struct job *j, uint64_t until_ms,
		       struct fail *f)
{
	if (!queue_reload(r->db, j, r->arena, f)) {
		if (f->code != FAIL_FENCED)
			return GO_ON;
		log_job(LOG_WARN, "job", j, f);
		return LET_GO;
	}
	if (j->cancel_requested)
		return ended(r, finish(r, j, JOB_CANCELLED, NULL, f), j, f);
	if (is_over(r, j, until_ms, f))
		return ended(r, queue_give_back(r->db, j, 0, NULL, f), j, f);
	return f->code ? GO_ON : do_step(r, j, f);
}

/* N2. false: told to leave meanwhile. */
static bool sit_out(struct run *r, const struct job *j, uint64_t *away_ms,
		    const struct fail *f)
{
	if (!*away_ms)
		log_job(LOG_WARN, "database-away", j, f);
	*away_ms = *away_ms ? *away_ms * 2 : AWAY_MS_MIN;
	*away_ms = *away_ms > AWAY_MS_MAX ? AWAY_MS_MAX : *away_ms;
	return !r->leaving(r->arg, *away_ms);
}

/* Until it ends, or is somebody else's. */
static void work_on(struct run *r, struct job *j)
{
	uint64_t until_ms = clock_mono_ms() + r->conf->run_slice_ms;
	uint64_t away_ms = 0;

	for (;;) {
		struct fail f = FAIL_INIT;

		/* What *j points to goes with it; the reload brings it back. */
		arena_reset(r->arena);
		if (turn(r, j, until_ms, &f) == LET_GO)
			return;
		if (f.code && f.code != FAIL_FENCED) {
			if (!sit_out(r, j, &away_ms, &f))
				return;
			continue;
		}
		away_ms = 0;
		if (r->between)
			r->between(r);
	}
}

enum run_result run_next(struct run *r, struct fail *f)
{
	struct job j;

	arena_reset(r->arena);
	switch (queue_claim(r->db, r->conf->lease_ms, r->arena, &j, f)) {
	case QUEUE_JOB:
		work_on(r, &j);
		return RUN_WORKED;
	case QUEUE_EMPTY:
		return RUN_IDLE;
	case QUEUE_FAIL:
		return RUN_AWAY;
	}
	bug("queue_claim");
}
