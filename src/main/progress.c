/* How far a thing has come. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/progress.h"

#include <inttypes.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

enum { DRAW_US = 100 * 1000, LINE_US = 2000 * 1000, BAR_MAX = 40 };

struct progress progress_begin(const char *label)
{
	return (struct progress){.label = label,
				 .terminal = isatty(STDERR_FILENO),
				 .begun_us = clock_mono_us(),
				 .last_percent = UINT64_MAX};
}

static int columns(void)
{
	struct winsize w;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col < 20)
		return 80;
	return w.ws_col;
}

static uint64_t percent_of(uint64_t done, uint64_t total)
{
	if (!total)
		return 100;
	return done >= total ? 100
			     : (uint64_t)((double)done * 100 / (double)total);
}

/* "1234 a second, 0:42 left", from what was done since we began. */
static void describe(const struct progress *p, uint64_t done, uint64_t total,
		     char *out, size_t n)
{
	uint64_t us = clock_mono_us() - p->begun_us;
	double rate =
		us ? (double)(done - p->first_done) * 1e6 / (double)us : 0;
	uint64_t left = 0;

	out[0] = '\0';
	if (rate < 0.5)
		return;
	if (total > done)
		left = (uint64_t)((double)(total - done) / rate);
	snprintf(out, n, "%.0f/s, %" PRIu64 ":%02u left", rate, left / 60,
		 (unsigned)(left % 60));
}

static void draw(struct progress *p, uint64_t done, uint64_t total,
		 const char *pace, const char *more)
{
	uint64_t percent = percent_of(done, total);
	char bar[BAR_MAX + 1], line[512];
	size_t full = percent * BAR_MAX / 100;

	memset(bar, ' ', BAR_MAX);
	memset(bar, '#', full);
	bar[BAR_MAX] = '\0';
	snprintf(line, sizeof(line), "%s [%s] %3" PRIu64 "%% %s%s%s", p->label,
		 bar, percent, pace, *more ? "  " : "", more);
	fprintf(stderr, "\r%.*s\033[K", columns() - 1, line);
	fflush(stderr);
	p->drawn = true;
}

void progress_show(struct progress *p, uint64_t done, uint64_t total,
		   const char *more)
{
	uint64_t now = clock_mono_us(), percent = percent_of(done, total);
	bool whole = done >= total;
	char pace[64];

	if (!p->any) {
		p->any = true;
		p->first_done = done;
	}
	if (p->shown_us && !whole &&
	    now - p->shown_us < (p->terminal ? DRAW_US : LINE_US))
		return;
	if (!p->terminal && percent == p->last_percent)
		return;
	p->shown_us = now;
	p->last_percent = percent;
	describe(p, done, total, pace, sizeof(pace));
	if (p->terminal) {
		draw(p, done, total, pace, more);
		return;
	}
	fprintf(stderr,
		"%s: %" PRIu64 " of %" PRIu64 " (%" PRIu64 "%%)%s%s%s%s\n",
		p->label, done, total, percent, *pace ? ", " : "", pace,
		*more ? ", " : "", more);
}

void progress_note(struct progress *p, const char *fmt, ...)
{
	va_list ap;

	if (p->drawn)
		fputs("\r\033[K", stderr);
	p->drawn = false;
	fprintf(stderr, "%s: ", p->label);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void progress_end(struct progress *p)
{
	if (p->drawn)
		fputc('\n', stderr);
	p->drawn = false;
}
