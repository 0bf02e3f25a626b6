/* Undoing a large full-refresh: its tombstones in the order they stand in its
 * batch, part by part. Where it stands is the position of the next one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/text.h"
#include "work_private.h"

struct part {
	struct undo begun; /* the same in every attempt */
	bool ended;
};

/* The refresh is finished and its batch stays as it is: what is found there
 * once is found there again. */
static bool find(struct run *r, const struct job *j, struct undo *u,
		 struct fail *f)
{
	*u = (struct undo){.refresh = j->undoes};
	if (!undo_find(r->db, j->partner_id,
		       scope_read(r->arena, j->warehouses), r->arena, u, f))
		return false;
	return !j->resume_after.p ||
	       text_u64(j->resume_after, 0, UINT32_MAX, &u->from) ||
	       fail_set(f, FAIL_INTERNAL, "the undo has no place to go on");
}

static enum apply_result undo_some(struct db *db, struct work_part *p,
				   struct apply *a, struct fail *f)
{
	struct part *part = p->arg;
	struct undo u = part->begun;
	enum apply_result result = apply_undo(db, a, &u, APPLY_RESTORES, f);
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, u.from);
	p->resume_after = arena_sv(a->arena, sv_of(text));
	part->ended = u.ended;
	return result;
}

enum run_step work_undo(struct run *r, struct job *j, struct fail *f)
{
	struct part part;

	if (!find(r, j, &part.begun, f))
		return f->code == FAIL_NOT_FOUND ? RUN_REFUSED : RUN_FAULT;
	if (!work_part(&(struct work_part){.r = r,
					   .j = j,
					   .work = undo_some,
					   .arg = &part,
					   .mode = BATCH_UNDO},
		       f))
		return RUN_FAULT;
	return part.ended ? RUN_END : RUN_MORE;
}
