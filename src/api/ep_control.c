/* Control requests: release and discard of quarantine records, undoing a
 * full-refresh. Keyed like every other POST. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "api/keyed.h"
#include "api/param.h"
#include "api/route.h"
#include "base/clock.h"
#include "item/quarantine.h"
#include "job/queue.h"

/* The id is the segment before the verb: /quarantine/{id}/release. */
static bool path_id(const struct exchange *x, const char *prefix,
		    const char *what, struct id *id_r, struct fail *f)
{
	if (outcome_parse_id(x->segments[3], prefix, id_r))
		return true;
	return fail_set(f, FAIL_NOT_FOUND, "there is no such %s", what);
}

static struct apply apply_of(struct db *db, const struct db_attempt *at,
			     const struct keyed *k)
{
	return (struct apply){.arena = k->x->arena,
			      .partner_id = k->x->who.partner_id,
			      .batch_id = k->batch_id,
			      .wall_ms = db_wall_ms(db),
			      .scope = k->x->scope,
			      .lock = at->no > 1};
}

static enum db_step step_of(enum apply_result r)
{
	switch (r) {
	case APPLY_DONE:
		return DB_STEP_COMMIT;
	case APPLY_RACED:
		return DB_STEP_AGAIN;
	case APPLY_FAIL:
		return DB_STEP_FAIL;
	}
	bug("apply result %d", (int)r);
}

static void add_id(struct buf *b, const char *name, const char *prefix,
		   struct id id)
{
	buf_addf(b, "\"%s\":\"", name);
	outcome_add_id(b, prefix, id);
	buf_add_byte(b, '"');
}

/* The item's result, and what became of the record. */
static void answer_release(struct buf *b, const struct release *r, struct id id)
{
	outcome_add_result(b, r->apply.collection, &r->in,
			   &r->apply.outcomes[0]);
	b->n--; /* the result's closing brace: more members follow */
	buf_add_byte(b, ',');
	add_id(b, "batch_id", "bat", r->apply.batch_id);
	buf_add_byte(b, ',');
	add_id(b, "quarantine_id", "qua", id);
	buf_addf(b, ",\"quarantine_state\":\"%s\"}\n",
		 quarantine_state_name(r->state));
}

static enum db_step release_work(struct db *db, const struct db_attempt *at,
				 struct keyed *k, struct fail *f)
{
	const struct id *id = k->arg;
	struct release r = {.apply = apply_of(db, at, k)};
	enum db_step step =
		step_of(quarantine_release(db, k->x->conf, *id, &r, f));

	if (step == DB_STEP_COMMIT)
		answer_release(&k->x->answer.body, &r, *id);
	return step;
}

static enum db_step discard_work(struct db *db, const struct db_attempt *at,
				 struct keyed *k, struct fail *f)
{
	const struct id *id = k->arg;
	struct buf *b = &k->x->answer.body;
	struct apply a = apply_of(db, at, k);
	enum db_step step = step_of(quarantine_discard(db, *id, &a, f));

	if (step != DB_STEP_COMMIT)
		return step;
	buf_add_byte(b, '{');
	add_id(b, "quarantine_id", "qua", *id);
	buf_addf(b, ",\"state\":\"%s\"}\n",
		 quarantine_state_name(QUARANTINE_DISCARDED));
	return step;
}

bool ep_quarantine_release(struct exchange *x, struct fail *f)
{
	struct id id;
	struct keyed k = {.x = x,
			  .mode = BATCH_RELEASE,
			  .collection = -1,
			  .work = release_work,
			  .arg = &id};

	return path_id(x, "qua", "quarantine record", &id, f) &&
	       keyed_run(&k, f);
}

bool ep_quarantine_discard(struct exchange *x, struct fail *f)
{
	struct id id;
	struct keyed k = {.x = x,
			  .mode = BATCH_DISCARD,
			  .collection = -1,
			  .work = discard_work,
			  .arg = &id};

	return path_id(x, "qua", "quarantine record", &id, f) &&
	       keyed_run(&k, f);
}

/* Jobs. */

static bool add_batch(struct db *db, const struct job *j, struct fail *f)
{
	uint64_t affected;

	return db_exec(
		db, STMT_BATCH_ADD_JOB,
		DB_ARGS(db_id(&j->batch_id),
			db_uint(clock_day(id_wall_ms(j->batch_id))),
			db_uint(j->partner_id),
			j->collection < 0 ? db_null()
					  : db_uint((uint64_t)j->collection),
			db_uint(j->mode), db_uint(j->total), db_id(&j->job_id),
			j->warehouses.p ? db_text(j->warehouses) : db_null()),
		&affected, f);
}

static void answer_job(struct exchange *x, const struct job *j)
{
	char hex[ID_HEX];

	id_hex(j->job_id, hex);
	x->answer.status = 202;
	buf_addf(&x->answer.body,
		 "{\"job_id\":\"job-%s\",\"status\":\"QUEUED\","
		 "\"status_url\":\"" KEYED_JOBS "job-%s\","
		 "\"results_url\":\"" KEYED_JOBS "job-%s/results\","
		 "\"received\":{\"items\":%" PRIu32 ",\"bytes\":0}}\n",
		 hex, hex, hex, j->total);
	keyed_job_headers(x);
}

static enum db_step add_job(struct db *db, struct keyed *k, const struct job *j,
			    struct fail *f)
{
	if (!queue_add(db, j, f) || !add_batch(db, j, f))
		return DB_STEP_FAIL;
	answer_job(k->x, j);
	return DB_STEP_COMMIT;
}

/* Releasing all that match: a job. */
struct release_all {
	struct id job_id;
	int collection;
	struct sv missing;
};

static enum db_step release_all_work(struct db *db, const struct db_attempt *at,
				     struct keyed *k, struct fail *f)
{
	const struct release_all *r = k->arg;
	const struct quarantine_match m = {.partner_id = k->x->who.partner_id,
					   .collection = r->collection,
					   .missing = r->missing,
					   .asked = r->job_id,
					   .scope = k->x->scope};
	struct job j = {.partner_id = m.partner_id,
			.job_id = r->job_id,
			.batch_id = k->batch_id,
			.collection = r->collection,
			.kind = JOB_RELEASE,
			.mode = BATCH_RELEASE,
			.filter_missing = r->missing,
			.warehouses = k->x->who.warehouses};
	uint64_t total;

	(void)at;
	if (!quarantine_count(db, &m, k->x->arena, &total, f))
		return DB_STEP_FAIL;
	j.total = (uint32_t)total;
	return add_job(db, k, &j, f);
}

bool ep_quarantine_release_all(struct exchange *x, struct fail *f)
{
	struct release_all r = {.job_id = id_new(db_wall_ms(x->db)),
				.collection = -1};
	struct keyed k = {.x = x,
			  .mode = BATCH_RELEASE,
			  .collection = -1,
			  .work = release_all_work,
			  .arg = &r};
	struct param_range range;

	if (!param_collection(x, &range, f))
		return false;
	if (range.low == range.high)
		r.collection = (int)range.low;
	if (param_find(x, "missing", &r.missing) &&
	    (!r.missing.n || r.missing.n > ITEM_SOURCE_ID_MAX))
		return fail_set(f, FAIL_BAD_PARAMETER,
				"missing must be a source_id: 1 to 128 bytes");
	return keyed_run(&k, f);
}

/* Undoing a full-refresh: at once, or as a job if it tombstoned more than a
 * synchronous request may touch. */
struct undoing {
	struct undo undo;
	struct id job_id;
};

static enum db_step undo_now(struct db *db, const struct db_attempt *at,
			     struct keyed *k, struct undo *u, struct fail *f)
{
	struct buf *b = &k->x->answer.body;
	struct apply a = apply_of(db, at, k);
	enum db_step step;

	a.mode = BATCH_UNDO;
	step = step_of(apply_undo(db, &a, u, u->tombstoned, f));
	if (step != DB_STEP_COMMIT)
		return step;
	buf_add_byte(b, '{');
	add_id(b, "batch_id", "bat", k->batch_id);
	buf_add_byte(b, ',');
	add_id(b, "undone_batch_id", "bat", u->refresh);
	buf_addf(b, ",\"restored\":%" PRIu32 ",\"skipped\":%" PRIu64 "}\n",
		 a.summary.restored, u->tombstoned - a.summary.restored);
	return step;
}

/* What a refresh job has tombstoned is told by its batch once it is finished:
 * that is read after the lane has said so, and none can begin meanwhile. Which
 * lane it is stands in the batch, too. */
static bool find_whole(struct db *db, const struct exchange *x, struct undo *u,
		       struct fail *f)
{
	const uint32_t partner_id = x->who.partner_id;

	return undo_find(db, partner_id, x->scope, x->arena, u, f) &&
	       queue_check_undo(db, partner_id, (int)u->collection, f) &&
	       undo_find(db, partner_id, x->scope, x->arena, u, f);
}

static enum db_step undo_work(struct db *db, const struct db_attempt *at,
			      struct keyed *k, struct fail *f)
{
	const struct undoing *g = k->arg;
	struct undo u = g->undo;

	if (!find_whole(db, k->x, &u, f))
		return DB_STEP_FAIL;
	if (u.tombstoned <= k->x->conf->bulk_async_threshold)
		return undo_now(db, at, k, &u, f);
	return add_job(db, k,
		       &(struct job){.partner_id = k->x->who.partner_id,
				     .job_id = g->job_id,
				     .batch_id = k->batch_id,
				     .collection = (int)u.collection,
				     .kind = JOB_UNDO,
				     .mode = BATCH_UNDO,
				     .total = (uint32_t)u.tombstoned,
				     .undoes = u.refresh,
				     .warehouses = k->x->who.warehouses},
		       f);
}

bool ep_undo_refresh(struct exchange *x, struct fail *f)
{
	struct undoing g = {.job_id = id_new(db_wall_ms(x->db))};
	struct keyed k = {.x = x,
			  .mode = BATCH_UNDO,
			  .collection = -1,
			  .work = undo_work,
			  .arg = &g};
	struct id *id = &g.undo.refresh;

	if (!path_id(x, "bat", "full-refresh", id, f))
		return false;
	if (db_wall_ms(x->db) > id_wall_ms(*id) + x->conf->retention_ms)
		return fail_set(f, FAIL_NOT_FOUND,
				"there is no such full-refresh any more");
	return keyed_run(&k, f);
}
