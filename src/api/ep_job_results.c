/* GET /jobs/{job_id}/results: what became of each item, page by page, or all
 * of it as NDJSON.
 *
 * Guarantees:
 * 1. The job is looked for by the partner of the credential, and must be one
 *    its warehouses cover; results are found by the job's batch alone.
 * 2. A result reads as in the answer of a synchronous request.
 * 3. A stream takes the memory of one page: every page is a read of its own.
 *    It is the results the job had when it was asked for, and X-Results-Count
 *    tells how many they are: nginx takes a worker that died for the end of an
 *    answer without a length, so that a caller has to be able to count.
 *
 * A job's results stand at the positions 0, 1, 2 and so on without a gap, and
 * what stands there never changes. Their number is the sum of the job's
 * counters, so that both are known from the one row of the job.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "api/page.h"
#include "api/param.h"
#include "api/respond.h"
#include "api/route.h"
#include "base/clock.h"
#include "db/txn.h"
#include "item/outcome.h"
#include "job_row.h"

enum {
	FLAG_CONFLICT = 1,
	FLAG_HELD_INACTIVE = 2,
	POSITION_BYTES = 4,
	COUNT_STRETCH = 10000, /* results looked at by one statement */
};

/* Columns of STMT_JOB_RESULT_PAGE. */
enum {
	R_POSITION,
	R_LINE,
	R_SOURCE_ID,
	R_VERSION,
	R_STATUS,
	R_CHANGE,
	R_FLAGS,
	R_HELD,
	R_DETAIL,
	R_INTERNAL_ID,
};

struct results {
	struct exchange *x;
	struct id batch_id;
	struct db_val collection; /* DB_NULL: of several */
	struct param_range statuses;
	struct page page;
	uint64_t from; /* the first position to look at */

	/* a page */
	struct arena *arena;
	uint64_t to;
	struct db_table rows;
	bool more;    /* of what was looked at */
	bool bounded; /* there may be more behind `to` */

	/* a stream */
	struct arena own;
	bool ended;
	uint64_t counts[ITEM_RESTORED + 1]; /* of the job, by status */
	uint64_t end;                       /* of all: behind the last one */
	uint64_t expected, sent;
};

/* As with keys, it is the time that decides, not whether they are dropped. */
static bool are_kept(const struct results *r, bool finished, struct fail *f)
{
	const struct exchange *x = r->x;

	if (!finished || db_wall_ms(x->db) <= id_wall_ms(r->batch_id) +
						      x->conf->retention_ms)
		return true;
	return fail_set(f, FAIL_NOT_FOUND,
			"the results of the job are no longer kept");
}

static bool find_job(struct results *r, struct fail *f)
{
	struct db_table t;

	if (!job_row_find(r->x, &t, f))
		return false;
	memcpy(r->batch_id.b, db_cell(&t, 0, J_BATCH)->bytes.p,
	       sizeof(r->batch_id.b));
	r->collection = *db_cell(&t, 0, J_COLLECTION);
	for (size_t i = ITEM_ACCEPTED; i <= ITEM_RESTORED; i++) {
		r->counts[i] = db_cell(&t, 0, J_ACCEPTED + i - 1)->u;
		r->end += r->counts[i];
	}
	return are_kept(r, db_cell(&t, 0, J_FINISHED)->kind != DB_NULL, f);
}

static struct sv position_text(struct arena *a, uint64_t position)
{
	uint8_t at[POSITION_BYTES];

	for (int i = 0; i < POSITION_BYTES; i++)
		at[i] = (uint8_t)(position >> (24 - 8 * i));
	return arena_sv(a, sv_from(at, sizeof(at)));
}

static void read_position(struct results *r)
{
	const struct sv after = r->page.after;

	r->from = 0;
	if (!after.p)
		return;
	if (after.n != POSITION_BYTES)
		bug("a cursor of %zu bytes", after.n);
	for (size_t i = 0; i < after.n; i++)
		r->from = r->from << 8 | (uint8_t)after.p[i];
	r->from++;
}

static bool read_params(struct results *r, struct fail *f)
{
	struct exchange *x = r->x;
	struct sv status = SV_NONE;

	r->statuses = PARAM_ALL;
	if (param_find(x, "status", &status)) {
		r->statuses.low = r->statuses.high = item_status_of(status);
		if (!r->statuses.low)
			return fail_set(f, FAIL_BAD_PARAMETER,
					"status must be ACCEPTED, REPLAY, "
					"QUARANTINED, REJECTED, TOMBSTONED or "
					"RESTORED");
	}
	r->page.scope =
		(struct cursor_scope){.listing = "results",
				      .partner_id = x->who.partner_id,
				      .filters = {x->segments[3], status}};
	if (!page_read(x, &r->page, f))
		return false;
	read_position(r);
	return true;
}

/* A page */

static struct db_val batch_val(const struct results *r)
{
	return db_id(&r->batch_id);
}

static struct db_val day_val(const struct results *r)
{
	return db_uint(clock_day(id_wall_ms(r->batch_id)));
}

static bool is_filtered(const struct results *r)
{
	return !param_is_all(r->statuses);
}

/* There is no index over statuses: a page looks at so many rows at most. */
static bool bound_scan(struct db *db, struct results *r, struct fail *f)
{
	struct db_table end;

	r->to = UINT32_MAX;
	r->bounded = false;
	if (!is_filtered(r))
		return true;
	if (!db_query(db, STMT_JOB_RESULT_END,
		      DB_ARGS(batch_val(r), day_val(r), db_uint(r->from)),
		      r->arena, &end, f))
		return false;
	r->bounded = end.rows > 0;
	if (r->bounded)
		r->to = db_cell(&end, 0, 0)->u;
	return true;
}

static enum db_step page_work(struct db *db, const struct db_attempt *at,
			      void *arg, struct fail *f)
{
	struct results *r = arg;
	struct db_table sizes;
	size_t n;

	(void)at;
	if (!bound_scan(db, r, f) ||
	    !db_query(db, STMT_JOB_RESULT_SIZES,
		      DB_ARGS(batch_val(r), day_val(r), db_uint(r->from),
			      db_uint(r->to), db_uint(r->statuses.low),
			      db_uint(r->statuses.high),
			      db_uint(r->page.limit + 1)),
		      r->arena, &sizes, f))
		return DB_STEP_FAIL;
	n = page_fit(&sizes, 0, r->page.limit);
	if (!db_query(db, STMT_JOB_RESULT_PAGE,
		      DB_ARGS(db_uint(r->x->who.partner_id), r->collection,
			      batch_val(r), day_val(r), db_uint(r->from),
			      db_uint(r->to), db_uint(r->statuses.low),
			      db_uint(r->statuses.high), db_uint(n)),
		      r->arena, &r->rows, f))
		return DB_STEP_FAIL;
	r->more = n < sizes.rows;
	return DB_STEP_ROLLBACK;
}

static bool read_page(struct results *r, struct fail *f)
{
	return db_txn(r->x->db,
		      &(struct db_txn){.name = "job.results",
				       .work = page_work,
				       .arg = r,
				       .deadline_ms = r->x->deadline_ms},
		      f);
}

/* The position the page ended at; false: nothing follows. */
static bool page_position(const struct results *r, uint64_t *position_r)
{
	if (r->more)
		*position_r =
			db_cell(&r->rows, r->rows.rows - 1, R_POSITION)->u;
	else if (r->bounded)
		*position_r = r->to;
	return r->more || r->bounded;
}

static void add_result(struct buf *b, const struct results *r,
		       const struct db_val *v)
{
	struct incoming in = {.index = v[R_POSITION].u};
	struct outcome o = {.status = (enum item_status)v[R_STATUS].u};
	enum collection c = r->collection.kind == DB_NULL
				    ? COLLECTION_UOMS
				    : (enum collection)r->collection.u;

	in.line = v[R_LINE].kind == DB_NULL ? 0 : v[R_LINE].u;
	in.has_source_id = v[R_SOURCE_ID].kind != DB_NULL;
	if (in.has_source_id)
		in.source_id = v[R_SOURCE_ID].bytes;
	in.has_version = v[R_VERSION].kind != DB_NULL;
	in.version = in.has_version ? v[R_VERSION].u : 0;
	if (v[R_CHANGE].kind != DB_NULL)
		o.change = (enum item_change)v[R_CHANGE].u;
	o.conflict = v[R_FLAGS].u & FLAG_CONFLICT;
	o.held_inactive = v[R_FLAGS].u & FLAG_HELD_INACTIVE;
	o.has_held = v[R_HELD].kind != DB_NULL;
	o.held_version = o.has_held ? v[R_HELD].u : 0;
	o.kept_detail =
		v[R_DETAIL].kind == DB_NULL ? SV("") : v[R_DETAIL].bytes;
	o.has_internal_id = v[R_INTERNAL_ID].kind != DB_NULL;
	if (o.has_internal_id)
		memcpy(o.internal_id.b, v[R_INTERNAL_ID].bytes.p,
		       sizeof(o.internal_id.b));
	outcome_add_result(b, c, &in, &o);
}

static bool answer_page(struct results *r, struct fail *f)
{
	struct exchange *x = r->x;
	struct sv end = SV_NONE;
	uint64_t position = 0;

	r->arena = x->arena;
	if (!read_page(r, f))
		return false;
	page_begin_named(x, "results");
	for (size_t i = 0; i < r->rows.rows; i++) {
		page_item(x);
		add_result(&x->answer.body, r, db_cell(&r->rows, i, 0));
	}
	if (page_position(r, &position))
		end = position_text(x->arena, position);
	page_end(x, &r->page, end);
	return true;
}

/* The stream */

static bool wants_ndjson(const struct exchange *x, bool *wants_r,
			 struct fail *f)
{
	struct sv accept;

	*wants_r = false;
	if (!http_header(x->http, SV("accept"), &accept, f))
		return false;
	while (accept.n) {
		struct sv one = sv_cut(&accept, ',');

		one = sv_trim(sv_cut(&one, ';'));
		if (sv_eq_nocase(one, SV("application/x-ndjson")))
			*wants_r = true;
	}
	return true;
}

/* The job may have gone on since it was counted: what is behind is left out. */
static void add_lines(struct buf *b, struct results *r)
{
	for (size_t i = 0; i < r->rows.rows && r->sent < r->expected; i++) {
		add_result(b, r, db_cell(&r->rows, i, 0));
		buf_add_byte(b, '\n');
		r->sent++;
	}
}

/* Pages until one has a result, or nothing follows. */
static bool stream_page(struct exchange *x, void *arg, struct buf *b,
			struct fail *f)
{
	struct results *r = arg;
	uint64_t position = 0;
	bool ok = true;

	(void)x;
	arena_init(&r->own, 64 * 1024);
	r->arena = &r->own;
	while (ok && !r->ended && !b->n) {
		arena_reset(&r->own);
		ok = read_page(r, f);
		if (ok)
			add_lines(b, r);
		r->ended = !ok || r->sent == r->expected ||
			   !page_position(r, &position);
		if (!r->ended)
			r->from = position + 1;
	}
	arena_release(&r->own);
	if (ok && r->ended && r->sent < r->expected)
		return fail_set(f, FAIL_INTERNAL,
				"the job has fewer results than it counted");
	return ok;
}

/* Of one status, from the middle on: no counter tells. */
static bool count_from(struct results *r, struct fail *f)
{
	r->expected = 0;
	for (uint64_t at = r->from; at < r->end; at += COUNT_STRETCH) {
		uint64_t to = at + COUNT_STRETCH < r->end ? at + COUNT_STRETCH
							  : r->end;
		struct db_table t;

		if (!db_query(r->x->db, STMT_JOB_RESULT_COUNT,
			      DB_ARGS(batch_val(r), day_val(r), db_uint(at),
				      db_uint(to - 1), db_uint(r->statuses.low),
				      db_uint(r->statuses.high)),
			      r->x->arena, &t, f))
			return false;
		r->expected += db_cell(&t, 0, 0)->u;
	}
	return true;
}

static bool count(struct results *r, struct fail *f)
{
	if (is_filtered(r) && r->from)
		return count_from(r, f);
	if (is_filtered(r))
		r->expected = r->counts[r->statuses.low];
	else
		r->expected = r->end > r->from ? r->end - r->from : 0;
	return true;
}

static bool expect(struct results *r, struct fail *f)
{
	char text[24];

	if (!count(r, f))
		return false;
	r->ended = r->expected == 0;
	snprintf(text, sizeof(text), "%" PRIu64, r->expected);
	respond_header(&r->x->answer, "X-Results-Count", sv_of(text));
	return true;
}

static bool answer_stream_of(struct results *r, struct fail *f)
{
	struct exchange *x = r->x;
	struct sv unused;

	if (param_find(x, "limit", &unused))
		return fail_set(f, FAIL_BAD_PARAMETER,
				"limit goes with pages; NDJSON has all that "
				"follows");
	r->page.limit = PAGE_LIMIT_MAX;
	if (!expect(r, f))
		return false;
	x->answer.content_type = "application/x-ndjson";
	x->answer.stream = stream_page;
	x->answer.stream_arg = r;
	return true;
}

bool ep_job_results(struct exchange *x, struct fail *f)
{
	struct results *r = arena_alloc(x->arena, sizeof(*r));
	bool ndjson;

	r->x = x;
	if (!wants_ndjson(x, &ndjson, f) || !find_job(r, f) ||
	    !read_params(r, f))
		return false;
	return ndjson ? answer_stream_of(r, f) : answer_page(r, f);
}
