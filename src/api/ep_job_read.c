/* GET of jobs: one, and all of them page by page, newest first.
 *
 * Guarantees:
 * 1. Every statement names the partner of the credential: what another
 *    partner has is answered like what does not exist.
 * 2. What is told of a job is one row, read at one moment: the figures belong
 *    together, and to the items that are stored.
 * 3. A credential limited to warehouses sees the jobs it covers and no others.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "api/keyed.h"
#include "api/page.h"
#include "api/param.h"
#include "api/respond.h"
#include "api/route.h"
#include "db/txn.h"
#include "job/queue.h"
#include "job_row.h"

/* So many are looked at with one statement, for those a limited credential
 * may see. */
enum { LOOK_ROWS = 500, LOOK_BLOCK_BYTES = 256 * 1024 };

static void add_id(struct buf *b, const char *name, const char *prefix,
		   const struct db_val *v)
{
	buf_addf(b, "\"%s\":\"%s-", name, prefix);
	buf_add_hex(b, v->bytes.p, v->bytes.n);
	buf_add_byte(b, '"');
}

static void add_text(struct buf *b, const char *name, const struct db_val *v)
{
	buf_addf(b, ",\"%s\":", name);
	if (v->kind == DB_NULL)
		buf_add_text(b, "null");
	else
		buf_add_json(b, v->bytes);
}

static void add_collection(struct buf *b, const struct db_val *v)
{
	buf_add_text(b, ",\"collection\":");
	if (v->kind == DB_NULL)
		buf_add_text(b, "null");
	else
		buf_addf(b, "\"%s\"",
			 collection_info((enum collection)v->u)->name);
}

static void add_progress(struct buf *b, const struct db_val *v)
{
	uint64_t total = v[J_TOTAL].u, processed = v[J_PROCESSED].u;
	uint64_t percent = v[J_STATE].u == JOB_COMPLETED ? 100 : 0;

	if (total)
		percent = processed >= total ? 100 : processed * 100 / total;
	buf_addf(b,
		 ",\"progress\":{\"total\":%" PRIu64 ",\"processed\":%" PRIu64
		 ",\"percent\":%" PRIu64 "}",
		 total, processed, percent);
}

static void add_summary(struct buf *b, const struct db_val *v)
{
	buf_addf(b,
		 ",\"summary\":{\"total\":%" PRIu64 ",\"accepted\":%" PRIu64
		 ",\"replay\":%" PRIu64 ",\"quarantined\":%" PRIu64
		 ",\"rejected\":%" PRIu64,
		 v[J_TOTAL].u, v[J_ACCEPTED].u, v[J_REPLAY].u,
		 v[J_QUARANTINED].u, v[J_REJECTED].u);
	if (v[J_KIND].u == JOB_REFRESH)
		buf_addf(b, ",\"tombstoned\":%" PRIu64, v[J_TOMBSTONED].u);
	if (v[J_KIND].u == JOB_UNDO)
		buf_addf(b, ",\"restored\":%" PRIu64 ",\"skipped\":%" PRIu64,
			 v[J_RESTORED].u, v[J_PROCESSED].u - v[J_RESTORED].u);
	buf_add_byte(b, '}');
}

/* Items a second with one decimal, from the first claim to the last commit,
 * and how long the rest takes at that pace. */
static void add_pace(struct buf *b, const struct db_val *v)
{
	uint64_t left = v[J_TOTAL].u > v[J_PROCESSED].u
				? v[J_TOTAL].u - v[J_PROCESSED].u
				: 0;
	double rate = 0;

	if (v[J_WORK_US].kind != DB_NULL && v[J_WORK_US].i > 0)
		rate = (double)v[J_PROCESSED].u * 1e6 / (double)v[J_WORK_US].i;
	if (rate <= 0) {
		buf_add_text(b, ",\"rate\":null,\"eta_seconds\":null");
		return;
	}
	buf_addf(b, ",\"rate\":%.1f", rate);
	if (v[J_STATE].u == JOB_RUNNING)
		buf_addf(b, ",\"eta_seconds\":%" PRIu64,
			 (uint64_t)((double)left / rate + 0.999));
	else
		buf_add_text(b, ",\"eta_seconds\":null");
}

static void add_error(struct buf *b, const struct db_val *v)
{
	enum fail_code code;

	if (v[J_STATE].u != JOB_FAILED || v[J_ERROR_SLUG].kind == DB_NULL)
		return;
	code = fail_named(v[J_ERROR_SLUG].bytes);
	buf_addf(b, ",\"error\":{\"type\":\"/docs/errors.md#%.*s\"",
		 SV_ARG(v[J_ERROR_SLUG].bytes));
	if (code != FAIL_NONE)
		buf_addf(b, ",\"title\":\"%s\",\"status\":%d",
			 fail_info(code)->title, fail_info(code)->status);
	add_text(b, "detail", &v[J_ERROR_DETAIL]);
	buf_add_text(b, ",\"instance\":\"" KEYED_JOBS "job-");
	buf_add_hex(b, v[J_ID].bytes.p, v[J_ID].bytes.n);
	buf_add_text(b, "\"}");
}

static void add_urls(struct buf *b, const struct db_val *v)
{
	buf_add_text(b, ",\"status_url\":\"" KEYED_JOBS "job-");
	buf_add_hex(b, v[J_ID].bytes.p, v[J_ID].bytes.n);
	buf_add_text(b, "\",\"results_url\":\"" KEYED_JOBS "job-");
	buf_add_hex(b, v[J_ID].bytes.p, v[J_ID].bytes.n);
	buf_add_text(b, "/results\"");
}

/* All members that a listing has too, without the braces. */
static void add_job(struct buf *b, const struct db_val *v)
{
	add_id(b, "job_id", "job", &v[J_ID]);
	buf_addf(b, ",\"status\":\"%s\",\"mode\":\"%s\"",
		 job_state_name((enum job_state)v[J_STATE].u),
		 batch_mode_name((enum batch_mode)v[J_MODE].u));
	add_collection(b, &v[J_COLLECTION]);
	buf_add_byte(b, ',');
	add_id(b, "batch_id", "bat", &v[J_BATCH]);
	add_progress(b, v);
	add_summary(b, v);
	add_pace(b, v);
	buf_addf(b, ",\"attempt\":%" PRIu64, v[J_ATTEMPT].u);
	if (v[J_WAITING].kind != DB_NULL)
		add_text(b, "waiting_for", &v[J_WAITING]);
	if (v[J_CANCEL].u)
		buf_add_text(b, ",\"cancel_requested\":true");
	add_text(b, "created_at", &v[J_CREATED]);
	add_text(b, "started_at", &v[J_STARTED]);
	add_text(b, "finished_at", &v[J_FINISHED]);
	add_urls(b, v);
	add_error(b, v);
}

static bool covers(const struct exchange *x, const struct db_val *v)
{
	return exchange_covers(x, &v[J_COLLECTION], &v[J_WAREHOUSES]);
}

bool job_row_find(const struct exchange *x, struct db_table *t_r,
		  struct fail *f)
{
	struct id id;

	*t_r = (struct db_table){0};
	if (outcome_parse_id(x->segments[3], "job", &id) &&
	    !db_query(x->db, STMT_JOB_SHOW,
		      DB_ARGS(db_uint(x->who.partner_id), db_id(&id)), x->arena,
		      t_r, f))
		return false;
	return (t_r->rows && covers(x, db_cell(t_r, 0, 0))) ||
	       fail_set(f, FAIL_NOT_FOUND, "there is no such job");
}

bool ep_job_show(struct exchange *x, struct fail *f)
{
	struct buf *b = &x->answer.body;
	struct db_table t;

	if (!job_row_find(x, &t, f))
		return false;
	buf_add_byte(b, '{');
	add_job(b, db_cell(&t, 0, 0));
	buf_add_text(b, ",\"queue_position\":");
	if (db_cell(&t, 0, J_BEFORE)->kind == DB_NULL)
		buf_add_text(b, "null");
	else
		buf_add_u64(b, db_cell(&t, 0, J_BEFORE)->u + 1);
	buf_add_text(b, "}\n");
	return true;
}

/* The listing */

static const struct id ID_FIRST,
	ID_LAST = {{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
		    255, 255, 255, 255}};

struct list {
	struct exchange *x;
	struct param_range states, collections;
	struct page page;
	struct sv below, from;
	const struct db_val **jobs; /* those to see, one above the limit */
	size_t count;
	struct sv end; /* there may be more behind it; p NULL: no */
};

static bool read_filters(struct list *l, struct fail *f)
{
	struct exchange *x = l->x;
	struct sv status = SV_NONE, collection = SV_NONE;

	l->states = PARAM_ALL;
	if (param_find(x, "status", &status)) {
		l->states.low = l->states.high = job_state_of(status);
		if (!l->states.low)
			return fail_set(f, FAIL_BAD_PARAMETER,
					"status must be QUEUED, RUNNING, "
					"COMPLETED, FAILED or CANCELLED");
	}
	param_find(x, "collection", &collection);
	l->page.scope = (struct cursor_scope){.listing = "jobs",
					      .partner_id = x->who.partner_id,
					      .filters = {status, collection}};
	if (!param_collection(x, &l->collections, f) ||
	    !page_read(x, &l->page, f))
		return false;
	l->below = l->page.after.p ? l->page.after
				   : sv_from(ID_LAST.b, sizeof(ID_LAST.b));
	return true;
}

/* Filters have no index: a page looks at so many rows at most. */
static bool bound_scan(struct db *db, struct list *l, struct fail *f)
{
	bool bounded;

	l->from = sv_from(ID_FIRST.b, sizeof(ID_FIRST.b));
	l->end = SV_NONE;
	if (param_is_all(l->states) && param_is_all(l->collections))
		return true;
	if (!page_bound(db, l->x, STMT_JOB_PAGE_END, l->below, &l->from,
			&bounded, f))
		return false;
	if (bounded)
		l->end = l->from;
	return true;
}

static const struct db_val *keep_row(struct arena *a, const struct db_val *row,
				     size_t cols)
{
	struct db_val *kept = arena_array(a, cols, sizeof(*kept));

	for (size_t i = 0; i < cols; i++) {
		kept[i] = row[i];
		if (row[i].kind == DB_BYTES)
			kept[i].bytes = arena_sv(a, row[i].bytes);
	}
	return kept;
}

/* One look behind *below, which moves on; what is not to be seen goes with
 * its arena. *rows_r: how many were looked at. */
static bool look(struct db *db, struct list *l, struct arena *a, uint64_t most,
		 struct sv *below, size_t *rows_r, struct fail *f)
{
	struct arena *own = l->x->arena;
	struct db_table t;

	if (!db_query(db, STMT_JOB_PAGE,
		      DB_ARGS(db_uint(l->x->who.partner_id), db_text(*below),
			      db_text(l->from), db_uint(l->states.low),
			      db_uint(l->states.high),
			      db_uint(l->collections.low),
			      db_uint(l->collections.high), db_uint(most)),
		      a, &t, f))
		return false;
	*rows_r = t.rows;
	for (size_t i = 0; i < t.rows && l->count <= l->page.limit; i++)
		if (covers(l->x, db_cell(&t, i, 0)))
			l->jobs[l->count++] =
				a == own ? db_cell(&t, i, 0)
					 : keep_row(own, db_cell(&t, i, 0),
						    t.cols);
	if (t.rows)
		*below = arena_sv(own, db_cell(&t, t.rows - 1, J_ID)->bytes);
	return true;
}

/* Until the page is full, nothing is left, or enough was looked at. */
static bool look_for_own(struct db *db, struct list *l, struct fail *f)
{
	struct sv below = l->below;
	size_t looked = 0, rows = LOOK_ROWS;
	struct arena a;
	bool ok = true;

	arena_init(&a, LOOK_BLOCK_BYTES);
	while (ok && rows == LOOK_ROWS && l->count <= l->page.limit &&
	       looked < PAGE_SCAN_MAX) {
		arena_reset(&a);
		ok = look(db, l, &a, LOOK_ROWS, &below, &rows, f);
		looked += rows;
	}
	arena_release(&a);
	if (rows == LOOK_ROWS)
		l->end = below;
	return ok;
}

static enum db_step list_work(struct db *db, const struct db_attempt *at,
			      void *arg, struct fail *f)
{
	struct list *l = arg;
	struct sv below = l->below;
	size_t rows;

	(void)at;
	l->count = 0;
	l->jobs = arena_array(l->x->arena, l->page.limit + 1,
			      sizeof(struct db_val *));
	if (!bound_scan(db, l, f) ||
	    !(l->x->scope ? look_for_own(db, l, f)
			  : look(db, l, l->x->arena, l->page.limit + 1, &below,
				 &rows, f)))
		return DB_STEP_FAIL;
	return DB_STEP_ROLLBACK;
}

bool ep_job_list(struct exchange *x, struct fail *f)
{
	struct list l = {.x = x};
	size_t n;

	if (!read_filters(&l, f) ||
	    !db_txn(x->db,
		    &(struct db_txn){.name = "job.list",
				     .work = list_work,
				     .arg = &l,
				     .deadline_ms = x->deadline_ms},
		    f))
		return false;
	n = l.count > l.page.limit ? l.page.limit : l.count;
	page_begin(x);
	for (size_t r = 0; r < n; r++) {
		page_item(x);
		buf_add_byte(&x->answer.body, '{');
		add_job(&x->answer.body, l.jobs[r]);
		buf_add_byte(&x->answer.body, '}');
	}
	if (n < l.count)
		l.end = l.jobs[n - 1][J_ID].bytes;
	page_end(x, &l.page, l.end);
	return true;
}
