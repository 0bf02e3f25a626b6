/* Time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <inttypes.h>

static uint64_t frozen_ms;

static uint64_t read_us(clockid_t id)
{
	struct timespec ts;

	if (clock_gettime(id, &ts) != 0)
		bug("clock_gettime(%d)", (int)id);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t clock_mono_us(void)
{
	return frozen_ms ? frozen_ms * 1000 : read_us(CLOCK_MONOTONIC);
}

uint64_t clock_mono_ms(void)
{
	return clock_mono_us() / 1000;
}

uint64_t clock_wall_ms(void)
{
	return frozen_ms ? frozen_ms : read_us(CLOCK_REALTIME) / 1000;
}

void clock_rfc3339(uint64_t wall_ms, char out[CLOCK_TEXT])
{
	time_t secs = (time_t)(wall_ms / 1000);
	struct tm tm;

	if (!gmtime_r(&secs, &tm) || tm.tm_year > 8099)
		bug("time %" PRIu64 " ms is past the year 9999", wall_ms);
	snprintf(out, CLOCK_TEXT, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
		 (unsigned)(tm.tm_year + 1900) % 10000U,
		 (unsigned)(tm.tm_mon + 1) % 100U, (unsigned)tm.tm_mday % 100U,
		 (unsigned)tm.tm_hour % 100U, (unsigned)tm.tm_min % 100U,
		 (unsigned)tm.tm_sec % 100U, (unsigned)(wall_ms % 1000));
}

/* Not strftime(): its names depend on the locale. */
void clock_http_date(uint64_t wall_ms, char out[CLOCK_HTTP])
{
	static const char DAYS[][4] = {"Sun", "Mon", "Tue", "Wed",
				       "Thu", "Fri", "Sat"};
	static const char MONTHS[][4] = {"Jan", "Feb", "Mar", "Apr",
					 "May", "Jun", "Jul", "Aug",
					 "Sep", "Oct", "Nov", "Dec"};
	time_t secs = (time_t)(wall_ms / 1000);
	struct tm tm;

	if (!gmtime_r(&secs, &tm) || tm.tm_year > 8099)
		bug("time %" PRIu64 " ms is past the year 9999", wall_ms);
	snprintf(out, CLOCK_HTTP, "%s, %02u %s %04u %02u:%02u:%02u GMT",
		 DAYS[tm.tm_wday], (unsigned)tm.tm_mday % 100U,
		 MONTHS[tm.tm_mon], (unsigned)(tm.tm_year + 1900) % 10000U,
		 (unsigned)tm.tm_hour % 100U, (unsigned)tm.tm_min % 100U,
		 (unsigned)tm.tm_sec % 100U);
}

uint32_t clock_day(uint64_t wall_ms)
{
	return (uint32_t)(wall_ms / 86400000);
}

void clock_sleep_ms(uint64_t ms)
{
	struct timespec ts = {.tv_sec = (time_t)(ms / 1000),
			      .tv_nsec = (long)(ms % 1000) * 1000000};

	if (!frozen_ms)
		nanosleep(&ts, NULL);
}

void clock_set_for_test(uint64_t wall_ms)
{
	frozen_ms = wall_ms;
}
