/* item/decode: a body into items. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/buf.h"
#include "item/decode.h"

static struct arena arena;
static struct conf conf;

static struct decoded decoded;
static struct fail failure;

static bool decode(struct sv body, bool ndjson)
{
	decoded = (struct decoded){.count = 0};
	failure = FAIL_INIT;
	return decode_body(&arena, &conf, COLLECTION_UOMS, body, ndjson,
			   &decoded, &failure);
}

static void defaults(void)
{
	struct fail f = FAIL_INIT;

	if (!conf_load(&conf, &arena, NULL, &f))
		bug("%s", f.detail);
}

/* n items of an envelope or of NDJSON, into the arena. */
static struct sv body_of(size_t n, bool ndjson)
{
	struct buf b;
	struct sv body;

	buf_init(&b, 1 << 28);
	buf_add_text(&b, ndjson ? "" : "{\"items\":[");
	for (size_t i = 0; i < n; i++)
		buf_addf(&b, "%s{\"source_id\":\"%zu\",\"name\":\"n\"}%s",
			 i && !ndjson ? "," : "", i, ndjson ? "\n" : "");
	buf_add_text(&b, ndjson ? "" : "]}");
	body = arena_sv(&arena, buf_sv(&b));
	buf_release(&b);
	return body;
}

static void an_envelope_gives_its_items_in_order(void)
{
	defaults();
	WANT(decode(SV(" {\"items\": [ {\"source_id\":\"b\",\"name\":\"n\"} ,"
		       "{\"source_id\":\"a\",\"name\":\"n\"}]}\n"),
		    false));
	WANT_U64(decoded.count, 2);
	WANT_SV(decoded.items[0].source_id, SV("b"));
	WANT_SV(decoded.items[1].source_id, SV("a"));
	WANT_U64(decoded.items[1].index, 1);
	WANT_U64(decoded.items[1].line, 0);
}

static void lines_are_counted_with_the_empty_ones(void)
{
	defaults();
	WANT(decode(SV("\n{\"source_id\":\"b\",\"name\":\"n\"}\r\n \n"
		       "{\"source_id\":\"a\",\"name\":\"n\"}"),
		    true));
	WANT_U64(decoded.count, 2);
	WANT_U64(decoded.items[0].index, 0);
	WANT_U64(decoded.items[0].line, 2);
	WANT_U64(decoded.items[1].index, 1);
	WANT_U64(decoded.items[1].line, 4);
}

static void nothing_is_no_item(void)
{
	defaults();
	WANT(decode(SV("{\"items\":[]}"), false));
	WANT_U64(decoded.count, 0);
	WANT(decode(SV(""), true));
	WANT_U64(decoded.count, 0);
	WANT(decode(SV("\n\n"), true));
	WANT_U64(decoded.count, 0);
	WANT(!decode(SV(""), false));
	WANT_FAIL(&failure, FAIL_JSON_SYNTAX);
}

static void a_body_that_is_wrong_fails_whole_with_its_place(void)
{
	static const struct {
		const char *body;
		bool ndjson;
		enum fail_code code;
		const char *pointer;
		uint64_t line;
	} ROWS[] = {
		{"[]", false, FAIL_JSON_SYNTAX, "", 0},
		{"{\"items\":{}}", false, FAIL_JSON_SYNTAX, "/items", 0},
		{"{\"items\":[],\"more\":1}", false, FAIL_JSON_SYNTAX, "/more",
		 0},
		{"{\"items\":[{\"source_id\":\"a\",\"name\":\"n\"},{]}", false,
		 FAIL_JSON_SYNTAX, "/items/1", 0},
		{"{\"items\":[{\"a\":1,\"\\u0061\":2}]}", false,
		 FAIL_JSON_DUPLICATE, "/items/0/a", 0},
		{"{\"items\":[{\"a\":\"\xff\"}]}", false, FAIL_JSON_UTF8,
		 "/items/0/a", 0},
		{"{\"a\":1}\n{\"a\":1} 2\n", true, FAIL_JSON_SYNTAX, "", 2},
		{"{\"a\":1}\n\n{\"b\":\n1}", true, FAIL_JSON_SYNTAX, "/b", 3},
	};

	defaults();
	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
		WANT(!decode(sv_of(ROWS[i].body), ROWS[i].ndjson));
		WANT_FAIL(&failure, ROWS[i].code);
		WANT_SV(sv_of(failure.pointer), sv_of(ROWS[i].pointer));
		WANT_U64(failure.line, ROWS[i].line);
	}
}

static void an_item_that_is_wrong_is_rejected_alone(void)
{
	defaults();
	WANT(decode(SV("{\"items\":[7,{\"source_id\":\"a\",\"name\":\"n\"},"
		       "{\"source_id\":\"b\"},null]}"),
		    false));
	WANT_U64(decoded.count, 4);
	WANT(decoded.items[0].rejected && !decoded.items[1].rejected);
	WANT(decoded.items[2].rejected && decoded.items[3].rejected);
	WANT_SV(decoded.items[2].source_id, SV("b"));
}

static void an_item_of_item_max_is_taken_one_byte_more_is_rejected(void)
{
	for (int lines = 0; lines < 2; lines++) {
		struct buf b;

		defaults();
		buf_init(&b, 1 << 20);
		buf_add_text(&b, lines ? "" : "{\"items\":[");
		for (unsigned more = 0; more < 2; more++) {
			buf_addf(&b, "{\"source_id\":\"%u\",\"name\":\"", more);
			for (size_t i = 0; i < 65536 - 27 + more; i++)
				buf_add_byte(&b, 'x');
			buf_add_text(&b, "\"}");
			buf_add_text(&b, lines ? "\n" : ",");
		}
		buf_add_text(&b, "{\"source_id\":\"z\",\"name\":\"n\"}");
		buf_add_text(&b, lines ? "" : "]}");
		WANT(decode(buf_sv(&b), lines));
		WANT_U64(decoded.count, 3);
		WANT_U64(decoded.items[0].payload.n, 65536);
		WANT(!decoded.items[0].rejected);
		WANT(decoded.items[1].rejected);
		WANT_SV(decoded.items[1].errors,
			SV("[{\"pointer\":\"\",\"code\":\"too-large\","
			   "\"detail\":\"65537 bytes; the limit is "
			   "65536\"}]"));
		WANT_U64(decoded.items[1].index, 1);
		WANT_U64(decoded.items[1].line, lines ? 2 : 0);
		WANT(!decoded.items[2].rejected);
		buf_release(&b);
	}
}

static void as_many_items_as_the_threshold_are_taken_no_more(void)
{
	for (int lines = 0; lines < 2; lines++) {
		defaults();
		WANT(decode(body_of(5000, lines), lines));
		WANT_U64(decoded.count, 5000);
		for (size_t i = 0; i < decoded.count; i++)
			WANT_U64(decoded.items[i].index, i);
		WANT_SV(decoded.items[4999].source_id, SV("4999"));
		WANT(!decode(body_of(5001, lines), lines));
		WANT_FAIL(&failure, FAIL_BODY_TOO_LARGE);
		WANT(strstr(failure.detail, "5000") &&
		     strstr(failure.detail, "bulk_async_threshold"));
		conf.bulk_async_threshold = 1;
		WANT(decode(body_of(1, lines), lines));
		WANT(!decode(body_of(2, lines), lines));
		WANT_FAIL(&failure, FAIL_BODY_TOO_LARGE);
	}
}

static void the_limits_are_those_of_the_settings(void)
{
	defaults();
	conf.json_depth_max = 3;
	WANT(decode(SV("{\"items\":[{}]}"), false));
	WANT(!decode(SV("{\"items\":[{\"a\":[]}]}"), false));
	WANT_FAIL(&failure, FAIL_JSON_DEPTH);
	defaults();
	conf.json_names_max = 8;
	WANT(decode(SV("{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,"
		       "\"g\":1,\"h\":1}"),
		    true));
	WANT(!decode(SV("{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,"
			"\"g\":1,\"h\":1,\"i\":1}"),
		     true));
	WANT_FAIL(&failure, FAIL_JSON_NAMES);
}

static void items_that_need_no_change_are_not_copied(void)
{
	struct sv body = body_of(3, false);

	defaults();
	WANT(decode(body, false));
	for (size_t i = 0; i < decoded.count; i++) {
		const char *p = decoded.items[i].payload.p;

		WANT(p > body.p && p < body.p + body.n);
	}
}

void suite_decode(void)
{
	arena_init(&arena, 64 * 1024);
	ADD(an_envelope_gives_its_items_in_order);
	ADD(lines_are_counted_with_the_empty_ones);
	ADD(nothing_is_no_item);
	ADD(a_body_that_is_wrong_fails_whole_with_its_place);
	ADD(an_item_that_is_wrong_is_rejected_alone);
	ADD(an_item_of_item_max_is_taken_one_byte_more_is_rejected);
	ADD(as_many_items_as_the_threshold_are_taken_no_more);
	ADD(the_limits_are_those_of_the_settings);
	ADD(items_that_need_no_change_are_not_copied);
}
