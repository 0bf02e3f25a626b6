/* Migrations: bringing the schema to what this program needs.
 *
 *	migrate_run(owner, &(struct migrate_report){say, arg}, f)
 *	migrate_status(db, &held, &wanted, f)	ready if they are equal
 *
 * Forward only. DDL is not transactional, so each step is recorded when it is
 * done, in schema_version.
 *
 * Guarantees:
 * 1. Killed at any point, the next run goes on at the right step and ends
 *    with the same schema. The one step that may have been done without being
 *    recorded may find its work done ("already exists"); no other may.
 * 2. Two at once: the second waits for the first, then finds nothing to do.
 *    The lock is a row lock of a second connection, gone with the process.
 * 3. A migration that was applied, or begun, with another text than this
 *    program's is refused, and so is a database that is ahead of the program
 *    (FAIL_MIGRATION); nothing is changed then.
 * 4. At the end of every run the accounts that conf names (db_service_account,
 *    db_ro_account; empty: none) may do what sql/grants.sql says, exactly:
 *    see db/grant.h.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_MIGRATE_H
#define WAYBILL_MIGRATE_H

#include "db/session.h"

struct migrate_report {
	void (*say)(void *arg, const char *what); /* a line for people */
	void *arg;
};

/* `owner`: a session of DB_OWNER, outside a transaction. It is disconnected
 * afterwards. */
MUST_CHECK bool migrate_run(struct db *owner, const struct migrate_report *r,
			    struct fail *f);

/* One SELECT, as any account, inside a transaction (then as its last
 * statement) or alone. No table yet, or no right to read it yet: 0. Also
 * reads the database's clock (db_clock_skew_ms). */
MUST_CHECK bool migrate_status(struct db *db, unsigned *held_r,
			       unsigned *wanted_r, struct fail *f);

#endif
