/* What the commands share: arguments and output. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/cli.h"

#include <inttypes.h>

static int option_index(const struct cli *cli, const char *option)
{
	for (int i = 0; cli->options && cli->options[i].name; i++)
		if (strcmp(cli->options[i].name, option) == 0)
			return i;
	bug("command without the option %s", option);
}

bool cli_given(const struct cli *cli, const char *option)
{
	return cli->given[option_index(cli, option)];
}

struct sv cli_value(const struct cli *cli, const char *option)
{
	return cli->values[option_index(cli, option)];
}

static struct sv cell_text(struct arena *a, const struct db_val *v)
{
	switch (v->kind) {
	case DB_NULL:
		return SV("-");
	case DB_INT:
		return sv_of(arena_printf(a, "%" PRId64, v->i));
	case DB_UINT:
		return sv_of(arena_printf(a, "%" PRIu64, v->u));
	case DB_BYTES:
		return v->bytes;
	}
	bug("a cell of kind %d", (int)v->kind);
}

static void json_cell(struct buf *b, const struct db_val *v)
{
	switch (v->kind) {
	case DB_NULL:
		buf_add_text(b, "null");
		return;
	case DB_INT:
		buf_addf(b, "%" PRId64, v->i);
		return;
	case DB_UINT:
		buf_add_u64(b, v->u);
		return;
	case DB_BYTES:
		buf_add_json(b, v->bytes);
		return;
	}
	bug("a cell of kind %d", (int)v->kind);
}

/* "warehouses{}" -> "warehouses", and that it is JSON. */
static struct sv column_name(const char *name, bool *is_json_r)
{
	struct sv s = sv_of(name);

	*is_json_r = s.n > 2 && sv_eq(sv_tail(s, s.n - 2), SV("{}"));
	if (*is_json_r)
		s.n -= 2;
	return s;
}

void cli_json_member(struct buf *b, const char *name, const struct db_val *v)
{
	bool is_json;
	struct sv plain = column_name(name, &is_json);

	buf_addf(b, "\"%.*s\":", SV_ARG(plain));
	if (is_json && v->kind == DB_BYTES)
		buf_add(b, v->bytes);
	else
		json_cell(b, v);
}

static void json_table(const char *const *names, const struct db_table *t)
{
	struct buf b;

	buf_init(&b, SIZE_MAX / 4);
	buf_add_byte(&b, '[');
	for (size_t r = 0; r < t->rows; r++) {
		buf_add_text(&b, r ? ",\n {" : "{");
		for (size_t c = 0; c < t->cols; c++) {
			if (c)
				buf_add_byte(&b, ',');
			cli_json_member(&b, names[c], db_cell(t, r, c));
		}
		buf_add_byte(&b, '}');
	}
	buf_add_text(&b, "]\n");
	fwrite(b.p, 1, b.n, stdout);
	buf_release(&b);
}

static void text_row(const struct sv *cells, const size_t *widths, size_t cols)
{
	for (size_t c = 0; c < cols; c++) {
		bool last = c + 1 == cols;

		fwrite(cells[c].p, 1, cells[c].n, stdout);
		for (size_t i = cells[c].n; !last && i < widths[c] + 2; i++)
			putchar(' ');
	}
	putchar('\n');
}

void cli_table(const struct cli *cli, const char *const *names,
	       const struct db_table *t)
{
	struct sv cells[CLI_COLUMNS_MAX];
	size_t widths[CLI_COLUMNS_MAX];
	struct arena a;
	bool is_json;

	if (t->cols > CLI_COLUMNS_MAX)
		bug("a table of %zu columns", t->cols);
	if (cli->json) {
		json_table(names, t);
		return;
	}
	arena_init(&a, 4096);
	for (size_t c = 0; c < t->cols; c++) {
		cells[c] = column_name(names[c], &is_json);
		widths[c] = cells[c].n;
		for (size_t r = 0; r < t->rows; r++) {
			size_t n = cell_text(&a, db_cell(t, r, c)).n;

			widths[c] = n > widths[c] ? n : widths[c];
		}
	}
	text_row(cells, widths, t->cols);
	for (size_t r = 0; r < t->rows; r++) {
		for (size_t c = 0; c < t->cols; c++)
			cells[c] = cell_text(&a, db_cell(t, r, c));
		text_row(cells, widths, t->cols);
	}
	arena_release(&a);
}

void cli_done(const struct cli *cli, const char *fmt, ...)
{
	char text[1024];
	struct buf b;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!cli->json) {
		puts(text);
		return;
	}
	buf_init(&b, 8192);
	buf_add_text(&b, "{\"done\":");
	buf_add_json(&b, sv_of(text));
	buf_add_text(&b, "}");
	puts(buf_cstr(&b));
	buf_release(&b);
}
