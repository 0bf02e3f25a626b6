/* A database of a test's own, on the server of WAYBILL_TEST_DB_SOCKET (unix
 * socket; root needs no password).
 *
 *	struct world w;
 *	if (!world_exists())
 *		return;				skipped, and says why
 *	world_open(&w);				an empty schema
 *	world_migrate(&w);			with our tables, if wanted
 *	...db_txn(w.db, ...); WANT_SQL(&w, "1", "SELECT ...");
 *	world_close(&w);
 *
 * w.conf leads to it and may be changed before the first connect: a short
 * lock wait, root for both roles, no accounts to grant anything to.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_WORLD_H
#define WAYBILL_WORLD_H

#include "unit.h"
#include "base/arena.h"
#include "base/conf.h"
#include "db/txn.h"

struct world {
	struct arena arena;
	struct conf conf;
	struct db *db; /* a session of the service */
	char schema[32];
};

bool world_exists(void);
void world_open(struct world *w);
void world_open_at(struct world *w, const char *socket);
void world_close(struct world *w);

void world_new_schema(struct world *w); /* empty again */
void world_migrate(struct world *w);
struct db *world_db(struct world *w, enum db_role role);

/* Runs SQL by the command-line client, as root or another; gives what it
 * prints, errors too, until the next call. */
struct sv world_sql(const struct world *w, const char *fmt, ...)
	PRINTF_LIKE(2, 3);
struct sv world_sql_by(const struct world *w, const char *user, const char *fmt,
		       ...) PRINTF_LIKE(3, 4);

/* Runs fn in a child (`quiet`: without its stderr); its wait status. */
int world_child(int (*fn)(struct world *), struct world *w, bool quiet);

#define WANT_SQL(w, want, ...) WANT_SV(world_sql(w, __VA_ARGS__), SV(want))

/* A call that must succeed; if not, prints why. */
#define WANT_DONE(call, f)                       \
	do {                                     \
		WANT(call);                      \
		if ((f)->code)                   \
			WANT_FAIL(f, FAIL_NONE); \
	} while (0)

#endif
