/* doc: small documents as a tree. Numbers are the guarantees of wire/doc.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "wire/doc.h"

static const struct json_limits LIMITS = {.depth_max = 32, .names_max = 256};

static struct doc *parsed(struct sv bytes)
{
	struct fail f = FAIL_INIT;
	struct doc *d = NULL;

	WANT(doc_parse(bytes, &LIMITS, &d, &f));
	WANT_FAIL(&f, FAIL_NONE);
	return d;
}

static void values_are_found_by_pointer(void)
{
	struct doc *d =
		parsed(SV("{\"a\":{\"b\":[1,{\"c\":\"x\"}]},\"m~/n\":true,"
			  "\"\":null,\"e\":[]}"));
	const struct doc_node *root = doc_root(d);
	uint64_t v = 0;
	struct sv text;
	bool yes = false;

	WANT(doc_u64(doc_get(root, "/a/b/0"), 0, 9, &v) && v == 1);
	WANT(doc_string(doc_get(root, "/a/b/1/c"), &text));
	WANT_SV(text, SV("x"));
	WANT(doc_bool(doc_get(root, "/m~0~1n"), &yes) && yes);
	WANT(doc_is_null(doc_get(root, "/")));
	WANT(doc_is_array(doc_get(root, "/e")));
	WANT(doc_get(root, "") == root);
	WANT(!doc_get(root, "/a/b/2"));
	WANT(!doc_get(root, "/a/b/-1"));
	WANT(!doc_get(root, "/a/x/y"));
	WANT(!doc_get(root, "/m~0"));
	doc_free(d);
}

static void members_are_counted_and_named_in_order(void)
{
	struct doc *d = parsed(SV("{\"z\":1,\"a\":[4,5]}"));
	const struct doc_node *root = doc_root(d);
	uint64_t v = 0;

	WANT(doc_is_object(root));
	WANT_U64(doc_count(root), 2);
	WANT_SV(doc_name(root, 0), SV("z"));
	WANT_SV(doc_name(root, 1), SV("a"));
	WANT(!doc_name(root, 2).p);
	WANT_U64(doc_count(doc_element(root, 1)), 2);
	WANT(doc_u64(doc_element(doc_element(root, 1), 1), 0, 9, &v) && v == 5);
	WANT(!doc_element(root, 2));
	doc_free(d);
}

static void a_missing_or_other_value_is_false(void)
{
	struct doc *d = parsed(SV("[\"1\",1,true]"));
	const struct doc_node *root = doc_root(d);
	uint64_t v = 7;
	struct sv text;
	bool yes;

	WANT(!doc_u64(NULL, 0, 9, &v) &&
	     !doc_u64(doc_get(root, "/0"), 0, 9, &v));
	WANT(!doc_string(NULL, &text) &&
	     !doc_string(doc_get(root, "/1"), &text));
	WANT(!doc_bool(NULL, &yes) && !doc_bool(doc_get(root, "/1"), &yes));
	WANT(!doc_u64(doc_get(root, "/1"), 2, 9, &v));
	WANT(!doc_is_null(NULL) && !doc_is_object(NULL) && !doc_is_array(NULL));
	WANT_U64(doc_count(NULL), 0);
	WANT_U64(v, 7);
	doc_free(d);
}

/* D1: each of these is accepted by parson alone. */
static void the_strict_reader_is_the_gate(void)
{
	const struct {
		struct sv bytes;
		enum fail_code code;
	} WRONG[] = {
		{SV("{} x"), FAIL_JSON_SYNTAX},
		{SV("\xef\xbb\xbf{}"), FAIL_JSON_SYNTAX},
		{SV("{\"a\":\"\xff\"}"), FAIL_JSON_UTF8},
		{SV("[1,]"), FAIL_JSON_SYNTAX},
		{SV("{\"a\":1,\"\\u0061\":2}"), FAIL_JSON_DUPLICATE},
		{SV("[1]\0[2]"), FAIL_JSON_SYNTAX},
	};

	for (size_t i = 0; i < ARRAY_LEN(WRONG); i++) {
		struct fail f = FAIL_INIT;
		struct doc *d = NULL;

		WANT(!doc_parse(WRONG[i].bytes, &LIMITS, &d, &f));
		WANT_FAIL(&f, WRONG[i].code);
		WANT(!d);
	}
}

/* D2 */
static void nothing_is_cut_at_a_zero(void)
{
	struct doc *d = parsed(SV("[\"a\\u0000b\"]"));
	struct fail f = FAIL_INIT;
	struct doc *none = NULL;
	struct sv text;

	WANT(doc_string(doc_get(doc_root(d), "/0"), &text));
	WANT_SV(text, SV("a\0b"));
	doc_free(d);
	WANT(!doc_parse(SV("{\"a\\u0000b\":1}"), &LIMITS, &none, &f));
	WANT_FAIL(&f, FAIL_JSON_SYNTAX);
}

/* D3 */
static void numbers_are_exact_or_refused(void)
{
	struct doc *d = parsed(SV("[9007199254740991,9007199254740992,"
				  "9007199254740993,-1,1.5,1e3,0]"));
	const struct doc_node *root = doc_root(d);
	uint64_t v = 7;

	WANT(!doc_u64(doc_get(root, "/1"), 0, UINT64_MAX, &v));
	WANT(!doc_u64(doc_get(root, "/2"), 0, UINT64_MAX, &v));
	WANT(!doc_u64(doc_get(root, "/3"), 0, UINT64_MAX, &v));
	WANT(!doc_u64(doc_get(root, "/4"), 0, UINT64_MAX, &v));
	WANT_U64(v, 7);
	WANT(doc_u64(doc_get(root, "/0"), 0, UINT64_MAX, &v));
	WANT_U64(v, 9007199254740991);
	WANT(doc_u64(doc_get(root, "/5"), 0, 1000, &v) && v == 1000);
	WANT(doc_u64(doc_get(root, "/6"), 0, 1000, &v) && v == 0);
	doc_free(d);
}

void suite_doc(void)
{
	ADD(values_are_found_by_pointer);
	ADD(members_are_counted_and_named_in_order);
	ADD(a_missing_or_other_value_is_false);
	ADD(the_strict_reader_is_the_gate);
	ADD(nothing_is_cut_at_a_zero);
	ADD(numbers_are_exact_or_refused);
}
