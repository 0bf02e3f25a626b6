/* POST /wms-ingest/v1/{area}/{collection}: upsert, full-refresh, bulk.
 *
 * A body that is small enough is worked on at once, in one transaction. Bulk,
 * and what turns out to be too much for that (bytes, items, or what a
 * full-refresh would have to look at), is taken in as a job.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "api/intake.h"
#include "api/keyed.h"
#include "api/param.h"
#include "api/receive.h"
#include "api/route.h"
#include "base/metric.h"
#include "gate/quota.h"
#include "item/decode.h"
#include "job/queue.h"

enum { ATTEMPT_BLOCK_BYTES = 64 * 1024 };

/* Which entries the answer carries. */
enum carry { CARRY_ALL, CARRY_FAILURES, CARRY_SUMMARY };

struct post {
	enum collection collection;
	enum batch_mode mode;
	enum carry carry;
	bool confirm, confirm_empty;
	struct decoded decoded;
	struct apply_summary summary;
	bool needs_job;       /* found out by the work */
	uint64_t received_ms; /* as the first attempt noted it */
	bool charges;         /* the partner has a quota, and this uses it */
	struct quota quota;
};

struct word {
	const char *name;
	int value;
};

/* A parameter that is one of these words; absent, it is the first. */
static bool read_word(const struct exchange *x, const char *param,
		      const struct word *words, size_t count, int *value_r,
		      struct fail *f)
{
	struct sv sent = exchange_param(x, param);

	*value_r = words[0].value;
	if (!sent.p)
		return true;
	for (size_t i = 0; i < count; i++)
		if (sv_eq(sent, sv_of(words[i].name))) {
			*value_r = words[i].value;
			return true;
		}
	return fail_set(f, FAIL_BAD_PARAMETER, "%s must be %s%s%s%s%s", param,
			words[0].name, count > 2 ? ", " : " or ", words[1].name,
			count > 2 ? " or " : "",
			count > 2 ? words[2].name : "");
}

static bool read_flag(const struct exchange *x, const char *param, bool *on_r,
		      struct fail *f)
{
	static const struct word WORDS[] = {{"false", 0}, {"true", 1}};
	int value;

	if (!read_word(x, param, WORDS, ARRAY_LEN(WORDS), &value, f))
		return false;
	*on_r = value;
	return true;
}

static bool read_post(struct exchange *x, struct post *p, struct fail *f)
{
	static const struct word MODES[] = {{"upsert", BATCH_UPSERT},
					    {"bulk", BATCH_BULK},
					    {"full-refresh", BATCH_REFRESH}};
	static const struct word CARRIES[] = {{"all", CARRY_ALL},
					      {"failures", CARRY_FAILURES},
					      {"summary", CARRY_SUMMARY}};
	int mode, carry;
	bool dry_run;

	if (!read_word(x, "mode", MODES, ARRAY_LEN(MODES), &mode, f) ||
	    !read_word(x, "return", CARRIES, ARRAY_LEN(CARRIES), &carry, f) ||
	    !read_flag(x, "dry_run", &dry_run, f) ||
	    !read_flag(x, "confirm", &p->confirm, f) ||
	    !read_flag(x, "confirm_empty", &p->confirm_empty, f))
		return false;
	if (mode == BATCH_BULK && dry_run)
		return fail_set(f, FAIL_BAD_PARAMETER,
				"dry_run is for upsert and full-refresh");
	p->mode = (enum batch_mode)mode;
	p->carry = (enum carry)carry;
	return true;
}

static void add_results(struct buf *b, const struct post *p,
			const struct apply *a)
{
	bool first = true;

	buf_add_text(b, "\"results\":[");
	for (size_t i = 0; p->carry != CARRY_SUMMARY && i < a->count; i++) {
		const struct outcome *o = &a->outcomes[i];

		if (p->carry == CARRY_FAILURES &&
		    (o->status == ITEM_ACCEPTED || o->status == ITEM_REPLAY))
			continue;
		if (!first)
			buf_add_byte(b, ',');
		first = false;
		outcome_add_result(b, a->collection, &a->items[i], o);
	}
	buf_add_text(b, "],");
}

static void add_summary(struct buf *b, const struct post *p,
			const struct apply_summary *s)
{
	buf_addf(b,
		 "\"summary\":{\"total\":%" PRIu32 ",\"accepted\":%" PRIu32
		 ",\"replay\":%" PRIu32 ",\"quarantined\":%" PRIu32
		 ",\"rejected\":%" PRIu32,
		 s->total, s->accepted, s->replay, s->quarantined, s->rejected);
	if (p->mode == BATCH_REFRESH)
		buf_addf(b, ",\"tombstoned\":%" PRIu32, s->tombstoned);
	buf_add_byte(b, '}');
}

static void answer(struct exchange *x, const struct post *p,
		   const struct apply *a)
{
	struct buf *b = &x->answer.body;

	x->answer.status =
		a->summary.quarantined || a->summary.rejected ? 207 : 200;
	buf_add_text(b, "{\"batch_id\":");
	if (x->dry_run) {
		buf_add_text(b, "null,\"dry_run\":true");
	} else {
		buf_add_byte(b, '"');
		outcome_add_id(b, "bat", a->batch_id);
		buf_add_byte(b, '"');
	}
	buf_add_byte(b, ',');
	add_results(b, p, a);
	add_summary(b, p, &a->summary);
	buf_add_text(b, "}\n");
}

/* Between the key and the items: see gate/quota.h. */
static enum quota_result begin_quota(struct db *db, struct post *p,
				     struct arena *arena, struct fail *f)
{
	return p->charges ? quota_begin(db, &p->quota,
					decoded_usable(&p->decoded), arena, f)
			  : QUOTA_GO;
}

static enum db_step applied(struct db *db, struct exchange *x, struct post *p,
			    const struct apply *a, struct fail *f)
{
	if (p->charges && !quota_charge(db, &p->quota, a->summary.charged, f))
		return DB_STEP_FAIL;
	answer(x, p, a);
	p->summary = a->summary;
	return DB_STEP_COMMIT;
}

static enum db_step not_applied(struct post *p, const struct apply *a,
				struct fail *f)
{
	p->needs_job = a->needs_job;
	if (a->over)
		quota_refused(&p->quota, a->summary.charged, "request", f);
	return DB_STEP_FAIL;
}

static enum db_step attempt(struct db *db, const struct db_attempt *at,
			    struct keyed *k, struct arena *arena,
			    struct fail *f)
{
	struct exchange *x = k->x;
	struct post *p = k->arg;
	struct apply a = {
		.arena = arena,
		.partner_id = x->who.partner_id,
		.collection = p->collection,
		.mode = p->mode,
		.batch_id = k->batch_id,
		.wall_ms = db_wall_ms(db),
		.items = p->decoded.items,
		.count = p->decoded.count,
		.lock = at->no > 1,
		.dry_run = x->dry_run,
		.scope = x->scope,
		.sync_max = x->conf->bulk_async_threshold,
		.received_ms = p->received_ms,
		.confirm =
			p->confirm || (p->confirm_empty && !p->decoded.count),
		.limited = p->charges,
	};
	enum apply_result result;

	if (p->mode == BATCH_REFRESH &&
	    !queue_check_refresh(db, a.partner_id, (int)a.collection,
				 x->dry_run, x->arena, f))
		return DB_STEP_FAIL;
	switch (begin_quota(db, p, arena, f)) {
	case QUOTA_GO:
		break;
	case QUOTA_AGAIN:
		return DB_STEP_AGAIN;
	case QUOTA_FAIL:
		return DB_STEP_FAIL;
	}
	a.charge_max = p->quota.room;
	result = apply_run(db, &a, f);
	p->received_ms = a.received_ms;
	switch (result) {
	case APPLY_DONE:
		return applied(db, x, p, &a, f);
	case APPLY_RACED:
		return DB_STEP_AGAIN;
	case APPLY_FAIL:
		return not_applied(p, &a, f);
	}
	bug("apply_run");
}

/* What an attempt needed is given back before the next one. */
static enum db_step work(struct db *db, const struct db_attempt *at,
			 struct keyed *k, struct fail *f)
{
	enum db_step step;
	struct arena arena;

	arena_init(&arena, ATTEMPT_BLOCK_BYTES);
	step = attempt(db, at, k, &arena, f);
	arena_release(&arena);
	return step;
}

static void count_items(struct exchange *x, const struct post *p)
{
	const struct apply_summary *s = &p->summary;

	if (x->replayed || x->dry_run)
		return;
	x->has_items = true;
	x->items = *s;
	metric_add(METRIC_ITEMS, s->accepted, "accepted");
	metric_add(METRIC_ITEMS, s->replay, "replay");
	metric_add(METRIC_ITEMS, s->quarantined, "quarantined");
	metric_add(METRIC_ITEMS, s->rejected, "rejected");
	metric_add(METRIC_ITEMS, s->tombstoned, "tombstoned");
	if (p->charges)
		metric_add(METRIC_QUOTA_ITEMS, s->charged);
}

/* What the transaction saw of the quota need not be read again. */
static void tell_quota(struct exchange *x, const struct post *p)
{
	x->has_quota_state = p->quota.known && !x->replayed;
	x->quota_state = p->quota.state;
}

static bool run_job(struct exchange *x, const struct post *p, struct fail *f)
{
	*f = FAIL_INIT;
	return intake_run(x,
			  &(struct intake){.collection = p->collection,
					   .mode = p->mode,
					   .confirm = p->confirm,
					   .confirm_empty = p->confirm_empty},
			  f);
}

static bool run_now(struct exchange *x, struct post *p, struct fail *f)
{
	struct keyed k = {.x = x,
			  .mode = p->mode,
			  .collection = (int)p->collection,
			  .work = work,
			  .arg = p};
	bool done;

	p->charges = x->who.has_quota && !x->dry_run;
	p->quota = (struct quota){.partner_id = x->who.partner_id,
				  .limit = x->who.quota_items};
	if (p->mode == BATCH_REFRESH && !p->decoded.count && !p->confirm_empty)
		return fail_set(f, FAIL_REFRESH_EMPTY,
				"the whole collection would become INACTIVE; "
				"send confirm_empty=true if that is meant");
	done = keyed_run(&k, f);
	if (done || f->code == FAIL_QUOTA_EXHAUSTED)
		tell_quota(x, p);
	if (done)
		count_items(x, p);
	return done;
}

static bool too_large(const struct exchange *x, struct fail *f)
{
	return fail_set(f, FAIL_BODY_TOO_LARGE,
			"the body is larger than %" PRIu64
			" bytes; that is the limit of a dry run",
			x->conf->sync_body_max_bytes);
}

bool ep_items_post(struct exchange *x, struct fail *f)
{
	struct post p = {.collection = param_path_collection(x)};
	bool whole;

	if (!read_post(x, &p, f))
		return false;
	if (p.mode == BATCH_BULK)
		return run_job(x, &p, f);
	if (!receive_more(x, x->conf->sync_body_max_bytes, &whole, f))
		return false;
	if (!whole)
		return x->dry_run ? too_large(x, f) : run_job(x, &p, f);
	if (decode_body(x->arena, x->conf, p.collection, buf_sv(&x->received),
			x->is_ndjson, &p.decoded, f) &&
	    run_now(x, &p, f))
		return true;
	if ((p.decoded.too_many || p.needs_job) && !x->dry_run)
		return run_job(x, &p, f);
	return false;
}
