/* Undoing a full-refresh: bring back what it tombstoned and nobody touched
 * since. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "core.h"

/* Columns of STMT_BATCH_FIND. */
enum { B_COLLECTION, B_MODE, B_TOMBSTONED };
/* Columns of STMT_UNDO_CANDIDATES. */
enum { U_SOURCE_ID, U_REV, U_INTERNAL };

static struct db_val id_val(const struct id *id)
{
	return db_text(sv_from(id->b, sizeof(id->b)));
}

static bool find_refresh(struct db *db, struct apply *a, struct id refresh,
			 uint64_t *tombstoned_r, struct fail *f)
{
	struct db_table t;

	if (!db_query(db, STMT_BATCH_FIND,
		      DB_ARGS(id_val(&refresh),
			      db_uint(clock_day(id_wall_ms(refresh))),
			      db_uint(a->partner_id)),
		      a->arena, &t, f))
		return false;
	if (!t.rows || db_cell(&t, 0, B_MODE)->u != BATCH_REFRESH)
		return fail_set(f, FAIL_NOT_FOUND,
				"there is no such full-refresh");
	a->collection = (enum collection)db_cell(&t, 0, B_COLLECTION)->u;
	*tombstoned_r = db_cell(&t, 0, B_TOMBSTONED)->u;
	return true;
}

static bool find_items(struct core *c, struct db *db, struct id refresh,
		       struct fail *f)
{
	struct db_table t;

	if (!db_query(db, STMT_UNDO_CANDIDATES,
		      DB_ARGS(db_uint(c->a->partner_id),
			      db_uint((uint64_t)c->a->collection),
			      id_val(&refresh),
			      db_uint(clock_day(id_wall_ms(refresh)))),
		      c->a->arena, &t, f))
		return false;
	c->doomed = arena_array(c->a->arena, t.rows, sizeof(*c->doomed));
	c->doomed_count = t.rows;
	for (size_t i = 0; i < t.rows; i++) {
		struct entry *e = &c->doomed[i];

		e->source_id = db_cell(&t, i, U_SOURCE_ID)->bytes;
		e->rev = (uint32_t)db_cell(&t, i, U_REV)->u;
		memcpy(e->internal_id.b, db_cell(&t, i, U_INTERNAL)->bytes.p,
		       sizeof(e->internal_id.b));
	}
	return true;
}

enum apply_result apply_undo(struct db *db, struct apply *a, struct id refresh,
			     struct apply_undone *undone_r, struct fail *f)
{
	struct core c = {.a = a};
	uint64_t tombstoned = 0;
	enum apply_result r;

	a->summary = (struct apply_summary){0};
	a->count = 0;
	if (!find_refresh(db, a, refresh, &tombstoned, f) ||
	    !find_items(&c, db, refresh, f))
		return APPLY_FAIL;
	r = write_states(&c, db, ITEM_ACTIVE, f);
	if (r == APPLY_DONE && !audit_write(&c, db, ITEM_RESTORED, f))
		r = APPLY_FAIL;
	undone_r->restored = c.doomed_count;
	undone_r->skipped = tombstoned - c.doomed_count;
	return r;
}
