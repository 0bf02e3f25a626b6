/* What waybill doctor looks at on this host. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/doctor.h"

#include <fcntl.h>
#include <libgen.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "gate/auth.h"
#include "wire/client.h"
#include "wire/doc.h"
#include "wire/fcgi.h"
#include "wire/inflate.h"

enum {
	DESCRIPTORS_MIN = 1024,
	CERTIFICATE_DAYS_MIN = 30,
	DAY_MS = 86400000,
	PRIVATE = 077,    /* bits that others must not have: none at all */
	UNWRITABLE = 022, /* or only none to write */
};

static void note(struct patient *p, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Adds to what was found. */
static void note(struct patient *p, const char *fmt, ...)
{
	size_t n = strlen(p->found);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->found + n, sizeof(p->found) - n, fmt, ap);
	va_end(ap);
}

/* Whoever may write the folder may put another file in its place; the sticky
 * bit forbids that. */
static bool folder_ok(const char *path, struct fail *f)
{
	char copy[PATH_MAX];
	struct stat st;
	char *folder;

	snprintf(copy, sizeof(copy), "%s", path);
	folder = dirname(copy);
	if (stat(folder, &st) != 0)
		return fail_errno(f, FAIL_CONF, "look at", folder);
	if ((st.st_mode & UNWRITABLE) && !(st.st_mode & S_ISVTX))
		return fail_set(f, FAIL_CONF,
				"others may replace files in %s: chmod go-w it",
				folder);
	return true;
}

/* A file of ours (or root's) that others have none of these `bits` on. */
static bool file_ok(const char *path, mode_t bits, struct fail *f)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return fail_errno(f, FAIL_CONF, "look at", path);
	if (!S_ISREG(st.st_mode))
		return fail_set(f, FAIL_CONF, "%s is no plain file", path);
	if (st.st_mode & bits)
		return fail_set(f, FAIL_CONF,
				"%s has mode %03o, others can %s it: chmod %s "
				"it",
				path, (unsigned)st.st_mode & 0777,
				bits == PRIVATE ? "read" : "change",
				bits == PRIVATE ? "600" : "go-w");
	if (st.st_uid != 0 && geteuid() != 0 && st.st_uid != geteuid())
		return fail_set(f, FAIL_CONF,
				"%s belongs to user %u: chown it to the user "
				"of the service, or to root",
				path, (unsigned)st.st_uid);
	return folder_ok(path, f);
}

enum doctor_verdict doctor_conf(struct patient *p, struct fail *f)
{
	if (!p->cli->conf_path) {
		note(p, "no file: neither --conf nor WAYBILL_CONF");
		return DOCTOR_UNASKED;
	}
	note(p, "%s", p->cli->conf_path);
	return doctor_says(file_ok(p->cli->conf_path, UNWRITABLE, f));
}

static bool ends(const char *name, const char *with)
{
	size_t n = strlen(name), m = strlen(with);

	return n >= m && strcmp(name + n - m, with) == 0;
}

/* Settings that name a file are called so; those of secrets say of what. */
static bool is_secret(const struct conf_row *row)
{
	return ends(row->name, "password_file") ||
	       ends(row->name, "pepper_file");
}

static const char *file_of(const struct conf *c, const struct conf_row *row)
{
	const char *path;

	if (row->kind != CONF_KIND_STR || !ends(row->name, "_file"))
		return "";
	memcpy(&path, (const char *)c + row->offset, sizeof(path));
	return path;
}

enum doctor_verdict doctor_secrets(struct patient *p, struct fail *f)
{
	unsigned count = 0;

	for (size_t i = 0; i < CONF_ROW_COUNT; i++) {
		const char *path = file_of(&p->cli->conf, &CONF_ROWS[i]);

		if (!*path || !is_secret(&CONF_ROWS[i]))
			continue;
		path = conf_secret_path(&p->cli->arena, path);
		if (!file_ok(path, PRIVATE, f))
			return DOCTOR_BAD;
		count++;
	}
	note(p, "%u files", count);
	return DOCTOR_OK;
}

enum doctor_verdict doctor_pepper(struct patient *p, struct fail *f)
{
	struct auth *auth;

	if (!auth_new(&auth, &p->cli->conf, f))
		return DOCTOR_BAD;
	auth_free(auth);
	return DOCTOR_OK;
}

/* One that is not there yet is made by the first program that starts. */
static bool shared_ok(const char *path, struct fail *f)
{
	int fd;

	if (access(path, F_OK) != 0)
		return folder_ok(path, f);
	if (!file_ok(path, PRIVATE, f))
		return false;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return fail_errno(f, FAIL_CONF, "write", path);
	close(fd);
	return true;
}

enum doctor_verdict doctor_shared(struct patient *p, struct fail *f)
{
	for (size_t i = 0; i < CONF_ROW_COUNT; i++) {
		const char *path = file_of(&p->cli->conf, &CONF_ROWS[i]);

		if (is_secret(&CONF_ROWS[i]))
			continue;
		if (*path && !shared_ok(path, f))
			return DOCTOR_BAD;
		if (*path)
			note(p, "%s%s", *p->found ? ", " : "",
			     CONF_ROWS[i].name);
	}
	return DOCTOR_OK;
}

enum doctor_verdict doctor_descriptors(struct patient *p, struct fail *f)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return doctor_says(
			fail_errno(f, FAIL_SYSTEM, "ask for", "RLIMIT_NOFILE"));
	note(p, "%llu", (unsigned long long)limit.rlim_cur);
	if (limit.rlim_cur < DESCRIPTORS_MIN)
		return doctor_says(fail_set(
			f, FAIL_CONF,
			"a process may open %llu files, want %d: raise it "
			"(ulimit -n, LimitNOFILE= of systemd, minfds of "
			"supervisord)",
			(unsigned long long)limit.rlim_cur, DESCRIPTORS_MIN));
	return DOCTOR_OK;
}

enum doctor_verdict doctor_libraries(struct patient *p, struct fail *f)
{
	const struct library all[] = {db_library(),      digest_library(),
				      inflate_library(), client_library(),
				      doc_library(),     fcgi_library()};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		const struct library *l = &all[i];

		note(p, "%s%s %s", i ? ", " : "", l->name,
		     *l->running ? l->running : l->built);
		if (library_fits(l))
			continue;
		return doctor_says(fail_set(
			f, FAIL_CONF,
			"%s is %s, but was %s when this was built: build "
			"Waybill anew on this machine, or install that "
			"version",
			l->name, l->running, l->built));
	}
	return DOCTOR_OK;
}

static bool connect_to(const char *path, struct fail *f)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd;
	bool ok;

	if (strlen(path) >= sizeof(to.sun_path))
		return fail_set(f, FAIL_USAGE,
				"--socket: the path is too long");
	memcpy(to.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ok = fd >= 0 &&
	     connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0;
	if (!ok)
		fail_errno(f, FAIL_CONF, "connect to", path);
	if (fd >= 0)
		close(fd);
	return ok;
}

enum doctor_verdict doctor_socket(struct patient *p, struct fail *f)
{
	const char *path =
		arena_dup(&p->cli->arena, cli_value(p->cli, "--socket"));
	struct stat st;

	if (!*path) {
		note(p, "give --socket PATH");
		return DOCTOR_UNASKED;
	}
	if (stat(path, &st) != 0)
		return doctor_says(fail_errno(f, FAIL_CONF, "look at", path));
	note(p, "mode %03o", (unsigned)st.st_mode & 0777);
	if (!S_ISSOCK(st.st_mode))
		return doctor_says(
			fail_set(f, FAIL_CONF, "%s is no socket", path));
	if (st.st_mode & 07)
		return doctor_says(fail_set(
			f, FAIL_CONF,
			"everybody on this host may speak to %s, past nginx: "
			"make it 0660 with nginx's group (socket_mode of "
			"supervisord, SocketMode= of systemd)",
			path));
	return doctor_says(connect_to(path, f));
}

static bool judge_probe(struct patient *p, const struct client_probe *probe,
			struct fail *f)
{
	uint64_t now_ms = clock_wall_ms();
	uint64_t days = probe->expires_ms > now_ms
				? (probe->expires_ms - now_ms) / DAY_MS
				: 0;

	if (!probe->expires_ms)
		return fail_set(f, FAIL_CONF,
				"libcurl does not tell until when the "
				"certificate is valid: look with openssl "
				"s_client");
	note(p, "valid for %llu days", (unsigned long long)days);
	if (days < CERTIFICATE_DAYS_MIN)
		return fail_set(f, FAIL_CONF,
				"the certificate ends in %llu days: renew it, "
				"and reload nginx",
				(unsigned long long)days);
	if (probe->status != 200)
		return fail_set(f, FAIL_CONF,
				"/healthz answers %d there, want 200: is that "
				"Waybill, and do its workers run?",
				probe->status);
	return true;
}

/* As a partner sees it: the name, the chain, how long still. */
enum doctor_verdict doctor_tls(struct patient *p, struct fail *f)
{
	struct arena *a = &p->cli->arena;
	const char *url = arena_dup(a, cli_value(p->cli, "--url"));
	const char *ca = cli_given(p->cli, "--ca")
				 ? arena_dup(a, cli_value(p->cli, "--ca"))
				 : NULL;
	struct client_probe probe;

	if (!*url) {
		note(p, "give --url https://HOST");
		return DOCTOR_UNASKED;
	}
	return doctor_says(client_probe(url, ca, "/healthz", &probe, f) &&
			   judge_probe(p, &probe, f));
}
