/* migrate: migrations, the statements and views they make room for, and what
 * each account may do, on a real server (world.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "db/grant.h"
#include "db/migrate.h"
#include "db/migration_table.h"

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
	WANT(grant_account(&b, "x", "way.bill-1_@10.0.0.%", &f));
	WANT_SV(buf_sv(&b), SV("'way.bill-1_'@'10.0.0.%'"));
	for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
		WANT(!grant_account(&b, "x", BAD[i], &f));
		WANT_FAIL(&f, FAIL_CONF);
	}
	buf_release(&b);
}

static bool have_faults(void)
{
	if (!WAYBILL_FAULTS)
		unit_skip("built without --enable-faults");
	return WAYBILL_FAULTS;
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
	struct db *db = world_db(w, DB_OWNER);
	bool worked = false, ok;

	ok = migrate_run(db, &(struct migrate_report){note_work, &worked}, &f);
	if (!ok)
		fprintf(stderr, "migrate: %s; %s\n", f.detail, f.log);
	db_free(db);
	return ok ? (worked ? 10 : 0) : 1;
}

static bool migrate(struct world *w, struct fail *f)
{
	struct db *db = world_db(w, DB_OWNER);
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

	if (!world_exists())
		return;
	world_open(&w);
	WANT(migrate_status(w.db, &held, &wanted, &f));
	WANT_U64(held, 0);
	WANT_U64(wanted, MIGRATION_COUNT);
	WANT_U64((unsigned)migrate_here(&w), 10);
	before = arena_dup(&w.arena, world_sql(&w, SCHEMA_TEXT));
	WANT_U64((unsigned)migrate_here(&w), 0);
	WANT_SV(world_sql(&w, SCHEMA_TEXT), sv_of(before));
	WANT(migrate_status(w.db, &held, &wanted, &f));
	WANT_U64(held, wanted);
	world_close(&w);
}

static void the_second_of_two_migrations_waits_and_finds_nothing_to_do(void)
{
	uint64_t began = clock_mono_ms();
	struct world w;
	int status;
	pid_t pid;

	if (!world_exists() || !have_faults())
		return;
	world_open(&w);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setenv("WAYBILL_TEST_FAULT", "migrate.after_step:1:delay=1500",
		       1);
		_exit(migrate_here(&w));
	}
	while (!sv_eq(world_sql(&w, "SELECT COUNT(*) FROM schema_version"),
		      SV("2")))
		clock_sleep_ms(20);
	WANT_U64((unsigned)migrate_here(&w), 0);
	WANT(clock_mono_ms() - began > 1400);
	waitpid(pid, &status, 0);
	WANT(WIFEXITED(status) && WEXITSTATUS(status) == 10);
	world_close(&w);
}

static unsigned fault_no;

static int migrate_until_killed(struct world *w)
{
	char fault[32];

	snprintf(fault, sizeof(fault), "*:%u:kill", fault_no);
	setenv("WAYBILL_TEST_FAULT", fault, 1);
	return migrate_here(w);
}

/* Every point with --long; else every 9th, another ninth of them each time. */
static unsigned stride(void)
{
	const char *is_long = getenv("WAYBILL_TEST_LONG");

	return is_long && *is_long ? 1 : 9;
}

static unsigned first(void)
{
	static unsigned no;

	if (!no)
		no = 1 + (unsigned)clock_mono_us() % stride();
	return no;
}

static void a_migration_killed_anywhere_ends_the_same_when_run_again(void)
{
	char *want;
	struct world w;
	int status = 0;

	if (!world_exists() || !have_faults())
		return;
	world_open(&w);
	world_new_schema(&w);
	WANT_U64((unsigned)migrate_here(&w), 10);
	want = arena_dup(&w.arena, world_sql(&w, SCHEMA_TEXT));
	printf("killed at every %uth point from the %uth on\n", stride(),
	       first());
	for (fault_no = first(); fault_no < 10000; fault_no += stride()) {
		world_new_schema(&w);
		status = world_child(migrate_until_killed, &w, false);
		if (WIFEXITED(status))
			break;
		WANT(migrate_here(&w) != 1);
		if (!sv_eq(world_sql(&w, SCHEMA_TEXT), sv_of(want)))
			printf("killed at the %uth point:\n", fault_no);
		WANT_SV(world_sql(&w, SCHEMA_TEXT), sv_of(want));
	}
	WANT(WIFEXITED(status) && WEXITSTATUS(status) == 10);
	WANT(fault_no > 40);
	world_close(&w);
}

static void only_the_step_that_may_be_done_may_find_it_done(void)
{
	struct fail f = FAIL_INIT;
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	WANT_DONE(migrate(&w, &f), &f);
	world_sql(
		&w,
		"UPDATE schema_version SET steps_done = 1, finished_at = NULL "
		"WHERE version = 1");
	WANT_DONE(migrate(&w, &f), &f);
	world_sql(
		&w,
		"UPDATE schema_version SET steps_done = 0, finished_at = NULL "
		"WHERE version = 1");
	WANT(!migrate(&w, &f));
	WANT_FAIL(&f, FAIL_MIGRATION);
	WANT(strstr(f.detail, "step 2") && strstr(f.log, "1050"));
	world_close(&w);
}

static void a_migration_with_another_text_is_refused(void)
{
	struct fail f = FAIL_INIT;
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	WANT_DONE(migrate(&w, &f), &f);
	world_sql(&w,
		  "UPDATE schema_version SET checksum = REPEAT('x', 32) WHERE "
		  "version = 1");
	WANT(!migrate(&w, &f));
	WANT_FAIL(&f, FAIL_MIGRATION);
	WANT(strstr(f.detail, "another text") != NULL);
	world_close(&w);
}

static void a_database_ahead_of_the_program_is_refused(void)
{
	struct fail f = FAIL_INIT;
	unsigned held, wanted;
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	WANT_DONE(migrate(&w, &f), &f);
	world_sql(
		&w,
		"INSERT INTO schema_version SELECT %u, 'future', checksum, 1, "
		"NOW(3), NOW(3) FROM schema_version WHERE version = 1",
		MIGRATION_COUNT + 1);
	WANT(!migrate(&w, &f));
	WANT_FAIL(&f, FAIL_MIGRATION);
	WANT(strstr(f.detail, "ahead") != NULL);
	WANT(migrate_status(w.db, &held, &wanted, &f));
	WANT_U64(held, wanted + 1);
	world_close(&w);
}

static void every_statement_can_be_prepared(void)
{
	struct fail f = FAIL_INIT;
	struct db *owner;
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	owner = world_db(&w, DB_OWNER);
	WANT_DONE(migrate_run(owner, NULL, &f), &f);
	WANT_DONE(db_prepare_all(owner, &f), &f);
	db_free(owner);
	world_close(&w);
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
	    !db_query(db, STMT_CREDENTIAL_LIST,
		      DB_ARGS(db_text(SV("KEY")), db_null()), s->arena,
		      &s->keys, f) ||
	    !db_query(db, STMT_CREDENTIAL_LIST,
		      DB_ARGS(db_text(SV("KEY")), db_text(name)), s->arena,
		      &s->keys, f) ||
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

	if (!world_exists())
		return;
	world_open(&w);
	s = (struct many_statements){.arena = &w.arena};
	owner = world_db(&w, DB_OWNER);
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
	WANT_U64(s.found.cols, 16);
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
	world_close(&w);
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
	"DELETE FROM partner",
	"UPDATE partner SET state = 'DISABLED'",
	"TRUNCATE credential",
	"INSERT INTO partner (partner_id) VALUES (1)",
	"UPDATE credential SET scopes = 7",
	"GRANT SELECT ON partner TO CURRENT_USER",
	"UPDATE schema_version SET checksum = ''",
	"SELECT COUNT(*) FROM audit",
	"INSERT INTO audit (subject) VALUES ('x')",
	"UPDATE audit SET actor = 'x'",
	"DELETE FROM audit",
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
		struct sv out = world_sql_by(w, user, "%s", texts[i]);

		if (!memmem(out.p, out.n, "denied", 6))
			printf("%s may: %s (%.*s)\n", user, texts[i],
			       SV_ARG(out));
		WANT(memmem(out.p, out.n, "denied", 6) != NULL);
	}
}

#define PRIVILEGES                                                        \
	"SELECT COUNT(*) FROM information_schema.table_privileges WHERE " \
	"grantee LIKE '_%s_@%%' AND "

/* By rule rather than by example, for tables that are yet to come. */
static void check_privileges(const struct world *w, const char *service,
			     const char *ro)
{
	WANT(!sv_eq(world_sql(w, PRIVILEGES "1", service), SV("0")));
	WANT(!sv_eq(world_sql(w, PRIVILEGES "1", ro), SV("0")));
	WANT_SQL(w, "0",
		 PRIVILEGES "privilege_type NOT IN ('SELECT', 'INSERT', "
			    "'UPDATE', 'DELETE')",
		 service);
	/* Tables whose rows the service deletes, and no others. */
	WANT_SQL(w, "0",
		 PRIVILEGES "privilege_type = 'DELETE' AND table_name NOT IN "
			    "('quarantine_wait', 'bom_edge', 'job_chunk', "
			    "'refresh_name')",
		 service);
	WANT_SQL(w, "0",
		 PRIVILEGES "NOT (privilege_type = 'SELECT' AND "
			    "LEFT(table_name, 2) = 'v_')",
		 ro);
	WANT_SQL(w, "0",
		 "SELECT COUNT(*) FROM information_schema.schema_privileges "
		 "WHERE grantee LIKE '_%s_@%%' OR grantee LIKE '_%s_@%%'",
		 service, ro);
}

static void check_accounts(struct world *w, const char *service, const char *ro)
{
	struct fail f = FAIL_INIT;
	unsigned held = 0, wanted = 1;
	struct db *db;

	want_denied(w, service, DENIED_TO_BOTH, ARRAY_LEN(DENIED_TO_BOTH));
	want_denied(w, ro, DENIED_TO_BOTH, ARRAY_LEN(DENIED_TO_BOTH));
	want_denied(w, ro, DENIED_TO_RO, ARRAY_LEN(DENIED_TO_RO));
	check_privileges(w, service, ro);
	WANT_SV(world_sql_by(w, ro, "SELECT COUNT(*) FROM v_partner"), SV("0"));
	WANT_SV(world_sql_by(w, ro, "SELECT COUNT(*) FROM v_credential"),
		SV("0"));
	WANT_SV(world_sql_by(w, service,
			     "UPDATE credential SET last_used_at = NOW(3)"),
		SV(""));
	w->conf.db_user = service;
	db = world_db(w, DB_SERVICE);
	WANT_DONE(migrate_status(db, &held, &wanted, &f), &f);
	WANT_U64(held, wanted);
	db_free(db);
}

struct accounts {
	const char *owner, *service, *ro;
	struct db *db; /* the owner's */
};

static void accounts_open(struct accounts *a, struct world *w)
{
	world_open(w);
	make_accounts(w);
	a->owner = arena_printf(&w->arena, "%s_o", w->schema);
	a->service = arena_printf(&w->arena, "%s_s", w->schema);
	a->ro = arena_printf(&w->arena, "%s_r", w->schema);
	w->conf.db_owner_user = a->owner;
	w->conf.db_owner_password_file = password_file(w);
	w->conf.db_service_account =
		arena_printf(&w->arena, "%s@localhost", a->service);
	w->conf.db_ro_account = arena_printf(&w->arena, "%s@localhost", a->ro);
	a->db = world_db(w, DB_OWNER);
}

static void accounts_close(struct accounts *a, struct world *w)
{
	db_free(a->db);
	unlink(w->conf.db_owner_password_file);
	world_sql(w, "DROP USER %s@localhost, %s@localhost, %s@localhost",
		  a->owner, a->service, a->ro);
	world_close(w);
}

static void the_accounts_may_do_what_they_need_and_no_more(void)
{
	struct fail f = FAIL_INIT;
	struct accounts a;
	struct world w;

	if (!world_exists())
		return;
	accounts_open(&a, &w);
	WANT_DONE(migrate_run(a.db, NULL, &f), &f);
	WANT_DONE(migrate_run(a.db, NULL, &f), &f);
	check_accounts(&w, a.service, a.ro);
	w.conf.db_ro_account = "nobody_at_all@localhost";
	WANT(!migrate_run(a.db, NULL, &f));
	WANT_FAIL(&f, FAIL_MIGRATION);
	WANT(strstr(f.detail, "sql/accounts.sql") != NULL);
	accounts_close(&a, &w);
}

/* %s is the account's name. */
static const char *const TOO_MUCH_OF_SERVICE[] = {
	"GRANT DELETE, DROP, ALTER ON item TO %s@localhost",
	"GRANT ALL PRIVILEGES ON partner TO %s@localhost WITH GRANT OPTION",
	"GRANT INSERT, INSERT (name) ON collection_name TO %s@localhost",
	"GRANT UPDATE (scopes) ON credential TO %s@localhost",
	"GRANT SELECT ON v_credential TO %s@localhost",
	"CREATE TABLE left_over (a INT)",
	"GRANT SELECT ON left_over TO %s@localhost",
	"DROP TABLE left_over",
};

static const char *const TOO_MUCH_OF_RO[] = {
	"GRANT SELECT ON credential TO %s@localhost",
	"GRANT SELECT (name), UPDATE (name) ON partner TO %s@localhost",
	"GRANT INSERT ON v_partner TO %s@localhost",
};

static void run_each(struct world *w, const char *account,
		     const char *const *texts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct sv text = sv_of(texts[i]), rest = text;
		struct sv before = sv_cut(&rest, '%');

		if (before.n == text.n)
			WANT_SQL(w, "", "%s", texts[i]);
		else
			WANT_SQL(w, "", "%.*s%s%.*s", SV_ARG(before), account,
				 SV_ARG(sv_tail(rest, 1)));
	}
}

static void give_too_much(struct world *w, const struct accounts *a)
{
	run_each(w, a->service, TOO_MUCH_OF_SERVICE,
		 ARRAY_LEN(TOO_MUCH_OF_SERVICE));
	run_each(w, a->ro, TOO_MUCH_OF_RO, ARRAY_LEN(TOO_MUCH_OF_RO));
	WANT_SQL(w, "",
		 "GRANT SELECT, DELETE, CREATE ON %s.* TO %s@localhost WITH "
		 "GRANT OPTION",
		 w->schema, a->service);
}

/* What the server says, in an order of ours. */
static char *rights_now(struct world *w, const struct accounts *a)
{
	struct sv text = world_sql(
		w,
		"SELECT db, user, table_name, table_priv, column_priv FROM "
		"mysql.tables_priv WHERE user IN ('%s', '%s') ORDER BY 1, 2, "
		"3; SELECT user, table_name, column_name, column_priv FROM "
		"mysql.columns_priv WHERE user IN ('%s', '%s') ORDER BY 1, 2, "
		"3; SELECT db FROM mysql.db WHERE user IN ('%s', '%s')",
		a->service, a->ro, a->service, a->ro, a->service, a->ro);

	return arena_dup(&w->arena, text);
}

static void what_an_account_has_beyond_the_list_is_taken_back(void)
{
	struct fail f = FAIL_INIT;
	struct accounts a;
	struct world w;
	char *listed;

	if (!world_exists())
		return;
	accounts_open(&a, &w);
	WANT_DONE(migrate_run(a.db, NULL, &f), &f);
	listed = rights_now(&w, &a);
	give_too_much(&w, &a);
	/* Takes the right on the one column along when it is taken back. */
	WANT_SQL(&w, "", "GRANT UPDATE ON credential TO %s@localhost",
		 a.service);
	WANT(!sv_eq(sv_of(rights_now(&w, &a)), sv_of(listed)));
	WANT_DONE(migrate_run(a.db, NULL, &f), &f);
	WANT_SV(sv_of(rights_now(&w, &a)), sv_of(listed));
	check_accounts(&w, a.service, a.ro);
	accounts_close(&a, &w);
}

/* A right by a pattern that covers more than our schema is not the owner's to
 * take back. */
static void what_the_owner_cannot_take_back_is_told(void)
{
	struct fail f = FAIL_INIT;
	struct accounts a;
	struct world w;

	if (!world_exists())
		return;
	accounts_open(&a, &w);
	WANT_DONE(migrate_run(a.db, NULL, &f), &f);
	WANT_SQL(&w, "", "GRANT DROP ON `%%`.* TO %s@localhost", a.service);
	WANT(!migrate_run(a.db, NULL, &f));
	WANT_FAIL(&f, FAIL_MIGRATION);
	WANT(strstr(f.detail, "REVOKE ALL PRIVILEGES ON `%`.* FROM") != NULL);
	WANT(strstr(f.detail, "administrator") != NULL);
	accounts_close(&a, &w);
}

static int migrate_until_revoke(struct world *w)
{
	char fault[40];

	snprintf(fault, sizeof(fault), "migrate.before_revoke:%u:kill",
		 fault_no);
	setenv("WAYBILL_TEST_FAULT", fault, 1);
	return migrate_here(w);
}

static void want_none_missing(const struct accounts *a)
{
	struct fail f = FAIL_INIT;
	struct grant_diff diff = {0};
	struct arena arena;

	arena_init(&arena, (size_t)64 * 1024);
	for (int to = 0; to < GRANT_ACCOUNTS; to++) {
		WANT_DONE(
			grant_look(a->db, (enum grant_to)to, &arena, &diff, &f),
			&f);
		WANT_U64(diff.missing_count, 0);
	}
	arena_release(&arena);
}

static void taking_back_killed_anywhere_leaves_what_is_needed(void)
{
	struct fail f = FAIL_INIT;
	struct accounts a;
	struct world w;
	char *listed;

	if (!world_exists() || !have_faults())
		return;
	accounts_open(&a, &w);
	WANT_DONE(migrate_run(a.db, NULL, &f), &f);
	listed = rights_now(&w, &a);
	give_too_much(&w, &a);
	/* Each run takes back `stride` rights before it dies. */
	for (fault_no = 1 + stride();; fault_no = 1 + stride()) {
		int status = world_child(migrate_until_revoke, &w, true);

		want_none_missing(&a);
		if (WIFEXITED(status))
			break;
		WANT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	WANT_SV(sv_of(rights_now(&w, &a)), sv_of(listed));
	accounts_close(&a, &w);
}

void suite_migrate(void)
{
	ADD(an_account_that_is_no_plain_name_is_refused);
	ADD(migrating_twice_changes_nothing_the_second_time);
	ADD(the_second_of_two_migrations_waits_and_finds_nothing_to_do);
	ADD(a_migration_killed_anywhere_ends_the_same_when_run_again);
	ADD(only_the_step_that_may_be_done_may_find_it_done);
	ADD(a_migration_with_another_text_is_refused);
	ADD(a_database_ahead_of_the_program_is_refused);
	ADD(every_statement_can_be_prepared);
	ADD(partners_and_credentials_read_back_as_written);
	ADD(the_accounts_may_do_what_they_need_and_no_more);
	ADD(what_an_account_has_beyond_the_list_is_taken_back);
	ADD(what_the_owner_cannot_take_back_is_told);
	ADD(taking_back_killed_anywhere_leaves_what_is_needed);
}
