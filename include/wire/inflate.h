/* Unpacking gzip, bounded: the only place that knows zlib.
 *
 *	z = inflate_new(&limits);
 *	do {
 *		packed = ...
 *		inflate_feed(z, packed, last);
 *		while ((got = inflate_next(z, out, sizeof(out), &n, f)) ==
 *		       INFLATE_SOME)
 *			use n bytes of out
 *	} while (got == INFLATE_MORE);
 *	inflate_free(z);
 *	got is INFLATE_END, or INFLATE_FAIL and f says why
 *
 * Z1  More than unpacked_max bytes: BODY_TOO_LARGE, and none of those past
 *     the limit is handed out.
 * Z2  More than ratio_max times the packed bytes, once more than ratio_floor
 *     are unpacked: GZIP_BOMB. The packed bytes are packed_bytes where that is
 *     known (Content-Length), else those fed so far; with it, how the body is
 *     cut into pieces makes no difference.
 * Z3  What is not gzip, is damaged (the checksum counts), breaks off, or goes
 *     on after the end with something else than another member: GZIP. Several
 *     members one after the other are one body.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_INFLATE_H
#define WAYBILL_INFLATE_H

#include "base/buf.h"
#include "base/fail.h"
#include "base/library.h"

struct inflate_limits {
	uint64_t unpacked_max;
	uint64_t ratio_max, ratio_floor; /* ratio_max: at least 1 */
	uint64_t packed_bytes;           /* of the whole body; 0: not known */
};

enum inflate_got {
	INFLATE_SOME, /* *n_r > 0 bytes are in out */
	INFLATE_MORE, /* the piece is used up; feed the next one */
	INFLATE_END,
	INFLATE_FAIL,
};

struct inflate;
struct inflate *inflate_new(const struct inflate_limits *limits);
void inflate_free(struct inflate *z); /* NULL is nothing */

/* The piece must stay until INFLATE_MORE or INFLATE_END; `last`: none comes
 * after it. Only at first and after INFLATE_MORE. */
void inflate_feed(struct inflate *z, struct sv packed, bool last);
enum inflate_got inflate_next(struct inflate *z, char *out, size_t cap,
			      size_t *n_r, struct fail *f);

/* The other way, in one go and at the fastest level: one gzip member at the
 * end of `out`. Where that has no room, buf_ok() says so. */
void inflate_pack(struct buf *out, struct sv bytes);

struct library inflate_library(void);

#endif
