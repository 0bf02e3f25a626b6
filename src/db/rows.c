/* One statement for many rows, or for many keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "db_private.h"

/* MySQL numbers the places of a statement with 16 bits. */
enum { PLACES_MAX = 65535, ARRAY_ROWS_MAX = 65535 };

struct rows {
	enum stmt id;
	const struct db_val *cells;
	size_t rows, cols;
};

static uint64_t row_bytes(const struct rows *r, size_t row)
{
	uint64_t n = 0;

	for (size_t col = 0; col < r->cols; col++)
		n += db_val_bytes(&r->cells[row * r->cols + col]);
	return n;
}

/* How many rows from `from` fit into half of max_allowed_packet: at least
 * one, which is then refused by db_execute() if it is over all of it. */
static size_t cut_rows(const struct db *db, const struct rows *r, size_t from,
		       size_t most, uint64_t *bytes_r)
{
	uint64_t max = db->server.max_packet_bytes / 2, sum = 0;
	size_t n = 0;

	while (from + n < r->rows && n < most) {
		uint64_t more = row_bytes(r, from + n);

		if (n && sum + more > max)
			break;
		sum += more;
		n++;
	}
	*bytes_r = sum;
	return n;
}

/* The kind of a column: that of its values, all alike but for NULL. */
static enum db_kind column_kind(const struct rows *r, size_t from, size_t n,
				size_t col)
{
	enum db_kind kind = DB_NULL;

	for (size_t i = from; i < from + n; i++) {
		enum db_kind k = r->cells[i * r->cols + col].kind;

		if (k == DB_NULL || k == kind)
			continue;
		if (kind != DB_NULL)
			bug("%s: column %zu mixes kinds",
			    STMT_TABLE[r->id].name, col);
		kind = k;
	}
	return kind;
}

/* Column by column: texts by an array of pointers and one of lengths,
 * numbers by an array of themselves, NULLs by an array of indicators. */
static void bind_array(struct db *db, const struct rows *r, size_t from,
		       size_t n, size_t col, MYSQL_BIND *b)
{
	enum db_kind kind = column_kind(r, from, n, col);
	char *nulls = arena_array(&db->scratch, n, 1);
	const char **texts = arena_array(&db->scratch, n, sizeof(*texts));
	unsigned long *lengths = arena_array(&db->scratch, n, sizeof(*lengths));
	uint64_t *numbers = arena_array(&db->scratch, n, sizeof(*numbers));
	bool number = kind == DB_INT || kind == DB_UINT;

	for (size_t i = 0; i < n; i++) {
		const struct db_val *v = &r->cells[(from + i) * r->cols + col];

		nulls[i] = v->kind == DB_NULL ? STMT_INDICATOR_NULL
					      : STMT_INDICATOR_NONE;
		texts[i] = "";
		if (v->kind == DB_BYTES && v->bytes.n) {
			texts[i] = v->bytes.p;
			lengths[i] = v->bytes.n;
		} else if (number && v->kind != DB_NULL)
			numbers[i] = v->u;
	}
	b->u.indicator = nulls;
	b->length = lengths;
	b->buffer_type = number ? MYSQL_TYPE_LONGLONG : MYSQL_TYPE_STRING;
	b->buffer = number ? (void *)numbers : (void *)texts;
	b->is_unsigned = kind == DB_UINT;
}

static bool exec_array(struct db *db, const struct rows *r, size_t from,
		       size_t n, uint64_t bytes, MYSQL_STMT **stmt_r,
		       struct fail *f)
{
	MYSQL_BIND *binds = arena_array(&db->scratch, r->cols, sizeof(*binds));

	for (size_t col = 0; col < r->cols; col++)
		bind_array(db, r, from, n, col, &binds[col]);
	return db_prepare(db, r->id, 0, stmt_r, f) &&
	       db_execute(db, r->id, *stmt_r, binds, n, bytes, f);
}

static bool exec_step(struct db *db, const struct rows *r, size_t from,
		      unsigned step, uint64_t bytes, MYSQL_STMT **stmt_r,
		      struct fail *f)
{
	size_t places = LADDER[step] * r->cols;
	MYSQL_BIND *binds = arena_array(&db->scratch, places, sizeof(*binds));

	for (size_t i = 0; i < places; i++)
		db_bind(&binds[i], &r->cells[from * r->cols + i]);
	return db_prepare(db, r->id, step, stmt_r, f) &&
	       db_execute(db, r->id, *stmt_r, binds, 0, bytes, f);
}

/* The highest step of the ladder that is at most n rows. */
static unsigned step_below(size_t n, size_t cols)
{
	unsigned step = LADDER_STEPS - 1;

	while (step && (LADDER[step] > n || LADDER[step] * cols > PLACES_MAX))
		step--;
	return step;
}

/* Runs the next cut; *done_r: how many rows it took. */
static bool exec_cut(struct db *db, const struct rows *r, size_t from,
		     size_t *done_r, uint64_t *affected_r, struct fail *f)
{
	bool array = db->server.array_bind && !db->no_array;
	MYSQL_STMT *stmt;
	uint64_t bytes;
	unsigned step;
	bool ok;

	*done_r = cut_rows(db, r, from,
			   array ? ARRAY_ROWS_MAX : LADDER[LADDER_STEPS - 1],
			   &bytes);
	if (array) {
		ok = exec_array(db, r, from, *done_r, bytes, &stmt, f);
	} else {
		step = step_below(*done_r, r->cols);
		*done_r = LADDER[step];
		ok = exec_step(db, r, from, step, bytes, &stmt, f);
	}
	arena_reset(&db->scratch);
	if (ok)
		*affected_r += mysql_stmt_affected_rows(stmt);
	return ok;
}

bool db_rows_exec(struct db *db, enum stmt id, const struct db_val *cells,
		  size_t rows, size_t cols, uint64_t *affected_r,
		  struct fail *f)
{
	const struct rows r = {id, cells, rows, cols};
	size_t done;

	if (STMT_TABLE[id].shape != STMT_ROWS ||
	    STMT_TABLE[id].row_args != cols)
		bug("%s: %zu columns, want %u", STMT_TABLE[id].name, cols,
		    STMT_TABLE[id].row_args);
	*affected_r = 0;
	for (size_t at = 0; at < rows; at += done)
		if (!exec_cut(db, &r, at, &done, affected_r, f))
			return false;
	return true;
}

struct keys {
	enum stmt id;
	struct db_args fixed;
	const struct db_val *keys;
	size_t count;
};

/* The lowest step of the ladder that holds n keys, or the highest. */
static unsigned step_above(size_t n)
{
	unsigned step = 0;

	while (step < LADDER_STEPS - 1 && LADDER[step] < n)
		step++;
	return step;
}

/* Runs the statement for the next cut of the keys; *done_r: how many. */
static bool run_cut(struct db *db, const struct keys *k, size_t from,
		    size_t *done_r, MYSQL_STMT **stmt_r, struct fail *f)
{
	unsigned step = step_above(k->count - from);
	size_t places = k->fixed.n + LADDER[step], n = LADDER[step];
	MYSQL_BIND *binds = arena_array(&db->scratch, places, sizeof(*binds));
	uint64_t bytes = 0;

	if (n > k->count - from)
		n = k->count - from;
	for (size_t i = 0; i < places; i++) {
		const struct db_val *v;

		if (i < k->fixed.n)
			v = &k->fixed.v[i];
		else if (i - k->fixed.n < n)
			v = &k->keys[from + i - k->fixed.n];
		else
			v = &k->keys[from + n - 1];
		db_bind(&binds[i], v);
		bytes += db_val_bytes(v);
	}
	*done_r = n;
	return db_prepare(db, k->id, step, stmt_r, f) &&
	       db_execute(db, k->id, *stmt_r, binds, 0, bytes, f);
}

static bool query_cut(struct db *db, const struct keys *k, size_t from,
		      size_t *done_r, struct arena *a, struct db_table *t_r,
		      struct fail *f)
{
	MYSQL_STMT *stmt;

	return run_cut(db, k, from, done_r, &stmt, f) &&
	       db_fetch(db, k->id, stmt, a, t_r, f);
}

/* Room grows by doubling: an arena keeps every room there ever was. */
static void join(struct db_table *all, size_t *cap, const struct db_table *more,
		 struct arena *a)
{
	if (!all->cols) {
		*all = *more;
		*cap = more->rows;
		return;
	}
	if (!more->rows)
		return;
	if (all->rows + more->rows > *cap) {
		struct db_val *cells;

		*cap = 2 * (all->rows + more->rows);
		cells = arena_array(a, *cap * all->cols, sizeof(*cells));
		memcpy(cells, all->cells,
		       all->rows * all->cols * sizeof(*cells));
		all->cells = cells;
	}
	memcpy(all->cells + all->rows * all->cols, more->cells,
	       more->rows * all->cols * sizeof(*more->cells));
	all->rows += more->rows;
}

static void check_list(enum stmt id, struct db_args fixed)
{
	if (STMT_TABLE[id].shape != STMT_LIST || STMT_TABLE[id].args != fixed.n)
		bug("%s: wrong call for its shape", STMT_TABLE[id].name);
}

bool db_keys_exec(struct db *db, enum stmt id, struct db_args fixed,
		  const struct db_val *keys, size_t count, uint64_t *affected_r,
		  struct fail *f)
{
	const struct keys k = {id, fixed, keys, count};
	MYSQL_STMT *stmt;
	size_t done;

	check_list(id, fixed);
	*affected_r = 0;
	for (size_t at = 0; at < count; at += done) {
		bool ok = run_cut(db, &k, at, &done, &stmt, f);

		arena_reset(&db->scratch);
		if (!ok)
			return false;
		*affected_r += mysql_stmt_affected_rows(stmt);
	}
	return true;
}

bool db_keys_query(struct db *db, enum stmt id, struct db_args fixed,
		   const struct db_val *keys, size_t count, struct arena *a,
		   struct db_table *t_r, struct fail *f)
{
	const struct keys k = {id, fixed, keys, count};
	struct db_table part;
	size_t done, cap = 0;

	check_list(id, fixed);
	*t_r = (struct db_table){0};
	if (!count)
		return true;
	if (!db_in_txn(db))
		return db_read_alone(db,
				     &(struct db_read){.id = id,
						       .args = fixed,
						       .keys = keys,
						       .count = count,
						       .arena = a,
						       .table_r = t_r},
				     f);
	for (size_t at = 0; at < count; at += done) {
		bool ok = query_cut(db, &k, at, &done, a, &part, f);

		arena_reset(&db->scratch);
		if (!ok)
			return false;
		join(t_r, &cap, &part, a);
	}
	return true;
}
