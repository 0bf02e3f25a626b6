/* Statements: named in sql/statements/, prepared once a connection.
 *
 *	struct db_table t;
 *	if (!db_query(db, STMT_CREDENTIAL_FIND,
 *		      DB_ARGS(db_text(key_id)), &arena, &t, f))
 *		return false;
 *	if (t.rows)
 *		hash = db_cell(&t, 0, 2)->bytes;
 *
 *	if (!db_exec(db, STMT_PARTNER_ADD, DB_ARGS(db_text(name)), &n, f))
 *
 * A statement that fails sets db_last_class(); after that nothing more may
 * run in its transaction (db_exec and db_query then refuse: bug()). 1062 is
 * such an end too (DB_DUPLICATE, FAIL_CONFLICT): the work returns
 * DB_STEP_ROLLBACK if that is its answer.
 *
 * Writes are done inside db_txn() alone (db/txn.h). A read may stand alone:
 * outside db_txn(), db_query() and db_keys_query() run in a transaction of
 * their own that is rolled back at once, so that none is left open, and that
 * is run again if the connection was lost. Several reads that belong
 * together, or whose results decide a write, go into one db_txn().
 *
 * Fault points: db.before.NAME and db.after.NAME around every statement;
 * for NAME commit and rollback also db.sent.NAME, between the sending and
 * the answer.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_STMT_H
#define WAYBILL_STMT_H

#include "base/ids.h"
#include "db/session.h"
#include "stmt_ids.h" /* generated: enum stmt { STMT_..., STMT_COUNT } */

enum db_kind { DB_NULL, DB_INT, DB_UINT, DB_BYTES };

struct db_val {
	enum db_kind kind;
	union {
		int64_t i;
		uint64_t u;
		struct sv bytes;
	};
};

struct db_val db_null(void);
struct db_val db_int(int64_t v);
struct db_val db_uint(uint64_t v);
struct db_val db_text(struct sv s);       /* text or binary, as the column is */
struct db_val db_id(const struct id *id); /* its 16 bytes; not copied */

struct db_args {
	const struct db_val *v;
	size_t n;
};
#define DB_ARGS(...)                                                     \
	((struct db_args){(const struct db_val[]){__VA_ARGS__},          \
			  sizeof((const struct db_val[]){__VA_ARGS__}) / \
				  sizeof(struct db_val)})
#define DB_NO_ARGS ((struct db_args){NULL, 0})

/* A result, whole, in an arena. Integers come as DB_INT or DB_UINT, as the
 * column is; one that is not negative may be read as .u or .i alike. */
struct db_table {
	size_t rows, cols;
	struct db_val *cells;
};
const struct db_val *db_cell(const struct db_table *t, size_t row, size_t col);

MUST_CHECK bool db_exec(struct db *db, enum stmt id, struct db_args args,
			uint64_t *affected_r, struct fail *f);
MUST_CHECK bool db_query(struct db *db, enum stmt id, struct db_args args,
			 struct arena *a, struct db_table *t_r, struct fail *f);

/* Prepare every statement this server should know: for doctor and tests. */
MUST_CHECK bool db_prepare_all(struct db *db, struct fail *f);

#endif
