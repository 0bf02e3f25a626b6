/* The fields of every collection: the one table of what an item looks like.
 *
 * Validation, GET /capabilities and the schemas in docs/openapi.yaml all
 * follow from it. A field that a collection does not know is kept as it is:
 * partners own their payload.
 *
 *	const struct field_set *set = field_set(COLLECTION_SKUS);
 *	for (size_t i = 0; i < set->count; i++)
 *		... set->fields[i] ...
 *
 * source_id and source_version stand first in every set of a collection; the
 * set of a list's elements begins with its own first field.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_FIELD_H
#define WAYBILL_FIELD_H

#include "item/collection.h"

enum field_kind {
	FIELD_SOURCE_ID, /* 1-128 bytes, no control characters */
	FIELD_VERSION,   /* a number up to 2^53-1, or text of digits */
	FIELD_TEXT,
	FIELD_BOOLEAN,
	FIELD_NUMBER,  /* decimal; any JSON number up to NUMBER_MAX long */
	FIELD_INTEGER, /* a number written with digits only */
	FIELD_WORD,    /* one of `words` */
	FIELD_COUNTRY, /* ISO 3166-1 alpha-2, upper case */
	FIELD_TIME,    /* RFC 3339, with an offset */
	FIELD_REFERENCE,
	FIELD_TEXTS,   /* a list of texts */
	FIELD_OBJECTS, /* a list of objects, each of the set `members` */
	FIELD_KINDS
};
const char *field_kind_name(enum field_kind k); /* "reference" */

/* A number of more characters is refused: no sender means one. Counted as
 * sent, with sign, point and exponent. */
enum { FIELD_NUMBER_MAX = 64, FIELD_TIME_MAX = 64 };

/* Most fields of one set; validation keeps a bit for each. */
enum { FIELD_SET_MAX = 16 };

enum field_bound { FIELD_ANY, FIELD_NOT_NEGATIVE, FIELD_POSITIVE };

/* Which part of struct incoming a field fills, beside the references. */
enum field_use {
	FIELD_USE_TRAIT = 1,
	FIELD_USE_SKU = 2,
	FIELD_USE_LOT = 4,
	FIELD_USE_COMPONENT = 8,
	FIELD_USE_FROM = 16, /* the two sides of a transfer */
	FIELD_USE_TO = 32,
	FIELD_USE_HOME = 64, /* says which warehouse it is of: item/scope.h */
};

/* What becomes of a field when another one (`by`) has this word. */
struct field_case {
	const char *word;
	bool allowed;      /* and then it is required; else it is refused */
	const char *trait; /* of the item referred to */
};

struct field {
	struct sv name;
	enum field_kind kind;
	bool required;
	unsigned use; /* enum field_use */

	/* Texts, and each text of a list. 0 of max_bytes: the size of the
	 * item is the only limit. */
	uint32_t min_bytes, max_bytes;
	/* Lists; 0 of max_count as above. */
	uint32_t min_count, max_count;
	const struct field_set *members;

	enum field_bound bound; /* numbers */
	uint64_t max;           /* integers */

	const char *const *words; /* ended by NULL */

	enum collection to; /* references */
	const char *trait;  /* the item must have it; NULL: any */

	const char *by; /* a word field of the same set, or NULL */
	const struct field_case *cases;
	size_t case_count;

	const char *doc; /* one sentence */
};

struct field_set {
	const struct field *fields;
	size_t count;
};

const struct field_set *field_set(enum collection c);

/* The n-th field, from 0, that says which warehouse an item is of; NULL: there
 * are no more, or the collection has no warehouse. */
const struct field *field_home(enum collection c, size_t n);

/* NULL: the set has no such field. */
const struct field *field_find(const struct field_set *set, struct sv name);

/* Is it one of the 249 codes ISO assigned, or XK (Kosovo), which it leaves to
 * its users and carriers and customs use? */
bool field_is_country(struct sv code);

#endif
