/* /healthz, /readyz and /metrics: what operators and probes ask. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/respond.h"
#include "api/route.h"
#include "base/metric.h"
#include "db/migrate.h"

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

bool ep_metrics(struct exchange *x, struct fail *f)
{
	(void)f;
	x->answer.content_type = "text/plain; version=0.0.4";
	metric_write(&x->answer.body);
	return true;
}
