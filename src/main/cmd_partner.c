/* waybill partner add|set|list|disable|enable */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "db/txn.h"
#include "job/queue.h"
#include "main/cli.h"
#include "main/trail.h"

static const struct cli_option OPTIONS[] = {
	{"--rate", CLI_VALUE},           {"--burst", CLI_VALUE},
	{"--quota", CLI_VALUE},          {"--strict", CLI_FLAG},
	{"--no-strict", CLI_FLAG},       {"--auto-release", CLI_FLAG},
	{"--no-auto-release", CLI_FLAG}, {"--mtls-only", CLI_FLAG},
	{"--no-mtls-only", CLI_FLAG},    {NULL, CLI_FLAG},
};

#define ARGUMENTS                                                     \
	"NAME [--rate R|none] [--burst B|none] [--quota ITEMS|none] " \
	"[--[no-]strict] [--[no-]auto-release] [--[no-]mtls-only]"

/* Columns of STMT_PARTNER_LIST and, but for the last, STMT_AUDIT_PARTNER. */
enum {
	P_ID,
	P_NAME,
	P_STATE,
	P_RATE,
	P_BURST,
	P_QUOTA,
	P_STRICT,
	P_AUTO_RELEASE,
	P_MTLS_ONLY,
	P_CREATED,
	P_COLUMNS
};

static const char *const NAMES[P_COLUMNS] = {
	"id",    "partner", "state",        "rate",      "burst",
	"quota", "strict",  "auto_release", "mtls_only", "created_at"};

/* What a partner is set to; `now` is what it was. */
struct settings {
	struct db_val rate, burst, quota, strict, auto_release, mtls_only;
};

struct change {
	struct cli *cli;
	struct settings settings;
	struct trail trail;
	enum stmt state; /* the statement that sets the state */
	bool done;
};

static bool check_name(struct sv name, struct fail *f)
{
	static const char OTHERS[] = "._-";
	bool ok = name.n >= 2 && name.n <= 64;

	for (size_t i = 0; ok && i < name.n; i++)
		ok = isalnum((unsigned char)name.p[i]) ||
		     (name.p[i] && strchr(OTHERS, name.p[i]));
	if (!ok)
		return fail_set(f, FAIL_USAGE,
				"a partner's name is 2 to 64 of "
				"A-Z a-z 0-9 . _ -");
	return true;
}

static bool number(const struct cli *cli, const char *option, uint64_t max,
		   struct db_val *v, struct fail *f)
{
	uint64_t n;

	if (!cli_given(cli, option))
		return true;
	if (sv_eq(cli_value(cli, option), SV("none"))) {
		*v = db_null();
		return true;
	}
	if (!text_u64(cli_value(cli, option), 1, max, &n))
		return fail_set(f, FAIL_USAGE,
				"%s must be from 1 to %llu, or none", option,
				(unsigned long long)max);
	*v = db_uint(n);
	return true;
}

static void flag(const struct cli *cli, const char *on, const char *off,
		 struct db_val *v)
{
	if (cli_given(cli, on))
		*v = db_uint(1);
	if (cli_given(cli, off))
		*v = db_uint(0);
}

/* Change what options name; leave the rest as it is. */
static bool read_settings(const struct cli *cli, struct settings *s,
			  struct fail *f)
{
	flag(cli, "--strict", "--no-strict", &s->strict);
	flag(cli, "--auto-release", "--no-auto-release", &s->auto_release);
	flag(cli, "--mtls-only", "--no-mtls-only", &s->mtls_only);
	return number(cli, "--rate", 1000000, &s->rate, f) &&
	       number(cli, "--burst", 1000000, &s->burst, f) &&
	       number(cli, "--quota", 1000000000000, &s->quota, f);
}

static enum db_step add_work(struct db *db, const struct db_attempt *at,
			     void *arg, struct fail *f)
{
	struct change *c = arg;
	const struct settings *s = &c->settings;
	struct db_table next;
	uint64_t n;

	if (!trail_look(&c->trail, db, f))
		return DB_STEP_FAIL;
	if (c->trail.before.rows) {
		/* After a COMMIT in doubt the row may well be ours. */
		c->done = at->maybe_committed;
		return DB_STEP_ROLLBACK;
	}
	if (!db_query(db, STMT_PARTNER_NEXT_ID, DB_NO_ARGS, &c->cli->arena,
		      &next, f))
		return DB_STEP_FAIL;
	if (!db_exec(db, STMT_PARTNER_ADD,
		     DB_ARGS(*db_cell(&next, 0, 0), db_text(c->cli->words[0]),
			     s->rate, s->burst, s->quota, s->strict,
			     s->auto_release, s->mtls_only),
		     &n, f))
		/* Two that add at once picked one number: one goes again. */
		return db_last_class(db) == DB_DUPLICATE ? DB_STEP_AGAIN
							 : DB_STEP_FAIL;
	c->done = true;
	return trail_step(&c->trail, db, f);
}

static bool add(struct cli *cli, struct fail *f)
{
	struct change c = {.cli = cli,
			   .settings = {db_null(), db_null(), db_null(),
					db_uint(0), db_uint(0), db_uint(0)}};

	trail_init(&c.trail, cli, &TRAIL_PARTNER, "partner.add", cli->words[0]);
	if (!check_name(cli->words[0], f) ||
	    !read_settings(cli, &c.settings, f) ||
	    !db_txn(cli->db,
		    &(struct db_txn){.name = "partner.add",
				     .work = add_work,
				     .arg = &c,
				     .rerun = true},
		    f))
		return false;
	if (!c.done)
		return fail_set(f, FAIL_CONFLICT,
				"partner %.*s is there already",
				SV_ARG(cli->words[0]));
	cli_done(cli, "partner %.*s added", SV_ARG(cli->words[0]));
	return true;
}

static enum db_step set_work(struct db *db, const struct db_attempt *at,
			     void *arg, struct fail *f)
{
	struct change *c = arg;
	const struct db_table *now = &c->trail.before;
	struct settings *s = &c->settings;
	uint64_t n;

	(void)at;
	if (!trail_look(&c->trail, db, f))
		return DB_STEP_FAIL;
	if (!now->rows)
		return DB_STEP_ROLLBACK;
	*s = (struct settings){
		*db_cell(now, 0, P_RATE),         *db_cell(now, 0, P_BURST),
		*db_cell(now, 0, P_QUOTA),        *db_cell(now, 0, P_STRICT),
		*db_cell(now, 0, P_AUTO_RELEASE), *db_cell(now, 0, P_MTLS_ONLY),
	};
	if (!read_settings(c->cli, s, f))
		return DB_STEP_FAIL;
	if (!db_exec(db, STMT_PARTNER_SET,
		     DB_ARGS(s->rate, s->burst, s->quota, s->strict,
			     s->auto_release, s->mtls_only,
			     db_text(c->cli->words[0])),
		     &n, f))
		return DB_STEP_FAIL;
	/* A job that waits for the quota looks again. */
	if (cli_given(c->cli, "--quota") &&
	    !queue_wake(db, (uint32_t)db_cell(now, 0, P_ID)->u, &c->cli->arena,
			f))
		return DB_STEP_FAIL;
	return trail_step(&c->trail, db, f);
}

static enum db_step state_work(struct db *db, const struct db_attempt *at,
			       void *arg, struct fail *f)
{
	struct change *c = arg;
	uint64_t n;

	(void)at;
	if (!trail_look(&c->trail, db, f))
		return DB_STEP_FAIL;
	if (!c->trail.before.rows)
		return DB_STEP_ROLLBACK;
	if (!db_exec(db, c->state, DB_ARGS(db_text(c->cli->words[0])), &n, f))
		return DB_STEP_FAIL;
	return trail_step(&c->trail, db, f);
}

/* set, disable and enable: the same once, twice and after a COMMIT in
 * doubt. */
static bool change_one(struct change *c, const char *action,
		       enum db_step (*work)(struct db *,
					    const struct db_attempt *, void *,
					    struct fail *),
		       const char *done, struct fail *f)
{
	struct cli *cli = c->cli;

	trail_init(&c->trail, cli, &TRAIL_PARTNER, action, cli->words[0]);
	if (!db_txn(cli->db,
		    &(struct db_txn){.name = action,
				     .work = work,
				     .arg = c,
				     .rerun = true},
		    f))
		return false;
	if (!c->trail.before.rows)
		return fail_set(f, FAIL_NOT_FOUND, "there is no partner %.*s",
				SV_ARG(cli->words[0]));
	cli_done(cli, "partner %.*s %s", SV_ARG(cli->words[0]), done);
	return true;
}

static bool set(struct cli *cli, struct fail *f)
{
	struct change c = {.cli = cli};
	struct settings unused = {0};

	/* Bad values are told before the database is asked. */
	return read_settings(cli, &unused, f) &&
	       change_one(&c, "partner.set", set_work, "set", f);
}

static bool disable(struct cli *cli, struct fail *f)
{
	struct change c = {.cli = cli, .state = STMT_PARTNER_DISABLE};

	return change_one(&c, "partner.disable", state_work, "disabled", f);
}

static bool enable(struct cli *cli, struct fail *f)
{
	struct change c = {.cli = cli, .state = STMT_PARTNER_ENABLE};

	return change_one(&c, "partner.enable", state_work, "enabled", f);
}

static bool list(struct cli *cli, struct fail *f)
{
	struct db_table found;

	if (!db_query(cli->db, STMT_PARTNER_LIST, DB_NO_ARGS, &cli->arena,
		      &found, f))
		return false;
	cli_table(cli, NAMES, &found);
	return true;
}

const struct cli_command CMD_PARTNER_ADD = {
	"partner", "add", ARGUMENTS, OPTIONS, 1, 1, true, add};
const struct cli_command CMD_PARTNER_SET = {
	"partner", "set", ARGUMENTS, OPTIONS, 1, 1, true, set};
const struct cli_command CMD_PARTNER_LIST = {"partner", "list", "",   NULL,
					     0,         0,      true, list};
const struct cli_command CMD_PARTNER_DISABLE = {
	"partner", "disable", "NAME", NULL, 1, 1, true, disable};
const struct cli_command CMD_PARTNER_ENABLE = {
	"partner", "enable", "NAME", NULL, 1, 1, true, enable};
