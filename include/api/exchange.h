/* One request on its way through the service, and the answer to it.
 *
 * Each field is set by exactly one step of api/pipeline.c, named beside it;
 * later steps only read it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_EXCHANGE_H
#define WAYBILL_EXCHANGE_H

#include "base/buf.h"
#include "base/digest.h"
#include "base/ids.h"
#include "gate/auth.h"
#include "gate/limit.h"
#include "gate/quota.h"
#include "item/apply.h"
#include "item/scope.h"
#include "wire/fcgi.h"

struct route;
struct body;

enum { EXCHANGE_SEGMENTS_MAX = 8, EXCHANGE_HEADERS_BYTES = 4096 };

struct exchange;

/* The next piece of an answer that is too large to be held: into b, which is
 * empty. Nothing added: that was all. false: f says why it breaks off. */
typedef bool answer_stream(struct exchange *x, void *arg, struct buf *b,
			   struct fail *f);

struct answer {
	int status;
	const char *content_type;
	answer_stream *stream; /* in place of the body; NULL: none */
	void *stream_arg;
	struct buf headers; /* further header lines, each ended by CRLF */
	struct buf body;
};

struct exchange {
	/* begin */
	const struct conf *conf;
	struct db *db;
	struct auth *auth;
	struct fcgi *fcgi;
	struct arena *arena;
	struct http_request *http;
	uint64_t started_us, deadline_ms;       /* see exchange_extend() */
	void (*extend)(void *arg, uint64_t ms); /* NULL: nobody watches */
	void *extend_arg;

	/* identify */
	struct sv request_id;       /* 32 hex digits, this attempt's own */
	struct sv trace_id;         /* 32 hex digits */
	struct sv correlation_text; /* as sent, if well-formed; else none */

	/* find_route */
	const struct route *route;
	struct sv segments[EXCHANGE_SEGMENTS_MAX];
	size_t segment_count;
	unsigned allowed; /* methods of this path, for 405 */

	/* authenticate */
	bool has_principal;
	struct principal who;
	const struct scope *scope; /* its warehouses; NULL: no limit */

	/* take_rate */
	struct limit_state rate;

	/* check_share */
	uint64_t slow_requests; /* of this partner, others than this one */

	/* read_dry_run */
	bool dry_run; /* the query says so, on a route that knows it */

	/* read_correlation */
	bool has_correlation;
	struct id correlation;

	/* replay, or keyed_run() */
	bool answered; /* with what was kept: no further step runs */
	bool replayed; /* it was another request's */
	bool mismatch; /* that one had another fingerprint */
	/* 422 correlation-id-reused: what the id was first used for; path.p
	 * NULL: that is not known */
	struct {
		struct sv method, path;
		uint64_t wall_ms;
	} first_use;

	/* read_prefer */
	uint64_t prefer_wait_ms; /* for a duplicate that is still running */

	/* read_parameters */
	struct http_param *params;
	size_t param_count;

	/* receive_body, or replay */
	bool is_ndjson;
	struct body *stream; /* what is left of it: api/body.h */
	struct buf received; /* what is kept of it */
	struct sv body;      /* all of it, unpacked; not of ROUTE_BODY_ITEMS */

	/* body_next(), at the end of the body */
	bool has_fingerprint;
	uint8_t fingerprint[DIGEST_BYTES];
	uint64_t body_bytes; /* unpacked */

	/* the handler, or problem_answer() */
	struct answer answer;
	bool has_items;
	struct apply_summary items; /* what became of them, for the log */

	/* the handler, or add_quota() */
	bool has_quota_state;
	struct quota_state quota_state;
};

/* May the credential see a request or job as a whole? Its collection and the
 * warehouses of its sender, as the database has them. */
bool exchange_covers(const struct exchange *x, const struct db_val *collection,
		     const struct db_val *sender);

/* The value of a query parameter; SV_NONE if it was not sent. */
struct sv exchange_param(const struct exchange *x, const char *name);

/* How many workers slow requests of one partner may hold; 0: all of them, or
 * there is but one. */
uint64_t exchange_share(const struct conf *c);

/* The request may take so long from now on, whatever was said before. */
void exchange_extend(struct exchange *x, uint64_t ms);

#endif
