/* What the commands for keys and for certificates share. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/credential.h"

#include "base/text.h"
#include "main/trail.h"

/* Warehouses go with every request, job and held back item. */
enum { WAREHOUSES_BYTES_MAX = 16 * 1024, DAYS_MAX = 36500 };

const struct credential_kind CREDENTIAL_KEY = {"KEY", "key", "key.create",
					       "key.revoke", "kind"};
const struct credential_kind CREDENTIAL_CERT = {
	"CERT", "certificate", "cert.add", "cert.revoke", "fingerprint"};

const struct cli_option CREDENTIAL_OPTIONS[] = {{"--scope", CLI_VALUE},
						{"--warehouse", CLI_VALUE},
						{"--expires", CLI_VALUE},
						{NULL, CLI_FLAG}};

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

bool credential_options(struct credential *c, struct fail *f)
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
	if (!text_u64(cli_value(cli, "--expires"), 1, DAYS_MAX, &days))
		return fail_set(f, FAIL_USAGE,
				"--expires is a number of days from 1 to %d",
				DAYS_MAX);
	c->expires_days = db_uint(days);
	return true;
}

/* A change under way. */
struct change {
	const struct credential *credential; /* being added */
	const struct credential_kind *kind;
	struct trail trail;
	bool no_partner, is_double, found;
};

static bool insert(const struct credential *c, const struct db_val *partner_id,
		   struct db *db, struct fail *f)
{
	uint64_t n;

	return db_exec(db, STMT_CREDENTIAL_ADD,
		       DB_ARGS(db_text(sv_of(c->id)), *partner_id,
			       db_text(sv_of(c->kind->kind)),
			       db_text(sv_from(c->hash, sizeof(c->hash))),
			       db_uint(c->scopes), c->warehouses,
			       c->expires_days),
		       &n, f);
}

static enum db_step add_work(struct db *db, const struct db_attempt *at,
			     void *arg, struct fail *f)
{
	struct change *ch = arg;
	const struct credential *c = ch->credential;
	struct db_table partner;

	(void)at;
	if (!db_query(db, STMT_PARTNER_FIND, DB_ARGS(db_text(c->cli->words[0])),
		      &c->cli->arena, &partner, f))
		return DB_STEP_FAIL;
	ch->no_partner = !partner.rows;
	if (ch->no_partner)
		return DB_STEP_ROLLBACK;
	if (insert(c, db_cell(&partner, 0, 0), db, f))
		return trail_step(&ch->trail, db, f);
	ch->is_double = db_last_class(db) == DB_DUPLICATE;
	return ch->is_double ? DB_STEP_ROLLBACK : DB_STEP_FAIL;
}

/* The INSERT met a row. Its id is random: if that row has it, an earlier run
 * whose COMMIT was in doubt made it. */
static bool explain_double(const struct credential *c, struct fail *f)
{
	struct sv hash = sv_from(c->hash, sizeof(c->hash));
	struct db_table found;

	if (!db_query(c->cli->db, STMT_CREDENTIAL_OF_HASH,
		      DB_ARGS(db_text(hash)), &c->cli->arena, &found, f))
		return false;
	if (found.rows && sv_eq(db_cell(&found, 0, 0)->bytes, sv_of(c->id)))
		return true;
	if (!found.rows)
		return fail_set(f, FAIL_CONFLICT, "that id is taken");
	return fail_set(f, FAIL_CONFLICT,
			"that %s is there already: %.*s of the partner %.*s%s",
			c->kind->noun, SV_ARG(db_cell(&found, 0, 0)->bytes),
			SV_ARG(db_cell(&found, 0, 1)->bytes),
			db_cell(&found, 0, 2)->u
				? "; it was revoked, and stays so"
				: "");
}

bool credential_add(struct credential *c, struct fail *f)
{
	struct change ch = {.credential = c, .kind = c->kind};

	trail_init(&ch.trail, c->cli, &TRAIL_CREDENTIAL, c->kind->added,
		   sv_of(c->id));
	if (!db_txn(c->cli->db,
		    &(struct db_txn){.name = c->kind->added,
				     .work = add_work,
				     .arg = &ch,
				     .rerun = true},
		    f))
		return false;
	if (ch.no_partner)
		return fail_set(f, FAIL_NOT_FOUND, "there is no partner %.*s",
				SV_ARG(c->cli->words[0]));
	*f = FAIL_INIT;
	return !ch.is_double || explain_double(c, f);
}

bool credential_list(struct cli *cli, const struct credential_kind *kind,
		     struct fail *f)
{
	const char *const names[] = {
		"id",         "partner",      kind->column,
		"scopes",     "warehouses{}", "created_at",
		"expires_at", "revoked_at",   "last_used_at"};
	struct db_val partner =
		cli->word_count ? db_text(cli->words[0]) : db_null();
	struct db_table found;

	if (!db_query(cli->db, STMT_CREDENTIAL_LIST,
		      DB_ARGS(db_text(sv_of(kind->kind)), partner), &cli->arena,
		      &found, f))
		return false;
	cli_table(cli, names, &found);
	return true;
}

enum { C_KIND = TRAIL_VALUES };

static enum db_step revoke_work(struct db *db, const struct db_attempt *at,
				void *arg, struct fail *f)
{
	struct change *ch = arg;
	struct trail *t = &ch->trail;
	enum db_step step;
	uint64_t n;

	if (!trail_look(t, db, f))
		return DB_STEP_FAIL;
	ch->found =
		t->before.rows && sv_eq(db_cell(&t->before, 0, C_KIND)->bytes,
					sv_of(ch->kind->kind));
	if (!ch->found)
		return DB_STEP_ROLLBACK;
	if (!db_exec(db, STMT_CREDENTIAL_REVOKE, DB_ARGS(db_text(t->called)),
		     &n, f))
		return DB_STEP_FAIL;
	step = trail_step(t, db, f);
	t->changed = t->changed || at->maybe_committed;
	return step;
}

bool credential_revoke(struct cli *cli, const struct credential_kind *kind,
		       struct fail *f)
{
	struct change ch = {.kind = kind};

	trail_init(&ch.trail, cli, &TRAIL_CREDENTIAL, kind->revoked,
		   cli->words[0]);
	if (!db_txn(cli->db,
		    &(struct db_txn){.name = kind->revoked,
				     .work = revoke_work,
				     .arg = &ch,
				     .rerun = true},
		    f))
		return false;
	if (!ch.found)
		return fail_set(f, FAIL_NOT_FOUND, "there is no %s %.*s",
				kind->noun, SV_ARG(cli->words[0]));
	cli_done(cli, "%s %.*s %s", kind->noun, SV_ARG(cli->words[0]),
		 ch.trail.changed ? "revoked; workers forget it within seconds"
				  : "was revoked before");
	return true;
}
