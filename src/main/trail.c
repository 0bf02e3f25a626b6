/* The audit trail: what differs, and who did it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/trail.h"

#include <pwd.h>
#include <unistd.h>

#include "base/ids.h"

enum { NAME_MAX_BYTES = 64, DETAIL_BYTES_MAX = 4 << 20 };

static const char *const PARTNER_NAMES[] = {
	"partner_id", "name",   "state",        "rate",     "burst",
	"quota",      "strict", "auto_release", "mtls_only"};
static const char *const CREDENTIAL_NAMES[] = {
	"partner_id", "id",           "kind",       "fingerprint",
	"scopes",     "warehouses{}", "expires_at", "revoked_at"};

const struct trail_subject TRAIL_PARTNER = {STMT_AUDIT_PARTNER, PARTNER_NAMES};
const struct trail_subject TRAIL_CREDENTIAL = {STMT_AUDIT_CREDENTIAL,
					       CREDENTIAL_NAMES};

/* What comes from the environment goes to terminals: only what can be seen. */
static bool is_plain(const char *name)
{
	size_t n = name ? strlen(name) : 0;

	for (size_t i = 0; i < n; i++)
		if (name[i] <= ' ' || name[i] > '~')
			return false;
	return n > 0 && n <= NAME_MAX_BYTES;
}

/* "root@host", or by sudo "alice as root@host": the first is what sudo says,
 * the second what the kernel says. */
static struct sv actor(struct arena *a)
{
	const struct passwd *pw = getpwuid(getuid());
	const char *user = pw && is_plain(pw->pw_name)
				   ? pw->pw_name
				   : arena_printf(a, "uid-%u", getuid());
	const char *sudo = getenv("SUDO_USER");
	char host[NAME_MAX_BYTES + 1] = "";

	if (gethostname(host, sizeof(host) - 1) != 0 || !is_plain(host))
		memcpy(host, "unknown", sizeof("unknown"));
	if (!is_plain(sudo))
		return sv_of(arena_printf(a, "%s@%s", user, host));
	return sv_of(arena_printf(a, "%s as %s@%s", sudo, user, host));
}

void trail_init(struct trail *t, struct cli *cli,
		const struct trail_subject *subject, const char *action,
		struct sv called)
{
	*t = (struct trail){.cli = cli,
			    .subject = subject,
			    .action = action,
			    .called = called};
}

static bool look(const struct trail *t, struct db *db, struct db_table *t_r,
		 struct fail *f)
{
	return db_query(db, t->subject->look, DB_ARGS(db_text(t->called)),
			&t->cli->arena, t_r, f);
}

bool trail_look(struct trail *t, struct db *db, struct fail *f)
{
	return look(t, db, &t->before, f);
}

static bool same(const struct db_val *a, const struct db_val *b)
{
	if (a->kind == DB_NULL || b->kind == DB_NULL)
		return a->kind == b->kind;
	return a->kind == DB_BYTES ? sv_eq(a->bytes, b->bytes) : a->u == b->u;
}

static bool differs(const struct trail *t, const struct db_table *after,
		    size_t c)
{
	return !t->before.rows ||
	       !same(db_cell(&t->before, 0, c), db_cell(after, 0, c));
}

/* "old":{...}: the columns that differ. */
static void add_side(struct buf *b, const struct trail *t, const char *side,
		     const struct db_table *show, const struct db_table *after)
{
	size_t n = 0;

	buf_addf(b, "\"%s\":{", side);
	for (size_t c = TRAIL_VALUES; c < after->cols; c++) {
		if (!differs(t, after, c))
			continue;
		if (n++)
			buf_add_byte(b, ',');
		cli_json_member(b, t->subject->names[c], db_cell(show, 0, c));
	}
	buf_add_byte(b, '}');
}

static struct sv detail(const struct trail *t, const struct db_table *after)
{
	struct buf b;
	struct sv text;

	buf_init(&b, DETAIL_BYTES_MAX);
	buf_add_byte(&b, '{');
	if (t->before.rows) {
		add_side(&b, t, "old", &t->before, after);
		buf_add_byte(&b, ',');
	}
	add_side(&b, t, "new", after, after);
	buf_add_byte(&b, '}');
	if (!buf_ok(&b))
		bug("a change of %zu bytes", b.n);
	text = arena_sv(&t->cli->arena, buf_sv(&b));
	buf_release(&b);
	return text;
}

static bool any_differs(const struct trail *t, const struct db_table *after)
{
	for (size_t c = TRAIL_VALUES; c < after->cols; c++)
		if (differs(t, after, c))
			return true;
	return false;
}

static bool add(struct trail *t, struct db *db, const struct db_table *after,
		struct fail *f)
{
	struct id id = id_new(db_wall_ms(db));
	uint64_t n;

	return db_exec(db, STMT_AUDIT_ADD,
		       DB_ARGS(db_text(sv_from(id.b, sizeof(id.b))),
			       db_text(actor(&t->cli->arena)),
			       db_text(sv_of(t->action)),
			       *db_cell(after, 0, TRAIL_PARTNER_ID),
			       *db_cell(after, 0, TRAIL_SUBJECT),
			       db_text(detail(t, after))),
		       &n, f);
}

enum db_step trail_step(struct trail *t, struct db *db, struct fail *f)
{
	struct db_table after;

	t->changed = false;
	if (!look(t, db, &after, f))
		return DB_STEP_FAIL;
	if (!after.rows)
		bug("%s: the subject is gone", t->action);
	if (!any_differs(t, &after))
		return DB_STEP_ROLLBACK;
	if (!add(t, db, &after, f))
		return DB_STEP_FAIL;
	t->changed = true;
	return DB_STEP_COMMIT;
}
