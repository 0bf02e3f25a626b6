/* wire/inflate: bodies that say they are gzip.
 *
 * The verdict and what came out do not depend on how the body was cut nor on
 * the room for the output; what comes out is what zlib itself makes of it; the
 * limits hold. And what we pack is unpacked as it was. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <zlib.h>

#include "wire/inflate.h"

enum { UNPACKED_MAX = 64 * 1024, RATIO = 20, FLOOR = 4096, GZIP = 15 + 16 };

struct unpacked {
	enum inflate_got got;
	struct fail f;
	struct buf out;
};

static void unpack(struct sv packed, uint64_t told, enum fuzz_cut how,
		   size_t room, struct unpacked *u)
{
	struct inflate *z = inflate_new(
		&(struct inflate_limits){.unpacked_max = UNPACKED_MAX,
					 .ratio_max = RATIO,
					 .ratio_floor = FLOOR,
					 .packed_bytes = told});
	struct fuzz_cutter c = fuzz_cutter(packed, how);
	char *out = malloc(room);
	size_t n;

	MUST(out);
	u->f = FAIL_INIT;
	buf_init(&u->out, UNPACKED_MAX);
	do {
		bool last;
		struct sv piece = fuzz_next(&c, &last);

		inflate_feed(z, piece, last);
		while ((u->got = inflate_next(z, out, room, &n, &u->f)) ==
		       INFLATE_SOME) {
			MUST(n > 0 && n <= room);
			buf_add(&u->out, sv_from(out, n));
		}
		MUST(!last || u->got != INFLATE_MORE);
	} while (u->got == INFLATE_MORE);
	MUST(buf_ok(&u->out)); /* Z1 */
	fuzz_cutter_end(&c);
	free(out);
	inflate_free(z);
}

static void check_verdict(const struct unpacked *u, struct sv packed)
{
	uint64_t n = u->out.n;

	if (u->got == INFLATE_END) {
		MUST(n <= FLOOR || n <= packed.n * RATIO); /* Z2 */
		return;
	}
	MUST(u->f.code == FAIL_GZIP || u->f.code == FAIL_GZIP_BOMB ||
	     u->f.code == FAIL_BODY_TOO_LARGE);
}

/* zlib alone, member by member. false: it does not take it all. */
static bool plain_zlib(struct sv packed, struct buf *out)
{
	z_stream zs = {.next_in = (z_const Bytef *)(uintptr_t)packed.p,
		       .avail_in = (uInt)packed.n};
	char part[4096];
	int rc = Z_DATA_ERROR;

	MUST(inflateInit2(&zs, GZIP) == Z_OK);
	while (zs.avail_in) {
		do {
			zs.next_out = (Bytef *)part;
			zs.avail_out = sizeof(part);
			rc = inflate(&zs, Z_NO_FLUSH);
			buf_add(out,
				sv_from(part, sizeof(part) - zs.avail_out));
		} while (rc == Z_OK && buf_ok(out));
		if (rc != Z_STREAM_END || !buf_ok(out))
			break;
		inflateReset(&zs);
	}
	inflateEnd(&zs);
	return rc == Z_STREAM_END && buf_ok(out);
}

static void compare_with_zlib(const struct unpacked *u, struct sv packed)
{
	struct buf out;
	bool ok;

	buf_init(&out, UNPACKED_MAX);
	ok = plain_zlib(packed, &out);
	if (u->got == INFLATE_END)
		MUST(ok && sv_eq(buf_sv(&u->out), buf_sv(&out)));
	else
		MUST(!ok || u->f.code == FAIL_GZIP_BOMB);
	buf_release(&out);
}

static bool is_start(struct sv a, struct sv b)
{
	return a.n <= b.n && (!a.n || memcmp(a.p, b.p, a.n) == 0);
}

static void compare(const struct unpacked *a, const struct unpacked *b)
{
	struct sv x = buf_sv(&a->out), y = buf_sv(&b->out);

	MUST(a->got == b->got && a->f.code == b->f.code);
	MUST(a->got == INFLATE_END ? sv_eq(x, y)
				   : is_start(x, y) || is_start(y, x));
}

/* Without a Content-Length a bomb is told from the bytes so far: that may
 * differ with the pieces, all else may not. */
static void try_untold(struct sv packed, const struct unpacked *told)
{
	struct unpacked u;

	for (int how = FUZZ_WHOLE; how < FUZZ_CUTS; how++) {
		unpack(packed, 0, (enum fuzz_cut)how, 1000, &u);
		check_verdict(&u, packed);
		MUST(u.f.code == FAIL_GZIP_BOMB ||
		     (u.got == told->got && u.f.code == told->f.code));
		buf_release(&u.out);
	}
}

static void try_packed(struct sv packed)
{
	static const size_t ROOM[] = {1, 100, 64 * 1024};
	struct unpacked whole, u;

	unpack(packed, packed.n, FUZZ_WHOLE, 4096, &whole);
	check_verdict(&whole, packed);
	compare_with_zlib(&whole, packed);
	for (int how = FUZZ_WHOLE; how < FUZZ_CUTS; how++) {
		unpack(packed, packed.n, (enum fuzz_cut)how, ROOM[how], &u);
		check_verdict(&u, packed);
		compare(&whole, &u);
		buf_release(&u.out);
	}
	try_untold(packed, &whole);
	buf_release(&whole.out);
}

static void try_round(struct sv bytes)
{
	struct unpacked u;
	struct buf packed;

	buf_init(&packed, 4 * bytes.n + 1024);
	inflate_pack(&packed, bytes);
	MUST(buf_ok(&packed));
	unpack(buf_sv(&packed), 0, FUZZ_WHOLE, 1000, &u);
	if (bytes.n <= FLOOR)
		MUST(u.got == INFLATE_END && sv_eq(buf_sv(&u.out), bytes));
	buf_release(&u.out);
	buf_release(&packed);
}

static void add_u32(struct buf *b, uLong v)
{
	for (int i = 0; i < 4; i++)
		buf_add_byte(b, (char)(v >> 8 * i));
}

/* Taken as bare deflate: with head and sum around it, so that more than a few
 * of the inputs get past the checksum. */
static void try_wrapped(struct sv bare)
{
	z_stream zs = {.next_in = (z_const Bytef *)(uintptr_t)bare.p,
		       .avail_in = (uInt)bare.n};
	static Bytef out[UNPACKED_MAX + 1000];
	struct buf b;
	int rc;

	MUST(inflateInit2(&zs, -15) == Z_OK);
	zs.next_out = out;
	zs.avail_out = sizeof(out);
	rc = inflate(&zs, Z_FINISH);
	inflateEnd(&zs);
	buf_init(&b, bare.n + 100);
	buf_add(&b, sv_from("\x1f\x8b\x08\0\0\0\0\0\0\3", 10));
	buf_add(&b, sv_from(bare.p, bare.n - zs.avail_in));
	add_u32(&b, crc32(0, out, (uInt)zs.total_out));
	add_u32(&b, zs.total_out);
	if (rc == Z_STREAM_END)
		try_packed(buf_sv(&b));
	buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	try_packed(sv_from(data, n));
	try_wrapped(sv_from(data, n));
	try_round(sv_from(data, n));
	return 0;
}
