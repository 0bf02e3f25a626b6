/* waybill-worker: works off jobs, one at a time, until told to leave; and
 * beside them the chores of work/work.h.
 *
 * Signals are blocked and looked at between rounds and, in a round, between
 * chunks (leaving()): a chunk's transaction is never interrupted.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <getopt.h>
#include <signal.h>

#include "base/log.h"
#include "db/session.h"
#include "main/program.h"
#include "work/work.h"

#define NAME "waybill-worker"

enum { ARENA_BYTES = 64 * 1024 };

static const char USAGE[] =
	"usage: " NAME " [--conf FILE]\n"
	"\n"
	"Works off jobs until SIGTERM.\n"
	"\n"
	"  --conf FILE    settings (default: $WAYBILL_CONF, else built-in)\n"
	"  --version, --help\n";

struct options {
	const char *conf;
	bool version, help;
};

struct worker {
	const struct conf *conf;
	struct db *db;
	bool db_away;       /* as the last round found it */
	struct arena arena; /* of one step */
	struct run run;
	struct work_chores chores;
	sigset_t signals;
	bool leaving;
};

static bool read_options(int argc, char **argv, struct options *o,
			 struct fail *f)
{
	static const struct option OPTIONS[] = {
		{"conf", required_argument, NULL, 'c'},
		{"version", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int c;

	*o = (struct options){.conf = NULL};
	opterr = 0;
	while ((c = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
		if (c == 'c')
			o->conf = optarg;
		else if (c == 'v')
			o->version = true;
		else if (c == 'h')
			o->help = true;
		else
			return fail_set(f, FAIL_USAGE, "%s: see --help",
					argv[optind - 1]);
	}
	if (optind < argc)
		return fail_set(f, FAIL_USAGE, "%s: see --help", argv[optind]);
	return true;
}

/* Wait so long for a signal to leave; 0 only looks. */
static bool leaving(void *arg, uint64_t wait_ms)
{
	struct worker *w = arg;
	struct timespec t = {.tv_sec = (time_t)(wait_ms / 1000),
			     .tv_nsec = (long)(wait_ms % 1000) * 1000000};

	if (!w->leaving && sigtimedwait(&w->signals, NULL, &t) > 0)
		w->leaving = true;
	return w->leaving;
}

enum round {
	ROUND_WORKED, /* there may be more: look again at once */
	ROUND_IDLE,   /* nothing to do */
	ROUND_FAIL,   /* f says why; the next round tries again */
};

/* Between the steps of a job: a fault of the chores is the chores' alone, and
 * shows up again when they are next due. */
static void between(struct run *r)
{
	struct worker *w = r->arg;
	struct fail ignored = FAIL_INIT;
	bool more;

	if (!work_chores(r, &w->chores, &more, &ignored))
		return;
}

/* One look for work, with the database there. */
static enum round run_round(struct worker *w, struct fail *f)
{
	enum run_result got;
	bool more;

	if (!db_ready(w->db, f))
		return ROUND_FAIL;
	if (w->db_away)
		log_say(LOG_INFO, "database-back", "looking for jobs again");
	w->db_away = false;
	got = run_next(&w->run, f);
	if (got == RUN_AWAY || !work_chores(&w->run, &w->chores, &more, f))
		return ROUND_FAIL;
	return got == RUN_WORKED || more ? ROUND_WORKED : ROUND_IDLE;
}

static void log_failure(const struct fail *f)
{
	struct log_line l;

	log_begin(&l, LOG_ERROR, "round");
	log_fail(&l, f);
	log_end(&l);
}

static uint64_t pause_after(struct worker *w, enum round round,
			    const struct fail *f)
{
	switch (round) {
	case ROUND_WORKED:
		return 0;
	case ROUND_FAIL:
		/* Once, not every second of an outage. */
		if (!w->db_away)
			log_failure(f);
		w->db_away = true;
		return w->conf->worker_poll_ms;
	case ROUND_IDLE:
		return w->conf->worker_poll_ms;
	}
	bug("round %d", (int)round);
}

static void loop(struct worker *w)
{
	uint64_t pause_ms = 0;

	while (!leaving(w, pause_ms)) {
		struct fail f = FAIL_INIT;

		pause_ms = pause_after(w, run_round(w, &f), &f);
		arena_reset(&w->arena);
	}
}

static void block_signals(struct worker *w)
{
	sigemptyset(&w->signals);
	sigaddset(&w->signals, SIGTERM);
	sigaddset(&w->signals, SIGINT);
	if (sigprocmask(SIG_BLOCK, &w->signals, NULL) != 0 ||
	    signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		bug("signals");
}

static bool run(const struct options *o, struct arena *a, struct fail *f)
{
	struct conf c;
	struct worker w = {.conf = &c};

	block_signals(&w);
	if (!program_load(NAME, o->conf, a, &c, f) ||
	    !db_new(&w.db, &c, DB_SERVICE, f))
		return false;
	arena_init(&w.arena, ARENA_BYTES);
	w.run = (struct run){.conf = &c,
			     .db = w.db,
			     .arena = &w.arena,
			     .kinds = WORK_KINDS,
			     .kind_count = WORK_KIND_COUNT,
			     .leaving = leaving,
			     .arg = &w,
			     .between = between};
	log_say(LOG_INFO, "start", "looking for jobs");
	loop(&w);
	log_say(LOG_INFO, "stop", "told to leave");
	arena_release(&w.arena);
	db_free(w.db);
	return true;
}

int main(int argc, char **argv)
{
	struct options o;
	struct fail f = FAIL_INIT;
	struct arena a;
	int status = 0;

	if (!read_options(argc, argv, &o, &f))
		return program_failed(NAME, &f);
	if (o.help || o.version) {
		fputs(o.help ? USAGE : NAME " " PACKAGE_VERSION "\n", stdout);
		return 0;
	}
	arena_init(&a, ARENA_BYTES);
	if (!run(&o, &a, &f))
		status = program_failed(NAME, &f);
	arena_release(&a);
	return status;
}
