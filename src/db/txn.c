/* Transactions: the only place that retries. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "db_private.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/metric.h"

enum { ATTEMPTS_MAX = 8, JITTER_MS = 10, JITTER_DOUBLINGS = 4 };

/* How one run of work() ended. */
enum outcome {
	RUN_DONE,
	RUN_RACED,  /* DB_STEP_AGAIN */
	RUN_FAILED, /* db_last_class() says whether to run again */
	RUN_NO_CONNECTION,
};

/* Leaves no transaction behind: by ROLLBACK, or by closing. */
static void end_without_commit(struct db *db)
{
	struct fail ignored = FAIL_INIT;
	enum db_class class = db->last_class;
	unsigned code = db->last_code;

	if (!db->unusable && db->ran &&
	    !db_run_text(db, STMT_ROLLBACK, &ignored))
		db->unusable = true;
	db->last_class = class;
	db->last_code = code;
	if (db->unusable)
		db_disconnect(db);
	else
		db->state = DB_IDLE;
	db->used_ms = clock_mono_ms();
}

static enum outcome commit(struct db *db, const struct db_txn *t,
			   struct fail *f)
{
	if (db->state == DB_FAILED)
		bug("%s: COMMIT after an error", t->name);
	if (db->ran && !db_run_text(db, STMT_COMMIT, f)) {
		db->state = DB_FAILED;
		end_without_commit(db);
		return RUN_FAILED;
	}
	db->state = DB_IDLE;
	db->used_ms = clock_mono_ms();
	return RUN_DONE;
}

static enum outcome run_once(struct db *db, const struct db_txn *t,
			     const struct db_attempt *at, struct fail *f)
{
	enum db_step step;

	if (at->no > 1)
		*f = FAIL_INIT;
	if (!db_ready(db, f))
		return RUN_NO_CONNECTION;
	db->state = DB_OPEN;
	db->ran = 0;
	db->last_code = 0;
	db->last_class = DB_OK;
	if (!db_lock_wait(db, db_lock_wait_default_s(db), f)) {
		end_without_commit(db);
		return RUN_FAILED;
	}
	step = t->work(db, at, t->arg, f);
	if (step == DB_STEP_COMMIT)
		return commit(db, t, f);
	end_without_commit(db);
	switch (step) {
	case DB_STEP_ROLLBACK:
		return RUN_DONE;
	case DB_STEP_AGAIN:
		return RUN_RACED;
	case DB_STEP_FAIL:
		return RUN_FAILED;
	case DB_STEP_COMMIT:
		break;
	}
	bug("%s: step %d", t->name, (int)step);
}

static bool class_is_retried(enum db_class c, bool rerun)
{
	switch (c) {
	case DB_ROLLED_BACK:
	case DB_STATEMENT:
	case DB_LOCK_WAIT:
	case DB_LOST:
		return true;
	case DB_COMMIT_UNKNOWN:
		return rerun;
	case DB_OK:
	case DB_NOT_EXECUTED:
	case DB_DUPLICATE:
	case DB_OPERATOR:
		return false;
	}
	bug("class %d", (int)c);
}

/* A random part of 10, 20, 40, 80, 160 ms and so on with that. */
static uint64_t jitter_ms(unsigned no)
{
	unsigned doublings =
		no - 1 < JITTER_DOUBLINGS ? no - 1 : JITTER_DOUBLINGS;
	uint16_t r;

	digest_random(&r, sizeof(r));
	return 1 + r % ((uint64_t)JITTER_MS << doublings);
}

/* false: no attempt or no time is left. */
static bool wait_for_next(const struct db_txn *t, const struct db_attempt *at)
{
	uint64_t ms = jitter_ms(at->no);

	if (at->no >= ATTEMPTS_MAX)
		return false;
	if (t->deadline_ms && clock_mono_ms() + ms >= t->deadline_ms)
		return false;
	clock_sleep_ms(ms);
	return true;
}

/* An error of the database that ends a transaction of which an earlier COMMIT
 * is in doubt leaves it in doubt. */
static bool give_up(struct db *db, const struct db_attempt *at,
		    enum outcome how, struct fail *f)
{
	char log[sizeof(f->log)];

	if (how == RUN_RACED) {
		db->last_class = DB_ROLLED_BACK;
		fail_set(f, FAIL_DB_BUSY, "others changed the same rows");
	}
	if (at->maybe_committed && db->last_class != DB_OK &&
	    db->last_class != DB_DUPLICATE) {
		memcpy(log, f->log, sizeof(log));
		db->last_class = DB_COMMIT_UNKNOWN;
		fail_set(f, FAIL_COMMIT_UNKNOWN,
			 "the connection broke at COMMIT");
		fail_log(f, "%s", log);
	}
	if (fail_info(f->code)->status == 503 && !f->retry_after_s)
		f->retry_after_s = db->conf->retry_after_ms / 1000;
	return false;
}

bool db_txn(struct db *db, const struct db_txn *t, struct fail *f)
{
	struct db_attempt at = {.no = 1};

	if (db_in_txn(db))
		bug("%s: a transaction inside another", t->name);
	for (;; at.no++) {
		enum outcome how = run_once(db, t, &at, f);

		if (how == RUN_DONE)
			return true;
		if (how == RUN_NO_CONNECTION ||
		    (how == RUN_FAILED &&
		     !class_is_retried(db->last_class, t->rerun)))
			return give_up(db, &at, how, f);
		if (how == RUN_FAILED && db->last_class == DB_COMMIT_UNKNOWN)
			at.maybe_committed = true;
		if (!wait_for_next(t, &at))
			return give_up(db, &at, how, f);
		metric_add(METRIC_DB_RETRIES, 1,
			   how == RUN_RACED ? "raced"
					    : errmap_name(db->last_class));
	}
}

static enum db_step read_work(struct db *db, const struct db_attempt *at,
			      void *arg, struct fail *f)
{
	const struct db_read *r = arg;
	bool ok;

	(void)at;
	ok = r->keys ? db_keys_query(db, r->id, r->args, r->keys, r->count,
				     r->arena, r->table_r, f)
		     : db_query(db, r->id, r->args, r->arena, r->table_r, f);
	return ok ? DB_STEP_ROLLBACK : DB_STEP_FAIL;
}

bool db_read_alone(struct db *db, struct db_read *r, struct fail *f)
{
	return db_txn(db,
		      &(struct db_txn){.name = STMT_TABLE[r->id].name,
				       .work = read_work,
				       .arg = r},
		      f);
}
