/* What `waybill send` reads and writes down: main/feed.h and
 * main/send_state.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "main/feed.h"
#include "main/send_state.h"

static char dir[64], file[128], state_path[128];

static void begin(void)
{
	snprintf(dir, sizeof(dir), "/tmp/wb-send.XXXXXX");
	if (!mkdtemp(dir))
		bug("mkdtemp");
	snprintf(file, sizeof(file), "%s/in", dir);
	snprintf(state_path, sizeof(state_path), "%s/state", dir);
}

static void end(void)
{
	unlink(file);
	unlink(state_path);
	rmdir(dir);
}

static void write_text(const char *path, struct sv text)
{
	FILE *out = fopen(path, "w");

	if (!out || fwrite(text.p, 1, text.n, out) != text.n ||
	    fclose(out) != 0)
		bug("cannot write %s", path);
}

static void read_text(struct buf *b, const char *path)
{
	char part[4096];
	FILE *in = fopen(path, "r");
	size_t n;

	if (!in)
		bug("cannot read %s", path);
	buf_reset(b);
	while ((n = fread(part, 1, sizeof(part), in)) > 0)
		buf_add(b, sv_from(part, n));
	fclose(in);
}

/* Items as "LINE=BYTES ", a failure as "!CODE". */
static void items_of(struct buf *out, struct sv text, enum feed_format format)
{
	struct fail f = FAIL_INIT;
	struct feed_item item;
	struct feed_scan scan;
	enum feed_got got = FEED_FAIL;
	struct feed *d;

	write_text(file, text);
	buf_reset(out);
	if (!feed_open(&d, file, format, COLLECTION_SKUS, &f)) {
		buf_addf(out, "!%s", fail_info(f.code)->slug);
		return;
	}
	if (feed_scan(d, &scan, &f))
		while ((got = feed_next(d, &item, &f)) == FEED_ITEM)
			buf_addf(out, "%llu=%.*s ",
				 (unsigned long long)item.line,
				 SV_ARG(item.bytes));
	if (got == FEED_FAIL)
		buf_addf(out, "!%s", fail_info(f.code)->slug);
	feed_close(d);
}

static const struct row {
	enum feed_format format;
	const char *text, *want;
} ROWS[] = {
	{FEED_NDJSON, "{\"a\": 1.10}\n\n[2]\n", "1={\"a\":1.10} 3=[2] "},
	{FEED_NDJSON, "{\"a\":1}\n{", "!bad-json"},
	{FEED_JSON, "{\"items\": [ {\"a\": 1}, 2 ]}\n", "0={\"a\":1} 0=2 "},
	{FEED_JSON, " [ {\"a\": 1}, 2 ]\n", "0={\"a\":1} 0=2 "},
	{FEED_JSON, "[]", ""},
	{FEED_JSON, "[1", "!bad-json"},
	{FEED_JSON, "[1]]", "!bad-json"},
	{FEED_JSON, "[1]}", "!bad-json"},
	{FEED_JSON, "", "!bad-json"},
	/* By the table: versions, booleans, numbers; the rest is text. */
	{FEED_CSV,
	 "\xef\xbb\xbfsource_id,source_version,name,base_uom,lot_tracked,"
	 "weight_kg,own\r\n"
	 "1,12,\"a \"\"b\"\"\",EA,TRUE,1.10,7\r\n"
	 "2,,x,EA,,,\r\n",
	 "2={\"source_id\":\"1\",\"source_version\":12,\"name\":\"a "
	 "\\\"b\\\"\",\"base_uom\":\"EA\",\"lot_tracked\":true,"
	 "\"weight_kg\":1.10,\"own\":\"7\"} "
	 "3={\"source_id\":\"2\",\"name\":\"x\",\"base_uom\":\"EA\"} "},
	/* What does not read as what it should be goes as it stands. */
	{FEED_CSV,
	 "source_id,source_version,lot_tracked,weight_kg\nA,x,yes,01\n",
	 "2={\"source_id\":\"A\",\"source_version\":\"x\","
	 "\"lot_tracked\":\"yes\",\"weight_kg\":\"01\"} "},
	{FEED_CSV, "source_id,source_version\nA,9223372036854775807\n",
	 "2={\"source_id\":\"A\","
	 "\"source_version\":\"9223372036854775807\"} "},
	{FEED_CSV, "", "!bad-csv"},
	{FEED_CSV, "name\nx\n", "!bad-csv"},
	{FEED_CSV, "source_id,source_id\n1,2\n", "!bad-csv"},
	{FEED_CSV, "source_id,\n1,2\n", "!bad-csv"},
	{FEED_CSV, "source_id,barcodes\n1,2\n", "!bad-csv"},
	{FEED_CSV, "source_id,a.b\n1,2\n", "!bad-csv"},
	{FEED_CSV, "source_id,a[0]\n1,2\n", "!bad-csv"},
	{FEED_CSV, "source_id,name\n1\n", "!bad-csv"},
	{FEED_BY_NAME, "{}", "!usage"},
};

static void a_file_gives_its_items(void)
{
	struct buf out;

	begin();
	buf_init(&out, 1 << 20);
	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
		items_of(&out, sv_of(ROWS[i].text), ROWS[i].format);
		WANT_SV(buf_sv(&out), sv_of(ROWS[i].want));
	}
	buf_release(&out);
	end();
}

/* Larger than the pieces it is read in, so that items stand across them. */
static void a_large_array_is_read_in_pieces(void)
{
	struct fail f = FAIL_INIT;
	struct feed_scan scan;
	struct buf in;
	struct feed *d;

	begin();
	buf_init(&in, 8 << 20);
	buf_add_byte(&in, '[');
	for (int i = 0; i < 50000; i++)
		buf_addf(&in, "%s{\"n\":%d,\"text\":\"some more\"}",
			 i ? "," : "", i);
	buf_add_byte(&in, ']');
	write_text(file, buf_sv(&in));
	WANT(feed_open(&d, file, FEED_JSON, COLLECTION_SKUS, &f));
	WANT(feed_scan(d, &scan, &f));
	WANT_U64(scan.items, 50000);
	WANT_U64(scan.size, in.n);
	feed_close(d);
	buf_release(&in);
	end();
}

static void a_file_that_changes_is_noticed(void)
{
	struct fail f = FAIL_INIT;
	struct feed *d;

	begin();
	write_text(file, SV("{}\n"));
	WANT(feed_open(&d, file, FEED_NDJSON, COLLECTION_SKUS, &f));
	WANT(feed_check(d, &f));
	write_text(file, SV("{}\n{}\n"));
	WANT(!feed_check(d, &f));
	WANT_FAIL(&f, FAIL_SEND_INPUT);
	feed_close(d);
	end();
}

/* The state file */

static struct state_what what_of(const char *url)
{
	return (struct state_what){.file = file,
				   .url = sv_of(url),
				   .collection = SV("skus"),
				   .mode = SV("upsert"),
				   .size = 10,
				   .sha256 = {1, 2, 3}};
}

/* Two batches, the first one done. */
static void write_two(struct id keys[2])
{
	struct state_what w = what_of("https://a");
	struct state_counts c = {3, 1, 1, 1, 0, 0};
	struct fail f = FAIL_INIT;
	struct state_batch *b;
	struct state *s;

	if (!state_open(&s, state_path, &w, &f) ||
	    !state_begin(s, 0, 3, &b, &f))
		bug("%s", f.detail);
	keys[0] = b->key;
	if (!state_done(s, b, &c, &f) || !state_begin(s, 3, 2, &b, &f) ||
	    !state_job(s, b, SV("job-1"), &f))
		bug("%s", f.detail);
	keys[1] = b->key;
	state_close(s);
}

static void what_was_written_is_read_back(void)
{
	struct state_what w = what_of("https://a");
	struct fail f = FAIL_INIT;
	struct id keys[2];
	struct state *s;

	begin();
	write_two(keys);
	WANT(state_open(&s, state_path, &w, &f));
	WANT_U64(state_batches(s), 2);
	WANT(!state_ended(s));
	WANT(id_eq(state_find(s, 0)->key, keys[0]));
	WANT(state_find(s, 0)->done);
	WANT_U64(state_find(s, 0)->counts.quarantined, 1);
	WANT(id_eq(state_find(s, 1)->key, keys[1]));
	WANT_U64(state_find(s, 1)->first, 3);
	WANT(!state_find(s, 1)->done);
	WANT_SV(state_find(s, 1)->job_id, SV("job-1"));
	WANT(!state_find(s, 2));
	state_close(s);
	end();
}

/* T2, with the file cut at every byte: whatever whole lines say is there, and
 * the next line is whole. */
static void a_torn_last_line_is_cut_off(void)
{
	struct state_what w = what_of("https://a");
	struct state_batch *b;
	struct id keys[2];
	struct buf text, now;
	struct state *s;

	begin();
	buf_init(&text, 1 << 20);
	buf_init(&now, 1 << 20);
	write_two(keys);
	read_text(&text, state_path);
	for (size_t n = 0; n <= text.n; n++) {
		struct fail f = FAIL_INIT;
		size_t lines = 0;

		for (size_t i = 0; i < n; i++)
			lines += text.p[i] == '\n';
		write_text(state_path, sv_from(text.p, n));
		if (!state_open(&s, state_path, &w, &f)) {
			WANT_FAIL(&f, FAIL_NONE);
			continue;
		}
		WANT_U64(state_batches(s), lines >= 4 ? 2 : lines >= 2);
		WANT(state_batches(s) == 0 ||
		     state_find(s, 0)->done == (lines >= 3));
		WANT(state_begin(s,
				 state_batches(s) == 2   ? 5
				 : state_batches(s) == 1 ? 3
							 : 0,
				 1, &b, &f));
		state_close(s);
		WANT(state_open(&s, state_path, &w, &f));
		state_close(s);
	}
	buf_release(&text);
	buf_release(&now);
	end();
}

static void a_line_that_is_none_of_ours_is_refused(void)
{
	static const char *const BAD[] = {
		"x\n",
		"{}\n",
		"{\"batch\":5,\"first\":5,\"items\":1,\"key\":"
		"\"01950000-0000-7000-8000-000000000000\"}\n",
		"{\"batch\":2,\"first\":4,\"items\":1,\"key\":"
		"\"01950000-0000-7000-8000-000000000000\"}\n",
		"{\"batch\":2,\"first\":5,\"items\":1,\"key\":\"x\"}\n",
		"{\"done\":2}\n",
		"{\"end\":false}\n",
	};
	struct state_what w = what_of("https://a");
	struct id keys[2];
	struct buf text;
	struct state *s;

	begin();
	buf_init(&text, 1 << 20);
	write_two(keys);
	read_text(&text, state_path);
	for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
		struct fail f = FAIL_INIT;
		size_t n = text.n;

		buf_add_text(&text, BAD[i]);
		write_text(state_path, buf_sv(&text));
		text.n = n;
		WANT(!state_open(&s, state_path, &w, &f));
		WANT_FAIL(&f, FAIL_SEND_INPUT);
	}
	buf_release(&text);
	end();
}

static void another_input_is_refused_until_the_first_is_finished(void)
{
	struct state_what a = what_of("https://a"), b = what_of("https://b");
	struct fail f = FAIL_INIT;
	struct id keys[2];
	struct state *s;

	begin();
	write_two(keys);
	WANT(!state_open(&s, state_path, &b, &f));
	WANT_FAIL(&f, FAIL_SEND_INPUT);
	b = a;
	b.sha256[31] = 1;
	WANT(!state_open(&s, state_path, &b, &f));
	f = FAIL_INIT;
	WANT(state_open(&s, state_path, &a, &f));
	WANT(state_end(s, &f));
	state_close(s);
	WANT(state_open(&s, state_path, &a, &f));
	WANT(state_ended(s));
	state_close(s);
	WANT(state_open(&s, state_path, &b, &f));
	WANT(!state_ended(s));
	WANT_U64(state_batches(s), 0);
	state_close(s);
	end();
}

static void two_programs_never_use_one_file(void)
{
	struct state_what a = what_of("https://a");
	struct fail f = FAIL_INIT;
	struct state *s, *other;

	begin();
	WANT(state_open(&s, state_path, &a, &f));
	WANT(!state_open(&other, state_path, &a, &f));
	WANT_FAIL(&f, FAIL_SEND_LATER);
	state_close(s);
	end();
}

void suite_send(void)
{
	ADD(a_file_gives_its_items);
	ADD(a_large_array_is_read_in_pieces);
	ADD(a_file_that_changes_is_noticed);
	ADD(what_was_written_is_read_back);
	ADD(a_torn_last_line_is_cut_off);
	ADD(a_line_that_is_none_of_ours_is_refused);
	ADD(another_input_is_refused_until_the_first_is_finished);
	ADD(two_programs_never_use_one_file);
}
