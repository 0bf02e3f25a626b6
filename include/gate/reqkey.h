/* Request keys: at most one effect and one answer a (partner, correlation id).
 *
 * Before the body is looked at:
 *
 *	switch (reqkey_look(db, &key, arena, &stored, f)) {
 *	case REQKEY_FREE:    go on
 *	case REQKEY_DONE:    send `stored` as it is
 *	case REQKEY_FAIL:    f says why (also: the answer is gone, 503)
 *	}
 *
 * Inside the transaction that does the work:
 *
 *	switch (reqkey_claim(db, &key, f)) {
 *	case REQKEY_OURS:    do the work, then reqkey_store()
 *	case REQKEY_DONE:    somebody has it: ROLLBACK, then reqkey_look()
 *	case REQKEY_BUSY:    it is being worked on: 409, Retry-After
 *	case REQKEY_FAIL:    f says why
 *	}
 *
 * Guarantees:
 *  K1  The claim is an INSERT: two at once cannot both win. There is no
 *      committed claim without its answer.
 *  K2  An expired key is taken over in the same statement that would have
 *      refused a live one.
 *  K3  After a COMMIT in doubt the claim finds its own batch_id: it was ours.
 *  K4  A live key whose answer is gone is never executed again.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_REQKEY_H
#define WAYBILL_REQKEY_H

#include "base/arena.h"
#include "base/digest.h"
#include "base/ids.h"
#include "db/session.h"

enum reqkey_surface { REQKEY_WMS_INGEST = 1 };

struct reqkey {
	uint32_t partner_id;
	enum reqkey_surface surface;
	struct id correlation;
	struct id batch_id; /* fixed before the first attempt */
	uint8_t fingerprint[DIGEST_BYTES];
	int collection;       /* enum collection; -1: none */
	unsigned mode;        /* enum batch_mode */
	struct sv warehouses; /* of the credential; p NULL: no limit */
	struct sv method;     /* and path, as sent, without the query */
	struct sv path;       /* at most REQKEY_PATH_BYTES are kept */
	uint64_t retention_ms;
};

enum { REQKEY_PATH_BYTES = 1024 };

struct reqkey_stored {
	int status;
	struct sv body;
	struct id batch_id;
	uint8_t fingerprint[DIGEST_BYTES];
	int collection;
	unsigned mode;
	struct sv warehouses;
	struct sv method, path; /* p NULL: kept by a version without them */
	uint64_t created_wall_ms, expires_wall_ms;
};

enum reqkey_result {
	REQKEY_FREE,
	REQKEY_OURS,
	REQKEY_DONE,
	REQKEY_BUSY,
	REQKEY_FAIL,
};

/* One indexed look-up, as a read of its own. The body is in the arena. */
enum reqkey_result reqkey_look(struct db *db, const struct reqkey *key,
			       struct arena *a, struct reqkey_stored *stored_r,
			       struct fail *f);

/* How long it may wait for another who has the key is the session's lock
 * wait: db_lock_wait() before it, and the default again after it. DONE does
 * not tell whose it is: after a COMMIT in doubt reqkey_look() may find our own
 * batch_id. BUSY and FAIL end the transaction; both fill f. */
enum reqkey_result reqkey_claim(struct db *db, const struct reqkey *key,
				struct fail *f);
/* The answer of a key that is OURS, in the same transaction; 2xx only. */
MUST_CHECK bool reqkey_store(struct db *db, const struct reqkey *key,
			     int status, struct sv body, struct fail *f);

/* Some of the keys that have expired, in a transaction of its own; none: that
 * was all. For the owner: the service may not delete keys. */
MUST_CHECK bool reqkey_sweep(struct db *db, uint64_t *swept_r, struct fail *f);

/* Was the answer given to another method or path? Never of one that was kept
 * without them. */
bool reqkey_other_route(const struct reqkey *key,
			const struct reqkey_stored *stored);

/* The fingerprint of a request: SHA-256 of method, path and query, each with
 * its length, and of the unpacked body. A body that comes in pieces is added to
 * reqkey_digest() with digest_add(). */
struct digest_state *reqkey_digest(struct sv method, struct sv path,
				   struct sv query);
void reqkey_fingerprint(struct sv method, struct sv path, struct sv query,
			struct sv body, uint8_t sum_r[DIGEST_BYTES]);

#endif
