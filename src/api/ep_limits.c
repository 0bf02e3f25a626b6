/* GET /wms-ingest/v1/limits: what this partner may do, and what is left of it
 * now, this request counted. null: no limit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "api/respond.h"
#include "api/route.h"
#include "base/clock.h"

static void add_number(struct buf *b, const char *name, bool has, uint64_t n)
{
	buf_addf(b, "\"%s\":", name);
	if (has)
		buf_add_u64(b, n);
	else
		buf_add_text(b, "null");
}

static void add_rate(struct buf *b, const struct limit_state *r)
{
	buf_add_text(b, "\"rate\":{");
	add_number(b, "requests_per_second", r->has, r->rate_per_s);
	buf_add_byte(b, ',');
	add_number(b, "burst", r->has, r->burst);
	buf_add_byte(b, ',');
	add_number(b, "remaining", r->has, r->remaining);
	buf_add_byte(b, ',');
	add_number(b, "reset_seconds", r->has, r->reset_s);
	buf_add_byte(b, '}');
}

/* As it stands now: the headers say the same. */
static bool look_at_quota(struct exchange *x, struct fail *f)
{
	if (!x->who.has_quota)
		return true;
	x->has_quota_state =
		quota_look(x->db, x->who.partner_id, x->who.quota_items,
			   x->arena, &x->quota_state, f);
	return x->has_quota_state;
}

static void add_quota(struct buf *b, const struct exchange *x)
{
	const struct quota_state *q = &x->quota_state;
	char resets_at[CLOCK_TEXT];

	buf_add_text(b, "\"quota\":{");
	add_number(b, "items_per_day", x->who.has_quota, x->who.quota_items);
	buf_add_byte(b, ',');
	add_number(b, "used", x->has_quota_state, q->used);
	buf_add_byte(b, ',');
	add_number(b, "remaining", x->has_quota_state, q->remaining);
	buf_add_text(b, ",\"resets_at\":");
	if (x->has_quota_state) {
		clock_rfc3339(q->reset_wall_ms, resets_at);
		buf_add_json(b, sv_of(resets_at));
	} else {
		buf_add_text(b, "null");
	}
	buf_add_byte(b, '}');
}

static void add_concurrency(struct buf *b, const struct exchange *x)
{
	uint64_t most = exchange_share(x->conf);

	buf_add_text(b, "\"concurrency\":{");
	add_number(b, "slow_requests_max", most != 0, most);
	buf_addf(b,
		 ",\"slow_requests\":%" PRIu64 ",\"slow_after_ms\":%" PRIu64
		 "}",
		 x->slow_requests, x->conf->partner_slow_ms);
}

bool ep_limits(struct exchange *x, struct fail *f)
{
	struct buf *b = &x->answer.body;

	if (!look_at_quota(x, f))
		return false;
	buf_add_byte(b, '{');
	add_rate(b, &x->rate);
	buf_add_byte(b, ',');
	add_quota(b, x);
	buf_add_byte(b, ',');
	add_concurrency(b, x);
	buf_add_text(b, "}\n");
	return true;
}
