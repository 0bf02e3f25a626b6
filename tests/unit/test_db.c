/* db: errors, sessions, statements, transactions, many rows, migrations and
 * accounts, on a real server. WAYBILL_TEST_DB_SOCKET names its socket, where
 * root needs no password; each test has a schema of its own on it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/metric.h"
#include "base/text.h"
#include "db/migrate.h"
#include "db/migration_table.h"
#include "db/rows.h"
#include "db/stmt_table.h"
#include "db/txn.h"

static const struct {
	unsigned code;
	enum db_class c, at_commit;
} ERRORS[] = {
	{0, DB_OK, DB_OK},
	{1213, DB_ROLLED_BACK, DB_ROLLED_BACK},
	{1020, DB_ROLLED_BACK, DB_ROLLED_BACK},
	{3101, DB_ROLLED_BACK, DB_ROLLED_BACK},
	{1205, DB_LOCK_WAIT, DB_COMMIT_UNKNOWN},
	{1317, DB_STATEMENT, DB_COMMIT_UNKNOWN},
	{1969, DB_STATEMENT, DB_COMMIT_UNKNOWN},
	{3024, DB_STATEMENT, DB_COMMIT_UNKNOWN},
	{1040, DB_NOT_EXECUTED, DB_NOT_EXECUTED},
	{1203, DB_NOT_EXECUTED, DB_NOT_EXECUTED},
	{2002, DB_NOT_EXECUTED, DB_NOT_EXECUTED},
	{2003, DB_NOT_EXECUTED, DB_NOT_EXECUTED},
	{1047, DB_NOT_EXECUTED, DB_NOT_EXECUTED},
	{1290, DB_NOT_EXECUTED, DB_NOT_EXECUTED},
	{1836, DB_NOT_EXECUTED, DB_NOT_EXECUTED},
	{2006, DB_LOST, DB_COMMIT_UNKNOWN},
	{2013, DB_LOST, DB_COMMIT_UNKNOWN},
	{2055, DB_LOST, DB_COMMIT_UNKNOWN},
	{4031, DB_LOST, DB_COMMIT_UNKNOWN},
	{1927, DB_LOST, DB_COMMIT_UNKNOWN},
	{1053, DB_LOST, DB_COMMIT_UNKNOWN},
	{1180, DB_OPERATOR, DB_COMMIT_UNKNOWN},
	{1062, DB_DUPLICATE, DB_COMMIT_UNKNOWN},
	{1146, DB_OPERATOR, DB_COMMIT_UNKNOWN},
	{1064, DB_OPERATOR, DB_COMMIT_UNKNOWN},
};

static void every_error_has_the_class_of_the_design(void)
{
	for (size_t i = 0; i < ARRAY_LEN(ERRORS); i++) {
		WANT_U64(errmap_class(ERRORS[i].code, false), ERRORS[i].c);
		WANT_U64(errmap_class(ERRORS[i].code, true),
			 ERRORS[i].at_commit);
	}
}

static const char *const BAD_STATEMENTS[] = {
	"-- name: a\nSELECT 1;\n", /* no rows comment */
	"-- name: a\n-- rows: x\nSELECT * FROM t;\n",
	"-- name: a\n-- rows: x\nSELECT t.* FROM t;\n",
	"-- name: a\n-- rows: x\nSELECT 'pasted value';\n",
	"-- name: a\n-- rows: x\nSELECT \"V\";\n",
	"-- name: a\n-- rows: x\nSELECT 1; SELECT 2;\n",
	"-- name: a\n-- rows: x\nSELECT 1\n", /* no end */
	"-- name: a\n-- rows: x\nSELECT 1;\n-- name: a\n-- rows: x\nDO 1;\n",
	"-- name: A-b\n-- rows: x\nSELECT 1;\n",
	"-- name: a\n-- rows: x\nINSERT INTO t VALUES {row};\n",
	"-- name: a\n-- rows: x\n-- row: (?)\nINSERT INTO t VALUES (?);\n",
	"-- name: a\n-- rows: x\n-- row: (?)\nINSERT INTO t VALUES {row}, "
	"(?);\n",
	"-- name: a\n-- rows: x\nSELECT 1 WHERE 1 IN ({list}) AND 2 = ?;\n",
	"-- name: a\n-- rows: x\n-- protocol: text\nSELECT ?;\n",
	"SELECT 1;\n",
};

/* Runs build-aux/statements.awk over a text. */
static bool generator_takes(const char *text)
{
	FILE *p = popen("awk -v want=table -f '" TESTS_DIR
			"/../build-aux/statements.awk' - >/dev/null 2>&1",
			"w");

	if (!p)
		bug("popen");
	fputs(text, p);
	return pclose(p) == 0;
}

static void the_generator_refuses_what_could_hide_a_mistake(void)
{
	WANT(generator_takes("-- name: a\n-- rows: x\nSELECT 'WORD', ?;\n"));
	for (size_t i = 0; i < ARRAY_LEN(BAD_STATEMENTS); i++) {
		bool taken = generator_takes(BAD_STATEMENTS[i]);

		if (taken)
			printf("taken: %s", BAD_STATEMENTS[i]);
		WANT(!taken);
	}
}

static void an_account_that_is_no_plain_name_is_refused(void)
{
	static const char *const BAD[] = {
		"",
		"waybill",
		"@localhost",
		"a@",
		"a'@localhost",
		"a@local'host",
		"a b@localhost",
		"a@b@c",
		"a\\@b",
		"a`@b",
	};
	struct fail f = FAIL_INIT;
	struct buf b;

	buf_init(&b, 256);
	WANT(migrate_account(&b, "x", "way.bill-1_@10.0.0.%", &f));
	WANT_SV(buf_sv(&b), SV("'way.bill-1_'@'10.0.0.%'"));
	for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
		WANT(!migrate_account(&b, "x", BAD[i], &f));
		WANT_FAIL(&f, FAIL_CONF);
	}
	buf_release(&b);
}

/* A schema, settings that lead to it, and a session as root. */
struct world {
	struct arena arena;
	struct conf conf;
	struct db *db;
	char schema[32];
};

static bool have_server(void)
{
	if (getenv("WAYBILL_TEST_DB_SOCKET"))
		return true;
	unit_skip("WAYBILL_TEST_DB_SOCKET is not set");
	return false;
}

static char sql_out[65536];

/* Runs SQL with the command-line client; what it prints, errors too. */
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

static struct sv sql(const struct world *w, const char *fmt, ...)
	PRINTF_LIKE(2, 3);
static struct sv sql(const struct world *w, const char *fmt, ...)
{
	struct sv out;
	va_list ap;

	va_start(ap, fmt);
	out = sql_as(w, "root", fmt, ap);
	va_end(ap);
	return out;
}

static struct sv sql_by(const struct world *w, const char *user,
			const char *fmt, ...) PRINTF_LIKE(3, 4);
static struct sv sql_by(const struct world *w, const char *user,
			const char *fmt, ...)
{
	struct sv out;
	va_list ap;

	va_start(ap, fmt);
	out = sql_as(w, user, fmt, ap);
	va_end(ap);
	return out;
}

#define WANT_SQL(w, want, ...) WANT_SV(sql(w, __VA_ARGS__), SV(want))
#define WANT_DONE(call, f)                       \
	do {                                     \
		WANT(call);                      \
		if ((f)->code)                   \
			WANT_FAIL(f, FAIL_NONE); \
	} while (0)

static void new_schema(struct world *w)
{
	char name[sizeof(w->schema)];

	memcpy(name, w->schema, sizeof(name));
	w->schema[0] = '\0';
	WANT_SQL(w, "", "DROP DATABASE IF EXISTS %s; CREATE DATABASE %s", name,
		 name);
	memcpy(w->schema, name, sizeof(name));
}

static struct db *new_db(struct world *w, enum db_role role)
{
	struct fail f = FAIL_INIT;
	struct db *db = NULL;

	if (!db_new(&db, &w->conf, role, &f))
		bug("db_new: %s", f.detail);
	return db;
}

static void open_world_at(struct world *w, const char *socket)
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
	new_schema(w);
	WANT_SQL(w, "",
		 "CREATE TABLE t_thing (k VARBINARY(64) PRIMARY KEY, "
		 "v BIGINT NULL, w LONGBLOB NULL)");
	w->db = new_db(w, DB_SERVICE);
}

static void open_world(struct world *w)
{
	open_world_at(w, getenv("WAYBILL_TEST_DB_SOCKET"));
}

static void close_world(struct world *w)
{
	db_free(w->db);
	sql(w, "DROP DATABASE %s", w->schema);
	arena_release(&w->arena);
}

#if WAYBILL_FAULTS /* the statements of tests/statements/ */

static struct db_val text(const char *s)
{
	return db_text(sv_of(s));
}

static uint64_t connection_id(struct world *w, struct db *db)
{
	struct fail f = FAIL_INIT;
	struct db_table t = {0};

	if (!db_query(db, STMT_TEST_CONNECTION, DB_NO_ARGS, &w->arena, &t, &f))
		bug("%s; %s", f.detail, f.log);
	return db_cell(&t, 0, 0)->u;
}

static void a_session_has_its_settings_and_knows_its_server(void)
{
	struct fail f = FAIL_INIT;
	const struct db_server *s;
	struct db_table t = {0};
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	WANT_DONE(db_ready(w.db, &f), &f);
	s = db_server(w.db);
	WANT_DONE(db_query(w.db,
			   s->mariadb ? STMT_TEST_SETTINGS_MARIADB
				      : STMT_TEST_SETTINGS_MYSQL,
			   DB_NO_ARGS, &w.arena, &t, &f),
		  &f);
	WANT_SV(db_cell(&t, 0, 0)->bytes, SV("READ-COMMITTED"));
	WANT_U64(db_cell(&t, 0, 1)->u, 0);
	WANT_SV(db_cell(&t, 0, 2)->bytes, SV("+00:00"));
	WANT(memmem(db_cell(&t, 0, 3)->bytes.p, db_cell(&t, 0, 3)->bytes.n,
		    "STRICT_ALL_TABLES", 17));
	WANT_SV(db_cell(&t, 0, 4)->bytes, SV("utf8mb4"));
	WANT_U64(db_cell(&t, 0, 5)->u, 1);
	WANT_U64(db_cell(&t, 0, 6)->u, 20);
	WANT_U64(db_cell(&t, 0, 7)->u, 0);
	WANT(s->version > (s->mariadb ? 100000 : 80000));
	WANT(s->array_bind == s->mariadb);
	WANT(s->max_packet_bytes >= 1024);
	WANT(llabs(db_clock_skew_ms(w.db)) < 1000);
	close_world(&w);
}

static void a_server_that_does_not_flush_is_refused_unless_allowed(void)
{
	struct fail f = FAIL_INIT;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	sql(&w, "SET GLOBAL innodb_flush_log_at_trx_commit = 2");
	WANT(!db_ready(w.db, &f));
	WANT_FAIL(&f, FAIL_DB_REFUSED);
	WANT(strstr(f.log, "innodb_flush_log_at_trx_commit") != NULL);
	w.conf.db_allow_relaxed_durability = true;
	WANT(db_ready(w.db, &f));
	sql(&w, "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
	close_world(&w);
}

static void a_connection_lost_while_idle_is_replaced_silently(void)
{
	uint64_t first, retries;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	first = connection_id(&w, w.db);
	WANT_U64(connection_id(&w, w.db), first);
	retries = metric_get(METRIC_DB_RETRIES, "lost");
	sql(&w, "KILL %" PRIu64, first);
	WANT(connection_id(&w, w.db) != first);
	WANT_U64(metric_get(METRIC_DB_RETRIES, "lost"), retries);
	close_world(&w);
}

static void an_idle_connection_is_replaced_before_the_server_drops_it(void)
{
	uint64_t first, now = clock_wall_ms();
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	clock_set_for_test(now);
	first = connection_id(&w, w.db);
	clock_set_for_test(now + 14000);
	WANT_U64(connection_id(&w, w.db), first);
	clock_set_for_test(now + 14000 + 16000);
	WANT(connection_id(&w, w.db) != first);
	clock_set_for_test(0);
	close_world(&w);
}

static void a_lone_read_leaves_no_transaction_open(void)
{
	uint64_t id;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	id = connection_id(&w, w.db);
	WANT_SQL(&w, "0",
		 "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE "
		 "trx_mysql_thread_id = %" PRIu64,
		 id);
	/* DDL would wait for a transaction that has read the table. */
	{
		struct fail f = FAIL_INIT;
		struct db_table t = {0};

		WANT_DONE(db_query(w.db, STMT_TEST_GET, DB_ARGS(text("a")),
				   &w.arena, &t, &f),
			  &f);
		WANT_U64(t.rows, 0);
	}
	WANT_SQL(&w, "",
		 "SET lock_wait_timeout = 1; ALTER TABLE t_thing ADD x INT");
	close_world(&w);
}

/* tests/lib/mariadb.sh for a server of this test's own. */
static struct sv own_server(const char *verb, const char *dir)
{
	static char out[512];
	size_t n;
	FILE *p;

	setenv("T_DIR", dir, 1);
	setenv("T_VERB", verb, 1);
	p = popen("'" TESTS_DIR "/lib/mariadb.sh' \"$T_VERB\" \"$T_DIR\"", "r");
	if (!p)
		bug("popen");
	n = fread(out, 1, sizeof(out) - 1, p);
	if (pclose(p) != 0)
		bug("mariadb.sh %s failed", verb);
	while (n && out[n - 1] == '\n')
		n--;
	out[n] = '\0';
	return sv_from(out, n);
}

static void remove_dir(const char *dir)
{
	setenv("T_DIR", dir, 1);
	if (system("rm -rf \"$T_DIR\"") != 0)
		bug("rm %s", dir);
}

static void a_killed_server_is_told_at_once_and_used_again_when_it_is_back(void)
{
	char dir[] = "/tmp/wbt-server.XXXXXX";
	struct fail f = FAIL_INIT;
	uint64_t began;
	struct world w;

	if (!have_server())
		return;
	if (!mkdtemp(dir))
		bug("mkdtemp");
	open_world_at(&w, own_server("start", dir).p);
	connection_id(&w, w.db);
	own_server("kill", dir);
	for (int i = 0; i < 3; i++) {
		struct db_table t = {0};

		f = FAIL_INIT;
		began = clock_mono_ms();
		WANT(!db_query(w.db, STMT_TEST_GET, DB_ARGS(text("a")),
			       &w.arena, &t, &f));
		WANT(clock_mono_ms() - began < 500);
		WANT_FAIL(&f, FAIL_DB_AWAY);
		WANT_U64(f.retry_after_s, 1);
		WANT(f.log[0] && !strstr(f.detail, dir));
	}
	own_server("start", dir);
	WANT(connection_id(&w, w.db) > 0);
	close_world(&w);
	own_server("stop", dir);
	remove_dir(dir);
}

/* Runs fn in a child, without its stderr; the child's wait status. */
static int in_child(int (*fn)(struct world *), struct world *w, bool quiet)
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

static enum db_step goes_on_after_an_error(struct db *db,
					   const struct db_attempt *at,
					   void *arg, struct fail *f)
{
	uint64_t n;

	(void)at;
	(void)arg;
	for (int i = 0; i < 3; i++)
		if (!db_exec(db, STMT_TEST_INSERT,
			     DB_ARGS(text("a"), db_int(1)), &n, f))
			continue;
	return DB_STEP_ROLLBACK;
}

static int run_into_the_bug(struct world *w)
{
	struct fail f = FAIL_INIT;
	struct db *db = new_db(w, DB_SERVICE);

	return db_txn(db,
		      &(struct db_txn){.name = "t",
				       .work = goes_on_after_an_error},
		      &f)
		       ? 1
		       : 2;
}

static void after_an_error_nothing_more_runs_in_that_transaction(void)
{
	struct world w;
	int status;

	if (!have_server())
		return;
	open_world(&w);
	status = in_child(run_into_the_bug, &w, true);
	WANT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	WANT_SQL(&w, "0", "SELECT COUNT(*) FROM t_thing");
	close_world(&w);
}

static int write_alone(struct world *w)
{
	struct fail f = FAIL_INIT;
	struct db *db = new_db(w, DB_SERVICE);
	uint64_t n;

	return db_exec(db, STMT_TEST_INSERT, DB_ARGS(text("a"), db_int(1)), &n,
		       &f)
		       ? 1
		       : 2;
}

static void a_write_outside_a_transaction_is_a_bug(void)
{
	struct world w;
	int status;

	if (!have_server())
		return;
	open_world(&w);
	status = in_child(write_alone, &w, true);
	WANT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	close_world(&w);
}

/* What a work of these tests does. */
struct job {
	struct world *w;
	const char *key;
	enum db_step end;
	unsigned runs, told;
	uint64_t victim; /* connection to kill in the first run */
	bool found;      /* the INSERT said that it is there */
};

static enum db_step insert_one(struct db *db, const struct db_attempt *at,
			       void *arg, struct fail *f)
{
	struct job *j = arg;
	uint64_t n;

	j->runs++;
	if (at->maybe_committed)
		j->told++;
	if (db_exec(db, STMT_TEST_INSERT, DB_ARGS(text(j->key), db_int(1)), &n,
		    f))
		return j->end;
	if (db_last_class(db) != DB_DUPLICATE)
		return DB_STEP_FAIL;
	j->found = true;
	return at->maybe_committed ? DB_STEP_ROLLBACK : DB_STEP_FAIL;
}

static bool run_insert(struct db *db, struct job *j, bool rerun, struct fail *f)
{
	return db_txn(db,
		      &(struct db_txn){.name = "insert",
				       .work = insert_one,
				       .arg = j,
				       .rerun = rerun},
		      f);
}

static void commit_keeps_rollback_forgets_and_a_duplicate_is_a_conflict(void)
{
	struct fail f = FAIL_INIT;
	struct job j = {.key = "a", .end = DB_STEP_ROLLBACK};
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	WANT_DONE(run_insert(w.db, &j, false, &f), &f);
	WANT_SQL(&w, "0", "SELECT COUNT(*) FROM t_thing");
	j.end = DB_STEP_COMMIT;
	WANT_DONE(run_insert(w.db, &j, false, &f), &f);
	WANT_SQL(&w, "1", "SELECT COUNT(*) FROM t_thing");
	WANT(!run_insert(w.db, &j, false, &f));
	WANT_FAIL(&f, FAIL_CONFLICT);
	WANT(!strstr(f.detail, "Duplicate") && strstr(f.log, "1062"));
	WANT_U64(j.runs, 3);
	j.key = "b";
	j.end = DB_STEP_FAIL;
	fail_set(&f, FAIL_FORBIDDEN, "ours");
	WANT(!run_insert(w.db, &j, false, &f));
	WANT_FAIL(&f, FAIL_FORBIDDEN);
	WANT_U64(j.runs, 4);
	WANT_SQL(&w, "1", "SELECT COUNT(*) FROM t_thing");
	close_world(&w);
}

static void who_loses_every_race_is_told_to_come_again(void)
{
	struct fail f = FAIL_INIT;
	struct job j = {.key = "a", .end = DB_STEP_AGAIN};
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	WANT(!run_insert(w.db, &j, false, &f));
	WANT_FAIL(&f, FAIL_DB_BUSY);
	WANT_U64(f.retry_after_s, 1);
	WANT_U64(j.runs, 5);
	WANT_SQL(&w, "0", "SELECT COUNT(*) FROM t_thing");
	close_world(&w);
}

static enum db_step killed_once(struct db *db, const struct db_attempt *at,
				void *arg, struct fail *f)
{
	struct job *j = arg;
	struct db_table t = {0};
	uint64_t n;

	if (!db_exec(db, STMT_TEST_INSERT, DB_ARGS(text(j->key), db_int(1)), &n,
		     f))
		return DB_STEP_FAIL;
	if (at->no == 1)
		sql(j->w, "KILL %" PRIu64, j->victim);
	j->runs++;
	if (!db_query(db, STMT_TEST_GET, DB_ARGS(text(j->key)), &j->w->arena,
		      &t, f))
		return DB_STEP_FAIL;
	return DB_STEP_COMMIT;
}

static void a_connection_lost_before_commit_runs_the_work_again(void)
{
	struct fail f = FAIL_INIT;
	struct job j = {.key = "a"};
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	j.w = &w;
	j.victim = connection_id(&w, w.db);
	WANT(db_txn(w.db,
		    &(struct db_txn){
			    .name = "killed", .work = killed_once, .arg = &j},
		    &f));
	WANT_U64(j.runs, 2);
	WANT_SQL(&w, "a\t1", "SELECT k, v FROM t_thing");
	close_world(&w);
}

/* Two transactions that lock a and b, in opposite order, and meet. */
struct meet {
	const char *first, *second;
	int say, hear;
	unsigned runs;
};

static enum db_step add_to_both(struct db *db, const struct db_attempt *at,
				void *arg, struct fail *f)
{
	struct meet *m = arg;
	uint64_t n;
	char c = 0;

	m->runs++;
	if (!db_exec(db, STMT_TEST_ADD, DB_ARGS(db_int(1), text(m->first)), &n,
		     f))
		return DB_STEP_FAIL;
	if (at->no == 1 &&
	    (write(m->say, &c, 1) != 1 || read(m->hear, &c, 1) != 1))
		return DB_STEP_FAIL;
	if (!db_exec(db, STMT_TEST_ADD, DB_ARGS(db_int(1), text(m->second)), &n,
		     f))
		return DB_STEP_FAIL;
	return DB_STEP_COMMIT;
}

static bool run_meet(struct db *db, struct meet *m)
{
	struct fail f = FAIL_INIT;

	return db_txn(
		db,
		&(struct db_txn){.name = "meet", .work = add_to_both, .arg = m},
		&f);
}

static void a_deadlock_is_run_again_and_both_succeed(void)
{
	int there[2], back[2], status;
	struct meet m = {.first = "a", .second = "b"};
	uint64_t retries;
	struct world w;
	pid_t pid;

	if (!have_server())
		return;
	open_world(&w);
	w.conf.db_lock_wait_ms = 10000;
	sql(&w, "INSERT INTO t_thing (k, v) VALUES ('a', 0), ('b', 0)");
	retries = metric_get(METRIC_DB_RETRIES, "rolled_back");
	if (pipe(there) || pipe(back))
		bug("pipe");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct meet other = {"b", "a", back[1], there[0], 0};
		struct db *db = new_db(&w, DB_SERVICE);

		if (!run_meet(db, &other))
			_exit(1);
		_exit(other.runs > 1 ? 2 : 0);
	}
	m.say = there[1];
	m.hear = back[0];
	WANT(run_meet(w.db, &m));
	waitpid(pid, &status, 0);
	WANT(WIFEXITED(status) && WEXITSTATUS(status) != 1);
	/* One of them, and only one, was the victim. */
	WANT((m.runs > 1) != (WEXITSTATUS(status) == 2));
	/* The counters are shared with the child. */
	WANT_U64(metric_get(METRIC_DB_RETRIES, "rolled_back") - retries, 1);
	WANT_SQL(&w, "2\n2", "SELECT v FROM t_thing ORDER BY k");
	for (int i = 0; i < 2; i++) {
		close(there[i]);
		close(back[i]);
	}
	close_world(&w);
}

/* Locks a row, then lets a second session try the same. */
struct rival {
	struct db *other;
	struct job *j;
	struct fail f;
	uint64_t deadline_ms;
	bool answer, won;
	enum db_class class;
};

static enum db_step wait_for_lock(struct db *db, const struct db_attempt *at,
				  void *arg, struct fail *f)
{
	struct rival *r = arg;
	struct db_table t = {0};

	(void)at;
	r->j->runs++;
	if (db_query(db, STMT_TEST_LOCK, DB_ARGS(text("a")), &r->j->w->arena,
		     &t, f))
		return DB_STEP_COMMIT;
	return r->answer ? DB_STEP_ROLLBACK : DB_STEP_FAIL;
}

static enum db_step hold_lock(struct db *db, const struct db_attempt *at,
			      void *arg, struct fail *f)
{
	struct rival *r = arg;
	struct db_table t = {0};

	(void)at;
	if (!db_query(db, STMT_TEST_LOCK, DB_ARGS(text("a")), &r->j->w->arena,
		      &t, f))
		return DB_STEP_FAIL;
	r->won = db_txn(r->other,
			&(struct db_txn){.name = "wait",
					 .work = wait_for_lock,
					 .arg = r,
					 .deadline_ms = r->deadline_ms},
			&r->f);
	r->class = db_last_class(r->other);
	return DB_STEP_ROLLBACK;
}

static void a_lock_wait_is_an_answer_or_is_run_again_within_the_deadline(void)
{
	struct job j = {.key = "a"};
	struct rival r = {.j = &j, .answer = true, .f = FAIL_INIT};
	struct db_txn hold = {.name = "hold", .work = hold_lock, .arg = &r};
	struct fail f = FAIL_INIT;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	j.w = &w;
	sql(&w, "INSERT INTO t_thing (k, v) VALUES ('a', 0)");
	r.other = new_db(&w, DB_SERVICE);
	WANT_DONE(db_txn(w.db, &hold, &f), &f);
	WANT(r.won && j.runs == 1);
	WANT_U64(r.class, DB_LOCK_WAIT);
	j.runs = 0;
	r.answer = false;
	r.deadline_ms = clock_mono_ms() + 1500;
	WANT_DONE(db_txn(w.db, &hold, &f), &f);
	WANT(!r.won);
	WANT_FAIL(&r.f, FAIL_DB_BUSY);
	WANT_U64(r.class, DB_LOCK_WAIT);
	WANT_U64(j.runs, 2);
	db_free(r.other);
	close_world(&w);
}

/* A proxy before the server, in a child, for one connection after another.
 * It cuts the first `cuts` connections that send COMMIT: with `forward` after
 * the server has answered it, else before the server sees it. */
struct proxy {
	char path[64];
	pid_t pid;
};

static int connect_to(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0)
		_exit(1);
	return fd;
}

static bool is_commit(const char *p, ssize_t n)
{
	return n >= 11 && memcmp(p + 4, "\003COMMIT", 7) == 0;
}

static bool pass(int from, int to, bool *commit)
{
	char b[65536];
	ssize_t n = read(from, b, sizeof(b));

	if (n <= 0)
		return false;
	*commit = is_commit(b, n);
	return to < 0 || write(to, b, (size_t)n) == n;
}

/* true: the connection was cut at its COMMIT. */
static bool relay(int client, int server, bool may_cut, bool forward)
{
	for (;;) {
		struct pollfd p[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
		bool commit = false, ignored;
		char head[16];

		poll(p, 2, -1);
		if (p[0].revents) {
			ssize_t n = recv(client, head, sizeof(head), MSG_PEEK);

			if (may_cut && !forward && is_commit(head, n))
				return true;
			if (!pass(client, server, &commit))
				return false;
			if (commit && may_cut)
				return pass(server, -1, &ignored);
		}
		if (p[1].revents && !pass(server, client, &ignored))
			return false;
	}
}

static void serve(int listener, const char *to, unsigned cuts, bool forward)
{
	for (;;) {
		int client = accept(listener, NULL, NULL);
		int server = connect_to(to);

		if (relay(client, server, cuts > 0, forward))
			cuts--;
		close(client);
		close(server);
	}
}

static void proxy_start(struct proxy *p, const struct world *w, unsigned cuts,
			bool forward)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(p->path, sizeof(p->path), "/tmp/wbt-%d.sock", (int)getpid());
	unlink(p->path);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", p->path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 ||
	    listen(fd, 8) != 0)
		bug("proxy: %s", strerror(errno));
	fflush(stdout);
	p->pid = fork();
	if (p->pid == 0) {
		signal(SIGPIPE, SIG_IGN);
		serve(fd, w->conf.db_socket, cuts, forward);
	}
	close(fd);
}

static void proxy_stop(struct proxy *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	unlink(p->path);
}

/* One insert through a proxy that cuts; what came of it is in *j and *f. */
static bool insert_cut(struct world *w, struct job *j, unsigned cuts,
		       bool forward, bool rerun, struct fail *f)
{
	const char *direct = w->conf.db_socket;
	struct proxy p;
	struct db *db;
	bool ok;

	proxy_start(&p, w, cuts, forward);
	w->conf.db_socket = p.path;
	db = new_db(w, DB_SERVICE);
	ok = run_insert(db, j, rerun, f);
	db_free(db);
	proxy_stop(&p);
	w->conf.db_socket = direct;
	return ok;
}

static void after_a_commit_in_doubt_that_was_made_the_work_finds_its_row(void)
{
	struct job j = {.key = "a", .end = DB_STEP_COMMIT};
	struct fail f = FAIL_INIT;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	WANT(insert_cut(&w, &j, 1, true, true, &f));
	WANT_U64(j.runs, 2);
	WANT_U64(j.told, 1);
	WANT(j.found);
	WANT_SQL(&w, "a\t1", "SELECT k, v FROM t_thing");
	close_world(&w);
}

static void after_a_commit_in_doubt_that_was_not_made_the_work_is_done(void)
{
	struct job j = {.key = "a", .end = DB_STEP_COMMIT};
	struct fail f = FAIL_INIT;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	WANT(insert_cut(&w, &j, 1, false, true, &f));
	WANT_U64(j.runs, 2);
	WANT_U64(j.told, 1);
	WANT(!j.found);
	WANT_SQL(&w, "a\t1", "SELECT k, v FROM t_thing");
	close_world(&w);
}

static void a_commit_in_doubt_stays_so_without_rerun_or_with_every_run_cut(void)
{
	struct job j = {.key = "a", .end = DB_STEP_COMMIT};
	struct fail f = FAIL_INIT;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	WANT(!insert_cut(&w, &j, 1, true, false, &f));
	WANT_FAIL(&f, FAIL_COMMIT_UNKNOWN);
	WANT_U64(f.retry_after_s, 1);
	WANT_U64(j.runs, 1);
	j = (struct job){.key = "b", .end = DB_STEP_COMMIT};
	WANT(!insert_cut(&w, &j, 99, false, true, &f));
	WANT_FAIL(&f, FAIL_COMMIT_UNKNOWN);
	WANT_U64(j.runs, 5);
	WANT_SQL(&w, "a", "SELECT k FROM t_thing");
	close_world(&w);
}

enum { ROWS = 2345, COLS = 3 };

/* Row i: a key, i (every 7th NULL), and i % 5 times "x\0" (every 3rd NULL). */
static struct db_val *some_rows(struct arena *a, size_t rows, int64_t plus)
{
	struct db_val *c = arena_array(a, rows * COLS, sizeof(*c));

	for (size_t i = 0; i < rows; i++) {
		struct db_val *r = &c[i * COLS];

		r[0] = db_text(sv_of(arena_printf(a, "key-%zu", i)));
		r[1] = i % 7 ? db_int((int64_t)i * (i % 2 ? -1 : 1) + plus)
			     : db_null();
		r[2] = i % 3 ? db_text(sv_from("x\0x\0x\0x\0x\0", i % 5 * 2))
			     : db_null();
	}
	return c;
}

struct many {
	const struct db_val *cells;
	size_t rows;
	uint64_t affected;
};

static enum db_step write_many(struct db *db, const struct db_attempt *at,
			       void *arg, struct fail *f)
{
	struct many *m = arg;

	(void)at;
	return db_rows_exec(db, STMT_TEST_ROWS, m->cells, m->rows, COLS,
			    &m->affected, f)
		       ? DB_STEP_COMMIT
		       : DB_STEP_FAIL;
}

static bool run_many(struct db *db, struct many *m, struct fail *f)
{
	return db_txn(
		db,
		&(struct db_txn){.name = "many", .work = write_many, .arg = m},
		f);
}

#define SUM_OF_TABLE                                                        \
	"SELECT COUNT(*), COUNT(v), COUNT(w), SUM(v), SUM(CRC32(CONCAT(k, " \
	"IFNULL(v, 'null'), IFNULL(HEX(w), 'null')))) FROM t_thing"

/* Writes, writes the same again, changes; the counts, then the table's sum. */
static void write_thrice(struct world *w, bool ladder, uint64_t counts[3],
			 char sum[256])
{
	struct fail f = FAIL_INIT;
	struct many m = {some_rows(&w->arena, ROWS, 0), ROWS, 0};

	db_ladder_for_test(w->db, ladder);
	sql(w, "DELETE FROM t_thing");
	WANT_DONE(run_many(w->db, &m, &f), &f);
	counts[0] = m.affected;
	WANT_DONE(run_many(w->db, &m, &f), &f);
	counts[1] = m.affected;
	m.cells = some_rows(&w->arena, ROWS, 1);
	WANT_DONE(run_many(w->db, &m, &f), &f);
	counts[2] = m.affected;
	snprintf(sum, 256, "%.*s", SV_ARG(sql(w, SUM_OF_TABLE)));
}

static void rows_by_array_and_by_ladder_give_the_same_table_and_counts(void)
{
	uint64_t array[3], ladder[3];
	char array_sum[256], ladder_sum[256];
	uint64_t numbers = ROWS - (ROWS + 6) / 7;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	write_thrice(&w, false, array, array_sum);
	write_thrice(&w, true, ladder, ladder_sum);
	for (int i = 0; i < 3; i++)
		WANT_U64(array[i], ladder[i]);
	WANT_U64(array[0], ROWS);
	WANT_U64(array[1], 0);
	WANT_U64(array[2], 2 * numbers);
	WANT_SV(sv_of(array_sum), sv_of(ladder_sum));
	WANT(sv_starts(sv_of(array_sum), SV("2345\t2010\t1563\t")));
	close_world(&w);
}

static uint64_t executions(struct world *w)
{
	uint64_t n = 0;

	WANT(text_u64(sv_tail(sql(w, "SHOW GLOBAL STATUS WHERE "
				     "variable_name = 'Com_stmt_execute'"),
			      sizeof("Com_stmt_execute")),
		      0, UINT64_MAX, &n));
	return n;
}

static void arrays_are_sent_as_one_and_the_ladder_step_by_step(void)
{
	struct fail f = FAIL_INIT;
	struct many m;
	struct world w;
	uint64_t before;

	if (!have_server())
		return;
	open_world(&w);
	m = (struct many){some_rows(&w.arena, ROWS, 0), ROWS, 0};
	WANT(db_ready(w.db, &f));
	before = executions(&w);
	WANT_DONE(run_many(w.db, &m, &f), &f);
	WANT_U64(executions(&w) - before,
		 db_server(w.db)->array_bind ? 1 : 2 + 3 + 4 + 5);
	db_ladder_for_test(w.db, true);
	before = executions(&w);
	WANT_DONE(run_many(w.db, &m, &f), &f);
	WANT_U64(executions(&w) - before, 2 + 3 + 4 + 5);
	close_world(&w);
}

static void write_in_small_packets(struct world *w, bool ladder)
{
	enum { BIG = 40 };
	struct db_val *c = arena_array(&w->arena, BIG * COLS, sizeof(*c));
	char *blob = arena_reserve(&w->arena, 700000);
	struct fail f = FAIL_INIT;
	struct many m = {c, BIG, 0};

	memset(blob, 'z', 700000);
	for (size_t i = 0; i < BIG; i++) {
		c[i * COLS] =
			db_text(sv_of(arena_printf(&w->arena, "big-%zu", i)));
		c[i * COLS + 1] = db_uint(i);
		c[i * COLS + 2] = db_text(sv_from(blob, i ? 100000 : 700000));
	}
	db_ladder_for_test(w->db, ladder);
	sql(w, "DELETE FROM t_thing");
	WANT_DONE(run_many(w->db, &m, &f), &f);
	WANT_U64(m.affected, BIG);
	WANT_SQL(w, "40\t4600000",
		 "SELECT COUNT(*), SUM(LENGTH(w)) FROM "
		 "t_thing");
}

static void statements_stay_under_the_largest_packet(void)
{
	struct world w;
	char old[32];

	if (!have_server())
		return;
	open_world(&w);
	snprintf(old, sizeof(old), "%.*s",
		 SV_ARG(sql(&w, "SELECT @@global.max_allowed_packet")));
	sql(&w, "SET GLOBAL max_allowed_packet = 1048576");
	write_in_small_packets(&w, false);
	write_in_small_packets(&w, true);
	sql(&w, "SET GLOBAL max_allowed_packet = %s", old);
	close_world(&w);
}

static void a_row_over_the_largest_packet_is_refused_not_retried(void)
{
	struct fail f = FAIL_INIT;
	struct db_val c[COLS];
	struct many m = {c, 1, 0};
	uint64_t id, max;
	struct world w;
	char *blob;

	if (!have_server())
		return;
	open_world(&w);
	id = connection_id(&w, w.db);
	max = db_server(w.db)->max_packet_bytes;
	blob = arena_reserve(&w.arena, max);
	memset(blob, 'z', max);
	c[0] = text("k");
	c[1] = db_null();
	c[2] = db_text(sv_from(blob, max));
	WANT(!run_many(w.db, &m, &f));
	WANT_FAIL(&f, FAIL_DB_REFUSED);
	WANT_U64(connection_id(&w, w.db), id);
	close_world(&w);
}

static void keys_are_found_whatever_their_number(void)
{
	static const size_t COUNTS[] = {0, 1, 2, 10, 11, 100, 999, 1000, 1001};
	struct db_val *keys, *cells;
	struct fail f = FAIL_INIT;
	struct many m;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	cells = some_rows(&w.arena, ROWS, 10000);
	m = (struct many){cells, ROWS, 0};
	WANT_DONE(run_many(w.db, &m, &f), &f);
	keys = arena_array(&w.arena, ROWS, sizeof(*keys));
	for (size_t i = 0; i < ROWS; i++)
		keys[i] = cells[i * COLS];
	for (size_t i = 0; i < ARRAY_LEN(COUNTS); i++) {
		size_t n = COUNTS[i];
		struct db_table t = {0};

		WANT_DONE(db_keys_query(w.db, STMT_TEST_KEYS,
					DB_ARGS(db_int(0)), keys, n, &w.arena,
					&t, &f),
			  &f);
		/* Every 7th has NULL, which is not >= 0. */
		WANT_U64(t.rows, n - (n + 6) / 7);
		for (size_t row = 0; row < t.rows; row++)
			WANT(sv_starts(db_cell(&t, row, 0)->bytes,
				       SV("key-")) &&
			     db_cell(&t, row, 1)->kind == DB_INT);
	}
	close_world(&w);
}

/* Migrations in a child, as a program would run them. */
static void note_work(void *arg, const char *what)
{
	bool *worked = arg;

	if (strstr(what, "applying") || strstr(what, "going on"))
		*worked = true;
}

/* 0: nothing was left to do; 10: something was; 1: failed. */
static int migrate_here(struct world *w)
{
	struct fail f = FAIL_INIT;
	struct db *db = new_db(w, DB_OWNER);
	bool worked = false, ok;

	ok = migrate_run(db, &(struct migrate_report){note_work, &worked}, &f);
	if (!ok)
		fprintf(stderr, "migrate: %s; %s\n", f.detail, f.log);
	db_free(db);
	return ok ? (worked ? 10 : 0) : 1;
}

static bool migrate(struct world *w, struct fail *f)
{
	struct db *db = new_db(w, DB_OWNER);
	bool ok = migrate_run(db, NULL, f);

	db_free(db);
	return ok;
}

/* All that makes a schema: columns, keys, views, migrations. */
#define SCHEMA_TEXT                                                           \
	"SELECT table_name, column_name, ordinal_position, column_type, "     \
	"is_nullable, character_set_name, collation_name FROM "               \
	"information_schema.columns WHERE table_schema = DATABASE() ORDER "   \
	"BY 1, 3; SELECT table_name, index_name, seq_in_index, column_name, " \
	"non_unique FROM information_schema.statistics WHERE table_schema = " \
	"DATABASE() ORDER BY 1, 2, 3; SELECT table_name, MD5(view_definition" \
	") FROM information_schema.views WHERE table_schema = DATABASE() "    \
	"ORDER BY 1; SELECT version, name, HEX(checksum), steps_done, "       \
	"finished_at IS NOT NULL FROM schema_version ORDER BY 1"

static void migrating_twice_changes_nothing_the_second_time(void)
{
	struct fail f = FAIL_INIT;
	unsigned held, wanted;
	struct world w;
	char *before;

	if (!have_server())
		return;
	open_world(&w);
	WANT(migrate_status(w.db, &held, &wanted, &f));
	WANT_U64(held, 0);
	WANT_U64(wanted, MIGRATION_COUNT);
	WANT_U64((unsigned)migrate_here(&w), 10);
	before = arena_dup(&w.arena, sql(&w, SCHEMA_TEXT));
	WANT_U64((unsigned)migrate_here(&w), 0);
	WANT_SV(sql(&w, SCHEMA_TEXT), sv_of(before));
	WANT(migrate_status(w.db, &held, &wanted, &f));
	WANT_U64(held, wanted);
	close_world(&w);
}

static void the_second_of_two_migrations_waits_and_finds_nothing_to_do(void)
{
	uint64_t began = clock_mono_ms();
	struct world w;
	int status;
	pid_t pid;

	if (!have_server())
		return;
	open_world(&w);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setenv("WAYBILL_TEST_FAULT", "migrate.after_step:1:delay=1500",
		       1);
		_exit(migrate_here(&w));
	}
	while (!sv_eq(sql(&w, "SELECT COUNT(*) FROM schema_version"), SV("2")))
		clock_sleep_ms(20);
	WANT_U64((unsigned)migrate_here(&w), 0);
	WANT(clock_mono_ms() - began > 1400);
	waitpid(pid, &status, 0);
	WANT(WIFEXITED(status) && WEXITSTATUS(status) == 10);
	close_world(&w);
}

static unsigned fault_no;

static int migrate_until_killed(struct world *w)
{
	char fault[32];

	snprintf(fault, sizeof(fault), "*:%u:kill", fault_no);
	setenv("WAYBILL_TEST_FAULT", fault, 1);
	return migrate_here(w);
}

static void a_migration_killed_anywhere_ends_the_same_when_run_again(void)
{
	char *want;
	struct world w;
	int status;

	if (!have_server())
		return;
	open_world(&w);
	new_schema(&w);
	WANT_U64((unsigned)migrate_here(&w), 10);
	want = arena_dup(&w.arena, sql(&w, SCHEMA_TEXT));
	for (fault_no = 1; fault_no < 10000; fault_no++) {
		new_schema(&w);
		status = in_child(migrate_until_killed, &w, false);
		if (WIFEXITED(status))
			break;
		WANT(migrate_here(&w) != 1);
		if (!sv_eq(sql(&w, SCHEMA_TEXT), sv_of(want)))
			printf("killed at the %uth point:\n", fault_no);
		WANT_SV(sql(&w, SCHEMA_TEXT), sv_of(want));
	}
	WANT(WIFEXITED(status) && WEXITSTATUS(status) == 10);
	WANT(fault_no > 40);
	close_world(&w);
}

static void only_the_step_that_may_be_done_may_find_it_done(void)
{
	struct fail f = FAIL_INIT;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	WANT_DONE(migrate(&w, &f), &f);
	sql(&w, "UPDATE schema_version SET steps_done = 1, finished_at = NULL "
		"WHERE version = 1");
	WANT_DONE(migrate(&w, &f), &f);
	sql(&w, "UPDATE schema_version SET steps_done = 0, finished_at = NULL "
		"WHERE version = 1");
	WANT(!migrate(&w, &f));
	WANT_FAIL(&f, FAIL_MIGRATION);
	WANT(strstr(f.detail, "step 2") && strstr(f.log, "1050"));
	close_world(&w);
}

static void a_migration_with_another_text_is_refused(void)
{
	struct fail f = FAIL_INIT;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	WANT_DONE(migrate(&w, &f), &f);
	sql(&w, "UPDATE schema_version SET checksum = REPEAT('x', 32) WHERE "
		"version = 1");
	WANT(!migrate(&w, &f));
	WANT_FAIL(&f, FAIL_MIGRATION);
	WANT(strstr(f.detail, "another text") != NULL);
	close_world(&w);
}

static void a_database_ahead_of_the_program_is_refused(void)
{
	struct fail f = FAIL_INIT;
	unsigned held, wanted;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	WANT_DONE(migrate(&w, &f), &f);
	sql(&w,
	    "INSERT INTO schema_version SELECT %u, 'future', checksum, 1, "
	    "NOW(3), NOW(3) FROM schema_version WHERE version = 1",
	    MIGRATION_COUNT + 1);
	WANT(!migrate(&w, &f));
	WANT_FAIL(&f, FAIL_MIGRATION);
	WANT(strstr(f.detail, "ahead") != NULL);
	WANT(migrate_status(w.db, &held, &wanted, &f));
	WANT_U64(held, wanted + 1);
	close_world(&w);
}

#else

static void most_promises_are_checked_with_fault_points(void)
{
	unit_skip("built without --enable-faults");
}

#endif

static void every_statement_can_be_prepared(void)
{
	struct fail f = FAIL_INIT;
	struct db *owner;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	owner = new_db(&w, DB_OWNER);
	WANT_DONE(migrate_run(owner, NULL, &f), &f);
	WANT_DONE(db_prepare_all(owner, &f), &f);
	db_free(owner);
	close_world(&w);
}

/* Partners and keys, by the statements that the commands use. */
struct many_statements {
	struct arena *arena;
	struct db_table found, list, keys, next, limits;
	uint64_t added, key_added, set, revoked, revoked_again, disabled;
};

static enum db_step partner_life(struct db *db, const struct db_attempt *at,
				 void *arg, struct fail *f)
{
	struct many_statements *s = arg;
	struct sv name = SV("ACME-A"), id = SV("abcdefghij234567");
	struct sv hash = SV("0123456789abcdef0123456789abcdef");

	(void)at;
	if (!db_query(db, STMT_PARTNER_NEXT_ID, DB_NO_ARGS, s->arena, &s->next,
		      f) ||
	    !db_exec(db, STMT_PARTNER_ADD,
		     DB_ARGS(db_uint(1), db_text(name), db_uint(50),
			     db_uint(100), db_null(), db_uint(0), db_uint(0),
			     db_uint(0)),
		     &s->added, f) ||
	    !db_exec(db, STMT_PARTNER_SET,
		     DB_ARGS(db_uint(60), db_uint(100), db_uint(1000000),
			     db_uint(1), db_uint(0), db_uint(0), db_text(name)),
		     &s->set, f) ||
	    !db_exec(db, STMT_CREDENTIAL_ADD,
		     DB_ARGS(db_text(id), db_uint(1), db_text(SV("KEY")),
			     db_text(hash), db_uint(5), db_null(),
			     db_uint(40000)),
		     &s->key_added, f) ||
	    !db_query(db, STMT_CREDENTIAL_FIND, DB_ARGS(db_text(id)), s->arena,
		      &s->found, f) ||
	    !db_query(db, STMT_CREDENTIAL_LIST, DB_ARGS(db_null()), s->arena,
		      &s->keys, f) ||
	    !db_query(db, STMT_CREDENTIAL_LIST, DB_ARGS(db_text(name)),
		      s->arena, &s->keys, f) ||
	    !db_exec(db, STMT_CREDENTIAL_REVOKE, DB_ARGS(db_text(id)),
		     &s->revoked, f) ||
	    !db_exec(db, STMT_CREDENTIAL_REVOKE, DB_ARGS(db_text(id)),
		     &s->revoked_again, f) ||
	    !db_exec(db, STMT_PARTNER_DISABLE, DB_ARGS(db_text(name)),
		     &s->disabled, f) ||
	    !db_query(db, STMT_PARTNER_LIMITS, DB_ARGS(db_uint(1)), s->arena,
		      &s->limits, f) ||
	    !db_query(db, STMT_PARTNER_LIST, DB_NO_ARGS, s->arena, &s->list, f))
		return DB_STEP_FAIL;
	return DB_STEP_COMMIT;
}

static void partners_and_credentials_read_back_as_written(void)
{
	struct many_statements s;
	struct fail f = FAIL_INIT;
	const struct db_val *c;
	struct db *owner;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	s = (struct many_statements){.arena = &w.arena};
	owner = new_db(&w, DB_OWNER);
	WANT_DONE(migrate_run(owner, NULL, &f), &f);
	WANT_DONE(db_txn(owner,
			 &(struct db_txn){.name = "life",
					  .work = partner_life,
					  .arg = &s},
			 &f),
		  &f);
	WANT_U64(db_cell(&s.next, 0, 0)->u, 1);
	WANT_U64(s.added + s.key_added + s.set, 3);
	WANT_U64(s.revoked, 1);
	WANT_U64(s.revoked_again, 0);
	WANT_U64(s.disabled, 1);
	WANT_U64(s.found.cols, 12);
	c = s.found.cells;
	WANT_SV(c[2].bytes, SV("ACME-A"));
	WANT_SV(c[3].bytes, SV("ACTIVE"));
	WANT_SV(c[4].bytes, SV("0123456789abcdef0123456789abcdef"));
	WANT_U64(c[5].u, 5);
	/* 40000 days from now: past 2038, where unix times used to end. */
	WANT(c[6].u / 86400000 - clock_wall_ms() / 86400000 - 40000 < 2);
	WANT(c[7].u == 0 && c[9].u == 0 && c[10].u == 0);
	WANT_SV(c[8].bytes, SV("KEY"));
	WANT_U64(s.keys.rows, 1);
	WANT_SV(db_cell(&s.keys, 0, 3)->bytes, SV("ingest,admin"));
	WANT_U64(db_cell(&s.limits, 0, 0)->u, 60);
	WANT_U64(db_cell(&s.limits, 0, 2)->u, 1000000);
	WANT_SV(db_cell(&s.list, 0, 2)->bytes, SV("DISABLED"));
	WANT_U64(db_cell(&s.list, 0, 9)->bytes.n, 24);
	WANT_SQL(&w, "1",
		 "SELECT revoked_at RLIKE '^20[0-9-]{8}T[0-9:]{8}[.][0-9]{3}Z$'"
		 " FROM v_credential WHERE last_used_at IS NULL");
	db_free(owner);
	close_world(&w);
}

/* sql/accounts.sql under names of this test's own. */
static void make_accounts(const struct world *w)
{
	setenv("T_SOCKET", w->conf.db_socket, 1);
	setenv("T_SCHEMA", w->schema, 1);
	if (system("sed -e 's/@OWNER_PASSWORD@/o-pass/' "
		   "-e 's/@SERVICE_PASSWORD@//' -e 's/@RO_PASSWORD@//' "
		   "-e \"s/waybill_owner/${T_SCHEMA}_o/; "
		   "s/waybill_ro/${T_SCHEMA}_r/; "
		   "s/'waybill'/'${T_SCHEMA}_s'/; "
		   "s/\\`waybill\\`/$T_SCHEMA/\" '" TESTS_DIR
		   "/../sql/accounts.sql' | mariadb --no-defaults "
		   "--user=root --socket=\"$T_SOCKET\"") != 0)
		bug("accounts.sql failed");
}

static const char *password_file(struct world *w)
{
	char *path = arena_printf(&w->arena, "/tmp/%s.pw", w->schema);
	FILE *file = fopen(path, "w");

	if (!file || fputs("o-pass\n", file) < 0 || fclose(file) != 0)
		bug("%s", path);
	return path;
}

static const char *const DENIED_TO_BOTH[] = {
	"CREATE TABLE x (a INT)",
	"DROP TABLE partner",
	"ALTER TABLE partner ADD x INT",
	"CREATE VIEW x AS SELECT 1",
	"DELETE FROM credential",
	"TRUNCATE credential",
	"INSERT INTO partner (partner_id) VALUES (1)",
	"UPDATE credential SET scopes = 7",
	"GRANT SELECT ON partner TO CURRENT_USER",
	"UPDATE schema_version SET checksum = ''",
};

static const char *const DENIED_TO_RO[] = {
	"SELECT COUNT(*) FROM partner",
	"SELECT hash FROM credential",
	"SELECT version FROM schema_version",
	"UPDATE v_partner SET state = 'DISABLED'",
	"UPDATE credential SET last_used_at = NOW(3)",
};

static void want_denied(const struct world *w, const char *user,
			const char *const *texts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct sv out = sql_by(w, user, "%s", texts[i]);

		if (!memmem(out.p, out.n, "denied", 6))
			printf("%s may: %s (%.*s)\n", user, texts[i],
			       SV_ARG(out));
		WANT(memmem(out.p, out.n, "denied", 6) != NULL);
	}
}

static void check_accounts(struct world *w, const char *service, const char *ro)
{
	struct fail f = FAIL_INIT;
	unsigned held = 0, wanted = 1;
	struct db *db;

	want_denied(w, service, DENIED_TO_BOTH, ARRAY_LEN(DENIED_TO_BOTH));
	want_denied(w, ro, DENIED_TO_BOTH, ARRAY_LEN(DENIED_TO_BOTH));
	want_denied(w, ro, DENIED_TO_RO, ARRAY_LEN(DENIED_TO_RO));
	WANT_SV(sql_by(w, ro, "SELECT COUNT(*) FROM v_partner"), SV("0"));
	WANT_SV(sql_by(w, ro, "SELECT COUNT(*) FROM v_credential"), SV("0"));
	WANT_SV(sql_by(w, service,
		       "UPDATE credential SET last_used_at = NOW(3)"),
		SV(""));
	w->conf.db_user = service;
	db = new_db(w, DB_SERVICE);
	WANT_DONE(migrate_status(db, &held, &wanted, &f), &f);
	WANT_U64(held, wanted);
	db_free(db);
}

static void the_accounts_may_do_what_they_need_and_no_more(void)
{
	struct fail f = FAIL_INIT;
	const char *owner, *service, *ro;
	struct db *db;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	make_accounts(&w);
	owner = arena_printf(&w.arena, "%s_o", w.schema);
	service = arena_printf(&w.arena, "%s_s", w.schema);
	ro = arena_printf(&w.arena, "%s_r", w.schema);
	w.conf.db_owner_user = owner;
	w.conf.db_owner_password_file = password_file(&w);
	w.conf.db_service_account =
		arena_printf(&w.arena, "%s@localhost", service);
	w.conf.db_ro_account = arena_printf(&w.arena, "%s@localhost", ro);
	db = new_db(&w, DB_OWNER);
	WANT_DONE(migrate_run(db, NULL, &f), &f);
	WANT_DONE(migrate_run(db, NULL, &f), &f);
	check_accounts(&w, service, ro);
	w.conf.db_ro_account = "nobody_at_all@localhost";
	WANT(!migrate_run(db, NULL, &f));
	WANT_FAIL(&f, FAIL_MIGRATION);
	WANT(strstr(f.detail, "sql/accounts.sql") != NULL);
	db_free(db);
	unlink(w.conf.db_owner_password_file);
	sql(&w, "DROP USER %s@localhost, %s@localhost, %s@localhost", owner,
	    service, ro);
	close_world(&w);
}

void suite_db(void)
{
	ADD(every_error_has_the_class_of_the_design);
	ADD(the_generator_refuses_what_could_hide_a_mistake);
	ADD(an_account_that_is_no_plain_name_is_refused);
#if WAYBILL_FAULTS
	ADD(a_session_has_its_settings_and_knows_its_server);
	ADD(a_server_that_does_not_flush_is_refused_unless_allowed);
	ADD(a_connection_lost_while_idle_is_replaced_silently);
	ADD(an_idle_connection_is_replaced_before_the_server_drops_it);
	ADD(a_lone_read_leaves_no_transaction_open);
	ADD(a_killed_server_is_told_at_once_and_used_again_when_it_is_back);
	ADD(after_an_error_nothing_more_runs_in_that_transaction);
	ADD(a_write_outside_a_transaction_is_a_bug);
	ADD(commit_keeps_rollback_forgets_and_a_duplicate_is_a_conflict);
	ADD(who_loses_every_race_is_told_to_come_again);
	ADD(a_connection_lost_before_commit_runs_the_work_again);
	ADD(a_deadlock_is_run_again_and_both_succeed);
	ADD(a_lock_wait_is_an_answer_or_is_run_again_within_the_deadline);
	ADD(after_a_commit_in_doubt_that_was_made_the_work_finds_its_row);
	ADD(after_a_commit_in_doubt_that_was_not_made_the_work_is_done);
	ADD(a_commit_in_doubt_stays_so_without_rerun_or_with_every_run_cut);
	ADD(rows_by_array_and_by_ladder_give_the_same_table_and_counts);
	ADD(arrays_are_sent_as_one_and_the_ladder_step_by_step);
	ADD(statements_stay_under_the_largest_packet);
	ADD(a_row_over_the_largest_packet_is_refused_not_retried);
	ADD(keys_are_found_whatever_their_number);
	ADD(migrating_twice_changes_nothing_the_second_time);
	ADD(the_second_of_two_migrations_waits_and_finds_nothing_to_do);
	ADD(a_migration_killed_anywhere_ends_the_same_when_run_again);
	ADD(only_the_step_that_may_be_done_may_find_it_done);
	ADD(a_migration_with_another_text_is_refused);
	ADD(a_database_ahead_of_the_program_is_refused);
#else
	ADD(most_promises_are_checked_with_fault_points);
#endif
	ADD(every_statement_can_be_prepared);
	ADD(partners_and_credentials_read_back_as_written);
	ADD(the_accounts_may_do_what_they_need_and_no_more);
}
