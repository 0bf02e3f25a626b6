/* GET of quarantine: one record, and all of them page by page.
 *
 * Every statement names the partner of the credential: what another partner
 * has is answered like what does not exist. So is, of a credential limited to
 * warehouses, what its own did not send and what is not of them now; the rows
 * that are shown are judged by what was read together with them.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/page.h"
#include "api/param.h"
#include "api/respond.h"
#include "api/route.h"
#include "db/rows.h"
#include "db/txn.h"
#include "item/outcome.h"

/* Columns of STMT_QUARANTINE_PAGE_KEYS. */
enum {
	K_ID,
	K_BYTES,
	K_COLLECTION,
	K_SOURCE_ID,
	K_TRAIT,
	K_HOME,
	K_WAREHOUSES,
};

/* So many are looked at with one statement, for those a limited credential
 * may see. */
enum { LOOK_ROWS = 500, LOOK_BLOCK_BYTES = 256 * 1024 };

/* Columns of STMT_QUARANTINE_GET; STMT_QUARANTINE_PAGE ends before the
 * payload. */
enum {
	Q_ID,
	Q_COLLECTION,
	Q_SOURCE_ID,
	Q_VERSION,
	Q_STATE,
	Q_CODE,
	Q_REASON,
	Q_MISSING,
	Q_ATTEMPTS,
	Q_FIRST_SEEN,
	Q_LAST_SEEN,
	Q_BATCH,
	Q_TRAIT,
	Q_HOME,
	Q_WAREHOUSES,
	Q_PAYLOAD,
};

static const struct scope_columns COLUMNS = {.collection = Q_COLLECTION,
					     .source_id = Q_SOURCE_ID,
					     .trait = Q_TRAIT,
					     .home = Q_HOME,
					     .sender = Q_WAREHOUSES};
static const struct scope_columns KEY_COLUMNS = {.collection = K_COLLECTION,
						 .source_id = K_SOURCE_ID,
						 .trait = K_TRAIT,
						 .home = K_HOME,
						 .sender = K_WAREHOUSES};

static void add_id(struct buf *b, const char *name, const char *prefix,
		   struct sv bytes)
{
	struct id id;

	if (bytes.n != sizeof(id.b))
		bug("an id of %zu bytes", bytes.n);
	memcpy(id.b, bytes.p, sizeof(id.b));
	buf_addf(b, "\"%s\":\"", name);
	outcome_add_id(b, prefix, id);
	buf_add_byte(b, '"');
}

static void add_text(struct buf *b, const char *name, struct sv text)
{
	buf_addf(b, ",\"%s\":", name);
	buf_add_json(b, text);
}

/* All members but the payload, without the braces. */
static void add_record(struct buf *b, const struct exchange *x,
		       const struct db_table *t, size_t row)
{
	const struct db_val *v = db_cell(t, row, 0);
	enum collection c = (enum collection)v[Q_COLLECTION].u;

	add_id(b, "quarantine_id", "qua", v[Q_ID].bytes);
	add_text(b, "partner_id", sv_of(x->who.partner));
	add_text(b, "collection", sv_of(collection_info(c)->name));
	add_text(b, "source_id", v[Q_SOURCE_ID].bytes);
	buf_add_text(b, ",\"source_version\":");
	outcome_add_version(b, v[Q_VERSION].kind != DB_NULL, v[Q_VERSION].u);
	buf_addf(b, ",\"state\":\"%s\",\"code\":\"%s\"",
		 quarantine_state_name((enum quarantine_state)v[Q_STATE].u),
		 hold_code_name((enum hold_code)v[Q_CODE].u));
	add_text(b, "reason", v[Q_REASON].bytes);
	buf_add_text(b, ",\"missing\":");
	buf_add(b, v[Q_MISSING].bytes);
	buf_add_text(b, ",\"attempts\":");
	buf_add_u64(b, v[Q_ATTEMPTS].u);
	add_text(b, "first_seen", v[Q_FIRST_SEEN].bytes);
	add_text(b, "last_seen", v[Q_LAST_SEEN].bytes);
	buf_add_byte(b, ',');
	add_id(b, "batch_id", "bat", v[Q_BATCH].bytes);
}

bool ep_quarantine_show(struct exchange *x, struct fail *f)
{
	struct buf *b = &x->answer.body;
	struct db_table t = {0};
	struct id id;
	bool hidden;

	if (outcome_parse_id(x->segments[3], "qua", &id) &&
	    !db_query(x->db, STMT_QUARANTINE_GET,
		      DB_ARGS(db_uint(x->who.partner_id), db_id(&id)), x->arena,
		      &t, f))
		return false;
	if (!scope_hides(x->db, x->who.partner_id, x->scope, &t, &COLUMNS,
			 x->arena, &hidden, f))
		return false;
	if (hidden)
		return fail_set(f, FAIL_NOT_FOUND,
				"there is no such quarantine record");
	buf_add_byte(b, '{');
	add_record(b, x, &t, 0);
	buf_add_text(b, ",\"payload\":");
	buf_add(b, db_cell(&t, 0, Q_PAYLOAD)->bytes);
	buf_add_text(b, "}\n");
	return true;
}

/* The listing */

static const struct id ID_FIRST,
	ID_LAST = {{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
		    255, 255, 255, 255}};

struct list {
	struct exchange *x;
	struct param_range collections, codes, states;
	struct sv missing; /* p NULL: not filtered */
	struct page page;
	struct sv after, until;
	struct db_val *ids; /* of this page */
	struct page_room room;
	bool full; /* there are more than these */
	struct db_table records;
	bool *seen;    /* by row; NULL: all */
	bool bounded;  /* there may be more behind `until` */
	struct sv end; /* there may be more behind it; p NULL: no */
};

static bool read_code(const struct exchange *x, struct param_range *r,
		      struct fail *f)
{
	struct sv text;

	*r = PARAM_ALL;
	if (!param_find(x, "code", &text))
		return true;
	r->low = r->high = hold_code_of(text);
	return r->low || fail_set(f, FAIL_BAD_PARAMETER,
				  "code must be one of those an item can be "
				  "held back with, such as reference-missing");
}

static bool read_state(const struct exchange *x, struct param_range *r,
		       struct fail *f)
{
	struct sv text;

	*r = PARAM_ALL;
	if (!param_find(x, "state", &text))
		return true;
	r->low = r->high = quarantine_state_of(text);
	return r->low || fail_set(f, FAIL_BAD_PARAMETER,
				  "state must be OPEN, RELEASED, SUPERSEDED or "
				  "DISCARDED");
}

static bool read_missing(const struct exchange *x, struct sv *missing_r,
			 struct fail *f)
{
	*missing_r = SV_NONE;
	if (!param_find(x, "missing", missing_r))
		return true;
	if (missing_r->n >= 1 && missing_r->n <= ITEM_SOURCE_ID_MAX)
		return true;
	return fail_set(f, FAIL_BAD_PARAMETER,
			"missing must be a source_id: 1 to 128 bytes");
}

static bool read_filters(struct list *l, struct fail *f)
{
	static const char *const NAMES[CURSOR_FILTERS_MAX] = {
		"collection", "code", "missing", "state"};
	struct exchange *x = l->x;

	l->page.scope = (struct cursor_scope){.listing = "quarantine",
					      .partner_id = x->who.partner_id};
	for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
		param_find(x, NAMES[i], &l->page.scope.filters[i]);
	if (!param_collection(x, &l->collections, f) ||
	    !read_code(x, &l->codes, f) || !read_missing(x, &l->missing, f) ||
	    !read_state(x, &l->states, f) || !page_read(x, &l->page, f))
		return false;
	l->after = l->page.after.p ? l->page.after
				   : sv_from(ID_FIRST.b, sizeof(ID_FIRST.b));
	return true;
}

/* Filters have no index, but for `missing`: a page looks at so many rows at
 * most. */
static bool bound_scan(struct db *db, struct list *l, struct fail *f)
{
	l->until = sv_from(ID_LAST.b, sizeof(ID_LAST.b));
	l->bounded = false;
	if (l->missing.p || (param_is_all(l->collections) &&
			     param_is_all(l->codes) && param_is_all(l->states)))
		return true;
	return page_bound(db, l->x, STMT_QUARANTINE_PAGE_END, l->after,
			  &l->until, &l->bounded, f);
}

/* The two statements differ in the second argument alone. */
static bool ask_keys(struct db *db, const struct list *l, struct sv after,
		     uint64_t most, struct arena *a, struct db_table *t,
		     struct fail *f)
{
	const struct db_val args[] = {
		db_uint(l->x->who.partner_id),
		db_text(l->missing),
		db_text(after),
		db_text(l->until),
		db_uint(l->collections.low),
		db_uint(l->collections.high),
		db_uint(l->codes.low),
		db_uint(l->codes.high),
		db_uint(l->states.low),
		db_uint(l->states.high),
		db_uint(most),
	};
	struct db_val plain[ARRAY_LEN(args) - 1];

	if (l->missing.p)
		return db_query(db, STMT_QUARANTINE_WAITERS,
				(struct db_args){args, ARRAY_LEN(args)}, a, t,
				f);
	plain[0] = args[0];
	memcpy(plain + 1, args + 2, sizeof(plain) - sizeof(plain[0]));
	return db_query(db, STMT_QUARANTINE_PAGE_KEYS,
			(struct db_args){plain, ARRAY_LEN(plain)}, a, t, f);
}

static bool sort_seen(struct db *db, const struct list *l,
		      const struct db_table *t, const struct scope_columns *c,
		      struct arena *a, bool **seen_r, struct fail *f)
{
	return scope_sort(db, l->x->who.partner_id, l->x->scope, t, c, a,
			  seen_r, f);
}

/* One look behind *after, which moves on. *rows_r: how many were looked at. */
static bool look(struct db *db, struct list *l, struct arena *a, uint64_t most,
		 struct sv *after, size_t *rows_r, struct fail *f)
{
	struct arena *own = l->x->arena;
	struct db_table t;
	bool *seen;

	if (!ask_keys(db, l, *after, most, a, &t, f) ||
	    !sort_seen(db, l, &t, &KEY_COLUMNS, a, &seen, f))
		return false;
	for (size_t i = 0; i < t.rows && !l->full; i++) {
		size_t n = l->room.count;

		if (seen && !seen[i])
			continue;
		l->full = !page_take(&l->room, db_cell(&t, i, K_BYTES)->u);
		if (!l->full)
			l->ids[n] = db_text(
				arena_sv(own, db_cell(&t, i, K_ID)->bytes));
	}
	*rows_r = t.rows;
	if (t.rows)
		*after = arena_sv(own, db_cell(&t, t.rows - 1, K_ID)->bytes);
	return true;
}

/* Of a limited credential: until the page is full, nothing is left, or enough
 * was looked at. */
static bool look_for_own(struct db *db, struct list *l, struct fail *f)
{
	struct sv after = l->after;
	size_t looked = 0, rows = LOOK_ROWS;
	struct arena a;
	bool ok = true;

	arena_init(&a, LOOK_BLOCK_BYTES);
	while (ok && rows == LOOK_ROWS && !l->full && looked < PAGE_SCAN_MAX) {
		arena_reset(&a);
		ok = look(db, l, &a, LOOK_ROWS, &after, &rows, f);
		looked += rows;
	}
	arena_release(&a);
	if (rows == LOOK_ROWS)
		l->end = after;
	return ok;
}

static bool find_keys(struct db *db, struct list *l, struct fail *f)
{
	struct sv after = l->after;
	size_t rows;

	l->full = false;
	l->room = (struct page_room){.limit = l->page.limit};
	l->ids = arena_array(l->x->arena, l->page.limit, sizeof(*l->ids));
	l->end = l->bounded ? l->until : SV_NONE;
	if (!(l->x->scope ? look_for_own(db, l, f)
			  : look(db, l, l->x->arena, l->page.limit + 1, &after,
				 &rows, f)))
		return false;
	if (l->full)
		l->end = l->ids[l->room.count - 1].bytes;
	return true;
}

static bool ask_records(struct db *db, struct list *l, struct fail *f)
{
	l->records = (struct db_table){0};
	return !l->room.count ||
	       (db_keys_query(db, STMT_QUARANTINE_PAGE,
			      DB_ARGS(db_uint(l->x->who.partner_id),
				      db_uint(l->states.low),
				      db_uint(l->states.high)),
			      l->ids, l->room.count, l->x->arena, &l->records,
			      f) &&
		sort_seen(db, l, &l->records, &COLUMNS, l->x->arena, &l->seen,
			  f));
}

static enum db_step list_work(struct db *db, const struct db_attempt *at,
			      void *arg, struct fail *f)
{
	struct list *l = arg;

	(void)at;
	return bound_scan(db, l, f) && find_keys(db, l, f) &&
			       ask_records(db, l, f)
		       ? DB_STEP_ROLLBACK
		       : DB_STEP_FAIL;
}

bool ep_quarantine_list(struct exchange *x, struct fail *f)
{
	struct list l = {.x = x};

	if (!read_filters(&l, f) ||
	    !db_txn(x->db,
		    &(struct db_txn){.name = "quarantine.list",
				     .work = list_work,
				     .arg = &l,
				     .deadline_ms = x->deadline_ms},
		    f))
		return false;
	page_begin(x);
	for (size_t r = 0; r < l.records.rows; r++) {
		if (l.seen && !l.seen[r])
			continue;
		page_item(x);
		buf_add_byte(&x->answer.body, '{');
		add_record(&x->answer.body, x, &l.records, r);
		buf_add_byte(&x->answer.body, '}');
	}
	page_end(x, &l.page, l.end);
	return true;
}
