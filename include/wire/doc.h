/* Small documents as a tree: the only place that knows parson.
 *
 * For bodies of a few members where walking a tape is a nuisance: control
 * bodies, webhook payloads, configuration, the client's reading of answers.
 * Items are read from their tape (wire/json.h).
 *
 *	struct doc *d;
 *	uint64_t days;
 *
 *	if (!doc_parse(body, &limits, &d, f))
 *		return false;
 *	node = doc_get(doc_root(d), "/retention/days");
 *	if (!doc_u64(node, 1, 365, &days)) ...
 *	doc_free(d);
 *
 * D1  json_read() is the gate: what it refuses, is refused here with the same
 *     failure, and parson never sees it.
 * D2  Nothing is cut at U+0000: strings have a length. A name that holds one
 *     is refused, since parson cannot keep it.
 * D3  Nothing is rounded: parson holds numbers as double, so doc_u64() takes
 *     those up to 2^53 - 1 and no fraction. A larger or exact number must be
 *     read from the tape.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_DOC_H
#define WAYBILL_DOC_H

#include "base/library.h"
#include "wire/json.h"

struct doc;      /* owns everything below it */
struct doc_node; /* a value in it */

/* Fails as json_read() does; also JSON_SYNTAX for U+0000 in a name and for a
 * number that no double can hold. */
MUST_CHECK bool doc_parse(struct sv bytes, const struct json_limits *limits,
			  struct doc **doc_r, struct fail *f);
void doc_free(struct doc *d); /* NULL is nothing */

const struct doc_node *doc_root(const struct doc *d);

/* The value a JSON Pointer leads to, from this node; NULL if none. "" is the
 * node itself, "/a/0" the first element of its member a. */
const struct doc_node *doc_get(const struct doc_node *n, const char *pointer);

/* Members of an object or elements of an array; 0 for anything else. */
size_t doc_count(const struct doc_node *n);
const struct doc_node *doc_element(const struct doc_node *n, size_t i);
struct sv doc_name(const struct doc_node *n, size_t i); /* of a member */

/* All of these take NULL for a node that is not there, and say false if it is
 * not of that type or out of range. The text lives as long as the doc. */
MUST_CHECK bool doc_string(const struct doc_node *n, struct sv *text_r);
MUST_CHECK bool doc_u64(const struct doc_node *n, uint64_t min, uint64_t max,
			uint64_t *v_r);
MUST_CHECK bool doc_bool(const struct doc_node *n, bool *v_r);
bool doc_is_null(const struct doc_node *n); /* there, and null */
bool doc_is_object(const struct doc_node *n);
bool doc_is_array(const struct doc_node *n);

/* It is linked in, so what was built is what runs. */
struct library doc_library(void);

#endif
