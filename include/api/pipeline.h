/* The service inside a FastCGI worker: every request takes the same steps.
 *
 *	service_new(&s, conf, f)		after fork; connects when needed
 *	service_answer(s, fcgi, arena, got, &request, &f)
 *	service_free(s)
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_PIPELINE_H
#define WAYBILL_PIPELINE_H

#include "base/conf.h"
#include "wire/fcgi.h"

struct service;

MUST_CHECK bool service_new(struct service **s_r, const struct conf *c,
			    struct fail *f);
void service_free(struct service *s);

/* Some requests take longer than request_deadline, as long as they get on.
 * extend() tells whoever watches over this process that the present one may
 * take `ms` from now. */
void service_on_extend(struct service *s,
		       void (*extend)(void *arg, uint64_t ms), void *arg);

/* Answer one request that fcgi_accept() gave (got, r and f are its results).
 * Always answers, logs one line, and never exits. */
void service_answer(struct service *s, struct fcgi *c, struct arena *a,
		    enum fcgi_got got, struct http_request *r, struct fail *f);

#endif
