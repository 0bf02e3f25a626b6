/* Receiving a body: what the route allows, whole, unpacked, bounded.
 *
 * Nothing is read before the headers are found right, and never more than
 * the limit: nginx holds the body, so leaving it unread harms nobody.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/receive.h"

#include <inttypes.h>

#include "api/route.h"
#include "wire/inflate.h"
#include "wire/json.h"

enum { PIECE = 64 * 1024, CONTROL_BYTES_MAX = 1024 };

static bool too_large(uint64_t limit, struct fail *f)
{
	return fail_set(f, FAIL_BODY_TOO_LARGE,
			"the body is larger than %" PRIu64 " bytes", limit);
}

static bool check_type(struct exchange *x, struct fail *f)
{
	struct sv header, type;

	if (!http_header(x->http, SV("content-type"), &header, f))
		return false;
	type = http_media_type(x->arena, header);
	x->is_ndjson = sv_eq(type, SV("application/x-ndjson"));
	if (x->is_ndjson || sv_eq(type, SV("application/json")))
		return true;
	return fail_set(f, FAIL_MEDIA_TYPE,
			"Content-Type must be application/json or "
			"application/x-ndjson");
}

static bool check_encoding(struct exchange *x, bool *gzip_r, struct fail *f)
{
	struct sv header;

	if (!http_header(x->http, SV("content-encoding"), &header, f))
		return false;
	*gzip_r = sv_eq_nocase(header, SV("gzip"));
	if (*gzip_r || header.n == 0 || sv_eq_nocase(header, SV("identity")))
		return true;
	return fail_set(f, FAIL_ENCODING,
			"Content-Encoding must be gzip, or absent");
}

/* One piece into p; 0 at the end. A body that broke off is told from one
 * that ended by the length it promised. */
static bool read_piece(struct exchange *x, char *p, size_t n, uint64_t *sum,
		       size_t *got_r, struct fail *f)
{
	*got_r = fcgi_read(x->fcgi, p, n);
	*sum += *got_r;
	if (*got_r == 0 && x->http->has_length &&
	    *sum != x->http->content_length)
		return fail_set(f, FAIL_BODY_CUT,
				"%" PRIu64 " of %" PRIu64 " bytes came", *sum,
				x->http->content_length);
	return true;
}

static bool read_plain(struct exchange *x, uint64_t limit, struct fail *f)
{
	char piece[PIECE];
	uint64_t sum = 0;
	size_t got;

	do {
		if (!read_piece(x, piece, sizeof(piece), &sum, &got, f))
			return false;
		buf_add(&x->received, sv_from(piece, got));
	} while (got && buf_ok(&x->received));
	return buf_ok(&x->received) || too_large(limit, f);
}

static enum inflate_got unpack_piece(struct exchange *x, struct inflate *z,
				     struct fail *f)
{
	enum inflate_got got;
	char out[PIECE];
	size_t n;

	while ((got = inflate_next(z, out, sizeof(out), &n, f)) == INFLATE_SOME)
		buf_add(&x->received, sv_from(out, n));
	return got;
}

static bool unpack(struct exchange *x, struct inflate *z, struct fail *f)
{
	enum inflate_got state;
	char piece[PIECE];
	uint64_t sum = 0;
	size_t got;

	do {
		if (!read_piece(x, piece, sizeof(piece), &sum, &got, f))
			return false;
		inflate_feed(z, sv_from(piece, got), got == 0);
		state = unpack_piece(x, z, f);
	} while (state == INFLATE_MORE);
	return state == INFLATE_END;
}

static bool read_gzip(struct exchange *x, uint64_t limit, struct fail *f)
{
	struct inflate *z = inflate_new(&(struct inflate_limits){
		.unpacked_max = limit,
		.ratio_max = x->conf->gzip_ratio_max,
		.ratio_floor = x->conf->gzip_bomb_floor_bytes,
		.packed_bytes =
			x->http->has_length ? x->http->content_length : 0,
	});
	bool ok = unpack(x, z, f);

	inflate_free(z);
	return ok;
}

static bool receive_sync(struct exchange *x, struct fail *f)
{
	uint64_t limit = x->conf->sync_body_max_bytes;
	bool gzip;

	if (!check_encoding(x, &gzip, f))
		return false;
	if (x->http->has_length && x->http->content_length > limit)
		return too_large(limit, f);
	buf_init(&x->received, limit);
	if (!(gzip ? read_gzip(x, limit, f) : read_plain(x, limit, f)))
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
	buf_init(&x->received, CONTROL_BYTES_MAX);
	if (!read_plain(x, CONTROL_BYTES_MAX, f))
		return false;
	x->body = buf_sv(&x->received);
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

bool receive_body(struct exchange *x, struct fail *f)
{
	switch (x->route->body) {
	case ROUTE_BODY_NONE:
		return refuse_body(x, f);
	case ROUTE_BODY_SYNC:
		return check_type(x, f) && receive_sync(x, f);
	case ROUTE_BODY_CONTROL:
		return receive_control(x, f);
	}
	bug("route %s has no kind of body", x->route->name);
}

bool receive_anything(struct exchange *x, struct fail *f)
{
	switch (x->route->body) {
	case ROUTE_BODY_NONE:
		return refuse_body(x, f);
	case ROUTE_BODY_SYNC:
		return receive_sync(x, f);
	case ROUTE_BODY_CONTROL:
		return receive_control(x, f);
	}
	bug("route %s has no kind of body", x->route->name);
}
