/* docgen openapi-paths: the routes of items, written out for each collection,
 * so that a client made from openapi.yaml knows the fields of every one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/docgen.h"

static const char *const REFUSED_READ[] = {
	"400", "401", "403", "404", "429", "500", "503", "default", NULL};
static const char *const REFUSED_SEND[] = {
	"400", "401", "403", "404", "408", "409",     "413",
	"415", "422", "429", "500", "503", "default", NULL};

static void print_parameters(const char *const *names)
{
	printf("      parameters:\n");
	for (; *names; names++)
		printf("        - $ref: '#/components/parameters/%s'\n",
		       *names);
}

static void print_answer(const char *status, const char *response,
			 const char *one)
{
	printf("        '%s': {$ref: '#/components/responses/%s%s'}\n", status,
	       response, one);
}

static void print_refusals(const char *const *statuses)
{
	for (; *statuses; statuses++)
		if (**statuses == 'd')
			printf("        default: {$ref: "
			       "'#/components/responses/Problem'}\n");
		else
			print_answer(*statuses, "Problem", *statuses);
}

static void print_head(const char *method, const char *verb, const char *name,
		       const char *tag)
{
	printf("    %s:\n      operationId: %s%s\n      tags: [%s]\n", method,
	       verb, name, tag);
}

static void print_body(enum collection c)
{
	const struct example *e = docgen_example(c);

	printf("      requestBody:\n        required: true\n"
	       "        content:\n          application/json:\n"
	       "            schema: {$ref: '#/components/schemas/%sBatch'}\n"
	       "            examples:\n              batch:\n"
	       "                summary: 'ACCEPTED, once what it refers to is "
	       "there'\n                value: ",
	       e->one);
	docgen_print_batch(c);
	printf("\n          application/x-ndjson:\n"
	       "            schema: {type: string, description: "
	       "'One item a line, each of the schema %s.'}\n"
	       "            examples:\n              batch:\n"
	       "                summary: The same items\n"
	       "                value: |\n",
	       e->one);
	for (size_t i = 0; i < EXAMPLE_ITEMS_MAX && e->items[i]; i++)
		printf("                  %s\n", e->items[i]);
}

static void print_send(enum collection c)
{
	static const char *const PARAMETERS[] = {
		"CorrelationId",   "IdempotencyKey", "Prefer", "Traceparent",
		"ContentEncoding", "Mode",           "DryRun", "Return",
		"Confirm",         "ConfirmEmpty",   NULL};
	const struct example *e = docgen_example(c);
	const char *tag = collection_info(c)->name;

	print_head("post", "send", e->many, tag);
	printf("      summary: 'Send items of %s'\n"
	       "      description: >\n"
	       "        Needs the scope `ingest`. See collections.md for the "
	       "fields and items.md for what becomes of an item.\n"
	       "        `bulk`, and whatever has more than 5,000 items or over "
	       "4 MiB unpacked, becomes a job: 202. Up to 1 GiB unpacked.\n",
	       tag);
	print_parameters(PARAMETERS);
	print_body(c);
	printf("      responses:\n");
	print_answer("200", "BatchDone", "");
	print_answer("202", "JobTaken", "");
	print_answer("207", "BatchPartly", "");
	print_refusals(REFUSED_SEND);
}

static void print_pages(enum collection c)
{
	static const char *const PARAMETERS[] = {"CorrelationIdOptional",
						 "Traceparent",
						 "After",
						 "Limit",
						 "State",
						 NULL};
	const struct example *e = docgen_example(c);
	const char *tag = collection_info(c)->name;

	print_head("get", "list", e->many, tag);
	printf("      summary: 'The items of %s, page by page'\n"
	       "      description: >\n"
	       "        Needs the scope `read`. In the byte order of "
	       "source_id. A page ends at `limit` items, at 4 MiB, or (with\n"
	       "        `state`) when 10,000 items were looked at: it may be "
	       "short, or empty, and the listing is over only when\n"
	       "        `next` is null.\n",
	       tag);
	print_parameters(PARAMETERS);
	printf("      responses:\n");
	printf("        '200': {$ref: '#/components/responses/Held%sPage'}\n",
	       e->one);
	print_refusals(REFUSED_READ);
}

static void print_show(enum collection c)
{
	static const char *const PARAMETERS[] = {
		"SourceId", "CorrelationIdOptional", "Traceparent",
		"History",  "HistoryAfter",          NULL};
	const struct example *e = docgen_example(c);

	print_head("get", "get", e->one, collection_info(c)->name);
	printf("      summary: 'One %s as it is held'\n"
	       "      description: >\n"
	       "        Needs the scope `read`. With `history=true` also every "
	       "version ever accepted, oldest first; the present one is\n"
	       "        the last. A tombstone is an entry of its own, with the "
	       "state INACTIVE. A history over 4 MiB or 1,000 entries comes\n"
	       "        in parts: `history_next` then goes into `after`, and "
	       "the present version ends the last part. What another\n"
	       "        partner has is 404 like what does not exist.\n",
	       e->noun);
	print_parameters(PARAMETERS);
	printf("      responses:\n");
	print_answer("200", "Held", e->one);
	print_refusals(REFUSED_READ);
}

void docgen_openapi_paths(void)
{
	for (int i = 0; i < COLLECTION_COUNT; i++) {
		enum collection c = (enum collection)i;
		const struct collection_info *info = collection_info(c);

		printf("  /wms-ingest/v1/%s/%s:\n", info->area, info->name);
		print_send(c);
		print_pages(c);
		printf("  /wms-ingest/v1/%s/%s/{source_id}:\n", info->area,
		       info->name);
		print_show(c);
	}
}
