/* How often may a partner come: a rate and a burst, counted on the host.
 *
 *	limit_open(conf->limit_file, f)		once, before fork
 *
 * and in a worker:
 *
 *	struct limit_rule rule = {.partner_id = 7, .rate_per_s = 50,
 *				  .burst = 100, .seen_ms = when it was read};
 *	limit_take(&rule, &state);		one request: taken or refused
 *	if (state.over) 429, state.retry_after_s
 *	limit_look(&rule, &state);		the same without taking
 *
 * The algorithm is GCRA: a level that each admitted request raises by one and
 * that sinks by rate_per_s a second; a request is admitted if the level then
 * is not above the burst. Level and time are one 64-bit word, so that a
 * request is one compare-and-swap.
 *
 * Guarantees, cited by tests:
 *  L1  In any t milliseconds at most burst + rate * (t + 1 ms) requests of a
 *      partner are admitted on this host, whatever number of processes ask;
 *      and one that finds room is never refused.
 *  L2  A refused request takes nothing.
 *  L3  A process may be killed at any point: there is no lock to be left
 *      behind, and no count is lost or doubled.
 *  L4  A new rate or burst gives and takes at most one burst. Of the rules
 *      that processes remember, the one that was read last holds for all.
 *  L5  A file that outlived a restart of the machine, and with it the clock,
 *      keeps nobody out.
 *  L6  When all slots are taken, that of a partner whose level has sunk to 0
 *      is used again, which loses nothing. If there is none the request is
 *      admitted and counted in METRIC_RATE_TABLE_FULL.
 *
 * Limits: it counts for one host, or with an empty file for one parent. N
 * hosts together admit N times the rate. In the race of two processes for the
 * slots of a full table (L6) a partner may get one burst more.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_LIMIT_H
#define WAYBILL_LIMIT_H

#include "base/fail.h"

enum {
	LIMIT_MAX = 1000000, /* of rate and burst; more counts as this */
	LIMIT_SLOTS = 4096,  /* partners that can be told apart */
};

struct limit_rule {
	uint32_t partner_id;
	uint32_t rate_per_s; /* 0: no limit */
	uint32_t burst;      /* 0 counts as 1 */
	uint64_t seen_ms;    /* clock_mono_ms() when it was read */
};

struct limit_state {
	bool has;  /* there is a limit; else nothing below is set */
	bool over; /* this request is refused */
	uint32_t rate_per_s, burst; /* as they hold */
	uint32_t remaining;         /* requests that may come now */
	uint64_t reset_s; /* until all of the burst is there, rounded up */
	/* Until one more may come, rounded up; 0: it may come now. */
	uint64_t retry_after_s;
};

MUST_CHECK bool limit_open(const char *path, struct fail *f);

void limit_take(const struct limit_rule *rule, struct limit_state *state_r);
void limit_look(const struct limit_rule *rule, struct limit_state *state_r);

/* What a request at now_ms makes of a partner's word, 0 at first; also the
 * word after it, if it takes. The arithmetic alone, for tests. */
uint64_t limit_step(uint64_t word, const struct limit_rule *rule,
		    uint64_t now_ms, bool take, struct limit_state *state_r);

#endif
