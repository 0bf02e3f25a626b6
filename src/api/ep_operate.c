/* /healthz, /readyz and /metrics: what operators and probes ask. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "api/respond.h"
#include "api/route.h"
#include "base/metric.h"
#include "db/migrate.h"
#include "db/stmt.h"

bool ep_healthz(struct exchange *x, struct fail *f)
{
	(void)f;
	buf_add_text(&x->answer.body, "{\"status\":\"ok\"}\n");
	return true;
}

static bool not_ready(struct fail *f, const char *why)
{
	fail_set(f, FAIL_NOT_READY, "%s", why);
	f->retry_after_s = 1;
	return false;
}

/* Ready: the database answers, its schema is this program's, and the two
 * clocks agree (ids and leases count on it). */
bool ep_readyz(struct exchange *x, struct fail *f)
{
	unsigned held, wanted;
	int64_t skew_ms;

	if (!migrate_status(x->db, &held, &wanted, f))
		return false;
	if (held != wanted)
		return not_ready(f, arena_printf(x->arena,
						 "the schema is at version %u, "
						 "this program needs %u",
						 held, wanted));
	skew_ms = db_clock_skew_ms(x->db);
	if ((uint64_t)llabs(skew_ms) > x->conf->clock_skew_max_ms)
		return not_ready(f, arena_printf(x->arena,
						 "the database's clock differs "
						 "by %lld ms",
						 (long long)skew_ms));
	buf_addf(&x->answer.body,
		 "{\"status\":\"ready\",\"schema_version\":%u,"
		 "\"clock_skew_ms\":%lld}\n",
		 held, (long long)skew_ms);
	return true;
}

/* Columns of STMT_JOB_GAUGES. */
enum { G_QUEUED, G_RUNNING, G_LEASED, G_OLDEST };

/* What only the database knows; left out while it is away. */
static void write_gauges(struct exchange *x)
{
	struct buf *b = &x->answer.body;
	struct fail ignored = FAIL_INIT;
	struct db_table t;

	if (!db_query(x->db, STMT_JOB_GAUGES, DB_NO_ARGS, x->arena, &t,
		      &ignored))
		return;
	buf_addf(b,
		 "# HELP waybill_jobs Unfinished jobs, by state.\n"
		 "# TYPE waybill_jobs gauge\n"
		 "waybill_jobs{state=\"QUEUED\"} %" PRIu64 "\n"
		 "waybill_jobs{state=\"RUNNING\"} %" PRIu64 "\n"
		 "# HELP waybill_jobs_leased Jobs that a worker has in hand.\n"
		 "# TYPE waybill_jobs_leased gauge\n"
		 "waybill_jobs_leased %" PRIu64 "\n"
		 "# HELP waybill_job_oldest_seconds Age of the oldest "
		 "unfinished job.\n"
		 "# TYPE waybill_job_oldest_seconds gauge\n"
		 "waybill_job_oldest_seconds %" PRIu64 "\n",
		 db_cell(&t, 0, G_QUEUED)->u, db_cell(&t, 0, G_RUNNING)->u,
		 db_cell(&t, 0, G_LEASED)->u, db_cell(&t, 0, G_OLDEST)->u);
}

bool ep_metrics(struct exchange *x, struct fail *f)
{
	(void)f;
	x->answer.content_type = "text/plain; version=0.0.4";
	metric_write(&x->answer.body);
	write_gauges(x);
	return true;
}
