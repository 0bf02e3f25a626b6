/* A library we stand on: what we were built with and what runs now.
 *
 *	struct library l = digest_library();
 *	if (!library_fits(&l)) ...
 *
 * The file that owns a library's header tells (digest, inflate, client, doc,
 * fcgi, db/session): nobody else may include it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_LIBRARY_H
#define WAYBILL_LIBRARY_H

#include "base/sv.h"

struct library {
	const char *name;
	const char *built;   /* version of the header; "": it has none */
	const char *running; /* of what is loaded; "": cannot be asked */
};

/* The same first number, and not older. What does not tell fits. */
bool library_fits(const struct library *l);

#endif
