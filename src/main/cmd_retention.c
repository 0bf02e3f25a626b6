/* waybill retention run: makes the partitions of the days to come, drops those
 * of days that nobody may ask for any more, and sweeps what is left over:
 * intakes that never became a job, names of refreshes, expired request keys,
 * old days of quotas. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <signal.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "db/partition.h"
#include "gate/quota.h"
#include "gate/reqkey.h"
#include "job/chunks.h"
#include "job/queue.h"
#include "main/cli.h"
#include "main/partitions.h"

enum {
	STEP_MS = 500,    /* how soon a signal is noticed */
	AGAIN_MS = 30000, /* after a run that failed */
	DAY_MS = 86400000,
	SPARE_DAYS = 2, /* an old day is kept for so long after its time */
};

static const struct cli_option OPTIONS[] = {
	{"--once", CLI_FLAG}, {"--every", CLI_VALUE}, {NULL, CLI_FLAG}};

static volatile sig_atomic_t told_to_leave;

static void leave(int sig)
{
	(void)sig;
	told_to_leave = 1;
}

bool partitions_ahead(struct db *owner,
		      struct partition_state s_r[PARTITION_TABLES],
		      struct fail *f)
{
	return db_ready(owner, f) &&
	       partition_run(owner, clock_day(db_wall_ms(owner)), s_r, f);
}

void partitions_date(uint32_t day, char out[CLOCK_TEXT])
{
	clock_rfc3339((uint64_t)day * DAY_MS, out);
	out[10] = '\0';
}

static uint64_t less(uint64_t from, uint64_t by)
{
	return from > by ? from - by : 0;
}

/* A day is past when everything of it is older than the retention, and then
 * some: nothing that is still allowed (a replay, an undo, a requeue) can have
 * begun so long ago. What has begun and is unfinished keeps its days. */
static bool drop_old(struct cli *cli, struct partition_state *s, struct fail *f)
{
	const uint64_t kept_ms =
		cli->conf.retention_ms + (uint64_t)SPARE_DAYS * DAY_MS;
	uint32_t keep_from, needed;

	if (!db_ready(cli->db, f))
		return false;
	keep_from = clock_day(less(db_wall_ms(cli->db), kept_ms));
	if (!queue_oldest_day(cli->db, &needed, f))
		return false;
	return partition_drop(cli->db, needed < keep_from ? needed : keep_from,
			      s, f);
}

/* An intake takes intake_deadline at most, which is below a day. */
static bool sweep_intakes(struct cli *cli, uint64_t *swept_r, struct fail *f)
{
	return chunks_sweep(cli->db, less(db_wall_ms(cli->db), DAY_MS), swept_r,
			    f);
}

static bool sweep_names(struct cli *cli, uint64_t *swept_r, struct fail *f)
{
	uint64_t swept = 1;
	bool ok = true;
	struct arena a;

	arena_init(&a, 4096);
	while (ok && swept && !told_to_leave) {
		arena_reset(&a);
		ok = chunks_drop_names(cli->db, CHUNKS_GONE, &a, &swept, f);
		*swept_r += swept;
	}
	arena_release(&a);
	return ok;
}

static bool sweep_keys(struct cli *cli, uint64_t *swept_r, struct fail *f)
{
	uint64_t swept = 1;

	while (swept && !told_to_leave) {
		if (!reqkey_sweep(cli->db, &swept, f))
			return false;
		*swept_r += swept;
	}
	return true;
}

static bool sweep_quotas(struct cli *cli, uint64_t *swept_r, struct fail *f)
{
	uint32_t today = clock_day(db_wall_ms(cli->db));

	return quota_sweep(cli->db, today - QUOTA_DAYS_KEPT, swept_r, f);
}

static const struct sweep {
	const char *what;
	bool (*run)(struct cli *cli, uint64_t *swept_r, struct fail *f);
} SWEEPS[] = {
	{"intakes without a job", sweep_intakes},
	{"names of refreshes", sweep_names},
	{"expired request keys", sweep_keys},
	{"old days of quotas", sweep_quotas},
};

static bool sweep(struct cli *cli, struct fail *f)
{
	for (size_t i = 0; i < ARRAY_LEN(SWEEPS); i++) {
		uint64_t swept = 0;

		if (!db_ready(cli->db, f) || !SWEEPS[i].run(cli, &swept, f))
			return false;
		if (swept)
			log_say(LOG_INFO, "retention", "swept %" PRIu64 " %s",
				swept, SWEEPS[i].what);
	}
	return true;
}

/* All of it, once. */
static bool run_all(struct cli *cli, struct partition_state *s, struct fail *f)
{
	return partitions_ahead(cli->db, s, f) && drop_old(cli, s, f) &&
	       sweep(cli, f);
}

static bool run_once(struct cli *cli, struct fail *f)
{
	static const char *const NAMES[] = {"table", "made", "dropped", "until",
					    "catch_all"};
	enum { R_TABLE, R_MADE, R_DROPPED, R_UNTIL, R_CATCH_ALL, R_COLUMNS };
	struct db_val cells[PARTITION_TABLES * R_COLUMNS];
	struct db_table t = {PARTITION_TABLES, R_COLUMNS, cells};
	struct partition_state s[PARTITION_TABLES];
	char dates[PARTITION_TABLES][CLOCK_TEXT];

	if (!run_all(cli, s, f))
		return false;
	for (size_t i = 0; i < PARTITION_TABLES; i++) {
		struct db_val *row = cells + i * R_COLUMNS;

		partitions_date(s[i].next - 1, dates[i]);
		row[R_TABLE] = db_text(sv_of(s[i].table));
		row[R_MADE] = db_uint(s[i].made);
		row[R_DROPPED] = db_uint(s[i].dropped);
		row[R_UNTIL] = db_text(sv_of(dates[i]));
		row[R_CATCH_ALL] =
			db_text(s[i].stray ? SV("HOLDS ROWS") : SV("empty"));
	}
	cli_table(cli, NAMES, &t);
	return true;
}

static void log_run(const struct partition_state *s)
{
	struct log_line l;
	char date[CLOCK_TEXT];

	for (size_t i = 0; i < PARTITION_TABLES; i++) {
		partitions_date(s[i].next - 1, date);
		log_begin(&l, s[i].stray ? LOG_WARN : LOG_INFO, "retention");
		log_str(&l, "table", sv_of(s[i].table));
		log_num(&l, "made", s[i].made);
		log_num(&l, "dropped", s[i].dropped);
		log_str(&l, "until", sv_of(date));
		if (s[i].stray)
			log_str(&l, "note",
				SV("the catch-all partition holds rows"));
		log_end(&l);
	}
}

static void wait_ms(uint64_t ms)
{
	uint64_t end = clock_mono_ms() + ms;

	while (!told_to_leave && clock_mono_ms() < end)
		clock_sleep_ms(STEP_MS);
}

/* Goes on whatever happens: partitions are ahead by days, so that a database
 * that is away for hours is no reason to end. */
static void run_for_ever(struct cli *cli, uint64_t every_ms)
{
	while (!told_to_leave) {
		struct partition_state s[PARTITION_TABLES];
		struct fail f = FAIL_INIT;
		struct log_line l;

		if (run_all(cli, s, &f)) {
			log_run(s);
			wait_ms(every_ms);
			continue;
		}
		log_begin(&l, LOG_ERROR, "retention");
		log_fail(&l, &f);
		log_end(&l);
		wait_ms(every_ms < AGAIN_MS ? every_ms : AGAIN_MS);
	}
}

static bool run(struct cli *cli, struct fail *f)
{
	struct sigaction on = {.sa_handler = leave};
	uint64_t every_ms;

	if (!cli_given(cli, "--every"))
		return run_once(cli, f);
	if (cli_given(cli, "--once"))
		return fail_set(f, FAIL_USAGE, "--once or --every, not both");
	if (!text_duration_ms(cli_value(cli, "--every"), &every_ms) ||
	    every_ms < 1000 || every_ms > DAY_MS)
		return fail_set(f, FAIL_USAGE,
				"--every is a duration from 1s to 1d");
	sigaction(SIGTERM, &on, NULL);
	sigaction(SIGINT, &on, NULL);
	run_for_ever(cli, every_ms);
	log_say(LOG_INFO, "stop", "told to leave");
	return true;
}

const struct cli_command CMD_RETENTION_RUN = {
	"retention", "run", "[--once | --every DURATION]", OPTIONS, 0, 0,
	true,        run};
