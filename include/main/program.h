/* What the long-running programs do alike when they start and fail to.
 *
 *	if (!program_load("waybill-fcgi", path, &arena, &conf, &f))
 *		return program_failed("waybill-fcgi", &f);
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_PROGRAM_H
#define WAYBILL_PROGRAM_H

#include "base/conf.h"

/* Settings, log and counters. `path` NULL: $WAYBILL_CONF, and without that
 * the defaults. Calls program_keep_secrets(). */
MUST_CHECK bool program_load(const char *name, const char *path,
			     struct arena *a, struct conf *c, struct fail *f);

/* Keeps secrets out of core files and from other processes of the same user,
 * unless conf says otherwise. For every program, before it reads a secret. */
void program_keep_secrets(const struct conf *c);

/* A sentence to stderr; returns the exit status. */
int program_failed(const char *name, const struct fail *f);

#endif
