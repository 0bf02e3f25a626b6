/* Growing buffers with a ceiling.
 *
 * The first write that would pass `max` is refused whole and remembered:
 * everything after it is refused too, so that one buf_ok() at the end tells
 * whether the text is complete.
 *
 *	struct buf b;
 *	buf_init(&b, 4096);
 *	buf_addf(&b, "{\"id\":%" PRIu64 ",\"name\":", id);
 *	buf_add_json(&b, name);			a JSON string, quoted
 *	buf_add_text(&b, "}");
 *	if (!buf_ok(&b)) ...
 *	buf_release(&b);
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_BUF_H
#define WAYBILL_BUF_H

#include "base/sv.h"

struct buf {
	char *p;
	size_t n, cap, max;
	bool refused;
};

void buf_init(struct buf *b, size_t max);
void buf_release(struct buf *b);
void buf_reset(struct buf *b); /* empty again, memory kept */

void buf_add(struct buf *b, struct sv s);
void buf_add_text(struct buf *b, const char *cstr);
void buf_add_byte(struct buf *b, char c);
void buf_add_u64(struct buf *b, uint64_t v);
void buf_add_hex(struct buf *b, const void *bytes, size_t n);
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* A quoted JSON string. Bytes that are not UTF-8 become U+FFFD, so that what
 * comes out is JSON whatever went in. */
void buf_add_json(struct buf *b, struct sv s);

bool buf_ok(const struct buf *b);
struct sv buf_sv(const struct buf *b);
const char *buf_cstr(struct buf *b); /* terminated view; "" if refused */

#endif
