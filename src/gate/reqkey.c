/* Request keys. The guarantees K1 to K4 stand in the header; K1 and K2 are
 * kept by the one statement of the claim, K3 by the caller's batch_id being
 * the same in every attempt: what is found under it was written by one of
 * them.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/reqkey.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/metric.h"
#include "db/stmt.h"
#include "db/txn.h"
#include "wire/inflate.h"

enum {
	PACK_FROM_BYTES = 1024,        /* below this packing gains nothing */
	UNPACKED_BYTES_MAX = 64 << 20, /* more than any answer has */
	GONE_RETRY_S = 30,
};

/* Stand in response.encoding. */
enum encoding { ENCODING_PLAIN = 0, ENCODING_GZIP = 1 };

/* Columns of STMT_REQKEY_LOOK. */
enum {
	C_BATCH,
	C_FINGERPRINT,
	C_COLLECTION,
	C_MODE,
	C_EXPIRES,
	C_STATUS,
	C_ENCODING,
	C_BODY,
	C_WAREHOUSES,
	C_METHOD,
	C_PATH,
	C_CREATED
};

static void copy_bytes(void *out, size_t n, const struct db_val *v)
{
	if (v->bytes.n != n)
		bug("%zu bytes from the database, not %zu", v->bytes.n, n);
	memcpy(out, v->bytes.p, n);
}

/* K4. */
static bool gone(const struct reqkey_stored *s, const char *why, struct fail *f)
{
	char hex[ID_HEX];

	metric_add(METRIC_ANSWERS_GONE, 1);
	fail_set(f, FAIL_ANSWER_GONE,
		 "the request was carried out, but its answer cannot be read");
	f->retry_after_s = GONE_RETRY_S;
	id_hex(s->batch_id, hex);
	return fail_log(f, "answer of batch %s: %s", hex, why);
}

static bool unpack_into(struct buf *b, struct sv packed, struct fail *f)
{
	struct inflate *z = inflate_new(&(struct inflate_limits){
		.unpacked_max = UNPACKED_BYTES_MAX,
		.ratio_max = UINT64_MAX,
		.ratio_floor = UINT64_MAX,
	});
	enum inflate_got got;
	char part[16 * 1024];
	size_t n;

	inflate_feed(z, packed, true);
	while ((got = inflate_next(z, part, sizeof(part), &n, f)) ==
	       INFLATE_SOME)
		buf_add(b, sv_from(part, n));
	inflate_free(z);
	return got == INFLATE_END && buf_ok(b);
}

static bool unpack(struct arena *a, struct sv packed, struct sv *body_r)
{
	struct fail ignored = FAIL_INIT;
	struct buf b;
	bool ok;

	buf_init(&b, UNPACKED_BYTES_MAX);
	ok = unpack_into(&b, packed, &ignored);
	if (ok)
		*body_r = arena_sv(a, buf_sv(&b));
	buf_release(&b);
	return ok;
}

/* All NULL where an earlier version kept the answer. */
static void read_route(const struct db_table *t, struct reqkey_stored *s)
{
	const struct db_val *method = db_cell(t, 0, C_METHOD);
	const struct db_val *path = db_cell(t, 0, C_PATH);

	if (method->kind == DB_NULL || path->kind == DB_NULL)
		return;
	s->method = method->bytes;
	s->path = path->bytes;
}

static bool read_answer(const struct db_table *t, struct arena *a,
			struct reqkey_stored *s, struct fail *f)
{
	const struct db_val *body = db_cell(t, 0, C_BODY);

	if (db_cell(t, 0, C_STATUS)->kind == DB_NULL)
		return gone(s, "there is no row of it", f);
	s->status = (int)db_cell(t, 0, C_STATUS)->u;
	s->body = body->bytes;
	switch ((enum encoding)db_cell(t, 0, C_ENCODING)->u) {
	case ENCODING_PLAIN:
		return true;
	case ENCODING_GZIP:
		return unpack(a, body->bytes, &s->body) ||
		       gone(s, "it cannot be unpacked", f);
	}
	return gone(s, "unknown encoding", f);
}

static void read_key(const struct db_table *t, struct reqkey_stored *s)
{
	const struct db_val *collection = db_cell(t, 0, C_COLLECTION);
	const struct db_val *warehouses = db_cell(t, 0, C_WAREHOUSES);

	copy_bytes(s->batch_id.b, sizeof(s->batch_id.b),
		   db_cell(t, 0, C_BATCH));
	copy_bytes(s->fingerprint, sizeof(s->fingerprint),
		   db_cell(t, 0, C_FINGERPRINT));
	s->collection = collection->kind == DB_NULL ? -1 : (int)collection->u;
	s->mode = (unsigned)db_cell(t, 0, C_MODE)->u;
	if (warehouses->kind != DB_NULL)
		s->warehouses = warehouses->bytes;
	read_route(t, s);
	s->created_wall_ms = db_cell(t, 0, C_CREATED)->u;
	s->expires_wall_ms = db_cell(t, 0, C_EXPIRES)->u;
}

enum reqkey_result reqkey_look(struct db *db, const struct reqkey *key,
			       struct arena *a, struct reqkey_stored *stored_r,
			       struct fail *f)
{
	struct db_table t;

	if (!db_query(db, STMT_REQKEY_LOOK,
		      DB_ARGS(db_uint(key->partner_id), db_uint(key->surface),
			      db_id(&key->correlation)),
		      a, &t, f))
		return REQKEY_FAIL;
	if (!t.rows)
		return REQKEY_FREE;
	*stored_r = (struct reqkey_stored){0};
	read_key(&t, stored_r);
	return read_answer(&t, a, stored_r, f) ? REQKEY_DONE : REQKEY_FAIL;
}

static enum reqkey_result claim_failed(const struct db *db, struct fail *f)
{
	if (db_last_class(db) != DB_LOCK_WAIT)
		return REQKEY_FAIL;
	fail_set(f, FAIL_REQUEST_IN_PROGRESS,
		 "another request with this key is being worked on");
	f->retry_after_s = 1;
	return REQKEY_BUSY;
}

enum reqkey_result reqkey_claim(struct db *db, const struct reqkey *key,
				struct fail *f)
{
	uint64_t rows;

	if (!db_exec(db, STMT_REQKEY_CLAIM,
		     DB_ARGS(db_uint(key->partner_id), db_uint(key->surface),
			     db_id(&key->correlation), db_id(&key->batch_id),
			     db_text(sv_from(key->fingerprint,
					     sizeof(key->fingerprint))),
			     key->collection < 0
				     ? db_null()
				     : db_uint((uint64_t)key->collection),
			     db_uint(key->mode),
			     key->warehouses.p ? db_text(key->warehouses)
					       : db_null(),
			     db_uint(key->retention_ms * 1000)),
		     &rows, f))
		return claim_failed(db, f);
	return rows ? REQKEY_OURS : REQKEY_DONE;
}

static struct sv kept_path(const struct reqkey *key)
{
	size_t n = key->path.n;

	return sv_from(key->path.p,
		       n < REQKEY_PATH_BYTES ? n : REQKEY_PATH_BYTES);
}

bool reqkey_other_route(const struct reqkey *key,
			const struct reqkey_stored *stored)
{
	return stored->path.p && (!sv_eq(key->method, stored->method) ||
				  !sv_eq(kept_path(key), stored->path));
}

static bool insert_answer(struct db *db, const struct reqkey *key, int status,
			  enum encoding encoding, struct sv body,
			  struct fail *f)
{
	uint64_t rows;

	return db_exec(db, STMT_REQKEY_STORE,
		       DB_ARGS(db_id(&key->batch_id),
			       db_uint(clock_day(id_wall_ms(key->batch_id))),
			       db_uint((uint64_t)status), db_uint(encoding),
			       db_text(body), db_text(key->method),
			       db_text(kept_path(key))),
		       &rows, f);
}

/* The buffer takes less than the body has: what does not get smaller is not
 * packed to the end. */
bool reqkey_store(struct db *db, const struct reqkey *key, int status,
		  struct sv body, struct fail *f)
{
	struct buf packed;
	bool ok;

	if (status < 200 || status > 299)
		bug("an answer with status %d shall be kept", status);
	if (body.n <= PACK_FROM_BYTES)
		return insert_answer(db, key, status, ENCODING_PLAIN, body, f);
	buf_init(&packed, body.n - 1);
	inflate_pack(&packed, body);
	ok = buf_ok(&packed)
		     ? insert_answer(db, key, status, ENCODING_GZIP,
				     buf_sv(&packed), f)
		     : insert_answer(db, key, status, ENCODING_PLAIN, body, f);
	buf_release(&packed);
	return ok;
}

static void add_part(struct digest_state *s, struct sv part)
{
	char length[24];
	int n = snprintf(length, sizeof(length), "%zu:", part.n);

	digest_add(s, sv_from(length, (size_t)n));
	digest_add(s, part);
}

struct digest_state *reqkey_digest(struct sv method, struct sv path,
				   struct sv query)
{
	struct digest_state *s = digest_new();

	add_part(s, method);
	add_part(s, path);
	add_part(s, query);
	return s;
}

void reqkey_fingerprint(struct sv method, struct sv path, struct sv query,
			struct sv body, uint8_t sum_r[DIGEST_BYTES])
{
	struct digest_state *s = reqkey_digest(method, path, query);

	digest_add(s, body);
	digest_free(s, sum_r);
}

static enum db_step sweep_work(struct db *db, const struct db_attempt *at,
			       void *arg, struct fail *f)
{
	(void)at;
	return db_exec(db, STMT_REQKEY_SWEEP, DB_NO_ARGS, arg, f)
		       ? DB_STEP_COMMIT
		       : DB_STEP_FAIL;
}

bool reqkey_sweep(struct db *db, uint64_t *swept_r, struct fail *f)
{
	return db_txn(db,
		      &(struct db_txn){.name = "reqkey.sweep",
				       .work = sweep_work,
				       .arg = swept_r,
				       .rerun = true},
		      f);
}
