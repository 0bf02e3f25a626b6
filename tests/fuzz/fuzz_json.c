/* wire/json: a whole document.
 *
 * The verdict is that of a second reader, written here in the plainest way;
 * the tape is walked and compared with what it must be; white space and
 * escapes make no difference to what is read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "base/buf.h"
#include "base/text.h"
#include "wire/doc.h"
#include "wire/json.h"

enum { ARENA = 64 * 1024, DEPTH = 8, NAMES = 6, TOKENS = 40 };

static struct arena arena;

/* The second reader: recursive descent, no limits but the depth, names twice
 * not looked for. */

struct second {
	const char *p, *end;
	int depth;
	bool too_deep;
};

static void blanks(struct second *s)
{
	while (s->p < s->end && strchr(" \t\n\r", *s->p) && *s->p)
		s->p++;
}

static bool literal(struct second *s, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
		return false;
	s->p += n;
	return true;
}

static bool digits(struct second *s)
{
	const char *from = s->p;

	while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
		s->p++;
	return s->p > from;
}

static bool number(struct second *s)
{
	literal(s, "-");
	if (!literal(s, "0") && !digits(s))
		return false;
	if (literal(s, ".") && !digits(s))
		return false;
	if (literal(s, "e") || literal(s, "E")) {
		if (!literal(s, "+"))
			literal(s, "-");
		return digits(s);
	}
	return true;
}

static bool four_hex(struct second *s, unsigned *v_r)
{
	uint8_t b[2];

	if (s->end - s->p < 4 || !text_hex_decode(sv_from(s->p, 4), b, 2))
		return false;
	*v_r = (unsigned)b[0] << 8 | b[1];
	s->p += 4;
	return true;
}

static bool escape(struct second *s)
{
	unsigned v, low;

	if (s->p == s->end)
		return false;
	if (*s->p != 'u')
		return *s->p && strchr("\"\\/bfnrt", *s->p++);
	s->p++;
	if (!four_hex(s, &v))
		return false;
	if (v < 0xd800 || v > 0xdfff)
		return true;
	return v < 0xdc00 && literal(s, "\\u") && four_hex(s, &low) &&
	       low >= 0xdc00 && low <= 0xdfff;
}

static bool string(struct second *s)
{
	if (!literal(s, "\""))
		return false;
	while (s->p < s->end && *s->p != '"') {
		size_t n =
			text_utf8_len(sv_from(s->p, (size_t)(s->end - s->p)));

		if (!n || (unsigned char)*s->p < 0x20)
			return false;
		if (*s->p == '\\') {
			s->p++;
			if (!escape(s))
				return false;
			continue;
		}
		s->p += n;
	}
	return literal(s, "\"");
}

static bool value(struct second *s);

static bool member(struct second *s, bool named)
{
	blanks(s);
	if (named) {
		if (!string(s))
			return false;
		blanks(s);
		if (!literal(s, ":"))
			return false;
		blanks(s);
	}
	if (!value(s))
		return false;
	blanks(s);
	return true;
}

static bool container(struct second *s, bool named, const char *close)
{
	if (++s->depth > DEPTH) {
		s->too_deep = true;
		return false;
	}
	blanks(s);
	if (!literal(s, close)) {
		do
			if (!member(s, named))
				return false;
		while (literal(s, ","));
		if (!literal(s, close))
			return false;
	}
	s->depth--;
	return true;
}

static bool value(struct second *s)
{
	if (literal(s, "{"))
		return container(s, true, "}");
	if (literal(s, "["))
		return container(s, false, "]");
	if (s->p < s->end && *s->p == '"')
		return string(s);
	return literal(s, "null") || literal(s, "true") ||
	       literal(s, "false") || number(s);
}

static bool second_reads(struct sv input, bool *too_deep_r)
{
	struct second s = {.p = input.p, .end = input.p + input.n};
	bool ok;

	blanks(&s);
	ok = value(&s);
	blanks(&s);
	*too_deep_r = s.too_deep;
	return ok && s.p == s.end;
}

/* The tape. */

static bool begins_so(enum json_kind kind, char c)
{
	switch (kind) {
	case JSON_NULL:
		return c == 'n';
	case JSON_FALSE:
		return c == 'f';
	case JSON_TRUE:
		return c == 't';
	case JSON_NUMBER:
		return c == '-' || (c >= '0' && c <= '9');
	case JSON_STRING:
	case JSON_NAME:
		return c == '"';
	case JSON_ARRAY:
		return c == '[';
	case JSON_OBJECT:
		return c == '{';
	}
	return false;
}

static void check_token(const struct json_tape *t, uint32_t i)
{
	const struct json_token *k = &t->tokens[i];
	struct sv raw = json_raw(t, i), text;
	struct json_tape again;
	struct fail f = FAIL_INIT;
	struct buf b;

	MUST(k->start < k->end && k->end <= t->bytes.n);
	MUST(k->next > i && k->next <= t->count);
	MUST(begins_so(json_kind(t, i), raw.p[0]));
	if (k->kind != JSON_STRING && k->kind != JSON_NAME)
		return;
	/* Written anew it is read as the same text. */
	text = json_text(&arena, t, i);
	MUST(text.n <= raw.n - 2 && text_is_utf8(text));
	MUST(!(k->flags & JSON_ESCAPED) == !sv_has(raw, '\\'));
	MUST(json_text_is(t, i, text));
	buf_init(&b, 8 * text.n + 2);
	buf_add_json(&b, text);
	MUST(buf_ok(&b));
	MUST(json_read(&arena, buf_sv(&b),
		       &(struct json_limits){.depth_max = 1}, &again, &f));
	MUST(sv_eq(json_text(&arena, &again, 0), text));
	buf_release(&b);
}

static void check_children(const struct json_tape *t, uint32_t parent)
{
	bool object = json_kind(t, parent) == JSON_OBJECT;
	uint32_t n = 0, at = t->tokens[parent].start;

	for (uint32_t i = json_first(t, parent); i;
	     i = json_after(t, parent, i), n++) {
		MUST(i > parent && i < t->tokens[parent].next);
		MUST(t->tokens[i].start > at);
		MUST(t->tokens[i].end < t->tokens[parent].end);
		at = t->tokens[i].end - 1;
		if (!object)
			continue;
		MUST(json_kind(t, i) == JSON_NAME);
		/* No name twice: the first one of that name is this one. */
		MUST(json_find(t, parent, json_text(&arena, t, i)) == i + 1);
	}
	MUST(n == json_count(t, parent));
}

static void check_tape(const struct json_tape *t, struct sv input)
{
	struct sv packed = json_compact(&arena, t, 0);
	struct json_limits limits = {.depth_max = DEPTH, .names_max = NAMES};
	struct json_tape again;
	struct fail f = FAIL_INIT;

	MUST(t->count > 0 && t->tokens[0].next == t->count);
	MUST(t->bytes.p >= input.p);
	MUST(t->bytes.n <= input.n - (size_t)(t->bytes.p - input.p));
	for (uint32_t i = 0; i < t->count; i++) {
		check_token(t, i);
		check_children(t, i);
	}
	MUST(packed.n <= input.n);
	MUST(json_read(&arena, packed, &limits, &again, &f));
	MUST(!again.spaced && again.count == t->count);
	for (uint32_t i = 0; i < t->count; i++)
		MUST(again.tokens[i].kind == t->tokens[i].kind &&
		     again.tokens[i].next == t->tokens[i].next);
	MUST(sv_eq(json_compact(&arena, &again, 0), packed));
}

/* parson sees only what was let through, and takes it. */
static void check_doc(struct sv input, const struct json_limits *limits,
		      bool reads, const struct fail *why)
{
	struct fail f = FAIL_INIT;
	struct doc *d;

	if (doc_parse(input, limits, &d, &f)) {
		MUST(reads);
		MUST(doc_root(d));
		doc_free(d);
		return;
	}
	if (!reads)
		MUST(f.code == why->code && !strcmp(f.detail, why->detail));
	else
		MUST(f.code == FAIL_JSON_SYNTAX);
}

static bool is_limit(enum fail_code code)
{
	return code == FAIL_JSON_DUPLICATE || code == FAIL_JSON_NAMES ||
	       code == FAIL_BODY_TOO_LARGE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct json_limits limits = {.depth_max = DEPTH, .names_max = NAMES};
	struct json_limits few = {
		.depth_max = DEPTH, .names_max = NAMES, .tokens_max = TOKENS};
	struct sv input = sv_from(data, n);
	struct fail f = FAIL_INIT, ignored = FAIL_INIT;
	struct json_tape t, t2;
	bool too_deep, second, reads;

	arena_init(&arena, ARENA);
	second = second_reads(input, &too_deep);
	reads = json_read(&arena, input, &limits, &t, &f);
	if (reads) {
		MUST(second);
		check_tape(&t, input);
		MUST(json_read(&arena, input, &few, &t2, &ignored) ==
		     (t.count <= TOKENS));
	} else {
		MUST(f.has_pointer && text_is_utf8(sv_of(f.pointer)));
		MUST(f.detail[0] && f.line == 0);
		/* The first fault counts: a limit may hide a later one. */
		MUST(!second || is_limit(f.code));
		MUST(!too_deep || f.code == FAIL_JSON_DEPTH ||
		     is_limit(f.code));
	}
	check_doc(input, &limits, reads, &f);
	arena_release(&arena);
	return 0;
}
