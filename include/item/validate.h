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

/* index and line are the caller's; the rest of *in is set here. */
void validate_item(struct arena *a, enum collection c,
		   const struct json_tape *tape, struct incoming *in);

/* An item over item_max: REJECTED, code too-large. */
void validate_oversized(struct arena *a, uint64_t bytes, uint64_t max,
			struct incoming *in);

#endif
