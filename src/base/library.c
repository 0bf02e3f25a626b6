/* Versions of libraries. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/library.h"

#include "base/text.h"

enum { PARTS = 3 };

/* "3.0.17-deb" -> 3, 0, 17; what is no number ends it. */
static void parse(const char *text, uint64_t part[PARTS])
{
	struct sv rest = sv_of(text);

	memset(part, 0, PARTS * sizeof(*part));
	for (size_t i = 0; i < PARTS && rest.n; i++) {
		struct sv word = sv_cut(&rest, '.');
		size_t n = 0;

		while (n < word.n && isdigit((unsigned char)word.p[n]))
			n++;
		if (!text_u64(sv_from(word.p, n), 0, UINT32_MAX, &part[i]) ||
		    n < word.n)
			return;
	}
}

bool library_fits(const struct library *l)
{
	uint64_t built[PARTS], running[PARTS];

	if (!*l->built || !*l->running)
		return true;
	parse(l->built, built);
	parse(l->running, running);
	if (built[0] != running[0])
		return false;
	for (size_t i = 1; i < PARTS; i++)
		if (built[i] != running[i])
			return running[i] > built[i];
	return true;
}
