/* Grants: what the accounts that do not own the schema may do in it, exactly
 * as sql/grants.sql lists it.
 *
 *	grant_run(owner, f)		after a migration, by migrate_run()
 *	grant_look(owner, GRANT_TO_RO, &arena, &diff, f)	for doctor
 *
 * The accounts are those that conf names (db_service_account, db_ro_account);
 * an empty one is left out. Both calls need to read three tables of the
 * server's own (sql/accounts.sql lets the owner do so).
 *
 * Guarantees of grant_run():
 * 1. Everything listed is granted before anything is taken back, so that a
 *    service that runs has at every moment what it needs; and since REVOKE of
 *    a right on a table takes that right on its columns along, what is listed
 *    is granted again at once after something was taken back.
 * 2. Only rights that are held and not listed are taken back: a second run
 *    takes back nothing. Killed anywhere, the next run ends the same.
 * 3. After true, the server itself says that each account, by just that user
 *    and host, was granted what is listed and nothing else on tables, columns
 *    and schemas. Rights the owner may not take back (of other schemas'
 *    patterns) are FAIL_MIGRATION, with the statement that an administrator
 *    has to run.
 *
 * Not seen here: rights outside this schema (doctor looks at them as the
 * service), and what reaches an account by other ways: roles, PUBLIC, another
 * host pattern of the same user, EXECUTE on somebody's procedures.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_GRANT_H
#define WAYBILL_GRANT_H

#include "base/buf.h"
#include "db/session.h"

enum grant_to { GRANT_TO_SERVICE, GRANT_TO_RO, GRANT_ACCOUNTS };

/* A right, as SQL spells it. Without a table it is of the whole schema, and
 * `schema` is the name (or pattern) it was granted for. */
struct grant_right {
	struct sv privilege, table, column, schema;
};

struct grant_diff {
	const char *account; /* "" : conf names none, and nothing differs */
	const struct grant_right *missing, *excess;
	size_t missing_count, excess_count;
};

/* `owner`: a session of DB_OWNER, outside a transaction. */
MUST_CHECK bool grant_run(struct db *owner, struct fail *f);
MUST_CHECK bool grant_look(struct db *owner, enum grant_to to, struct arena *a,
			   struct grant_diff *diff_r, struct fail *f);

/* "DELETE ON item", "UPDATE (scopes) ON credential", "ALL PRIVILEGES ON the
 * schema": for people. */
void grant_text(struct buf *b, const struct grant_right *r);

/* user@host as SQL has it: 'user'@'host'. FAIL_CONF if it holds anything but
 * letters, digits, `_.-` and in the host also `%:`. */
MUST_CHECK bool grant_account(struct buf *b, const char *setting,
			      const char *account, struct fail *f);

#endif
