/* wire/json: items of a body, whole and in pieces of any sizes.
 *
 * Everything a caller can see of the reading is written down as text, and
 * that text must be the same however the body was cut (J6). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <inttypes.h>

#include "base/buf.h"
#include "wire/json.h"

enum { ARENA = 64 * 1024, STORY_MAX = 1 << 24 };

static const struct
try {
	struct json_limits limits;
	size_t item_max;
}
TRIES[] = {
	{{.depth_max = 32, .names_max = 256}, 64 * 1024},
	{{.depth_max = 5, .names_max = 3}, 24},
};

static void tell_item(struct buf *b, const struct json_item *item)
{
	buf_addf(b,
		 "%" PRIu64 " line %" PRIu64 " at %" PRIu64 " +%" PRIu64 "%s ",
		 item->index, item->line, item->at, item->bytes_count,
		 item->oversized ? " oversized" : "");
	buf_add(b, item->bytes);
	for (uint32_t i = 0; !item->oversized && i < item->tape.count; i++) {
		const struct json_token *k = &item->tape.tokens[i];

		buf_addf(b, " %d:%d:%" PRIu32 "-%" PRIu32 ">%" PRIu32, k->kind,
			 k->flags, k->start, k->end, k->next);
	}
	buf_addf(b, " %d\n", item->tape.spaced);
}

static void check_item(struct arena *a, struct sv input, const struct try *t,
		       const struct json_item *item)
{
	struct json_tape whole;
	struct fail f = FAIL_INIT;

	MUST(item->bytes_count > 0 && item->at < input.n);
	MUST(item->bytes_count <= input.n - item->at);
	MUST(item->oversized == (item->bytes_count > t->item_max));
	if (item->oversized) {
		MUST(item->bytes.n == 0 && item->tape.count == 0);
		return;
	}
	MUST(sv_eq(item->bytes,
		   sv_from(input.p + item->at, (size_t)item->bytes_count)));
	/* Read alone it is a document of the same tokens. */
	MUST(json_read(a, item->bytes, &t->limits, &whole, &f));
	MUST(whole.count == item->tape.count);
	MUST(whole.spaced == item->tape.spaced);
}

static void tell_end(struct buf *b, enum json_got got, const struct fail *f)
{
	if (got == JSON_END)
		buf_add_text(b, "end\n");
	else
		buf_addf(b, "%s: %s; %s line %" PRIu64 "\n",
			 fail_info(f->code)->name, f->detail, f->pointer,
			 f->line);
}

/* The story of one reading. *got_r: how it ended, *count_r: after how many. */
static struct sv read_items(struct arena *a, struct sv input,
			    enum json_format format, const struct try *t,
			    enum fuzz_cut how, enum json_got *got_r,
			    uint64_t *count_r)
{
	struct json_items *s =
		json_items_new(a, format, &t->limits, t->item_max);
	struct fuzz_cutter c = fuzz_cutter(input, how);
	struct fail f = FAIL_INIT, again = FAIL_INIT;
	struct json_item item;
	enum json_got got;
	struct sv story;
	struct buf b;

	buf_init(&b, STORY_MAX);
	*count_r = 0;
	do {
		bool last;
		struct sv piece = fuzz_next(&c, &last);

		json_items_feed(s, piece, last);
		while ((got = json_items_next(s, &item, &f)) == JSON_ITEM) {
			MUST(item.index == (*count_r)++);
			check_item(a, input, t, &item);
			tell_item(&b, &item);
		}
		MUST(!last || got != JSON_MORE);
	} while (got == JSON_MORE);
	tell_end(&b, got, &f);
	MUST(buf_ok(&b));
	if (got == JSON_FAIL) {
		MUST(json_items_next(s, &item, &again) == JSON_FAIL);
		MUST(!strcmp(again.detail, f.detail));
		MUST((f.line > 0) == (format == JSON_LINES));
	}
	story = arena_sv(a, buf_sv(&b));
	buf_release(&b);
	fuzz_cutter_end(&c);
	*got_r = got;
	return story;
}

/* One document read as one item is what json_read() says of it. */
static void check_one(struct arena *a, struct sv input, const struct try *t,
		      enum json_got got, uint64_t count)
{
	struct fail f = FAIL_INIT;
	struct json_tape tape;

	if (got == JSON_END)
		MUST(count == 1);
	MUST(json_read(a, input, &t->limits, &tape, &f) == (got == JSON_END));
}

/* What the envelope gives is what stands in the array of the document. */
static void check_envelope(struct arena *a, struct sv input,
			   const struct try *t, enum json_got got,
			   uint64_t count)
{
	struct fail f = FAIL_INIT;
	struct json_tape tape;
	uint32_t list;

	if (!json_read(a, input, &t->limits, &tape, &f)) {
		MUST(got == JSON_FAIL);
		return;
	}
	list = json_find(&tape, 0, SV("items"));
	if (!list || json_kind(&tape, list) != JSON_ARRAY ||
	    json_count(&tape, 0) != 1)
		MUST(got == JSON_FAIL);
	else
		MUST(got == JSON_END && count == json_count(&tape, list));
}

static void try_format(struct sv input, enum json_format format,
		       const struct try *t)
{
	enum json_got got, got2;
	uint64_t count, count2;
	struct arena a;
	struct sv story;

	arena_init(&a, ARENA);
	story = read_items(&a, input, format, t, FUZZ_WHOLE, &got, &count);
	for (int how = FUZZ_WHOLE + 1; how < FUZZ_CUTS; how++)
		MUST(sv_eq(story,
			   read_items(&a, input, format, t, (enum fuzz_cut)how,
				      &got2, &count2)));
	if (format == JSON_ONE)
		check_one(&a, input, t, got, count);
	if (format == JSON_ENVELOPE)
		check_envelope(&a, input, t, got, count);
	arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const enum json_format FORMATS[] = {JSON_ENVELOPE, JSON_LINES,
						   JSON_ONE};

	for (size_t t = 0; t < ARRAY_LEN(TRIES); t++)
		for (size_t i = 0; i < ARRAY_LEN(FORMATS); i++)
			try_format(sv_from(data, n), FORMATS[i], &TRIES[t]);
	return 0;
}
