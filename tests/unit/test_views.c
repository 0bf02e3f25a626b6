/* The words of the migrations that make views, and those of the programs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/buf.h"
#include "db/migration_table.h"
#include "item/apply.h"
#include "item/outcome.h"
#include "job/queue.h"

/* The migrations' versions. */
enum { VIEWS = 3, JOB_VIEWS = 5 };

/* Some step of the migration holds this text. */
static bool says(int version, const char *text)
{
	const struct migration *m = &MIGRATIONS[version - 1];

	for (unsigned i = 0; i < m->step_count; i++)
		if (strstr(m->steps[i], text))
			return true;
	printf("no step of %s says: %s\n", m->name, text);
	return false;
}

static void the_collections_are_those_of_the_table(void)
{
	struct buf b;

	buf_init(&b, 4096);
	buf_add_text(&b, "VALUES ");
	for (int i = 0; i < COLLECTION_COUNT; i++) {
		const struct collection_info *c =
			collection_info((enum collection)i);

		buf_addf(&b, "%s(%d, '%s', '%s', '%s')", i ? ", " : "", i,
			 c->area, c->name, c->prefix);
	}
	/* All of them, and no more. */
	WANT(says(VIEWS, buf_cstr(&b)));
	for (unsigned i = 0; i < MIGRATIONS[VIEWS - 1].step_count; i++) {
		const char *at =
			strstr(MIGRATIONS[VIEWS - 1].steps[i], buf_cstr(&b));

		WANT(!at || !at[b.n]);
	}
	buf_release(&b);
}

/* The list of words for the numbers 1 to `last`. */
static void want_words(int version, const char *column,
		       const char *(*name)(int), int last)
{
	struct buf b;

	buf_init(&b, 4096);
	buf_addf(&b, "ELT(%s", column);
	for (int i = 1; i <= last; i++)
		buf_addf(&b, ", '%s'", name(i));
	buf_add_byte(&b, ')');
	WANT(says(version, buf_cstr(&b)));
	buf_release(&b);
}

static const char *state(int i)
{
	return item_state_name((enum item_state)i);
}

static const char *status(int i)
{
	return item_status_name((enum item_status)i);
}

static const char *change(int i)
{
	return item_change_name((enum item_change)i);
}

static const char *code(int i)
{
	return hold_code_name((enum hold_code)i);
}

static const char *quarantine(int i)
{
	return quarantine_state_name((enum quarantine_state)i);
}

static const char *mode(int i)
{
	return batch_mode_name((enum batch_mode)i);
}

static const char *job_state(int i)
{
	return job_state_name((enum job_state)i);
}

static void the_words_are_those_of_the_api(void)
{
	want_words(VIEWS, "i.state", state, ITEM_INACTIVE);
	/* A cancel has no batch. */
	want_words(VIEWS, "b.mode", mode, BATCH_UNDO);
	want_words(JOB_VIEWS, "k.mode", mode, BATCH_CANCEL);
	want_words(JOB_VIEWS, "j.mode", mode, BATCH_CANCEL);
	want_words(JOB_VIEWS, "j.state", job_state, JOB_CANCELLED);
	want_words(JOB_VIEWS, "t.status", status, ITEM_RESTORED);
	want_words(JOB_VIEWS, "t.change_kind", change, ITEM_UNCHANGED);
	want_words(VIEWS, "t.status", status, ITEM_RESTORED);
	want_words(VIEWS, "t.change_kind", change, ITEM_UNCHANGED);
	want_words(VIEWS, "q.code", code, HOLD_CROSS_WAREHOUSE);
	want_words(VIEWS, "q.state", quarantine, QUARANTINE_DISCARDED);
}

void suite_views(void)
{
	ADD(the_collections_are_those_of_the_table);
	ADD(the_words_are_those_of_the_api);
}
