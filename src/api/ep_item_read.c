/* GET of items: one, with its history; a collection, page by page; and the
 * identity both ways (mappings).
 *
 * Guarantees:
 * 1. Every statement names the partner of the credential: what another
 *    partner has is answered like what does not exist.
 * 2. A payload goes out as the bytes that are stored.
 * 3. A credential limited to warehouses sees items, and versions of the past,
 *    that are of its warehouses now; the rows that are shown are judged by
 *    what was read together with them.
 * 4. History and present row belong together: history is asked for revs below
 *    the row's own, so that a change between the two statements shows nothing
 *    twice.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/page.h"
#include "api/param.h"
#include "api/respond.h"
#include "api/route.h"
#include "db/rows.h"
#include "db/txn.h"
#include "item/outcome.h"

/* Columns of STMT_ITEM_GET and STMT_ITEM_PAGE. */
enum {
	I_SOURCE_ID,
	I_VERSION,
	I_STATE,
	I_INTERNAL_ID,
	I_CREATED_AT,
	I_UPDATED_AT,
	I_BATCH,
	I_PAYLOAD,
	I_REV,
	I_TRAIT,
	I_HOME,
	I_CONTENT_BATCH, /* of STMT_ITEM_GET alone */
	I_CONTENT_AT,
};

/* Columns of STMT_ITEM_HISTORY_PAGE. */
enum {
	H_VERSION,
	H_STATE,
	H_BATCH,
	H_ACCEPTED_AT,
	H_PAYLOAD,
	H_REV,
	H_SUB,
	H_SOURCE_ID,
	H_TRAIT,
	H_HOME,
};

/* Columns of STMT_MAPPING_*. */
enum { M_COLLECTION, M_SOURCE_ID, M_INTERNAL_ID, M_STATE, M_TRAIT, M_HOME };

/* Columns of STMT_ITEM_PAGE_LOOK. */
enum { L_SOURCE_ID, L_TRAIT, L_HOME, L_BYTES };

/* So many are looked at with one statement, for those a limited credential
 * may see. */
enum { LOOK_ROWS = 1000, LOOK_BLOCK_BYTES = 256 * 1024 };

static struct scope_columns item_columns(enum collection c)
{
	return (struct scope_columns){.collection = -1,
				      .fixed = c,
				      .source_id = I_SOURCE_ID,
				      .trait = I_TRAIT,
				      .home = I_HOME,
				      .sender = -1};
}

static const struct scope_columns MAPPING_COLUMNS = {.collection = M_COLLECTION,
						     .source_id = M_SOURCE_ID,
						     .trait = M_TRAIT,
						     .home = M_HOME,
						     .sender = -1};

static bool sort_seen(const struct exchange *x, struct db *db,
		      const struct db_table *t, const struct scope_columns *c,
		      struct arena *a, bool **seen_r, struct fail *f)
{
	return scope_sort(db, x->who.partner_id, x->scope, t, c, a, seen_r, f);
}

static bool hides(const struct exchange *x, struct db *db,
		  const struct db_table *t, const struct scope_columns *c,
		  bool *hidden_r, struct fail *f)
{
	return scope_hides(db, x->who.partner_id, x->scope, t, c, x->arena,
			   hidden_r, f);
}

static struct id id_of(const struct db_val *v)
{
	struct id id;

	if (v->kind != DB_BYTES || v->bytes.n != sizeof(id.b))
		bug("an id that has not 16 bytes");
	memcpy(id.b, v->bytes.p, sizeof(id.b));
	return id;
}

static void add_id(struct buf *b, const char *name, const char *prefix,
		   const struct db_val *v)
{
	buf_addf(b, "\"%s\":\"", name);
	outcome_add_id(b, prefix, id_of(v));
	buf_add_byte(b, '"');
}

static void add_version_and_state(struct buf *b, const struct db_val *version,
				  const struct db_val *state)
{
	buf_add_text(b, "\"source_version\":");
	outcome_add_version(b, version->kind != DB_NULL, version->u);
	buf_addf(b, ",\"state\":\"%s\",",
		 item_state_name((enum item_state)state->u));
}

/* All members of an item, without the braces. */
static void add_item(struct buf *b, enum collection c, const struct db_table *t,
		     size_t row)
{
	buf_add_text(b, "\"source_id\":");
	buf_add_json(b, db_cell(t, row, I_SOURCE_ID)->bytes);
	buf_add_byte(b, ',');
	add_version_and_state(b, db_cell(t, row, I_VERSION),
			      db_cell(t, row, I_STATE));
	add_id(b, "internal_id", collection_info(c)->prefix,
	       db_cell(t, row, I_INTERNAL_ID));
	buf_addf(b, ",\"created_at\":\"%.*s\",\"updated_at\":\"%.*s\",",
		 SV_ARG(db_cell(t, row, I_CREATED_AT)->bytes),
		 SV_ARG(db_cell(t, row, I_UPDATED_AT)->bytes));
	add_id(b, "batch_id", "bat", db_cell(t, row, I_BATCH));
	buf_add_text(b, ",\"payload\":");
	buf_add(b, db_cell(t, row, I_PAYLOAD)->bytes);
}

/* GET one */

struct show {
	struct exchange *x;
	enum collection collection;
	bool history;
	struct page page;  /* of the history */
	uint32_t rev, sub; /* its first entry */
	struct db_table item, versions;
	bool *seen; /* versions, by row; NULL: all */
	bool more, hidden;
};

/* Where a history page ended: rev and sub, four bytes each. */
enum { H_POSITION = 8 };

static struct sv history_position(struct arena *a, uint64_t rev, uint64_t sub)
{
	uint8_t at[H_POSITION];

	for (int i = 0; i < 4; i++) {
		at[i] = (uint8_t)(rev >> (24 - 8 * i));
		at[4 + i] = (uint8_t)(sub >> (24 - 8 * i));
	}
	return arena_sv(a, sv_from(at, sizeof(at)));
}

static bool read_history_params(struct show *s, struct fail *f)
{
	struct exchange *x = s->x;
	struct sv unused;
	const uint8_t *at;

	s->page.scope = (struct cursor_scope){
		.listing = "history",
		.partner_id = x->who.partner_id,
		.filters = {x->segments[2], x->segments[3], x->segments[4]}};
	if (!param_bool(x, "history", &s->history, f))
		return false;
	if (!s->history && param_find(x, "after", &unused))
		return fail_set(f, FAIL_BAD_PARAMETER,
				"after goes with history=true");
	if (!page_read_after(x, &s->page, f))
		return false;
	if (!s->page.after.p)
		return true;
	if (s->page.after.n != H_POSITION)
		bug("a history cursor of %zu bytes", s->page.after.n);
	at = (const uint8_t *)s->page.after.p;
	for (int i = 0; i < 4; i++) {
		s->rev = s->rev << 8 | at[i];
		s->sub = s->sub << 8 | at[4 + i];
	}
	s->sub++;
	return true;
}

static bool ask_history(struct db *db, struct show *s, enum stmt id,
			uint64_t most, struct db_table *t_r, struct fail *f)
{
	return db_query(
		db, id,
		DB_ARGS(db_uint(s->x->who.partner_id), db_uint(s->collection),
			db_text(s->x->segments[4]),
			*db_cell(&s->item, 0, I_REV), db_uint(s->rev),
			db_uint(s->rev), db_uint(s->sub), db_uint(most)),
		s->x->arena, t_r, f);
}

static bool read_history(struct db *db, struct show *s, struct fail *f)
{
	const struct scope_columns columns = {.collection = -1,
					      .fixed = s->collection,
					      .source_id = H_SOURCE_ID,
					      .trait = H_TRAIT,
					      .home = H_HOME,
					      .sender = -1};
	struct db_table sizes;
	size_t n;

	if (!ask_history(db, s, STMT_ITEM_HISTORY_SIZES, PAGE_LIMIT_MAX + 1,
			 &sizes, f))
		return false;
	n = page_fit(&sizes, 0, PAGE_LIMIT_MAX);
	s->more = n < sizes.rows;
	return ask_history(db, s, STMT_ITEM_HISTORY_PAGE, n, &s->versions, f) &&
	       sort_seen(s->x, db, &s->versions, &columns, s->x->arena,
			 &s->seen, f);
}

static enum db_step show_work(struct db *db, const struct db_attempt *at,
			      void *arg, struct fail *f)
{
	struct show *s = arg;
	struct exchange *x = s->x;
	struct scope_columns columns = item_columns(s->collection);

	(void)at;
	if (!db_query(db, STMT_ITEM_GET,
		      DB_ARGS(db_uint(x->who.partner_id),
			      db_uint(s->collection), db_text(x->segments[4])),
		      x->arena, &s->item, f) ||
	    !hides(x, db, &s->item, &columns, &s->hidden, f))
		return DB_STEP_FAIL;
	if (s->hidden || !s->history)
		return DB_STEP_ROLLBACK;
	return read_history(db, s, f) ? DB_STEP_ROLLBACK : DB_STEP_FAIL;
}

static void add_version(struct buf *b, const struct db_val *version,
			const struct db_val *state, const struct db_val *batch,
			const struct db_val *accepted_at,
			const struct db_val *payload)
{
	buf_add_byte(b, '{');
	add_version_and_state(b, version, state);
	add_id(b, "batch_id", "bat", batch);
	buf_addf(b, ",\"accepted_at\":\"%.*s\",\"payload\":",
		 SV_ARG(accepted_at->bytes));
	buf_add(b, payload->bytes);
	buf_add_byte(b, '}');
}

/* The present row is the last entry, on the page that ends the history. */
static void add_history(struct show *s)
{
	struct buf *b = &s->x->answer.body;
	const struct db_table *t = &s->versions, *i = &s->item;
	struct sv position = SV_NONE;

	buf_add_text(b, ",\"history\":[");
	for (size_t r = 0; r < t->rows; r++) {
		if (s->seen && !s->seen[r])
			continue;
		page_item(s->x);
		add_version(b, db_cell(t, r, H_VERSION), db_cell(t, r, H_STATE),
			    db_cell(t, r, H_BATCH),
			    db_cell(t, r, H_ACCEPTED_AT),
			    db_cell(t, r, H_PAYLOAD));
	}
	if (s->more) {
		position = history_position(s->x->arena,
					    db_cell(t, t->rows - 1, H_REV)->u,
					    db_cell(t, t->rows - 1, H_SUB)->u);
	} else {
		page_item(s->x);
		add_version(b, db_cell(i, 0, I_VERSION), db_cell(i, 0, I_STATE),
			    db_cell(i, 0, I_CONTENT_BATCH),
			    db_cell(i, 0, I_CONTENT_AT),
			    db_cell(i, 0, I_PAYLOAD));
	}
	buf_add_text(b, "],\"history_next\":");
	page_add_cursor(b, &s->page, position);
}

bool ep_item_show(struct exchange *x, struct fail *f)
{
	struct show s = {.x = x, .collection = param_path_collection(x)};
	struct buf *b = &x->answer.body;

	if (!read_history_params(&s, f))
		return false;
	if (!db_txn(x->db,
		    &(struct db_txn){.name = "item.show",
				     .work = show_work,
				     .arg = &s,
				     .deadline_ms = x->deadline_ms},
		    f))
		return false;
	if (s.hidden)
		return fail_set(f, FAIL_NOT_FOUND, "there is no such item");
	buf_add_byte(b, '{');
	add_item(b, s.collection, &s.item, 0);
	if (s.history)
		add_history(&s);
	buf_add_text(b, "}\n");
	return true;
}

/* GET a collection */

/* Above every source_id: no UTF-8 begins so. */
#define LAST_SOURCE_ID SV("\xff")

struct list {
	struct exchange *x;
	enum collection collection;
	struct param_range states;
	struct page page;
	struct sv until;
	struct db_table items;
	bool *seen;    /* by row; NULL: all */
	bool bounded;  /* there may be more behind `until` */
	struct sv end; /* there may be more behind it; p NULL: no */
};

static bool read_state(const struct exchange *x, struct param_range *r,
		       struct fail *f)
{
	struct sv text;

	*r = PARAM_ALL;
	if (!param_find(x, "state", &text))
		return true;
	r->low = r->high = item_state_of(text);
	return r->low || fail_set(f, FAIL_BAD_PARAMETER,
				  "state must be ACTIVE or INACTIVE");
}

static bool ask_behind(struct db *db, const struct list *l, enum stmt id,
		       struct sv after, uint64_t most, struct arena *a,
		       struct db_table *t_r, struct fail *f)
{
	return db_query(db, id,
			DB_ARGS(db_uint(l->x->who.partner_id),
				db_uint(l->collection), db_text(after),
				db_text(l->until), db_uint(l->states.low),
				db_uint(l->states.high), db_uint(most)),
			a, t_r, f);
}

static bool ask_page(struct db *db, struct list *l, enum stmt id, uint64_t most,
		     struct db_table *t_r, struct fail *f)
{
	return ask_behind(db, l, id, l->page.after, most, l->x->arena, t_r, f);
}

/* There is no index over states: a page looks at so many rows at most. */
static bool bound_scan(struct db *db, struct list *l, struct fail *f)
{
	struct db_table end;

	l->until = LAST_SOURCE_ID;
	l->bounded = false;
	if (l->states.low != l->states.high)
		return true;
	if (!db_query(db, STMT_ITEM_PAGE_END,
		      DB_ARGS(db_uint(l->x->who.partner_id),
			      db_uint(l->collection), db_text(l->page.after)),
		      l->x->arena, &end, f))
		return false;
	l->bounded = end.rows > 0;
	if (l->bounded)
		l->until = db_cell(&end, 0, 0)->bytes;
	return true;
}

static bool read_all(struct db *db, struct list *l, struct fail *f)
{
	struct db_table sizes;
	size_t n;

	if (!ask_page(db, l, STMT_ITEM_PAGE_SIZES, l->page.limit + 1, &sizes,
		      f))
		return false;
	n = page_fit(&sizes, 0, l->page.limit);
	if (!ask_page(db, l, STMT_ITEM_PAGE, n, &l->items, f))
		return false;
	if (l->items.rows == n && n < sizes.rows)
		l->end = db_cell(&l->items, n - 1, I_SOURCE_ID)->bytes;
	return true;
}

/* The way of a limited credential: a look at what there is, then the rows of
 * what it may see. */
struct search {
	struct sv after;      /* the last one looked at */
	struct db_val *found; /* source ids */
	struct page_room room;
	bool full, ended;
};

static bool look(struct db *db, const struct list *l, struct search *s,
		 struct arena *a, struct fail *f)
{
	const struct scope_columns columns = {.collection = -1,
					      .fixed = l->collection,
					      .source_id = L_SOURCE_ID,
					      .trait = L_TRAIT,
					      .home = L_HOME,
					      .sender = -1};
	struct arena *own = l->x->arena;
	struct db_table t;
	bool *seen;

	if (!ask_behind(db, l, STMT_ITEM_PAGE_LOOK, s->after, LOOK_ROWS, a, &t,
			f) ||
	    !sort_seen(l->x, db, &t, &columns, a, &seen, f))
		return false;
	for (size_t i = 0; i < t.rows && !s->full; i++) {
		size_t n = s->room.count;

		if (!seen[i])
			continue;
		s->full = !page_take(&s->room, db_cell(&t, i, L_BYTES)->u);
		if (!s->full)
			s->found[n] = db_text(arena_sv(
				own, db_cell(&t, i, L_SOURCE_ID)->bytes));
	}
	s->ended = t.rows < LOOK_ROWS;
	if (t.rows)
		s->after = arena_sv(
			own, db_cell(&t, t.rows - 1, L_SOURCE_ID)->bytes);
	return true;
}

/* Until the page is full, nothing is left, or enough was looked at. */
static bool search(struct db *db, const struct list *l, struct search *s,
		   struct fail *f)
{
	struct arena a;
	bool ok = true;

	arena_init(&a, LOOK_BLOCK_BYTES);
	for (int n = 0;
	     ok && !s->full && !s->ended && n < PAGE_SCAN_MAX / LOOK_ROWS;
	     n++) {
		arena_reset(&a);
		ok = look(db, l, s, &a, f);
	}
	arena_release(&a);
	return ok;
}

static bool read_own(struct db *db, struct list *l, struct fail *f)
{
	struct scope_columns columns = item_columns(l->collection);
	struct search s = {
		.after = l->page.after,
		.found = arena_array(l->x->arena, l->page.limit,
				     sizeof(*s.found)),
		.room = {.limit = l->page.limit},
	};

	if (!search(db, l, &s, f))
		return false;
	if (s.full)
		l->end = s.found[s.room.count - 1].bytes;
	else if (!s.ended)
		l->end = s.after;
	return db_keys_query(
		       db, STMT_ITEM_PAGE_SOME,
		       DB_ARGS(db_uint(l->x->who.partner_id),
			       db_uint(l->collection), db_uint(l->states.low),
			       db_uint(l->states.high)),
		       s.found, s.room.count, l->x->arena, &l->items, f) &&
	       sort_seen(l->x, db, &l->items, &columns, l->x->arena, &l->seen,
			 f);
}

static enum db_step list_work(struct db *db, const struct db_attempt *at,
			      void *arg, struct fail *f)
{
	struct list *l = arg;
	bool all = !l->x->scope || !scope_concerns(l->collection);

	(void)at;
	l->seen = NULL;
	if (!bound_scan(db, l, f))
		return DB_STEP_FAIL;
	l->end = l->bounded ? l->until : SV_NONE;
	return (all ? read_all(db, l, f) : read_own(db, l, f))
		       ? DB_STEP_ROLLBACK
		       : DB_STEP_FAIL;
}

bool ep_item_list(struct exchange *x, struct fail *f)
{
	struct list l = {.x = x, .collection = param_path_collection(x)};
	struct sv state = SV_NONE;

	if (!read_state(x, &l.states, f))
		return false;
	param_find(x, "state", &state);
	l.page.scope = (struct cursor_scope){
		.listing = "items",
		.partner_id = x->who.partner_id,
		.filters = {x->segments[2], x->segments[3], state}};
	if (!page_read(x, &l.page, f) ||
	    !db_txn(x->db,
		    &(struct db_txn){.name = "item.list",
				     .work = list_work,
				     .arg = &l,
				     .deadline_ms = x->deadline_ms},
		    f))
		return false;
	page_begin(x);
	for (size_t r = 0; r < l.items.rows; r++) {
		if (l.seen && !l.seen[r])
			continue;
		page_item(x);
		buf_add_byte(&x->answer.body, '{');
		add_item(&x->answer.body, l.collection, &l.items, r);
		buf_add_byte(&x->answer.body, '}');
	}
	page_end(x, &l.page, l.end);
	return true;
}

/* GET /mappings */

/* Of any collection: the prefix says which. */
static bool parse_internal(struct sv text, enum collection *c_r,
			   struct id *id_r)
{
	for (int i = 0; i < COLLECTION_COUNT; i++)
		if (outcome_parse_id(
			    text, collection_info((enum collection)i)->prefix,
			    id_r)) {
			*c_r = (enum collection)i;
			return true;
		}
	return false;
}

static bool find_by_internal(struct exchange *x, struct sv text,
			     struct db_table *t_r, struct fail *f)
{
	enum collection c;
	struct id id;

	if (!parse_internal(text, &c, &id))
		return fail_set(f, FAIL_BAD_PARAMETER,
				"internal_id must be a prefix such as sku-, "
				"and 32 hex digits");
	if (!db_query(x->db, STMT_MAPPING_BY_INTERNAL,
		      DB_ARGS(db_uint(x->who.partner_id),
			      db_text(sv_from(id.b, sizeof(id.b)))),
		      x->arena, t_r, f))
		return false;
	if (t_r->rows && db_cell(t_r, 0, M_COLLECTION)->u != (uint64_t)c)
		t_r->rows = 0;
	return true;
}

static bool find_mapping(struct exchange *x, struct db_table *t_r,
			 struct fail *f)
{
	struct sv collection, source_id, internal_id;
	bool by_collection = param_find(x, "collection", &collection);
	bool by_source = param_find(x, "source_id", &source_id);
	struct param_range c;

	if (param_find(x, "internal_id", &internal_id)) {
		if (by_collection || by_source)
			return fail_set(f, FAIL_BAD_PARAMETER,
					"internal_id stands alone");
		return find_by_internal(x, internal_id, t_r, f);
	}
	if (!by_collection || !by_source)
		return fail_set(f, FAIL_BAD_PARAMETER,
				"send collection and source_id, or "
				"internal_id");
	return param_collection(x, &c, f) &&
	       db_query(x->db, STMT_MAPPING_BY_SOURCE,
			DB_ARGS(db_uint(x->who.partner_id), db_uint(c.low),
				db_text(source_id)),
			x->arena, t_r, f);
}

bool ep_mapping_find(struct exchange *x, struct fail *f)
{
	const struct collection_info *c;
	struct buf *b = &x->answer.body;
	struct db_table t;
	bool hidden;

	if (!find_mapping(x, &t, f) ||
	    !hides(x, x->db, &t, &MAPPING_COLUMNS, &hidden, f))
		return false;
	if (hidden)
		return fail_set(f, FAIL_NOT_FOUND, "there is no such item");
	c = collection_info((enum collection)db_cell(&t, 0, M_COLLECTION)->u);
	buf_addf(b, "{\"area\":\"%s\",\"collection\":\"%s\",\"source_id\":",
		 c->area, c->name);
	buf_add_json(b, db_cell(&t, 0, M_SOURCE_ID)->bytes);
	buf_add_byte(b, ',');
	add_id(b, "internal_id", c->prefix, db_cell(&t, 0, M_INTERNAL_ID));
	buf_addf(b, ",\"state\":\"%s\"}\n",
		 item_state_name((enum item_state)db_cell(&t, 0, M_STATE)->u));
	return true;
}
