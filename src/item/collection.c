/* The collections. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "item/collection.h"

static const struct collection_info INFOS[COLLECTION_COUNT] = {
#define COLLECTION(id, area, name, prefix) \
	[COLLECTION_##id] = {area, name, prefix},
#include "item/collection.def"
#undef COLLECTION
};

const struct collection_info *collection_info(enum collection c)
{
	if (c < 0 || c >= COLLECTION_COUNT)
		bug("collection %d", (int)c);
	return &INFOS[c];
}

bool collection_named(struct sv name, enum collection *c_r)
{
	for (int i = 0; i < COLLECTION_COUNT; i++)
		if (sv_eq(name, sv_of(INFOS[i].name))) {
			*c_r = (enum collection)i;
			return true;
		}
	return false;
}

bool collection_find(struct sv area, struct sv name, enum collection *c_r)
{
	enum collection c;

	if (!collection_named(name, &c) || !sv_eq(area, sv_of(INFOS[c].area)))
		return false;
	*c_r = c;
	return true;
}
