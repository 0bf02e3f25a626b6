/* job/queue on a real server: Q1 to Q5. Jobs here have no chunks: their work
 * is a checkpoint. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include "base/clock.h"
#include "job/queue.h"

enum { LEASE_MS = 60000, SKUS = 3, UOMS = 0 };

static bool start(struct world *w)
{
	if (!world_exists())
		return false;
	world_open(w);
	world_migrate(w);
	return true;
}

static struct job a_job(struct world *w, uint32_t partner, int collection,
			enum job_kind kind)
{
	return (struct job){.partner_id = partner,
			    .job_id = id_new(db_wall_ms(w->db)),
			    .batch_id = id_new(db_wall_ms(w->db)),
			    .collection = collection,
			    .kind = kind,
			    .mode = kind == JOB_REFRESH ? 2 : 3,
			    .chunk_count = 2,
			    .total = 20,
			    .bytes = 200};
}

/* Something done in a transaction of its own. */
struct act {
	const struct job *job;
	bool (*run)(struct db *db, struct act *a, struct fail *f);
	struct job_counts delta;
	uint32_t chunks;
	enum job_state state;
	const struct fail *why;
	struct arena *arena;
	bool give_up, once;
	void (*meanwhile)(void *arg);
	void *arg;
};

static enum db_step act_work(struct db *db, const struct db_attempt *at,
			     void *arg, struct fail *f)
{
	struct act *a = arg;

	(void)at;
	if (!a->run(db, a, f))
		return DB_STEP_FAIL;
	if (a->meanwhile)
		a->meanwhile(a->arg);
	return a->give_up ? DB_STEP_ROLLBACK : DB_STEP_COMMIT;
}

static bool act(struct db *db, struct act a, struct fail *f)
{
	return db_txn(db,
		      &(struct db_txn){
			      .name = "act",
			      .work = act_work,
			      .arg = &a,
			      .deadline_ms = a.once ? clock_mono_ms() + 1 : 0},
		      f);
}

static bool run_add(struct db *db, struct act *a, struct fail *f)
{
	return queue_add(db, a->job, f);
}

static bool add(struct db *db, const struct job *j, struct fail *f)
{
	*f = FAIL_INIT;
	return act(db, (struct act){.job = j, .run = run_add}, f);
}

static bool run_step(struct db *db, struct act *a, struct fail *f)
{
	return queue_hold(db, a->job, a->arena, f) &&
	       queue_checkpoint(db, a->job, &a->delta, a->chunks, LEASE_MS, f);
}

static bool run_hold(struct db *db, struct act *a, struct fail *f)
{
	return queue_hold(db, a->job, a->arena, f);
}

static bool hold(struct world *w, const struct job *j, struct fail *f)
{
	*f = FAIL_INIT;
	return act(w->db,
		   (struct act){.job = j, .run = run_hold, .arena = &w->arena},
		   f);
}

/* A chunk of ten items, all accepted. */
static bool step(struct world *w, struct db *db, const struct job *j,
		 struct fail *f)
{
	*f = FAIL_INIT;
	return act(db,
		   (struct act){.job = j,
				.run = run_step,
				.arena = &w->arena,
				.delta = {.processed = 10, .accepted = 10},
				.chunks = 1},
		   f);
}

static bool run_finish(struct db *db, struct act *a, struct fail *f)
{
	return queue_finish(db, a->job, a->state, a->why, f);
}

static bool finish(struct db *db, const struct job *j, struct fail *f)
{
	*f = FAIL_INIT;
	return act(db,
		   (struct act){
			   .job = j, .run = run_finish, .state = JOB_COMPLETED},
		   f);
}

static enum queue_result claim(struct world *w, struct db *db, struct job *j)
{
	struct fail f = FAIL_INIT;
	enum queue_result got = queue_claim(db, LEASE_MS, &w->arena, j, &f);

	if (f.code)
		WANT_FAIL(&f, FAIL_NONE);
	return got;
}

/* As if the owners were silent for longer than their lease. */
static void let_leases_end(struct world *w)
{
	WANT_SQL(w, "",
		 "UPDATE job SET lease_until = NOW(6) - INTERVAL 1 SECOND "
		 "WHERE lease_until IS NOT NULL");
}

/* Q1 */
static void a_refresh_is_refused_while_any_job_of_its_lane_is_unfinished(void)
{
	struct job bulk, refresh, got;
	struct fail f;
	struct world w;

	if (!start(&w))
		return;
	bulk = a_job(&w, 1, SKUS, JOB_ITEMS);
	refresh = a_job(&w, 1, SKUS, JOB_REFRESH);
	WANT_DONE(add(w.db, &bulk, &f), &f);
	WANT(!add(w.db, &refresh, &f));
	WANT_FAIL(&f, FAIL_JOB_IN_FLIGHT);
	WANT_U64(claim(&w, w.db, &got), QUEUE_JOB);
	WANT_DONE(finish(w.db, &got, &f), &f);
	WANT_DONE(add(w.db, &refresh, &f), &f);
	WANT_SQL(&w, "1\t1", "SELECT open_jobs, open_refreshes FROM lane");
	world_close(&w);
}

/* Q1 */
static void a_bulk_is_refused_while_a_refresh_is_unfinished(void)
{
	struct job bulk, refresh;
	struct fail f;
	struct world w;

	if (!start(&w))
		return;
	refresh = a_job(&w, 1, SKUS, JOB_REFRESH);
	bulk = a_job(&w, 1, SKUS, JOB_ITEMS);
	WANT_DONE(add(w.db, &refresh, &f), &f);
	WANT(!add(w.db, &bulk, &f));
	WANT_FAIL(&f, FAIL_JOB_IN_FLIGHT);
	bulk.collection = UOMS;
	WANT_DONE(add(w.db, &bulk, &f), &f);
	bulk = a_job(&w, 2, SKUS, JOB_ITEMS);
	WANT_DONE(add(w.db, &bulk, &f), &f);
	world_close(&w);
}

/* What another session does before the first one's transaction ends. */
struct other {
	struct db *db;
	struct job job;
	bool done;
	struct fail f;
};

static void add_too(void *arg)
{
	struct other *o = arg;

	o->done =
		act(o->db,
		    (struct act){.job = &o->job, .run = run_add, .once = true},
		    &o->f);
}

/* Q1: check-then-insert would let both in. */
static void of_two_refreshes_at_once_one_is_let_in(void)
{
	struct fail f = FAIL_INIT;
	struct job refresh;
	struct other o;
	struct world w;

	if (!start(&w))
		return;
	refresh = a_job(&w, 1, SKUS, JOB_REFRESH);
	o = (struct other){.db = world_db(&w, DB_SERVICE),
			   .job = a_job(&w, 1, SKUS, JOB_REFRESH)};
	WANT_DONE(act(w.db,
		      (struct act){.job = &refresh,
				   .run = run_add,
				   .meanwhile = add_too,
				   .arg = &o},
		      &f),
		  &f);
	/* It waited for the lane and gave up, or was refused. */
	WANT(!o.done);
	WANT(!add(o.db, &o.job, &o.f));
	WANT_FAIL(&o.f, FAIL_JOB_IN_FLIGHT);
	WANT_SQL(&w, "1", "SELECT COUNT(*) FROM job");
	db_free(o.db);
	world_close(&w);
}

static bool run_check(struct db *db, struct act *a, struct fail *f)
{
	return queue_check_refresh(db, 1, SKUS, a->give_up, a->arena, f);
}

static void a_synchronous_refresh_keeps_jobs_out_until_it_is_done(void)
{
	struct fail f = FAIL_INIT;
	struct other o;
	struct world w;
	struct act check;

	if (!start(&w))
		return;
	o = (struct other){.db = world_db(&w, DB_SERVICE),
			   .job = a_job(&w, 1, SKUS, JOB_ITEMS)};
	check = (struct act){.run = run_check,
			     .arena = &w.arena,
			     .meanwhile = add_too,
			     .arg = &o};
	WANT_DONE(act(w.db, check, &f), &f);
	WANT(!o.done);
	WANT_FAIL(&o.f, FAIL_DB_BUSY);
	check.meanwhile = NULL;
	WANT_DONE(add(o.db, &o.job, &o.f), &o.f);
	WANT(!act(w.db, check, &f));
	WANT_FAIL(&f, FAIL_JOB_IN_FLIGHT);
	f = FAIL_INIT;
	check.give_up = true; /* a dry run */
	WANT(!act(w.db, check, &f));
	WANT_FAIL(&f, FAIL_JOB_IN_FLIGHT);
	db_free(o.db);
	world_close(&w);
}

/* Q1 */
static void jobs_of_a_lane_run_one_after_another_in_order_of_arrival(void)
{
	struct job first, second, got, none;
	struct fail f;
	struct world w;

	if (!start(&w))
		return;
	second = a_job(&w, 1, SKUS, JOB_ITEMS); /* the older id */
	first = a_job(&w, 1, SKUS, JOB_ITEMS);
	WANT_DONE(add(w.db, &first, &f), &f);
	WANT_DONE(add(w.db, &second, &f), &f);
	WANT_U64(claim(&w, w.db, &got), QUEUE_JOB);
	WANT(id_eq(got.job_id, first.job_id));
	WANT_U64(got.total, 20);
	WANT_U64(got.phase, JOB_APPLY);
	WANT_U64(claim(&w, w.db, &none), QUEUE_EMPTY);
	WANT_DONE(finish(w.db, &got, &f), &f);
	WANT_U64(claim(&w, w.db, &got), QUEUE_JOB);
	WANT(id_eq(got.job_id, second.job_id));
	world_close(&w);
}

static void lanes_do_not_wait_for_each_other(void)
{
	struct job skus, uoms, release, got;
	struct fail f;
	struct world w;

	if (!start(&w))
		return;
	skus = a_job(&w, 1, SKUS, JOB_ITEMS);
	uoms = a_job(&w, 1, UOMS, JOB_ITEMS);
	release = a_job(&w, 1, -1, JOB_RELEASE);
	release.filter_missing = SV("EA");
	WANT_DONE(add(w.db, &skus, &f), &f);
	WANT_DONE(add(w.db, &uoms, &f), &f);
	WANT_DONE(add(w.db, &release, &f), &f);
	for (int i = 0; i < 3; i++)
		WANT_U64(claim(&w, w.db, &got), QUEUE_JOB);
	WANT_U64(claim(&w, w.db, &got), QUEUE_EMPTY);
	WANT_SQL(&w, "2\t2", "SELECT SUM(open_jobs), COUNT(*) FROM lane");
	world_close(&w);
}

/* Q5 */
static void the_partner_who_waited_longest_is_served_next(void)
{
	static const uint32_t WANT_ORDER[] = {1, 2, 3, 1, 2};
	struct job job, got;
	struct fail f;
	struct world w;
	bool wait;

	if (!start(&w))
		return;
	for (uint32_t p = 1; p <= 3; p++) {
		job = a_job(&w, p, SKUS, JOB_ITEMS);
		WANT_DONE(add(w.db, &job, &f), &f);
		WANT_SQL(&w, "",
			 "UPDATE job SET created_at = created_at + "
			 "INTERVAL 1 SECOND WHERE partner_id = %u",
			 p);
	}
	WANT_DONE(queue_others_wait(w.db, 1, &w.arena, &wait, &f), &f);
	WANT(wait);
	for (size_t i = 0; i < ARRAY_LEN(WANT_ORDER); i++) {
		WANT_U64(claim(&w, w.db, &got), QUEUE_JOB);
		WANT_U64(got.partner_id, WANT_ORDER[i]);
		WANT_DONE(queue_give_back(w.db, &got, 0, NULL, &f), &f);
	}
	WANT_SQL(&w, "0", "SELECT SUM(attempt) FROM job");
	WANT_SQL(&w, "",
		 "UPDATE job SET not_before = NOW(6) + INTERVAL 1 HOUR "
		 "WHERE partner_id <> 1");
	WANT_DONE(queue_others_wait(w.db, 1, &w.arena, &wait, &f), &f);
	WANT(!wait);
	world_close(&w);
}

static void a_job_given_back_is_left_alone_for_a_while(void)
{
	struct job job, got;
	struct fail f;
	struct world w;

	if (!start(&w))
		return;
	job = a_job(&w, 1, SKUS, JOB_ITEMS);
	WANT_DONE(add(w.db, &job, &f), &f);
	WANT_U64(claim(&w, w.db, &got), QUEUE_JOB);
	WANT_DONE(queue_give_back(w.db, &got, 60000, "quota", &f), &f);
	WANT_SQL(&w, "1\tquota\t0",
		 "SELECT state, waiting_for, attempt FROM job");
	WANT_U64(claim(&w, w.db, &got), QUEUE_EMPTY);
	WANT_SQL(&w, "", "UPDATE job SET not_before = NOW(6)");
	WANT_U64(claim(&w, w.db, &got), QUEUE_JOB);
	WANT_SQL(&w, "2\tNULL", "SELECT state, waiting_for FROM job");
	world_close(&w);
}

/* Q2, Q3 */
static void a_late_owner_writes_nothing(void)
{
	struct job job, late, now;
	struct fail f;
	struct world w;

	if (!start(&w))
		return;
	job = a_job(&w, 1, SKUS, JOB_ITEMS);
	WANT_DONE(add(w.db, &job, &f), &f);
	WANT_U64(claim(&w, w.db, &late), QUEUE_JOB);
	WANT_U64(claim(&w, w.db, &now), QUEUE_EMPTY);
	let_leases_end(&w);
	WANT_U64(claim(&w, w.db, &now), QUEUE_JOB);
	WANT_U64(now.attempt, 1);
	WANT(!hold(&w, &late, &f));
	WANT_FAIL(&f, FAIL_FENCED);
	WANT(!step(&w, w.db, &late, &f));
	WANT_FAIL(&f, FAIL_FENCED);
	WANT(!finish(w.db, &late, &f));
	WANT_FAIL(&f, FAIL_FENCED);
	WANT(!queue_give_back(w.db, &late, 0, NULL, &f));
	WANT_FAIL(&f, FAIL_FENCED);
	WANT(!queue_reload(w.db, &late, &w.arena, &f));
	WANT_DONE(step(&w, w.db, &now, &f), &f);
	WANT_SQL(&w, "10\t10\t1\t1\t2\t0",
		 "SELECT processed, accepted, next_chunk, step, state, attempt "
		 "FROM job");
	world_close(&w);
}

/* Q4 */
static void a_step_is_done_once(void)
{
	struct job job, got;
	struct fail f;
	struct world w;

	if (!start(&w))
		return;
	job = a_job(&w, 1, SKUS, JOB_ITEMS);
	WANT_DONE(add(w.db, &job, &f), &f);
	WANT_U64(claim(&w, w.db, &got), QUEUE_JOB);
	WANT_DONE(step(&w, w.db, &got, &f), &f);
	/* As after a COMMIT whose answer was lost. */
	WANT(!hold(&w, &got, &f));
	WANT_FAIL(&f, FAIL_FENCED);
	WANT(!step(&w, w.db, &got, &f));
	WANT_FAIL(&f, FAIL_FENCED);
	f = FAIL_INIT;
	WANT_DONE(queue_reload(w.db, &got, &w.arena, &f), &f);
	WANT_U64(got.next_chunk, 1);
	WANT_U64(got.counts.accepted, 10);
	WANT_DONE(step(&w, w.db, &got, &f), &f);
	WANT_SQL(&w, "20\t2", "SELECT processed, next_chunk FROM job");
	world_close(&w);
}

/* Q3 */
static void a_job_that_loses_three_owners_is_failed_and_frees_its_lane(void)
{
	struct job job, got;
	struct fail f;
	struct world w;

	if (!start(&w))
		return;
	job = a_job(&w, 1, SKUS, JOB_REFRESH);
	WANT_DONE(add(w.db, &job, &f), &f);
	for (unsigned i = 0; i < 3; i++) {
		WANT_U64(claim(&w, w.db, &got), QUEUE_JOB);
		WANT_U64(got.attempt, i);
		let_leases_end(&w);
	}
	WANT_U64(claim(&w, w.db, &got), QUEUE_EMPTY);
	WANT_SQL(&w,
		 "4\tworker-lost\t3 workers were lost at chunk 0 of 2, after 0 "
		 "of 20 items\t1\tNULL",
		 "SELECT state, error_slug, error_detail, finished_at IS NOT "
		 "NULL, open_as FROM job");
	WANT_SQL(&w, "0\t0", "SELECT open_jobs, open_refreshes FROM lane");
	world_close(&w);
}

/* Q3 */
static void a_checkpoint_forgives_lost_owners(void)
{
	struct job job, got;
	struct fail f;
	struct world w;

	if (!start(&w))
		return;
	job = a_job(&w, 1, SKUS, JOB_ITEMS);
	WANT_DONE(add(w.db, &job, &f), &f);
	for (unsigned i = 0; i < 6; i++) {
		WANT_U64(claim(&w, w.db, &got), QUEUE_JOB);
		if (i % 2)
			WANT_DONE(step(&w, w.db, &got, &f), &f);
		let_leases_end(&w);
	}
	WANT_SQL(&w, "2\t0", "SELECT state, attempt FROM job");
	world_close(&w);
}

static void three_strikes_fail_a_job_with_their_reason(void)
{
	struct fail why = FAIL_INIT, f;
	struct job job, got;
	struct world w;

	if (!start(&w))
		return;
	fail_set(&why, FAIL_DB_REFUSED, "no room");
	job = a_job(&w, 1, SKUS, JOB_ITEMS);
	WANT_DONE(add(w.db, &job, &f), &f);
	for (unsigned i = 0; i < 3; i++) {
		WANT_U64(claim(&w, w.db, &got), QUEUE_JOB);
		WANT_DONE(queue_strike(w.db, &got, 0, &why, &f), &f);
	}
	WANT_SQL(&w, "4\tdatabase-refused\tno room",
		 "SELECT state, error_slug, error_detail FROM job");
	WANT_SQL(&w, "0", "SELECT open_jobs FROM lane");
	world_close(&w);
}

static bool run_cancel(struct db *db, struct act *a, struct fail *f)
{
	return queue_cancel(db, a->job->partner_id, a->job->job_id, a->arena,
			    a->arg, f);
}

static enum job_state cancel(struct world *w, const struct job *j,
			     struct fail *f)
{
	enum job_state state = (enum job_state)0;
	struct act a = {
		.job = j, .run = run_cancel, .arena = &w->arena, .arg = &state};

	*f = FAIL_INIT;
	return act(w->db, a, f) ? state : (enum job_state)0;
}

static void a_queued_job_is_cancelled_at_once_a_running_one_is_asked(void)
{
	struct job running, queued, got;
	struct fail f;
	struct world w;

	if (!start(&w))
		return;
	running = a_job(&w, 1, SKUS, JOB_ITEMS);
	queued = a_job(&w, 1, SKUS, JOB_ITEMS);
	WANT_DONE(add(w.db, &running, &f), &f);
	WANT_DONE(add(w.db, &queued, &f), &f);
	WANT_U64(claim(&w, w.db, &got), QUEUE_JOB);
	WANT_U64(cancel(&w, &queued, &f), JOB_CANCELLED);
	WANT_SQL(&w, "1", "SELECT open_jobs FROM lane");
	WANT_U64(cancel(&w, &running, &f), JOB_RUNNING);
	WANT_DONE(queue_reload(w.db, &got, &w.arena, &f), &f);
	WANT(got.cancel_requested);
	WANT_DONE(finish(w.db, &got, &f), &f);
	WANT_U64(cancel(&w, &running, &f), JOB_COMPLETED);
	running.partner_id = 2;
	WANT_U64(cancel(&w, &running, &f), 0);
	WANT_FAIL(&f, FAIL_NOT_FOUND);
	world_close(&w);
}

/* Q2: each of two sessions gets each job at most once. */
static void two_workers_never_get_the_same_job(void)
{
	struct job job, got[2];
	struct fail f;
	struct world w;
	struct db *db;

	if (!start(&w))
		return;
	db = world_db(&w, DB_SERVICE);
	for (uint32_t p = 1; p <= 6; p++) {
		job = a_job(&w, p, SKUS, JOB_ITEMS);
		WANT_DONE(add(w.db, &job, &f), &f);
	}
	for (int i = 0; i < 3; i++) {
		WANT_U64(claim(&w, w.db, &got[0]), QUEUE_JOB);
		WANT_U64(claim(&w, db, &got[1]), QUEUE_JOB);
		WANT(!id_eq(got[0].job_id, got[1].job_id));
	}
	WANT_U64(claim(&w, db, &got[0]), QUEUE_EMPTY);
	WANT_SQL(&w, "6\t6",
		 "SELECT COUNT(*), COUNT(DISTINCT token) FROM job "
		 "WHERE state = 2");
	db_free(db);
	world_close(&w);
}

void suite_queue(void)
{
	ADD(a_refresh_is_refused_while_any_job_of_its_lane_is_unfinished);
	ADD(a_bulk_is_refused_while_a_refresh_is_unfinished);
	ADD(of_two_refreshes_at_once_one_is_let_in);
	ADD(a_synchronous_refresh_keeps_jobs_out_until_it_is_done);
	ADD(jobs_of_a_lane_run_one_after_another_in_order_of_arrival);
	ADD(lanes_do_not_wait_for_each_other);
	ADD(the_partner_who_waited_longest_is_served_next);
	ADD(a_job_given_back_is_left_alone_for_a_while);
	ADD(a_late_owner_writes_nothing);
	ADD(a_step_is_done_once);
	ADD(a_job_that_loses_three_owners_is_failed_and_frees_its_lane);
	ADD(a_checkpoint_forgives_lost_owners);
	ADD(three_strikes_fail_a_job_with_their_reason);
	ADD(a_queued_job_is_cancelled_at_once_a_running_one_is_asked);
	ADD(two_workers_never_get_the_same_job);
}
