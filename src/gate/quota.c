/* The item quota. The guarantees U1 to U4 stand in the header.
 *
 * Why U1 holds among fast ones: of all that were committed by some moment,
 * take the one that read the sum last. Each other one was in that sum, or was
 * under way then, holding a slot of its own, of quota_fast_max() at most. The
 * reader left room for as many of those as there are slots. A strict one has
 * no others under way. Where the limit differs between two processes the
 * higher one holds: limit minus stretch never falls when the limit rises.
 *
 * On a cluster a slot may be held on two nodes at once; of those one loses at
 * COMMIT, because both have written it. The sum must hold what other nodes have
 * committed before (wsrep_sync_wait=1).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/quota.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/metric.h"
#include "db/rows.h"
#include "db/txn.h"

enum {
	DAY_MS = 86400000,
	/* What fast ones may take, whatever the limit: a synchronous batch, as
	 * it is by default. Part of the protocol, so not a setting. */
	FAST_MAX = 5000,
	STRETCH_PART = 4, /* the last stretch is a quarter at most */
	REMEMBERED = 256,
	LATELY_MS = 1000,
	WAITED_US = 5000, /* so long: somebody else has that slot */
	SWEEP_ROWS = 1000,
	SWEEPS_MAX = 1000,
	TAKE_COLUMNS = 3,
};

/* Columns of STMT_QUOTA_SUM and STMT_QUOTA_LOOK. */
enum { S_USED, S_DAY, S_LEFT };

/* What this process has last seen of a partner, by its number. One that is
 * pushed out by another costs a ROLLBACK or a read. */
struct memory {
	uint32_t partner_id;
	bool nearly_used;   /* in the last stretch of its day */
	uint64_t looked_ms; /* clock_mono_ms(); 0: state is not set */
	struct quota_state state;
};
static struct memory memories[REMEMBERED];

/* Added to the connection's number. Moved when two meet in a slot. */
static uint32_t slot_shift;

uint64_t quota_fast_max(uint64_t limit)
{
	uint64_t part = limit / STRETCH_PART / QUOTA_SLOTS;

	return part < FAST_MAX ? part : FAST_MAX;
}

/* What may be under way, unseen, or a little more: in one step with the limit,
 * so that limit minus stretch never falls when the limit rises. */
static uint64_t stretch(uint64_t limit)
{
	uint64_t part = limit / STRETCH_PART;
	uint64_t most = (uint64_t)FAST_MAX * QUOTA_SLOTS;

	return part < most ? part : most;
}

static bool fits(uint64_t used, uint64_t more, uint64_t limit)
{
	return used <= limit && more <= limit - used;
}

static struct memory *memory_of(uint32_t partner_id)
{
	struct memory *m = &memories[partner_id % REMEMBERED];

	if (m->partner_id != partner_id)
		*m = (struct memory){.partner_id = partner_id};
	return m;
}

static void set_limit(struct quota_state *s, uint64_t limit)
{
	s->limit = limit;
	s->remaining = s->used < limit ? limit - s->used : 0;
}

static void fill(struct quota_state *s, uint64_t limit,
		 const struct db_table *t)
{
	s->used = db_cell(t, 0, S_USED)->u;
	set_limit(s, limit);
	s->reset_s = db_cell(t, 0, S_LEFT)->u;
	s->reset_wall_ms = (db_cell(t, 0, S_DAY)->u + 1) * DAY_MS;
}

static struct db_val day_val(const struct quota *q)
{
	return db_uint(q->day);
}

static bool add(struct db *db, const struct quota *q, uint64_t n,
		struct fail *f)
{
	uint64_t affected;

	return db_exec(db, STMT_QUOTA_ADD,
		       DB_ARGS(db_uint(q->partner_id), day_val(q),
			       db_uint(q->slot), db_uint(n)),
		       &affected, f);
}

/* Who had to wait looks for another slot the next time. */
static bool take_own(struct db *db, struct quota *q, uint64_t most,
		     struct fail *f)
{
	uint64_t begun_us = clock_mono_us();

	q->taken = most;
	if (!add(db, q, most, f))
		return false;
	if (clock_mono_us() - begun_us > WAITED_US)
		digest_random(&slot_shift, sizeof(slot_shift));
	return true;
}

static bool take_all(struct db *db, struct quota *q, struct fail *f)
{
	struct db_val cells[QUOTA_SLOTS * TAKE_COLUMNS];
	uint64_t affected;

	q->taken = 0;
	for (unsigned i = 0; i < QUOTA_SLOTS; i++) {
		cells[i * TAKE_COLUMNS] = db_uint(q->partner_id);
		cells[i * TAKE_COLUMNS + 1] = day_val(q);
		cells[i * TAKE_COLUMNS + 2] = db_uint(i);
	}
	return db_rows_exec(db, STMT_QUOTA_TAKE_ALL, cells, QUOTA_SLOTS,
			    TAKE_COLUMNS, &affected, f);
}

static enum quota_result strict_begun(struct quota *q, uint64_t most)
{
	q->room = q->state.remaining;
	memory_of(q->partner_id)->nearly_used =
		!fits(q->state.used, most + stretch(q->limit), q->limit);
	return QUOTA_GO;
}

/* What we took ourselves is in the sum. */
static enum quota_result fast_begun(struct quota *q)
{
	if (!fits(q->state.used, stretch(q->limit), q->limit)) {
		memory_of(q->partner_id)->nearly_used = true;
		q->strict = true;
		return QUOTA_AGAIN;
	}
	q->state.used -= q->taken;
	q->state.remaining += q->taken;
	q->room = q->taken;
	return QUOTA_GO;
}

/* U3: it is the day we think it is, or that day is taken the next time. */
static enum quota_result look(struct db *db, struct quota *q, uint64_t most,
			      struct arena *a, struct fail *f)
{
	struct db_table t;
	uint32_t today;

	if (!db_query(db, STMT_QUOTA_SUM,
		      DB_ARGS(db_uint(q->partner_id), day_val(q)), a, &t, f))
		return QUOTA_FAIL;
	today = (uint32_t)db_cell(&t, 0, S_DAY)->u;
	if (today != q->day) {
		q->day = today;
		return QUOTA_AGAIN;
	}
	fill(&q->state, q->limit, &t);
	q->known = true;
	return q->strict ? strict_begun(q, most) : fast_begun(q);
}

enum quota_result quota_begin(struct db *db, struct quota *q, uint64_t most,
			      struct arena *a, struct fail *f)
{
	q->room = q->taken = 0;
	q->known = q->never = false;
	if (!most)
		return QUOTA_GO;
	q->slot = (db_connection_id(db) + slot_shift) % QUOTA_SLOTS;
	if (!q->begun) {
		q->begun = true;
		q->day = clock_day(db_wall_ms(db));
		q->strict = most > quota_fast_max(q->limit) ||
			    memory_of(q->partner_id)->nearly_used;
	}
	if (q->strict ? !take_all(db, q, f) : !take_own(db, q, most, f))
		return QUOTA_FAIL;
	return look(db, q, most, a, f);
}

static bool give_back(struct db *db, const struct quota *q, uint64_t n,
		      struct fail *f)
{
	uint64_t affected;

	if (!db_exec(db, STMT_QUOTA_GIVE_BACK,
		     DB_ARGS(db_uint(n), db_uint(q->partner_id), day_val(q),
			     db_uint(q->slot), db_uint(n)),
		     &affected, f))
		return false;
	if (affected != 1)
		bug("a slot holds less than was taken");
	return true;
}

bool quota_charge(struct db *db, struct quota *q, uint64_t charged,
		  struct fail *f)
{
	if (charged > q->room)
		bug("%" PRIu64 " items charged, room for %" PRIu64, charged,
		    q->room);
	if (charged > q->taken && !add(db, q, charged, f))
		return false;
	if (charged < q->taken && !give_back(db, q, q->taken - charged, f))
		return false;
	q->state.used += charged;
	q->state.remaining -= charged;
	return true;
}

bool quota_refused(struct quota *q, uint64_t charged, const char *what,
		   struct fail *f)
{
	q->never = charged > q->limit;
	metric_add(METRIC_QUOTA_REFUSALS, 1, what);
	if (q->never)
		fail_set(f, FAIL_QUOTA_EXHAUSTED,
			 "%" PRIu64 " items would count at once, which is more "
			 "than the %" PRIu64 " of a whole day",
			 charged, q->limit);
	else
		fail_set(f, FAIL_QUOTA_EXHAUSTED,
			 "%" PRIu64 " items would count, and %" PRIu64
			 " of %" PRIu64 " are left of this UTC day",
			 charged, q->state.remaining, q->limit);
	f->retry_after_s = q->state.reset_s;
	return false;
}

bool quota_look(struct db *db, uint32_t partner_id, uint64_t limit,
		struct arena *a, struct quota_state *s_r, struct fail *f)
{
	struct db_table t;

	if (!db_query(db, STMT_QUOTA_LOOK, DB_ARGS(db_uint(partner_id)), a, &t,
		      f))
		return false;
	fill(s_r, limit, &t);
	return true;
}

void quota_seen(uint32_t partner_id, const struct quota_state *s)
{
	struct memory *m = memory_of(partner_id);

	m->state = *s;
	m->looked_ms = clock_mono_ms();
}

bool quota_lately(struct db *db, uint32_t partner_id, uint64_t limit,
		  struct arena *a, struct quota_state *s_r, struct fail *f)
{
	struct memory *m = memory_of(partner_id);
	uint64_t ago_ms = clock_mono_ms() - m->looked_ms;

	if (m->looked_ms && ago_ms < LATELY_MS &&
	    ago_ms / 1000 < m->state.reset_s) {
		*s_r = m->state;
		s_r->reset_s -= ago_ms / 1000;
		set_limit(s_r, limit);
		return true;
	}
	if (!quota_look(db, partner_id, limit, a, s_r, f))
		return false;
	quota_seen(partner_id, s_r);
	return true;
}

struct sweep {
	uint32_t before_day;
	uint64_t rows;
};

static enum db_step sweep_work(struct db *db, const struct db_attempt *at,
			       void *arg, struct fail *f)
{
	struct sweep *s = arg;

	(void)at;
	return db_exec(db, STMT_QUOTA_SWEEP,
		       DB_ARGS(db_uint(s->before_day), db_uint(SWEEP_ROWS)),
		       &s->rows, f)
		       ? DB_STEP_COMMIT
		       : DB_STEP_FAIL;
}

bool quota_sweep(struct db *owner, uint32_t before_day, uint64_t *swept_r,
		 struct fail *f)
{
	struct sweep s = {before_day, SWEEP_ROWS};

	*swept_r = 0;
	for (int i = 0; s.rows == SWEEP_ROWS && i < SWEEPS_MAX; i++) {
		if (!db_txn(owner,
			    &(struct db_txn){.name = "quota.sweep",
					     .work = sweep_work,
					     .arg = &s,
					     .rerun = true},
			    f))
			return false;
		*swept_r += s.rows;
	}
	return true;
}
