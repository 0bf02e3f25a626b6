/* item/decode, item/validate: arbitrary bodies as items of every collection.
 *
 * A REJECTED item has reasons that are JSON; any other has a name and a
 * payload, which validated again, or as a line of a job's chunk, gives the
 * same item. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "base/buf.h"
#include "base/text.h"
#include "item/decode.h"
#include "item/validate.h"
#include "item/value.h"

enum { ARENA = 64 * 1024, ITEMS_MAX = 20, ITEM_BYTES = 512 };

static struct arena arena;
static struct conf conf;

static const struct json_limits LIMITS = {.depth_max = 32, .names_max = 256};

/* A few small limits, so that an input of a few bytes passes them. */
static void load_conf(void)
{
	static struct arena forever;
	struct fail f = FAIL_INIT;

	if (conf.item_max_bytes)
		return;
	arena_init(&forever, ARENA);
	MUST(conf_load(&conf, &forever, NULL, &f));
	conf.bulk_async_threshold = ITEMS_MAX;
	conf.item_max_bytes = ITEM_BYTES;
}

static bool has_text(const struct json_tape *t, uint32_t object,
		     const char *name, struct sv *text_r)
{
	uint32_t v = json_find(t, object, sv_of(name));

	if (!v || json_kind(t, v) != JSON_STRING)
		return false;
	*text_r = json_text(&arena, t, v);
	return true;
}

static void check_errors(const struct incoming *in)
{
	struct fail f = FAIL_INIT;
	struct json_tape t;
	struct sv pointer, code, detail;
	uint32_t n;

	MUST(json_read(&arena, in->errors, &LIMITS, &t, &f));
	MUST(json_kind(&t, 0) == JSON_ARRAY);
	n = json_count(&t, 0);
	MUST(n > 0 && n <= VALIDATE_FAULTS_MAX + 1);
	for (uint32_t i = json_first(&t, 0); i; i = json_after(&t, 0, i)) {
		MUST(has_text(&t, i, "pointer", &pointer));
		MUST(has_text(&t, i, "code", &code) && code.n);
		MUST(has_text(&t, i, "detail", &detail) && detail.n);
		MUST(!pointer.n || pointer.p[0] == '/');
	}
}

static void check_source_id(struct sv id)
{
	MUST(id.n > 0 && id.n <= ITEM_SOURCE_ID_MAX);
	MUST(text_is_utf8(id) && !value_has_control(id));
}

static void check_refs(const struct incoming *in)
{
	for (size_t i = 0; i < in->ref_count; i++) {
		check_source_id(in->refs[i].source_id);
		MUST(in->refs[i].collection < COLLECTION_COUNT);
		for (size_t j = 0; j < i; j++)
			MUST(in->refs[i].collection != in->refs[j].collection ||
			     !sv_eq(in->refs[i].source_id,
				    in->refs[j].source_id));
	}
}

static bool same(const struct incoming *a, const struct incoming *b)
{
	return a->rejected == b->rejected && sv_eq(a->errors, b->errors) &&
	       a->has_source_id == b->has_source_id &&
	       (!a->has_source_id || sv_eq(a->source_id, b->source_id)) &&
	       a->has_version == b->has_version &&
	       (!a->has_version || a->version == b->version) &&
	       sv_eq(a->payload, b->payload) && sv_eq(a->trait, b->trait) &&
	       memcmp(a->hash, b->hash, sizeof(a->hash)) == 0 &&
	       a->ref_count == b->ref_count && sv_eq(a->sku, b->sku) &&
	       sv_eq(a->lot, b->lot) &&
	       a->same_warehouse == b->same_warehouse &&
	       a->component_count == b->component_count;
}

/* The payload is a compact object and gives the same item again. */
static void check_payload(enum collection c, const struct incoming *in)
{
	struct incoming again = {.index = in->index, .line = in->line};
	struct fail f = FAIL_INIT;
	struct json_tape t;

	MUST(json_read(&arena, in->payload, &LIMITS, &t, &f));
	MUST(json_kind(&t, 0) == JSON_OBJECT && !t.spaced);
	MUST(in->payload.n <= ITEM_BYTES);
	validate_item(&arena, c, &t, &again);
	MUST(same(in, &again));
}

static void check_item(enum collection c, const struct incoming *in)
{
	if (in->has_source_id)
		check_source_id(in->source_id);
	if (in->has_version)
		MUST(in->version <= ITEM_VERSION_MAX);
	if (in->rejected) {
		check_errors(in);
		MUST(in->payload.n == 0 && in->ref_count == 0);
		return;
	}
	MUST(in->has_source_id);
	check_refs(in);
	check_payload(c, in);
}

/* As the chunk of a job has them: what was REJECTED is left out here. */
static void try_chunk(enum collection c, const struct decoded *d)
{
	struct decode_lines l = {.first_index = 0};
	struct fail f = FAIL_INIT;
	struct decoded again;
	struct buf b;
	size_t n = 0;

	buf_init(&b, 1 << 20);
	for (size_t i = 0; i < d->count; i++) {
		if (d->items[i].rejected)
			continue;
		buf_add(&b, d->items[i].payload);
		buf_add_byte(&b, '\n');
		l.count++;
	}
	l.text = buf_sv(&b);
	MUST(decode_lines(&arena, &conf, c, &l, &again, &f));
	for (size_t i = 0; i < d->count; i++)
		if (!d->items[i].rejected)
			MUST(same(&d->items[i], &again.items[n++]));
	buf_release(&b);
}

static void try_body(enum collection c, struct sv body, bool ndjson)
{
	struct decoded d = {.count = 0};
	struct fail f = FAIL_INIT;

	if (!decode_body(&arena, &conf, c, body, ndjson, &d, &f)) {
		MUST(f.code != FAIL_NONE);
		MUST(d.too_many == (f.code == FAIL_BODY_TOO_LARGE));
		MUST(d.too_many || f.has_pointer);
		return;
	}
	MUST(d.count <= ITEMS_MAX);
	for (size_t i = 0; i < d.count; i++) {
		MUST(d.items[i].index == i);
		MUST((d.items[i].line > 0) == ndjson);
		check_item(c, &d.items[i]);
	}
	try_chunk(c, &d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct sv body = sv_from(data, n);

	load_conf();
	for (int c = 0; c < COLLECTION_COUNT; c++) {
		arena_init(&arena, ARENA);
		try_body((enum collection)c, body, true);
		try_body((enum collection)c, body, false);
		arena_release(&arena);
	}
	return 0;
}
