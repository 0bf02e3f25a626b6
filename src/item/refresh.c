/* full-refresh: the payload is the whole collection, so what is not named in
 * it becomes INACTIVE. Payload, version and history stay. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "core.h"

enum { GUARD_ABOVE = 100, SOURCE_ID_MAX = 128 };

static size_t count_named(const struct shelf *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->count; i++)
		n += s->entries[i].named;
	return n;
}

/* Columns of STMT_ITEM_ACTIVE. */
enum { A_SOURCE_ID, A_REV, A_INTERNAL };

static void doom(struct core *c, const struct db_table *t, size_t row)
{
	struct entry *d = &c->doomed[c->doomed_count];

	d->source_id = db_cell(t, row, A_SOURCE_ID)->bytes;
	d->rev = (uint32_t)db_cell(t, row, A_REV)->u;
	memcpy(d->internal_id.b, db_cell(t, row, A_INTERNAL)->bytes.p,
	       sizeof(d->internal_id.b));
	c->doomed_count++;
}

static void doom_unnamed(struct core *c, const struct db_table *t, size_t row)
{
	const struct entry *e = core_find(c, c->a->collection,
					  db_cell(t, row, A_SOURCE_ID)->bytes);

	if (!e || !e->named)
		doom(c, t, row);
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
	struct db_table t;

	if (!db_query(db,
		      c->a->lock ? STMT_ITEM_ACTIVE_LOCKED : STMT_ITEM_ACTIVE,
		      DB_ARGS(db_uint(c->a->partner_id),
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
	c->doomed = arena_array(c->a->arena, t.rows, sizeof(*c->doomed));
	for (size_t i = 0; i < t.rows; i++)
		doom_unnamed(c, &t, i);
	c->a->summary.tombstoned = (uint32_t)c->doomed_count;
	return refresh_guard(&(struct refresh_walk){.active = t.rows,
						    .doomed = c->doomed_count},
			     c->a->confirm, f);
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

bool refresh_count(struct db *db, const struct apply *a, struct refresh_walk *w,
		   struct fail *f)
{
	struct db_table t;
	struct sv to;
	bool last;

	if (!stretch(db, a, w, &to, &last, f) ||
	    !db_query(db, STMT_REFRESH_COUNT,
		      DB_ARGS(db_uint(w->received_ms), job_val(w),
			      db_uint(a->partner_id),
			      db_uint((uint64_t)a->collection),
			      db_text(w->after), db_text(to)),
		      a->arena, &t, f))
		return false;
	w->active += db_cell(&t, 0, 0)->u;
	w->doomed += db_cell(&t, 0, 1)->u;
	w->after = to;
	w->ended = last;
	return true;
}

static bool find_doomed(struct core *c, struct db *db, struct refresh_walk *w,
			struct fail *f)
{
	struct db_table t;
	struct sv to;
	bool last;

	if (!stretch(db, c->a, w, &to, &last, f) ||
	    !db_query(db, STMT_REFRESH_DOOMED,
		      DB_ARGS(job_val(w), db_uint(c->a->partner_id),
			      db_uint((uint64_t)c->a->collection),
			      db_text(w->after), db_text(to),
			      db_uint(w->received_ms),
			      db_uint(APPLY_TOMBSTONES)),
		      c->a->arena, &t, f))
		return false;
	c->doomed = arena_array(c->a->arena, t.rows, sizeof(*c->doomed));
	for (size_t i = 0; i < t.rows; i++)
		doom(c, &t, i);
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
