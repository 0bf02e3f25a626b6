/* Why something failed: a code of the table in fail.def, and a sentence.
 *
 * The lowest function that knows the reason writes it once; those above pass
 * it on; only the top logs it or answers with it.
 *
 *	if (n > max)
 *		return fail_set(f, FAIL_BODY_TOO_LARGE,
 *				"%zu bytes; the limit is %zu", n, max);
 *
 * The detail is shown to callers: it never holds a credential, a payload or
 * what the database said. Such a text goes to fail_log(), which only the log
 * line carries.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_FAIL_H
#define WAYBILL_FAIL_H

#include "base/sv.h"

enum fail_code {
	FAIL_NONE,
#define FAIL(code, status, exit_status, slug, title, advice) FAIL_##code,
#include "base/fail.def"
#undef FAIL
	FAIL_COUNT
};

struct fail {
	enum fail_code code;
	char detail[320];       /* for the caller */
	char log[320];          /* for the log only */
	bool has_pointer;       /* "" is one too: the whole body */
	char pointer[320];      /* JSON Pointer of the place */
	uint64_t line;          /* of NDJSON, from 1; 0: none */
	uint64_t retry_after_s; /* 0: none */
	bool quotes; /* the detail quotes what was sent: not for logs */
};

struct fail_info {
	const char *name; /* "BODY_TOO_LARGE" */
	int status, exit_status;
	const char *slug, *title, *advice;
};

#define FAIL_INIT ((struct fail){.code = FAIL_NONE})

/* All three return false, so that `return fail_set(...)` reads well. */
bool fail_set(struct fail *f, enum fail_code code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
bool fail_log(struct fail *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
bool fail_errno(struct fail *f, enum fail_code code, const char *doing,
		const char *what); /* "cannot open /x: No such file" */

const struct fail_info *fail_info(enum fail_code code);
/* By its slug; FAIL_NONE: there is none (any more). */
enum fail_code fail_named(struct sv slug);

#endif
