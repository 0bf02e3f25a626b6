/* Why something failed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fail.h"

#include <errno.h>

static const struct fail_info INFOS[FAIL_COUNT] = {
	[FAIL_NONE] = {"NONE", 200, 0, "none", "No failure", ""},
#define FAIL(code, status, exit_status, slug, title, advice) \
	[FAIL_##code] = {#code, status, exit_status, slug, title, advice},
#include "base/fail.def"
#undef FAIL
};

bool fail_set(struct fail *f, enum fail_code code, const char *fmt, ...)
{
	va_list ap;

	*f = (struct fail){.code = code};
	va_start(ap, fmt);
	vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	va_end(ap);
	return false;
}

bool fail_log(struct fail *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->log, sizeof(f->log), fmt, ap);
	va_end(ap);
	return false;
}

bool fail_errno(struct fail *f, enum fail_code code, const char *doing,
		const char *what)
{
	return fail_set(f, code, "cannot %s %s: %s", doing, what,
			strerror(errno));
}

const struct fail_info *fail_info(enum fail_code code)
{
	if (code < FAIL_NONE || code >= FAIL_COUNT)
		bug("fail code %d", (int)code);
	return &INFOS[code];
}

enum fail_code fail_named(struct sv slug)
{
	for (int i = FAIL_NONE + 1; i < FAIL_COUNT; i++)
		if (sv_eq(slug, sv_of(INFOS[i].slug)))
			return (enum fail_code)i;
	return FAIL_NONE;
}
