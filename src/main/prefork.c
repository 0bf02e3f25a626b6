/* The parent of short-lived workers. Its guarantees stand in the header.
 *
 * The parent takes its signals with sigtimedwait(): no handler, no race. All
 * of its decisions are made in one place, step(), from the state of the
 * slots, after every signal and at every tick.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/prefork.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"

enum {
	TICK_MS = 250,     /* how often deadlines are looked at */
	TICK_BUSY_MS = 20, /* while something is being waited for */
	CRASH_WINDOW_MS = 10000,
	CRASH_BURST = 3, /* crashes of a slot that cost no pause */
	PAUSE_MIN_MS = 100,
	PAUSE_MAX_MS = 5000,
	FORK_PAUSE_MS = 1000, /* after fork() was refused */
	EXIT_OVERTIME = 70,   /* a worker that ended itself, guarantee 5 */
};

/* What deadline_ms says besides a time. */
#define IDLE   UINT64_C(0)
#define DOOMED UINT64_MAX /* the parent is about to kill */

struct prefork_slot {
	_Atomic uint64_t deadline_ms; /* monotonic; IDLE, a time, or DOOMED */
	_Atomic bool serving;
};

/* A slot as the parent sees it. */
struct child {
	pid_t pid; /* 0: none; to be started at start_at_ms */
	uint64_t generation;
	uint64_t started_ms;
	uint64_t start_at_ms;
	uint64_t told_ms; /* SIGTERM was sent; 0: not */
	unsigned streak;  /* crashes in a row, each soon after the start */
	bool killed;      /* by us */
};

struct parent {
	const struct prefork *p;
	struct prefork_slot *slots; /* shared */
	struct child *children;
	sigset_t signals, before;
	uint64_t generation; /* SIGHUP adds one */
	bool leaving;
};

/* The worker's own side: one timer for the request, one for leaving, both of
 * which end it. The first is the parent's deadline plus a second, so that it
 * acts only where there is no parent left to act. */
enum { OWN_DEADLINE_MS = 1000 };

static volatile sig_atomic_t worker_leaving;
static timer_t worker_request_timer, worker_drain_timer;
static struct itimerspec worker_drain;
static sigset_t worker_mask;

static struct timespec timespec_of(uint64_t ms)
{
	return (struct timespec){.tv_sec = (time_t)(ms / 1000),
				 .tv_nsec = (long)(ms % 1000) * 1000000};
}

static void on_term(int sig)
{
	int saved = errno;

	(void)sig;
	if (!worker_leaving)
		timer_settime(worker_drain_timer, 0, &worker_drain, NULL);
	worker_leaving = 1;
	errno = saved;
}

static void on_overtime(int sig)
{
	(void)sig;
	_exit(EXIT_OVERTIME);
}

static void handle(int sig, void (*handler)(int))
{
	struct sigaction sa = {.sa_handler = handler, .sa_flags = SA_RESTART};

	sigemptyset(&sa.sa_mask);
	if (sigaction(sig, &sa, NULL) != 0)
		bug("sigaction(%d)", sig);
}

static void mask_term(int how)
{
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	if (sigprocmask(how, &term, NULL) != 0)
		bug("sigprocmask");
}

/* Signals in a new worker. SIGTERM stays blocked, as it is in the parent, so
 * that one sent before this is done is not lost. A terminal's SIGINT and
 * SIGHUP go to the whole group: they are for the parent to pass on. libfcgi
 * would stop accepting at SIGUSR1. */
static void worker_signals(const struct parent *q)
{
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL,
			      .sigev_signo = SIGALRM};

	if (timer_create(CLOCK_MONOTONIC, &ev, &worker_request_timer) != 0 ||
	    timer_create(CLOCK_MONOTONIC, &ev, &worker_drain_timer) != 0)
		bug("timer_create");
	worker_drain.it_value = timespec_of(q->p->drain_timeout_ms);
	handle(SIGTERM, on_term);
	handle(SIGALRM, on_overtime);
	handle(SIGINT, SIG_IGN);
	handle(SIGHUP, SIG_IGN);
	handle(SIGUSR1, SIG_IGN);
	handle(SIGPIPE, SIG_IGN);
	worker_mask = q->before;
	sigdelset(&worker_mask, SIGTERM);
	sigdelset(&worker_mask, SIGALRM);
	if (sigprocmask(SIG_SETMASK, &worker_mask, NULL) != 0)
		bug("sigprocmask");
	mask_term(SIG_BLOCK);
}

NO_RETURN static void worker_main(const struct parent *q, size_t i,
				  pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0)
		bug("prctl");
	if (getppid() != parent) /* it died before prctl() */
		_exit(0);
	worker_signals(q);
	exit(q->p->work(&q->slots[i], q->p->arg));
}

/* The pause before a slot that crashed `streak` times is filled again. */
static uint64_t crash_pause_ms(unsigned streak)
{
	uint64_t ms = PAUSE_MIN_MS;

	if (streak <= CRASH_BURST)
		return 0;
	for (unsigned i = CRASH_BURST + 1; i < streak && ms < PAUSE_MAX_MS; i++)
		ms *= 2;
	return ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS;
}

static void note_crash(struct child *c, uint64_t now)
{
	c->streak = now - c->started_ms < CRASH_WINDOW_MS ? c->streak + 1 : 1;
	c->start_at_ms = now + crash_pause_ms(c->streak);
}

static void start(struct parent *q, size_t i)
{
	struct child *c = &q->children[i];
	pid_t me = getpid(), pid;

	atomic_store(&q->slots[i].deadline_ms, IDLE);
	atomic_store(&q->slots[i].serving, false);
	pid = fork();
	if (pid == 0)
		worker_main(q, i, me);
	c->started_ms = clock_mono_ms();
	if (pid < 0) {
		log_say(LOG_ERROR, "worker-start", "cannot fork: %s",
			strerror(errno));
		c->start_at_ms = c->started_ms + FORK_PAUSE_MS;
		return;
	}
	c->pid = pid;
	c->generation = q->generation;
	c->told_ms = 0;
	c->killed = false;
	metric_add(METRIC_WORKER_STARTS, 1);
	log_say(LOG_DEBUG, "worker-start", "worker %d, slot %zu", (int)pid, i);
}

static void tell(struct child *c)
{
	if (!c->pid || c->told_ms)
		return;
	log_say(LOG_DEBUG, "worker-told", "worker %d is to leave", (int)c->pid);
	kill(c->pid, SIGTERM);
	c->told_ms = clock_mono_ms();
}

static void kill_late(struct child *c, const char *why)
{
	log_say(LOG_ERROR, "worker-deadline", "killing worker %d: %s",
		(int)c->pid, why);
	kill(c->pid, SIGKILL);
	c->killed = true;
}

static void check_deadline(struct parent *q, size_t i, uint64_t now)
{
	struct child *c = &q->children[i];
	uint64_t deadline = atomic_load(&q->slots[i].deadline_ms);

	if (!c->pid || c->killed)
		return;
	/* The swap fails if the worker has just finished that request. */
	if (deadline != IDLE && now > deadline &&
	    atomic_compare_exchange_strong(&q->slots[i].deadline_ms, &deadline,
					   DOOMED))
		kill_late(c, "its request passed the deadline");
	else if (c->told_ms && now - c->told_ms > q->p->drain_timeout_ms)
		kill_late(c, "it was told to leave and did not");
}

static void log_crash(pid_t pid, int status)
{
	struct log_line l;

	log_begin(&l, LOG_ERROR, "worker-crash");
	log_num(&l, "worker", (uint64_t)pid);
	if (WIFSIGNALED(status))
		log_num(&l, "signal", (uint64_t)WTERMSIG(status));
	else
		log_num(&l, "status", (uint64_t)WEXITSTATUS(status));
	log_end(&l);
}

static void ended(struct parent *q, size_t i, int status)
{
	struct child *c = &q->children[i];
	bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	bool served = atomic_load(&q->slots[i].serving) || c->told_ms;
	bool late = c->killed ||
		    (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_OVERTIME);
	uint64_t now = clock_mono_ms();
	pid_t pid = c->pid;

	c->pid = 0;
	c->start_at_ms = now;
	if (late) {
		metric_add(METRIC_WORKER_EXITS, 1, "deadline");
	} else if (clean && served) {
		metric_add(METRIC_WORKER_EXITS, 1,
			   c->told_ms ? "signal" : "done");
		c->streak = 0;
	} else {
		metric_add(METRIC_WORKER_EXITS, 1, "crash");
		log_crash(pid, status);
		note_crash(c, now);
	}
}

static void reap(struct parent *q)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (size_t i = 0; i < q->p->workers; i++)
			if (q->children[i].pid == pid)
				ended(q, i, status);
}

/* One worker of an older generation is told to leave, if all serve. */
static void recycle(struct parent *q)
{
	for (size_t i = 0; i < q->p->workers; i++)
		if (!q->children[i].pid || q->children[i].told_ms ||
		    !atomic_load(&q->slots[i].serving))
			return;
	for (size_t i = 0; i < q->p->workers; i++)
		if (q->children[i].generation < q->generation) {
			tell(&q->children[i]);
			return;
		}
}

/* Everything there is to do now. */
static void step(struct parent *q)
{
	uint64_t now;

	reap(q);
	now = clock_mono_ms();
	for (size_t i = 0; i < q->p->workers; i++) {
		struct child *c = &q->children[i];

		check_deadline(q, i, now);
		if (q->leaving)
			tell(c);
		else if (!c->pid && c->start_at_ms <= now)
			start(q, i);
	}
	if (!q->leaving)
		recycle(q);
}

static bool all_gone(const struct parent *q)
{
	for (size_t i = 0; i < q->p->workers; i++)
		if (q->children[i].pid)
			return false;
	return true;
}

/* How long nothing can happen but a signal. */
static uint64_t tick_ms(const struct parent *q)
{
	for (size_t i = 0; i < q->p->workers; i++)
		if (!q->children[i].pid ||
		    q->children[i].generation < q->generation)
			return TICK_BUSY_MS;
	return TICK_MS;
}

static void take_signal(struct parent *q, int sig)
{
	if (sig == SIGHUP) {
		log_say(LOG_INFO, "recycle", "replacing the workers");
		q->generation++;
	} else if ((sig == SIGTERM || sig == SIGINT) && !q->leaving) {
		log_say(LOG_INFO, "drain", "waiting for the workers to leave");
		q->leaving = true;
	}
}

static void loop(struct parent *q)
{
	for (step(q); !q->leaving || !all_gone(q); step(q)) {
		struct timespec t = timespec_of(tick_ms(q));

		take_signal(q, sigtimedwait(&q->signals, NULL, &t));
	}
}

/* SIGCHLD must not be ignored, or there would be nobody to wait for. */
static void parent_signals(struct parent *q)
{
	sigemptyset(&q->signals);
	sigaddset(&q->signals, SIGCHLD);
	sigaddset(&q->signals, SIGTERM);
	sigaddset(&q->signals, SIGINT);
	sigaddset(&q->signals, SIGHUP);
	handle(SIGCHLD, SIG_DFL);
	handle(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &q->signals, &q->before) != 0)
		bug("sigprocmask");
}

bool prefork_run(const struct prefork *p, struct fail *f)
{
	size_t n = p->workers ? p->workers : 1;
	struct parent q = {.p = p};

	if (p->workers > PREFORK_WORKERS_MAX)
		return fail_set(f, FAIL_CONF, "more than %d workers",
				PREFORK_WORKERS_MAX);
	q.slots = mmap(NULL, n * sizeof(*q.slots), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (q.slots == MAP_FAILED)
		return fail_errno(f, FAIL_SYSTEM, "map", "shared memory");
	q.children = calloc(n, sizeof(*q.children));
	if (!q.children)
		bug("no memory for %zu workers", n);
	parent_signals(&q);
	log_say(LOG_INFO, "start", "parent of %zu workers", p->workers);
	loop(&q);
	log_say(LOG_INFO, "stop", "all workers have left");
	free(q.children);
	munmap(q.slots, n * sizeof(*q.slots));
	return true;
}

const sigset_t *prefork_wait_mask(void)
{
	return &worker_mask;
}

bool prefork_leaving(void)
{
	return worker_leaving;
}

void prefork_serving(struct prefork_slot *slot)
{
	atomic_store(&slot->serving, true);
}

static void set_request_timer(uint64_t ms)
{
	struct itimerspec t = {.it_value = timespec_of(ms)};

	if (timer_settime(worker_request_timer, 0, &t, NULL) != 0)
		bug("timer_settime");
}

void prefork_busy(struct prefork_slot *slot, uint64_t deadline_ms)
{
	set_request_timer(deadline_ms + OWN_DEADLINE_MS);
	atomic_store(&slot->deadline_ms, clock_mono_ms() + deadline_ms);
}

void prefork_accepted(void)
{
	mask_term(SIG_UNBLOCK);
}

void prefork_idle(struct prefork_slot *slot)
{
	mask_term(SIG_BLOCK);
	if (atomic_exchange(&slot->deadline_ms, IDLE) == DOOMED)
		for (;;)
			pause();
	set_request_timer(0);
}
