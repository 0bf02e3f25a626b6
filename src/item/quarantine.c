/* Quarantine records: letting one go, or giving it up. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "item/quarantine.h"

#include "core.h"
#include "item/validate.h"

/* Columns of STMT_QUARANTINE_LOCK. */
enum {
	L_COLLECTION,
	L_SOURCE_ID,
	L_STATE,
	L_REV,
	L_PAYLOAD,
	L_TRAIT,
	L_HOME,
	L_WAREHOUSES,
};

static struct sv text_of(const struct db_val *v)
{
	return v->kind == DB_NULL ? SV_NONE : v->bytes;
}

static const struct scope_columns LOCKED = {.collection = L_COLLECTION,
					    .source_id = L_SOURCE_ID,
					    .trait = L_TRAIT,
					    .home = L_HOME,
					    .sender = L_WAREHOUSES};

static bool lock_open(struct db *db, struct apply *a, struct id id,
		      struct db_table *t, struct fail *f)
{
	enum quarantine_state state;
	bool hidden;

	if (!db_query(db, STMT_QUARANTINE_LOCK,
		      DB_ARGS(db_uint(a->partner_id), db_id(&id)), a->arena, t,
		      f) ||
	    !scope_hides(db, a->partner_id, a->scope, t, &LOCKED, a->arena,
			 &hidden, f))
		return false;
	if (hidden)
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

/* Senders without a limit ask nothing. */
static void bind_senders(struct apply *a, const struct scope **scopes)
{
	a->scopes = NULL;
	for (size_t i = 0; i < a->count; i++)
		if (scopes[i])
			a->scopes = scopes;
}

enum apply_result quarantine_release(struct db *db, const struct conf *c,
				     struct id id, struct release *r,
				     struct fail *f)
{
	struct apply *a = &r->apply;
	const struct scope **sender = arena_alloc(a->arena, sizeof(*sender));
	enum apply_result result;
	struct db_table t;

	if (!lock_open(db, a, id, &t, f) ||
	    !read_payload(a, c, db_cell(&t, 0, L_PAYLOAD)->bytes, &r->in, f))
		return APPLY_FAIL;
	a->mode = BATCH_RELEASE;
	a->items = &r->in;
	a->count = 1;
	*sender = scope_read(a->arena, text_of(db_cell(&t, 0, L_WAREHOUSES)));
	bind_senders(a, sender);
	result = apply_run(db, a, f);
	return result == APPLY_DONE ? settle(r, f) : result;
}

/* Columns of STMT_QUARANTINE_LOCK_SOME. */
enum { S_ID, S_COLLECTION, S_SOURCE_ID, S_STATE, S_PAYLOAD, S_WAREHOUSES };

static void read_again(struct apply *a, const struct conf *c,
		       const struct db_table *t, size_t row,
		       struct incoming *in)
{
	struct fail ignored = FAIL_INIT;
	uint64_t index = in->index;

	if (read_payload(a, c, db_cell(t, row, S_PAYLOAD)->bytes, in,
			 &ignored)) {
		in->index = index;
		return;
	}
	*in = (struct incoming){.index = index,
				.rejected = true,
				.errors = SV("[]"),
				.has_source_id = true,
				.source_id =
					db_cell(t, row, S_SOURCE_ID)->bytes};
}

enum apply_result quarantine_release_some(struct db *db, const struct conf *c,
					  const struct quarantine_some *some,
					  uint64_t first_index, struct apply *a,
					  struct fail *f)
{
	size_t count = some->count;
	struct db_val *keys = arena_array(a->arena, count, sizeof(*keys));
	struct incoming *items = arena_array(a->arena, count, sizeof(*items));
	const struct scope **senders =
		arena_array(a->arena, count, sizeof(*senders));
	size_t unread = 0;
	uint64_t affected;
	struct db_table t;

	for (size_t i = 0; i < count; i++)
		keys[i] = db_id(&some->ids[i]);
	if (!db_keys_query(db, STMT_QUARANTINE_LOCK_SOME,
			   DB_ARGS(db_uint(a->partner_id)), keys, count,
			   a->arena, &t, f))
		return APPLY_FAIL;
	a->mode = BATCH_RELEASE;
	a->collection = some->collection;
	a->items = items;
	a->count = 0;
	for (size_t i = 0; i < t.rows; i++) {
		struct incoming *in = &items[a->count];

		if (db_cell(&t, i, S_STATE)->u != QUARANTINE_OPEN ||
		    db_cell(&t, i, S_COLLECTION)->u != (uint64_t)a->collection)
			continue;
		senders[a->count] = scope_read(
			a->arena, text_of(db_cell(&t, i, S_WAREHOUSES)));
		in->index = first_index + a->count++;
		read_again(a, c, &t, i, in);
		if (in->rejected)
			keys[unread++] = *db_cell(&t, i, S_ID);
	}
	bind_senders(a, senders);
	return db_keys_exec(db, STMT_QUARANTINE_WAIT_DROP,
			    DB_ARGS(db_uint(a->partner_id)), keys, unread,
			    &affected, f)
		       ? apply_run(db, a, f)
		       : APPLY_FAIL;
}

enum apply_result quarantine_discard(struct db *db, struct id id,
				     struct apply *a, struct fail *f)
{
	struct core c = {.a = a};
	struct db_val key = db_id(&id);
	uint64_t affected;
	struct db_table t;

	a->mode = BATCH_DISCARD;
	a->count = 0;
	a->summary = (struct apply_summary){0};
	if (!lock_open(db, a, id, &t, f) ||
	    !db_exec(db, STMT_QUARANTINE_CLOSE,
		     DB_ARGS(db_uint(QUARANTINE_DISCARDED),
			     db_uint(a->partner_id), db_id(&id),
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

/* Several records. */

enum {
	CLOCKS_MS = 1000,
	LOOKS_MAX = 20, /* of QUARANTINE_SOME records, for some that are seen */
	COUNT_ROWS = 1000,
	COUNT_LOOKS = 100,
	COUNT_BLOCK_BYTES = 1 << 20,
};

/* Columns of the picks; those by themselves end after the collection. */
enum { P_ID, P_COLLECTION, P_SOURCE_ID, P_TRAIT, P_HOME, P_WAREHOUSES };

static const struct id FIRST_ID = {{0}};
static const struct id LAST_ID = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
				   0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
				   0xff, 0xff}};

/* Ids begin with their time, by clocks that differ a little. */
static struct id bound_of(const struct quarantine_match *m)
{
	uint64_t ms = id_wall_ms(m->asked) + CLOCKS_MS;
	struct id id = LAST_ID;

	for (int i = 0; i < 6; i++)
		id.b[i] = (uint8_t)(ms >> (40 - 8 * i));
	return id;
}

static struct db_val low_of(const struct quarantine_match *m)
{
	return db_uint(m->collection < 0 ? 0 : (uint64_t)m->collection);
}

static struct db_val high_of(const struct quarantine_match *m)
{
	return db_uint(m->collection < 0 ? 255 : (uint64_t)m->collection);
}

static bool count_all(struct db *db, const struct quarantine_match *m,
		      struct arena *a, uint64_t *count_r, struct fail *f)
{
	struct id bound = bound_of(m);
	struct db_table t;
	bool ok;

	if (m->missing.p)
		ok = db_query(db, STMT_RELEASE_COUNT_WAITERS,
			      DB_ARGS(db_uint(m->partner_id),
				      db_text(m->missing), db_id(&bound),
				      low_of(m), high_of(m)),
			      a, &t, f);
	else
		ok = db_query(db, STMT_RELEASE_COUNT,
			      DB_ARGS(db_uint(m->partner_id), db_id(&bound),
				      low_of(m), high_of(m)),
			      a, &t, f);
	if (ok)
		*count_r = db_cell(&t, 0, 0)->u;
	return ok;
}

static struct id picked_id(const struct db_table *t, size_t row)
{
	struct id id;

	memcpy(id.b, db_cell(t, row, P_ID)->bytes.p, sizeof(id.b));
	return id;
}

/* seen NULL: all of them. */
static void take(struct quarantine_some *s, const struct db_table *t,
		 const bool *seen)
{
	s->count = 0;
	s->ended = !t->rows;
	for (size_t i = 0; i < t->rows; i++) {
		enum collection c =
			(enum collection)db_cell(t, i, P_COLLECTION)->u;

		if ((!seen || seen[i]) && s->count && c != s->collection)
			return;
		s->last = picked_id(t, i);
		if (seen && !seen[i])
			continue;
		s->collection = c;
		s->ids[s->count++] = s->last;
	}
}

static bool pick(struct db *db, const struct quarantine_match *m,
		 struct db_val from, uint64_t most, struct arena *a,
		 struct db_table *t, struct fail *f)
{
	struct id bound = bound_of(m);

	if (m->missing.p)
		return db_query(db, STMT_RELEASE_PICK_WAITERS,
				DB_ARGS(db_uint(m->partner_id),
					db_text(m->missing), from,
					db_id(&bound), low_of(m), high_of(m),
					db_uint(most)),
				a, t, f);
	return db_query(db, STMT_RELEASE_PICK,
			DB_ARGS(db_uint(m->partner_id), from, db_id(&bound),
				low_of(m), high_of(m), db_uint(most)),
			a, t, f);
}

static const struct scope_columns PICKED = {.collection = P_COLLECTION,
					    .source_id = P_SOURCE_ID,
					    .trait = P_TRAIT,
					    .home = P_HOME,
					    .sender = P_WAREHOUSES};

bool quarantine_pick(struct db *db, const struct quarantine_match *m,
		     struct sv after, struct arena *a,
		     struct quarantine_some *s_r, struct fail *f)
{
	struct db_val from = after.p ? db_text(after) : db_id(&FIRST_ID);

	for (int looks = 0; looks < LOOKS_MAX; looks++) {
		struct db_table t;
		bool *seen;

		if (!pick(db, m, from, QUARANTINE_SOME, a, &t, f) ||
		    !scope_sort(db, m->partner_id, m->scope, &t, &PICKED, a,
				&seen, f))
			return false;
		take(s_r, &t, seen);
		if (s_r->count || s_r->ended)
			break;
		from = db_id(&s_r->last);
	}
	return true;
}

/* One stretch behind *from, which moves on. */
static bool count_stretch(struct db *db, const struct quarantine_match *m,
			  struct arena *a, struct id *from, uint64_t *count,
			  bool *ended_r, struct fail *f)
{
	struct db_table t;
	bool *seen;

	if (!pick(db, m, db_id(from), COUNT_ROWS, a, &t, f) ||
	    !scope_sort(db, m->partner_id, m->scope, &t, &PICKED, a, &seen, f))
		return false;
	for (size_t i = 0; i < t.rows; i++)
		*count += seen[i];
	*ended_r = t.rows < COUNT_ROWS;
	if (t.rows)
		*from = picked_id(&t, t.rows - 1);
	return true;
}

bool quarantine_count(struct db *db, const struct quarantine_match *m,
		      struct arena *a, uint64_t *count_r, struct fail *f)
{
	struct id from = FIRST_ID;
	bool ended = false, ok = true;
	struct arena own;

	if (!m->scope)
		return count_all(db, m, a, count_r, f);
	*count_r = 0;
	arena_init(&own, COUNT_BLOCK_BYTES);
	for (int i = 0; ok && !ended && i < COUNT_LOOKS; i++) {
		arena_reset(&own);
		ok = count_stretch(db, m, &own, &from, count_r, &ended, f);
	}
	arena_release(&own);
	return ok;
}

bool quarantine_ready(struct db *db, uint32_t partner_id, struct id *after,
		      struct arena *a, struct quarantine_some *s_r,
		      bool *ended_r, struct fail *f)
{
	struct id to = LAST_ID;
	struct db_table end, t;

	if (!db_query(db, STMT_AUTO_RELEASE_STRETCH,
		      DB_ARGS(db_uint(partner_id), db_id(after)), a, &end, f))
		return false;
	if (end.rows)
		to = picked_id(&end, 0);
	if (!db_query(db, STMT_AUTO_RELEASE_PICK,
		      DB_ARGS(db_uint(partner_id), db_id(after), db_id(&to),
			      db_uint(QUARANTINE_SOME)),
		      a, &t, f))
		return false;
	take(s_r, &t, NULL);
	*ended_r = !end.rows;
	if (!s_r->count)
		*after = to;
	return true;
}
