/* What a suite needs: a file tests/unit/test_NAME.c with
 *
 *	static void a_promise_in_words(void) { WANT(...); WANT_SV(...); }
 *	void suite_NAME(void)
 *	{
 *		ADD(a_promise_in_words);
 *	}
 *
 * and a row in suites.def. A failed check prints what it got and wanted.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_UNIT_H
#define WAYBILL_UNIT_H

#include "base/base.h"
#include "base/sv.h"
#include "base/fail.h"

#define SUITE(name) void suite_##name(void);
#include "suites.def"
#undef SUITE

#define ADD(test)       unit_add(#test, test)
#define WANT(condition) unit_want((condition), #condition, __FILE__, __LINE__)
#define WANT_U64(got, want) \
	unit_want_u64((got), (want), #got, __FILE__, __LINE__)
#define WANT_SV(got, want) unit_want_sv((got), (want), #got, __FILE__, __LINE__)
#define WANT_FAIL(f, want) unit_want_fail((f), (want), __FILE__, __LINE__)

void unit_add(const char *name, void (*test)(void));
void unit_want(bool ok, const char *what, const char *file, int line);
void unit_want_u64(uint64_t got, uint64_t want, const char *what,
		   const char *file, int line);
void unit_want_sv(struct sv got, struct sv want, const char *what,
		  const char *file, int line);
void unit_want_fail(const struct fail *f, enum fail_code want, const char *file,
		    int line);

/* Leave this test out, and count it as skipped, with the reason. */
void unit_skip(const char *why);

#endif
