/* docgen collections: the second part of docs/collections.md, a section a
 * collection. The first part, what holds for all of them, is written by
 * hand. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/docgen.h"

#include <inttypes.h>

static const char *type_of(const struct field *f)
{
	switch (f->kind) {
	case FIELD_SOURCE_ID:
	case FIELD_REFERENCE:
		return "id";
	case FIELD_VERSION:
		return "version";
	case FIELD_TEXT:
		return "text";
	case FIELD_BOOLEAN:
		return "boolean";
	case FIELD_NUMBER:
		return "number";
	case FIELD_INTEGER:
		return "integer";
	case FIELD_WORD:
		return "word";
	case FIELD_COUNTRY:
		return "country";
	case FIELD_TIME:
		return "time";
	case FIELD_TEXTS:
		return "list of texts";
	case FIELD_OBJECTS:
		return "list of objects";
	case FIELD_KINDS:
		break;
	}
	bug("a field of kind %d", (int)f->kind);
}

static void print_counts(const struct field *f)
{
	if (f->max_count)
		printf("%" PRIu32 " to %" PRIu32 " elements", f->min_count,
		       f->max_count);
	else if (f->min_count)
		printf("at least %" PRIu32 " element%s", f->min_count,
		       f->min_count == 1 ? "" : "s");
	else
		printf("any number of elements");
}

static void print_bytes(const struct field *f)
{
	if (f->max_bytes)
		printf("%" PRIu32 " to %" PRIu32 " bytes", f->min_bytes,
		       f->max_bytes);
	else if (f->min_bytes)
		printf("not empty");
}

static void print_words(const struct field *f)
{
	for (size_t i = 0; f->words[i]; i++)
		printf("%s`%s`", i ? ", " : "", f->words[i]);
}

static void print_number(const struct field *f)
{
	if (f->bound == FIELD_POSITIVE)
		printf("above 0; ");
	else if (f->bound == FIELD_NOT_NEGATIVE)
		printf("not below 0; ");
	printf("at most %d characters", FIELD_NUMBER_MAX);
}

static void print_limits(const struct field *f)
{
	switch (f->kind) {
	case FIELD_SOURCE_ID:
	case FIELD_REFERENCE:
	case FIELD_TEXT:
		print_bytes(f);
		return;
	case FIELD_NUMBER:
		print_number(f);
		return;
	case FIELD_INTEGER:
		printf("0 to %" PRIu64, f->max);
		return;
	case FIELD_WORD:
		print_words(f);
		return;
	case FIELD_TEXTS:
		print_counts(f);
		printf(", each ");
		print_bytes(f);
		return;
	case FIELD_OBJECTS:
		print_counts(f);
		return;
	case FIELD_VERSION:
	case FIELD_BOOLEAN:
	case FIELD_COUNTRY:
	case FIELD_TIME:
	case FIELD_KINDS:
		return;
	}
}

static void print_reference(const struct field *f)
{
	const char *name;

	if (f->kind != FIELD_REFERENCE)
		return;
	name = collection_info(f->to)->name;
	printf("[%s](#%s)", name, name);
	if (f->trait)
		printf(" (a %s)", f->trait);
}

/* "yes", "no", or what another field says: "if `kind` is ZONE or BIN". */
static void print_need(const struct field *f)
{
	size_t said = 0;

	if (!f->by) {
		printf("%s", f->required ? "yes" : "no");
		return;
	}
	printf("if `%s` is ", f->by);
	for (size_t i = 0; i < f->case_count; i++)
		if (f->cases[i].allowed)
			printf("%s%s", said++ ? " or " : "", f->cases[i].word);
}

static void print_row(const struct field *f, const struct field *list)
{
	printf("| `");
	if (list)
		printf("%.*s[].", SV_ARG(list->name));
	printf("%.*s` | %s | ", SV_ARG(f->name), type_of(f));
	print_need(f);
	printf(" | ");
	print_limits(f);
	printf(" | ");
	print_reference(f);
	printf(" | %s |\n", f->doc);
}

static void print_fields(const struct field_set *set)
{
	printf("| field | type | required | limits | refers to | meaning |\n"
	       "| --- | --- | --- | --- | --- | --- |\n");
	for (size_t i = 0; i < set->count; i++) {
		const struct field *f = &set->fields[i];

		print_row(f, NULL);
		for (size_t k = 0; f->members && k < f->members->count; k++)
			print_row(&f->members->fields[k], f);
	}
}

/* Members that say nothing here are left to `…`. */
static void print_answer(enum collection c)
{
	const struct example *e = docgen_example(c);
	const char *prefix = collection_info(c)->prefix;
	size_t count = 0;

	printf("    {\"batch_id\":\"bat-…\",\"results\":[");
	for (; count < EXAMPLE_ITEMS_MAX && e->items[count]; count++) {
		/* Each item begins {"source_id":"…","source_version":1, */
		const char *end = strstr(e->items[count], "1,") + 1;

		printf("%s{\"index\":%zu,%.*s,\"status\":\"ACCEPTED\",\n"
		       "     \"internal_id\":\"%s-…\",\"change\":\"created\"}",
		       count ? ",\n     " : "", count,
		       (int)(end - e->items[count] - 1), e->items[count] + 1,
		       prefix);
	}
	printf("],\n     \"summary\":{\"total\":%zu,\"accepted\":%zu,…}}\n",
	       count, count);
}

static void print_send(enum collection c)
{
	const struct collection_info *info = collection_info(c);

	printf("\n    curl -s --cacert \"$WAYBILL_CA\" "
	       "-H \"Authorization: Bearer $WAYBILL_KEY\" \\\n"
	       "         -H 'Content-Type: application/json' "
	       "-H \"X-Correlation-Id: $(cat /proc/sys/kernel/random/uuid)\" "
	       "\\\n"
	       "         \"$WAYBILL_URL/wms-ingest/v1/%s/%s\" \\\n"
	       "         -d '",
	       info->area, info->name);
	docgen_print_batch(c);
	printf("'\n\n");
	print_answer(c);
}

static bool is_list(const struct field *f)
{
	return f->kind == FIELD_TEXTS || f->kind == FIELD_OBJECTS;
}

/* A row of CSV holds no list (src/main/feed.c). */
static void print_csv(const struct field_set *set)
{
	const struct field *list = NULL;

	for (size_t i = 0; i < set->count; i++)
		if (is_list(&set->fields[i]) && (!list || !list->required))
			list = &set->fields[i];
	if (list && list->required) {
		printf("\nNot as CSV: `%.*s` is a list, which a row cannot "
		       "hold. Send JSON or NDJSON.\n",
		       SV_ARG(list->name));
		return;
	}
	printf("\nHeader row of a CSV file for `waybill send`%s%.*s%s:\n\n    ",
	       list ? " (a row cannot hold the list `" : "",
	       list ? (int)list->name.n : 0, list ? list->name.p : "",
	       list ? "`)" : "");
	for (size_t i = 0; i < set->count; i++)
		if (!is_list(&set->fields[i]))
			printf("%s%.*s", i ? "," : "",
			       SV_ARG(set->fields[i].name));
	printf("\n");
}

static void print_collection(enum collection c)
{
	const struct collection_info *info = collection_info(c);
	const struct example *e = docgen_example(c);

	printf("%s## %s\n\n`/wms-ingest/v1/%s/%s`; internal ids begin with "
	       "`%s-`.\n\n",
	       c == 0 ? "" : "\n", info->name, info->area, info->name,
	       info->prefix);
	print_fields(field_set(c));
	printf("\nAn item, and how it is sent:\n\n```json\n%s\n```\n",
	       e->items[0]);
	print_send(c);
	print_csv(field_set(c));
}

void docgen_collections(void)
{
	for (int i = 0; i < COLLECTION_COUNT; i++)
		print_collection((enum collection)i);
}
