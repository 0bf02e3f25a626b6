/* Reading small texts: numbers, sizes, durations, encodings.
 *
 * Each takes the whole sv or nothing: no leading blanks, no sign where none
 * is named, base 10, and a range given by the caller. false leaves the
 * result alone.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_TEXT_H
#define WAYBILL_TEXT_H

#include "base/arena.h"

MUST_CHECK bool text_u64(struct sv s, uint64_t min, uint64_t max,
			 uint64_t *v_r);
MUST_CHECK bool text_bool(struct sv s, bool *v_r); /* true or false */

/* 4096, 64KiB, 4MiB, 1GiB. */
MUST_CHECK bool text_bytes(struct sv s, uint64_t *v_r);
/* 250ms, 30s, 5min, 24h, 30d; a bare number has no unit and is refused
 * unless it is 0. */
MUST_CHECK bool text_duration_ms(struct sv s, uint64_t *v_r);

/* Length in bytes of the UTF-8 character s begins with (1-4), 0 if it begins
 * with none: overlong forms, surrogates and half characters are none. */
size_t text_utf8_len(struct sv s);
bool text_is_utf8(struct sv s);

/* "%41%2F" -> "A/". false: a '%' without two hex digits. */
MUST_CHECK bool text_percent_decode(struct arena *a, struct sv s,
				    struct sv *out_r);

MUST_CHECK bool text_hex_decode(struct sv s, uint8_t *out, size_t out_bytes);

/* RFC 4648 base32, lower case, no padding. `out` of encode needs
 * text_base32_len(n) + 1 bytes; it is terminated. */
size_t text_base32_len(size_t n);
void text_base32_encode(const uint8_t *in, size_t n, char *out);
MUST_CHECK bool text_base32_decode(struct sv s, uint8_t *out, size_t out_bytes);

#endif
