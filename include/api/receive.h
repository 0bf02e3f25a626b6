/* Receiving a body: what the route allows, whole or opened for reading. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_RECEIVE_H
#define WAYBILL_RECEIVE_H

#include "api/exchange.h"

/* The step of the pipeline: checks the content type, then sets x->body, or
 * opens x->stream for the handler of a route with ROUTE_BODY_ITEMS. */
MUST_CHECK bool receive_body(struct exchange *x, struct fail *f);

/* Read on from x->stream into x->received until the body ends (*whole_r) or
 * more than `max` bytes are there. */
MUST_CHECK bool receive_more(struct exchange *x, uint64_t max, bool *whole_r,
			     struct fail *f);

/* What is left of the body, whatever its content type, for its fingerprint
 * alone: nothing of it is kept. */
MUST_CHECK bool receive_anything(struct exchange *x, struct fail *f);

#endif
