/* What apply, picture, decide, cycle and write share: the picture of a batch.
 *
 * A shelf a collection holds an entry for every key the batch names, sorted
 * by the bytes of the source_id: those it sends and those it refers to. It is
 * filled from the database, then changed in memory, item by item, as if each
 * had been written; at the end one row a changed entry is written.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_ITEM_CORE_H
#define WAYBILL_ITEM_CORE_H

#include "base/arena.h"
#include "db/rows.h"
#include "item/apply.h"

/* A version that was accepted in this batch and then overtaken in it. */
struct overtaken {
	const struct incoming *from;
	bool has_version;
	uint64_t version;
	struct overtaken *older;
};

/* The references an item waits for. */
struct waits {
	const struct item_ref **refs;
	uint32_t *revs; /* each as it was found; 0: not there */
	size_t count;
};

/* A quarantine record of an item. */
struct record {
	struct id id;
	uint32_t rev; /* as the database has it; 0: not there yet */
	enum quarantine_state state;
	bool has_version;
	uint64_t version;
	uint32_t attempts, seen_rev;
	struct sv trait, home; /* as the database has it */
	struct sv sender;      /* its scope, then that of `from`; p NULL: all */
	const struct incoming *from; /* new contents; NULL: as held */
	const struct outcome *why;   /* code, reason, missing of `from` */
	struct waits waits;          /* of `from` */
	struct record *older;        /* closed in this batch before it */
};

struct entry {
	struct sv source_id;
	/* as the database has it, then as the batch leaves it */
	bool exists;
	bool has_version;
	uint64_t version;
	enum item_state state;
	uint8_t hash[ITEM_HASH];
	struct id internal_id;
	struct sv trait, home;
	/* as the database has it */
	uint32_t rev;         /* 0: not there */
	uint32_t content_rev; /* when the payload was accepted */
	/* what the batch did */
	const struct incoming *from; /* its present content; NULL: as held */
	struct overtaken *overtaken; /* newest first */
	struct record *record;       /* the newest; open or closed, or NULL */
	bool named;                  /* sent, not only referred to */
};

struct shelf {
	struct entry *entries;
	size_t count;
};

struct cycle;

struct core {
	struct apply *a;
	struct shelf shelves[COLLECTION_COUNT];
	struct cycle *cycle; /* BOMs only */
	/* No record was open between the first and the last key. */
	bool no_record_near;
	struct scope_map map; /* of limited credentials: see fence.c */
	bool fenced;          /* somebody is limited, and it matters here */
	/* The first item that was found outside of the scope; of no job. */
	const struct incoming *outside;
	struct sv outside_field;
	/* full-refresh: what is tombstoned; undo: what is brought back */
	struct entry *doomed;
	size_t doomed_count;
};

struct entry *core_find(const struct core *c, enum collection col,
			struct sv source_id);

/* picture.c: make the shelves and fill them. */
MUST_CHECK bool picture_load(struct core *c, struct db *db, struct fail *f);
/* An item is accepted by one row and held back by another, so that of two
 * transactions that do one each neither would meet the other. Each writes its
 * own row first and then looks, locking, whether the other's row is still as
 * in the picture: records of items just written, items of records just
 * written, and of a full-refresh the items it names and did not write. */
enum apply_result picture_confirm_records(const struct core *c, struct db *db,
					  struct fail *f);
enum apply_result picture_confirm_items(const struct core *c, struct db *db,
					struct fail *f);

/* fence.c: what a credential that is limited to warehouses may not touch.
 * Loaded after the shelves; then asked for item i before anything else is
 * decided: SCOPE_OUT is out of bounds, and *field_r names the place. */
MUST_CHECK bool fence_load(struct core *c, struct db *db, struct fail *f);
enum scope_verdict fence_check(const struct core *c, size_t i,
			       const struct entry *e, struct sv *field_r);
/* Of a release: is it within the scope of who sent it? */
bool fence_admits_sender(const struct core *c, size_t i, const struct entry *e);
/* Which of these are in the scope of who asked: (*keep_r)[i]. NULL: all of
 * them, since there is no limit, and nothing was asked. */
MUST_CHECK bool fence_sort(struct core *c, struct db *db,
			   const struct entry *entries, size_t count,
			   bool **keep_r, struct fail *f);

/* decide.c: item i, over the picture and what the batch has done so far. */
void decide_item(struct core *c, size_t i);

/* cycle.c: does accepting this BOM close a ring of BOMs? Locked first, so that
 * the graph stays as it was loaded. */
enum apply_result cycle_lock(struct core *c, struct db *db, struct fail *f);
MUST_CHECK bool cycle_load(struct core *c, struct db *db, struct fail *f);
bool cycle_closes(const struct core *c, const struct incoming *bom);
void cycle_accept(struct core *c, const struct incoming *bom);

/* refresh.c: what is not named becomes INACTIVE. */
MUST_CHECK bool refresh_plan(struct core *c, struct db *db, struct fail *f);

/* write.c: one row a changed entry. */
enum apply_result write_items(struct core *c, struct db *db, struct fail *f);
/* Gives all of c->doomed this state. */
enum apply_result write_states(struct core *c, struct db *db,
			       enum item_state state, struct fail *f);
enum apply_result write_quarantine(struct core *c, struct db *db,
				   struct fail *f);

/* audit.c: what happened: the batch, its items, and c->doomed with that
 * status. */
MUST_CHECK bool audit_write(struct core *c, struct db *db,
			    enum item_status doomed, struct fail *f);

#endif
