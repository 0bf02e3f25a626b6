/* One request to the service until it is answered: the retries of
 * `waybill send`.
 *
 *	struct send_link l = {.client = c, .progress = &p, .give_up_ms = ms};
 *	if (link_ask(&l, &request, begin, arg, &answer, f))
 *		answer is 2xx
 *
 * Sent again, with the same key, after: no answer; 408, 429, 500, 502, 503,
 * 504; 409 request-in-progress. In between it waits for what Retry-After
 * says, else from half a second on doubled up to 30 s, and a random quarter
 * more. Everything else is the end:
 *
 *	FAIL_SEND_REFUSED	another 4xx, or the 500 five times: sending it
 *				again cannot help
 *	FAIL_SEND_LATER		give_up_ms without an answer, a Retry-After of
 *				over five minutes, or 409 job-in-flight
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_SEND_LINK_H
#define WAYBILL_SEND_LINK_H

#include "main/progress.h"
#include "wire/client.h"

struct send_link {
	struct client *client;
	struct progress *progress;
	uint64_t give_up_ms;
};

/* begin() runs before every attempt, to rewind a source; NULL: none. The
 * answer is released by the caller, after true only. */
typedef bool link_begin(void *arg, struct fail *f);
MUST_CHECK bool link_ask(struct send_link *l, const struct client_request *r,
			 link_begin *begin, void *arg,
			 struct client_answer *answer_r, struct fail *f);

#endif
