/* Hashes, random bytes and certificates. The only file that knows
 * libcrypto. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/random.h>
#include <time.h>

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

/* Since 1970; before that 0, which no clock here shows. */
static bool time_ms(const ASN1_TIME *t, uint64_t *ms_r)
{
	struct tm tm;
	time_t s;

	if (!t || ASN1_TIME_to_tm(t, &tm) != 1)
		return false;
	s = timegm(&tm);
	*ms_r = s < 0 ? 0 : (uint64_t)s * 1000;
	return true;
}

static bool read_cert(struct sv der, struct digest_cert *c_r)
{
	const unsigned char *p = (const unsigned char *)der.p;
	X509 *x = der.n > LONG_MAX ? NULL : d2i_X509(NULL, &p, (long)der.n);
	bool ok;

	if (!x)
		return false;
	ok = p == (const unsigned char *)der.p + der.n &&
	     time_ms(X509_get0_notBefore(x), &c_r->not_before_ms) &&
	     time_ms(X509_get0_notAfter(x), &c_r->not_after_ms);
	X509_free(x);
	digest_sha256(der, c_r->fingerprint);
	return ok;
}

static bool read_block(struct sv name, struct sv der, struct digest_pem *p_r)
{
	struct sv key = SV("PRIVATE KEY");

	if (name.n >= key.n && sv_eq(sv_tail(name, name.n - key.n), key))
		p_r->has_private_key = true;
	if (!sv_eq(name, SV("CERTIFICATE")))
		return true;
	return p_r->certs++ > 0 || read_cert(der, &p_r->first);
}

/* false: the text ends, or *broken_r. */
static bool next_block(BIO *in, struct digest_pem *p_r, bool *broken_r)
{
	char *name = NULL, *header = NULL;
	unsigned char *data = NULL;
	long n = 0;

	ERR_clear_error();
	if (PEM_read_bio(in, &name, &header, &data, &n) != 1) {
		*broken_r = ERR_GET_REASON(ERR_peek_last_error()) !=
			    PEM_R_NO_START_LINE;
		ERR_clear_error();
		return false;
	}
	*broken_r = !read_block(sv_of(name), sv_from(data, (size_t)n), p_r);
	OPENSSL_free(name);
	OPENSSL_free(header);
	OPENSSL_clear_free(data, (size_t)n);
	ERR_clear_error();
	return !*broken_r;
}

bool digest_pem_read(struct sv text, struct digest_pem *p_r)
{
	bool broken = false;
	BIO *in;

	*p_r = (struct digest_pem){0};
	if (!text.n || text.n > DIGEST_PEM_MAX)
		return false;
	in = BIO_new_mem_buf(text.p, (int)text.n);
	if (!in)
		bug("no memory for a certificate");
	while (next_block(in, p_r, &broken))
		;
	BIO_free(in);
	return !broken;
}

struct library digest_library(void)
{
	return (struct library){"libcrypto", OPENSSL_VERSION_STR,
				OpenSSL_version(OPENSSL_VERSION_STRING)};
}
