/* Time. Monotonic for deadlines, wall for what people read.
 *
 * Times that are stored come from the database's clock, not from here.
 * Tests set the clock with clock_set_for_test(); nothing sleeps.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_CLOCK_H
#define WAYBILL_CLOCK_H

#include "base/sv.h"

uint64_t clock_mono_us(void);
uint64_t clock_mono_ms(void);
uint64_t clock_wall_ms(void); /* since 1970, UTC */

/* "2026-11-18T02:30:00.123Z"; out holds CLOCK_TEXT bytes. */
enum { CLOCK_TEXT = 25 };
void clock_rfc3339(uint64_t wall_ms, char out[CLOCK_TEXT]);

/* "Wed, 18 Nov 2026 02:30:00 GMT", as HTTP headers have it (IMF-fixdate). */
enum { CLOCK_HTTP = 30 };
void clock_http_date(uint64_t wall_ms, char out[CLOCK_HTTP]);

/* The UTC day of a wall time, as days since 1970. */
uint32_t clock_day(uint64_t wall_ms);

void clock_sleep_ms(uint64_t ms); /* returns early on a signal */

/* Freeze both clocks at this wall time; 0 lets them run again. */
void clock_set_for_test(uint64_t wall_ms);

#endif
