/* db: errors, sessions, statements, transactions and many rows, on a real
 * server (world.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metric.h"
#include "base/text.h"
#include "db/rows.h"

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

	if (!world_exists())
		return;
	world_open(&w);
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
	world_close(&w);
}

static void a_server_that_does_not_flush_is_refused_unless_allowed(void)
{
	struct fail f = FAIL_INIT;
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	world_sql(&w, "SET GLOBAL innodb_flush_log_at_trx_commit = 2");
	WANT(!db_ready(w.db, &f));
	WANT_FAIL(&f, FAIL_DB_REFUSED);
	WANT(strstr(f.log, "innodb_flush_log_at_trx_commit") != NULL);
	w.conf.db_allow_relaxed_durability = true;
	WANT(db_ready(w.db, &f));
	world_sql(&w, "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
	world_close(&w);
}

static void a_connection_lost_while_idle_is_replaced_silently(void)
{
	uint64_t first, retries;
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	first = connection_id(&w, w.db);
	WANT_U64(connection_id(&w, w.db), first);
	retries = metric_get(METRIC_DB_RETRIES, "lost");
	world_sql(&w, "KILL %" PRIu64, first);
	WANT(connection_id(&w, w.db) != first);
	WANT_U64(metric_get(METRIC_DB_RETRIES, "lost"), retries);
	world_close(&w);
}

static void an_idle_connection_is_replaced_before_the_server_drops_it(void)
{
	uint64_t first, now = clock_wall_ms();
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	clock_set_for_test(now);
	first = connection_id(&w, w.db);
	clock_set_for_test(now + 14000);
	WANT_U64(connection_id(&w, w.db), first);
	clock_set_for_test(now + 14000 + 16000);
	WANT(connection_id(&w, w.db) != first);
	clock_set_for_test(0);
	world_close(&w);
}

static void a_lone_read_leaves_no_transaction_open(void)
{
	uint64_t id;
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
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
	world_close(&w);
}

/* A unix socket that takes connections and says nothing. */
static int listen_at(char path[64])
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(path, 64, "/tmp/wbt-%d.sock", (int)getpid());
	unlink(path);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 ||
	    listen(fd, 8) != 0)
		bug("%s: %s", path, strerror(errno));
	return fd;
}

static void a_server_that_says_nothing_is_given_up_after_the_timeout(void)
{
	struct fail f = FAIL_INIT;
	uint64_t began;
	char path[64];
	struct world w;
	int fd;

	if (!world_exists())
		return;
	world_open(&w);
	fd = listen_at(path);
	w.conf.db_socket = path;
	began = clock_mono_ms();
	WANT(!db_ready(w.db, &f));
	WANT_FAIL(&f, FAIL_DB_AWAY);
	WANT(clock_mono_ms() - began < 1500);
	close(fd);
	unlink(path);
	w.conf.db_socket = getenv("WAYBILL_TEST_DB_SOCKET");
	WANT(db_ready(w.db, &f));
	world_close(&w);
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

	if (!world_exists())
		return;
	if (!mkdtemp(dir))
		bug("mkdtemp");
	world_open_at(&w, own_server("start", dir).p);
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
	world_close(&w);
	own_server("stop", dir);
	remove_dir(dir);
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
	struct db *db = world_db(w, DB_SERVICE);

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

	if (!world_exists())
		return;
	world_open(&w);
	status = world_child(run_into_the_bug, &w, true);
	WANT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	WANT_SQL(&w, "0", "SELECT COUNT(*) FROM t_thing");
	world_close(&w);
}

static int write_alone(struct world *w)
{
	struct fail f = FAIL_INIT;
	struct db *db = world_db(w, DB_SERVICE);
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

	if (!world_exists())
		return;
	world_open(&w);
	status = world_child(write_alone, &w, true);
	WANT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	world_close(&w);
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

	if (!world_exists())
		return;
	world_open(&w);
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
	world_close(&w);
}

static void who_loses_every_race_is_told_to_come_again(void)
{
	struct fail f = FAIL_INIT;
	struct job j = {.key = "a", .end = DB_STEP_AGAIN};
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	WANT(!run_insert(w.db, &j, false, &f));
	WANT_FAIL(&f, FAIL_DB_BUSY);
	WANT_U64(f.retry_after_s, 1);
	WANT_U64(j.runs, 8);
	WANT_SQL(&w, "0", "SELECT COUNT(*) FROM t_thing");
	world_close(&w);
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
		world_sql(j->w, "KILL %" PRIu64, j->victim);
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

	if (!world_exists())
		return;
	world_open(&w);
	j.w = &w;
	j.victim = connection_id(&w, w.db);
	WANT(db_txn(w.db,
		    &(struct db_txn){
			    .name = "killed", .work = killed_once, .arg = &j},
		    &f));
	WANT_U64(j.runs, 2);
	WANT_SQL(&w, "a\t1", "SELECT k, v FROM t_thing");
	world_close(&w);
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

	if (!world_exists())
		return;
	world_open(&w);
	w.conf.db_lock_wait_ms = 10000;
	world_sql(&w, "INSERT INTO t_thing (k, v) VALUES ('a', 0), ('b', 0)");
	retries = metric_get(METRIC_DB_RETRIES, "rolled_back");
	if (pipe(there) || pipe(back))
		bug("pipe");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct meet other = {"b", "a", back[1], there[0], 0};
		struct db *db = world_db(&w, DB_SERVICE);

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
	world_close(&w);
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

	if (!world_exists())
		return;
	world_open(&w);
	j.w = &w;
	world_sql(&w, "INSERT INTO t_thing (k, v) VALUES ('a', 0)");
	r.other = world_db(&w, DB_SERVICE);
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
	world_close(&w);
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
	int fd = listen_at(p->path);

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
	db = world_db(w, DB_SERVICE);
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

	if (!world_exists())
		return;
	world_open(&w);
	WANT(insert_cut(&w, &j, 1, true, true, &f));
	WANT_U64(j.runs, 2);
	WANT_U64(j.told, 1);
	WANT(j.found);
	WANT_SQL(&w, "a\t1", "SELECT k, v FROM t_thing");
	world_close(&w);
}

static void after_a_commit_in_doubt_that_was_not_made_the_work_is_done(void)
{
	struct job j = {.key = "a", .end = DB_STEP_COMMIT};
	struct fail f = FAIL_INIT;
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	WANT(insert_cut(&w, &j, 1, false, true, &f));
	WANT_U64(j.runs, 2);
	WANT_U64(j.told, 1);
	WANT(!j.found);
	WANT_SQL(&w, "a\t1", "SELECT k, v FROM t_thing");
	world_close(&w);
}

static void a_commit_in_doubt_stays_so_without_rerun_or_with_every_run_cut(void)
{
	struct job j = {.key = "a", .end = DB_STEP_COMMIT};
	struct fail f = FAIL_INIT;
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	WANT(!insert_cut(&w, &j, 1, true, false, &f));
	WANT_FAIL(&f, FAIL_COMMIT_UNKNOWN);
	WANT_U64(f.retry_after_s, 1);
	WANT_U64(j.runs, 1);
	j = (struct job){.key = "b", .end = DB_STEP_COMMIT};
	WANT(!insert_cut(&w, &j, 99, false, true, &f));
	WANT_FAIL(&f, FAIL_COMMIT_UNKNOWN);
	WANT_U64(j.runs, 8);
	WANT_SQL(&w, "a", "SELECT k FROM t_thing");
	world_close(&w);
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
	world_sql(w, "DELETE FROM t_thing");
	WANT_DONE(run_many(w->db, &m, &f), &f);
	counts[0] = m.affected;
	WANT_DONE(run_many(w->db, &m, &f), &f);
	counts[1] = m.affected;
	m.cells = some_rows(&w->arena, ROWS, 1);
	WANT_DONE(run_many(w->db, &m, &f), &f);
	counts[2] = m.affected;
	snprintf(sum, 256, "%.*s", SV_ARG(world_sql(w, SUM_OF_TABLE)));
}

static void rows_by_array_and_by_ladder_give_the_same_table_and_counts(void)
{
	uint64_t array[3], ladder[3];
	char array_sum[256], ladder_sum[256];
	uint64_t numbers = ROWS - (ROWS + 6) / 7;
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	write_thrice(&w, false, array, array_sum);
	write_thrice(&w, true, ladder, ladder_sum);
	for (int i = 0; i < 3; i++)
		WANT_U64(array[i], ladder[i]);
	WANT_U64(array[0], ROWS);
	WANT_U64(array[1], 0);
	WANT_U64(array[2], 2 * numbers);
	WANT_SV(sv_of(array_sum), sv_of(ladder_sum));
	WANT(sv_starts(sv_of(array_sum), SV("2345\t2010\t1563\t")));
	world_close(&w);
}

static uint64_t executions(struct world *w)
{
	uint64_t n = 0;

	WANT(text_u64(
		sv_tail(world_sql(w, "SHOW GLOBAL STATUS WHERE "
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

	if (!world_exists())
		return;
	world_open(&w);
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
	world_close(&w);
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
	world_sql(w, "DELETE FROM t_thing");
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

	if (!world_exists())
		return;
	world_open(&w);
	snprintf(old, sizeof(old), "%.*s",
		 SV_ARG(world_sql(&w, "SELECT @@global.max_allowed_packet")));
	world_sql(&w, "SET GLOBAL max_allowed_packet = 1048576");
	write_in_small_packets(&w, false);
	write_in_small_packets(&w, true);
	world_sql(&w, "SET GLOBAL max_allowed_packet = %s", old);
	world_close(&w);
}

static void a_row_over_the_largest_packet_is_refused_not_retried(void)
{
	struct fail f = FAIL_INIT;
	struct db_val c[COLS];
	struct many m = {c, 1, 0};
	uint64_t id, max;
	struct world w;
	char *blob;

	if (!world_exists())
		return;
	world_open(&w);
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
	world_close(&w);
}

static void keys_are_found_whatever_their_number(void)
{
	static const size_t COUNTS[] = {0,   1,   2,    10,   11,
					100, 999, 1000, 1001, 1002};
	struct db_val *keys, *cells;
	struct fail f = FAIL_INIT;
	struct many m;
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
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
					DB_ARGS(db_int(0)), keys + 1, n,
					&w.arena, &t, &f),
			  &f);
		/* Every 7th has NULL, which is not >= 0. */
		WANT_U64(t.rows, n - n / 7);
		for (size_t row = 0; row < t.rows; row++)
			WANT(sv_starts(db_cell(&t, row, 0)->bytes,
				       SV("key-")) &&
			     db_cell(&t, row, 1)->kind == DB_INT);
	}
	world_close(&w);
}

#else

static void most_promises_are_checked_with_fault_points(void)
{
	unit_skip("built without --enable-faults");
}

#endif

void suite_db(void)
{
	ADD(every_error_has_the_class_of_the_design);
	ADD(the_generator_refuses_what_could_hide_a_mistake);
#if WAYBILL_FAULTS
	ADD(a_session_has_its_settings_and_knows_its_server);
	ADD(a_server_that_does_not_flush_is_refused_unless_allowed);
	ADD(a_connection_lost_while_idle_is_replaced_silently);
	ADD(an_idle_connection_is_replaced_before_the_server_drops_it);
	ADD(a_lone_read_leaves_no_transaction_open);
	ADD(a_server_that_says_nothing_is_given_up_after_the_timeout);
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
#else
	ADD(most_promises_are_checked_with_fault_points);
#endif
}
