/* One request until it is answered. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/send_link.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/fault.h"
#include "wire/doc.h"

enum {
	BACKOFF_MS = 500,
	BACKOFF_MAX_MS = 30 * 1000,
	RETRY_AFTER_MAX_S = 300,
	FAULTS_MAX = 5, /* answers of 500 */
};

static const struct json_limits LIMITS = {.depth_max = 32, .names_max = 256};

struct asking {
	struct send_link *l;
	uint64_t deadline_ms, backoff_ms;
	unsigned faults;
};

/* A problem in a few words: its slug and what it says. */
struct problem {
	char slug[64], detail[256];
};

static void copy(char *out, size_t n, struct sv text)
{
	snprintf(out, n, "%.*s", (int)(text.n < n ? text.n : n - 1), text.p);
}

static struct problem problem_of(const struct client_answer *a)
{
	struct problem p = {"", "no reason was given"};
	struct fail ignored = FAIL_INIT;
	struct sv type, detail;
	struct doc *d;

	if (!doc_parse(buf_sv(&a->body), &LIMITS, &d, &ignored))
		return p;
	if (doc_string(doc_get(doc_root(d), "/type"), &type)) {
		sv_cut(&type, '#');
		copy(p.slug, sizeof(p.slug), type);
	}
	if (doc_string(doc_get(doc_root(d), "/detail"), &detail))
		copy(p.detail, sizeof(p.detail), detail);
	doc_free(d);
	return p;
}

static bool is_passing(int status, const struct problem *p)
{
	switch (status) {
	case 408:
	case 429:
	case 500:
	case 502:
	case 503:
	case 504:
		return true;
	case 409:
		return strcmp(p->slug, "request-in-progress") == 0;
	default:
		return false;
	}
}

static uint64_t jittered(uint64_t ms)
{
	uint32_t random;

	digest_random(&random, sizeof(random));
	return ms + ms / 4 * (random % 1000) / 1000;
}

/* false: f, which tells why we wait, becomes the end. */
static bool wait_again(struct asking *k, const struct client_answer *a,
		       struct fail *f)
{
	uint64_t ms = k->backoff_ms;
	char why[sizeof(f->detail)];

	memcpy(why, f->detail, sizeof(why));
	if (a->has_retry_after && a->retry_after_s > RETRY_AFTER_MAX_S)
		return fail_set(f, FAIL_SEND_LATER,
				"%.200s; the service says to come back in "
				"%" PRIu64 " seconds",
				why, a->retry_after_s);
	if (a->has_retry_after && a->retry_after_s * 1000 > ms)
		ms = a->retry_after_s * 1000;
	ms = jittered(ms);
	if (clock_mono_ms() + ms > k->deadline_ms)
		return fail_set(f, FAIL_SEND_LATER,
				"%.200s; given up for now, the same command "
				"goes on from here",
				why);
	progress_note(k->l->progress, "%s; trying again in %" PRIu64 ".%u s",
		      why, ms / 1000, (unsigned)(ms % 1000 / 100));
	clock_sleep_ms(ms);
	k->backoff_ms = k->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS
							   : k->backoff_ms * 2;
	return true;
}

/* An answer that is not 2xx. true: wait_again() has waited. */
static bool answered(struct asking *k, const struct client_answer *a,
		     struct fail *f)
{
	struct problem p = problem_of(a);
	bool job = strcmp(p.slug, "job-in-flight") == 0;

	fail_set(f, job ? FAIL_SEND_LATER : FAIL_SEND_REFUSED, "%d %s: %s",
		 a->status, p.slug, p.detail);
	if (!is_passing(a->status, &p) ||
	    (a->status == 500 && ++k->faults >= FAULTS_MAX))
		return false;
	return wait_again(k, a, f);
}

/* One attempt. *done_r: it has its answer; else it is to be made again. */
static bool attempt(struct asking *k, const struct client_request *r,
		    struct client_answer *a, bool *done_r, struct fail *f)
{
	bool ok = false;

	switch (client_send(k->l->client, r, a, f)) {
	case CLIENT_ANSWER:
		*done_r = a->status >= 200 && a->status < 300;
		ok = *done_r || answered(k, a, f);
		break;
	case CLIENT_AWAY:
		ok = wait_again(k, a, f);
		break;
	case CLIENT_FAIL:
		break;
	}
	if (!*done_r)
		client_answer_release(a);
	return ok;
}

bool link_ask(struct send_link *l, const struct client_request *r,
	      link_begin *begin, void *arg, struct client_answer *answer_r,
	      struct fail *f)
{
	struct asking k = {.l = l,
			   .deadline_ms = clock_mono_ms() + l->give_up_ms,
			   .backoff_ms = BACKOFF_MS};
	bool done = false;

	while (!done) {
		if (begin && !begin(arg, f))
			return false;
		fault_at("send.before_request");
		if (!attempt(&k, r, answer_r, &done, f))
			return false;
		fault_at("send.after_request");
	}
	*f = FAIL_INIT;
	return true;
}
