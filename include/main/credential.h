/* What the commands for keys and for certificates share.
 *
 *	struct credential c = {.cli = cli, .kind = &CREDENTIAL_KEY};
 *	if (!credential_options(&c, f)) ...	--scope --warehouse --expires
 *	...fill c.id and c.hash...
 *	if (!credential_add(&c, f)) ...		for the partner words[0]
 *
 * Every change is a row of the audit trail (main/trail.h), in the same
 * transaction.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_CREDENTIAL_H
#define WAYBILL_CREDENTIAL_H

#include "gate/auth.h"
#include "main/cli.h"

struct credential_kind {
	const char *kind;            /* in the database */
	const char *noun;            /* for people */
	const char *added, *revoked; /* actions of the audit trail */
	const char *column;          /* what its list shows of it */
};
extern const struct credential_kind CREDENTIAL_KEY, CREDENTIAL_CERT;

extern const struct cli_option CREDENTIAL_OPTIONS[];
#define CREDENTIAL_ARGUMENTS                               \
	"[--scope ingest,read,admin] [--warehouse W,...] " \
	"[--expires DAYS]"

struct credential {
	struct cli *cli;
	const struct credential_kind *kind;
	char id[AUTH_ID];
	uint8_t hash[DIGEST_BYTES];
	/* credential_options() */
	unsigned scopes;
	struct db_val warehouses, expires_days;
};

MUST_CHECK bool credential_options(struct credential *c, struct fail *f);
/* FAIL_NOT_FOUND: no such partner; FAIL_CONFLICT: its hash is there. */
MUST_CHECK bool credential_add(struct credential *c, struct fail *f);

/* Those of the partner words[0], or all. */
MUST_CHECK bool credential_list(struct cli *cli,
				const struct credential_kind *kind,
				struct fail *f);
/* The one called words[0], if it is of this kind. */
MUST_CHECK bool credential_revoke(struct cli *cli,
				  const struct credential_kind *kind,
				  struct fail *f);

#endif
