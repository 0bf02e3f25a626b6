/* Sixteen-byte ids. The only file that knows libuuid. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ids.h"

#include <pthread.h>
#include <uuid/uuid.h>

#include "base/digest.h"
#include "base/text.h"

/* Random bytes in stock: the kernel is asked once for many ids. A child must
 * not use its parent's. */
static struct {
	uint8_t bytes[64 * sizeof(struct id)];
	size_t left;
	bool guarded;
} stock;

static void empty_stock(void)
{
	stock.left = 0;
}

static void fill_stock(void)
{
	if (!stock.guarded && pthread_atfork(NULL, NULL, empty_stock) != 0)
		bug("pthread_atfork");
	stock.guarded = true;
	digest_random(stock.bytes, sizeof(stock.bytes));
	stock.left = sizeof(stock.bytes);
}

static struct id random_id(void)
{
	struct id id;

	if (!stock.left)
		fill_stock();
	stock.left -= sizeof(id.b);
	memcpy(id.b, stock.bytes + stock.left, sizeof(id.b));
	return id;
}

struct id id_new(uint64_t wall_ms)
{
	static uint64_t last_ms;
	static uint32_t seq; /* 12 bits of rand_a, counting inside one ms */
	struct id id = random_id();

	if (wall_ms > last_ms) {
		last_ms = wall_ms;
		/* Half the range is kept free to count in. */
		seq = ((uint32_t)id.b[6] << 8 | id.b[7]) & 0x7ff;
	} else if (++seq > 0xfff) {
		last_ms++;
		seq = 0;
	}
	for (int i = 0; i < 6; i++)
		id.b[i] = (uint8_t)(last_ms >> (40 - 8 * i));
	id.b[6] = (uint8_t)(0x70 | seq >> 8);
	id.b[7] = (uint8_t)seq;
	id.b[8] = (uint8_t)(0x80 | (id.b[8] & 0x3f));
	return id;
}

uint64_t id_wall_ms(struct id id)
{
	uint64_t ms = 0;

	for (int i = 0; i < 6; i++)
		ms = ms << 8 | id.b[i];
	return ms;
}

bool id_eq(struct id a, struct id b)
{
	return memcmp(a.b, b.b, sizeof(a.b)) == 0;
}

void id_hex(struct id id, char out[ID_HEX])
{
	static const char HEX[] = "0123456789abcdef";

	for (size_t i = 0; i < sizeof(id.b); i++) {
		*out++ = HEX[id.b[i] >> 4];
		*out++ = HEX[id.b[i] & 15];
	}
	*out = '\0';
}

void id_uuid(struct id id, char out[ID_UUID])
{
	uuid_unparse_lower(id.b, out);
}

bool id_parse_hex(struct sv s, struct id *id_r)
{
	return text_hex_decode(s, id_r->b, sizeof(id_r->b));
}

static int crockford(char c)
{
	static const char ALPHABET[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
	const char *at;

	if (c >= 'a' && c <= 'z')
		c = (char)(c - 32);
	at = c ? strchr(ALPHABET, c) : NULL;
	return at ? (int)(at - ALPHABET) : -1;
}

static bool parse_ulid(struct sv s, struct id *id_r)
{
	uint32_t bits = 0;
	unsigned have = 0;
	size_t n = 0;

	/* 26 x 5 = 130 bits: the first character holds only three. */
	for (size_t i = 0; i < s.n; i++) {
		int v = crockford(s.p[i]);

		if (v < 0 || (i == 0 && v > 7))
			return false;
		bits = bits << 5 | (uint32_t)v;
		have += i == 0 ? 3 : 5;
		if (have >= 8) {
			have -= 8;
			id_r->b[n++] = (uint8_t)(bits >> have);
		}
	}
	return true;
}

bool id_parse_correlation(struct sv s, struct id *id_r)
{
	char text[ID_UUID];

	if (s.n == 26)
		return parse_ulid(s, id_r);
	if (s.n != ID_UUID - 1)
		return false;
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	return uuid_parse(text, id_r->b) == 0;
}
