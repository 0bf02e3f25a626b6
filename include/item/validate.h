/* Is an item's shape right? Decided from the collection's row alone.
 *
 *	struct incoming in = {.index = i, .line = line};
 *	validate_item(&arena, COLLECTION_SKUS, &tape, &in);
 *	if (in.rejected) ... in.errors is ready-made JSON
 *
 * Cannot fail: whatever is wrong makes the item REJECTED, with every fault,
 * each with a JSON Pointer into the item, a code and a sentence.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_VALIDATE_H
#define WAYBILL_VALIDATE_H

#include "base/arena.h"
#include "item/incoming.h"
#include "wire/json.h"

/* The codes of faults, a table (reject.def). */
enum reject_code {
#define REJECT(id, code, doc) REJECT_##id,
#include "item/reject.def"
#undef REJECT
	REJECT_COUNT
};
const char *reject_code_name(enum reject_code c); /* "wrong-type" */
const char *reject_code_doc(enum reject_code c);

/* So many faults of one item are told; one more says that there are more. */
enum { VALIDATE_FAULTS_MAX = 50 };

/* index and line are the caller's; the rest of *in is set here. Of a REJECTED
 * item that is errors, and source_id and version where they themselves are
 * right; it has no payload and no references. */
void validate_item(struct arena *a, enum collection c,
		   const struct json_tape *tape, struct incoming *in);

/* An item over item_max: REJECTED, code too-large. */
void validate_oversized(struct arena *a, uint64_t bytes, uint64_t max,
			struct incoming *in);

#endif
