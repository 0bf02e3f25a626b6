/* docgen: the reference pages, made from the tables.
 *
 *	docgen configuration > docs/configuration.md
 *	docgen errors        > docs/errors.md
 *	docgen metrics       > docs/metrics.md
 *	docgen routes        "GET /healthz public" lines, for tests
 *	docgen collections       a part of docs/collections.md
 *	docgen openapi-paths, openapi-responses, openapi-schemas
 *			     parts of docs/openapi.yaml
 *
 * Not installed. `make docs` runs it, and a test compares.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/route.h"
#include "base/conf.h"
#include "base/fail.h"
#include "base/metric.h"
#include "item/validate.h"
#include "main/docgen.h"

static const char *kind_name(enum conf_kind kind)
{
	switch (kind) {
	case CONF_KIND_STR:
		return "text";
	case CONF_KIND_BOOL:
		return "true or false";
	case CONF_KIND_NUM:
		return "number";
	case CONF_KIND_BYTES:
		return "size";
	case CONF_KIND_MS:
		return "duration";
	case CONF_KIND_GROUP:
		break;
	}
	bug("a group has no kind name");
}

static void configuration_row(const struct conf_row *row)
{
	if (row->kind == CONF_KIND_GROUP) {
		printf("\n## %s\n\n| key | kind | default | range | meaning "
		       "|\n| --- | --- | --- | --- | --- |\n",
		       row->name);
		return;
	}
	printf("| `%s` | %s | %s%s%s | %s%s%s | %s |\n", row->name,
	       kind_name(row->kind), *row->def ? "`" : "",
	       *row->def ? row->def : "(empty)", *row->def ? "`" : "", row->min,
	       *row->min ? " to " : "", row->max, row->doc);
}

static void configuration(void)
{
	fputs("# Configuration\n\n"
	      "<!-- Made from include/base/conf.def by `make docs`. -->\n\n"
	      "One file, `waybill.conf`: a line is `key = value`; lines that "
	      "begin with `#`\nand empty lines are skipped; of two lines for "
	      "one key the last one counts. Programs take it as\n`--conf "
	      "FILE`, or from `$WAYBILL_CONF`. Each key can be overridden in "
	      "the environment:\n`item_max` by `WAYBILL_CONF_ITEM_MAX`. An "
	      "unknown key or a bad value stops the program\nwith the file "
	      "and line, or the name of the variable.\n\n"
	      "A *size* is a number of bytes, or one with `KiB`, `MiB` or "
	      "`GiB`. A *duration* has a\nunit: `ms`, `s`, `min`, `h` or "
	      "`d`. Secrets are never settings: they stand in files of\ntheir "
	      "own (mode 0600) that settings name.\n",
	      stdout);
	for (size_t i = 0; i < CONF_ROW_COUNT; i++)
		configuration_row(&CONF_ROWS[i]);
}

/* Not problems of a request: codes inside a result. */
static void item_faults(void)
{
	printf("\n# Faults of items\n\n"
	       "<!-- Made from include/item/reject.def. -->\n\n"
	       "An item that is REJECTED has `errors` in its result: every "
	       "fault with a `pointer` into\nthe item, one of these codes, "
	       "and a `detail` for people. At most %d are told of one "
	       "item.\n\n| code | what is wrong |\n| --- | --- |\n",
	       VALIDATE_FAULTS_MAX);
	for (int i = 0; i < REJECT_COUNT; i++)
		printf("| `%s` | %s |\n", reject_code_name((enum reject_code)i),
		       reject_code_doc((enum reject_code)i));
}

static void errors(void)
{
	fputs("# Errors\n\n"
	      "<!-- Made from include/base/fail.def by `make docs`. -->\n\n"
	      "Every error is a problem document (RFC 9457, "
	      "`application/problem+json`): `type` points\nat an anchor of "
	      "this page, `title` and `status` are the same for every "
	      "occurrence,\n`detail` tells about this one, `instance` is the "
	      "path, `trace_id` finds it in the log.\nWhere a place in the "
	      "body is at fault, `pointer` (a JSON Pointer) names it, and "
	      "`line`\ndoes for NDJSON. After any 500, 503 or a cut "
	      "connection the same request may be sent\nagain with the same "
	      "key.\n\n"
	      "The last column is the exit status of the `waybill` command "
	      "for the same failure.\n\n"
	      "| problem | status | title | exit |\n"
	      "| --- | --- | --- | --- |\n",
	      stdout);
	for (int i = FAIL_NONE + 1; i < FAIL_COUNT; i++) {
		const struct fail_info *e = fail_info((enum fail_code)i);

		printf("| [%s](#%s) | %d | %s | %d |\n", e->slug, e->slug,
		       e->status, e->title, e->exit_status);
	}
	for (int i = FAIL_NONE + 1; i < FAIL_COUNT; i++) {
		const struct fail_info *e = fail_info((enum fail_code)i);

		printf("\n## %s\n\n%d %s. %s\n", e->slug, e->status, e->title,
		       e->advice);
	}
	item_faults();
}

static void metrics(void)
{
	fputs("# Metrics\n\n"
	      "<!-- Made from include/base/metric.def by `make docs`. -->\n\n"
	      "`GET /metrics` on the admin listener, Prometheus text. The "
	      "counters are those of all\nprocesses of the host, kept in one "
	      "file (`metrics_file`), and survive restarts.\n\n"
	      "| name | kind | labels | meaning |\n"
	      "| --- | --- | --- | --- |\n",
	      stdout);
	for (int i = 0; i < METRIC_COUNT; i++) {
		struct metric_info m = metric_info((enum metric)i);

		printf("| `%s` | %s | %s | %s |\n", m.name, m.kind, m.labels,
		       m.help);
	}
	fputs("\nRead from the database at each scrape, and left out while it "
	      "is away:\n\n"
	      "| name | kind | labels | meaning |\n"
	      "| --- | --- | --- | --- |\n"
	      "| `waybill_jobs` | gauge | state | Unfinished jobs: QUEUED (the "
	      "queue's depth), RUNNING. |\n"
	      "| `waybill_jobs_leased` | gauge |  | Jobs that a worker has in "
	      "hand. |\n"
	      "| `waybill_job_oldest_seconds` | gauge |  | Age of the oldest "
	      "unfinished job. |\n",
	      stdout);
}

static void routes(void)
{
	static const enum http_method ALL[] = {HTTP_GET, HTTP_POST};

	for (size_t i = 0; i < ROUTE_COUNT; i++)
		for (size_t m = 0; m < ARRAY_LEN(ALL); m++)
			if (ROUTES[i].methods & ALL[m] &&
			    ROUTES[i].listener != ROUTE_INTERNAL)
				printf("%s %s %s\n", http_method_name(ALL[m]),
				       ROUTES[i].path,
				       ROUTES[i].listener & ROUTE_PUBLIC
					       ? "public"
					       : "admin");
}

static const struct page {
	const char *name;
	void (*print)(void);
} PAGES[] = {
	{"configuration", configuration},
	{"errors", errors},
	{"metrics", metrics},
	{"routes", routes},
	{"collections", docgen_collections},
	{"openapi-paths", docgen_openapi_paths},
	{"openapi-responses", docgen_openapi_responses},
	{"openapi-schemas", docgen_openapi_schemas},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < ARRAY_LEN(PAGES); i++)
		if (strcmp(argv[1], PAGES[i].name) == 0) {
			PAGES[i].print();
			return fflush(stdout) == 0 ? 0 : 1;
		}
	fputs("usage: docgen configuration|errors|metrics|routes|collections|"
	      "openapi-paths|openapi-responses|openapi-schemas\n",
	      stderr);
	return 2;
}
