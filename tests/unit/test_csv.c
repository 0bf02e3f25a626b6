/* The CSV reader against RFC 4180: guarantees V1 to V5 of wire/csv.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/buf.h"
#include "wire/csv.h"

enum { RECORD_MAX = 64 };

/* What comes out, as one line: fields in [], records parted by blanks, each
 * with its line in front; a failure as !LINE. */
static void read_all(struct buf *out, struct sv text, size_t piece)
{
	struct csv *c = csv_new(RECORD_MAX);
	struct csv_record r;
	struct fail f = FAIL_INIT;
	enum csv_got got;
	size_t at = 0;

	do {
		size_t n = text.n - at < piece ? text.n - at : piece;

		csv_feed(c, sv_from(text.p + at, n), at + n == text.n);
		at += n;
		while ((got = csv_next(c, &r, &f)) == CSV_RECORD) {
			buf_addf(out, "%llu:", (unsigned long long)r.line);
			for (size_t i = 0; i < r.count; i++)
				buf_addf(out, "[%.*s]", SV_ARG(r.fields[i]));
			buf_add_byte(out, ' ');
		}
	} while (got == CSV_MORE);
	if (got == CSV_FAIL) {
		buf_addf(out, "!%llu", (unsigned long long)f.line);
		WANT_FAIL(&f, FAIL_CSV);
		WANT(csv_next(c, &r, &f) == CSV_FAIL);
	}
	csv_free(c);
}

static const struct row {
	const char *text, *want;
} ROWS[] = {
	/* V1 */
	{"a,b\r\nc,d\r\n", "1:[a][b] 2:[c][d] "},
	{"a,b\nc,d", "1:[a][b] 2:[c][d] "},
	{"\"a\",\"b \"\"c\"\"\"\r\n", "1:[a][b \"c\"] "},
	{"\"a,b\",\"c\r\nd\"\r\ne\r\n", "1:[a,b][c\r\nd] 3:[e] "},
	{" a , b \n", "1:[ a ][ b ] "},
	{",\n,,\r\n", "1:[][] 2:[][][] "},
	{"a,\nb,\"\"", "1:[a][] 2:[b][] "},
	{"\"\"\n", "1:[] "},
	{"\"\"\"\"", "1:[\"] "},
	{"", ""},
	/* V2 */
	{"a\"b\n", "!1"},
	{"a\n\"b\"c\n", "1:[a] !2"},
	{"\"a\" ,b\n", "!1"},
	{"a\rb\n", "!1"},
	{"a\r", "!1"},
	{"a\n\"b\nc", "1:[a] !3"},
	{"a\n\xff\n", "1:[a] !2"},
	{"\xc3,\xa9\n", "!1"},
	/* V3 */
	{"\xef\xbb\xbf\"a\",b\n", "1:[a][b] "},
	{"a\xef\xbb\xbf\n", "1:[a\xef\xbb\xbf] "},
	{"\xef\xbbz\n", "!1"},
	{"\xef\xbb", "!1"},
	{"\xef\xbb\xbf", ""},
	{"\r\n\na\n\r\n\nb\n\n", "3:[a] 6:[b] "},
	{"z\xbb\xbf", "!1"},
};

static void csv_is_rfc_4180_whole_and_in_pieces(void)
{
	struct buf out;

	buf_init(&out, 4096);
	for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
		for (size_t piece = 1; piece < 9; piece++) {
			buf_reset(&out);
			read_all(&out, sv_of(ROWS[i].text), piece);
			WANT_SV(buf_sv(&out), sv_of(ROWS[i].want));
		}
	buf_release(&out);
}

static void a_record_is_bounded(void)
{
	struct buf in, out;

	buf_init(&in, 4096);
	buf_init(&out, 4096);
	buf_add_text(&in, "a\n\"");
	for (int i = 0; i < RECORD_MAX + 1; i++)
		buf_add_byte(&in, 'x');
	read_all(&out, buf_sv(&in), 7);
	WANT_SV(buf_sv(&out), SV("1:[a] !2"));
	buf_reset(&in);
	buf_reset(&out);
	for (int i = 0; i < CSV_FIELDS_MAX; i++)
		buf_add_byte(&in, ',');
	read_all(&out, buf_sv(&in), 7);
	WANT_SV(buf_sv(&out), SV("!1"));
	buf_release(&in);
	buf_release(&out);
}

void suite_csv(void)
{
	ADD(csv_is_rfc_4180_whole_and_in_pieces);
	ADD(a_record_is_bounded);
}
