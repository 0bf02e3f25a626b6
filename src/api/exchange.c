/* What handlers ask of an exchange. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/exchange.h"

#include "base/clock.h"
#include "gate/inflight.h"

struct sv exchange_param(const struct exchange *x, const char *name)
{
	for (size_t i = 0; i < x->param_count; i++)
		if (sv_eq(x->params[i].name, sv_of(name)))
			return x->params[i].value;
	return SV_NONE;
}

uint64_t exchange_share(const struct conf *c)
{
	uint64_t share = c->workers * c->partner_share / 100;

	if (!share)
		share = 1;
	return share < c->workers ? share : 0;
}

void exchange_extend(struct exchange *x, uint64_t ms)
{
	x->deadline_ms = clock_mono_ms() + ms;
	inflight_until(x->deadline_ms);
	if (x->extend)
		x->extend(x->extend_arg, ms);
}

bool exchange_covers(const struct exchange *x, const struct db_val *collection,
		     const struct db_val *sender)
{
	return scope_covers(
		x->scope, collection->kind == DB_NULL ? -1 : (int)collection->u,
		sender->kind == DB_NULL ? SV_NONE : sender->bytes);
}
