/* The audit trail: what an operator's command changed, written in the
 * transaction that changes it.
 *
 *	struct trail t;
 *	trail_init(&t, cli, &TRAIL_PARTNER, "partner.set", name);
 *
 *	in work(), which may run several times:
 *		if (!trail_look(&t, db, f))
 *			return DB_STEP_FAIL;
 *		if (!t.before.rows)
 *			return DB_STEP_ROLLBACK;	no such thing
 *		...the change...
 *		return trail_step(&t, db, f);
 *
 * trail_look() locks the subject, so that the old values are those that were
 * replaced; where there is nothing yet, it may be left out. trail_step() looks
 * again and compares: what differs becomes one row, and COMMIT; if nothing
 * does, nothing is written at all. A secret cannot get into it: what is
 * compared are the columns of the two statements audit_partner and
 * audit_credential.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_TRAIL_H
#define WAYBILL_TRAIL_H

#include "db/txn.h"
#include "main/cli.h"

/* Columns every subject begins with. */
enum { TRAIL_PARTNER_ID, TRAIL_SUBJECT, TRAIL_VALUES };

struct trail_subject {
	enum stmt look;           /* argument: what it is called */
	const char *const *names; /* of its columns; {} as in cli_table() */
};
extern const struct trail_subject TRAIL_PARTNER, TRAIL_CREDENTIAL;

struct trail {
	struct cli *cli;
	const struct trail_subject *subject;
	const char *action; /* "partner.set" */
	struct sv called;
	struct db_table before; /* no row: it was not there */
	bool changed;           /* by the last trail_step() */
};

void trail_init(struct trail *t, struct cli *cli,
		const struct trail_subject *subject, const char *action,
		struct sv called);
MUST_CHECK bool trail_look(struct trail *t, struct db *db, struct fail *f);
enum db_step trail_step(struct trail *t, struct db *db, struct fail *f);

#endif
