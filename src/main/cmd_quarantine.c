/* waybill quarantine list|show|release|discard */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/text.h"
#include "db/txn.h"
#include "item/quarantine.h"
#include "main/listing.h"

/* Columns of STMT_OPERATE_QUARANTINE_SHOW; those of ..._LIST are the first
 * ones. */
static const char *const NAMES[] = {
	"quarantine_id",  "partner_id", "collection", "source_id",
	"source_version", "state",      "code",       "attempts",
	"first_seen",     "last_seen",  "batch_id",   "reason",
	"missing",        "payload",
};
enum { C_VERSION = 4, C_MISSING = 12 }; /* JSON from there on */

static bool is_state(struct sv name)
{
	return quarantine_state_of(name) != 0;
}

static bool list(struct cli *cli, struct fail *f)
{
	static const struct listing LISTING = {
		STMT_OPERATE_QUARANTINE_LIST, NAMES, is_state,
		"OPEN, RELEASED, SUPERSEDED or DISCARDED"};

	return listing_run(cli, &LISTING, f);
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

static bool show(struct cli *cli, struct fail *f)
{
	struct db_table found = {0};
	struct id id;

	if (outcome_parse_id(cli->words[0], "qua", &id) &&
	    !db_query(cli->db, STMT_OPERATE_QUARANTINE_SHOW,
		      DB_ARGS(db_id(&id)), &cli->arena, &found, f))
		return false;
	if (!found.rows)
		return fail_set(f, FAIL_NOT_FOUND,
				"there is no quarantine record %.*s",
				SV_ARG(cli->words[0]));
	if (cli->json)
		show_json(&found);
	else
		listing_show(NAMES, &found);
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
		      DB_ARGS(db_id(&a->id)), &cli->arena, &found, f))
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
	"quarantine", "list", LISTING_USAGE, LISTING_OPTIONS, 0, 0, true, list};
const struct cli_command CMD_QUARANTINE_SHOW = {
	"quarantine", "show", "ID", NULL, 1, 1, true, show};
const struct cli_command CMD_QUARANTINE_RELEASE = {
	"quarantine", "release", "ID", NULL, 1, 1, true, release};
const struct cli_command CMD_QUARANTINE_DISCARD = {
	"quarantine", "discard", "ID", NULL, 1, 1, true, discard};
