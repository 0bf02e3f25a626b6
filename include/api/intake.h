/* Taking in a job: a body into chunks, then one transaction that queues it.
 *
 * The body is read piece by piece, grammar is checked, items are stored in
 * chunks under a job id that does not exist yet; what is right or wrong with an
 * item is found when the job runs. Then, in one transaction, the key is
 * claimed, the job queued and the answer kept.
 *
 * Guarantees, cited by tests:
 *  I1  No job without its whole body, and without its key's answer.
 *  I2  An intake that fails, or that loses its key to another, deletes what it
 *      stored. One that was killed, or whose COMMIT is in doubt, leaves chunks
 *      that nobody sees and that are swept.
 *  I3  Memory does not depend on the size of the body.
 *  I4  Duplicates on one host wait, or get 409, before their body is taken in.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_INTAKE_H
#define WAYBILL_INTAKE_H

#include "api/exchange.h"
#include "item/collection.h"

struct intake {
	enum collection collection;
	enum batch_mode mode; /* as it was asked for */
	bool confirm, confirm_empty;
};

/* What x->received holds is the beginning of the body, x->stream the rest.
 * After true x->answer is 202, or what was kept for the key. */
MUST_CHECK bool intake_run(struct exchange *x, const struct intake *in,
			   struct fail *f);

#endif
