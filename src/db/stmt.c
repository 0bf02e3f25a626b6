/* Statements: prepared once a connection, arguments bound, results whole. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "db_private.h"

const unsigned LADDER[LADDER_STEPS] = {1, 10, 100, 1000};

enum {
	TEXT_MAX = 1024 * 1024, /* of a statement with 1000 rows */
	ROW_HEAD = 64,          /* bytes of a packet that are not values */
};

struct db_val db_null(void)
{
	return (struct db_val){.kind = DB_NULL};
}

struct db_val db_int(int64_t v)
{
	return (struct db_val){.kind = DB_INT, .i = v};
}

struct db_val db_uint(uint64_t v)
{
	return (struct db_val){.kind = DB_UINT, .u = v};
}

struct db_val db_text(struct sv s)
{
	return (struct db_val){.kind = DB_BYTES, .bytes = s};
}

struct db_val db_id(const struct id *id)
{
	return db_text(sv_from(id->b, sizeof(id->b)));
}

const struct db_val *db_cell(const struct db_table *t, size_t row, size_t col)
{
	if (row >= t->rows || col >= t->cols)
		bug("cell %zu,%zu of a table of %zu x %zu", row, col, t->rows,
		    t->cols);
	return &t->cells[row * t->cols + col];
}

uint64_t db_val_bytes(const struct db_val *v)
{
	return 10 + (v->kind == DB_BYTES ? v->bytes.n : 0);
}

static void may_run(const struct db *db, const char *name)
{
	if (db->state == DB_FAILED)
		bug("%s: after an error nothing runs in a transaction", name);
	if (db->state != DB_OPEN)
		bug("%s: outside a transaction", name);
}

/* {row} and {list} filled in for `n` of them. */
static void write_text(struct buf *b, const struct stmt_def *def, unsigned n)
{
	const char *place = strchr(def->text, '{'), *what = def->row;

	if (def->shape == STMT_PLAIN || !place) {
		buf_add_text(b, def->text);
		return;
	}
	if (def->shape == STMT_LIST)
		what = "?";
	buf_add(b, sv_from(def->text, (size_t)(place - def->text)));
	for (unsigned i = 0; i < n; i++) {
		if (i)
			buf_add_text(b, ", ");
		buf_add_text(b, what);
	}
	buf_add_text(b, strchr(place, '}') + 1);
}

static bool prepare_new(struct db *db, enum stmt id, unsigned step,
			struct fail *f)
{
	const struct stmt_def *def = &STMT_TABLE[id];
	MYSQL_STMT *stmt = mysql_stmt_init(db->my);
	struct buf b;
	bool ok;

	if (!stmt)
		bug("no memory for a statement");
	buf_init(&b, TEXT_MAX);
	write_text(&b, def, LADDER[step]);
	if (!buf_ok(&b))
		bug("%s: too long with %u rows", def->name, LADDER[step]);
	ok = mysql_stmt_prepare(stmt, b.p, b.n) == 0;
	buf_release(&b);
	if (!ok) {
		db_fail(db, mysql_stmt_errno(stmt), mysql_stmt_error(stmt),
			def->name, false, f);
		if (db->unusable) {
			/* db_disconnect() closes it, in the right order. */
			db->prepared[id][step] = stmt;
			return false;
		}
		mysql_stmt_close(stmt);
		return false;
	}
	db->prepared[id][step] = stmt;
	return true;
}

bool db_prepare(struct db *db, enum stmt id, unsigned step, MYSQL_STMT **stmt_r,
		struct fail *f)
{
	may_run(db, STMT_TABLE[id].name);
	if (!db->prepared[id][step] && !prepare_new(db, id, step, f))
		return false;
	*stmt_r = db->prepared[id][step];
	return true;
}

/* The library does not write through `buffer` of an argument. */
void db_bind(MYSQL_BIND *b, const struct db_val *v)
{
	switch (v->kind) {
	case DB_NULL:
		b->buffer_type = MYSQL_TYPE_NULL;
		return;
	case DB_INT:
	case DB_UINT:
		b->buffer_type = MYSQL_TYPE_LONGLONG;
		b->buffer = (void *)(uintptr_t)&v->u;
		b->is_unsigned = v->kind == DB_UINT;
		return;
	case DB_BYTES:
		b->buffer_type = MYSQL_TYPE_STRING;
		b->buffer = (void *)(uintptr_t)(v->bytes.n ? v->bytes.p : "");
		b->buffer_length = v->bytes.n;
		return;
	}
	bug("value of kind %d", (int)v->kind);
}

static bool stmt_fail(struct db *db, enum stmt id, MYSQL_STMT *stmt,
		      struct fail *f)
{
	return db_fail(db, mysql_stmt_errno(stmt), mysql_stmt_error(stmt),
		       STMT_TABLE[id].name, false, f);
}

/* Over max_allowed_packet the server hangs up, which would look like a lost
 * connection and be tried again: refused here instead. */
static bool fits(struct db *db, enum stmt id, uint64_t bytes, struct fail *f)
{
	uint64_t max = db->server.max_packet_bytes;

	if (!max || bytes + ROW_HEAD < max)
		return true;
	db_refuse(db, FAIL_DB_REFUSED, "too large for one statement", f);
	return fail_log(f, "%s: %llu bytes, max_allowed_packet is %llu",
			STMT_TABLE[id].name, (unsigned long long)bytes,
			(unsigned long long)max);
}

bool db_execute(struct db *db, enum stmt id, MYSQL_STMT *stmt,
		MYSQL_BIND *binds, size_t array, uint64_t bytes, struct fail *f)
{
	unsigned rows = (unsigned)array;

	if (!fits(db, id, bytes, f))
		return false;
	db->ran++;
	db_fault("before", id);
	if (db->server.array_bind &&
	    mysql_stmt_attr_set(stmt, STMT_ATTR_ARRAY_SIZE, &rows) != 0)
		return stmt_fail(db, id, stmt, f);
	if (binds && mysql_stmt_bind_param(stmt, binds) != 0)
		return stmt_fail(db, id, stmt, f);
	if (mysql_stmt_execute(stmt) != 0)
		return stmt_fail(db, id, stmt, f);
	db_fault("after", id);
	return true;
}

static bool execute_args(struct db *db, enum stmt id, struct db_args args,
			 MYSQL_STMT **stmt_r, struct fail *f)
{
	const struct stmt_def *def = &STMT_TABLE[id];
	MYSQL_BIND binds[64];
	uint64_t bytes = 0;

	if (def->shape != STMT_PLAIN || def->as_text)
		bug("%s: wrong call for its shape", def->name);
	if (args.n != def->args || args.n > ARRAY_LEN(binds))
		bug("%s: %zu arguments, want %u", def->name, args.n, def->args);
	memset(binds, 0, sizeof(binds));
	for (size_t i = 0; i < args.n; i++) {
		db_bind(&binds[i], &args.v[i]);
		bytes += db_val_bytes(&args.v[i]);
	}
	return db_prepare(db, id, 0, stmt_r, f) &&
	       db_execute(db, id, *stmt_r, args.n ? binds : NULL, 0, bytes, f);
}

bool db_exec(struct db *db, enum stmt id, struct db_args args,
	     uint64_t *affected_r, struct fail *f)
{
	MYSQL_STMT *stmt;

	if (!execute_args(db, id, args, &stmt, f))
		return false;
	if (mysql_stmt_field_count(stmt))
		bug("%s gives rows: use db_query", STMT_TABLE[id].name);
	*affected_r = mysql_stmt_affected_rows(stmt);
	return true;
}

/* Where the cells of the row being fetched go. */
struct fetch {
	MYSQL_BIND *binds;
	unsigned long *lengths;
	my_bool *nulls;
	uint64_t *numbers;
	char *is_number; /* 0, or a DB_INT or DB_UINT */
};

static enum db_kind number_kind(const MYSQL_FIELD *field)
{
	switch ((int)field->type) {
	case MYSQL_TYPE_TINY:
	case MYSQL_TYPE_SHORT:
	case MYSQL_TYPE_INT24:
	case MYSQL_TYPE_LONG:
	case MYSQL_TYPE_LONGLONG:
	case MYSQL_TYPE_YEAR:
		return field->flags & UNSIGNED_FLAG ? DB_UINT : DB_INT;
	default:
		return DB_NULL;
	}
}

static void bind_column(struct fetch *x, size_t col, const MYSQL_FIELD *field,
			struct arena *a)
{
	MYSQL_BIND *b = &x->binds[col];
	enum db_kind kind = number_kind(field);

	x->is_number[col] = (char)kind;
	b->length = &x->lengths[col];
	b->is_null = &x->nulls[col];
	if (kind != DB_NULL) {
		b->buffer_type = MYSQL_TYPE_LONGLONG;
		b->buffer = &x->numbers[col];
		b->is_unsigned = kind == DB_UINT;
		return;
	}
	b->buffer_type = MYSQL_TYPE_STRING;
	b->buffer = arena_reserve(a, field->max_length + 1);
	b->buffer_length = field->max_length + 1;
}

static void take_cell(const struct fetch *x, size_t col, struct arena *a,
		      struct db_val *v)
{
	enum db_kind kind = (enum db_kind)x->is_number[col];

	if (x->nulls[col])
		*v = db_null();
	else if (kind == DB_INT)
		*v = db_int((int64_t)x->numbers[col]);
	else if (kind == DB_UINT)
		*v = db_uint(x->numbers[col]);
	else
		*v = db_text(arena_sv(
			a, sv_from(x->binds[col].buffer, x->lengths[col])));
}

static bool fetch_rows(struct db *db, enum stmt id, MYSQL_STMT *stmt,
		       const struct fetch *x, struct arena *a,
		       struct db_table *t, struct fail *f)
{
	size_t row = 0;
	int rc;

	while ((rc = mysql_stmt_fetch(stmt)) == 0) {
		if (row == t->rows)
			bug("%s: more rows than stored", STMT_TABLE[id].name);
		for (size_t col = 0; col < t->cols; col++)
			take_cell(x, col, a, &t->cells[row * t->cols + col]);
		row++;
	}
	if (rc == MYSQL_DATA_TRUNCATED)
		bug("%s: a cell was cut", STMT_TABLE[id].name);
	if (rc != MYSQL_NO_DATA)
		return stmt_fail(db, id, stmt, f);
	return true;
}

static bool fetch_stored(struct db *db, enum stmt id, MYSQL_STMT *stmt,
			 MYSQL_RES *meta, struct arena *a, struct db_table *t,
			 struct fail *f)
{
	struct fetch x = {
		.binds = arena_array(&db->scratch, t->cols, sizeof(*x.binds)),
		.lengths =
			arena_array(&db->scratch, t->cols, sizeof(*x.lengths)),
		.nulls = arena_array(&db->scratch, t->cols, sizeof(*x.nulls)),
		.numbers =
			arena_array(&db->scratch, t->cols, sizeof(*x.numbers)),
		.is_number = arena_array(&db->scratch, t->cols, 1),
	};

	for (size_t col = 0; col < t->cols; col++)
		bind_column(&x, col,
			    mysql_fetch_field_direct(meta, (unsigned)col),
			    &db->scratch);
	if (mysql_stmt_bind_result(stmt, x.binds) != 0)
		return stmt_fail(db, id, stmt, f);
	return fetch_rows(db, id, stmt, &x, a, t, f);
}

/* After a failed store_result the statement must not be touched: freeing its
 * result waits for rows that do not come. The connection is given up. */
bool db_fetch(struct db *db, enum stmt id, MYSQL_STMT *stmt, struct arena *a,
	      struct db_table *t_r, struct fail *f)
{
	my_bool yes = 1;
	MYSQL_RES *meta;
	bool ok;

	*t_r = (struct db_table){.cols = mysql_stmt_field_count(stmt)};
	if (!t_r->cols)
		bug("%s gives no rows: use db_exec", STMT_TABLE[id].name);
	mysql_stmt_attr_set(stmt, STMT_ATTR_UPDATE_MAX_LENGTH, &yes);
	if (mysql_stmt_store_result(stmt) != 0) {
		stmt_fail(db, id, stmt, f);
		db->unusable = true;
		return false;
	}
	t_r->rows = (size_t)mysql_stmt_num_rows(stmt);
	t_r->cells =
		arena_array(a, t_r->rows * t_r->cols + 1, sizeof(*t_r->cells));
	meta = mysql_stmt_result_metadata(stmt);
	if (!meta)
		bug("%s: no metadata", STMT_TABLE[id].name);
	ok = fetch_stored(db, id, stmt, meta, a, t_r, f);
	mysql_free_result(meta);
	if (ok)
		mysql_stmt_free_result(stmt);
	else
		db->unusable = true;
	return ok;
}

/* Statements that tell the time, and in which column. */
static void note_clock(struct db *db, enum stmt id, const struct db_table *t)
{
	if (id == STMT_SERVER_NOW && t->rows)
		db_clock_read(db, db_cell(t, 0, 0)->u);
	else if (id == STMT_MIGRATE_VERSION && t->rows)
		db_clock_read(db, db_cell(t, 0, 1)->u);
}

bool db_query(struct db *db, enum stmt id, struct db_args args, struct arena *a,
	      struct db_table *t_r, struct fail *f)
{
	MYSQL_STMT *stmt;
	bool ok;

	if (!db_in_txn(db))
		return db_read_alone(db,
				     &(struct db_read){.id = id,
						       .args = args,
						       .arena = a,
						       .table_r = t_r},
				     f);
	ok = execute_args(db, id, args, &stmt, f) &&
	     db_fetch(db, id, stmt, a, t_r, f);
	arena_reset(&db->scratch);
	if (ok)
		note_clock(db, id, t_r);
	return ok;
}

/* Sent and answered apart, so that a test can die between the two. */
static bool send_text(struct db *db, const char *text)
{
	return mysql_send_query(db->my, text, strlen(text)) == 0;
}

bool db_run_text(struct db *db, enum stmt id, struct fail *f)
{
	const struct stmt_def *def = &STMT_TABLE[id];
	bool ok;

	if (!def->as_text)
		bug("%s is no text statement", def->name);
	db_fault("before", id);
	ok = send_text(db, def->text);
	if (ok) {
		db_fault("sent", id);
		ok = mysql_read_query_result(db->my) == 0;
	}
	if (!ok)
		return db_fail(db, mysql_errno(db->my), mysql_error(db->my),
			       def->name, id == STMT_COMMIT, f);
	db_fault("after", id);
	return true;
}

bool db_run_step(struct db *db, const char *text, struct fail *f)
{
	may_run(db, "a migration step");
	db->ran++;
	if (!send_text(db, text) || mysql_read_query_result(db->my) != 0)
		return db_fail(db, mysql_errno(db->my), mysql_error(db->my),
			       "a migration step", false, f);
	return true;
}

/* Statements of tests name tables that only tests have. */
static bool is_ours(const struct db *db, const struct stmt_def *def)
{
	if (def->as_text || sv_starts(sv_of(def->source), SV("tests/")))
		return false;
	return def->on == STMT_ON_ALL ||
	       (def->on == STMT_ON_MARIADB) == db->server.mariadb;
}

static enum db_step prepare_each(struct db *db, const struct db_attempt *at,
				 void *arg, struct fail *f)
{
	MYSQL_STMT *stmt;

	(void)at;
	(void)arg;
	for (int id = 0; id < STMT_COUNT; id++)
		if (is_ours(db, &STMT_TABLE[id]) &&
		    !db_prepare(db, (enum stmt)id, 0, &stmt, f))
			return DB_STEP_FAIL;
	return DB_STEP_ROLLBACK;
}

bool db_prepare_all(struct db *db, struct fail *f)
{
	return db_txn(
		db,
		&(struct db_txn){.name = "prepare_all", .work = prepare_each},
		f);
}
