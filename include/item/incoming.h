/* One item as it was sent: decoded and validated, not yet decided on.
 *
 * Made by item/decode (from a body) or one by one by item/validate (a held
 * back payload that is looked at again). Everything points into the body or
 * the arena.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_INCOMING_H
#define WAYBILL_INCOMING_H

#include "base/sv.h"
#include "item/collection.h"

enum { ITEM_HASH = 16, ITEM_SOURCE_ID_MAX = 128 };
/* Versions go up to 2^63-1; shown as a number up to 2^53-1. */
#define ITEM_VERSION_MAX        INT64_MAX
#define ITEM_VERSION_NUMBER_MAX ((UINT64_C(1) << 53) - 1)

/* A reference that must exist and be ACTIVE when the item is accepted. */
struct item_ref {
	enum collection collection;
	struct sv source_id;
	const char *trait; /* it must have this trait; NULL: any */
};

struct incoming {
	uint64_t index;
	uint64_t line; /* of NDJSON; 0: none */

	bool rejected;
	struct sv errors; /* if so: [{"pointer":..,"code":..,"detail":..},..] */

	bool has_source_id; /* false only if rejected */
	struct sv source_id;
	bool has_version;
	uint64_t version;

	struct sv payload; /* as sent, without white space outside strings */
	uint8_t hash[ITEM_HASH];

	/* What others check of it (item.trait): a location's kind, a lot's or
	 * BOM's sku_source_id; empty for the rest. */
	struct sv trait;
	/* What its own fields say of the warehouse it is of (item.home): the
	 * source ids of the fields that do, in their order, joined by line
	 * feeds, which no source id has; empty: none. See item/scope.h. */
	struct sv home;

	struct item_ref *refs; /* in document order, none twice */
	size_t ref_count;

	/* For the rules across items. */
	struct sv sku;         /* serials, boms: sku_source_id */
	struct sv lot;         /* serials: lot_source_id, or empty */
	bool same_warehouse;   /* transfer-orders: from == to */
	struct sv *components; /* boms: SKUs it is made of */
	size_t component_count;
};

#endif
