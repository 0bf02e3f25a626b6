/* Warehouse scope: see item/scope.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "item/scope.h"

#include "base/fail.h"
#include "db/rows.h"
#include "item/field.h"
#include "wire/json.h"

enum {
	/* A bin, its zone, the warehouse; more only where something became a
	 * BIN after others had called it their ZONE. */
	LEVELS_MAX = 4,
	SCRATCH_BYTES = 16 * 1024,
};

static const char WAREHOUSE[] = "WAREHOUSE";

struct scope {
	struct sv text;
	struct sv *ids; /* sorted */
	size_t count;
};

static int by_bytes(const void *a, const void *b)
{
	return sv_cmp(*(const struct sv *)a, *(const struct sv *)b);
}

static bool read_ids(struct arena *a, struct scope *s)
{
	struct json_limits limits = {.depth_max = 1, .names_max = 1};
	struct fail ignored = FAIL_INIT;
	struct json_tape t;

	if (!json_read(a, s->text, &limits, &t, &ignored) ||
	    json_kind(&t, 0) != JSON_ARRAY)
		return false;
	s->ids = arena_array(a, json_count(&t, 0), sizeof(*s->ids));
	for (uint32_t i = json_first(&t, 0); i; i = json_after(&t, 0, i)) {
		if (json_kind(&t, i) != JSON_STRING)
			return false;
		s->ids[s->count++] = json_text(a, &t, i);
	}
	qsort(s->ids, s->count, sizeof(*s->ids), by_bytes);
	return true;
}

const struct scope *scope_read(struct arena *a, struct sv text)
{
	struct scope *s;

	if (!text.p)
		return NULL;
	s = arena_alloc(a, sizeof(*s));
	s->text = text;
	if (!read_ids(a, s))
		s->count = 0;
	return s;
}

struct sv scope_text(const struct scope *s)
{
	return s ? s->text : SV_NONE;
}

bool scope_has(const struct scope *s, struct sv warehouse)
{
	if (!s)
		return true;
	return s->count &&
	       bsearch(&warehouse, s->ids, s->count, sizeof(*s->ids), by_bytes);
}

bool scope_within(const struct scope *inner, const struct scope *outer)
{
	if (!outer || !inner)
		return !outer;
	for (size_t i = 0; i < inner->count; i++)
		if (!scope_has(outer, inner->ids[i]))
			return false;
	return true;
}

bool scope_concerns(enum collection c)
{
	return field_home(c, 0) != NULL;
}

/* Most compare a scope with itself. */
static bool text_within(struct sv inner, const struct scope *outer)
{
	struct arena a;
	bool within;

	if (!inner.p || sv_eq(inner, outer->text))
		return inner.p != NULL;
	arena_init(&a, SCRATCH_BYTES);
	within = scope_within(scope_read(&a, inner), outer);
	arena_release(&a);
	return within;
}

bool scope_covers(const struct scope *s, int collection, struct sv sender)
{
	if (!s)
		return true;
	if (collection >= 0 && !scope_concerns((enum collection)collection))
		return true;
	return text_within(sender, s);
}

/* The way */

enum way {
	WAY_LOST,  /* nothing says where it is */
	WAY_HERE,  /* it is a warehouse */
	WAY_THERE, /* home names the warehouses */
	WAY_ON,    /* home names something that leads on */
};

static const struct field_case *case_of(const struct field *f, struct sv word)
{
	for (size_t i = 0; i < f->case_count; i++)
		if (sv_eq(word, sv_of(f->cases[i].word)))
			return &f->cases[i];
	return NULL;
}

static enum way way_of(const struct scope_place *p, enum collection *to_r)
{
	const struct field *f = field_home(p->collection, 0);
	const char *trait = f ? f->trait : NULL;

	if (f && f->by) {
		const struct field_case *k = case_of(f, p->trait);

		if (k && !k->allowed)
			return WAY_HERE;
		trait = k ? k->trait : NULL;
	}
	if (!f || !p->home.n)
		return WAY_LOST;
	*to_r = f->to;
	return trait && strcmp(trait, WAREHOUSE) == 0 ? WAY_THERE : WAY_ON;
}

static int by_thing(const void *a, const void *b)
{
	const struct scope_place *x = &((const struct scope_step *)a)->place;
	const struct scope_place *y = &((const struct scope_step *)b)->place;

	if (x->collection != y->collection)
		return x->collection < y->collection ? -1 : 1;
	return sv_cmp(x->source_id, y->source_id);
}

static bool find(const struct scope_map *m, enum collection c,
		 struct sv source_id, struct scope_step *step_r)
{
	const struct scope_step key = {
		.place = {.collection = c, .source_id = source_id}};
	const struct scope_step *got;

	if (m->known && m->known(m->arg, c, source_id, step_r))
		return true;
	got = m->count
		      ? bsearch(&key, m->steps, m->count, sizeof(key), by_thing)
		      : NULL;
	if (got)
		*step_r = *got;
	return got != NULL;
}

/* How far the way from a place is known. */
struct trail {
	struct scope_place at;
	enum way way;       /* of `at`; WAY_ON: what follows is not held */
	enum collection to; /* of what follows */
	bool unread;        /* and has not been looked for yet */
	bool moved;         /* `at` is another place than the first */
};

static struct trail follow(const struct scope_map *m,
			   const struct scope_place *p)
{
	struct trail t = {.at = *p};

	for (int level = 0; level <= LEVELS_MAX; level++) {
		struct scope_step next;

		t.way = way_of(&t.at, &t.to);
		if (t.way != WAY_ON)
			return t;
		t.unread = !find(m, t.to, t.at.home, &next);
		if (t.unread || !next.exists)
			return t;
		t.at = next.place;
		t.moved = true;
	}
	t.way = WAY_LOST;
	return t;
}

/* What has to be read to go on, each once, sorted. */
static size_t list_unread(const struct scope_map *m,
			  const struct scope_place *places, size_t count,
			  struct scope_step *unread)
{
	size_t n = 0, kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct trail t = follow(m, &places[i]);

		if (t.unread)
			unread[n++] = (struct scope_step){
				.place = {.collection = t.to,
					  .source_id = t.at.home}};
	}
	qsort(unread, n, sizeof(*unread), by_thing);
	for (size_t i = 0; i < n; i++)
		if (!kept || by_thing(&unread[kept - 1], &unread[i]) != 0)
			unread[kept++] = unread[i];
	return kept;
}

/* Columns of STMT_SCOPE_STEPS. */
enum { S_SOURCE_ID, S_TRAIT, S_HOME };

static struct sv text_of(const struct db_val *v)
{
	return v->kind == DB_NULL ? SV_NONE : v->bytes;
}

static void take_steps(struct scope_step *steps, size_t n,
		       const struct db_table *t)
{
	for (size_t i = 0; i < t->rows; i++) {
		struct scope_step key = {.place = steps[0].place}, *s;

		key.place.source_id = db_cell(t, i, S_SOURCE_ID)->bytes;
		s = bsearch(&key, steps, n, sizeof(key), by_thing);
		if (!s)
			bug("a row nobody asked for");
		s->exists = true;
		s->place.trait = text_of(db_cell(t, i, S_TRAIT));
		s->place.home = text_of(db_cell(t, i, S_HOME));
	}
}

/* Steps of one collection. */
static bool read_steps(struct db *db, uint32_t partner_id,
		       struct scope_step *steps, size_t n, struct arena *a,
		       struct fail *f)
{
	struct db_val *keys = arena_array(a, n, sizeof(*keys));
	struct db_table t;

	for (size_t i = 0; i < n; i++)
		keys[i] = db_text(steps[i].place.source_id);
	if (!db_keys_query(
		    db, STMT_SCOPE_STEPS,
		    DB_ARGS(db_uint(partner_id),
			    db_uint((uint64_t)steps[0].place.collection)),
		    keys, n, a, &t, f))
		return false;
	take_steps(steps, n, &t);
	return true;
}

static bool read_unread(struct db *db, uint32_t partner_id,
			struct scope_step *steps, size_t count, struct arena *a,
			struct fail *f)
{
	size_t from = 0;

	while (from < count) {
		size_t to = from + 1;

		while (to < count && steps[to].place.collection ==
					     steps[from].place.collection)
			to++;
		if (!read_steps(db, partner_id, steps + from, to - from, a, f))
			return false;
		from = to;
	}
	return true;
}

static void add_steps(struct arena *a, struct scope_map *m,
		      const struct scope_step *steps, size_t n)
{
	struct scope_step *all =
		arena_reserve(a, (m->count + n) * sizeof(*all));

	if (m->count)
		memcpy(all, m->steps, m->count * sizeof(*all));
	memcpy(all + m->count, steps, n * sizeof(*all));
	m->steps = all;
	m->count += n;
	qsort(all, m->count, sizeof(*all), by_thing);
}

bool scope_map_load(struct db *db, uint32_t partner_id,
		    const struct scope_place *places, size_t count,
		    struct arena *a, struct scope_map *m, struct fail *f)
{
	struct scope_step *unread;

	if (!count)
		return true;
	unread = arena_reserve(a, count * sizeof(*unread));
	for (int level = 0; level < LEVELS_MAX; level++) {
		size_t n = list_unread(m, places, count, unread);

		if (!n)
			break;
		if (!read_unread(db, partner_id, unread, n, a, f))
			return false;
		add_steps(a, m, unread, n);
	}
	return true;
}

/* Which of the warehouses named is not in the scope; -1: all are. */
static int first_outside(const struct scope *s, struct sv home)
{
	for (int i = 0; home.n; i++)
		if (!scope_has(s, sv_cut(&home, '\n')))
			return i;
	return -1;
}

enum scope_verdict scope_judge(const struct scope *s, const struct scope_map *m,
			       const struct scope_place *p, struct sv *field_r)
{
	struct trail t;
	int outside;

	if (!s || !scope_concerns(p->collection))
		return SCOPE_IN;
	t = follow(m, p);
	if (t.way == WAY_LOST || t.way == WAY_ON)
		return SCOPE_UNKNOWN;
	outside = first_outside(s,
				t.way == WAY_HERE ? t.at.source_id : t.at.home);
	if (outside < 0)
		return SCOPE_IN;
	if (field_r && t.way == WAY_HERE && !t.moved)
		*field_r = SV("source_id");
	else if (field_r)
		*field_r =
			field_home(p->collection, t.moved ? 0 : (size_t)outside)
				->name;
	return SCOPE_OUT;
}

/* Who has made what a record of others waits for does not get at it. */
static bool sender_may(struct sv sender, const struct scope_map *m,
		       const struct scope_place *p)
{
	struct arena a;
	bool may;

	if (!sender.p)
		return true;
	arena_init(&a, SCRATCH_BYTES);
	may = scope_judge(scope_read(&a, sender), m, p, NULL) == SCOPE_IN;
	arena_release(&a);
	return may;
}

enum scope_verdict scope_judge_record(const struct scope *s,
				      const struct scope_map *m,
				      const struct scope_place *p,
				      struct sv sender)
{
	enum scope_verdict v;

	if (!s || text_within(sender, s))
		return SCOPE_IN;
	v = scope_judge(s, m, p, NULL);
	return v == SCOPE_IN && !sender_may(sender, m, p) ? SCOPE_OUT : v;
}

static struct scope_place place_of(const struct db_table *t, size_t row,
				   const struct scope_columns *c)
{
	return (struct scope_place){
		.collection = c->collection < 0
				      ? c->fixed
				      : (enum collection)db_cell(
						t, row, (size_t)c->collection)
						->u,
		.source_id = db_cell(t, row, c->source_id)->bytes,
		.trait = text_of(db_cell(t, row, c->trait)),
		.home = text_of(db_cell(t, row, c->home))};
}

static bool sees(const struct scope *s, const struct scope_map *m,
		 const struct scope_place *p, const struct db_table *t,
		 size_t row, const struct scope_columns *c)
{
	if (c->sender < 0)
		return scope_judge(s, m, p, NULL) == SCOPE_IN;
	return scope_judge_record(
		       s, m, p, text_of(db_cell(t, row, (size_t)c->sender))) ==
	       SCOPE_IN;
}

bool scope_sort(struct db *db, uint32_t partner_id, const struct scope *s,
		const struct db_table *t, const struct scope_columns *c,
		struct arena *a, bool **seen_r, struct fail *f)
{
	struct scope_map map = {0};
	struct scope_place *places;

	*seen_r = NULL;
	if (!s || (c->collection < 0 && !scope_concerns(c->fixed)))
		return true;
	places = arena_array(a, t->rows, sizeof(*places));
	for (size_t i = 0; i < t->rows; i++)
		places[i] = place_of(t, i, c);
	if (!scope_map_load(db, partner_id, places, t->rows, a, &map, f))
		return false;
	*seen_r = arena_array(a, t->rows, sizeof(**seen_r));
	for (size_t i = 0; i < t->rows; i++)
		(*seen_r)[i] = sees(s, &map, &places[i], t, i, c);
	return true;
}

bool scope_hides(struct db *db, uint32_t partner_id, const struct scope *s,
		 const struct db_table *t, const struct scope_columns *c,
		 struct arena *a, bool *hidden_r, struct fail *f)
{
	bool *seen;

	if (!scope_sort(db, partner_id, s, t, c, a, &seen, f))
		return false;
	*hidden_r = !t->rows || (seen && !seen[0]);
	return true;
}
