/* What becomes of an item: the contract's table, in its order.
 *
 * REJECTED, REPLAY, QUARANTINED, ACCEPTED, decided over the picture and what
 * the batch has done so far. Nothing is written here; an accepted item
 * changes its entry, a held back one its record.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "core.h"
#include "item/field.h"
#include "item/validate.h"

static bool same_content(const struct entry *e, const struct incoming *in)
{
	return memcmp(e->hash, in->hash, ITEM_HASH) == 0;
}

/* The payload of a full-refresh says what is live: an equal version brings a
 * tombstoned item back. */
static bool revives(const struct core *c, const struct entry *e,
		    const struct incoming *in)
{
	return c->a->mode == BATCH_REFRESH && e->state == ITEM_INACTIVE &&
	       in->version == e->version;
}

static bool is_replay(const struct core *c, const struct entry *e,
		      const struct incoming *in)
{
	return e->exists && e->has_version && in->has_version &&
	       in->version <= e->version && !revives(c, e, in);
}

static void replay(const struct core *c, const struct entry *e,
		   const struct incoming *in, struct outcome *o)
{
	o->status = ITEM_REPLAY;
	o->has_held = e->has_version;
	o->held_version = e->version;
	o->held_inactive = e->state == ITEM_INACTIVE;
	o->conflict = in->has_version && in->version == e->version &&
		      !same_content(e, in);
	o->has_internal_id = e->rev || !c->a->dry_run;
	o->internal_id = e->internal_id;
}

/* A release of a record without a version: has its item's content been
 * written since? */
static bool overtaken_record(const struct entry *e, const struct record *r)
{
	return e->content_rev != r->seen_rev;
}

static struct record *open_record(const struct entry *e)
{
	return e->record && e->record->state == QUARANTINE_OPEN ? e->record
								: NULL;
}

/* The first fault of a reference, in order of gravity. */
static enum hold_code ref_fault(const struct core *c, const struct incoming *in,
				const struct item_ref *r)
{
	const struct entry *e = core_find(c, r->collection, r->source_id);

	/* What the item is about to replace does not count: nothing is its own
	 * parent. */
	if (r->collection == c->a->collection &&
	    sv_eq(r->source_id, in->source_id))
		return HOLD_REFERENCE_WRONG_KIND;
	if (!e || !e->exists)
		return HOLD_REFERENCE_MISSING;
	if (e->state != ITEM_ACTIVE)
		return HOLD_REFERENCE_INACTIVE;
	if (r->trait && !sv_eq(e->trait, sv_of(r->trait)))
		return HOLD_REFERENCE_WRONG_KIND;
	return HOLD_NONE;
}

static void add_missing(struct buf *b, const struct item_ref *r)
{
	buf_addf(b,
		 "%s{\"collection\":\"%s\",\"source_id\":", b->n > 1 ? "," : "",
		 collection_info(r->collection)->name);
	buf_add_json(b, r->source_id);
	buf_add_byte(b, '}');
}

static struct sv ref_reason(struct arena *a, const struct item_ref *r,
			    enum hold_code code, size_t more)
{
	const char *what = code == HOLD_REFERENCE_MISSING ? "does not exist"
			   : code == HOLD_REFERENCE_INACTIVE
				   ? "is INACTIVE"
				   : "is not of the kind ";
	const char *kind = code == HOLD_REFERENCE_WRONG_KIND ? r->trait : "";
	char tail[40] = "";

	if (more)
		snprintf(tail, sizeof(tail), ", and %zu more", more);
	return sv_of(arena_printf(a, "%s %.*s %s%s%s",
				  collection_info(r->collection)->name,
				  SV_ARG(r->source_id), what, kind, tail));
}

/* The gravest fault, and of those the first, gives code and reason. */
static const struct item_ref *worst_ref(const struct core *c,
					const struct incoming *in,
					struct outcome *o, size_t *failed_r)
{
	const struct item_ref *worst = NULL;

	*failed_r = 0;
	for (size_t i = 0; i < in->ref_count; i++) {
		enum hold_code code = ref_fault(c, in, &in->refs[i]);

		*failed_r += code != HOLD_NONE;
		if (code != HOLD_NONE && (!worst || code < o->code)) {
			worst = &in->refs[i];
			o->code = code;
		}
	}
	return worst;
}

static uint32_t rev_of(const struct core *c, const struct item_ref *r)
{
	const struct entry *e = core_find(c, r->collection, r->source_id);

	return e ? e->rev + (e->from != NULL) : 0;
}

/* All references that fail are what the item waits for. */
static void collect_waits(const struct core *c, const struct incoming *in,
			  size_t failed, struct outcome *o, struct waits *w)
{
	struct buf b;

	w->refs = arena_array(c->a->arena, failed, sizeof(*w->refs));
	w->revs = arena_array(c->a->arena, failed, sizeof(*w->revs));
	buf_init(&b, SIZE_MAX / 4);
	buf_add_byte(&b, '[');
	for (size_t i = 0; i < in->ref_count; i++)
		if (ref_fault(c, in, &in->refs[i]) != HOLD_NONE) {
			add_missing(&b, &in->refs[i]);
			w->revs[w->count] = rev_of(c, &in->refs[i]);
			w->refs[w->count++] = &in->refs[i];
		}
	buf_add_byte(&b, ']');
	o->missing = arena_sv(c->a->arena, buf_sv(&b));
	buf_release(&b);
}

static bool refs_hold(const struct core *c, const struct incoming *in,
		      struct outcome *o, struct waits *w)
{
	size_t failed;
	const struct item_ref *worst = worst_ref(c, in, o, &failed);

	if (!worst)
		return true;
	collect_waits(c, in, failed, o, w);
	o->reason = ref_reason(c->a->arena, worst, o->code, failed - 1);
	return false;
}

static bool rule_fails(struct outcome *o, enum hold_code code, const char *why)
{
	o->code = code;
	o->reason = sv_of(why);
	o->missing = SV("[]");
	return false;
}

static bool rules_hold(const struct core *c, const struct incoming *in,
		       struct outcome *o)
{
	const struct entry *lot;

	if (in->lot.n) {
		lot = core_find(c, COLLECTION_LOTS, in->lot);
		if (lot && !sv_eq(lot->trait, in->sku))
			return rule_fails(o, HOLD_LOT_OF_OTHER_SKU,
					  "the lot is of another SKU");
	}
	if (in->same_warehouse)
		return rule_fails(o, HOLD_SAME_WAREHOUSE,
				  "from and to are the same warehouse");
	if (in->component_count && cycle_closes(c, in))
		return rule_fails(o, HOLD_BOM_CYCLE,
				  "the SKU would be made of itself");
	return true;
}

/* Is the submission older than what is held back? */
static bool below_record(const struct record *r, const struct incoming *in)
{
	return r->has_version && in->has_version && in->version < r->version;
}

/* In words that tell nothing of the other warehouse. */
static const char *outside_reason(struct sv field)
{
	return sv_eq(field, SV("source_id"))
		       ? "what this source_id names is of a warehouse the "
			 "credential is not for"
		       : "the item is of a warehouse the credential is not "
			 "for";
}

static struct record *new_record(struct core *c, struct entry *e)
{
	struct record *r = arena_alloc(c->a->arena, sizeof(*r));

	if (!c->a->dry_run)
		r->id = id_new(c->a->wall_ms);
	r->state = QUARANTINE_OPEN;
	r->older = e->record;
	e->record = r;
	c->a->summary.charged++;
	return r;
}

/* Whose item it is: a release does not make it another's. */
static struct sv sender_of(const struct core *c, size_t i)
{
	if (c->a->mode != BATCH_RELEASE)
		return scope_text(c->a->scope);
	return scope_text(c->a->scopes ? c->a->scopes[i] : NULL);
}

static void hold(struct core *c, struct entry *e, size_t i, struct outcome *o,
		 const struct waits *w)
{
	const struct incoming *in = &c->a->items[i];
	struct record *r = open_record(e);
	bool older = r && below_record(r, in);

	if (!r)
		r = new_record(c, e);
	o->status = ITEM_QUARANTINED;
	o->has_quarantine_id = r->rev || !c->a->dry_run;
	o->quarantine_id = r->id;
	if (older)
		return;
	r->has_version = in->has_version;
	r->version = in->version;
	r->attempts++;
	r->seen_rev = e->from ? e->rev + 1 : e->content_rev;
	r->trait = in->trait;
	r->home = in->home;
	r->sender = sender_of(c, i);
	r->from = in;
	r->why = o;
	r->waits = *w;
}

static enum item_change change_of(const struct entry *e,
				  const struct incoming *in)
{
	if (!e->exists)
		return ITEM_CREATED;
	if (e->state == ITEM_INACTIVE)
		return ITEM_REACTIVATED;
	return !in->has_version && same_content(e, in) ? ITEM_UNCHANGED
						       : ITEM_UPDATED;
}

/* What the batch itself had put there goes to history. */
static void overtake(struct core *c, struct entry *e)
{
	struct overtaken *o;

	if (!e->from)
		return;
	o = arena_alloc(c->a->arena, sizeof(*o));
	*o = (struct overtaken){e->from, e->has_version, e->version,
				e->overtaken};
	e->overtaken = o;
}

static void change_entry(struct core *c, struct entry *e,
			 const struct incoming *in)
{
	overtake(c, e);
	if (!e->exists && !c->a->dry_run)
		e->internal_id = id_new(c->a->wall_ms);
	e->exists = true;
	e->state = ITEM_ACTIVE;
	e->from = in;
	e->trait = in->trait;
	e->home = in->home;
	memcpy(e->hash, in->hash, ITEM_HASH);
	if (in->has_version) {
		e->has_version = true;
		e->version = in->version;
	}
	if (in->component_count)
		cycle_accept(c, in);
}

static void close_record(const struct core *c, struct entry *e,
			 const struct incoming *in)
{
	struct record *r = open_record(e);

	if (!r || below_record(r, in))
		return;
	r->state = c->a->mode == BATCH_RELEASE ? QUARANTINE_RELEASED
					       : QUARANTINE_SUPERSEDED;
}

static void accept(struct core *c, struct entry *e, const struct incoming *in,
		   struct outcome *o)
{
	o->status = ITEM_ACCEPTED;
	o->change = change_of(e, in);
	if (o->change != ITEM_UNCHANGED) {
		change_entry(c, e, in);
		c->a->summary.charged++;
	}
	o->has_internal_id = e->rev || !c->a->dry_run;
	o->internal_id = e->internal_id;
	o->rev = e->rev + (e->from != NULL);
	close_record(c, e, in);
}

/* What leads to the warehouse is worth another look when it changes. */
static void wait_for_home(const struct core *c, const struct incoming *in,
			  struct waits *w)
{
	const struct field *home = field_home(c->a->collection, 0);

	w->refs = arena_array(c->a->arena, in->ref_count, sizeof(*w->refs));
	w->revs = arena_array(c->a->arena, in->ref_count, sizeof(*w->revs));
	for (size_t i = 0; i < in->ref_count; i++)
		if (in->refs[i].collection == home->to &&
		    sv_eq(in->refs[i].source_id, in->home)) {
			w->revs[w->count] = rev_of(c, &in->refs[i]);
			w->refs[w->count++] = &in->refs[i];
		}
}

/* Its sender may, who asked may not: for who may, the record stays as it is. */
static void leave_held(const struct entry *e, struct outcome *o)
{
	const struct record *r = open_record(e);

	o->status = ITEM_QUARANTINED;
	o->has_quarantine_id = r != NULL;
	if (r)
		o->quarantine_id = r->id;
}

/* Of another warehouse (A6). */
static void shut_out(struct core *c, struct entry *e, size_t i,
		     struct outcome *o, struct sv field)
{
	const struct incoming *in = &c->a->items[i];
	const char *why = outside_reason(field);
	struct waits w = {.count = 0};

	if (c->a->mode == BATCH_RELEASE) {
		(void)rule_fails(o, HOLD_CROSS_WAREHOUSE, why);
		if (fence_admits_sender(c, i, e)) {
			leave_held(e, o);
			return;
		}
		wait_for_home(c, in, &w);
		hold(c, e, i, o, &w);
		return;
	}
	o->status = ITEM_REJECTED;
	o->errors = sv_of(arena_printf(
		c->a->arena,
		"[{\"pointer\":\"/%.*s\",\"code\":\"%s\",\"detail\":\"%s\"}]",
		SV_ARG(field), reject_code_name(REJECT_CROSS_WAREHOUSE), why));
	if (c->a->part || c->outside)
		return;
	c->outside = in;
	c->outside_field = field;
}

static void decide(struct core *c, size_t i, struct outcome *o)
{
	const struct incoming *in = &c->a->items[i];
	struct waits w = {.count = 0};
	struct sv field = SV("source_id");
	enum scope_verdict scope;
	struct entry *e;

	if (in->rejected) {
		o->status = ITEM_REJECTED;
		return;
	}
	e = core_find(c, c->a->collection, in->source_id);
	scope = fence_check(c, i, e, &field);
	if (scope == SCOPE_OUT) {
		shut_out(c, e, i, o, field);
		return;
	}
	if (is_replay(c, e, in)) {
		replay(c, e, in, o);
		if (c->a->mode == BATCH_RELEASE && open_record(e))
			e->record->state = QUARANTINE_SUPERSEDED;
		return;
	}
	if (c->a->mode == BATCH_RELEASE && open_record(e) && !in->has_version &&
	    overtaken_record(e, e->record)) {
		replay(c, e, in, o);
		e->record->state = QUARANTINE_SUPERSEDED;
		return;
	}
	if (!refs_hold(c, in, o, &w) || !rules_hold(c, in, o))
		hold(c, e, i, o, &w);
	else if (scope == SCOPE_UNKNOWN)
		shut_out(c, e, i, o, field);
	else
		accept(c, e, in, o);
}

void decide_item(struct core *c, size_t i)
{
	struct apply_summary *s = &c->a->summary;
	struct outcome *o = &c->a->outcomes[i];

	decide(c, i, o);
	s->total++;
	switch (o->status) {
	case ITEM_ACCEPTED:
		s->accepted++;
		break;
	case ITEM_REPLAY:
		s->replay++;
		break;
	case ITEM_QUARANTINED:
		s->quarantined++;
		break;
	case ITEM_REJECTED:
		s->rejected++;
		break;
	case ITEM_TOMBSTONED:
	case ITEM_RESTORED:
		bug("an item sent is never %d", (int)o->status);
	}
}
