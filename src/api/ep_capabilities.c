/* GET /wms-ingest/v1/capabilities: what this service takes, and how much.
 *
 * Made from the tables: collections, settings, and the partner's own limits
 * as the database has them now.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "api/respond.h"
#include "api/route.h"
#include "db/stmt.h"
#include "item/describe.h"

/* Columns of STMT_PARTNER_LIMITS. */
enum { L_RATE, L_BURST, L_QUOTA, L_STRICT, L_AUTO_RELEASE };

static void add_or_null(struct buf *b, const struct db_val *v)
{
	if (v->kind == DB_NULL)
		buf_add_text(b, "null");
	else
		buf_add_u64(b, v->u);
}

static void add_partner(struct buf *b, const struct exchange *x,
			const struct db_table *t)
{
	buf_add_text(b, "\"partner_id\":");
	buf_add_json(b, sv_of(x->who.partner));
	buf_add_text(b, ",\"rate\":{\"requests_per_second\":");
	add_or_null(b, db_cell(t, 0, L_RATE));
	buf_add_text(b, ",\"burst\":");
	add_or_null(b, db_cell(t, 0, L_BURST));
	buf_add_text(b, "},\"quota\":{\"items_per_day\":");
	add_or_null(b, db_cell(t, 0, L_QUOTA));
	buf_addf(b, "},\"strict\":%s,\"auto_release\":%s,",
		 db_cell(t, 0, L_STRICT)->u ? "true" : "false",
		 db_cell(t, 0, L_AUTO_RELEASE)->u ? "true" : "false");
	buf_add_text(b, "\"warehouses\":");
	buf_add(b, x->scope ? scope_text(x->scope) : SV("null"));
	buf_add_byte(b, ',');
}

static void add_limits(struct buf *b, const struct conf *c)
{
	buf_addf(b,
		 "\"limits\":{\"sync_body_bytes\":%" PRIu64
		 ",\"bulk_body_bytes\":%" PRIu64 ",\"item_bytes\":%" PRIu64
		 ",\"bulk_async_threshold\":%" PRIu64 ",\"json_depth\":%" PRIu64
		 ",\"json_names\":%" PRIu64 ",\"gzip_ratio\":%" PRIu64
		 "},\"retention_seconds\":%" PRIu64 ",",
		 c->sync_body_max_bytes, c->bulk_body_max_bytes,
		 c->item_max_bytes, c->bulk_async_threshold, c->json_depth_max,
		 c->json_names_max, c->gzip_ratio_max, c->retention_ms / 1000);
}

bool ep_capabilities(struct exchange *x, struct fail *f)
{
	struct buf *b = &x->answer.body;
	struct db_table found;

	if (!db_query(x->db, STMT_PARTNER_LIMITS,
		      DB_ARGS(db_uint(x->who.partner_id)), x->arena, &found, f))
		return false;
	if (found.rows != 1)
		return fail_set(f, FAIL_UNAUTHENTICATED,
				"the partner is no longer there");
	buf_add_text(b,
		     "{\"service\":\"waybill\",\"version\":\"" PACKAGE_VERSION
		     "\",\"api\":\"wms-ingest/v1\",");
	add_partner(b, x, &found);
	buf_add_text(
		b,
		"\"modes\":[\"upsert\",\"bulk\",\"full-refresh\"],\"formats\":["
		"\"application/json\","
		"\"application/x-ndjson\"],\"encodings\":[\"gzip\"],");
	add_limits(b, x->conf);
	buf_add_text(b, "\"collections\":");
	describe_collections(b);
	buf_add_text(b, "}\n");
	return true;
}
