/* The Prefer header (RFC 7240). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/prefer.h"

#include <inttypes.h>

#include "base/text.h"

/* What stands before the next `c` that is not inside a quoted string. */
static struct sv cut_unquoted(struct sv *rest, char c)
{
	struct sv s = *rest;
	bool quoted = false;
	size_t i;

	for (i = 0; i < s.n && (quoted || s.p[i] != c); i++) {
		if (s.p[i] == '"')
			quoted = !quoted;
		else if (quoted && s.p[i] == '\\' && i + 1 < s.n)
			i++;
	}
	*rest = sv_tail(s, i < s.n ? i + 1 : s.n);
	return sv_from(s.p, i);
}

static struct sv unquoted(struct sv s)
{
	if (s.n >= 2 && s.p[0] == '"' && s.p[s.n - 1] == '"')
		return sv_from(s.p + 1, s.n - 2);
	return s;
}

/* true: a `wait` is in it, and *value_r is what it says. */
static bool find_wait(struct sv header, struct sv *value_r)
{
	while (header.n) {
		struct sv one = cut_unquoted(&header, ',');
		struct sv value = cut_unquoted(&one, ';');
		struct sv name = sv_trim(sv_cut(&value, '='));

		if (sv_eq_nocase(name, SV("wait"))) {
			*value_r = unquoted(sv_trim(value));
			return true;
		}
	}
	return false;
}

bool prefer_wait(const struct http_request *r, uint64_t max, bool *has_r,
		 uint64_t *seconds_r, struct fail *f)
{
	struct sv value;

	*has_r = false;
	for (size_t i = 0; i < r->header_count && !*has_r; i++)
		*has_r = sv_eq(r->headers[i].name, SV("prefer")) &&
			 find_wait(r->headers[i].value, &value);
	if (!*has_r || text_u64(value, 0, max, seconds_r))
		return true;
	return fail_set(f, FAIL_BAD_HEADER,
			"Prefer: wait must be a whole number of seconds from 0 "
			"to %" PRIu64,
			max);
}
