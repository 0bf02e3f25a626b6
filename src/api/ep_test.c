/* POST /wms-ingest/v1/test/echo, in builds for tests only: a body's way
 * through the pipeline and its key's way through keyed_run(), without a
 * collection to put it into. The answer holds the batch's id, so that two
 * runs never answer alike. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/route.h"

#if WAYBILL_FAULTS

#include <inttypes.h>

#include "api/keyed.h"
#include "base/fault.h"
#include "wire/json.h"

struct echo {
	uint64_t items, oversized;
};

static bool count_items(struct exchange *x, struct echo *e, struct fail *f)
{
	struct json_limits limits = {
		.depth_max = (uint32_t)x->conf->json_depth_max,
		.names_max = (uint32_t)x->conf->json_names_max};
	struct json_items *s = json_items_new(
		x->arena, x->is_ndjson ? JSON_LINES : JSON_ENVELOPE, &limits,
		x->conf->item_max_bytes);
	struct json_item item;
	enum json_got got;

	json_items_feed(s, x->body, true);
	while ((got = json_items_next(s, &item, f)) == JSON_ITEM) {
		e->items++;
		e->oversized += item.oversized;
	}
	return got != JSON_FAIL;
}

static enum db_step work(struct db *db, const struct db_attempt *at,
			 struct keyed *k, struct fail *f)
{
	const struct echo *e = k->arg;
	char batch[ID_HEX];

	(void)db;
	(void)at;
	(void)f;
	fault_at("echo.work");
	id_hex(k->batch_id, batch);
	buf_addf(&k->x->answer.body,
		 "{\"items\":%" PRIu64 ",\"oversized\":%" PRIu64
		 ",\"bytes\":%zu,\"batch_id\":\"%s\"}\n",
		 e->items, e->oversized, k->x->body.n, batch);
	return DB_STEP_COMMIT;
}

bool ep_test_echo(struct exchange *x, struct fail *f)
{
	struct echo e = {0};
	struct keyed k = {.x = x,
			  .mode = BATCH_UPSERT,
			  .collection = -1,
			  .work = work,
			  .arg = &e};

	return count_items(x, &e, f) && keyed_run(&k, f);
}

#endif
