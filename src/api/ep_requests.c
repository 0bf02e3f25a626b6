/* GET /wms-ingest/v1/requests/{correlation_id}: did my request land? */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/respond.h"
#include "api/route.h"
#include "base/clock.h"
#include "db/stmt.h"
#include "gate/reqkey.h"
#include "item/apply.h"

enum { SEGMENT_ID = 3 };

/* Columns of STMT_REQKEY_REPORT. */
enum {
	C_CREATED,
	C_STATUS,
	C_MODE,
	C_COLLECTION,
	C_BATCH,
	C_JOB,
	C_EXPIRES,
	C_TOTAL,
	C_ACCEPTED,
	C_REPLAY,
	C_QUARANTINED,
	C_REJECTED,
	C_TOMBSTONED,
	C_WAREHOUSES
};

static const struct count_row {
	int column;
	const char *name;
} COUNTS[] = {
	{C_TOTAL, "total"},       {C_ACCEPTED, "accepted"},
	{C_REPLAY, "replay"},     {C_QUARANTINED, "quarantined"},
	{C_REJECTED, "rejected"}, {C_TOMBSTONED, "tombstoned"},
};

static const struct db_val *cell(const struct db_table *t, int column)
{
	return db_cell(t, 0, (size_t)column);
}

static void add_time(struct buf *b, const char *name, uint64_t wall_ms)
{
	char text[CLOCK_TEXT];

	clock_rfc3339(wall_ms, text);
	buf_addf(b, "\"%s\":\"%s\"", name, text);
}

static void add_id(struct buf *b, const char *name, const char *prefix,
		   const struct db_val *id)
{
	buf_addf(b, ",\"%s\":", name);
	if (id->kind == DB_NULL) {
		buf_add_text(b, "null");
		return;
	}
	buf_addf(b, "\"%s-", prefix);
	buf_add_hex(b, id->bytes.p, id->bytes.n);
	buf_add_byte(b, '"');
}

/* A request without a batch has nothing to sum up. */
static void add_summary(struct buf *b, const struct db_table *t)
{
	if (cell(t, C_TOTAL)->kind == DB_NULL) {
		buf_add_text(b, ",\"summary\":null");
		return;
	}
	buf_add_text(b, ",\"summary\":{");
	for (size_t i = 0; i < ARRAY_LEN(COUNTS); i++) {
		buf_addf(b, "%s\"%s\":", i ? "," : "", COUNTS[i].name);
		buf_add_u64(b, cell(t, COUNTS[i].column)->u);
	}
	buf_add_byte(b, '}');
}

static void add_status(struct buf *b, const struct db_val *status)
{
	buf_add_text(b, ",\"status\":");
	if (status->kind == DB_NULL)
		buf_add_text(b, "null");
	else
		buf_add_u64(b, status->u);
}

static void add_collection(struct buf *b, const struct db_val *c)
{
	buf_add_text(b, ",\"collection\":");
	if (c->kind == DB_NULL || c->u >= COLLECTION_COUNT)
		buf_add_text(b, "null");
	else
		buf_addf(b, "\"%s\"",
			 collection_info((enum collection)c->u)->name);
}

static void add_report(struct buf *b, const struct db_table *t)
{
	buf_add_byte(b, '{');
	add_time(b, "received_at", cell(t, C_CREATED)->u);
	add_status(b, cell(t, C_STATUS));
	buf_addf(b, ",\"mode\":\"%s\"",
		 batch_mode_name((enum batch_mode)cell(t, C_MODE)->u));
	add_collection(b, cell(t, C_COLLECTION));
	add_id(b, "batch_id", "bat", cell(t, C_BATCH));
	add_id(b, "job_id", "job", cell(t, C_JOB));
	buf_add_byte(b, ',');
	add_time(b, "expires_at", cell(t, C_EXPIRES)->u);
	add_summary(b, t);
	buf_add_text(b, "}\n");
}

bool ep_requests(struct exchange *x, struct fail *f)
{
	struct db_table found;
	struct id id;

	if (!id_parse_correlation(x->segments[SEGMENT_ID], &id))
		return fail_set(f, FAIL_CORRELATION_MALFORMED,
				"the id in the path must be a UUID or a ULID");
	if (!db_query(x->db, STMT_REQKEY_REPORT,
		      DB_ARGS(db_uint(x->who.partner_id),
			      db_uint(REQKEY_WMS_INGEST),
			      db_text(sv_from(id.b, sizeof(id.b)))),
		      x->arena, &found, f))
		return false;
	if (!found.rows || !exchange_covers(x, cell(&found, C_COLLECTION),
					    cell(&found, C_WAREHOUSES)))
		return fail_set(f, FAIL_NOT_FOUND,
				"nothing is committed under this id so far; "
				"only sending the request again tells for "
				"sure");
	add_report(&x->answer.body, &found);
	return true;
}
