/* What became of an item, and how that is told. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "item/outcome.h"

/* Indexed by the number; those that are not there are NULL. */
static const char *const STATUSES[] = {
	[ITEM_ACCEPTED] = "ACCEPTED",       [ITEM_REPLAY] = "REPLAY",
	[ITEM_QUARANTINED] = "QUARANTINED", [ITEM_REJECTED] = "REJECTED",
	[ITEM_TOMBSTONED] = "TOMBSTONED",   [ITEM_RESTORED] = "RESTORED",
};

static const char *const CHANGES[] = {
	[ITEM_CREATED] = "created",
	[ITEM_UPDATED] = "updated",
	[ITEM_REACTIVATED] = "reactivated",
	[ITEM_UNCHANGED] = "unchanged",
};

static const char *const STATES[] = {
	[ITEM_ACTIVE] = "ACTIVE",
	[ITEM_INACTIVE] = "INACTIVE",
};

static const char *const HOLDS[] = {
	[HOLD_REFERENCE_MISSING] = "reference-missing",
	[HOLD_REFERENCE_INACTIVE] = "reference-inactive",
	[HOLD_REFERENCE_WRONG_KIND] = "reference-wrong-kind",
	[HOLD_LOT_OF_OTHER_SKU] = "lot-of-other-sku",
	[HOLD_SAME_WAREHOUSE] = "same-warehouse",
	[HOLD_BOM_CYCLE] = "bom-cycle",
	[HOLD_CROSS_WAREHOUSE] = "cross-warehouse-credential",
};

static const char *const QUARANTINES[] = {
	[QUARANTINE_OPEN] = "OPEN",
	[QUARANTINE_RELEASED] = "RELEASED",
	[QUARANTINE_SUPERSEDED] = "SUPERSEDED",
	[QUARANTINE_DISCARDED] = "DISCARDED",
};

static const char *name_of(const char *const *names, size_t n, unsigned i,
			   const char *what)
{
	if (i >= n || !names[i])
		bug("%s %u has no name", what, i);
	return names[i];
}

/* 0 has no name in any table. */
static unsigned number_of(const char *const *names, size_t n, struct sv name)
{
	for (size_t i = 1; i < n; i++)
		if (names[i] && sv_eq(name, sv_of(names[i])))
			return (unsigned)i;
	return 0;
}

const char *item_status_name(enum item_status s)
{
	return name_of(STATUSES, ARRAY_LEN(STATUSES), s, "status");
}

const char *item_change_name(enum item_change c)
{
	return name_of(CHANGES, ARRAY_LEN(CHANGES), c, "change");
}

const char *item_state_name(enum item_state s)
{
	return name_of(STATES, ARRAY_LEN(STATES), s, "state");
}

const char *hold_code_name(enum hold_code c)
{
	return name_of(HOLDS, ARRAY_LEN(HOLDS), c, "hold code");
}

const char *quarantine_state_name(enum quarantine_state s)
{
	return name_of(QUARANTINES, ARRAY_LEN(QUARANTINES), s,
		       "quarantine state");
}

enum item_status item_status_of(struct sv name)
{
	return (enum item_status)number_of(STATUSES, ARRAY_LEN(STATUSES), name);
}

enum item_state item_state_of(struct sv name)
{
	return (enum item_state)number_of(STATES, ARRAY_LEN(STATES), name);
}

enum hold_code hold_code_of(struct sv name)
{
	return (enum hold_code)number_of(HOLDS, ARRAY_LEN(HOLDS), name);
}

enum quarantine_state quarantine_state_of(struct sv name)
{
	return (enum quarantine_state)number_of(QUARANTINES,
						ARRAY_LEN(QUARANTINES), name);
}

void outcome_add_version(struct buf *b, bool has, uint64_t version)
{
	bool quoted = has && version > ITEM_VERSION_NUMBER_MAX;

	if (!has) {
		buf_add(b, SV("null"));
		return;
	}
	if (quoted)
		buf_add_byte(b, '"');
	buf_add_u64(b, version);
	if (quoted)
		buf_add_byte(b, '"');
}

void outcome_add_id(struct buf *b, const char *prefix, struct id id)
{
	buf_add_text(b, prefix);
	buf_add_byte(b, '-');
	buf_add_hex(b, id.b, sizeof(id.b));
}

bool outcome_parse_id(struct sv text, const char *prefix, struct id *id_r)
{
	size_t n = strlen(prefix);

	if (text.n != n + 1 + ID_HEX - 1 ||
	    !sv_starts(text, sv_from(prefix, n)) || text.p[n] != '-')
		return false;
	/* One text an id: no capitals. */
	for (size_t i = n + 1; i < text.n; i++)
		if (text.p[i] >= 'A' && text.p[i] <= 'F')
			return false;
	return id_parse_hex(sv_tail(text, n + 1), id_r);
}

static void add_quarantined(struct buf *b, const struct outcome *o)
{
	if (o->has_quarantine_id) {
		buf_add(b, SV("\"quarantine_id\":\""));
		outcome_add_id(b, "qua", o->quarantine_id);
		buf_add(b, SV("\","));
	}
	buf_add(b, SV("\"reason\":"));
	buf_add_json(b, o->reason);
	buf_add(b, SV(",\"code\":\""));
	buf_add_text(b, hold_code_name(o->code));
	buf_add(b, SV("\",\"missing\":"));
	buf_add(b, o->missing.n ? o->missing : SV("[]"));
}

void outcome_add_detail(struct buf *b, const struct incoming *in,
			const struct outcome *o)
{
	if (o->status == ITEM_QUARANTINED) {
		add_quarantined(b, o);
	} else if (o->status == ITEM_REJECTED) {
		const struct sv errors = o->errors.n ? o->errors : in->errors;

		buf_add(b, SV("\"errors\":"));
		buf_add(b, errors.n ? errors : SV("[]"));
	}
}

static void add_internal_id(struct buf *b, enum collection c,
			    const struct outcome *o)
{
	if (!o->has_internal_id)
		return;
	buf_add(b, SV(",\"internal_id\":\""));
	outcome_add_id(b, collection_info(c)->prefix, o->internal_id);
	buf_add_byte(b, '"');
}

static void add_accepted(struct buf *b, enum collection c,
			 const struct outcome *o)
{
	add_internal_id(b, c, o);
	if (o->change == ITEM_NO_CHANGE)
		return;
	buf_add(b, SV(",\"change\":\""));
	buf_add_text(b, item_change_name(o->change));
	buf_add_byte(b, '"');
}

static void add_replay(struct buf *b, enum collection c,
		       const struct outcome *o)
{
	buf_add(b, SV(",\"held_version\":"));
	outcome_add_version(b, o->has_held, o->held_version);
	if (o->held_inactive)
		buf_add(b, SV(",\"state\":\"INACTIVE\""));
	if (o->conflict)
		buf_add(b, SV(",\"conflict\":true"));
	add_internal_id(b, c, o);
}

static void add_head(struct buf *b, const struct incoming *in,
		     enum item_status status)
{
	buf_add(b, SV("{\"index\":"));
	buf_add_u64(b, in->index);
	if (in->line) {
		buf_add(b, SV(",\"line\":"));
		buf_add_u64(b, in->line);
	}
	buf_add(b, SV(",\"source_id\":"));
	if (in->has_source_id)
		buf_add_json(b, in->source_id);
	else
		buf_add(b, SV("null"));
	buf_add(b, SV(",\"source_version\":"));
	outcome_add_version(b, in->has_version, in->version);
	buf_add(b, SV(",\"status\":\""));
	buf_add_text(b, item_status_name(status));
	buf_add_byte(b, '"');
}

void outcome_add_result(struct buf *b, enum collection c,
			const struct incoming *in, const struct outcome *o)
{
	add_head(b, in, o->status);
	switch (o->status) {
	case ITEM_ACCEPTED:
	case ITEM_TOMBSTONED:
	case ITEM_RESTORED:
		add_accepted(b, c, o);
		break;
	case ITEM_REPLAY:
		add_replay(b, c, o);
		break;
	case ITEM_QUARANTINED:
	case ITEM_REJECTED:
		buf_add_byte(b, ',');
		if (o->kept_detail.p)
			buf_add(b, o->kept_detail);
		else
			outcome_add_detail(b, in, o);
		break;
	}
	buf_add_byte(b, '}');
}
