/* Answers: JSON bodies, problem documents, and sending them.
 *
 * An answer is built in x->answer and sent once, by respond_send(), after
 * everything it says is durable. One that is too large to be held is a stream:
 * the handler sets x->answer.stream, and its pieces are made while it is sent.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_RESPOND_H
#define WAYBILL_RESPOND_H

#include "api/exchange.h"

void respond_init(struct answer *a, size_t body_max);
void respond_release(struct answer *a);

/* One more header line. The value must be ours, or checked: a line break in
 * it is a bug(). */
void respond_header(struct answer *a, const char *name, struct sv value);

/* How the partner's item quota stands: X-Quota-Items-Limit and -Remaining, and
 * its members of RateLimit-Policy and RateLimit. */
void respond_quota(struct answer *a, const struct quota_state *s);

/* Replace whatever was built so far by the problem document of `f` (RFC
 * 9457), with the headers its status asks for. */
void respond_problem(struct exchange *x, const struct fail *f);

/* false: the other side is gone, and nobody is left to tell; or an answer that
 * is streamed broke off: then f says why, and the connection ends without the
 * end of the answer, so that the caller sees it is not whole. */
MUST_CHECK bool respond_send(struct exchange *x, struct fail *f);

#endif
