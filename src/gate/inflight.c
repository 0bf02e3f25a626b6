/* What the workers of this host have in hand.
 *
 * One slot a process, taken at its first request and kept until it ends. A
 * slot is written by its owner alone, so nothing needs a lock; a reader asks
 * for each slot that matters whether its owner is alive. Slots are taken from
 * the front, so that a scan ends at the first that was never used.
 *
 * F1: a process says that it waits before it counts those who do, itself
 * included. Of those that do so at the same moment each sees the others, so
 * that too many can only step back, never stay.
 *
 * F2: a slot's entry counts while its process exists and its time is not
 * over. The time bounds the harm of a process id that was given anew. After a
 * restart of the machine the clock begins anew, too, and times in the file may
 * be far ahead: what was entered in the future is of another boot.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/inflight.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/shared.h"

/* Twice the most workers a host may have: old and new ones overlap. */
enum { SLOTS = 1024 };
/* An entry may be so much younger than the look at it. */
enum { LOOK_MS = 60000 };

struct slot {
	_Atomic int32_t pid; /* 0: never used */
	_Atomic uint32_t waiting;
	_Atomic uint64_t key; /* 0: nothing in hand */
	_Atomic uint64_t entered_ms, until_ms;
	_Atomic uint64_t begun_ms, busy_until_ms; /* of the partner's request */
	_Atomic uint32_t partner_id;              /* 0: none in hand */
	uint32_t unused;
};

struct table {
	uint8_t layout[DIGEST_BYTES];
	struct slot slots[SLOTS];
};

static struct table *table;
static struct slot *mine;

bool inflight_open(const char *path, struct fail *f)
{
	uint8_t layout[DIGEST_BYTES];
	char text[64];
	int n = snprintf(text, sizeof(text), "inflight 3 %zu",
			 sizeof(struct table));

	digest_sha256(sv_from(text, (size_t)n), layout);
	table = shared_map(path, sizeof(*table), layout, f);
	mine = NULL;
	return table != NULL;
}

uint64_t inflight_key(uint32_t partner_id, unsigned surface, struct id id)
{
	uint64_t h = UINT64_C(14695981039346656037);
	uint8_t bytes[5] = {(uint8_t)partner_id, (uint8_t)(partner_id >> 8),
			    (uint8_t)(partner_id >> 16),
			    (uint8_t)(partner_id >> 24), (uint8_t)surface};

	for (size_t i = 0; i < sizeof(bytes); i++)
		h = (h ^ bytes[i]) * UINT64_C(1099511628211);
	for (size_t i = 0; i < sizeof(id.b); i++)
		h = (h ^ id.b[i]) * UINT64_C(1099511628211);
	return h ? h : 1;
}

static bool alive(int32_t pid)
{
	return kill(pid, 0) == 0 || errno != ESRCH;
}

/* NULL: all are in use. */
static struct slot *find_slot(int32_t me)
{
	for (size_t i = 0; i < SLOTS && atomic_load(&table->slots[i].pid); i++)
		if (atomic_load(&table->slots[i].pid) == me)
			return &table->slots[i];
	for (size_t i = 0; i < SLOTS; i++) {
		struct slot *s = &table->slots[i];
		int32_t pid = atomic_load(&s->pid);

		if (pid && alive(pid))
			continue;
		if (atomic_compare_exchange_strong(&s->pid, &pid, me))
			return s;
	}
	return NULL;
}

/* One that has our id was left by a process that had it before us. It is the
 * one to take, or else it would count as long as we live: where a container
 * is started again, the same ids come again. */
static struct slot *take_slot(void)
{
	struct slot *s = find_slot((int32_t)getpid());

	if (!s)
		return NULL;
	atomic_store(&s->key, 0);
	atomic_store(&s->waiting, 0);
	atomic_store(&s->partner_id, 0);
	return s;
}

/* A child has its parent's `mine` after fork: the slot tells whose it is. */
static bool have_slot(void)
{
	struct fail f = FAIL_INIT;

	if (!table && !inflight_open("", &f))
		bug("no memory for what is in flight");
	if (!mine || atomic_load(&mine->pid) != (int32_t)getpid())
		mine = take_slot();
	return mine != NULL;
}

static bool counts(struct slot *s, int32_t pid, uint64_t now_ms)
{
	return atomic_load(&s->key) && atomic_load(&s->until_ms) > now_ms &&
	       atomic_load(&s->entered_ms) <= now_ms + LOOK_MS && alive(pid);
}

static bool others_have(uint64_t key)
{
	uint64_t now_ms = clock_mono_ms();

	for (size_t i = 0; i < SLOTS; i++) {
		struct slot *s = &table->slots[i];
		int32_t pid = atomic_load(&s->pid);

		if (!pid)
			break;
		if (s != mine && atomic_load(&s->key) == key &&
		    counts(s, pid, now_ms))
			return true;
	}
	return false;
}

uint64_t inflight_waiting(void)
{
	uint64_t now_ms = clock_mono_ms(), n = 0;

	for (size_t i = 0; table && i < SLOTS; i++) {
		struct slot *s = &table->slots[i];
		int32_t pid = atomic_load(&s->pid);

		if (!pid)
			break;
		if (atomic_load(&s->waiting) && counts(s, pid, now_ms))
			n++;
	}
	return n;
}

enum inflight_result inflight_enter(uint64_t key, uint64_t until_ms,
				    uint64_t workers)
{
	if (!have_slot())
		return INFLIGHT_FIRST;
	atomic_store(&mine->entered_ms, clock_mono_ms());
	atomic_store(&mine->until_ms, until_ms);
	atomic_store(&mine->key, key);
	if (!others_have(key))
		return INFLIGHT_FIRST;
	atomic_store(&mine->waiting, 1);
	if (inflight_waiting() <= workers / 2)
		return INFLIGHT_WAITING;
	inflight_leave();
	return INFLIGHT_CROWDED;
}

bool inflight_turn(void)
{
	uint64_t now_ms = clock_mono_ms();
	bool before_us = true;

	for (size_t i = 0; mine && i < SLOTS; i++) {
		struct slot *s = &table->slots[i];
		int32_t pid = atomic_load(&s->pid);

		if (!pid)
			break;
		if (s == mine)
			before_us = false;
		else if (atomic_load(&s->key) == atomic_load(&mine->key) &&
			 (before_us || !atomic_load(&s->waiting)) &&
			 counts(s, pid, now_ms))
			return false;
	}
	inflight_claimed();
	return true;
}

void inflight_claimed(void)
{
	if (mine)
		atomic_store(&mine->waiting, 0);
}

void inflight_leave(void)
{
	if (!mine)
		return;
	atomic_store(&mine->waiting, 0);
	atomic_store(&mine->key, 0);
}

/* The partner is written last: who sees it sees this request's time, or that
 * of a later one. */
void inflight_begin(uint32_t partner_id, uint64_t until_ms)
{
	if (!have_slot())
		return;
	atomic_store(&mine->partner_id, 0);
	atomic_store(&mine->begun_ms, clock_mono_ms());
	atomic_store(&mine->busy_until_ms, until_ms);
	atomic_store(&mine->partner_id, partner_id);
}

void inflight_until(uint64_t until_ms)
{
	if (mine)
		atomic_store(&mine->busy_until_ms, until_ms);
}

void inflight_end(void)
{
	if (mine)
		atomic_store(&mine->partner_id, 0);
}

static bool is_slow(struct slot *s, uint32_t partner_id, uint64_t slow_ms)
{
	uint64_t now_ms = clock_mono_ms();

	return s != mine && atomic_load(&s->partner_id) == partner_id &&
	       atomic_load(&s->begun_ms) + slow_ms <= now_ms &&
	       atomic_load(&s->busy_until_ms) > now_ms;
}

uint64_t inflight_slow(uint32_t partner_id, uint64_t slow_ms)
{
	uint64_t n = 0;

	for (size_t i = 0; table && i < SLOTS; i++) {
		struct slot *s = &table->slots[i];
		int32_t pid = atomic_load(&s->pid);

		if (!pid)
			break;
		if (is_slow(s, partner_id, slow_ms) && alive(pid))
			n++;
	}
	return n;
}
