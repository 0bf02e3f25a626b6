/* Taking in a job. The guarantees I1 to I4 stand in the header. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/intake.h"

#include <inttypes.h>

#include "api/body.h"
#include "api/keyed.h"
#include "api/respond.h"
#include "base/clock.h"
#include "base/fault.h"
#include "item/outcome.h"
#include "job/chunks.h"
#include "job/queue.h"
#include "wire/json.h"

/* A body on its way in. */
struct taking {
	struct exchange *x;
	const struct intake *in;
	struct id job_id;
	uint32_t chunks, items;
};

static struct json_items *reader(struct exchange *x)
{
	struct json_limits limits = {
		.depth_max = (uint32_t)x->conf->json_depth_max,
		.names_max = (uint32_t)x->conf->json_names_max};

	return json_items_new(x->arena,
			      x->is_ndjson ? JSON_LINES : JSON_ENVELOPE,
			      &limits, x->conf->item_max_bytes);
}

/* What was kept of the body comes first, then what is left of it, then the
 * empty piece that says it is over. */
static bool feed_next(struct exchange *x, struct json_items *s, bool first,
		      struct fail *f)
{
	struct sv piece = SV("");

	if (first) {
		json_items_feed(s, buf_sv(&x->received), false);
		return true;
	}
	switch (body_next(x, &piece, f)) {
	case BODY_PIECE:
		json_items_feed(s, piece, false);
		return true;
	case BODY_END:
		json_items_feed(s, SV(""), true);
		return true;
	case BODY_FAIL:
		break;
	}
	return false;
}

static bool store_items(struct exchange *x, struct chunk_writer *w,
			struct fail *f)
{
	struct json_items *s = reader(x);
	enum json_got got = JSON_MORE;
	struct json_item item;

	for (bool first = true; got == JSON_MORE; first = false) {
		if (!feed_next(x, s, first, f))
			return false;
		while ((got = json_items_next(s, &item, f)) == JSON_ITEM)
			if (!chunks_add(w, &item, f))
				return false;
	}
	return got == JSON_END;
}

static bool store(struct taking *t, struct fail *f)
{
	struct chunk_writer *w =
		chunks_new(t->x->db, t->job_id, t->in->mode == BATCH_REFRESH);
	bool ok = store_items(t->x, w, f) &&
		  chunks_end(w, &t->chunks, &t->items, f);

	chunks_free(w);
	if (!ok)
		return false;
	if (t->in->mode == BATCH_REFRESH && !t->items && !t->in->confirm_empty)
		return fail_set(f, FAIL_REFRESH_EMPTY,
				"the whole collection would become INACTIVE; "
				"send confirm_empty=true if that is meant");
	return true;
}

static void answer(const struct taking *t)
{
	struct buf *b = &t->x->answer.body;
	char hex[ID_HEX];

	id_hex(t->job_id, hex);
	t->x->answer.status = 202;
	buf_addf(b,
		 "{\"job_id\":\"job-%s\",\"status\":\"QUEUED\","
		 "\"status_url\":\"" KEYED_JOBS "job-%s\","
		 "\"results_url\":\"" KEYED_JOBS "job-%s/results\","
		 "\"received\":{\"items\":%" PRIu32 ",\"bytes\":%" PRIu64
		 "}}\n",
		 hex, hex, hex, t->items, t->x->body_bytes);
	keyed_job_headers(t->x);
}

static bool add_batch(struct db *db, const struct taking *t, struct id batch_id,
		      struct fail *f)
{
	struct sv scope = t->x->who.warehouses;
	uint64_t rows;

	return db_exec(
		db, STMT_BATCH_ADD_JOB,
		DB_ARGS(db_text(sv_from(batch_id.b, sizeof(batch_id.b))),
			db_uint(clock_day(id_wall_ms(batch_id))),
			db_uint(t->x->who.partner_id),
			db_uint((uint64_t)t->in->collection),
			db_uint(t->in->mode), db_uint(t->items),
			db_text(sv_from(t->job_id.b, sizeof(t->job_id.b))),
			scope.p ? db_text(scope) : db_null()),
		&rows, f);
}

static enum db_step work(struct db *db, const struct db_attempt *at,
			 struct keyed *k, struct fail *f)
{
	const struct taking *t = k->arg;
	struct job j = {
		.partner_id = t->x->who.partner_id,
		.job_id = t->job_id,
		.batch_id = k->batch_id,
		.collection = (int)t->in->collection,
		.kind = t->in->mode == BATCH_REFRESH ? JOB_REFRESH : JOB_ITEMS,
		.mode = t->in->mode,
		.chunk_count = t->chunks,
		.total = t->items,
		.bytes = t->x->body_bytes,
		.confirmed =
			t->in->confirm || (t->in->confirm_empty && !t->items),
		.warehouses = t->x->who.warehouses,
	};

	(void)at;
	fault_at("intake.before_queue");
	if (!queue_add(db, &j, f) ||
	    !chunks_check(db, t->job_id, t->chunks, f) ||
	    !add_batch(db, t, k->batch_id, f))
		return DB_STEP_FAIL;
	answer(t);
	return DB_STEP_COMMIT;
}

/* The job's own time is over: the last transaction has a request's. */
static bool enqueue(struct taking *t, bool *mine_r, struct fail *f)
{
	struct keyed k = {.x = t->x,
			  .mode = t->in->mode,
			  .collection = (int)t->in->collection,
			  .work = work,
			  .arg = t,
			  .entered = true};
	bool ok;

	exchange_extend(t->x, t->x->conf->request_deadline_ms);
	ok = keyed_run(&k, f);
	*mine_r = ok ? !t->x->replayed : k.in_doubt;
	return ok;
}

static bool take_in(struct exchange *x, const struct intake *in, struct fail *f)
{
	struct taking t = {
		.x = x, .in = in, .job_id = id_new(db_wall_ms(x->db))};
	bool mine = false;
	bool ok = store(&t, f) && enqueue(&t, &mine, f);

	if (mine)
		return ok;
	exchange_extend(x, x->conf->request_deadline_ms);
	chunks_drop(x->db, t.job_id);
	return ok;
}

bool intake_run(struct exchange *x, const struct intake *in, struct fail *f)
{
	bool ok;

	if (!keyed_enter(x, f))
		return false;
	if (x->answered)
		return true;
	fault_at("intake.before_store");
	ok = take_in(x, in, f);
	keyed_leave();
	return ok;
}
