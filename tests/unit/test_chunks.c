/* job/chunks on a real server (C1 to C4). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/digest.h"
#include "job/chunks.h"

enum { ITEM_MAX = 64 * 1024 };

static const struct json_limits LIMITS = {.depth_max = 32, .names_max = 256};

/* The time inside the next job's id; 0: now. */
static uint64_t job_wall_ms;

static struct id new_job(const struct world *w)
{
	struct id id = id_new(db_wall_ms(w->db));

	for (int i = 0; job_wall_ms && i < 6; i++)
		id.b[i] = (uint8_t)(job_wall_ms >> (40 - 8 * i));
	return id;
}

/* Stores a whole body, in pieces of `piece` bytes. */
struct stored {
	struct id job_id;
	uint32_t chunks, items;
};

static bool store(struct world *w, struct sv body, bool ndjson, bool refresh,
		  size_t piece, struct stored *s)
{
	struct chunk_writer *c;
	struct json_items *r =
		json_items_new(&w->arena, ndjson ? JSON_LINES : JSON_ENVELOPE,
			       &LIMITS, ITEM_MAX);
	struct fail f = FAIL_INIT;
	struct json_item item;
	enum json_got got;
	bool ok = true;

	s->job_id = new_job(w);
	c = chunks_new(w->db, s->job_id, refresh);
	do {
		size_t n = body.n < piece ? body.n : piece;

		json_items_feed(r, sv_from(body.p, n), n == body.n);
		body = sv_tail(body, n);
		while (ok && (got = json_items_next(r, &item, &f)) == JSON_ITEM)
			ok = chunks_add(c, &item, &f);
	} while (ok && got == JSON_MORE);
	ok = ok && got == JSON_END && chunks_end(c, &s->chunks, &s->items, &f);
	if (!ok)
		WANT_FAIL(&f, FAIL_NONE);
	chunks_free(c);
	return ok;
}

static struct chunk read_chunk(struct world *w, const struct stored *s,
			       uint32_t no)
{
	struct fail f = FAIL_INIT;
	struct chunk c = {0};

	WANT_DONE(chunk_read(w->db, s->job_id, no, &w->arena, &c, &f), &f);
	return c;
}

static uint32_t small_random(uint32_t below)
{
	uint32_t r;

	digest_random(&r, sizeof(r));
	return r % below;
}

/* One item of a random body: its compacted bytes and its line; empty: it is
 * too large. */
struct want {
	struct sv bytes;
	uint64_t line, oversized;
};

/* An item as sent (`spaced`: with white space) and as it must come back. */
static void add_random(struct world *w, struct buf *body, struct want *want)
{
	struct buf sent, kept;
	size_t fill = small_random(50) ? small_random(200)
				       : small_random(ITEM_MAX + 2000);
	bool spaced = small_random(2);

	buf_init(&sent, 1 << 20);
	buf_init(&kept, 1 << 20);
	buf_addf(&kept,
		 "{\"source_id\":\"S-%" PRIu32 "\",\"n\":[1.10,%" PRIu32
		 "],\"t\":\"\\n \\u0041 ",
		 small_random(1000), small_random(1000000));
	for (size_t i = 0; i < fill; i++)
		buf_add_byte(&kept, (char)('a' + small_random(26)));
	buf_add_text(&kept, "\"}");
	if (spaced)
		buf_add_text(&sent, "{ ");
	buf_add(&sent, sv_tail(buf_sv(&kept), spaced ? 1 : 0));
	want->bytes = arena_sv(&w->arena, buf_sv(&kept));
	want->oversized = sent.n > ITEM_MAX ? sent.n : 0;
	buf_add(body, buf_sv(&sent));
	buf_release(&sent);
	buf_release(&kept);
}

static void compare(struct world *w, const struct stored *s,
		    const struct want *want, uint32_t count, bool ndjson)
{
	uint32_t seen = 0;

	WANT_U64(s->items, count);
	for (uint32_t no = 0; no < s->chunks; no++) {
		struct chunk c = read_chunk(w, s, no);
		struct sv rest = c.ndjson;

		WANT_U64(c.first_index, seen);
		WANT(c.items > 0 && c.items <= CHUNK_ITEMS);
		WANT(c.ndjson.n <= CHUNK_BYTES);
		WANT((c.lines != NULL) == ndjson);
		for (uint32_t i = 0; i < c.items; i++, seen++) {
			struct sv line = sv_cut(&rest, '\n');

			WANT_U64(c.oversized[i], want[seen].oversized);
			if (want[seen].oversized)
				WANT_U64(line.n, 0);
			else
				WANT_SV(line, want[seen].bytes);
			if (ndjson)
				WANT_U64(c.lines[i], want[seen].line);
		}
		WANT_U64(rest.n, 0);
	}
	WANT_U64(seen, count);
}

static void round_trip(bool ndjson)
{
	enum { COUNT = 2500 };
	struct want *want;
	struct stored s;
	struct world w;
	struct buf body;
	uint64_t line = 1;

	if (!world_exists())
		return;
	world_open(&w);
	world_migrate(&w);
	want = arena_array(&w.arena, COUNT, sizeof(*want));
	buf_init(&body, 64 << 20);
	if (!ndjson)
		buf_add_text(&body, "{\"items\":[");
	for (uint32_t i = 0; i < COUNT; i++) {
		for (uint32_t n = small_random(3); ndjson && n > 0; n--, line++)
			buf_add_byte(&body, '\n');
		want[i].line = line++;
		if (!ndjson && i)
			buf_add_text(&body, ", ");
		add_random(&w, &body, &want[i]);
		if (ndjson)
			buf_add_byte(&body, '\n');
	}
	if (!ndjson)
		buf_add_text(&body, "]}");
	if (store(&w, buf_sv(&body), ndjson, false, 60000, &s))
		compare(&w, &s, want, COUNT, ndjson);
	WANT_SQL(&w, "0", "SELECT COUNT(*) FROM refresh_name");
	buf_release(&body);
	world_close(&w);
}

/* C1 */
static void random_items_come_back_as_they_were_sent(void)
{
	round_trip(false);
}

/* C1 */
static void items_of_ndjson_keep_their_lines(void)
{
	round_trip(true);
}

/* `count` items of `each` bytes, as NDJSON. */
static void fill(struct buf *b, uint32_t count, size_t each)
{
	for (uint32_t i = 0; i < count; i++) {
		buf_add_byte(b, '"');
		for (size_t n = 2; n < each; n++)
			buf_add_byte(b, 'x');
		buf_add_text(b, "\"\n");
	}
}

/* last: so many bytes more has the last one. */
static void want_chunks(struct world *w, uint32_t count, size_t each,
			size_t last, uint32_t chunks, uint32_t first)
{
	struct stored s;
	struct buf b;

	buf_init(&b, 64 << 20);
	fill(&b, count - (last > 0), each);
	fill(&b, last > 0, each + last);
	if (store(w, buf_sv(&b), true, false, 1 << 20, &s)) {
		WANT_U64(s.items, count);
		WANT_U64(s.chunks, chunks);
		if (chunks)
			WANT_U64(read_chunk(w, &s, 0).items, first);
	}
	buf_release(&b);
}

static void a_chunk_is_cut_at_its_limits_exactly(void)
{
	enum { EACH = 32768, FIT = CHUNK_BYTES / EACH }; /* with line ends */
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	world_migrate(&w);
	want_chunks(&w, 0, 10, 0, 0, 0);
	want_chunks(&w, 1, 10, 0, 1, 1);
	want_chunks(&w, CHUNK_ITEMS, 10, 0, 1, CHUNK_ITEMS);
	want_chunks(&w, CHUNK_ITEMS + 1, 10, 0, 2, CHUNK_ITEMS);
	want_chunks(&w, FIT, EACH - 1, 0, 1, FIT);
	want_chunks(&w, FIT + 1, EACH - 1, 0, 2, FIT);
	want_chunks(&w, FIT, EACH - 1, 1, 2, FIT - 1);
	world_close(&w);
}

/* Twice the same name, one in escapes, a rejected item, and what has none. */
static void a_refresh_keeps_the_names_once(void)
{
	static const char BODY[] =
		"{\"items\":[{\"source_id\":\"A\"},{\"source_id\":\"\\u0041\"},"
		"{\"source_id\":\"B\",\"name\":5},{\"source_id\":\"\"},5,"
		"{\"source_id\":7},{},[\"source_id\",\"C\"]]}";
	struct stored s;
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	world_migrate(&w);
	WANT(store(&w, sv_of(BODY), false, true, 7, &s));
	WANT_U64(s.items, 8);
	WANT_SQL(&w, "A,B",
		 "SELECT GROUP_CONCAT(source_id ORDER BY source_id) FROM "
		 "refresh_name");
	world_close(&w);
}

static enum db_step check_work(struct db *db, const struct db_attempt *at,
			       void *arg, struct fail *f)
{
	const struct stored *s = arg;

	(void)at;
	return chunks_check(db, s->job_id, s->chunks, f) ? DB_STEP_COMMIT
							 : DB_STEP_FAIL;
}

static bool all_there(struct world *w, struct stored *s, struct fail *f)
{
	return db_txn(
		w->db,
		&(struct db_txn){.name = "test", .work = check_work, .arg = s},
		f);
}

static void make_job(const struct world *w, const struct stored *s)
{
	char hex[ID_HEX];

	id_hex(s->job_id, hex);
	world_sql(w,
		  "SET sql_mode = ''; INSERT INTO job (partner_id, job_id) "
		  "VALUES (1, X'%s')",
		  hex);
}

/* C3 */
static void a_drop_leaves_nothing_but_what_a_job_has(void)
{
	struct fail f = FAIL_INIT;
	struct stored mine, jobs;
	struct world w;
	struct buf b;

	if (!world_exists())
		return;
	world_open(&w);
	world_migrate(&w);
	buf_init(&b, 64 << 20);
	for (int i = 0; i < 150000; i++)
		buf_addf(&b, "{\"source_id\":\"S%d\"}\n", i % 1500);
	WANT(store(&w, buf_sv(&b), true, true, 1 << 20, &mine));
	WANT(store(&w, SV("{\"source_id\":\"X\"}"), true, true, 100, &jobs));
	make_job(&w, &jobs);
	WANT_DONE(all_there(&w, &mine, &f), &f);
	chunks_drop(w.db, mine.job_id);
	WANT(!all_there(&w, &mine, &f));
	WANT_FAIL(&f, FAIL_UNAVAILABLE);
	WANT_SQL(&w, "1\t1",
		 "SELECT (SELECT COUNT(*) FROM job_chunk), (SELECT COUNT(*) "
		 "FROM refresh_name)");
	chunks_drop(w.db, jobs.job_id);
	f = FAIL_INIT;
	WANT_DONE(all_there(&w, &jobs, &f), &f);
	buf_release(&b);
	world_close(&w);
}

/* C3 */
static void a_sweep_takes_what_is_old_and_has_no_job(void)
{
	struct fail f = FAIL_INIT;
	struct stored old, job, young;
	struct world w;
	uint64_t swept, between = 1700000000000;

	if (!world_exists())
		return;
	world_open(&w);
	world_migrate(&w);
	job_wall_ms = between - 1;
	WANT(store(&w, SV("{\"source_id\":\"A\"}"), true, true, 100, &old));
	WANT(store(&w, SV("{\"source_id\":\"B\"}"), true, true, 100, &job));
	make_job(&w, &job);
	job_wall_ms = between;
	WANT(store(&w, SV("{\"source_id\":\"C\"}"), true, true, 100, &young));
	WANT_DONE(chunks_sweep(w.db, between, &swept, &f), &f);
	WANT_U64(swept, 1);
	WANT_SQL(&w, "2\tB,C",
		 "SELECT (SELECT COUNT(*) FROM job_chunk), (SELECT "
		 "GROUP_CONCAT(source_id ORDER BY source_id) FROM "
		 "refresh_name)");
	WANT_DONE(chunks_sweep(w.db, between, &swept, &f), &f);
	WANT_U64(swept, 0);
	job_wall_ms = 0;
	world_close(&w);
}

static void a_chunk_that_is_not_there_or_damaged_is_told(void)
{
	struct fail f = FAIL_INIT;
	struct stored s;
	struct chunk c;
	struct world w;

	if (!world_exists())
		return;
	world_open(&w);
	world_migrate(&w);
	WANT(store(&w, SV("{\"items\":[{},{}]}"), false, false, 100, &s));
	world_sql(&w, "UPDATE job_chunk SET items = 3");
	WANT(!chunk_read(w.db, s.job_id, 0, &w.arena, &c, &f));
	WANT_FAIL(&f, FAIL_INTERNAL);
	WANT(store(&w, SV("{}\n{}\n"), true, false, 100, &s));
	WANT(!chunk_read(w.db, s.job_id, 1, &w.arena, &c, &f));
	WANT_FAIL(&f, FAIL_NOT_FOUND);
	world_sql(&w, "UPDATE job_chunk SET items = 3");
	WANT(!chunk_read(w.db, s.job_id, 0, &w.arena, &c, &f));
	WANT_FAIL(&f, FAIL_INTERNAL);
	world_sql(&w, "UPDATE job_chunk SET items = 2, body = LEFT(body, 30)");
	WANT(!chunk_read(w.db, s.job_id, 0, &w.arena, &c, &f));
	WANT_FAIL(&f, FAIL_INTERNAL);
	world_close(&w);
}

void suite_chunks(void)
{
	ADD(random_items_come_back_as_they_were_sent);
	ADD(items_of_ndjson_keep_their_lines);
	ADD(a_chunk_is_cut_at_its_limits_exactly);
	ADD(a_refresh_keeps_the_names_once);
	ADD(a_drop_leaves_nothing_but_what_a_job_has);
	ADD(a_sweep_takes_what_is_old_and_has_no_job);
	ADD(a_chunk_that_is_not_there_or_damaged_is_told);
}
