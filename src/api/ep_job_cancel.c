/* POST /jobs/{job_id}/cancel: stop between two chunks; what is applied stays.
 * Keyed like every other POST. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/keyed.h"
#include "api/route.h"
#include "item/outcome.h"
#include "job/queue.h"
#include "job_row.h"

static bool is_open(enum job_state s)
{
	return s == JOB_QUEUED || s == JOB_RUNNING;
}

/* What it was before: queue_cancel() tells only what it is then. */
static bool check_open(const struct exchange *x, struct fail *f)
{
	enum job_state state;
	struct db_table t;

	if (!job_row_find(x, &t, f))
		return false;
	state = (enum job_state)db_cell(&t, 0, J_STATE)->u;
	return is_open(state) ||
	       fail_set(f, FAIL_JOB_FINISHED, "the job is %s already",
			job_state_name(state));
}

static enum db_step work(struct db *db, const struct db_attempt *at,
			 struct keyed *k, struct fail *f)
{
	const struct id *id = k->arg;
	struct buf *b = &k->x->answer.body;
	enum job_state state;

	(void)at;
	if (!check_open(k->x, f) || !queue_cancel(db, k->x->who.partner_id, *id,
						  k->x->arena, &state, f))
		return DB_STEP_FAIL;
	if (state == JOB_COMPLETED || state == JOB_FAILED) {
		fail_set(f, FAIL_JOB_FINISHED, "the job is %s already",
			 job_state_name(state));
		return DB_STEP_FAIL;
	}
	buf_add_text(b, "{\"job_id\":\"");
	outcome_add_id(b, "job", *id);
	buf_addf(b, "\",\"status\":\"%s\",\"cancel_requested\":true}\n",
		 job_state_name(state));
	return DB_STEP_COMMIT;
}

bool ep_job_cancel(struct exchange *x, struct fail *f)
{
	struct id id;
	struct keyed k = {.x = x,
			  .mode = BATCH_CANCEL,
			  .collection = -1,
			  .work = work,
			  .arg = &id};

	if (!outcome_parse_id(x->segments[3], "job", &id))
		return fail_set(f, FAIL_NOT_FOUND, "there is no such job");
	return keyed_run(&k, f);
}
