/* full-refresh: the payload is the whole collection, so what is not named in
 * it becomes INACTIVE. Payload, version and history stay. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "core.h"

enum { GUARD_ABOVE = 100 };

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
	struct sv source_id = db_cell(t, row, A_SOURCE_ID)->bytes;
	const struct entry *e = core_find(c, c->a->collection, source_id);
	struct entry *d = &c->doomed[c->doomed_count];

	if (e && e->named)
		return;
	d->source_id = source_id;
	d->rev = (uint32_t)db_cell(t, row, A_REV)->u;
	memcpy(d->internal_id.b, db_cell(t, row, A_INTERNAL)->bytes.p,
	       sizeof(d->internal_id.b));
	c->doomed_count++;
}

static bool guard(const struct core *c, size_t active, struct fail *f)
{
	if (c->a->confirm || active <= GUARD_ABOVE ||
	    c->doomed_count * 2 <= active)
		return true;
	return fail_set(f, FAIL_REFRESH_DESTRUCTIVE,
			"%zu of %zu active items would become INACTIVE; send "
			"confirm=true if that is meant",
			c->doomed_count, active);
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
		doom(c, &t, i);
	c->a->summary.tombstoned = (uint32_t)c->doomed_count;
	return guard(c, t.rows, f);
}
