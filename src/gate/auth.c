/* Who is it: API keys and the partners they stand for. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/auth.h"

#include "base/clock.h"
#include "base/metric.h"
#include "base/text.h"
#include "db/stmt.h"

#define KEY_PREFIX "wbk_"

enum {
	PREFIX_LEN = sizeof(KEY_PREFIX) - 1,
	ID_BYTES = 10,
	SECRET_BYTES = 32,
	CHECK_BYTES = 4,
	ID_LEN = AUTH_ID - 1,
	KEY_LEN = AUTH_KEY - 1,
	SECRET_LEN = 52,
	CHECK_LEN = 7,
	CHECKED_LEN = PREFIX_LEN + ID_LEN + 1 + SECRET_LEN,
	CACHE_SLOTS = 64,
};

_Static_assert(CHECKED_LEN + CHECK_LEN == KEY_LEN, "a key's length");

struct cached {
	uint64_t until_ms;        /* clock_mono_ms(); 0: an empty slot */
	uint64_t expires_wall_ms; /* of the credential; 0: never */
	uint8_t hash[DIGEST_BYTES];
	struct principal who;
	char *warehouses; /* what who.warehouses points at */
};

struct auth {
	uint8_t pepper[DIGEST_BYTES];
	uint64_t cache_ms;
	struct arena arena; /* of the look-up under way */
	struct cached cache[CACHE_SLOTS];
};

static const struct scope_row {
	enum auth_scope scope;
	const char *name;
} SCOPES[] = {
	{AUTH_SCOPE_INGEST, "ingest"},
	{AUTH_SCOPE_READ, "read"},
	{AUTH_SCOPE_ADMIN, "admin"},
};

const char *auth_scope_name(enum auth_scope one)
{
	for (size_t i = 0; i < ARRAY_LEN(SCOPES); i++)
		if (SCOPES[i].scope == one)
			return SCOPES[i].name;
	bug("scope %d", (int)one);
}

bool auth_scopes_parse(struct sv text, unsigned *mask_r)
{
	unsigned mask = 0;

	while (text.n) {
		struct sv word = sv_trim(sv_cut(&text, ','));
		size_t i = 0;

		while (i < ARRAY_LEN(SCOPES) &&
		       !sv_eq(word, sv_of(SCOPES[i].name)))
			i++;
		if (i == ARRAY_LEN(SCOPES))
			return false;
		mask |= (unsigned)SCOPES[i].scope;
	}
	if (!mask)
		return false;
	*mask_r = mask;
	return true;
}

static bool load_pepper(struct auth *auth, const struct conf *c, struct fail *f)
{
	struct sv text;
	bool ok;

	if (!*c->key_pepper_file)
		return fail_set(f, FAIL_CONF, "key_pepper_file is not set");
	if (!conf_secret(&auth->arena, c->key_pepper_file, &text, f))
		return false;
	ok = text_hex_decode(text, auth->pepper, sizeof(auth->pepper));
	conf_secret_wipe(&text);
	if (!ok)
		return fail_set(f, FAIL_CONF, "%s: want 64 hex digits",
				c->key_pepper_file);
	return true;
}

bool auth_new(struct auth **auth_r, const struct conf *c, struct fail *f)
{
	struct auth *auth = calloc(1, sizeof(*auth));

	if (!auth)
		bug("out of memory for credentials");
	auth->cache_ms = c->auth_cache_ms;
	arena_init(&auth->arena, 4096);
	if (!load_pepper(auth, c, f)) {
		auth_free(auth);
		return false;
	}
	*auth_r = auth;
	return true;
}

void auth_free(struct auth *auth)
{
	if (!auth)
		return;
	arena_release(&auth->arena);
	for (size_t i = 0; i < CACHE_SLOTS; i++)
		free(auth->cache[i].warehouses);
	digest_wipe(auth, sizeof(*auth));
	free(auth);
}

static void checksum(struct sv text, char out[CHECK_LEN + 1])
{
	uint8_t sum[DIGEST_BYTES];

	digest_sha256(text, sum);
	text_base32_encode(sum, CHECK_BYTES, out);
}

static void hash_key(const struct auth *auth, struct sv key,
		     uint8_t hash[DIGEST_BYTES])
{
	digest_hmac_sha256(sv_from(auth->pepper, sizeof(auth->pepper)), key,
			   hash);
}

void auth_key_make(const struct auth *auth, struct auth_key *key_r)
{
	uint8_t id[ID_BYTES], secret[SECRET_BYTES];
	char secret_text[SECRET_LEN + 1], check[CHECK_LEN + 1];
	int n;

	digest_random(id, sizeof(id));
	digest_random(secret, sizeof(secret));
	text_base32_encode(id, sizeof(id), key_r->id);
	text_base32_encode(secret, sizeof(secret), secret_text);
	n = snprintf(key_r->key, AUTH_KEY, KEY_PREFIX "%s_%s", key_r->id,
		     secret_text);
	if (n != CHECKED_LEN)
		bug("a key of %d characters", n);
	checksum(sv_of(key_r->key), check);
	memcpy(key_r->key + CHECKED_LEN, check, sizeof(check));
	hash_key(auth, sv_of(key_r->key), key_r->hash);
	digest_wipe(secret, sizeof(secret));
	digest_wipe(secret_text, sizeof(secret_text));
}

/* The form and the checksum; nothing secret is decided here. */
static bool well_formed(struct sv key)
{
	char check[CHECK_LEN + 1];

	if (key.n != KEY_LEN || !sv_starts(key, SV(KEY_PREFIX)) ||
	    key.p[PREFIX_LEN + ID_LEN] != '_')
		return false;
	checksum(sv_from(key.p, CHECKED_LEN), check);
	return sv_eq(sv_tail(key, CHECKED_LEN), sv_of(check));
}

static bool bearer(struct sv header, struct sv *key_r)
{
	struct sv rest = sv_trim(header), word = sv_cut(&rest, ' ');

	*key_r = sv_trim(rest);
	return sv_eq_nocase(word, SV("Bearer")) && well_formed(*key_r);
}

static struct cached *slot_of(struct auth *auth, struct sv id)
{
	uint32_t h = 2166136261U;

	for (size_t i = 0; i < id.n; i++)
		h = (h ^ (uint8_t)id.p[i]) * 16777619U;
	return &auth->cache[h % CACHE_SLOTS];
}

static bool cache_has(const struct cached *slot, const struct db *db,
		      struct sv id, const uint8_t hash[DIGEST_BYTES])
{
	return slot->until_ms > clock_mono_ms() &&
	       (!slot->expires_wall_ms ||
		slot->expires_wall_ms > db_wall_ms(db)) &&
	       sv_eq(sv_of(slot->who.credential), id) &&
	       digest_equal(slot->hash, hash, DIGEST_BYTES);
}

static void copy_text(char *out, size_t size, struct sv s)
{
	if (s.n >= size)
		bug("a name of %zu bytes from the database", s.n);
	memcpy(out, s.p, s.n);
	out[s.n] = '\0';
}

/* Columns of STMT_CREDENTIAL_FIND. */
enum {
	C_ID,
	C_PARTNER_ID,
	C_PARTNER,
	C_STATE,
	C_HASH,
	C_SCOPES,
	C_EXPIRES,
	C_REVOKED,
	C_KIND,
	C_MTLS_ONLY,
	C_EXPIRED,
	C_STRICT,
	C_RATE,
	C_BURST,
	C_QUOTA,
	C_WAREHOUSES
};

static bool usable(const struct db_table *t, const uint8_t hash[DIGEST_BYTES])
{
	return t->rows == 1 && db_cell(t, 0, C_HASH)->bytes.n == DIGEST_BYTES &&
	       digest_equal(db_cell(t, 0, C_HASH)->bytes.p, hash,
			    DIGEST_BYTES) &&
	       sv_eq(db_cell(t, 0, C_KIND)->bytes, SV("KEY")) &&
	       sv_eq(db_cell(t, 0, C_STATE)->bytes, SV("ACTIVE")) &&
	       !db_cell(t, 0, C_MTLS_ONLY)->u && !db_cell(t, 0, C_REVOKED)->u &&
	       !db_cell(t, 0, C_EXPIRED)->u;
}

/* A burst that is not set is one second's worth. */
static void remember_limits(struct principal *who, const struct db_table *t)
{
	const struct db_val *burst = db_cell(t, 0, C_BURST);
	const struct db_val *rate = db_cell(t, 0, C_RATE);
	const struct db_val *quota = db_cell(t, 0, C_QUOTA);

	who->rate_per_s = rate->kind == DB_NULL ? 0 : (uint32_t)rate->u;
	who->burst =
		burst->kind == DB_NULL ? who->rate_per_s : (uint32_t)burst->u;
	who->has_quota = quota->kind != DB_NULL;
	who->quota_items = who->has_quota ? quota->u : 0;
}

static void remember_warehouses(struct cached *slot, const struct db_val *v)
{
	free(slot->warehouses);
	slot->warehouses = NULL;
	slot->who.warehouses = SV_NONE;
	if (v->kind == DB_NULL)
		return;
	slot->warehouses = malloc(v->bytes.n + 1);
	if (!slot->warehouses)
		bug("out of memory for a credential");
	memcpy(slot->warehouses, v->bytes.p, v->bytes.n);
	slot->who.warehouses = sv_from(slot->warehouses, v->bytes.n);
}

static void remember(struct auth *auth, struct cached *slot,
		     const struct db_table *t, const uint8_t hash[DIGEST_BYTES])
{
	const struct db_val *expires = db_cell(t, 0, C_EXPIRES);

	slot->until_ms = clock_mono_ms() + auth->cache_ms;
	slot->expires_wall_ms = expires->kind == DB_NULL ? 0 : expires->u;
	memcpy(slot->hash, hash, DIGEST_BYTES);
	slot->who.partner_id = (uint32_t)db_cell(t, 0, C_PARTNER_ID)->u;
	slot->who.scopes = (unsigned)db_cell(t, 0, C_SCOPES)->u;
	slot->who.is_strict = db_cell(t, 0, C_STRICT)->u != 0;
	remember_limits(&slot->who, t);
	remember_warehouses(slot, db_cell(t, 0, C_WAREHOUSES));
	copy_text(slot->who.partner, sizeof(slot->who.partner),
		  db_cell(t, 0, C_PARTNER)->bytes);
	copy_text(slot->who.credential, sizeof(slot->who.credential),
		  db_cell(t, 0, C_ID)->bytes);
}

static enum auth_result refuse(struct fail *f)
{
	metric_add(METRIC_AUTH_LOOKUPS, 1, "refused");
	fail_set(f, FAIL_UNAUTHENTICATED,
		 "send Authorization: Bearer KEY with a valid key");
	return AUTH_REFUSED;
}

enum auth_result auth_check(struct auth *auth, struct db *db, struct sv header,
			    struct principal *who_r, struct fail *f)
{
	uint8_t hash[DIGEST_BYTES];
	struct cached *slot;
	struct db_table found;
	struct sv key, id;

	if (!bearer(header, &key))
		return refuse(f);
	id = sv_from(key.p + PREFIX_LEN, ID_LEN);
	hash_key(auth, key, hash);
	slot = slot_of(auth, id);
	if (cache_has(slot, db, id, hash)) {
		metric_add(METRIC_AUTH_LOOKUPS, 1, "cache");
		*who_r = slot->who;
		return AUTH_OK;
	}
	arena_reset(&auth->arena);
	if (!db_query(db, STMT_CREDENTIAL_FIND, DB_ARGS(db_text(id)),
		      &auth->arena, &found, f))
		return AUTH_FAIL;
	if (!usable(&found, hash))
		return refuse(f);
	metric_add(METRIC_AUTH_LOOKUPS, 1, "found");
	remember(auth, slot, &found, hash);
	*who_r = slot->who;
	return AUTH_OK;
}
