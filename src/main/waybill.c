/* waybill: the operator's command. Finds the row of the table, parses what
 * stands behind it, runs it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/log.h"
#include "main/cli.h"
#include "main/program.h"

static const struct cli_command *const COMMANDS[] = {
	&CMD_MIGRATE,
	&CMD_DOCTOR,
	&CMD_PARTNER_ADD,
	&CMD_PARTNER_SET,
	&CMD_PARTNER_LIST,
	&CMD_PARTNER_DISABLE,
	&CMD_PARTNER_ENABLE,
	&CMD_KEY_CREATE,
	&CMD_KEY_LIST,
	&CMD_KEY_REVOKE,
	&CMD_CERT_ADD,
	&CMD_CERT_LIST,
	&CMD_CERT_REVOKE,
	&CMD_AUDIT_LIST,
	&CMD_QUARANTINE_LIST,
	&CMD_QUARANTINE_SHOW,
	&CMD_QUARANTINE_RELEASE,
	&CMD_QUARANTINE_DISCARD,
	&CMD_JOB_LIST,
	&CMD_JOB_SHOW,
	&CMD_JOB_WATCH,
	&CMD_JOB_CANCEL,
	&CMD_JOB_REQUEUE,
	&CMD_RETENTION_RUN,
	&CMD_SEND,
};

static void usage(FILE *out)
{
	fputs("usage: waybill [--conf FILE] [--json] COMMAND\n\n", out);
	for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++)
		fprintf(out, "  waybill %s%s%s%s%s\n", COMMANDS[i]->noun,
			*COMMANDS[i]->verb ? " " : "", COMMANDS[i]->verb,
			*COMMANDS[i]->arguments ? " " : "",
			COMMANDS[i]->arguments);
	fputs("\n--conf defaults to $WAYBILL_CONF. See waybill(1).\n", out);
}

static const struct cli_command *command_find(const char *noun,
					      const char *verb)
{
	for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++)
		if (strcmp(COMMANDS[i]->noun, noun) == 0 &&
		    (!*COMMANDS[i]->verb ||
		     (verb && strcmp(COMMANDS[i]->verb, verb) == 0)))
			return COMMANDS[i];
	return NULL;
}

static bool parse_option(struct cli *cli, const struct cli_command *cmd,
			 char ***argv, struct fail *f)
{
	const char *word = **argv;
	struct sv value = sv_of(word), name = sv_cut(&value, '=');
	bool inline_value = name.n < strlen(word);

	for (size_t i = 0; cmd->options && cmd->options[i].name; i++) {
		if (!sv_eq(sv_of(cmd->options[i].name), name))
			continue;
		if (cmd->options[i].kind == CLI_FLAG && inline_value)
			return fail_set(f, FAIL_USAGE, "%.*s takes no value",
					SV_ARG(name));
		cli->given[i] = true;
		if (cmd->options[i].kind == CLI_FLAG)
			return true;
		if (!inline_value && !(*argv)[1])
			return fail_set(f, FAIL_USAGE, "%.*s needs a value",
					SV_ARG(name));
		cli->values[i] = inline_value ? value : sv_of(*++*argv);
		return true;
	}
	return fail_set(f, FAIL_USAGE, "unknown option %s", word);
}

static bool parse_words(struct cli *cli, const struct cli_command *cmd,
			char **argv, struct fail *f)
{
	cli->options = cmd->options;
	for (; *argv; argv++) {
		if (strcmp(*argv, "--json") == 0) {
			cli->json = true;
		} else if (strncmp(*argv, "--", 2) == 0) {
			if (!parse_option(cli, cmd, &argv, f))
				return false;
		} else if (cli->word_count == cmd->words_max) {
			return fail_set(f, FAIL_USAGE, "unexpected \"%s\"",
					*argv);
		} else {
			cli->words[cli->word_count++] = sv_of(*argv);
		}
	}
	if (cli->word_count < cmd->words_min)
		return fail_set(f, FAIL_USAGE, "usage: waybill %s %s %s",
				cmd->noun, cmd->verb, cmd->arguments);
	return true;
}

/* What stands before the command; *argv then points at the noun. */
static bool parse_front(struct cli *cli, char ***argv, struct fail *f)
{
	cli->conf_path = getenv("WAYBILL_CONF");
	for (++*argv; **argv && (**argv)[0] == '-'; ++*argv) {
		const char *word = **argv;

		if (strcmp(word, "--json") == 0) {
			cli->json = true;
		} else if (strncmp(word, "--conf=", 7) == 0) {
			cli->conf_path = word + 7;
		} else if (strcmp(word, "--conf") == 0 && (*argv)[1]) {
			cli->conf_path = *++*argv;
		} else if (strcmp(word, "--help") == 0) {
			usage(stdout);
			exit(0);
		} else if (strcmp(word, "--version") == 0) {
			puts(PACKAGE_STRING);
			exit(0);
		} else {
			return fail_set(f, FAIL_USAGE, "unknown option %s",
					word);
		}
	}
	if (!**argv)
		return fail_set(f, FAIL_USAGE,
				"which command? waybill --help "
				"lists them");
	return true;
}

static bool run(struct cli *cli, const struct cli_command *cmd, struct fail *f)
{
	bool ok;

	if (!conf_load(&cli->conf, &cli->arena, cli->conf_path, f))
		return false;
	program_keep_secrets(&cli->conf);
	if (!log_init("waybill", cli->conf.log_level, f))
		return false;
	if (cmd->needs_db && !db_new(&cli->db, &cli->conf, DB_OWNER, f))
		return false;
	ok = cmd->run(cli, f);
	if (cli->db)
		db_free(cli->db);
	return ok;
}

static bool run_words(struct cli *cli, char **argv, struct fail *f)
{
	const struct cli_command *cmd;

	if (!parse_front(cli, &argv, f))
		return false;
	cmd = command_find(argv[0], argv[1]);
	if (!cmd)
		return fail_set(f, FAIL_USAGE,
				"unknown command \"%s%s%s\"; waybill --help "
				"lists them",
				argv[0], argv[1] ? " " : "",
				argv[1] ? argv[1] : "");
	argv += *cmd->verb ? 2 : 1;
	return parse_words(cli, cmd, argv, f) && run(cli, cmd, f);
}

static void print_fail(const struct cli *cli, const struct fail *f)
{
	struct buf b;

	if (!cli->json) {
		fprintf(stderr, "waybill: %s%s%s\n", f->detail,
			f->log[0] ? ": " : "", f->log);
		return;
	}
	buf_init(&b, 8192);
	buf_addf(&b, "{\"error\":\"%s\",\"detail\":", fail_info(f->code)->slug);
	buf_add_json(&b, sv_of(f->detail));
	buf_add_text(&b, ",\"cause\":");
	buf_add_json(&b, sv_of(f->log));
	buf_add_text(&b, "}");
	fprintf(stderr, "%s\n", buf_cstr(&b));
	buf_release(&b);
}

int main(int argc, char **argv)
{
	struct fail f = FAIL_INIT;
	struct cli cli = {0};
	bool ok;

	(void)argc;
	arena_init(&cli.arena, 16384);
	ok = run_words(&cli, argv, &f);
	if (!ok)
		print_fail(&cli, &f);
	arena_release(&cli.arena);
	if (fflush(stdout) != 0 && ok)
		return 1;
	return ok ? cli.exit_status : fail_info(f.code)->exit_status;
}
