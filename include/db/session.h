/* A session with the database: one a process, persistent, made after fork.
 *
 *	db_new(&db, conf, DB_SERVICE, f)	nothing is connected yet
 *	db_ready(db, f)				connected, checked, idle
 *	...statements (db/stmt.h), transactions (db/txn.h)...
 *	db_free(db)
 *
 * On every connect the session's settings are set and read back: READ
 * COMMITTED, autocommit off, utf8mb4, UTC, strict mode, lock wait,
 * wait_timeout. A server that does not flush at every commit is refused
 * unless conf says otherwise. The library's own reconnect is never used;
 * db_ready() replaces a connection that was lost while idle, which is safe
 * because no transaction was open. It costs no round trip, and db_txn() and a
 * lone db_query() call it themselves. A server that is away is tried anew at
 * every call: the first one after its return succeeds. The program ignores
 * SIGPIPE: over TLS, writing to a dead connection raises it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_SESSION_H
#define WAYBILL_SESSION_H

#include "base/conf.h"
#include "base/fail.h"
#include "base/library.h"
#include "db/errmap.h"

struct db;

enum db_role { DB_SERVICE, DB_OWNER };

MUST_CHECK bool db_new(struct db **db_r, const struct conf *c,
		       enum db_role role, struct fail *f);
void db_free(struct db *db);

/* Connected and usable. FAIL_DB_AWAY with retry_after_s when it is not. */
MUST_CHECK bool db_ready(struct db *db, struct fail *f);
void db_disconnect(struct db *db);

enum db_class db_last_class(const struct db *db);
unsigned db_last_code(const struct db *db);

/* The database's clock minus this host's, in ms, as of the last connect or
 * statement that read it. */
int64_t db_clock_skew_ms(const struct db *db);
uint64_t db_wall_ms(const struct db *db); /* our clock, corrected by it */

struct db_server {
	bool mariadb;
	unsigned version; /* 101106 for 10.11.6 */
	bool array_bind;  /* server and client library can bind arrays */
	uint64_t max_packet_bytes;
	char text[64];
};
const struct db_server *db_server(const struct db *db);

/* How long the next statements of this transaction wait for a row lock, in
 * whole seconds; 0 (not at all) only MariaDB knows, MySQL waits 1. Costs
 * nothing if that is so already. Every transaction begins with conf's
 * db_lock_wait. */
MUST_CHECK bool db_lock_wait(struct db *db, unsigned seconds, struct fail *f);
unsigned db_lock_wait_default_s(const struct db *db);

/* The server's number of this connection; a new one after each connect. */
uint32_t db_connection_id(const struct db *db);

struct library db_library(void); /* the client library */

/* Tests: send many rows by the ladder although arrays work (db/rows.h). */
void db_ladder_for_test(struct db *db, bool ladder);

#endif
