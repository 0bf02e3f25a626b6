/* gate/limit: the arithmetic by itself, the table with real processes (L1 to
 * L6), and the partners' share of gate/inflight (F2, F3).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metric.h"
#include "gate/inflight.h"
#include "gate/limit.h"

enum { NOON = 43200000 }; /* ms; where the frozen clock begins */

static void open_table(void)
{
	struct fail f = FAIL_INIT;

	if (!limit_open("", &f))
		bug("%s", f.detail);
}

/* How many of `tries` requests at now_ms are admitted. */
static uint64_t admitted_at(uint64_t *word, const struct limit_rule *rule,
			    uint64_t now_ms, uint64_t tries)
{
	struct limit_state s;
	uint64_t n = 0;

	for (uint64_t i = 0; i < tries; i++) {
		*word = limit_step(*word, rule, now_ms, true, &s);
		n += !s.over;
	}
	return n;
}

/* L1 */
static void a_burst_and_then_the_rate_are_admitted(void)
{
	struct limit_rule rule = {1, 50, 100, 0};
	uint64_t word = 0, n = 0;

	WANT_U64(admitted_at(&word, &rule, NOON, 300), 100);
	for (uint64_t ms = 1; ms <= 10000; ms++)
		n += admitted_at(&word, &rule, NOON + ms, 3);
	WANT_U64(n, 500);
	WANT_U64(admitted_at(&word, &rule, NOON + 3600000, 300), 100);
}

/* L1: thirds of a millisecond add up. */
static void a_rate_that_does_not_divide_a_second_is_exact(void)
{
	static const uint32_t RATES[] = {1, 3, 7, 333, 999, 1001, 999999};

	for (size_t i = 0; i < ARRAY_LEN(RATES); i++) {
		struct limit_rule rule = {1, RATES[i], RATES[i], 0};
		uint64_t word = 0, n = 0;

		admitted_at(&word, &rule, NOON, RATES[i]);
		for (uint64_t ms = 1; ms <= 1000; ms++)
			n += admitted_at(&word, &rule, NOON + ms,
					 RATES[i] / 1000 + 2);
		WANT_U64(n, RATES[i]);
	}
}

static void a_burst_of_one_is_one_at_a_time(void)
{
	struct limit_rule rule = {1, 1, 1, 0};
	uint64_t word = 0;

	WANT_U64(admitted_at(&word, &rule, NOON, 5), 1);
	WANT_U64(admitted_at(&word, &rule, NOON + 999, 5), 0);
	WANT_U64(admitted_at(&word, &rule, NOON + 1000, 5), 1);
}

static void the_largest_rate_and_burst_do_not_overflow(void)
{
	struct limit_rule rule = {1, LIMIT_MAX, LIMIT_MAX, 0};
	uint64_t word = 0;
	struct limit_state s;

	WANT_U64(admitted_at(&word, &rule, NOON, LIMIT_MAX + 10), LIMIT_MAX);
	limit_step(word, &rule, NOON, false, &s);
	WANT_U64(s.remaining, 0);
	WANT_U64(s.reset_s, 1);
	WANT_U64(s.retry_after_s, 1);
	WANT_U64(admitted_at(&word, &rule, NOON + 1, LIMIT_MAX), 1000);
	/* A year later the product of age and rate is at its largest. */
	limit_step(word, &rule, NOON + UINT64_C(31536000000), false, &s);
	WANT_U64(s.remaining, LIMIT_MAX);
}

/* L2 */
static void a_refused_request_takes_nothing(void)
{
	struct limit_rule rule = {1, 1, 2, 0};
	uint64_t word = 0, before;

	WANT_U64(admitted_at(&word, &rule, NOON, 2), 2);
	before = word;
	WANT_U64(admitted_at(&word, &rule, NOON + 500, 1000), 0);
	WANT_U64(word, before);
	WANT_U64(admitted_at(&word, &rule, NOON + 1000, 1), 1);
}

static void a_look_takes_nothing(void)
{
	struct limit_rule rule = {1, 1, 2, 0};
	struct limit_state s;
	uint64_t word = 0;

	WANT_U64(limit_step(word, &rule, NOON, false, &s), word);
	WANT(!s.over);
	WANT_U64(s.remaining, 2);
	admitted_at(&word, &rule, NOON, 2);
	WANT_U64(limit_step(word, &rule, NOON, false, &s), word);
	WANT(s.over);
}

/* What the headers are made of. */
static void times_are_rounded_up(void)
{
	struct limit_rule rule = {1, 2, 10, 0};
	struct limit_state s;
	uint64_t word = 0;

	word = limit_step(word, &rule, NOON, true, &s);
	WANT_U64(s.remaining, 9);
	WANT_U64(s.reset_s, 1);
	WANT_U64(s.retry_after_s, 0);
	admitted_at(&word, &rule, NOON, 8);
	word = limit_step(word, &rule, NOON, true, &s);
	WANT(!s.over);
	WANT_U64(s.remaining, 0);
	WANT_U64(s.reset_s, 5);
	WANT_U64(s.retry_after_s, 1);
	limit_step(word, &rule, NOON + 499, true, &s);
	WANT(s.over);
	WANT_U64(s.retry_after_s, 1);
	limit_step(word, &rule, NOON + 500, false, &s);
	WANT(!s.over);
	WANT_U64(s.remaining, 1);
	limit_step(word, &(struct limit_rule){1, 1, 10, 0}, NOON, false, &s);
	WANT_U64(s.reset_s, 10);
}

/* L5 */
static void a_clock_that_began_anew_keeps_nobody_out(void)
{
	struct limit_rule rule = {1, 1, 100, 0};
	uint64_t word = 0;

	admitted_at(&word, &rule, NOON, 100);
	WANT_U64(admitted_at(&word, &rule, 5000, 300), 100);
	WANT_U64(admitted_at(&word, &rule, 6000, 300), 1);
}

/* Two processors may see the clock a little apart: that gives nothing. */
static void a_clock_that_is_a_little_behind_gives_nothing(void)
{
	struct limit_rule rule = {1, 50, 100, 0};
	uint64_t word = 0;

	admitted_at(&word, &rule, NOON, 100);
	WANT_U64(admitted_at(&word, &rule, NOON - 1, 300), 0);
	WANT_U64(admitted_at(&word, &rule, NOON - 900, 300), 0);
	WANT_U64(admitted_at(&word, &rule, NOON + 20, 300), 1);
	WANT_U64(admitted_at(&word, &rule, NOON + 19, 300), 0);
	WANT_U64(admitted_at(&word, &rule, NOON + 40, 300), 1);
}

/* The time in a word comes round after 198 days. */
static void an_uptime_of_years_changes_nothing(void)
{
	uint64_t round = UINT64_C(1) << 34;
	struct limit_rule rule = {1, 1, 10, 0};

	for (uint64_t turn = 1; turn < 5; turn++) {
		uint64_t word = 0, edge = turn * round;

		WANT_U64(admitted_at(&word, &rule, edge - 90000, 9), 9);
		WANT_U64(admitted_at(&word, &rule, edge - 500, 20), 10);
		WANT_U64(admitted_at(&word, &rule, edge - 1, 10), 0);
		WANT_U64(admitted_at(&word, &rule, edge + 499, 10), 0);
		WANT_U64(admitted_at(&word, &rule, edge + 500, 10), 1);
		WANT_U64(admitted_at(&word, &rule, edge + 501, 10), 0);
	}
}

/* L4 */
static void a_new_rate_gives_and_takes_at_most_a_burst(void)
{
	struct limit_rule slow = {1, 1, 100, 0}, fast = {1, 1000, 100, 0};
	uint64_t word = 0;

	admitted_at(&word, &slow, NOON, 100);
	WANT_U64(admitted_at(&word, &fast, NOON, 300), 0);
	WANT_U64(admitted_at(&word, &fast, NOON + 100, 300), 100);
	WANT_U64(admitted_at(&word, &slow, NOON + 100, 300), 0);
	WANT_U64(admitted_at(&word, &slow, NOON + 1100, 300), 1);
}

/* L4 */
static void a_smaller_burst_takes_no_more_than_itself(void)
{
	struct limit_rule large = {1, 1, LIMIT_MAX, 0}, small = {1, 1, 5, 0};
	uint64_t word = 0;

	admitted_at(&word, &large, NOON, LIMIT_MAX);
	WANT_U64(admitted_at(&word, &small, NOON, 10), 0);
	WANT_U64(admitted_at(&word, &small, NOON + 5000, 10), 5);
	WANT_U64(admitted_at(&word, &large, NOON + 5000, 10), 10);
}

static bool take(uint32_t partner_id, uint32_t rate, uint32_t burst,
		 uint64_t seen_ms)
{
	struct limit_rule rule = {partner_id, rate, burst, seen_ms};
	struct limit_state s;

	limit_take(&rule, &s);
	return !s.over;
}

static uint64_t take_many(uint32_t partner_id, uint32_t rate, uint32_t burst,
			  uint64_t seen_ms, uint64_t tries)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < tries; i++)
		n += take(partner_id, rate, burst, seen_ms);
	return n;
}

/* L4: workers remember a rule for a while. If each went by its own, the large
 * burst would be had again and again. */
static void the_rule_that_was_read_last_holds_for_all(void)
{
	uint64_t n = 0;

	open_table();
	clock_set_for_test(NOON);
	WANT_U64(take_many(1, 10, 1000, NOON - 2000, 10), 10);
	for (uint64_t ms = 0; ms < 2000; ms++) {
		clock_set_for_test(NOON + ms);
		n += take_many(1, 10, 1000, NOON - 2000, 5);
		n += take_many(1, 10, 5, NOON - 1000, 5);
	}
	/* At most what the old one had left when the new one was seen. */
	WANT(n >= 20 && n <= 5 + 5 + 20);
	WANT_U64(take_many(1, 10, 1000, NOON + 1999, 2000), 995);
	clock_set_for_test(0);
}

static void partners_do_not_share_a_limit(void)
{
	open_table();
	clock_set_for_test(NOON);
	WANT_U64(take_many(1, 1, 3, NOON, 5), 3);
	WANT_U64(take_many(2, 1, 3, NOON, 5), 3);
	WANT_U64(take_many(1 + LIMIT_SLOTS, 1, 3, NOON, 5), 3);
	WANT_U64(take_many(1, 1, 3, NOON, 5), 0);
	clock_set_for_test(0);
}

static void no_rate_is_no_limit(void)
{
	struct limit_rule rule = {1, 0, 5, 0};
	struct limit_state s;

	open_table();
	limit_take(&rule, &s);
	WANT(!s.has && !s.over);
	WANT_U64(take_many(1, 0, 1, 0, 100), 100);
}

static void what_a_script_set_out_of_range_is_bounded(void)
{
	open_table();
	clock_set_for_test(NOON);
	WANT_U64(take_many(1, 5, 0, NOON, 3), 1);
	WANT_U64(take_many(2, UINT32_MAX, UINT32_MAX, NOON, LIMIT_MAX + 3),
		 LIMIT_MAX);
	clock_set_for_test(0);
}

/* L6 */
static void a_full_table_uses_the_slots_of_idle_partners(void)
{
	uint64_t before = metric_get(METRIC_RATE_TABLE_FULL);
	uint32_t last = LIMIT_SLOTS;

	open_table();
	clock_set_for_test(NOON);
	for (uint32_t id = 1; id <= last; id++)
		take_many(id, 1, 2, NOON, id == 77 ? 1 : 2);
	/* Nobody is idle: admitted, and counted as such. */
	WANT(take(last + 1, 1, 2, NOON));
	WANT_U64(metric_get(METRIC_RATE_TABLE_FULL), before + 1);
	/* 77 is, after a second; nobody else. */
	clock_set_for_test(NOON + 1000);
	WANT_U64(take_many(last + 1, 1, 2, NOON, 5), 2);
	WANT_U64(metric_get(METRIC_RATE_TABLE_FULL), before + 1);
	WANT_U64(take_many(5, 1, 2, NOON, 5), 1);
	WANT(take(last + 2, 1, 2, NOON));
	WANT_U64(metric_get(METRIC_RATE_TABLE_FULL), before + 2);
	WANT_U64(take_many(last + 1, 1, 2, NOON, 5), 0);
	clock_set_for_test(0);
}

/* Children that take as fast as they can until they are refused `refused`
 * times in a row; gives how many were admitted. */
enum { CHILDREN = 4 };

static void race(uint32_t partner_id, uint32_t burst, int out)
{
	uint64_t n = 0;

	for (int refused = 0; refused < 1000;) {
		if (take(partner_id, 1, burst, NOON)) {
			n++;
			refused = 0;
		} else {
			refused++;
		}
	}
	_exit(write(out, &n, sizeof(n)) == sizeof(n) ? 0 : 1);
}

static uint64_t race_all(uint32_t partner_id, uint32_t burst, int deaths)
{
	uint64_t sum = 0, n;
	pid_t pid[CHILDREN];
	int fd[2];

	fflush(stdout);
	if (pipe(fd) != 0)
		bug("pipe");
	for (int i = 0; i < CHILDREN; i++) {
		pid[i] = fork();
		if (pid[i] == 0)
			race(partner_id, burst, fd[1]);
	}
	for (int i = 0; i < deaths; i++)
		kill(pid[i], SIGKILL);
	close(fd[1]);
	while (read(fd[0], &n, sizeof(n)) == sizeof(n))
		sum += n;
	close(fd[0]);
	for (int i = 0; i < CHILDREN; i++)
		waitpid(pid[i], NULL, 0);
	return sum;
}

/* L1, by processes: the clock stands still, so that the burst is all. */
static void processes_that_race_get_the_burst_and_no_more(void)
{
	open_table();
	clock_set_for_test(NOON);
	for (uint32_t id = 1; id <= 5; id++)
		WANT_U64(race_all(id, 200000, 0), 200000);
	clock_set_for_test(0);
}

/* L3 */
static void a_killed_process_leaves_no_lock(void)
{
	open_table();
	clock_set_for_test(NOON);
	for (uint32_t id = 1; id <= 20; id++) {
		WANT(race_all(id, 50000, 3) <= 50000);
		WANT_U64(take_many(id, 1, 50000, NOON, 10), 0);
	}
	clock_set_for_test(0);
}

static void parents_count_together_through_the_file(void)
{
	char dir[] = "/tmp/wb-limit-XXXXXX", path[64];
	struct fail f = FAIL_INIT;

	if (!mkdtemp(dir))
		bug("mkdtemp");
	snprintf(path, sizeof(path), "%s/f", dir);
	clock_set_for_test(NOON);
	WANT(limit_open(path, &f));
	WANT_U64(take_many(1, 1, 10, NOON, 6), 6);
	WANT(limit_open(path, &f));
	WANT_U64(take_many(1, 1, 10, NOON, 6), 4);
	clock_set_for_test(0);
	unlink(path);
	snprintf(path, sizeof(path), "%s/f.lock", dir);
	unlink(path);
	WANT(rmdir(dir) == 0);
	WANT(!limit_open("/nowhere/at/all", &f));
	WANT_FAIL(&f, FAIL_SYSTEM);
	open_table();
}

/* A process that has a request of the partner in hand, or had one; it says
 * when. */
static pid_t child_of(uint32_t partner_id, uint64_t until_ms, bool ends)
{
	char said = 0;
	int fd[2];
	pid_t pid;

	fflush(stdout);
	if (pipe(fd) != 0)
		bug("pipe");
	pid = fork();
	if (pid == 0) {
		inflight_begin(partner_id, until_ms);
		if (ends)
			inflight_end();
		if (write(fd[1], &said, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	if (read(fd[0], &said, 1) != 1)
		bug("the child said nothing");
	close(fd[0]);
	close(fd[1]);
	return pid;
}

static pid_t busy_child(uint32_t partner_id, uint64_t until_ms)
{
	return child_of(partner_id, until_ms, false);
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void open_inflight(void)
{
	struct fail f = FAIL_INIT;

	if (!inflight_open("", &f))
		bug("%s", f.detail);
}

/* F3 */
static void a_request_is_slow_when_it_has_run_for_long(void)
{
	pid_t a, b;

	open_inflight();
	clock_set_for_test(NOON);
	a = busy_child(1, NOON + 30000);
	b = busy_child(2, NOON + 30000);
	inflight_begin(1, NOON + 30000);
	WANT_U64(inflight_slow(1, 1000), 0);
	clock_set_for_test(NOON + 999);
	WANT_U64(inflight_slow(1, 1000), 0);
	clock_set_for_test(NOON + 1000);
	WANT_U64(inflight_slow(1, 1000), 1); /* not itself, not partner 2 */
	WANT_U64(inflight_slow(2, 1000), 1);
	WANT_U64(inflight_slow(3, 1000), 0);
	inflight_end();
	end_child(a);
	end_child(b);
	clock_set_for_test(0);
}

/* F2 */
static void a_killed_or_overdue_request_holds_no_worker(void)
{
	pid_t a, b;

	open_inflight();
	clock_set_for_test(NOON);
	a = busy_child(1, NOON + 30000);
	b = busy_child(1, NOON + 5000);
	clock_set_for_test(NOON + 4999);
	WANT_U64(inflight_slow(1, 1000), 2);
	clock_set_for_test(NOON + 5000);
	WANT_U64(inflight_slow(1, 1000), 1);
	end_child(a);
	WANT_U64(inflight_slow(1, 1000), 0);
	end_child(b);
	clock_set_for_test(0);
}

static void a_request_that_ended_holds_no_worker(void)
{
	pid_t child;

	open_inflight();
	clock_set_for_test(NOON);
	child = child_of(1, NOON + 30000, true);
	clock_set_for_test(NOON + 5000);
	WANT_U64(inflight_slow(1, 1000), 0);
	end_child(child);
	clock_set_for_test(0);
}

void suite_limit(void)
{
	ADD(a_burst_and_then_the_rate_are_admitted);
	ADD(a_rate_that_does_not_divide_a_second_is_exact);
	ADD(a_burst_of_one_is_one_at_a_time);
	ADD(the_largest_rate_and_burst_do_not_overflow);
	ADD(a_refused_request_takes_nothing);
	ADD(a_look_takes_nothing);
	ADD(times_are_rounded_up);
	ADD(a_clock_that_began_anew_keeps_nobody_out);
	ADD(a_clock_that_is_a_little_behind_gives_nothing);
	ADD(an_uptime_of_years_changes_nothing);
	ADD(a_new_rate_gives_and_takes_at_most_a_burst);
	ADD(a_smaller_burst_takes_no_more_than_itself);
	ADD(the_rule_that_was_read_last_holds_for_all);
	ADD(partners_do_not_share_a_limit);
	ADD(no_rate_is_no_limit);
	ADD(what_a_script_set_out_of_range_is_bounded);
	ADD(a_full_table_uses_the_slots_of_idle_partners);
	ADD(processes_that_race_get_the_burst_and_no_more);
	ADD(a_killed_process_leaves_no_lock);
	ADD(parents_count_together_through_the_file);
	ADD(a_request_is_slow_when_it_has_run_for_long);
	ADD(a_killed_or_overdue_request_holds_no_worker);
	ADD(a_request_that_ended_holds_no_worker);
}
