/* Migrations. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "db/migrate.h"

#include "db_private.h"

#include "base/digest.h"
#include "base/fault.h"
#include "db/grant.h"
#include "db/migration_table.h"

enum {
	LOCK_TRIES = 240, /* of five lock waits each: an hour */
};

/* What a step that was done, but not recorded, answers when run again. */
static const unsigned DONE_BEFORE[] = {
	1050, /* table exists */
	1060, /* column exists */
	1061, /* key exists */
	1091, /* nothing to drop */
	1826, /* constraint exists */
};

struct run {
	struct db *db;
	const struct migrate_report *report;
	const struct conf *conf;
};

/* A migration as the database has it. */
struct held {
	unsigned steps_done;
	bool begun, finished;
};

static void say(const struct run *r, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void say(const struct run *r, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (r->report && r->report->say)
		r->report->say(r->report->arg, text);
}

static void checksum(const struct migration *m, uint8_t sum_r[DIGEST_BYTES])
{
	struct digest_state *s = digest_new();

	for (unsigned i = 0; i < m->step_count; i++) {
		digest_add(s, sv_of(m->steps[i]));
		digest_add(s, SV(";\n"));
	}
	digest_free(s, sum_r);
}

/* One statement in a transaction of its own. */
struct lone {
	enum stmt id;
	struct db_args args;
	uint64_t affected;
};

static enum db_step lone_work(struct db *db, const struct db_attempt *at,
			      void *arg, struct fail *f)
{
	struct lone *l = arg;

	(void)at;
	return db_exec(db, l->id, l->args, &l->affected, f) ? DB_STEP_COMMIT
							    : DB_STEP_FAIL;
}

/* Without `rerun`: a COMMIT in doubt ends the run, and the next one reads
 * from schema_version how far this one came. */
static bool lone(struct db *db, enum stmt id, struct db_args args,
		 uint64_t *affected_r, struct fail *f)
{
	struct lone l = {.id = id, .args = args};

	if (!db_txn(db,
		    &(struct db_txn){.name = STMT_TABLE[id].name,
				     .work = lone_work,
				     .arg = &l},
		    f))
		return false;
	*affected_r = l.affected;
	return true;
}

/* Guarantee 3, for one row of migrate_held. */
static bool check_held(const struct db_table *t, size_t row, struct fail *f)
{
	uint64_t version = db_cell(t, row, 0)->u;
	struct sv name = db_cell(t, row, 1)->bytes;
	struct sv held = db_cell(t, row, 2)->bytes;
	uint8_t sum[DIGEST_BYTES];

	if (version > MIGRATION_COUNT)
		return fail_set(f, FAIL_MIGRATION,
				"the database is ahead: it has migration %llu "
				"(%.*s), this program ends at %u; use the "
				"newer program",
				(unsigned long long)version, SV_ARG(name),
				MIGRATION_COUNT);
	if (version != row + 1)
		return fail_set(f, FAIL_MIGRATION,
				"migration %zu is missing in schema_version",
				row + 1);
	checksum(&MIGRATIONS[version - 1], sum);
	if (!sv_eq(held, sv_from(sum, sizeof(sum))))
		return fail_set(f, FAIL_MIGRATION,
				"migration %llu (%.*s) was applied with "
				"another text than this program's",
				(unsigned long long)version, SV_ARG(name));
	return true;
}

/* What the database has of migration `m`, all before it being checked. */
static bool look_up(struct run *r, const struct migration *m,
		    struct held *held_r, struct fail *f)
{
	struct db_table t;
	struct arena a;
	bool ok;

	*held_r = (struct held){0};
	arena_init(&a, 16384);
	ok = db_query(r->db, STMT_MIGRATE_HELD, DB_NO_ARGS, &a, &t, f);
	for (size_t row = 0; ok && row < t.rows; row++) {
		ok = check_held(&t, row, f);
		if (ok && db_cell(&t, row, 0)->u == m->version)
			*held_r = (struct held){
				.steps_done = (unsigned)db_cell(&t, row, 3)->u,
				.begun = true,
				.finished = db_cell(&t, row, 4)->i != 0};
	}
	arena_release(&a);
	return ok;
}

struct step {
	const struct migration *m;
	unsigned no;   /* from 0 */
	bool resumed;  /* may have been done before */
	bool was_done; /* and so it was */
	uint64_t affected;
};

static bool is_done_before(unsigned code)
{
	for (size_t i = 0; i < ARRAY_LEN(DONE_BEFORE); i++)
		if (DONE_BEFORE[i] == code)
			return true;
	return false;
}

/* A step that changes rows commits together with its record; DDL commits by
 * itself, before it. */
static enum db_step step_work(struct db *db, const struct db_attempt *at,
			      void *arg, struct fail *f)
{
	struct step *s = arg;

	if (!s->was_done) {
		fault_at("migrate.before_step");
		if (!db_run_step(db, s->m->steps[s->no], f)) {
			s->was_done = (s->resumed || at->no > 1) &&
				      is_done_before(db_last_code(db));
			return s->was_done ? DB_STEP_AGAIN : DB_STEP_FAIL;
		}
		fault_at("migrate.after_step");
	}
	if (!db_exec(db, STMT_MIGRATE_STEP_DONE,
		     DB_ARGS(db_uint(s->no + 1), db_uint(s->m->version),
			     db_uint(s->no)),
		     &s->affected, f))
		return DB_STEP_FAIL;
	return DB_STEP_COMMIT;
}

static bool step_failed(const struct step *s, struct fail *f)
{
	char log[sizeof(f->log)];

	if (fail_info(f->code)->status == 503)
		return false;
	memcpy(log, f->log, sizeof(log));
	fail_set(f, FAIL_MIGRATION, "migration %u (%s): step %u of %u failed",
		 s->m->version, s->m->name, s->no + 1, s->m->step_count);
	return fail_log(f, "%s", log);
}

static bool moved_by_another(const struct migration *m, struct fail *f)
{
	return fail_set(f, FAIL_MIGRATION,
			"migration %u (%s) is being run by somebody else",
			m->version, m->name);
}

static bool run_step(struct run *r, const struct migration *m, unsigned no,
		     bool resumed, struct fail *f)
{
	struct step s = {.m = m, .no = no, .resumed = resumed};

	if (!db_txn(r->db,
		    &(struct db_txn){.name = "migrate.step",
				     .work = step_work,
				     .arg = &s},
		    f))
		return step_failed(&s, f);
	if (s.affected != 1)
		return moved_by_another(m, f);
	return true;
}

static bool begin(struct run *r, const struct migration *m, struct fail *f)
{
	uint8_t sum[DIGEST_BYTES];
	uint64_t n;

	checksum(m, sum);
	return lone(r->db, STMT_MIGRATE_BEGIN,
		    DB_ARGS(db_uint(m->version), db_text(sv_of(m->name)),
			    db_text(sv_from(sum, sizeof(sum)))),
		    &n, f);
}

static bool run_migration(struct run *r, const struct migration *m,
			  struct fail *f)
{
	struct held held;
	uint64_t n;

	if (!look_up(r, m, &held, f))
		return false;
	if (held.finished)
		return true;
	say(r, "migration %u (%s): %s", m->version, m->name,
	    held.begun ? "going on" : "applying");
	if (!held.begun && !begin(r, m, f))
		return false;
	for (unsigned i = held.steps_done; i < m->step_count; i++)
		if (!run_step(r, m, i, held.begun && i == held.steps_done, f))
			return false;
	if (!lone(r->db, STMT_MIGRATE_FINISH,
		  DB_ARGS(db_uint(m->version), db_uint(m->step_count)), &n, f))
		return false;
	return n == 1 ? true : moved_by_another(m, f);
}

static bool run_all(struct run *r, struct fail *f)
{
	for (unsigned i = 0; i < MIGRATION_COUNT; i++)
		if (!run_migration(r, &MIGRATIONS[i], f))
			return false;
	if (!grant_run(r->db, f))
		return false;
	say(r, "the schema is at version %u", MIGRATION_COUNT);
	return true;
}

/* Everything runs on r->db while this transaction, on another connection,
 * holds the lock. */
struct locked {
	struct run *r;
	bool got_lock;
};

static enum db_step locked_work(struct db *db, const struct db_attempt *at,
				void *arg, struct fail *f)
{
	struct locked *l = arg;
	struct db_table t;
	struct arena a;
	bool ok;

	(void)at;
	arena_init(&a, 1024);
	ok = db_query(db, STMT_MIGRATE_LOCK, DB_NO_ARGS, &a, &t, f);
	arena_release(&a);
	if (!ok)
		return DB_STEP_FAIL;
	l->got_lock = true;
	return run_all(l->r, f) ? DB_STEP_ROLLBACK : DB_STEP_FAIL;
}

static bool run_locked(struct run *r, struct db *locker, struct fail *f)
{
	struct locked l = {.r = r};

	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		if (db_txn(locker,
			   &(struct db_txn){.name = "migrate.lock",
					    .work = locked_work,
					    .arg = &l},
			   f))
			return true;
		if (l.got_lock || f->code != FAIL_DB_BUSY)
			return false;
		say(r, "another migration is running: waiting for it");
	}
	return false;
}

static bool run_with_locker(struct run *r, struct fail *f)
{
	struct db *locker;
	uint64_t n;
	bool ok;

	if (!lone(r->db, STMT_MIGRATE_TABLE, DB_NO_ARGS, &n, f) ||
	    !lone(r->db, STMT_MIGRATE_LOCK_ROW, DB_NO_ARGS, &n, f))
		return false;
	if (!db_new(&locker, r->conf, DB_OWNER, f))
		return false;
	db_be_patient(locker, true);
	ok = run_locked(r, locker, f);
	db_free(locker);
	return ok;
}

bool migrate_run(struct db *owner, const struct migrate_report *report,
		 struct fail *f)
{
	struct run r = {.db = owner, .report = report, .conf = owner->conf};
	bool ok;

	if (owner->role != DB_OWNER)
		bug("migrations are the owner's");
	db_be_patient(owner, true);
	ok = run_with_locker(&r, f);
	db_be_patient(owner, false);
	return ok;
}

bool migrate_status(struct db *db, unsigned *held_r, unsigned *wanted_r,
		    struct fail *f)
{
	struct db_table t;
	struct arena a;
	bool ok;

	*held_r = 0;
	*wanted_r = MIGRATION_COUNT;
	arena_init(&a, 1024);
	ok = db_query(db, STMT_MIGRATE_VERSION, DB_NO_ARGS, &a, &t, f);
	if (ok)
		*held_r = (unsigned)db_cell(&t, 0, 0)->u;
	arena_release(&a);
	/* No such table, or not yet granted. */
	return ok || db_last_code(db) == 1146 || db_last_code(db) == 1142;
}
