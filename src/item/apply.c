/* Deciding on items and writing what was decided: see item/apply.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/fault.h"
#include "core.h"

static const struct mode_row {
	enum batch_mode mode;
	const char *name;
} MODES[] = {
	{BATCH_UPSERT, "upsert"},   {BATCH_REFRESH, "full-refresh"},
	{BATCH_BULK, "bulk"},       {BATCH_RELEASE, "release"},
	{BATCH_DISCARD, "discard"}, {BATCH_UNDO, "undo-refresh"},
	{BATCH_CANCEL, "cancel"},
};

const char *batch_mode_name(enum batch_mode m)
{
	for (size_t i = 0; i < ARRAY_LEN(MODES); i++)
		if (MODES[i].mode == m)
			return MODES[i].name;
	bug("batch mode %d", (int)m);
}

static enum apply_result write_all(struct core *c, struct db *db,
				   struct fail *f)
{
	enum apply_result r = write_items(c, db, f);

	if (r == APPLY_DONE)
		r = picture_confirm_records(c, db, f);
	if (r == APPLY_DONE)
		r = write_states(c, db, ITEM_INACTIVE, f);
	if (r == APPLY_DONE)
		r = write_quarantine(c, db, f);
	if (r == APPLY_DONE)
		r = picture_confirm_items(c, db, f);
	if (r == APPLY_DONE && !audit_write(c, db, ITEM_TOMBSTONED, f))
		r = APPLY_FAIL;
	return r;
}

/* Told from a picture that is not confirmed: whoever else is charged waits for
 * us, and who is not (a release) might as well have come later. */
static bool check_charge(struct apply *a, struct fail *f)
{
	a->over = a->limited && a->summary.charged > a->charge_max;
	return !a->over ||
	       fail_set(f, FAIL_QUOTA_EXHAUSTED, "too many items would count");
}

static bool refuse(const struct core *c, struct fail *f)
{
	const struct incoming *in = c->outside;

	fail_set(f, FAIL_CROSS_WAREHOUSE,
		 "an item is of a warehouse the credential is not for");
	f->has_pointer = true;
	f->line = in->line;
	if (in->line)
		snprintf(f->pointer, sizeof(f->pointer), "/%.*s",
			 SV_ARG(c->outside_field));
	else
		snprintf(f->pointer, sizeof(f->pointer),
			 "/items/%" PRIu64 "/%.*s", in->index,
			 SV_ARG(c->outside_field));
	return false;
}

enum apply_result apply_run(struct db *db, struct apply *a, struct fail *f)
{
	struct core c = {.a = a};
	enum apply_result r = APPLY_DONE;

	a->summary = (struct apply_summary){0};
	a->needs_job = a->over = false;
	if (a->collection == COLLECTION_BOMS && !a->dry_run)
		r = cycle_lock(&c, db, f);
	if (r != APPLY_DONE)
		return r;
	a->outcomes = arena_array(a->arena, a->count, sizeof(*a->outcomes));
	if (!picture_load(&c, db, f))
		return APPLY_FAIL;
	for (size_t i = 0; i < a->count; i++) {
		fault_of("apply.item", a->items[i].source_id);
		decide_item(&c, i);
	}
	if (c.outside && !refuse(&c, f))
		return APPLY_FAIL;
	if (a->mode == BATCH_REFRESH && !a->part && !refresh_plan(&c, db, f))
		return APPLY_FAIL;
	if (!check_charge(a, f))
		return APPLY_FAIL;
	return a->dry_run ? APPLY_DONE : write_all(&c, db, f);
}
