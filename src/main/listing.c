/* Listings of the operator's commands: see main/listing.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/listing.h"

#include <inttypes.h>

#include "base/text.h"
#include "item/collection.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = 100000 };

const struct cli_option LISTING_OPTIONS[] = {{"--partner", CLI_VALUE},
					     {"--collection", CLI_VALUE},
					     {"--state", CLI_VALUE},
					     {"--limit", CLI_VALUE},
					     {NULL, CLI_FLAG}};

static struct db_val filter(const struct cli *cli, const char *option)
{
	return cli_given(cli, option) ? db_text(cli_value(cli, option))
				      : db_null();
}

static bool check_filters(const struct cli *cli, const struct listing *l,
			  uint64_t *limit_r, struct fail *f)
{
	enum collection c;

	*limit_r = LIMIT_DEFAULT;
	if (cli_given(cli, "--collection") &&
	    !collection_named(cli_value(cli, "--collection"), &c))
		return fail_set(f, FAIL_USAGE, "there is no collection %.*s",
				SV_ARG(cli_value(cli, "--collection")));
	if (cli_given(cli, "--state") &&
	    !l->is_state(cli_value(cli, "--state")))
		return fail_set(f, FAIL_USAGE, "--state is %s", l->states);
	if (cli_given(cli, "--limit") &&
	    !text_u64(cli_value(cli, "--limit"), 1, LIMIT_MAX, limit_r))
		return fail_set(f, FAIL_USAGE,
				"--limit is a number from 1 to %d", LIMIT_MAX);
	return true;
}

static bool check_partner(struct cli *cli, struct fail *f)
{
	struct db_table found;

	if (!cli_given(cli, "--partner"))
		return true;
	if (!db_query(cli->db, STMT_PARTNER_FIND,
		      DB_ARGS(filter(cli, "--partner")), &cli->arena, &found,
		      f))
		return false;
	if (!found.rows)
		return fail_set(f, FAIL_NOT_FOUND, "there is no partner %.*s",
				SV_ARG(cli_value(cli, "--partner")));
	return true;
}

bool listing_run(struct cli *cli, const struct listing *l, struct fail *f)
{
	struct db_val partner = filter(cli, "--partner");
	struct db_val collection = filter(cli, "--collection");
	struct db_val state = filter(cli, "--state");
	struct db_table found;
	uint64_t limit;

	if (!check_filters(cli, l, &limit, f) || !check_partner(cli, f) ||
	    !db_query(cli->db, l->stmt,
		      DB_ARGS(partner, partner, collection, collection, state,
			      state, db_uint(limit)),
		      &cli->arena, &found, f))
		return false;
	cli_table(cli, l->names, &found);
	return true;
}

void listing_show(const char *const *names, const struct db_table *t)
{
	size_t width = 0;

	for (size_t c = 0; c < t->cols; c++)
		width = strlen(names[c]) > width ? strlen(names[c]) : width;
	for (size_t c = 0; c < t->cols; c++) {
		const struct db_val *v = db_cell(t, 0, c);

		printf("%-*s  ", (int)width, names[c]);
		if (v->kind == DB_BYTES)
			fwrite(v->bytes.p, 1, v->bytes.n, stdout);
		else if (v->kind == DB_NULL)
			putchar('-');
		else
			printf("%" PRIu64, v->u);
		putchar('\n');
	}
}
