/* Hashes, random bytes, constant-time comparison and certificates, all by
 * libcrypto. */
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

/* A certificate, as far as it matters here: who signed it does not. */
struct digest_cert {
	uint8_t fingerprint[DIGEST_BYTES];    /* SHA-256 of the DER */
	uint64_t not_before_ms, not_after_ms; /* since 1970 */
};

struct digest_pem {
	size_t certs; /* blocks named CERTIFICATE */
	bool has_private_key;
	struct digest_cert first; /* if there is one */
};

/* What a text of PEM blocks holds; what stands between them is ignored. false:
 * a block is broken, its first certificate is none, or it is empty or over
 * DIGEST_PEM_MAX. */
enum { DIGEST_PEM_MAX = 1 << 20 };
MUST_CHECK bool digest_pem_read(struct sv text, struct digest_pem *p_r);

struct library digest_library(void);

#endif
