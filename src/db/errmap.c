/* What a database error means for the transaction it came in. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "db/errmap.h"

/* Sorted by class. Numbers from 2000 to 2999 are the client library's. */
static const struct {
	unsigned code;
	enum db_class c;
} CODES[] = {
	{1020, DB_ROLLED_BACK},  /* row changed since last read */
	{1213, DB_ROLLED_BACK},  /* deadlock; Galera: certification */
	{3101, DB_ROLLED_BACK},  /* group replication: certification */
	{1317, DB_STATEMENT},    /* interrupted */
	{1412, DB_STATEMENT},    /* table definition changed: a partition */
	{1615, DB_STATEMENT},    /* wants to be prepared again */
	{1969, DB_STATEMENT},    /* max_statement_time */
	{3024, DB_STATEMENT},    /* max_execution_time */
	{1205, DB_LOCK_WAIT},    /* row lock or metadata lock */
	{1040, DB_NOT_EXECUTED}, /* too many connections */
	{1047, DB_NOT_EXECUTED}, /* Galera: no quorum */
	{1203, DB_NOT_EXECUTED}, /* too many connections of this user */
	{1226, DB_NOT_EXECUTED}, /* the user's resource limit */
	{1290, DB_NOT_EXECUTED}, /* read-only */
	{1836, DB_NOT_EXECUTED}, /* read-only */
	{2002, DB_NOT_EXECUTED}, /* no socket */
	{2003, DB_NOT_EXECUTED}, /* no TCP */
	{2005, DB_NOT_EXECUTED}, /* no such host */
	{1053, DB_LOST},         /* shutting down */
	{1158, DB_LOST},         /* network, as the server saw it */
	{1159, DB_LOST},         /* the same */
	{1160, DB_LOST},         /* the same */
	{1161, DB_LOST},         /* the same */
	{1927, DB_LOST},         /* killed */
	{2006, DB_LOST},         /* gone away */
	{2013, DB_LOST},         /* lost during the query */
	{2027, DB_LOST},         /* malformed packet: cut in the middle */
	{2055, DB_LOST},         /* lost, with the system's error */
	{4031, DB_LOST},         /* MySQL: idle for too long */
	{1062, DB_DUPLICATE},
};

static enum db_class class_of(unsigned code)
{
	if (!code)
		return DB_OK;
	for (size_t i = 0; i < ARRAY_LEN(CODES); i++)
		if (CODES[i].code == code)
			return CODES[i].c;
	return DB_OPERATOR;
}

/* Of an error at COMMIT only "rolled back" and "refused" say that nothing was
 * committed; after any other it may have been. */
enum db_class errmap_class(unsigned code, bool in_commit)
{
	enum db_class c = class_of(code);

	if (in_commit && c != DB_OK && c != DB_ROLLED_BACK &&
	    c != DB_NOT_EXECUTED)
		return DB_COMMIT_UNKNOWN;
	return c;
}

const char *errmap_name(enum db_class c)
{
	switch (c) {
	case DB_OK:
		return "ok";
	case DB_ROLLED_BACK:
		return "rolled_back";
	case DB_STATEMENT:
		return "statement";
	case DB_LOCK_WAIT:
		return "lock_wait";
	case DB_NOT_EXECUTED:
		return "not_executed";
	case DB_LOST:
		return "lost";
	case DB_COMMIT_UNKNOWN:
		return "commit_unknown";
	case DB_DUPLICATE:
		return "duplicate";
	case DB_OPERATOR:
		return "operator";
	}
	bug("database error of class %d", (int)c);
}
