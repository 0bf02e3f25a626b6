/* What handlers ask of an exchange. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/exchange.h"

struct sv exchange_param(const struct exchange *x, const char *name)
{
	for (size_t i = 0; i < x->param_count; i++)
		if (sv_eq(x->params[i].name, sv_of(name)))
			return x->params[i].value;
	return SV_NONE;
}
