/* What the accounts may do: granted, compared, taken back. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "db/grant.h"

#include "db_private.h"

#include "base/fault.h"
#include "db/migration_table.h"

enum {
	USER_MAX = 32,
	HOST_MAX = 60,
	STATEMENT_MAX = 4096,
	RIGHTS_MAX = 4096, /* of one account; the listed ones are hundreds */
};

static const struct account_row {
	const char *place, *setting;
} ACCOUNTS[] = {
	[GRANT_TO_SERVICE] = {"{service}", "db_service_account"},
	[GRANT_TO_RO] = {"{ro}", "db_ro_account"},
};

/* What the server answers when what shall be taken back is gone already: a
 * right on a column goes with the same right on its table. */
static const unsigned GONE_BEFORE[] = {1141, 1147};

/* Names of rights that the server's tables spell in a way of their own. */
static const struct spelling {
	const char *stored, *sql;
} SPELLINGS[] = {
	{"Grant", "GRANT OPTION"},
	{"Delete versioning rows", "DELETE HISTORY"},
};

static const char *account_of(const struct conf *c, enum grant_to to)
{
	switch (to) {
	case GRANT_TO_SERVICE:
		return c->db_service_account;
	case GRANT_TO_RO:
		return c->db_ro_account;
	case GRANT_ACCOUNTS:
		break;
	}
	bug("account %d", (int)to);
}

static bool is_name_byte(char c, const char *more)
{
	return isalnum((unsigned char)c) || (c && strchr(more, c));
}

static bool name_ok(struct sv s, size_t max, const char *more)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_name_byte(s.p[i], more))
			return false;
	return s.n > 0 && s.n <= max;
}

static bool split_account(const char *setting, const char *account,
			  struct sv *user_r, struct sv *host_r, struct fail *f)
{
	*host_r = sv_of(account);
	*user_r = sv_cut(host_r, '@');
	if (name_ok(*user_r, USER_MAX, "_.-") &&
	    name_ok(*host_r, HOST_MAX, "_.-%:"))
		return true;
	return fail_set(f, FAIL_CONF,
			"%s = %s: want user@host, of letters, digits and _.- "
			"(in the host also %% and :)",
			setting, account);
}

bool grant_account(struct buf *b, const char *setting, const char *account,
		   struct fail *f)
{
	struct sv user, host;

	if (!split_account(setting, account, &user, &host, f))
		return false;
	buf_addf(b, "'%.*s'@'%.*s'", SV_ARG(user), SV_ARG(host));
	return true;
}

/* A list of rights that grows up to its ceiling. */
struct rights {
	struct grant_right *v;
	size_t n;
};

static void rights_init(struct rights *r, struct arena *a)
{
	r->v = arena_array(a, RIGHTS_MAX, sizeof(*r->v));
	r->n = 0;
}

static bool rights_add(struct rights *r, struct grant_right right)
{
	if (r->n == RIGHTS_MAX)
		return false;
	r->v[r->n++] = right;
	return true;
}

static bool right_eq(const struct grant_right *a, const struct grant_right *b)
{
	return sv_eq_nocase(a->privilege, b->privilege) &&
	       sv_eq(a->table, b->table) && sv_eq(a->column, b->column) &&
	       sv_eq(a->schema, b->schema);
}

static bool rights_have(const struct rights *r, const struct grant_right *one)
{
	for (size_t i = 0; i < r->n; i++)
		if (right_eq(&r->v[i], one))
			return true;
	return false;
}

/* `b` without what is in `a`. */
static struct rights rights_less(struct arena *arena, const struct rights *b,
				 const struct rights *a)
{
	struct rights left;

	rights_init(&left, arena);
	for (size_t i = 0; i < b->n; i++)
		if (!rights_have(a, &b->v[i]) && !rights_add(&left, b->v[i]))
			bug("a part is larger than the whole");
	return left;
}

/* "UPDATE (a, b)" is one right a column, "SELECT" one of the table. Takes it
 * off the front of a list of them. */
static void read_listed(struct sv *list, struct sv table, struct rights *r)
{
	size_t at = 0;
	struct grant_right right = {.table = table};
	struct sv columns;

	while (at < list->n && list->p[at] != ',' && list->p[at] != '(')
		at++;
	right.privilege = sv_trim(sv_from(list->p, at));
	if (at == list->n || list->p[at] == ',') {
		*list = sv_tail(*list, at < list->n ? at + 1 : at);
		if (!rights_add(r, right))
			bug("sql/grants.sql lists too many rights");
		return;
	}
	*list = sv_tail(*list, at + 1);
	columns = sv_cut(list, ')');
	sv_cut(list, ',');
	while (columns.n) {
		right.column = sv_trim(sv_cut(&columns, ','));
		if (!rights_add(r, right))
			bug("sql/grants.sql lists too many rights");
	}
}

/* "GRANT RIGHTS ON TABLE TO {place}" */
static void read_grant(const char *grant, enum grant_to to, struct rights *r)
{
	const char *on = strstr(grant, " ON "), *give = strstr(grant, " TO ");
	struct sv list, table;

	if (!on || !give || give < on || !sv_starts(sv_of(grant), SV("GRANT ")))
		bug("not of the form GRANT ... ON ... TO: %s", grant);
	if (strcmp(give + 4, ACCOUNTS[to].place) != 0)
		return;
	list = sv_from(grant + 6, (size_t)(on - grant) - 6);
	table = sv_trim(sv_from(on + 4, (size_t)(give - on) - 4));
	while (list.n)
		read_listed(&list, table, r);
}

static struct sv spelled(struct sv stored)
{
	for (size_t i = 0; i < ARRAY_LEN(SPELLINGS); i++)
		if (sv_eq_nocase(stored, sv_of(SPELLINGS[i].stored)))
			return sv_of(SPELLINGS[i].sql);
	return stored;
}

static bool read_held(const struct db_table *t, size_t row, struct rights *r)
{
	struct sv list = db_cell(t, row, 3)->bytes;

	while (list.n) {
		struct grant_right right = {
			.privilege = spelled(sv_cut(&list, ',')),
			.table = db_cell(t, row, 0)->bytes,
			.column = db_cell(t, row, 1)->bytes,
			.schema = db_cell(t, row, 2)->bytes};

		if (!rights_add(r, right))
			return false;
	}
	return true;
}

static bool look_up_held(struct db *owner, struct sv user, struct sv host,
			 struct arena *a, struct rights *held, struct fail *f)
{
	struct db_val u = db_text(user), h = db_text(host);
	char log[sizeof(f->log)];
	struct db_table t;

	if (!db_query(owner, STMT_GRANT_HELD, DB_ARGS(u, h, u, h, u, h), a, &t,
		      f)) {
		if (fail_info(f->code)->status == 503)
			return false;
		memcpy(log, f->log, sizeof(log));
		fail_set(f, FAIL_MIGRATION,
			 "the owner may not read what %.*s may do: let an "
			 "administrator run sql/accounts.sql again",
			 SV_ARG(user));
		return fail_log(f, "%s", log);
	}
	for (size_t row = 0; row < t.rows; row++)
		if (!read_held(&t, row, held))
			return fail_set(f, FAIL_MIGRATION,
					"%.*s has over %d rights in this "
					"schema: drop the account and run "
					"sql/accounts.sql again",
					SV_ARG(user), RIGHTS_MAX);
	return true;
}

bool grant_look(struct db *owner, enum grant_to to, struct arena *a,
		struct grant_diff *diff_r, struct fail *f)
{
	const char *account = account_of(owner->conf, to);
	struct rights listed, held, missing, excess;
	struct sv user, host;

	*diff_r = (struct grant_diff){.account = account};
	if (!*account)
		return true;
	if (!split_account(ACCOUNTS[to].setting, account, &user, &host, f))
		return false;
	rights_init(&listed, a);
	rights_init(&held, a);
	for (unsigned i = 0; i < GRANT_COUNT; i++)
		read_grant(GRANTS[i], to, &listed);
	if (!look_up_held(owner, user, host, a, &held, f))
		return false;
	missing = rights_less(a, &listed, &held);
	excess = rights_less(a, &held, &listed);
	*diff_r = (struct grant_diff){account, missing.v, excess.v, missing.n,
				      excess.n};
	return true;
}

void grant_text(struct buf *b, const struct grant_right *r)
{
	buf_add(b, r->privilege);
	if (r->column.n)
		buf_addf(b, " (%.*s)", SV_ARG(r->column));
	if (r->table.n)
		buf_addf(b, " ON %.*s", SV_ARG(r->table));
	else
		buf_add_text(b, " ON the schema");
}

/* GRANT and REVOKE commit by themselves; there is nothing to roll back. */
static enum db_step account_work(struct db *db, const struct db_attempt *at,
				 void *arg, struct fail *f)
{
	(void)at;
	fault_at("migrate.before_grant");
	return db_run_step(db, arg, f) ? DB_STEP_ROLLBACK : DB_STEP_FAIL;
}

/* `advice`: what to do when the server refuses. */
static bool run_statement(struct db *owner, char *text, const char *advice,
			  struct fail *f)
{
	char log[sizeof(f->log)];

	if (db_txn(owner,
		   &(struct db_txn){.name = "migrate.grant",
				    .work = account_work,
				    .arg = text},
		   f))
		return true;
	if (fail_info(f->code)->status == 503)
		return false;
	memcpy(log, f->log, sizeof(log));
	fail_set(f, FAIL_MIGRATION, "cannot: %s; %s", text, advice);
	return fail_log(f, "%s", log);
}

/* *to_r: GRANT_ACCOUNTS if conf names no account for this line. */
static const char *place_of(const struct conf *c, const char *grant,
			    enum grant_to *to_r)
{
	const char *place = strchr(grant, '{');

	for (int i = 0; place && i < GRANT_ACCOUNTS; i++)
		if (strcmp(place, ACCOUNTS[i].place) == 0) {
			*to_r = *account_of(c, (enum grant_to)i)
					? (enum grant_to)i
					: GRANT_ACCOUNTS;
			return place;
		}
	bug("a grant without an account: %s", grant);
}

static bool run_grant(struct db *owner, const char *grant, struct fail *f)
{
	char text[STATEMENT_MAX];
	enum grant_to to;
	const char *place = place_of(owner->conf, grant, &to);
	struct buf b;
	bool ok;

	if (to == GRANT_ACCOUNTS)
		return true;
	buf_init(&b, sizeof(text) - 1);
	buf_add(&b, sv_from(grant, (size_t)(place - grant)));
	ok = grant_account(&b, ACCOUNTS[to].setting,
			   account_of(owner->conf, to), f);
	if (ok && !buf_ok(&b))
		bug("a grant is too long: %s", grant);
	if (ok)
		snprintf(text, sizeof(text), "%s", buf_cstr(&b));
	buf_release(&b);
	return ok && run_statement(owner, text,
				   "were the accounts made "
				   "(sql/accounts.sql)?",
				   f);
}

static bool grant_all(struct db *owner, struct fail *f)
{
	for (unsigned i = 0; i < GRANT_COUNT; i++)
		if (!run_grant(owner, GRANTS[i], f))
			return false;
	return true;
}

/* A name of the server's own, in back quotes. */
static void add_quoted(struct buf *b, struct sv name)
{
	buf_add_byte(b, '`');
	for (size_t i = 0; i < name.n; i++) {
		if (name.p[i] == '`')
			buf_add_byte(b, '`');
		buf_add_byte(b, name.p[i]);
	}
	buf_add_byte(b, '`');
}

static void write_revoke(struct buf *b, const struct grant_right *r,
			 struct sv schema)
{
	buf_addf(b, "REVOKE %.*s", SV_ARG(r->privilege));
	if (r->column.n) {
		buf_add_text(b, " (");
		add_quoted(b, r->column);
		buf_add_byte(b, ')');
	}
	buf_add_text(b, " ON ");
	add_quoted(b, r->table.n ? schema : r->schema);
	buf_add_byte(b, '.');
	if (r->table.n)
		add_quoted(b, r->table);
	else
		buf_add_byte(b, '*');
	buf_add_text(b, " FROM ");
}

static bool is_gone(unsigned code)
{
	for (size_t i = 0; i < ARRAY_LEN(GONE_BEFORE); i++)
		if (GONE_BEFORE[i] == code)
			return true;
	return false;
}

static bool run_revoke(struct db *owner, enum grant_to to,
		       const struct grant_right *r, struct fail *f)
{
	char text[STATEMENT_MAX];
	struct buf b;
	bool ok;

	buf_init(&b, sizeof(text) - 1);
	write_revoke(&b, r, sv_of(owner->conf->db_name));
	ok = grant_account(&b, ACCOUNTS[to].setting,
			   account_of(owner->conf, to), f);
	if (ok && !buf_ok(&b))
		bug("a REVOKE is too long");
	if (ok)
		snprintf(text, sizeof(text), "%s", buf_cstr(&b));
	buf_release(&b);
	if (!ok)
		return false;
	fault_at("migrate.before_revoke");
	ok = run_statement(owner, text,
			   "let an administrator run it: the account has more "
			   "than sql/grants.sql lists",
			   f);
	if (!ok && is_gone(db_last_code(owner))) {
		*f = FAIL_INIT;
		ok = true;
	}
	return ok;
}

/* *took_r: something was taken back. */
static bool take_back(struct db *owner, enum grant_to to, bool *took_r,
		      struct fail *f)
{
	struct grant_diff diff;
	struct arena a;
	bool ok;

	arena_init(&a, (size_t)64 * 1024);
	ok = grant_look(owner, to, &a, &diff, f);
	for (size_t i = 0; ok && i < diff.excess_count; i++) {
		ok = run_revoke(owner, to, &diff.excess[i], f);
		*took_r = true;
	}
	arena_release(&a);
	return ok;
}

/* Guarantee 3. */
static bool check_exact(struct db *owner, enum grant_to to, struct fail *f)
{
	struct grant_diff diff;
	struct arena a;
	struct buf b;
	bool ok;

	arena_init(&a, (size_t)64 * 1024);
	buf_init(&b, 256);
	ok = grant_look(owner, to, &a, &diff, f);
	if (ok && diff.missing_count + diff.excess_count) {
		grant_text(&b, diff.excess_count ? diff.excess : diff.missing);
		ok = fail_set(f, FAIL_MIGRATION,
			      "%s still has %zu rights too many and %zu too "
			      "few, the first: %s",
			      diff.account, diff.excess_count,
			      diff.missing_count, buf_cstr(&b));
	}
	buf_release(&b);
	arena_release(&a);
	return ok;
}

bool grant_run(struct db *owner, struct fail *f)
{
	bool took = false;

	if (!grant_all(owner, f))
		return false;
	for (int to = 0; to < GRANT_ACCOUNTS; to++)
		if (!take_back(owner, (enum grant_to)to, &took, f))
			return false;
	if (took && !grant_all(owner, f))
		return false;
	for (int to = 0; to < GRANT_ACCOUNTS; to++)
		if (!check_exact(owner, (enum grant_to)to, f))
			return false;
	return true;
}
