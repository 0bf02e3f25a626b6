/* json: the strict reader. Numbers are the guarantees of wire/json.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <dirent.h>
#include <inttypes.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/digest.h"
#include "base/text.h"
#include "wire/json.h"

static const struct json_limits LIMITS = {.depth_max = 32, .names_max = 256};
static const char *const FORMATS[] = {"envelope", "lines", "one"};

enum { BIG = 64 * 1024, TEXT_MAX = 64 << 20 };

/* A generator of our own: the same seed gives the same run everywhere. */
static uint64_t random_state = 1;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static size_t below(size_t n)
{
	return (size_t)(random_next() % n);
}

static void random_begin(const char *what)
{
	const char *given = getenv("JSON_SEED");

	if (!given || !text_u64(sv_of(given), 1, UINT64_MAX, &random_state))
		digest_random(&random_state, sizeof(random_state));
	random_state |= 1;
	printf("%s: JSON_SEED=%" PRIu64 "\n", what, random_state);
}

/* Everything a reading of a body says, as text: items with bytes and tape,
 * then how it ended. Two readings are equal if their texts are. */
static void tell_item(struct buf *b, const struct json_item *i)
{
	buf_addf(b, "item %" PRIu64 " line %" PRIu64 " at %" PRIu64, i->index,
		 i->line, i->at);
	buf_addf(b, " +%" PRIu64 " %s%s [", i->bytes_count,
		 i->oversized ? "oversized" : "",
		 i->tape.spaced ? "spaced" : "");
	buf_add(b, i->bytes);
	buf_add_text(b, "]\n");
	for (uint32_t t = 0; t < i->tape.count; t++) {
		const struct json_token *k = &i->tape.tokens[t];

		buf_addf(b, "%u %u-%u >%u f%u\n", k->kind, k->start, k->end,
			 k->next, k->flags);
	}
}

static void tell_end(struct buf *b, enum json_got got, const struct fail *f)
{
	if (got == JSON_END)
		buf_add_text(b, "end\n");
	else
		buf_addf(b, "%s: %s; pointer %s; line %" PRIu64 "\n",
			 fail_info(f->code)->name, f->detail, f->pointer,
			 f->line);
}

struct body {
	enum json_format format;
	struct sv bytes;
	struct json_limits limits;
	size_t item_max;
};

/* Feed it in pieces of `step` bytes; 0: whole; SIZE_MAX: random ones. Each
 * piece is a copy that is thrown away, so that ASan sees what outlives it. */
static enum json_got tell(struct buf *b, const struct body *body, size_t step,
			  struct fail *f)
{
	struct sv rest = body->bytes;
	enum json_got got = JSON_MORE;
	struct json_items *s;
	struct json_item item;
	struct arena a;

	buf_reset(b);
	arena_init(&a, 1024);
	s = json_items_new(&a, body->format, &body->limits, body->item_max);
	while (got == JSON_MORE) {
		size_t n = step == SIZE_MAX ? below(9) * below(9) : step;
		char *copy;

		n = !step || n > rest.n ? rest.n : n;
		copy = malloc(n + !n);
		if (n)
			memcpy(copy, rest.p, n);
		rest = sv_tail(rest, n);
		json_items_feed(s, sv_from(copy, n), !step || rest.n == 0);
		while ((got = json_items_next(s, &item, f)) == JSON_ITEM)
			tell_item(b, &item);
		free(copy);
	}
	tell_end(b, got, f);
	arena_release(&a);
	return got;
}

/* J6, for one body. false: they differ, and it has been said how. */
static bool same_in_pieces(const struct body *body, enum json_got *got_r,
			   struct fail *f)
{
	static const size_t STEPS[] = {1, 2, 3, 17, SIZE_MAX};
	struct buf whole, cut;
	bool same = true;

	buf_init(&whole, TEXT_MAX);
	buf_init(&cut, TEXT_MAX);
	*got_r = tell(&whole, body, 0, f);
	for (size_t i = 0; i < ARRAY_LEN(STEPS) && same; i++) {
		struct fail other = FAIL_INIT;

		tell(&cut, body, STEPS[i], &other);
		same = sv_eq(buf_sv(&whole), buf_sv(&cut));
		if (!same)
			printf("%s in steps of %zd: <<%.*s>>\nwhole: %s\n"
			       "pieces: %s\n",
			       FORMATS[body->format], (ssize_t)STEPS[i],
			       SV_ARG(body->bytes), buf_cstr(&whole),
			       buf_cstr(&cut));
	}
	buf_release(&whole);
	buf_release(&cut);
	return same;
}

static bool reads(struct sv bytes, struct fail *f)
{
	struct body body = {JSON_ONE, bytes, LIMITS, BIG};
	struct json_tape t;
	struct arena a;
	enum json_got got;
	bool right;

	arena_init(&a, 4096);
	right = json_read(&a, bytes, &LIMITS, &t, f);
	arena_release(&a);
	WANT(same_in_pieces(&body, &got, f));
	WANT(right == (got == JSON_END));
	return right;
}

/* J1, J2 */
static void what_the_grammar_has_is_accepted(void)
{
	static const char *const RIGHT[] = {
		"0",
		"-0",
		"-1",
		"10",
		"1.0",
		"1e5",
		"1E+5",
		"1.25e-07",
		"123456789012345678901234567890.10",
		" null ",
		"true",
		"false",
		"\"\"",
		"\"a\"",
		"[]",
		"{}",
		"[ ]",
		"{ }",
		"[[],{}]",
		" \t\r\n[ 1 , 2 ]\n",
		"{\"a\":1,\"b\":[true,null]}",
		"{\"\":0}",
		"{\"a\":{\"a\":{\"a\":0}}}",
		"[{\"a\":0},{\"a\":0}]",
		"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\"",
		"\"\\u0000\"",
		"{\"\\u0000\":1,\"\\u0000a\":2}",
		"\"\\ud83d\\ude00\"",
		"\"\\uDBFF\\uDFFF\"",
		"\"\\ufffe\\uffff\"",
		"\"\x7f\"",
		"\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x93\xa6\"",
		"\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80"
		"\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"",
		"\"0123456789abcdef0123456789abcdef\\n0123456789abcdef\"",
	};

	for (size_t i = 0; i < ARRAY_LEN(RIGHT); i++) {
		struct fail f = FAIL_INIT;

		if (!reads(sv_of(RIGHT[i]), &f))
			printf("refused: %s\n", RIGHT[i]);
		WANT_FAIL(&f, FAIL_NONE);
	}
}

struct wrong {
	struct sv bytes;
	enum fail_code code;
	unsigned at;
	const char *pointer;
};

static void want_wrong(enum json_format format, const struct wrong *w)
{
	struct body body = {format, w->bytes, LIMITS, BIG};
	struct fail f = FAIL_INIT;
	enum json_got got;
	char at[40];

	snprintf(at, sizeof(at), " at byte %u (", w->at);
	WANT(same_in_pieces(&body, &got, &f));
	WANT_FAIL(&f, w->code);
	WANT_SV(sv_of(f.pointer), sv_of(w->pointer));
	if (!strstr(f.detail, at))
		printf("%.*s: %s\n", SV_ARG(w->bytes), f.detail);
	WANT(strstr(f.detail, at));
}

/* J1, J2, and where the fault is */
static void what_is_not_json_is_refused_at_its_place(void)
{
	const struct wrong WRONG[] = {
		{SV(""), FAIL_JSON_SYNTAX, 0, ""},
		{SV("  "), FAIL_JSON_SYNTAX, 2, ""},
		{SV("\xef\xbb\xbf{}"), FAIL_JSON_SYNTAX, 0, ""},
		{SV("{} {}"), FAIL_JSON_SYNTAX, 3, ""},
		{SV("[]]"), FAIL_JSON_SYNTAX, 2, ""},
		{SV("[}"), FAIL_JSON_SYNTAX, 1, "/0"},
		{SV("[1,]"), FAIL_JSON_SYNTAX, 3, "/1"},
		{SV("[1,2"), FAIL_JSON_SYNTAX, 4, ""},
		{SV("[1 2]"), FAIL_JSON_SYNTAX, 3, ""},
		{SV("[1,[2,{\"a\":[0,x]}]]"), FAIL_JSON_SYNTAX, 14, "/1/1/a/1"},
		{SV("{\"a\" 1}"), FAIL_JSON_SYNTAX, 5, "/a"},
		{SV("{\"a\":}"), FAIL_JSON_SYNTAX, 5, "/a"},
		{SV("{\"a\":1,}"), FAIL_JSON_SYNTAX, 7, ""},
		{SV("{\"a\":1"), FAIL_JSON_SYNTAX, 6, ""},
		{SV("{\"a\":{\"b\":1;"), FAIL_JSON_SYNTAX, 11, "/a"},
		{SV("{a:1}"), FAIL_JSON_SYNTAX, 1, ""},
		{SV("{\"a"), FAIL_JSON_SYNTAX, 3, ""},
		{SV("{'a':1}"), FAIL_JSON_SYNTAX, 1, ""},
		{SV("{\"a\":1}/**/"), FAIL_JSON_SYNTAX, 7, ""},
		{SV("01"), FAIL_JSON_SYNTAX, 1, ""},
		{SV("-"), FAIL_JSON_SYNTAX, 1, ""},
		{SV("+1"), FAIL_JSON_SYNTAX, 0, ""},
		{SV(".5"), FAIL_JSON_SYNTAX, 0, ""},
		{SV("[1.]"), FAIL_JSON_SYNTAX, 3, "/0"},
		{SV("1e"), FAIL_JSON_SYNTAX, 2, ""},
		{SV("1e+x"), FAIL_JSON_SYNTAX, 3, ""},
		{SV("-x"), FAIL_JSON_SYNTAX, 1, ""},
		{SV("0x1"), FAIL_JSON_SYNTAX, 1, ""},
		{SV("NaN"), FAIL_JSON_SYNTAX, 0, ""},
		{SV("tru"), FAIL_JSON_SYNTAX, 3, ""},
		{SV("truE"), FAIL_JSON_SYNTAX, 3, ""},
		{SV("nulll"), FAIL_JSON_SYNTAX, 4, ""},
		{SV("[\v1]"), FAIL_JSON_SYNTAX, 1, "/0"},
		{SV("[1\0]"), FAIL_JSON_SYNTAX, 2, ""},
		{SV("\"a"), FAIL_JSON_SYNTAX, 2, ""},
		{SV("\"a\n\""), FAIL_JSON_SYNTAX, 2, ""},
		{SV("\"a\0\""), FAIL_JSON_SYNTAX, 2, ""},
		{SV("\"\\x\""), FAIL_JSON_SYNTAX, 2, ""},
		{SV("\"\\u12g4\""), FAIL_JSON_SYNTAX, 5, ""},
		{SV("\"\\u12"), FAIL_JSON_SYNTAX, 5, ""},
		{SV("\"\\ud800\\u1g\""), FAIL_JSON_SYNTAX, 10, ""},
		{SV("[\"\\ud800\"]"), FAIL_JSON_UTF8, 2, "/0"},
		{SV("\"a\\udc00\""), FAIL_JSON_UTF8, 2, ""},
		{SV("\"\\udc00\\udc00\""), FAIL_JSON_UTF8, 1, ""},
		{SV("\"\\ud800\\n\""), FAIL_JSON_UTF8, 1, ""},
		{SV("\"\\ud800\\u0041\""), FAIL_JSON_UTF8, 1, ""},
		{SV("\"\\ud800\\ud800\""), FAIL_JSON_UTF8, 1, ""},
		{SV("{\"a\":\"\xff\"}"), FAIL_JSON_UTF8, 6, "/a"},
		{SV("\"\xc0\x80\""), FAIL_JSON_UTF8, 1, ""},
		{SV("\"\xc3\""), FAIL_JSON_UTF8, 1, ""},
		{SV("\"\xe0\x9f\xbf\""), FAIL_JSON_UTF8, 1, ""},
		{SV("\"\xed\xa0\x80\""), FAIL_JSON_UTF8, 1, ""},
		{SV("\"\xf0\x8f\xbf\xbf\""), FAIL_JSON_UTF8, 1, ""},
		{SV("\"\xf4\x90\x80\x80\""), FAIL_JSON_UTF8, 1, ""},
		{SV("\"\xe2\x82"), FAIL_JSON_SYNTAX, 3, ""},
		{SV("{\"\x80\":1}"), FAIL_JSON_UTF8, 2, ""},
	};

	for (size_t i = 0; i < ARRAY_LEN(WRONG); i++) {
		struct fail f = FAIL_INIT;

		want_wrong(JSON_ONE, &WRONG[i]);
		WANT(!reads(WRONG[i].bytes, &f));
	}
}

static void a_fault_has_line_and_column(void)
{
	struct fail f = FAIL_INIT;

	WANT(!reads(SV("{\n  \"a\": 1,\n  \"b\": x\n}"), &f));
	WANT_SV(sv_of(f.detail), SV("expected a value, found x at byte 19 "
				    "(line 3, column 8)"));
	WANT_U64(f.line, 0);
}

/* J3 */
static void names_are_compared_after_unescaping(void)
{
	const struct wrong WRONG[] = {
		{SV("{\"a\":1,\"a\":2}"), FAIL_JSON_DUPLICATE, 7, "/a"},
		{SV("{\"a\":1,\"\\u0061\":2}"), FAIL_JSON_DUPLICATE, 7, "/a"},
		{SV("{\"\\/\":1,\"b\":0,\"/\":2}"), FAIL_JSON_DUPLICATE, 14,
		 "/~1"},
		{SV("{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":2}"),
		 FAIL_JSON_DUPLICATE, 18, "/\xf0\x9f\x98\x80"},
		{SV("{\"\":1,\"\":2}"), FAIL_JSON_DUPLICATE, 6, "/"},
		{SV("{\"x\":{\"a~/\":{\"a\":1,\"b\":0,\"a\":2}}}"),
		 FAIL_JSON_DUPLICATE, 25, "/x/a~0~1/a"},
		{SV("{\"0123456789abcdef\":1,\"0123456789abcde\":2,"
		    "\"0123456789abcdef\":3}"),
		 FAIL_JSON_DUPLICATE, 42, "/0123456789abcdef"},
	};
	struct fail f = FAIL_INIT;

	for (size_t i = 0; i < ARRAY_LEN(WRONG); i++)
		want_wrong(JSON_ONE, &WRONG[i]);
	WANT(reads(SV("{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]},\"b\":0}"), &f));
	WANT(reads(SV("{\"a\":1,\"a\\u0000\":2,\"A\":3}"), &f));
}

static void add_times(struct buf *b, const char *text, size_t n)
{
	while (n--)
		buf_add_text(b, text);
}

/* J4 */
static void depth_is_limited(void)
{
	struct fail f = FAIL_INIT;
	struct buf b;

	buf_init(&b, TEXT_MAX);
	add_times(&b, "[", 32);
	add_times(&b, "]", 32);
	WANT(reads(buf_sv(&b), &f));
	buf_reset(&b);
	add_times(&b, "[", 33);
	add_times(&b, "]", 33);
	WANT(!reads(buf_sv(&b), &f));
	WANT_FAIL(&f, FAIL_JSON_DEPTH);
	WANT_U64(strlen(f.pointer), 64);
	WANT(strstr(f.detail, "more than 32 levels deep at byte 32 "));
	buf_release(&b);
}

static void add_object(struct buf *b, size_t names)
{
	buf_add_byte(b, '{');
	for (size_t i = 0; i < names; i++)
		buf_addf(b, "%s\"n%zu\":%zu", i ? "," : "", i, i);
	buf_add_byte(b, '}');
}

/* J4 */
static void names_of_an_object_are_limited(void)
{
	struct fail f = FAIL_INIT;
	struct buf b;

	buf_init(&b, TEXT_MAX);
	buf_add_text(&b, "[0,");
	add_object(&b, 256);
	buf_add_text(&b, ",");
	add_object(&b, 256);
	buf_add_text(&b, "]");
	WANT(reads(buf_sv(&b), &f));
	buf_reset(&b);
	buf_add_text(&b, "[0,");
	add_object(&b, 257);
	buf_add_text(&b, "]");
	WANT(!reads(buf_sv(&b), &f));
	WANT_FAIL(&f, FAIL_JSON_NAMES);
	WANT_SV(sv_of(f.pointer), SV("/1"));
	buf_release(&b);
}

static void a_long_pointer_is_cut_after_a_whole_step(void)
{
	struct fail f = FAIL_INIT;
	struct buf b;

	buf_init(&b, TEXT_MAX);
	buf_add_text(&b, "{\"ab\":[7,{\"");
	add_times(&b, "\\u0041/", 200);
	buf_add_text(&b, "\":{\"c\":x}}]}");
	WANT(!reads(buf_sv(&b), &f));
	WANT_SV(sv_of(f.pointer), SV("/ab/1"));
	buf_reset(&b);
	buf_add_text(&b, "{\"");
	add_times(&b, "a", 318);
	buf_add_text(&b, "\":x}");
	WANT(!reads(buf_sv(&b), &f));
	WANT_U64(strlen(f.pointer), 319);
	WANT(!reads(SV("{\"a\":{\"b\\u0000c\":x}}"), &f));
	WANT_SV(sv_of(f.pointer), SV("/a"));
	buf_release(&b);
}

static void the_tape_is_flat_and_says_where_a_value_ends(void)
{
	struct sv body = SV(" {\"a\":[1,-2,\"x\\n\"],\"b\":{}} ");
	struct body one = {JSON_ONE, body, LIMITS, BIG};
	struct fail f = FAIL_INIT;
	struct buf b;

	buf_init(&b, TEXT_MAX);
	WANT(tell(&b, &one, 0, &f) == JSON_END);
	WANT_SV(buf_sv(&b), SV("item 0 line 0 at 1 +25  "
			       "[{\"a\":[1,-2,\"x\\n\"],\"b\":{}}]\n"
			       "7 0-25 >8 f0\n"
			       "5 1-4 >2 f0\n"
			       "6 5-17 >6 f0\n"
			       "3 6-7 >4 f2\n"
			       "3 8-10 >5 f0\n"
			       "4 11-16 >6 f1\n"
			       "5 18-21 >7 f0\n"
			       "7 22-24 >8 f0\n"
			       "end\n"));
	WANT_U64(sizeof(struct json_token), 16);
	buf_release(&b);
}

static void a_document_of_too_many_tokens_is_too_large(void)
{
	struct body body = {JSON_ONE, SV("[1,[2,\n3],4]"), LIMITS, BIG};
	struct fail f = FAIL_INIT;
	enum json_got got;

	body.limits.tokens_max = 6;
	WANT(same_in_pieces(&body, &got, &f));
	WANT(got == JSON_END);
	body.limits.tokens_max = 5;
	WANT(same_in_pieces(&body, &got, &f));
	WANT_FAIL(&f, FAIL_BODY_TOO_LARGE);
	WANT_SV(sv_of(f.detail), SV("more than 5 values and names at byte 11 "
				    "(line 2, column 5)"));
}

/* What the items of a body are, in short: index, line, bytes. */
static void want_items(enum json_format format, struct sv bytes,
		       size_t item_max, const char *want)
{
	struct body body = {format, bytes, LIMITS, item_max};
	struct fail f = FAIL_INIT;
	struct json_items *s;
	struct json_item i;
	enum json_got got;
	struct arena a;
	struct buf b;

	arena_init(&a, 4096);
	buf_init(&b, TEXT_MAX);
	s = json_items_new(&a, format, &LIMITS, item_max);
	json_items_feed(s, bytes, true);
	while ((got = json_items_next(s, &i, &f)) == JSON_ITEM) {
		buf_addf(&b, "%" PRIu64 ":%" PRIu64 ":", i.index, i.line);
		if (i.oversized)
			buf_addf(&b, "%" PRIu64 " bytes", i.bytes_count);
		else /* J8 */
			WANT(i.bytes.p == bytes.p + i.at);
		buf_add(&b, i.bytes);
		buf_add_byte(&b, ' ');
	}
	buf_add_text(&b, fail_info(f.code)->name);
	WANT_SV(buf_sv(&b), sv_of(want));
	WANT(same_in_pieces(&body, &got, &f));
	buf_release(&b);
	arena_release(&a);
}

/* J6, J8 */
static void an_envelope_hands_out_its_items(void)
{
	want_items(JSON_ENVELOPE, SV("{\"items\":[]}"), BIG, "NONE");
	want_items(JSON_ENVELOPE,
		   SV(" { \"items\" : [ {\"a\": 1} , 2,\n[3],\"x\",null ] } "),
		   BIG, "0:0:{\"a\": 1} 1:0:2 2:0:[3] 3:0:\"x\" 4:0:null NONE");
	want_items(JSON_ENVELOPE, SV("{\"\\u0069tems\":[12]}"), BIG,
		   "0:0:12 NONE");
	want_items(JSON_ENVELOPE, SV("{\"items\":[12,{]}"), BIG,
		   "0:0:12 JSON_SYNTAX");
}

static void an_envelope_has_items_and_nothing_else(void)
{
	const struct wrong WRONG[] = {
		{SV(""), FAIL_JSON_SYNTAX, 0, ""},
		{SV("[]"), FAIL_JSON_SYNTAX, 0, ""},
		{SV("{}"), FAIL_JSON_SYNTAX, 1, ""},
		{SV("{\"items\":{}}"), FAIL_JSON_SYNTAX, 9, "/items"},
		{SV("{\"items\":null}"), FAIL_JSON_SYNTAX, 9, "/items"},
		{SV("{\"item\":[]}"), FAIL_JSON_SYNTAX, 1, "/item"},
		{SV("{\"itemsx\":[]}"), FAIL_JSON_SYNTAX, 1, "/itemsx"},
		{SV("{\"items\":[1],\"more\":[]}"), FAIL_JSON_SYNTAX, 13,
		 "/more"},
		{SV("{\"items\":[1],\"items\":[]}"), FAIL_JSON_DUPLICATE, 13,
		 "/items"},
		{SV("{\"items\":[1]}}"), FAIL_JSON_SYNTAX, 13, ""},
		{SV("{\"items\":[1]"), FAIL_JSON_SYNTAX, 12, ""},
		{SV("{\"items\":[1"), FAIL_JSON_SYNTAX, 11, "/items"},
		{SV("{\"items\":[1 2]}"), FAIL_JSON_SYNTAX, 12, "/items"},
		{SV("{\"items\":[{},{\"b\":[{},tru]}]}"), FAIL_JSON_SYNTAX, 25,
		 "/items/1/b/1"},
		{SV("{\"items\":[{\"b\":1,\"b\":2}]}"), FAIL_JSON_DUPLICATE, 17,
		 "/items/0/b"},
	};

	for (size_t i = 0; i < ARRAY_LEN(WRONG); i++)
		want_wrong(JSON_ENVELOPE, &WRONG[i]);
}

static void lines_hand_out_a_value_each(void)
{
	want_items(JSON_LINES, SV(""), BIG, "NONE");
	want_items(JSON_LINES, SV("\n\r\n \n"), BIG, "NONE");
	want_items(JSON_LINES, SV("{\"a\":1}\n\n[2]\r\n \t\n 3 \r\n\"x\""), BIG,
		   "0:1:{\"a\":1} 1:3:[2] 2:5:3 3:6:\"x\" NONE");
	want_items(JSON_LINES, SV("1\n2"), BIG, "0:1:1 1:2:2 NONE");
	want_items(JSON_LINES, SV("1\n2 3\n"), BIG, "0:1:1 1:2:2 JSON_SYNTAX");
}

static void a_line_that_is_not_one_value_is_refused_by_line(void)
{
	const struct {
		struct wrong w;
		uint64_t line;
	} WRONG[] = {
		{{SV("1\n{\"a\":\n2}"), FAIL_JSON_SYNTAX, 7, "/a"}, 2},
		{{SV("1\n\n{} {}\n"), FAIL_JSON_SYNTAX, 6, ""}, 3},
		{{SV("{\"a\":[0,\"b\nc\"]}"), FAIL_JSON_SYNTAX, 10, "/a/1"}, 1},
		{{SV("1\r\n[1,"), FAIL_JSON_SYNTAX, 6, "/1"}, 2},
		{{SV("1\n,\n"), FAIL_JSON_SYNTAX, 2, ""}, 2},
		{{SV("\n{\"a\":1,\"a\":2}"), FAIL_JSON_DUPLICATE, 8, "/a"}, 2},
	};

	for (size_t i = 0; i < ARRAY_LEN(WRONG); i++) {
		struct body body = {JSON_LINES, WRONG[i].w.bytes, LIMITS, BIG};
		struct fail f = FAIL_INIT;
		enum json_got got;

		want_wrong(JSON_LINES, &WRONG[i].w);
		WANT(same_in_pieces(&body, &got, &f));
		WANT_U64(f.line, WRONG[i].line);
	}
}

/* J7 */
static void an_oversized_item_is_handed_out_without_its_bytes(void)
{
	want_items(JSON_ENVELOPE,
		   SV("{\"items\":[\"12345678\",\"123456789\",[0,1,2,3,4,5,6],"
		      "{\"a\":1}]}"),
		   10,
		   "0:0:\"12345678\" 1:0:11 bytes 2:0:15 bytes 3:0:{\"a\":1} "
		   "NONE");
	want_items(JSON_LINES, SV("12345678901\n1\n"), 10,
		   "0:1:11 bytes 1:2:1 NONE");
}

/* J7 */
static void an_oversized_item_is_checked_all_the_same(void)
{
	const struct wrong WRONG[] = {
		{SV("{\"items\":[1,{\"abcdefghijkl\":{\"m\":[0,1,x]}}]}"),
		 FAIL_JSON_SYNTAX, 38, "/items/1/abcdefghijkl/m/2"},
		{SV("{\"items\":[{\"a\":{\"b\":\"0123456789\",\"c\":0,"
		    "\"\\u0062\":0}}]}"),
		 FAIL_JSON_DUPLICATE, 39, "/items/0/a/b"},
		{SV("{\"items\":[{\"a\":\"0123456789\",\"b\":\"\xff\"}]}"),
		 FAIL_JSON_UTF8, 33, "/items/0/b"},
	};
	struct body body = {.limits = LIMITS, .item_max = 10};

	body.limits.depth_max = 6;
	for (size_t i = 0; i < ARRAY_LEN(WRONG); i++) {
		struct fail f = FAIL_INIT;
		enum json_got got;

		body.bytes = WRONG[i].bytes;
		WANT(same_in_pieces(&body, &got, &f));
		WANT_FAIL(&f, WRONG[i].code);
		WANT_SV(sv_of(f.pointer), sv_of(WRONG[i].pointer));
		want_wrong(JSON_ENVELOPE, &WRONG[i]);
	}
}

static void members_and_elements_are_walked_in_order(void)
{
	struct sv body = SV("{\"a\":[1,[2],{\"x\":3}],\"b\\u0063\":\"q\"}");
	struct fail f = FAIL_INIT;
	struct json_tape t;
	struct arena a;
	uint32_t list;

	arena_init(&a, 4096);
	WANT(json_read(&a, body, &LIMITS, &t, &f));
	WANT_U64(json_count(&t, 0), 2);
	list = json_find(&t, 0, SV("a"));
	WANT_U64(json_kind(&t, list), JSON_ARRAY);
	WANT_U64(json_count(&t, list), 3);
	list = json_after(&t, list, json_after(&t, list, json_first(&t, list)));
	WANT_SV(json_raw(&t, list), SV("{\"x\":3}"));
	WANT_SV(json_raw(&t, json_find(&t, list, SV("x"))), SV("3"));
	WANT_SV(json_raw(&t, json_find(&t, 0, SV("bc"))), SV("\"q\""));
	WANT_U64(json_find(&t, 0, SV("b")), 0);
	WANT_U64(json_find(&t, 0, SV("bcd")), 0);
	WANT_U64(json_find(&t, json_find(&t, 0, SV("a")), SV("x")), 0);
	WANT_U64(json_first(&t, json_find(&t, 0, SV("bc"))), 0);
	arena_release(&a);
}

static void texts_are_unescaped(void)
{
	struct sv body =
		SV("[\"plain\",\"\\\"\\\\\\/\\b\\f\\n\\r\\t\",\"a\\u0000b"
		   "\\u00e9\\u20ac\\ud83d\\ude00\xc3\xa9\",\"\"]");
	struct fail f = FAIL_INIT;
	struct json_tape t;
	struct arena a;

	arena_init(&a, 4096);
	WANT(json_read(&a, body, &LIMITS, &t, &f));
	WANT_SV(json_text(&a, &t, 1), SV("plain"));
	WANT(json_text(&a, &t, 1).p == body.p + 2);
	WANT_SV(json_text(&a, &t, 2), SV("\"\\/\b\f\n\r\t"));
	WANT_SV(json_text(&a, &t, 3),
		SV("a\0b\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa9"));
	WANT_SV(json_text(&a, &t, 4), SV(""));
	WANT(json_text_is(&t, 2, SV("\"\\/\b\f\n\r\t")));
	WANT(!json_text_is(&t, 2, SV("\"\\/\b\f\n\r\t.")));
	WANT(!json_text_is(&t, 2, SV("\"\\/\b")));
	arena_release(&a);
}

static void compact_drops_white_space_outside_strings_only(void)
{
	struct sv body =
		SV(" [ 1 ,\t\"a b\\n\" , { } , {\"x y\" :\r\n 1.10 } ] ");
	struct fail f = FAIL_INIT;
	struct json_tape t;
	struct arena a;

	arena_init(&a, 4096);
	WANT(json_read(&a, body, &LIMITS, &t, &f));
	WANT_SV(json_compact(&a, &t, 0),
		SV("[1,\"a b\\n\",{},{\"x y\":1.10}]"));
	WANT_SV(json_compact(&a, &t, 4), SV("{\"x y\":1.10}"));
	WANT_SV(json_compact(&a, &t, 2), SV("\"a b\\n\""));
	body = SV(" [1,{\"a\":\" \"}] ");
	WANT(json_read(&a, body, &LIMITS, &t, &f));
	WANT(json_compact(&a, &t, 0).p == body.p + 1);
	arena_release(&a);
}

static void integers_are_exact_or_nothing(void)
{
	struct sv body = SV("[0,18446744073709551615,18446744073709551616,-1,"
			    "1.0,1e2,\"1\",-0]");
	struct fail f = FAIL_INIT;
	struct json_tape t;
	struct arena a;
	uint64_t v = 7;

	arena_init(&a, 4096);
	WANT(json_read(&a, body, &LIMITS, &t, &f));
	WANT(json_u64(&t, 1, 0, 9, &v) && v == 0);
	WANT(!json_u64(&t, 1, 1, 9, &v));
	WANT(json_u64(&t, 2, 0, UINT64_MAX, &v) && v == UINT64_MAX);
	for (uint32_t i = 3; i <= 8; i++)
		WANT(!json_u64(&t, i, 0, UINT64_MAX, &v));
	WANT_U64(v, UINT64_MAX);
	arena_release(&a);
}

static void a_kept_tape_outlives_the_reader(void)
{
	char body[] = "{\"items\":[{\"a\":1},{\"b\":2}]}";
	struct fail f = FAIL_INIT;
	struct json_item item;
	struct json_items *s;
	struct json_tape kept;
	struct arena a;

	arena_init(&a, 4096);
	s = json_items_new(&a, JSON_ENVELOPE, &LIMITS, BIG);
	json_items_feed(s, sv_of(body), true);
	WANT(json_items_next(s, &item, &f) == JSON_ITEM);
	kept = json_keep(&a, &item.tape, true);
	WANT(json_items_next(s, &item, &f) == JSON_ITEM);
	WANT(json_items_next(s, &item, &f) == JSON_END);
	memset(body, 'x', sizeof(body));
	WANT_SV(json_raw(&kept, json_find(&kept, 0, SV("a"))), SV("1"));
	arena_release(&a);
}

/* The public corpus. Each file is read as a document, as lines and as what
 * stands in an envelope, whole and in pieces. */
static const char *corpus_folder(void)
{
	static const char *const PLACES[] = {
		UNIT_SRCDIR "/../shared/jsontestsuite",
		UNIT_SRCDIR "/../../shared/jsontestsuite",
	};
	DIR *d;

	if (getenv("JSONTESTSUITE"))
		return getenv("JSONTESTSUITE");
	for (size_t i = 0; i < ARRAY_LEN(PLACES); i++) {
		d = opendir(PLACES[i]);
		if (d) {
			closedir(d);
			return PLACES[i];
		}
	}
	return NULL;
}

static void read_file(struct buf *b, const char *folder, const char *name)
{
	char path[512], part[4096];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "rb");
	buf_reset(b);
	WANT(file);
	while (file && (n = fread(part, 1, sizeof(part), file)) > 0)
		buf_add(b, sv_from(part, n));
	if (file)
		fclose(file);
}

static void check_file(const char *name, struct sv bytes)
{
	bool twice = strstr(name, "duplicated_key") != NULL;
	struct fail f = FAIL_INIT;
	bool right = reads(bytes, &f);
	struct body body = {JSON_LINES, bytes, LIMITS, 64};
	enum json_got got;
	struct buf b;

	if ((name[0] == 'y' && right == twice) || (name[0] == 'n' && right))
		printf("%s: %s %s\n", name, right ? "accepted" : "refused",
		       f.detail);
	WANT(name[0] != 'y' || right == !twice);
	WANT(name[0] != 'n' || !right);
	WANT(!twice || f.code == FAIL_JSON_DUPLICATE);
	WANT(same_in_pieces(&body, &got, &f));
	buf_init(&b, TEXT_MAX);
	buf_add_text(&b, "{\"items\":[");
	buf_add(&b, bytes);
	buf_add_text(&b, "]}");
	body.format = JSON_ENVELOPE;
	body.bytes = buf_sv(&b);
	WANT(same_in_pieces(&body, &got, &f));
	WANT(name[0] != 'y' || (got == JSON_END) == !twice);
	buf_release(&b);
}

static void the_public_corpus_is_judged_right_whole_and_byte_by_byte(void)
{
	const char *folder = corpus_folder();
	DIR *d = folder ? opendir(folder) : NULL;
	struct dirent *e;
	unsigned files = 0;
	struct buf b;

	if (!d) {
		unit_skip("no folder jsontestsuite; JSONTESTSUITE names one");
		return;
	}
	random_begin("corpus");
	buf_init(&b, TEXT_MAX);
	while ((e = readdir(d)) != NULL) {
		if (!strstr(e->d_name, ".json"))
			continue;
		read_file(&b, folder, e->d_name);
		check_file(e->d_name, buf_sv(&b));
		files++;
	}
	closedir(d);
	printf("corpus: %u files\n", files);
	WANT(files > 300);
	buf_release(&b);
}

/* Random bodies: right ones from a grammar, then damaged. */
static void add_random_text(struct buf *b)
{
	static const char *const PARTS[] = {
		"a",
		"b",
		"items",
		"~/",
		" ",
		"\\n",
		"\\u0061",
		"\\ud83d\\ude00",
		"\\u0000",
		"\xc3\xa9",
		"\xf0\x9f\x93\xa6",
		"0123456789abcdef",
	};

	buf_add_byte(b, '"');
	for (size_t n = below(5); n; n--)
		buf_add_text(b, PARTS[below(ARRAY_LEN(PARTS))]);
	buf_add_byte(b, '"');
}

static void add_random_space(struct buf *b, const char *spaces)
{
	while (below(4) == 0)
		buf_add_byte(b, spaces[below(strlen(spaces))]);
}

static void add_random_value(struct buf *b, unsigned depth, const char *spaces)
{
	static const char *const LEAVES[] = {
		"0",    "-1",    "12.50", "1e9",
		"true", "false", "null",  "98765432109876543210"};
	bool object = below(2);

	add_random_space(b, spaces);
	if (depth == 0 || below(3) == 0) {
		if (below(2))
			add_random_text(b);
		else
			buf_add_text(b, LEAVES[below(ARRAY_LEN(LEAVES))]);
	} else {
		buf_add_byte(b, object ? '{' : '[');
		for (size_t n = below(5), i = 0; i < n; i++) {
			if (i)
				buf_add_byte(b, ',');
			add_random_space(b, spaces);
			if (object) {
				add_random_text(b);
				add_random_space(b, spaces);
				buf_add_byte(b, ':');
			}
			add_random_value(b, depth - 1, spaces);
		}
		add_random_space(b, spaces);
		buf_add_byte(b, object ? '}' : ']');
	}
	add_random_space(b, spaces);
}

static void add_random_body(struct buf *b, enum json_format format)
{
	size_t items = below(4);

	switch (format) {
	case JSON_ENVELOPE:
		buf_add_text(b, "{\"items\":[");
		for (size_t i = 0; i < items; i++) {
			if (i)
				buf_add_byte(b, ',');
			add_random_value(b, 4, " \n\t\r");
		}
		buf_add_text(b, "]}");
		break;
	case JSON_LINES:
		for (size_t i = 0; i < items; i++) {
			add_random_value(b, 4, " \t\r");
			buf_add_text(b, below(2) ? "\n" : "\r\n\n");
		}
		break;
	case JSON_ONE:
		add_random_value(b, 5, " \n\t\r");
		break;
	}
}

static void damage(struct buf *b)
{
	static const char BYTES[] =
		"{}[]\",:\\u0d8tfn-.eE \n\r\xff\xc3\xa9\x01";

	for (size_t n = below(3); n && b->n; n--) {
		size_t at = below(b->n), rest = b->n - at - 1;

		switch (below(4)) {
		case 0:
			b->p[at] = BYTES[below(sizeof(BYTES))];
			break;
		case 1:
			b->p[at] = (char)(b->p[at] ^ 1 << below(8));
			break;
		case 2:
			memmove(b->p + at, b->p + at + 1, rest);
			b->n--;
			break;
		default:
			b->n = at;
		}
	}
}

/* J6 */
static void random_bodies_read_the_same_in_any_pieces(void)
{
	unsigned right = 0, rounds = 4000;
	struct buf b;

	random_begin("random");
	buf_init(&b, TEXT_MAX);
	for (unsigned i = 0; i < rounds; i++) {
		struct body body = {.format = (enum json_format)below(3),
				    .limits = {2 + (uint32_t)below(8),
					       1 + (uint32_t)below(5),
					       (uint32_t)below(30)},
				    .item_max = below(2) ? BIG : below(60)};
		struct fail f = FAIL_INIT;
		enum json_got got;

		buf_reset(&b);
		add_random_body(&b, body.format);
		damage(&b);
		body.bytes = buf_sv(&b);
		if (!same_in_pieces(&body, &got, &f)) {
			WANT(!"the same in pieces");
			break;
		}
		right += got == JSON_END;
	}
	printf("random: %u of %u right\n", right, rounds);
	WANT(right > rounds / 10 && right < rounds);
	buf_release(&b);
}

static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Sanitizers make time say nothing. */
static void want_cheap(const char *what, double ms, size_t used_bytes)
{
	printf("%s: %.1f ms CPU, arena %zu KiB\n", what, ms, used_bytes / 1024);
#ifndef __SANITIZE_ADDRESS__
	WANT(ms < 500);
#endif
}

static void read_hostile(const char *what, enum json_format format,
			 struct sv bytes, enum fail_code want, size_t bytes_max)
{
	struct fail f = FAIL_INIT;
	struct json_items *s;
	struct json_item item;
	enum json_got got;
	struct arena a;
	double began = cpu_ms();

	arena_init(&a, 64 * 1024);
	s = json_items_new(&a, format, &LIMITS,
			   format == JSON_ONE ? bytes.n : BIG);
	json_items_feed(s, bytes, true);
	while ((got = json_items_next(s, &item, &f)) == JSON_ITEM)
		;
	want_cheap(what, cpu_ms() - began, a.used_bytes);
	WANT_FAIL(&f, want);
	WANT(a.used_bytes <= bytes_max);
	arena_release(&a);
}

/* J3, J5. A weak hash (parson's: h * 33 ^ c) makes all names of this form
 * equal; and full objects of short names are what costs us most. */
static void names_cost_little_however_they_are_chosen(void)
{
	struct buf b;

	buf_init(&b, TEXT_MAX);
	buf_add_text(&b, "{\"items\":[");
	for (unsigned item = 0; b.n < 1100 * 1024; item++) {
		buf_add_text(&b, item ? ",{" : "{");
		for (unsigned i = 0; i < 256; i++) {
			buf_add_text(&b, i ? ",\"" : "\"");
			for (unsigned bit = 0; bit < 8; bit++)
				buf_add_text(&b, i >> bit & 1 ? "Ez" : "FY");
			buf_add_text(&b, "\":0");
		}
		buf_add_text(&b, "}");
	}
	buf_add_text(&b, "]}");
	read_hostile("1.1 MB of colliding names", JSON_ENVELOPE, buf_sv(&b),
		     FAIL_NONE, 64 * 1024);
	buf_reset(&b);
	buf_add_text(&b, "[");
	for (unsigned item = 0; b.n < 1100 * 1024; item++) {
		buf_add_text(&b, item ? ",{" : "{");
		for (int i = 0; i < 250; i++)
			buf_addf(&b, "%s\"%c%c\":0", i ? "," : "", 'a' + i / 26,
				 'a' + i % 26);
		buf_add_text(&b, "}");
	}
	buf_add_text(&b, "]");
	read_hostile("1.1 MB of short names", JSON_ONE, buf_sv(&b),
		     FAIL_BODY_TOO_LARGE, 9 << 20);
	read_hostile("the same as an oversized line", JSON_LINES, buf_sv(&b),
		     FAIL_NONE, 2 << 20);
	buf_release(&b);
}

/* J5 */
static void hostile_bodies_cost_little_time_and_memory(void)
{
	struct buf b;

	buf_init(&b, TEXT_MAX);
	add_times(&b, "[", 100 * 1000);
	read_hostile("100,000 nested arrays", JSON_ONE, buf_sv(&b),
		     FAIL_JSON_DEPTH, 64 * 1024);
	buf_reset(&b);
	buf_add_text(&b, "[");
	add_times(&b, "0,", 2 << 20);
	buf_add_text(&b, "0]");
	read_hostile("4 MiB of 0, as a document", JSON_ONE, buf_sv(&b),
		     FAIL_BODY_TOO_LARGE, 9 << 20);
	read_hostile("4 MiB of 0, as a line", JSON_LINES, buf_sv(&b), FAIL_NONE,
		     2 << 20);
	buf_reset(&b);
	buf_add_text(&b, "{\"items\":[");
	add_times(&b, "0,", 2 << 20);
	buf_add_text(&b, "0]}");
	read_hostile("4 MiB of 0, as items", JSON_ENVELOPE, buf_sv(&b),
		     FAIL_NONE, 64 * 1024);
	buf_release(&b);
}

/* J5: a line of 16 MiB, in pieces, in the memory of an item. */
static void an_endless_item_is_read_in_bounded_memory(void)
{
	struct fail f = FAIL_INIT;
	struct json_items *s;
	struct json_item item;
	struct arena a;
	char piece[4096];
	double began = cpu_ms();

	arena_init(&a, 64 * 1024);
	s = json_items_new(&a, JSON_LINES, &LIMITS, BIG);
	memset(piece, 'x', sizeof(piece));
	json_items_feed(s, SV("{\""), false);
	for (unsigned i = 0; i < 4096; i++) {
		WANT(json_items_next(s, &item, &f) == JSON_MORE);
		json_items_feed(s, sv_from(piece, sizeof(piece)), false);
	}
	WANT(json_items_next(s, &item, &f) == JSON_MORE);
	json_items_feed(s, SV("\":1}\n2"), true);
	WANT(json_items_next(s, &item, &f) == JSON_ITEM);
	WANT(item.oversized);
	WANT_U64(item.bytes_count, (16 << 20) + 6);
	WANT(json_items_next(s, &item, &f) == JSON_ITEM);
	WANT_SV(item.bytes, SV("2"));
	want_cheap("a name of 16 MiB", cpu_ms() - began, a.used_bytes);
	WANT(a.used_bytes < 256 * 1024);
	arena_release(&a);
}

void suite_json(void)
{
	ADD(what_the_grammar_has_is_accepted);
	ADD(what_is_not_json_is_refused_at_its_place);
	ADD(a_fault_has_line_and_column);
	ADD(names_are_compared_after_unescaping);
	ADD(depth_is_limited);
	ADD(names_of_an_object_are_limited);
	ADD(a_long_pointer_is_cut_after_a_whole_step);
	ADD(the_tape_is_flat_and_says_where_a_value_ends);
	ADD(a_document_of_too_many_tokens_is_too_large);
	ADD(an_envelope_hands_out_its_items);
	ADD(an_envelope_has_items_and_nothing_else);
	ADD(lines_hand_out_a_value_each);
	ADD(a_line_that_is_not_one_value_is_refused_by_line);
	ADD(an_oversized_item_is_handed_out_without_its_bytes);
	ADD(an_oversized_item_is_checked_all_the_same);
	ADD(members_and_elements_are_walked_in_order);
	ADD(texts_are_unescaped);
	ADD(compact_drops_white_space_outside_strings_only);
	ADD(integers_are_exact_or_nothing);
	ADD(a_kept_tape_outlives_the_reader);
	ADD(the_public_corpus_is_judged_right_whole_and_byte_by_byte);
	ADD(random_bodies_read_the_same_in_any_pieces);
	ADD(names_cost_little_however_they_are_chosen);
	ADD(hostile_bodies_cost_little_time_and_memory);
	ADD(an_endless_item_is_read_in_bounded_memory);
}
