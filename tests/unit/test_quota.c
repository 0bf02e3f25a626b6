/* gate/quota on a real server: U1 to U4. Charges here stand alone, without
 * items. Each test has a partner of its own: a process remembers partners. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "gate/quota.h"
#include "job/queue.h"

enum {
	PROCESSES = 8,
	CROWD = 20, /* the first of the partners that all of them charge */
	CROWDS = 4,
	CROWD_LIMIT = 2000,
	FEW = 7,   /* quota_fast_max(CROWD_LIMIT) */
	MANY = 30, /* above it: many are strict from the beginning */
	LARGE = 1000000,
};

static bool start(struct world *w)
{
	if (!world_exists())
		return false;
	world_open(w);
	world_migrate(w);
	return true;
}

/* One transaction that charges something, or is refused. */
struct charge {
	struct quota q;
	uint64_t most, charged;
	struct arena *arena;
	void (*meanwhile)(struct charge *c); /* after quota_begin() */
	struct world *w;
	unsigned attempts;
	bool refused, give_up;
	bool meanwhile_ok;
};

static enum db_step charge_work(struct db *db, const struct db_attempt *at,
				void *arg, struct fail *f)
{
	struct charge *c = arg;

	c->attempts = at->no;
	c->refused = false;
	switch (quota_begin(db, &c->q, c->most, c->arena, f)) {
	case QUOTA_GO:
		break;
	case QUOTA_AGAIN:
		return DB_STEP_AGAIN;
	case QUOTA_FAIL:
		return DB_STEP_FAIL;
	}
	if (c->meanwhile)
		c->meanwhile(c);
	if (c->charged > c->q.room) {
		c->refused = true;
		quota_refused(&c->q, c->charged, "request", f);
		return DB_STEP_FAIL;
	}
	if (!quota_charge(db, &c->q, c->charged, f))
		return DB_STEP_FAIL;
	return c->give_up ? DB_STEP_ROLLBACK : DB_STEP_COMMIT;
}

/* Waits for a lock once, and then gives up. */
static bool run_once(struct db *db, struct charge *c, struct fail *f)
{
	return db_txn(db,
		      &(struct db_txn){.name = "test.charge",
				       .work = charge_work,
				       .arg = c,
				       .deadline_ms = clock_mono_ms() + 500},
		      f);
}

static bool run(struct db *db, struct charge *c, struct fail *f)
{
	return db_txn(db,
		      &(struct db_txn){.name = "test.charge",
				       .work = charge_work,
				       .arg = c},
		      f);
}

static struct charge a_charge(struct world *w, uint32_t partner, uint64_t limit,
			      uint64_t most, uint64_t charged)
{
	return (struct charge){.q = {.partner_id = partner, .limit = limit},
			       .most = most,
			       .charged = charged,
			       .arena = &w->arena,
			       .w = w};
}

static uint64_t used(struct world *w, uint32_t partner, uint64_t limit)
{
	struct fail f = FAIL_INIT;
	struct quota_state s = {0};

	WANT_DONE(quota_look(w->db, partner, limit, &w->arena, &s, &f), &f);
	return s.used;
}

/* As if so much had been charged today. */
static void use(struct world *w, uint32_t partner, uint64_t n)
{
	world_sql(w,
		  "INSERT INTO quota_use VALUES (%" PRIu32
		  ", TIMESTAMPDIFF(DAY, '1970-01-01', UTC_TIMESTAMP()), 0, "
		  "%" PRIu64 ", 1)",
		  partner, n);
}

static void fast_meanwhile(struct charge *c)
{
	struct db *other = world_db(c->w, DB_SERVICE);
	struct charge b = a_charge(c->w, c->q.partner_id, c->q.limit, 10, 10);
	struct fail f = FAIL_INIT;

	c->meanwhile_ok = run_once(other, &b, &f) && !b.q.strict;
	db_free(other);
}

static void fast_ones_of_a_partner_do_not_wait_for_each_other(void)
{
	struct fail f = FAIL_INIT;
	struct charge c;
	struct world w;

	if (!start(&w))
		return;
	c = a_charge(&w, 1, LARGE, 5, 5);
	c.meanwhile = fast_meanwhile;
	WANT_DONE(run(w.db, &c, &f), &f);
	WANT(c.meanwhile_ok);
	WANT(!c.q.strict);
	WANT_U64(used(&w, 1, LARGE), 15);
	world_close(&w);
}

/* More than a fast one may take. */
static void strict_meanwhile(struct charge *c)
{
	struct db *other = world_db(c->w, DB_SERVICE);
	struct charge b = a_charge(c->w, c->q.partner_id, c->q.limit, 5000, 1);
	struct fail f = FAIL_INIT;

	c->meanwhile_ok = !run_once(other, &b, &f) && b.q.strict;
	WANT_FAIL(&f, FAIL_DB_BUSY);
	db_free(other);
}

static void a_strict_one_waits_for_the_fast_ones(void)
{
	struct fail f = FAIL_INIT;
	struct charge c;
	struct world w;

	if (!start(&w))
		return;
	c = a_charge(&w, 2, LARGE, 5, 5);
	c.meanwhile = strict_meanwhile;
	WANT_DONE(run(w.db, &c, &f), &f);
	WANT(c.meanwhile_ok);
	WANT_U64(used(&w, 2, LARGE), 5);
	world_close(&w);
}

static void fast_is_kept_out(struct charge *c)
{
	struct db *other = world_db(c->w, DB_SERVICE);
	struct charge b = a_charge(c->w, c->q.partner_id, c->q.limit, 1, 1);
	struct fail f = FAIL_INIT;

	c->meanwhile_ok = !run_once(other, &b, &f) && !b.q.strict;
	WANT_FAIL(&f, FAIL_DB_BUSY);
	db_free(other);
}

/* On a day of which there is no row. */
static void a_strict_one_takes_slots_that_are_not_there_yet(void)
{
	struct fail f = FAIL_INIT;
	struct charge c;
	struct world w;

	if (!start(&w))
		return;
	c = a_charge(&w, 3, LARGE, 5000, 7);
	c.meanwhile = fast_is_kept_out;
	WANT_DONE(run(w.db, &c, &f), &f);
	WANT(c.q.strict);
	WANT(c.meanwhile_ok);
	WANT_U64(used(&w, 3, LARGE), 7);
	world_close(&w);
}

static void a_fast_one_leaves_room_for_all_that_is_unseen(void)
{
	uint64_t limit = 25600, most = quota_fast_max(25600);
	uint64_t edge = limit - QUOTA_SLOTS * most - most;
	struct fail f = FAIL_INIT;
	struct charge c;
	struct world w;

	if (!start(&w))
		return;
	WANT_U64(most, 100);
	use(&w, 4, edge);
	c = a_charge(&w, 4, limit, most, most);
	WANT_DONE(run(w.db, &c, &f), &f);
	WANT(!c.q.strict);
	WANT_U64(c.attempts, 1);
	c = a_charge(&w, 4, limit, 1, 1);
	WANT_DONE(run(w.db, &c, &f), &f);
	WANT(c.q.strict);
	WANT_U64(c.attempts, 2);
	WANT_U64(used(&w, 4, limit), edge + most + 1);
	world_close(&w);
}

/* U1: who still has the lower limit leaves room for what those with the higher
 * one may have taken, unseen. */
static void a_fast_one_leaves_room_for_those_of_a_higher_limit(void)
{
	uint64_t low = 511, high = 512;
	uint64_t unseen = (QUOTA_SLOTS - 1) * quota_fast_max(high);
	struct fail f = FAIL_INIT;
	struct charge c;
	struct world w;

	if (!start(&w))
		return;
	use(&w, 9, high - unseen);
	c = a_charge(&w, 9, low, 1, 1);
	WANT_DONE(run(w.db, &c, &f), &f);
	WANT(c.q.strict);
	world_close(&w);
}

static void the_last_stretch_is_remembered_until_there_is_room(void)
{
	struct fail f = FAIL_INIT;
	struct charge c;
	struct world w;

	if (!start(&w))
		return;
	use(&w, 5, 25000);
	for (unsigned i = 0; i < 2; i++) {
		c = a_charge(&w, 5, 25600, 1, 1);
		WANT_DONE(run(w.db, &c, &f), &f);
		WANT(c.q.strict);
		WANT_U64(c.attempts, i ? 1 : 2);
	}
	/* The operator has raised it: once more strict, then no longer. */
	for (unsigned i = 0; i < 2; i++) {
		c = a_charge(&w, 5, LARGE, 1, 1);
		WANT_DONE(run(w.db, &c, &f), &f);
		WANT(c.q.strict == !i);
		WANT_U64(c.attempts, 1);
	}
	world_close(&w);
}

static void what_turns_out_to_be_free_is_not_charged(void)
{
	struct fail f = FAIL_INIT;
	struct charge c;
	struct world w;

	if (!start(&w))
		return;
	c = a_charge(&w, 6, LARGE, 50, 20);
	WANT_DONE(run(w.db, &c, &f), &f);
	WANT(!c.q.strict);
	WANT_U64(c.q.state.used, 20);
	WANT_U64(c.q.state.remaining, LARGE - 20);
	c = a_charge(&w, 6, LARGE, 5000, 3);
	WANT_DONE(run(w.db, &c, &f), &f);
	WANT(c.q.strict);
	WANT_U64(c.q.state.used, 23);
	c = a_charge(&w, 6, LARGE, 50, 0);
	WANT_DONE(run(w.db, &c, &f), &f);
	c = a_charge(&w, 6, LARGE, 50, 50);
	c.give_up = true;
	WANT_DONE(run(w.db, &c, &f), &f);
	WANT_U64(used(&w, 6, LARGE), 23);
	world_close(&w);
}

static void the_last_item_fits_and_one_more_does_not(void)
{
	struct fail f = FAIL_INIT;
	struct charge c;
	struct world w;

	if (!start(&w))
		return;
	use(&w, 7, 95);
	c = a_charge(&w, 7, 100, 10, 6);
	WANT(!run(w.db, &c, &f));
	WANT(c.refused && !c.q.never);
	WANT_FAIL(&f, FAIL_QUOTA_EXHAUSTED);
	WANT(f.retry_after_s > 0 && f.retry_after_s <= 86400);
	WANT_U64(c.q.state.remaining, 5);
	c = a_charge(&w, 7, 100, 10, 5);
	f = FAIL_INIT;
	WANT_DONE(run(w.db, &c, &f), &f);
	WANT_U64(used(&w, 7, 100), 100);
	c = a_charge(&w, 7, 100, 500, 101);
	WANT(!run(w.db, &c, &f));
	WANT(c.q.never);
	/* What is free goes on. */
	c = a_charge(&w, 7, 100, 500, 0);
	f = FAIL_INIT;
	WANT_DONE(run(w.db, &c, &f), &f);
	/* A limit below what is used leaves no room, and wraps nowhere. */
	c = a_charge(&w, 7, 50, 1, 1);
	WANT(!run(w.db, &c, &f));
	WANT_U64(c.q.room, 0);
	WANT_U64(used(&w, 7, 100), 100);
	world_close(&w);
}

/* U3: a process whose clock is a day behind. */
static void the_day_is_the_databases(void)
{
	uint32_t today;
	struct fail f = FAIL_INIT;
	struct charge c;
	struct world w;

	if (!start(&w))
		return;
	today = clock_day(db_wall_ms(w.db));
	for (unsigned strict = 0; strict < 2; strict++) {
		c = a_charge(&w, 8, LARGE, 5, 5);
		c.q.begun = true;
		c.q.strict = strict;
		c.q.day = today - 1;
		WANT_DONE(run(w.db, &c, &f), &f);
		WANT_U64(c.attempts, 2);
		WANT_U64(c.q.day, today);
	}
	WANT_U64(used(&w, 8, LARGE), 10);
	WANT_SQL(&w, "0",
		 "SELECT COUNT(*) FROM quota_use WHERE day <> %" PRIu32, today);
	world_close(&w);
}

/* Charges until nothing is left: until one item alone is refused. */
static bool charge_all(struct world *w, struct db *db, uint32_t partner,
		       uint64_t most)
{
	uint16_t dice[2];

	for (;;) {
		struct fail f = FAIL_INIT;
		struct charge c;

		arena_reset(&w->arena);
		digest_random(dice, sizeof(dice));
		c = a_charge(w, partner, CROWD_LIMIT, 1 + dice[0] % most, 1);
		if (most > 1)
			c.charged = c.most - dice[1] % (c.most + 1) / 2;
		if (run(db, &c, &f))
			continue;
		if (c.refused && most == 1)
			return true;
		if (!c.refused && f.code != FAIL_DB_BUSY)
			return false;
		if (c.refused)
			most = 1;
	}
}

static int one_of_the_crowd(struct world *w, uint64_t most)
{
	struct db *db = world_db(w, DB_SERVICE);

	for (uint32_t i = 0; i < CROWDS; i++)
		if (!charge_all(w, db, CROWD + i, most))
			return 1;
	db_free(db);
	return 0;
}

/* Looks at all of them all the while. */
static int watch(struct world *w)
{
	struct db *db = world_db(w, DB_SERVICE);
	struct fail f = FAIL_INIT;
	uint64_t looks = 0;

	for (uint32_t i = 0; i < CROWDS;) {
		struct quota_state s;

		arena_reset(&w->arena);
		if (!quota_look(db, CROWD + i, CROWD_LIMIT, &w->arena, &s, &f))
			return 1;
		if (s.used > CROWD_LIMIT)
			return 2;
		i += s.used == CROWD_LIMIT;
		looks++;
	}
	db_free(db);
	return looks > CROWDS ? 0 : 3;
}

static void a_crowd_charges_exactly_the_limit(void)
{
	pid_t pids[PROCESSES + 1];
	struct world w;
	int status;

	if (!start(&w))
		return;
	WANT_U64(quota_fast_max(CROWD_LIMIT), FEW);
	for (unsigned i = 0; i <= PROCESSES; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			arena_init(&w.arena, 4096);
			_exit(!i ? watch(&w)
				 : one_of_the_crowd(&w, i > 2 ? FEW : MANY));
		}
	}
	for (unsigned i = 0; i <= PROCESSES; i++) {
		WANT(waitpid(pids[i], &status, 0) == pids[i]);
		WANT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	for (uint32_t i = 0; i < CROWDS; i++)
		WANT_U64(used(&w, CROWD + i, CROWD_LIMIT), CROWD_LIMIT);
	world_close(&w);
}

static void old_days_are_swept_and_the_rest_is_kept(void)
{
	struct fail f = FAIL_INIT;
	struct world w;
	uint64_t swept;

	if (!start(&w))
		return;
	world_sql(&w,
		  "INSERT INTO quota_use WITH d AS (SELECT 0 AS n UNION ALL "
		  "SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL "
		  "SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL "
		  "SELECT 7) SELECT 1, 100, a.n + 8 * b.n + 64 * c.n + "
		  "512 * d.n, 1, 1 FROM d a, d b, d c, d; "
		  "INSERT INTO quota_use VALUES (1, 101, 0, 5, 1)");
	WANT_DONE(quota_sweep(w.db, 101, &swept, &f), &f);
	WANT_U64(swept, 4096);
	WANT_SQL(&w, "101\t5", "SELECT day, used FROM quota_use");
	world_close(&w);
}

/* Jobs that wait for it. */

struct job_act {
	struct job *job;
	struct arena *arena;
	bool wake;
};

static enum db_step job_work(struct db *db, const struct db_attempt *at,
			     void *arg, struct fail *f)
{
	struct job_act *j = arg;

	(void)at;
	if (j->wake ? queue_wake(db, j->job->partner_id, j->arena, f)
		    : queue_add(db, j->job, f))
		return DB_STEP_COMMIT;
	return DB_STEP_FAIL;
}

static void job_txn(struct world *w, struct job *job, bool wake)
{
	struct job_act act = {job, &w->arena, wake};
	struct fail f = FAIL_INIT;

	WANT_DONE(db_txn(w->db,
			 &(struct db_txn){.name = "test.job",
					  .work = job_work,
					  .arg = &act},
			 &f),
		  &f);
}

/* A job of partner 1, which has a quota of 10; ours. */
static struct job claimed(struct world *w)
{
	struct job j = {.partner_id = 1,
			.job_id = id_new(db_wall_ms(w->db)),
			.batch_id = id_new(db_wall_ms(w->db)),
			.kind = JOB_ITEMS,
			.mode = 3,
			.chunk_count = 1,
			.total = 1};
	struct fail f = FAIL_INIT;

	world_sql(w, "INSERT INTO partner VALUES (1, 'ACME', 'ACTIVE', NULL, "
		     "NULL, 10, 0, 0, 0, NOW(), NOW())");
	job_txn(w, &j, false);
	WANT(queue_claim(w->db, 60000, &w->arena, &j, &f) == QUEUE_JOB);
	WANT(j.has_quota);
	WANT_U64(j.quota_items, 10);
	return j;
}

static void a_job_that_waits_is_nobodys_and_is_woken(void)
{
	struct fail f = FAIL_INIT;
	struct world w;
	struct job j;

	if (!start(&w))
		return;
	j = claimed(&w);
	WANT_DONE(queue_give_back(w.db, &j, 3600000, "quota", &f), &f);
	WANT_SQL(&w, "1\t0\tquota\t1",
		 "SELECT state, attempt, waiting_for, "
		 "not_before > NOW(6) FROM job");
	WANT(queue_claim(w.db, 60000, &w.arena, &j, &f) == QUEUE_EMPTY);
	j.partner_id = 2;
	job_txn(&w, &j, true);
	WANT(queue_claim(w.db, 60000, &w.arena, &j, &f) == QUEUE_EMPTY);
	j.partner_id = 1;
	job_txn(&w, &j, true);
	WANT(queue_claim(w.db, 60000, &w.arena, &j, &f) == QUEUE_JOB);
	WANT_U64(j.attempt, 0);
	world_close(&w);
}

/* Raised between the refusal and the giving back: nobody would wake it. */
static void a_job_does_not_wait_for_a_quota_that_has_changed(void)
{
	struct fail f = FAIL_INIT;
	struct world w;
	struct job j;

	if (!start(&w))
		return;
	j = claimed(&w);
	world_sql(&w, "UPDATE partner SET quota_items_per_day = 20");
	WANT_DONE(queue_give_back(w.db, &j, 3600000, "quota", &f), &f);
	WANT_SQL(&w, "NULL", "SELECT waiting_for FROM job");
	WANT(queue_claim(w.db, 60000, &w.arena, &j, &f) == QUEUE_JOB);
	WANT_U64(j.quota_items, 20);
	world_sql(&w, "UPDATE partner SET quota_items_per_day = NULL");
	WANT_DONE(queue_give_back(w.db, &j, 3600000, "quota", &f), &f);
	WANT(queue_claim(w.db, 60000, &w.arena, &j, &f) == QUEUE_JOB);
	WANT(!j.has_quota);
	world_close(&w);
}

void suite_quota(void)
{
	ADD(fast_ones_of_a_partner_do_not_wait_for_each_other);
	ADD(a_strict_one_waits_for_the_fast_ones);
	ADD(a_strict_one_takes_slots_that_are_not_there_yet);
	ADD(a_fast_one_leaves_room_for_all_that_is_unseen);
	ADD(a_fast_one_leaves_room_for_those_of_a_higher_limit);
	ADD(the_last_stretch_is_remembered_until_there_is_room);
	ADD(what_turns_out_to_be_free_is_not_charged);
	ADD(the_last_item_fits_and_one_more_does_not);
	ADD(the_day_is_the_databases);
	ADD(a_crowd_charges_exactly_the_limit);
	ADD(old_days_are_swept_and_the_rest_is_kept);
	ADD(a_job_that_waits_is_nobodys_and_is_woken);
	ADD(a_job_does_not_wait_for_a_quota_that_has_changed);
}
