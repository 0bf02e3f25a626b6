/* String views: a pointer and a length over bytes somebody else owns.
 *
 * Input is always an sv; it is not terminated and may hold any byte. An sv
 * with n == 0 is empty, whatever p is. Nothing here allocates.
 *
 *	struct sv rest = SV("a=b"), name = sv_cut(&rest, '=');
 *	printf("%.*s", SV_ARG(name));
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_SV_H
#define WAYBILL_SV_H

#include "base/base.h"

struct sv {
	const char *p;
	size_t n;
};

#define SV(literal) ((struct sv){"" literal, sizeof(literal) - 1})
#define SV_NONE     ((struct sv){NULL, 0})
#define SV_ARG(s)   (int)(s).n, (s).p

struct sv sv_of(const char *cstr); /* NULL gives SV_NONE */
struct sv sv_from(const void *p, size_t n);
bool sv_eq(struct sv a, struct sv b);
bool sv_eq_nocase(struct sv a, struct sv b); /* ASCII letters only */
int sv_cmp(struct sv a, struct sv b);        /* byte order */
bool sv_starts(struct sv s, struct sv prefix);
bool sv_has(struct sv s, char c);
struct sv sv_trim(struct sv s); /* blanks and tabs at both ends */
struct sv sv_tail(struct sv s, size_t from);

/* Take what stands before the first `c` off the front of *rest, which then
 * begins after it; without a `c`, all of it, and *rest is empty. */
struct sv sv_cut(struct sv *rest, char c);

#endif
