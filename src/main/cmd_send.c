/* waybill send: a client that puts a file through, once.
 *
 * Guarantees:
 * 1. Every item of the file takes effect once, however often the program is
 *    killed and started again: keys and extents of batches are written down
 *    before they are used (main/send_state.h), and the service answers a
 *    repeated key with the first answer.
 * 2. Nothing is sent of a file that cannot be read to its end.
 * 3. Memory is bounded, whatever the size of the file.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/text.h"
#include "item/outcome.h"
#include "main/cli.h"
#include "main/feed.h"
#include "main/send_link.h"
#include "main/send_state.h"
#include "wire/doc.h"

enum {
	BODY_MAX = 4 << 20,
	BATCH_DEFAULT = 1000,
	BATCH_MAX = 5000,
	GIVE_UP_DEFAULT_MS = 10 * 60 * 1000,
	SILENCE_S = 60,
	SILENCE_WHOLE_S = 3600, /* an intake may take an hour */
	POLL_MS = 1000,
	TOLD_MAX = 20, /* items whose failure is told one by one */
	EXIT_SOME = 4,
};

#define API "/wms-ingest/v1"

static const struct json_limits LIMITS = {.depth_max = 32, .names_max = 256};

static const struct cli_option OPTIONS[] = {
	{"--url", CLI_VALUE},          {"--ca", CLI_VALUE},
	{"--key-file", CLI_VALUE},     {"--collection", CLI_VALUE},
	{"--mode", CLI_VALUE},         {"--bulk", CLI_FLAG},
	{"--batch", CLI_VALUE},        {"--state", CLI_VALUE},
	{"--format", CLI_VALUE},       {"--gzip", CLI_FLAG},
	{"--give-up", CLI_VALUE},      {"--confirm", CLI_FLAG},
	{"--confirm-empty", CLI_FLAG}, {NULL, CLI_FLAG}};

/* What the command line says, for all files. */
struct orders {
	struct cli *cli;
	const char *url;
	enum collection collection;
	enum feed_format format;
	const char *mode; /* "upsert", "bulk", "full-refresh" */
	bool whole;       /* one request for all of a file */
	bool gzip;
	uint64_t batch_max, give_up_ms;
	const char *path; /* of the POST, with its query */
	struct client *client;
	struct state_counts sum;
	uint64_t batches;
};

/* One file under way. */
struct sending {
	struct orders *o;
	const char *file;
	struct feed *feed;
	struct feed_scan scan;
	struct state *state;
	struct state_what what;
	struct progress progress;
	struct send_link link;
	struct state_counts sum;
	unsigned told;

	/* the batch being made */
	struct buf body;
	uint64_t *lines; /* of its items, BATCH_MAX of them */
	uint64_t count;
	struct buf ahead; /* an item that did not fit into the one before */
	uint64_t ahead_line;
	bool has_ahead;

	/* a request of the whole file */
	struct sv rest; /* of the item being handed over */
	struct fail source_fail;
};

/* Answers */

static void add_counts(struct state_counts *sum, const struct state_counts *c)
{
	sum->total += c->total;
	sum->accepted += c->accepted;
	sum->replay += c->replay;
	sum->quarantined += c->quarantined;
	sum->rejected += c->rejected;
	sum->tombstoned += c->tombstoned;
}

static bool strange(const char *what, struct fail *f)
{
	return fail_set(f, FAIL_SEND_REFUSED,
			"the answer is not one of Waybill's: no %s", what);
}

static bool read_summary(const struct doc_node *n, struct state_counts *c,
			 struct fail *f)
{
	*c = (struct state_counts){0};
	/* Only a full-refresh has it. */
	if (!doc_u64(doc_get(n, "/tombstoned"), 0, UINT32_MAX, &c->tombstoned))
		c->tombstoned = 0;
	if (doc_u64(doc_get(n, "/total"), 0, UINT32_MAX, &c->total) &&
	    doc_u64(doc_get(n, "/accepted"), 0, UINT32_MAX, &c->accepted) &&
	    doc_u64(doc_get(n, "/replay"), 0, UINT32_MAX, &c->replay) &&
	    doc_u64(doc_get(n, "/quarantined"), 0, UINT32_MAX,
		    &c->quarantined) &&
	    doc_u64(doc_get(n, "/rejected"), 0, UINT32_MAX, &c->rejected))
		return true;
	return strange("summary", f);
}

static struct sv text_at(const struct doc_node *n, const char *pointer)
{
	struct sv text = SV("");

	if (!doc_string(doc_get(n, pointer), &text))
		return SV("");
	text.n = text.n < 200 ? text.n : 200;
	return text;
}

/* "line 18, A-1: REJECTED: /name: is missing" */
static void tell_item(struct sending *s, const struct doc_node *n,
		      uint64_t first)
{
	struct sv id = text_at(n, "/source_id");
	struct sv status = text_at(n, "/status");
	struct sv where = text_at(n, "/errors/0/pointer");
	struct sv why = text_at(n, "/errors/0/detail");
	char place[64] = "";
	uint64_t index = 0;

	if (doc_u64(doc_get(n, "/index"), 0, UINT32_MAX, &index))
		snprintf(place, sizeof(place), "item %" PRIu64, first + index);
	if (s->lines && index < s->count && s->lines[index])
		snprintf(place, sizeof(place), "line %" PRIu64,
			 s->lines[index]);
	if (!why.n)
		why = text_at(n, "/reason");
	progress_note(&s->progress, "%s, %.*s: %.*s: %.*s%s%.*s", place,
		      SV_ARG(id), SV_ARG(status), SV_ARG(where),
		      where.n ? ": " : "", SV_ARG(why));
}

static void tell_items(struct sending *s, const struct doc_node *results,
		       uint64_t first)
{
	for (size_t i = 0; i < doc_count(results); i++) {
		if (s->told == TOLD_MAX)
			progress_note(&s->progress,
				      "further items that were not accepted "
				      "are only counted");
		if (s->told++ >= TOLD_MAX)
			return;
		tell_item(s, doc_element(results, i), first);
	}
}

/* Jobs */

static bool read_job(struct sending *s, const struct doc_node *n,
		     struct state_counts *counts_r, bool *ended_r,
		     struct fail *f)
{
	struct sv status = text_at(n, "/status");
	uint64_t processed = 0, total = 0;

	*ended_r = sv_eq(status, SV("COMPLETED"));
	if (sv_eq(status, SV("FAILED")) || sv_eq(status, SV("CANCELLED")))
		return fail_set(f, FAIL_SEND_REFUSED,
				"the job %.*s is %.*s%s%.*s",
				SV_ARG(text_at(n, "/job_id")), SV_ARG(status),
				doc_get(n, "/error/detail") ? ": " : "",
				SV_ARG(text_at(n, "/error/detail")));
	if (!doc_u64(doc_get(n, "/progress/processed"), 0, UINT32_MAX,
		     &processed) ||
	    !doc_u64(doc_get(n, "/progress/total"), 0, UINT32_MAX, &total))
		return strange("progress", f);
	progress_show(&s->progress, processed, total, "");
	return !*ended_r || read_summary(doc_get(n, "/summary"), counts_r, f);
}

static bool look_at_job(struct sending *s, const char *path,
			struct state_counts *counts_r, bool *ended_r,
			struct fail *f)
{
	struct client_request r = {.path = path, .silence_s = SILENCE_S};
	struct client_answer answer;
	struct doc *d;
	bool ok;

	if (!link_ask(&s->link, &r, NULL, NULL, &answer, f))
		return false;
	ok = doc_parse(buf_sv(&answer.body), &LIMITS, &d, f);
	if (ok) {
		ok = read_job(s, doc_root(d), counts_r, ended_r, f);
		doc_free(d);
	}
	client_answer_release(&answer);
	return ok;
}

static bool follow(struct sending *s, const struct state_batch *b,
		   struct state_counts *counts_r, struct fail *f)
{
	const char *path = arena_printf(&s->o->cli->arena, API "/jobs/%.*s",
					SV_ARG(b->job_id));
	bool ended = false;

	while (look_at_job(s, path, counts_r, &ended, f)) {
		if (ended)
			return true;
		clock_sleep_ms(POLL_MS);
	}
	return false;
}

/* Requests */

static bool take_answer(struct sending *s, struct state_batch *b,
			const struct client_answer *a,
			struct state_counts *counts_r, struct fail *f)
{
	const struct doc_node *n;
	struct doc *d;
	struct sv job_id;
	bool ok;

	if (!doc_parse(buf_sv(&a->body), &LIMITS, &d, f))
		return false;
	n = doc_root(d);
	if (a->status == 202) {
		ok = doc_string(doc_get(n, "/job_id"), &job_id)
			     ? state_job(s->state, b, job_id, f)
			     : strange("job_id", f);
		if (ok)
			progress_note(&s->progress, "taken in as %.*s",
				      SV_ARG(job_id));
	} else {
		ok = read_summary(doc_get(n, "/summary"), counts_r, f);
		tell_items(s, doc_get(n, "/results"), b->first);
	}
	doc_free(d);
	return ok;
}

/* Send it until it is answered, and if it became a job, until that ends. */
static bool deliver(struct sending *s, struct state_batch *b,
		    struct client_request *r, link_begin *begin, struct fail *f)
{
	struct state_counts counts = {0};
	struct client_answer answer;
	bool ok = true;

	r->post = true;
	r->path = s->o->path;
	r->correlation = &b->key;
	r->content_type = "application/x-ndjson";
	r->gzip = s->o->gzip;
	if (!b->job_id.p) {
		if (!link_ask(&s->link, r, begin, s, &answer, f))
			return false;
		ok = take_answer(s, b, &answer, &counts, f);
		client_answer_release(&answer);
	}
	if (ok && b->job_id.p)
		ok = follow(s, b, &counts, f);
	if (!ok || !state_done(s->state, b, &counts, f))
		return false;
	add_counts(&s->sum, &counts);
	return true;
}

/* Batches */

static void put(struct sending *s, struct sv bytes, uint64_t line)
{
	buf_add(&s->body, bytes);
	buf_add_byte(&s->body, '\n');
	s->lines[s->count++] = line;
}

/* The next item; *got_r FEED_END behind the last one. */
static bool next_item(struct sending *s, struct feed_item *item_r,
		      enum feed_got *got_r, struct fail *f)
{
	if (s->has_ahead) {
		s->has_ahead = false;
		item_r->bytes = buf_sv(&s->ahead);
		item_r->line = s->ahead_line;
		*got_r = FEED_ITEM;
		return true;
	}
	*got_r = feed_next(s->feed, item_r, f);
	return *got_r != FEED_FAIL;
}

static void keep_ahead(struct sending *s, const struct feed_item *item)
{
	if (item->bytes.p != s->ahead.p) {
		buf_reset(&s->ahead);
		buf_add(&s->ahead, item->bytes);
	}
	s->ahead_line = item->line;
	s->has_ahead = true;
}

/* So many items, or fewer where the body would become too large. */
static bool fill(struct sending *s, uint64_t most, struct fail *f)
{
	struct feed_item item;
	enum feed_got got;

	buf_reset(&s->body);
	s->count = 0;
	while (s->count < most) {
		if (!next_item(s, &item, &got, f))
			return false;
		if (got == FEED_END)
			return true;
		if (item.bytes.n + 1 >= BODY_MAX - s->body.n) {
			keep_ahead(s, &item);
			return true;
		}
		put(s, item.bytes, item.line);
	}
	return true;
}

static bool send_batch(struct sending *s, struct state_batch *b, uint64_t first,
		       struct fail *f)
{
	struct client_request r = {.silence_s = SILENCE_S};

	if (!feed_check(s->feed, f))
		return false;
	if (!b && !state_begin(s->state, first, s->count, &b, f))
		return false;
	r.body = buf_sv(&s->body);
	return deliver(s, b, &r, NULL, f);
}

static bool send_batches(struct sending *s, struct fail *f)
{
	uint64_t at = 0;

	for (uint64_t no = 0;; no++) {
		struct state_batch *b = state_find(s->state, no);

		if (!fill(s, b ? b->items : s->o->batch_max, f))
			return false;
		if (b && s->count != b->items)
			bug("%s has a batch of %" PRIu64 " items, and %" PRIu64
			    " of them are there",
			    s->file, b->items, s->count);
		if (!s->count)
			return true;
		if (b && b->done)
			add_counts(&s->sum, &b->counts);
		else if (!send_batch(s, b, at, f))
			return false;
		at += s->count;
		progress_show(&s->progress, at, s->scan.items, "");
	}
}

/* The whole file as one request */

static bool source_item(struct sending *s)
{
	struct feed_item item;

	switch (feed_next(s->feed, &item, &s->source_fail)) {
	case FEED_ITEM:
		buf_reset(&s->ahead);
		buf_add(&s->ahead, item.bytes);
		buf_add_byte(&s->ahead, '\n');
		s->rest = buf_sv(&s->ahead);
		progress_show(&s->progress, item.index + 1, s->scan.items,
			      "sent");
		return true;
	case FEED_END:
		s->rest = SV_NONE;
		return feed_check(s->feed, &s->source_fail);
	case FEED_FAIL:
		return false;
	}
	bug("feed_next");
}

static bool source(void *arg, char *p, size_t cap, size_t *n_r)
{
	struct sending *s = arg;

	*n_r = 0;
	while (*n_r < cap) {
		size_t n = s->rest.n < cap - *n_r ? s->rest.n : cap - *n_r;

		if (n)
			memcpy(p + *n_r, s->rest.p, n);
		*n_r += n;
		s->rest = sv_tail(s->rest, n);
		if (s->rest.n)
			continue;
		if (!source_item(s))
			return false;
		if (!s->rest.n)
			break;
	}
	return true;
}

static bool begin_source(void *arg, struct fail *f)
{
	struct sending *s = arg;

	s->rest = SV_NONE;
	return feed_rewind(s->feed, f);
}

static bool send_whole(struct sending *s, struct fail *f)
{
	struct client_request r = {.silence_s = SILENCE_WHOLE_S,
				   .source = source,
				   .source_arg = s};
	struct state_batch *b = state_find(s->state, 0);

	if (b && b->done) {
		add_counts(&s->sum, &b->counts);
		return true;
	}
	if (!b && !state_begin(s->state, 0, s->scan.items, &b, f))
		return false;
	if (deliver(s, b, &r, begin_source, f))
		return true;
	if (s->source_fail.code != FAIL_NONE)
		*f = s->source_fail;
	return false;
}

/* Files */

static bool send_state(struct sending *s, const char *path, struct fail *f)
{
	struct orders *o = s->o;
	bool ok;

	s->what = (struct state_what){
		.file = s->file,
		.url = sv_of(o->url),
		.collection = sv_of(collection_info(o->collection)->name),
		.mode = sv_of(o->mode),
		.size = s->scan.size};
	memcpy(s->what.sha256, s->scan.sha256, sizeof(s->what.sha256));
	if (!state_open(&s->state, path, &s->what, f))
		return false;
	if (state_ended(s->state))
		progress_note(&s->progress,
			      "sent already; remove %s to send it again", path);
	s->progress = progress_begin(s->file);
	ok = o->whole ? send_whole(s, f) : send_batches(s, f);
	if (ok && !state_ended(s->state))
		ok = state_end(s->state, f);
	progress_end(&s->progress);
	o->batches += state_batches(s->state);
	state_close(s->state);
	return ok;
}

static bool send_opened(struct sending *s, struct fail *f)
{
	struct cli *cli = s->o->cli;
	const char *path =
		arena_printf(&cli->arena, "%s.waybill-send", s->file);

	if (cli_given(cli, "--state"))
		path = arena_dup(&cli->arena, cli_value(cli, "--state"));
	return feed_scan(s->feed, &s->scan, f) && send_state(s, path, f);
}

static bool send_file(struct orders *o, const char *file, struct fail *f)
{
	struct sending s = {.o = o,
			    .file = file,
			    .progress = progress_begin(file),
			    .source_fail = FAIL_INIT};
	bool ok;

	s.link = (struct send_link){o->client, &s.progress, o->give_up_ms};
	if (!feed_open(&s.feed, file, o->format, o->collection, f))
		return false;
	buf_init(&s.body, BODY_MAX);
	buf_init(&s.ahead, BODY_MAX);
	s.lines = calloc(BATCH_MAX, sizeof(*s.lines));
	if (!s.lines)
		bug("out of memory for lines");
	ok = send_opened(&s, f);
	add_counts(&o->sum, &s.sum);
	free(s.lines);
	buf_release(&s.body);
	buf_release(&s.ahead);
	feed_close(s.feed);
	return ok;
}

/* The command line */

static bool read_mode(struct orders *o, struct fail *f)
{
	struct cli *cli = o->cli;
	struct sv mode = cli_value(cli, "--mode");
	bool refresh = sv_eq(mode, SV("full-refresh"));

	if (cli_given(cli, "--mode") && !refresh && !sv_eq(mode, SV("upsert")))
		return fail_set(f, FAIL_USAGE,
				"--mode is upsert or full-refresh");
	if ((cli_given(cli, "--confirm") ||
	     cli_given(cli, "--confirm-empty")) &&
	    !refresh)
		return fail_set(f, FAIL_USAGE,
				"--confirm goes with --mode full-refresh");
	if (refresh && cli->word_count > 1)
		return fail_set(f, FAIL_USAGE,
				"a full-refresh is one file: a second one "
				"would undo the first");
	o->whole = refresh || cli_given(cli, "--bulk");
	o->mode = refresh ? "full-refresh" : o->whole ? "bulk" : "upsert";
	if (o->whole && cli_given(cli, "--batch"))
		return fail_set(f, FAIL_USAGE,
				"--batch does not go with --bulk and "
				"full-refresh, which are one request");
	return true;
}

static bool read_numbers(struct orders *o, struct fail *f)
{
	struct cli *cli = o->cli;

	o->batch_max = BATCH_DEFAULT;
	o->give_up_ms = GIVE_UP_DEFAULT_MS;
	if (cli_given(cli, "--batch") &&
	    !text_u64(cli_value(cli, "--batch"), 1, BATCH_MAX, &o->batch_max))
		return fail_set(f, FAIL_USAGE,
				"--batch is a number from 1 to %d", BATCH_MAX);
	if (cli_given(cli, "--give-up") &&
	    !text_duration_ms(cli_value(cli, "--give-up"), &o->give_up_ms))
		return fail_set(f, FAIL_USAGE,
				"--give-up is a duration, such as 30s or 2h");
	return true;
}

static bool read_words(struct orders *o, struct fail *f)
{
	struct cli *cli = o->cli;

	if (!cli_given(cli, "--url"))
		return fail_set(f, FAIL_USAGE, "--url is needed");
	if (!cli_given(cli, "--collection"))
		return fail_set(f, FAIL_USAGE, "--collection is needed");
	o->url = arena_dup(&cli->arena, cli_value(cli, "--url"));
	if (!collection_named(cli_value(cli, "--collection"), &o->collection))
		return fail_set(f, FAIL_USAGE, "there is no collection %.*s",
				SV_ARG(cli_value(cli, "--collection")));
	o->format = FEED_BY_NAME;
	if (cli_given(cli, "--format") &&
	    !feed_format_of(cli_value(cli, "--format"), &o->format))
		return fail_set(f, FAIL_USAGE,
				"--format is ndjson, json or csv");
	if (cli_given(cli, "--state") && cli->word_count > 1)
		return fail_set(f, FAIL_USAGE,
				"--state goes with one file: each has its own");
	o->gzip = cli_given(cli, "--gzip");
	return read_mode(o, f) && read_numbers(o, f);
}

static bool read_key(struct cli *cli, struct sv *key_r, struct fail *f)
{
	const char *env = getenv("WAYBILL_KEY");

	if (cli_given(cli, "--key-file"))
		return conf_secret(
			&cli->arena,
			arena_dup(&cli->arena, cli_value(cli, "--key-file")),
			key_r, f);
	if (!env || !*env)
		return fail_set(f, FAIL_USAGE,
				"the API key is missing: set WAYBILL_KEY or "
				"name a file with --key-file");
	*key_r = sv_of(env);
	return true;
}

static bool connect_client(struct orders *o, struct fail *f)
{
	struct cli *cli = o->cli;
	struct client_conf conf = {.url = o->url};

	if (cli_given(cli, "--ca"))
		conf.ca = arena_dup(&cli->arena, cli_value(cli, "--ca"));
	return read_key(cli, &conf.key, f) && client_new(&o->client, &conf, f);
}

static void make_path(struct orders *o)
{
	const struct collection_info *c = collection_info(o->collection);
	struct cli *cli = o->cli;

	o->path = arena_printf(
		&cli->arena, API "/%s/%s?mode=%s&return=failures%s%s", c->area,
		c->name, o->mode,
		cli_given(cli, "--confirm") ? "&confirm=true" : "",
		cli_given(cli, "--confirm-empty") ? "&confirm_empty=true" : "");
}

static void print_sum(const struct orders *o)
{
	const struct state_counts *c = &o->sum;

	if (o->cli->json) {
		printf("{\"batches\":%" PRIu64 ",\"total\":%" PRIu64
		       ",\"accepted\":%" PRIu64 ",\"replay\":%" PRIu64
		       ",\"quarantined\":%" PRIu64 ",\"rejected\":%" PRIu64
		       ",\"tombstoned\":%" PRIu64 "}\n",
		       o->batches, c->total, c->accepted, c->replay,
		       c->quarantined, c->rejected, c->tombstoned);
		return;
	}
	printf("%" PRIu64 " items in %" PRIu64 " requests: %" PRIu64
	       " accepted, %" PRIu64 " replay, %" PRIu64
	       " quarantined, %" PRIu64 " rejected",
	       c->total, o->batches, c->accepted, c->replay, c->quarantined,
	       c->rejected);
	if (strcmp(o->mode, "full-refresh") == 0)
		printf(", %" PRIu64 " tombstoned", c->tombstoned);
	putchar('\n');
}

static bool send(struct cli *cli, struct fail *f)
{
	struct orders o = {.cli = cli};
	bool ok;

	if (!read_words(&o, f) || !connect_client(&o, f))
		return false;
	make_path(&o);
	ok = true;
	for (size_t i = 0; ok && i < cli->word_count; i++)
		ok = send_file(&o, arena_dup(&cli->arena, cli->words[i]), f);
	client_free(o.client);
	if (!ok)
		return false;
	print_sum(&o);
	if (o.sum.quarantined || o.sum.rejected)
		cli->exit_status = EXIT_SOME;
	return true;
}

const struct cli_command CMD_SEND = {
	"send",
	"",
	"--url URL --collection C [--ca FILE] [--key-file FILE] "
	"[--mode upsert|full-refresh] [--bulk] [--batch N] [--gzip] "
	"[--format F] [--state FILE] [--give-up DURATION] FILE...",
	OPTIONS,
	1,
	CLI_WORDS_MAX,
	false,
	send};
