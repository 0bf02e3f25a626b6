/* gate/reqkey on a real server (K1 to K4), gate/inflight with real processes
 * (F1, F2), and wire/prefer. WAYBILL_TEST_DB_SOCKET names the server's
 * socket, where root needs no password.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metric.h"
#include "db/migrate.h"
#include "db/txn.h"
#include "gate/inflight.h"
#include "gate/reqkey.h"
#include "wire/prefer.h"

/* A schema with its tables, settings that lead to it, and a session. */
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

/* Runs SQL with the command-line client, as root. */
static void sql(const struct world *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void sql(const struct world *w, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	setenv("T_SOCKET", w->conf.db_socket, 1);
	setenv("T_SQL", text, 1);
	if (system("mariadb --no-defaults --socket=\"$T_SOCKET\" --user=root "
		   "-e \"$T_SQL\"") != 0)
		bug("sql: %s", text);
}

static struct db *new_db(const struct world *w)
{
	struct fail f = FAIL_INIT;
	struct db *db;

	if (!db_new(&db, &w->conf, DB_SERVICE, &f) || !db_ready(db, &f))
		bug("%s; %s", f.detail, f.log);
	return db;
}

static void migrate(struct world *w)
{
	struct fail f = FAIL_INIT;
	struct db *db;

	if (!db_new(&db, &w->conf, DB_OWNER, &f) || !migrate_run(db, NULL, &f))
		bug("%s; %s", f.detail, f.log);
	db_free(db);
}

static void open_world(struct world *w)
{
	struct fail f = FAIL_INIT;

	memset(w, 0, sizeof(*w));
	arena_init(&w->arena, 4096);
	if (!conf_load(&w->conf, &w->arena, NULL, &f))
		bug("%s", f.detail);
	snprintf(w->schema, sizeof(w->schema), "wbr_%d", (int)getpid());
	w->conf.db_socket = getenv("WAYBILL_TEST_DB_SOCKET");
	w->conf.db_name = w->schema;
	w->conf.db_user = w->conf.db_owner_user = "root";
	w->conf.db_service_account = w->conf.db_ro_account = "";
	w->conf.db_lock_wait_ms = 1000;
	sql(w, "DROP DATABASE IF EXISTS %s; CREATE DATABASE %s", w->schema,
	    w->schema);
	migrate(w);
	w->db = new_db(w);
}

static void close_world(struct world *w)
{
	db_free(w->db);
	sql(w, "DROP DATABASE %s", w->schema);
	arena_release(&w->arena);
}

/* A fresh key of partner 7. */
static struct reqkey new_key(const struct world *w)
{
	struct reqkey k = {.partner_id = 7,
			   .surface = REQKEY_WMS_INGEST,
			   .collection = 3,
			   .mode = 1,
			   .method = SV("POST"),
			   .path = SV("/wms-ingest/v1/master/skus"),
			   .retention_ms = w->conf.retention_ms};

	digest_random(k.correlation.b, sizeof(k.correlation.b));
	digest_random(k.fingerprint, sizeof(k.fingerprint));
	k.batch_id = id_new(db_wall_ms(w->db));
	return k;
}

static void expire(const struct world *w)
{
	sql(w,
	    "UPDATE %s.request_key SET expires_at = NOW(3) - INTERVAL 1 SECOND",
	    w->schema);
}

/* One request: claim, and if it is ours store and commit. */
struct request {
	struct reqkey key;
	int status;
	struct sv body;
	bool give_up;                 /* ROLLBACK at the end */
	void (*meanwhile)(void *arg); /* between claim and store */
	void *arg;
	enum reqkey_result got;
};

static enum db_step request_work(struct db *db, const struct db_attempt *at,
				 void *arg, struct fail *f)
{
	struct request *r = arg;

	(void)at;
	r->got = reqkey_claim(db, &r->key, f);
	if (r->got == REQKEY_FAIL)
		return DB_STEP_FAIL;
	if (r->got != REQKEY_OURS)
		return DB_STEP_ROLLBACK;
	if (r->meanwhile)
		r->meanwhile(r->arg);
	if (!reqkey_store(db, &r->key, r->status, r->body, f))
		return DB_STEP_FAIL;
	return r->give_up ? DB_STEP_ROLLBACK : DB_STEP_COMMIT;
}

static enum reqkey_result run(struct db *db, struct request *r)
{
	struct fail f = FAIL_INIT;

	if (!db_txn(db,
		    &(struct db_txn){
			    .name = "test", .work = request_work, .arg = r},
		    &f)) {
		printf("%s; %s\n", f.detail, f.log);
		return REQKEY_FAIL;
	}
	return r->got;
}

static enum reqkey_result look(struct world *w, const struct reqkey *key,
			       struct reqkey_stored *s)
{
	struct fail f = FAIL_INIT;

	*s = (struct reqkey_stored){0};
	return reqkey_look(w->db, key, &w->arena, s, &f);
}

static void a_key_is_free_then_ours_then_done(void)
{
	struct reqkey_stored s;
	struct request r;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	r = (struct request){
		.key = new_key(&w), .status = 201, .body = SV("{\"a\":1}\n")};
	WANT_U64(look(&w, &r.key, &s), REQKEY_FREE);
	WANT_U64(run(w.db, &r), REQKEY_OURS);
	WANT_U64(look(&w, &r.key, &s), REQKEY_DONE);
	WANT_U64((uint64_t)s.status, 201);
	WANT_SV(s.body, SV("{\"a\":1}\n"));
	WANT(id_eq(s.batch_id, r.key.batch_id));
	WANT(memcmp(s.fingerprint, r.key.fingerprint, DIGEST_BYTES) == 0);
	WANT_U64((uint64_t)s.collection, 3);
	WANT_U64(s.mode, 1);
	WANT_U64((s.expires_wall_ms - db_wall_ms(w.db) + 60000) / 120000,
		 w.conf.retention_ms / 120000);
	close_world(&w);
}

static void a_key_without_a_collection_has_none(void)
{
	struct reqkey_stored s;
	struct request r;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	r = (struct request){.key = new_key(&w), .status = 200};
	r.key.collection = -1;
	WANT_U64(run(w.db, &r), REQKEY_OURS);
	WANT_U64(look(&w, &r.key, &s), REQKEY_DONE);
	WANT(s.collection == -1);
	close_world(&w);
}

static void a_second_claim_gets_the_first_answer(void)
{
	struct request r, second;
	struct reqkey_stored s;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	r = (struct request){
		.key = new_key(&w), .status = 200, .body = SV("first")};
	WANT_U64(run(w.db, &r), REQKEY_OURS);
	second = r;
	second.key.batch_id = id_new(db_wall_ms(w.db));
	second.body = SV("second");
	WANT_U64(run(w.db, &second), REQKEY_DONE);
	WANT_U64(look(&w, &r.key, &s), REQKEY_DONE);
	WANT_SV(s.body, SV("first"));
	WANT(id_eq(s.batch_id, r.key.batch_id));
	close_world(&w);
}

static void keys_of_two_partners_are_two(void)
{
	struct request r, other;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	r = (struct request){.key = new_key(&w), .status = 200};
	WANT_U64(run(w.db, &r), REQKEY_OURS);
	other = r;
	other.key.partner_id = 8;
	other.key.batch_id = id_new(db_wall_ms(w.db));
	WANT_U64(run(w.db, &other), REQKEY_OURS);
	close_world(&w);
}

/* K1 */
static void a_rolled_back_claim_leaves_the_key_free(void)
{
	struct reqkey_stored s;
	struct request r;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	r = (struct request){
		.key = new_key(&w), .status = 200, .give_up = true};
	WANT_U64(run(w.db, &r), REQKEY_OURS);
	WANT_U64(look(&w, &r.key, &s), REQKEY_FREE);
	r.give_up = false;
	WANT_U64(run(w.db, &r), REQKEY_OURS);
	close_world(&w);
}

/* What another session sees while the first has the key. */
struct other {
	struct world *w;
	struct db *db;
	struct request r;
	enum reqkey_result looked;
};

static void claim_and_look(void *arg)
{
	struct fail f = FAIL_INIT;
	struct reqkey_stored s;
	struct other *o = arg;

	o->looked = reqkey_look(o->db, &o->r.key, &o->w->arena, &s, &f);
	run(o->db, &o->r);
}

static void a_key_that_is_worked_on_is_busy(void)
{
	struct other o;
	struct request r;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	r = (struct request){.key = new_key(&w),
			     .status = 200,
			     .meanwhile = claim_and_look,
			     .arg = &o};
	o = (struct other){.w = &w, .db = new_db(&w), .r = r};
	o.r.meanwhile = NULL;
	o.r.key.batch_id = id_new(db_wall_ms(w.db));
	WANT_U64(run(w.db, &r), REQKEY_OURS);
	WANT_U64(o.looked, REQKEY_FREE);
	WANT_U64(o.r.got, REQKEY_BUSY);
	WANT_U64(run(o.db, &o.r), REQKEY_DONE);
	db_free(o.db);
	close_world(&w);
}

static enum db_step impatient_work(struct db *db, const struct db_attempt *at,
				   void *arg, struct fail *f)
{
	if (!db_lock_wait(db, 0, f))
		return DB_STEP_FAIL;
	return request_work(db, at, arg, f);
}

static void claim_twice(void *arg)
{
	uint64_t began = clock_mono_ms();
	struct fail f = FAIL_INIT;
	struct other *o = arg;

	WANT(db_txn(o->db,
		    &(struct db_txn){.name = "impatient",
				     .work = impatient_work,
				     .arg = &o->r},
		    &f));
	WANT_U64(o->r.got, REQKEY_BUSY);
	WANT(clock_mono_ms() - began < 500);
	began = clock_mono_ms();
	WANT_U64(run(o->db, &o->r), REQKEY_BUSY);
	WANT(clock_mono_ms() - began >= 900);
}

static void a_lock_wait_is_of_one_transaction(void)
{
	struct other o;
	struct request r;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	r = (struct request){.key = new_key(&w),
			     .status = 200,
			     .meanwhile = claim_twice,
			     .arg = &o};
	o = (struct other){.w = &w, .db = new_db(&w), .r = r};
	o.r.meanwhile = NULL;
	WANT_U64(run(w.db, &r), REQKEY_OURS);
	db_free(o.db);
	close_world(&w);
}

/* K2 */
static void an_expired_key_is_taken_over(void)
{
	struct request r, later;
	struct reqkey_stored s;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	r = (struct request){
		.key = new_key(&w), .status = 200, .body = SV("old")};
	WANT_U64(run(w.db, &r), REQKEY_OURS);
	expire(&w);
	WANT_U64(look(&w, &r.key, &s), REQKEY_FREE);
	later = (struct request){
		.key = new_key(&w), .status = 202, .body = SV("new")};
	later.key.correlation = r.key.correlation;
	later.key.collection = -1;
	later.key.mode = 4;
	WANT_U64(run(w.db, &later), REQKEY_OURS);
	WANT_U64(look(&w, &r.key, &s), REQKEY_DONE);
	WANT_SV(s.body, SV("new"));
	WANT_U64((uint64_t)s.status, 202);
	WANT_U64(s.mode, 4);
	WANT(s.collection == -1);
	WANT(id_eq(s.batch_id, later.key.batch_id));
	WANT(memcmp(s.fingerprint, later.key.fingerprint, DIGEST_BYTES) == 0);
	WANT(s.expires_wall_ms > db_wall_ms(w.db));
	r.key.batch_id = id_new(db_wall_ms(w.db));
	WANT_U64(run(w.db, &r), REQKEY_DONE);
	close_world(&w);
}

/* Many processes with one key: exits with what the claim gave. */
static void race_child(const struct world *w, struct request r)
{
	struct db *db = new_db(w);

	r.key.batch_id = id_new(db_wall_ms(db));
	r.body = SV("x");
	_exit((int)run(db, &r));
}

enum { RACERS = 8 };

static void race(struct world *w, const struct request *r)
{
	unsigned got[REQKEY_FAIL + 1] = {0};

	fflush(stdout);
	for (int i = 0; i < RACERS; i++) {
		pid_t pid = fork();

		if (pid == 0)
			race_child(w, *r);
		if (pid < 0)
			bug("fork");
	}
	for (int i = 0; i < RACERS; i++) {
		int status;

		if (wait(&status) < 0 || !WIFEXITED(status) ||
		    WEXITSTATUS(status) > REQKEY_FAIL)
			bug("a racer fell");
		got[WEXITSTATUS(status)]++;
	}
	WANT_U64(got[REQKEY_OURS], 1);
	WANT_U64(got[REQKEY_DONE] + got[REQKEY_BUSY], RACERS - 1);
}

/* K1, K2 */
static void of_many_at_once_one_wins(void)
{
	struct reqkey_stored s;
	struct request r;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	r = (struct request){.key = new_key(&w), .status = 200};
	for (int i = 0; i < 5; i++) {
		race(&w, &r);
		WANT_U64(look(&w, &r.key, &s), REQKEY_DONE);
		expire(&w);
	}
	close_world(&w);
}

/* K3 */
static void after_a_commit_in_doubt_the_key_has_our_own_batch(void)
{
	struct reqkey_stored s;
	struct request r;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	r = (struct request){
		.key = new_key(&w), .status = 200, .body = SV("ours")};
	WANT_U64(run(w.db, &r), REQKEY_OURS);
	db_disconnect(w.db);
	WANT_U64(run(w.db, &r), REQKEY_DONE);
	WANT_U64(look(&w, &r.key, &s), REQKEY_DONE);
	WANT(id_eq(s.batch_id, r.key.batch_id));
	WANT_SV(s.body, SV("ours"));
	close_world(&w);
}

/* K4 */
static void a_live_key_whose_answer_is_gone_is_not_run_again(void)
{
	uint64_t counted = metric_get(METRIC_ANSWERS_GONE);
	struct fail f = FAIL_INIT;
	struct reqkey_stored s;
	struct request r;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	r = (struct request){.key = new_key(&w), .status = 200};
	WANT_U64(run(w.db, &r), REQKEY_OURS);
	sql(&w, "DELETE FROM %s.response", w.schema);
	WANT_U64(reqkey_look(w.db, &r.key, &w.arena, &s, &f), REQKEY_FAIL);
	WANT_FAIL(&f, FAIL_ANSWER_GONE);
	WANT(f.retry_after_s > 0);
	WANT_U64(metric_get(METRIC_ANSWERS_GONE), counted + 1);
	r.key.batch_id = id_new(db_wall_ms(w.db));
	WANT_U64(run(w.db, &r), REQKEY_DONE);
	close_world(&w);
}

static void an_answer_that_cannot_be_unpacked_is_gone(void)
{
	struct fail f = FAIL_INIT;
	struct reqkey_stored s;
	struct request r;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	r = (struct request){.key = new_key(&w), .status = 200};
	WANT_U64(run(w.db, &r), REQKEY_OURS);
	sql(&w, "UPDATE %s.response SET encoding = 1, body = 'no gzip'",
	    w.schema);
	WANT_U64(reqkey_look(w.db, &r.key, &w.arena, &s, &f), REQKEY_FAIL);
	WANT_FAIL(&f, FAIL_ANSWER_GONE);
	close_world(&w);
}

static void wants_back(struct world *w, struct sv body)
{
	struct request r = {.key = new_key(w), .status = 200, .body = body};
	struct reqkey_stored s;

	WANT_U64(run(w->db, &r), REQKEY_OURS);
	WANT_U64(look(w, &r.key, &s), REQKEY_DONE);
	WANT_U64(s.body.n, body.n);
	WANT(sv_eq(s.body, body));
}

static void an_answer_comes_back_byte_for_byte(void)
{
	static const size_t SIZES[] = {0,    1,    1023,    1024,
				       1025, 4096, 1 << 20, (1 << 20) + 1};
	struct world w;
	char *p;

	if (!have_server())
		return;
	open_world(&w);
	p = arena_reserve(&w.arena, 2 << 20);
	for (size_t i = 0; i < ARRAY_LEN(SIZES); i++) {
		digest_random(p, SIZES[i]);
		wants_back(&w, sv_from(p, SIZES[i]));
		for (size_t j = 0; j < SIZES[i]; j++)
			p[j] = "{\"status\":\"ACCEPTED\\'\"},\n\0"[j % 27];
		wants_back(&w, sv_from(p, SIZES[i]));
	}
	close_world(&w);
}

static uint64_t stored_bytes(struct world *w, struct sv body)
{
	struct request r = {.key = new_key(w), .status = 200, .body = body};
	struct fail f = FAIL_INIT;
	struct db_table t;

	WANT_U64(run(w->db, &r), REQKEY_OURS);
	if (!db_query(w->db, STMT_REQKEY_LOOK,
		      DB_ARGS(db_uint(7), db_uint(1),
			      db_text(sv_from(r.key.correlation.b, 16))),
		      &w->arena, &t, &f))
		bug("%s", f.log);
	return db_cell(&t, 0, 7)->bytes.n;
}

static void a_large_answer_is_packed_where_that_makes_it_smaller(void)
{
	struct world w;
	char *p;

	if (!have_server())
		return;
	open_world(&w);
	p = arena_alloc(&w.arena, 100000);
	WANT_U64(stored_bytes(&w, sv_from(p, 1024)), 1024);
	WANT(stored_bytes(&w, sv_from(p, 100000)) < 1000);
	digest_random(p, 100000);
	WANT_U64(stored_bytes(&w, sv_from(p, 100000)), 100000);
	close_world(&w);
}

static void an_answer_is_found_at_any_time_of_its_day(void)
{
	static const uint64_t TIMES[] = {
		UINT64_C(1794960000000), UINT64_C(1794959999999),
		UINT64_C(1794960000001), UINT64_C(1795046399999),
		UINT64_C(4102444800000)};
	struct reqkey_stored s;
	struct world w;

	if (!have_server())
		return;
	open_world(&w);
	for (size_t i = 0; i < ARRAY_LEN(TIMES); i++) {
		struct request r = {.key = new_key(&w), .status = 200};

		for (int b = 0; b < 6; b++)
			r.key.batch_id.b[b] =
				(uint8_t)(TIMES[i] >> (40 - 8 * b));
		WANT_U64(run(w.db, &r), REQKEY_OURS);
		WANT_U64(look(&w, &r.key, &s), REQKEY_DONE);
	}
	close_world(&w);
}

static void a_fingerprint_tells_its_parts_apart(void)
{
	static const char *const PARTS[][4] = {
		{"POST", "/a", "", "{}"}, {"PUT", "/a", "", "{}"},
		{"POST", "/b", "", "{}"}, {"POST", "/a", "x=1", "{}"},
		{"POST", "/a", "", "[]"}, {"POST", "/a{", "", "}"},
		{"POST", "/", "a", "{}"}, {"POST", "/a", "{}", ""},
	};
	uint8_t sums[ARRAY_LEN(PARTS)][DIGEST_BYTES], again[DIGEST_BYTES];

	for (size_t i = 0; i < ARRAY_LEN(PARTS); i++) {
		reqkey_fingerprint(sv_of(PARTS[i][0]), sv_of(PARTS[i][1]),
				   sv_of(PARTS[i][2]), sv_of(PARTS[i][3]),
				   sums[i]);
		for (size_t j = 0; j < i; j++)
			WANT(memcmp(sums[i], sums[j], DIGEST_BYTES) != 0);
	}
	reqkey_fingerprint(SV("POST"), SV("/a"), SV(""), SV("{}"), again);
	WANT(memcmp(again, sums[0], DIGEST_BYTES) == 0);
}

/* A process that enters and then waits for its end; says over a pipe what it
 * got. */
struct child {
	pid_t pid;
	enum inflight_result got;
};

static struct child enter_in_child(uint64_t key, uint64_t until_ms,
				   uint64_t workers)
{
	struct child c;
	char said;
	int fd[2];

	fflush(stdout);
	if (pipe(fd) != 0)
		bug("pipe");
	c.pid = fork();
	if (c.pid < 0)
		bug("fork");
	if (c.pid == 0) {
		said = (char)inflight_enter(key, until_ms, workers);
		if (write(fd[1], &said, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	if (read(fd[0], &said, 1) != 1)
		bug("the child said nothing");
	close(fd[0]);
	close(fd[1]);
	c.got = (enum inflight_result)said;
	return c;
}

static void end_child(struct child c)
{
	kill(c.pid, SIGKILL);
	waitpid(c.pid, NULL, 0);
}

static uint64_t soon(void)
{
	return clock_mono_ms() + 60000;
}

static void open_inflight(void)
{
	struct fail f = FAIL_INIT;

	if (!inflight_open("", &f))
		bug("%s", f.detail);
}

static void who_comes_alone_is_first(void)
{
	open_inflight();
	WANT_U64(inflight_enter(1, soon(), 4), INFLIGHT_FIRST);
	WANT_U64(inflight_enter(1, soon(), 4), INFLIGHT_FIRST);
	inflight_leave();
	WANT_U64(inflight_waiting(), 0);
}

static void another_key_is_no_reason_to_wait(void)
{
	struct child c;

	open_inflight();
	c = enter_in_child(1, soon(), 4);
	WANT_U64(c.got, INFLIGHT_FIRST);
	WANT_U64(inflight_enter(2, soon(), 4), INFLIGHT_FIRST);
	inflight_leave();
	end_child(c);
}

static void a_child_has_a_slot_of_its_own(void)
{
	struct child c;

	open_inflight();
	WANT_U64(inflight_enter(2, soon(), 4), INFLIGHT_FIRST);
	c = enter_in_child(1, soon(), 4);
	WANT_U64(inflight_enter(1, soon(), 4), INFLIGHT_WAITING);
	inflight_leave();
	end_child(c);
}

/* F1 */
static void at_most_half_of_the_workers_wait(void)
{
	struct child c[4];

	open_inflight();
	for (size_t i = 0; i < ARRAY_LEN(c); i++)
		c[i] = enter_in_child(1, soon(), 5);
	WANT_U64(c[0].got, INFLIGHT_FIRST);
	WANT_U64(c[1].got, INFLIGHT_WAITING);
	WANT_U64(c[2].got, INFLIGHT_WAITING);
	WANT_U64(c[3].got, INFLIGHT_CROWDED);
	WANT_U64(inflight_waiting(), 2);
	WANT_U64(inflight_enter(1, soon(), 5), INFLIGHT_CROWDED);
	WANT_U64(inflight_enter(1, soon(), 6), INFLIGHT_WAITING);
	inflight_claimed();
	WANT_U64(inflight_waiting(), 2);
	inflight_leave();
	for (size_t i = 0; i < ARRAY_LEN(c); i++)
		end_child(c[i]);
}

/* F2 */
static void a_killed_process_counts_no_more(void)
{
	struct child c[3];

	open_inflight();
	for (size_t i = 0; i < ARRAY_LEN(c); i++)
		c[i] = enter_in_child(1, soon(), 4);
	WANT_U64(inflight_enter(1, soon(), 4), INFLIGHT_CROWDED);
	end_child(c[1]);
	WANT_U64(inflight_waiting(), 1);
	WANT_U64(inflight_enter(1, soon(), 4), INFLIGHT_WAITING);
	inflight_leave();
	end_child(c[0]);
	end_child(c[2]);
	WANT_U64(inflight_waiting(), 0);
	WANT_U64(inflight_enter(1, soon(), 4), INFLIGHT_FIRST);
	inflight_leave();
}

/* F2: the clock began anew, and its id may be another process's by now. */
static void an_entry_of_another_boot_counts_no_more(void)
{
	struct child c;

	open_inflight();
	clock_set_for_test(clock_mono_ms() + 100 * UINT64_C(86400000));
	c = enter_in_child(1, soon(), 4);
	clock_set_for_test(0);
	WANT_U64(inflight_enter(1, soon(), 4), INFLIGHT_FIRST);
	inflight_leave();
	end_child(c);
}

/* F2: its id is ours by now, and a slot before it is free. */
static void an_entry_of_who_had_our_id_counts_no_more(void)
{
	char path[] = "/tmp/waybill-inflight-XXXXXX", lock[64];
	struct fail f = FAIL_INIT;
	struct child c;
	int fd = mkstemp(path);

	WANT(fd >= 0);
	close(fd);
	WANT(inflight_open(path, &f));
	c = enter_in_child(2, soon(), 4);
	WANT_U64(inflight_enter(1, soon(), 4), INFLIGHT_FIRST);
	end_child(c);
	WANT(inflight_open(path, &f));
	WANT_U64(inflight_enter(1, soon(), 4), INFLIGHT_FIRST);
	inflight_leave();
	snprintf(lock, sizeof(lock), "%s.lock", path);
	unlink(lock);
	unlink(path);
}

/* F2: its id may be another process's by now. */
static void what_is_over_time_counts_no_more(void)
{
	struct child c;

	open_inflight();
	c = enter_in_child(1, clock_mono_ms(), 4);
	WANT_U64(inflight_enter(1, soon(), 4), INFLIGHT_FIRST);
	inflight_leave();
	end_child(c);
}

static void a_slot_of_a_dead_process_is_used_again(void)
{
	open_inflight();
	for (int i = 0; i < 1100; i++) {
		struct child c = enter_in_child(1, soon(), 4);

		if (c.got != INFLIGHT_FIRST)
			WANT_U64(c.got, INFLIGHT_FIRST);
		end_child(c);
	}
	WANT_U64(inflight_enter(1, soon(), 4), INFLIGHT_FIRST);
	inflight_leave();
}

static void parents_see_each_other_through_the_file(void)
{
	char dir[] = "/tmp/wb-inflight-XXXXXX", path[64];
	struct fail f = FAIL_INIT;
	struct child c;

	if (!mkdtemp(dir))
		bug("mkdtemp");
	snprintf(path, sizeof(path), "%s/f", dir);
	WANT(inflight_open(path, &f));
	c = enter_in_child(1, soon(), 4);
	WANT(inflight_open(path, &f));
	WANT_U64(inflight_enter(1, soon(), 4), INFLIGHT_WAITING);
	inflight_leave();
	end_child(c);
	unlink(path);
	snprintf(path, sizeof(path), "%s/f.lock", dir);
	unlink(path);
	WANT(rmdir(dir) == 0);
	WANT(!inflight_open("/nowhere/at/all", &f));
	WANT_FAIL(&f, FAIL_SYSTEM);
	open_inflight();
}

static void keys_have_names_of_their_own(void)
{
	struct id a = {{1}}, b = {{2}};

	WANT(inflight_key(1, 1, a) != inflight_key(1, 1, b));
	WANT(inflight_key(1, 1, a) != inflight_key(2, 1, a));
	WANT(inflight_key(1, 1, a) != inflight_key(1, 2, a));
	WANT_U64(inflight_key(1, 1, a), inflight_key(1, 1, a));
}

static const struct {
	const char *header;
	bool ok, has;
	uint64_t seconds;
} PREFERS[] = {
	{"wait=10", true, true, 10},
	{"wait=0", true, true, 0},
	{"wait=30", true, true, 30},
	{"WAIT = \"7\"", true, true, 7},
	{"respond-async, wait=5", true, true, 5},
	{"a=\"x, wait=9\", wait=5; b=c", true, true, 5},
	{"a=\"\\\", wait=9\", wait=6", true, true, 6},
	{"wait=4, wait=99", true, true, 4},
	{"", true, false, 0},
	{"return=minimal", true, false, 0},
	{"waiting=3", true, false, 0},
	{"=;,,\"", true, false, 0},
	{"wait=31", false, true, 0},
	{"wait=-1", false, true, 0},
	{"wait=+1", false, true, 0},
	{"wait=1.5", false, true, 0},
	{"wait=", false, true, 0},
	{"wait", false, true, 0},
	{"wait=18446744073709551617", false, true, 0},
};

static void of_prefer_the_first_wait_counts(void)
{
	for (size_t i = 0; i < ARRAY_LEN(PREFERS); i++) {
		struct http_header h[] = {
			{SV("accept"), SV("wait=1")},
			{SV("prefer"), SV("x=1")},
			{SV("prefer"), sv_of(PREFERS[i].header)},
		};
		struct http_request r = {.headers = h,
					 .header_count = ARRAY_LEN(h)};
		struct fail f = FAIL_INIT;
		uint64_t seconds = 0;
		bool has;

		if (prefer_wait(&r, 30, &has, &seconds, &f) != PREFERS[i].ok ||
		    has != PREFERS[i].has || seconds != PREFERS[i].seconds) {
			printf("Prefer: %s\n", PREFERS[i].header);
			WANT(!"as the table has it");
		}
		if (!PREFERS[i].ok)
			WANT_FAIL(&f, FAIL_BAD_HEADER);
	}
}

static void an_http_date_is_of_the_fixed_form(void)
{
	char text[CLOCK_HTTP];

	clock_http_date(UINT64_C(784111777999), text);
	WANT_SV(sv_of(text), SV("Sun, 06 Nov 1994 08:49:37 GMT"));
	clock_http_date(0, text);
	WANT_SV(sv_of(text), SV("Thu, 01 Jan 1970 00:00:00 GMT"));
}

void suite_reqkey(void)
{
	ADD(an_http_date_is_of_the_fixed_form);
	ADD(of_prefer_the_first_wait_counts);
	ADD(keys_have_names_of_their_own);
	ADD(who_comes_alone_is_first);
	ADD(another_key_is_no_reason_to_wait);
	ADD(a_child_has_a_slot_of_its_own);
	ADD(at_most_half_of_the_workers_wait);
	ADD(a_killed_process_counts_no_more);
	ADD(an_entry_of_another_boot_counts_no_more);
	ADD(an_entry_of_who_had_our_id_counts_no_more);
	ADD(what_is_over_time_counts_no_more);
	ADD(a_slot_of_a_dead_process_is_used_again);
	ADD(parents_see_each_other_through_the_file);
	ADD(a_fingerprint_tells_its_parts_apart);
	ADD(a_key_is_free_then_ours_then_done);
	ADD(a_key_without_a_collection_has_none);
	ADD(a_second_claim_gets_the_first_answer);
	ADD(keys_of_two_partners_are_two);
	ADD(a_rolled_back_claim_leaves_the_key_free);
	ADD(a_key_that_is_worked_on_is_busy);
	ADD(a_lock_wait_is_of_one_transaction);
	ADD(an_expired_key_is_taken_over);
	ADD(of_many_at_once_one_wins);
	ADD(after_a_commit_in_doubt_the_key_has_our_own_batch);
	ADD(a_live_key_whose_answer_is_gone_is_not_run_again);
	ADD(an_answer_that_cannot_be_unpacked_is_gone);
	ADD(an_answer_comes_back_byte_for_byte);
	ADD(a_large_answer_is_packed_where_that_makes_it_smaller);
	ADD(an_answer_is_found_at_any_time_of_its_day);
}
