/* Unpacking gzip, bounded, by zlib. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/inflate.h"

#include <inttypes.h>
#include <zlib.h>

/* windowBits of zlib for "gzip and nothing else". */
enum { GZIP_WINDOW = 15 + 16 };

struct inflate {
	z_stream zs;
	struct inflate_limits limits;
	struct sv rest; /* of the piece, not yet given to zlib */
	uint64_t fed, unpacked;
	bool last;
	bool in_member; /* has begun one and not reached its end */
	bool any;       /* has reached the end of one */
};

struct inflate *inflate_new(const struct inflate_limits *limits)
{
	struct inflate *z = calloc(1, sizeof(*z));

	if (!limits->ratio_max)
		bug("a ratio_max of 0");
	if (!z || inflateInit2(&z->zs, GZIP_WINDOW) != Z_OK)
		bug("out of memory for zlib");
	z->limits = *limits;
	return z;
}

void inflate_free(struct inflate *z)
{
	if (!z)
		return;
	inflateEnd(&z->zs);
	free(z);
}

void inflate_feed(struct inflate *z, struct sv packed, bool last)
{
	if (z->rest.n || z->zs.avail_in || z->last)
		bug("fed before the last piece was used up");
	z->rest = packed;
	z->last = last;
	z->fed += packed.n;
}

static enum inflate_got refuse(struct fail *f, const char *why)
{
	fail_set(f, FAIL_GZIP, "%s", why);
	return INFLATE_FAIL;
}

/* zlib counts in unsigned int. */
static void give(struct inflate *z)
{
	size_t n = z->rest.n < UINT_MAX ? z->rest.n : UINT_MAX;

	if (z->zs.avail_in || !n)
		return;
	z->zs.next_in = (z_const Bytef *)(uintptr_t)z->rest.p;
	z->zs.avail_in = (uInt)n;
	z->rest = sv_tail(z->rest, n);
}

/* A bomb is looked for first: never more than one byte past unpacked_max is
 * unpacked, so that whoever counts byte by byte finds it no later than that
 * limit, and the answer does not depend on how much comes at once. */
static bool check_size(struct inflate *z, struct fail *f)
{
	const struct inflate_limits *l = &z->limits;
	uint64_t packed = l->packed_bytes > z->fed ? l->packed_bytes : z->fed;

	if (z->unpacked > l->ratio_floor &&
	    z->unpacked / l->ratio_max >= packed &&
	    z->unpacked > packed * l->ratio_max)
		return fail_set(f, FAIL_GZIP_BOMB,
				"%" PRIu64 " bytes unpack to over %" PRIu64
				" times as many",
				packed, l->ratio_max);
	if (z->unpacked > l->unpacked_max)
		return fail_set(f, FAIL_BODY_TOO_LARGE,
				"the body unpacks to more than %" PRIu64
				" bytes",
				l->unpacked_max);
	return true;
}

/* One call of zlib; *n_r bytes came out. One byte more than the limit is
 * asked for, so that passing it is seen at once. */
static int unpack(struct inflate *z, char *out, size_t cap, size_t *n_r)
{
	uint64_t left = z->limits.unpacked_max - z->unpacked;
	int rc;

	if (cap > left)
		cap = (size_t)left + 1;
	if (cap > UINT_MAX)
		cap = UINT_MAX;
	z->zs.next_out = (Bytef *)out;
	z->zs.avail_out = (uInt)cap;
	z->in_member = true;
	rc = inflate(&z->zs, Z_NO_FLUSH);
	*n_r = cap - z->zs.avail_out;
	z->unpacked += *n_r;
	return rc;
}

/* The piece is used up. */
static enum inflate_got run_out(struct inflate *z, struct fail *f)
{
	if (!z->last)
		return INFLATE_MORE;
	if (z->in_member || !z->any)
		return refuse(f, "the gzip body breaks off");
	return INFLATE_END;
}

enum inflate_got inflate_next(struct inflate *z, char *out, size_t cap,
			      size_t *n_r, struct fail *f)
{
	if (!cap)
		bug("no room to unpack into");
	for (;;) {
		int rc;

		give(z);
		/* Without input zlib may still hold output, in a member. */
		if (!z->zs.avail_in && !z->in_member)
			return run_out(z, f);
		rc = unpack(z, out, cap, n_r);
		if (rc == Z_MEM_ERROR)
			bug("out of memory for zlib");
		/* What came before the damage counts, however it was cut. */
		if (!check_size(z, f))
			return INFLATE_FAIL;
		if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
			return refuse(f, z->any ? "the gzip body goes on with "
						  "what is not gzip"
						: "the body is not gzip, or "
						  "is damaged");
		if (rc == Z_STREAM_END) {
			z->in_member = false;
			z->any = true;
			inflateReset(&z->zs);
		}
		if (*n_r)
			return INFLATE_SOME;
		if (rc == Z_BUF_ERROR)
			return run_out(z, f);
	}
}

void inflate_pack(struct buf *out, struct sv bytes)
{
	z_stream zs = {0};
	char part[16 * 1024];
	int rc;

	if (bytes.n > UINT_MAX ||
	    deflateInit2(&zs, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		bug("cannot pack %zu bytes", bytes.n);
	zs.next_in = (z_const Bytef *)(uintptr_t)bytes.p;
	zs.avail_in = (uInt)bytes.n;
	do {
		zs.next_out = (Bytef *)part;
		zs.avail_out = sizeof(part);
		rc = deflate(&zs, Z_FINISH);
		buf_add(out, sv_from(part, sizeof(part) - zs.avail_out));
	} while (rc == Z_OK && buf_ok(out));
	deflateEnd(&zs);
}

struct library inflate_library(void)
{
	return (struct library){"zlib", ZLIB_VERSION, zlibVersion()};
}
