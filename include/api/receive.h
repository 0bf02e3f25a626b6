/* Receiving a body: what the route allows, whole, unpacked, bounded. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_RECEIVE_H
#define WAYBILL_RECEIVE_H

#include "api/exchange.h"

/* The step of the pipeline: sets x->is_ndjson and x->body. */
MUST_CHECK bool receive_body(struct exchange *x, struct fail *f);

/* The body alone, whatever its content type: for comparing it with one that
 * was sent before. Sets x->body. */
MUST_CHECK bool receive_anything(struct exchange *x, struct fail *f);

#endif
