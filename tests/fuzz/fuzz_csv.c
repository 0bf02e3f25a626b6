/* wire/csv: records of a file, whole and in pieces of any sizes.
 *
 * What was read, written anew with every field in quotes, is read as the same
 * fields. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/text.h"
#include "wire/csv.h"

enum { STORY_MAX = 1 << 24 };
static const size_t RECORD_MAX[] = {64 * 1024, 20};

static void tell(struct buf *b, const struct csv_record *r)
{
	buf_addf(b, "%zu:", r->count);
	for (size_t i = 0; i < r->count; i++) {
		buf_addf(b, " %zu ", r->fields[i].n);
		buf_add(b, r->fields[i]);
	}
	buf_add_byte(b, '\n');
}

static void add_quoted(struct buf *b, struct sv field)
{
	buf_add_byte(b, '"');
	for (size_t i = 0; i < field.n; i++) {
		if (field.p[i] == '"')
			buf_add_byte(b, '"');
		buf_add_byte(b, field.p[i]);
	}
	buf_add_byte(b, '"');
}

static void write_anew(struct buf *b, const struct csv_record *r)
{
	for (size_t i = 0; i < r->count; i++) {
		if (i)
			buf_add_byte(b, ',');
		add_quoted(b, r->fields[i]);
	}
	buf_add_text(b, "\r\n");
}

static void check_record(const struct csv_record *r, size_t record_max,
			 uint64_t *line)
{
	size_t bytes = 0;

	MUST(r->count > 0 && r->count <= CSV_FIELDS_MAX);
	MUST(r->line > *line);
	*line = r->line;
	for (size_t i = 0; i < r->count; i++) {
		MUST(text_is_utf8(r->fields[i]));
		bytes += r->fields[i].n;
	}
	MUST(bytes <= record_max);
}

struct reading {
	struct buf fields; /* what came, with lines and how it ended */
	struct buf plain;  /* without either */
	struct buf anew;   /* the same as another file */
	bool failed;
};

static void end_reading(struct reading *r, enum csv_got got,
			const struct fail *f)
{
	r->failed = got == CSV_FAIL;
	if (r->failed) {
		MUST(f->code == FAIL_CSV && f->line > 0);
		buf_addf(&r->fields, "%s", f->detail);
	}
	MUST(buf_ok(&r->fields) && buf_ok(&r->plain) && buf_ok(&r->anew));
}

static void read_all(struct sv input, enum fuzz_cut how, size_t record_max,
		     struct reading *r)
{
	struct csv *csv = csv_new(record_max);
	struct fuzz_cutter c = fuzz_cutter(input, how);
	struct fail f = FAIL_INIT;
	struct csv_record record;
	enum csv_got got;
	uint64_t line = 0;

	buf_init(&r->fields, STORY_MAX);
	buf_init(&r->plain, STORY_MAX);
	buf_init(&r->anew, STORY_MAX);
	do {
		bool last;
		struct sv piece = fuzz_next(&c, &last);

		csv_feed(csv, piece, last);
		while ((got = csv_next(csv, &record, &f)) == CSV_RECORD) {
			check_record(&record, record_max, &line);
			buf_addf(&r->fields, "line %" PRIu64 " ", line);
			tell(&r->fields, &record);
			tell(&r->plain, &record);
			write_anew(&r->anew, &record);
		}
		MUST(!last || got != CSV_MORE);
	} while (got == CSV_MORE);
	end_reading(r, got, &f);
	if (got == CSV_FAIL)
		MUST(csv_next(csv, &record, &f) == CSV_FAIL);
	csv_free(csv);
	fuzz_cutter_end(&c);
}

static void release(struct reading *r)
{
	buf_release(&r->fields);
	buf_release(&r->plain);
	buf_release(&r->anew);
}

static void try(struct sv input, size_t record_max)
{
	struct reading whole, other;

	read_all(input, FUZZ_WHOLE, record_max, &whole);
	for (int how = FUZZ_WHOLE + 1; how < FUZZ_CUTS; how++) {
		read_all(input, (enum fuzz_cut)how, record_max, &other);
		MUST(sv_eq(buf_sv(&whole.fields), buf_sv(&other.fields)));
		release(&other);
	}
	read_all(buf_sv(&whole.anew), FUZZ_WHOLE, record_max, &other);
	MUST(!other.failed);
	MUST(sv_eq(buf_sv(&whole.plain), buf_sv(&other.plain)));
	release(&other);
	release(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(RECORD_MAX); i++)
		try(sv_from(data, n), RECORD_MAX[i]);
	return 0;
}
