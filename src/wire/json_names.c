/* Names: the hashes of those of all open objects. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "json_internal.h"

/* A part of a name, still escaped, into the hash and, if it comes in parts,
 * into the path. */
void json_name_add(struct json_items *s, const char *p, const char *end)
{
	while (p < end) {
		const char *plain = memchr(p, '\\', (size_t)(end - p));
		char text[4];
		size_t n;

		n = (size_t)((plain ? plain : end) - p);
		json_hash_add(&s->hash, p, n);
		if (s->streaming)
			json_place_add(s, p, n);
		if (!plain)
			return;
		p = plain + json_unit_decode(plain, text, &n);
		json_hash_add(&s->hash, text, n);
		if (s->streaming)
			json_place_add(s, text, n);
	}
}

/* Without a branch a name, so that a full object costs little. */
bool json_name_known(const struct json_items *s, size_t from, uint64_t hash)
{
	bool known = false;

	for (size_t i = from; i < s->names_n; i++)
		known |= s->names[i] == hash;
	return known;
}

void json_name_keep(struct json_items *s, uint64_t hash)
{
	if (s->names_n == s->names_cap) {
		size_t cap = s->names_cap ? s->names_cap * 2 : 64;
		uint64_t *grown = arena_reserve(s->arena, cap * sizeof(*grown));

		if (s->names_n)
			memcpy(grown, s->names, s->names_n * sizeof(*grown));
		s->names = grown;
		s->names_cap = cap;
	}
	s->names[s->names_n++] = hash;
}
