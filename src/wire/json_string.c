/* What may stand in a JSON string, and the hash of names. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "json_internal.h"

#include "base/digest.h"

static const struct json_unit MORE = {0};

static struct json_unit whole(size_t n)
{
	return (struct json_unit){.n = n};
}

static struct json_unit bad(enum fail_code code, size_t at, const char *why)
{
	return (struct json_unit){.bad = code, .bad_n = at, .why = why};
}

static struct json_unit lone(void)
{
	return bad(FAIL_JSON_UTF8, 0,
		   "a surrogate escape without its other "
		   "half");
}

static int hex_value(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value of four hex digits that are known to be such. */
static unsigned hex4(const char *p)
{
	unsigned v = 0;

	for (int i = 0; i < 4; i++)
		v = v << 4 | (unsigned)hex_value((unsigned char)p[i]);
	return v;
}

/* Where, from `from` to `to`, the first byte stands that is no hex digit; `to`
 * or n if there is none. */
static size_t not_hex(const char *p, size_t n, size_t from, size_t to)
{
	while (from < to && from < n && hex_value((unsigned char)p[from]) >= 0)
		from++;
	return from;
}

static struct json_unit bad_hex(size_t at)
{
	return bad(FAIL_JSON_SYNTAX, at, "expected four hex digits after \\u");
}

/* The bytes are judged from left to right, so that what is bad is bad at the
 * same place however few of them are there yet. */
static struct json_unit look_u(const char *p, size_t n)
{
	size_t i = not_hex(p, n, 2, 6);
	unsigned v;

	if (i < 6)
		return i < n ? bad_hex(i) : MORE;
	v = hex4(p + 2);
	if (v < 0xd800 || v > 0xdfff)
		return whole(6);
	if (v >= 0xdc00)
		return lone();
	if ((n > 6 && p[6] != '\\') || (n > 7 && p[7] != 'u'))
		return lone();
	i = not_hex(p, n, 8, 12);
	if (i < 12)
		return i < n ? bad_hex(i) : MORE;
	return (hex4(p + 8) & 0xfc00) == 0xdc00 ? whole(12) : lone();
}

static struct json_unit look_escape(const char *p, size_t n)
{
	if (n < 2)
		return MORE;
	switch (p[1]) {
	case '"':
	case '\\':
	case '/':
	case 'b':
	case 'f':
	case 'n':
	case 'r':
	case 't':
		return whole(2);
	case 'u':
		return look_u(p, n);
	default:
		return bad(FAIL_JSON_SYNTAX, 1,
			   "expected one of \"\\/bfnrtu "
			   "after a backslash");
	}
}

/* Table 3-7 of the Unicode standard: only the second byte has a range that
 * depends on the first. */
static struct json_unit look_utf8(const unsigned char *u, size_t n)
{
	size_t len = u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
	unsigned char low = 0x80, high = 0xbf;

	if (u[0] < 0xc2 || u[0] > 0xf4)
		return bad(FAIL_JSON_UTF8, 0, "bytes that are not UTF-8");
	if (u[0] == 0xe0)
		low = 0xa0;
	else if (u[0] == 0xed)
		high = 0x9f;
	else if (u[0] == 0xf0)
		low = 0x90;
	else if (u[0] == 0xf4)
		high = 0x8f;
	for (size_t i = 1; i < len; i++) {
		if (i == n)
			return MORE;
		if (u[i] < low || u[i] > high)
			return bad(FAIL_JSON_UTF8, 0,
				   "bytes that are not UTF-8");
		low = 0x80;
		high = 0xbf;
	}
	return whole(len);
}

struct json_unit json_unit_look(const char *p, size_t n)
{
	if (*p == '\\')
		return look_escape(p, n);
	return look_utf8((const unsigned char *)p, n);
}

static size_t utf8_put(uint32_t c, char out[4])
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

static uint32_t simple_escape(char c)
{
	switch (c) {
	case 'b':
		return '\b';
	case 'f':
		return '\f';
	case 'n':
		return '\n';
	case 'r':
		return '\r';
	case 't':
		return '\t';
	default:
		return (unsigned char)c;
	}
}

size_t json_unit_decode(const char *p, char out[4], size_t *out_n)
{
	uint32_t c;

	if (*p != '\\') {
		unsigned char u = (unsigned char)*p;
		size_t n = u < 0x80 ? 1 : u < 0xe0 ? 2 : u < 0xf0 ? 3 : 4;

		memcpy(out, p, n);
		*out_n = n;
		return n;
	}
	if (p[1] != 'u') {
		*out_n = utf8_put(simple_escape(p[1]), out);
		return 2;
	}
	c = hex4(p + 2);
	if (c < 0xd800 || c > 0xdfff) {
		*out_n = utf8_put(c, out);
		return 6;
	}
	c = 0x10000 + ((c & 0x3ff) << 10) + (hex4(p + 8) & 0x3ff);
	*out_n = utf8_put(c, out);
	return 12;
}

static uint64_t rotate(uint64_t v, int by)
{
	return v << by | v >> (64 - by);
}

static void hash_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[0] = rotate(v[0], 32);
	v[2] += v[3];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

static uint64_t little_endian(const char *p)
{
	uint64_t m;

	memcpy(&m, p, sizeof(m));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	m = __builtin_bswap64(m);
#endif
	return m;
}

static void hash_word(uint64_t v[4], uint64_t m)
{
	v[3] ^= m;
	hash_round(v);
	v[0] ^= m;
}

void json_hash_init(struct json_hash *h)
{
	static uint64_t key[2];
	static bool keyed;

	if (!keyed) {
		digest_random(key, sizeof(key));
		keyed = true;
	}
	h->v[0] = key[0] ^ 0x736f6d6570736575;
	h->v[1] = key[1] ^ 0x646f72616e646f6d;
	h->v[2] = key[0] ^ 0x6c7967656e657261;
	h->v[3] = key[1] ^ 0x7465646279746573;
	h->tail = 0;
	h->count = 0;
}

void json_hash_add(struct json_hash *h, const char *p, size_t n)
{
	unsigned held = (unsigned)(h->count & 7);

	h->count += n;
	for (; held && n; n--) {
		h->tail |= (uint64_t)(unsigned char)*p++ << 8 * held;
		held = (held + 1) & 7;
		if (held == 0) {
			hash_word(h->v, h->tail);
			h->tail = 0;
		}
	}
	for (; n >= 8; n -= 8, p += 8)
		hash_word(h->v, little_endian(p));
	for (; n; n--)
		h->tail |= (uint64_t)(unsigned char)*p++ << 8 * held++;
}

uint64_t json_hash_end(struct json_hash *h)
{
	hash_word(h->v, h->tail | h->count << 56);
	h->v[2] ^= 0xff;
	hash_round(h->v);
	hash_round(h->v);
	hash_round(h->v);
	return h->v[0] ^ h->v[1] ^ h->v[2] ^ h->v[3];
}
