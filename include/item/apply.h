/* Deciding on items and writing what was decided, inside one transaction.
 *
 *	struct apply a = {...};
 *	switch (apply_run(db, &a, f)) {
 *	case APPLY_DONE:  a.outcomes[i] is what became of a.items[i]
 *	case APPLY_RACED: somebody was faster: ROLLBACK, run again with lock
 *	case APPLY_FAIL:  f says why
 *	}
 *
 * Guarantees, cited by tests:
 *  A1  The outcomes and the state after it equal those of applying the items
 *      one at a time in array order.
 *  A2  No outcome is told from a picture that was not confirmed: every row
 *      written is compared with the rev it was decided on.
 *  A3  Rows are locked in the order of source_id bytes: two batches never
 *      lock each other's rows crosswise.
 *  A4  A version is never lost to an older one, in the item table or in
 *      quarantine.
 *  A5  Everything that was ever accepted is the item's row or in its history.
 *  A6  Nothing outside of the scope is touched or told: neither what is sent
 *      nor what is held or held back under its key may be of another
 *      warehouse. Else the whole run fails (FAIL_CROSS_WAREHOUSE); in a part
 *      of a job the item is REJECTED, in a release it stays held back.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_APPLY_H
#define WAYBILL_APPLY_H

#include "db/session.h"
#include "item/outcome.h"
#include "item/scope.h"

/* The numbers stand in batch.mode and request_key.mode. */
enum batch_mode {
	BATCH_UPSERT = 1,
	BATCH_REFRESH = 2,
	BATCH_BULK = 3,
	BATCH_RELEASE = 4,
	BATCH_DISCARD = 5,
	BATCH_UNDO = 6,
	BATCH_CANCEL = 7, /* of a job: in request_key alone */
};
const char *batch_mode_name(enum batch_mode m); /* "full-refresh" */

struct apply_summary {
	uint32_t total, accepted, replay, quarantined, rejected, tombstoned;
	uint32_t restored; /* by an undo */
	uint32_t charged;  /* accepted with a change, or newly quarantined */
};

struct apply {
	/* set by the caller */
	struct arena *arena; /* of this attempt */
	uint32_t partner_id;
	enum collection collection;
	enum batch_mode mode;
	struct id batch_id;
	uint64_t wall_ms; /* for new ids */
	const struct incoming *items;
	size_t count;
	bool lock;                 /* read FOR UPDATE: after a race */
	bool dry_run;              /* decide only; no ids are made up */
	const struct scope *scope; /* of who asked; NULL: no limit */
	/* Release: of who sent each item; NULL: nobody was limited. */
	const struct scope *const *scopes;
	uint64_t sync_max; /* full-refresh: most of named plus active items */
	uint64_t received_ms; /* full-refresh: 0 at the first attempt; set by
				 it, and the same at the next ones */
	bool confirm;         /* full-refresh: the destruction is meant */
	bool limited;         /* charged may not pass charge_max */
	uint64_t charge_max;
	/* One part of a job's batch: the batch is there already and is added
	 * to, and nothing is tombstoned by what these items do not name. */
	bool part;
	uint32_t next_position; /* of a tombstone or the like, in the batch */

	/* set by apply_run() */
	struct outcome *outcomes;
	struct apply_summary summary;
	bool needs_job; /* after APPLY_FAIL: a full-refresh passes sync_max */
	bool over;      /* after it: charge_max, and nothing was written */
};

enum apply_result { APPLY_DONE, APPLY_RACED, APPLY_FAIL };

enum apply_result apply_run(struct db *db, struct apply *a, struct fail *f);

/* Undo a full-refresh: what it tombstoned and nobody touched since is ACTIVE
 * again.
 *
 *	struct undo u = {.refresh = batch_id};
 *	undo_find(db, partner_id, scope, arena, &u, f)
 *		FAIL_NOT_FOUND: no such refresh of this partner, or one that
 *		was not all within the scope
 *	apply_undo(db, &a, &u, most, f)
 *		of the tombstones from u.from on, so many at most
 *
 * apply_undo() moves u.from on and says whether there are no more behind it:
 * all of them in one transaction, or part by part, as a job. summary.total is
 * how many it looked at, summary.restored how many came back. Of *a, items,
 * count and collection are not used. */
enum { APPLY_RESTORES = 1000 }; /* of a job, in one transaction */

struct undo {
	struct id refresh;
	enum collection collection;
	uint64_t tombstoned; /* by it, altogether */
	uint64_t from;       /* position of a tombstone in its batch */
	bool ended;
};
MUST_CHECK bool undo_find(struct db *db, uint32_t partner_id,
			  const struct scope *scope, struct arena *a,
			  struct undo *u, struct fail *f);
enum apply_result apply_undo(struct db *db, struct apply *a, struct undo *u,
			     uint64_t most, struct fail *f);

/* A full-refresh as a job (part is set): what is ACTIVE, not in refresh_name
 * and untouched since it was received.
 *
 * refresh_count() adds one stretch of the collection behind `after`;
 * refresh_guard() then says whether it may be done. apply_tombstone() makes
 * one stretch INACTIVE, at most APPLY_TOMBSTONES. Both move `after` on and
 * say whether the collection ends there. */
enum { APPLY_TOMBSTONES = 1000 };

struct refresh_walk {
	struct id job_id;
	uint64_t received_ms; /* wall time, by the database's clock */
	struct sv after;
	bool ended;
	uint64_t active, doomed; /* counted by refresh_count() */
};
MUST_CHECK bool refresh_count(struct db *db, const struct apply *a,
			      struct refresh_walk *w, struct fail *f);
MUST_CHECK bool refresh_guard(const struct refresh_walk *w, bool confirm,
			      struct fail *f);
enum apply_result apply_tombstone(struct db *db, struct apply *a,
				  struct refresh_walk *w, struct fail *f);

#endif
