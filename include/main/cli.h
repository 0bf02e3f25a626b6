/* The operator's command: a table of commands, one file a noun.
 *
 *	static const struct cli_option OPTIONS[] = {
 *		{"--rate", CLI_VALUE}, {"--strict", CLI_FLAG}, {NULL, 0}};
 *	const struct cli_command CMD_PARTNER[] = {
 *		{"partner", "add", "NAME", OPTIONS, 1, 1, true, add}, ...
 *
 * A command's function gets its arguments parsed and, where it asked for
 * one, the owner's database session. It prints with cli_table() or
 * cli_done(), which know about --json. false: f says why, main prints it and
 * exits with that failure's status.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_CLI_H
#define WAYBILL_CLI_H

#include "base/buf.h"
#include "base/conf.h"
#include "base/fail.h"
#include "db/stmt.h"

enum { CLI_OPTIONS_MAX = 16, CLI_WORDS_MAX = 64, CLI_COLUMNS_MAX = 12 };

enum cli_option_kind { CLI_FLAG, CLI_VALUE };

struct cli_option {
	const char *name;
	enum cli_option_kind kind;
};

struct cli {
	const char *conf_path;
	struct conf conf;
	struct arena arena;
	struct db *db; /* the owner's; NULL if the command asked for none */
	bool json;
	int exit_status; /* of a run that was no failure; 0 unless set */
	/* arguments */
	struct sv words[CLI_WORDS_MAX];
	size_t word_count;
	const struct cli_option *options;
	bool given[CLI_OPTIONS_MAX];
	struct sv values[CLI_OPTIONS_MAX];
};

struct cli_command {
	const char *noun, *verb; /* verb "": the noun stands alone */
	const char *arguments;   /* for usage: "NAME [--rate R]" */
	const struct cli_option *options;
	size_t words_min, words_max;
	bool needs_db;
	bool (*run)(struct cli *cli, struct fail *f);
};

/* Was the option given; its value is "" if not. */
bool cli_given(const struct cli *cli, const char *option);
struct sv cli_value(const struct cli *cli, const char *option);

/* Rows of a result under these names: aligned columns, or a JSON array of
 * objects. A name that ends in {} (it is shown without) is that of a column
 * which holds JSON itself. */
void cli_table(const struct cli *cli, const char *const *names,
	       const struct db_table *t);

/* "name":value, of such a name and a cell. */
void cli_json_member(struct buf *b, const char *name, const struct db_val *v);

/* One sentence for people; with --json {"done":"..."} */
void cli_done(const struct cli *cli, const char *fmt, ...) PRINTF_LIKE(2, 3);

extern const struct cli_command CMD_MIGRATE, CMD_DOCTOR;
extern const struct cli_command CMD_PARTNER_ADD, CMD_PARTNER_SET,
	CMD_PARTNER_LIST, CMD_PARTNER_DISABLE, CMD_PARTNER_ENABLE;
extern const struct cli_command CMD_KEY_CREATE, CMD_KEY_LIST, CMD_KEY_REVOKE;
extern const struct cli_command CMD_CERT_ADD, CMD_CERT_LIST, CMD_CERT_REVOKE;
extern const struct cli_command CMD_AUDIT_LIST;
extern const struct cli_command CMD_QUARANTINE_LIST, CMD_QUARANTINE_SHOW,
	CMD_QUARANTINE_RELEASE, CMD_QUARANTINE_DISCARD;
extern const struct cli_command CMD_JOB_LIST, CMD_JOB_SHOW, CMD_JOB_WATCH,
	CMD_JOB_CANCEL, CMD_JOB_REQUEUE;
extern const struct cli_command CMD_RETENTION_RUN;
extern const struct cli_command CMD_SEND;

#endif
