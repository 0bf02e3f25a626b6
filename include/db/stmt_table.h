/* The table of statements, made from sql/statements/ by the build. Its texts
 * are for src/db alone; others may read names and sources (doctor, tests). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_STMT_TABLE_H
#define WAYBILL_STMT_TABLE_H

#include "base/base.h"
#include "stmt_ids.h"

enum stmt_shape {
	STMT_PLAIN,
	STMT_ROWS, /* has {row}: db_rows_exec() */
	STMT_LIST, /* has {list}: db_keys_query() */
	STMT_DAYS, /* has {days}: partition_run() */
};

enum stmt_on { STMT_ON_ALL, STMT_ON_MARIADB, STMT_ON_MYSQL };

struct stmt_def {
	const char *name, *source, *text;
	enum stmt_shape shape;
	const char *row;         /* template of {row} or of a day, or NULL */
	unsigned args, row_args; /* `?` in the text, in the template */
	enum stmt_on on;
	bool as_text; /* sent as text: cannot be prepared */
};

extern const struct stmt_def STMT_TABLE[STMT_COUNT];

#endif
