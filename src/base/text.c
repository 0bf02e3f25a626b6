/* Reading small texts: numbers, sizes, durations, encodings. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

struct unit {
	const char *name;
	uint64_t factor;
};

bool text_u64(struct sv s, uint64_t min, uint64_t max, uint64_t *v_r)
{
	uint64_t v = 0;

	if (s.n == 0 || s.n > 20)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		uint64_t digit = (uint64_t)(unsigned char)s.p[i] - '0';

		if (digit > 9 || v > (UINT64_MAX - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	if (v < min || v > max)
		return false;
	*v_r = v;
	return true;
}

bool text_bool(struct sv s, bool *v_r)
{
	if (!sv_eq(s, SV("true")) && !sv_eq(s, SV("false")))
		return false;
	*v_r = s.n == 4;
	return true;
}

static bool with_unit(struct sv s, const struct unit *units, size_t n,
		      uint64_t *v_r)
{
	size_t digits = 0;
	uint64_t v;

	while (digits < s.n && s.p[digits] >= '0' && s.p[digits] <= '9')
		digits++;
	if (!text_u64(sv_from(s.p, digits), 0, UINT64_MAX, &v))
		return false;
	if (v == 0 && digits == s.n) {
		*v_r = 0;
		return true;
	}
	for (size_t i = 0; i < n; i++) {
		if (!sv_eq(sv_tail(s, digits), sv_of(units[i].name)))
			continue;
		if (v > UINT64_MAX / units[i].factor)
			return false;
		*v_r = v * units[i].factor;
		return true;
	}
	return false;
}

bool text_bytes(struct sv s, uint64_t *v_r)
{
	static const struct unit UNITS[] = {
		{"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};

	return with_unit(s, UNITS, ARRAY_LEN(UNITS), v_r);
}

bool text_duration_ms(struct sv s, uint64_t *v_r)
{
	static const struct unit UNITS[] = {{"ms", 1},
					    {"s", 1000},
					    {"min", 60000},
					    {"h", 3600000},
					    {"d", 86400000}};

	return with_unit(s, UNITS, ARRAY_LEN(UNITS), v_r);
}

size_t text_utf8_len(struct sv s)
{
	const unsigned char *u = (const unsigned char *)s.p;
	unsigned char lo = 0x80, hi = 0xbf;
	size_t len;

	if (s.n == 0)
		return 0;
	if (u[0] < 0x80)
		return 1;
	if (u[0] < 0xc2 || u[0] > 0xf4)
		return 0;
	len = u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
	if (s.n < len)
		return 0;
	/* The second byte tells overlong forms, surrogates and what lies
	 * past U+10FFFF. */
	if (u[0] == 0xe0)
		lo = 0xa0;
	else if (u[0] == 0xed)
		hi = 0x9f;
	else if (u[0] == 0xf0)
		lo = 0x90;
	else if (u[0] == 0xf4)
		hi = 0x8f;
	if (u[1] < lo || u[1] > hi)
		return 0;
	for (size_t i = 2; i < len; i++)
		if (u[i] < 0x80 || u[i] > 0xbf)
			return 0;
	return len;
}

bool text_is_utf8(struct sv s)
{
	while (s.n) {
		size_t len = text_utf8_len(s);

		if (len == 0)
			return false;
		s = sv_tail(s, len);
	}
	return true;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool text_hex_decode(struct sv s, uint8_t *out, size_t out_bytes)
{
	if (s.n != 2 * out_bytes)
		return false;
	for (size_t i = 0; i < out_bytes; i++) {
		int high = hex_value(s.p[2 * i]);
		int low = hex_value(s.p[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		out[i] = (uint8_t)(high * 16 + low);
	}
	return true;
}

bool text_percent_decode(struct arena *a, struct sv s, struct sv *out_r)
{
	char *p = arena_reserve(a, s.n + 1);
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		uint8_t byte = (uint8_t)s.p[i];

		if (s.p[i] == '%') {
			if (s.n - i < 3 ||
			    !text_hex_decode(sv_from(s.p + i + 1, 2), &byte, 1))
				return false;
			i += 2;
		}
		p[n++] = (char)byte;
	}
	p[n] = '\0';
	*out_r = sv_from(p, n);
	return true;
}

size_t text_base32_len(size_t n)
{
	return (n * 8 + 4) / 5;
}

void text_base32_encode(const uint8_t *in, size_t n, char *out)
{
	static const char ALPHABET[] = "abcdefghijklmnopqrstuvwxyz234567";
	uint32_t bits = 0;
	unsigned have = 0;

	for (size_t i = 0; i < n; i++) {
		bits = bits << 8 | in[i];
		for (have += 8; have >= 5; have -= 5)
			*out++ = ALPHABET[bits >> (have - 5) & 31];
	}
	if (have)
		*out++ = ALPHABET[bits << (5 - have) & 31];
	*out = '\0';
}

static int base32_value(char c)
{
	if (c >= 'a' && c <= 'z')
		return c - 'a';
	if (c >= '2' && c <= '7')
		return c - '2' + 26;
	return -1;
}

bool text_base32_decode(struct sv s, uint8_t *out, size_t out_bytes)
{
	uint32_t bits = 0;
	unsigned have = 0;
	size_t n = 0;

	if (s.n != text_base32_len(out_bytes))
		return false;
	for (size_t i = 0; i < s.n; i++) {
		int v = base32_value(s.p[i]);

		if (v < 0)
			return false;
		bits = bits << 5 | (uint32_t)v;
		have += 5;
		if (have >= 8) {
			have -= 8;
			out[n++] = (uint8_t)(bits >> have);
		}
	}
	/* Leftover bits must be zero: one text a value. */
	return n == out_bytes && (bits & ((1U << have) - 1)) == 0;
}
