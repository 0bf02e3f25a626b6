/* The picture: what the database holds of every key a batch names. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"

static int by_bytes(const void *a, const void *b)
{
	return sv_cmp(((const struct entry *)a)->source_id,
		      ((const struct entry *)b)->source_id);
}

struct entry *core_find(const struct core *c, enum collection col,
			struct sv source_id)
{
	const struct shelf *s = &c->shelves[col];
	struct entry key = {.source_id = source_id};

	if (!s->count)
		return NULL;
	return bsearch(&key, s->entries, s->count, sizeof(key), by_bytes);
}

static void count_keys(const struct core *c, size_t counts[COLLECTION_COUNT])
{
	for (size_t i = 0; i < c->a->count; i++) {
		const struct incoming *in = &c->a->items[i];

		counts[c->a->collection] += in->has_source_id;
		for (size_t r = 0; !in->rejected && r < in->ref_count; r++)
			counts[in->refs[r].collection]++;
	}
}

static void put_key(struct shelf *s, struct sv source_id, bool named)
{
	s->entries[s->count++] =
		(struct entry){.source_id = source_id, .named = named};
}

static void put_keys(struct core *c)
{
	for (size_t i = 0; i < c->a->count; i++) {
		const struct incoming *in = &c->a->items[i];

		if (in->has_source_id)
			put_key(&c->shelves[c->a->collection], in->source_id,
				true);
		for (size_t r = 0; !in->rejected && r < in->ref_count; r++)
			put_key(&c->shelves[in->refs[r].collection],
				in->refs[r].source_id, false);
	}
}

/* Sort, and keep one of each; it is named if any of them was. */
static void settle(struct shelf *s)
{
	size_t n = 0;

	qsort(s->entries, s->count, sizeof(*s->entries), by_bytes);
	for (size_t i = 0; i < s->count; i++) {
		struct entry *last = n ? &s->entries[n - 1] : NULL;

		if (last && sv_eq(last->source_id, s->entries[i].source_id))
			last->named |= s->entries[i].named;
		else
			s->entries[n++] = s->entries[i];
	}
	s->count = n;
}

static void make_shelves(struct core *c)
{
	size_t counts[COLLECTION_COUNT] = {0};

	count_keys(c, counts);
	for (int col = 0; col < COLLECTION_COUNT; col++)
		if (counts[col])
			c->shelves[col].entries = arena_array(
				c->a->arena, counts[col], sizeof(struct entry));
	put_keys(c);
	for (int col = 0; col < COLLECTION_COUNT; col++)
		if (counts[col])
			settle(&c->shelves[col]);
}

static struct db_val *keys_of(struct core *c, const struct shelf *s)
{
	struct db_val *keys = arena_array(c->a->arena, s->count, sizeof(*keys));

	for (size_t i = 0; i < s->count; i++)
		keys[i] = db_text(s->entries[i].source_id);
	return keys;
}

static void take_id(struct id *id, const struct db_val *v)
{
	if (v->kind != DB_BYTES || v->bytes.n != sizeof(id->b))
		bug("an id of %zu bytes", v->bytes.n);
	memcpy(id->b, v->bytes.p, sizeof(id->b));
}

/* Columns of STMT_ITEM_PICTURE. */
enum {
	I_SOURCE_ID,
	I_REV,
	I_VERSION,
	I_STATE,
	I_HASH,
	I_INTERNAL,
	I_TRAIT,
	I_CONTENT_REV,
	I_HOME,
};

static struct sv text_of(const struct db_val *v)
{
	return v->kind == DB_NULL ? SV_NONE : v->bytes;
}

static void take_item(struct core *c, enum collection col,
		      const struct db_table *t, size_t row)
{
	struct entry *e =
		core_find(c, col, db_cell(t, row, I_SOURCE_ID)->bytes);
	const struct db_val *version = db_cell(t, row, I_VERSION);

	if (!e)
		bug("a row nobody asked for");
	e->exists = true;
	e->rev = (uint32_t)db_cell(t, row, I_REV)->u;
	e->content_rev = (uint32_t)db_cell(t, row, I_CONTENT_REV)->u;
	e->has_version = version->kind != DB_NULL;
	e->version = e->has_version ? version->u : 0;
	e->state = (enum item_state)db_cell(t, row, I_STATE)->u;
	if (db_cell(t, row, I_HASH)->bytes.n != ITEM_HASH)
		bug("a content hash of another length");
	memcpy(e->hash, db_cell(t, row, I_HASH)->bytes.p, ITEM_HASH);
	take_id(&e->internal_id, db_cell(t, row, I_INTERNAL));
	e->trait = text_of(db_cell(t, row, I_TRAIT));
	e->home = text_of(db_cell(t, row, I_HOME));
}

static bool load_shelf(struct core *c, struct db *db, enum collection col,
		       struct fail *f)
{
	const struct shelf *s = &c->shelves[col];
	bool lock = c->a->lock && col == c->a->collection;
	struct db_table t;

	if (!db_keys_query(
		    db, lock ? STMT_ITEM_PICTURE_LOCKED : STMT_ITEM_PICTURE,
		    DB_ARGS(db_uint(c->a->partner_id), db_uint((uint64_t)col)),
		    keys_of(c, s), s->count, c->a->arena, &t, f))
		return false;
	for (size_t i = 0; i < t.rows; i++)
		take_item(c, col, &t, i);
	return true;
}

/* Columns of STMT_QUARANTINE_PICTURE. */
enum {
	Q_SOURCE_ID,
	Q_ID,
	Q_REV,
	Q_VERSION,
	Q_ATTEMPTS,
	Q_SEEN_REV,
	Q_TRAIT,
	Q_HOME,
	Q_WAREHOUSES,
};

static void take_record(struct core *c, struct entry *e,
			const struct db_table *t, size_t row)
{
	const struct db_val *version = db_cell(t, row, Q_VERSION);
	struct record *r = arena_alloc(c->a->arena, sizeof(*r));

	take_id(&r->id, db_cell(t, row, Q_ID));
	r->rev = (uint32_t)db_cell(t, row, Q_REV)->u;
	r->state = QUARANTINE_OPEN;
	r->has_version = version->kind != DB_NULL;
	r->version = r->has_version ? version->u : 0;
	r->attempts = (uint32_t)db_cell(t, row, Q_ATTEMPTS)->u;
	r->seen_rev = (uint32_t)db_cell(t, row, Q_SEEN_REV)->u;
	r->trait = text_of(db_cell(t, row, Q_TRAIT));
	r->home = text_of(db_cell(t, row, Q_HOME));
	r->sender = text_of(db_cell(t, row, Q_WAREHOUSES));
	e->record = r;
}

static void take_records(struct core *c, const struct db_table *t)
{
	for (size_t i = 0; i < t->rows; i++) {
		struct entry *e = core_find(c, c->a->collection,
					    db_cell(t, i, Q_SOURCE_ID)->bytes);

		if (e)
			take_record(c, e, t, i);
	}
}

/* As a rule few records are open, and reading all between the first and the
 * last key costs a tenth of asking for every key. Not after a race: then just
 * the records in question are locked. */
enum { STRETCH_KEYS_MIN = 10, STRETCH_ROWS_MAX = 100 };

static bool load_stretch(struct core *c, struct db *db, bool *all_r,
			 struct fail *f)
{
	const struct shelf *s = &c->shelves[c->a->collection];
	struct db_table t;

	*all_r = false;
	if (c->a->lock || s->count < STRETCH_KEYS_MIN)
		return true;
	if (!db_query(db, STMT_QUARANTINE_STRETCH,
		      DB_ARGS(db_uint(c->a->partner_id),
			      db_uint((uint64_t)c->a->collection),
			      db_text(s->entries[0].source_id),
			      db_text(s->entries[s->count - 1].source_id),
			      db_uint(STRETCH_ROWS_MAX)),
		      c->a->arena, &t, f))
		return false;
	if (t.rows == STRETCH_ROWS_MAX)
		return true;
	*all_r = true;
	c->no_record_near = t.rows == 0;
	take_records(c, &t);
	return true;
}

static bool load_records(struct core *c, struct db *db, struct fail *f)
{
	const struct shelf *s = &c->shelves[c->a->collection];
	struct db_table t;
	bool all;

	if (!load_stretch(c, db, &all, f))
		return false;
	if (all)
		return true;
	if (!db_keys_query(db,
			   c->a->lock ? STMT_QUARANTINE_PICTURE_LOCKED
				      : STMT_QUARANTINE_PICTURE,
			   DB_ARGS(db_uint(c->a->partner_id),
				   db_uint((uint64_t)c->a->collection)),
			   keys_of(c, s), s->count, c->a->arena, &t, f))
		return false;
	take_records(c, &t);
	return true;
}

/* Rows that are as they were decided on; others end the attempt. */
struct tally {
	struct db_val *keys;
	size_t count, want;
};

/* What the database had of the item's records when the picture was taken. */
static const struct record *record_as_loaded(const struct entry *e)
{
	const struct record *r = e->record;

	while (r && !r->rev)
		r = r->older;
	return r;
}

static struct tally accepted_keys(const struct core *c)
{
	const struct shelf *s = &c->shelves[c->a->collection];
	struct tally t = {
		.keys = arena_array(c->a->arena, s->count, sizeof(*t.keys))};

	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].from) {
			t.keys[t.count++] = db_text(s->entries[i].source_id);
			t.want += record_as_loaded(&s->entries[i]) != NULL;
		}
	return t;
}

static bool same_record(const struct core *c, const struct db_table *t,
			size_t row)
{
	const struct entry *e = core_find(c, c->a->collection,
					  db_cell(t, row, Q_SOURCE_ID)->bytes);
	const struct record *r = e ? record_as_loaded(e) : NULL;
	struct id id;

	take_id(&id, db_cell(t, row, Q_ID));
	return r && id_eq(r->id, id) && r->rev == db_cell(t, row, Q_REV)->u;
}

/* Is still no record open near the keys, and is none being opened? */
static bool look_near(const struct core *c, struct db *db,
		      const struct tally *k, bool *none_r, struct fail *f)
{
	struct db_table t;

	*none_r = false;
	if (!c->no_record_near)
		return true;
	if (!db_query(db, STMT_QUARANTINE_STRETCH_ANY,
		      DB_ARGS(db_uint(c->a->partner_id),
			      db_uint((uint64_t)c->a->collection), k->keys[0],
			      k->keys[k->count - 1]),
		      c->a->arena, &t, f))
		return false;
	*none_r = t.rows == 0;
	return true;
}

enum apply_result picture_confirm_records(const struct core *c, struct db *db,
					  struct fail *f)
{
	struct tally k = accepted_keys(c);
	struct db_table t;
	bool none;

	if (!k.count)
		return APPLY_DONE;
	if (!look_near(c, db, &k, &none, f))
		return APPLY_FAIL;
	if (none)
		return APPLY_DONE;
	if (!db_keys_query(db, STMT_QUARANTINE_PICTURE_LOCKED,
			   DB_ARGS(db_uint(c->a->partner_id),
				   db_uint((uint64_t)c->a->collection)),
			   k.keys, k.count, c->a->arena, &t, f))
		return APPLY_FAIL;
	for (size_t i = 0; i < t.rows; i++)
		if (!same_record(c, &t, i))
			return APPLY_RACED;
	return t.rows == k.want ? APPLY_DONE : APPLY_RACED;
}

/* The item was told about as it is, and its row not written. A refresh says
 * that what it names is live: another that takes it down meanwhile must not be
 * missed, or two that name different items would take down all of them. */
static bool wants_confirming(const struct core *c, const struct entry *e)
{
	return (e->record && e->record->from) ||
	       (c->a->mode == BATCH_REFRESH && e->named && e->exists &&
		!e->from);
}

static struct tally unwritten_keys(const struct core *c)
{
	const struct shelf *s = &c->shelves[c->a->collection];
	struct tally t = {
		.keys = arena_array(c->a->arena, s->count, sizeof(*t.keys))};

	for (size_t i = 0; i < s->count; i++)
		if (wants_confirming(c, &s->entries[i])) {
			t.keys[t.count++] = db_text(s->entries[i].source_id);
			t.want += s->entries[i].exists;
		}
	return t;
}

static bool same_item(const struct core *c, const struct db_table *t,
		      size_t row)
{
	const struct entry *e = core_find(c, c->a->collection,
					  db_cell(t, row, I_SOURCE_ID)->bytes);

	return e && db_cell(t, row, I_REV)->u == e->rev + (e->from != NULL);
}

enum apply_result picture_confirm_items(const struct core *c, struct db *db,
					struct fail *f)
{
	struct tally k = unwritten_keys(c);
	struct db_table t;

	if (!k.count)
		return APPLY_DONE;
	if (!db_keys_query(db, STMT_ITEM_PICTURE_LOCKED,
			   DB_ARGS(db_uint(c->a->partner_id),
				   db_uint((uint64_t)c->a->collection)),
			   k.keys, k.count, c->a->arena, &t, f))
		return APPLY_FAIL;
	for (size_t i = 0; i < t.rows; i++)
		if (!same_item(c, &t, i))
			return APPLY_RACED;
	return t.rows == k.want ? APPLY_DONE : APPLY_RACED;
}

bool picture_load(struct core *c, struct db *db, struct fail *f)
{
	make_shelves(c);
	for (int col = 0; col < COLLECTION_COUNT; col++)
		if (c->shelves[col].count &&
		    !load_shelf(c, db, (enum collection)col, f))
			return false;
	return load_records(c, db, f) && fence_load(c, db, f) &&
	       (c->a->collection != COLLECTION_BOMS || cycle_load(c, db, f));
}
