/* Settings: one file of `key = value` lines, each key overridable by
 * WAYBILL_CONF_KEY in the environment. The table is conf.def.
 *
 *	struct conf c;
 *	if (!conf_load(&c, &arena, path, f)) exit(fail_info(f->code)->exit...);
 *
 * An unknown key or a bad value is refused with file and line (or the name
 * of the variable). Strings live in the arena. Secrets are never settings:
 * they stand in files that settings name, read by conf_secret().
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_CONF_H
#define WAYBILL_CONF_H

#include "base/arena.h"
#include "base/fail.h"

struct conf {
#define CONF_GROUP(title)
#define CONF_STR(name, def, doc)             const char *name;
#define CONF_BOOL(name, def, doc)            bool name;
#define CONF_NUM(name, def, min, max, doc)   uint64_t name;
#define CONF_BYTES(name, def, min, max, doc) uint64_t name##_bytes;
#define CONF_MS(name, def, min, max, doc)    uint64_t name##_ms;
#include "base/conf.def"
#undef CONF_GROUP
#undef CONF_STR
#undef CONF_BOOL
#undef CONF_NUM
#undef CONF_BYTES
#undef CONF_MS
};

enum conf_kind {
	CONF_KIND_GROUP,
	CONF_KIND_STR,
	CONF_KIND_BOOL,
	CONF_KIND_NUM,
	CONF_KIND_BYTES,
	CONF_KIND_MS
};

/* A row of the table; for a group, `name` is its title. */
struct conf_row {
	enum conf_kind kind;
	const char *name, *def, *min, *max, *doc;
	size_t offset; /* of the field in struct conf */
};
extern const struct conf_row CONF_ROWS[];
extern const size_t CONF_ROW_COUNT;

/* path NULL: defaults and environment only. */
MUST_CHECK bool conf_load(struct conf *c, struct arena *a, const char *path,
			  struct fail *f);

/* The first line of a file, into the arena; "" for an empty path. The caller
 * wipes it when it is done. */
MUST_CHECK bool conf_secret(struct arena *a, const char *path,
			    struct sv *secret_r, struct fail *f);
void conf_secret_wipe(struct sv *secret);

/* Where that is: a name without a slash is one of the service manager's
 * credentials, if it gave us any ($CREDENTIALS_DIRECTORY). */
const char *conf_secret_path(struct arena *a, const char *path);

#endif
