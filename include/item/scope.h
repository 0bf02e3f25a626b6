/* Warehouse scope: what a credential that is limited to warehouses may touch
 * and see.
 *
 * A scope is a set of source ids of WAREHOUSE locations, which need not exist;
 * the empty set is none of them. NULL stands for a credential without limit,
 * and then nothing is asked of the database here.
 *
 * Which warehouse an item is of follows from its fields that the table of
 * fields marks as FIELD_USE_HOME. One that must name a WAREHOUSE names it; one
 * that names something else (a BIN its ZONE, a receiver its purchase order)
 * leads on to what is held of that; a location that may have no parent is a
 * warehouse itself. An item of two warehouses is in a scope that has both.
 *
 *	struct scope_place places[] = {...};	as held, or as sent
 *	struct scope_map map = {0};
 *	if (!scope_map_load(db, partner_id, places, n, arena, &map, f))
 *		return false;
 *	if (scope_judge(scope, &map, &places[i], NULL) == SCOPE_IN) ...
 *
 * or, of a result of the database, scope_sort().
 *
 * Nothing is kept: who asks again follows the way again, so that a zone with
 * another parent takes its bins along at once.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_SCOPE_H
#define WAYBILL_SCOPE_H

#include "base/arena.h"
#include "db/stmt.h"
#include "item/collection.h"

struct scope;

/* From the JSON array a credential or a job has; p NULL gives NULL. What is no
 * array of texts is the empty set. `text` must stay as long as the scope. */
const struct scope *scope_read(struct arena *a, struct sv text);
struct sv scope_text(const struct scope *s); /* the array; of NULL: SV_NONE */

bool scope_has(const struct scope *s, struct sv warehouse);
bool scope_within(const struct scope *inner, const struct scope *outer);

/* Have the items of this collection a warehouse? */
bool scope_concerns(enum collection c);

/* A request, batch or job as a whole: may who has scope `s` see it? Its
 * sender's scope is within s, or its collection (-1: several) has no
 * warehouse. */
bool scope_covers(const struct scope *s, int collection, struct sv sender);

/* What is held of a thing, or was sent, as the way to its warehouse needs it:
 * item.trait and item.home. */
struct scope_place {
	enum collection collection;
	struct sv source_id, trait, home;
};

/* The things that others lead to. */
struct scope_step {
	struct scope_place place;
	bool exists;
};
struct scope_map {
	/* Set by the caller, or NULL: what it knows better than the database.
	 * false: it does not know the thing. */
	bool (*known)(const void *arg, enum collection c, struct sv source_id,
		      struct scope_step *step_r);
	const void *arg;
	/* filled by scope_map_load() */
	struct scope_step *steps;
	size_t count;
};

/* Reads what the places lead to: one statement a level of the way and a
 * collection, none where every place names its warehouses. Adds to what *m
 * has. */
MUST_CHECK bool scope_map_load(struct db *db, uint32_t partner_id,
			       const struct scope_place *places, size_t count,
			       struct arena *a, struct scope_map *m,
			       struct fail *f);

enum scope_verdict {
	SCOPE_IN,
	SCOPE_OUT,
	SCOPE_UNKNOWN, /* the way leads to something that is not held */
};

/* *field_r, if asked for and SCOPE_OUT: the name of the field at fault. */
enum scope_verdict scope_judge(const struct scope *s, const struct scope_map *m,
			       const struct scope_place *p, struct sv *field_r);

/* A quarantine record: what its sender may touch is the sender's, wherever it
 * leads to; else as scope_judge(), and SCOPE_OUT where it leads out of its
 * sender's scope: there it is never let go. */
enum scope_verdict scope_judge_record(const struct scope *s,
				      const struct scope_map *m,
				      const struct scope_place *p,
				      struct sv sender);

/* The rows of a result: which columns tell where each stands. */
struct scope_columns {
	int collection; /* -1: all are of `fixed` */
	enum collection fixed;
	size_t source_id, trait, home;
	int sender; /* of records: the scope of who sent it; -1: items */
};

/* Which of them scope s may see: (*seen_r)[row]. NULL: all of them, there
 * being no limit. */
MUST_CHECK bool scope_sort(struct db *db, uint32_t partner_id,
			   const struct scope *s, const struct db_table *t,
			   const struct scope_columns *c, struct arena *a,
			   bool **seen_r, struct fail *f);
/* A result of one row or none: is there none, or none to see? */
MUST_CHECK bool scope_hides(struct db *db, uint32_t partner_id,
			    const struct scope *s, const struct db_table *t,
			    const struct scope_columns *c, struct arena *a,
			    bool *hidden_r, struct fail *f);

#endif
