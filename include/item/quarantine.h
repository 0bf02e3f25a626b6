/* Quarantine records: letting one go, or giving it up.
 *
 * Both work inside a transaction of the caller's, on one OPEN record of the
 * partner. FAIL_NOT_FOUND: there is none of that id, or none that apply.scope
 * may see; FAIL_NOT_OPEN: it is closed already.
 *
 * Whoever releases, a record is applied within the scope of who sent it: what
 * leads to another warehouse by now stays held back.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_QUARANTINE_H
#define WAYBILL_QUARANTINE_H

#include "base/conf.h"
#include "item/apply.h"

struct release {
	/* set by the caller: arena, partner_id, batch_id, wall_ms, lock,
	 * scope */
	struct apply apply;
	/* set by quarantine_release() */
	struct incoming in;
	enum quarantine_state state; /* RELEASED, or SUPERSEDED */
};

/* Decide on the held back item again, now. What became of it is in
 * r->apply.outcomes[0]: ACCEPTED, or REPLAY if the item has gone past it
 * meanwhile. FAIL_STILL_HELD: it still cannot be accepted. */
enum apply_result quarantine_release(struct db *db, const struct conf *c,
				     struct id id, struct release *r,
				     struct fail *f);

/* Several records: the OPEN ones of a partner that were there when somebody
 * asked for them. */
struct quarantine_match {
	uint32_t partner_id;
	int collection;    /* -1: all */
	struct sv missing; /* source_id waited for; p NULL: whatever it is */
	struct id asked;   /* made when it was asked for */
	const struct scope *scope; /* of who asked; NULL: no limit */
};
enum { QUARANTINE_SOME = 100 };

/* With a scope it stops at the hundred thousandth record that is looked at:
 * there may be more. */
MUST_CHECK bool quarantine_count(struct db *db,
				 const struct quarantine_match *m,
				 struct arena *a, uint64_t *count_r,
				 struct fail *f);

/* The first ones behind `after` (p NULL: from the beginning), as far as they
 * are of one collection. With a scope there may be none and yet more behind
 * `last`. */
struct quarantine_some {
	struct id ids[QUARANTINE_SOME];
	size_t count;
	enum collection collection;
	struct id last; /* that was looked at */
	bool ended;     /* none was left */
};
MUST_CHECK bool quarantine_pick(struct db *db, const struct quarantine_match *m,
				struct sv after, struct arena *a,
				struct quarantine_some *s_r, struct fail *f);

/* Those that wait for something that is ACTIVE now and was not, or was
 * another, when they were looked at last; of one stretch behind *after, which
 * moves on if there is none. *ended_r: that was the last stretch. */
MUST_CHECK bool quarantine_ready(struct db *db, uint32_t partner_id,
				 struct id *after, struct arena *a,
				 struct quarantine_some *s_r, bool *ended_r,
				 struct fail *f);

/* Decide on several again, in this order, as one batch: those that are still
 * OPEN; sets a->items to them. One that still cannot be accepted is
 * QUARANTINED with what is wrong now, and its record stays open; one that can
 * no longer be read is REJECTED, its record stays open too, but waits for
 * nothing any more. Of *a the caller sets arena, partner_id, batch_id,
 * wall_ms, lock, scope and part. first_index: of the first in the batch. */
enum apply_result quarantine_release_some(struct db *db, const struct conf *c,
					  const struct quarantine_some *some,
					  uint64_t first_index, struct apply *a,
					  struct fail *f);

/* Close the record; the item stays as it is. Sets a->collection. */
enum apply_result quarantine_discard(struct db *db, struct id id,
				     struct apply *a, struct fail *f);

#endif
