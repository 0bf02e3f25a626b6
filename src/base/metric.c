/* Counters of all processes of the host, in one shared file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metric.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"

enum metric_kind { METRIC_COUNTER, METRIC_HISTOGRAM };

struct metric_row {
	enum metric_kind kind;
	const char *name, *labels, *help;
};

static const struct metric_row ROWS[METRIC_COUNT] = {
#define METRIC(id, kind, name, labels, help) \
	[METRIC_##id] = {METRIC_##kind, name, labels, help},
#include "base/metric.def"
#undef METRIC
};

/* Upper bounds in microseconds, and as Prometheus wants them. */
static const struct bucket {
	uint64_t usec;
	const char *le;
} BUCKETS[] = {
	{1000, "0.001"},  {2500, "0.0025"},     {5000, "0.005"},
	{10000, "0.01"},  {25000, "0.025"},     {50000, "0.05"},
	{100000, "0.1"},  {250000, "0.25"},     {500000, "0.5"},
	{1000000, "1"},   {2500000, "2.5"},     {5000000, "5"},
	{10000000, "10"}, {UINT64_MAX, "+Inf"},
};

/* A histogram's slots say more behind their labels: "|+Inf", "|sum". */
enum { SLOTS = 2048, LABEL_BYTES = 96, SLOT_BYTES = LABEL_BYTES + 8 };

/* FREE -> CLAIMED -> READY, never back. A process that dies between CLAIMED
 * and READY leaves a slot nobody uses: the labels go to the next one. */
enum slot_state { SLOT_FREE, SLOT_CLAIMED, SLOT_READY };

struct slot {
	_Atomic uint32_t state;
	uint32_t metric;
	_Atomic uint64_t value;
	char labels[SLOT_BYTES]; /* route="x",status="200" */
};

struct table {
	uint8_t layout[DIGEST_BYTES]; /* of the table of metrics */
	struct slot slots[SLOTS];
};

static struct table *table;

static void layout_digest(uint8_t sum[DIGEST_BYTES])
{
	struct digest_state *s = digest_new();
	size_t bytes = sizeof(struct table);

	digest_add(s, sv_from(&bytes, sizeof(bytes)));
	for (size_t i = 0; i < METRIC_COUNT; i++) {
		digest_add(s, sv_of(ROWS[i].name));
		digest_add(s, sv_of(ROWS[i].labels));
	}
	digest_free(s, sum);
}

static struct table *map(int fd)
{
	int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE,
		       flags, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static struct table *get_table(void)
{
	if (!table)
		table = map(-1);
	if (!table)
		bug("no memory for the counters");
	return table;
}

/* Make the file beside its name and rename it there, so that no other
 * process ever maps half a table. Only under the lock: a second one would
 * take the place of a table that is in use, and each would count alone. */
static bool create(const char *path, struct fail *f)
{
	uint8_t layout[DIGEST_BYTES];
	char aside[PATH_MAX];
	bool ok;
	int fd;

	snprintf(aside, sizeof(aside), "%s.%d", path, (int)getpid());
	fd = open(aside, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail_errno(f, FAIL_SYSTEM, "create", aside);
	layout_digest(layout);
	ok = ftruncate(fd, sizeof(struct table)) == 0 &&
	     pwrite(fd, layout, sizeof(layout), 0) == sizeof(layout) &&
	     rename(aside, path) == 0;
	if (!ok)
		fail_errno(f, FAIL_SYSTEM, "write", aside);
	close(fd);
	return ok;
}

/* NULL without a failure: there is none, or one of another version. */
static struct table *attach(const char *path)
{
	uint8_t layout[DIGEST_BYTES];
	struct table *t = NULL;
	struct stat st;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && st.st_size == sizeof(struct table))
		t = map(fd);
	close(fd);
	layout_digest(layout);
	if (t && memcmp(t->layout, layout, sizeof(layout)) != 0) {
		munmap(t, sizeof(*t));
		t = NULL;
	}
	return t;
}

static bool attach_or_create(const char *path, struct fail *f)
{
	table = attach(path);
	if (!table && !create(path, f))
		return false;
	if (!table)
		table = attach(path);
	if (!table)
		return fail_errno(f, FAIL_SYSTEM, "map", path);
	return true;
}

/* The lock is a file of its own, since the table's is replaced. Closing it
 * gives it back. */
bool metric_open(const char *path, struct fail *f)
{
	char lock[PATH_MAX];
	bool ok;
	int fd;

	if (!*path)
		return true;
	snprintf(lock, sizeof(lock), "%s.lock", path);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail_errno(f, FAIL_SYSTEM, "create", lock);
	if (flock(fd, LOCK_EX) == 0)
		ok = attach_or_create(path, f);
	else
		ok = fail_errno(f, FAIL_SYSTEM, "lock", lock);
	close(fd);
	return ok;
}

static uint32_t hash(uint32_t m, const char *labels)
{
	uint32_t h = 2166136261U ^ m;

	for (; *labels; labels++)
		h = (h ^ (uint8_t)*labels) * 16777619U;
	return h;
}

static bool claim(struct slot *s, uint32_t m, const char *labels)
{
	uint32_t expected = SLOT_FREE;

	if (!atomic_compare_exchange_strong(&s->state, &expected, SLOT_CLAIMED))
		return false;
	s->metric = m;
	memcpy(s->labels, labels, strlen(labels) + 1);
	atomic_store(&s->state, SLOT_READY);
	return true;
}

/* NULL: not there and not made, or the table is full. */
static struct slot *slot_find(uint32_t m, const char *labels, bool make)
{
	struct table *t = get_table();
	uint32_t h = hash(m, labels);

	for (uint32_t i = 0; i < SLOTS; i++) {
		struct slot *s = &t->slots[(h + i) % SLOTS];
		uint32_t state = atomic_load(&s->state);

		if (state == SLOT_FREE) {
			if (!make)
				return NULL;
			if (claim(s, m, labels))
				return s;
			state = atomic_load(&s->state);
		}
		if (state == SLOT_READY && s->metric == m &&
		    strcmp(s->labels, labels) == 0)
			return s;
	}
	return NULL;
}

static void bump(enum metric m, const char *labels, uint64_t by)
{
	struct slot *s = slot_find(m, labels, true);

	if (!s)
		s = slot_find(METRIC_METRIC_OVERFLOW, "", true);
	if (s)
		atomic_fetch_add(&s->value, by);
}

/* name="value",... into out. */
static void join(const char *names, va_list ap, char out[LABEL_BYTES])
{
	struct sv rest = sv_of(names);
	struct buf b;

	buf_init(&b, LABEL_BYTES - 1);
	while (rest.n) {
		struct sv name = sv_cut(&rest, ',');

		buf_addf(&b, "%s%.*s=\"%s\"", b.n ? "," : "", SV_ARG(name),
			 va_arg(ap, const char *));
	}
	if (!buf_ok(&b))
		bug("labels of %s are too long", names);
	memcpy(out, buf_cstr(&b), b.n + 1);
	buf_release(&b);
}

void metric_add(enum metric m, uint64_t by, ...)
{
	char labels[LABEL_BYTES];
	va_list ap;

	va_start(ap, by);
	join(ROWS[m].labels, ap, labels);
	va_end(ap);
	bump(m, labels, by);
}

/* A histogram's slots: one a bucket, one for the sum in microseconds. */
void metric_observe(enum metric m, uint64_t usec, ...)
{
	char labels[LABEL_BYTES], with[SLOT_BYTES];
	const struct bucket *at = BUCKETS;
	va_list ap;

	va_start(ap, usec);
	join(ROWS[m].labels, ap, labels);
	va_end(ap);
	while (usec > at->usec)
		at++;
	snprintf(with, sizeof(with), "%s|%s", labels, at->le);
	bump(m, with, 1);
	snprintf(with, sizeof(with), "%s|sum", labels);
	bump(m, with, usec);
}

uint64_t metric_get(enum metric m, ...)
{
	char labels[LABEL_BYTES];
	struct slot *s;
	va_list ap;

	va_start(ap, m);
	join(ROWS[m].labels, ap, labels);
	va_end(ap);
	s = slot_find(m, labels, false);
	return s ? atomic_load(&s->value) : 0;
}

static uint64_t value_of(uint32_t m, const char *labels)
{
	struct slot *s = slot_find(m, labels, false);

	return s ? atomic_load(&s->value) : 0;
}

static void write_counter(struct buf *b, const struct metric_row *row,
			  const struct slot *s)
{
	buf_addf(b, s->labels[0] ? "%s{%s}" : "%s%s", row->name, s->labels);
	buf_addf(b, " %" PRIu64 "\n", atomic_load(&s->value));
}

static void write_histogram(struct buf *b, const struct metric_row *row,
			    const struct slot *s)
{
	char base[LABEL_BYTES], with[SLOT_BYTES];
	const char *bar = strchr(s->labels, '|');
	uint64_t count = 0, sum;

	/* The slot of the sum stands for the whole histogram. */
	if (!bar || strcmp(bar, "|sum") != 0)
		return;
	snprintf(base, sizeof(base), "%.*s", (int)(bar - s->labels), s->labels);
	for (size_t i = 0; i < ARRAY_LEN(BUCKETS); i++) {
		snprintf(with, sizeof(with), "%s|%s", base, BUCKETS[i].le);
		count += value_of(s->metric, with);
		buf_addf(b, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", row->name,
			 base, base[0] ? "," : "", BUCKETS[i].le, count);
	}
	sum = atomic_load(&s->value);
	buf_addf(b, "%s_sum{%s} %" PRIu64 ".%06" PRIu64 "\n", row->name, base,
		 sum / 1000000, sum % 1000000);
	buf_addf(b, "%s_count{%s} %" PRIu64 "\n", row->name, base, count);
}

static const char *kind_name(enum metric_kind kind)
{
	return kind == METRIC_COUNTER ? "counter" : "histogram";
}

struct metric_info metric_info(enum metric m)
{
	return (struct metric_info){ROWS[m].name, kind_name(ROWS[m].kind),
				    ROWS[m].labels, ROWS[m].help};
}

static void write_metric(struct buf *b, uint32_t m)
{
	const struct metric_row *row = &ROWS[m];
	struct table *t = get_table();

	buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help,
		 row->name, kind_name(row->kind));
	for (size_t i = 0; i < SLOTS; i++) {
		struct slot *s = &t->slots[i];

		if (atomic_load(&s->state) != SLOT_READY || s->metric != m)
			continue;
		if (row->kind == METRIC_COUNTER)
			write_counter(b, row, s);
		else
			write_histogram(b, row, s);
	}
}

void metric_write(struct buf *b)
{
	for (uint32_t m = 0; m < METRIC_COUNT; m++)
		write_metric(b, m);
}
