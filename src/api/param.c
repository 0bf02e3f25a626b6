/* Query parameters and the collection of a path, as values. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/param.h"

#include <inttypes.h>

#include "api/route.h"
#include "base/text.h"

bool param_is_all(struct param_range r)
{
	return r.low != r.high;
}

bool param_find(const struct exchange *x, const char *name, struct sv *value_r)
{
	for (size_t i = 0; i < x->param_count; i++)
		if (sv_eq(x->params[i].name, sv_of(name))) {
			*value_r = x->params[i].value;
			return true;
		}
	return false;
}

bool param_u64(const struct exchange *x, const char *name, uint64_t min,
	       uint64_t max, uint64_t *v, struct fail *f)
{
	struct sv text;

	if (!param_find(x, name, &text) || text_u64(text, min, max, v))
		return true;
	return fail_set(f, FAIL_BAD_PARAMETER,
			"%s must be a number from %" PRIu64 " to %" PRIu64,
			name, min, max);
}

bool param_bool(const struct exchange *x, const char *name, bool *v,
		struct fail *f)
{
	struct sv text;

	if (!param_find(x, name, &text) || text_bool(text, v))
		return true;
	return fail_set(f, FAIL_BAD_PARAMETER, "%s must be true or false",
			name);
}

bool param_collection(const struct exchange *x, struct param_range *range_r,
		      struct fail *f)
{
	enum collection c;
	struct sv text;

	*range_r = PARAM_ALL;
	if (!param_find(x, "collection", &text))
		return true;
	if (!collection_named(text, &c))
		return fail_set(f, FAIL_BAD_PARAMETER,
				"there is no such collection");
	*range_r = (struct param_range){(unsigned)c, (unsigned)c};
	return true;
}

enum collection param_path_collection(const struct exchange *x)
{
	enum collection c;

	if (!collection_find(x->segments[2], x->segments[3], &c))
		bug("route %s was found without a collection", x->route->name);
	return c;
}
