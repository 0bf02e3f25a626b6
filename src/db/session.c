/* A session with the database: connecting, checking, replacing.
 *
 * Guarantees:
 * 1. A session that is handed out has every setting of CHECKS, as the server
 *    itself says.
 * 2. A connection that died while idle is noticed without a round trip: a
 *    silent server has nothing to say, so a readable socket is a dead one.
 * 3. What the database said goes to fail_log() alone.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "db_private.h"

#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/metric.h"

/* The first columns of session_check_*: 1 if as it must be. */
static const char *const CHECKS[] = {
	"READ COMMITTED",
	"autocommit off",
	"UTC",
	"strict sql_mode",
	"utf8mb4",
	"innodb_lock_wait_timeout",
	"lock_wait_timeout",
	"wait_timeout",
	"net_read_timeout",
	"net_write_timeout",
	"in_predicate_conversion_threshold",
};
enum {
	COL_FLUSH = ARRAY_LEN(CHECKS),
	COL_MAX_PACKET,
	COL_NOW,
};

enum { PATIENCE_S = 8 * 3600 };

static bool fail_of_class(enum db_class c, struct fail *f)
{
	switch (c) {
	case DB_ROLLED_BACK:
	case DB_STATEMENT:
	case DB_LOCK_WAIT:
		return fail_set(f, FAIL_DB_BUSY, "the database is too busy");
	case DB_NOT_EXECUTED:
	case DB_LOST:
		return fail_set(f, FAIL_DB_AWAY,
				"the database cannot be reached");
	case DB_COMMIT_UNKNOWN:
		return fail_set(f, FAIL_COMMIT_UNKNOWN,
				"the connection broke at COMMIT");
	case DB_DUPLICATE:
		return fail_set(f, FAIL_CONFLICT, "it exists already");
	case DB_OPERATOR:
		return fail_set(f, FAIL_DB_REFUSED,
				"the database refused a statement");
	case DB_OK:
		break;
	}
	bug("no failure of class %d", (int)c);
}

static void retry_after(const struct db *db, struct fail *f)
{
	if (fail_info(f->code)->status == 503)
		f->retry_after_s = db->conf->retry_after_ms / 1000;
}

bool db_fail(struct db *db, unsigned code, const char *said, const char *doing,
	     bool in_commit, struct fail *f)
{
	db->last_code = code;
	db->last_class = errmap_class(code, in_commit);
	if (db->last_class == DB_OK) {
		/* A library that fails without a number: nothing is known. */
		db->last_class = in_commit ? DB_COMMIT_UNKNOWN : DB_LOST;
		said = "no error number";
	}
	if (db->last_class == DB_LOST || db->last_class == DB_COMMIT_UNKNOWN ||
	    db->last_class == DB_NOT_EXECUTED)
		db->unusable = true;
	if (db->state == DB_OPEN)
		db->state = DB_FAILED;
	fail_of_class(db->last_class, f);
	retry_after(db, f);
	return fail_log(f, "%s: %u %s", doing, code, said);
}

bool db_refuse(struct db *db, enum fail_code code, const char *detail,
	       struct fail *f)
{
	db->last_code = 0;
	db->last_class = DB_OPERATOR;
	if (db->state == DB_OPEN)
		db->state = DB_FAILED;
	return fail_set(f, code, "%s", detail);
}

void db_fault(const char *when, enum stmt id)
{
#if WAYBILL_FAULTS
	char point[96];

	snprintf(point, sizeof(point), "db.%s.%s", when, STMT_TABLE[id].name);
	fault_at(point);
#else
	(void)when;
	(void)id;
#endif
}

bool db_new(struct db **db_r, const struct conf *c, enum db_role role,
	    struct fail *f)
{
	const char *path = role == DB_OWNER ? c->db_owner_password_file
					    : c->db_password_file;
	struct db *db = calloc(1, sizeof(*db));

	if (!db)
		bug("no memory for a session");
	if (!*c->db_socket && !*c->db_host) {
		free(db);
		return fail_set(f, FAIL_CONF,
				"neither db_socket nor db_host is set");
	}
	db->conf = c;
	db->role = role;
	arena_init(&db->arena, 4096);
	arena_init(&db->scratch, (size_t)64 * 1024);
	if (!conf_secret(&db->arena, path, &db->password, f)) {
		db_free(db);
		return false;
	}
	*db_r = db;
	return true;
}

void db_free(struct db *db)
{
	if (!db)
		return;
	db_disconnect(db);
	conf_secret_wipe(&db->password);
	arena_release(&db->arena);
	arena_release(&db->scratch);
	free(db);
}

/* The connection goes first: a statement that is closed on a broken one may
 * wait for an answer that never comes; without one it only frees memory. */
void db_disconnect(struct db *db)
{
	if (db->my)
		mysql_close(db->my);
	db->my = NULL;
	for (size_t i = 0; i < STMT_COUNT; i++)
		for (size_t step = 0; step < LADDER_STEPS; step++) {
			if (db->prepared[i][step])
				mysql_stmt_close(db->prepared[i][step]);
			db->prepared[i][step] = NULL;
		}
	db->state = DB_CLOSED;
	db->unusable = false;
	db->ran = 0;
}

static unsigned whole_seconds(uint64_t ms)
{
	return (unsigned)((ms + 999) / 1000);
}

static void set_options(struct db *db)
{
	const struct conf *c = db->conf;
	unsigned connect_s = whole_seconds(c->db_connect_timeout_ms);
	unsigned io_s =
		db->patient ? PATIENCE_S : whole_seconds(c->db_io_timeout_ms);
	unsigned off = 0;
	unsigned protocol =
		*c->db_socket ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
	my_bool yes = 1;

	mysql_optionsv(db->my, MYSQL_OPT_CONNECT_TIMEOUT, &connect_s);
	mysql_optionsv(db->my, MYSQL_OPT_READ_TIMEOUT, &io_s);
	mysql_optionsv(db->my, MYSQL_OPT_WRITE_TIMEOUT, &io_s);
	mysql_optionsv(db->my, MYSQL_OPT_PROTOCOL, &protocol);
	mysql_optionsv(db->my, MYSQL_OPT_LOCAL_INFILE, &off);
	mysql_optionsv(db->my, MYSQL_SET_CHARSET_NAME, "utf8mb4");
	if (!*c->db_socket && *c->db_ca) {
		mysql_optionsv(db->my, MYSQL_OPT_SSL_ENFORCE, &yes);
		mysql_optionsv(db->my, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes);
		mysql_optionsv(db->my, MYSQL_OPT_SSL_CA, c->db_ca);
	}
}

static bool open_connection(struct db *db, struct fail *f)
{
	const struct conf *c = db->conf;
	bool local = *c->db_socket;
	const char *user = db->role == DB_OWNER ? c->db_owner_user : c->db_user;

	db->my = mysql_init(NULL);
	if (!db->my)
		bug("no memory for a connection");
	set_options(db);
	if (mysql_real_connect(db->my, local ? NULL : c->db_host, user,
			       db->password.n ? db->password.p : NULL,
			       c->db_name, local ? 0 : (unsigned)c->db_port,
			       local ? c->db_socket : NULL, 0))
		return true;
	db_fail(db, mysql_errno(db->my), mysql_error(db->my), "connect", false,
		f);
	/* Whatever it was, nothing was executed, and it may be mended without
	 * us: an account, a grant, a server that is starting. */
	db->last_class = DB_NOT_EXECUTED;
	fail_of_class(DB_NOT_EXECUTED, f);
	fail_log(f, "connect: %u %s", mysql_errno(db->my), mysql_error(db->my));
	retry_after(db, f);
	return false;
}

static void learn_server(struct db *db)
{
	struct db_server *s = &db->server;
	uint64_t extended = 0;
	unsigned long v = mysql_get_server_version(db->my);

	*s = (struct db_server){
		.mariadb = mariadb_connection(db->my),
		.version = (unsigned)v,
	};
	snprintf(s->text, sizeof(s->text), "%s", mysql_get_server_info(db->my));
	if (s->mariadb &&
	    mariadb_get_infov(db->my,
			      MARIADB_CONNECTION_EXTENDED_SERVER_CAPABILITIES,
			      &extended) == 0)
		s->array_bind =
			extended & (MARIADB_CLIENT_STMT_BULK_OPERATIONS >> 32);
}

void db_clock_read(struct db *db, uint64_t server_ms)
{
	db->skew_ms = (int64_t)server_ms - (int64_t)clock_wall_ms();
}

/* Guarantee 1. */
static bool check_settings(struct db *db, const struct db_table *t,
			   struct fail *f)
{
	for (size_t i = 0; i < ARRAY_LEN(CHECKS); i++)
		if (db_cell(t, 0, i)->i != 1) {
			db_refuse(db, FAIL_DB_REFUSED,
				  "the session has not the settings it needs",
				  f);
			return fail_log(f, "the server did not take: %s",
					CHECKS[i]);
		}
	if (db_cell(t, 0, COL_FLUSH)->i == 1 ||
	    db->conf->db_allow_relaxed_durability)
		return true;
	db_refuse(db, FAIL_DB_REFUSED, "the database is not durable", f);
	return fail_log(f, "innodb_flush_log_at_trx_commit is not 1: an answer "
			   "could be lost with the machine; set it, or "
			   "db_allow_relaxed_durability");
}

static bool set_up(struct db *db, struct fail *f)
{
	const struct conf *c = db->conf;
	bool m = db->server.mariadb;
	unsigned wait_s = whole_seconds(c->db_lock_wait_ms);
	unsigned idle_s =
		db->patient ? PATIENCE_S : whole_seconds(c->db_idle_timeout_ms);
	struct db_args args =
		DB_ARGS(db_uint(wait_s), db_uint(wait_s), db_uint(idle_s),
			db_uint(idle_s), db_uint(idle_s));
	struct db_table t;
	struct arena a;
	uint64_t none;
	bool ok;

	arena_init(&a, 4096);
	ok = db_exec(db, m ? STMT_SESSION_SET_MARIADB : STMT_SESSION_SET_MYSQL,
		     args, &none, f) &&
	     db_query(db,
		      m ? STMT_SESSION_CHECK_MARIADB : STMT_SESSION_CHECK_MYSQL,
		      args, &a, &t, f) &&
	     check_settings(db, &t, f);
	if (ok) {
		db->lock_wait_s = wait_s;
		db->server.max_packet_bytes = db_cell(&t, 0, COL_MAX_PACKET)->u;
		db_clock_read(db, db_cell(&t, 0, COL_NOW)->u);
	}
	arena_release(&a);
	return ok && db_run_text(db, STMT_ROLLBACK, f);
}

static bool connect_and_check(struct db *db, struct fail *f)
{
	if (!open_connection(db, f))
		return false;
	learn_server(db);
	db->state = DB_OPEN;
	if (!set_up(db, f))
		return false;
	db->state = DB_IDLE;
	db->ran = 0;
	db->used_ms = clock_mono_ms();
	return true;
}

static bool reconnect(struct db *db, struct fail *f)
{
	bool ok;

	db_disconnect(db);
	ok = connect_and_check(db, f);
	metric_add(METRIC_DB_CONNECTS, 1, ok ? "ok" : "failed");
	if (!ok)
		db_disconnect(db);
	return ok;
}

/* Guarantee 2. Before the server's own limit is near, the connection is
 * replaced anyway: it could be closed while the first statement is under
 * way. */
static bool is_stale(const struct db *db)
{
	struct pollfd p = {.fd = mysql_get_socket(db->my),
			   .events = POLLIN | POLLRDHUP};

	if (poll(&p, 1, 0) != 0)
		return true;
	return !db->patient && clock_mono_ms() - db->used_ms >
				       db->conf->db_idle_timeout_ms / 4 * 3;
}

bool db_ready(struct db *db, struct fail *f)
{
	if (db_in_txn(db))
		return true;
	if (db->state == DB_IDLE && !is_stale(db))
		return true;
	return reconnect(db, f);
}

void db_be_patient(struct db *db, bool patient)
{
	if (db_in_txn(db))
		bug("patience inside a transaction");
	db_disconnect(db);
	db->patient = patient;
}

enum db_class db_last_class(const struct db *db)
{
	return db->last_class;
}

unsigned db_last_code(const struct db *db)
{
	return db->last_code;
}

int64_t db_clock_skew_ms(const struct db *db)
{
	return db->skew_ms;
}

uint64_t db_wall_ms(const struct db *db)
{
	return (uint64_t)((int64_t)clock_wall_ms() + db->skew_ms);
}

uint32_t db_connection_id(const struct db *db)
{
	return (uint32_t)mysql_thread_id(db->my);
}

const struct db_server *db_server(const struct db *db)
{
	return &db->server;
}

unsigned db_lock_wait_default_s(const struct db *db)
{
	return whole_seconds(db->conf->db_lock_wait_ms);
}

bool db_lock_wait(struct db *db, unsigned seconds, struct fail *f)
{
	uint64_t none;

	if (seconds == 0 && !db->server.mariadb)
		seconds = 1;
	if (seconds == db->lock_wait_s)
		return true;
	if (!db_exec(db, STMT_SESSION_LOCK_WAIT, DB_ARGS(db_uint(seconds)),
		     &none, f))
		return false;
	db->lock_wait_s = seconds;
	return true;
}

void db_ladder_for_test(struct db *db, bool ladder)
{
	db->no_array = ladder;
}

struct library db_library(void)
{
	return (struct library){"database client", MARIADB_PACKAGE_VERSION,
				mysql_get_client_info()};
}
