/* waybill doctor: look at everything that can be set up wrong, and say how
 * to mend it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/doctor.h"

/* In this order: what the later ones need comes first. */
static const struct check_row {
	const char *name;
	doctor_check *look;
} CHECKS[] = {
	{"settings file cannot be changed by others", doctor_conf},
	{"secret files are private", doctor_secrets},
	{"pepper of the API keys", doctor_pepper},
	{"shared memory files", doctor_shared},
	{"parents share their files", doctor_parents},
	{"file descriptors", doctor_descriptors},
	{"libraries are those it was built with", doctor_libraries},
	{"FastCGI socket", doctor_socket},
	{"TLS certificate", doctor_tls},
	{"database as the service, durable", doctor_service},
	{"database as the owner", doctor_owner},
	{"schema is current", doctor_schema},
	{"log is flushed at every commit", doctor_flush},
	{"binary log is flushed at every commit", doctor_binlog},
	{"pages are written twice", doctor_doublewrite},
	{"packets are large enough", doctor_packet},
	{"connections are enough", doctor_connections},
	{"database takes writes", doctor_writable},
	{"service has no DDL", doctor_no_ddl},
	{"service may do what is listed", doctor_service_rights},
	{"read-only account may do what is listed", doctor_ro_rights},
	{"service has no rights elsewhere", doctor_foreign_rights},
	{"clocks agree", doctor_clock},
	{"partitions are ahead", doctor_partitions},
	{"retention has run lately", doctor_retention},
	{"jobs get on", doctor_jobs},
};

static const struct cli_option OPTIONS[] = {{"--url", CLI_VALUE},
					    {"--ca", CLI_VALUE},
					    {"--socket", CLI_VALUE},
					    {NULL, CLI_FLAG}};

static const char *const WORDS[] = {
	[DOCTOR_OK] = "ok",
	[DOCTOR_BAD] = "BAD",
	[DOCTOR_UNASKED] = "-",
};

enum { D_CHECK, D_RESULT, D_FOUND, D_ADVICE, D_COLUMNS };

static enum doctor_verdict run_check(struct patient *p,
				     const struct check_row *check,
				     struct db_val row[D_COLUMNS])
{
	struct arena *a = &p->cli->arena;
	struct fail why = FAIL_INIT;
	enum doctor_verdict verdict;
	const char *advice = "";

	p->found[0] = '\0';
	verdict = check->look(p, &why);
	if (verdict == DOCTOR_BAD)
		advice = arena_printf(a, "%s%s%s", why.detail,
				      why.log[0] ? ": " : "", why.log);
	row[D_CHECK] = db_text(sv_of(check->name));
	row[D_RESULT] = db_text(sv_of(WORDS[verdict]));
	row[D_FOUND] = db_text(arena_sv(a, sv_of(p->found)));
	row[D_ADVICE] = db_text(sv_of(advice));
	return verdict;
}

static bool doctor(struct cli *cli, struct fail *f)
{
	static const char *const NAMES[] = {"check", "result", "found",
					    "advice"};
	struct db_val cells[ARRAY_LEN(CHECKS) * D_COLUMNS];
	struct db_table t = {ARRAY_LEN(CHECKS), D_COLUMNS, cells};
	struct patient p = {.cli = cli};
	unsigned bad = 0;

	(void)f;
	for (size_t i = 0; i < ARRAY_LEN(CHECKS); i++)
		bad += run_check(&p, &CHECKS[i], cells + i * D_COLUMNS) ==
		       DOCTOR_BAD;
	cli_table(cli, NAMES, &t);
	db_free(p.service);
	db_free(p.owner);
	if (!bad)
		return true;
	if (!cli->json)
		fprintf(stderr, "waybill: %u of %zu checks are bad\n", bad,
			ARRAY_LEN(CHECKS));
	cli->exit_status = 1;
	return true;
}

const struct cli_command CMD_DOCTOR = {
	"doctor", "",    "[--url URL [--ca FILE]] [--socket PATH]",
	OPTIONS,  0,     0,
	false,    doctor};
