/* Requests that have a key. The guarantees R1 to R4 stand in the header. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/keyed.h"

#include "api/receive.h"
#include "api/respond.h"
#include "api/route.h"
#include "base/clock.h"
#include "base/metric.h"
#include "gate/inflight.h"
#include "gate/reqkey.h"
#include "wire/json.h"

enum {
	/* Kept free before the deadline for the work after a wait. */
	RESERVE_MS = 2000,
	IO_RESERVE_MS = 1000, /* an answer of the server comes in time */
	SURPRISES_MAX = 3,
	TURN_MS = 20, /* how often one who waits looks */
	PATH_SHOWN = 160,
};

/* How the transaction ended, if it did not fail. */
enum ending { ENDED_OURS, ENDED_DONE, ENDED_BUSY };

struct run {
	struct keyed *k;
	struct reqkey key;
	unsigned wait_s; /* of this claim */
	enum ending ending;
};

static struct reqkey key_of(const struct exchange *x)
{
	return (struct reqkey){.partner_id = x->who.partner_id,
			       .surface = REQKEY_WMS_INGEST,
			       .correlation = x->correlation,
			       .collection = -1,
			       .warehouses = x->who.warehouses,
			       .method = x->http->method_text,
			       .path = x->http->path,
			       .retention_ms = x->conf->retention_ms};
}

/* A kept answer is for those who could have asked for it: it tells what was
 * held of all that its sender may see. */
static bool may_have(const struct exchange *x,
		     const struct reqkey_stored *stored, struct fail *f)
{
	unsigned scope = AUTH_SCOPE_ADMIN;

	switch ((enum batch_mode)stored->mode) {
	case BATCH_UPSERT:
	case BATCH_REFRESH:
	case BATCH_BULK:
		scope = AUTH_SCOPE_INGEST;
		break;
	case BATCH_RELEASE:
	case BATCH_DISCARD:
	case BATCH_UNDO:
	case BATCH_CANCEL:
		break;
	}
	if (!(x->who.scopes & scope))
		return fail_set(f, FAIL_FORBIDDEN,
				"the answer kept for this key needs the scope "
				"\"%s\"",
				auth_scope_name((enum auth_scope)scope));
	return scope_covers(x->scope, stored->collection, stored->warehouses) ||
	       fail_set(f, FAIL_CROSS_WAREHOUSE,
			"the answer kept for this key was given to a "
			"credential for other warehouses");
}

static void empty_answer(struct exchange *x)
{
	x->answer.status = 200;
	buf_reset(&x->answer.headers);
	buf_reset(&x->answer.body);
}

void keyed_job_headers(struct exchange *x)
{
	struct json_limits limits = {.depth_max = 4, .names_max = 16};
	struct fail ignored = FAIL_INIT;
	struct json_tape tape;
	uint32_t url;

	if (!json_read(x->arena, buf_sv(&x->answer.body), &limits, &tape,
		       &ignored))
		return;
	url = json_find(&tape, 0, SV("status_url"));
	if (!url || json_kind(&tape, url) != JSON_STRING)
		return;
	respond_header(&x->answer, "Location", json_text(x->arena, &tape, url));
	respond_header(&x->answer, "Retry-After", SV("1"));
}

/* Status and body as they were. Headers that say more than these two are made
 * anew from them. */
static void give_stored(struct exchange *x, const struct reqkey_stored *stored)
{
	empty_answer(x);
	x->answer.status = stored->status;
	buf_add(&x->answer.body, stored->body);
	if (stored->status == 202)
		keyed_job_headers(x);
	x->answered = true;
}

static void give_replay(struct exchange *x, const struct reqkey_stored *stored)
{
	char date[CLOCK_HTTP];

	give_stored(x, stored);
	clock_http_date(stored->expires_wall_ms, date);
	respond_header(&x->answer, "Idempotent-Replayed", SV("true"));
	respond_header(&x->answer, "Idempotency-Expires", sv_of(date));
	if (x->mismatch)
		respond_header(&x->answer, "X-Correlation-Mismatch",
			       SV("true"));
	x->replayed = true;
	metric_add(METRIC_REPLAYS, 1);
}

/* The detail quotes a path that somebody sent: it is not for the log. */
static bool reused(struct exchange *x, const struct reqkey_stored *stored,
		   const char *what, struct fail *f)
{
	char when[CLOCK_TEXT];

	clock_rfc3339(stored->created_wall_ms, when);
	if (!stored->path.p)
		return fail_set(f, FAIL_CORRELATION_REUSED,
				"this correlation id was first used at %s by a "
				"request with another %s",
				when, what);
	x->first_use.method = stored->method;
	x->first_use.path = stored->path;
	x->first_use.wall_ms = stored->created_wall_ms;
	fail_set(f, FAIL_CORRELATION_REUSED,
		 "this correlation id was first used at %s for %.*s %.*s; this "
		 "request has another %s",
		 when, SV_ARG(stored->method),
		 SV_ARG(sv_from(stored->path.p, stored->path.n < PATH_SHOWN
							? stored->path.n
							: PATH_SHOWN)),
		 what);
	f->quotes = true;
	return false;
}

/* A body that could not be read to its end counts as another one. */
static bool replay(struct exchange *x, const struct reqkey_stored *stored,
		   struct fail *f)
{
	struct reqkey key = key_of(x);

	if (!may_have(x, stored, f))
		return false;
	x->mismatch = !x->has_fingerprint ||
		      memcmp(x->fingerprint, stored->fingerprint,
			     sizeof(x->fingerprint)) != 0;
	if (x->mismatch)
		metric_add(METRIC_CORRELATION_MISMATCHES, 1);
	if (reqkey_other_route(&key, stored))
		return reused(x, stored, "method or path", f);
	if (x->mismatch && x->who.is_strict)
		return reused(x, stored, "query or body", f);
	give_replay(x, stored);
	return true;
}

static bool read_and_replay(struct exchange *x,
			    const struct reqkey_stored *stored, struct fail *f)
{
	struct fail ignored = FAIL_INIT;

	if (!receive_anything(x, &ignored))
		x->has_fingerprint = false;
	return replay(x, stored, f);
}

bool keyed_replay(struct exchange *x, struct fail *f)
{
	struct reqkey_stored stored;
	struct reqkey key = key_of(x);

	switch (reqkey_look(x->db, &key, x->arena, &stored, f)) {
	case REQKEY_FREE:
		return true;
	case REQKEY_DONE:
		return read_and_replay(x, &stored, f);
	case REQKEY_FAIL:
		return false;
	case REQKEY_OURS:
	case REQKEY_BUSY:
		break;
	}
	bug("a look that claims");
}

/* The key is ours: the work, and what it answered. */
static enum db_step work_and_store(struct db *db, const struct db_attempt *at,
				   struct run *r, struct fail *f)
{
	struct answer *a = &r->k->x->answer;
	enum db_step step;

	if (!db_lock_wait(db, db_lock_wait_default_s(db), f))
		return DB_STEP_FAIL;
	step = r->k->work(db, at, r->k, f);
	if (step == DB_STEP_ROLLBACK)
		bug("a keyed request that neither commits nor fails");
	if (step != DB_STEP_COMMIT)
		return step;
	if (!buf_ok(&a->body))
		bug("an answer is too large to be kept");
	r->ending = ENDED_OURS;
	return reqkey_store(db, &r->key, a->status, buf_sv(&a->body), f)
		       ? DB_STEP_COMMIT
		       : DB_STEP_FAIL;
}

static enum db_step run_work(struct db *db, const struct db_attempt *at,
			     void *arg, struct fail *f)
{
	struct run *r = arg;

	empty_answer(r->k->x);
	r->k->in_doubt |= at->maybe_committed;
	if (!db_lock_wait(db, r->wait_s, f))
		return DB_STEP_FAIL;
	switch (reqkey_claim(db, &r->key, f)) {
	case REQKEY_OURS:
		inflight_claimed();
		return work_and_store(db, at, r, f);
	case REQKEY_DONE:
		r->ending = ENDED_DONE;
		return DB_STEP_ROLLBACK;
	case REQKEY_BUSY:
		r->ending = ENDED_BUSY;
		return DB_STEP_ROLLBACK;
	case REQKEY_FAIL:
		return DB_STEP_FAIL;
	case REQKEY_FREE:
		break;
	}
	bug("a claim that only looks");
}

static bool busy(const char *why, struct fail *f)
{
	metric_add(METRIC_REQUESTS_IN_PROGRESS, 1, why);
	fail_set(f, FAIL_REQUEST_IN_PROGRESS,
		 "another request with this key is being worked on");
	f->retry_after_s = 1;
	return false;
}

/* Until when claims may wait: what was asked for, but not into the time the
 * work needs before the deadline. */
static uint64_t patience_end_ms(const struct exchange *x)
{
	uint64_t end = clock_mono_ms() + x->prefer_wait_ms;
	uint64_t latest =
		x->deadline_ms > RESERVE_MS ? x->deadline_ms - RESERVE_MS : 0;

	return end < latest ? end : latest;
}

/* The next claim's lock wait. One statement may not take longer than a read
 * from the server: a longer wait is made of several claims. */
static unsigned claim_wait_s(const struct exchange *x, uint64_t end_ms)
{
	uint64_t now = clock_mono_ms();
	uint64_t left_ms = end_ms > now ? end_ms - now : 0;
	uint64_t most_ms = x->conf->db_io_timeout_ms;

	most_ms = most_ms > IO_RESERVE_MS ? most_ms - IO_RESERVE_MS : 0;
	return (unsigned)(((left_ms < most_ms ? left_ms : most_ms) + 500) /
			  1000);
}

static bool transact(struct run *r, struct fail *f)
{
	struct exchange *x = r->k->x;
	uint64_t end_ms = patience_end_ms(x);

	do {
		r->wait_s = claim_wait_s(x, end_ms);
		if (!db_txn(x->db,
			    &(struct db_txn){.name = x->route->name,
					     .work = run_work,
					     .arg = r,
					     .deadline_ms = x->deadline_ms,
					     .rerun = true},
			    f))
			return false;
	} while (r->ending == ENDED_BUSY && claim_wait_s(x, end_ms) > 0);
	return true;
}

/* Somebody had the key: we ourselves, before a COMMIT in doubt (R3), or
 * another. *again_r: it expired in between and is free now. */
static bool answer_of_other(struct run *r, bool *again_r, struct fail *f)
{
	struct exchange *x = r->k->x;
	struct reqkey_stored stored;

	switch (reqkey_look(x->db, &r->key, x->arena, &stored, f)) {
	case REQKEY_FREE:
		*again_r = true;
		return true;
	case REQKEY_DONE:
		if (!id_eq(stored.batch_id, r->key.batch_id))
			return replay(x, &stored, f);
		give_stored(x, &stored);
		return true;
	case REQKEY_FAIL:
		return false;
	case REQKEY_OURS:
	case REQKEY_BUSY:
		break;
	}
	bug("a look that claims");
}

static bool run_once(struct run *r, bool *again_r, struct fail *f)
{
	if (!transact(r, f))
		return false;
	switch (r->ending) {
	case ENDED_OURS:
		return true;
	case ENDED_BUSY:
		return busy("waited", f);
	case ENDED_DONE:
		return answer_of_other(r, again_r, f);
	}
	bug("ending %d", (int)r->ending);
}

static bool run_all(struct run *r, struct fail *f)
{
	bool again = true;

	for (int i = 0; again && i < SURPRISES_MAX; i++) {
		again = false;
		if (!run_once(r, &again, f))
			return false;
	}
	return !again || busy("waited", f);
}

/* MySQL cannot wait for no time at all, so that who wants that is refused by
 * what this host knows, and waits a second for another host. */
static bool enter(const struct exchange *x, uint64_t until_ms, bool *waiting_r,
		  struct fail *f)
{
	uint64_t key = inflight_key(x->who.partner_id, REQKEY_WMS_INGEST,
				    x->correlation);

	switch (inflight_enter(key, until_ms, x->conf->workers)) {
	case INFLIGHT_FIRST:
		*waiting_r = false;
		return true;
	case INFLIGHT_WAITING:
		*waiting_r = true;
		if (x->prefer_wait_ms)
			return true;
		inflight_leave();
		return busy("waited", f);
	case INFLIGHT_CROWDED:
		return busy("crowded", f);
	}
	bug("inflight_enter");
}

/* Whoever waited may find the answer of the one it waited for. */
static bool after_wait(struct exchange *x, struct fail *f)
{
	struct reqkey key = key_of(x);
	struct reqkey_stored stored;

	switch (reqkey_look(x->db, &key, x->arena, &stored, f)) {
	case REQKEY_FREE:
		return true;
	case REQKEY_DONE:
		inflight_leave();
		return read_and_replay(x, &stored, f);
	case REQKEY_FAIL:
		inflight_leave();
		return false;
	case REQKEY_OURS:
	case REQKEY_BUSY:
		break;
	}
	bug("a look that claims");
}

bool keyed_enter(struct exchange *x, struct fail *f)
{
	uint64_t end_ms = patience_end_ms(x);
	bool waiting;

	if (!enter(x, clock_mono_ms() + x->conf->intake_deadline_ms, &waiting,
		   f))
		return false;
	if (!waiting)
		return true;
	while (!inflight_turn()) {
		if (clock_mono_ms() >= end_ms) {
			inflight_leave();
			return busy("waited", f);
		}
		clock_sleep_ms(TURN_MS);
	}
	return after_wait(x, f);
}

void keyed_leave(void)
{
	inflight_leave();
}

static enum db_step dry_work(struct db *db, const struct db_attempt *at,
			     void *arg, struct fail *f)
{
	struct keyed *k = arg;
	enum db_step step;

	empty_answer(k->x);
	step = k->work(db, at, k, f);
	return step == DB_STEP_COMMIT ? DB_STEP_ROLLBACK : step;
}

static bool run_dry(struct keyed *k, struct fail *f)
{
	return db_txn(k->x->db,
		      &(struct db_txn){.name = k->x->route->name,
				       .work = dry_work,
				       .arg = k,
				       .deadline_ms = k->x->deadline_ms},
		      f);
}

static bool run_entered(struct run *r, struct fail *f)
{
	struct exchange *x = r->k->x;
	bool waiting, ok;

	if (r->k->entered)
		return run_all(r, f);
	if (!enter(x, x->deadline_ms, &waiting, f))
		return false;
	ok = run_all(r, f);
	inflight_leave();
	return ok;
}

bool keyed_run(struct keyed *k, struct fail *f)
{
	struct exchange *x = k->x;
	struct run r = {.k = k, .key = key_of(x)};

	k->batch_id = (struct id){0};
	k->in_doubt = false;
	if (x->dry_run)
		return run_dry(k, f);
	if (!x->has_fingerprint)
		bug("%s: the body was not read to its end", x->route->name);
	k->batch_id = id_new(db_wall_ms(x->db));
	r.key.batch_id = k->batch_id;
	r.key.collection = k->collection;
	r.key.mode = k->mode;
	memcpy(r.key.fingerprint, x->fingerprint, sizeof(r.key.fingerprint));
	return run_entered(&r, f);
}
