/* Chunks of a job: stored at intake, read back one by one.
 *
 *	chunks_new(&w, db, arena, job_id, refresh)
 *	chunks_add(w, item_bytes, line, source_id)	flushes by itself
 *	chunks_end(w, &count)
 *
 * A chunk holds at most CHUNK_ITEMS items or about CHUNK_BYTES, gzipped, and
 * is one short transaction. An item that is over item_max is kept as a mark
 * of its size, so that it is REJECTED alone when its turn comes.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_CHUNKS_H
#define WAYBILL_CHUNKS_H

#include "base/arena.h"
#include "base/ids.h"
#include "db/session.h"
#include "wire/json.h"

enum { CHUNK_ITEMS = 1000, CHUNK_BYTES = 1 << 20 };

struct chunk_writer;

struct chunk_writer *chunks_new(struct db *db, struct id job_id, bool refresh);
/* The compacted bytes of one item; names go to refresh_name if `refresh`. */
MUST_CHECK bool chunks_add(struct chunk_writer *w,
			   const struct json_item *item, struct fail *f);
MUST_CHECK bool chunks_end(struct chunk_writer *w, uint32_t *chunks_r,
			   uint32_t *items_r, struct fail *f);
void chunks_free(struct chunk_writer *w);

/* Undo an intake that failed: deletes what was stored, best effort; what is
 * left is swept after 24 h. */
void chunks_drop(struct db *db, struct id job_id);

struct chunk {
	uint32_t first_index, items;
	struct sv ndjson;     /* one item a line */
	const uint64_t *lines; /* their line numbers; NULL: the body was JSON */
	const uint64_t *oversized; /* bytes of an item left out, by position; 0:
				      it is there */
};
/* FAIL_NOT_FOUND: it is not there, which is a fault of the database's. */
MUST_CHECK bool chunk_read(struct db *db, struct id job_id, uint32_t chunk_no,
			   struct arena *a, struct chunk *chunk_r,
			   struct fail *f);

#endif
