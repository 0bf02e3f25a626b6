/* inflate: gzip, bounded. Numbers are the guarantees of wire/inflate.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "wire/inflate.h"

enum { MOST = 64 << 20 };

static const struct inflate_limits LIMITS = {
	.unpacked_max = MOST, .ratio_max = 100, .ratio_floor = 4 << 20};

/* Unpack in pieces of `step` bytes, into `room` at a time. */
static enum inflate_got unpack(struct buf *out, struct sv packed, size_t step,
			       size_t room, const struct inflate_limits *limits,
			       struct fail *f)
{
	struct inflate *z = inflate_new(limits);
	enum inflate_got got = INFLATE_MORE;
	char *part = malloc(room);
	size_t n;

	buf_reset(out);
	while (got == INFLATE_MORE) {
		n = step < packed.n ? step : packed.n;
		inflate_feed(z, sv_from(packed.p, n), n == packed.n);
		packed = sv_tail(packed, n);
		while ((got = inflate_next(z, part, room, &n, f)) ==
		       INFLATE_SOME)
			buf_add(out, sv_from(part, n));
	}
	free(part);
	inflate_free(z);
	return got;
}

static void add_lines(struct buf *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_addf(b, "{\"source_id\":\"S-%zu\",\"n\":%zu}\n", i, i * i);
}

/* Each way of cutting must give the same. */
static void want_unpacked(struct sv packed, struct sv want)
{
	static const size_t STEPS[] = {1, 7, 4096, SIZE_MAX};
	static const size_t ROOMS[] = {1, 100, 65536};
	struct buf out;

	buf_init(&out, MOST);
	for (size_t i = 0; i < ARRAY_LEN(STEPS); i++)
		for (size_t j = 0; j < ARRAY_LEN(ROOMS); j++) {
			struct fail f = FAIL_INIT;

			WANT(unpack(&out, packed, STEPS[i], ROOMS[j], &LIMITS,
				    &f) == INFLATE_END);
			WANT_FAIL(&f, FAIL_NONE);
			WANT(sv_eq(buf_sv(&out), want));
		}
	buf_release(&out);
}

static void want_refused(struct sv packed, const struct inflate_limits *limits,
			 enum fail_code code)
{
	static const size_t STEPS[] = {1, 4096, SIZE_MAX};
	struct buf out;

	buf_init(&out, MOST);
	for (size_t i = 0; i < ARRAY_LEN(STEPS); i++) {
		struct fail f = FAIL_INIT;

		WANT(unpack(&out, packed, STEPS[i], 65536, limits, &f) ==
		     INFLATE_FAIL);
		WANT_FAIL(&f, code);
		WANT(out.n <= limits->unpacked_max); /* Z1 */
	}
	buf_release(&out);
}

static void what_was_packed_comes_back_in_any_pieces(void)
{
	struct buf plain, packed;

	buf_init(&plain, MOST);
	buf_init(&packed, MOST);
	inflate_pack(&packed, SV(""));
	want_unpacked(buf_sv(&packed), SV(""));
	add_lines(&plain, 5000);
	buf_reset(&packed);
	inflate_pack(&packed, buf_sv(&plain));
	WANT(packed.n < plain.n / 3);
	want_unpacked(buf_sv(&packed), buf_sv(&plain));
	buf_release(&plain);
	buf_release(&packed);
}

/* Z3 */
static void several_members_are_one_body(void)
{
	struct buf packed;

	buf_init(&packed, MOST);
	inflate_pack(&packed, SV("one "));
	inflate_pack(&packed, SV(""));
	inflate_pack(&packed, SV("two"));
	want_unpacked(buf_sv(&packed), SV("one two"));
	buf_release(&packed);
}

/* Z3 */
static void what_is_not_whole_gzip_is_refused(void)
{
	struct buf packed;
	struct sv all;

	buf_init(&packed, MOST);
	inflate_pack(&packed, SV("hello hello hello hello"));
	all = buf_sv(&packed);
	for (size_t n = 0; n < all.n; n++)
		want_refused(sv_from(all.p, n), &LIMITS, FAIL_GZIP);
	want_refused(SV("{\"items\":[]}"), &LIMITS, FAIL_GZIP);
	want_refused(SV("\x78\x9c\x03\x00\x00\x00\x00\x01"), &LIMITS,
		     FAIL_GZIP);
	packed.p[all.n - 6] ^= 1; /* the checksum */
	want_refused(all, &LIMITS, FAIL_GZIP);
	packed.p[all.n - 6] ^= 1;
	buf_add_text(&packed, "garbage");
	want_refused(buf_sv(&packed), &LIMITS, FAIL_GZIP);
	packed.n = all.n;
	buf_add_byte(&packed, '\0');
	want_refused(buf_sv(&packed), &LIMITS, FAIL_GZIP);
	buf_release(&packed);
}

/* Z1 */
static void more_than_the_limit_is_too_large(void)
{
	struct inflate_limits limits = LIMITS;
	struct fail f = FAIL_INIT;
	struct buf plain, packed, out;

	buf_init(&plain, MOST);
	buf_init(&packed, MOST);
	buf_init(&out, MOST);
	add_lines(&plain, 10000);
	inflate_pack(&packed, buf_sv(&plain));
	limits.unpacked_max = plain.n;
	WANT(unpack(&out, buf_sv(&packed), SIZE_MAX, 1000, &limits, &f) ==
	     INFLATE_END);
	limits.unpacked_max = plain.n - 1;
	want_refused(buf_sv(&packed), &limits, FAIL_BODY_TOO_LARGE);
	limits.unpacked_max = 0;
	want_refused(buf_sv(&packed), &limits, FAIL_BODY_TOO_LARGE);
	buf_release(&plain);
	buf_release(&packed);
	buf_release(&out);
}

static void add_zeros(struct buf *b, size_t n)
{
	char *zeros = calloc(1, n);

	buf_add(b, sv_from(zeros, n));
	free(zeros);
}

/* Z2 */
static void a_bomb_is_refused_past_the_floor(void)
{
	struct inflate_limits limits = LIMITS;
	struct fail f = FAIL_INIT;
	struct buf plain, packed, out;

	buf_init(&plain, MOST);
	buf_init(&packed, MOST);
	buf_init(&out, MOST);
	add_zeros(&plain, 4 << 20);
	inflate_pack(&packed, buf_sv(&plain));
	WANT(packed.n < plain.n / 150);
	WANT(unpack(&out, buf_sv(&packed), 100, 65536, &LIMITS, &f) ==
	     INFLATE_END);
	buf_reset(&packed);
	add_zeros(&plain, 1);
	inflate_pack(&packed, buf_sv(&plain));
	want_refused(buf_sv(&packed), &LIMITS, FAIL_GZIP_BOMB);
	limits.packed_bytes = plain.n / 100 + 1;
	WANT(unpack(&out, buf_sv(&packed), 100, 65536, &limits, &f) ==
	     INFLATE_END);
	buf_release(&plain);
	buf_release(&packed);
	buf_release(&out);
}

/* Z2: what is wrong first is told, however much comes out at once. */
static void a_bomb_is_one_whatever_comes_after_it(void)
{
	struct inflate_limits limits = {
		.unpacked_max = 50000, .ratio_max = 10, .ratio_floor = 1000};
	struct buf plain, packed;

	buf_init(&plain, MOST);
	buf_init(&packed, MOST);
	add_zeros(&plain, 40000);
	inflate_pack(&packed, buf_sv(&plain));
	/* Its sum is wrong. */
	memset(packed.p + packed.n - 8, 0xff, 8);
	limits.packed_bytes = packed.n;
	want_refused(buf_sv(&packed), &limits, FAIL_GZIP_BOMB);
	/* It passes both limits. */
	buf_reset(&packed);
	add_zeros(&plain, 40000);
	inflate_pack(&packed, buf_sv(&plain));
	limits.packed_bytes = packed.n;
	want_refused(buf_sv(&packed), &limits, FAIL_GZIP_BOMB);
	buf_release(&plain);
	buf_release(&packed);
}

void suite_inflate(void)
{
	ADD(what_was_packed_comes_back_in_any_pieces);
	ADD(several_members_are_one_body);
	ADD(what_is_not_whole_gzip_is_refused);
	ADD(more_than_the_limit_is_too_large);
	ADD(a_bomb_is_refused_past_the_floor);
	ADD(a_bomb_is_one_whatever_comes_after_it);
}
