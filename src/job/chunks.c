/* Chunks of a job. The guarantees C1 to C4 stand in the header.
 *
 * The text of a chunk: one line for each item (empty if it was left out), then
 * a trailer of one to three lines,
 *
 *	items 4			how many there are; no JSON begins so
 *	lines 17 1 1 3		of an NDJSON body: the first item's line, then
 *				how many further down each next one stands
 *	oversized 3:70001	position and bytes of each that was left out
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "job/chunks.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/text.h"
#include "db/rows.h"
#include "db/txn.h"
#include "wire/inflate.h"

enum {
	SOURCE_ID_MAX = 128, /* of refresh_name.source_id */
	/* An item of the largest item_max, or CHUNK_BYTES, and the trailer. */
	TEXT_MAX = 2 * CHUNK_BYTES + CHUNK_ITEMS * 64,
	PACKED_MAX = TEXT_MAX + TEXT_MAX / 100 + 1024,
	DROP_CHUNKS = 100, /* as STMT_CHUNK_DROP and _NAMES have it */
	DROP_NAMES = 1000,
	ORPHANS = 100,    /* as STMT_CHUNK_ORPHANS has it */
	SWEEPS_MAX = 100, /* of one call: the next one goes on */
	ARENA_BYTES = 64 * 1024,
};

struct chunk_writer {
	struct db *db;
	struct id job_id;
	bool refresh;
	uint32_t chunk_no, first_index;

	/* the chunk that is being filled */
	struct arena arena;
	struct buf text, packed;
	uint32_t items, name_count;
	bool has_lines, has_oversized;
	uint64_t lines[CHUNK_ITEMS], oversized[CHUNK_ITEMS];
	struct sv names[CHUNK_ITEMS];
};

/* The UTC day inside a v7 id. */
static struct db_val day_val(struct id id)
{
	return db_uint(clock_day(id_wall_ms(id)));
}

struct chunk_writer *chunks_new(struct db *db, struct id job_id, bool refresh)
{
	struct chunk_writer *w = calloc(1, sizeof(*w));

	if (!w)
		bug("out of memory for a chunk");
	w->db = db;
	w->job_id = job_id;
	w->refresh = refresh;
	arena_init(&w->arena, ARENA_BYTES);
	buf_init(&w->text, TEXT_MAX);
	buf_init(&w->packed, PACKED_MAX);
	return w;
}

void chunks_free(struct chunk_writer *w)
{
	if (!w)
		return;
	arena_release(&w->arena);
	buf_release(&w->text);
	buf_release(&w->packed);
	free(w);
}

static void add_trailer(struct chunk_writer *w)
{
	buf_addf(&w->text, "items %" PRIu32 "\n", w->items);
	if (w->has_lines) {
		buf_add_text(&w->text, "lines");
		for (uint32_t i = 0; i < w->items; i++)
			buf_addf(&w->text, " %" PRIu64,
				 w->lines[i] - (i ? w->lines[i - 1] : 0));
		buf_add_byte(&w->text, '\n');
	}
	if (!w->has_oversized)
		return;
	buf_add_text(&w->text, "oversized");
	for (uint32_t i = 0; i < w->items; i++)
		if (w->oversized[i])
			buf_addf(&w->text, " %" PRIu32 ":%" PRIu64, i,
				 w->oversized[i]);
	buf_add_byte(&w->text, '\n');
}

static bool add_names(struct db *db, const struct chunk_writer *w,
		      struct fail *f)
{
	struct db_val cells[2 * CHUNK_ITEMS];
	uint64_t rows;

	for (uint32_t i = 0; i < w->name_count; i++) {
		cells[2 * i] = db_id(&w->job_id);
		cells[2 * i + 1] = db_text(w->names[i]);
	}
	return !w->name_count || db_rows_exec(db, STMT_CHUNK_ADD_NAMES, cells,
					      w->name_count, 2, &rows, f);
}

/* A chunk that is there already is ours, of a COMMIT that was in doubt, and
 * its names with it. */
static enum db_step flush_work(struct db *db, const struct db_attempt *at,
			       void *arg, struct fail *f)
{
	const struct chunk_writer *w = arg;
	uint64_t rows;

	if (!db_exec(db, STMT_CHUNK_ADD,
		     DB_ARGS(db_id(&w->job_id), db_uint(w->chunk_no),
			     day_val(w->job_id), db_uint(w->first_index),
			     db_uint(w->items), db_text(buf_sv(&w->packed))),
		     &rows, f))
		return at->maybe_committed && db_last_class(db) == DB_DUPLICATE
			       ? DB_STEP_ROLLBACK
			       : DB_STEP_FAIL;
	return add_names(db, w, f) ? DB_STEP_COMMIT : DB_STEP_FAIL;
}

static bool flush(struct chunk_writer *w, struct fail *f)
{
	if (!w->items)
		return true;
	add_trailer(w);
	inflate_pack(&w->packed, buf_sv(&w->text));
	if (!buf_ok(&w->text) || !buf_ok(&w->packed))
		bug("a chunk of %zu bytes", w->text.n);
	if (!db_txn(w->db,
		    &(struct db_txn){.name = "chunk.add",
				     .work = flush_work,
				     .arg = w,
				     .rerun = true},
		    f))
		return false;
	fault_at("chunks.after_flush");
	w->chunk_no++;
	w->first_index += w->items;
	w->items = w->name_count = 0;
	w->has_lines = w->has_oversized = false;
	buf_reset(&w->text);
	buf_reset(&w->packed);
	arena_reset(&w->arena);
	return true;
}

/* Longer names and those with control characters belong to no item. */
static void note_name(struct chunk_writer *w, const struct json_tape *t)
{
	uint32_t v = json_find(t, 0, SV("source_id"));
	struct sv name;

	if (!v || json_kind(t, v) != JSON_STRING)
		return;
	name = json_text(&w->arena, t, v);
	if (name.n && name.n <= SOURCE_ID_MAX)
		w->names[w->name_count++] = arena_sv(&w->arena, name);
}

/* What the item takes of CHUNK_BYTES, its line's end included. Of one that is
 * left out that is the end alone. */
static bool fits(const struct chunk_writer *w, size_t bytes)
{
	return w->items < CHUNK_ITEMS && bytes < CHUNK_BYTES - w->text.n;
}

bool chunks_add(struct chunk_writer *w, const struct json_item *item,
		struct fail *f)
{
	struct sv bytes = SV("");

	if (item->index >= UINT32_MAX)
		return fail_set(f, FAIL_BODY_TOO_LARGE,
				"more than %" PRIu32 " items", UINT32_MAX);
	if (!item->oversized)
		bytes = json_compact(&w->arena, &item->tape, 0);
	if (w->items && !fits(w, bytes.n)) {
		if (!flush(w, f))
			return false;
		/* The arena was emptied. */
		if (!item->oversized)
			bytes = json_compact(&w->arena, &item->tape, 0);
	}
	buf_add(&w->text, bytes);
	buf_add_byte(&w->text, '\n');
	w->lines[w->items] = item->line;
	w->oversized[w->items] = item->oversized ? item->bytes_count : 0;
	w->has_lines |= item->line != 0;
	w->has_oversized |= item->oversized;
	w->items++;
	if (w->refresh && !item->oversized)
		note_name(w, &item->tape);
	/* An item alone may fill a chunk, or more. */
	return w->text.n < CHUNK_BYTES || flush(w, f);
}

bool chunks_end(struct chunk_writer *w, uint32_t *chunks_r, uint32_t *items_r,
		struct fail *f)
{
	if (!flush(w, f))
		return false;
	*chunks_r = w->chunk_no;
	*items_r = w->first_index;
	return true;
}

bool chunks_check(struct db *db, struct id job_id, uint32_t chunks,
		  struct fail *f)
{
	struct db_table t;
	struct arena a;
	bool ok, there;

	arena_init(&a, 1024);
	ok = db_query(db, STMT_CHUNK_COUNT,
		      DB_ARGS(db_id(&job_id), day_val(job_id)), &a, &t, f);
	there = ok && db_cell(&t, 0, 0)->u == chunks;
	arena_release(&a);
	if (!ok || there)
		return there;
	fail_set(f, FAIL_UNAVAILABLE,
		 "what was stored of the body is no longer there");
	f->retry_after_s = 1;
	return false;
}

/* One cut of a drop: names, then chunks. */
struct drop {
	struct id job_id;
	enum stmt stmt;
	uint64_t rows;
};

static enum db_step drop_work(struct db *db, const struct db_attempt *at,
			      void *arg, struct fail *f)
{
	struct drop *d = arg;
	bool ok;

	(void)at;
	if (d->stmt == STMT_CHUNK_DROP_NAMES)
		ok = db_exec(db, d->stmt,
			     DB_ARGS(db_id(&d->job_id), db_id(&d->job_id)),
			     &d->rows, f);
	else
		ok = db_exec(db, d->stmt,
			     DB_ARGS(db_id(&d->job_id), day_val(d->job_id),
				     db_id(&d->job_id)),
			     &d->rows, f);
	return ok ? DB_STEP_COMMIT : DB_STEP_FAIL;
}

static bool drop_all(struct db *db, struct id job_id, enum stmt stmt,
		     uint64_t most, struct fail *f)
{
	struct drop d = {.job_id = job_id, .stmt = stmt};

	do {
		if (!db_txn(db,
			    &(struct db_txn){.name = "chunk.drop",
					     .work = drop_work,
					     .arg = &d,
					     .rerun = true},
			    f))
			return false;
	} while (d.rows >= most);
	return true;
}

static bool drop(struct db *db, struct id job_id, struct fail *f)
{
	return drop_all(db, job_id, STMT_CHUNK_DROP_NAMES, DROP_NAMES, f) &&
	       drop_all(db, job_id, STMT_CHUNK_DROP, DROP_CHUNKS, f);
}

void chunks_drop(struct db *db, struct id job_id)
{
	struct fail ignored = FAIL_INIT;

	if (!drop(db, job_id, &ignored))
		return; /* the sweep finds it */
}

/* The first id of that time. */
static struct id id_floor(uint64_t wall_ms)
{
	struct id id = {{0}};

	for (int i = 0; i < 6; i++)
		id.b[i] = (uint8_t)(wall_ms >> (40 - 8 * i));
	return id;
}

static bool sweep_some(struct db *db, struct id before, struct arena *a,
		       size_t *swept_r, struct fail *f)
{
	struct db_table t;

	if (!db_query(db, STMT_CHUNK_ORPHANS, DB_ARGS(db_id(&before)), a, &t,
		      f))
		return false;
	for (size_t i = 0; i < t.rows; i++) {
		struct id id;

		memcpy(id.b, db_cell(&t, i, 0)->bytes.p, sizeof(id.b));
		if (!drop(db, id, f))
			return false;
	}
	*swept_r = t.rows;
	return true;
}

bool chunks_sweep(struct db *db, uint64_t before_wall_ms, uint64_t *intakes_r,
		  struct fail *f)
{
	struct id before = id_floor(before_wall_ms);
	struct arena a;
	size_t swept = ORPHANS;
	bool ok = true;

	*intakes_r = 0;
	arena_init(&a, 4096);
	for (int i = 0; ok && swept == ORPHANS && i < SWEEPS_MAX; i++) {
		arena_reset(&a);
		ok = sweep_some(db, before, &a, &swept, f);
		*intakes_r += ok ? swept : 0;
	}
	arena_release(&a);
	return ok;
}

static enum db_step drop_names_work(struct db *db, const struct db_attempt *at,
				    void *arg, struct fail *f)
{
	struct drop *d = arg;

	(void)at;
	return db_exec(db, STMT_REFRESH_NAME_DROP,
		       DB_ARGS(db_id(&d->job_id), db_uint(DROP_NAMES)),
		       &d->rows, f)
		       ? DB_STEP_COMMIT
		       : DB_STEP_FAIL;
}

bool chunks_drop_names(struct db *db, enum chunks_of which, struct arena *a,
		       uint64_t *dropped_r, struct fail *f)
{
	struct drop d = {.rows = 0};
	struct db_table t;

	*dropped_r = 0;
	if (!db_query(db,
		      which == CHUNKS_DONE ? STMT_REFRESH_LEFTOVER
					   : STMT_REFRESH_FORGOTTEN,
		      DB_NO_ARGS, a, &t, f))
		return false;
	if (!t.rows)
		return true;
	memcpy(d.job_id.b, db_cell(&t, 0, 0)->bytes.p, sizeof(d.job_id.b));
	if (!db_txn(db,
		    &(struct db_txn){.name = "refresh.drop_names",
				     .work = drop_names_work,
				     .arg = &d,
				     .rerun = true},
		    f))
		return false;
	*dropped_r = d.rows;
	return true;
}

static bool damaged(struct id job_id, uint32_t chunk_no, const char *why,
		    struct fail *f)
{
	char hex[ID_HEX];

	id_hex(job_id, hex);
	fail_set(f, FAIL_INTERNAL, "a part of the job cannot be read");
	return fail_log(f, "chunk %" PRIu32 " of job %s: %s", chunk_no, hex,
			why);
}

static bool unpack(struct sv packed, struct arena *a, struct sv *text_r)
{
	struct inflate *z = inflate_new(
		&(struct inflate_limits){.unpacked_max = TEXT_MAX,
					 .ratio_max = UINT64_MAX,
					 .ratio_floor = UINT64_MAX});
	char *text = arena_reserve(a, TEXT_MAX);
	struct fail ignored = FAIL_INIT;
	enum inflate_got got;
	size_t n = 0, more;

	inflate_feed(z, packed, true);
	while ((got = inflate_next(z, text + n, TEXT_MAX - n, &more,
				   &ignored)) == INFLATE_SOME)
		n += more;
	inflate_free(z);
	*text_r = sv_from(text, n);
	return got == INFLATE_END;
}

static bool read_lines(struct sv rest, struct arena *a, struct chunk *c)
{
	uint64_t *lines = arena_array(a, c->items, sizeof(*lines));
	uint64_t line = 0, more;

	for (uint32_t i = 0; i < c->items; i++) {
		if (!text_u64(sv_cut(&rest, ' '), 1, UINT64_MAX - line, &more))
			return false;
		lines[i] = line += more;
	}
	c->lines = lines;
	return rest.n == 0;
}

static bool read_oversized(struct sv rest, const struct chunk *c,
			   uint64_t *oversized)
{
	while (rest.n) {
		struct sv bytes = sv_cut(&rest, ' ');
		struct sv position = sv_cut(&bytes, ':');
		uint64_t i;

		if (!text_u64(position, 0, c->items - 1, &i) ||
		    !text_u64(bytes, 1, UINT64_MAX, &oversized[i]))
			return false;
	}
	return true;
}

static bool read_count(struct sv text, const struct chunk *c)
{
	uint64_t n;

	return text_u64(text, c->items, c->items, &n);
}

static bool read_trailer(struct sv rest, struct arena *a, struct chunk *c)
{
	uint64_t *oversized = arena_array(a, c->items, sizeof(*oversized));
	bool counted = false, ok = true;

	while (ok && rest.n) {
		struct sv values = sv_cut(&rest, '\n');
		struct sv name = sv_cut(&values, ' ');

		if (sv_eq(name, SV("items")))
			ok = counted = read_count(values, c);
		else if (sv_eq(name, SV("lines")))
			ok = read_lines(values, a, c);
		else
			ok = sv_eq(name, SV("oversized")) &&
			     read_oversized(values, c, oversized);
	}
	c->oversized = oversized;
	return ok && counted;
}

/* The lines of the items, as many as there are items, and the trailer. */
static bool read_text(struct sv text, struct arena *a, struct chunk *c)
{
	struct sv rest = text;

	for (uint32_t i = 0; i < c->items; i++) {
		if (!rest.n)
			return false;
		sv_cut(&rest, '\n');
	}
	c->ndjson = sv_from(text.p, text.n - rest.n);
	return read_trailer(rest, a, c);
}

bool chunk_read(struct db *db, struct id job_id, uint32_t chunk_no,
		struct arena *a, struct chunk *chunk_r, struct fail *f)
{
	struct db_table t;
	struct sv text;

	if (!db_query(
		    db, STMT_CHUNK_GET,
		    DB_ARGS(db_id(&job_id), db_uint(chunk_no), day_val(job_id)),
		    a, &t, f))
		return false;
	if (!t.rows)
		return fail_set(f, FAIL_NOT_FOUND,
				"chunk %" PRIu32 " of the job is not there",
				chunk_no);
	*chunk_r = (struct chunk){.first_index = (uint32_t)db_cell(&t, 0, 0)->u,
				  .items = (uint32_t)db_cell(&t, 0, 1)->u};
	if (!chunk_r->items || chunk_r->items > CHUNK_ITEMS)
		return damaged(job_id, chunk_no, "its number of items", f);
	if (!unpack(db_cell(&t, 0, 2)->bytes, a, &text))
		return damaged(job_id, chunk_no, "it cannot be unpacked", f);
	return read_text(text, a, chunk_r) ||
	       damaged(job_id, chunk_no, "its lines are not its items", f);
}
