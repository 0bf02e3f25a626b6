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

#define VERSION_SCHEMA                                  \
	"oneOf: [{type: integer, minimum: 0, maximum: " \
	"9007199254740991}, {type: string, pattern: "   \
	"'^[0-9]+$'}]"

/* A YAML scalar in single quotes. */
static void print_quoted(const char *text)
{
	putchar('\'');
	for (; *text; text++) {
		if (*text == '\'')
			putchar('\'');
		putchar(*text);
	}
	putchar('\'');
}

/* "purchase-orders" -> "PurchaseOrders". */
static void print_title(const char *name)
{
	bool up = true;

	for (; *name; name++) {
		if (*name == '-') {
			up = true;
			continue;
		}
		putchar(up ? *name - 'a' + 'A' : *name);
		up = false;
	}
}

static void print_text(const struct field *f)
{
	printf("type: string");
	if (f->min_bytes)
		printf(", minLength: %" PRIu32, f->min_bytes);
	/* A character is a byte at least, so this is no tighter. */
	if (f->max_bytes)
		printf(", maxLength: %" PRIu32, f->max_bytes);
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
	printf("type: number");
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
		printf(VERSION_SCHEMA);
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
		printf("type: string, pattern: '^[A-Z]{2}$'");
		return;
	case FIELD_TIME:
		printf("type: string, format: date-time");
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
	print_quoted(f->doc);
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
	print_quoted(f->doc);
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

static void print_collection(enum collection c)
{
	const struct collection_info *info = collection_info(c);
	const struct field_set *set = field_set(c);

	printf("    Item");
	print_title(info->name);
	printf(":\n      type: object\n"
	       "      description: 'An item of %s/%s. Fields that are not "
	       "named here are kept as they are.'\n",
	       info->area, info->name);
	print_required(set, 6);
	for (size_t i = 0; i < set->count; i++)
		if (set->fields[i].kind == FIELD_OBJECTS)
			print_list(&set->fields[i], 8);
		else
			print_field(&set->fields[i], 8);
	for (size_t i = 0; i < set->count; i++)
		if (set->fields[i].by)
			print_cases(&set->fields[i]);
}

void docgen_openapi_schemas(void)
{
	for (int i = 0; i < COLLECTION_COUNT; i++)
		print_collection((enum collection)i);
}
