/* Growing buffers with a ceiling. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include "base/text.h"

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){.max = max};
}

void buf_release(struct buf *b)
{
	free(b->p);
	*b = (struct buf){.max = b->max};
}

void buf_reset(struct buf *b)
{
	b->n = 0;
	b->refused = false;
}

/* Room for n more bytes and a terminator, or the refusal. */
static bool room(struct buf *b, size_t n)
{
	size_t cap = b->cap ? b->cap : 256;
	char *p;

	if (b->refused || n > b->max - b->n) {
		b->refused = true;
		return false;
	}
	if (b->cap > b->n && n < b->cap - b->n)
		return true;
	while (cap - b->n <= n)
		cap *= 2;
	p = realloc(b->p, cap);
	if (!p)
		bug("out of memory for %zu bytes", cap);
	b->p = p;
	b->cap = cap;
	return true;
}

void buf_add(struct buf *b, struct sv s)
{
	if (!s.n || !room(b, s.n))
		return;
	memcpy(b->p + b->n, s.p, s.n);
	b->n += s.n;
}

void buf_add_text(struct buf *b, const char *cstr)
{
	buf_add(b, sv_of(cstr));
}

void buf_add_byte(struct buf *b, char c)
{
	if (room(b, 1))
		b->p[b->n++] = c;
}

void buf_add_u64(struct buf *b, uint64_t v)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	buf_add(b, sv_from(digits + at, sizeof(digits) - at));
}

void buf_add_hex(struct buf *b, const void *bytes, size_t n)
{
	static const char HEX[] = "0123456789abcdef";
	const unsigned char *u = bytes;

	if (n > SIZE_MAX / 4 || !room(b, 2 * n))
		return;
	for (size_t i = 0; i < n; i++) {
		b->p[b->n++] = HEX[u[i] >> 4];
		b->p[b->n++] = HEX[u[i] & 15];
	}
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		bug("buf_addf(\"%s\")", fmt);
	if (room(b, (size_t)n)) {
		vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
		b->n += (size_t)n;
	}
	va_end(again);
}

static void add_escape(struct buf *b, unsigned char c)
{
	switch (c) {
	case '"':
		buf_add(b, SV("\\\""));
		break;
	case '\\':
		buf_add(b, SV("\\\\"));
		break;
	case '\n':
		buf_add(b, SV("\\n"));
		break;
	case '\r':
		buf_add(b, SV("\\r"));
		break;
	case '\t':
		buf_add(b, SV("\\t"));
		break;
	default:
		buf_addf(b, "\\u%04x", (unsigned)c);
	}
}

void buf_add_json(struct buf *b, struct sv s)
{
	size_t from = 0, i = 0;

	buf_add_byte(b, '"');
	while (i < s.n) {
		unsigned char c = (unsigned char)s.p[i];
		size_t len = c < 0x80 ? 1 : text_utf8_len(sv_tail(s, i));

		if (len && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
			i += len;
			continue;
		}
		buf_add(b, sv_from(s.p + from, i - from));
		if (len)
			add_escape(b, c);
		else
			buf_add(b, SV("\xef\xbf\xbd"));
		from = ++i;
	}
	buf_add(b, sv_from(s.p + from, s.n - from));
	buf_add_byte(b, '"');
}

bool buf_ok(const struct buf *b)
{
	return !b->refused;
}

struct sv buf_sv(const struct buf *b)
{
	return (struct sv){b->p, b->n};
}

const char *buf_cstr(struct buf *b)
{
	if (b->refused || !b->p)
		return "";
	b->p[b->n] = '\0';
	return b->p;
}
