/* The service: answers one accepted request. A stand-in until api/ is there.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_PIPELINE_H
#define WAYBILL_PIPELINE_H

#include "base/conf.h"
#include "wire/fcgi.h"

struct service;

/* After fork, in the worker; connects lazily. */
MUST_CHECK bool service_new(struct service **s_r, const struct conf *c,
			    struct fail *f);
void service_free(struct service *s);

/* Answer one accepted request (got, r and f are fcgi_accept's). Always
 * answers, never exits. */
void service_answer(struct service *s, struct fcgi *c, struct arena *a,
		    enum fcgi_got got, struct http_request *r, struct fail *f);

#endif
