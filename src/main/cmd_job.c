/* waybill job list|show|watch|cancel|requeue */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"
#include "db/txn.h"
#include "item/outcome.h"
#include "job/queue.h"
#include "main/listing.h"
#include "main/progress.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = 100000, POLL_MS = 1000 };

static const struct cli_option REQUEUE_OPTIONS[] = {{"--confirm", CLI_FLAG},
						    {NULL, CLI_FLAG}};

static const char *const LIST_NAMES[] = {
	"job_id",   "partner_id", "collection", "mode",
	"state",    "processed",  "total",      "quarantined",
	"rejected", "attempt",    "created_at", "finished_at",
};

/* Columns of STMT_OPERATE_JOB_SHOW. */
static const char *const NAMES[] = {
	"job_id",      "batch_id",    "partner_id",
	"collection",  "kind",        "mode",
	"state",       "total",       "processed",
	"accepted",    "replay",      "quarantined",
	"rejected",    "tombstoned",  "restored",
	"bytes",       "attempt",     "cancel_requested",
	"waiting_for", "error_code",  "error_detail",
	"created_at",  "started_at",  "progressed_at",
	"lease_until", "finished_at",
};
enum {
	S_STATE = 6,
	S_TOTAL,
	S_PROCESSED,
	S_ACCEPTED,
	S_REPLAY,
	S_QUARANTINED,
	S_REJECTED,
	S_TOMBSTONED,
	S_RESTORED,
	S_WAITING = 18,
	S_ERROR_DETAIL = 20,
};

static bool is_state(struct sv name)
{
	return job_state_of(name) != 0;
}

static bool list(struct cli *cli, struct fail *f)
{
	static const struct listing LISTING = {
		STMT_OPERATE_JOB_LIST, LIST_NAMES, is_state,
		"QUEUED, RUNNING, COMPLETED, FAILED or CANCELLED"};

	return listing_run(cli, &LISTING, f);
}

static bool none(const struct cli *cli, struct fail *f)
{
	return fail_set(f, FAIL_NOT_FOUND, "there is no job %.*s",
			SV_ARG(cli->words[0]));
}

static bool find(struct cli *cli, struct arena *a, struct db_table *t_r,
		 struct fail *f)
{
	struct id id;

	*t_r = (struct db_table){0};
	if (outcome_parse_id(cli->words[0], "job", &id) &&
	    !db_query(cli->db, STMT_OPERATE_JOB_SHOW, DB_ARGS(db_id(&id)), a,
		      t_r, f))
		return false;
	return t_r->rows || none(cli, f);
}

static void show_json(const struct db_table *t)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	for (size_t c = 0; c < t->cols; c++) {
		const struct db_val *v = db_cell(t, 0, c);

		buf_addf(&b, "%s\"%s\":", c ? "," : "{", NAMES[c]);
		if (v->kind == DB_NULL)
			buf_add_text(&b, "null");
		else if (v->kind == DB_BYTES)
			buf_add_json(&b, v->bytes);
		else
			buf_add_u64(&b, v->u);
	}
	buf_add_text(&b, "}\n");
	fwrite(b.p, 1, b.n, stdout);
	buf_release(&b);
}

static bool show(struct cli *cli, struct fail *f)
{
	struct db_table found;

	if (!find(cli, &cli->arena, &found, f))
		return false;
	if (cli->json)
		show_json(&found);
	else
		listing_show(NAMES, &found);
	return true;
}

/* Watching */

static bool is_over(struct sv state)
{
	enum job_state s = job_state_of(state);

	return s == JOB_COMPLETED || s == JOB_FAILED || s == JOB_CANCELLED;
}

static void draw(struct progress *p, const struct db_table *t)
{
	const struct db_val *v = db_cell(t, 0, 0);
	char more[128];

	snprintf(more, sizeof(more), "%.*s%s%.*s", SV_ARG(v[S_STATE].bytes),
		 v[S_WAITING].kind == DB_NULL ? "" : ", waiting for ",
		 v[S_WAITING].kind == DB_NULL ? 0 : (int)v[S_WAITING].bytes.n,
		 v[S_WAITING].kind == DB_NULL ? "" : v[S_WAITING].bytes.p);
	progress_show(p, v[S_PROCESSED].u, v[S_TOTAL].u, more);
}

/* What a full-refresh or its undoing did beside the items. */
static const char *states_changed(const struct db_val *v, char *text, size_t n)
{
	text[0] = '\0';
	if (v[S_TOMBSTONED].u)
		snprintf(text, n, ", %" PRIu64 " tombstoned",
			 v[S_TOMBSTONED].u);
	else if (v[S_RESTORED].u)
		snprintf(text, n, ", %" PRIu64 " restored", v[S_RESTORED].u);
	return text;
}

/* Its last words, and what they mean for a script. */
static bool conclude(struct cli *cli, const struct db_table *t, struct fail *f)
{
	const struct db_val *v = db_cell(t, 0, 0);
	char more[64];

	if (cli->json)
		show_json(t);
	else
		printf("%.*s %.*s: %" PRIu64 " of %" PRIu64 " items: %" PRIu64
		       " accepted, %" PRIu64 " replay, %" PRIu64
		       " quarantined, %" PRIu64 " rejected%s\n",
		       SV_ARG(cli->words[0]), SV_ARG(v[S_STATE].bytes),
		       v[S_PROCESSED].u, v[S_TOTAL].u, v[S_ACCEPTED].u,
		       v[S_REPLAY].u, v[S_QUARANTINED].u, v[S_REJECTED].u,
		       states_changed(v, more, sizeof(more)));
	if (job_state_of(v[S_STATE].bytes) != JOB_COMPLETED)
		return fail_set(f, FAIL_INTERNAL, "the job is %.*s%s%.*s",
				SV_ARG(v[S_STATE].bytes),
				v[S_ERROR_DETAIL].kind == DB_NULL ? "" : ": ",
				v[S_ERROR_DETAIL].kind == DB_NULL
					? 0
					: (int)v[S_ERROR_DETAIL].bytes.n,
				v[S_ERROR_DETAIL].kind == DB_NULL
					? ""
					: v[S_ERROR_DETAIL].bytes.p);
	if (v[S_QUARANTINED].u || v[S_REJECTED].u)
		cli->exit_status = 4;
	return true;
}

static bool look(struct cli *cli, struct arena *a, struct progress *p,
		 bool *over_r, struct fail *f)
{
	struct db_table t;

	if (!find(cli, a, &t, f))
		return false;
	draw(p, &t);
	*over_r = is_over(db_cell(&t, 0, S_STATE)->bytes);
	if (!*over_r)
		return true;
	progress_end(p);
	return conclude(cli, &t, f);
}

static bool watch(struct cli *cli, struct fail *f)
{
	struct progress p =
		progress_begin(arena_dup(&cli->arena, cli->words[0]));
	bool over = false, ok = true;
	struct arena a;

	arena_init(&a, 16384);
	while (ok && !over) {
		arena_reset(&a);
		ok = look(cli, &a, &p, &over, f);
		if (ok && !over)
			clock_sleep_ms(POLL_MS);
	}
	progress_end(&p);
	arena_release(&a);
	return ok;
}

/* Cancelling and queueing again */

struct act {
	struct cli *cli;
	struct id id;
	uint32_t partner_id;
	bool requeue;
	enum job_state state; /* after a cancel */
};

static bool run_act(struct db *db, struct act *a, struct fail *f)
{
	if (a->requeue)
		return queue_requeue(
			db, a->partner_id, a->id,
			&(struct requeue){
				.not_before_wall_ms = db_wall_ms(db) -
						      a->cli->conf.retention_ms,
				.confirm = cli_given(a->cli, "--confirm")},
			&a->cli->arena, f);
	return queue_cancel(db, a->partner_id, a->id, &a->cli->arena, &a->state,
			    f);
}

static enum db_step act_work(struct db *db, const struct db_attempt *at,
			     void *arg, struct fail *f)
{
	struct act *a = arg;

	if (run_act(db, a, f))
		return DB_STEP_COMMIT;
	/* A COMMIT that was in doubt has queued it. */
	return f->code == FAIL_JOB_KEPT && at->maybe_committed
		       ? DB_STEP_ROLLBACK
		       : DB_STEP_FAIL;
}

static bool act(struct act *a, struct fail *f)
{
	struct cli *cli = a->cli;
	struct db_table found = {0};

	if (outcome_parse_id(cli->words[0], "job", &a->id) &&
	    !db_query(cli->db, STMT_OPERATE_JOB_PARTNER, DB_ARGS(db_id(&a->id)),
		      &cli->arena, &found, f))
		return false;
	if (!found.rows)
		return none(cli, f);
	a->partner_id = (uint32_t)db_cell(&found, 0, 0)->u;
	return db_txn(cli->db,
		      &(struct db_txn){.name = "job.act",
				       .work = act_work,
				       .arg = a,
				       .rerun = true},
		      f);
}

static bool cancel(struct cli *cli, struct fail *f)
{
	struct act a = {.cli = cli};
	struct db_table before;

	if (!find(cli, &cli->arena, &before, f))
		return false;
	if (is_over(db_cell(&before, 0, S_STATE)->bytes))
		return fail_set(f, FAIL_JOB_FINISHED, "the job is %.*s already",
				SV_ARG(db_cell(&before, 0, S_STATE)->bytes));
	if (!act(&a, f))
		return false;
	cli_done(cli, "%.*s %s", SV_ARG(cli->words[0]),
		 a.state == JOB_RUNNING ? "stops after its chunk"
					: job_state_name(a.state));
	return true;
}

static bool requeue(struct cli *cli, struct fail *f)
{
	struct act a = {.cli = cli, .requeue = true};

	if (!act(&a, f))
		return false;
	cli_done(cli, "%.*s QUEUED", SV_ARG(cli->words[0]));
	return true;
}

const struct cli_command CMD_JOB_LIST = {
	"job", "list", LISTING_USAGE, LISTING_OPTIONS, 0, 0, true, list};
const struct cli_command CMD_JOB_SHOW = {"job", "show", "ID", NULL,
					 1,     1,      true, show};
const struct cli_command CMD_JOB_WATCH = {"job", "watch", "ID", NULL,
					  1,     1,       true, watch};
const struct cli_command CMD_JOB_CANCEL = {"job", "cancel", "ID", NULL,
					   1,     1,        true, cancel};
const struct cli_command CMD_JOB_REQUEUE = {
	"job", "requeue", "ID [--confirm]", REQUEUE_OPTIONS, 1,
	1,     true,      requeue};
