/* Cursors: a version, then a checksum and the position in base32, the
 * position hidden under a stream that the key and the checksum give. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cursor.h"

#include "base/text.h"

enum {
	LAYOUT = 'b', /* of this layout */
	CHECK_BYTES = 8,
	RAW_MAX = CHECK_BYTES + CURSOR_POSITION_MAX,
	TEXT_MAX = (RAW_MAX * 8 + 4) / 5,
};

/* With its length, so that no two lists of parts look alike. */
static void add_part(struct digest_state *d, struct sv part)
{
	char head[24];

	snprintf(head, sizeof(head), "%c%zu:", part.p ? '=' : '-', part.n);
	digest_add(d, sv_of(head));
	digest_add(d, part);
}

static void checksum(const struct cursor_scope *s, struct sv position,
		     uint8_t sum_r[DIGEST_BYTES])
{
	struct digest_state *d = digest_new();
	uint8_t plain[DIGEST_BYTES];
	char partner[16];

	snprintf(partner, sizeof(partner), "%lu", (unsigned long)s->partner_id);
	add_part(d, sv_of(s->listing));
	add_part(d, sv_of(partner));
	for (size_t i = 0; i < CURSOR_FILTERS_MAX; i++)
		add_part(d, s->filters[i]);
	add_part(d, position);
	digest_free(d, plain);
	digest_hmac_sha256(sv_from(s->key, sizeof(s->key)),
			   sv_from(plain, sizeof(plain)), sum_r);
}

/* Hides a position, or shows it again. raw: the checksum, the position. */
static void veil(const struct cursor_scope *s, uint8_t *raw, size_t n)
{
	uint8_t seed[CHECK_BYTES + 1], stream[DIGEST_BYTES];

	memcpy(seed, raw, CHECK_BYTES);
	for (size_t i = 0; i < n - CHECK_BYTES; i++) {
		if (i % DIGEST_BYTES == 0) {
			seed[CHECK_BYTES] = (uint8_t)(i / DIGEST_BYTES);
			digest_hmac_sha256(sv_from(s->key, sizeof(s->key)),
					   sv_from(seed, sizeof(seed)), stream);
		}
		raw[CHECK_BYTES + i] ^= stream[i % DIGEST_BYTES];
	}
}

void cursor_add(struct buf *b, const struct cursor_scope *s, struct sv position)
{
	uint8_t raw[RAW_MAX], sum[DIGEST_BYTES];
	char text[TEXT_MAX + 1];

	if (position.n == 0 || position.n > CURSOR_POSITION_MAX)
		bug("a position of %zu bytes", position.n);
	checksum(s, position, sum);
	memcpy(raw, sum, CHECK_BYTES);
	memcpy(raw + CHECK_BYTES, position.p, position.n);
	veil(s, raw, CHECK_BYTES + position.n);
	text_base32_encode(raw, CHECK_BYTES + position.n, text);
	buf_add_byte(b, LAYOUT);
	buf_add_text(b, text);
}

bool cursor_read(struct arena *a, const struct cursor_scope *s, struct sv text,
		 struct sv *position_r)
{
	uint8_t raw[RAW_MAX], sum[DIGEST_BYTES];
	struct sv position, body;
	size_t n;

	if (text.n == 0 || text.p[0] != LAYOUT || text.n - 1 > TEXT_MAX)
		return false;
	body = sv_tail(text, 1);
	n = body.n * 5 / 8;
	if (n <= CHECK_BYTES || n > RAW_MAX ||
	    !text_base32_decode(body, raw, n))
		return false;
	veil(s, raw, n);
	position = sv_from(raw + CHECK_BYTES, n - CHECK_BYTES);
	checksum(s, position, sum);
	if (!digest_equal(raw, sum, CHECK_BYTES))
		return false;
	*position_r = arena_sv(a, position);
	return true;
}
