/* queue_add() until branch `drain` brings src/job/queue.c; then this file and
 * sql/statements/queue_stub.sql go. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "db/stmt.h"
#include "job/queue.h"

static struct db_val id_val(const struct id *id)
{
	return db_text(sv_from(id->b, sizeof(id->b)));
}

bool queue_add(struct db *db, const struct job *j, struct fail *f)
{
	bool refresh = j->kind == JOB_REFRESH;
	uint64_t rows;

	if (!db_exec(db,
		     refresh ? STMT_STUB_LANE_REFRESH : STMT_STUB_LANE_ITEMS,
		     DB_ARGS(db_uint(j->partner_id),
			     db_uint((uint64_t)j->collection)),
		     &rows, f))
		return false;
	if (!rows) {
		fail_set(f, FAIL_JOB_IN_FLIGHT,
			 "another job of this collection is unfinished");
		f->retry_after_s = 1;
		return false;
	}
	return db_exec(db, STMT_STUB_JOB_ADD,
		       DB_ARGS(db_uint(j->partner_id), id_val(&j->job_id),
			       id_val(&j->batch_id),
			       db_uint((uint64_t)j->collection),
			       db_uint(j->kind), db_uint(j->mode),
			       db_uint(refresh ? JOB_GUARD : JOB_APPLY),
			       db_uint(j->chunk_count), db_uint(j->total),
			       db_uint(j->bytes), db_uint(j->confirmed)),
		       &rows, f);
}
