/* Requests to a Waybill service over HTTPS: the only place that knows libcurl.
 *
 *	client_new(&c, &conf, f)
 *	switch (client_send(c, &request, &answer, f)) {
 *	case CLIENT_ANSWER: answer.status and answer.body
 *	case CLIENT_AWAY:   no answer came; whether the request was carried
 *			    out is not known: send it again with its key
 *	case CLIENT_FAIL:   f says why; sending it again cannot help
 *	}
 *	client_answer_release(&answer)
 *	client_free(c)
 *
 * The certificate of the service is always checked, redirects are not
 * followed, the connection is kept. A body is one piece, or comes from a
 * source, piece by piece, of unknown length; either can be packed on the way.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_CLIENT_H
#define WAYBILL_CLIENT_H

#include "base/buf.h"
#include "base/fail.h"
#include "base/ids.h"
#include "base/library.h"

struct client_conf {
	const char *url; /* https://host[:port][/path] */
	const char *ca;  /* file of certificates; NULL: the system's */
	struct sv key;   /* the API key */
};

/* Up to cap bytes into p; *n_r 0: that was all. false: it cannot go on, which
 * makes the request CLIENT_FAIL with what the source left in its own `fail`. */
typedef bool client_source(void *arg, char *p, size_t cap, size_t *n_r);

struct client_request {
	bool post;                    /* else GET */
	const char *path;             /* below the URL: "/wms-ingest/v1/..." */
	const struct id *correlation; /* NULL: none */
	const char *content_type;
	struct sv body; /* if there is no source */
	client_source *source;
	void *source_arg;
	bool gzip;
	unsigned silence_s; /* without a byte either way: CLIENT_AWAY */
};

struct client_answer {
	int status;
	struct buf body;
	bool has_retry_after;
	uint64_t retry_after_s;
};

enum client_got { CLIENT_ANSWER, CLIENT_AWAY, CLIENT_FAIL };

struct client;

/* FAIL_USAGE: the URL is not https. */
MUST_CHECK bool client_new(struct client **c_r, const struct client_conf *conf,
			   struct fail *f);
void client_free(struct client *c); /* NULL is nothing */

/* CLIENT_AWAY fills f too, for people. */
enum client_got client_send(struct client *c, const struct client_request *r,
			    struct client_answer *answer_r, struct fail *f);
void client_answer_release(struct client_answer *a);

/* What a service shows to somebody without a key: GET of `path`, whose
 * certificate is checked. FAIL_SEND_REFUSED or FAIL_SEND_LATER: it cannot be
 * trusted, or not be reached; f says why. */
struct client_probe {
	int status;
	uint64_t expires_ms; /* of its certificate, since 1970; 0: not told */
};
MUST_CHECK bool client_probe(const char *url, const char *ca, const char *path,
			     struct client_probe *probe_r, struct fail *f);

struct library client_library(void);

#endif
