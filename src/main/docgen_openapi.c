/* docgen openapi-schemas: the schemas of items, from the table of fields.
 *
 * YAML of the section components/schemas, indented for its place in
 * docs/openapi.yaml. JSON Schema 2020-12, as OpenAPI 3.1 has it; what it
 * cannot say (bytes, references) stands in the descriptions and in x-
 * members.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/docgen.h"

#include <inttypes.h>

#include "item/field.h"
#include "item/incoming.h"

static void print_text(const struct field *f)
{
	printf("type: string");
	if (f->min_bytes)
		printf(", minLength: %" PRIu32, f->min_bytes);
	/* A character is a byte at least, so this is no tighter. */
	if (f->max_bytes)
		printf(", maxLength: %" PRIu32 ", x-max-bytes: %" PRIu32,
		       f->max_bytes, f->max_bytes);
}

static void print_words(const struct field *f)
{
	printf("type: string, enum: [");
	for (size_t i = 0; f->words[i]; i++)
		printf("%s%s", i ? ", " : "", f->words[i]);
	putchar(']');
}

static void print_number(const struct field *f)
{
	printf("type: number, x-max-characters: %d", FIELD_NUMBER_MAX);
	if (f->bound == FIELD_POSITIVE)
		printf(", exclusiveMinimum: 0");
	else if (f->bound == FIELD_NOT_NEGATIVE)
		printf(", minimum: 0");
}

static void print_id(const struct field *f)
{
	print_text(f);
	printf(", pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$'");
}

static void print_reference(const struct field *f)
{
	print_id(f);
	printf(", x-reference: {collection: %s", collection_info(f->to)->name);
	if (f->trait)
		printf(", kind: %s", f->trait);
	putchar('}');
}

static void print_counts(const struct field *f)
{
	if (f->min_count)
		printf(", minItems: %" PRIu32, f->min_count);
	if (f->max_count)
		printf(", maxItems: %" PRIu32, f->max_count);
}

/* All kinds but a list of objects. */
static void print_kind(const struct field *f)
{
	switch (f->kind) {
	case FIELD_SOURCE_ID:
		print_id(f);
		return;
	case FIELD_TEXT:
		print_text(f);
		return;
	case FIELD_VERSION:
		printf("$ref: '#/components/schemas/SentVersion'");
		return;
	case FIELD_BOOLEAN:
		printf("type: boolean");
		return;
	case FIELD_NUMBER:
		print_number(f);
		return;
	case FIELD_INTEGER:
		printf("type: integer, minimum: 0, maximum: %" PRIu64, f->max);
		return;
	case FIELD_WORD:
		print_words(f);
		return;
	case FIELD_COUNTRY:
		printf("$ref: '#/components/schemas/Country'");
		return;
	case FIELD_TIME:
		printf("$ref: '#/components/schemas/Time'");
		return;
	case FIELD_REFERENCE:
		print_reference(f);
		return;
	case FIELD_TEXTS:
		printf("type: array, items: {");
		print_text(f);
		putchar('}');
		print_counts(f);
		return;
	case FIELD_OBJECTS:
	case FIELD_KINDS:
		break;
	}
	bug("a field of kind %d", (int)f->kind);
}

static void print_required(const struct field_set *set, int indent)
{
	bool first = true;

	printf("%*srequired: [", indent, "");
	for (size_t i = 0; i < set->count; i++) {
		if (!set->fields[i].required)
			continue;
		printf("%s%.*s", first ? "" : ", ",
		       SV_ARG(set->fields[i].name));
		first = false;
	}
	printf("]\n%*sproperties:\n", indent, "");
}

static void print_field(const struct field *f, int indent)
{
	printf("%*s%.*s: {", indent, "", SV_ARG(f->name));
	print_kind(f);
	printf(", description: ");
	docgen_print_quoted(f->doc);
	printf("}\n");
}

static void print_list(const struct field *f, int indent)
{
	printf("%*s%.*s:\n", indent, "", SV_ARG(f->name));
	printf("%*stype: array\n", indent + 2, "");
	if (f->min_count)
		printf("%*sminItems: %" PRIu32 "\n", indent + 2, "",
		       f->min_count);
	if (f->max_count)
		printf("%*smaxItems: %" PRIu32 "\n", indent + 2, "",
		       f->max_count);
	printf("%*sdescription: ", indent + 2, "");
	docgen_print_quoted(f->doc);
	putchar('\n');
	printf("%*sitems:\n%*stype: object\n", indent + 2, "", indent + 4, "");
	print_required(f->members, indent + 4);
	for (size_t i = 0; i < f->members->count; i++)
		print_field(&f->members->fields[i], indent + 6);
}

static void print_cases(const struct field *f)
{
	printf("      allOf:\n");
	for (size_t i = 0; i < f->case_count; i++) {
		const struct field_case *k = &f->cases[i];

		printf("        - if: {properties: {%s: {const: %s}}, "
		       "required: [%s]}\n          then: ",
		       f->by, k->word, f->by);
		if (k->allowed)
			printf("{required: [%.*s]}\n", SV_ARG(f->name));
		else
			printf("{properties: {%.*s: false}}\n",
			       SV_ARG(f->name));
	}
}

static void print_item(enum collection c)
{
	const struct collection_info *info = collection_info(c);
	const struct example *e = docgen_example(c);
	const struct field_set *set = field_set(c);

	printf("    %s:\n      type: object\n"
	       "      description: 'An item of %s/%s. Fields that are not "
	       "named here are kept as they are.'\n",
	       e->one, info->area, info->name);
	print_required(set, 6);
	for (size_t i = 0; i < set->count; i++)
		if (set->fields[i].kind == FIELD_OBJECTS)
			print_list(&set->fields[i], 8);
		else
			print_field(&set->fields[i], 8);
	for (size_t i = 0; i < set->count; i++)
		if (set->fields[i].by)
			print_cases(&set->fields[i]);
	printf("      examples:\n");
	for (size_t i = 0; i < EXAMPLE_ITEMS_MAX && e->items[i]; i++)
		printf("        - %s\n", e->items[i]);
}

/* What is sent, what is read, and a page of it. */
static void print_around(enum collection c)
{
	const struct collection_info *info = collection_info(c);
	const char *one = docgen_example(c)->one;

	printf("    %sBatch:\n      type: object\n"
	       "      description: 'What is sent to %s/%s.'\n"
	       "      required: [items]\n"
	       "      additionalProperties: false\n"
	       "      properties:\n"
	       "        items: {type: array, items: "
	       "{$ref: '#/components/schemas/%s'}}\n",
	       one, info->area, info->name, one);
	printf("    Held%s:\n      description: 'An item of %s/%s as it is "
	       "held.'\n      allOf:\n"
	       "        - $ref: '#/components/schemas/HeldItem'\n"
	       "        - type: object\n          properties:\n"
	       "            internal_id: {type: string, pattern: "
	       "'^%s-[0-9a-f]{32}$'}\n"
	       "            payload: {$ref: '#/components/schemas/%s'}\n",
	       one, info->area, info->name, info->prefix, one);
	printf("    Held%sPage:\n      type: object\n"
	       "      description: 'A page of %s/%s.'\n"
	       "      required: [items, next]\n      properties:\n"
	       "        items: {type: array, items: "
	       "{$ref: '#/components/schemas/Held%s'}}\n"
	       "        next: {$ref: '#/components/schemas/Next'}\n",
	       one, info->area, info->name, one);
}

/* What no number with fewer digits is: one alternative for each digit, in
 * which the number is the first time below the largest one. */
static void print_version_pattern(void)
{
	char most[24];
	size_t n;

	snprintf(most, sizeof(most), "%" PRIu64, (uint64_t)ITEM_VERSION_MAX);
	n = strlen(most);
	printf("'^0*([0-9]{1,%zu}", n - 1);
	for (size_t i = 0; i < n; i++) {
		char first = i == 0 ? '1' : '0';
		char below = (char)(most[i] - (i + 1 < n));

		if (below < first)
			continue;
		printf("|%.*s[%c-%c]", (int)i, most, first, below);
		if (i + 1 < n)
			printf("[0-9]{%zu}", n - i - 1);
	}
	printf(")$'");
}

static void print_version(void)
{
	printf("    SentVersion:\n"
	       "      description: >\n"
	       "        Grows with every change of the item; the highest one "
	       "wins. A number written with digits only,\n"
	       "        or a string of digits up to %" PRIu64 ".\n"
	       "      oneOf:\n"
	       "        - {type: integer, minimum: 0, maximum: %" PRIu64 "}\n"
	       "        - type: string\n          pattern: ",
	       (uint64_t)ITEM_VERSION_MAX, (uint64_t)ITEM_VERSION_NUMBER_MAX);
	print_version_pattern();
	printf("\n      examples: [12, '9223372036854775807']\n");
}

static void print_countries(void)
{
	char code[3] = "";
	size_t count = 0;

	printf("    Country:\n      type: string\n"
	       "      description: 'A code that ISO 3166-1 assigns, or XK.'\n"
	       "      enum: [");
	for (code[0] = 'A'; code[0] <= 'Z'; code[0]++)
		for (code[1] = 'A'; code[1] <= 'Z'; code[1]++)
			if (field_is_country(sv_of(code)))
				printf("%s'%s'", count++ ? ", " : "", code);
	printf("]\n      examples: [DE]\n");
}

static void print_time(void)
{
	printf("    Time:\n      type: string\n      format: date-time\n"
	       "      maxLength: %d\n"
	       "      description: 'RFC 3339, with Z or an offset. The second "
	       "60 is right at 23:59 UTC only.'\n"
	       "      pattern: '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|"
	       "3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)"
	       "(\\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$'\n"
	       "      examples: ['2026-01-15T08:00:00Z']\n",
	       FIELD_TIME_MAX);
}

void docgen_openapi_schemas(void)
{
	print_version();
	print_countries();
	print_time();
	for (int i = 0; i < COLLECTION_COUNT; i++)
		print_item((enum collection)i);
	for (int i = 0; i < COLLECTION_COUNT; i++)
		print_around((enum collection)i);
}
