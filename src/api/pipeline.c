/* The way of a request: a list of steps, each one function.
 *
 * Guarantees:
 * 1. The order of checks is the contract's: route and method, credential and
 *    scope, rate and share of the workers, key syntax, the replay of a kept
 *    answer, then preferences, parameters, content type, encoding, body.
 * 2. Whatever a step finds wrong becomes one problem document; the steps
 *    after it do not run, and nothing was changed.
 * 3. Every request gets one answer and one log line, which holds neither a
 *    credential nor a payload.
 * 4. Every request with a valid credential counts once against the partner's
 *    rate, one that is refused for its scope, too; one that is refused by the
 *    rate does not, and nginx's question before a large body only looks.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pipeline.h"

#include "api/body.h"
#include "api/keyed.h"
#include "api/receive.h"
#include "api/respond.h"
#include "api/route.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/metric.h"
#include "gate/inflight.h"
#include "wire/prefer.h"

enum { ANSWER_BYTES_MAX = 64 << 20, PREFER_WAIT_MAX_S = 30 };

struct service {
	const struct conf *conf;
	struct db *db;
	struct auth *auth;
	void (*extend)(void *arg, uint64_t ms);
	void *extend_arg;
};

bool service_new(struct service **s_r, const struct conf *c, struct fail *f)
{
	struct service *s = calloc(1, sizeof(*s));

	if (!s)
		bug("out of memory for the service");
	s->conf = c;
	if (!auth_new(&s->auth, c, f) || !db_new(&s->db, c, DB_SERVICE, f)) {
		service_free(s);
		return false;
	}
	*s_r = s;
	return true;
}

void service_free(struct service *s)
{
	if (!s)
		return;
	auth_free(s->auth);
	if (s->db)
		db_free(s->db);
	free(s);
}

void service_on_extend(struct service *s,
		       void (*extend)(void *arg, uint64_t ms), void *arg)
{
	s->extend = extend;
	s->extend_arg = arg;
}

static struct sv new_request_id(struct arena *a)
{
	char hex[ID_HEX];

	id_hex(id_new(clock_wall_ms()), hex);
	return arena_sv(a, sv_of(hex));
}

/* Idempotency-Key may be quoted, as the IETF draft has it. */
static struct sv unquoted(struct sv s)
{
	if (s.n >= 2 && s.p[0] == '"' && s.p[s.n - 1] == '"')
		return sv_from(s.p + 1, s.n - 2);
	return s;
}

/* The correlation id is given back with every answer, also with a refusal by
 * a step before read_correlation(), which alone decides about it. */
static struct sv correlation_to_return(struct exchange *x)
{
	struct fail ignored = FAIL_INIT;
	struct sv text;
	struct id id;

	if (!http_header(x->http, SV("x-correlation-id"), &text, &ignored))
		return SV_NONE;
	if (!text.p) {
		if (!http_header(x->http, SV("idempotency-key"), &text,
				 &ignored))
			return SV_NONE;
		text = unquoted(text);
	}
	return id_parse_correlation(text, &id) ? text : SV_NONE;
}

/* Names of this attempt: nginx's request id where it gave one, and the
 * caller's trace. A bad traceparent is not a fault of the request: W3C says
 * to go on as if there were none. */
static bool identify(struct exchange *x, struct fail *f)
{
	struct fail ignored = FAIL_INIT;
	struct id id;
	struct sv header;

	(void)f;
	x->request_id = x->http->request_id;
	if (!id_parse_hex(x->request_id, &id))
		x->request_id = new_request_id(x->arena);
	x->trace_id = x->request_id;
	if (http_header(x->http, SV("traceparent"), &header, &ignored) &&
	    header.p && !http_traceparent(header, &x->trace_id))
		x->trace_id = x->request_id;
	x->correlation_text = correlation_to_return(x);
	return true;
}

static enum route_listener listener(const struct http_request *r)
{
	if (r->internal)
		return ROUTE_INTERNAL;
	return r->admin ? ROUTE_ADMIN : ROUTE_PUBLIC;
}

static bool find_route(struct exchange *x, struct fail *f)
{
	if (!http_path(x->arena, x->http->path, EXCHANGE_SEGMENTS_MAX,
		       x->segments, &x->segment_count, f))
		return false;
	x->route = route_find(x->segments, x->segment_count, x->http->method,
			      listener(x->http), &x->allowed);
	if (x->route)
		return true;
	if (x->allowed) {
		fail_set(f, FAIL_METHOD, "%.*s is not a method of this path",
			 SV_ARG(x->http->method_text));
		f->quotes = true;
		return false;
	}
	return fail_set(f, FAIL_NOT_FOUND, "there is no such path");
}

static bool authenticate(struct exchange *x, struct fail *f)
{
	struct auth_offer offer = {.client_cert = x->http->client_cert};

	if (!x->route->scope)
		return true;
	if (!http_header(x->http, SV("authorization"), &offer.authorization, f))
		return false;
	if (auth_check(x->auth, x->db, &offer, &x->who, f) != AUTH_OK)
		return false;
	x->has_principal = true;
	x->scope = scope_read(x->arena, x->who.warehouses);
	return true;
}

/* Guarantee 4. check_rate() tells it, after the scope. */
static bool take_rate(struct exchange *x, struct fail *f)
{
	struct limit_rule rule = {.partner_id = x->who.partner_id,
				  .rate_per_s = x->who.rate_per_s,
				  .burst = x->who.burst,
				  .seen_ms = x->who.limits_seen_ms};

	(void)f;
	if (!x->has_principal)
		return true;
	if (x->route->listener == ROUTE_INTERNAL)
		limit_look(&rule, &x->rate);
	else
		limit_take(&rule, &x->rate);
	return true;
}

static bool check_rate(struct exchange *x, struct fail *f)
{
	if (!x->rate.over)
		return true;
	metric_add(METRIC_RATE_REFUSALS, 1);
	fail_set(f, FAIL_RATE_LIMITED,
		 "the limit is %u requests a second, %u at once",
		 (unsigned)x->rate.rate_per_s, (unsigned)x->rate.burst);
	f->retry_after_s = x->rate.retry_after_s;
	return false;
}

static bool check_scope(struct exchange *x, struct fail *f)
{
	if ((x->who.scopes & x->route->scope) == x->route->scope)
		return true;
	return fail_set(f, FAIL_FORBIDDEN,
			"the credential lacks the scope \"%s\"",
			auth_scope_name((enum auth_scope)x->route->scope));
}

/* A partner whose slow requests hold its share of the workers gets no further
 * one. */
static bool check_share(struct exchange *x, struct fail *f)
{
	uint64_t most = exchange_share(x->conf);

	if (!x->has_principal)
		return true;
	inflight_begin(x->who.partner_id, x->deadline_ms);
	x->slow_requests =
		inflight_slow(x->who.partner_id, x->conf->partner_slow_ms);
	if (!most || x->slow_requests < most)
		return true;
	metric_add(METRIC_PARTNER_BUSY, 1);
	fail_set(f, FAIL_PARTNER_BUSY,
		 "%u requests of this partner have been running for long",
		 (unsigned)x->slow_requests);
	f->retry_after_s = 1;
	return false;
}

static bool names_it(const char *list, struct sv name)
{
	struct sv rest = sv_of(list);

	while (rest.n)
		if (sv_eq(sv_cut(&rest, ','), name))
			return true;
	return false;
}

/* Whether a key is needed depends on this one parameter; all of them are read
 * after the replay, and a query that cannot be read is refused there. */
static bool read_dry_run(struct exchange *x, struct fail *f)
{
	struct fail ignored = FAIL_INIT;
	struct http_param *params;
	size_t n;

	(void)f;
	if (!names_it(x->route->params, SV("dry_run")) ||
	    !http_query(x->arena, x->http->query, &params, &n, &ignored))
		return true;
	for (size_t i = 0; i < n; i++)
		if (sv_eq(params[i].name, SV("dry_run")))
			x->dry_run = sv_eq(params[i].value, SV("true"));
	return true;
}

static bool parse_correlation(struct exchange *x, const char *name,
			      struct sv text, struct fail *f)
{
	struct id id;

	if (!id_parse_correlation(text, &id))
		return fail_set(f, FAIL_CORRELATION_MALFORMED,
				"%s must be a UUID or a ULID", name);
	if (x->has_correlation && !id_eq(id, x->correlation))
		return fail_set(f, FAIL_CORRELATION_AMBIGUOUS,
				"X-Correlation-Id and Idempotency-Key differ");
	x->correlation = id;
	x->has_correlation = true;
	return true;
}

/* A GET may carry the header too: it is checked and given back. */
static bool read_correlation(struct exchange *x, struct fail *f)
{
	struct sv ours, ietf;

	if (!http_header(x->http, SV("x-correlation-id"), &ours, f) ||
	    !http_header(x->http, SV("idempotency-key"), &ietf, f))
		return false;
	if (ours.p && !parse_correlation(x, "X-Correlation-Id", ours, f))
		return false;
	if (ietf.p &&
	    !parse_correlation(x, "Idempotency-Key", unquoted(ietf), f))
		return false;
	if (x->route->keyed && !x->dry_run && !x->has_correlation)
		return fail_set(f, FAIL_CORRELATION_MISSING,
				"send X-Correlation-Id: a fresh UUID or ULID "
				"for each request, the same for its retries");
	return true;
}

static bool replay(struct exchange *x, struct fail *f)
{
	return !x->route->keyed || x->dry_run || keyed_replay(x, f);
}

static bool read_prefer(struct exchange *x, struct fail *f)
{
	uint64_t seconds;
	bool has;

	x->prefer_wait_ms = x->conf->db_lock_wait_ms;
	if (!x->route->keyed)
		return true;
	if (!prefer_wait(x->http, PREFER_WAIT_MAX_S, &has, &seconds, f))
		return false;
	if (has)
		x->prefer_wait_ms = seconds * 1000;
	return true;
}

static bool unknown_parameter(struct sv name, struct fail *f)
{
	name.n = name.n < 100 ? name.n : 100;
	fail_set(f, FAIL_BAD_PARAMETER, "unknown parameter \"%.*s\"",
		 SV_ARG(name));
	f->quotes = true;
	return false;
}

/* An unknown name is refused: a mistyped dry_run must not do the real
 * thing. */
static bool read_parameters(struct exchange *x, struct fail *f)
{
	if (!http_query(x->arena, x->http->query, &x->params, &x->param_count,
			f))
		return false;
	for (size_t i = 0; i < x->param_count; i++)
		if (!names_it(x->route->params, x->params[i].name))
			return unknown_parameter(x->params[i].name, f);
	return true;
}

static bool handle(struct exchange *x, struct fail *f)
{
	fault_at("pipeline.before_handler");
	return x->route->handler(x, f);
}

typedef bool step(struct exchange *x, struct fail *f);

static bool run_steps(struct exchange *x, struct fail *f)
{
	static step *const STEPS[] = {
		find_route, authenticate, take_rate,       check_scope,
		check_rate, check_share,  read_dry_run,    read_correlation,
		replay,     read_prefer,  read_parameters, receive_body,
		handle,
	};

	for (size_t i = 0; i < ARRAY_LEN(STEPS) && !x->answered; i++)
		if (!STEPS[i](x, f))
			return false;
	return true;
}

/* Also with a refusal, of whoever has a credential and a quota. That the
 * figure cannot be read is no reason to answer otherwise; while the database
 * is away it is not asked. */
static void add_quota(struct exchange *x)
{
	struct fail ignored = FAIL_INIT;

	if (!x->has_principal || !x->who.has_quota)
		return;
	if (x->has_quota_state)
		quota_seen(x->who.partner_id, &x->quota_state);
	else if (x->answer.status < 500)
		x->has_quota_state = quota_lately(x->db, x->who.partner_id,
						  x->who.quota_items, x->arena,
						  &x->quota_state, &ignored);
	if (x->has_quota_state)
		respond_quota(&x->answer, &x->quota_state);
}

static void log_items(struct log_line *l, const struct apply_summary *s)
{
	log_num(l, "accepted", s->accepted);
	log_num(l, "replay", s->replay);
	log_num(l, "quarantined", s->quarantined);
	log_num(l, "rejected", s->rejected);
	log_num(l, "tombstoned", s->tombstoned);
}

static void log_request(const struct exchange *x, const struct fail *f,
			uint64_t usec, bool sent)
{
	enum log_level level = x->answer.status < 500 ? LOG_INFO : LOG_ERROR;
	struct log_line l;

	log_begin(&l, level, "request");
	log_str(&l, "route", sv_of(x->route ? x->route->name : "none"));
	log_str(&l, "method", sv_of(http_method_name(x->http->method)));
	log_num(&l, "status", (uint64_t)x->answer.status);
	log_num(&l, "duration_us", usec);
	if (x->has_principal)
		log_str(&l, "partner", sv_of(x->who.partner));
	if (x->correlation_text.n)
		log_str(&l, "correlation_id", x->correlation_text);
	log_str(&l, "trace_id", x->trace_id);
	log_str(&l, "request_id", x->request_id);
	if (x->has_items)
		log_items(&l, &x->items);
	if (x->replayed)
		log_str(&l, "replayed", SV("true"));
	if (x->mismatch)
		log_str(&l, "correlation_mismatch", SV("true"));
	if (f->code != FAIL_NONE)
		log_fail(&l, f);
	if (!sent && f->code == FAIL_NONE)
		log_str(&l, "note", SV("the caller was gone"));
	log_end(&l);
}

static void count(const struct exchange *x, uint64_t usec)
{
	const char *route = x->route ? x->route->name : "none";
	char status[12];

	snprintf(status, sizeof(status), "%d", x->answer.status);
	metric_add(METRIC_REQUESTS, 1, route, status);
	metric_observe(METRIC_REQUEST_SECONDS, usec, route);
}

void service_answer(struct service *s, struct fcgi *c, struct arena *a,
		    enum fcgi_got got, struct http_request *r, struct fail *f)
{
	struct exchange x = {.conf = s->conf,
			     .db = s->db,
			     .auth = s->auth,
			     .fcgi = c,
			     .arena = a,
			     .http = r,
			     .extend = s->extend,
			     .extend_arg = s->extend_arg,
			     .started_us = clock_mono_us()};
	uint64_t usec;
	bool sent;

	x.deadline_ms = x.started_us / 1000 + s->conf->request_deadline_ms;
	respond_init(&x.answer, ANSWER_BYTES_MAX);
	if (!identify(&x, f) || got != FCGI_GOT_REQUEST || !run_steps(&x, f))
		respond_problem(&x, f);
	else
		*f = FAIL_INIT; /* what a retry has mended */
	add_quota(&x);
	fault_at("pipeline.before_send");
	sent = respond_send(&x, f);
	usec = clock_mono_us() - x.started_us;
	count(&x, usec);
	log_request(&x, f, usec, sent);
	inflight_end();
	body_close(&x);
	buf_release(&x.received);
	respond_release(&x.answer);
	fcgi_finish(c);
	/* The caller has its answer. A database in trouble is left alone. */
	if (x.has_principal && x.answer.status < 500)
		auth_note_use(s->auth, s->db);
}
