/* Warehouse scope: which warehouse a thing is of, and for whom. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "item/field.h"
#include "item/scope.h"
#include "world.h"

enum { PARTNER = 3 };

static void a_scope_is_the_set_that_is_written(void)
{
	struct arena a;
	const struct scope *s, *all = NULL;

	arena_init(&a, 4096);
	WANT(!scope_read(&a, SV_NONE));
	WANT(scope_has(all, SV("W1")));
	WANT(!scope_text(all).p);
	s = scope_read(&a, SV("[\"W2\",\"W1\",\"a\\\"b\",\"\\u00e9\"]"));
	WANT(scope_has(s, SV("W1")));
	WANT(scope_has(s, SV("W2")));
	WANT(scope_has(s, SV("a\"b")));
	WANT(scope_has(s, SV("\xc3\xa9")));
	WANT(!scope_has(s, SV("w1")));
	WANT(!scope_has(s, SV("W")));
	WANT(!scope_has(s, SV("")));
	arena_release(&a);
}

static void what_is_no_list_of_texts_is_none_at_all(void)
{
	static const char *const TEXTS[] = {
		"[]",     "",        "{}",         "[1]", "[\"W1\",null]",
		"\"W1\"", "[\"W1\"", "[[\"W1\"]]",
	};
	struct arena a;

	arena_init(&a, 4096);
	for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++) {
		const struct scope *s = scope_read(&a, sv_of(TEXTS[i]));

		WANT(s != NULL);
		WANT(!scope_has(s, SV("W1")));
	}
	arena_release(&a);
}

static void a_sender_is_covered_by_who_has_all_it_has(void)
{
	static const struct row {
		const char *sender, *reader;
		bool covered;
	} ROWS[] = {
		{"[\"W1\"]", "[\"W1\"]", true},
		{"[\"W1\"]", "[\"W2\",\"W1\"]", true},
		{"[\"W1\",\"W2\"]", "[\"W2\",\"W1\"]", true},
		{"[\"W1\",\"W2\"]", "[\"W1\"]", false},
		{"[]", "[\"W1\"]", true},
		{"[\"W1\"]", "[]", false},
		{NULL, "[\"W1\"]", false},
		{"[\"W1\"]", NULL, true},
		{NULL, NULL, true},
	};
	struct arena a;

	arena_init(&a, 4096);
	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
		const struct scope *s = scope_read(&a, sv_of(ROWS[i].reader));
		struct sv sender = sv_of(ROWS[i].sender);

		WANT(scope_covers(s, COLLECTION_WORK_ORDERS, sender) ==
		     ROWS[i].covered);
		WANT(scope_covers(s, -1, sender) == ROWS[i].covered);
		WANT(scope_covers(s, COLLECTION_SKUS, sender));
		WANT(scope_within(scope_read(&a, sender), s) ==
		     ROWS[i].covered);
	}
	arena_release(&a);
}

static void seven_collections_have_a_warehouse(void)
{
	static const enum collection HAVE[] = {
		COLLECTION_LOCATIONS,       COLLECTION_PURCHASE_ORDERS,
		COLLECTION_SALES_ORDERS,    COLLECTION_RECEIVERS,
		COLLECTION_SHIPPERS,        COLLECTION_WORK_ORDERS,
		COLLECTION_TRANSFER_ORDERS,
	};
	size_t found = 0;

	for (int c = 0; c < COLLECTION_COUNT; c++)
		found += scope_concerns((enum collection)c);
	WANT_U64(found, ARRAY_LEN(HAVE));
	for (size_t i = 0; i < ARRAY_LEN(HAVE); i++)
		WANT(scope_concerns(HAVE[i]));
}

/* What is held: locations and orders of partner 3. */
static void hold(const struct world *w, enum collection c, const char *id,
		 const char *trait, const char *home)
{
	world_sql(w,
		  "INSERT INTO item (partner_id, collection, source_id, rev, "
		  "source_version, state, trait, home, content_hash, "
		  "internal_id, payload, content_rev, content_batch, "
		  "content_at, created_batch, last_batch, created_at, "
		  "updated_at) SELECT %d, %d, '%s', 1, 1, 1, "
		  "NULLIF('%s', ''), NULLIF('%s', ''), '', "
		  "UNHEX(LPAD(HEX(COUNT(1) + 1), 32, '0')), '{}', 1, '', "
		  "NOW(3), '', '', NOW(3), NOW(3) FROM item",
		  PARTNER, (int)c, id, trait, home);
}

static void hold_all(const struct world *w)
{
	hold(w, COLLECTION_LOCATIONS, "W1", "WAREHOUSE", "");
	hold(w, COLLECTION_LOCATIONS, "Z1", "ZONE", "W1");
	hold(w, COLLECTION_LOCATIONS, "Z2", "ZONE", "W2");
	/* Became bins when others called them their zone. */
	hold(w, COLLECTION_LOCATIONS, "Y1", "BIN", "Z1");
	hold(w, COLLECTION_LOCATIONS, "Y2", "BIN", "Y1");
	hold(w, COLLECTION_LOCATIONS, "R1", "BIN", "R2");
	hold(w, COLLECTION_LOCATIONS, "R2", "BIN", "R1");
	hold(w, COLLECTION_LOCATIONS, "OLD", "ZONE", "");
	hold(w, COLLECTION_PURCHASE_ORDERS, "P1", "", "W1");
	hold(w, COLLECTION_PURCHASE_ORDERS, "P2", "", "W2");
	hold(w, COLLECTION_SALES_ORDERS, "P1", "", "W2");
}

static const struct place_row {
	enum collection collection;
	const char *id, *trait, *home;
	enum scope_verdict want; /* of W1 and V1 */
	const char *field;       /* if SCOPE_OUT */
} PLACES[] = {
	{COLLECTION_SKUS, "A", "", "", SCOPE_IN, NULL},
	{COLLECTION_LOCATIONS, "W1", "WAREHOUSE", "", SCOPE_IN, NULL},
	{COLLECTION_LOCATIONS, "W2", "WAREHOUSE", "", SCOPE_OUT, "source_id"},
	{COLLECTION_LOCATIONS, "Z", "ZONE", "V1", SCOPE_IN, NULL},
	{COLLECTION_LOCATIONS, "Z", "ZONE", "W2", SCOPE_OUT,
	 "parent_source_id"},
	{COLLECTION_LOCATIONS, "W1", "ZONE", "W2", SCOPE_OUT,
	 "parent_source_id"},
	{COLLECTION_LOCATIONS, "B", "BIN", "Z1", SCOPE_IN, NULL},
	{COLLECTION_LOCATIONS, "B", "BIN", "Z2", SCOPE_OUT, "parent_source_id"},
	{COLLECTION_LOCATIONS, "B", "BIN", "Z3", SCOPE_UNKNOWN, NULL},
	{COLLECTION_LOCATIONS, "B", "BIN", "W1", SCOPE_IN, NULL},
	{COLLECTION_LOCATIONS, "B", "BIN", "Y2", SCOPE_IN, NULL},
	{COLLECTION_LOCATIONS, "B", "BIN", "R1", SCOPE_UNKNOWN, NULL},
	{COLLECTION_LOCATIONS, "B", "BIN", "OLD", SCOPE_UNKNOWN, NULL},
	{COLLECTION_LOCATIONS, "B", "BIN", "", SCOPE_UNKNOWN, NULL},
	{COLLECTION_LOCATIONS, "B", "SHELF", "W2", SCOPE_UNKNOWN, NULL},
	{COLLECTION_PURCHASE_ORDERS, "P", "", "W1", SCOPE_IN, NULL},
	{COLLECTION_PURCHASE_ORDERS, "P", "", "W9", SCOPE_OUT,
	 "warehouse_source_id"},
	{COLLECTION_RECEIVERS, "R", "", "P1", SCOPE_IN, NULL},
	{COLLECTION_RECEIVERS, "R", "", "P2", SCOPE_OUT, "po_source_id"},
	{COLLECTION_RECEIVERS, "R", "", "P3", SCOPE_UNKNOWN, NULL},
	{COLLECTION_SHIPPERS, "S", "", "P1", SCOPE_OUT, "so_source_id"},
	{COLLECTION_SHIPPERS, "S", "", "P2", SCOPE_UNKNOWN, NULL},
	{COLLECTION_WORK_ORDERS, "O", "", "W2", SCOPE_OUT,
	 "warehouse_source_id"},
	{COLLECTION_TRANSFER_ORDERS, "T", "", "W1\nV1", SCOPE_IN, NULL},
	{COLLECTION_TRANSFER_ORDERS, "T", "", "W1\nW2", SCOPE_OUT,
	 "to_warehouse_source_id"},
	{COLLECTION_TRANSFER_ORDERS, "T", "", "W2\nW1", SCOPE_OUT,
	 "from_warehouse_source_id"},
};

static void fill_places(struct scope_place *places)
{
	for (size_t i = 0; i < ARRAY_LEN(PLACES); i++)
		places[i] = (struct scope_place){
			PLACES[i].collection, sv_of(PLACES[i].id),
			sv_of(PLACES[i].trait), sv_of(PLACES[i].home)};
}

/* All at once, and each alone: what is known beside does not matter. */
static void every_place_is_judged_by_where_it_leads(void)
{
	struct scope_place places[ARRAY_LEN(PLACES)];
	struct scope_map all = {0};
	const struct scope *s;
	struct fail f = FAIL_INIT;
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	world_migrate(&w);
	hold_all(&w);
	fill_places(places);
	s = scope_read(&w.arena, SV("[\"W1\",\"V1\"]"));
	WANT_DONE(scope_map_load(w.db, PARTNER, places, ARRAY_LEN(places),
				 &w.arena, &all, &f),
		  &f);
	for (size_t i = 0; i < ARRAY_LEN(PLACES); i++) {
		struct scope_map one = {0};
		struct sv field = SV_NONE;

		WANT_DONE(scope_map_load(w.db, PARTNER, &places[i], 1, &w.arena,
					 &one, &f),
			  &f);
		WANT_U64(scope_judge(s, &one, &places[i], NULL),
			 PLACES[i].want);
		WANT_U64(scope_judge(s, &all, &places[i], &field),
			 PLACES[i].want);
		WANT_SV(field, sv_of(PLACES[i].field));
		WANT_U64(scope_judge(NULL, &one, &places[i], NULL), SCOPE_IN);
	}
	world_close(&w);
}

static void another_partners_things_lead_nowhere(void)
{
	const struct scope_place bin = {COLLECTION_LOCATIONS, SV("B"),
					SV("BIN"), SV("Z1")};
	struct scope_map map = {0};
	struct fail f = FAIL_INIT;
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	world_migrate(&w);
	hold_all(&w);
	WANT_DONE(
		scope_map_load(w.db, PARTNER + 1, &bin, 1, &w.arena, &map, &f),
		&f);
	WANT_U64(scope_judge(scope_read(&w.arena, SV("[\"W1\"]")), &map, &bin,
			     NULL),
		 SCOPE_UNKNOWN);
	world_close(&w);
}

static void a_place_that_names_its_warehouse_asks_nothing(void)
{
	struct scope_place places[ARRAY_LEN(PLACES)];
	struct scope_map map = {0};
	struct fail f = FAIL_INIT;
	struct arena a;
	size_t n = 0;

	arena_init(&a, 4096);
	fill_places(places);
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (field_home(places[i].collection, 0) &&
		    field_home(places[i].collection, 0)->trait)
			places[n++] = places[i];
	WANT(n > 4);
	/* There is no database to ask. */
	WANT_DONE(scope_map_load(NULL, PARTNER, places, n, &a, &map, &f), &f);
	WANT_U64(map.count, 0);
	arena_release(&a);
}

static void a_record_is_its_senders_wherever_it_leads(void)
{
	const struct scope_place order = {COLLECTION_WORK_ORDERS, SV("O"),
					  SV_NONE, SV("W2")};
	const struct scope_map map = {0};
	const struct scope *s;
	struct arena a;

	arena_init(&a, 4096);
	s = scope_read(&a, SV("[\"W1\"]"));
	WANT_U64(scope_judge_record(s, &map, &order, SV("[\"W1\"]")), SCOPE_IN);
	WANT_U64(scope_judge_record(s, &map, &order, SV("[\"W1\",\"W2\"]")),
		 SCOPE_OUT);
	WANT_U64(scope_judge_record(s, &map, &order, SV_NONE), SCOPE_OUT);
	WANT_U64(scope_judge_record(NULL, &map, &order, SV_NONE), SCOPE_IN);
	/* Where its sender may not go it is not theirs who may. */
	s = scope_read(&a, SV("[\"W2\"]"));
	WANT_U64(scope_judge_record(s, &map, &order, SV_NONE), SCOPE_IN);
	WANT_U64(scope_judge_record(s, &map, &order, SV("[\"W1\",\"W2\"]")),
		 SCOPE_IN);
	WANT_U64(scope_judge_record(s, &map, &order, SV("[\"W1\"]")),
		 SCOPE_OUT);
	arena_release(&a);
}

void suite_scope(void)
{
	ADD(a_scope_is_the_set_that_is_written);
	ADD(what_is_no_list_of_texts_is_none_at_all);
	ADD(a_sender_is_covered_by_who_has_all_it_has);
	ADD(seven_collections_have_a_warehouse);
	ADD(every_place_is_judged_by_where_it_leads);
	ADD(another_partners_things_lead_nowhere);
	ADD(a_place_that_names_its_warehouse_asks_nothing);
	ADD(a_record_is_its_senders_wherever_it_leads);
}
