/* The routes: a table (route.def) and how a path finds its row. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_ROUTE_H
#define WAYBILL_ROUTE_H

#include "api/exchange.h"

enum route_listener {
	ROUTE_PUBLIC = 1,
	ROUTE_ADMIN = 2,
	ROUTE_BOTH = ROUTE_PUBLIC | ROUTE_ADMIN,
	ROUTE_INTERNAL = 4, /* nginx asks, nobody else can */
};

enum route_body {
	ROUTE_BODY_NONE,
	ROUTE_BODY_SYNC,
	ROUTE_BODY_ITEMS,
	ROUTE_BODY_CONTROL,
};

/* A handler fills x->answer, or says why it cannot. */
typedef bool route_handler(struct exchange *x, struct fail *f);

struct route {
	const char *name; /* for logs and counters: "capabilities" */
	unsigned methods;
	enum route_listener listener;
	const char *path;
	unsigned scope; /* enum auth_scope; 0: no credential */
	enum route_body body;
	bool keyed;
	const char *params;
	route_handler *handler;
};

extern const struct route ROUTES[];
extern const size_t ROUTE_COUNT;

/* The row for this path and method on this listener. NULL: none; then
 * *allowed_r holds the methods the path has, 0 if it is unknown. */
const struct route *route_find(const struct sv *segments, size_t count,
			       enum http_method method,
			       enum route_listener side, unsigned *allowed_r);

#define ROUTE(name, methods, listener, path, scope, body, keyed, params) \
	route_handler ep_##name;
#include "api/route.def"
#undef ROUTE

#endif
