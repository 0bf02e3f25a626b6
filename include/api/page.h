/* Pages of a listing: {"items":[...],"next":"..."|null}.
 *
 *	struct page p = {.scope = {"items", partner_id, {collection, state}}};
 *	if (!page_read(x, &p, f)) return false;
 *	...read p.limit + 1 sizes behind p.after; n = page_fit(&sizes, 0, &p)
 *	...read n rows
 *	page_begin(x); for each: page_item(x), the object; page_end(x, &p, pos)
 *
 * A page ends at `limit` items, or earlier: when it has PAGE_BYTES_MAX bytes,
 * and, where a filter has no index, when PAGE_SCAN_MAX rows were looked at. So
 * a page may hold few items, or none, and still have a `next`; the listing is
 * over when `next` is null. A credential limited to warehouses has such a
 * filter in every listing that shows what has one. Sizes are read before rows
 * because rows are held in memory whole: a page takes a few times
 * PAGE_BYTES_MAX, whatever the limit and the items' size.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_PAGE_H
#define WAYBILL_PAGE_H

#include "api/cursor.h"
#include "api/exchange.h"
#include "db/stmt.h"

enum {
	PAGE_LIMIT_DEFAULT = 100,
	PAGE_LIMIT_MAX = 1000,
	PAGE_BYTES_MAX = 4 << 20,
	PAGE_SCAN_MAX = 10000, /* as in sql/statements/read.sql */
};

struct page {
	struct cursor_scope scope; /* set by the caller */
	uint64_t limit;
	struct sv after; /* the position; p NULL: from the beginning */
};

/* The parameters `limit` and `after`. */
MUST_CHECK bool page_read(const struct exchange *x, struct page *p,
			  struct fail *f);
/* `after` alone, by this name's rule. */
MUST_CHECK bool page_read_after(const struct exchange *x, struct page *p,
				struct fail *f);

/* Where a page with filters stops to look. The statement gives the key of the
 * PAGE_SCAN_MAX-th row from `from` on, or nothing if there are fewer: then
 * *until_r is left as it is and *bounded_r is false. Its arguments are the
 * partner and `from`. */
MUST_CHECK bool page_bound(struct db *db, const struct exchange *x,
			   enum stmt stmt, struct sv from, struct sv *until_r,
			   bool *bounded_r, struct fail *f);

/* Is there room for one more of so many bytes? Then it is taken. */
struct page_room {
	uint64_t limit, bytes;
	size_t count;
};
bool page_take(struct page_room *r, uint64_t bytes);

/* How many rows, from the first, one page may hold, by the bytes in this
 * column; at least one if there is one. */
size_t page_fit(const struct db_table *sizes, size_t col, uint64_t limit);

void page_begin(struct exchange *x);
void page_begin_named(struct exchange *x, const char *name); /* "results" */
void page_item(struct exchange *x); /* a comma where one belongs */
/* position: of the last item looked at; p NULL: nothing follows. */
void page_end(struct exchange *x, const struct page *p, struct sv position);

/* `"cursor"` or null. */
void page_add_cursor(struct buf *b, const struct page *p, struct sv position);

#endif
