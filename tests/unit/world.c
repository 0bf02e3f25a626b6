/* A database of a test's own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "db/migrate.h"

bool world_exists(void)
{
	if (getenv("WAYBILL_TEST_DB_SOCKET"))
		return true;
	unit_skip("WAYBILL_TEST_DB_SOCKET is not set");
	return false;
}

static char sql_out[65536];

static struct sv sql_as(const struct world *w, const char *user,
			const char *fmt, va_list ap)
{
	char text[4096];
	size_t n;
	FILE *p;

	vsnprintf(text, sizeof(text), fmt, ap);
	setenv("T_SOCKET", w->conf.db_socket, 1);
	setenv("T_USER", user, 1);
	setenv("T_SCHEMA", w->schema, 1);
	setenv("T_SQL", text, 1);
	p = popen("mariadb --no-defaults --socket=\"$T_SOCKET\" "
		  "--user=\"$T_USER\" -N -B $T_SCHEMA -e \"$T_SQL\" 2>&1",
		  "r");
	if (!p)
		bug("popen");
	n = fread(sql_out, 1, sizeof(sql_out) - 1, p);
	pclose(p);
	while (n && sql_out[n - 1] == '\n')
		n--;
	return sv_from(sql_out, n);
}

struct sv world_sql(const struct world *w, const char *fmt, ...)
{
	struct sv out;
	va_list ap;

	va_start(ap, fmt);
	out = sql_as(w, "root", fmt, ap);
	va_end(ap);
	return out;
}

struct sv world_sql_by(const struct world *w, const char *user, const char *fmt,
		       ...)
{
	struct sv out;
	va_list ap;

	va_start(ap, fmt);
	out = sql_as(w, user, fmt, ap);
	va_end(ap);
	return out;
}

void world_new_schema(struct world *w)
{
	char name[sizeof(w->schema)];

	memcpy(name, w->schema, sizeof(name));
	w->schema[0] = '\0';
	WANT_SQL(w, "", "DROP DATABASE IF EXISTS %s; CREATE DATABASE %s", name,
		 name);
	memcpy(w->schema, name, sizeof(name));
}

struct db *world_db(struct world *w, enum db_role role)
{
	struct fail f = FAIL_INIT;
	struct db *db = NULL;

	if (!db_new(&db, &w->conf, role, &f))
		bug("db_new: %s", f.detail);
	return db;
}

void world_migrate(struct world *w)
{
	struct fail f = FAIL_INIT;
	struct db *owner = world_db(w, DB_OWNER);

	WANT_DONE(migrate_run(owner, NULL, &f), &f);
	db_free(owner);
}

/* With the table of tests/statements/db.sql. */
void world_open_at(struct world *w, const char *socket)
{
	struct fail f = FAIL_INIT;

	memset(w, 0, sizeof(*w));
	arena_init(&w->arena, 4096);
	if (!conf_load(&w->conf, &w->arena, NULL, &f))
		bug("conf_load: %s", f.detail);
	snprintf(w->schema, sizeof(w->schema), "wbt_%d", (int)getpid());
	w->conf.db_socket = arena_dup(&w->arena, sv_of(socket));
	w->conf.db_name = w->schema;
	w->conf.db_user = "root";
	w->conf.db_owner_user = "root";
	w->conf.db_service_account = "";
	w->conf.db_ro_account = "";
	w->conf.db_lock_wait_ms = 1000;
	world_new_schema(w);
	WANT_SQL(w, "",
		 "CREATE TABLE t_thing (k VARBINARY(64) PRIMARY KEY, "
		 "v BIGINT NULL, w LONGBLOB NULL)");
	w->db = world_db(w, DB_SERVICE);
}

void world_open(struct world *w)
{
	world_open_at(w, getenv("WAYBILL_TEST_DB_SOCKET"));
}

void world_close(struct world *w)
{
	db_free(w->db);
	world_sql(w, "DROP DATABASE %s", w->schema);
	arena_release(&w->arena);
}

int world_child(int (*fn)(struct world *), struct world *w, bool quiet)
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		bug("fork");
	if (pid == 0) {
		if (quiet && !freopen("/dev/null", "w", stderr))
			_exit(99);
		_exit(fn(w));
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			bug("waitpid");
	return status;
}
