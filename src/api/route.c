/* The routes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/route.h"

#include "item/collection.h"

#define AUTH_SCOPE_NONE 0

const struct route ROUTES[] = {
#define ROUTE(name, methods, listener, path, scope, body, keyed, params) \
	{#name,                                                          \
	 methods,                                                        \
	 ROUTE_##listener,                                               \
	 path,                                                           \
	 AUTH_SCOPE_##scope,                                             \
	 ROUTE_BODY_##body,                                              \
	 keyed,                                                          \
	 params,                                                         \
	 ep_##name},
#include "api/route.def"
#undef ROUTE
};
const size_t ROUTE_COUNT = ARRAY_LEN(ROUTES);

/* {area}/{collection} stands for a collection there is: another pair is no
 * path of ours, for any method. */
static bool fills_in(struct sv part, const struct sv *segment, size_t left)
{
	enum collection c;

	if (!sv_eq(part, SV("{area}")))
		return part.p[0] == '{' || sv_eq(part, *segment);
	return left > 1 && collection_find(segment[0], segment[1], &c);
}

static bool matches(const char *path, const struct sv *segments, size_t count)
{
	struct sv rest = sv_tail(sv_of(path), 1);

	for (size_t i = 0; i < count; i++) {
		struct sv part = sv_cut(&rest, '/');

		if (part.n == 0 || !fills_in(part, &segments[i], count - i))
			return false;
	}
	return rest.n == 0;
}

const struct route *route_find(const struct sv *segments, size_t count,
			       enum http_method method,
			       enum route_listener side, unsigned *allowed_r)
{
	unsigned wanted = method == HTTP_HEAD ? HTTP_GET : method;

	*allowed_r = 0;
	for (size_t i = 0; i < ROUTE_COUNT; i++) {
		const struct route *r = &ROUTES[i];

		if (!(r->listener & side) || !matches(r->path, segments, count))
			continue;
		if (r->methods & wanted)
			return r;
		*allowed_r |= r->methods;
	}
	return NULL;
}
