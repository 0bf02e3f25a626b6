/* api/cursor: what a cursor carries, and what it refuses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "api/cursor.h"
#include "base/text.h"

static const struct cursor_scope SCOPE = {
	"items", 7, {{"master", 6}, {"skus", 4}, {NULL, 0}, {NULL, 0}}, {1}};

static struct arena arena;

static struct sv cursor(const struct cursor_scope *s, struct sv position)
{
	struct sv text;
	struct buf b;

	buf_init(&b, 1024);
	cursor_add(&b, s, position);
	text = arena_sv(&arena, buf_sv(&b));
	buf_release(&b);
	return text;
}

static bool reads(const struct cursor_scope *s, struct sv text)
{
	struct sv position;

	return cursor_read(&arena, s, text, &position);
}

static void a_cursor_gives_its_position_back(void)
{
	char bytes[CURSOR_POSITION_MAX];
	struct sv got;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 37);
	arena_init(&arena, 4096);
	for (size_t n = 1; n <= sizeof(bytes); n++) {
		struct sv position = sv_from(bytes, n);

		got = SV_NONE;
		WANT(cursor_read(&arena, &SCOPE, cursor(&SCOPE, position),
				 &got));
		WANT_SV(got, position);
	}
	arena_release(&arena);
}

static void a_cursor_is_letters_and_digits(void)
{
	struct sv text;

	arena_init(&arena, 4096);
	text = cursor(&SCOPE, SV("\xff\x00\"/ "));
	for (size_t i = 0; i < text.n; i++)
		WANT((text.p[i] >= 'a' && text.p[i] <= 'z') ||
		     (text.p[i] >= '2' && text.p[i] <= '7'));
	arena_release(&arena);
}

static void a_cursor_with_any_byte_altered_is_refused(void)
{
	struct sv text;
	char *copy;

	arena_init(&arena, 4096);
	text = cursor(&SCOPE, SV("SKU-00017"));
	copy = arena_dup(&arena, text);
	for (size_t i = 0; i < text.n; i++) {
		for (int c = 1; c < 256; c++) {
			copy[i] = (char)c;
			WANT(reads(&SCOPE, sv_from(copy, text.n)) ==
			     (copy[i] == text.p[i]));
		}
		copy[i] = text.p[i];
	}
	arena_release(&arena);
}

static void a_cursor_of_another_length_is_refused(void)
{
	char longer[300];
	struct sv text;

	arena_init(&arena, 4096);
	text = cursor(&SCOPE, SV("SKU-00017"));
	memset(longer, 'a', sizeof(longer));
	memcpy(longer, text.p, text.n);
	for (size_t n = 0; n <= sizeof(longer); n++)
		WANT(reads(&SCOPE, sv_from(longer, n)) == (n == text.n));
	arena_release(&arena);
}

static void a_cursor_belongs_to_its_listing_partner_and_filters(void)
{
	struct cursor_scope other[8];
	struct sv text;

	for (size_t i = 0; i < ARRAY_LEN(other); i++)
		other[i] = SCOPE;
	other[0].listing = "history";
	other[1].partner_id = 8;
	other[2].filters[1] = SV("uoms");
	other[3].filters[2] = SV("ACTIVE");
	other[4].filters[2] = SV(""); /* sent, but empty */
	other[5].filters[1] = SV_NONE;
	/* The same bytes, cut elsewhere. */
	other[6].filters[0] = SV("masters");
	other[6].filters[1] = SV("kus");
	other[7].key[31] = 1;
	arena_init(&arena, 4096);
	text = cursor(&SCOPE, SV("A"));
	WANT(reads(&SCOPE, text));
	for (size_t i = 0; i < ARRAY_LEN(other); i++)
		WANT(!reads(&other[i], text));
	arena_release(&arena);
}

static void a_cursor_does_not_tell_its_position(void)
{
	uint8_t raw[8 + 40];
	char position[40];
	struct sv text;

	memset(position, 'M', sizeof(position));
	arena_init(&arena, 4096);
	text = cursor(&SCOPE, sv_from(position, sizeof(position)));
	WANT(text_base32_decode(sv_tail(text, 1), raw, sizeof(raw)));
	WANT(!memmem(raw, sizeof(raw), "MMM", 3));
	/* Nor that two of its blocks are the same. */
	WANT(memcmp(raw + 8, raw + 8 + 32, 8) != 0);
	arena_release(&arena);
}

void suite_cursor(void)
{
	ADD(a_cursor_gives_its_position_back);
	ADD(a_cursor_is_letters_and_digits);
	ADD(a_cursor_with_any_byte_altered_is_refused);
	ADD(a_cursor_of_another_length_is_refused);
	ADD(a_cursor_belongs_to_its_listing_partner_and_filters);
	ADD(a_cursor_does_not_tell_its_position);
}
