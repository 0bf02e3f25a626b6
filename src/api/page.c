/* Pages of a listing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/page.h"

#include "api/param.h"

/* What stands around an item's large columns, about. */
enum { ITEM_OVERHEAD = 512 };

bool page_read_after(const struct exchange *x, struct page *p, struct fail *f)
{
	struct sv text;

	auth_derive(x->auth, SV("cursor"), p->scope.key);
	p->after = SV_NONE;
	if (!param_find(x, "after", &text) ||
	    cursor_read(x->arena, &p->scope, text, &p->after))
		return true;
	return fail_set(f, FAIL_BAD_PARAMETER,
			"after must be the `next` of a page of this listing "
			"with the same filters");
}

bool page_read(const struct exchange *x, struct page *p, struct fail *f)
{
	p->limit = PAGE_LIMIT_DEFAULT;
	return param_u64(x, "limit", 1, PAGE_LIMIT_MAX, &p->limit, f) &&
	       page_read_after(x, p, f);
}

bool page_bound(struct db *db, const struct exchange *x, enum stmt stmt,
		struct sv from, struct sv *until_r, bool *bounded_r,
		struct fail *f)
{
	struct db_table end;

	if (!db_query(db, stmt,
		      DB_ARGS(db_uint(x->who.partner_id), db_text(from)),
		      x->arena, &end, f))
		return false;
	*bounded_r = end.rows > 0;
	if (*bounded_r)
		*until_r = db_cell(&end, 0, 0)->bytes;
	return true;
}

bool page_take(struct page_room *r, uint64_t bytes)
{
	if (r->count >= r->limit)
		return false;
	r->bytes += bytes + ITEM_OVERHEAD;
	if (r->count && r->bytes > PAGE_BYTES_MAX)
		return false;
	r->count++;
	return true;
}

size_t page_fit(const struct db_table *sizes, size_t col, uint64_t limit)
{
	struct page_room r = {.limit = limit};

	while (r.count < sizes->rows &&
	       page_take(&r, db_cell(sizes, r.count, col)->u))
		;
	return r.count;
}

void page_begin_named(struct exchange *x, const char *name)
{
	buf_addf(&x->answer.body, "{\"%s\":[", name);
}

void page_begin(struct exchange *x)
{
	page_begin_named(x, "items");
}

void page_item(struct exchange *x)
{
	const struct buf *b = &x->answer.body;

	if (b->n && b->p[b->n - 1] != '[')
		buf_add_byte(&x->answer.body, ',');
}

void page_add_cursor(struct buf *b, const struct page *p, struct sv position)
{
	if (!position.p) {
		buf_add_text(b, "null");
		return;
	}
	buf_add_byte(b, '"');
	cursor_add(b, &p->scope, position);
	buf_add_byte(b, '"');
}

void page_end(struct exchange *x, const struct page *p, struct sv position)
{
	struct buf *b = &x->answer.body;

	buf_add_text(b, "],\"next\":");
	page_add_cursor(b, p, position);
	buf_add_text(b, "}\n");
}
