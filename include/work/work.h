/* What jobs do: a row a kind, for job/run, and what workers do beside them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_WORK_H
#define WAYBILL_WORK_H

#include "job/run.h"

extern const struct run_kind WORK_KINDS[];
extern const size_t WORK_KIND_COUNT;

/* Things that are nobody's job: letting go what waits for something that has
 * come (partners set to auto_release), and removing what finished jobs leave
 * behind. A little of it at every call; *more_r: some was done, and there may
 * be more. Any number of workers may do it at once. */
struct work_chores {
	struct id after; /* how far it has come with this partner's waiters */
	uint32_t partner_id;
	uint64_t due_ms; /* clock_mono_ms() */
};
MUST_CHECK bool work_chores(struct run *r, struct work_chores *w, bool *more_r,
			    struct fail *f);

#endif
