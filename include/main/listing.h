/* What the operator's commands over rows of all partners have in common:
 * `NOUN list` with its filters, and `NOUN show`.
 *
 *	static const struct listing LISTING = {
 *		STMT_OPERATE_JOB_LIST, NAMES, is_state, "QUEUED or ..."};
 *	const struct cli_command CMD_JOB_LIST = {
 *		"job", "list", LISTING_USAGE, LISTING_OPTIONS, 0, 0, true,
 *list}; listing_run(cli, &LISTING, f)
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_LISTING_H
#define WAYBILL_LISTING_H

#include "main/cli.h"

#define LISTING_USAGE "[--partner P] [--collection C] [--state S] [--limit N]"
extern const struct cli_option LISTING_OPTIONS[];

struct listing {
	/* Its arguments: partner, collection, state, each twice, NULL for all;
	 * most rows. */
	enum stmt stmt;
	const char *const *names; /* of its columns */
	bool (*is_state)(struct sv name);
	const char *states; /* what --state may be, for people */
};

/* FAIL_USAGE: a filter that cannot be; FAIL_NOT_FOUND: no such partner. */
MUST_CHECK bool listing_run(struct cli *cli, const struct listing *l,
			    struct fail *f);

/* The one row of *t, a line a column. */
void listing_show(const char *const *names, const struct db_table *t);

#endif
