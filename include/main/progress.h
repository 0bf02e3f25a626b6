/* How far a thing has come: a bar on a terminal, plain lines elsewhere, both
 * on stderr.
 *
 *	struct progress p = progress_begin("skus.csv");
 *	progress_show(&p, done, total, "3 quarantined");	now and then
 *	progress_note(&p, "503, trying again in 1 s");	a line of its own
 *	progress_end(&p);
 *
 * A bar is drawn at most ten times a second; lines come when the whole
 * percents have changed, and at most one in two seconds.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_PROGRESS_H
#define WAYBILL_PROGRESS_H

#include "base/base.h"

struct progress {
	const char *label;
	bool terminal, drawn;
	uint64_t begun_us, shown_us;
	uint64_t first_done; /* what was there before we began */
	uint64_t last_percent;
	bool any;
};

struct progress progress_begin(const char *label);
void progress_show(struct progress *p, uint64_t done, uint64_t total,
		   const char *more);
void progress_note(struct progress *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
void progress_end(struct progress *p);

#endif
