/* docgen openapi-responses: the problems by status, each with an example, and
 * what is read of each collection. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fail.h"
#include "main/docgen.h"

#define SKUS       "/wms-ingest/v1/master/skus"
#define QUARANTINE "/wms-ingest/v1/quarantine/qua-" HEX
#define HEX        "0195f3a2c1d47e0b9a64d2f18c5e7b30"

/* An example for each problem that a request can get. A row of fail.def that
 * is not here is one of commands, logs or jobs. */
static const struct problem {
	const char *slug, *retry, *path, *detail;
	const char *more; /* members, or NULL */
} PROBLEMS[] = {
	{"bad-request", "after-fix", SKUS,
	 "nginx could not read the request as HTTP.", NULL},
	{"bad-header", "after-fix", SKUS,
	 "the header x-correlation-id is there twice", NULL},
	{"bad-path", "after-fix", SKUS "/%ff", "the path is not UTF-8", NULL},
	{"bad-parameter", "after-fix", SKUS,
	 "mode must be upsert, bulk or full-refresh", NULL},
	{"body-not-allowed", "after-fix", QUARANTINE "/release",
	 "this route takes an empty body, or {}", NULL},
	{"body-cut", "same-key", SKUS, "100 of 4096 bytes came", NULL},
	{"bad-envelope", "after-fix", SKUS,
	 "the body must be an object whose one member is items, an array",
	 "\"pointer\":\"/item\""},
	{"correlation-id-missing", "after-fix", SKUS,
	 "send X-Correlation-Id: a fresh UUID or ULID for each request, the "
	 "same for its retries",
	 NULL},
	{"correlation-id-malformed", "after-fix", SKUS,
	 "X-Correlation-Id must be a UUID or a ULID", NULL},
	{"correlation-id-ambiguous", "after-fix", SKUS,
	 "X-Correlation-Id and Idempotency-Key differ", NULL},
	{"bad-json", "after-fix", SKUS,
	 "expected a value, found ] at byte 13 (line 1, column 14)",
	 "\"pointer\":\"/items/1\""},
	{"bad-utf8", "after-fix", SKUS,
	 "bytes that are not UTF-8 at byte 19 (line 1, column 20)",
	 "\"pointer\":\"/items/0/name\""},
	{"duplicate-name", "after-fix", SKUS,
	 "a name that the object already has at byte 22 (line 1, column 23)",
	 "\"pointer\":\"/items/0/name\""},
	{"too-deep", "after-fix", SKUS,
	 "more than 32 levels deep at byte 40 (line 1, column 41)",
	 "\"pointer\":\"/items/0/tree\""},
	{"too-many-names", "after-fix", SKUS,
	 "an object holds more than 256 names", "\"pointer\":\"/items/0\""},
	{"bad-gzip", "after-fix", SKUS, "the body is not gzip, or is damaged",
	 NULL},
	{"unauthenticated", "after-fix", "/wms-ingest/v1/capabilities",
	 "send Authorization: Bearer KEY with a valid key, or use a registered "
	 "client certificate",
	 NULL},
	{"forbidden", "after-fix", SKUS,
	 "the credential lacks the scope \\\"ingest\\\"", NULL},
	{"cross-warehouse-credential", "after-fix",
	 "/wms-ingest/v1/documents/purchase-orders",
	 "the item is of a warehouse that the credential is not for",
	 "\"pointer\":\"/items/0\""},
	{"not-found", "after-fix", SKUS "/SKU-404", "there is no such item",
	 NULL},
	{"method-not-allowed", "after-fix", SKUS,
	 "PUT is not a method of this path", NULL},
	{"request-timeout", "same-key", SKUS,
	 "The request did not arrive in time.", NULL},
	{"request-in-progress", "same-key", SKUS,
	 "another request with this key is being worked on", NULL},
	{"job-in-flight", "same-key", SKUS,
	 "a bulk or full-refresh job of this collection is unfinished", NULL},
	{"job-finished", "never", "/wms-ingest/v1/jobs/job-" HEX "/cancel",
	 "the job is COMPLETED already", NULL},
	{"still-quarantined", "after-fix", QUARANTINE "/release",
	 "uoms CS does not exist", NULL},
	{"quarantine-closed", "never", QUARANTINE "/release",
	 "the record is RELEASED", NULL},
	{"body-too-large", "after-fix", SKUS,
	 "more than 5000 items; that is the limit of a synchronous batch "
	 "(bulk_async_threshold)",
	 NULL},
	{"gzip-bomb", "after-fix", SKUS,
	 "the body unpacks to more than 100 times its size", NULL},
	{"uri-too-long", "after-fix", SKUS,
	 "The request line is over the limit of 8 KiB.", NULL},
	{"unsupported-media-type", "after-fix", SKUS,
	 "Content-Type must be application/json or application/x-ndjson", NULL},
	{"unsupported-encoding", "after-fix", SKUS,
	 "Content-Encoding must be gzip, or absent", NULL},
	{"refresh-empty", "after-fix", SKUS,
	 "the whole collection would become INACTIVE; send "
	 "confirm_empty=true if that is meant",
	 NULL},
	{"refresh-too-destructive", "after-fix", SKUS,
	 "110 of 120 active items would become INACTIVE; send confirm=true if "
	 "that is meant",
	 NULL},
	{"correlation-id-reused", "never", SKUS,
	 "this correlation id was first used at 2026-01-15T08:00:00.000Z for "
	 "POST /wms-ingest/v1/master/uoms; this request has another query or "
	 "body",
	 "\"first_method\":\"POST\",\"first_path\":\"/wms-ingest/v1/master/"
	 "uoms\",\"first_used_at\":"
	 "\"2026-01-15T08:00:00.000Z\""},
	{"quota-too-small", "after-fix", SKUS,
	 "500 items would count at once, which is more than the 100 of a "
	 "whole day",
	 NULL},
	{"rate-limited", "same-key", SKUS,
	 "the limit is 1 requests a second, 1 at once", NULL},
	{"partner-busy", "same-key", SKUS,
	 "2 requests of this partner have been running for long", NULL},
	{"too-many-connections", "same-key", SKUS,
	 "Too many connections from this address.", NULL},
	{"quota-exhausted", "same-key", SKUS,
	 "1 items would count, and 0 of 2 are left of this UTC day", NULL},
	{"headers-too-large", "after-fix", SKUS,
	 "A header is over the limit of 8 KiB, or all of them over 32 KiB.",
	 NULL},
	{"internal", "same-key", SKUS, "a fault of the service", NULL},
	{"database-refused", "same-key", SKUS,
	 "the database refused a statement", NULL},
	{"database-away", "same-key", SKUS, "the database cannot be reached",
	 NULL},
	{"database-busy", "same-key", SKUS,
	 "the request lost every race for its rows", NULL},
	{"commit-unknown", "same-key", SKUS,
	 "the connection broke during COMMIT", NULL},
	{"unavailable", "same-key", SKUS, "No worker took the request in time.",
	 NULL},
	{"answer-gone", "same-key", SKUS,
	 "the answer kept for this key is missing", NULL},
	{"not-ready", "same-key", "/readyz",
	 "the schema is at 3 and this version needs 4", NULL},
};

static const struct problem *find(const char *slug)
{
	for (size_t i = 0; i < ARRAY_LEN(PROBLEMS); i++)
		if (strcmp(PROBLEMS[i].slug, slug) == 0)
			return &PROBLEMS[i];
	return NULL;
}

/* How many examples there are of the status. */
static size_t print_examples(int status, bool print)
{
	size_t count = 0;

	for (int i = FAIL_NONE + 1; i < FAIL_COUNT; i++) {
		const struct fail_info *e = fail_info((enum fail_code)i);
		const struct problem *p = find(e->slug);

		if (e->status != status || !p)
			continue;
		count++;
		if (!print)
			continue;
		printf("            %s:\n              summary: ", e->slug);
		docgen_print_quoted(e->title);
		printf("\n              value: "
		       "{\"type\":\"/docs/errors.md#%s\","
		       "\"title\":\"%s\",\"status\":%d,\"detail\":\"%s\",",
		       e->slug, e->title, e->status, p->detail);
		printf("\"instance\":\"%s\",\"trace_id\":"
		       "\"4bf92f3577b34da6a3ce929d0e0e4736\",\"retry\":\"%s\"",
		       p->path, p->retry);
		printf("%s%s}\n", p->more ? "," : "", p->more ? p->more : "");
	}
	return count;
}

static void print_headers(const char *const *own)
{
	static const char *const ALWAYS[] = {"X-Request-Id",
					     "X-Correlation-Id",
					     "X-RateLimit-Limit",
					     "X-RateLimit-Remaining",
					     "X-RateLimit-Reset",
					     "RateLimit-Policy",
					     "RateLimit",
					     "X-Quota-Items-Limit",
					     "X-Quota-Items-Remaining",
					     "Cache-Control",
					     NULL};
	const char *const *lists[] = {ALWAYS, own};

	printf("      headers:\n");
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (const char *const *h = lists[i]; *h; h++)
			printf("        %s: {$ref: "
			       "'#/components/headers/%s'}\n",
			       *h, *h);
}

static void print_problem_headers(int status)
{
	static const char *const NONE[] = {NULL};
	static const char *const AUTH[] = {"WWW-Authenticate", NULL};
	static const char *const ALLOW[] = {"Allow", NULL};
	static const char *const RETRY[] = {"Retry-After", NULL};

	switch (status) {
	case 401:
		print_headers(AUTH);
		return;
	case 405:
		print_headers(ALLOW);
		return;
	case 409:
	case 429:
	case 503:
		print_headers(RETRY);
		return;
	default:
		print_headers(NONE);
	}
}

static void print_status(int status)
{
	if (!print_examples(status, false))
		return;
	printf("    Problem%d:\n      description: ", status);
	docgen_print_quoted("A problem of this status; see errors.md.");
	putchar('\n');
	print_problem_headers(status);
	printf("      content:\n        application/problem+json:\n"
	       "          schema: {$ref: '#/components/schemas/Problem'}\n"
	       "          examples:\n");
	print_examples(status, true);
}

static void print_held(enum collection c, const char *item)
{
	printf("{\"source_id\":\"%s\",\"source_version\":1,\"state\":"
	       "\"ACTIVE\",\"internal_id\":\"%s-" HEX "\",",
	       docgen_example(c)->source_id, collection_info(c)->prefix);
	printf("\"created_at\":\"2026-01-15T08:00:00.000Z\",\"updated_at\":"
	       "\"2026-01-15T08:00:00.000Z\",\"batch_id\":\"bat-" HEX
	       "\",\"payload\":%s}",
	       item);
}

static void print_read(enum collection c, bool page)
{
	static const char *const NONE[] = {NULL};
	const struct example *e = docgen_example(c);

	printf("    Held%s%s:\n      description: '%s'\n", e->one,
	       page ? "Page" : "",
	       page ? "Items as they are held now." : "The item.");
	print_headers(NONE);
	printf("      content:\n        application/json:\n"
	       "          schema: {$ref: '#/components/schemas/Held%s%s'}\n"
	       "          examples:\n            held:\n"
	       "              value: %s",
	       e->one, page ? "Page" : "", page ? "{\"items\":[" : "");
	print_held(c, e->items[0]);
	printf("%s\n", page ? "],\"next\":null}" : "");
}

void docgen_openapi_responses(void)
{
	for (int status = 400; status < 600; status++)
		print_status(status);
	for (int i = 0; i < COLLECTION_COUNT; i++) {
		print_read((enum collection)i, false);
		print_read((enum collection)i, true);
	}
}
