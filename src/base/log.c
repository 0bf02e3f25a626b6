/* Log lines. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

static const char *const LEVELS[] = {
	[LOG_DEBUG] = "debug",
	[LOG_INFO] = "info",
	[LOG_WARN] = "warn",
	[LOG_ERROR] = "error",
};

/* Room that is kept for `,"cut":true}` and the newline. */
enum { TAIL = 16 };

static const char *program_name = "waybill";
static enum log_level least = LOG_INFO;

bool log_init(const char *program, const char *level, struct fail *f)
{
	program_name = program;
	for (size_t i = 0; i < ARRAY_LEN(LEVELS); i++)
		if (strcmp(level, LEVELS[i]) == 0) {
			least = (enum log_level)i;
			return true;
		}
	return fail_set(f, FAIL_CONF,
			"log_level = %s: must be debug, info, "
			"warn or error",
			level);
}

/* One member, whole or not at all. */
static void add(struct log_line *l, const struct buf *b)
{
	if (l->cut || !buf_ok(b) || b->n > sizeof(l->text) - TAIL - l->n) {
		l->cut = true;
		return;
	}
	memcpy(l->text + l->n, b->p, b->n);
	l->n += b->n;
}

void log_begin(struct log_line *l, enum log_level level, const char *event)
{
	char now[CLOCK_TEXT];

	*l = (struct log_line){.on = level >= least};
	if (!l->on)
		return;
	clock_rfc3339(clock_wall_ms(), now);
	l->n = (size_t)snprintf(
		l->text, sizeof(l->text) - TAIL,
		"{\"time\":\"%s\",\"level\":\"%s\","
		"\"program\":\"%s\",\"pid\":%d,\"event\":\"%s\"",
		now, LEVELS[level], program_name, (int)getpid(), event);
}

void log_str(struct log_line *l, const char *name, struct sv value)
{
	struct buf b;

	if (!l->on)
		return;
	buf_init(&b, LOG_BYTES);
	buf_addf(&b, ",\"%s\":", name);
	buf_add_json(&b, value);
	add(l, &b);
	buf_release(&b);
}

void log_num(struct log_line *l, const char *name, uint64_t value)
{
	struct buf b;

	if (!l->on)
		return;
	buf_init(&b, LOG_BYTES);
	buf_addf(&b, ",\"%s\":%" PRIu64, name, value);
	add(l, &b);
	buf_release(&b);
}

void log_fail(struct log_line *l, const struct fail *f)
{
	log_str(l, "fail", sv_of(fail_info(f->code)->slug));
	if (!f->quotes)
		log_str(l, "detail", sv_of(f->detail));
	if (f->log[0])
		log_str(l, "cause", sv_of(f->log));
}

void log_end(struct log_line *l)
{
	ssize_t done;

	if (!l->on)
		return;
	if (l->cut)
		l->n += (size_t)snprintf(l->text + l->n, TAIL, ",\"cut\":true");
	l->text[l->n++] = '}';
	l->text[l->n++] = '\n';
	/* A log that cannot be written must not stop the service. */
	done = write(STDERR_FILENO, l->text, l->n);
	(void)done;
}

void log_say(enum log_level level, const char *event, const char *fmt, ...)
{
	char text[1024];
	struct log_line l;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_begin(&l, level, event);
	log_str(&l, "message", sv_of(text));
	log_end(&l);
}
