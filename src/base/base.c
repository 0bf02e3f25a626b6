/* bug(): say where a promise of our own broke, and stop. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

void bug_at(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "{\"level\":\"bug\",\"at\":\"%s:%d\",\"message\":\"",
		file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("\"}\n", stderr);
	abort();
}
