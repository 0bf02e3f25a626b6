/* waybill doctor: look at everything that can be set up wrong, and say how
 * to mend it. A table of checks; each one sets a verdict. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "db/migrate.h"
#include "db/txn.h"
#include "gate/auth.h"
#include "main/cli.h"
#include "main/partitions.h"

struct patient {
	struct cli *cli;
	struct db *service; /* NULL: could not be reached */
	struct db *owner;
};

/* What a check found: true is well; else `f` says what, and how to mend it. */
typedef bool check(struct patient *p, struct fail *f);

static bool private_file(const char *path, struct fail *f)
{
	struct stat st;

	if (!*path)
		return true;
	if (stat(path, &st) != 0)
		return fail_errno(f, FAIL_CONF, "look at", path);
	if (st.st_mode & 077)
		return fail_set(f, FAIL_CONF,
				"%s can be read by others: chmod 600 it", path);
	return true;
}

static bool check_secrets(struct patient *p, struct fail *f)
{
	const struct conf *c = &p->cli->conf;

	return private_file(c->key_pepper_file, f) &&
	       private_file(c->db_password_file, f) &&
	       private_file(c->db_owner_password_file, f);
}

static bool check_pepper(struct patient *p, struct fail *f)
{
	struct auth *auth;

	if (!auth_new(&auth, &p->cli->conf, f))
		return false;
	auth_free(auth);
	return true;
}

static bool check_session(struct patient *p, enum db_role role,
			  struct db **db_r, struct fail *f)
{
	struct db *db;

	if (!db_new(&db, &p->cli->conf, role, f))
		return false;
	if (!db_ready(db, f)) {
		db_free(db);
		return false;
	}
	*db_r = db;
	return true;
}

/* Connecting checks durability and the session's settings too. */
static bool check_service(struct patient *p, struct fail *f)
{
	return check_session(p, DB_SERVICE, &p->service, f);
}

static bool check_owner(struct patient *p, struct fail *f)
{
	return check_session(p, DB_OWNER, &p->owner, f);
}

static bool check_schema(struct patient *p, struct fail *f)
{
	unsigned held, wanted;

	if (!p->service)
		return fail_set(f, FAIL_DB_AWAY, "not looked at");
	if (!migrate_status(p->service, &held, &wanted, f))
		return false;
	if (held < wanted)
		return fail_set(f, FAIL_NOT_READY,
				"the schema is at version %u, this program "
				"needs %u: run waybill migrate",
				held, wanted);
	if (held > wanted)
		return fail_set(f, FAIL_NOT_READY,
				"the schema is at version %u, this program "
				"knows only %u: install the newer program",
				held, wanted);
	return true;
}

static enum db_step try_ddl(struct db *db, const struct db_attempt *at,
			    void *arg, struct fail *f)
{
	bool *refused = arg;
	uint64_t n;

	(void)at;
	if (db_exec(db, STMT_DOCTOR_DDL, DB_NO_ARGS, &n, f))
		return DB_STEP_ROLLBACK;
	*refused = true;
	return DB_STEP_FAIL;
}

/* The statement alters nothing, but only somebody who may alter gets an
 * answer to it. */
static bool check_grants(struct patient *p, struct fail *f)
{
	bool refused = false;
	struct fail wanted = FAIL_INIT;

	if (!p->service)
		return fail_set(f, FAIL_DB_AWAY, "not looked at");
	if (!db_txn(p->service,
		    &(struct db_txn){.name = "doctor.grants",
				     .work = try_ddl,
				     .arg = &refused},
		    &wanted) &&
	    refused)
		return true;
	return fail_set(f, FAIL_CONF,
			"the service's account may change the schema: revoke "
			"its rights and run waybill migrate, which grants what "
			"it needs");
}

static bool check_clock(struct patient *p, struct fail *f)
{
	int64_t skew_ms;

	if (!p->service)
		return fail_set(f, FAIL_DB_AWAY, "not looked at");
	skew_ms = db_clock_skew_ms(p->service);
	if ((uint64_t)llabs(skew_ms) > p->cli->conf.clock_skew_max_ms)
		return fail_set(f, FAIL_NOT_READY,
				"the database's clock differs by %lld ms: run "
				"chrony or ntpd on both",
				(long long)skew_ms);
	return true;
}

/* retention run keeps them a week ahead; two days leave time to mend it. */
enum { DAYS_AHEAD_MIN = 2 };

static bool check_table(const struct partition_state *s, uint32_t today,
			struct fail *f)
{
	char date[CLOCK_TEXT];

	if (s->next == 0)
		return fail_set(f, FAIL_NOT_READY,
				"%s has no day partitions: run waybill "
				"retention run",
				s->table);
	partitions_date(s->next - 1, date);
	if (s->next <= today + DAYS_AHEAD_MIN)
		return fail_set(f, FAIL_NOT_READY,
				"the partitions of %s end with %s: run waybill "
				"retention run, and keep it running with "
				"--every 1h",
				s->table, date);
	if (s->stray)
		return fail_set(f, FAIL_NOT_READY,
				"the catch-all partition of %s holds rows of "
				"days after %s: is a clock wrong? They move "
				"when waybill retention run gets there",
				s->table, date);
	return true;
}

static bool check_partitions(struct patient *p, struct fail *f)
{
	struct partition_state s[PARTITION_TABLES];

	if (!p->owner)
		return fail_set(f, FAIL_DB_AWAY, "not looked at");
	if (!partition_look(p->owner, s, f))
		return false;
	for (size_t i = 0; i < PARTITION_TABLES; i++)
		if (!check_table(&s[i], clock_day(db_wall_ms(p->owner)), f))
			return false;
	return true;
}

static const struct check_row {
	const char *name;
	check *look;
} CHECKS[] = {
	{"secret files are private", check_secrets},
	{"pepper of the API keys", check_pepper},
	{"database as the service, durable", check_service},
	{"database as the owner", check_owner},
	{"schema is current", check_schema},
	{"service has no DDL", check_grants},
	{"clocks agree", check_clock},
	{"partitions are ahead", check_partitions},
};

enum { D_CHECK, D_RESULT, D_ADVICE, D_COLUMNS };

static bool doctor(struct cli *cli, struct fail *f)
{
	static const char *const NAMES[] = {"check", "result", "advice"};
	struct db_val cells[ARRAY_LEN(CHECKS) * D_COLUMNS];
	struct db_table t = {ARRAY_LEN(CHECKS), D_COLUMNS, cells};
	struct patient p = {.cli = cli};
	unsigned bad = 0;

	for (size_t i = 0; i < ARRAY_LEN(CHECKS); i++) {
		struct fail why = FAIL_INIT;
		bool ok = CHECKS[i].look(&p, &why);
		struct db_val *row = cells + i * D_COLUMNS;

		bad += !ok;
		row[D_CHECK] = db_text(sv_of(CHECKS[i].name));
		row[D_RESULT] = db_text(ok ? SV("ok") : SV("BAD"));
		row[D_ADVICE] = db_text(sv_of(
			ok ? ""
			   : arena_printf(&cli->arena, "%s%s%s", why.detail,
					  why.log[0] ? ": " : "", why.log)));
	}
	cli_table(cli, NAMES, &t);
	if (p.service)
		db_free(p.service);
	if (p.owner)
		db_free(p.owner);
	if (bad)
		return fail_set(f, FAIL_NOT_READY, "%u of %zu checks are bad",
				bad, ARRAY_LEN(CHECKS));
	return true;
}

const struct cli_command CMD_DOCTOR = {"doctor", "", "",    NULL,
				       0,        0,  false, doctor};
