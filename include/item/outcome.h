/* What became of an item, and how that is told. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_OUTCOME_H
#define WAYBILL_OUTCOME_H

#include "base/buf.h"
#include "base/ids.h"
#include "item/incoming.h"

/* The numbers stand in batch_item: never reuse one. */
enum item_status {
	ITEM_ACCEPTED = 1,
	ITEM_REPLAY = 2,
	ITEM_QUARANTINED = 3,
	ITEM_REJECTED = 4,
	ITEM_TOMBSTONED = 5,
	ITEM_RESTORED = 6,
};

enum item_change {
	ITEM_NO_CHANGE = 0,
	ITEM_CREATED = 1,
	ITEM_UPDATED = 2,
	ITEM_REACTIVATED = 3,
	ITEM_UNCHANGED = 4,
};

/* Why an item is held back; the numbers stand in quarantine.code. */
enum hold_code {
	HOLD_NONE = 0,
	HOLD_REFERENCE_MISSING = 1,
	HOLD_REFERENCE_INACTIVE = 2,
	HOLD_REFERENCE_WRONG_KIND = 3,
	HOLD_LOT_OF_OTHER_SKU = 4,
	HOLD_SAME_WAREHOUSE = 5,
	HOLD_BOM_CYCLE = 6,
	HOLD_CROSS_WAREHOUSE = 7,
};

enum item_state { ITEM_ACTIVE = 1, ITEM_INACTIVE = 2 };

enum quarantine_state {
	QUARANTINE_OPEN = 1,
	QUARANTINE_RELEASED = 2,
	QUARANTINE_SUPERSEDED = 3,
	QUARANTINE_DISCARDED = 4,
};

const char *item_status_name(enum item_status s); /* "ACCEPTED" */
const char *item_change_name(enum item_change c); /* "created" */
const char *item_state_name(enum item_state s);   /* "ACTIVE" */
const char *hold_code_name(enum hold_code c);     /* "bom-cycle" */
const char *quarantine_state_name(enum quarantine_state s);
/* The other way, for filters; 0: no such word. */
enum item_status item_status_of(struct sv name);
enum item_state item_state_of(struct sv name);
enum hold_code hold_code_of(struct sv name);
enum quarantine_state quarantine_state_of(struct sv name);

/* What is not set is not shown: a dry run has no ids. */
struct outcome {
	enum item_status status;
	enum item_change change;
	bool conflict;      /* REPLAY: equal version, other content */
	bool held_inactive; /* REPLAY: the held item is INACTIVE */
	bool has_held;
	uint64_t held_version;
	bool has_internal_id;
	struct id internal_id;
	uint32_t rev;          /* the item's after it; 0: none */
	struct sv kept_detail; /* batch_item.detail; p NULL: made from the
				  rest */
	struct sv errors;      /* REJECTED for another reason than its shape: in
				  place of the item's own */
	/* QUARANTINED */
	bool has_quarantine_id;
	struct id quarantine_id;
	enum hold_code code;
	struct sv reason;
	struct sv
		missing; /* [{"collection":..,"source_id":..},..]; empty: [] */
};

/* The value alone: a number up to 2^53-1, above it a string, null if none. */
void outcome_add_version(struct buf *b, bool has, uint64_t version);

/* The members that stand behind status in a result, for QUARANTINED and
 * REJECTED: the text kept as batch_item.detail. Joined by commas, with none in
 * front, so that `{` before it and `}` after it make an object:
 *
 *	"errors":[...]
 *	"quarantine_id":"qua-...","reason":"...","code":"...","missing":[...]
 */
void outcome_add_detail(struct buf *b, const struct incoming *in,
			const struct outcome *o);

/* One entry of `results`. The collection gives the internal id its prefix. */
void outcome_add_result(struct buf *b, enum collection c,
			const struct incoming *in, const struct outcome *o);

/* prefix + 32 hex digits: sku-0195..., qua-..., bat-... */
void outcome_add_id(struct buf *b, const char *prefix, struct id id);
MUST_CHECK bool outcome_parse_id(struct sv text, const char *prefix,
				 struct id *id_r);

#endif
