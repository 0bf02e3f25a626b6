/* waybill-fcgi: a parent that keeps short-lived FastCGI workers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <getopt.h>

#include "api/pipeline.h"
#include "base/digest.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "gate/inflight.h"
#include "gate/limit.h"
#include "main/prefork.h"
#include "main/program.h"
#include "wire/fcgi.h"

#define NAME "waybill-fcgi"

enum { WAIT_MS = 60000, ARENA_BYTES = 64 * 1024, SHARES_MAX = 64 };

static const char USAGE[] =
	"usage: " NAME " [--conf FILE] [--share I/N] [--listen PATH]\n"
	"\n"
	"Keeps FastCGI workers on the listening socket that is descriptor 0.\n"
	"\n"
	"  --conf FILE    settings (default: $WAYBILL_CONF, else built-in)\n"
	"  --share I/N    of N parents on one socket this is number I, from "
	"0:\n"
	"                 it keeps its part of the workers\n"
	"  --listen PATH  make the socket: a unix socket at PATH, mode 0660\n"
	"  --version, --help\n"
	"\n"
	"SIGHUP replaces the workers one by one, SIGTERM drains and leaves.\n";

struct options {
	const char *conf, *listen;
	uint64_t share, shares;
	bool version, help;
};

static bool read_share(struct sv text, struct options *o, struct fail *f)
{
	struct sv of = text, number = sv_cut(&of, '/');

	if (!text_u64(of, 1, SHARES_MAX, &o->shares) ||
	    !text_u64(number, 0, o->shares - 1, &o->share))
		return fail_set(f, FAIL_USAGE,
				"--share %.*s: want I/N, I from 0 to N-1",
				SV_ARG(text));
	return true;
}

static bool read_options(int argc, char **argv, struct options *o,
			 struct fail *f)
{
	static const struct option OPTIONS[] = {
		{"conf", required_argument, NULL, 'c'},
		{"share", required_argument, NULL, 's'},
		{"listen", required_argument, NULL, 'l'},
		{"version", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int c;

	*o = (struct options){.shares = 1};
	opterr = 0;
	while ((c = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
		if (c == 'c')
			o->conf = optarg;
		else if (c == 'l')
			o->listen = optarg;
		else if (c == 'v')
			o->version = true;
		else if (c == 'h')
			o->help = true;
		else if (c != 's')
			return fail_set(f, FAIL_USAGE, "%s: see --help",
					argv[optind - 1]);
		else if (!read_share(sv_of(optarg), o, f))
			return false;
	}
	if (optind < argc)
		return fail_set(f, FAIL_USAGE, "%s: see --help", argv[optind]);
	return true;
}

/* The first parents get one more where the workers do not divide. */
static size_t part_of(uint64_t workers, const struct options *o)
{
	uint64_t each = workers / o->shares, more = workers % o->shares;

	return (size_t)(each + (o->share < more ? 1 : 0));
}

/* How many requests this worker serves: up to a quarter more than set, so
 * that those that started together do not leave together. */
static uint64_t life_of(const struct conf *c)
{
	uint64_t random;

	digest_random(&random, sizeof(random));
	return c->max_requests + random % (c->max_requests / 4 + 1);
}

struct worker {
	const struct conf *conf;
	struct prefork_slot *slot;
	struct service *service;
	struct fcgi *fcgi;
	struct arena arena;
};

/* true: a request was answered. */
static bool serve(struct worker *w)
{
	struct http_request r;
	struct fail f = FAIL_INIT;
	enum fcgi_got got;

	prefork_busy(w->slot, w->conf->request_deadline_ms);
	fault_at("accept.before");
	got = fcgi_accept(w->fcgi, &w->arena, &r, &f);
	if (got != FCGI_GOT_NONE) {
		prefork_accepted();
		service_answer(w->service, w->fcgi, &w->arena, got, &r, &f);
		fcgi_finish(w->fcgi);
	}
	prefork_idle(w->slot);
	arena_reset(&w->arena);
	return got != FCGI_GOT_NONE;
}

/* A request that gets on may take longer. */
static void extend(void *arg, uint64_t ms)
{
	struct worker *w = arg;

	prefork_busy(w->slot, ms);
}

static void serve_all(struct worker *w)
{
	uint64_t left = life_of(w->conf);

	prefork_serving(w->slot);
	while (left > 0 && !prefork_leaving())
		if (fcgi_wait(w->fcgi, prefork_wait_mask(), WAIT_MS) &&
		    serve(w))
			left--;
}

static int cannot_serve(const struct fail *f)
{
	struct log_line l;

	log_begin(&l, LOG_ERROR, "worker-start");
	log_fail(&l, f);
	log_end(&l);
	return fail_info(f->code)->exit_status;
}

static int work(struct prefork_slot *slot, void *arg)
{
	struct worker w = {.conf = arg, .slot = slot};
	struct fail f = FAIL_INIT;

	if (!fcgi_new(&w.fcgi, &f))
		return cannot_serve(&f);
	if (!service_new(&w.service, w.conf, &f)) {
		fcgi_free(w.fcgi);
		return cannot_serve(&f);
	}
	service_on_extend(w.service, extend, &w);
	arena_init(&w.arena, ARENA_BYTES);
	serve_all(&w);
	arena_release(&w.arena);
	service_free(w.service);
	fcgi_free(w.fcgi);
	return 0;
}

static bool run(const struct options *o, struct arena *a, struct fail *f)
{
	struct conf c;
	struct prefork p = {.work = work, .arg = &c};

	if (!program_load(NAME, o->conf, a, &c, f) ||
	    !inflight_open(c.inflight_file, f) ||
	    !limit_open(c.limit_file, f) ||
	    (o->listen && !fcgi_listen(o->listen, f)) || !fcgi_check(f))
		return false;
	p.workers = part_of(c.workers, o);
	p.drain_timeout_ms = c.drain_timeout_ms;
	return prefork_run(&p, f);
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
