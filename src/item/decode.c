/* A body into items. Each is validated while its tape is there, so that one
 * tape serves them all; what is kept of an item points into the body. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "item/decode.h"

#include <inttypes.h>

#include "item/validate.h"
#include "wire/json.h"

enum { ITEMS_FIRST = 64, SCRATCH_BYTES = 64 * 1024 };

/* Never more room than the limit lets in. */
static void grow(struct arena *a, struct decoded *d, size_t *cap, size_t max)
{
	struct incoming *items;

	*cap = *cap ? *cap * 4 : ITEMS_FIRST;
	*cap = *cap > max ? max : *cap;
	items = arena_reserve(a, *cap * sizeof(*items));
	if (d->count)
		memcpy(items, d->items, d->count * sizeof(*items));
	d->items = items;
}

static bool too_many(const struct conf *c, struct fail *f)
{
	return fail_set(f, FAIL_BODY_TOO_LARGE,
			"more than %" PRIu64 " items; that is the limit of a "
			"synchronous batch (bulk_async_threshold)",
			c->bulk_async_threshold);
}

/* An item that is too large is not taken, but it has a name: a full-refresh
 * must not think it absent. Its tape goes when the name is found. */
static void name_oversized(struct arena *a, enum collection col,
			   struct sv bytes, const struct json_limits *limits,
			   struct incoming *in)
{
	struct incoming whole = {.index = in->index};
	struct fail ignored = FAIL_INIT;
	struct json_tape tape;
	struct arena scratch;

	arena_init(&scratch, SCRATCH_BYTES);
	if (json_read(&scratch, bytes, limits, &tape, &ignored)) {
		validate_item(&scratch, col, &tape, &whole);
		in->has_source_id = whole.has_source_id;
		in->source_id = arena_sv(a, whole.source_id);
		in->has_version = whole.has_version;
		in->version = whole.version;
	}
	arena_release(&scratch);
}

bool decode_body(struct arena *a, const struct conf *c, enum collection col,
		 struct sv body, bool ndjson, struct decoded *d_r,
		 struct fail *f)
{
	struct json_limits limits = {.depth_max = (uint32_t)c->json_depth_max,
				     .names_max = (uint32_t)c->json_names_max};
	struct json_items *s =
		json_items_new(a, ndjson ? JSON_LINES : JSON_ENVELOPE, &limits,
			       c->item_max_bytes);
	struct decoded d = {.count = 0};
	struct json_item item;
	enum json_got got;
	size_t cap = 0;

	json_items_feed(s, body, true);
	while ((got = json_items_next(s, &item, f)) == JSON_ITEM) {
		struct incoming *in;

		if (d.count >= c->bulk_async_threshold) {
			d_r->too_many = true;
			return too_many(c, f);
		}
		if (d.count == cap)
			grow(a, &d, &cap, c->bulk_async_threshold);
		in = &d.items[d.count++];
		in->index = item.index;
		in->line = item.line;
		if (!item.oversized) {
			validate_item(a, col, &item.tape, in);
			continue;
		}
		validate_oversized(a, item.bytes_count, c->item_max_bytes, in);
		name_oversized(
			a, col,
			sv_from(body.p + item.at, (size_t)item.bytes_count),
			&limits, in);
	}
	if (got != JSON_END)
		return false;
	*d_r = d;
	return true;
}

/* Where each item stands; those without a line of their own were left out. */
static void place(struct arena *a, const struct conf *c,
		  const struct decode_lines *l, struct decoded *d)
{
	d->count = l->count;
	d->items = arena_array(a, l->count, sizeof(*d->items));
	for (size_t i = 0; i < l->count; i++) {
		struct incoming *in = &d->items[i];

		in->index = l->first_index + i;
		in->line = l->lines ? l->lines[i] : 0;
		if (l->oversized && l->oversized[i])
			validate_oversized(a, l->oversized[i],
					   c->item_max_bytes, in);
	}
}

bool decode_lines(struct arena *a, const struct conf *c, enum collection col,
		  const struct decode_lines *l, struct decoded *d_r,
		  struct fail *f)
{
	struct json_limits limits = {.depth_max = (uint32_t)c->json_depth_max,
				     .names_max = (uint32_t)c->json_names_max};
	struct json_items *s =
		json_items_new(a, JSON_LINES, &limits, c->item_max_bytes);
	struct json_item item;
	enum json_got got;
	size_t found = 0;

	place(a, c, l, d_r);
	for (size_t i = 0; i < l->count; i++)
		found += d_r->items[i].rejected;
	json_items_feed(s, l->text, true);
	while ((got = json_items_next(s, &item, f)) == JSON_ITEM) {
		struct incoming *in;

		if (item.line > l->count)
			return fail_set(f, FAIL_INTERNAL,
					"a chunk has more lines than items");
		in = &d_r->items[item.line - 1];
		if (item.oversized)
			validate_oversized(a, item.bytes_count,
					   c->item_max_bytes, in);
		else
			validate_item(a, col, &item.tape, in);
		found++;
	}
	if (got != JSON_END)
		return false;
	return found == l->count ||
	       fail_set(f, FAIL_INTERNAL, "a chunk has fewer lines than items");
}

size_t decoded_usable(const struct decoded *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->count; i++)
		n += !d->items[i].rejected;
	return n;
}
