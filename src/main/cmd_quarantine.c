/* waybill quarantine list|show|release|discard */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/text.h"
#include "db/txn.h"
#include "item/quarantine.h"
#include "main/cli.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = 100000 };

static const struct cli_option LIST_OPTIONS[] = {{"--partner", CLI_VALUE},
						 {"--collection", CLI_VALUE},
						 {"--state", CLI_VALUE},
						 {"--limit", CLI_VALUE},
						 {NULL, CLI_FLAG}};

/* Columns of STMT_OPERATE_QUARANTINE_SHOW; those of ..._LIST are the first
 * ones. */
static const char *const NAMES[] = {
	"quarantine_id",  "partner_id", "collection", "source_id",
	"source_version", "state",      "code",       "attempts",
	"first_seen",     "last_seen",  "batch_id",   "reason",
	"missing",        "payload",
};
enum { C_VERSION = 4, C_MISSING = 12 }; /* JSON from there on */

static struct db_val filter(const struct cli *cli, const char *option)
{
	return cli_given(cli, option) ? db_text(cli_value(cli, option))
				      : db_null();
}

static bool check_filters(const struct cli *cli, uint64_t *limit_r,
			  struct fail *f)
{
	enum collection c;

	*limit_r = LIMIT_DEFAULT;
	if (cli_given(cli, "--collection") &&
	    !collection_named(cli_value(cli, "--collection"), &c))
		return fail_set(f, FAIL_USAGE, "there is no collection %.*s",
				SV_ARG(cli_value(cli, "--collection")));
	if (cli_given(cli, "--state") &&
	    !quarantine_state_of(cli_value(cli, "--state")))
		return fail_set(f, FAIL_USAGE,
				"--state is OPEN, RELEASED, SUPERSEDED or "
				"DISCARDED");
	if (cli_given(cli, "--limit") &&
	    !text_u64(cli_value(cli, "--limit"), 1, LIMIT_MAX, limit_r))
		return fail_set(f, FAIL_USAGE,
				"--limit is a number from 1 to %d", LIMIT_MAX);
	return true;
}

static bool check_partner(struct cli *cli, struct fail *f)
{
	struct db_table found;

	if (!cli_given(cli, "--partner"))
		return true;
	if (!db_query(cli->db, STMT_PARTNER_FIND,
		      DB_ARGS(filter(cli, "--partner")), &cli->arena, &found,
		      f))
		return false;
	if (!found.rows)
		return fail_set(f, FAIL_NOT_FOUND, "there is no partner %.*s",
				SV_ARG(cli_value(cli, "--partner")));
	return true;
}

static bool list(struct cli *cli, struct fail *f)
{
	struct db_val partner = filter(cli, "--partner");
	struct db_val collection = filter(cli, "--collection");
	struct db_val state = filter(cli, "--state");
	struct db_table found;
	uint64_t limit;

	if (!check_filters(cli, &limit, f) || !check_partner(cli, f) ||
	    !db_query(cli->db, STMT_OPERATE_QUARANTINE_LIST,
		      DB_ARGS(partner, partner, collection, collection, state,
			      state, db_uint(limit)),
		      &cli->arena, &found, f))
		return false;
	cli_table(cli, NAMES, &found);
	return true;
}

static void show_json(const struct db_table *t)
{
	struct buf b;

	buf_init(&b, SIZE_MAX / 4);
	for (size_t c = 0; c < t->cols; c++) {
		const struct db_val *v = db_cell(t, 0, c);

		buf_addf(&b, "%s\"%s\":", c ? "," : "{", NAMES[c]);
		if (c == C_VERSION)
			outcome_add_version(&b, v->kind != DB_NULL, v->u);
		else if (v->kind != DB_BYTES)
			buf_add_u64(&b, v->u);
		else if (c >= C_MISSING)
			buf_add(&b, v->bytes);
		else
			buf_add_json(&b, v->bytes);
	}
	buf_add_text(&b, "}\n");
	fwrite(b.p, 1, b.n, stdout);
	buf_release(&b);
}

static void show_text(const struct db_table *t)
{
	for (size_t c = 0; c < t->cols; c++) {
		const struct db_val *v = db_cell(t, 0, c);

		printf("%-14s  ", NAMES[c]);
		if (v->kind == DB_BYTES)
			fwrite(v->bytes.p, 1, v->bytes.n, stdout);
		else if (v->kind == DB_NULL)
			putchar('-');
		else
			printf("%llu", (unsigned long long)v->u);
		putchar('\n');
	}
}

static bool show(struct cli *cli, struct fail *f)
{
	struct db_table found = {0};
	struct id id;

	if (outcome_parse_id(cli->words[0], "qua", &id) &&
	    !db_query(cli->db, STMT_OPERATE_QUARANTINE_SHOW,
		      DB_ARGS(db_text(sv_from(id.b, sizeof(id.b)))),
		      &cli->arena, &found, f))
		return false;
	if (!found.rows)
		return fail_set(f, FAIL_NOT_FOUND,
				"there is no quarantine record %.*s",
				SV_ARG(cli->words[0]));
	if (cli->json)
		show_json(&found);
	else
		show_text(&found);
	return true;
}

/* A release or a discard under way. */
struct act {
	struct cli *cli;
	struct id id;
	struct db_val partner_id;
	struct id batch_id; /* the same in every attempt */
	bool release;
	const char *done;
};

static enum apply_result run_act(struct db *db, const struct db_attempt *at,
				 struct act *a, struct fail *f)
{
	struct release r = {.apply = {.arena = &a->cli->arena,
				      .partner_id = (uint32_t)a->partner_id.u,
				      .batch_id = a->batch_id,
				      .wall_ms = db_wall_ms(db),
				      .lock = at->no > 1}};
	enum apply_result result;

	if (!a->release)
		return quarantine_discard(db, a->id, &r.apply, f);
	result = quarantine_release(db, &a->cli->conf, a->id, &r, f);
	if (result == APPLY_DONE)
		a->done = r.state == QUARANTINE_RELEASED
				  ? "released"
				  : "closed: the item has gone past it";
	return result;
}

static enum db_step act_work(struct db *db, const struct db_attempt *at,
			     void *arg, struct fail *f)
{
	switch (run_act(db, at, arg, f)) {
	case APPLY_DONE:
		return DB_STEP_COMMIT;
	case APPLY_RACED:
		return DB_STEP_AGAIN;
	case APPLY_FAIL:
		/* A COMMIT that was in doubt closed it. */
		return f->code == FAIL_NOT_OPEN && at->maybe_committed
			       ? DB_STEP_ROLLBACK
			       : DB_STEP_FAIL;
	}
	bug("apply result");
}

static bool find_partner(struct act *a, struct fail *f)
{
	struct cli *cli = a->cli;
	struct db_table found = {0};

	if (outcome_parse_id(cli->words[0], "qua", &a->id) &&
	    !db_query(cli->db, STMT_OPERATE_QUARANTINE_PARTNER,
		      DB_ARGS(db_text(sv_from(a->id.b, sizeof(a->id.b)))),
		      &cli->arena, &found, f))
		return false;
	if (!found.rows)
		return fail_set(f, FAIL_NOT_FOUND,
				"there is no quarantine record %.*s",
				SV_ARG(cli->words[0]));
	a->partner_id = *db_cell(&found, 0, 0);
	return true;
}

static bool act(struct act *a, struct fail *f)
{
	if (!find_partner(a, f))
		return false;
	a->batch_id = id_new(db_wall_ms(a->cli->db));
	if (!db_txn(a->cli->db,
		    &(struct db_txn){.name = "quarantine.act",
				     .work = act_work,
				     .arg = a,
				     .rerun = true},
		    f))
		return false;
	cli_done(a->cli, "%.*s %s", SV_ARG(a->cli->words[0]), a->done);
	return true;
}

static bool release(struct cli *cli, struct fail *f)
{
	return act(
		&(struct act){.cli = cli, .release = true, .done = "released"},
		f);
}

static bool discard(struct cli *cli, struct fail *f)
{
	return act(&(struct act){.cli = cli, .done = "discarded"}, f);
}

const struct cli_command CMD_QUARANTINE_LIST = {
	"quarantine",
	"list",
	"[--partner P] [--collection C] [--state S] [--limit N]",
	LIST_OPTIONS,
	0,
	0,
	true,
	list};
const struct cli_command CMD_QUARANTINE_SHOW = {
	"quarantine", "show", "ID", NULL, 1, 1, true, show};
const struct cli_command CMD_QUARANTINE_RELEASE = {
	"quarantine", "release", "ID", NULL, 1, 1, true, release};
const struct cli_command CMD_QUARANTINE_DISCARD = {
	"quarantine", "discard", "ID", NULL, 1, 1, true, discard};
