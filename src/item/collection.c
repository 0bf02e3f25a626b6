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
