/* Who is it: API keys, client certificates and the partners they stand for.
 *
 *	auth_new(&auth, conf, f)		once a process
 *	switch (auth_check(auth, db, &offer, &who, f)) {
 *	case AUTH_OK:      `who` is filled
 *	case AUTH_REFUSED: 401, f says so and not why
 *	case AUTH_FAIL:    the database could not be asked
 *	}
 *	...the answer is sent...
 *	auth_note_use(auth, db)
 *
 * A key is `wbk_` + 16 characters that name it + `_` + 52 characters of
 * secret (32 random bytes) + 7 of checksum, so that a mistyped or cut key is
 * refused without asking the database. Stored is HMAC-SHA256(pepper, key).
 *
 * A certificate is known by the SHA-256 of its DER, which is registered; that
 * the caller has its private key was proved to nginx. Who signed it does not
 * matter, but its own times must hold now.
 *
 * An Authorization header decides, whatever certificate comes with it: scopes
 * and warehouses are the key's. A partner that is `mtls_only` must show, with
 * a key, a registered certificate of its own as well. Without the header the
 * certificate is the credential.
 *
 * Guarantees:
 * 1. The key itself is never stored and never logged.
 * 2. Hashes are compared in constant time; a refusal is the same for a
 *    credential that is unknown, wrong, expired, revoked, of a disabled
 *    partner, or lacks the certificate it needs.
 * 3. A revocation or an expiry is effective after auth_cache at most.
 * 4. Writing down when a credential was last used fails, delays and repeats
 *    no request, and waits for no row lock.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_AUTH_H
#define WAYBILL_AUTH_H

#include "base/conf.h"
#include "base/digest.h"
#include "db/session.h"

enum auth_scope {
	AUTH_SCOPE_INGEST = 1,
	AUTH_SCOPE_READ = 2,
	AUTH_SCOPE_ADMIN = 4,
	AUTH_SCOPE_ALL = 7,
};

enum {
	AUTH_ID = 17,  /* a credential's name, with the terminator */
	AUTH_KEY = 81, /* a whole key, with the terminator */
	AUTH_PARTNER = 65,
};

struct principal {
	uint32_t partner_id;
	char partner[AUTH_PARTNER];
	char credential[AUTH_ID];
	unsigned scopes;
	bool is_strict; /* a key reused for another request: 422 */
	/* The partner's limits, as they were auth_cache ago at most. */
	uint32_t rate_per_s, burst; /* rate_per_s 0: no limit */
	uint64_t limits_seen_ms;    /* clock_mono_ms() when they were read */
	bool has_quota;
	uint64_t quota_items; /* a UTC day */
	/* The credential's warehouses: a JSON array of source ids, p NULL: all.
	 * Holds until the next auth_check() of this process. */
	struct sv warehouses;
};

struct auth;

MUST_CHECK bool auth_new(struct auth **auth_r, const struct conf *c,
			 struct fail *f);
void auth_free(struct auth *auth);

enum auth_result { AUTH_OK, AUTH_REFUSED, AUTH_FAIL };

/* What a request shows. */
struct auth_offer {
	struct sv authorization; /* the header's value; SV_NONE: none */
	struct sv client_cert;   /* percent-encoded PEM; empty: none */
};

enum auth_result auth_check(struct auth *auth, struct db *db,
			    const struct auth_offer *offer,
			    struct principal *who_r, struct fail *f);

/* Write down that the credentials of the last auth_check() were used, if that
 * is last_used_every ago. Call it when the answer is out. */
void auth_note_use(struct auth *auth, struct db *db);

struct auth_key {
	char key[AUTH_KEY];
	char id[AUTH_ID];
	uint8_t hash[DIGEST_BYTES];
};
void auth_id_make(char id_r[AUTH_ID]); /* a fresh name of a credential */
/* A fresh key. The caller shows it once, stores id and hash, and wipes it. */
void auth_key_make(const struct auth *auth, struct auth_key *key_r);

/* A key of the service for another purpose, the same in all its processes. */
void auth_derive(const struct auth *auth, struct sv purpose,
		 uint8_t key_r[DIGEST_BYTES]);

const char *auth_scope_name(enum auth_scope one); /* "ingest" */
/* "ingest,read" -> mask; false: an unknown word. */
MUST_CHECK bool auth_scopes_parse(struct sv text, unsigned *mask_r);

#endif
