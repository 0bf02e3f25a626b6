/* An HTTP request as the service sees it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http.h"

#include "base/text.h"

/* Of a parameter's name, so much is shown in a message. */
enum { SHOWN_BYTES = 64 };

static const struct method_row {
	enum http_method method;
	const char *name;
} METHODS[] = {
	{HTTP_GET, "GET"},         {HTTP_HEAD, "HEAD"},
	{HTTP_POST, "POST"},       {HTTP_PUT, "PUT"},
	{HTTP_DELETE, "DELETE"},   {HTTP_PATCH, "PATCH"},
	{HTTP_OPTIONS, "OPTIONS"},
};

static const struct reason_row {
	int status;
	const char *reason;
} REASONS[] = {
	{200, "OK"},
	{201, "Created"},
	{202, "Accepted"},
	{204, "No Content"},
	{207, "Multi-Status"},
	{304, "Not Modified"},
	{400, "Bad Request"},
	{401, "Unauthorized"},
	{403, "Forbidden"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{406, "Not Acceptable"},
	{408, "Request Timeout"},
	{409, "Conflict"},
	{410, "Gone"},
	{411, "Length Required"},
	{412, "Precondition Failed"},
	{413, "Content Too Large"},
	{414, "URI Too Long"},
	{415, "Unsupported Media Type"},
	{422, "Unprocessable Content"},
	{429, "Too Many Requests"},
	{431, "Request Header Fields Too Large"},
	{500, "Internal Server Error"},
	{501, "Not Implemented"},
	{502, "Bad Gateway"},
	{503, "Service Unavailable"},
	{504, "Gateway Timeout"},
};

enum http_method http_method_of(struct sv text)
{
	for (size_t i = 0; i < ARRAY_LEN(METHODS); i++)
		if (sv_eq(text, sv_of(METHODS[i].name)))
			return METHODS[i].method;
	return HTTP_OTHER;
}

const char *http_method_name(enum http_method m)
{
	for (size_t i = 0; i < ARRAY_LEN(METHODS); i++)
		if (METHODS[i].method == m)
			return METHODS[i].name;
	return "OTHER";
}

const char *http_reason(int status)
{
	for (size_t i = 0; i < ARRAY_LEN(REASONS); i++)
		if (REASONS[i].status == status)
			return REASONS[i].reason;
	return "Unknown";
}

bool http_header(const struct http_request *r, struct sv name,
		 struct sv *value_r, struct fail *f)
{
	const struct http_header *found = NULL;

	*value_r = SV_NONE;
	for (size_t i = 0; i < r->header_count; i++) {
		if (!sv_eq(r->headers[i].name, name))
			continue;
		if (found)
			return fail_set(f, FAIL_BAD_HEADER,
					"%.*s was sent more than once",
					SV_ARG(name));
		found = &r->headers[i];
	}
	if (found) {
		/* Present and empty is not the same as absent. */
		*value_r = found->value.n ? found->value : SV("");
	}
	return true;
}

static bool has_control(struct sv s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
			return true;
	return false;
}

/* What is wrong with a text, or NULL and the text decoded. */
static const char *decode(struct arena *a, struct sv s, struct sv *out_r)
{
	if (!text_percent_decode(a, s, out_r))
		return "a '%' without two hex digits";
	if (has_control(*out_r))
		return "a control character";
	if (!text_is_utf8(*out_r))
		return "bytes that are not UTF-8";
	return NULL;
}

static struct sv plus_to_blank(struct arena *a, struct sv s)
{
	char *p = arena_dup(a, s);

	for (size_t i = 0; i < s.n; i++)
		if (p[i] == '+')
			p[i] = ' ';
	return sv_from(p, s.n);
}

static struct sv shown(struct sv s)
{
	return sv_from(s.p, s.n > SHOWN_BYTES ? SHOWN_BYTES : s.n);
}

/* Its name is the sender's, and may be anything: not for logs. */
static bool refuse_param(struct fail *f, struct sv name, const char *why)
{
	fail_set(f, FAIL_BAD_PARAMETER, "parameter %.*s %s",
		 SV_ARG(shown(name)), why);
	f->quotes = true;
	return false;
}

static bool read_param(struct arena *a, struct sv piece, struct http_param *p,
		       struct fail *f)
{
	struct sv value = piece, name = sv_cut(&value, '=');
	const char *wrong;

	if (!name.n)
		return fail_set(f, FAIL_BAD_PARAMETER,
				"the query holds a parameter without a name");
	wrong = decode(a, plus_to_blank(a, name), &p->name);
	if (!wrong)
		wrong = decode(a, plus_to_blank(a, value), &p->value);
	return !wrong ||
	       refuse_param(f, name, arena_printf(a, "holds %s", wrong));
}

static bool is_known(const struct http_param *params, size_t n, struct sv name)
{
	for (size_t i = 0; i < n; i++)
		if (sv_eq(params[i].name, name))
			return true;
	return false;
}

bool http_query(struct arena *a, struct sv query, struct http_param **params_r,
		size_t *count_r, struct fail *f)
{
	struct http_param *params;
	size_t n = 0;
	bool more = query.n > 0;

	params = arena_array(a, HTTP_PARAMS_MAX, sizeof(*params));
	while (more) {
		struct http_param p;
		struct sv before = query, piece = sv_cut(&query, '&');

		more = piece.n < before.n; /* an '&' follows */
		if (!read_param(a, piece, &p, f))
			return false;
		if (is_known(params, n, p.name))
			return refuse_param(f, p.name,
					    "was sent more than once");
		if (n == HTTP_PARAMS_MAX)
			return fail_set(f, FAIL_BAD_PARAMETER,
					"more than %d parameters",
					HTTP_PARAMS_MAX);
		params[n++] = p;
	}
	*params_r = params;
	*count_r = n;
	return true;
}

static bool read_segment(struct arena *a, struct sv piece, struct sv *segment_r,
			 struct fail *f)
{
	const char *wrong = decode(a, piece, segment_r);

	if (wrong)
		return fail_set(f, FAIL_BAD_PATH, "the path holds %s", wrong);
	if (!segment_r->n)
		return fail_set(f, FAIL_BAD_PATH,
				"the path holds an empty segment");
	/* Others would resolve them; a source_id may be one, encoded. */
	if (sv_eq(piece, SV(".")) || sv_eq(piece, SV("..")))
		return fail_set(f, FAIL_BAD_PATH,
				"the path holds a \"%.*s\" segment",
				SV_ARG(piece));
	return true;
}

bool http_path(struct arena *a, struct sv path, size_t max, struct sv *segments,
	       size_t *count_r, struct fail *f)
{
	size_t n = 0;
	bool more = path.n > 1;

	if (!sv_starts(path, SV("/")))
		return fail_set(f, FAIL_BAD_PATH,
				"the path does not begin with '/'");
	path = sv_tail(path, 1);
	while (more) {
		struct sv before = path, piece = sv_cut(&path, '/');

		more = piece.n < before.n; /* a '/' follows */
		if (n == max)
			return fail_set(f, FAIL_NOT_FOUND,
					"no route has so many segments");
		if (!read_segment(a, piece, &segments[n], f))
			return false;
		n++;
	}
	*count_r = n;
	return true;
}

struct sv http_media_type(struct arena *a, struct sv content_type)
{
	struct sv rest = content_type, type = sv_trim(sv_cut(&rest, ';'));
	char *p = arena_dup(a, type);

	for (size_t i = 0; i < type.n; i++)
		if (p[i] >= 'A' && p[i] <= 'Z')
			p[i] = (char)(p[i] + ('a' - 'A'));
	return sv_from(p, type.n);
}

static bool eq_any_case(struct sv s, struct sv lower)
{
	for (size_t i = 0; i < s.n && i < lower.n; i++)
		if ((s.p[i] >= 'A' && s.p[i] <= 'Z' ? s.p[i] + ('a' - 'A')
						    : s.p[i]) != lower.p[i])
			return false;
	return s.n == lower.n;
}

bool http_is_utf8(struct sv content_type)
{
	struct sv rest = content_type;

	sv_cut(&rest, ';');
	while (rest.n) {
		struct sv value = sv_cut(&rest, ';');
		struct sv name = sv_trim(sv_cut(&value, '='));

		value = sv_trim(value);
		if (value.n >= 2 && value.p[0] == '"' &&
		    value.p[value.n - 1] == '"')
			value = sv_from(value.p + 1, value.n - 2);
		if (eq_any_case(name, SV("charset")) &&
		    !eq_any_case(value, SV("utf-8")))
			return false;
	}
	return true;
}

static bool is_lower_hex(struct sv s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= '0' && s.p[i] <= '9') ||
		      (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return false;
	return true;
}

static bool is_zero(struct sv s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] != '0')
			return false;
	return true;
}

/* version "-" trace-id "-" parent-id "-" flags: 2, 32, 16 and 2 digits. */
bool http_traceparent(struct sv value, struct sv *trace_id_r)
{
	enum { TRACE_AT = 3, PARENT_AT = 36, FLAGS_AT = 53, WHOLE = 55 };
	struct sv version, trace, parent;

	if (value.n < WHOLE)
		return false;
	version = sv_from(value.p, 2);
	trace = sv_from(value.p + TRACE_AT, 32);
	parent = sv_from(value.p + PARENT_AT, 16);
	if (value.p[TRACE_AT - 1] != '-' || value.p[PARENT_AT - 1] != '-' ||
	    value.p[FLAGS_AT - 1] != '-')
		return false;
	if (!is_lower_hex(version) || !is_lower_hex(trace) ||
	    !is_lower_hex(parent) ||
	    !is_lower_hex(sv_from(value.p + FLAGS_AT, 2)))
		return false;
	if (is_zero(trace) || is_zero(parent) || sv_eq(version, SV("ff")))
		return false;
	if (value.n > WHOLE &&
	    (sv_eq(version, SV("00")) || value.p[WHOLE] != '-'))
		return false;
	*trace_id_r = trace;
	return true;
}
