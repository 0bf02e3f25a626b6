/* The row that tells of a job, for its two endpoints. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_JOB_ROW_H
#define WAYBILL_JOB_ROW_H

#include "api/exchange.h"
#include "db/stmt.h"

/* Columns of STMT_JOB_SHOW and STMT_JOB_PAGE. From J_ACCEPTED to
 * J_RESTORED they count results, one a status, as enum item_status goes. */
enum {
	J_ID,
	J_BATCH,
	J_COLLECTION,
	J_KIND,
	J_MODE,
	J_STATE,
	J_ATTEMPT,
	J_TOTAL,
	J_PROCESSED,
	J_ACCEPTED,
	J_REPLAY,
	J_QUARANTINED,
	J_REJECTED,
	J_TOMBSTONED,
	J_RESTORED,
	J_CANCEL,
	J_WAITING,
	J_ERROR_SLUG,
	J_ERROR_DETAIL,
	J_CREATED,
	J_STARTED,
	J_FINISHED,
	J_WORK_US,
	J_BEFORE,
	J_WAREHOUSES,
};

/* STMT_JOB_SHOW of the job that the path names: one row. FAIL_NOT_FOUND: this
 * partner has none, or not to be seen with this credential. */
MUST_CHECK bool job_row_find(const struct exchange *x, struct db_table *t_r,
			     struct fail *f);

#endif
