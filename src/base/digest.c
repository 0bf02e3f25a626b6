/* Hashes and random bytes. The only file that knows libcrypto. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

struct digest_state {
	EVP_MD_CTX *ctx;
};

struct digest_state *digest_new(void)
{
	struct digest_state *s = malloc(sizeof(*s));

	if (!s)
		bug("out of memory for a digest");
	s->ctx = EVP_MD_CTX_new();
	if (!s->ctx || EVP_DigestInit_ex(s->ctx, EVP_sha256(), NULL) != 1)
		bug("libcrypto has no SHA-256");
	return s;
}

void digest_add(struct digest_state *s, struct sv bytes)
{
	if (bytes.n && EVP_DigestUpdate(s->ctx, bytes.p, bytes.n) != 1)
		bug("EVP_DigestUpdate");
}

void digest_free(struct digest_state *s, uint8_t sum_r[DIGEST_BYTES])
{
	if (EVP_DigestFinal_ex(s->ctx, sum_r, NULL) != 1)
		bug("EVP_DigestFinal_ex");
	EVP_MD_CTX_free(s->ctx);
	free(s);
}

void digest_sha256(struct sv bytes, uint8_t sum_r[DIGEST_BYTES])
{
	if (EVP_Digest(bytes.n ? bytes.p : "", bytes.n, sum_r, NULL,
		       EVP_sha256(), NULL) != 1)
		bug("EVP_Digest");
}

void digest_hmac_sha256(struct sv key, struct sv bytes,
			uint8_t sum_r[DIGEST_BYTES])
{
	unsigned n = 0;

	if (key.n > INT_MAX ||
	    !HMAC(EVP_sha256(), key.n ? key.p : "", (int)key.n,
		  (const unsigned char *)bytes.p, bytes.n, sum_r, &n) ||
	    n != DIGEST_BYTES)
		bug("HMAC");
}

bool digest_equal(const void *a, const void *b, size_t n)
{
	return CRYPTO_memcmp(a, b, n) == 0;
}

void digest_random(void *out, size_t n)
{
	char *p = out;

	while (n) {
		ssize_t got = getrandom(p, n, 0);

		if (got < 0 && errno != EINTR)
			bug("getrandom: errno %d", errno);
		if (got > 0) {
			p += got;
			n -= (size_t)got;
		}
	}
}

void digest_wipe(void *secret, size_t n)
{
	explicit_bzero(secret, n);
}

struct library digest_library(void)
{
	return (struct library){"libcrypto", OPENSSL_VERSION_STR,
				OpenSSL_version(OPENSSL_VERSION_STRING)};
}
