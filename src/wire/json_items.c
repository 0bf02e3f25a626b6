/* Items out of pieces: what is fed, carried over and handed out. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "json_internal.h"

#define ITEM_MAX ((size_t)1 << 30)

/* An item that turns out too large loses its bytes and tape, no more. */
static void skip_item(struct json_items *s)
{
	s->skip = true;
	s->tokens_n = s->tokens_room = 0;
	s->carry_n = 0;
}

/* The most tokens the tape may have: an item of item_max bytes has no more. */
static size_t tokens_most(const struct json_items *s)
{
	size_t most = s->item_max / 2 + 8;

	if (s->format == JSON_ONE && s->limits.tokens_max < most)
		return s->limits.tokens_max;
	return most;
}

/* Too many tokens are a fault of a document only, and only if the item is not
 * oversized already: in pieces it is skipped by then (J6). */
static bool tape_full(struct json_items *s)
{
	s->crowded = s->format == JSON_ONE &&
		     s->tokens_n >= s->limits.tokens_max &&
		     json_here(s) - s->item_at <= s->item_max;
	skip_item(s);
	return false;
}

bool json_tape_grow(struct json_items *s)
{
	size_t most = tokens_most(s), cap = (size_t)s->tokens_cap * 2;
	struct json_token *grown;

	if (s->skip || !s->in_item)
		return false;
	if (s->tokens_n >= most)
		return tape_full(s);
	cap = cap < 64 ? 64 : cap;
	cap = cap > most ? most : cap;
	grown = arena_reserve(s->arena, cap * sizeof(*grown));
	if (s->tokens_n)
		memcpy(grown, s->tokens, s->tokens_n * sizeof(*grown));
	s->tokens = grown;
	s->tokens_cap = s->tokens_room = (uint32_t)cap;
	return true;
}

void json_item_begin(struct json_items *s)
{
	s->item_at = json_here(s);
	s->in_item = true;
	s->skip = s->spaced = false;
	s->tokens_n = 0;
	s->tokens_room = s->tokens_cap;
	s->carry_n = 0;
}

static void carry_add(struct json_items *s, const char *p, size_t n)
{
	if (n > s->carry_cap - s->carry_n) {
		size_t cap = s->carry_cap ? s->carry_cap : 4096;
		char *grown;

		while (cap - s->carry_n < n)
			cap *= 2;
		grown = arena_reserve(s->arena, cap);
		if (s->carry_n)
			memcpy(grown, s->carry, s->carry_n);
		s->carry = grown;
		s->carry_cap = cap;
	}
	memcpy(s->carry + s->carry_n, p, n);
	s->carry_n += n;
}

/* The part of the item that is in this piece, up to s->p. */
static struct sv item_part(const struct json_items *s)
{
	uint64_t from = s->item_at > s->piece_at ? s->item_at - s->piece_at : 0;

	return sv_from(s->base + from, (size_t)(s->p - s->base) - from);
}

/* Save what the piece holds and is needed after it. */
static void leave_piece(struct json_items *s)
{
	if (s->state == IN_NAME) {
		if (!s->streaming) {
			json_place_begin(s);
			json_hash_init(&s->hash);
			s->streaming = true;
		}
		json_name_add(s, s->run, s->run_end);
	} else if (s->depth) {
		const struct json_level *l = &s->levels[s->depth - 1];
		bool step = !l->object || l->named;

		json_place_save(s, s->depth - !step);
	}
	if (s->in_item && !s->skip) {
		if (json_here(s) - s->item_at > s->item_max)
			skip_item(s);
		else
			carry_add(s, item_part(s).p, item_part(s).n);
	}
	s->piece_at += (uint64_t)(s->end - s->base);
	s->p = s->base = s->end = "";
}

static void give_item(struct json_items *s, struct json_item *item)
{
	*item = (struct json_item){.index = s->index++,
				   .at = s->item_at,
				   .bytes_count = json_here(s) - s->item_at};
	if (s->format == JSON_LINES)
		item->line = s->line;
	item->oversized = s->skip || item->bytes_count > s->item_max;
	if (item->oversized)
		return;
	if (s->carry_n) {
		carry_add(s, item_part(s).p, item_part(s).n);
		item->bytes = sv_from(s->carry, s->carry_n);
	} else {
		item->bytes = item_part(s);
	}
	item->tape = (struct json_tape){.bytes = item->bytes,
					.tokens = s->tokens,
					.count = s->tokens_n,
					.spaced = s->spaced};
}

struct json_items *json_items_new(struct arena *a, enum json_format format,
				  const struct json_limits *limits,
				  size_t item_max)
{
	struct json_items *s = arena_alloc(a, sizeof(*s));

	if (item_max > ITEM_MAX)
		bug("item_max of %zu bytes", item_max);
	s->p = s->end = s->base = "";
	s->format = format;
	s->item_depth = format == JSON_ENVELOPE ? 2 : 0;
	s->limits = *limits;
	if (!s->limits.tokens_max)
		s->limits.tokens_max = JSON_TOKENS_MAX;
	s->item_max = item_max;
	s->arena = a;
	s->line = 1;
	s->levels = arena_array(a, limits->depth_max, sizeof(*s->levels));
	return s;
}

void json_items_feed(struct json_items *s, struct sv piece, bool last)
{
	if (s->p != s->end || s->last)
		bug("fed before the last piece was used up");
	s->p = s->base = s->run = piece.n ? piece.p : "";
	s->end = s->base + piece.n;
	s->last = last;
}

enum json_got json_items_next(struct json_items *s, struct json_item *item_r,
			      struct fail *f)
{
	enum json_step step = STEP_ON;

	if (s->failure.code)
		step = STEP_FAIL;
	while (step == STEP_ON)
		step = json_step_once(s);
	switch (step) {
	case STEP_ON:
	case STEP_MORE:
		leave_piece(s);
		return JSON_MORE;
	case STEP_ITEM:
		give_item(s, item_r);
		s->in_item = false;
		s->tokens_n = s->tokens_room = 0;
		return JSON_ITEM;
	case STEP_END:
		return JSON_END;
	case STEP_FAIL:
		*f = s->failure;
		return JSON_FAIL;
	}
	bug("step %d", (int)step);
}
