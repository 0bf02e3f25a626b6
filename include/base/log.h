/* Log lines: one JSON object a line, to stderr, one write each.
 *
 *	struct log_line l;
 *	log_begin(&l, LOG_INFO, "request");
 *	log_str(&l, "route", sv);
 *	log_num(&l, "status", 200);
 *	log_end(&l);
 *
 * Never a credential, never a payload. A line is at most LOG_BYTES long; what
 * does not fit is left out and `"cut":true` says so.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_LOG_H
#define WAYBILL_LOG_H

#include "base/fail.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum { LOG_BYTES = 4096 };

struct log_line {
	bool on, cut;
	size_t n;
	char text[LOG_BYTES];
};

/* `program` is on every line. false: no such level. */
MUST_CHECK bool log_init(const char *program, const char *level,
			 struct fail *f);

void log_begin(struct log_line *l, enum log_level level, const char *event);
void log_str(struct log_line *l, const char *name, struct sv value);
void log_num(struct log_line *l, const char *name, uint64_t value);
void log_fail(struct log_line *l, const struct fail *f); /* code and texts */
void log_end(struct log_line *l);

/* A line with one message. */
void log_say(enum log_level level, const char *event, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

#endif
