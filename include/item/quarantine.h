/* Quarantine records: letting one go, or giving it up.
 *
 * Both work inside a transaction of the caller's, on one OPEN record of the
 * partner. FAIL_NOT_FOUND: there is none of that id; FAIL_NOT_OPEN: it is
 * closed already.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_QUARANTINE_H
#define WAYBILL_QUARANTINE_H

#include "base/conf.h"
#include "item/apply.h"

struct release {
	/* set by the caller: arena, partner_id, batch_id, wall_ms, lock */
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

/* Close the record; the item stays as it is. Sets a->collection. */
enum apply_result quarantine_discard(struct db *db, struct id id,
				     struct apply *a, struct fail *f);

#endif
