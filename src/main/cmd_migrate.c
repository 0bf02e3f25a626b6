/* waybill migrate */
/* SPDX-License-Identifier: Apache-2.0 */
#include "db/migrate.h"
#include "main/cli.h"

static void say(void *arg, const char *what)
{
	const struct cli *cli = arg;

	if (!cli->json)
		puts(what);
}

static bool migrate(struct cli *cli, struct fail *f)
{
	struct migrate_report report = {say, cli};
	unsigned held, wanted;

	if (!migrate_run(cli->db, &report, f) ||
	    !migrate_status(cli->db, &held, &wanted, f))
		return false;
	if (cli->json)
		cli_done(cli, "the schema is at version %u", held);
	return true;
}

const struct cli_command CMD_MIGRATE = {"migrate", "", "",   NULL,
					0,         0,  true, migrate};
