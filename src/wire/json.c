/* Reading tapes, and whole documents. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "json_internal.h"

#include "base/text.h"

static const struct json_token *token(const struct json_tape *t, uint32_t i)
{
	if (i >= t->count)
		bug("token %u of a tape of %u", i, t->count);
	return &t->tokens[i];
}

enum json_kind json_kind(const struct json_tape *t, uint32_t i)
{
	return (enum json_kind)token(t, i)->kind;
}

uint32_t json_first(const struct json_tape *t, uint32_t parent)
{
	return token(t, parent)->next > parent + 1 ? parent + 1 : 0;
}

uint32_t json_after(const struct json_tape *t, uint32_t parent, uint32_t i)
{
	uint32_t next = token(t, i)->next;

	if (json_kind(t, i) == JSON_NAME)
		next = token(t, next)->next;
	return next < token(t, parent)->next ? next : 0;
}

uint32_t json_count(const struct json_tape *t, uint32_t parent)
{
	uint32_t n = 0;

	for (uint32_t i = json_first(t, parent); i;
	     i = json_after(t, parent, i))
		n++;
	return n;
}

struct sv json_raw(const struct json_tape *t, uint32_t i)
{
	const struct json_token *k = token(t, i);

	return sv_from(t->bytes.p + k->start, k->end - k->start);
}

static bool is_text(const struct json_tape *t, uint32_t i)
{
	return json_kind(t, i) == JSON_STRING || json_kind(t, i) == JSON_NAME;
}

/* Between the quotes, still escaped. */
static struct sv inner(const struct json_tape *t, uint32_t i)
{
	struct sv raw = json_raw(t, i);

	if (!is_text(t, i))
		bug("token %u is no string", i);
	return sv_from(raw.p + 1, raw.n - 2);
}

static bool unescapes_to(struct sv raw, struct sv text)
{
	while (raw.n) {
		char out[4];
		size_t n, used = json_unit_decode(raw.p, out, &n);

		if (!sv_starts(text, sv_from(out, n)))
			return false;
		text = sv_tail(text, n);
		raw = sv_tail(raw, used);
	}
	return text.n == 0;
}

bool json_text_is(const struct json_tape *t, uint32_t i, struct sv text)
{
	if (token(t, i)->flags & JSON_ESCAPED)
		return unescapes_to(inner(t, i), text);
	return is_text(t, i) && sv_eq(inner(t, i), text);
}

uint32_t json_find(const struct json_tape *t, uint32_t object, struct sv name)
{
	if (json_kind(t, object) != JSON_OBJECT)
		return 0;
	for (uint32_t i = json_first(t, object); i;
	     i = json_after(t, object, i))
		if (json_text_is(t, i, name))
			return i + 1;
	return 0;
}

struct sv json_text(struct arena *a, const struct json_tape *t, uint32_t i)
{
	struct sv raw = inner(t, i);
	char *out;
	size_t n = 0;

	if (!(token(t, i)->flags & JSON_ESCAPED))
		return raw;
	/* No escape is shorter than the character it stands for; four bytes
	 * more, since a character is written with room for the longest. */
	out = arena_reserve(a, raw.n + 4);
	while (raw.n) {
		size_t put_n, used = json_unit_decode(raw.p, out + n, &put_n);

		n += put_n;
		raw = sv_tail(raw, used);
	}
	return sv_from(out, n);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* What stands between tokens: brackets, commas, colons and white space. */
static char *put_between(char *out, const char *p, const char *end)
{
	for (; p < end; p++)
		if (!is_space(*p))
			*out++ = *p;
	return out;
}

struct sv json_compact(struct arena *a, const struct json_tape *t, uint32_t i)
{
	struct sv raw = json_raw(t, i);
	const char *p = raw.p;
	uint32_t end = token(t, i)->next;
	char *out, *to;

	if (!t->spaced)
		return raw;
	to = out = arena_reserve(a, raw.n);
	for (; i < end; i++) {
		struct sv leaf = json_raw(t, i);

		if (json_kind(t, i) >= JSON_ARRAY)
			continue;
		to = put_between(to, p, leaf.p);
		memcpy(to, leaf.p, leaf.n);
		to += leaf.n;
		p = leaf.p + leaf.n;
	}
	to = put_between(to, p, raw.p + raw.n);
	return sv_from(out, (size_t)(to - out));
}

bool json_u64(const struct json_tape *t, uint32_t i, uint64_t min, uint64_t max,
	      uint64_t *v_r)
{
	return token(t, i)->flags & JSON_INTEGER &&
	       text_u64(json_raw(t, i), min, max, v_r);
}

struct json_tape json_keep(struct arena *a, const struct json_tape *t,
			   bool copy_bytes)
{
	struct json_tape kept = *t;
	size_t n = t->count * sizeof(*t->tokens);

	if (n)
		kept.tokens = memcpy(arena_reserve(a, n), t->tokens, n);
	if (copy_bytes)
		kept.bytes = arena_sv(a, t->bytes);
	return kept;
}

bool json_read(struct arena *a, struct sv bytes,
	       const struct json_limits *limits, struct json_tape *tape_r,
	       struct fail *f)
{
	struct json_items *s;
	struct json_item item;
	enum json_got got;

	if (bytes.n > (size_t)1 << 30)
		return fail_set(f, FAIL_BODY_TOO_LARGE,
				"%zu bytes; a document may have 1 GiB",
				bytes.n);
	s = json_items_new(a, JSON_ONE, limits, bytes.n);
	json_items_feed(s, bytes, true);
	while ((got = json_items_next(s, &item, f)) == JSON_ITEM)
		*tape_r = item.tape;
	return got == JSON_END;
}
