/* Reading CSV (RFC 4180) in pieces, bounded.
 *
 *	c = csv_new(record_max);
 *	do {
 *		piece = ...
 *		csv_feed(c, piece, last);
 *		while ((got = csv_next(c, &record, f)) == CSV_RECORD)
 *			...
 *	} while (got == CSV_MORE);
 *	csv_free(c);
 *	got is CSV_END, or CSV_FAIL and f says why
 *
 * V1  Fields are parted by commas, records by CRLF or LF; the last one may end
 *     without. A field in quotes may hold commas, line breaks and, doubled,
 *     quotes. Blanks belong to the field.
 * V2  What RFC 4180 has no meaning for is refused with its line, never
 *     guessed at: a quote inside a field that does not begin with one,
 *     anything but a comma or a line break behind a closing quote, a CR
 *     without LF, a quote left open, bytes that are not UTF-8.
 * V3  A byte order mark at the very beginning is skipped. Empty lines are
 *     skipped too, but counted.
 * V4  Fed whole or in pieces of any sizes, the result is the same.
 * V5  Memory is bounded by record_max and CSV_FIELDS_MAX, whatever comes.
 *
 * A failure has the code CSV; its line is that of the fault.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_CSV_H
#define WAYBILL_CSV_H

#include "base/fail.h"

enum { CSV_FIELDS_MAX = 256 };

struct csv_record {
	uint64_t line; /* its first, from 1 */
	size_t count;
	struct sv fields[CSV_FIELDS_MAX]; /* unquoted; until the next call */
};

enum csv_got {
	CSV_RECORD,
	CSV_MORE, /* the piece is used up and may be thrown away */
	CSV_END,
	CSV_FAIL, /* f says why; asked again, it says the same */
};

struct csv;
struct csv *csv_new(size_t record_max);
void csv_free(struct csv *c); /* NULL is nothing */

/* The piece must stay until CSV_MORE or CSV_END; `last`: none comes after it.
 * Only at first and after CSV_MORE. */
void csv_feed(struct csv *c, struct sv piece, bool last);
enum csv_got csv_next(struct csv *c, struct csv_record *r, struct fail *f);

#endif
