/* How often may a partner come.
 *
 * A slot a partner: its id, the rule that holds, and a word of level and time.
 * The level counts thousandths of a request and the time milliseconds, so that
 * what sinks in a while, rate * milliseconds, is a whole number: nothing is
 * rounded, and nothing is lost however often it is asked for (L1).
 *
 * The clock is read after the word. Whoever wrote the word had read the clock
 * before, so that a time ahead of ours can only be of another boot, or so long
 * ago that the counter came round: both make a fresh word (L5).
 *
 * An id is set once, by compare-and-swap, and the slots before it on its way
 * are never free again: two processes that see a partner for the first time
 * end at the same slot. Only in a full table a slot changes its partner. Then
 * its word is swapped for one that says CLAIMED, the id is written, and the
 * word is made anew with the present time, so that a swap by somebody who
 * still has the old word fails. Who dies in between leaves a slot that nobody
 * uses and that may be claimed again after a while.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/limit.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/metric.h"
#include "base/shared.h"

enum {
	ONE = 1000, /* the level of one request */
	LEVEL_BITS = 30,
	TIME_BITS = 34,  /* of a word */
	RULE_BITS = 20,  /* of each number of a rule */
	SEEN_BITS = 24,  /* of a rule's time: it matters for seconds */
	SKEW_MS = 1000,  /* two processors' clocks differ by less */
	CLAIM_MS = 10000 /* a claim takes no longer */
};

#define LOW_BITS(n) ((UINT64_C(1) << (n)) - 1)
/* Above every level: the slot is changing its partner. */
#define CLAIMED LOW_BITS(LEVEL_BITS)

_Static_assert(LIMIT_MAX < 1 << RULE_BITS, "a rule fits");
_Static_assert((uint64_t)LIMIT_MAX *ONE < CLAIMED, "a level fits");

struct slot {
	_Atomic uint32_t partner_id; /* 0: never used */
	uint32_t unused;
	_Atomic uint64_t rule; /* rate, burst, seen; 0: none yet */
	_Atomic uint64_t word; /* time, level */
};

struct table {
	uint8_t layout[DIGEST_BYTES];
	struct slot slots[LIMIT_SLOTS];
};

static struct table *table;

bool limit_open(const char *path, struct fail *f)
{
	uint8_t layout[DIGEST_BYTES];
	char text[64];
	int n = snprintf(text, sizeof(text), "limit 1 %zu",
			 sizeof(struct table));

	digest_sha256(sv_from(text, (size_t)n), layout);
	table = shared_map(path, sizeof(*table), layout, f);
	return table != NULL;
}

static struct table *get_table(void)
{
	struct fail f = FAIL_INIT;

	if (!table && !limit_open("", &f))
		bug("no memory for the limits");
	return table;
}

static uint64_t word_of(uint64_t time_ms, uint64_t level)
{
	return (time_ms & LOW_BITS(TIME_BITS)) << LEVEL_BITS | level;
}

static uint64_t level_of(uint64_t word)
{
	return word & LOW_BITS(LEVEL_BITS);
}

/* How long ago it was written; *fresh_r: it says nothing about now. */
static uint64_t age_ms(uint64_t word, uint64_t now_ms, bool *fresh_r)
{
	uint64_t age = (now_ms - (word >> LEVEL_BITS)) & LOW_BITS(TIME_BITS);

	*fresh_r = false;
	if (age < UINT64_C(1) << (TIME_BITS - 1))
		return age;
	*fresh_r = age <= LOW_BITS(TIME_BITS) - SKEW_MS;
	return 0;
}

/* The level now, never above what the rule allows: a burst that was larger
 * once takes no more than the present one (L4). */
static uint64_t sunk(uint64_t word, const struct limit_rule *rule,
		     uint64_t now_ms, uint64_t *time_ms_r)
{
	uint64_t level = level_of(word), most = (uint64_t)rule->burst * ONE;
	bool fresh;
	uint64_t age = age_ms(word, now_ms, &fresh), down;

	*time_ms_r = age || fresh ? now_ms : word >> LEVEL_BITS;
	if (fresh)
		return 0;
	level = level < most ? level : most;
	down = age * rule->rate_per_s;
	return level > down ? level - down : 0;
}

static uint64_t seconds(uint64_t level, const struct limit_rule *rule)
{
	uint64_t a_second = (uint64_t)rule->rate_per_s * ONE;

	return (level + a_second - 1) / a_second;
}

uint64_t limit_step(uint64_t word, const struct limit_rule *rule,
		    uint64_t now_ms, bool take, struct limit_state *state_r)
{
	uint64_t most = (uint64_t)rule->burst * ONE, time_ms;
	uint64_t level = sunk(word, rule, now_ms, &time_ms);
	bool over = level + ONE > most;

	if (take && !over) {
		level += ONE;
		word = word_of(time_ms, level);
	}
	*state_r = (struct limit_state){
		.has = true,
		.over = over,
		.rate_per_s = rule->rate_per_s,
		.burst = rule->burst,
		.remaining = (uint32_t)((most - level) / ONE),
		.reset_s = seconds(level, rule),
		.retry_after_s = level + ONE > most
					 ? seconds(level + ONE - most, rule)
					 : 0,
	};
	return word;
}

static uint64_t rule_word(const struct limit_rule *rule)
{
	return (uint64_t)rule->rate_per_s << (RULE_BITS + SEEN_BITS) |
	       (uint64_t)rule->burst << SEEN_BITS |
	       (rule->seen_ms & LOW_BITS(SEEN_BITS));
}

static void rule_from(uint64_t word, struct limit_rule *rule)
{
	rule->rate_per_s = (uint32_t)(word >> (RULE_BITS + SEEN_BITS));
	rule->burst = (uint32_t)(word >> SEEN_BITS & LOW_BITS(RULE_BITS));
}

/* L4: the later of the slot's rule and ours holds. Ages are compared, not
 * times: ours is of a few seconds, so that an old one that looks young because
 * its counter came round is taken for new for that long at most. */
static void agree(struct slot *s, struct limit_rule *rule)
{
	uint64_t held = atomic_load(&s->rule), ours = rule_word(rule);
	uint64_t now_ms = clock_mono_ms();
	uint64_t held_age = (now_ms - held) & LOW_BITS(SEEN_BITS);
	uint64_t our_age = (now_ms - ours) & LOW_BITS(SEEN_BITS);

	if (held >> SEEN_BITS == ours >> SEEN_BITS)
		return;
	if (held && held_age < our_age)
		rule_from(held, rule);
	else /* whoever comes first: the next request looks again */
		atomic_compare_exchange_strong(&s->rule, &held, ours);
}

/* Nothing would be lost: the level is 0 by now. */
static bool is_idle(struct slot *s, uint64_t word)
{
	uint64_t now_ms = clock_mono_ms(), rule = atomic_load(&s->rule), age;
	struct limit_rule held = {.rate_per_s = 1, .burst = 1};
	bool fresh;

	age = age_ms(word, now_ms, &fresh);
	if (level_of(word) == CLAIMED)
		return fresh || age > CLAIM_MS;
	if (rule)
		rule_from(rule, &held);
	return fresh || level_of(word) <= age * held.rate_per_s;
}

static bool reuse(struct slot *s, uint32_t partner_id)
{
	uint64_t word = atomic_load(&s->word), claim;

	if (!is_idle(s, word))
		return false;
	claim = word_of(clock_mono_ms(), CLAIMED);
	if (!atomic_compare_exchange_strong(&s->word, &word, claim))
		return false;
	atomic_store(&s->rule, 0);
	atomic_store(&s->partner_id, partner_id);
	atomic_compare_exchange_strong(&s->word, &claim,
				       word_of(clock_mono_ms(), 0));
	return true;
}

static struct slot *nth(uint32_t partner_id, uint32_t i)
{
	return &get_table()
			->slots[(partner_id * 2654435761U + i) % LIMIT_SLOTS];
}

/* NULL: there is none, and none to be had. */
static struct slot *slot_of(uint32_t partner_id)
{
	for (uint32_t i = 0; i < LIMIT_SLOTS; i++) {
		struct slot *s = nth(partner_id, i);
		uint32_t id = atomic_load(&s->partner_id);

		if (!id && atomic_compare_exchange_strong(&s->partner_id, &id,
							  partner_id))
			return s;
		if (id == partner_id &&
		    level_of(atomic_load(&s->word)) != CLAIMED)
			return s;
	}
	for (uint32_t i = 0; i < LIMIT_SLOTS; i++)
		if (reuse(nth(partner_id, i), partner_id))
			return nth(partner_id, i);
	return NULL;
}

/* false: the slot is no longer the partner's. */
static bool ask(struct slot *s, const struct limit_rule *rule, bool take,
		struct limit_state *state_r)
{
	for (;;) {
		uint64_t word = atomic_load(&s->word), after;

		if (level_of(word) == CLAIMED ||
		    atomic_load(&s->partner_id) != rule->partner_id)
			return false;
		after = limit_step(word, rule, clock_mono_ms(), take, state_r);
		if (after == word ||
		    atomic_compare_exchange_strong(&s->word, &word, after))
			return true;
	}
}

static uint32_t within(uint32_t n)
{
	return n < 1 ? 1 : n < LIMIT_MAX ? n : LIMIT_MAX;
}

static void ask_slot(const struct limit_rule *given, bool take,
		     struct limit_state *state_r)
{
	struct limit_rule rule = *given;
	struct slot *s;

	*state_r = (struct limit_state){.has = false};
	if (!rule.rate_per_s)
		return;
	do {
		rule.rate_per_s = within(given->rate_per_s);
		rule.burst = within(given->burst);
		s = slot_of(rule.partner_id);
		if (!s) {
			metric_add(METRIC_RATE_TABLE_FULL, 1);
			return;
		}
		agree(s, &rule);
	} while (!ask(s, &rule, take, state_r));
}

void limit_take(const struct limit_rule *rule, struct limit_state *state_r)
{
	ask_slot(rule, true, state_r);
}

void limit_look(const struct limit_rule *rule, struct limit_state *state_r)
{
	ask_slot(rule, false, state_r);
}
