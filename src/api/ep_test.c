/* POST /wms-ingest/v1/test/echo, in builds for tests only: a body's way
 * through the pipeline, without a collection to put it into. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/route.h"

#if WAYBILL_FAULTS

#include <inttypes.h>

#include "wire/json.h"

bool ep_test_echo(struct exchange *x, struct fail *f)
{
	struct json_limits limits = {
		.depth_max = (uint32_t)x->conf->json_depth_max,
		.names_max = (uint32_t)x->conf->json_names_max};
	struct json_items *s = json_items_new(
		x->arena, x->is_ndjson ? JSON_LINES : JSON_ENVELOPE, &limits,
		x->conf->item_max_bytes);
	uint64_t items = 0, oversized = 0;
	struct json_item item;
	enum json_got got;

	json_items_feed(s, x->body, true);
	while ((got = json_items_next(s, &item, f)) == JSON_ITEM) {
		items++;
		oversized += item.oversized;
	}
	if (got == JSON_FAIL)
		return false;
	buf_addf(&x->answer.body,
		 "{\"items\":%" PRIu64 ",\"oversized\":%" PRIu64
		 ",\"bytes\":%zu}\n",
		 items, oversized, x->body.n);
	return true;
}

#endif
