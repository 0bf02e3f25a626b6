/* Undoing a full-refresh: bring back what it tombstoned and nobody touched
 * since. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "core.h"

/* Columns of STMT_BATCH_FIND. */
enum { B_COLLECTION, B_MODE, B_TOTAL, B_TOMBSTONED, B_WAREHOUSES };
/* Columns of STMT_UNDO_CANDIDATES. */
enum { U_POSITION, U_SOURCE_ID, U_REV, U_INTERNAL, U_TRAIT, U_HOME };
/* Columns of STMT_BOM_EDGES_OF. */
enum { E_BOM, E_SKU, E_COMPONENT };

static struct sv text_of(const struct db_val *v)
{
	return v->kind == DB_NULL ? SV_NONE : v->bytes;
}

bool undo_find(struct db *db, uint32_t partner_id, const struct scope *scope,
	       struct arena *a, struct undo *u, struct fail *f)
{
	struct db_table t;

	if (!db_query(db, STMT_BATCH_FIND,
		      DB_ARGS(db_id(&u->refresh),
			      db_uint(clock_day(id_wall_ms(u->refresh))),
			      db_uint(partner_id)),
		      a, &t, f))
		return false;
	if (!t.rows || db_cell(&t, 0, B_MODE)->u != BATCH_REFRESH ||
	    !scope_covers(scope, (int)db_cell(&t, 0, B_COLLECTION)->u,
			  text_of(db_cell(&t, 0, B_WAREHOUSES))))
		return fail_set(f, FAIL_NOT_FOUND,
				"there is no such full-refresh");
	u->collection = (enum collection)db_cell(&t, 0, B_COLLECTION)->u;
	u->tombstoned = db_cell(&t, 0, B_TOMBSTONED)->u;
	u->from = db_cell(&t, 0, B_TOTAL)->u;
	return true;
}

static void bring_back(struct core *c, const struct db_table *t, size_t row)
{
	struct entry *e = &c->doomed[c->doomed_count++];

	e->source_id = db_cell(t, row, U_SOURCE_ID)->bytes;
	e->rev = (uint32_t)db_cell(t, row, U_REV)->u;
	e->trait = text_of(db_cell(t, row, U_TRAIT));
	e->home = text_of(db_cell(t, row, U_HOME));
	memcpy(e->internal_id.b, db_cell(t, row, U_INTERNAL)->bytes.p,
	       sizeof(e->internal_id.b));
}

/* The next tombstones, and of them what nobody touched. */
static bool find_items(struct core *c, struct db *db, struct undo *u,
		       uint64_t most, struct fail *f)
{
	struct db_table t;

	if (!db_query(db, STMT_UNDO_CANDIDATES,
		      DB_ARGS(db_id(&u->refresh),
			      db_uint(clock_day(id_wall_ms(u->refresh))),
			      db_uint(u->from), db_uint(most),
			      db_uint(c->a->partner_id),
			      db_uint((uint64_t)c->a->collection)),
		      c->a->arena, &t, f))
		return false;
	c->a->summary.total = (uint32_t)t.rows;
	c->doomed = arena_array(c->a->arena, t.rows, sizeof(*c->doomed));
	for (size_t i = 0; i < t.rows; i++) {
		uint64_t position = db_cell(&t, i, U_POSITION)->u;

		if (position >= u->from)
			u->from = position + 1;
		if (db_cell(&t, i, U_INTERNAL)->kind != DB_NULL)
			bring_back(c, &t, i);
	}
	u->ended = t.rows < most;
	return true;
}

/* What went to another warehouse since, its zone having another parent, stays
 * as it is. */
static bool leave_out_others(struct core *c, struct db *db, struct fail *f)
{
	size_t n = 0;
	bool *keep;

	if (!fence_sort(c, db, c->doomed, c->doomed_count, &keep, f))
		return false;
	for (size_t i = 0; keep && i < c->doomed_count; i++)
		if (keep[i])
			c->doomed[n++] = c->doomed[i];
	if (keep)
		c->doomed_count = n;
	return true;
}

static int by_bom(const void *key, const void *in)
{
	return sv_cmp(*(const struct sv *)key,
		      ((const struct incoming *)in)->source_id);
}

/* The BOMs that are to come back, as if they were sent: SKU and components as
 * their edges tell. Candidates and edges are both in the order of source ids.
 */
static struct incoming *boms_of(struct core *c, const struct db_table *t)
{
	struct incoming *boms =
		arena_array(c->a->arena, c->doomed_count, sizeof(*boms));
	struct sv *components =
		arena_array(c->a->arena, t->rows, sizeof(*components));

	for (size_t i = 0; i < c->doomed_count; i++)
		boms[i].source_id = c->doomed[i].source_id;
	for (size_t i = 0; i < t->rows; i++) {
		struct incoming *b =
			bsearch(&db_cell(t, i, E_BOM)->bytes, boms,
				c->doomed_count, sizeof(*boms), by_bom);

		if (!b)
			bug("an edge nobody asked for");
		components[i] = db_cell(t, i, E_COMPONENT)->bytes;
		b->sku = db_cell(t, i, E_SKU)->bytes;
		if (!b->component_count++)
			b->components = &components[i];
	}
	return boms;
}

/* A BOM accepted since may make a ring with one that would come back: such a
 * one stays as it is. */
static bool leave_out_rings(struct core *c, struct db *db, struct fail *f)
{
	struct db_val *keys =
		arena_array(c->a->arena, c->doomed_count, sizeof(*keys));
	struct incoming *boms;
	struct db_table t;
	size_t n = 0;

	for (size_t i = 0; i < c->doomed_count; i++)
		keys[i] = db_text(c->doomed[i].source_id);
	if (!db_keys_query(db, STMT_BOM_EDGES_OF,
			   DB_ARGS(db_uint(c->a->partner_id)), keys,
			   c->doomed_count, c->a->arena, &t, f))
		return false;
	boms = boms_of(c, &t);
	c->a->items = boms;
	c->a->count = c->doomed_count;
	if (!cycle_load(c, db, f))
		return false;
	for (size_t i = 0; i < c->doomed_count; i++) {
		if (cycle_closes(c, &boms[i]))
			continue;
		cycle_accept(c, &boms[i]);
		c->doomed[n++] = c->doomed[i];
	}
	c->doomed_count = n;
	c->a->count = 0;
	return true;
}

static enum apply_result plan(struct core *c, struct db *db, struct undo *u,
			      uint64_t most, struct fail *f)
{
	bool boms = c->a->collection == COLLECTION_BOMS;
	enum apply_result r = APPLY_DONE;

	if (boms)
		r = cycle_lock(c, db, f);
	if (r == APPLY_DONE &&
	    (!find_items(c, db, u, most, f) || !leave_out_others(c, db, f) ||
	     (boms && !leave_out_rings(c, db, f))))
		r = APPLY_FAIL;
	return r;
}

enum apply_result apply_undo(struct db *db, struct apply *a, struct undo *u,
			     uint64_t most, struct fail *f)
{
	struct core c = {.a = a};
	enum apply_result r;

	a->summary = (struct apply_summary){0};
	a->collection = u->collection;
	a->count = 0;
	r = plan(&c, db, u, most, f);
	if (r == APPLY_DONE)
		r = write_states(&c, db, ITEM_ACTIVE, f);
	if (r == APPLY_DONE && !audit_write(&c, db, ITEM_RESTORED, f))
		r = APPLY_FAIL;
	a->summary.restored = (uint32_t)c.doomed_count;
	return r;
}
