/* base/ids, base/text, api/cursor: small texts that stand for something.
 *
 * A text that is taken is written back as itself; one that was altered is not
 * taken for another. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "api/cursor.h"
#include "base/ids.h"
#include "base/text.h"
#include "item/outcome.h"

enum { ARENA = 16 * 1024, SHORT = 64 };

static struct arena arena;

static struct sv with_case(struct sv s, bool upper)
{
	char *p = arena_dup(&arena, s);

	for (size_t i = 0; i < s.n; i++)
		if (upper ? p[i] >= 'a' && p[i] <= 'z'
			  : p[i] >= 'A' && p[i] <= 'Z')
			p[i] = (char)(p[i] ^ 0x20);
	return sv_from(p, s.n);
}

/* Crockford's base32 of 128 bits, from the last character to the first. */
static void ulid_of(struct id id, char out[27])
{
	static const char ALPHABET[] = "0123456789abcdefghjkmnpqrstvwxyz";

	for (int i = 25; i >= 0; i--) {
		unsigned carry = 0;

		out[i] = ALPHABET[id.b[15] & 31];
		for (size_t k = 0; k < sizeof(id.b); k++) {
			unsigned v = carry << 8 | id.b[k];

			id.b[k] = (uint8_t)(v >> 5);
			carry = v & 31;
		}
	}
	out[26] = '\0';
}

static void try_correlation(struct sv text)
{
	char uuid[ID_UUID], ulid[27], hex[ID_HEX];
	struct id id, other;

	if (!id_parse_correlation(text, &id))
		return;
	MUST(text.n == 26 || text.n == 36);
	MUST(id_parse_correlation(with_case(text, true), &other));
	MUST(id_eq(id, other));
	MUST(id_parse_correlation(with_case(text, false), &other));
	MUST(id_eq(id, other));
	id_uuid(id, uuid);
	ulid_of(id, ulid);
	MUST(sv_eq(with_case(text, false), sv_of(text.n == 36 ? uuid : ulid)));
	id_hex(id, hex);
	MUST(id_parse_hex(sv_of(hex), &other) && id_eq(id, other));
}

static void try_id(struct sv text)
{
	struct id id;
	struct buf b;

	if (!outcome_parse_id(text, "sku", &id))
		return;
	buf_init(&b, SHORT);
	outcome_add_id(&b, "sku", id);
	MUST(sv_eq(with_case(text, false), buf_sv(&b)));
	buf_release(&b);
}

static void try_numbers(struct sv text)
{
	uint64_t v = 7, w = 7;
	char again[SHORT];
	bool b;

	if (text_u64(text, 10, 1000, &v)) {
		snprintf(again, sizeof(again), "%llu", (unsigned long long)v);
		MUST(v >= 10 && v <= 1000);
		while (text.n > 1 && text.p[0] == '0')
			text = sv_tail(text, 1);
		MUST(sv_eq(text, sv_of(again)));
	} else {
		MUST(v == 7);
	}
	if (text_bytes(text, &v))
		MUST(text.p[0] >= '0' && text.p[0] <= '9');
	if (text_duration_ms(text, &w))
		MUST(text.p[0] >= '0' && text.p[0] <= '9');
	if (text_bool(text, &b))
		MUST(b == (text.n == 4));
}

static void try_base32(struct sv text)
{
	uint8_t out[SHORT];
	char again[2 * SHORT];
	size_t n = text.n * 5 / 8;

	if (n > sizeof(out) || !text_base32_decode(text, out, n))
		return;
	text_base32_encode(out, n, again);
	MUST(sv_eq(text, sv_of(again)));
}

static struct sv cursor_of(const struct cursor_scope *s, struct sv position)
{
	struct sv text;
	struct buf b;

	buf_init(&b, 1024);
	cursor_add(&b, s, position);
	MUST(buf_ok(&b));
	text = arena_sv(&arena, buf_sv(&b));
	buf_release(&b);
	return text;
}

/* Taken as a position: what is made of it is read back, and only there. */
static void try_position(const struct cursor_scope *s, struct sv position)
{
	struct cursor_scope other = *s;
	struct sv text, got, cut;
	char *altered;

	if (position.n == 0 || position.n > CURSOR_POSITION_MAX)
		return;
	text = cursor_of(s, position);
	MUST(cursor_read(&arena, s, text, &got) && sv_eq(got, position));
	other.partner_id++;
	MUST(!cursor_read(&arena, &other, text, &got));
	other = *s;
	other.filters[1] = SV("ACTIVE");
	MUST(!cursor_read(&arena, &other, text, &got));
	cut = sv_from(text.p, text.n - 1);
	MUST(!cursor_read(&arena, s, cut, &got));
	altered = arena_dup(&arena, text);
	altered[fuzz_hash(position) % text.n] ^= 1;
	MUST(!cursor_read(&arena, s, sv_from(altered, text.n), &got));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct cursor_scope scope = {.listing = "items",
				     .partner_id = 1,
				     .filters = {SV("skus"), SV_NONE}};
	struct sv input = sv_from(data, n), position;

	arena_init(&arena, ARENA);
	try_correlation(input);
	try_id(input);
	try_numbers(input);
	try_base32(input);
	/* Taken as a cursor: if it is one, it is the only text of it. */
	if (cursor_read(&arena, &scope, input, &position))
		MUST(sv_eq(cursor_of(&scope, position), input));
	try_position(&scope, input);
	arena_release(&arena);
	return 0;
}
