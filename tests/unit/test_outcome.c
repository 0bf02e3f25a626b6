/* item/outcome: how it is told what became of an item. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "item/outcome.h"

#define HEX "0195000000007000800000000000abcd"

static const struct id ID = {
	{0x01, 0x95, 0, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0xab, 0xcd}};
static struct buf b;

static struct sv result(enum collection c, struct incoming in,
			const struct outcome *o)
{
	buf_reset(&b);
	outcome_add_result(&b, c, &in, o);
	return buf_sv(&b);
}

static const struct incoming PLAIN = {.index = 3,
				      .has_source_id = true,
				      .source_id = {"a\"b", 3},
				      .has_version = true,
				      .version = 12};
#define HEAD                                                           \
	"{\"index\":3,\"source_id\":\"a\\\"b\",\"source_version\":12," \
	"\"status\":"

static void an_accepted_item_tells_its_id_and_change(void)
{
	struct outcome o = {.status = ITEM_ACCEPTED,
			    .change = ITEM_CREATED,
			    .has_internal_id = true,
			    .internal_id = ID};

	WANT_SV(result(COLLECTION_SKUS, PLAIN, &o),
		SV(HEAD "\"ACCEPTED\",\"internal_id\":\"sku-" HEX
			"\",\"change\":\"created\"}"));
	WANT_SV(result(COLLECTION_PURCHASE_ORDERS, PLAIN, &o),
		SV(HEAD "\"ACCEPTED\",\"internal_id\":\"po-" HEX
			"\",\"change\":\"created\"}"));
}

static void a_dry_run_tells_no_id(void)
{
	struct outcome o = {.status = ITEM_ACCEPTED, .change = ITEM_UPDATED};
	struct outcome q = {.status = ITEM_QUARANTINED,
			    .code = HOLD_SAME_WAREHOUSE,
			    .reason = SV("from is to")};

	WANT_SV(result(COLLECTION_SKUS, PLAIN, &o),
		SV(HEAD "\"ACCEPTED\",\"change\":\"updated\"}"));
	WANT_SV(result(COLLECTION_SKUS, PLAIN, &q),
		SV(HEAD "\"QUARANTINED\",\"reason\":\"from is to\","
			"\"code\":\"same-warehouse\",\"missing\":[]}"));
}

static void a_replay_tells_what_is_held(void)
{
	struct outcome o = {
		.status = ITEM_REPLAY, .has_held = true, .held_version = 13};

	WANT_SV(result(COLLECTION_UOMS, PLAIN, &o),
		SV(HEAD "\"REPLAY\",\"held_version\":13}"));
	o.held_inactive = o.conflict = o.has_internal_id = true;
	o.internal_id = ID;
	o.held_version = UINT64_C(1) << 53;
	WANT_SV(result(COLLECTION_UOMS, PLAIN, &o),
		SV(HEAD "\"REPLAY\",\"held_version\":\"9007199254740992\","
			"\"state\":\"INACTIVE\",\"conflict\":true,"
			"\"internal_id\":\"uom-" HEX "\"}"));
}

static void a_quarantined_item_tells_why_and_what_is_missing(void)
{
	struct outcome o = {.status = ITEM_QUARANTINED,
			    .has_quarantine_id = true,
			    .quarantine_id = ID,
			    .code = HOLD_REFERENCE_MISSING,
			    .reason = SV("no \"x\""),
			    .missing = SV("[{\"collection\":\"uoms\","
					  "\"source_id\":\"x\"}]")};

	WANT_SV(result(COLLECTION_SKUS, PLAIN, &o),
		SV(HEAD "\"QUARANTINED\",\"quarantine_id\":\"qua-" HEX
			"\",\"reason\":\"no \\\"x\\\"\","
			"\"code\":\"reference-missing\",\"missing\":[{"
			"\"collection\":\"uoms\",\"source_id\":\"x\"}]}"));
}

static void a_rejected_item_tells_its_faults_and_line(void)
{
	struct outcome o = {.status = ITEM_REJECTED};
	struct incoming in = {
		.index = 0,
		.line = 2,
		.rejected = true,
		.errors = SV("[{\"pointer\":\"\",\"code\":\"wrong-type\","
			     "\"detail\":\"d\"}]")};

	WANT_SV(result(COLLECTION_SKUS, in, &o),
		SV("{\"index\":0,\"line\":2,\"source_id\":null,"
		   "\"source_version\":null,\"status\":\"REJECTED\","
		   "\"errors\":[{\"pointer\":\"\",\"code\":\"wrong-type\","
		   "\"detail\":\"d\"}]}"));
}

static void the_kept_detail_is_the_end_of_the_result(void)
{
	static const struct outcome ROWS[] = {
		{.status = ITEM_REJECTED},
		{.status = ITEM_QUARANTINED,
		 .has_quarantine_id = true,
		 .code = HOLD_BOM_CYCLE,
		 .reason = {"r", 1}},
	};

	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
		struct buf detail, whole;

		buf_init(&detail, 4096);
		buf_init(&whole, 4096);
		outcome_add_detail(&detail, &PLAIN, &ROWS[i]);
		WANT(detail.n > 0 && detail.p[0] == '"');
		buf_addf(&whole, HEAD "\"%s\",%.*s}",
			 item_status_name(ROWS[i].status),
			 SV_ARG(buf_sv(&detail)));
		WANT_SV(result(COLLECTION_BOMS, PLAIN, &ROWS[i]),
			buf_sv(&whole));
		buf_release(&detail);
		buf_release(&whole);
	}
}

static void accepted_and_replayed_items_have_no_detail(void)
{
	buf_reset(&b);
	outcome_add_detail(&b, &PLAIN,
			   &(struct outcome){.status = ITEM_ACCEPTED});
	outcome_add_detail(&b, &PLAIN,
			   &(struct outcome){.status = ITEM_REPLAY});
	WANT_U64(b.n, 0);
}

static void versions_are_numbers_up_to_2_53(void)
{
	static const struct {
		bool has;
		uint64_t version;
		const char *want;
	} ROWS[] = {
		{false, 5, "null"},
		{true, 0, "0"},
		{true, 9007199254740991, "9007199254740991"},
		{true, 9007199254740992, "\"9007199254740992\""},
		{true, INT64_MAX, "\"9223372036854775807\""},
	};

	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
		buf_reset(&b);
		outcome_add_version(&b, ROWS[i].has, ROWS[i].version);
		WANT_SV(buf_sv(&b), sv_of(ROWS[i].want));
	}
}

static void ids_are_read_as_they_are_shown(void)
{
	static const char *const WRONG[] = {
		"",
		"sku-",
		HEX,
		"sku" HEX,
		"sku_" HEX,
		"uom-" HEX,
		"SKU-" HEX,
		"sku-" HEX "0",
		"sku-0195000000007000800000000000ABCD",
		"sku-0195000000007000800000000000abcg",
		"sku-0195000000007000800000000000abc",
	};
	struct id id = {{0}};

	WANT(outcome_parse_id(SV("sku-" HEX), "sku", &id));
	WANT(id_eq(id, ID));
	for (size_t i = 0; i < ARRAY_LEN(WRONG); i++)
		WANT(!outcome_parse_id(sv_of(WRONG[i]), "sku", &id));
}

static void names_go_both_ways(void)
{
	for (int i = ITEM_ACCEPTED; i <= ITEM_RESTORED; i++)
		WANT(*item_status_name((enum item_status)i));
	for (int i = ITEM_CREATED; i <= ITEM_UNCHANGED; i++)
		WANT(*item_change_name((enum item_change)i));
	for (int i = ITEM_ACTIVE; i <= ITEM_INACTIVE; i++)
		WANT(item_state_of(sv_of(item_state_name(
			     (enum item_state)i))) == (enum item_state)i);
	for (int i = HOLD_REFERENCE_MISSING; i <= HOLD_CROSS_WAREHOUSE; i++)
		WANT(hold_code_of(sv_of(hold_code_name((enum hold_code)i))) ==
		     (enum hold_code)i);
	for (int i = QUARANTINE_OPEN; i <= QUARANTINE_DISCARDED; i++)
		WANT(quarantine_state_of(sv_of(quarantine_state_name(
			     (enum quarantine_state)i))) ==
		     (enum quarantine_state)i);
	WANT(item_state_of(SV("active")) == 0);
	WANT(hold_code_of(SV("")) == HOLD_NONE);
	WANT(quarantine_state_of(SV("OPEN ")) == 0);
}

void suite_outcome(void)
{
	buf_init(&b, 1 << 16);
	ADD(an_accepted_item_tells_its_id_and_change);
	ADD(a_dry_run_tells_no_id);
	ADD(a_replay_tells_what_is_held);
	ADD(a_quarantined_item_tells_why_and_what_is_missing);
	ADD(a_rejected_item_tells_its_faults_and_line);
	ADD(the_kept_detail_is_the_end_of_the_result);
	ADD(accepted_and_replayed_items_have_no_detail);
	ADD(versions_are_numbers_up_to_2_53);
	ADD(ids_are_read_as_they_are_shown);
	ADD(names_go_both_ways);
}
