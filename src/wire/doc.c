/* Small documents as a tree, by parson behind the strict reader. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/doc.h"

#include <parson.h>

#include "base/text.h"

/* The largest integer below which a double skips none. */
#define EXACT_MAX (((uint64_t)1 << 53) - 1)

/* A node is parson's value under our name. */
struct doc {
	JSON_Value *root;
};

static const struct doc_node *node_of(const JSON_Value *v)
{
	return (const struct doc_node *)(const void *)v;
}

static const JSON_Value *value_of(const struct doc_node *n)
{
	return (const JSON_Value *)(const void *)n;
}

static bool is(const struct doc_node *n, JSON_Value_Type type)
{
	return n && json_value_get_type(value_of(n)) == type;
}

/* parson takes a terminated text, and ends it at the first zero: the gate has
 * seen that there is none. */
static JSON_Value *parse(struct arena *a, struct sv bytes)
{
	return json_parse_string(arena_dup(a, bytes));
}

bool doc_parse(struct sv bytes, const struct json_limits *limits,
	       struct doc **doc_r, struct fail *f)
{
	struct json_tape tape;
	JSON_Value *root = NULL;
	struct arena a;
	bool right;

	arena_init(&a, 16 * 1024);
	right = json_read(&a, bytes, limits, &tape, f);
	if (right)
		root = parse(&a, bytes);
	arena_release(&a);
	if (!right)
		return false;
	if (!root)
		return fail_set(f, FAIL_JSON_SYNTAX,
				"a name holds U+0000, or a number is too large "
				"for this document");
	*doc_r = malloc(sizeof(**doc_r));
	if (!*doc_r)
		bug("out of memory for a document");
	(*doc_r)->root = root;
	return true;
}

void doc_free(struct doc *d)
{
	if (!d)
		return;
	json_value_free(d->root);
	free(d);
}

const struct doc_node *doc_root(const struct doc *d)
{
	return node_of(d->root);
}

size_t doc_count(const struct doc_node *n)
{
	if (is(n, JSONObject))
		return json_object_get_count(
			json_value_get_object(value_of(n)));
	if (is(n, JSONArray))
		return json_array_get_count(json_value_get_array(value_of(n)));
	return 0;
}

const struct doc_node *doc_element(const struct doc_node *n, size_t i)
{
	if (i >= doc_count(n))
		return NULL;
	if (is(n, JSONObject))
		return node_of(json_object_get_value_at(
			json_value_get_object(value_of(n)), i));
	return node_of(
		json_array_get_value(json_value_get_array(value_of(n)), i));
}

struct sv doc_name(const struct doc_node *n, size_t i)
{
	if (!is(n, JSONObject) || i >= doc_count(n))
		return SV_NONE;
	return sv_of(
		json_object_get_name(json_value_get_object(value_of(n)), i));
}

/* Is this step of a pointer (with ~0 for ~ and ~1 for /) that name? */
static bool step_is(struct sv step, struct sv name)
{
	size_t i = 0;

	for (size_t at = 0; at < step.n; at++, i++) {
		char c = step.p[at];

		if (c == '~' && at + 1 < step.n)
			c = step.p[++at] == '1' ? '/' : '~';
		if (i >= name.n || name.p[i] != c)
			return false;
	}
	return i == name.n;
}

static const struct doc_node *take_step(const struct doc_node *n,
					struct sv step)
{
	uint64_t index;

	if (is(n, JSONArray))
		return text_u64(step, 0, SIZE_MAX, &index)
			       ? doc_element(n, (size_t)index)
			       : NULL;
	for (size_t i = 0; i < doc_count(n); i++)
		if (step_is(step, doc_name(n, i)))
			return doc_element(n, i);
	return NULL;
}

const struct doc_node *doc_get(const struct doc_node *n, const char *pointer)
{
	struct sv rest = sv_of(pointer);

	if (rest.n && rest.p[0] != '/')
		bug("\"%s\" is no JSON Pointer", pointer);
	while (n && rest.n) {
		size_t end = 1;

		while (end < rest.n && rest.p[end] != '/')
			end++;
		n = take_step(n, sv_from(rest.p + 1, end - 1));
		rest = sv_tail(rest, end);
	}
	return n;
}

bool doc_string(const struct doc_node *n, struct sv *text_r)
{
	if (!is(n, JSONString))
		return false;
	*text_r = sv_from(json_value_get_string(value_of(n)),
			  json_value_get_string_len(value_of(n)));
	return true;
}

bool doc_u64(const struct doc_node *n, uint64_t min, uint64_t max,
	     uint64_t *v_r)
{
	double d;
	uint64_t v;

	if (!is(n, JSONNumber))
		return false;
	d = json_value_get_number(value_of(n));
	if (!(d >= 0) || d > (double)EXACT_MAX)
		return false;
	v = (uint64_t)d;
	if ((double)v < d || v < min || v > max)
		return false;
	*v_r = v;
	return true;
}

bool doc_bool(const struct doc_node *n, bool *v_r)
{
	if (!is(n, JSONBoolean))
		return false;
	*v_r = json_value_get_boolean(value_of(n)) == 1;
	return true;
}

bool doc_is_null(const struct doc_node *n)
{
	return is(n, JSONNull);
}

bool doc_is_object(const struct doc_node *n)
{
	return is(n, JSONObject);
}

bool doc_is_array(const struct doc_node *n)
{
	return is(n, JSONArray);
}

struct library doc_library(void)
{
	return (struct library){"parson", PARSON_VERSION_STRING, ""};
}
