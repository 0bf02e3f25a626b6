/* The migrations and grants, made from sql/ by the build. For src/db and its
 * tests; others use db/migrate.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_MIGRATION_TABLE_H
#define WAYBILL_MIGRATION_TABLE_H

#include "base/base.h"

struct migration {
	unsigned version; /* from 1, without a gap */
	const char *name;
	const char *const *steps;
	unsigned step_count;
};

extern const struct migration MIGRATIONS[];
extern const unsigned MIGRATION_COUNT;

/* With {service} or {ro} where an account belongs. */
extern const char *const GRANTS[];
extern const unsigned GRANT_COUNT;

#endif
