/* wire/http and wire/prefer: what stands in a request line and its headers.
 *
 * What is read of a query or a path is clean, and written anew it is read the
 * same. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "base/buf.h"
#include "base/text.h"
#include "wire/prefer.h"

enum { ARENA = 64 * 1024, SEGMENTS = 8, WAIT_MAX = 30, BYTES = 1 << 20 };

static struct arena arena;

static bool is_clean(struct sv s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
			return false;
	return text_is_utf8(s);
}

static void add_encoded(struct buf *b, struct sv s)
{
	for (size_t i = 0; i < s.n; i++)
		buf_addf(b, "%%%02X", (unsigned)(unsigned char)s.p[i]);
}

static void check_params(const struct http_param *params, size_t count,
			 struct buf *b)
{
	MUST(count <= HTTP_PARAMS_MAX);
	for (size_t i = 0; i < count; i++) {
		MUST(params[i].name.n > 0);
		MUST(is_clean(params[i].name) && is_clean(params[i].value));
		for (size_t j = 0; j < i; j++)
			MUST(!sv_eq(params[i].name, params[j].name));
		if (i)
			buf_add_byte(b, '&');
		add_encoded(b, params[i].name);
		buf_add_byte(b, '=');
		add_encoded(b, params[i].value);
	}
}

static void try_query(struct sv query)
{
	struct http_param *params, *again;
	size_t count, n;
	struct fail f = FAIL_INIT;
	struct buf b;

	if (!http_query(&arena, query, &params, &count, &f)) {
		MUST(f.code == FAIL_BAD_PARAMETER && f.detail[0]);
		return;
	}
	buf_init(&b, BYTES);
	check_params(params, count, &b);
	MUST(buf_ok(&b));
	MUST(http_query(&arena, buf_sv(&b), &again, &n, &f) && n == count);
	for (size_t i = 0; i < n; i++)
		MUST(sv_eq(params[i].name, again[i].name) &&
		     sv_eq(params[i].value, again[i].value));
	buf_release(&b);
}

static void check_segments(const struct sv *segments, size_t count,
			   struct buf *b)
{
	MUST(count <= SEGMENTS);
	for (size_t i = 0; i < count; i++) {
		MUST(segments[i].n > 0 && is_clean(segments[i]));
		buf_add_byte(b, '/');
		add_encoded(b, segments[i]);
	}
	if (!count)
		buf_add_byte(b, '/');
}

static void try_path(struct sv path)
{
	struct sv segments[SEGMENTS], again[SEGMENTS];
	size_t count, n;
	struct fail f = FAIL_INIT;
	struct buf b;

	if (!http_path(&arena, path, SEGMENTS, segments, &count, &f)) {
		MUST(f.code == FAIL_BAD_PATH || f.code == FAIL_NOT_FOUND);
		return;
	}
	buf_init(&b, BYTES);
	check_segments(segments, count, &b);
	MUST(buf_ok(&b));
	MUST(http_path(&arena, buf_sv(&b), SEGMENTS, again, &n, &f));
	MUST(n == count);
	for (size_t i = 0; i < n; i++)
		MUST(sv_eq(segments[i], again[i]));
	buf_release(&b);
}

static void try_traceparent(struct sv value)
{
	struct sv trace = SV_NONE;
	uint8_t bytes[16], sum = 0;

	if (!http_traceparent(value, &trace))
		return;
	MUST(value.n >= 55 && trace.p == value.p + 3 && trace.n == 32);
	MUST(text_hex_decode(trace, bytes, sizeof(bytes)));
	for (size_t i = 0; i < sizeof(bytes); i++)
		sum |= bytes[i];
	MUST(sum);
	for (size_t i = 0; i < trace.n; i++)
		MUST(trace.p[i] < 'A' || trace.p[i] > 'Z');
}

static void try_media_type(struct sv value)
{
	struct sv type = http_media_type(&arena, value);

	MUST(type.n <= value.n && !sv_has(type, ';'));
	MUST(sv_eq(type, sv_trim(type)));
	for (size_t i = 0; i < type.n; i++)
		MUST(type.p[i] < 'A' || type.p[i] > 'Z');
	MUST(sv_eq(type, http_media_type(&arena, type)));
}

static bool wait_of(struct http_header *headers, size_t count, bool *has_r,
		    uint64_t *seconds_r)
{
	struct http_request r = {.headers = headers, .header_count = count};
	struct fail f = FAIL_INIT;

	*seconds_r = 77;
	if (prefer_wait(&r, WAIT_MAX, has_r, seconds_r, &f)) {
		MUST(*has_r ? *seconds_r <= WAIT_MAX : *seconds_r == 77);
		return true;
	}
	MUST(f.code == FAIL_BAD_HEADER && *seconds_r == 77);
	return false;
}

/* Preferences we do not know make no difference, in front or as a header of
 * their own; nor does a second `wait`. */
static void try_prefer(struct sv value)
{
	struct http_header headers[3] = {
		{SV("prefer"), SV("x=\"a,wait=9\"; y")},
		{SV("prefer"), value},
		{SV("prefer"), SV("wait=3")}};
	struct sv longer = sv_of(
		arena_printf(&arena, "respond-async;a=\"\\\",wait=1\" , %.*s",
			     SV_ARG(value)));
	struct http_header one = {SV("prefer"), longer};
	uint64_t seconds, other;
	bool has, has_other, ok;

	ok = wait_of(&headers[1], 1, &has, &seconds);
	MUST(wait_of(headers, 2, &has_other, &other) == ok);
	MUST(has == has_other && seconds == other);
	if (!sv_has(value, '\0')) {
		MUST(wait_of(&one, 1, &has_other, &other) == ok);
		MUST(has == has_other && seconds == other);
	}
	if (ok) {
		MUST(wait_of(headers, 3, &has_other, &other) && has_other);
		MUST(other == (has ? seconds : 3));
	}
}

static void try_decode(struct sv s)
{
	struct sv out;
	struct buf b;

	if (text_percent_decode(&arena, s, &out))
		MUST(out.n <= s.n && (sv_has(s, '%') || sv_eq(out, s)));
	else
		MUST(sv_has(s, '%'));
	buf_init(&b, BYTES);
	add_encoded(&b, s);
	if (buf_ok(&b))
		MUST(text_percent_decode(&arena, buf_sv(&b), &out) &&
		     sv_eq(out, s));
	buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct sv input = sv_from(data, n), rest = input, path;

	arena_init(&arena, ARENA);
	path = sv_cut(&rest, '?');
	try_path(path);
	try_query(rest);
	try_query(input);
	try_traceparent(input);
	try_media_type(input);
	try_prefer(input);
	try_decode(input);
	(void)http_method_of(input);
	arena_release(&arena);
	return 0;
}
