/* The collections: kinds of items, a table (collection.def). What an item of
 * each looks like stands in item/field.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_COLLECTION_H
#define WAYBILL_COLLECTION_H

#include "base/sv.h"

enum collection {
#define COLLECTION(id, area, name, prefix) COLLECTION_##id,
#include "item/collection.def"
#undef COLLECTION
	COLLECTION_COUNT
};

struct collection_info {
	const char *area, *name, *prefix;
};

const struct collection_info *collection_info(enum collection c);

/* The collection of a path's {area}/{collection}; false: there is none. */
MUST_CHECK bool collection_find(struct sv area, struct sv name,
				enum collection *c_r);
/* The same by name alone, for filters: no two areas share a name. */
MUST_CHECK bool collection_named(struct sv name, enum collection *c_r);

#endif
