/* What the files of src/db share: the inside of a session. Nobody else
 * includes this, nor mysql.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_DB_PRIVATE_H
#define WAYBILL_DB_PRIVATE_H

#include "base/base.h"

#include <mysql.h>

#include "base/arena.h"
#include "base/buf.h"
#include "db/rows.h"
#include "db/stmt_table.h"
#include "db/txn.h"

enum db_state {
	DB_CLOSED, /* no connection */
	DB_IDLE,   /* connected, no transaction */
	DB_OPEN,   /* in a transaction: statements may run */
	DB_FAILED, /* in one that had an error: only its end may come */
};

/* How many rows or keys one text holds; a prepared statement each. */
enum { LADDER_STEPS = 4 };
extern const unsigned LADDER[LADDER_STEPS]; /* 1, 10, 100, 1000 */

struct db {
	const struct conf *conf;
	enum db_role role;
	struct arena arena; /* of the session: its password */
	struct sv password;
	MYSQL *my;
	enum db_state state;
	bool unusable;        /* close it at the end of the transaction */
	bool patient;         /* waits hours for an answer: migrations */
	bool no_array;        /* tests: use the ladder although arrays work */
	unsigned ran;         /* statements of this transaction */
	unsigned lock_wait_s; /* of the session, as it is now */
	unsigned last_code;
	enum db_class last_class;
	uint64_t used_ms; /* when the connection was last idle, monotonic */
	int64_t skew_ms;
	struct db_server server;
	struct arena scratch; /* of one statement */
	MYSQL_STMT *prepared[STMT_COUNT][LADDER_STEPS];
};

/* Files an error: class, state and *f. Returns false. */
bool db_fail(struct db *db, unsigned code, const char *said, const char *doing,
	     bool in_commit, struct fail *f);
/* Files a failure of ours that ends the transaction like an error does. */
bool db_refuse(struct db *db, enum fail_code code, const char *detail,
	       struct fail *f);

/* The database said that it is this late: skew. */
void db_clock_read(struct db *db, uint64_t server_ms);

/* Reconnect, then wait longer for answers: DDL takes its time. */
void db_be_patient(struct db *db, bool patient);

/* db.before.NAME, db.sent.NAME, db.after.NAME (base/fault.h). */
void db_fault(const char *when, enum stmt id);

/* A statement that is sent as text, by id or (migrations) by its text. */
MUST_CHECK bool db_run_text(struct db *db, enum stmt id, struct fail *f);
MUST_CHECK bool db_run_step(struct db *db, const char *text, struct fail *f);

/* The prepared statement of a step of the ladder. */
MUST_CHECK bool db_prepare(struct db *db, enum stmt id, unsigned step,
			   MYSQL_STMT **stmt_r, struct fail *f);
void db_bind(MYSQL_BIND *b, const struct db_val *v);
/* `array`: rows of an array-bound statement, 0 for a plain one. */
MUST_CHECK bool db_execute(struct db *db, enum stmt id, MYSQL_STMT *stmt,
			   MYSQL_BIND *binds, size_t array, uint64_t bytes,
			   struct fail *f);
MUST_CHECK bool db_fetch(struct db *db, enum stmt id, MYSQL_STMT *stmt,
			 struct arena *a, struct db_table *t_r, struct fail *f);
/* Bytes a value takes in a packet, at most. */
uint64_t db_val_bytes(const struct db_val *v);

/* A read in a transaction of its own. keys NULL: db_query. */
struct db_read {
	enum stmt id;
	struct db_args args;
	const struct db_val *keys;
	size_t count;
	struct arena *arena;
	struct db_table *table_r;
};
MUST_CHECK bool db_read_alone(struct db *db, struct db_read *r, struct fail *f);
static inline bool db_in_txn(const struct db *db)
{
	return db->state == DB_OPEN || db->state == DB_FAILED;
}

#endif
