/* waybill key create|list|revoke */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "base/buf.h"
#include "db/txn.h"
#include "gate/auth.h"
#include "main/cli.h"

static const struct cli_option CREATE_OPTIONS[] = {{"--scope", CLI_VALUE},
						   {"--warehouse", CLI_VALUE},
						   {"--expires", CLI_VALUE},
						   {NULL, CLI_FLAG}};

/* It goes with every request, job and held back item of the credential. */
enum { WAREHOUSES_BYTES_MAX = 16 * 1024 };

struct change {
	struct cli *cli;
	struct auth_key key;
	unsigned scopes;
	struct db_val warehouses, expires_days;
	struct db_table found;
	uint64_t changed;
};

/* The key's id is random: a second run after a COMMIT in doubt meets its own
 * row as a duplicate, and that is the proof that it is there. */
static enum db_step create_work(struct db *db, const struct db_attempt *at,
				void *arg, struct fail *f)
{
	struct change *c = arg;

	if (!db_query(db, STMT_PARTNER_FIND, DB_ARGS(db_text(c->cli->words[0])),
		      &c->cli->arena, &c->found, f))
		return DB_STEP_FAIL;
	if (!c->found.rows)
		return DB_STEP_ROLLBACK;
	if (db_exec(db, STMT_CREDENTIAL_ADD,
		    DB_ARGS(db_text(sv_of(c->key.id)),
			    *db_cell(&c->found, 0, 0), db_text(SV("KEY")),
			    db_text(sv_from(c->key.hash, sizeof(c->key.hash))),
			    db_uint(c->scopes), c->warehouses, c->expires_days),
		    &c->changed, f))
		return DB_STEP_COMMIT;
	if (db_last_class(db) == DB_DUPLICATE && at->maybe_committed)
		return DB_STEP_ROLLBACK;
	return DB_STEP_FAIL;
}

/* "W1,W2" as a JSON array. */
static bool read_warehouses(struct cli *cli, struct db_val *v_r, struct fail *f)
{
	struct sv rest = cli_value(cli, "--warehouse");
	struct buf b;
	bool ok = rest.n > 0;

	buf_init(&b, WAREHOUSES_BYTES_MAX);
	buf_add_byte(&b, '[');
	while (ok && rest.n) {
		struct sv one = sv_cut(&rest, ',');

		if (b.n > 1)
			buf_add_byte(&b, ',');
		buf_add_json(&b, one);
		ok = one.n > 0 && one.n <= 128 && text_is_utf8(one);
	}
	buf_add_byte(&b, ']');
	ok = ok && buf_ok(&b);
	if (ok)
		*v_r = db_text(arena_sv(&cli->arena, buf_sv(&b)));
	buf_release(&b);
	return ok || fail_set(f, FAIL_USAGE,
			      "--warehouse is a list of source ids of "
			      "warehouses, joined by commas");
}

static bool read_options(struct change *c, struct fail *f)
{
	struct cli *cli = c->cli;
	uint64_t days;

	c->scopes = AUTH_SCOPE_ALL;
	c->warehouses = db_null();
	c->expires_days = db_null();
	if (cli_given(cli, "--warehouse") &&
	    !read_warehouses(cli, &c->warehouses, f))
		return false;
	if (cli_given(cli, "--scope") &&
	    !auth_scopes_parse(cli_value(cli, "--scope"), &c->scopes))
		return fail_set(f, FAIL_USAGE,
				"--scope is a list of ingest, "
				"read and admin, joined by commas");
	if (!cli_given(cli, "--expires"))
		return true;
	if (!text_u64(cli_value(cli, "--expires"), 1, 36500, &days))
		return fail_set(
			f, FAIL_USAGE,
			"--expires is a number of days from 1 to 36500");
	c->expires_days = db_uint(days);
	return true;
}

static bool store(struct change *c, struct fail *f)
{
	if (!db_txn(c->cli->db,
		    &(struct db_txn){.name = "key.create",
				     .work = create_work,
				     .arg = c,
				     .rerun = true},
		    f))
		return false;
	if (!c->found.rows)
		return fail_set(f, FAIL_NOT_FOUND, "there is no partner %.*s",
				SV_ARG(c->cli->words[0]));
	return true;
}

/* Prints the key alone, so that a script can take it as it is. */
static bool create(struct cli *cli, struct fail *f)
{
	struct change c = {.cli = cli};
	struct auth *auth;
	bool ok;

	if (!read_options(&c, f) || !auth_new(&auth, &cli->conf, f))
		return false;
	auth_key_make(auth, &c.key);
	ok = store(&c, f);
	if (ok && cli->json)
		printf("{\"id\":\"%s\",\"key\":\"%s\"}\n", c.key.id, c.key.key);
	else if (ok)
		puts(c.key.key);
	digest_wipe(&c.key, sizeof(c.key));
	auth_free(auth);
	return ok;
}

static bool list(struct cli *cli, struct fail *f)
{
	static const char *const NAMES[] = {
		"id",         "partner",    "kind",       "scopes",
		"created_at", "expires_at", "revoked_at", "last_used_at"};
	struct db_val filter =
		cli->word_count ? db_text(cli->words[0]) : db_null();
	struct db_table found;

	if (!db_query(cli->db, STMT_CREDENTIAL_LIST, DB_ARGS(filter),
		      &cli->arena, &found, f))
		return false;
	cli_table(cli, NAMES, &found);
	return true;
}

static enum db_step revoke_work(struct db *db, const struct db_attempt *at,
				void *arg, struct fail *f)
{
	struct change *c = arg;

	(void)at;
	if (!db_query(db, STMT_CREDENTIAL_FIND,
		      DB_ARGS(db_text(c->cli->words[0])), &c->cli->arena,
		      &c->found, f) ||
	    !db_exec(db, STMT_CREDENTIAL_REVOKE,
		     DB_ARGS(db_text(c->cli->words[0])), &c->changed, f))
		return DB_STEP_FAIL;
	return DB_STEP_COMMIT;
}

static bool revoke(struct cli *cli, struct fail *f)
{
	struct change c = {.cli = cli};

	if (!db_txn(cli->db,
		    &(struct db_txn){.name = "key.revoke",
				     .work = revoke_work,
				     .arg = &c,
				     .rerun = true},
		    f))
		return false;
	if (!c.found.rows)
		return fail_set(f, FAIL_NOT_FOUND, "there is no key %.*s",
				SV_ARG(cli->words[0]));
	cli_done(cli, "key %.*s %s", SV_ARG(cli->words[0]),
		 c.changed ? "revoked; workers forget it within seconds"
			   : "was revoked before");
	return true;
}

const struct cli_command CMD_KEY_CREATE = {
	"key",
	"create",
	"PARTNER [--scope ingest,read,admin] [--warehouse W,...] "
	"[--expires DAYS]",
	CREATE_OPTIONS,
	1,
	1,
	true,
	create};
const struct cli_command CMD_KEY_LIST = {"key", "list", "[PARTNER]", NULL,
					 0,     1,      true,        list};
const struct cli_command CMD_KEY_REVOKE = {"key", "revoke", "ID", NULL,
					   1,     1,        true, revoke};
