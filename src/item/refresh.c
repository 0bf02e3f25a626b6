/* full-refresh: the payload is the whole collection, so what is not named in
 * it becomes INACTIVE. Payload, version and history stay. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "core.h"

enum {
	GUARD_ABOVE = 100,
	SOURCE_ID_MAX = 128,
	LOOK_BLOCK_BYTES = 1 << 20,
};

static size_t count_named(const struct shelf *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->count; i++)
		n += s->entries[i].named;
	return n;
}

/* Columns of STMT_ITEM_ACTIVE. */
enum { A_SOURCE_ID, A_REV, A_INTERNAL, A_TOUCHED, A_TRAIT, A_HOME };

static struct sv text_of(const struct db_val *v)
{
	return v->kind == DB_NULL ? SV_NONE : v->bytes;
}

/* Rows of STMT_ITEM_ACTIVE and STMT_REFRESH_DOOMED. */
static struct entry *entries_of(struct core *c, const struct db_table *t)
{
	struct entry *all = arena_array(c->a->arena, t->rows, sizeof(*all));

	for (size_t i = 0; i < t->rows; i++) {
		struct entry *e = &all[i];

		e->source_id = db_cell(t, i, A_SOURCE_ID)->bytes;
		e->rev = (uint32_t)db_cell(t, i, A_REV)->u;
		e->trait = text_of(db_cell(t, i, A_TRAIT));
		e->home = text_of(db_cell(t, i, A_HOME));
		memcpy(e->internal_id.b, db_cell(t, i, A_INTERNAL)->bytes.p,
		       sizeof(e->internal_id.b));
	}
	return all;
}

/* By the database's clock, at the first attempt: what somebody touches while
 * this refresh loses a race is not tombstoned by it. */
static bool note_received(struct core *c, struct db *db, struct fail *f)
{
	struct db_table t;

	if (c->a->received_ms)
		return true;
	if (!db_query(db, STMT_SERVER_NOW, DB_NO_ARGS, c->a->arena, &t, f))
		return false;
	c->a->received_ms = db_cell(&t, 0, 0)->u;
	return true;
}

static bool is_doomed(const struct core *c, const struct db_table *t,
		      size_t row)
{
	const struct entry *e = core_find(c, c->a->collection,
					  db_cell(t, row, A_SOURCE_ID)->bytes);

	return (!e || !e->named) && !db_cell(t, row, A_TOUCHED)->u;
}

/* What a limited credential may not see does not count. */
static bool doom_unnamed(struct core *c, struct db *db,
			 const struct db_table *t, struct refresh_walk *w,
			 struct fail *f)
{
	bool *keep;

	c->doomed = entries_of(c, t);
	if (!fence_sort(c, db, c->doomed, t->rows, &keep, f))
		return false;
	for (size_t i = 0; i < t->rows; i++) {
		if (keep && !keep[i])
			continue;
		w->active++;
		if (is_doomed(c, t, i))
			c->doomed[c->doomed_count++] = c->doomed[i];
	}
	w->doomed = c->doomed_count;
	return true;
}

bool refresh_guard(const struct refresh_walk *w, bool confirm, struct fail *f)
{
	if (confirm || w->active <= GUARD_ABOVE || w->doomed * 2 <= w->active)
		return true;
	return fail_set(f, FAIL_REFRESH_DESTRUCTIVE,
			"%" PRIu64 " of %" PRIu64
			" active items would become INACTIVE; send "
			"confirm=true if that is meant",
			w->doomed, w->active);
}

bool refresh_plan(struct core *c, struct db *db, struct fail *f)
{
	size_t named = count_named(&c->shelves[c->a->collection]);
	struct refresh_walk w = {.active = 0};
	struct db_table t;

	if (!note_received(c, db, f) ||
	    !db_query(db,
		      c->a->lock ? STMT_ITEM_ACTIVE_LOCKED : STMT_ITEM_ACTIVE,
		      DB_ARGS(db_uint(c->a->received_ms),
			      db_uint(c->a->partner_id),
			      db_uint((uint64_t)c->a->collection),
			      db_uint(c->a->sync_max + 1)),
		      c->a->arena, &t, f))
		return false;
	if (t.rows + named > c->a->sync_max) {
		c->a->needs_job = true;
		return fail_set(
			f, FAIL_BODY_TOO_LARGE,
			"a full-refresh of this size needs a job: named "
			"and active items together may be %" PRIu64,
			c->a->sync_max);
	}
	if (!doom_unnamed(c, db, &t, &w, f))
		return false;
	c->a->summary.tombstoned = (uint32_t)c->doomed_count;
	return refresh_guard(&w, c->a->confirm, f);
}

/* Above every source_id. */
static struct sv last_key(void)
{
	static const char MAX[SOURCE_ID_MAX] = {
#define F4  '\xff', '\xff', '\xff', '\xff'
#define F32 F4, F4, F4, F4, F4, F4, F4, F4
		F32, F32, F32, F32
#undef F32
#undef F4
	};

	return sv_from(MAX, sizeof(MAX));
}

/* So many rows at most are looked at in one statement, however few of them
 * are wanted. */
static bool stretch(struct db *db, const struct apply *a,
		    const struct refresh_walk *w, struct sv *to_r, bool *last_r,
		    struct fail *f)
{
	struct db_table t;

	if (!db_query(db, STMT_REFRESH_STRETCH,
		      DB_ARGS(db_uint(a->partner_id),
			      db_uint((uint64_t)a->collection),
			      db_text(w->after)),
		      a->arena, &t, f))
		return false;
	*last_r = !t.rows;
	*to_r = t.rows ? db_cell(&t, 0, 0)->bytes : last_key();
	return true;
}

static struct db_val job_val(const struct refresh_walk *w)
{
	return db_text(sv_from(w->job_id.b, sizeof(w->job_id.b)));
}

static bool ask_stretch(struct db *db, const struct apply *a, enum stmt id,
			const struct refresh_walk *w, struct sv to,
			struct db_table *t, struct fail *f)
{
	return db_query(db, id,
			DB_ARGS(db_uint(w->received_ms), job_val(w),
				db_uint(a->partner_id),
				db_uint((uint64_t)a->collection),
				db_text(w->after), db_text(to)),
			a->arena, t, f);
}

static bool count_all(struct db *db, const struct apply *a,
		      struct refresh_walk *w, struct sv to, struct fail *f)
{
	struct db_table t;

	if (!ask_stretch(db, a, STMT_REFRESH_COUNT, w, to, &t, f))
		return false;
	w->active += db_cell(&t, 0, 0)->u;
	w->doomed += db_cell(&t, 0, 1)->u;
	return true;
}

/* Columns of STMT_REFRESH_LOOK. */
enum { K_SOURCE_ID, K_TRAIT, K_HOME, K_DOOMED };

/* `a` has an arena of this stretch's own: it is all in memory. */
static bool count_own(struct db *db, struct apply *a, struct refresh_walk *w,
		      struct sv to, struct fail *f)
{
	struct core c = {.a = a};
	struct entry *all;
	struct db_table t;
	bool *keep;

	if (!ask_stretch(db, a, STMT_REFRESH_LOOK, w, to, &t, f))
		return false;
	all = arena_array(a->arena, t.rows, sizeof(*all));
	for (size_t i = 0; i < t.rows; i++) {
		all[i].source_id = db_cell(&t, i, K_SOURCE_ID)->bytes;
		all[i].trait = text_of(db_cell(&t, i, K_TRAIT));
		all[i].home = text_of(db_cell(&t, i, K_HOME));
	}
	if (!fence_sort(&c, db, all, t.rows, &keep, f))
		return false;
	for (size_t i = 0; i < t.rows; i++) {
		w->active += !keep || keep[i];
		w->doomed += (!keep || keep[i]) && db_cell(&t, i, K_DOOMED)->u;
	}
	return true;
}

static bool count_some(struct db *db, const struct apply *a,
		       struct refresh_walk *w, struct sv to, struct fail *f)
{
	struct apply own = *a;
	struct arena arena;
	bool ok;

	if (!a->scope || !scope_concerns(a->collection))
		return count_all(db, a, w, to, f);
	arena_init(&arena, LOOK_BLOCK_BYTES);
	own.arena = &arena;
	ok = count_own(db, &own, w, to, f);
	arena_release(&arena);
	return ok;
}

bool refresh_count(struct db *db, const struct apply *a, struct refresh_walk *w,
		   struct fail *f)
{
	struct sv to;
	bool last;

	if (!stretch(db, a, w, &to, &last, f) || !count_some(db, a, w, to, f))
		return false;
	w->after = to;
	w->ended = last;
	return true;
}

static bool find_doomed(struct core *c, struct db *db, struct refresh_walk *w,
			struct fail *f)
{
	struct db_table t;
	struct sv to;
	bool last, *keep;

	if (!stretch(db, c->a, w, &to, &last, f) ||
	    !db_query(db, STMT_REFRESH_DOOMED,
		      DB_ARGS(job_val(w), db_uint(c->a->partner_id),
			      db_uint((uint64_t)c->a->collection),
			      db_text(w->after), db_text(to),
			      db_uint(w->received_ms),
			      db_uint(APPLY_TOMBSTONES)),
		      c->a->arena, &t, f))
		return false;
	c->doomed = entries_of(c, &t);
	if (!fence_sort(c, db, c->doomed, t.rows, &keep, f))
		return false;
	for (size_t i = 0; i < t.rows; i++)
		if (!keep || keep[i])
			c->doomed[c->doomed_count++] = c->doomed[i];
	if (t.rows == APPLY_TOMBSTONES) {
		to = db_cell(&t, t.rows - 1, A_SOURCE_ID)->bytes;
		last = false;
	}
	w->after = to;
	w->ended = last;
	return true;
}

enum apply_result apply_tombstone(struct db *db, struct apply *a,
				  struct refresh_walk *w, struct fail *f)
{
	struct core c = {.a = a};
	enum apply_result r;

	a->count = 0;
	a->summary = (struct apply_summary){0};
	if (!find_doomed(&c, db, w, f))
		return APPLY_FAIL;
	a->summary.tombstoned = (uint32_t)c.doomed_count;
	if (!c.doomed_count)
		return APPLY_DONE;
	r = write_states(&c, db, ITEM_INACTIVE, f);
	if (r == APPLY_DONE && !audit_write(&c, db, ITEM_TOMBSTONED, f))
		r = APPLY_FAIL;
	return r;
}
