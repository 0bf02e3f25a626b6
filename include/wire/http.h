/* An HTTP request as the service sees it, and an answer as it builds it.
 *
 * wire/fcgi fills a struct http_request from the FastCGI environment; tests
 * can fill one by hand. Everything in it is a view into the request's arena.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_HTTP_H
#define WAYBILL_HTTP_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/fail.h"

enum http_method {
	HTTP_GET = 1,
	HTTP_HEAD = 2,
	HTTP_POST = 4,
	HTTP_PUT = 8,
	HTTP_DELETE = 16,
	HTTP_PATCH = 32,
	HTTP_OPTIONS = 64,
	HTTP_OTHER = 128,
};

struct http_header {
	struct sv name; /* lower case, '-' between words: "x-correlation-id" */
	struct sv value;
};

/* At most HTTP_HEADERS_MAX headers and HTTP_PARAMS_MAX query parameters; bytes
 * of path and query together, of one header (name and value) and of all. */
enum {
	HTTP_HEADERS_MAX = 128,
	HTTP_PARAMS_MAX = 32,
	HTTP_URI_BYTES_MAX = 8 * 1024,
	HTTP_HEADER_BYTES_MAX = 8 * 1024,
	HTTP_HEADERS_BYTES_MAX = 32 * 1024,
};

struct http_request {
	enum http_method method;
	struct sv method_text;
	struct sv path;  /* as sent, still percent-encoded, no query */
	struct sv query; /* as sent, without '?' */
	bool admin;      /* came by the loopback listener */
	bool internal;   /* a question of nginx's own */
	struct sv remote_addr;
	struct sv request_id;  /* 32 hex digits, from nginx; may be empty */
	struct sv client_cert; /* PEM, percent-encoded, or empty */
	bool has_length;
	uint64_t content_length; /* of the body as sent */
	struct http_header *headers;
	size_t header_count;
};

struct http_param {
	struct sv name, value; /* decoded */
};

enum http_method http_method_of(struct sv text);
const char *http_method_name(enum http_method m);
const char *http_reason(int status); /* "Not Found" */

/* The header's value; SV_NONE (p == NULL) if absent. `name` lower case.
 * Sent more than once: FAIL_BAD_HEADER. */
MUST_CHECK bool http_header(const struct http_request *r, struct sv name,
			    struct sv *value_r, struct fail *f);

/* Split and decode a query, '+' being a blank as in forms ("%2B" is a plus).
 * A name without '=' has an empty value. Broken encoding, control characters,
 * bad UTF-8, an empty name, a name sent twice (compared decoded) or too many
 * of them: FAIL_BAD_PARAMETER. An empty query has no parameters. */
MUST_CHECK bool http_query(struct arena *a, struct sv query,
			   struct http_param **params_r, size_t *count_r,
			   struct fail *f);

/* Split a path into decoded segments ("/a/b%2Fc" -> "a", "b/c"); "/" has none.
 * Here '+' is a plus. No '/' in front, broken encoding, control characters,
 * bad UTF-8, "." and ".." as they are (encoded they are names), an empty
 * segment (so also a '/' at the end): FAIL_BAD_PATH. At most `max` segments;
 * more: FAIL_NOT_FOUND. */
MUST_CHECK bool http_path(struct arena *a, struct sv path, size_t max,
			  struct sv *segments, size_t *count_r, struct fail *f);

/* "application/json; charset=utf-8" -> "application/json", lower case; empty
 * for an empty or absent one. */
struct sv http_media_type(struct arena *a, struct sv content_type);
/* false: it has a charset parameter, quoted or not, that is not UTF-8. */
bool http_is_utf8(struct sv content_type);

/* The trace id (32 hex digits) of a W3C traceparent; false: not one. Of a
 * version above 00 the four known fields are read and more may follow. */
MUST_CHECK bool http_traceparent(struct sv value, struct sv *trace_id_r);

#endif
