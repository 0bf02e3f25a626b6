/* The scanner: bytes in, a tape an item out.
 *
 * It stops at the end of a piece wherever that is and goes on from there: in
 * a string between two characters (a cut one is kept in `stash`), in a number
 * with the state of its grammar, in a word with what is left of it. So there
 * is one way through the bytes, whether the body comes whole or not (J6).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "json_internal.h"

#define ITEM_MAX ((size_t)1 << 30)

enum json_step {
	STEP_ON,   /* go on in s->state */
	STEP_MORE, /* the piece is used up */
	STEP_ITEM,
	STEP_END,
	STEP_FAIL,
};

enum json_class { OTHER, QUOTE, DIGIT, WORD, OPEN_ARRAY, OPEN_OBJECT };

static const uint8_t CLASSES[256] = {
	['"'] = QUOTE,       ['-'] = DIGIT, ['0'] = DIGIT, ['1'] = DIGIT,
	['2'] = DIGIT,       ['3'] = DIGIT, ['4'] = DIGIT, ['5'] = DIGIT,
	['6'] = DIGIT,       ['7'] = DIGIT, ['8'] = DIGIT, ['9'] = DIGIT,
	['t'] = WORD,        ['f'] = WORD,  ['n'] = WORD,  ['['] = OPEN_ARRAY,
	['{'] = OPEN_OBJECT,
};

/* Bytes of numbers, and what each does in each state. */
enum number_byte {
	NB_OTHER,
	NB_MINUS,
	NB_PLUS,
	NB_ZERO,
	NB_DIGIT,
	NB_DOT,
	NB_E
};

static const uint8_t NUMBER_BYTES[256] = {
	['-'] = NB_MINUS, ['+'] = NB_PLUS,  ['0'] = NB_ZERO,  ['1'] = NB_DIGIT,
	['2'] = NB_DIGIT, ['3'] = NB_DIGIT, ['4'] = NB_DIGIT, ['5'] = NB_DIGIT,
	['6'] = NB_DIGIT, ['7'] = NB_DIGIT, ['8'] = NB_DIGIT, ['9'] = NB_DIGIT,
	['.'] = NB_DOT,   ['e'] = NB_E,     ['E'] = NB_E,
};

static const uint8_t NUMBERS[NUMBER_STATES][NB_E + 1] = {
	[NUMBER_START] = {[NB_MINUS] = NUMBER_MINUS,
			  [NB_ZERO] = NUMBER_ZERO,
			  [NB_DIGIT] = NUMBER_DIGITS},
	[NUMBER_MINUS] = {[NB_ZERO] = NUMBER_ZERO, [NB_DIGIT] = NUMBER_DIGITS},
	[NUMBER_ZERO] = {[NB_DOT] = NUMBER_DOT, [NB_E] = NUMBER_E},
	[NUMBER_DIGITS] = {[NB_ZERO] = NUMBER_DIGITS,
			   [NB_DIGIT] = NUMBER_DIGITS,
			   [NB_DOT] = NUMBER_DOT,
			   [NB_E] = NUMBER_E},
	[NUMBER_DOT] =
		{[NB_ZERO] = NUMBER_FRACTION, [NB_DIGIT] = NUMBER_FRACTION},
	[NUMBER_FRACTION] = {[NB_ZERO] = NUMBER_FRACTION,
			     [NB_DIGIT] = NUMBER_FRACTION,
			     [NB_E] = NUMBER_E},
	[NUMBER_E] = {[NB_MINUS] = NUMBER_SIGN,
		      [NB_PLUS] = NUMBER_SIGN,
		      [NB_ZERO] = NUMBER_EXPONENT,
		      [NB_DIGIT] = NUMBER_EXPONENT},
	[NUMBER_SIGN] =
		{[NB_ZERO] = NUMBER_EXPONENT, [NB_DIGIT] = NUMBER_EXPONENT},
	[NUMBER_EXPONENT] =
		{[NB_ZERO] = NUMBER_EXPONENT, [NB_DIGIT] = NUMBER_EXPONENT},
};

/* What must follow where a number cannot end; NULL where it can. */
static const char *const NUMBER_WANTS[NUMBER_STATES] = {
	[NUMBER_MINUS] = "expected a digit after the minus",
	[NUMBER_DOT] = "expected a digit after the point",
	[NUMBER_E] = "expected a sign or digit in the exponent",
	[NUMBER_SIGN] = "expected a digit in the exponent",
};

static uint64_t here(const struct json_items *s)
{
	return s->piece_at + (uint64_t)(s->p - s->base);
}

/* Counted from the item's first byte. */
static uint32_t in_item(const struct json_items *s, uint64_t at)
{
	return (uint32_t)(at - s->item_at);
}

static struct json_level *top(struct json_items *s)
{
	return &s->levels[s->depth - 1];
}

/* The pointer of a refusal is the value that is read or must come (`depth`
 * steps), or the container it is in (one step less). */
static enum json_step refuse_value(struct json_items *s, const char *what)
{
	json_place_fail(s, FAIL_JSON_SYNTAX, here(s), s->depth, what, true);
	return STEP_FAIL;
}

static enum json_step refuse_inside(struct json_items *s, const char *what)
{
	json_place_fail(s, FAIL_JSON_SYNTAX, here(s), s->depth - 1, what, true);
	return STEP_FAIL;
}

/* White space; true if a byte is left after it. A line end is none in NDJSON:
 * there it is the end of the value. */
static bool skip_space(struct json_items *s)
{
	const char *p = s->p, *end = s->end;

	if (p < end && (unsigned char)*p > ' ')
		return true;
	for (; p < end; p++) {
		if (*p == '\n') {
			if (s->format == JSON_LINES)
				break;
			s->line++;
			s->line_at = s->piece_at + (uint64_t)(p - s->base) + 1;
		} else if (*p != ' ' && *p != '\t' && *p != '\r') {
			break;
		}
	}
	s->spaced |= p != s->p;
	s->p = p;
	return p < end;
}

/* An item that turns out too large loses its bytes and tape, no more. */
static void skip_item(struct json_items *s)
{
	s->skip = true;
	s->tokens_n = s->tokens_room = 0;
	s->carry_n = 0;
}

/* The most tokens the tape may have: an item of item_max bytes has no more. */
static size_t tokens_most(const struct json_items *s)
{
	size_t most = s->item_max / 2 + 8;

	if (s->format == JSON_ONE && s->limits.tokens_max < most)
		return s->limits.tokens_max;
	return most;
}

/* Too many tokens are a fault of a document only, and only if the item is not
 * oversized already: in pieces it is skipped by then (J6). */
static bool tape_full(struct json_items *s)
{
	s->crowded = s->format == JSON_ONE &&
		     s->tokens_n >= s->limits.tokens_max &&
		     here(s) - s->item_at <= s->item_max;
	skip_item(s);
	return false;
}

static bool tape_grow(struct json_items *s)
{
	size_t most = tokens_most(s), cap = (size_t)s->tokens_cap * 2;
	struct json_token *grown;

	if (s->skip || !s->in_item)
		return false;
	if (s->tokens_n >= most)
		return tape_full(s);
	cap = cap < 64 ? 64 : cap;
	cap = cap > most ? most : cap;
	grown = arena_reserve(s->arena, cap * sizeof(*grown));
	if (s->tokens_n)
		memcpy(grown, s->tokens, s->tokens_n * sizeof(*grown));
	s->tokens = grown;
	s->tokens_cap = s->tokens_room = (uint32_t)cap;
	return true;
}

static inline void push(struct json_items *s, enum json_kind kind,
			uint64_t start, uint64_t end, uint8_t flags)
{
	if (s->tokens_n == s->tokens_room && !tape_grow(s))
		return;
	s->tokens[s->tokens_n] = (struct json_token){.start = in_item(s, start),
						     .end = in_item(s, end),
						     .next = s->tokens_n + 1,
						     .kind = (uint8_t)kind,
						     .flags = flags};
	s->tokens_n++;
}

static void item_begin(struct json_items *s)
{
	s->item_at = here(s);
	s->in_item = true;
	s->skip = s->spaced = false;
	s->tokens_n = 0;
	s->tokens_room = s->tokens_cap;
	s->carry_n = 0;
}

static inline enum json_step value_end(struct json_items *s)
{
	s->state = s->depth ? AT_COMMA : AT_END;
	return s->depth == s->item_depth ? STEP_ITEM : STEP_ON;
}

static enum json_step open_level(struct json_items *s, bool object)
{
	struct json_level *l;

	if (s->depth >= s->limits.depth_max) {
		char what[64];

		snprintf(what, sizeof(what), "more than %u levels deep",
			 s->limits.depth_max);
		json_place_fail(s, FAIL_JSON_DEPTH, here(s), s->depth, what,
				false);
		return STEP_FAIL;
	}
	l = &s->levels[s->depth++];
	l->token = s->tokens_n;
	l->names_from = s->names_n;
	l->count = 0;
	l->object = object;
	l->named = false;
	push(s, object ? JSON_OBJECT : JSON_ARRAY, here(s), here(s), 0);
	s->p++;
	s->state = object ? AT_FIRST_NAME : AT_ELEMENT;
	return STEP_ON;
}

static enum json_step close_level(struct json_items *s)
{
	struct json_level *l = top(s);

	s->p++;
	s->depth--;
	s->names_n = l->names_from;
	if (s->path_levels > s->depth)
		s->path_levels = s->depth;
	/* Nothing is on the tape of a skipped item, nor of the envelope. */
	if (l->token < s->tokens_n) {
		s->tokens[l->token].end = in_item(s, here(s));
		s->tokens[l->token].next = s->tokens_n;
	}
	return value_end(s);
}

/* A part of a name, still escaped, into the hash and, if it comes in parts,
 * into the path. */
static void name_add(struct json_items *s, const char *p, const char *end)
{
	while (p < end) {
		const char *plain = memchr(p, '\\', (size_t)(end - p));
		char text[4];
		size_t n;

		n = (size_t)((plain ? plain : end) - p);
		json_hash_add(&s->hash, p, n);
		if (s->streaming)
			json_place_add(s, p, n);
		if (!plain)
			return;
		p = plain + json_unit_decode(plain, text, &n);
		json_hash_add(&s->hash, text, n);
		if (s->streaming)
			json_place_add(s, text, n);
	}
}

/* Without a branch a name, so that a full object costs little. */
static bool is_known(const uint64_t *names, size_t n, uint64_t hash)
{
	bool known = false;

	for (size_t i = 0; i < n; i++)
		known |= names[i] == hash;
	return known;
}

static void remember(struct json_items *s, uint64_t hash)
{
	if (s->names_n == s->names_cap) {
		size_t cap = s->names_cap ? s->names_cap * 2 : 64;
		uint64_t *grown = arena_reserve(s->arena, cap * sizeof(*grown));

		if (s->names_n)
			memcpy(grown, s->names, s->names_n * sizeof(*grown));
		s->names = grown;
		s->names_cap = cap;
	}
	s->names[s->names_n++] = hash;
}

static enum json_step refuse_name(struct json_items *s, enum fail_code code,
				  const char *what)
{
	json_place_fail(s, code, s->token_at, s->depth, what, false);
	return STEP_FAIL;
}

static enum json_step refuse_names(struct json_items *s)
{
	char what[64];

	snprintf(what, sizeof(what), "more than %u names in an object",
		 s->limits.names_max);
	json_place_fail(s, FAIL_JSON_NAMES, s->token_at, s->depth - 1, what,
			false);
	return STEP_FAIL;
}

/* The only member an envelope may have. */
static bool is_items(struct json_items *s)
{
	json_place_save(s, 1);
	return s->levels[0].path_n == 6 && memcmp(s->path, "/items", 6) == 0;
}

static enum json_step name_check(struct json_items *s)
{
	struct json_level *l = top(s);
	uint64_t hash;

	if (l->count >= s->limits.names_max)
		return refuse_names(s);
	hash = json_hash_end(&s->hash);
	if (is_known(s->names + l->names_from, s->names_n - l->names_from,
		     hash))
		return refuse_name(s, FAIL_JSON_DUPLICATE,
				   "a name that the object already has");
	if (s->depth < s->item_depth && !is_items(s))
		return refuse_name(s, FAIL_JSON_SYNTAX,
				   "an envelope has the member \"items\" and "
				   "no other; an unknown one begins");
	remember(s, hash);
	l->count++;
	s->state = AT_COLON;
	return STEP_ON;
}

static enum json_step name_end(struct json_items *s)
{
	struct json_level *l = top(s);
	const char *end = s->p++;

	if (s->streaming) {
		name_add(s, s->run, end);
		s->path_levels = s->depth;
	} else {
		json_hash_init(&s->hash);
		if (s->flags & JSON_ESCAPED)
			name_add(s, s->run, end);
		else
			json_hash_add(&s->hash, s->run, (size_t)(end - s->run));
		l->name = s->run;
		l->name_n = (size_t)(end - s->run);
		if (s->path_levels >= s->depth)
			s->path_levels = s->depth - 1;
	}
	s->streaming = false;
	l->named = true;
	push(s, JSON_NAME, s->token_at, here(s), s->flags);
	return name_check(s);
}

static enum json_step string_end(struct json_items *s)
{
	s->p++;
	push(s, JSON_STRING, s->token_at, here(s), s->flags);
	return value_end(s);
}

/* A name's own faults are the object's, a string's are its own. */
static uint32_t string_levels(const struct json_items *s)
{
	return s->state == IN_NAME ? s->depth - 1 : s->depth;
}

static enum json_step refuse_string(struct json_items *s, const char *what,
				    bool found)
{
	json_place_fail(s, FAIL_JSON_SYNTAX, here(s), string_levels(s), what,
			found);
	return STEP_FAIL;
}

static enum json_step refuse_unit(struct json_items *s, uint64_t at,
				  const struct json_unit *u)
{
	json_place_fail(s, u->bad, at + u->bad_n, string_levels(s), u->why,
			false);
	return STEP_FAIL;
}

/* The bytes from s->run to `end` are whole characters. */
static enum json_step string_runs_out(struct json_items *s, const char *end)
{
	s->run_end = end;
	s->p = s->end;
	if (s->last)
		return refuse_string(s, "expected the end of a string", true);
	return STEP_MORE;
}

/* Go on with the unit that the last piece cut off. */
static enum json_step stash_end(struct json_items *s)
{
	uint64_t at = here(s) - s->stash_n;

	while (s->p < s->end) {
		struct json_unit u;

		s->stash[s->stash_n++] = *s->p++;
		u = json_unit_look(s->stash, s->stash_n);
		if (u.bad)
			return refuse_unit(s, at, &u);
		if (!u.n)
			continue;
		if (s->state == IN_NAME)
			name_add(s, s->stash, s->stash + s->stash_n);
		s->run = s->p;
		s->stash_n = 0;
		return STEP_ON;
	}
	return string_runs_out(s, s->run);
}

/* An escape or a character over 0x7f at s->p. */
static enum json_step unit_step(struct json_items *s)
{
	struct json_unit u = json_unit_look(s->p, (size_t)(s->end - s->p));

	if (u.bad)
		return refuse_unit(s, here(s), &u);
	if (*s->p == '\\')
		s->flags |= JSON_ESCAPED;
	if (u.n) {
		s->p += u.n;
		return STEP_ON;
	}
	if (!s->last) {
		s->stash_n = (uint8_t)(s->end - s->p);
		memcpy(s->stash, s->p, s->stash_n);
	}
	return string_runs_out(s, s->p);
}

static enum json_step in_string(struct json_items *s)
{
	enum json_step step = s->stash_n ? stash_end(s) : STEP_ON;

	while (step == STEP_ON) {
		s->p = json_plain(s->p, s->end);
		if (s->p == s->end)
			return string_runs_out(s, s->end);
		if (*s->p == '"')
			return s->state == IN_NAME ? name_end(s)
						   : string_end(s);
		if ((unsigned char)*s->p < 0x20)
			return refuse_string(s,
					     "a control character in a string "
					     "must be escaped",
					     true);
		step = unit_step(s);
	}
	return step;
}

static enum json_step string_begin(struct json_items *s, enum json_state state)
{
	s->token_at = here(s);
	s->state = state;
	s->flags = 0;
	s->run = ++s->p;
	return in_string(s);
}

static enum json_step number_end(struct json_items *s)
{
	if (NUMBER_WANTS[s->number])
		return refuse_value(s, NUMBER_WANTS[s->number]);
	push(s, JSON_NUMBER, s->token_at, here(s), s->flags);
	return value_end(s);
}

static enum json_step in_number(struct json_items *s)
{
	const char *p = s->p, *end = s->end;
	enum json_number state = s->number, next = state;

	for (; p < end; p++) {
		next = NUMBERS[state][NUMBER_BYTES[(unsigned char)*p]];
		if (next == NUMBER_NONE)
			break;
		if (next != NUMBER_DIGITS && next != NUMBER_ZERO)
			s->flags = 0;
		state = next;
	}
	s->p = p;
	s->number = state;
	return p == end && !s->last ? STEP_MORE : number_end(s);
}

static enum json_step number_begin(struct json_items *s)
{
	s->token_at = here(s);
	s->state = IN_NUMBER;
	s->number = NUMBER_START;
	s->flags = JSON_INTEGER;
	return in_number(s);
}

static enum json_step in_word(struct json_items *s)
{
	for (; *s->word; s->word++, s->p++) {
		if (s->p == s->end && !s->last)
			return STEP_MORE;
		if (s->p == s->end || *s->p != *s->word)
			return refuse_value(s, "expected true, false or null");
	}
	push(s, s->kind, s->token_at, here(s), 0);
	return value_end(s);
}

static enum json_step word_begin(struct json_items *s)
{
	s->token_at = here(s);
	s->state = IN_WORD;
	s->kind = *s->p == 't'   ? JSON_TRUE
		  : *s->p == 'f' ? JSON_FALSE
				 : JSON_NULL;
	s->word = *s->p == 't' ? "true" : *s->p == 'f' ? "false" : "null";
	return in_word(s);
}

/* In front of the items, only the two brackets of the envelope may open. */
static enum json_step envelope_value(struct json_items *s)
{
	if (s->depth == 0 && *s->p != '{')
		return refuse_value(s, "expected { of the envelope "
				       "{\"items\":[...]}");
	if (s->depth == 1 && *s->p != '[')
		return refuse_value(s, "expected [: \"items\" is an array");
	return open_level(s, s->depth == 0);
}

static enum json_step value_begin(struct json_items *s)
{
	if (s->depth < s->item_depth)
		return envelope_value(s);
	if (s->depth == s->item_depth)
		item_begin(s);
	switch ((enum json_class)CLASSES[(unsigned char)*s->p]) {
	case QUOTE:
		return string_begin(s, IN_STRING);
	case DIGIT:
		return number_begin(s);
	case WORD:
		return word_begin(s);
	case OPEN_ARRAY:
		return open_level(s, false);
	case OPEN_OBJECT:
		return open_level(s, true);
	case OTHER:
		break;
	}
	return refuse_value(s, "expected a value");
}

/* Between two lines of NDJSON. */
static enum json_step line_end(struct json_items *s)
{
	s->p++;
	s->line++;
	s->line_at = here(s);
	s->state = AT_VALUE;
	return STEP_ON;
}

static bool at_line_end(const struct json_items *s)
{
	return s->format == JSON_LINES && s->depth == 0 && *s->p == '\n';
}

static enum json_step at_value(struct json_items *s)
{
	if (skip_space(s))
		return at_line_end(s) ? line_end(s) : value_begin(s);
	if (!s->last)
		return STEP_MORE;
	if (s->format == JSON_LINES && s->depth == 0)
		return STEP_END;
	return refuse_value(s, "expected a value");
}

static enum json_step at_element(struct json_items *s)
{
	if (skip_space(s))
		return *s->p == ']' ? close_level(s) : value_begin(s);
	if (!s->last)
		return STEP_MORE;
	return refuse_value(s, "expected a value or ]");
}

static enum json_step at_name(struct json_items *s)
{
	if (!skip_space(s) && !s->last)
		return STEP_MORE;
	if (s->p < s->end && *s->p == '"')
		return string_begin(s, IN_NAME);
	return refuse_inside(s, "expected a name");
}

static enum json_step at_first_name(struct json_items *s)
{
	if (!skip_space(s) && !s->last)
		return STEP_MORE;
	if (s->p < s->end && *s->p == '"')
		return string_begin(s, IN_NAME);
	if (s->p == s->end || *s->p != '}')
		return refuse_inside(s, "expected a name or }");
	if (s->depth < s->item_depth)
		return refuse_inside(s, "expected the member \"items\"");
	return close_level(s);
}

static enum json_step at_colon(struct json_items *s)
{
	if (!skip_space(s) && !s->last)
		return STEP_MORE;
	if (s->p == s->end || *s->p != ':')
		return refuse_value(s, "expected : after a name");
	s->p++;
	s->state = AT_VALUE;
	return at_value(s);
}

static enum json_step comma(struct json_items *s)
{
	s->p++;
	if (top(s)->object) {
		s->state = AT_NAME;
		return at_name(s);
	}
	top(s)->count++;
	if (s->path_levels >= s->depth)
		s->path_levels = s->depth - 1;
	s->state = AT_VALUE;
	return at_value(s);
}

static enum json_step refuse_crowd(struct json_items *s)
{
	char what[80];

	snprintf(what, sizeof(what), "more than %u values and names",
		 s->limits.tokens_max);
	json_place_fail(s, FAIL_BODY_TOO_LARGE, here(s), s->depth, what, false);
	return STEP_FAIL;
}

static enum json_step at_comma(struct json_items *s)
{
	bool object = top(s)->object;

	if (s->crowded)
		return refuse_crowd(s);
	if (!skip_space(s) && !s->last)
		return STEP_MORE;
	if (s->p < s->end && *s->p == ',')
		return comma(s);
	if (s->p < s->end && *s->p == (object ? '}' : ']'))
		return close_level(s);
	return refuse_inside(s, object ? "expected , or }" : "expected , or ]");
}

static enum json_step at_end(struct json_items *s)
{
	if (!skip_space(s))
		return s->last ? STEP_END : STEP_MORE;
	if (at_line_end(s))
		return line_end(s);
	return refuse_value(s, s->format == JSON_LINES
				       ? "expected the end of the line"
				       : "expected nothing after the end");
}

static enum json_step step_once(struct json_items *s)
{
	switch (s->state) {
	case AT_VALUE:
		return at_value(s);
	case AT_ELEMENT:
		return at_element(s);
	case AT_FIRST_NAME:
		return at_first_name(s);
	case AT_NAME:
		return at_name(s);
	case AT_COLON:
		return at_colon(s);
	case AT_COMMA:
		return at_comma(s);
	case AT_END:
		return at_end(s);
	case IN_STRING:
	case IN_NAME:
		return in_string(s);
	case IN_NUMBER:
		return in_number(s);
	case IN_WORD:
		return in_word(s);
	}
	bug("state %d", (int)s->state);
}

static void carry_add(struct json_items *s, const char *p, size_t n)
{
	if (n > s->carry_cap - s->carry_n) {
		size_t cap = s->carry_cap ? s->carry_cap : 4096;
		char *grown;

		while (cap - s->carry_n < n)
			cap *= 2;
		grown = arena_reserve(s->arena, cap);
		if (s->carry_n)
			memcpy(grown, s->carry, s->carry_n);
		s->carry = grown;
		s->carry_cap = cap;
	}
	memcpy(s->carry + s->carry_n, p, n);
	s->carry_n += n;
}

/* The part of the item that is in this piece, up to s->p. */
static struct sv item_part(const struct json_items *s)
{
	uint64_t from = s->item_at > s->piece_at ? s->item_at - s->piece_at : 0;

	return sv_from(s->base + from, (size_t)(s->p - s->base) - from);
}

/* Save what the piece holds and is needed after it. */
static void leave_piece(struct json_items *s)
{
	if (s->state == IN_NAME) {
		if (!s->streaming) {
			json_place_begin(s);
			json_hash_init(&s->hash);
			s->streaming = true;
		}
		name_add(s, s->run, s->run_end);
	} else if (s->depth) {
		bool step = !top(s)->object || top(s)->named;

		json_place_save(s, s->depth - !step);
	}
	if (s->in_item && !s->skip) {
		if (here(s) - s->item_at > s->item_max)
			skip_item(s);
		else
			carry_add(s, item_part(s).p, item_part(s).n);
	}
	s->piece_at += (uint64_t)(s->end - s->base);
	s->p = s->base = s->end = "";
}

static void give_item(struct json_items *s, struct json_item *item)
{
	*item = (struct json_item){.index = s->index++,
				   .at = s->item_at,
				   .bytes_count = here(s) - s->item_at};
	if (s->format == JSON_LINES)
		item->line = s->line;
	item->oversized = s->skip || item->bytes_count > s->item_max;
	if (item->oversized)
		return;
	if (s->carry_n) {
		carry_add(s, item_part(s).p, item_part(s).n);
		item->bytes = sv_from(s->carry, s->carry_n);
	} else {
		item->bytes = item_part(s);
	}
	item->tape = (struct json_tape){.bytes = item->bytes,
					.tokens = s->tokens,
					.count = s->tokens_n,
					.spaced = s->spaced};
}

struct json_items *json_items_new(struct arena *a, enum json_format format,
				  const struct json_limits *limits,
				  size_t item_max)
{
	struct json_items *s = arena_alloc(a, sizeof(*s));

	if (item_max > ITEM_MAX)
		bug("item_max of %zu bytes", item_max);
	s->p = s->end = s->base = "";
	s->format = format;
	s->item_depth = format == JSON_ENVELOPE ? 2 : 0;
	s->limits = *limits;
	if (!s->limits.tokens_max)
		s->limits.tokens_max = JSON_TOKENS_MAX;
	s->item_max = item_max;
	s->arena = a;
	s->line = 1;
	s->levels = arena_array(a, limits->depth_max, sizeof(*s->levels));
	return s;
}

void json_items_feed(struct json_items *s, struct sv piece, bool last)
{
	if (s->p != s->end || s->last)
		bug("fed before the last piece was used up");
	s->p = s->base = s->run = piece.n ? piece.p : "";
	s->end = s->base + piece.n;
	s->last = last;
}

enum json_got json_items_next(struct json_items *s, struct json_item *item_r,
			      struct fail *f)
{
	enum json_step step = STEP_ON;

	if (s->failure.code)
		step = STEP_FAIL;
	while (step == STEP_ON)
		step = step_once(s);
	switch (step) {
	case STEP_ON:
	case STEP_MORE:
		leave_piece(s);
		return JSON_MORE;
	case STEP_ITEM:
		give_item(s, item_r);
		s->in_item = false;
		s->tokens_n = s->tokens_room = 0;
		return JSON_ITEM;
	case STEP_END:
		return JSON_END;
	case STEP_FAIL:
		*f = s->failure;
		return JSON_FAIL;
	}
	bug("step %d", (int)step);
}
