/* What the long-running programs do alike when they start and fail to. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/program.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"

/* Not dumpable: no core file, also where the kernel pipes it to a program and
 * takes no notice of the limit; and /proc/PID/mem is root's alone. */
void program_keep_secrets(const struct conf *c)
{
	const struct rlimit none = {0, 0};

	if (c->allow_core_dumps)
		return;
	if (setrlimit(RLIMIT_CORE, &none) != 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		bug("core files cannot be switched off");
}

bool program_load(const char *name, const char *path, struct arena *a,
		  struct conf *c, struct fail *f)
{
	if (!path)
		path = getenv("WAYBILL_CONF");
	if (path && !*path)
		path = NULL;
	if (!conf_load(c, a, path, f))
		return false;
	program_keep_secrets(c);
	return log_init(name, c->log_level, f) &&
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
