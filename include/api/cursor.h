/* Cursors: where a page of a listing ended, for the next one to begin.
 *
 *	struct cursor_scope s = {"items", partner_id, {collection, state}};
 *	cursor_add(&buf, &s, source_id);	into "next"
 *	if (!cursor_read(arena, &s, text, &position)) 400
 *
 * A cursor holds the position and a checksum over position, listing, partner
 * and filters, under a key. One that was altered, cut, or made for another
 * listing, partner or filter is therefore refused rather than misread. It
 * gives no right: whatever it says, a listing shows the partner's own rows.
 * The position cannot be read from it: a page of a credential limited to
 * warehouses may end at an item of another.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_CURSOR_H
#define WAYBILL_CURSOR_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/digest.h"

enum { CURSOR_FILTERS_MAX = 4, CURSOR_POSITION_MAX = 128 };

struct cursor_scope {
	const char *listing; /* "items" */
	uint32_t partner_id;
	struct sv filters[CURSOR_FILTERS_MAX]; /* p NULL: not filtered */
	uint8_t key[DIGEST_BYTES];             /* set by page_read_after() */
};

/* Letters and digits alone. The position: 1 to CURSOR_POSITION_MAX bytes. */
void cursor_add(struct buf *b, const struct cursor_scope *s,
		struct sv position);

MUST_CHECK bool cursor_read(struct arena *a, const struct cursor_scope *s,
			    struct sv text, struct sv *position_r);

#endif
