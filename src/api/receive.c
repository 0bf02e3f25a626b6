/* Receiving a body: what the route allows, whole or opened for reading. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/receive.h"

#include "api/body.h"
#include "api/route.h"
#include "wire/json.h"

enum { CONTROL_BYTES_MAX = 1024 };

static bool check_type(struct exchange *x, struct fail *f)
{
	struct sv header, type;

	if (!http_header(x->http, SV("content-type"), &header, f))
		return false;
	if (!http_is_utf8(header))
		return fail_set(f, FAIL_MEDIA_TYPE,
				"the charset of Content-Type must be utf-8, "
				"or be left out");
	type = http_media_type(x->arena, header);
	x->is_ndjson = sv_eq(type, SV("application/x-ndjson"));
	if (x->is_ndjson || sv_eq(type, SV("application/json")))
		return true;
	return fail_set(f, FAIL_MEDIA_TYPE,
			"Content-Type must be application/json or "
			"application/x-ndjson");
}

bool receive_more(struct exchange *x, uint64_t max, bool *whole_r,
		  struct fail *f)
{
	enum body_got got = BODY_PIECE;
	struct sv piece;

	while (x->received.n <= max && got == BODY_PIECE)
		if ((got = body_next(x, &piece, f)) == BODY_PIECE)
			buf_add(&x->received, piece);
	*whole_r = got == BODY_END;
	return got != BODY_FAIL;
}

static bool receive_all(struct exchange *x, uint64_t limit, struct fail *f)
{
	bool whole;

	buf_init(&x->received, limit);
	if (!body_open(x, limit, f) || !receive_more(x, limit, &whole, f))
		return false;
	x->body = buf_sv(&x->received);
	return true;
}

static bool is_empty_object(struct exchange *x)
{
	struct fail ignored = FAIL_INIT;
	struct json_limits limits = {.depth_max = 1, .names_max = 1};
	struct json_tape tape;

	return json_read(x->arena, x->body, &limits, &tape, &ignored) &&
	       json_kind(&tape, 0) == JSON_OBJECT && !json_count(&tape, 0);
}

/* Everything a control request says is in its path. */
static bool receive_control(struct exchange *x, struct fail *f)
{
	if (!receive_all(x, CONTROL_BYTES_MAX, f))
		return false;
	if (!x->body.n || is_empty_object(x))
		return true;
	return fail_set(f, FAIL_BODY_NOT_ALLOWED,
			"this route takes an empty body, or {}");
}

/* A GET with a body is a mistake worth telling: it would be ignored. */
static bool refuse_body(struct exchange *x, struct fail *f)
{
	char byte;

	if (x->http->has_length ? x->http->content_length == 0
				: fcgi_read(x->fcgi, &byte, 1) == 0)
		return true;
	return fail_set(f, FAIL_BODY_NOT_ALLOWED, "this route takes no body");
}

/* The handler reads it. */
static bool open_items(struct exchange *x, struct fail *f)
{
	buf_init(&x->received, SIZE_MAX);
	return check_type(x, f) &&
	       body_open(x, x->conf->bulk_body_max_bytes, f);
}

bool receive_body(struct exchange *x, struct fail *f)
{
	switch (x->route->body) {
	case ROUTE_BODY_NONE:
		return refuse_body(x, f);
	case ROUTE_BODY_SYNC:
		return check_type(x, f) &&
		       receive_all(x, x->conf->sync_body_max_bytes, f);
	case ROUTE_BODY_ITEMS:
		return open_items(x, f);
	case ROUTE_BODY_CONTROL:
		return receive_control(x, f);
	}
	bug("route %s has no kind of body", x->route->name);
}

bool receive_anything(struct exchange *x, struct fail *f)
{
	uint64_t limit = 0;

	switch (x->route->body) {
	case ROUTE_BODY_NONE:
		break;
	case ROUTE_BODY_SYNC:
		limit = x->conf->sync_body_max_bytes;
		break;
	case ROUTE_BODY_ITEMS:
		limit = x->conf->bulk_body_max_bytes;
		break;
	case ROUTE_BODY_CONTROL:
		limit = CONTROL_BYTES_MAX;
		break;
	}
	return (x->stream || body_open(x, limit, f)) && body_skip(x, f);
}
