/* The items of a file, one after another, whatever its size.
 *
 *	feed_open(&feed, path, FEED_BY_NAME, COLLECTION_SKUS, f)
 *	feed_scan(feed, &scan, f)	the whole file once: is it right, how
 *					many items, which bytes
 *	while ((got = feed_next(feed, &item, f)) == FEED_ITEM)
 *		item.bytes is one line of JSON
 *	feed_close(feed)
 *
 * NDJSON; JSON, that is {"items":[...]} or an array; CSV, whose header row
 * names the fields. A cell becomes a number or a boolean where the
 * collection's table of fields says so and it reads as one; else it is text
 * as it stands, and the service says what is wrong with it. An empty cell is
 * a field that is not there. Lists and objects have no place in a row: a
 * header that names a list, or has a dot or a bracket in it, is refused.
 *
 * F1  The same file gives the same items, byte for byte, every time.
 * F2  Memory is bounded by FEED_ITEM_MAX.
 * F3  A file that is changed while it is read is noticed: feed_check().
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_FEED_H
#define WAYBILL_FEED_H

#include "base/digest.h"
#include "base/fail.h"
#include "item/collection.h"

enum { FEED_ITEM_MAX = (4 << 20) - 1024 };

enum feed_format { FEED_BY_NAME, FEED_NDJSON, FEED_JSON, FEED_CSV };

/* "ndjson", "json", "csv"; false: no such word. */
MUST_CHECK bool feed_format_of(struct sv word, enum feed_format *format_r);

struct feed_item {
	uint64_t index;  /* from 0 */
	uint64_t line;   /* in the file, from 1; 0: JSON has none */
	struct sv bytes; /* compact JSON; until the next call */
};

struct feed_scan {
	uint64_t items, size;
	uint8_t sha256[DIGEST_BYTES];
};

enum feed_got { FEED_ITEM, FEED_END, FEED_FAIL };

struct feed;

/* FEED_BY_NAME: .ndjson, .jsonl, .json or .csv. */
MUST_CHECK bool feed_open(struct feed **feed_r, const char *path,
			  enum feed_format format, enum collection c,
			  struct fail *f);
void feed_close(struct feed *d); /* NULL is nothing */

/* From the beginning again. */
MUST_CHECK bool feed_rewind(struct feed *d, struct fail *f);

enum feed_got feed_next(struct feed *d, struct feed_item *item_r,
			struct fail *f);

/* Reads all of it, and rewinds. */
MUST_CHECK bool feed_scan(struct feed *d, struct feed_scan *scan_r,
			  struct fail *f);

/* Size and time of change are what they were when it was opened. */
MUST_CHECK bool feed_check(const struct feed *d, struct fail *f);

#endif
