/* Rings of BOMs: a SKU that is made of itself, through other BOMs.
 *
 * The graph has a node a SKU and an edge from a BOM's SKU to each of its
 * components. Loaded is what can be reached from the batch's components; then
 * the batch's own BOMs are added as they are accepted. An edge counts while
 * the BOM it comes from still has the content it came from.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"
#include "core.h"

enum { CYCLE_NODES_MAX = 200000 };

struct edge {
	size_t to;
	const struct entry *bom;     /* NULL: not in this batch */
	const struct incoming *from; /* NULL: as the database has it */
	struct edge *next;
};

struct node {
	struct sv sku;
	struct edge *edges;
	uint32_t seen;      /* the number of the last walk that was here */
	size_t bucket_next; /* index + 1; 0: none */
};

struct cycle {
	struct node *nodes;
	size_t count, cap;
	size_t *buckets; /* index + 1; 0: none */
	size_t bucket_count;
	size_t *stack;
	uint32_t walk;
	uint64_t seed;
};

static size_t bucket_of(const struct cycle *g, struct sv sku)
{
	uint64_t h = g->seed;

	for (size_t i = 0; i < sku.n; i++)
		h = (h ^ (uint8_t)sku.p[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return (size_t)((h ^ h >> 32) & (g->bucket_count - 1));
}

/* Index of a SKU's node; SIZE_MAX if there is none. */
static size_t node_find(const struct cycle *g, struct sv sku)
{
	size_t i = g->buckets[bucket_of(g, sku)];

	while (i && !sv_eq(g->nodes[i - 1].sku, sku))
		i = g->nodes[i - 1].bucket_next;
	return i ? i - 1 : SIZE_MAX;
}

static void rehash(struct cycle *g, struct arena *a)
{
	g->bucket_count = g->bucket_count ? g->bucket_count * 4 : 1024;
	g->buckets = arena_array(a, g->bucket_count, sizeof(*g->buckets));
	for (size_t i = 0; i < g->count; i++) {
		size_t *b = &g->buckets[bucket_of(g, g->nodes[i].sku)];

		g->nodes[i].bucket_next = *b;
		*b = i + 1;
	}
}

static void grow(struct cycle *g, struct arena *a)
{
	struct node *more = arena_array(a, g->cap * 2 + 256, sizeof(*more));

	if (g->count)
		memcpy(more, g->nodes, g->count * sizeof(*more));
	g->nodes = more;
	g->cap = g->cap * 2 + 256;
	if (g->cap > g->bucket_count)
		rehash(g, a);
}

static size_t node_get(struct cycle *g, struct arena *a, struct sv sku)
{
	size_t i = node_find(g, sku), *b;

	if (i != SIZE_MAX)
		return i;
	if (g->count == g->cap)
		grow(g, a);
	b = &g->buckets[bucket_of(g, sku)];
	g->nodes[g->count] = (struct node){.sku = sku, .bucket_next = *b};
	*b = ++g->count;
	return g->count - 1;
}

static void edge_add(struct cycle *g, struct arena *a, struct sv sku,
		     struct sv component, const struct entry *bom,
		     const struct incoming *from)
{
	size_t to = node_get(g, a, component), at = node_get(g, a, sku);
	struct edge *e = arena_alloc(a, sizeof(*e));

	*e = (struct edge){to, bom, from, g->nodes[at].edges};
	g->nodes[at].edges = e;
}

/* Of two BOMs that close a ring together neither would see the other, so that
 * one transaction at a time changes a partner's graph. What it locks, and
 * writes so that Galera sees it too, is an edge of no BOM: no source_id is
 * empty. */
enum apply_result cycle_lock(struct core *c, struct db *db, struct fail *f)
{
	struct db_val partner = db_uint(c->a->partner_id);
	struct db_val none = db_text(SV(""));
	const struct db_val row[] = {partner, none, none, none};
	uint64_t affected;

	if (!db_keys_exec(db, STMT_BOM_EDGE_DROP, DB_ARGS(partner), &none, 1,
			  &affected, f))
		return APPLY_FAIL;
	if (db_rows_exec(db, STMT_BOM_EDGE_ADD, row, 1, ARRAY_LEN(row),
			 &affected, f))
		return APPLY_DONE;
	/* The first two of a partner: nothing was there to be locked. */
	return db_last_class(db) == DB_DUPLICATE ? APPLY_RACED : APPLY_FAIL;
}

/* Everything that is reached from node `from` on, one level at a time. */
static bool load_level(struct core *c, struct db *db, size_t from, size_t to,
		       struct fail *f)
{
	struct cycle *g = c->cycle;
	struct arena *a = c->a->arena;
	struct db_val *keys = arena_array(a, to - from, sizeof(*keys));
	struct db_table t;

	for (size_t i = from; i < to; i++)
		keys[i - from] = db_text(g->nodes[i].sku);
	if (!db_keys_query(db, STMT_BOM_EDGES,
			   DB_ARGS(db_uint(c->a->partner_id)), keys, to - from,
			   a, &t, f))
		return false;
	for (size_t i = 0; i < t.rows; i++)
		edge_add(
			g, a, db_cell(&t, i, 0)->bytes,
			db_cell(&t, i, 1)->bytes,
			core_find(c, COLLECTION_BOMS, db_cell(&t, i, 2)->bytes),
			NULL);
	return true;
}

bool cycle_load(struct core *c, struct db *db, struct fail *f)
{
	struct arena *a = c->a->arena;
	struct cycle *g = arena_alloc(a, sizeof(*g));
	size_t from = 0;

	c->cycle = g;
	digest_random(&g->seed, sizeof(g->seed));
	grow(g, a);
	for (size_t i = 0; i < c->a->count; i++) {
		const struct incoming *in = &c->a->items[i];

		for (size_t k = 0; !in->rejected && k < in->component_count;
		     k++)
			node_get(g, a, in->components[k]);
	}
	while (from < g->count) {
		size_t to = g->count;

		if (g->count > CYCLE_NODES_MAX)
			return fail_set(f, FAIL_BODY_TOO_LARGE,
					"these BOMs lead to more than %d SKUs: "
					"send fewer of them at once",
					CYCLE_NODES_MAX);
		if (!load_level(c, db, from, to, f))
			return false;
		from = to;
	}
	return true;
}

static bool counts(const struct edge *e, const struct incoming *candidate)
{
	/* The candidate replaces whatever its BOM said before. */
	if (e->bom && sv_eq(e->bom->source_id, candidate->source_id))
		return false;
	return !e->bom || e->bom->from == e->from;
}

bool cycle_closes(const struct core *c, const struct incoming *bom)
{
	struct cycle *g = c->cycle;
	size_t depth = 0, goal = node_find(g, bom->sku);

	/* Room for every node once: a node is pushed when first seen. */
	g->stack = arena_array(c->a->arena, g->count + 1, sizeof(*g->stack));
	g->walk++;
	for (size_t k = 0; k < bom->component_count; k++) {
		size_t n = node_find(g, bom->components[k]);

		if (sv_eq(bom->components[k], bom->sku))
			return true;
		if (n != SIZE_MAX && g->nodes[n].seen != g->walk) {
			g->nodes[n].seen = g->walk;
			g->stack[depth++] = n;
		}
	}
	while (depth) {
		size_t at = g->stack[--depth];

		if (at == goal)
			return true;
		for (struct edge *e = g->nodes[at].edges; e; e = e->next) {
			if (!counts(e, bom) || g->nodes[e->to].seen == g->walk)
				continue;
			g->nodes[e->to].seen = g->walk;
			g->stack[depth++] = e->to;
		}
	}
	return false;
}

void cycle_accept(struct core *c, const struct incoming *bom)
{
	const struct entry *e = core_find(c, COLLECTION_BOMS, bom->source_id);

	for (size_t k = 0; k < bom->component_count; k++)
		edge_add(c->cycle, c->a->arena, bom->sku, bom->components[k], e,
			 bom);
}
