/* Fault points. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"

#if WAYBILL_FAULTS

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

static void note(const char *path, const char *name)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "%s\n", name);
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, line, (size_t)n) != n)
		bug("cannot note fault point %s", name);
	close(fd);
}

/* A signal must not cut it short: the point is to be late. */
static void be_late(uint64_t ms)
{
	uint64_t until = clock_mono_ms() + ms, now;

	while ((now = clock_mono_ms()) < until)
		clock_sleep_ms(until - now);
}

static void act(struct sv action, const char *name)
{
	uint64_t ms;

	if (sv_eq(action, SV("kill")))
		raise(SIGKILL);
	else if (sv_eq(action, SV("stop")))
		raise(SIGSTOP);
	else if (sv_starts(action, SV("delay=")) &&
		 text_u64(sv_tail(action, 6), 0, 600000, &ms))
		be_late(ms);
	else
		bug("fault at %s: unknown action", name);
}

/* `rest` is what follows the name: N:action. */
static void pass(struct sv rest, const char *name)
{
	static uint64_t passed;
	uint64_t nth;

	if (!text_u64(sv_cut(&rest, ':'), 1, UINT64_MAX, &nth))
		bug("WAYBILL_TEST_FAULT: want name:N:action");
	if (++passed == nth)
		act(rest, name);
}

void fault_at(const char *name)
{
	struct sv rest = sv_of(getenv("WAYBILL_TEST_FAULT")), point;
	const char *list = getenv("WAYBILL_TEST_FAULT_LIST");

	if (list)
		note(list, name);
	if (!rest.n)
		return;
	point = sv_cut(&rest, ':');
	if (sv_eq(point, sv_of(name)) || sv_eq(point, SV("*")))
		pass(rest, name);
}

void fault_of(const char *name, struct sv thing)
{
	struct sv rest = sv_of(getenv("WAYBILL_TEST_FAULT")), wanted;

	if (!rest.n)
		return;
	wanted = sv_cut(&rest, ':');
	if (sv_eq(sv_cut(&wanted, '='), sv_of(name)) && sv_eq(wanted, thing))
		pass(rest, name);
}

#else
/* ISO C wants a translation unit to declare something. */
extern int fault_unused;
#endif
