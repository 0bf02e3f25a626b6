/* Chunks of a job: stored at intake, read back one by one.
 *
 *	w = chunks_new(db, job_id, refresh);
 *	while an item comes
 *		chunks_add(w, &item, f)		flushes by itself
 *	chunks_end(w, &chunks, &items, f)
 *	chunks_free(w)
 *	chunks_drop(db, job_id)			it did not become a job
 *
 * and in the transaction that makes it a job:
 *
 *	chunks_check(db, job_id, chunks, f)
 *
 * A chunk holds at most CHUNK_ITEMS items and CHUNK_BYTES (or one item that is
 * larger), gzipped, and is one short transaction. An item that is over
 * item_max is kept as a mark of its size, so that it is REJECTED alone when
 * its turn comes.
 *
 * Guarantees, cited by tests:
 *  C1  What is read is what was added: the compacted bytes, index and line of
 *      every item, in order.
 *  C2  A chunk is there whole, with the names of its items, or not at all.
 *  C3  Chunks that a job has are never dropped or swept.
 *  C4  Memory is bounded by a chunk, whatever is added.
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

/* refresh: the source_id of every item that has a readable one goes into
 * refresh_name, whatever else is wrong with the item. */
struct chunk_writer *chunks_new(struct db *db, struct id job_id, bool refresh);
/* Items come in order, of a body that is JSON or NDJSON throughout. Outside a
 * transaction. */
MUST_CHECK bool chunks_add(struct chunk_writer *w, const struct json_item *item,
			   struct fail *f);
MUST_CHECK bool chunks_end(struct chunk_writer *w, uint32_t *chunks_r,
			   uint32_t *items_r, struct fail *f);
void chunks_free(struct chunk_writer *w); /* NULL is nothing */

/* All of them are there; false with FAIL_UNAVAILABLE: somebody swept them. */
MUST_CHECK bool chunks_check(struct db *db, struct id job_id, uint32_t chunks,
			     struct fail *f);

/* Undo an intake that failed: deletes what was stored, best effort; what is
 * left is swept after 24 h. */
void chunks_drop(struct db *db, struct id job_id);

/* Drop what was begun before this time and never became a job. */
MUST_CHECK bool chunks_sweep(struct db *db, uint64_t before_wall_ms,
			     uint64_t *intakes_r, struct fail *f);

/* What a refresh named and nobody asks for any more: of a COMPLETED one, or of
 * a finished one whose chunks are dropped, so that it cannot be queued again.
 * Some of one of them; none: that was all. */
enum chunks_of { CHUNKS_DONE, CHUNKS_GONE };
MUST_CHECK bool chunks_drop_names(struct db *db, enum chunks_of which,
				  struct arena *a, uint64_t *dropped_r,
				  struct fail *f);

struct chunk {
	uint32_t first_index, items;
	/* One item a line, line i being the item at position i; an item that
	 * was left out is an empty line. */
	struct sv ndjson;
	const uint64_t *lines; /* line numbers in the body, by position; NULL:
				  the body was JSON */
	const uint64_t *oversized; /* bytes of an item left out, by position;
				      0: it is there */
};
/* Everything is in the arena. FAIL_NOT_FOUND: it is not there, which is a
 * fault of the database's, as FAIL_INTERNAL is: it cannot be read. */
MUST_CHECK bool chunk_read(struct db *db, struct id job_id, uint32_t chunk_no,
			   struct arena *a, struct chunk *chunk_r,
			   struct fail *f);

#endif
