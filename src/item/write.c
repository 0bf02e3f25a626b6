/* Writing what was decided: one row a changed entry, in the order of the
 * source ids' bytes, each compared with the rev it was decided on (A2, A3). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"

static struct db_val version_val(bool has, uint64_t version)
{
	return has ? db_uint(version) : db_null();
}

static struct db_val text_val(struct sv text)
{
	return text.n ? db_text(text) : db_null();
}

static const struct shelf *own_shelf(const struct core *c)
{
	return &c->shelves[c->a->collection];
}

static struct db_args partner_and_collection(struct core *c)
{
	struct db_val *v = arena_array(c->a->arena, 2, sizeof(*v));

	v[0] = db_uint(c->a->partner_id);
	v[1] = db_uint((uint64_t)c->a->collection);
	return (struct db_args){v, 2};
}

/* Rows under way to a multi-row statement. */
struct sheet {
	struct db_val *cells;
	size_t rows, cols;
};

static struct sheet sheet_new(struct core *c, size_t rows, size_t cols)
{
	return (struct sheet){
		arena_array(c->a->arena, rows * cols, sizeof(struct db_val)), 0,
		cols};
}

static void sheet_add(struct sheet *s, struct db_args row)
{
	if (row.n != s->cols)
		bug("a row of %zu cells, want %zu", row.n, s->cols);
	memcpy(s->cells + s->rows++ * s->cols, row.v, row.n * sizeof(*row.v));
}

/* A duplicate is somebody who was faster, too. */
static enum apply_result failed(const struct db *db)
{
	return db_last_class(db) == DB_DUPLICATE ? APPLY_RACED : APPLY_FAIL;
}

/* Every row must count as it was decided on; else somebody raced us. */
static enum apply_result put(struct db *db, enum stmt id, const struct sheet *s,
			     uint64_t want, struct fail *f)
{
	uint64_t affected;

	if (!s->rows)
		return APPLY_DONE;
	if (!db_rows_exec(db, id, s->cells, s->rows, s->cols, &affected, f))
		return failed(db);
	return affected == want ? APPLY_DONE : APPLY_RACED;
}

static enum apply_result keep_replaced(struct core *c, struct db *db,
				       struct fail *f)
{
	const struct shelf *s = own_shelf(c);
	struct db_val *keys = arena_array(c->a->arena, s->count, sizeof(*keys));
	uint64_t affected;
	size_t n = 0;

	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].from && s->entries[i].rev)
			keys[n++] = db_text(s->entries[i].source_id);
	if (!db_keys_exec(db, STMT_ITEM_KEEP_REPLACED,
			  partner_and_collection(c), keys, n, &affected, f))
		return failed(db);
	return affected == n ? APPLY_DONE : APPLY_RACED;
}

static size_t count_overtaken(const struct entry *e)
{
	size_t n = 0;

	for (const struct overtaken *o = e->overtaken; o; o = o->older)
		n++;
	return n;
}

static enum apply_result keep_overtaken(struct core *c, struct db *db,
					struct fail *f)
{
	const struct shelf *s = own_shelf(c);
	struct sheet sheet;
	size_t total = 0;

	for (size_t i = 0; i < s->count; i++)
		total += count_overtaken(&s->entries[i]);
	sheet = sheet_new(c, total, 10);
	for (size_t i = 0; i < s->count; i++) {
		const struct entry *e = &s->entries[i];
		size_t sub = count_overtaken(e);

		for (const struct overtaken *o = e->overtaken; o; o = o->older)
			sheet_add(
				&sheet,
				DB_ARGS(db_uint(c->a->partner_id),
					db_uint((uint64_t)c->a->collection),
					db_text(e->source_id), db_uint(e->rev),
					db_uint(sub--),
					version_val(o->has_version, o->version),
					text_val(o->from->trait),
					text_val(o->from->home),
					db_text(o->from->payload),
					db_id(&c->a->batch_id)));
	}
	return put(db, STMT_ITEM_KEEP_OVERTAKEN, &sheet, total, f);
}

static void add_item(struct core *c, struct sheet *s, const struct entry *e)
{
	sheet_add(s, DB_ARGS(db_uint(c->a->partner_id),
			     db_uint((uint64_t)c->a->collection),
			     db_text(e->source_id), db_uint(e->rev + 1),
			     version_val(e->has_version, e->version),
			     db_uint(e->state), text_val(e->trait),
			     text_val(e->home),
			     db_text(sv_from(e->hash, ITEM_HASH)),
			     db_id(&e->internal_id), db_text(e->from->payload),
			     db_uint(e->rev + 1), db_id(&c->a->batch_id),
			     db_id(&c->a->batch_id), db_id(&c->a->batch_id)));
}

static enum apply_result swap_items(struct core *c, struct db *db,
				    struct fail *f)
{
	const struct shelf *s = own_shelf(c);
	struct sheet sheet = sheet_new(c, s->count, 15);
	uint64_t want = 0;

	for (size_t i = 0; i < s->count; i++) {
		const struct entry *e = &s->entries[i];

		if (!e->from)
			continue;
		add_item(c, &sheet, e);
		want += e->rev ? 2 : 1;
	}
	return put(db, STMT_ITEM_UPSERT, &sheet, want, f);
}

static int by_sv(const void *a, const void *b)
{
	return sv_cmp(*(const struct sv *)a, *(const struct sv *)b);
}

static void add_edges(struct core *c, struct sheet *s, const struct entry *e)
{
	const struct incoming *in = e->from;
	size_t n = in->component_count;
	struct sv *sorted = arena_array(c->a->arena, n, sizeof(*sorted));

	memcpy(sorted, in->components, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_sv);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || !sv_eq(sorted[i], sorted[i - 1]))
			sheet_add(s,
				  DB_ARGS(db_uint(c->a->partner_id),
					  db_text(in->sku), db_text(sorted[i]),
					  db_text(e->source_id)));
}

static enum apply_result write_edges(struct core *c, struct db *db,
				     struct fail *f)
{
	const struct shelf *s = own_shelf(c);
	struct db_val *boms = arena_array(c->a->arena, s->count, sizeof(*boms));
	size_t n = 0, edges = 0;
	struct sheet sheet;
	uint64_t affected;

	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].from) {
			boms[n++] = db_text(s->entries[i].source_id);
			edges += s->entries[i].from->component_count;
		}
	sheet = sheet_new(c, edges, 4);
	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].from)
			add_edges(c, &sheet, &s->entries[i]);
	if (!db_keys_exec(db, STMT_BOM_EDGE_DROP,
			  DB_ARGS(db_uint(c->a->partner_id)), boms, n,
			  &affected, f))
		return APPLY_FAIL;
	return put(db, STMT_BOM_EDGE_ADD, &sheet, sheet.rows, f);
}

enum apply_result write_items(struct core *c, struct db *db, struct fail *f)
{
	enum apply_result r = keep_replaced(c, db, f);

	if (r == APPLY_DONE)
		r = keep_overtaken(c, db, f);
	if (r == APPLY_DONE)
		r = swap_items(c, db, f);
	if (r == APPLY_DONE && c->a->collection == COLLECTION_BOMS)
		r = write_edges(c, db, f);
	return r;
}

enum apply_result write_states(struct core *c, struct db *db,
			       enum item_state state, struct fail *f)
{
	struct sheet sheet = sheet_new(c, c->doomed_count, 8);

	for (size_t i = 0; i < c->doomed_count; i++) {
		const struct entry *e = &c->doomed[i];

		sheet_add(&sheet,
			  DB_ARGS(db_uint(c->a->partner_id),
				  db_uint((uint64_t)c->a->collection),
				  db_text(e->source_id), db_uint(e->rev + 1),
				  db_uint(state), db_id(&e->internal_id),
				  db_id(&c->a->batch_id),
				  db_id(&c->a->batch_id)));
	}
	return put(db, STMT_ITEM_SET_STATE, &sheet, 2 * sheet.rows, f);
}

/* Records that changed, oldest first: one that is closed must be so before
 * its successor opens. */
struct stack {
	struct record **records;
	struct entry **entries;
	size_t count;
};

static bool touched(const struct record *r)
{
	return r->from || r->state != QUARANTINE_OPEN;
}

static void push_records(struct stack *s, struct entry *e)
{
	size_t from = s->count, to;

	for (struct record *r = e->record; r; r = r->older)
		if (touched(r)) {
			s->entries[s->count] = e;
			s->records[s->count++] = r;
		}
	/* The list is newest first. */
	for (to = s->count; from + 1 < to; from++, to--) {
		struct record *last = s->records[to - 1];

		s->records[to - 1] = s->records[from];
		s->records[from] = last;
	}
}

static struct stack changed_records(struct core *c)
{
	const struct shelf *s = own_shelf(c);
	struct stack stack = {0};
	size_t n = 0;

	for (size_t i = 0; i < s->count; i++)
		for (struct record *r = s->entries[i].record; r; r = r->older)
			n += touched(r);
	stack.records = arena_array(c->a->arena, n, sizeof(*stack.records));
	stack.entries = arena_array(c->a->arena, n, sizeof(*stack.entries));
	for (size_t i = 0; i < s->count; i++)
		push_records(&stack, &s->entries[i]);
	return stack;
}

static enum apply_result close_records(struct core *c, struct db *db,
				       const struct stack *s, struct fail *f)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct record *r = s->records[i];
		uint64_t affected;

		if (r->from)
			continue;
		if (!db_exec(db, STMT_QUARANTINE_CLOSE,
			     DB_ARGS(db_uint(r->state),
				     db_uint(c->a->partner_id), db_id(&r->id),
				     db_uint(r->rev)),
			     &affected, f))
			return APPLY_FAIL;
		if (affected != 1)
			return APPLY_RACED;
	}
	return APPLY_DONE;
}

static void add_record(struct core *c, struct sheet *s, const struct entry *e,
		       const struct record *r)
{
	bool open = r->state == QUARANTINE_OPEN;

	sheet_add(s,
		  DB_ARGS(db_uint(c->a->partner_id), db_id(&r->id),
			  db_uint(r->rev + 1),
			  db_uint((uint64_t)c->a->collection),
			  db_text(e->source_id), open ? db_uint(1) : db_null(),
			  db_uint(r->state),
			  version_val(r->has_version, r->version),
			  db_uint(r->why->code), db_text(r->why->reason),
			  db_text(r->why->missing), db_uint(r->attempts),
			  db_uint(r->seen_rev), text_val(r->from->trait),
			  text_val(r->from->home), text_val(r->sender),
			  db_text(r->from->payload), db_id(&c->a->batch_id)));
}

static enum apply_result put_records(struct core *c, struct db *db,
				     const struct stack *s, struct fail *f)
{
	struct sheet sheet = sheet_new(c, s->count, 18);
	uint64_t want = 0;

	for (size_t i = 0; i < s->count; i++)
		if (s->records[i]->from) {
			add_record(c, &sheet, s->entries[i], s->records[i]);
			want += s->records[i]->rev ? 2 : 1;
		}
	return put(db, STMT_QUARANTINE_PUT, &sheet, want, f);
}

static enum apply_result put_waits(struct core *c, struct db *db,
				   const struct stack *s, struct fail *f)
{
	struct db_val *ids = arena_array(c->a->arena, s->count, sizeof(*ids));
	size_t held = 0, waits = 0;
	struct sheet sheet;
	uint64_t affected;

	for (size_t i = 0; i < s->count; i++) {
		if (s->records[i]->rev)
			ids[held++] = db_id(&s->records[i]->id);
		waits += s->records[i]->waits.count;
	}
	if (!db_keys_exec(db, STMT_QUARANTINE_WAIT_DROP,
			  DB_ARGS(db_uint(c->a->partner_id)), ids, held,
			  &affected, f))
		return APPLY_FAIL;
	sheet = sheet_new(c, waits, 5);
	for (size_t i = 0; i < s->count; i++) {
		const struct record *r = s->records[i];

		for (size_t w = 0;
		     r->state == QUARANTINE_OPEN && w < r->waits.count; w++)
			sheet_add(&sheet,
				  DB_ARGS(db_uint(c->a->partner_id),
					  db_uint((uint64_t)r->waits.refs[w]
							  ->collection),
					  db_text(r->waits.refs[w]->source_id),
					  db_id(&r->id),
					  db_uint(r->waits.revs[w])));
	}
	return put(db, STMT_QUARANTINE_WAIT_ADD, &sheet, sheet.rows, f);
}

enum apply_result write_quarantine(struct core *c, struct db *db,
				   struct fail *f)
{
	struct stack s = changed_records(c);
	enum apply_result r;

	if (!s.count)
		return APPLY_DONE;
	r = close_records(c, db, &s, f);
	if (r == APPLY_DONE)
		r = put_records(c, db, &s, f);
	if (r == APPLY_DONE)
		r = put_waits(c, db, &s, f);
	return r;
}
