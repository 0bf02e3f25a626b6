/* waybill doctor: the checks, for the table in cmd_doctor.c.
 *
 * A check looks at one thing that can be set up wrong. DOCTOR_BAD: f says
 * what is wrong and how to mend it. It may write what it saw into p->found,
 * which is shown either way. DOCTOR_UNASKED: there is nothing to look at, and
 * p->found says what would have to be given.
 *
 * Checks change nothing, and run in the order of the table: the first two of
 * the database leave the sessions that the others use.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_DOCTOR_H
#define WAYBILL_DOCTOR_H

#include "main/cli.h"

enum doctor_verdict { DOCTOR_OK, DOCTOR_BAD, DOCTOR_UNASKED };

struct patient {
	struct cli *cli;
	struct db *service, *owner; /* NULL: could not be reached */
	struct db_table server;     /* its settings, once looked at */
	char found[256];            /* by the check under way */
};

typedef enum doctor_verdict doctor_check(struct patient *p, struct fail *f);

/* This host: doctor_host.c */
doctor_check doctor_conf, doctor_secrets, doctor_pepper, doctor_shared,
	doctor_descriptors, doctor_libraries, doctor_socket, doctor_tls;

/* The processes of this host: doctor_parents.c */
doctor_check doctor_parents;

/* The database: doctor_db.c */
doctor_check doctor_service, doctor_owner, doctor_schema, doctor_flush,
	doctor_binlog, doctor_doublewrite, doctor_packet, doctor_connections,
	doctor_writable, doctor_no_ddl, doctor_service_rights, doctor_ro_rights,
	doctor_foreign_rights, doctor_clock, doctor_partitions,
	doctor_retention, doctor_jobs;

static inline enum doctor_verdict doctor_says(bool ok)
{
	return ok ? DOCTOR_OK : DOCTOR_BAD;
}

#endif
