/* Questions about single values that the rules of fields ask. Pure functions
 * over bytes; numbers are judged as the text that was sent, never converted. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_VALUE_H
#define WAYBILL_VALUE_H

#include "base/sv.h"

/* U+0000-U+001F or U+007F-U+009F somewhere in this UTF-8. */
bool value_has_control(struct sv text);

/* -1, 0 or 1: the sign of a number that is right as JSON. -0 and 0e9 are 0,
 * 1e-999 is 1. */
int value_sign(struct sv number);

/* "0", or digits that begin with another one: one text a number. */
bool value_is_digits(struct sv text);

/* An RFC 3339 date-time: a day that exists, T, a time, a fraction or none, Z
 * or an offset. Letters in either case; a blank in place of T is none. The
 * second 60 only where UTC can have it, at 23:59. */
bool value_is_time(struct sv text);

#endif
