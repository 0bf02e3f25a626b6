/* String views. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sv.h"

struct sv sv_of(const char *cstr)
{
	return (struct sv){cstr, cstr ? strlen(cstr) : 0};
}

struct sv sv_from(const void *p, size_t n)
{
	return (struct sv){p, n};
}

bool sv_eq(struct sv a, struct sv b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static unsigned char lower(char c)
{
	unsigned char u = (unsigned char)c;

	return u >= 'A' && u <= 'Z' ? (unsigned char)(u + 32) : u;
}

bool sv_eq_nocase(struct sv a, struct sv b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++)
		if (lower(a.p[i]) != lower(b.p[i]))
			return false;
	return true;
}

int sv_cmp(struct sv a, struct sv b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int c = n ? memcmp(a.p, b.p, n) : 0;

	if (c != 0)
		return c;
	return a.n < b.n ? -1 : a.n > b.n;
}

bool sv_starts(struct sv s, struct sv prefix)
{
	return s.n >= prefix.n && sv_eq((struct sv){s.p, prefix.n}, prefix);
}

bool sv_has(struct sv s, char c)
{
	return s.n && memchr(s.p, c, s.n) != NULL;
}

struct sv sv_trim(struct sv s)
{
	while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
		s = sv_tail(s, 1);
	while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

struct sv sv_tail(struct sv s, size_t from)
{
	if (from >= s.n)
		return SV_NONE;
	return (struct sv){s.p + from, s.n - from};
}

struct sv sv_cut(struct sv *rest, char c)
{
	const char *at = rest->n ? memchr(rest->p, c, rest->n) : NULL;
	struct sv head = *rest;

	if (!at) {
		*rest = SV_NONE;
		return head;
	}
	head.n = (size_t)(at - rest->p);
	*rest = sv_tail(*rest, head.n + 1);
	return head;
}
