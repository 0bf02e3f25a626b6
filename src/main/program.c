/* What the long-running programs do alike when they start and fail to. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/program.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"

bool program_load(const char *name, const char *path, struct arena *a,
		  struct conf *c, struct fail *f)
{
	if (!path)
		path = getenv("WAYBILL_CONF");
	if (path && !*path)
		path = NULL;
	return conf_load(c, a, path, f) && log_init(name, c->log_level, f) &&
	       metric_open(c->metrics_file, f);
}

int program_failed(const char *name, const struct fail *f)
{
	fprintf(stderr, "%s: %s\n", name, f->detail);
	/* supervisord starts what ends at once again at once, a hundred times
	 * a second; a person at a terminal need not wait. */
	if (f->code != FAIL_USAGE && !isatty(STDERR_FILENO))
		clock_sleep_ms(1000);
	return fail_info(f->code)->exit_status;
}
