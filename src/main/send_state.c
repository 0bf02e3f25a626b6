/* What `waybill send` writes down. The guarantees T1 to T4 stand in the
 * header. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/send_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/text.h"
#include "wire/doc.h"

enum { LINE_MAX_BYTES = 4096, FILE_MAX_BYTES = 256 << 20 };

static const struct json_limits LIMITS = {.depth_max = 2, .names_max = 16};

struct state {
	const char *path;
	const struct state_what *what;
	int fd;
	struct arena arena;
	struct state_batch **batches;
	uint64_t count, room;
	bool has_head, same, ended; /* `same`: the head is of this input */
};

static const struct count_row {
	const char *name;
	size_t offset;
} COUNTS[] = {
	{"total", offsetof(struct state_counts, total)},
	{"accepted", offsetof(struct state_counts, accepted)},
	{"replay", offsetof(struct state_counts, replay)},
	{"quarantined", offsetof(struct state_counts, quarantined)},
	{"rejected", offsetof(struct state_counts, rejected)},
	{"tombstoned", offsetof(struct state_counts, tombstoned)},
};

static uint64_t *count_at(struct state_counts *c, size_t i)
{
	return (uint64_t *)(void *)((char *)c + COUNTS[i].offset);
}

/* Reading */

static bool damaged(const struct state *s, uint64_t line, struct fail *f)
{
	return fail_set(f, FAIL_SEND_INPUT,
			"%s, line %" PRIu64 ": not what waybill send writes; "
			"remove the file to begin anew with fresh keys",
			s->path, line);
}

static struct state_batch *add_batch(struct state *s)
{
	if (s->count == s->room) {
		struct state_batch **grown;

		s->room = s->room ? s->room * 2 : 64;
		grown = realloc(s->batches, s->room * sizeof(*grown));
		if (!grown)
			bug("out of memory for batches");
		s->batches = grown;
	}
	s->batches[s->count] = arena_alloc(&s->arena, sizeof(**s->batches));
	s->batches[s->count]->no = s->count;
	return s->batches[s->count++];
}

static uint64_t head_of(const struct state *s)
{
	const struct state_batch *b =
		s->count ? s->batches[s->count - 1] : NULL;

	return b ? b->first + b->items : 0;
}

static bool read_head(struct state *s, const struct doc_node *n)
{
	const struct state_what *w = s->what;
	struct sv url, collection, mode, sum;
	uint8_t sha256[DIGEST_BYTES];
	uint64_t version, size;

	if (!doc_u64(doc_get(n, "/waybill_send"), 1, 1, &version) ||
	    !doc_string(doc_get(n, "/url"), &url) ||
	    !doc_string(doc_get(n, "/collection"), &collection) ||
	    !doc_string(doc_get(n, "/mode"), &mode) ||
	    !doc_u64(doc_get(n, "/size"), 0, INT64_MAX, &size) ||
	    !doc_string(doc_get(n, "/sha256"), &sum) ||
	    !text_hex_decode(sum, sha256, sizeof(sha256)))
		return false;
	s->has_head = true;
	s->same = sv_eq(url, w->url) && sv_eq(collection, w->collection) &&
		  sv_eq(mode, w->mode) && size == w->size &&
		  memcmp(sha256, w->sha256, sizeof(sha256)) == 0;
	return true;
}

static bool read_batch(struct state *s, const struct doc_node *n)
{
	struct state_batch *b;
	uint64_t first, items;
	struct sv key;
	struct id id;

	if (!doc_u64(doc_get(n, "/first"), head_of(s), head_of(s), &first) ||
	    !doc_u64(doc_get(n, "/items"), 0, UINT32_MAX, &items) ||
	    !doc_string(doc_get(n, "/key"), &key) ||
	    !id_parse_correlation(key, &id))
		return false;
	b = add_batch(s);
	b->first = first;
	b->items = items;
	b->key = id;
	return true;
}

static bool read_job(struct state *s, const struct doc_node *n, uint64_t no)
{
	struct sv job_id;

	if (!doc_string(doc_get(n, "/job_id"), &job_id))
		return false;
	s->batches[no]->job_id = arena_sv(&s->arena, job_id);
	return true;
}

static bool read_done(struct state *s, const struct doc_node *n, uint64_t no)
{
	struct state_batch *b = s->batches[no];
	char pointer[32];

	for (size_t i = 0; i < ARRAY_LEN(COUNTS); i++) {
		snprintf(pointer, sizeof(pointer), "/%s", COUNTS[i].name);
		if (!doc_u64(doc_get(n, pointer), 0, UINT32_MAX,
			     count_at(&b->counts, i)))
			return false;
	}
	b->done = true;
	return true;
}

static bool read_members(struct state *s, const struct doc_node *n)
{
	uint64_t no, last = s->count ? s->count - 1 : 0;

	if (!s->has_head)
		return read_head(s, n);
	if (doc_get(n, "/batch"))
		return doc_u64(doc_get(n, "/batch"), s->count, s->count, &no) &&
		       read_batch(s, n);
	if (s->count && doc_u64(doc_get(n, "/job"), 0, last, &no))
		return read_job(s, n, no);
	if (s->count && doc_u64(doc_get(n, "/done"), 0, last, &no))
		return read_done(s, n, no);
	return doc_bool(doc_get(n, "/end"), &s->ended) && s->ended;
}

static bool read_line(struct state *s, struct sv line, uint64_t no,
		      struct fail *f)
{
	struct fail ignored = FAIL_INIT;
	struct doc *d;
	bool ok;

	if (!doc_parse(line, &LIMITS, &d, &ignored))
		return damaged(s, no, f);
	ok = read_members(s, doc_root(d));
	doc_free(d);
	return ok || damaged(s, no, f);
}

/* Whole lines; what stands behind the last one is cut off (T2). */
static bool read_lines(struct state *s, struct sv text, struct fail *f)
{
	struct sv rest = text;
	uint64_t no = 0;
	const char *end;

	while (rest.n && (end = memchr(rest.p, '\n', rest.n))) {
		size_t n = (size_t)(end - rest.p);

		if (!read_line(s, sv_from(rest.p, n), ++no, f))
			return false;
		rest = sv_tail(rest, n + 1);
	}
	if (rest.n && ftruncate(s->fd, (off_t)(text.n - rest.n)) != 0)
		return fail_errno(f, FAIL_SEND_INPUT, "mend", s->path);
	return true;
}

static bool read_file(struct state *s, struct buf *b, struct fail *f)
{
	char part[16384];
	ssize_t n;

	while ((n = read(s->fd, part, sizeof(part))) > 0)
		buf_add(b, sv_from(part, (size_t)n));
	if (n < 0)
		return fail_errno(f, FAIL_SEND_INPUT, "read", s->path);
	if (!buf_ok(b))
		return fail_set(f, FAIL_SEND_INPUT, "%s is too large", s->path);
	return read_lines(s, buf_sv(b), f);
}

/* Writing */

static bool append(struct state *s, struct buf *line, struct fail *f)
{
	struct sv rest;
	bool ok = true;

	buf_add_byte(line, '\n');
	if (!buf_ok(line))
		bug("a line too long for %s", s->path);
	rest = buf_sv(line);
	while (ok && rest.n) {
		ssize_t n = write(s->fd, rest.p, rest.n);

		if (n < 0 && errno == EINTR)
			continue;
		ok = n > 0;
		if (ok)
			rest = sv_tail(rest, (size_t)n);
	}
	ok = ok && fsync(s->fd) == 0;
	buf_release(line);
	fault_at("send.written");
	return ok || fail_errno(f, FAIL_SEND_INPUT, "write to", s->path);
}

static bool write_head(struct state *s, struct fail *f)
{
	const struct state_what *w = s->what;
	struct buf b;

	buf_init(&b, LINE_MAX_BYTES);
	buf_add_text(&b, "{\"waybill_send\":1,\"url\":");
	buf_add_json(&b, w->url);
	buf_add_text(&b, ",\"collection\":");
	buf_add_json(&b, w->collection);
	buf_add_text(&b, ",\"mode\":");
	buf_add_json(&b, w->mode);
	buf_addf(&b, ",\"size\":%" PRIu64 ",\"sha256\":\"", w->size);
	buf_add_hex(&b, w->sha256, sizeof(w->sha256));
	buf_add_text(&b, "\"}");
	return append(s, &b, f);
}

/* The name of a new file is durable once its folder is. */
static bool sync_folder(const struct state *s, struct fail *f)
{
	char *copy = strdup(s->path);
	bool ok;
	int fd;

	if (!copy)
		bug("out of memory for a path");
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(copy);
	ok = fd >= 0 && fsync(fd) == 0;
	if (fd >= 0)
		close(fd);
	return ok ||
	       fail_errno(f, FAIL_SEND_INPUT, "flush the folder of", s->path);
}

/* A finished one for another input is of no use any more. */
static bool begin_anew(struct state *s, struct fail *f)
{
	s->count = 0;
	s->ended = false;
	if (ftruncate(s->fd, 0) != 0)
		return fail_errno(f, FAIL_SEND_INPUT, "empty", s->path);
	return write_head(s, f) && sync_folder(s, f);
}

static bool check_same(struct state *s, struct fail *f)
{
	if (!s->has_head || (!s->same && s->ended))
		return begin_anew(s, f);
	if (s->same)
		return true;
	return fail_set(f, FAIL_SEND_INPUT,
			"%s was begun with other content, or for another "
			"service, collection or mode, and is not finished: "
			"finish that first, or remove %s to begin anew with "
			"fresh keys",
			s->what->file, s->path);
}

static bool open_locked(struct state *s, struct fail *f)
{
	s->fd = open(s->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (s->fd < 0)
		return fail_errno(f, FAIL_SEND_INPUT, "open", s->path);
	if (flock(s->fd, LOCK_EX | LOCK_NB) == 0)
		return true;
	return fail_set(f, FAIL_SEND_LATER,
			"another waybill send is at work with %s", s->path);
}

bool state_open(struct state **s_r, const char *path,
		const struct state_what *what, struct fail *f)
{
	struct state *s = calloc(1, sizeof(*s));
	struct buf text;
	bool ok;

	if (!s)
		bug("out of memory for a state file");
	*s = (struct state){.path = path, .what = what, .fd = -1};
	arena_init(&s->arena, 16384);
	buf_init(&text, FILE_MAX_BYTES);
	ok = open_locked(s, f) && read_file(s, &text, f) && check_same(s, f);
	buf_release(&text);
	if (!ok) {
		state_close(s);
		return false;
	}
	*s_r = s;
	return true;
}

void state_close(struct state *s)
{
	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd);
	free(s->batches);
	arena_release(&s->arena);
	free(s);
}

bool state_ended(const struct state *s)
{
	return s->ended;
}

uint64_t state_batches(const struct state *s)
{
	return s->count;
}

struct state_batch *state_find(struct state *s, uint64_t no)
{
	return no < s->count ? s->batches[no] : NULL;
}

bool state_begin(struct state *s, uint64_t first, uint64_t items,
		 struct state_batch **b_r, struct fail *f)
{
	struct state_batch *b;
	char key[ID_UUID];
	struct buf line;

	if (first != head_of(s))
		bug("batches with a gap");
	b = add_batch(s);
	b->first = first;
	b->items = items;
	b->key = id_new(clock_wall_ms());
	id_uuid(b->key, key);
	buf_init(&line, LINE_MAX_BYTES);
	buf_addf(&line,
		 "{\"batch\":%" PRIu64 ",\"first\":%" PRIu64
		 ",\"items\":%" PRIu64 ",\"key\":\"%s\"}",
		 b->no, first, items, key);
	*b_r = b;
	return append(s, &line, f);
}

bool state_job(struct state *s, struct state_batch *b, struct sv job_id,
	       struct fail *f)
{
	struct buf line;

	b->job_id = arena_sv(&s->arena, job_id);
	buf_init(&line, LINE_MAX_BYTES);
	buf_addf(&line, "{\"job\":%" PRIu64 ",\"job_id\":", b->no);
	buf_add_json(&line, job_id);
	buf_add_byte(&line, '}');
	return append(s, &line, f);
}

bool state_done(struct state *s, struct state_batch *b,
		const struct state_counts *counts, struct fail *f)
{
	struct buf line;

	b->counts = *counts;
	b->done = true;
	buf_init(&line, LINE_MAX_BYTES);
	buf_addf(&line, "{\"done\":%" PRIu64, b->no);
	for (size_t i = 0; i < ARRAY_LEN(COUNTS); i++)
		buf_addf(&line, ",\"%s\":%" PRIu64, COUNTS[i].name,
			 *count_at(&b->counts, i));
	buf_add_byte(&line, '}');
	return append(s, &line, f);
}

bool state_end(struct state *s, struct fail *f)
{
	struct buf line;

	s->ended = true;
	buf_init(&line, LINE_MAX_BYTES);
	buf_add_text(&line, "{\"end\":true}");
	return append(s, &line, f);
}
