/* Reading CSV (RFC 4180) in pieces: a machine of five states over the bytes.
 * The guarantees V1 to V5 stand in the header. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/csv.h"

#include "base/buf.h"
#include "base/text.h"

enum state {
	FIELD_BEGIN, /* nothing of the field has come */
	PLAIN,
	QUOTED,
	QUOTE_SEEN, /* inside quotes: the end, or half of a doubled one */
	CR_SEEN,
};

static const struct sv BOM = {"\xef\xbb\xbf", 3};

struct csv {
	enum state state;
	struct sv piece; /* what is left of it */
	bool last;
	int mark; /* bytes of the mark seen; -1: past it */
	uint64_t line, record_line;
	struct buf text; /* the fields of the record, joined */
	size_t starts[CSV_FIELDS_MAX + 1]; /* where each begins in text */
	size_t count;                      /* whole fields */
	bool begun;                        /* the record has a byte */
	bool given;                        /* the record was handed out */
	struct fail failed;
};

struct csv *csv_new(size_t record_max)
{
	struct csv *c = calloc(1, sizeof(*c));

	if (!c)
		bug("out of memory for a CSV reader");
	c->line = c->record_line = 1;
	buf_init(&c->text, record_max);
	return c;
}

void csv_free(struct csv *c)
{
	if (!c)
		return;
	buf_release(&c->text);
	free(c);
}

void csv_feed(struct csv *c, struct sv piece, bool last)
{
	if (c->last || c->piece.n)
		bug("a CSV reader was fed too early");
	c->piece = piece;
	c->last = last;
}

static bool refuse(struct csv *c, const char *why)
{
	fail_set(&c->failed, FAIL_CSV, "line %llu: %s",
		 (unsigned long long)c->line, why);
	c->failed.line = c->line;
	return false;
}

static bool end_field(struct csv *c)
{
	struct sv field;

	if (c->count == CSV_FIELDS_MAX)
		return refuse(c, "more than 256 fields");
	field = sv_tail(buf_sv(&c->text), c->starts[c->count]);
	if (!text_is_utf8(field))
		return refuse(c, "a field is not UTF-8");
	c->starts[++c->count] = c->text.n;
	return true;
}

/* One byte inside a field, by the state it finds. */
static bool step_begin(struct csv *c, char b)
{
	if (b == '"') {
		c->state = QUOTED;
		return true;
	}
	c->state = PLAIN;
	buf_add_byte(&c->text, b);
	return true;
}

static bool step_plain(struct csv *c, char b)
{
	if (b == '"')
		return refuse(c, "a quote inside a field that does not begin "
				 "with one");
	buf_add_byte(&c->text, b);
	return true;
}

static bool step_quoted(struct csv *c, char b)
{
	if (b == '"') {
		c->state = QUOTE_SEEN;
		return true;
	}
	buf_add_byte(&c->text, b);
	if (b == '\n')
		c->line++;
	return true;
}

static bool step_quote_seen(struct csv *c, char b)
{
	if (b != '"')
		return refuse(c, "something else than a comma or a line break "
				 "behind a closing quote");
	buf_add_byte(&c->text, b);
	c->state = QUOTED;
	return true;
}

static bool step_inside(struct csv *c, char b)
{
	switch (c->state) {
	case FIELD_BEGIN:
		return step_begin(c, b);
	case PLAIN:
		return step_plain(c, b);
	case QUOTED:
		return step_quoted(c, b);
	case QUOTE_SEEN:
		return step_quote_seen(c, b);
	case CR_SEEN:
		return refuse(c, "a CR without LF");
	}
	bug("CSV state %d", (int)c->state);
}

/* Any byte. Commas and line breaks mean something only outside quotes.
 * *ended_r: the record is whole. */
static bool step(struct csv *c, char b, bool *ended_r)
{
	if (c->state == QUOTED || (c->state == CR_SEEN && b != '\n') ||
	    (b != ',' && b != '\r' && b != '\n')) {
		c->begun = true;
		return step_inside(c, b);
	}
	if (b == '\r') {
		/* An empty line has no field. */
		if (c->begun && !end_field(c))
			return false;
		c->state = CR_SEEN;
		return true;
	}
	if (b == ',') {
		c->begun = true;
		if (!end_field(c))
			return false;
	} else {
		if (c->state != CR_SEEN && c->begun && !end_field(c))
			return false;
		*ended_r = c->begun;
		c->line++;
	}
	c->state = FIELD_BEGIN;
	return true;
}

static void begin_record(struct csv *c)
{
	buf_reset(&c->text);
	c->count = 0;
	c->begun = c->given = false;
	c->record_line = c->line;
}

static enum csv_got give(struct csv *c, struct csv_record *r)
{
	struct sv text = buf_sv(&c->text);

	r->line = c->record_line;
	r->count = c->count;
	for (size_t i = 0; i < c->count; i++)
		r->fields[i] = sv_from(text.p ? text.p + c->starts[i] : "",
				       c->starts[i + 1] - c->starts[i]);
	c->given = true;
	return CSV_RECORD;
}

/* Whether the byte belongs to the mark. Half a mark is no UTF-8. */
static bool take_mark(struct csv *c, char b)
{
	if (b == BOM.p[c->mark]) {
		c->mark = (size_t)c->mark + 1 < BOM.n ? c->mark + 1 : -1;
		return true;
	}
	if (c->mark)
		refuse(c, "a field is not UTF-8");
	c->mark = -1;
	return false;
}

static enum csv_got finish(struct csv *c, struct csv_record *r)
{
	if (c->state == QUOTED)
		refuse(c, "the file ends inside quotes");
	else if (c->state == CR_SEEN)
		refuse(c, "a CR without LF");
	else if (c->mark > 0)
		refuse(c, "a field is not UTF-8");
	else if (c->begun && end_field(c)) {
		c->state = FIELD_BEGIN;
		c->begun = false;
		return give(c, r);
	}
	return c->failed.code == FAIL_NONE ? CSV_END : CSV_FAIL;
}

static enum csv_got run(struct csv *c, struct csv_record *r)
{
	bool ended = false;

	while (c->piece.n) {
		char b = c->piece.p[0];

		c->piece = sv_tail(c->piece, 1);
		if (c->mark >= 0 && take_mark(c, b))
			continue;
		if (c->failed.code != FAIL_NONE || !step(c, b, &ended))
			return CSV_FAIL;
		if (!buf_ok(&c->text)) {
			refuse(c, "the record is too long");
			return CSV_FAIL;
		}
		if (ended)
			return give(c, r);
		if (!c->begun && c->state == FIELD_BEGIN)
			c->record_line = c->line;
	}
	return c->last ? finish(c, r) : CSV_MORE;
}

enum csv_got csv_next(struct csv *c, struct csv_record *r, struct fail *f)
{
	enum csv_got got = CSV_FAIL;

	if (c->failed.code == FAIL_NONE) {
		if (c->given)
			begin_record(c);
		got = run(c, r);
	}
	if (got == CSV_FAIL)
		*f = c->failed;
	return got;
}
