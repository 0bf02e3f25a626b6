/* What the workers of this host have in hand: who waits for whom.
 *
 *	inflight_open(conf->inflight_file, f)	once, before fork
 *
 * and in a worker, around a request that has a key:
 *
 *	switch (inflight_enter(key, until_ms, conf->workers)) {
 *	case INFLIGHT_FIRST:    nobody else here works on it
 *	case INFLIGHT_WAITING:  somebody does: this one counts as waiting
 *	case INFLIGHT_CROWDED:  somebody does, and half of the workers wait
 *	                        already: 409; it is not entered
 *	}
 *	...the claim...
 *	inflight_claimed();		no longer waiting
 *	...the work, COMMIT...
 *	inflight_leave();
 *
 * It only keeps duplicates from using up all workers; that a key is worked on
 * once is decided by the database (gate/reqkey.h).
 *
 * Around every request of a partner, keyed or not:
 *
 *	inflight_begin(partner_id, until_ms);
 *	n = inflight_slow(partner_id, slow_ms)	of the others, that take long
 *	...the work; inflight_until(later)...
 *	inflight_end();
 *
 * Guarantees:
 *  F1  At most workers / 2 processes of this host are INFLIGHT_WAITING.
 *      When several enter at the same moment fewer may be let in.
 *  F2  A process that was killed, at any point, does not count: neither its
 *      wait nor its key nor its partner; nor does one of before a restart of
 *      the machine, in a file that outlived it.
 *  F3  A request counts as slow when it has run for slow_ms, and not before.
 *
 * Limits: it sees the workers of one host, or with an empty file those of one
 * parent. Two hosts that get the same key wait for each other in the database
 * without being counted, so that N hosts may have N times as many waiting,
 * each still at most half of its own, plus those waiting for another host.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_INFLIGHT_H
#define WAYBILL_INFLIGHT_H

#include "base/fail.h"
#include "base/ids.h"

MUST_CHECK bool inflight_open(const char *path, struct fail *f);

/* A key's short name here; never 0. Two keys with one name would only make
 * one of them count as waiting. */
uint64_t inflight_key(uint32_t partner_id, unsigned surface, struct id id);

enum inflight_result { INFLIGHT_FIRST, INFLIGHT_WAITING, INFLIGHT_CROWDED };

/* until_ms (clock_mono_ms()): the request has ended by then, whatever
 * happened to it; what is older does not count. */
enum inflight_result inflight_enter(uint64_t key, uint64_t until_ms,
				    uint64_t workers);
/* Of one that is WAITING: nobody works on its key now, and it is the foremost
 * of those who wait; then it no longer counts as waiting. Rarely two at once
 * are told so: the database decides in the end. */
bool inflight_turn(void);
void inflight_claimed(void);
void inflight_leave(void);

void inflight_begin(uint32_t partner_id, uint64_t until_ms);
void inflight_until(uint64_t until_ms); /* it may take longer */
void inflight_end(void);
/* How many other processes have had a request of the partner in hand for so
 * long. */
uint64_t inflight_slow(uint32_t partner_id, uint64_t slow_ms);

/* How many wait now, for tests. */
uint64_t inflight_waiting(void);

#endif
