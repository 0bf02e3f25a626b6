/* L, what the service is measured against: a bare client that writes exactly
 * the rows an upsert of new items writes (request_key, item, batch_item,
 * batch, response), one transaction a batch, and does nothing else: no
 * SELECT, no JSON, no HTTP. Each connection is a process.
 *
 *	limit-bench --conf FILE [--batch B] [--seconds S] [--connections N]
 *
 * The rows belong to a partner that does not exist, and stay. tests/bench/
 * load.sh runs it beside the service.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/digest.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/text.h"
#include "db/rows.h"
#include "db/txn.h"
#include "gate/reqkey.h"
#include "item/apply.h"

#define NAME    "limit-bench"
#define PARTNER UINT64_C(4000000000) /* nobody's */

enum {
	ARENA_BYTES = 1 << 20,
	FINGERPRINT = 32,
	ITEM_COLUMNS = 15,
	AUDIT_COLUMNS = 12,
	ANSWER_MAX = 256,
	CONNECTIONS_MAX = 256,
};

static const char USAGE[] =
	"usage: " NAME " --conf FILE [--batch B] [--seconds S]"
	" [--connections N]\n"
	"\n"
	"Writes batches of B new items (1000) for S seconds (8) over N\n"
	"connections (4), as the owner of the database.\n";

struct options {
	const char *conf;
	uint64_t batch, seconds, connections;
};

/* What a process tells the one that started it. */
struct result {
	uint64_t batches, us;
};

struct writer {
	const struct options *o;
	const struct conf *conf;
	struct db *db;
	uint64_t run, no, batches;
	struct sv *payloads;
	struct arena arena; /* of one batch */
	/* of the batch: */
	struct id batch_id, correlation;
	struct db_val *items, *audit;
};

static struct db_val id_val(const struct id *id)
{
	return db_text(sv_from(id->b, sizeof(id->b)));
}

/* As long as the items of items.lua. */
static struct sv *make_payloads(struct arena *a, uint64_t count)
{
	struct sv *p = arena_array(a, count, sizeof(*p));

	for (uint64_t i = 0; i < count; i++)
		p[i] = sv_of(arena_printf(
			a,
			"{\"source_id\":\"SKU-65000000-0-1-%" PRIu64 "\","
			"\"source_version\":1,"
			"\"name\":\"A thing of some length for the test "
			"%" PRIu64 "\",\"base_uom\":\"EA\","
			"\"description\":\"Lorem ipsum dolor sit amet, "
			"consectetur adipiscing elit, sed do eiusmod tempor\","
			"\"lot_tracked\":true,\"weight_kg\":1.250,"
			"\"barcodes\":[\"4006381333931\"],"
			"\"temperature_class\":\"AMBIENT\"}",
			i + 1, i + 1));
	return p;
}

static void fill_row(struct writer *w, uint64_t i, uint64_t now,
		     struct db_val day)
{
	struct id *internal = arena_alloc(&w->arena, sizeof(*internal));
	struct db_val batch = id_val(&w->batch_id);
	struct db_val source_id = db_text(sv_of(arena_printf(
		&w->arena, "SKU-%" PRIx64 "-%" PRIu64 "-%" PRIu64 "-%" PRIu64,
		w->run, w->no, w->batches, i + 1)));
	const struct db_val item[ITEM_COLUMNS] = {
		db_uint(PARTNER),
		db_uint(COLLECTION_SKUS),
		source_id,
		db_uint(1),
		db_uint(1),
		db_uint(ITEM_ACTIVE),
		db_null(),
		db_null(),
		id_val(internal), /* in place of the hash */
		id_val(internal),
		db_text(w->payloads[i]),
		db_uint(1),
		batch,
		batch,
		batch,
	};
	const struct db_val audit[AUDIT_COLUMNS] = {
		batch,      db_uint(i), day,        db_uint(ITEM_ACCEPTED),
		db_uint(1), db_uint(0), source_id,  db_uint(1),
		db_null(),  db_null(),  db_uint(1), db_null(),
	};

	*internal = id_new(now);
	memcpy(w->items + i * ITEM_COLUMNS, item, sizeof(item));
	memcpy(w->audit + i * AUDIT_COLUMNS, audit, sizeof(audit));
}

static struct db_val day_of(const struct writer *w)
{
	return db_uint(clock_day(id_wall_ms(w->batch_id)));
}

static void fill_batch(struct writer *w)
{
	uint64_t now = db_wall_ms(w->db);

	arena_reset(&w->arena);
	w->batch_id = id_new(now);
	digest_random(w->correlation.b, sizeof(w->correlation.b));
	w->items = arena_array(&w->arena, w->o->batch * ITEM_COLUMNS,
			       sizeof(*w->items));
	w->audit = arena_array(&w->arena, w->o->batch * AUDIT_COLUMNS,
			       sizeof(*w->audit));
	for (uint64_t i = 0; i < w->o->batch; i++)
		fill_row(w, i, now, day_of(w));
}

static bool claim(struct writer *w, struct fail *f)
{
	static const char fingerprint[FINGERPRINT];
	uint64_t n;

	return db_exec(w->db, STMT_REQKEY_CLAIM,
		       DB_ARGS(db_uint(PARTNER), db_uint(REQKEY_WMS_INGEST),
			       id_val(&w->correlation), id_val(&w->batch_id),
			       db_text(sv_from(fingerprint, FINGERPRINT)),
			       db_uint(COLLECTION_SKUS), db_uint(BATCH_UPSERT),
			       db_null(),
			       db_uint(w->conf->retention_ms * 1000)),
		       &n, f);
}

static bool write_items(struct writer *w, struct fail *f)
{
	uint64_t n;

	if (!db_rows_exec(w->db, STMT_ITEM_UPSERT, w->items, w->o->batch,
			  ITEM_COLUMNS, &n, f))
		return false;
	if (n != w->o->batch)
		return fail_set(f, FAIL_INTERNAL,
				"%" PRIu64 " of %" PRIu64 " items were new", n,
				w->o->batch);
	return db_rows_exec(w->db, STMT_BATCH_ITEM_ADD, w->audit, w->o->batch,
			    AUDIT_COLUMNS, &n, f);
}

static bool write_batch(struct writer *w, struct fail *f)
{
	uint64_t n;

	return db_exec(w->db, STMT_BATCH_ADD,
		       DB_ARGS(id_val(&w->batch_id), day_of(w),
			       db_uint(PARTNER), db_uint(COLLECTION_SKUS),
			       db_uint(BATCH_UPSERT), db_uint(w->o->batch),
			       db_uint(w->o->batch), db_uint(0), db_uint(0),
			       db_uint(0), db_uint(0), db_null()),
		       &n, f);
}

/* As the service answers with return=summary. */
static bool store(struct writer *w, struct fail *f)
{
	char body[ANSWER_MAX], id[ID_HEX];
	uint64_t n;
	int len;

	id_hex(w->batch_id, id);
	len = snprintf(body, sizeof(body),
		       "{\"batch_id\":\"bat-%s\",\"results\":[],\"summary\":"
		       "{\"total\":%" PRIu64 ",\"accepted\":%" PRIu64
		       ",\"replay\":0,\"quarantined\":0,\"rejected\":0}}\n",
		       id, w->o->batch, w->o->batch);
	return db_exec(w->db, STMT_REQKEY_STORE,
		       DB_ARGS(id_val(&w->batch_id), day_of(w), db_uint(200),
			       db_uint(0), db_text(sv_from(body, (size_t)len))),
		       &n, f);
}

static enum db_step work(struct db *db, const struct db_attempt *at, void *arg,
			 struct fail *f)
{
	struct writer *w = arg;

	(void)db;
	(void)at;
	return claim(w, f) && write_items(w, f) && write_batch(w, f) &&
			       store(w, f)
		       ? DB_STEP_COMMIT
		       : DB_STEP_FAIL;
}

static bool write_one(struct writer *w, struct fail *f)
{
	if (!db_ready(w->db, f))
		return false;
	w->batches++;
	fill_batch(w);
	return db_txn(
		w->db,
		&(struct db_txn){.name = "bench.limit", .work = work, .arg = w},
		f);
}

static bool write_for(struct writer *w, struct result *r, struct fail *f)
{
	uint64_t began = clock_mono_us(), before = w->batches;

	do {
		if (!write_one(w, f))
			return false;
		r->us = clock_mono_us() - began;
	} while (r->us < w->o->seconds * 1000000);
	r->batches = w->batches - before;
	return true;
}

/* The first batch connects and prepares, and does not count. Then it says
 * whether that went well, and waits for a byte: without one it leaves. */
static bool run_writer(struct writer *w, int out, int go, struct result *r,
		       struct fail *f)
{
	char ready = db_new(&w->db, w->conf, DB_OWNER, f) && write_one(w, f);
	char c;

	if (write(out, &ready, 1) != 1 || !ready || read(go, &c, 1) != 1)
		return false;
	return write_for(w, r, f);
}

static int writer_main(const struct options *o, const struct conf *c,
		       uint64_t no, uint64_t run, int out, int go)
{
	struct writer w = {.o = o, .conf = c, .run = run, .no = no};
	struct fail f = FAIL_INIT;
	struct result r = {0};
	struct arena keep;
	bool ok;

	arena_init(&keep, ARENA_BYTES);
	arena_init(&w.arena, ARENA_BYTES);
	w.payloads = make_payloads(&keep, o->batch);
	ok = run_writer(&w, out, go, &r, &f) &&
	     write(out, &r, sizeof(r)) == sizeof(r);
	if (f.code)
		fprintf(stderr, NAME ": %s %s\n", f.detail, f.log);
	if (w.db)
		db_free(w.db);
	arena_release(&w.arena);
	arena_release(&keep);
	return ok ? 0 : 1;
}

/* All of it, or false: the other side ended. */
static bool read_all(int fd, void *to, size_t n)
{
	char *p = to;

	while (n) {
		ssize_t got = read(fd, p, n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		p += got;
		n -= (size_t)got;
	}
	return true;
}

struct pipes {
	int out[2], go[2];
};

static bool start(const struct options *o, const struct conf *c,
		  struct pipes *p, struct fail *f)
{
	uint64_t run = clock_wall_ms() / 1000; /* as in items.lua */

	if (pipe(p->out) || pipe(p->go))
		return fail_errno(f, FAIL_INTERNAL, "cannot make", "pipes");
	for (uint64_t i = 0; i < o->connections; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return fail_errno(f, FAIL_INTERNAL, "cannot", "fork");
		if (pid == 0) {
			close(p->go[1]);
			close(p->out[0]);
			_exit(writer_main(o, c, i, run, p->out[1], p->go[0]));
		}
	}
	close(p->out[1]);
	close(p->go[0]);
	return true;
}

static bool all_ready(const struct options *o, const struct pipes *p)
{
	char ready = true;

	for (uint64_t i = 0; ready && i < o->connections; i++)
		if (!read_all(p->out[0], &ready, 1))
			return false;
	for (uint64_t i = 0; ready && i < o->connections; i++)
		if (write(p->go[1], &ready, 1) != 1)
			return false;
	return ready;
}

/* Each process is measured by its own time: the last batch ends late. */
static bool sum_up(const struct options *o, const struct pipes *p,
		   double *rate_r)
{
	struct result r;

	*rate_r = 0;
	for (uint64_t i = 0; i < o->connections; i++) {
		if (!read_all(p->out[0], &r, sizeof(r)))
			return false;
		*rate_r += (double)r.batches * 1e6 / (double)r.us;
	}
	return true;
}

static bool measure(const struct options *o, const struct conf *c,
		    struct fail *f)
{
	struct pipes p;
	double rate;
	bool ok;

	if (!start(o, c, &p, f))
		return false;
	ok = all_ready(o, &p) && sum_up(o, &p, &rate);
	close(p.go[1]);
	close(p.out[0]);
	while (wait(NULL) > 0)
		;
	if (!ok)
		return fail_set(f, FAIL_INTERNAL, "a connection failed");
	printf("%.1f batches/s %.0f items/s\n", rate, rate * (double)o->batch);
	return true;
}

static bool read_options(int argc, char **argv, struct options *o)
{
	static const struct option OPTIONS[] = {
		{"conf", required_argument, NULL, 'c'},
		{"batch", required_argument, NULL, 'b'},
		{"seconds", required_argument, NULL, 's'},
		{"connections", required_argument, NULL, 'n'},
		{NULL, 0, NULL, 0},
	};
	bool ok = true;
	int c;

	*o = (struct options){.batch = 1000, .seconds = 8, .connections = 4};
	while (ok && (c = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
		if (c == 'c')
			o->conf = optarg;
		else if (c == 'b')
			ok = text_u64(sv_of(optarg), 1, 100000, &o->batch);
		else if (c == 's')
			ok = text_u64(sv_of(optarg), 1, 3600, &o->seconds);
		else if (c == 'n')
			ok = text_u64(sv_of(optarg), 1, CONNECTIONS_MAX,
				      &o->connections);
		else
			ok = false;
	}
	return ok && o->conf && optind == argc;
}

int main(int argc, char **argv)
{
	struct fail f = FAIL_INIT;
	struct options o;
	struct arena a;
	struct conf c;
	bool ok;

	if (!read_options(argc, argv, &o)) {
		fputs(USAGE, stderr);
		return fail_info(FAIL_USAGE)->exit_status;
	}
	signal(SIGPIPE, SIG_IGN);
	arena_init(&a, ARENA_BYTES);
	ok = conf_load(&c, &a, o.conf, &f) && log_init(NAME, c.log_level, &f) &&
	     measure(&o, &c, &f);
	if (!ok)
		fprintf(stderr, NAME ": %s\n", f.detail);
	arena_release(&a);
	return ok ? 0 : fail_info(f.code)->exit_status;
}
