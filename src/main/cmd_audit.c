/* waybill audit list */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "main/cli.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = 100000 };

static const struct cli_option OPTIONS[] = {
	{"--partner", CLI_VALUE}, {"--limit", CLI_VALUE}, {NULL, CLI_FLAG}};

/* Columns of STMT_AUDIT_LIST. */
static const char *const NAMES[] = {"at",    "partner", "action",   "subject",
				    "actor", "account", "audit_id", "detail{}"};

static bool check_partner(struct cli *cli, struct sv name, struct fail *f)
{
	struct db_table found;

	if (!db_query(cli->db, STMT_PARTNER_FIND, DB_ARGS(db_text(name)),
		      &cli->arena, &found, f))
		return false;
	if (!found.rows)
		return fail_set(f, FAIL_NOT_FOUND, "there is no partner %.*s",
				SV_ARG(name));
	return true;
}

static bool list(struct cli *cli, struct fail *f)
{
	struct sv name = cli_value(cli, "--partner");
	bool all = !cli_given(cli, "--partner");
	struct db_val partner = all ? db_null() : db_text(name);
	uint64_t limit = LIMIT_DEFAULT;
	struct db_table found;

	if (cli_given(cli, "--limit") &&
	    !text_u64(cli_value(cli, "--limit"), 1, LIMIT_MAX, &limit))
		return fail_set(f, FAIL_USAGE,
				"--limit is a number from 1 to %d", LIMIT_MAX);
	if (!all && !check_partner(cli, name, f))
		return false;
	if (!db_query(cli->db, STMT_AUDIT_LIST,
		      DB_ARGS(partner, partner, db_uint(limit)), &cli->arena,
		      &found, f))
		return false;
	cli_table(cli, NAMES, &found);
	return true;
}

const struct cli_command CMD_AUDIT_LIST = {
	"audit", "list", "[--partner P] [--limit N]", OPTIONS, 0, 0,
	true,    list};
