/* Day partitions. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "db/partition.h"

#include "db_private.h"

#include "base/fault.h"

enum { TRIES = 3, DDL_MAX = 4096 };

static const struct partitioned {
	const char *table;
	enum stmt make, drop, stray;
} TABLES[PARTITION_TABLES] = {
	{"response", STMT_PARTITION_MAKE_RESPONSE, STMT_PARTITION_DROP_RESPONSE,
	 STMT_PARTITION_STRAY_RESPONSE},
	{"batch", STMT_PARTITION_MAKE_BATCH, STMT_PARTITION_DROP_BATCH,
	 STMT_PARTITION_STRAY_BATCH},
	{"batch_item", STMT_PARTITION_MAKE_BATCH_ITEM,
	 STMT_PARTITION_DROP_BATCH_ITEM, STMT_PARTITION_STRAY_BATCH_ITEM},
	{"job_chunk", STMT_PARTITION_MAKE_JOB_CHUNK,
	 STMT_PARTITION_DROP_JOB_CHUNK, STMT_PARTITION_STRAY_JOB_CHUNK},
};

/* What somebody else's partition of the same day makes of ours: a name that
 * is there, or bounds that do not rise. */
static bool is_made_by_another(unsigned code)
{
	return code == 1517 || code == 1493;
}

static bool is_dropped_by_another(unsigned code)
{
	return code == 1507;
}

/* The template with {day} and {next}, or {days}, filled in. The only place
 * where a number is put into a statement: DDL takes no arguments. */
static void fill_in(struct buf *b, const char *template, const char *days,
		    uint32_t day)
{
	struct sv rest = sv_of(template);

	while (rest.n) {
		struct sv name;

		buf_add(b, sv_cut(&rest, '{'));
		if (!rest.n)
			return;
		name = sv_cut(&rest, '}');
		if (days && sv_eq(name, SV("days")))
			buf_add_text(b, days);
		else if (!days && sv_eq(name, SV("day")))
			buf_add_u64(b, day);
		else if (!days && sv_eq(name, SV("next")))
			buf_add_u64(b, (uint64_t)day + 1);
		else
			bug("{%.*s} in a template of partitions", SV_ARG(name));
	}
}

static void write_ddl(struct buf *b, const struct stmt_def *def, uint32_t first,
		      uint32_t last)
{
	struct buf days;

	buf_init(&days, DDL_MAX);
	for (uint32_t day = first; day <= last; day++) {
		fill_in(&days, def->row, NULL, day);
		buf_add_byte(&days, ' ');
	}
	fill_in(b, def->text, buf_cstr(&days), 0);
	if (!buf_ok(&days) || !buf_ok(b))
		bug("%s is too long for %u days", def->name, last - first + 1);
	buf_release(&days);
}

/* DDL commits by itself. */
static enum db_step make_work(struct db *db, const struct db_attempt *at,
			      void *arg, struct fail *f)
{
	(void)at;
	fault_at("partition.before_make");
	if (!db_run_step(db, arg, f))
		return DB_STEP_FAIL;
	fault_at("partition.after_make");
	return DB_STEP_ROLLBACK;
}

static enum db_step drop_work(struct db *db, const struct db_attempt *at,
			      void *arg, struct fail *f)
{
	(void)at;
	fault_at("partition.before_drop");
	if (!db_run_step(db, arg, f))
		return DB_STEP_FAIL;
	fault_at("partition.after_drop");
	return DB_STEP_ROLLBACK;
}

/* What the server said goes to the log. */
static void refused(const struct partitioned *t, const char *what,
		    struct fail *f)
{
	char log[sizeof(f->log)];

	if (fail_info(f->code)->status == 503)
		return;
	memcpy(log, f->log, sizeof(log));
	fail_set(f, FAIL_DB_REFUSED, "the partitions of %s could not be %s",
		 t->table, what);
	fail_log(f, "%s", log);
}

enum made { MADE_OURS, MADE_BY_ANOTHER, MADE_FAIL };

static enum made make(struct db *db, const struct partitioned *t,
		      uint32_t first, uint32_t last, struct fail *f)
{
	char text[DDL_MAX];
	struct buf b;

	buf_init(&b, sizeof(text) - 1);
	write_ddl(&b, &STMT_TABLE[t->make], first, last);
	snprintf(text, sizeof(text), "%s", buf_cstr(&b));
	buf_release(&b);
	if (db_txn(db,
		   &(struct db_txn){.name = "partition.make",
				    .work = make_work,
				    .arg = text},
		   f))
		return MADE_OURS;
	if (is_made_by_another(db_last_code(db)))
		return MADE_BY_ANOTHER;
	refused(t, "made", f);
	return MADE_FAIL;
}

static bool look_next(struct db *db, const struct partitioned *t,
		      uint32_t *next_r, struct fail *f)
{
	struct db_table found;
	struct arena a;
	bool ok;

	arena_init(&a, 1024);
	ok = db_query(db, STMT_PARTITION_NEXT,
		      DB_ARGS(db_text(sv_of(t->table))), &a, &found, f);
	if (ok)
		*next_r = (uint32_t)db_cell(&found, 0, 0)->u;
	arena_release(&a);
	return ok;
}

static bool look_stray(struct db *db, const struct partitioned *t,
		       bool *stray_r, struct fail *f)
{
	struct db_table found;
	struct arena a;
	bool ok;

	arena_init(&a, 1024);
	ok = db_query(db, t->stray, DB_NO_ARGS, &a, &found, f);
	if (ok)
		*stray_r = found.rows > 0;
	arena_release(&a);
	return ok;
}

/* One run of partition_run() for one table. Who loses a race looks again: the
 * other may have made fewer days. */
static bool reach(struct db *db, const struct partitioned *t, uint32_t today,
		  struct partition_state *s, struct fail *f)
{
	uint32_t last = today + PARTITION_DAYS_AHEAD, first;

	for (int i = 0; i < TRIES; i++) {
		if (!look_next(db, t, &s->next, f))
			return false;
		if (s->next > last)
			return true;
		first = s->next > today ? s->next : today;
		*f = FAIL_INIT;
		switch (make(db, t, first, last, f)) {
		case MADE_OURS:
			s->made = last - first + 1;
			s->next = last + 1;
			return true;
		case MADE_BY_ANOTHER:
			break;
		case MADE_FAIL:
			return false;
		}
	}
	return false;
}

static bool run_all(struct db *owner, uint32_t today, struct partition_state *s,
		    struct fail *f)
{
	for (size_t i = 0; i < PARTITION_TABLES; i++) {
		s[i] = (struct partition_state){.table = TABLES[i].table};
		if (!reach(owner, &TABLES[i], today, &s[i], f) ||
		    !look_stray(owner, &TABLES[i], &s[i].stray, f))
			return false;
	}
	return true;
}

/* Moving rows out of the catch-all may take longer than a statement should. */
bool partition_run(struct db *owner, uint32_t today,
		   struct partition_state s_r[PARTITION_TABLES], struct fail *f)
{
	bool ok;

	if (owner->role != DB_OWNER)
		bug("partitions are the owner's");
	db_be_patient(owner, true);
	ok = run_all(owner, today, s_r, f);
	db_be_patient(owner, false);
	return ok;
}

static bool drop_day(struct db *db, const struct partitioned *t, uint32_t day,
		     unsigned *dropped, struct fail *f)
{
	char text[DDL_MAX];
	struct buf b;

	buf_init(&b, sizeof(text) - 1);
	fill_in(&b, STMT_TABLE[t->drop].text, NULL, day);
	snprintf(text, sizeof(text), "%s", buf_cstr(&b));
	buf_release(&b);
	if (db_txn(db,
		   &(struct db_txn){.name = "partition.drop",
				    .work = drop_work,
				    .arg = text},
		   f)) {
		++*dropped;
		return true;
	}
	if (!is_dropped_by_another(db_last_code(db))) {
		refused(t, "dropped", f);
		return false;
	}
	*f = FAIL_INIT;
	return true;
}

/* The oldest first: whoever is killed in between leaves no gap. */
static bool drop_before(struct db *db, const struct partitioned *t,
			uint32_t keep_from, unsigned *dropped, struct fail *f)
{
	struct db_table old;
	struct arena a;
	bool ok;

	arena_init(&a, 4096);
	ok = db_query(db, STMT_PARTITION_OLD,
		      DB_ARGS(db_text(sv_of(t->table)), db_uint(keep_from)), &a,
		      &old, f);
	for (size_t i = 0; ok && i < old.rows; i++)
		ok = drop_day(db, t, (uint32_t)db_cell(&old, i, 0)->u, dropped,
			      f);
	arena_release(&a);
	return ok;
}

bool partition_drop(struct db *owner, uint32_t keep_from,
		    struct partition_state s[PARTITION_TABLES], struct fail *f)
{
	bool ok = true;

	if (owner->role != DB_OWNER)
		bug("partitions are the owner's");
	db_be_patient(owner, true);
	for (size_t i = 0; ok && i < PARTITION_TABLES; i++)
		ok = drop_before(owner, &TABLES[i], keep_from, &s[i].dropped,
				 f);
	db_be_patient(owner, false);
	return ok;
}

bool partition_look(struct db *db, struct partition_state s_r[PARTITION_TABLES],
		    struct fail *f)
{
	for (size_t i = 0; i < PARTITION_TABLES; i++) {
		s_r[i] = (struct partition_state){.table = TABLES[i].table};
		if (!look_next(db, &TABLES[i], &s_r[i].next, f) ||
		    !look_stray(db, &TABLES[i], &s_r[i].stray, f))
			return false;
	}
	return true;
}
