/* What every file includes first: standard types, a few attributes, bug().
 *
 * bug() is for promises this program broke to itself. It logs where, and
 * aborts; it stays on in production. Input, network and database are never a
 * reason to call it: those are `struct fail` (base/fail.h).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_BASE_H
#define WAYBILL_BASE_H

#include "config.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST_CHECK             __attribute__((warn_unused_result))
#define NO_RETURN              __attribute__((noreturn))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define ARRAY_LEN(a)           (sizeof(a) / sizeof((a)[0]))

#define bug(...) bug_at(__FILE__, __LINE__, __VA_ARGS__)
NO_RETURN void bug_at(const char *file, int line, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

#include "base/banned.h"

#endif
