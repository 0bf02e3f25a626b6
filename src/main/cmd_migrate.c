/* waybill migrate */
/* SPDX-License-Identifier: Apache-2.0 */
#include "db/migrate.h"
#include "main/cli.h"
#include "main/partitions.h"

static void say(void *arg, const char *what)
{
	const struct cli *cli = arg;

	if (!cli->json)
		puts(what);
}

/* So that a fresh schema has them before its first row. */
static bool make_partitions(struct cli *cli, struct fail *f)
{
	struct partition_state s[PARTITION_TABLES];
	char date[CLOCK_TEXT], text[64];

	if (!partitions_ahead(cli->db, s, f))
		return false;
	if (!s[0].made)
		return true;
	partitions_date(s[0].next - 1, date);
	snprintf(text, sizeof(text), "partitions are made until %s", date);
	say(cli, text);
	return true;
}

static bool migrate(struct cli *cli, struct fail *f)
{
	struct migrate_report report = {say, cli};
	unsigned held, wanted;

	if (!migrate_run(cli->db, &report, f) || !make_partitions(cli, f) ||
	    !migrate_status(cli->db, &held, &wanted, f))
		return false;
	if (cli->json)
		cli_done(cli, "the schema is at version %u", held);
	return true;
}

const struct cli_command CMD_MIGRATE = {"migrate", "", "",   NULL,
					0,         0,  true, migrate};
