/* Quarantine records: letting one go, or giving it up. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "item/quarantine.h"

#include "core.h"
#include "item/validate.h"

/* Columns of STMT_QUARANTINE_LOCK. */
enum { L_COLLECTION, L_SOURCE_ID, L_STATE, L_REV, L_PAYLOAD };

static struct db_val id_val(const struct id *id)
{
	return db_text(sv_from(id->b, sizeof(id->b)));
}

static bool lock_open(struct db *db, struct apply *a, struct id id,
		      struct db_table *t, struct fail *f)
{
	enum quarantine_state state;

	if (!db_query(db, STMT_QUARANTINE_LOCK,
		      DB_ARGS(db_uint(a->partner_id), id_val(&id)), a->arena, t,
		      f))
		return false;
	if (!t->rows)
		return fail_set(f, FAIL_NOT_FOUND,
				"there is no such quarantine record");
	state = (enum quarantine_state)db_cell(t, 0, L_STATE)->u;
	if (state != QUARANTINE_OPEN)
		return fail_set(f, FAIL_NOT_OPEN, "the record is %s",
				quarantine_state_name(state));
	a->collection = (enum collection)db_cell(t, 0, L_COLLECTION)->u;
	return true;
}

/* A payload that was right when it was held back is read again, because the
 * rules may have grown since. */
static bool read_payload(struct apply *a, const struct conf *c, struct sv bytes,
			 struct incoming *in, struct fail *f)
{
	struct json_limits limits = {.depth_max = (uint32_t)c->json_depth_max,
				     .names_max = (uint32_t)c->json_names_max};
	struct json_tape tape;

	if (!json_read(a->arena, bytes, &limits, &tape, f))
		return fail_set(f, FAIL_STILL_HELD,
				"the held back item can no longer be read");
	*in = (struct incoming){.index = 0};
	validate_item(a->arena, a->collection, &tape, in);
	if (in->rejected)
		return fail_set(f, FAIL_STILL_HELD,
				"the held back item is not of the right shape");
	return true;
}

static enum apply_result settle(struct release *r, struct fail *f)
{
	const struct outcome *o = &r->apply.outcomes[0];

	if (o->status == ITEM_QUARANTINED) {
		fail_set(f, FAIL_STILL_HELD, "%.*s", SV_ARG(o->reason));
		f->quotes = true;
		return APPLY_FAIL;
	}
	r->state = o->status == ITEM_ACCEPTED ? QUARANTINE_RELEASED
					      : QUARANTINE_SUPERSEDED;
	return APPLY_DONE;
}

enum apply_result quarantine_release(struct db *db, const struct conf *c,
				     struct id id, struct release *r,
				     struct fail *f)
{
	struct apply *a = &r->apply;
	enum apply_result result;
	struct db_table t;

	if (!lock_open(db, a, id, &t, f) ||
	    !read_payload(a, c, db_cell(&t, 0, L_PAYLOAD)->bytes, &r->in, f))
		return APPLY_FAIL;
	a->mode = BATCH_RELEASE;
	a->items = &r->in;
	a->count = 1;
	result = apply_run(db, a, f);
	return result == APPLY_DONE ? settle(r, f) : result;
}

enum apply_result quarantine_discard(struct db *db, struct id id,
				     struct apply *a, struct fail *f)
{
	struct core c = {.a = a};
	struct db_val key = id_val(&id);
	uint64_t affected;
	struct db_table t;

	a->mode = BATCH_DISCARD;
	a->count = 0;
	a->summary = (struct apply_summary){0};
	if (!lock_open(db, a, id, &t, f) ||
	    !db_exec(db, STMT_QUARANTINE_CLOSE,
		     DB_ARGS(db_uint(QUARANTINE_DISCARDED),
			     db_uint(a->partner_id), id_val(&id),
			     *db_cell(&t, 0, L_REV)),
		     &affected, f))
		return APPLY_FAIL;
	if (affected != 1)
		return APPLY_RACED;
	return db_keys_exec(db, STMT_QUARANTINE_WAIT_DROP,
			    DB_ARGS(db_uint(a->partner_id)), &key, 1, &affected,
			    f) &&
			       audit_write(&c, db, ITEM_TOMBSTONED, f)
		       ? APPLY_DONE
		       : APPLY_FAIL;
}
