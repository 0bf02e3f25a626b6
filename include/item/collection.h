/* The collections: kinds of items, a table (collection.def). */
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

#endif
