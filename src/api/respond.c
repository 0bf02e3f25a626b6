/* Answers: JSON bodies, problem documents, and sending them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/respond.h"

#include <inttypes.h>

#include "api/route.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/metric.h"

void respond_init(struct answer *a, size_t body_max)
{
	*a = (struct answer){.status = 200, .content_type = "application/json"};
	buf_init(&a->headers, EXCHANGE_HEADERS_BYTES);
	buf_init(&a->body, body_max);
}

void respond_release(struct answer *a)
{
	buf_release(&a->headers);
	buf_release(&a->body);
}

void respond_header(struct answer *a, const char *name, struct sv value)
{
	if (sv_has(value, '\r') || sv_has(value, '\n'))
		bug("a line break in header %s", name);
	buf_addf(&a->headers, "%s: %.*s\r\n", name, SV_ARG(value));
}

static void number_header(struct answer *a, const char *name, uint64_t n)
{
	buf_addf(&a->headers, "%s: %" PRIu64 "\r\n", name, n);
}

/* The IETF's fields are lists: one line a policy. */
void respond_quota(struct answer *a, const struct quota_state *s)
{
	number_header(a, "X-Quota-Items-Limit", s->limit);
	number_header(a, "X-Quota-Items-Remaining", s->remaining);
	buf_addf(&a->headers,
		 "RateLimit-Policy: \"items\";q=%" PRIu64 ";w=86400\r\n",
		 s->limit);
	buf_addf(&a->headers,
		 "RateLimit: \"items\";r=%" PRIu64 ";t=%" PRIu64 "\r\n",
		 s->remaining, s->reset_s);
}

static void add_allow(struct exchange *x)
{
	static const enum http_method ALL[] = {HTTP_GET, HTTP_HEAD, HTTP_POST};
	unsigned allowed = x->allowed;
	struct buf b;

	if (allowed & HTTP_GET)
		allowed |= HTTP_HEAD;
	buf_init(&b, 128);
	for (size_t i = 0; i < ARRAY_LEN(ALL); i++)
		if (allowed & ALL[i])
			buf_addf(&b, "%s%s", b.n ? ", " : "",
				 http_method_name(ALL[i]));
	respond_header(&x->answer, "Allow", buf_sv(&b));
	buf_release(&b);
}

static void problem_headers(struct exchange *x, const struct fail *f)
{
	char text[24];

	if (f->code == FAIL_UNAUTHENTICATED)
		respond_header(&x->answer, "WWW-Authenticate",
			       SV("Bearer realm=\"waybill\""));
	if (f->code == FAIL_METHOD)
		add_allow(x);
	/* nginx has a page for it, but sees no body of what it asked for. */
	if (x->route && x->route->listener == ROUTE_INTERNAL)
		respond_header(&x->answer, "X-Problem",
			       sv_of(fail_info(f->code)->slug));
	if (f->retry_after_s) {
		snprintf(text, sizeof(text), "%" PRIu64, f->retry_after_s);
		respond_header(&x->answer, "Retry-After", sv_of(text));
	}
}

/* What a correlation id was used for before. */
static void add_first_use(const struct exchange *x, struct buf *b)
{
	char when[CLOCK_TEXT];

	if (!x->first_use.path.p)
		return;
	clock_rfc3339(x->first_use.wall_ms, when);
	buf_add_text(b, ",\"first_method\":");
	buf_add_json(b, x->first_use.method);
	buf_add_text(b, ",\"first_path\":");
	buf_add_json(b, x->first_use.path);
	buf_addf(b, ",\"first_used_at\":\"%s\"", when);
}

static void problem_body(struct exchange *x, const struct fail *f)
{
	const struct fail_info *info = fail_info(f->code);
	struct buf *b = &x->answer.body;

	buf_addf(b, "{\"type\":\"/docs/errors.md#%s\",\"title\":\"%s\"",
		 info->slug, info->title);
	buf_addf(b, ",\"status\":%d,\"detail\":", info->status);
	buf_add_json(b, sv_of(f->detail));
	buf_add_text(b, ",\"instance\":");
	buf_add_json(b, x->http->path);
	buf_add_text(b, ",\"trace_id\":");
	buf_add_json(b, x->trace_id);
	if (f->has_pointer) {
		buf_add_text(b, ",\"pointer\":");
		buf_add_json(b, sv_of(f->pointer));
	}
	if (f->line)
		buf_addf(b, ",\"line\":%" PRIu64, f->line);
	if (f->code == FAIL_CORRELATION_REUSED)
		add_first_use(x, b);
	buf_add_byte(b, '}');
}

void respond_problem(struct exchange *x, const struct fail *f)
{
	struct answer *a = &x->answer;

	if (f->code == FAIL_NONE)
		bug("a problem without a failure");
	buf_reset(&a->headers);
	buf_reset(&a->body);
	a->stream = NULL;
	a->status = fail_info(f->code)->status;
	a->content_type = "application/problem+json";
	problem_headers(x, f);
	problem_body(x, f);
	metric_add(METRIC_PROBLEMS, 1, fail_info(f->code)->slug);
}

/* Of a partner that has a rate. The fields without X- are those of
 * draft-ietf-httpapi-ratelimit-headers: the policy is the burst and the whole
 * seconds in which it comes back, `t` what Retry-After says when there is
 * nothing left. */
static void add_rate(const struct limit_state *r, struct buf *b)
{
	if (!r->has)
		return;
	buf_addf(b,
		 "X-RateLimit-Limit: %" PRIu32 "\r\n"
		 "X-RateLimit-Remaining: %" PRIu32 "\r\n"
		 "X-RateLimit-Reset: %" PRIu64 "\r\n",
		 r->burst, r->remaining, r->reset_s);
	buf_addf(b,
		 "RateLimit-Policy: \"rate\";q=%" PRIu32 ";w=%" PRIu32 "\r\n"
		 "RateLimit: \"rate\";r=%" PRIu32 ";t=%" PRIu64 "\r\n",
		 r->burst, (r->burst + r->rate_per_s - 1) / r->rate_per_s,
		 r->remaining, r->remaining ? r->reset_s : r->retry_after_s);
}

static void head(const struct exchange *x, struct buf *b)
{
	const struct answer *a = &x->answer;

	buf_addf(b, "Status: %d %s\r\n", a->status, http_reason(a->status));
	buf_addf(b, "Content-Type: %s\r\n", a->content_type);
	if (!a->stream)
		buf_addf(b, "Content-Length: %zu\r\n", a->body.n);
	buf_addf(b, "X-Request-Id: %.*s\r\n", SV_ARG(x->request_id));
	if (x->correlation_text.n)
		buf_addf(b, "X-Correlation-Id: %.*s\r\n",
			 SV_ARG(x->correlation_text));
	add_rate(&x->rate, b);
	buf_add_text(b, "Cache-Control: no-store\r\n");
	buf_add(b, buf_sv(&a->headers));
	buf_add_text(b, "\r\n");
}

/* A stream may take longer than a request, as long as it gets on: nginx takes
 * in what a slow caller leaves. */
static bool send_stream(struct exchange *x, struct fail *f)
{
	uint64_t end_ms = x->started_us / 1000 + x->conf->intake_deadline_ms;
	struct answer *a = &x->answer;

	do {
		if (clock_mono_ms() > end_ms)
			return fail_set(f, FAIL_REQUEST_TIMEOUT,
					"the answer took too long");
		exchange_extend(x, x->conf->request_deadline_ms);
		buf_reset(&a->body);
		if (!a->stream(x, a->stream_arg, &a->body, f))
			return false;
		if (!buf_ok(&a->body))
			bug("a piece of a stream is too large");
		if (a->body.n && !fcgi_write(x->fcgi, buf_sv(&a->body)))
			return false;
		fault_at("respond.streamed");
	} while (a->body.n);
	return true;
}

static bool send_body(struct exchange *x, struct fail *f)
{
	if (x->http->method == HTTP_HEAD)
		return true;
	if (!x->answer.stream)
		return fcgi_write(x->fcgi, buf_sv(&x->answer.body));
	if (send_stream(x, f))
		return true;
	fcgi_abort(x->fcgi);
	return false;
}

bool respond_send(struct exchange *x, struct fail *f)
{
	struct answer *a = &x->answer;
	struct buf b;
	bool ok;

	if (!buf_ok(&a->headers) || !buf_ok(&a->body))
		bug("an answer of %s is too large for its buffer",
		    x->route ? "a route" : "the pipeline");
	buf_init(&b, 2 * EXCHANGE_HEADERS_BYTES);
	head(x, &b);
	ok = fcgi_write(x->fcgi, buf_sv(&b)) && send_body(x, f);
	buf_release(&b);
	return ok;
}
