/* Who is it: API keys, client certificates and the partners they stand
 * for. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/auth.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/text.h"
#include "db/txn.h"

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

enum kind { KIND_KEY, KIND_CERT, KIND_COUNT };

static const char *const KINDS[KIND_COUNT] = {
	[KIND_KEY] = "KEY",
	[KIND_CERT] = "CERT",
};

struct cached {
	uint64_t until_ms;        /* clock_mono_ms(); 0: an empty slot */
	uint64_t expires_wall_ms; /* of the credential; 0: never */
	uint64_t noted_ms; /* its use was last written down; 0: not yet */
	bool mtls_only;    /* the partner's setting */
	uint8_t hash[DIGEST_BYTES];
	struct principal who;
	char *warehouses; /* what who.warehouses points at */
};

/* Keys and certificates have slots of their own: where one request shows
 * both, neither takes the other's. */
struct auth {
	uint8_t pepper[DIGEST_BYTES];
	uint64_t cache_ms, note_ms;
	struct arena arena; /* of the look-up under way */
	struct cached cache[KIND_COUNT][CACHE_SLOTS];
	struct cached *used[KIND_COUNT]; /* by the last request; NULL: none */
};

static const struct scope_row {
	enum auth_scope scope;
	const char *name;
} SCOPES[] = {
	{AUTH_SCOPE_INGEST, "ingest"},
	{AUTH_SCOPE_READ, "read"},
	{AUTH_SCOPE_ADMIN, "admin"},
};

void auth_derive(const struct auth *auth, struct sv purpose,
		 uint8_t key_r[DIGEST_BYTES])
{
	digest_hmac_sha256(sv_from(auth->pepper, sizeof(auth->pepper)), purpose,
			   key_r);
}

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
	auth->note_ms = c->last_used_every_ms;
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
	for (size_t i = 0; i < (size_t)KIND_COUNT * CACHE_SLOTS; i++)
		free(auth->cache[i / CACHE_SLOTS][i % CACHE_SLOTS].warehouses);
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

void auth_id_make(char id_r[AUTH_ID])
{
	uint8_t id[ID_BYTES];

	digest_random(id, sizeof(id));
	text_base32_encode(id, sizeof(id), id_r);
}

void auth_key_make(const struct auth *auth, struct auth_key *key_r)
{
	uint8_t secret[SECRET_BYTES];
	char secret_text[SECRET_LEN + 1], check[CHECK_LEN + 1];
	int n;

	auth_id_make(key_r->id);
	digest_random(secret, sizeof(secret));
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

static bool is_base32(struct sv s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!(s.p[i] >= 'a' && s.p[i] <= 'z') &&
		    !(s.p[i] >= '2' && s.p[i] <= '7'))
			return false;
	return true;
}

/* The form and the checksum; nothing secret is decided here. Anybody can make
 * a checksum: an id of other letters would be asked for in the database, which
 * refuses to compare what is not ASCII. */
static bool well_formed(struct sv key)
{
	char check[CHECK_LEN + 1];

	if (key.n != KEY_LEN || !sv_starts(key, SV(KEY_PREFIX)) ||
	    key.p[PREFIX_LEN + ID_LEN] != '_' ||
	    !is_base32(sv_from(key.p + PREFIX_LEN, ID_LEN)))
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

/* Of a hash any byte is as good as another. */
static struct cached *slot_of(struct auth *auth, enum kind kind,
			      const uint8_t hash[DIGEST_BYTES])
{
	return &auth->cache[kind][hash[0] % CACHE_SLOTS];
}

static bool cache_has(const struct cached *slot, const struct db *db,
		      const uint8_t hash[DIGEST_BYTES])
{
	return slot->until_ms > clock_mono_ms() &&
	       (!slot->expires_wall_ms ||
		slot->expires_wall_ms > db_wall_ms(db)) &&
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

static bool usable(const struct db_table *t, enum kind kind,
		   const uint8_t hash[DIGEST_BYTES])
{
	return t->rows == 1 && db_cell(t, 0, C_HASH)->bytes.n == DIGEST_BYTES &&
	       digest_equal(db_cell(t, 0, C_HASH)->bytes.p, hash,
			    DIGEST_BYTES) &&
	       sv_eq(db_cell(t, 0, C_KIND)->bytes, sv_of(KINDS[kind])) &&
	       sv_eq(db_cell(t, 0, C_STATE)->bytes, SV("ACTIVE")) &&
	       !db_cell(t, 0, C_REVOKED)->u && !db_cell(t, 0, C_EXPIRED)->u;
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
	who->limits_seen_ms = clock_mono_ms();
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

	if (!digest_equal(slot->hash, hash, DIGEST_BYTES))
		slot->noted_ms = 0;
	slot->until_ms = clock_mono_ms() + auth->cache_ms;
	slot->expires_wall_ms = expires->kind == DB_NULL ? 0 : expires->u;
	slot->mtls_only = db_cell(t, 0, C_MTLS_ONLY)->u != 0;
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
		 "send Authorization: Bearer KEY with a valid key, or use a "
		 "registered client certificate");
	return AUTH_REFUSED;
}

/* A key tells its id; a certificate is found by its fingerprint. */
static bool find(struct auth *auth, struct db *db, enum kind kind, struct sv id,
		 const uint8_t hash[DIGEST_BYTES], struct db_table *found,
		 struct fail *f)
{
	arena_reset(&auth->arena);
	if (kind == KIND_CERT) {
		if (!db_query(db, STMT_CREDENTIAL_OF_HASH,
			      DB_ARGS(db_text(sv_from(hash, DIGEST_BYTES))),
			      &auth->arena, found, f))
			return false;
		if (!found->rows)
			return true;
		id = db_cell(found, 0, 0)->bytes;
	}
	return db_query(db, STMT_CREDENTIAL_FIND, DB_ARGS(db_text(id)),
			&auth->arena, found, f);
}

static enum auth_result look_up(struct auth *auth, struct db *db,
				enum kind kind, struct sv id,
				const uint8_t hash[DIGEST_BYTES],
				struct cached **slot_r, struct fail *f)
{
	struct cached *slot = slot_of(auth, kind, hash);
	struct db_table found;

	*slot_r = slot;
	if (cache_has(slot, db, hash)) {
		metric_add(METRIC_AUTH_LOOKUPS, 1, "cache");
		return AUTH_OK;
	}
	if (!find(auth, db, kind, id, hash, &found, f))
		return AUTH_FAIL;
	if (!usable(&found, kind, hash))
		return refuse(f);
	metric_add(METRIC_AUTH_LOOKUPS, 1, "found");
	remember(auth, slot, &found, hash);
	return AUTH_OK;
}

static enum auth_result check_key(struct auth *auth, struct db *db,
				  struct sv header, struct cached **slot_r,
				  struct fail *f)
{
	uint8_t hash[DIGEST_BYTES];
	struct sv key;

	if (!bearer(header, &key))
		return refuse(f);
	hash_key(auth, key, hash);
	return look_up(auth, db, KIND_KEY, sv_from(key.p + PREFIX_LEN, ID_LEN),
		       hash, slot_r, f);
}

static bool read_cert(struct auth *auth, struct sv escaped,
		      struct digest_cert *c_r)
{
	struct digest_pem pem;
	struct sv text;

	arena_reset(&auth->arena);
	if (!text_percent_decode(&auth->arena, escaped, &text) ||
	    !digest_pem_read(text, &pem) || pem.certs != 1)
		return false;
	*c_r = pem.first;
	return true;
}

/* nginx looks at the certificate's own times too, but only when the TLS
 * session begins: one that is resumed, or stays open, outlives them. */
static bool in_time(const struct digest_cert *c, const struct db *db)
{
	uint64_t now_ms = db_wall_ms(db);

	return c->not_before_ms <= now_ms && now_ms <= c->not_after_ms;
}

static enum auth_result check_cert(struct auth *auth, struct db *db,
				   struct sv escaped, struct cached **slot_r,
				   struct fail *f)
{
	struct digest_cert c;
	enum auth_result got;

	if (!read_cert(auth, escaped, &c))
		return refuse(f);
	got = look_up(auth, db, KIND_CERT, SV_NONE, c.fingerprint, slot_r, f);
	if (got == AUTH_OK && !in_time(&c, db))
		return refuse(f);
	return got;
}

/* The key decides; a partner of certificates only must show one as well. */
static enum auth_result check_both(struct auth *auth, struct db *db,
				   const struct auth_offer *offer,
				   struct cached *used[KIND_COUNT],
				   struct fail *f)
{
	enum auth_result got;

	got = check_key(auth, db, offer->authorization, &used[KIND_KEY], f);
	if (got != AUTH_OK || !used[KIND_KEY]->mtls_only)
		return got;
	got = check_cert(auth, db, offer->client_cert, &used[KIND_CERT], f);
	if (got == AUTH_OK &&
	    used[KIND_CERT]->who.partner_id != used[KIND_KEY]->who.partner_id)
		return refuse(f);
	return got;
}

enum auth_result auth_check(struct auth *auth, struct db *db,
			    const struct auth_offer *offer,
			    struct principal *who_r, struct fail *f)
{
	struct cached *used[KIND_COUNT] = {NULL};
	enum auth_result got;

	memset(auth->used, 0, sizeof(auth->used));
	if (offer->authorization.p)
		got = check_both(auth, db, offer, used, f);
	else
		got = check_cert(auth, db, offer->client_cert, &used[KIND_CERT],
				 f);
	if (got != AUTH_OK)
		return got;
	memcpy(auth->used, used, sizeof(auth->used));
	*who_r = used[used[KIND_KEY] ? KIND_KEY : KIND_CERT]->who;
	return AUTH_OK;
}

struct note {
	struct auth *auth;
	struct sv id;
};

/* A row that somebody has locked is not waited for: credential_due fails. */
static enum db_step note_work(struct db *db, const struct db_attempt *at,
			      void *arg, struct fail *f)
{
	const struct note *n = arg;
	struct db_val id = db_text(n->id);
	struct db_table due;
	uint64_t written;

	(void)at;
	arena_reset(&n->auth->arena);
	if (!db_query(db, STMT_CREDENTIAL_DUE,
		      DB_ARGS(id, db_uint(n->auth->note_ms * 1000)),
		      &n->auth->arena, &due, f))
		return DB_STEP_FAIL;
	if (!due.rows)
		return DB_STEP_ROLLBACK;
	if (!db_exec(db, STMT_CREDENTIAL_USED, DB_ARGS(id), &written, f))
		return DB_STEP_FAIL;
	return DB_STEP_COMMIT;
}

/* One try: a deadline that is past allows no second. Whatever becomes of it,
 * the next one is due in a while. */
static void note(struct auth *auth, struct db *db, struct cached *slot)
{
	struct note n = {auth, sv_of(slot->who.credential)};
	struct fail ignored = FAIL_INIT;
	uint64_t now_ms = clock_mono_ms();

	if (slot->noted_ms && now_ms - slot->noted_ms < auth->note_ms)
		return;
	slot->noted_ms = now_ms;
	if (!db_txn(db,
		    &(struct db_txn){.name = "credential.used",
				     .work = note_work,
				     .arg = &n,
				     .deadline_ms = 1},
		    &ignored))
		log_say(LOG_DEBUG, "credential-used", "not written: %s %s",
			ignored.detail, ignored.log);
}

void auth_note_use(struct auth *auth, struct db *db)
{
	for (size_t i = 0; i < KIND_COUNT; i++)
		if (auth->used[i])
			note(auth, db, auth->used[i]);
	memset(auth->used, 0, sizeof(auth->used));
}
