/* The table of fields as JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "item/describe.h"

#include <inttypes.h>

#include "item/field.h"

/* Names and words of the tables hold nothing that JSON escapes. */
static void add_reference(struct buf *b, const struct field *f)
{
	buf_addf(b, ",\"reference\":\"%s\"", collection_info(f->to)->name);
	if (f->trait)
		buf_addf(b, ",\"reference_kind\":\"%s\"", f->trait);
	if (!f->by)
		return;
	buf_addf(b, ",\"depends_on\":\"%s\",\"cases\":[", f->by);
	for (size_t i = 0; i < f->case_count; i++) {
		const struct field_case *k = &f->cases[i];

		buf_addf(b, "%s{\"value\":\"%s\",\"required\":%s", i ? "," : "",
			 k->word, k->allowed ? "true" : "false");
		if (k->allowed)
			buf_addf(b, ",\"reference_kind\":\"%s\"}", k->trait);
		else
			buf_add_text(b, ",\"allowed\":false}");
	}
	buf_add_byte(b, ']');
}

static void add_bounds(struct buf *b, const struct field *f)
{
	if (f->min_bytes)
		buf_addf(b, ",\"min_bytes\":%" PRIu32, f->min_bytes);
	if (f->max_bytes)
		buf_addf(b, ",\"max_bytes\":%" PRIu32, f->max_bytes);
	if (f->min_count)
		buf_addf(b, ",\"min_count\":%" PRIu32, f->min_count);
	if (f->max_count)
		buf_addf(b, ",\"max_count\":%" PRIu32, f->max_count);
	if (f->kind == FIELD_NUMBER)
		buf_addf(b, ",\"max_characters\":%d", FIELD_NUMBER_MAX);
	if (f->kind == FIELD_INTEGER)
		buf_addf(b, ",\"minimum\":0,\"maximum\":%" PRIu64, f->max);
	if (f->bound == FIELD_POSITIVE)
		buf_add_text(b, ",\"exclusive_minimum\":0");
	if (f->bound == FIELD_NOT_NEGATIVE)
		buf_add_text(b, ",\"minimum\":0");
}

/* All of a field but the fields of a list's elements, and its end. */
static void add_field(struct buf *b, const struct field *f)
{
	buf_addf(b, "{\"name\":\"%.*s\",\"kind\":\"%s\",\"required\":%s",
		 SV_ARG(f->name), field_kind_name(f->kind),
		 f->required ? "true" : "false");
	add_bounds(b, f);
	if (f->kind == FIELD_REFERENCE)
		add_reference(b, f);
	if (f->use & FIELD_USE_HOME)
		buf_add_text(b, ",\"warehouse\":true");
	for (size_t i = 0; f->words && f->words[i]; i++)
		buf_addf(b, "%s\"%s\"%s", i ? "," : ",\"words\":[", f->words[i],
			 f->words[i + 1] ? "" : "]");
}

static void add_fields(struct buf *b, const struct field_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		const struct field *f = &set->fields[i];

		buf_add_text(b, i ? "," : "");
		add_field(b, f);
		for (size_t k = 0; f->members && k < f->members->count; k++) {
			buf_add_text(b, k ? "," : ",\"fields\":[");
			add_field(b, &f->members->fields[k]);
			buf_add_byte(b, '}');
		}
		buf_add_text(b, f->members ? "]}" : "}");
	}
}

void describe_collections(struct buf *b)
{
	buf_add_byte(b, '[');
	for (int i = 0; i < COLLECTION_COUNT; i++) {
		const struct collection_info *c =
			collection_info((enum collection)i);

		buf_addf(b,
			 "%s{\"area\":\"%s\",\"collection\":\"%s\","
			 "\"path\":\"/wms-ingest/v1/%s/%s\","
			 "\"internal_id_prefix\":\"%s-\",\"fields\":[",
			 i ? "," : "", c->area, c->name, c->area, c->name,
			 c->prefix);
		add_fields(b, field_set((enum collection)i));
		buf_add_text(b, "]}");
	}
	buf_add_byte(b, ']');
}
