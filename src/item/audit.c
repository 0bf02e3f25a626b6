/* What happened: a row a batch and a row an item. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "core.h"

enum { FLAG_CONFLICT = 1, FLAG_HELD_INACTIVE = 2, COLUMNS = 12 };

static struct db_val batch_val(const struct core *c)
{
	return db_text(sv_from(c->a->batch_id.b, sizeof(c->a->batch_id.b)));
}

static struct db_val day_val(const struct core *c)
{
	return db_uint(clock_day(id_wall_ms(c->a->batch_id)));
}

static struct db_val detail_val(struct core *c, const struct incoming *in,
				const struct outcome *o)
{
	struct db_val v = db_null();
	struct buf b;

	if (o->status != ITEM_QUARANTINED && o->status != ITEM_REJECTED)
		return v;
	buf_init(&b, SIZE_MAX / 4);
	outcome_add_detail(&b, in, o);
	v = db_text(arena_sv(c->a->arena, buf_sv(&b)));
	buf_release(&b);
	return v;
}

static uint64_t flags_of(const struct outcome *o)
{
	return (o->conflict ? FLAG_CONFLICT : 0U) |
	       (o->held_inactive ? FLAG_HELD_INACTIVE : 0U);
}

static void add_item(struct core *c, struct db_val *row, size_t i)
{
	const struct incoming *in = &c->a->items[i];
	const struct outcome *o = &c->a->outcomes[i];
	const struct db_val cells[COLUMNS] = {
		batch_val(c),
		db_uint(in->index),
		day_val(c),
		db_uint(o->status),
		o->change ? db_uint(o->change) : db_null(),
		db_uint(flags_of(o)),
		in->has_source_id ? db_text(in->source_id) : db_null(),
		in->has_version ? db_uint(in->version) : db_null(),
		o->has_held ? db_uint(o->held_version) : db_null(),
		in->line ? db_uint(in->line) : db_null(),
		o->rev ? db_uint(o->rev) : db_null(),
		detail_val(c, in, o),
	};

	memcpy(row, cells, sizeof(cells));
}

/* Positions go on behind the items'. */
static uint64_t doomed_position(const struct core *c, size_t i)
{
	return (c->a->part ? c->a->next_position : c->a->count) + i;
}

static void add_doomed(struct core *c, struct db_val *row, size_t i,
		       enum item_status status)
{
	const struct entry *e = &c->doomed[i];
	const struct db_val cells[COLUMNS] = {
		batch_val(c),
		db_uint(doomed_position(c, i)),
		day_val(c),
		db_uint(status),
		db_null(),
		db_uint(0),
		db_text(e->source_id),
		db_null(),
		db_null(),
		db_null(),
		db_uint(e->rev + 1),
		db_null(),
	};

	memcpy(row, cells, sizeof(cells));
}

static bool write_rows(struct core *c, struct db *db, enum item_status doomed,
		       struct fail *f)
{
	size_t rows = c->a->count + c->doomed_count;
	struct db_val *cells =
		arena_array(c->a->arena, rows * COLUMNS, sizeof(*cells));
	uint64_t affected;

	for (size_t i = 0; i < c->a->count; i++)
		add_item(c, cells + i * COLUMNS, i);
	for (size_t i = 0; i < c->doomed_count; i++)
		add_doomed(c, cells + (c->a->count + i) * COLUMNS, i, doomed);
	return !rows || db_rows_exec(db, STMT_BATCH_ITEM_ADD, cells, rows,
				     COLUMNS, &affected, f);
}

static bool add_batch(struct core *c, struct db *db, struct fail *f)
{
	const struct apply_summary *s = &c->a->summary;
	struct sv scope = scope_text(c->a->scope);
	uint64_t affected;

	return db_exec(db, STMT_BATCH_ADD,
		       DB_ARGS(batch_val(c), day_val(c),
			       db_uint(c->a->partner_id),
			       db_uint((uint64_t)c->a->collection),
			       db_uint(c->a->mode), db_uint(s->total),
			       db_uint(s->accepted), db_uint(s->replay),
			       db_uint(s->quarantined), db_uint(s->rejected),
			       db_uint(s->tombstoned),
			       scope.p ? db_text(scope) : db_null()),
		       &affected, f);
}

/* Its total was known when it was taken in. */
static bool add_to_batch(struct core *c, struct db *db, struct fail *f)
{
	const struct apply_summary *s = &c->a->summary;
	uint64_t affected;

	return db_exec(db, STMT_BATCH_MORE,
		       DB_ARGS(db_uint(s->accepted), db_uint(s->replay),
			       db_uint(s->quarantined), db_uint(s->rejected),
			       db_uint(s->tombstoned), batch_val(c),
			       day_val(c)),
		       &affected, f);
}

bool audit_write(struct core *c, struct db *db, enum item_status doomed,
		 struct fail *f)
{
	return write_rows(c, db, doomed, f) &&
	       (c->a->part ? add_to_batch(c, db, f) : add_batch(c, db, f));
}
