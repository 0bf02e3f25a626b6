/* What waybill doctor looks at in the database. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/doctor.h"

#include "base/buf.h"
#include "db/grant.h"
#include "db/migrate.h"
#include "db/txn.h"
#include "main/partitions.h"

enum {
	/* retention run keeps them a week ahead; two days leave time to mend
	 * it. */
	DAYS_AHEAD_MIN = 2,
	/* It makes a partition a day, and may begin late on either of two. */
	RETENTION_DAYS_MAX = 2,
	/* Beyond the FastCGI workers: job workers, retention, commands. */
	OTHER_SESSIONS = 16,
	PACKET_MIN_MIB = 16,
	STUCK_S = 900,
};

static bool not_looked_at(struct fail *f)
{
	return fail_set(f, FAIL_DB_AWAY,
			"not looked at: the database could not be used");
}

static bool open_session(struct patient *p, enum db_role role, struct db **db_r,
			 struct fail *f)
{
	struct db *db;

	if (!db_new(&db, &p->cli->conf, role, f))
		return false;
	if (!db_ready(db, f)) {
		db_free(db);
		return false;
	}
	snprintf(p->found, sizeof(p->found), "%s", db_server(db)->text);
	*db_r = db;
	return true;
}

/* Connecting checks durability and the session's settings too. */
enum doctor_verdict doctor_service(struct patient *p, struct fail *f)
{
	return doctor_says(open_session(p, DB_SERVICE, &p->service, f));
}

enum doctor_verdict doctor_owner(struct patient *p, struct fail *f)
{
	return doctor_says(open_session(p, DB_OWNER, &p->owner, f));
}

static bool schema_ok(struct patient *p, struct fail *f)
{
	unsigned held, wanted;

	if (!p->service)
		return not_looked_at(f);
	if (!migrate_status(p->service, &held, &wanted, f))
		return false;
	snprintf(p->found, sizeof(p->found), "version %u", held);
	if (held < wanted)
		return fail_set(f, FAIL_NOT_READY,
				"the schema is at version %u, this program "
				"needs %u: run waybill migrate",
				held, wanted);
	if (held > wanted)
		return fail_set(f, FAIL_NOT_READY,
				"the schema is at version %u, this program "
				"knows only %u: install the newer program",
				held, wanted);
	return true;
}

enum doctor_verdict doctor_schema(struct patient *p, struct fail *f)
{
	return doctor_says(schema_ok(p, f));
}

/* Settings of the server, in the order of doctor_server's pairs of columns:
 * the value, and 1 if it is as it should be. */
enum setting {
	SET_FLUSH,
	SET_BINLOG,
	SET_DOUBLEWRITE,
	SET_PACKET,
	SET_CONNECTIONS,
	SET_READ_ONLY,
};

static const char *const SETTING_ADVICE[] = {
	[SET_FLUSH] = "set innodb_flush_log_at_trx_commit = 1: with less an "
		      "answer can be lost with the machine",
	[SET_BINLOG] = "set sync_binlog = 1: with less a replica or a backup "
		       "lacks what was answered",
	[SET_DOUBLEWRITE] = "set innodb_doublewrite = ON: without, a page that "
			    "was half written when the power went is lost",
	[SET_PACKET] = "set max_allowed_packet to 16M or more: a batch and "
		       "its answer are sent in few statements",
	[SET_CONNECTIONS] = "raise max_connections: each worker has a "
			    "connection (workers, and 16 for the others)",
	[SET_READ_ONLY] = "the server is set read_only: connect to the "
			  "primary, or unset it",
};

static bool ask_server(struct patient *p, struct fail *f)
{
	uint64_t sessions = p->cli->conf.workers + OTHER_SESSIONS;

	if (!p->service)
		return not_looked_at(f);
	return p->server.rows ||
	       db_query(p->service, STMT_DOCTOR_SERVER,
			DB_ARGS(db_uint((uint64_t)PACKET_MIN_MIB << 20),
				db_uint(sessions)),
			&p->cli->arena, &p->server, f);
}

static enum doctor_verdict setting(struct patient *p, enum setting s,
				   struct fail *f)
{
	struct sv value;

	if (!ask_server(p, f))
		return DOCTOR_BAD;
	value = db_cell(&p->server, 0, 2 * (size_t)s)->bytes;
	snprintf(p->found, sizeof(p->found), "%.*s", SV_ARG(value));
	if (db_cell(&p->server, 0, 2 * (size_t)s + 1)->i == 1)
		return DOCTOR_OK;
	return doctor_says(fail_set(f, FAIL_CONF, "%s", SETTING_ADVICE[s]));
}

enum doctor_verdict doctor_flush(struct patient *p, struct fail *f)
{
	return setting(p, SET_FLUSH, f);
}

enum doctor_verdict doctor_binlog(struct patient *p, struct fail *f)
{
	return setting(p, SET_BINLOG, f);
}

enum doctor_verdict doctor_doublewrite(struct patient *p, struct fail *f)
{
	return setting(p, SET_DOUBLEWRITE, f);
}

enum doctor_verdict doctor_packet(struct patient *p, struct fail *f)
{
	return setting(p, SET_PACKET, f);
}

enum doctor_verdict doctor_connections(struct patient *p, struct fail *f)
{
	return setting(p, SET_CONNECTIONS, f);
}

enum doctor_verdict doctor_writable(struct patient *p, struct fail *f)
{
	return setting(p, SET_READ_ONLY, f);
}

static enum db_step try_ddl(struct db *db, const struct db_attempt *at,
			    void *arg, struct fail *f)
{
	bool *refused = arg;
	uint64_t n;

	(void)at;
	if (db_exec(db, STMT_DOCTOR_DDL, DB_NO_ARGS, &n, f))
		return DB_STEP_ROLLBACK;
	*refused = true;
	return DB_STEP_FAIL;
}

/* The statement alters nothing, but only somebody who may alter gets an
 * answer to it. */
enum doctor_verdict doctor_no_ddl(struct patient *p, struct fail *f)
{
	bool refused = false;
	struct fail wanted = FAIL_INIT;

	if (!p->service)
		return doctor_says(not_looked_at(f));
	if (!db_txn(p->service,
		    &(struct db_txn){.name = "doctor.grants",
				     .work = try_ddl,
				     .arg = &refused},
		    &wanted) &&
	    refused)
		return DOCTOR_OK;
	return doctor_says(fail_set(
		f, FAIL_CONF,
		"the service's account may change the schema: run waybill "
		"migrate, which takes back what is not listed"));
}

static bool rights_ok(struct patient *p, enum grant_to to, struct fail *f)
{
	struct grant_diff diff;
	struct buf b;
	bool ok;

	if (!p->owner)
		return not_looked_at(f);
	if (!grant_look(p->owner, to, &p->cli->arena, &diff, f))
		return false;
	snprintf(p->found, sizeof(p->found), "%s", diff.account);
	if (!diff.missing_count && !diff.excess_count)
		return true;
	buf_init(&b, 128);
	grant_text(&b, diff.excess_count ? diff.excess : diff.missing);
	ok = fail_set(f, FAIL_CONF,
		      "%s has %zu rights too many and %zu too few (%s, for "
		      "one): run waybill migrate",
		      diff.account, diff.excess_count, diff.missing_count,
		      buf_cstr(&b));
	buf_release(&b);
	return ok;
}

enum doctor_verdict doctor_service_rights(struct patient *p, struct fail *f)
{
	return doctor_says(rights_ok(p, GRANT_TO_SERVICE, f));
}

enum doctor_verdict doctor_ro_rights(struct patient *p, struct fail *f)
{
	return doctor_says(rights_ok(p, GRANT_TO_RO, f));
}

/* Everybody sees their own rights. */
static bool foreign_ok(struct patient *p, struct fail *f)
{
	const char *account = p->cli->conf.db_service_account;
	struct db_table t;
	struct sv user;

	if (!p->service)
		return not_looked_at(f);
	if (!db_query(p->service, STMT_DOCTOR_FOREIGN, DB_NO_ARGS,
		      &p->cli->arena, &t, f))
		return false;
	user = db_cell(&t, 0, 0)->bytes;
	snprintf(p->found, sizeof(p->found), "%.*s", SV_ARG(user));
	if (*account && !sv_eq(user, sv_of(account)))
		return fail_set(f, FAIL_CONF,
				"the server knows the service as %.*s, but "
				"db_service_account is %s: set it so, and run "
				"waybill migrate",
				SV_ARG(user), account);
	if (db_cell(&t, 0, 1)->u)
		return fail_set(f, FAIL_CONF,
				"%.*s has rights on the whole server or on "
				"other schemas: let an administrator look at "
				"SHOW GRANTS and revoke them",
				SV_ARG(user));
	return true;
}

enum doctor_verdict doctor_foreign_rights(struct patient *p, struct fail *f)
{
	return doctor_says(foreign_ok(p, f));
}

enum doctor_verdict doctor_clock(struct patient *p, struct fail *f)
{
	int64_t skew_ms;

	if (!p->service)
		return doctor_says(not_looked_at(f));
	skew_ms = db_clock_skew_ms(p->service);
	snprintf(p->found, sizeof(p->found), "%lld ms apart",
		 (long long)skew_ms);
	if ((uint64_t)llabs(skew_ms) > p->cli->conf.clock_skew_max_ms)
		return doctor_says(fail_set(
			f, FAIL_NOT_READY,
			"the database's clock differs by %lld ms: run chrony "
			"or ntpd on both",
			(long long)skew_ms));
	return DOCTOR_OK;
}

static bool table_ok(const struct partition_state *s, uint32_t today,
		     struct fail *f)
{
	char date[CLOCK_TEXT];

	if (s->next == 0)
		return fail_set(f, FAIL_NOT_READY,
				"%s has no day partitions: run waybill "
				"retention run",
				s->table);
	partitions_date(s->next - 1, date);
	if (s->next <= today + DAYS_AHEAD_MIN)
		return fail_set(f, FAIL_NOT_READY,
				"the partitions of %s end with %s: run waybill "
				"retention run, and keep it running with "
				"--every 1h",
				s->table, date);
	if (s->stray)
		return fail_set(f, FAIL_NOT_READY,
				"the catch-all partition of %s holds rows of "
				"days after %s: is a clock wrong? They move "
				"when waybill retention run gets there",
				s->table, date);
	return true;
}

static bool partitions_ok(struct patient *p, struct fail *f)
{
	struct partition_state s[PARTITION_TABLES];

	if (!p->owner)
		return not_looked_at(f);
	if (!partition_look(p->owner, s, f))
		return false;
	for (size_t i = 0; i < PARTITION_TABLES; i++)
		if (!table_ok(&s[i], clock_day(db_wall_ms(p->owner)), f))
			return false;
	return true;
}

enum doctor_verdict doctor_partitions(struct patient *p, struct fail *f)
{
	return doctor_says(partitions_ok(p, f));
}

/* Each run makes the partition of the day a week ahead: how many are missing
 * tells for how many days it did not run. */
static bool retention_ok(struct patient *p, struct fail *f)
{
	struct partition_state s[PARTITION_TABLES];
	uint32_t first, wanted;

	if (!p->owner)
		return not_looked_at(f);
	if (!partition_look(p->owner, s, f))
		return false;
	first = s[0].next;
	for (size_t i = 1; i < PARTITION_TABLES; i++)
		first = s[i].next < first ? s[i].next : first;
	wanted = clock_day(db_wall_ms(p->owner)) + PARTITION_DAYS_AHEAD + 1;
	if (first + RETENTION_DAYS_MAX > wanted)
		return true;
	return fail_set(f, FAIL_NOT_READY,
			"waybill retention run has not run for %u days or "
			"more: keep it running with --every 1h, or by a timer",
			first && wanted - first <= PARTITION_DAYS_AHEAD
				? wanted - first
				: PARTITION_DAYS_AHEAD);
}

enum doctor_verdict doctor_retention(struct patient *p, struct fail *f)
{
	return doctor_says(retention_ok(p, f));
}

static bool jobs_ok(struct patient *p, struct fail *f)
{
	struct db_table t;
	uint64_t open, stuck;

	if (!p->owner)
		return not_looked_at(f);
	if (!db_query(p->owner, STMT_DOCTOR_JOBS, DB_ARGS(db_uint(STUCK_S)),
		      &p->cli->arena, &t, f))
		return false;
	open = db_cell(&t, 0, 0)->u;
	stuck = db_cell(&t, 0, 1)->u;
	snprintf(p->found, sizeof(p->found), "%llu unfinished",
		 (unsigned long long)open);
	if (!stuck)
		return true;
	return fail_set(f, FAIL_NOT_READY,
			"%llu jobs have been waiting for a worker for %d "
			"minutes: does waybill-worker run, and are there "
			"enough of them? waybill job list shows the jobs",
			(unsigned long long)stuck, STUCK_S / 60);
}

enum doctor_verdict doctor_jobs(struct patient *p, struct fail *f)
{
	return doctor_says(jobs_ok(p, f));
}
