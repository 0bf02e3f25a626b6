/* Hashes, random bytes and constant-time comparison, all by libcrypto. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_DIGEST_H
#define WAYBILL_DIGEST_H

#include "base/library.h"
#include "base/sv.h"

enum { DIGEST_BYTES = 32 };

struct digest_state; /* a SHA-256 under way */

/*	struct digest_state *s = digest_new();
 *	digest_add(s, sv); ...
 *	digest_free(s, sum);			also ends it */
struct digest_state *digest_new(void);
void digest_add(struct digest_state *s, struct sv bytes);
void digest_free(struct digest_state *s, uint8_t sum_r[DIGEST_BYTES]);

void digest_sha256(struct sv bytes, uint8_t sum_r[DIGEST_BYTES]);
void digest_hmac_sha256(struct sv key, struct sv bytes,
			uint8_t sum_r[DIGEST_BYTES]);

/* Time does not depend on where they differ. */
bool digest_equal(const void *a, const void *b, size_t n);
void digest_random(void *out, size_t n);
void digest_wipe(void *secret, size_t n);

struct library digest_library(void);

#endif
