/* The fence around a limited credential: what of a batch is of other
 * warehouses (A6). Followed over the picture and what the batch has done so
 * far, so that a bin may come in one batch with its zone. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"

static struct scope_place sent_place(const struct core *c,
				     const struct incoming *in)
{
	return (struct scope_place){c->a->collection, in->source_id, in->trait,
				    in->home};
}

static struct scope_place held_place(enum collection col, const struct entry *e)
{
	return (struct scope_place){col, e->source_id, e->trait, e->home};
}

static struct scope_place record_place(const struct core *c,
				       const struct entry *e)
{
	return (struct scope_place){c->a->collection, e->source_id,
				    e->record->trait, e->record->home};
}

static bool has_record(const struct entry *e)
{
	return e->record && e->record->state == QUARANTINE_OPEN;
}

static bool known(const void *arg, enum collection col, struct sv source_id,
		  struct scope_step *step_r)
{
	const struct core *c = arg;
	const struct entry *e = core_find(c, col, source_id);

	if (!e)
		return false;
	*step_r = (struct scope_step){held_place(col, e), e->exists};
	return true;
}

static bool load_map(struct core *c, struct db *db,
		     const struct scope_place *places, size_t count,
		     struct fail *f)
{
	c->map.known = known;
	c->map.arg = c;
	return scope_map_load(db, c->a->partner_id, places, count, c->a->arena,
			      &c->map, f);
}

bool fence_load(struct core *c, struct db *db, struct fail *f)
{
	const struct shelf *s = &c->shelves[c->a->collection];
	struct scope_place *places;
	size_t n = 0;

	c->fenced = (c->a->scope || c->a->scopes) &&
		    scope_concerns(c->a->collection);
	if (!c->fenced)
		return true;
	places = arena_reserve(c->a->arena,
			       (c->a->count + 2 * s->count) * sizeof(*places));
	for (size_t i = 0; i < c->a->count; i++)
		if (!c->a->items[i].rejected)
			places[n++] = sent_place(c, &c->a->items[i]);
	for (size_t i = 0; i < s->count; i++) {
		const struct entry *e = &s->entries[i];

		if (e->named && e->exists)
			places[n++] = held_place(c->a->collection, e);
		if (e->named && has_record(e))
			places[n++] = record_place(c, e);
	}
	return load_map(c, db, places, n, f);
}

/* What is there under the item's key. A release has its own record there. */
static bool is_others(const struct core *c, const struct scope *s,
		      const struct entry *e)
{
	struct scope_place held = held_place(c->a->collection, e), record;

	if (e->exists && scope_judge(s, &c->map, &held, NULL) != SCOPE_IN)
		return true;
	if (!has_record(e) || c->a->mode == BATCH_RELEASE)
		return false;
	record = record_place(c, e);
	return scope_judge_record(s, &c->map, &record, e->record->sender) !=
	       SCOPE_IN;
}

static enum scope_verdict check(const struct core *c, const struct scope *s,
				const struct incoming *in,
				const struct entry *e, struct sv *field_r)
{
	struct scope_place sent = sent_place(c, in);
	enum scope_verdict v;

	if (!s)
		return SCOPE_IN;
	v = scope_judge(s, &c->map, &sent, field_r);
	if (v == SCOPE_OUT || !is_others(c, s, e))
		return v;
	*field_r = SV("source_id");
	return SCOPE_OUT;
}

enum scope_verdict fence_check(const struct core *c, size_t i,
			       const struct entry *e, struct sv *field_r)
{
	const struct incoming *in = &c->a->items[i];
	enum scope_verdict asked, sender;

	if (!c->fenced)
		return SCOPE_IN;
	asked = check(c, c->a->scope, in, e, field_r);
	if (asked == SCOPE_OUT || !c->a->scopes)
		return asked;
	sender = check(c, c->a->scopes[i], in, e, field_r);
	return sender == SCOPE_IN ? asked : sender;
}

bool fence_admits_sender(const struct core *c, size_t i, const struct entry *e)
{
	struct sv ignored;

	return !c->a->scopes || check(c, c->a->scopes[i], &c->a->items[i], e,
				      &ignored) == SCOPE_IN;
}

bool fence_sort(struct core *c, struct db *db, const struct entry *entries,
		size_t count, bool **keep_r, struct fail *f)
{
	struct scope_place *places;
	bool *keep;

	*keep_r = NULL;
	if (!c->a->scope || !scope_concerns(c->a->collection))
		return true;
	places = arena_reserve(c->a->arena, count * sizeof(*places));
	keep = arena_array(c->a->arena, count, sizeof(*keep));
	for (size_t i = 0; i < count; i++)
		places[i] = held_place(c->a->collection, &entries[i]);
	if (!load_map(c, db, places, count, f))
		return false;
	for (size_t i = 0; i < count; i++)
		keep[i] = scope_judge(c->a->scope, &c->map, &places[i], NULL) ==
			  SCOPE_IN;
	*keep_r = keep;
	return true;
}
