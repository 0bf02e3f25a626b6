/* Is an item's shape right?
 *
 * The members of an object are matched to its set of fields in one pass over
 * the tape; then each matched value is checked in the order it was sent, and
 * at last what is required but not there is told. The elements of a list of
 * objects go the same way with the list's own set; there is no third level,
 * so nothing here recurses.
 *
 * Details are ours: no byte of the payload is quoted in them.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "item/validate.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/text.h"
#include "item/field.h"
#include "item/value.h"

/* A fault is at most its pointer, code and detail: far below 512 bytes. */
enum { ERRORS_BYTES_MAX = (VALIDATE_FAULTS_MAX + 2) * 512, REFS_FEW = 8 };

/* Where the value at hand is: /name, /list/index or /list/index/name. */
struct place {
	struct sv list;
	uint32_t index;
	struct sv name;
};

struct match {
	const struct field *field;
	uint32_t value;
};

/* The known members of one object, in the order they were sent. */
struct matches {
	const struct field_set *set;
	size_t count;
	uint32_t found; /* a bit for each field of the set */
	struct match each[FIELD_SET_MAX];
};

/* One item under check. */
struct check {
	struct arena *arena;
	const struct json_tape *tape;
	struct incoming *in;

	struct buf errors;
	unsigned error_count;

	struct item_ref *refs;
	size_t ref_count, ref_cap;
	struct item_ref few[REFS_FEW];

	struct sv from, to; /* of a transfer */
};

static const struct {
	const char *name, *doc;
} CODES[REJECT_COUNT] = {
#define REJECT(id, code, doc) [REJECT_##id] = {code, doc},
#include "item/reject.def"
#undef REJECT
};

static void add_pointer(struct buf *b, const struct place *at)
{
	/* Field names hold nothing that a JSON Pointer or string escapes. */
	buf_add_byte(b, '"');
	if (at->list.n)
		buf_addf(b, "/%.*s/%" PRIu32, SV_ARG(at->list), at->index);
	if (at->name.n)
		buf_addf(b, "/%.*s", SV_ARG(at->name));
	buf_add_byte(b, '"');
}

static void add_error(struct buf *b, const struct place *at,
		      enum reject_code code, const char *detail)
{
	buf_add_text(b, b->n ? ",{\"pointer\":" : "[{\"pointer\":");
	add_pointer(b, at);
	buf_addf(b, ",\"code\":\"%s\",\"detail\":", CODES[code].name);
	buf_add_json(b, sv_of(detail));
	buf_add_byte(b, '}');
}

static void reject(struct check *c, const struct place *at,
		   enum reject_code code, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

static void reject(struct check *c, const struct place *at,
		   enum reject_code code, const char *fmt, ...)
{
	char detail[240];
	va_list ap;

	c->in->rejected = true;
	if (c->error_count++ > VALIDATE_FAULTS_MAX)
		return;
	if (c->error_count > VALIDATE_FAULTS_MAX) {
		add_error(&c->errors, &(struct place){.list = SV_NONE},
			  REJECT_MORE, "the item has more faults than these");
		return;
	}
	va_start(ap, fmt);
	vsnprintf(detail, sizeof(detail), fmt, ap);
	va_end(ap);
	add_error(&c->errors, at, code, detail);
}

static const char *kind_word(enum json_kind kind)
{
	switch (kind) {
	case JSON_NULL:
		return "null";
	case JSON_FALSE:
	case JSON_TRUE:
		return "a boolean";
	case JSON_NUMBER:
		return "a number";
	case JSON_STRING:
	case JSON_NAME:
		return "a string";
	case JSON_ARRAY:
		return "an array";
	case JSON_OBJECT:
		return "an object";
	}
	bug("kind %d of a token", (int)kind);
}

static bool is_kind(struct check *c, const struct place *at, uint32_t v,
		    enum json_kind want)
{
	enum json_kind kind = json_kind(c->tape, v);

	if (kind == want)
		return true;
	reject(c, at, REJECT_WRONG_TYPE, "must be %s, is %s", kind_word(want),
	       kind_word(kind));
	return false;
}

/* Unescaped only where the limit makes it necessary. */
static bool is_sized(struct check *c, const struct place *at,
		     const struct field *f, uint32_t v)
{
	size_t n = json_raw(c->tape, v).n - 2;

	/* Unescaping makes nothing longer, and nothing empty. */
	if (f->max_bytes && n > f->max_bytes)
		n = json_text(c->arena, c->tape, v).n;
	if (n < f->min_bytes) {
		reject(c, at, REJECT_EMPTY, "must not be empty");
		return false;
	}
	if (f->max_bytes && n > f->max_bytes) {
		reject(c, at, REJECT_TOO_LONG,
		       "%zu bytes of UTF-8; the limit is %" PRIu32, n,
		       f->max_bytes);
		return false;
	}
	return true;
}

static bool is_text(struct check *c, const struct place *at,
		    const struct field *f, uint32_t v)
{
	return is_kind(c, at, v, JSON_STRING) && is_sized(c, at, f, v);
}

/* A source_id, the item's own or another's. */
static bool is_id(struct check *c, const struct place *at,
		  const struct field *f, uint32_t v, struct sv *id_r)
{
	struct sv id;

	if (!is_text(c, at, f, v))
		return false;
	id = json_text(c->arena, c->tape, v);
	if (value_has_control(id)) {
		reject(c, at, REJECT_CONTROL_CHARACTER,
		       "must not hold control characters");
		return false;
	}
	*id_r = id;
	return true;
}

static void check_source_id(struct check *c, const struct place *at,
			    const struct field *f, uint32_t v)
{
	c->in->has_source_id = is_id(c, at, f, v, &c->in->source_id);
}

/* A number that is not written with digits only is of the wrong type, unless
 * it is a whole one below zero. */
static bool is_integer(struct check *c, const struct place *at, uint32_t v,
		       uint64_t max, const char *hint, uint64_t *v_r)
{
	struct sv raw = json_raw(c->tape, v);

	if (json_u64(c->tape, v, 0, max, v_r))
		return true;
	if (c->tape->tokens[v].flags & JSON_INTEGER ||
	    value_is_digits(sv_tail(raw, 1)))
		reject(c, at, REJECT_OUT_OF_RANGE,
		       "must be from 0 to %" PRIu64 "%s", max, hint);
	else
		reject(c, at, REJECT_WRONG_TYPE,
		       "must be a whole number, written with digits only");
	return false;
}

/* Zero-padded versions are common: 0007 is 7. */
static struct sv without_zeros(struct sv digits)
{
	while (digits.n > 1 && digits.p[0] == '0')
		digits = sv_tail(digits, 1);
	return digits;
}

static bool is_version_text(struct check *c, const struct place *at, uint32_t v,
			    uint64_t *version_r)
{
	struct sv text = json_text(c->arena, c->tape, v);

	if (text.n == 0)
		reject(c, at, REJECT_EMPTY, "must not be empty");
	else if (!value_is_digits(without_zeros(text)))
		reject(c, at, REJECT_BAD_FORMAT, "must be decimal digits");
	else if (!text_u64(without_zeros(text), 0, ITEM_VERSION_MAX, version_r))
		reject(c, at, REJECT_OUT_OF_RANGE, "must be from 0 to %" PRIu64,
		       (uint64_t)ITEM_VERSION_MAX);
	else
		return true;
	return false;
}

static void check_version(struct check *c, const struct place *at, uint32_t v)
{
	enum json_kind kind = json_kind(c->tape, v);
	uint64_t *version = &c->in->version;

	if (kind == JSON_NUMBER)
		c->in->has_version = is_integer(
			c, at, v, ITEM_VERSION_NUMBER_MAX,
			"; a larger one is sent as a string", version);
	else if (kind == JSON_STRING)
		c->in->has_version = is_version_text(c, at, v, version);
	else
		reject(c, at, REJECT_WRONG_TYPE,
		       "must be a number or a string of digits, is %s",
		       kind_word(kind));
}

static void check_boolean(struct check *c, const struct place *at, uint32_t v)
{
	enum json_kind kind = json_kind(c->tape, v);

	if (kind != JSON_TRUE && kind != JSON_FALSE)
		reject(c, at, REJECT_WRONG_TYPE, "must be %s, is %s",
		       kind_word(JSON_TRUE), kind_word(kind));
}

static void check_number(struct check *c, const struct place *at,
			 const struct field *f, uint32_t v)
{
	struct sv raw = json_raw(c->tape, v);
	int sign = value_sign(raw);

	if (!is_kind(c, at, v, JSON_NUMBER))
		return;
	if (raw.n > FIELD_NUMBER_MAX)
		reject(c, at, REJECT_TOO_LONG,
		       "%zu characters; the limit is %d", raw.n,
		       FIELD_NUMBER_MAX);
	else if (f->bound == FIELD_POSITIVE && sign <= 0)
		reject(c, at, REJECT_OUT_OF_RANGE, "must be above 0");
	else if (f->bound == FIELD_NOT_NEGATIVE && sign < 0)
		reject(c, at, REJECT_OUT_OF_RANGE, "must not be below 0");
}

static void check_integer(struct check *c, const struct place *at,
			  const struct field *f, uint32_t v)
{
	uint64_t ignored;

	if (is_kind(c, at, v, JSON_NUMBER))
		(void)is_integer(c, at, v, f->max, "", &ignored);
}

static void reject_word(struct check *c, const struct place *at,
			const struct field *f)
{
	char list[160] = "";
	size_t n = 0;

	for (size_t i = 0; f->words[i] && n < sizeof(list); i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s",
				      i ? ", " : "", f->words[i]);
	reject(c, at, REJECT_UNKNOWN_VALUE, "must be one of %s", list);
}

/* Kept is the table's word, not the sender's bytes. */
static void check_word(struct check *c, const struct place *at,
		       const struct field *f, uint32_t v)
{
	if (!is_kind(c, at, v, JSON_STRING))
		return;
	for (size_t i = 0; f->words[i]; i++)
		if (json_text_is(c->tape, v, sv_of(f->words[i]))) {
			if (f->use & FIELD_USE_TRAIT)
				c->in->trait = sv_of(f->words[i]);
			return;
		}
	reject_word(c, at, f);
}

static bool is_capital(char c)
{
	return c >= 'A' && c <= 'Z';
}

static void check_country(struct check *c, const struct place *at, uint32_t v)
{
	struct sv code;

	if (!is_kind(c, at, v, JSON_STRING))
		return;
	code = json_text(c->arena, c->tape, v);
	if (code.n != 2 || !is_capital(code.p[0]) || !is_capital(code.p[1]))
		reject(c, at, REJECT_BAD_FORMAT,
		       "must be two capital letters (ISO 3166-1 alpha-2)");
	else if (!field_is_country(code))
		reject(c, at, REJECT_UNKNOWN_VALUE,
		       "is no country code of ISO 3166-1");
}

static void check_time(struct check *c, const struct place *at, uint32_t v)
{
	struct sv text;

	if (!is_kind(c, at, v, JSON_STRING))
		return;
	text = json_text(c->arena, c->tape, v);
	if (text.n > FIELD_TIME_MAX || !value_is_time(text))
		reject(c, at, REJECT_BAD_FORMAT,
		       "must be an RFC 3339 time with an offset, such as "
		       "2026-11-18T02:30:00Z");
}

static void add_ref(struct check *c, enum collection to, struct sv id,
		    const char *trait)
{
	if (c->ref_count == c->ref_cap) {
		struct item_ref *grown = arena_reserve(
			c->arena, 4 * c->ref_cap * sizeof(*grown));

		memcpy(grown, c->refs, c->ref_count * sizeof(*grown));
		c->refs = grown;
		c->ref_cap *= 4;
	}
	c->refs[c->ref_count++] = (struct item_ref){
		.collection = to, .source_id = id, .trait = trait};
}

static void use_reference(struct check *c, const struct field *f, struct sv id)
{
	struct incoming *in = c->in;

	if (f->use & FIELD_USE_TRAIT)
		in->trait = id;
	if (f->use & FIELD_USE_SKU)
		in->sku = id;
	if (f->use & FIELD_USE_LOT)
		in->lot = id;
	if (f->use & FIELD_USE_FROM)
		c->from = id;
	if (f->use & FIELD_USE_TO)
		c->to = id;
	if (f->use & FIELD_USE_HOME)
		in->home = id;
	/* The list was given room for all its elements. */
	if (f->use & FIELD_USE_COMPONENT)
		in->components[in->component_count++] = id;
}

/* The case the field is in; NULL: none, or what decides is wrong itself. */
static const struct field_case *case_of(const struct check *c,
					const struct matches *m,
					const struct field *f)
{
	for (size_t i = 0; f->by && i < m->count; i++) {
		uint32_t v = m->each[i].value;

		if (!sv_eq(m->each[i].field->name, sv_of(f->by)) ||
		    json_kind(c->tape, v) != JSON_STRING)
			continue;
		for (size_t k = 0; k < f->case_count; k++)
			if (json_text_is(c->tape, v, sv_of(f->cases[k].word)))
				return &f->cases[k];
	}
	return NULL;
}

static void check_reference(struct check *c, const struct place *at,
			    const struct matches *m, const struct field *f,
			    uint32_t v)
{
	const struct field_case *k = case_of(c, m, f);
	struct sv id;

	if (k && !k->allowed) {
		reject(c, at, REJECT_NOT_ALLOWED,
		       "must not be there when %s is %s", f->by, k->word);
		return;
	}
	if (!is_id(c, at, f, v, &id))
		return;
	add_ref(c, f->to, id, k ? k->trait : f->trait);
	use_reference(c, f, id);
}

static bool is_counted(struct check *c, const struct place *at,
		       const struct field *f, uint32_t v, uint32_t *count_r)
{
	uint32_t n;

	if (!is_kind(c, at, v, JSON_ARRAY))
		return false;
	n = *count_r = json_count(c->tape, v);
	if (n < f->min_count)
		reject(c, at, REJECT_TOO_FEW,
		       "%" PRIu32 " elements; at least %" PRIu32 " must be "
		       "there",
		       n, f->min_count);
	else if (f->max_count && n > f->max_count)
		reject(c, at, REJECT_TOO_MANY,
		       "%" PRIu32 " elements; the limit is %" PRIu32, n,
		       f->max_count);
	return true;
}

static void check_texts(struct check *c, const struct place *at,
			const struct field *f, uint32_t list)
{
	struct place in_list = {.list = f->name};
	uint32_t count;

	if (!is_counted(c, at, f, list, &count))
		return;
	for (uint32_t v = json_first(c->tape, list); v;
	     v = json_after(c->tape, list, v), in_list.index++)
		(void)is_text(c, &in_list, f, v);
}

/* All kinds but a list of objects. */
static void check_value(struct check *c, const struct place *at,
			const struct matches *m, const struct match *one)
{
	const struct field *f = one->field;
	uint32_t v = one->value;

	switch (f->kind) {
	case FIELD_SOURCE_ID:
		check_source_id(c, at, f, v);
		return;
	case FIELD_VERSION:
		check_version(c, at, v);
		return;
	case FIELD_TEXT:
		(void)is_text(c, at, f, v);
		return;
	case FIELD_BOOLEAN:
		check_boolean(c, at, v);
		return;
	case FIELD_NUMBER:
		check_number(c, at, f, v);
		return;
	case FIELD_INTEGER:
		check_integer(c, at, f, v);
		return;
	case FIELD_WORD:
		check_word(c, at, f, v);
		return;
	case FIELD_COUNTRY:
		check_country(c, at, v);
		return;
	case FIELD_TIME:
		check_time(c, at, v);
		return;
	case FIELD_REFERENCE:
		check_reference(c, at, m, f, v);
		return;
	case FIELD_TEXTS:
		check_texts(c, at, f, v);
		return;
	case FIELD_OBJECTS:
	case FIELD_KINDS:
		break;
	}
	bug("a field of kind %d", (int)f->kind);
}

/* The tape's names are unique, so a field is matched once at most. */
static void match_members(struct check *c, const struct field_set *set,
			  uint32_t object, struct matches *m)
{
	m->set = set;
	m->count = 0;
	m->found = 0;
	for (uint32_t i = json_first(c->tape, object); i;
	     i = json_after(c->tape, object, i)) {
		const struct field *f =
			field_find(set, json_text(c->arena, c->tape, i));

		if (!f)
			continue;
		if (m->count == FIELD_SET_MAX)
			bug("a set of over %d fields", FIELD_SET_MAX);
		m->found |= UINT32_C(1) << (f - set->fields);
		m->each[m->count++] = (struct match){f, i + 1};
	}
}

static void check_missing(struct check *c, struct place *at,
			  const struct matches *m)
{
	for (size_t i = 0; i < m->set->count; i++) {
		const struct field *f = &m->set->fields[i];
		const struct field_case *k;

		if (m->found & UINT32_C(1) << i)
			continue;
		at->name = f->name;
		if (f->required) {
			reject(c, at, REJECT_REQUIRED, "must be there");
			continue;
		}
		k = case_of(c, m, f);
		if (k && k->allowed)
			reject(c, at, REJECT_REQUIRED,
			       "must be there when %s is %s", f->by, k->word);
	}
}

static void check_element(struct check *c, struct place *at,
			  const struct field_set *set, uint32_t element)
{
	struct matches m;

	at->name = SV_NONE;
	if (!is_kind(c, at, element, JSON_OBJECT))
		return;
	match_members(c, set, element, &m);
	for (size_t i = 0; i < m.count; i++) {
		at->name = m.each[i].field->name;
		check_value(c, at, &m, &m.each[i]);
	}
	check_missing(c, at, &m);
}

static bool has_components(const struct field_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->fields[i].use & FIELD_USE_COMPONENT)
			return true;
	return false;
}

static void check_objects(struct check *c, const struct place *at,
			  const struct field *f, uint32_t list)
{
	struct place in_list = {.list = f->name};
	uint32_t count;

	if (!is_counted(c, at, f, list, &count))
		return;
	if (has_components(f->members))
		c->in->components = arena_array(c->arena, count,
						sizeof(*c->in->components));
	for (uint32_t v = json_first(c->tape, list); v;
	     v = json_after(c->tape, list, v), in_list.index++)
		check_element(c, &in_list, f->members, v);
}

static void check_item(struct check *c, enum collection col)
{
	struct place at = {.list = SV_NONE};
	struct matches m;

	if (!is_kind(c, &at, 0, JSON_OBJECT))
		return;
	match_members(c, field_set(col), 0, &m);
	for (size_t i = 0; i < m.count; i++) {
		const struct match *one = &m.each[i];

		at.name = one->field->name;
		if (one->field->kind == FIELD_OBJECTS)
			check_objects(c, &at, one->field, one->value);
		else
			check_value(c, &at, &m, one);
	}
	check_missing(c, &at, &m);
}

static int ref_order(const struct item_ref *a, const struct item_ref *b)
{
	if (a->collection != b->collection)
		return a->collection < b->collection ? -1 : 1;
	return sv_cmp(a->source_id, b->source_id);
}

/* Of equal ones the first comes first: both stand in one array. */
static int by_ref(const void *a, const void *b)
{
	const struct item_ref *const *x = a, *const *y = b;
	int order = ref_order(*x, *y);

	return order ? order : (*x > *y) - (*x < *y);
}

/* No field of one item asks for another trait of the same thing, so equal
 * references are one. Sorted, since a sender decides how many there are. */
static size_t drop_doubles(struct arena *a, struct item_ref *refs, size_t n)
{
	struct item_ref **sorted =
		arena_reserve(a, n * sizeof(struct item_ref *));
	bool *doubled = arena_array(a, n, sizeof(*doubled));
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		sorted[i] = &refs[i];
	qsort(sorted, n, sizeof(struct item_ref *), by_ref);
	for (size_t i = 1; i < n; i++)
		if (ref_order(sorted[i - 1], sorted[i]) == 0)
			doubled[sorted[i] - refs] = true;
	for (size_t i = 0; i < n; i++)
		if (!doubled[i])
			refs[kept++] = refs[i];
	return kept;
}

/* Few are compared each with each, without memory. */
static size_t drop_few_doubles(struct item_ref *refs, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < kept && ref_order(&refs[k], &refs[i]) != 0)
			k++;
		if (k == kept)
			refs[kept++] = refs[i];
	}
	return kept;
}

static void finish_refs(struct check *c)
{
	struct incoming *in = c->in;

	if (c->refs == c->few)
		in->ref_count = drop_few_doubles(c->refs, c->ref_count);
	else
		in->ref_count = drop_doubles(c->arena, c->refs, c->ref_count);
	in->refs = c->refs;
	if (c->refs != c->few)
		return;
	in->refs = arena_reserve(c->arena, in->ref_count * sizeof(*in->refs));
	memcpy(in->refs, c->few, in->ref_count * sizeof(*in->refs));
}

static void finish_accepted(struct check *c)
{
	struct incoming *in = c->in;
	uint8_t sum[DIGEST_BYTES];

	in->payload = json_compact(c->arena, c->tape, 0);
	digest_sha256(in->payload, sum);
	memcpy(in->hash, sum, sizeof(in->hash));
	in->same_warehouse = c->from.n && sv_eq(c->from, c->to);
	/* Of two, in the order of the table and not in that of the item. */
	if (c->from.n)
		in->home = sv_of(arena_printf(c->arena, "%.*s\n%.*s",
					      SV_ARG(c->from), SV_ARG(c->to)));
	finish_refs(c);
}

/* Only what its result shows is left of it. */
static void finish_rejected(struct incoming *in, struct arena *a,
			    struct buf *errors)
{
	buf_add_byte(errors, ']');
	if (!buf_ok(errors))
		bug("faults of an item over %d bytes", ERRORS_BYTES_MAX);
	*in = (struct incoming){.index = in->index,
				.line = in->line,
				.rejected = true,
				.errors = arena_sv(a, buf_sv(errors)),
				.has_source_id = in->has_source_id,
				.source_id = in->source_id,
				.has_version = in->has_version,
				.version = in->version};
}

const char *reject_code_name(enum reject_code c)
{
	if (c < 0 || c >= REJECT_COUNT)
		bug("code %d of a fault", (int)c);
	return CODES[c].name;
}

const char *reject_code_doc(enum reject_code c)
{
	if (c < 0 || c >= REJECT_COUNT)
		bug("code %d of a fault", (int)c);
	return CODES[c].doc;
}

void validate_item(struct arena *a, enum collection col,
		   const struct json_tape *tape, struct incoming *in)
{
	struct check c;

	*in = (struct incoming){.index = in->index, .line = in->line};
	/* Not zeroed whole: it is large, and made for every item. */
	c.arena = a;
	c.tape = tape;
	c.in = in;
	c.error_count = 0;
	c.refs = c.few;
	c.ref_count = 0;
	c.ref_cap = REFS_FEW;
	c.from = c.to = SV_NONE;
	buf_init(&c.errors, ERRORS_BYTES_MAX);
	check_item(&c, col);
	if (in->rejected)
		finish_rejected(in, a, &c.errors);
	else
		finish_accepted(&c);
	buf_release(&c.errors);
}

void validate_oversized(struct arena *a, uint64_t bytes, uint64_t max,
			struct incoming *in)
{
	char detail[96];
	struct buf errors;

	snprintf(detail, sizeof(detail),
		 "%" PRIu64 " bytes; the limit is %" PRIu64, bytes, max);
	*in = (struct incoming){.index = in->index, .line = in->line};
	buf_init(&errors, ERRORS_BYTES_MAX);
	add_error(&errors, &(struct place){.list = SV_NONE}, REJECT_TOO_LARGE,
		  detail);
	finish_rejected(in, a, &errors);
	buf_release(&errors);
}
