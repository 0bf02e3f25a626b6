/* item/validate, item/field, item/value: what makes an item REJECTED, and
 * what is read out of one that is not. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/buf.h"
#include "base/digest.h"
#include "item/describe.h"
#include "item/field.h"
#include "item/validate.h"
#include "item/value.h"

static struct arena arena;
static struct buf shown;

static struct json_tape read_json(struct sv json)
{
	static const struct json_limits LIMITS = {.depth_max = 32,
						  .names_max = 256};
	struct json_tape t;
	struct fail f = FAIL_INIT;

	if (!json_read(&arena, json, &LIMITS, &t, &f))
		bug("the test's JSON is wrong: %s: %.*s", f.detail,
		    SV_ARG(json));
	return t;
}

static struct incoming validate(enum collection c, struct sv json)
{
	struct json_tape t = read_json(json);
	struct incoming in = {.index = 7, .line = 9};

	validate_item(&arena, c, &t, &in);
	return in;
}

/* "/name required; /qty out-of-range", or "" if it is not rejected. */
static struct sv faults_of(const struct incoming *in)
{
	struct json_tape t;

	buf_reset(&shown);
	if (!in->rejected)
		return SV("");
	t = read_json(in->errors);
	for (uint32_t i = json_first(&t, 0); i; i = json_after(&t, 0, i)) {
		if (shown.n)
			buf_add_text(&shown, "; ");
		buf_add(&shown,
			json_text(&arena, &t, json_find(&t, i, SV("pointer"))));
		buf_add_byte(&shown, ' ');
		buf_add(&shown,
			json_text(&arena, &t, json_find(&t, i, SV("code"))));
		WANT(json_text(&arena, &t, json_find(&t, i, SV("detail"))).n >
		     0);
	}
	return buf_sv(&shown);
}

static struct sv faults(enum collection c, struct sv json)
{
	struct incoming in = validate(c, json);

	return faults_of(&in);
}

struct row {
	const char *json, *want;
};

static void want_rows(enum collection c, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct sv got = faults(c, sv_of(rows[i].json));

		if (!sv_eq(got, sv_of(rows[i].want)))
			printf("item: %s\n", rows[i].json);
		WANT_SV(got, sv_of(rows[i].want));
	}
}
#define WANT_ROWS(c, rows) want_rows((c), (rows), ARRAY_LEN(rows))

static struct sv times(const char *unit, size_t n, const char *before,
		       const char *after)
{
	char *p = arena_alloc(&arena, strlen(before) + strlen(unit) * n +
					      strlen(after) + 1);
	struct buf b;

	buf_init(&b, SIZE_MAX / 2);
	buf_add_text(&b, before);
	for (size_t i = 0; i < n; i++)
		buf_add_text(&b, unit);
	buf_add_text(&b, after);
	memcpy(p, b.p, b.n);
	buf_release(&b);
	return sv_of(p);
}

static void every_collection_has_an_item_that_is_right(void)
{
	static const char *const RIGHT[COLLECTION_COUNT] = {
		[COLLECTION_UOMS] = "{\"source_id\":\"EA\",\"name\":\"each\"}",
		[COLLECTION_ADDRESSES] =
			"{\"source_id\":\"a\",\"country\":\"DE\","
			"\"city\":\"Ulm\",\"lines\":[\"x\"]}",
		[COLLECTION_LOCATIONS] =
			"{\"source_id\":\"w\",\"kind\":\"WAREHOUSE\","
			"\"name\":\"W\",\"address_source_id\":\"a\"}",
		[COLLECTION_SKUS] =
			"{\"source_id\":\"s\",\"source_version\":3,"
			"\"name\":\"S\",\"base_uom\":\"EA\","
			"\"description\":\"\",\"lot_tracked\":true,"
			"\"serial_tracked\":false,\"hazmat_class\":\"3\","
			"\"temperature_class\":\"cold\",\"weight_kg\":1.10,"
			"\"barcodes\":[]}",
		[COLLECTION_BOMS] =
			"{\"source_id\":\"b\",\"sku_source_id\":\"s\","
			"\"components\":[{\"sku_source_id\":\"t\",\"qty\":1,"
			"\"uom\":\"EA\"}]}",
		[COLLECTION_LOTS] =
			"{\"source_id\":\"l\",\"sku_source_id\":\"s\","
			"\"expires_at\":\"2027-01-01T00:00:00Z\"}",
		[COLLECTION_SERIALS] =
			"{\"source_id\":\"n\",\"sku_source_id\":\"s\","
			"\"lot_source_id\":\"l\"}",
		[COLLECTION_PURCHASE_ORDERS] =
			"{\"source_id\":\"p\",\"warehouse_source_id\":\"w\","
			"\"lines\":[{\"line_no\":1,\"sku_source_id\":\"s\","
			"\"qty\":0.5,\"uom\":\"EA\"}]}",
		[COLLECTION_SALES_ORDERS] =
			"{\"source_id\":\"p\",\"warehouse_source_id\":\"w\","
			"\"lines\":[{\"line_no\":1,\"sku_source_id\":\"s\","
			"\"qty\":0.5,\"uom\":\"EA\"}]}",
		[COLLECTION_RECEIVERS] =
			"{\"source_id\":\"r\",\"po_source_id\":\"p\","
			"\"lines\":[{\"line_no\":1,\"sku_source_id\":\"s\","
			"\"qty\":2,\"uom\":\"EA\"}]}",
		[COLLECTION_SHIPPERS] =
			"{\"source_id\":\"r\",\"so_source_id\":\"p\","
			"\"lines\":[{\"line_no\":1,\"sku_source_id\":\"s\","
			"\"qty\":2,\"uom\":\"EA\"}]}",
		[COLLECTION_WORK_ORDERS] =
			"{\"source_id\":\"r\",\"warehouse_source_id\":\"w\","
			"\"sku_source_id\":\"s\",\"qty\":2,\"uom\":\"EA\"}",
		[COLLECTION_TRANSFER_ORDERS] =
			"{\"source_id\":\"r\","
			"\"from_warehouse_source_id\":\"w\","
			"\"to_warehouse_source_id\":\"v\","
			"\"lines\":[{\"line_no\":1,\"sku_source_id\":\"s\","
			"\"qty\":2,\"uom\":\"EA\"}]}",
	};

	for (int c = 0; c < COLLECTION_COUNT; c++)
		WANT_SV(faults((enum collection)c, sv_of(RIGHT[c])), SV(""));
}

static void an_empty_object_lacks_all_that_is_required(void)
{
	static const char *const LACKS[COLLECTION_COUNT] = {
		[COLLECTION_UOMS] = "/source_id required; /name required",
		[COLLECTION_ADDRESSES] =
			"/source_id required; /country required; "
			"/city required; /lines required",
		[COLLECTION_LOCATIONS] = "/source_id required; "
					 "/kind required; /name required",
		[COLLECTION_SKUS] = "/source_id required; /name required; "
				    "/base_uom required",
		[COLLECTION_BOMS] = "/source_id required; "
				    "/sku_source_id required; "
				    "/components required",
		[COLLECTION_LOTS] =
			"/source_id required; /sku_source_id required",
		[COLLECTION_SERIALS] =
			"/source_id required; /sku_source_id required",
		[COLLECTION_PURCHASE_ORDERS] =
			"/source_id required; /warehouse_source_id required; "
			"/lines required",
		[COLLECTION_SALES_ORDERS] =
			"/source_id required; /warehouse_source_id required; "
			"/lines required",
		[COLLECTION_RECEIVERS] = "/source_id required; "
					 "/po_source_id required; "
					 "/lines required",
		[COLLECTION_SHIPPERS] = "/source_id required; "
					"/so_source_id required; "
					"/lines required",
		[COLLECTION_WORK_ORDERS] =
			"/source_id required; /warehouse_source_id required; "
			"/sku_source_id required; /qty required; "
			"/uom required",
		[COLLECTION_TRANSFER_ORDERS] =
			"/source_id required; "
			"/from_warehouse_source_id required; "
			"/to_warehouse_source_id required; /lines required",
	};

	for (int c = 0; c < COLLECTION_COUNT; c++)
		WANT_SV(faults((enum collection)c, SV("{}")), sv_of(LACKS[c]));
}

static void what_is_no_object_is_rejected(void)
{
	static const struct row ROWS[] = {
		{"null", " wrong-type"},
		{"7", " wrong-type"},
		{"\"x\"", " wrong-type"},
		{"[]", " wrong-type"},
		{"true", " wrong-type"},
		{"[{\"source_id\":\"x\"}]", " wrong-type"},
	};

	WANT_ROWS(COLLECTION_UOMS, ROWS);
}

static void a_source_id_is_text_without_control_characters(void)
{
	static const struct row ROWS[] = {
		{"{\"source_id\":\"\",\"name\":\"n\"}", "/source_id empty"},
		{"{\"source_id\":null,\"name\":\"n\"}",
		 "/source_id wrong-type"},
		{"{\"source_id\":5,\"name\":\"n\"}", "/source_id wrong-type"},
		{"{\"source_id\":\" \",\"name\":\"n\"}", ""},
		{"{\"source_id\":\"a/b\\u002F\\\"\",\"name\":\"n\"}", ""},
		{"{\"source_id\":\"a\\u0000b\",\"name\":\"n\"}",
		 "/source_id control-character"},
		{"{\"source_id\":\"\\u001f\",\"name\":\"n\"}",
		 "/source_id control-character"},
		{"{\"source_id\":\"\\n\",\"name\":\"n\"}",
		 "/source_id control-character"},
		{"{\"source_id\":\"\x7f\",\"name\":\"n\"}",
		 "/source_id control-character"},
		{"{\"source_id\":\"\\u0080\",\"name\":\"n\"}",
		 "/source_id control-character"},
		{"{\"source_id\":\"x\xc2\x9f\",\"name\":\"n\"}",
		 "/source_id control-character"},
		{"{\"source_id\":\"\xc2\xa0\",\"name\":\"n\"}", ""},
		{"{\"source_id\":\"\xc3\x80\",\"name\":\"n\"}", ""},
		{"{\"source_id\":\"\xf0\x9f\x93\xa6\",\"name\":\"n\"}", ""},
	};

	WANT_ROWS(COLLECTION_UOMS, ROWS);
}

static void a_source_id_has_at_most_128_bytes_after_unescaping(void)
{
	static const char HEAD[] = "{\"name\":\"n\",\"source_id\":\"";
	static const struct {
		const char *unit;
		size_t fits;
	} ROWS[] = {
		{"x", 128},
		{"\\u0041", 128},
		{"\xc3\xa9", 64},
		{"\\u00e9", 64},
		{"\xf0\x9f\x93\xa6", 32},
		{"\\ud83d\\udce6", 32},
	};

	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
		size_t n = ROWS[i].fits;

		WANT_SV(faults(COLLECTION_UOMS,
			       times(ROWS[i].unit, n, HEAD, "\"}")),
			SV(""));
		WANT_SV(faults(COLLECTION_UOMS,
			       times(ROWS[i].unit, n, HEAD, "x\"}")),
			SV("/source_id too-long"));
	}
}

static void a_source_id_is_kept_byte_for_byte(void)
{
	static const struct {
		const char *json, *want;
	} ROWS[] = {
		{"{\"name\":\"n\",\"source_id\":\" aB  \"}", " aB  "},
		{"{\"name\":\"n\",\"source_id\":\"\\u0061\\/\\\\\"}", "a/\\"},
		{"{\"name\":\"n\",\"source_id\":\"\\ud83d\\udce6\"}",
		 "\xf0\x9f\x93\xa6"},
		{"{\"name\":\"n\",\"source\\u005fid\":\"x\"}", "x"},
		{"{\"name\":\"n\",\"source_id\":\"e\xcc\x81\"}", "e\xcc\x81"},
	};

	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
		struct incoming in =
			validate(COLLECTION_UOMS, sv_of(ROWS[i].json));

		WANT(!in.rejected && in.has_source_id);
		WANT_SV(in.source_id, sv_of(ROWS[i].want));
		WANT_U64(in.index, 7);
		WANT_U64(in.line, 9);
	}
}

static struct incoming with_version(const char *version)
{
	return validate(COLLECTION_UOMS,
			times(version, 1,
			      "{\"source_id\":\"x\",\"name\":\"n\","
			      "\"source_version\":",
			      "}"));
}

static void a_version_is_a_number_or_digits(void)
{
	static const struct {
		const char *version;
		uint64_t want;
	} RIGHT[] = {
		{"0", 0},
		{"12", 12},
		{"9007199254740991", 9007199254740991},
		{"\"0\"", 0},
		{"\"12\"", 12},
		{"\"\\u0031\"", 1},
		{"\"9007199254740993\"", 9007199254740993},
		{"\"9223372036854775807\"", INT64_MAX},
		{"\"007\"", 7},
		{"\"0000\"", 0},
		{"\"00000000000000000000000000000001\"", 1},
	};

	for (size_t i = 0; i < ARRAY_LEN(RIGHT); i++) {
		struct incoming in = with_version(RIGHT[i].version);

		WANT(!in.rejected && in.has_version);
		WANT_U64(in.version, RIGHT[i].want);
	}
}

static void other_versions_are_rejected(void)
{
	static const struct row WRONG[] = {
		{"9007199254740992", "/source_version out-of-range"},
		{"18446744073709551616", "/source_version out-of-range"},
		{"-1", "/source_version out-of-range"},
		{"12.0", "/source_version wrong-type"},
		{"1e3", "/source_version wrong-type"},
		{"-1.5", "/source_version wrong-type"},
		{"null", "/source_version wrong-type"},
		{"true", "/source_version wrong-type"},
		{"[1]", "/source_version wrong-type"},
		{"\"\"", "/source_version empty"},
		{"\"9223372036854775808\"", "/source_version out-of-range"},
		{"\"99999999999999999999999\"", "/source_version out-of-range"},
		{"\"-1\"", "/source_version bad-format"},
		{"\"+1\"", "/source_version bad-format"},
		{"\" 1\"", "/source_version bad-format"},
		{"\"1.0\"", "/source_version bad-format"},
		{"\"0x1\"", "/source_version bad-format"},
		{"\"1\\u0000\"", "/source_version bad-format"},
	};

	for (size_t i = 0; i < ARRAY_LEN(WRONG); i++) {
		struct incoming in = with_version(WRONG[i].json);

		WANT_SV(faults_of(&in), sv_of(WRONG[i].want));
		WANT(!in.has_version);
	}
}

static void an_item_without_version_has_none(void)
{
	struct incoming in = validate(
		COLLECTION_UOMS, SV("{\"source_id\":\"x\",\"name\":\"n\"}"));

	WANT(!in.rejected && !in.has_version);
}

static void a_rejected_item_keeps_what_was_right(void)
{
	struct incoming in =
		validate(COLLECTION_BOMS,
			 SV("{\"source_id\":\"b 1\",\"source_version\":\"8\","
			    "\"sku_source_id\":\"s\",\"components\":[]}"));

	WANT(in.rejected && in.has_source_id && in.has_version);
	WANT_SV(in.source_id, SV("b 1"));
	WANT_U64(in.version, 8);
	WANT_U64(in.ref_count, 0);
	WANT_U64(in.payload.n, 0);
	WANT(in.index == 7 && in.line == 9);
	in = validate(COLLECTION_UOMS,
		      SV("{\"source_id\":\"\",\"source_version\":1}"));
	WANT(in.rejected && !in.has_source_id && in.has_version);
}

/* Every kind of field against every kind of value. */
static void a_value_of_another_type_is_rejected(void)
{
	static const struct {
		enum collection c;
		const char *field, *takes;
	} FIELDS[] = {
		{COLLECTION_SKUS, "name", "s"},
		{COLLECTION_SKUS, "base_uom", "s"},
		{COLLECTION_SKUS, "description", "s"},
		{COLLECTION_SKUS, "lot_tracked", "b"},
		{COLLECTION_SKUS, "serial_tracked", "b"},
		{COLLECTION_SKUS, "hazmat_class", "s"},
		{COLLECTION_SKUS, "temperature_class", "s"},
		{COLLECTION_SKUS, "weight_kg", "n"},
		{COLLECTION_SKUS, "barcodes", "a"},
		{COLLECTION_ADDRESSES, "country", "s"},
		{COLLECTION_ADDRESSES, "lines", "a"},
		{COLLECTION_LOCATIONS, "kind", "s"},
		{COLLECTION_LOCATIONS, "address_source_id", "s"},
		{COLLECTION_BOMS, "components", "a"},
		{COLLECTION_LOTS, "expires_at", "s"},
		{COLLECTION_WORK_ORDERS, "qty", "n"},
	};
	static const struct {
		const char *kind, *json;
	} VALUES[] = {{"z", "null"},  {"b", "true"}, {"b", "false"}, {"n", "1"},
		      {"s", "\"x\""}, {"a", "[]"},   {"o", "{}"}};

	for (size_t i = 0; i < ARRAY_LEN(FIELDS); i++)
		for (size_t v = 0; v < ARRAY_LEN(VALUES); v++) {
			char *json =
				arena_printf(&arena, "{\"%s\":%s}",
					     FIELDS[i].field, VALUES[v].json);
			char *want = arena_printf(&arena, "/%s wrong-type",
						  FIELDS[i].field);
			bool right = *FIELDS[i].takes == *VALUES[v].kind;
			struct sv got = faults(FIELDS[i].c, sv_of(json));

			if (right == sv_starts(got, sv_of(want)))
				printf("item: %s\n", json);
			WANT(right != sv_starts(got, sv_of(want)));
		}
}

static void a_required_text_is_not_empty(void)
{
	static const struct row ROWS[] = {
		{"{\"source_id\":\"x\",\"name\":\"\"}", "/name empty"},
		{"{\"source_id\":\"x\",\"name\":\" \"}", ""},
		{"{\"source_id\":\"x\",\"name\":\"\\u0000\\n\"}", ""},
	};

	WANT_ROWS(COLLECTION_UOMS, ROWS);
}

static void a_text_is_as_long_as_its_row_says(void)
{
	static const char HEAD[] = "{\"source_id\":\"x\",\"country\":\"DE\","
				   "\"lines\":[\"l\"],\"city\":\"";

	WANT_SV(faults(COLLECTION_ADDRESSES, times("c", 1024, HEAD, "\"}")),
		SV(""));
	WANT_SV(faults(COLLECTION_ADDRESSES, times("c", 1025, HEAD, "\"}")),
		SV("/city too-long"));
	WANT_SV(faults(COLLECTION_ADDRESSES,
		       times("\\u0063", 1024, HEAD, "\"}")),
		SV(""));
	/* Only the item's size bounds a name. */
	WANT_SV(faults(COLLECTION_UOMS,
		       times("n", 60000, "{\"source_id\":\"x\",\"name\":\"",
			     "\"}")),
		SV(""));
}

static void a_quantity_is_above_zero_whatever_its_digits(void)
{
	static const struct {
		const char *qty, *want;
	} ROWS[] = {
		{"1", ""},
		{"1.10", ""},
		{"12345678901234567890", ""},
		{"0.00000000000000000000000000000000000001", ""},
		{"1e-999", ""},
		{"1E+2", ""},
		{"0", "/qty out-of-range"},
		{"0.000", "/qty out-of-range"},
		{"0e5", "/qty out-of-range"},
		{"-0", "/qty out-of-range"},
		{"-1", "/qty out-of-range"},
		{"-0.1e9", "/qty out-of-range"},
		{"\"1\"", "/qty wrong-type"},
	};

	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
		struct sv json = times(ROWS[i].qty, 1,
				       "{\"source_id\":\"r\","
				       "\"warehouse_source_id\":\"w\","
				       "\"sku_source_id\":\"s\","
				       "\"uom\":\"EA\",\"qty\":",
				       "}");

		WANT_SV(faults(COLLECTION_WORK_ORDERS, json),
			sv_of(ROWS[i].want));
	}
}

static void a_number_has_at_most_64_characters(void)
{
	static const char HEAD[] = "{\"source_id\":\"s\",\"name\":\"n\","
				   "\"base_uom\":\"EA\",\"weight_kg\":";

	WANT_SV(faults(COLLECTION_SKUS, times("1", 64, HEAD, "}")), SV(""));
	WANT_SV(faults(COLLECTION_SKUS, times("1", 65, HEAD, "}")),
		SV("/weight_kg too-long"));
}

static void a_weight_is_not_below_zero(void)
{
	static const struct row ROWS[] = {
		{"{\"source_id\":\"s\",\"name\":\"n\",\"base_uom\":\"EA\","
		 "\"weight_kg\":0}",
		 ""},
		{"{\"source_id\":\"s\",\"name\":\"n\",\"base_uom\":\"EA\","
		 "\"weight_kg\":-0.0}",
		 ""},
		{"{\"source_id\":\"s\",\"name\":\"n\",\"base_uom\":\"EA\","
		 "\"weight_kg\":-0.01}",
		 "/weight_kg out-of-range"},
	};

	WANT_ROWS(COLLECTION_SKUS, ROWS);
}

static void a_line_number_is_written_with_digits(void)
{
	static const struct {
		const char *line_no, *want;
	} ROWS[] = {
		{"0", ""},
		{"10", ""},
		{"9007199254740991", ""},
		{"9007199254740992", "/lines/0/line_no out-of-range"},
		{"-1", "/lines/0/line_no out-of-range"},
		{"1.0", "/lines/0/line_no wrong-type"},
		{"1e1", "/lines/0/line_no wrong-type"},
		{"\"1\"", "/lines/0/line_no wrong-type"},
		{"null", "/lines/0/line_no wrong-type"},
	};

	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
		WANT_SV(faults(COLLECTION_RECEIVERS,
			       times(ROWS[i].line_no, 1,
				     "{\"source_id\":\"r\","
				     "\"po_source_id\":\"p\",\"lines\":[{"
				     "\"sku_source_id\":\"s\",\"qty\":1,"
				     "\"uom\":\"EA\",\"line_no\":",
				     "}]}")),
			sv_of(ROWS[i].want));
}

static void faults_inside_lists_are_told_with_their_place(void)
{
	static const struct row ROWS[] = {
		{"{\"source_id\":\"b\",\"sku_source_id\":\"s\","
		 "\"components\":[]}",
		 "/components too-few"},
		{"{\"source_id\":\"b\",\"sku_source_id\":\"s\","
		 "\"components\":[{\"sku_source_id\":\"t\",\"qty\":1,"
		 "\"uom\":\"EA\"},7,{\"qty\":0,\"uom\":\"\"},{\"uom\":null,"
		 "\"sku_source_id\":\"a\\u0007\",\"qty\":2,\"own\":null}]}",
		 "/components/1 wrong-type; /components/2/qty out-of-range; "
		 "/components/2/uom empty; "
		 "/components/2/sku_source_id required; "
		 "/components/3/uom wrong-type; "
		 "/components/3/sku_source_id control-character"},
	};

	WANT_ROWS(COLLECTION_BOMS, ROWS);
}

static void address_lines_are_one_to_four_texts(void)
{
	static const struct {
		const char *lines, *want;
	} ROWS[] = {
		{"[]", "/lines too-few"},
		{"[\"a\"]", ""},
		{"[\"a\",\"b\",\"c\",\"d\"]", ""},
		{"[\"a\",\"b\",\"c\",\"d\",\"e\"]", "/lines too-many"},
		{"[\"a\",\"\"]", "/lines/1 empty"},
		{"[\"a\",null,3]", "/lines/1 wrong-type; /lines/2 wrong-type"},
		{"\"a\"", "/lines wrong-type"},
	};

	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
		WANT_SV(faults(COLLECTION_ADDRESSES,
			       times(ROWS[i].lines, 1,
				     "{\"source_id\":\"a\",\"country\":\"DE\","
				     "\"city\":\"Ulm\",\"lines\":",
				     "}")),
			sv_of(ROWS[i].want));
}

static void a_country_is_a_code_of_iso_3166(void)
{
	static const struct {
		const char *country, *want;
	} ROWS[] = {
		{"\"DE\"", ""},
		{"\"\\u0044E\"", ""},
		{"\"ZW\"", ""},
		{"\"AD\"", ""},
		{"\"XK\"", ""},
		{"\"ZZ\"", "/country unknown-value"},
		{"\"UK\"", "/country unknown-value"},
		{"\"de\"", "/country bad-format"},
		{"\"dE\"", "/country bad-format"},
		{"\"De\"", "/country bad-format"},
		{"\"DEU\"", "/country bad-format"},
		{"\"D\"", "/country bad-format"},
		{"\"\"", "/country bad-format"},
		{"\"E \"", "/country bad-format"},
	};
	size_t known = 0;

	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
		WANT_SV(faults(COLLECTION_ADDRESSES,
			       times(ROWS[i].country, 1,
				     "{\"source_id\":\"a\",\"city\":\"Ulm\","
				     "\"lines\":[\"l\"],\"country\":",
				     "}")),
			sv_of(ROWS[i].want));
	for (char a = 'A'; a <= 'Z'; a++)
		for (char b = 'A'; b <= 'Z'; b++)
			known += field_is_country(sv_from((char[]){a, b}, 2));
	WANT_U64(known, 250);
}

static void a_time_is_rfc_3339(void)
{
	static const char *const RIGHT[] = {
		"2026-11-18T02:30:00Z",        "2026-11-18t02:30:00z",
		"2026-11-18T02:30:00.123456Z", "2026-11-18T02:30:00+05:30",
		"2026-11-18T23:59:59-23:59",   "2024-02-29T00:00:00Z",
		"2000-02-29T00:00:00Z",        "0000-01-01T00:00:00Z",
		"2016-12-31T23:59:60Z",        "2017-01-01T00:59:60+01:00",
	};
	static const char *const WRONG[] = {
		"",
		"2026-11-18",
		"2026-11-18 02:30:00Z",
		"2026-11-18T02:30:00",
		"2026-11-18T02:30Z",
		"2026-11-18T24:00:00Z",
		"2026-11-18T02:60:00Z",
		"2026-11-18T02:30:60Z",
		"2026-11-18T02:30:61Z",
		"2026-11-18T02:30:00.Z",
		"2026-11-18T02:30:00+24:00",
		"2026-11-18T02:30:00+05:60",
		"2026-11-18T02:30:00+0530",
		"2026-11-18T02:30:00Z ",
		"2026-13-01T00:00:00Z",
		"2026-00-01T00:00:00Z",
		"2026-04-31T00:00:00Z",
		"2026-01-00T00:00:00Z",
		"2025-02-29T00:00:00Z",
		"1900-02-29T00:00:00Z",
		"26-11-18T02:30:00Z",
		"2026-11-18T02:30:00Z\\u0000",
	};
	static const char HEAD[] = "{\"source_id\":\"l\","
				   "\"sku_source_id\":\"s\","
				   "\"manufactured_at\":\"";

	for (size_t i = 0; i < ARRAY_LEN(RIGHT); i++)
		WANT_SV(faults(COLLECTION_LOTS,
			       times(RIGHT[i], 1, HEAD, "\"}")),
			SV(""));
	for (size_t i = 0; i < ARRAY_LEN(WRONG); i++)
		WANT_SV(faults(COLLECTION_LOTS,
			       times(WRONG[i], 1, HEAD, "\"}")),
			SV("/manufactured_at bad-format"));
}

static void a_location_has_the_parent_its_kind_asks_for(void)
{
	static const struct row ROWS[] = {
		{"{\"source_id\":\"l\",\"name\":\"n\",\"kind\":\"WAREHOUSE\"}",
		 ""},
		{"{\"source_id\":\"l\",\"name\":\"n\",\"kind\":\"WAREHOUSE\","
		 "\"parent_source_id\":\"p\"}",
		 "/parent_source_id not-allowed"},
		{"{\"source_id\":\"l\",\"name\":\"n\",\"kind\":\"ZONE\"}",
		 "/parent_source_id required"},
		{"{\"source_id\":\"l\",\"name\":\"n\",\"kind\":\"BIN\"}",
		 "/parent_source_id required"},
		{"{\"source_id\":\"l\",\"name\":\"n\",\"kind\":\"ZONE\","
		 "\"parent_source_id\":null}",
		 "/parent_source_id wrong-type"},
		{"{\"source_id\":\"l\",\"name\":\"n\",\"kind\":\"zone\"}",
		 "/kind unknown-value"},
		{"{\"source_id\":\"l\",\"name\":\"n\",\"kind\":\"\"}",
		 "/kind unknown-value"},
		{"{\"source_id\":\"l\",\"name\":\"n\",\"kind\":7,"
		 "\"parent_source_id\":\"\"}",
		 "/kind wrong-type; /parent_source_id empty"},
	};

	WANT_ROWS(COLLECTION_LOCATIONS, ROWS);
}

/* "locations p WAREHOUSE, addresses a": the references as one text. */
static struct sv refs_of(const struct incoming *in)
{
	buf_reset(&shown);
	for (size_t i = 0; i < in->ref_count; i++) {
		const struct item_ref *r = &in->refs[i];

		buf_addf(&shown, "%s%s %.*s%s%s", i ? ", " : "",
			 collection_info(r->collection)->name,
			 SV_ARG(r->source_id), r->trait ? " " : "",
			 r->trait ? r->trait : "");
	}
	return buf_sv(&shown);
}

static void references_come_in_document_order_and_once(void)
{
	static const struct {
		enum collection c;
		const char *json, *want;
	} ROWS[] = {
		{COLLECTION_UOMS, "{\"source_id\":\"u\",\"name\":\"n\"}", ""},
		{COLLECTION_SKUS,
		 "{\"source_id\":\"s\",\"name\":\"n\","
		 "\"base_uom\":\"\\u0045A\"}",
		 "uoms EA"},
		{COLLECTION_LOCATIONS,
		 "{\"source_id\":\"z\",\"parent_source_id\":\"p\","
		 "\"name\":\"n\",\"kind\":\"\\u005aONE\"}",
		 "locations p WAREHOUSE"},
		{COLLECTION_LOCATIONS,
		 "{\"source_id\":\"z\",\"address_source_id\":\"a\","
		 "\"name\":\"n\",\"kind\":\"BIN\",\"parent_source_id\":\"p\"}",
		 "addresses a, locations p ZONE"},
		{COLLECTION_LOCATIONS,
		 "{\"source_id\":\"w\",\"name\":\"n\",\"kind\":\"WAREHOUSE\"}",
		 ""},
		{COLLECTION_BOMS,
		 "{\"components\":[{\"uom\":\"EA\",\"sku_source_id\":\"t\","
		 "\"qty\":1},{\"uom\":\"EA\",\"sku_source_id\":\"EA\","
		 "\"qty\":1},{\"uom\":\"KG\",\"sku_source_id\":\"t\","
		 "\"qty\":1}],\"source_id\":\"b\",\"sku_source_id\":\"s\"}",
		 "uoms EA, skus t, skus EA, uoms KG, skus s"},
		{COLLECTION_SERIALS,
		 "{\"source_id\":\"n\",\"sku_source_id\":\"s\","
		 "\"lot_source_id\":\"l\"}",
		 "skus s, lots l"},
		{COLLECTION_TRANSFER_ORDERS,
		 "{\"source_id\":\"t\",\"to_warehouse_source_id\":\"v\","
		 "\"from_warehouse_source_id\":\"w\",\"lines\":[{"
		 "\"line_no\":1,\"sku_source_id\":\"s\",\"qty\":1,"
		 "\"uom\":\"EA\"}]}",
		 "locations v WAREHOUSE, locations w WAREHOUSE, skus s, "
		 "uoms EA"},
		{COLLECTION_RECEIVERS,
		 "{\"source_id\":\"r\",\"po_source_id\":\"p\",\"lines\":[{"
		 "\"line_no\":1,\"sku_source_id\":\"s\",\"qty\":1,"
		 "\"uom\":\"EA\"}]}",
		 "purchase-orders p, skus s, uoms EA"},
		{COLLECTION_SHIPPERS,
		 "{\"source_id\":\"r\",\"so_source_id\":\"p\",\"lines\":[{"
		 "\"line_no\":1,\"sku_source_id\":\"s\",\"qty\":1,"
		 "\"uom\":\"EA\"}]}",
		 "sales-orders p, skus s, uoms EA"},
		{COLLECTION_WORK_ORDERS,
		 "{\"source_id\":\"r\",\"warehouse_source_id\":\"w\","
		 "\"sku_source_id\":\"s\",\"qty\":2,\"uom\":\"EA\"}",
		 "locations w WAREHOUSE, skus s, uoms EA"},
	};

	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
		struct incoming in = validate(ROWS[i].c, sv_of(ROWS[i].json));

		WANT(!in.rejected);
		WANT_SV(refs_of(&in), sv_of(ROWS[i].want));
	}
}

/* Past the few that are compared each with each. */
static void many_references_come_in_document_order_and_once_too(void)
{
	struct buf b, want;
	struct incoming in;

	buf_init(&b, 1 << 20);
	buf_init(&want, 1 << 20);
	buf_add_text(&b, "{\"source_id\":\"p\",\"warehouse_source_id\":\"w\","
			 "\"lines\":[");
	buf_add_text(&want, "locations w WAREHOUSE");
	for (unsigned i = 0; i < 900; i++) {
		unsigned sku = i * 7919 % 300;

		buf_addf(&b,
			 "%s{\"line_no\":%u,\"sku_source_id\":\"S%u\","
			 "\"qty\":1,\"uom\":\"EA\"}",
			 i ? "," : "", i, sku);
		if (i < 300)
			buf_addf(&want, ", skus S%u%s", sku,
				 i ? "" : ", uoms EA");
	}
	buf_add_text(&b, "]}");
	in = validate(COLLECTION_PURCHASE_ORDERS, buf_sv(&b));
	WANT(!in.rejected);
	WANT_SV(refs_of(&in), buf_sv(&want));
	buf_release(&b);
	buf_release(&want);
}

static void references_obey_the_rules_of_source_ids(void)
{
	static const char HEAD[] = "{\"source_id\":\"s\",\"name\":\"n\","
				   "\"base_uom\":\"";

	WANT_SV(faults(COLLECTION_SKUS, times("x", 128, HEAD, "\"}")), SV(""));
	WANT_SV(faults(COLLECTION_SKUS, times("x", 129, HEAD, "\"}")),
		SV("/base_uom too-long"));
	WANT_SV(faults(COLLECTION_SKUS, times("", 0, HEAD, "\"}")),
		SV("/base_uom empty"));
	WANT_SV(faults(COLLECTION_SKUS, times("\\u0000", 1, HEAD, "\"}")),
		SV("/base_uom control-character"));
}

static void what_rules_across_items_need_is_read_out(void)
{
	struct incoming in;

	in = validate(COLLECTION_LOCATIONS,
		      SV("{\"source_id\":\"w\",\"name\":\"n\","
			 "\"kind\":\"WAREHOUSE\"}"));
	WANT_SV(in.trait, SV("WAREHOUSE"));
	in = validate(COLLECTION_LOTS,
		      SV("{\"source_id\":\"l\",\"sku_source_id\":\"s 1\"}"));
	WANT_SV(in.trait, SV("s 1"));
	in = validate(COLLECTION_SERIALS,
		      SV("{\"source_id\":\"n\",\"sku_source_id\":\"s\","
			 "\"lot_source_id\":\"l\"}"));
	WANT_SV(in.sku, SV("s"));
	WANT_SV(in.lot, SV("l"));
	WANT_U64(in.trait.n, 0);
	in = validate(COLLECTION_BOMS,
		      SV("{\"source_id\":\"b\",\"sku_source_id\":\"s\","
			 "\"components\":[{\"sku_source_id\":\"t\",\"qty\":1,"
			 "\"uom\":\"EA\"},{\"sku_source_id\":\"u\",\"qty\":1,"
			 "\"uom\":\"EA\"}]}"));
	WANT_SV(in.sku, SV("s"));
	WANT_SV(in.trait, SV("s"));
	WANT_U64(in.component_count, 2);
	WANT_SV(in.components[0], SV("t"));
	WANT_SV(in.components[1], SV("u"));
}

static void a_transfer_to_where_it_comes_from_is_marked(void)
{
	static const char TAIL[] = "\",\"lines\":[{\"line_no\":1,"
				   "\"sku_source_id\":\"s\",\"qty\":1,"
				   "\"uom\":\"EA\"}]}";
	static const char HEAD[] = "{\"source_id\":\"t\","
				   "\"to_warehouse_source_id\":\"w\","
				   "\"from_warehouse_source_id\":\"";

	WANT(validate(COLLECTION_TRANSFER_ORDERS, times("w", 1, HEAD, TAIL))
		     .same_warehouse);
	WANT(validate(COLLECTION_TRANSFER_ORDERS,
		      times("\\u0077", 1, HEAD, TAIL))
		     .same_warehouse);
	WANT(!validate(COLLECTION_TRANSFER_ORDERS, times("W", 1, HEAD, TAIL))
		      .same_warehouse);
}

static void the_payload_is_what_was_sent_without_white_space(void)
{
	struct incoming in = validate(
		COLLECTION_SKUS,
		SV(" { \"source_id\" : \"a  b\",\n\t\"name\":\"\\u0041 \","
		   "\"base_uom\":\"EA\", \"weight_kg\": 1.10 ,"
		   "\"big\": 12345678901234567890, \"own\": [ null , {} ],"
		   "\"f\":1.0e+2,\"zero\":\"\\u0000\" }"));
	uint8_t sum[DIGEST_BYTES];

	WANT(!in.rejected);
	WANT_SV(in.payload, SV("{\"source_id\":\"a  b\",\"name\":\"\\u0041 \","
			       "\"base_uom\":\"EA\",\"weight_kg\":1.10,"
			       "\"big\":12345678901234567890,\"own\":[null,{}],"
			       "\"f\":1.0e+2,\"zero\":\"\\u0000\"}"));
	digest_sha256(in.payload, sum);
	WANT(memcmp(in.hash, sum, ITEM_HASH) == 0);
}

static void white_space_alone_makes_no_other_hash(void)
{
	struct incoming a = validate(
		COLLECTION_UOMS, SV("{\"source_id\":\"x\",\"name\":\"n\"}"));
	struct incoming b =
		validate(COLLECTION_UOMS,
			 SV("{ \"source_id\": \"x\" , \"name\":\"n\" }"));
	struct incoming c = validate(
		COLLECTION_UOMS, SV("{\"source_id\":\"x\",\"name\":\"n \"}"));

	WANT(memcmp(a.hash, b.hash, ITEM_HASH) == 0);
	WANT(memcmp(a.hash, c.hash, ITEM_HASH) != 0);
}

static void unknown_fields_are_no_fault(void)
{
	WANT_SV(faults(COLLECTION_UOMS,
		       SV("{\"source_id\":\"x\",\"name\":\"n\",\"own\":null,"
			  "\"kind\":7,\"lines\":[],\"Name\":1,\"\":2,"
			  "\"source_id \":null}")),
		SV(""));
}

static struct sv numbers(size_t n)
{
	return times("0,", n - 1,
		     "{\"source_id\":\"s\",\"name\":\"n\","
		     "\"base_uom\":\"EA\",\"barcodes\":[",
		     "0]}");
}

static void fifty_faults_are_told_and_that_there_are_more(void)
{
	struct incoming in = validate(COLLECTION_SKUS, numbers(50));
	struct json_tape t = read_json(in.errors);

	WANT_U64(json_count(&t, 0), 50);
	for (size_t n = 51; n < 20000; n *= 10) {
		in = validate(COLLECTION_SKUS, numbers(n));
		t = read_json(in.errors);
		WANT_U64(json_count(&t, 0), 51);
		WANT(sv_eq(sv_tail(faults_of(&in),
				   faults_of(&in).n - strlen(";  more")),
			   SV(";  more")));
	}
}

static void an_oversized_item_is_rejected_alone(void)
{
	struct incoming in = {.index = 4, .line = 5};

	validate_oversized(&arena, 70000, 65536, &in);
	WANT_SV(faults_of(&in), SV(" too-large"));
	WANT(!in.has_source_id && !in.has_version);
	WANT(in.index == 4 && in.line == 5);
}

static void sets_fit_and_words_decide(void)
{
	for (int c = 0; c < COLLECTION_COUNT; c++) {
		const struct field_set *set = field_set((enum collection)c);

		WANT(set->count <= FIELD_SET_MAX);
		WANT_SV(set->fields[0].name, SV("source_id"));
		WANT_SV(set->fields[1].name, SV("source_version"));
		for (size_t i = 0; i < set->count; i++) {
			const struct field *f = &set->fields[i];

			WANT(f->doc && *f->doc);
			WANT((f->kind == FIELD_WORD) == (f->words != NULL));
			WANT((f->kind == FIELD_OBJECTS) ==
			     (f->members != NULL));
			WANT(field_find(set, f->name) == f);
			WANT(!f->by || field_find(set, sv_of(f->by)));
		}
	}
}

static void a_collection_is_found_by_area_and_name(void)
{
	enum collection c = COLLECTION_COUNT;

	WANT(collection_find(SV("master"), SV("skus"), &c));
	WANT(c == COLLECTION_SKUS);
	WANT(collection_find(SV("documents"), SV("work-orders"), &c));
	WANT(c == COLLECTION_WORK_ORDERS);
	WANT(!collection_find(SV("documents"), SV("skus"), &c));
	WANT(!collection_find(SV("master"), SV("SKUS"), &c));
	WANT(!collection_find(SV("master"), SV(""), &c));
	WANT(c == COLLECTION_WORK_ORDERS);
	WANT(collection_named(SV("lots"), &c) && c == COLLECTION_LOTS);
}

static void the_description_names_every_field(void)
{
	struct json_tape t;
	struct buf b;
	uint32_t one;

	buf_init(&b, 1 << 20);
	describe_collections(&b);
	t = read_json(buf_sv(&b));
	one = json_first(&t, 0);
	for (int c = 0; c < COLLECTION_COUNT; c++) {
		const struct field_set *set = field_set((enum collection)c);
		uint32_t fields = json_find(&t, one, SV("fields"));
		uint32_t at = json_first(&t, fields);

		WANT(json_text_is(
			&t, json_find(&t, one, SV("collection")),
			sv_of(collection_info((enum collection)c)->name)));
		WANT_U64(json_count(&t, fields), set->count);
		for (size_t i = 0; i < set->count; i++) {
			WANT(json_text_is(&t, json_find(&t, at, SV("name")),
					  set->fields[i].name));
			at = json_after(&t, fields, at);
		}
		one = json_after(&t, 0, one);
	}
	WANT(one == 0);
	buf_release(&b);
}

static void the_description_tells_the_rules_of_a_field(void)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	describe_collections(&b);
	WANT(strstr(buf_cstr(&b),
		    "{\"area\":\"documents\",\"collection\":\"receivers\","
		    "\"path\":\"/wms-ingest/v1/documents/receivers\","
		    "\"internal_id_prefix\":\"rcv-\","));
	WANT(strstr(buf_cstr(&b),
		    "{\"name\":\"kind\",\"kind\":\"word\","
		    "\"required\":true,"
		    "\"words\":[\"WAREHOUSE\",\"ZONE\",\"BIN\"]}"));
	WANT(strstr(buf_cstr(&b),
		    "\"reference\":\"locations\",\"depends_on\":\"kind\","
		    "\"cases\":[{\"value\":\"WAREHOUSE\","
		    "\"required\":false,\"allowed\":false},"
		    "{\"value\":\"ZONE\",\"required\":true,"
		    "\"reference_kind\":\"WAREHOUSE\"},"));
	WANT(strstr(buf_cstr(&b), "{\"name\":\"qty\",\"kind\":\"number\","
				  "\"required\":true,\"max_characters\":64,"
				  "\"exclusive_minimum\":0}"));
	WANT(strstr(buf_cstr(&b),
		    "{\"name\":\"lines\",\"kind\":\"objects\","
		    "\"required\":true,\"min_count\":1,\"fields\":[{"
		    "\"name\":\"line_no\",\"kind\":\"integer\","));
	buf_release(&b);
}

void suite_validate(void)
{
	arena_init(&arena, 64 * 1024);
	buf_init(&shown, 1 << 20);
	ADD(sets_fit_and_words_decide);
	ADD(the_description_names_every_field);
	ADD(the_description_tells_the_rules_of_a_field);
	ADD(a_collection_is_found_by_area_and_name);
	ADD(every_collection_has_an_item_that_is_right);
	ADD(an_empty_object_lacks_all_that_is_required);
	ADD(what_is_no_object_is_rejected);
	ADD(a_source_id_is_text_without_control_characters);
	ADD(a_source_id_has_at_most_128_bytes_after_unescaping);
	ADD(a_source_id_is_kept_byte_for_byte);
	ADD(a_version_is_a_number_or_digits);
	ADD(other_versions_are_rejected);
	ADD(an_item_without_version_has_none);
	ADD(a_rejected_item_keeps_what_was_right);
	ADD(a_value_of_another_type_is_rejected);
	ADD(a_required_text_is_not_empty);
	ADD(a_text_is_as_long_as_its_row_says);
	ADD(a_quantity_is_above_zero_whatever_its_digits);
	ADD(a_number_has_at_most_64_characters);
	ADD(a_weight_is_not_below_zero);
	ADD(a_line_number_is_written_with_digits);
	ADD(faults_inside_lists_are_told_with_their_place);
	ADD(address_lines_are_one_to_four_texts);
	ADD(a_country_is_a_code_of_iso_3166);
	ADD(a_time_is_rfc_3339);
	ADD(a_location_has_the_parent_its_kind_asks_for);
	ADD(references_come_in_document_order_and_once);
	ADD(many_references_come_in_document_order_and_once_too);
	ADD(references_obey_the_rules_of_source_ids);
	ADD(what_rules_across_items_need_is_read_out);
	ADD(a_transfer_to_where_it_comes_from_is_marked);
	ADD(the_payload_is_what_was_sent_without_white_space);
	ADD(white_space_alone_makes_no_other_hash);
	ADD(unknown_fields_are_no_fault);
	ADD(fifty_faults_are_told_and_that_there_are_more);
	ADD(an_oversized_item_is_rejected_alone);
}
