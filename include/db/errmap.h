/* What a database error means for the transaction it came in.
 *
 * The table is design's: by class, not by number, is decided what to do.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_ERRMAP_H
#define WAYBILL_ERRMAP_H

#include "base/base.h"

enum db_class {
	DB_OK,
	DB_ROLLED_BACK,  /* the server undid the transaction: run it again */
	DB_STATEMENT,    /* the statement alone failed: ROLLBACK, run again */
	DB_LOCK_WAIT,    /* as DB_STATEMENT, by lock wait timeout (1205): a
			    claim takes it as "somebody has it" */
	DB_NOT_EXECUTED, /* no server, or it refused: 503 */
	DB_LOST,         /* connection gone before COMMIT was sent: run again */
	DB_COMMIT_UNKNOWN, /* connection gone while COMMIT was on its way */
	DB_DUPLICATE,      /* 1062: an answer, not an error */
	DB_OPERATOR,       /* the rest: no retry, somebody must look */
};

enum db_class errmap_class(unsigned code, bool in_commit);
const char *errmap_name(enum db_class c); /* for metrics: "rolled_back" */

#endif
