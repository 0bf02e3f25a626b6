/* Settings. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/text.h"

extern char **environ;

#define ENV_PREFIX "WAYBILL_CONF_"

enum { CONF_LINE_MAX = 4096 };

const struct conf_row CONF_ROWS[] = {
#define CONF_GROUP(title) {CONF_KIND_GROUP, title, "", "", "", "", 0},
#define CONF_STR(name, def, doc) \
	{CONF_KIND_STR, #name, def, "", "", doc, offsetof(struct conf, name)},
#define CONF_BOOL(name, def, doc) \
	{CONF_KIND_BOOL, #name, def, "", "", doc, offsetof(struct conf, name)},
#define CONF_NUM(name, def, min, max, doc) \
	{CONF_KIND_NUM, #name, def, min, max, doc, offsetof(struct conf, name)},
#define CONF_BYTES(name, def, min, max, doc) \
	{CONF_KIND_BYTES,                    \
	 #name,                              \
	 def,                                \
	 min,                                \
	 max,                                \
	 doc,                                \
	 offsetof(struct conf, name##_bytes)},
#define CONF_MS(name, def, min, max, doc) \
	{CONF_KIND_MS,                    \
	 #name,                           \
	 def,                             \
	 min,                             \
	 max,                             \
	 doc,                             \
	 offsetof(struct conf, name##_ms)},
#include "base/conf.def"
#undef CONF_GROUP
#undef CONF_STR
#undef CONF_BOOL
#undef CONF_NUM
#undef CONF_BYTES
#undef CONF_MS
};
const size_t CONF_ROW_COUNT = ARRAY_LEN(CONF_ROWS);

static const struct conf_row *row_find(struct sv name)
{
	for (size_t i = 0; i < CONF_ROW_COUNT; i++)
		if (CONF_ROWS[i].kind != CONF_KIND_GROUP &&
		    sv_eq(sv_of(CONF_ROWS[i].name), name))
			return &CONF_ROWS[i];
	return NULL;
}

static bool parse_number(enum conf_kind kind, struct sv s, uint64_t *v_r)
{
	switch (kind) {
	case CONF_KIND_NUM:
		return text_u64(s, 0, UINT64_MAX, v_r);
	case CONF_KIND_BYTES:
		return text_bytes(s, v_r);
	case CONF_KIND_MS:
		return text_duration_ms(s, v_r);
	case CONF_KIND_GROUP:
	case CONF_KIND_STR:
	case CONF_KIND_BOOL:
		break;
	}
	bug("a setting of kind %d is no number", (int)kind);
}

static bool set_number(void *field, const struct conf_row *row, struct sv value,
		       const char *where, struct fail *f)
{
	uint64_t v = 0, min = 0, max = 0;

	if (!parse_number(row->kind, sv_of(row->min), &min) ||
	    !parse_number(row->kind, sv_of(row->max), &max))
		bug("limits of setting %s", row->name);
	if (!parse_number(row->kind, value, &v) || v < min || v > max)
		return fail_set(f, FAIL_CONF,
				"%s: %s = %.*s: must be from %s to %s", where,
				row->name, SV_ARG(value), row->min, row->max);
	memcpy(field, &v, sizeof(v));
	return true;
}

static bool set(struct conf *c, struct arena *a, const struct conf_row *row,
		struct sv value, const char *where, struct fail *f)
{
	void *field = (char *)c + row->offset;
	const char *copy;
	bool b;

	switch (row->kind) {
	case CONF_KIND_STR:
		copy = arena_dup(a, value);
		memcpy(field, &copy, sizeof(copy));
		return true;
	case CONF_KIND_BOOL:
		if (!text_bool(value, &b))
			return fail_set(f, FAIL_CONF,
					"%s: %s must be true or false", where,
					row->name);
		memcpy(field, &b, sizeof(b));
		return true;
	case CONF_KIND_NUM:
	case CONF_KIND_BYTES:
	case CONF_KIND_MS:
		return set_number(field, row, value, where, f);
	case CONF_KIND_GROUP:
		break;
	}
	bug("setting %s has no kind", row->name);
}

static bool set_line(struct conf *c, struct arena *a, struct sv line,
		     const char *where, struct fail *f)
{
	const struct conf_row *row;
	struct sv value = line, name = sv_trim(sv_cut(&value, '='));

	if (name.n == line.n || !sv_has(line, '='))
		return fail_set(f, FAIL_CONF, "%s: not of the form key = value",
				where);
	row = row_find(name);
	if (!row)
		return fail_set(f, FAIL_CONF, "%s: unknown key \"%.*s\"", where,
				SV_ARG(name));
	return set(c, a, row, sv_trim(value), where, f);
}

static bool load_lines(struct conf *c, struct arena *a, FILE *file,
		       const char *path, struct fail *f)
{
	char text[CONF_LINE_MAX];

	for (unsigned no = 1; fgets(text, sizeof(text), file); no++) {
		char *where = arena_printf(a, "%s:%u", path, no);
		struct sv line = sv_of(text);

		if (line.n == sizeof(text) - 1)
			return fail_set(f, FAIL_CONF, "%s: line too long",
					where);
		while (line.n && (line.p[line.n - 1] == '\n' ||
				  line.p[line.n - 1] == '\r'))
			line.n--;
		line = sv_trim(line);
		if (line.n == 0 || line.p[0] == '#')
			continue;
		if (!set_line(c, a, line, where, f))
			return false;
	}
	if (ferror(file))
		return fail_errno(f, FAIL_CONF, "read", path);
	return true;
}

static bool load_file(struct conf *c, struct arena *a, const char *path,
		      struct fail *f)
{
	FILE *file = fopen(path, "re");
	bool ok;

	if (!file)
		return fail_errno(f, FAIL_CONF, "open", path);
	ok = load_lines(c, a, file, path, f);
	fclose(file);
	return ok;
}

static bool load_variable(struct conf *c, struct arena *a, struct sv entry,
			  struct fail *f)
{
	struct sv value = entry, name = sv_cut(&value, '=');
	char *where = arena_dup(a, name), *key;
	const struct conf_row *row;

	key = arena_dup(a, sv_tail(name, sizeof(ENV_PREFIX) - 1));
	for (char *p = key; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	row = row_find(sv_of(key));
	if (!row)
		return fail_set(f, FAIL_CONF, "environment: unknown key %s",
				where);
	return set(c, a, row, value, where, f);
}

static bool load_environment(struct conf *c, struct arena *a, struct fail *f)
{
	for (char **e = environ; *e; e++) {
		struct sv entry = sv_of(*e);

		if (sv_starts(entry, SV(ENV_PREFIX)) &&
		    !load_variable(c, a, entry, f))
			return false;
	}
	return true;
}

/* What one setting demands of another. */
static bool check_together(const struct conf *c, struct fail *f)
{
	if (c->db_idle_timeout_ms >= c->lease_ms)
		return fail_set(f, FAIL_CONF,
				"db_idle_timeout must be below lease: a dead "
				"owner's session must be gone before its "
				"lease is");
	if (c->db_lock_wait_ms >= c->db_io_timeout_ms)
		return fail_set(f, FAIL_CONF,
				"db_lock_wait must be below db_io_timeout");
	return true;
}

bool conf_load(struct conf *c, struct arena *a, const char *path,
	       struct fail *f)
{
	memset(c, 0, sizeof(*c));
	for (size_t i = 0; i < CONF_ROW_COUNT; i++)
		if (CONF_ROWS[i].kind != CONF_KIND_GROUP &&
		    !set(c, a, &CONF_ROWS[i], sv_of(CONF_ROWS[i].def),
			 "default", f))
			bug("default of setting %s", CONF_ROWS[i].name);
	return (!path || load_file(c, a, path, f)) &&
	       load_environment(c, a, f) && check_together(c, f);
}

const char *conf_secret_path(struct arena *a, const char *path)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");

	if (!*path || strchr(path, '/') || !dir || !*dir)
		return path;
	return arena_printf(a, "%s/%s", dir, path);
}

/* By read(2): stdio would keep a copy in a buffer of its own. */
static bool read_whole(const char *path, char *text, size_t size, size_t *n_r,
		       struct fail *f)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = 1;

	if (fd < 0)
		return fail_errno(f, FAIL_CONF, "open", path);
	*n_r = 0;
	while (got > 0 && *n_r < size) {
		got = read(fd, text + *n_r, size - *n_r);
		*n_r += got > 0 ? (size_t)got : 0;
	}
	if (got < 0)
		fail_errno(f, FAIL_CONF, "read", path);
	close(fd);
	return got >= 0;
}

bool conf_secret(struct arena *a, const char *path, struct sv *secret_r,
		 struct fail *f)
{
	char text[CONF_LINE_MAX];
	struct sv rest, line;
	size_t n = 0;

	*secret_r = SV("");
	if (!*path)
		return true;
	path = conf_secret_path(a, path);
	if (!read_whole(path, text, sizeof(text), &n, f)) {
		explicit_bzero(text, sizeof(text));
		return false;
	}
	rest = sv_from(text, n);
	line = sv_cut(&rest, '\n');
	if (line.n < sizeof(text))
		*secret_r = arena_sv(a, line);
	explicit_bzero(text, sizeof(text));
	if (!line.n || line.n == sizeof(text))
		return fail_set(f, FAIL_CONF, "%s is %s", path,
				line.n ? "too long" : "empty");
	return true;
}

void conf_secret_wipe(struct sv *secret)
{
	if (secret->n)
		explicit_bzero((void *)(uintptr_t)secret->p, secret->n);
	*secret = SV("");
}
