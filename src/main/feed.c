/* The items of a file, one after another. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"
#include "item/field.h"
#include "item/incoming.h"
#include "item/value.h"
#include "wire/csv.h"
#include "wire/json.h"

enum { PIECE_BYTES = 256 * 1024, ARENA_BYTES = 64 * 1024 };

/* The service's own limits are for it to apply; these only bound us. */
static const struct json_limits LIMITS = {.depth_max = 64, .names_max = 4096};

struct column {
	struct sv name;
	enum field_kind kind; /* FIELD_KINDS: the collection has no such one */
};

struct feed {
	const char *path;
	int fd;
	enum feed_format format;
	enum collection collection;
	struct stat was; /* when it was opened */

	char piece[PIECE_BYTES];
	bool at_end;
	struct digest_state *sum; /* of a scan */

	struct arena lasting, scratch; /* of this pass; of this item */
	struct json_items *json;
	bool wrapped; /* a bare array, dressed as an envelope */
	struct csv *csv;
	struct csv_record record;
	struct column *columns; /* NULL: the header has not come */
	size_t column_count;
	uint64_t rows;
	struct buf row; /* as JSON */
};

bool feed_format_of(struct sv word, enum feed_format *format_r)
{
	static const struct {
		const char *word;
		enum feed_format format;
	} WORDS[] = {
		{"ndjson", FEED_NDJSON},
		{"jsonl", FEED_NDJSON},
		{"json", FEED_JSON},
		{"csv", FEED_CSV},
	};

	for (size_t i = 0; i < ARRAY_LEN(WORDS); i++)
		if (sv_eq_nocase(word, sv_of(WORDS[i].word))) {
			*format_r = WORDS[i].format;
			return true;
		}
	return false;
}

static bool format_by_name(struct feed *d, struct fail *f)
{
	const char *dot = strrchr(d->path, '.');

	if (d->format != FEED_BY_NAME ||
	    (dot && feed_format_of(sv_of(dot + 1), &d->format)))
		return true;
	return fail_set(f, FAIL_USAGE,
			"%s: the name does not tell what it is (.ndjson, "
			".json, .csv): say --format",
			d->path);
}

static bool open_file(struct feed *d, struct fail *f)
{
	d->fd = open(d->path, O_RDONLY | O_CLOEXEC);
	if (d->fd < 0 || fstat(d->fd, &d->was) != 0)
		return fail_errno(f, FAIL_SEND_INPUT, "open", d->path);
	if (S_ISREG(d->was.st_mode))
		return true;
	return fail_set(f, FAIL_SEND_INPUT,
			"%s is no regular file: only what can be read again "
			"can be sent again",
			d->path);
}

/* The reader begins anew. */
static void begin_pass(struct feed *d)
{
	arena_reset(&d->lasting);
	d->at_end = d->wrapped = false;
	csv_free(d->csv);
	d->csv = NULL;
	d->json = NULL;
	d->columns = NULL;
	d->rows = 0;
	if (d->format == FEED_CSV)
		d->csv = csv_new(FEED_ITEM_MAX);
	else
		d->json = json_items_new(&d->lasting,
					 d->format == FEED_JSON ? JSON_ENVELOPE
								: JSON_LINES,
					 &LIMITS, FEED_ITEM_MAX);
}

bool feed_open(struct feed **feed_r, const char *path, enum feed_format format,
	       enum collection c, struct fail *f)
{
	struct feed *d = calloc(1, sizeof(*d));

	if (!d)
		bug("out of memory for a file");
	*d = (struct feed){
		.path = path, .fd = -1, .format = format, .collection = c};
	arena_init(&d->lasting, ARENA_BYTES);
	arena_init(&d->scratch, ARENA_BYTES);
	buf_init(&d->row, FEED_ITEM_MAX);
	if (!format_by_name(d, f) || !open_file(d, f)) {
		feed_close(d);
		return false;
	}
	*feed_r = d;
	return feed_rewind(d, f);
}

void feed_close(struct feed *d)
{
	uint8_t unused[DIGEST_BYTES];

	if (!d)
		return;
	if (d->fd >= 0)
		close(d->fd);
	if (d->sum)
		digest_free(d->sum, unused);
	csv_free(d->csv);
	arena_release(&d->lasting);
	arena_release(&d->scratch);
	buf_release(&d->row);
	free(d);
}

static bool feed_piece(struct feed *d, struct fail *f);

bool feed_rewind(struct feed *d, struct fail *f)
{
	if (lseek(d->fd, 0, SEEK_SET) != 0)
		return fail_errno(f, FAIL_SEND_INPUT, "rewind", d->path);
	begin_pass(d);
	return feed_piece(d, f);
}

bool feed_check(const struct feed *d, struct fail *f)
{
	struct stat now;

	if (fstat(d->fd, &now) != 0)
		return fail_errno(f, FAIL_SEND_INPUT, "look at", d->path);
	if (now.st_size == d->was.st_size &&
	    now.st_mtim.tv_sec == d->was.st_mtim.tv_sec &&
	    now.st_mtim.tv_nsec == d->was.st_mtim.tv_nsec)
		return true;
	return fail_set(f, FAIL_SEND_INPUT,
			"%s was changed while it was being sent", d->path);
}

static bool read_piece(struct feed *d, size_t *n_r, struct fail *f)
{
	size_t n = 0;

	while (n < sizeof(d->piece)) {
		ssize_t got = read(d->fd, d->piece + n, sizeof(d->piece) - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fail_errno(f, FAIL_SEND_INPUT, "read", d->path);
		if (got == 0)
			break;
		n += (size_t)got;
	}
	if (d->sum)
		digest_add(d->sum, sv_from(d->piece, n));
	*n_r = n;
	return true;
}

static bool is_array(struct sv head)
{
	size_t i = 0;

	while (i < head.n && memchr(" \t\r\n", head.p[i], 4))
		i++;
	return i < head.n && head.p[i] == '[';
}

/* A bare array is read as {"items":ARRAY}: what stands around it is fed first
 * and last. */
static void dress(struct feed *d, struct sv head)
{
	struct json_item unused;
	struct fail ignored = FAIL_INIT;

	d->wrapped = d->format == FEED_JSON && is_array(head);
	if (!d->wrapped)
		return;
	json_items_feed(d->json, SV("{\"items\":"), false);
	if (json_items_next(d->json, &unused, &ignored) != JSON_MORE)
		bug("an envelope that does not begin");
}

/* Only at first and when the reader has used up the piece before. */
static bool feed_piece(struct feed *d, struct fail *f)
{
	bool first = lseek(d->fd, 0, SEEK_CUR) == 0;
	struct sv piece;
	size_t n = 0;

	if (d->at_end) {
		json_items_feed(d->json, SV("}"), true);
		return true;
	}
	if (!read_piece(d, &n, f))
		return false;
	piece = sv_from(d->piece, n);
	d->at_end = n < sizeof(d->piece);
	if (d->csv) {
		csv_feed(d->csv, piece, d->at_end);
		return true;
	}
	if (first)
		dress(d, piece);
	json_items_feed(d->json, piece, d->at_end && !d->wrapped);
	return true;
}

/* Where a failure is, for people: the reader counts from the file's start. */
static enum feed_got failed(const struct feed *d, struct fail *f)
{
	char detail[sizeof(f->detail)];

	memcpy(detail, f->detail, sizeof(detail));
	if (f->line && f->code != FAIL_CSV)
		fail_set(f, f->code, "%s, line %" PRIu64 ": %.200s", d->path,
			 f->line, detail);
	else
		fail_set(f, f->code, "%s: %.250s", d->path, detail);
	return FEED_FAIL;
}

/* JSON and NDJSON */

static enum feed_got give_json(struct feed *d, const struct json_item *in,
			       struct feed_item *item_r, struct fail *f)
{
	if (in->oversized) {
		fail_set(f, FAIL_SEND_INPUT,
			 "item %" PRIu64 " has %" PRIu64 " bytes; no request "
			 "holds more than 4 MiB",
			 in->index, in->bytes_count);
		return failed(d, f);
	}
	item_r->index = in->index;
	item_r->line = in->line;
	item_r->bytes = json_compact(&d->scratch, &in->tape, 0);
	return FEED_ITEM;
}

static enum feed_got next_json(struct feed *d, struct feed_item *item_r,
			       struct fail *f)
{
	struct json_item in;

	while (true)
		switch (json_items_next(d->json, &in, f)) {
		case JSON_ITEM:
			return give_json(d, &in, item_r, f);
		case JSON_MORE:
			if (!feed_piece(d, f))
				return FEED_FAIL;
			break;
		case JSON_END:
			return FEED_END;
		case JSON_FAIL:
			return failed(d, f);
		}
}

/* CSV */

static bool refuse_column(struct sv name, const char *why, struct fail *f)
{
	int n = name.n < 64 ? (int)name.n : 64;

	return fail_set(f, FAIL_CSV, "the header \"%.*s\" %s", n, name.p, why);
}

static bool take_column(struct feed *d, struct sv name, struct fail *f)
{
	const struct field *known = field_find(field_set(d->collection), name);

	if (!name.n)
		return refuse_column(name, "is empty", f);
	for (size_t i = 0; i < d->column_count; i++)
		if (sv_eq(d->columns[i].name, name))
			return refuse_column(name, "is there twice", f);
	if (sv_has(name, '.') || sv_has(name, '['))
		return refuse_column(name,
				     "has a dot or a bracket: a row holds no "
				     "nested fields; send NDJSON",
				     f);
	if (known &&
	    (known->kind == FIELD_TEXTS || known->kind == FIELD_OBJECTS))
		return refuse_column(name,
				     "is a list, which a row cannot hold; "
				     "send NDJSON",
				     f);
	d->columns[d->column_count++] = (struct column){
		arena_sv(&d->lasting, name), known ? known->kind : FIELD_KINDS};
	return true;
}

static bool take_header(struct feed *d, struct fail *f)
{
	d->columns =
		arena_array(&d->lasting, d->record.count, sizeof(*d->columns));
	d->column_count = 0;
	for (size_t i = 0; i < d->record.count; i++)
		if (!take_column(d, d->record.fields[i], f))
			return false;
	for (size_t i = 0; i < d->column_count; i++)
		if (sv_eq(d->columns[i].name, SV("source_id")))
			return true;
	return fail_set(f, FAIL_CSV, "the header row names no source_id");
}

static bool is_number(struct feed *d, struct sv cell)
{
	struct fail ignored = FAIL_INIT;
	struct json_tape tape;

	return json_read(&d->scratch, cell, &LIMITS, &tape, &ignored) &&
	       tape.count == 1 && json_kind(&tape, 0) == JSON_NUMBER &&
	       json_raw(&tape, 0).n == cell.n;
}

static bool is_version(struct sv cell)
{
	uint64_t unused;

	return value_is_digits(cell) &&
	       text_u64(cell, 0, ITEM_VERSION_NUMBER_MAX, &unused);
}

static void add_cell(struct feed *d, enum field_kind kind, struct sv cell)
{
	struct buf *b = &d->row;

	switch (kind) {
	case FIELD_NUMBER:
	case FIELD_INTEGER:
		if (is_number(d, cell)) {
			buf_add(b, cell);
			return;
		}
		break;
	case FIELD_VERSION:
		if (is_version(cell)) {
			buf_add(b, cell);
			return;
		}
		break;
	case FIELD_BOOLEAN:
		/* Spreadsheets write TRUE. */
		if (sv_eq_nocase(cell, SV("true")) ||
		    sv_eq_nocase(cell, SV("false"))) {
			buf_add_text(b, cell.n == 4 ? "true" : "false");
			return;
		}
		break;
	case FIELD_SOURCE_ID:
	case FIELD_TEXT:
	case FIELD_WORD:
	case FIELD_COUNTRY:
	case FIELD_TIME:
	case FIELD_REFERENCE:
	case FIELD_TEXTS:
	case FIELD_OBJECTS:
	case FIELD_KINDS:
		break;
	}
	buf_add_json(b, cell);
}

static enum feed_got give_row(struct feed *d, struct feed_item *item_r,
			      struct fail *f)
{
	struct buf *b = &d->row;

	buf_reset(b);
	buf_add_byte(b, '{');
	for (size_t i = 0; i < d->column_count; i++) {
		if (!d->record.fields[i].n)
			continue;
		if (b->n > 1)
			buf_add_byte(b, ',');
		buf_add_json(b, d->columns[i].name);
		buf_add_byte(b, ':');
		add_cell(d, d->columns[i].kind, d->record.fields[i]);
	}
	buf_add_byte(b, '}');
	if (!buf_ok(b)) {
		fail_set(f, FAIL_CSV,
			 "line %" PRIu64 ": no request holds such a row",
			 d->record.line);
		return failed(d, f);
	}
	item_r->index = d->rows++;
	item_r->line = d->record.line;
	item_r->bytes = buf_sv(b);
	return FEED_ITEM;
}

/* A header, or a row: *row_r tells which. */
static bool take_record(struct feed *d, bool *row_r, struct fail *f)
{
	*row_r = d->columns != NULL;
	if (!d->columns)
		return take_header(d, f);
	if (d->record.count == d->column_count)
		return true;
	return fail_set(f, FAIL_CSV,
			"line %" PRIu64 ": %zu fields, but the header row has "
			"%zu",
			d->record.line, d->record.count, d->column_count);
}

static enum feed_got next_row(struct feed *d, struct feed_item *item_r,
			      struct fail *f)
{
	bool row;

	while (true)
		switch (csv_next(d->csv, &d->record, f)) {
		case CSV_RECORD:
			if (!take_record(d, &row, f))
				return failed(d, f);
			if (row)
				return give_row(d, item_r, f);
			break;
		case CSV_MORE:
			if (!feed_piece(d, f))
				return FEED_FAIL;
			break;
		case CSV_END:
			if (d->columns)
				return FEED_END;
			fail_set(f, FAIL_CSV, "there is no header row");
			return failed(d, f);
		case CSV_FAIL:
			return failed(d, f);
		}
}

enum feed_got feed_next(struct feed *d, struct feed_item *item_r,
			struct fail *f)
{
	arena_reset(&d->scratch);
	return d->csv ? next_row(d, item_r, f) : next_json(d, item_r, f);
}

bool feed_scan(struct feed *d, struct feed_scan *scan_r, struct fail *f)
{
	struct feed_item item;
	enum feed_got got;

	*scan_r = (struct feed_scan){.size = (uint64_t)d->was.st_size};
	d->sum = digest_new();
	if (!feed_rewind(d, f))
		return false;
	while ((got = feed_next(d, &item, f)) == FEED_ITEM)
		scan_r->items++;
	digest_free(d->sum, scan_r->sha256);
	d->sum = NULL;
	return got == FEED_END && feed_check(d, f) && feed_rewind(d, f);
}
