/* wire/http: headers, queries, paths, media types, trace ids. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/arena.h"
#include "wire/http.h"

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

static struct arena arena;
static struct fail fail;

static void begin(void)
{
	arena_init(&arena, 4096);
	fail = FAIL_INIT;
}

/* "a|b" for segments a and b; "!" and the fail's name if refused. */
static const char *path_as_text(struct sv path, size_t max)
{
	struct sv segments[16];
	size_t n = 0;
	const char *text = "";

	fail = FAIL_INIT;
	if (!http_path(&arena, path, max, segments, &n, &fail))
		return arena_printf(&arena, "!%s", fail_info(fail.code)->name);
	for (size_t i = 0; i < n; i++)
		text = arena_printf(&arena, "%s%s%.*s", text, i ? "|" : "",
				    SV_ARG(segments[i]));
	return text;
}

/* "a=1|b=2", or "!" and the fail's name. */
static const char *query_as_text(struct sv query)
{
	struct http_param *params = NULL;
	size_t n = 0;
	const char *text = "";

	fail = FAIL_INIT;
	if (!http_query(&arena, query, &params, &n, &fail))
		return arena_printf(&arena, "!%s", fail_info(fail.code)->name);
	for (size_t i = 0; i < n; i++)
		text = arena_printf(&arena, "%s%s%.*s=%.*s", text, i ? "|" : "",
				    SV_ARG(params[i].name),
				    SV_ARG(params[i].value));
	return text;
}

static void a_path_is_split_before_it_is_decoded(void)
{
	const struct {
		struct sv path;
		const char *want;
	} ROWS[] = {
		{SV("/"), ""},
		{SV("/a"), "a"},
		{SV("/a/b"), "a|b"},
		{SV("/a/b%2Fc"), "a|b/c"},
		{SV("/a/b%2fc/d"), "a|b/c|d"},
		{SV("/%41%20b"), "A b"},
		{SV("/a+b"), "a+b"},
		{SV("/%C3%A9"), "\xc3\xa9"},
		{SV("/\xc3\xa9"), "\xc3\xa9"},
		{SV("/..."), "..."},
		{SV("/%2e%2E"), ".."},
		{SV("/a/%2e"), "a|."},
		{SV("/%252F"), "%2F"},
	};

	begin();
	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
		WANT_SV(sv_of(path_as_text(ROWS[i].path, 16)),
			sv_of(ROWS[i].want));
	arena_release(&arena);
}

static void a_path_that_could_be_read_two_ways_is_refused(void)
{
	const struct sv ROWS[] = {
		SV(""),        SV("a"),          SV("*"),     SV("//"),
		SV("/a/"),     SV("/a//b"),      SV("/."),    SV("/a/.."),
		SV("/a/../b"), SV("/a%"),        SV("/a%4"),  SV("/a%4g"),
		SV("/a%00b"),  SV("/a%0Ab"),     SV("/a%1f"), SV("/a%7f"),
		SV("/a\x01"),  SV("/a\0b"),      SV("/%ff"),  SV("/%C3"),
		SV("/%C0%AF"), SV("/%ED%A0%80"), SV("/\xff"), SV("/%C3/%A9x"),
	};

	begin();
	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
		WANT_SV(sv_of(path_as_text(ROWS[i], 16)), SV("!BAD_PATH"));
	arena_release(&arena);
}

static void a_path_has_at_most_so_many_segments(void)
{
	begin();
	WANT_SV(sv_of(path_as_text(SV("/a/b/c"), 3)), SV("a|b|c"));
	WANT_SV(sv_of(path_as_text(SV("/a/b/c/d"), 3)), SV("!NOT_FOUND"));
	WANT_SV(sv_of(path_as_text(SV("/"), 0)), SV(""));
	WANT_SV(sv_of(path_as_text(SV("/a"), 0)), SV("!NOT_FOUND"));
	arena_release(&arena);
}

static void a_query_is_split_before_it_is_decoded(void)
{
	const struct {
		struct sv query;
		const char *want;
	} ROWS[] = {
		{SV(""), ""},
		{SV("a=1"), "a=1"},
		{SV("a=1&b=2"), "a=1|b=2"},
		{SV("a"), "a="},
		{SV("a="), "a="},
		{SV("a=b=c"), "a=b=c"},
		{SV("a=1%262"), "a=1&2"},
		{SV("a%3D=1"), "a==1"},
		{SV("a=x+y"), "a=x y"},
		{SV("a+b=1"), "a b=1"},
		{SV("a=x%2By"), "a=x+y"},
		{SV("a=%C3%A9"), "a=\xc3\xa9"},
		{SV("a=1;b=2"), "a=1;b=2"},
		{SV("a=1&A=2"), "a=1|A=2"},
	};

	begin();
	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
		WANT_SV(sv_of(query_as_text(ROWS[i].query)),
			sv_of(ROWS[i].want));
	arena_release(&arena);
}

static void a_query_that_could_be_read_two_ways_is_refused(void)
{
	const struct sv ROWS[] = {
		SV("&"),        SV("a=1&"),  SV("&a=1"),    SV("a=1&&b=2"),
		SV("="),        SV("=1"),    SV("a=1&a=2"), SV("a=1&%61=2"),
		SV("a=%"),      SV("a=%4"),  SV("%zz=1"),   SV("a=%00"),
		SV("a=%0d%0a"), SV("a=%7F"), SV("a=\x1f"),  SV("a=%FF"),
		SV("%C3=1"),    SV("a=\0b"),
	};

	begin();
	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
		WANT_SV(sv_of(query_as_text(ROWS[i])), SV("!BAD_PARAMETER"));
	arena_release(&arena);
}

static void a_refused_parameter_is_named(void)
{
	struct http_param *params;
	size_t n;

	begin();
	WANT(!http_query(&arena, SV("limit=1&limit=2"), &params, &n, &fail));
	WANT(strstr(fail.detail, "limit") != NULL);
	WANT(!http_query(&arena, SV("after=%zz"), &params, &n, &fail));
	WANT(strstr(fail.detail, "after") != NULL);
	arena_release(&arena);
}

static struct sv query_of(int params)
{
	const char *text = "";

	for (int i = 0; i < params; i++)
		text = arena_printf(&arena, "%s%sp%d", text, i ? "&" : "", i);
	return sv_of(text);
}

static void a_query_has_at_most_so_many_parameters(void)
{
	struct http_param *params;
	size_t n = 0;

	begin();
	WANT(http_query(&arena, query_of(HTTP_PARAMS_MAX), &params, &n, &fail));
	WANT_U64(n, HTTP_PARAMS_MAX);
	WANT(!http_query(&arena, query_of(HTTP_PARAMS_MAX + 1), &params, &n,
			 &fail));
	WANT_FAIL(&fail, FAIL_BAD_PARAMETER);
	arena_release(&arena);
}

/* Four headers, the second and the last of one name. */
static struct http_request some_request(void)
{
	struct http_header *h = arena_array(&arena, 4, sizeof(*h));

	h[0] = (struct http_header){SV("host"), SV("h")};
	h[1] = (struct http_header){SV("x-correlation-id"), SV("one")};
	h[2] = (struct http_header){SV("empty"), SV_NONE};
	h[3] = (struct http_header){SV("x-correlation-id"), SV("two")};
	return (struct http_request){.headers = h, .header_count = 4};
}

static void a_header_is_found_or_absent(void)
{
	struct http_request r;
	struct sv value = SV("x");

	begin();
	r = some_request();
	WANT(http_header(&r, SV("host"), &value, &fail));
	WANT_SV(value, SV("h"));
	WANT(http_header(&r, SV("empty"), &value, &fail));
	WANT(value.p != NULL && value.n == 0);
	WANT(http_header(&r, SV("hos"), &value, &fail));
	WANT(value.p == NULL);
	arena_release(&arena);
}

static void a_doubled_header_is_refused_and_named(void)
{
	struct http_request r;
	struct sv value;

	begin();
	r = some_request();
	WANT(!http_header(&r, SV("x-correlation-id"), &value, &fail));
	WANT_FAIL(&fail, FAIL_BAD_HEADER);
	WANT(strstr(fail.detail, "x-correlation-id") != NULL);
	r.header_count = 3;
	WANT(http_header(&r, SV("x-correlation-id"), &value, &fail));
	WANT_SV(value, SV("one"));
	arena_release(&arena);
}

static void a_media_type_is_without_parameters_and_lower_case(void)
{
	begin();
	WANT_SV(http_media_type(&arena, SV("Application/JSON; charset=utf-8")),
		SV("application/json"));
	WANT_SV(http_media_type(&arena, SV(" text/csv\t;x")), SV("text/csv"));
	WANT_SV(http_media_type(&arena, SV("text/csv")), SV("text/csv"));
	WANT_SV(http_media_type(&arena, SV(";charset=utf-8")), SV(""));
	WANT_SV(http_media_type(&arena, SV_NONE), SV(""));
	arena_release(&arena);
}

static void a_charset_is_utf8_or_absent(void)
{
	WANT(http_is_utf8(SV_NONE));
	WANT(http_is_utf8(SV("application/json")));
	WANT(http_is_utf8(SV("application/json;;x; y=z")));
	WANT(http_is_utf8(SV("application/json; ChArSet = \"Utf-8\" ;a=b")));
	WANT(!http_is_utf8(SV("application/json;charset=latin1")));
	WANT(!http_is_utf8(SV("application/json;a=b;charset=\"utf-16\"")));
	WANT(!http_is_utf8(SV("application/json;charset=\"utf-8")));
	WANT(!http_is_utf8(SV("application/json;charset")));
}

static void a_traceparent_gives_its_trace_id(void)
{
	const struct sv ROWS[] = {
		SV("00-" TRACE "-" PARENT "-01"),
		SV("00-" TRACE "-" PARENT "-ff"),
		SV("01-" TRACE "-" PARENT "-01"),
		SV("cc-" TRACE "-" PARENT "-01-what-the-future-brings"),
		SV("01-" TRACE "-" PARENT "-01-"),
	};
	struct sv id;

	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
		id = SV_NONE;
		WANT(http_traceparent(ROWS[i], &id));
		WANT_SV(id, SV(TRACE));
	}
}

static void what_is_no_traceparent_is_refused(void)
{
	const struct sv ROWS[] = {
		SV(""),
		SV("00-" TRACE "-" PARENT "-0"),
		SV("00-" TRACE "-" PARENT "-01-more"),
		SV("00-" TRACE "-" PARENT "-011"),
		SV("01-" TRACE "-" PARENT "-011"),
		SV("ff-" TRACE "-" PARENT "-01"),
		SV("0g-" TRACE "-" PARENT "-01"),
		SV("00-" TRACE "-" PARENT "-0g"),
		SV("00_" TRACE "-" PARENT "-01"),
		SV("00-" TRACE "_" PARENT "-01"),
		SV("00-" TRACE "-" PARENT "_01"),
		SV("00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01"),
		SV("00-00000000000000000000000000000000-" PARENT "-01"),
		SV("00-" TRACE "-0000000000000000-01"),
		SV("00-" TRACE "-B7AD6B7169203331-01"),
	};
	struct sv id = SV("untouched");

	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
		WANT(!http_traceparent(ROWS[i], &id));
	WANT_SV(id, SV("untouched"));
}

static void methods_are_known_by_their_exact_name(void)
{
	WANT(http_method_of(SV("POST")) == HTTP_POST);
	WANT(http_method_of(SV("post")) == HTTP_OTHER);
	WANT(http_method_of(SV("")) == HTTP_OTHER);
	WANT(http_method_of(SV("POSTS")) == HTTP_OTHER);
	for (unsigned m = HTTP_GET; m < HTTP_OTHER; m <<= 1)
		WANT(http_method_of(sv_of(http_method_name(
			     (enum http_method)m))) == (enum http_method)m);
}

static void every_status_of_a_failure_has_a_reason(void)
{
	for (unsigned c = FAIL_NONE + 1; c < FAIL_COUNT; c++)
		WANT(strcmp(http_reason(fail_info((enum fail_code)c)->status),
			    "Unknown") != 0);
	WANT_SV(sv_of(http_reason(404)), SV("Not Found"));
	WANT_SV(sv_of(http_reason(299)), SV("Unknown"));
}

void suite_http(void)
{
	ADD(a_path_is_split_before_it_is_decoded);
	ADD(a_path_that_could_be_read_two_ways_is_refused);
	ADD(a_path_has_at_most_so_many_segments);
	ADD(a_query_is_split_before_it_is_decoded);
	ADD(a_query_that_could_be_read_two_ways_is_refused);
	ADD(a_refused_parameter_is_named);
	ADD(a_query_has_at_most_so_many_parameters);
	ADD(a_header_is_found_or_absent);
	ADD(a_doubled_header_is_refused_and_named);
	ADD(a_media_type_is_without_parameters_and_lower_case);
	ADD(a_charset_is_utf8_or_absent);
	ADD(a_traceparent_gives_its_trace_id);
	ADD(what_is_no_traceparent_is_refused);
	ADD(methods_are_known_by_their_exact_name);
	ADD(every_status_of_a_failure_has_a_reason);
}
