/* The parent of short-lived workers.
 *
 *	struct prefork p = {.workers = 4, .work = work, .arg = conf,
 *			    .drain_timeout_ms = 20000};
 *	prefork_run(&p, f)		returns when all have left
 *
 * and in work(), which runs in a forked child:
 *
 *	prefork_serving(slot);		ready: the next one may be recycled
 *	while (!prefork_leaving())
 *		if (fcgi_wait(c, prefork_wait_mask(), ms)) {
 *			prefork_busy(slot, deadline_ms);
 *			... accept ...
 *			prefork_accepted();
 *			... answer, finish ...
 *			prefork_idle(slot);
 *		}
 *	return 0;
 *
 * Guarantees:
 *  1. A worker that leaves (status 0) is replaced at once. One that crashes
 *     is, too; only when its slot crashes again and again, each time within
 *     10 s, the fourth and later ones wait 100 ms, 200 ms, ... up to 5 s.
 *     Leaving without ever having served counts as a crash.
 *  2. SIGHUP recycles one by one: a worker is told to leave only when every
 *     other one is serving.
 *  3. SIGTERM and SIGINT drain: workers finish the request they have and
 *     leave, the parent with them, status 0. After drain_timeout_ms what is
 *     left is killed.
 *  4. A worker whose request passes its deadline is killed, and never one
 *     that has finished it: both sides swap the same word.
 *  5. Workers do not outlive their parent by more than the request they have,
 *     and that not by more than drain_timeout_ms once it is accepted, or its
 *     deadline and a second while it is still coming in.
 *
 * Workers that ended are counted in METRIC_WORKER_EXITS: `done` (left by
 * themselves), `signal` (told to leave), `crash` (any other way) and
 * `deadline` (killed by guarantee 3 or 4).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_PREFORK_H
#define WAYBILL_PREFORK_H

#include "base/base.h" /* before any other: it has config.h */

#include <signal.h>

#include "base/fail.h"

struct prefork_slot; /* a worker's place in memory shared with its parent */

enum { PREFORK_WORKERS_MAX = 1024 };

struct prefork {
	size_t workers; /* 0: only waits for SIGTERM */
	int (*work)(struct prefork_slot *slot, void *arg); /* exit status */
	void *arg;
	uint64_t drain_timeout_ms;
};

/* true: drained. false: it could not start. Workers never return from it. */
MUST_CHECK bool prefork_run(const struct prefork *p, struct fail *f);

/* For the worker. SIGTERM is let in only while it waits with this mask, and
 * between accepted and idle: there its handler notes it and sets the timer of
 * guarantee 5. Interrupted calls are restarted (SA_RESTART); poll() and sleeps
 * may return EINTR, which the database's library takes well (tried). */
const sigset_t *prefork_wait_mask(void);
bool prefork_leaving(void);
void prefork_serving(struct prefork_slot *slot);

/* From now the request has so long. Called again while busy, it sets the
 * deadline anew: a long route may ask for more. */
void prefork_busy(struct prefork_slot *slot, uint64_t deadline_ms);

/* The request is in. Not before: libfcgi drops a connection when a signal
 * interrupts its wait for the first bytes. */
void prefork_accepted(void);

/* The answer is sent. Does not return if the parent decided to kill it. */
void prefork_idle(struct prefork_slot *slot);

#endif
