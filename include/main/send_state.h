/* What `waybill send` writes down: which batch has which key, and what became
 * of it. A file of JSON lines beside the one that is sent, only ever appended
 * to, flushed to disk (fsync) before anything that depends on it is done.
 *
 *	state_open(&s, path, &what, f)		locked; what was there is read
 *	while the file has items
 *		b = state_batch(s, n)		NULL: not begun yet
 *		state_begin(s, first, items, &b, f)	on disk, with its key
 *		...send until there is an answer...
 *		state_done(s, b, &counts, f)
 *	state_end(s, f)				all of it is sent
 *	state_close(s)
 *
 *	{"waybill_send":1,"url":"...","collection":"skus","mode":"upsert",
 *	 "size":1048576,"sha256":"..."}
 *	{"batch":0,"first":0,"items":1000,"key":"0195..."}
 *	{"job":0,"job_id":"job-..."}
 *	{"done":0,"total":1000,"accepted":998,"replay":2,"quarantined":0,
 *	 "rejected":0,"tombstoned":0}
 *	{"end":true}
 *
 * T1  A key is on disk before it is first used, and is never used for other
 *     items: extents are written down with it.
 * T2  A last line that is torn, because the program or the machine died while
 *     writing it, is cut off: nothing was done on its account.
 * T3  A file that belongs to another input, service, collection or mode is
 *     refused, unless it is finished: then it begins anew.
 * T4  Two programs never use one file at once.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_SEND_STATE_H
#define WAYBILL_SEND_STATE_H

#include "base/arena.h"
#include "base/fail.h"
#include "base/ids.h"
#include "main/feed.h"

/* What is sent where. */
struct state_what {
	const char *file; /* for messages */
	struct sv url, collection, mode;
	uint64_t size;
	uint8_t sha256[DIGEST_BYTES];
};

struct state_counts {
	uint64_t total, accepted, replay, quarantined, rejected, tombstoned;
};

struct state_batch {
	uint64_t no, first, items;
	struct id key;
	struct sv job_id; /* p NULL: none */
	bool done;
	struct state_counts counts; /* if so */
};

struct state;

/* FAIL_SEND_INPUT: T3, or it cannot be read or written. FAIL_SEND_LATER: T4. */
MUST_CHECK bool state_open(struct state **s_r, const char *path,
			   const struct state_what *what, struct fail *f);
void state_close(struct state *s); /* NULL is nothing */

bool state_ended(const struct state *s);
uint64_t state_batches(const struct state *s);
struct state_batch *state_find(struct state *s, uint64_t no); /* may be NULL */

/* The next batch, with a fresh key. */
MUST_CHECK bool state_begin(struct state *s, uint64_t first, uint64_t items,
			    struct state_batch **b_r, struct fail *f);
MUST_CHECK bool state_job(struct state *s, struct state_batch *b,
			  struct sv job_id, struct fail *f);
MUST_CHECK bool state_done(struct state *s, struct state_batch *b,
			   const struct state_counts *counts, struct fail *f);
MUST_CHECK bool state_end(struct state *s, struct fail *f);

#endif
