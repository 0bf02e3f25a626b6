/* The scanner: bytes in, a tape an item out.
 *
 * It stops at the end of a piece wherever that is and goes on from there: in
 * a string between two characters (a cut one is kept in `stash`), in a number
 * with the state of its grammar, in a word with what is left of it. So there
 * is one way through the bytes, whether the body comes whole or not (J6).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "json_internal.h"

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
	json_place_fail(s, FAIL_JSON_SYNTAX, json_here(s), s->depth, what,
			true);
	return STEP_FAIL;
}

static enum json_step refuse_inside(struct json_items *s, const char *what)
{
	json_place_fail(s, FAIL_JSON_SYNTAX, json_here(s), s->depth - 1, what,
			true);
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

static inline void push(struct json_items *s, enum json_kind kind,
			uint64_t start, uint64_t end, uint8_t flags)
{
	if (s->tokens_n == s->tokens_room && !json_tape_grow(s))
		return;
	s->tokens[s->tokens_n] = (struct json_token){.start = in_item(s, start),
						     .end = in_item(s, end),
						     .next = s->tokens_n + 1,
						     .kind = (uint8_t)kind,
						     .flags = flags};
	s->tokens_n++;
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
		json_place_fail(s, FAIL_JSON_DEPTH, json_here(s), s->depth,
				what, false);
		return STEP_FAIL;
	}
	l = &s->levels[s->depth++];
	l->token = s->tokens_n;
	l->names_from = s->names_n;
	l->count = 0;
	l->object = object;
	l->named = false;
	push(s, object ? JSON_OBJECT : JSON_ARRAY, json_here(s), json_here(s),
	     0);
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
		s->tokens[l->token].end = in_item(s, json_here(s));
		s->tokens[l->token].next = s->tokens_n;
	}
	return value_end(s);
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
	if (json_name_known(s, l->names_from, hash))
		return refuse_name(s, FAIL_JSON_DUPLICATE,
				   "a name that the object already has");
	if (s->depth < s->item_depth && !is_items(s))
		return refuse_name(s, FAIL_JSON_SYNTAX,
				   "an envelope has the member \"items\" and "
				   "no other; an unknown one begins");
	json_name_keep(s, hash);
	l->count++;
	s->state = AT_COLON;
	return STEP_ON;
}

static enum json_step name_end(struct json_items *s)
{
	struct json_level *l = top(s);
	const char *end = s->p++;

	if (s->streaming) {
		json_name_add(s, s->run, end);
		s->path_levels = s->depth;
	} else {
		json_hash_init(&s->hash);
		if (s->flags & JSON_ESCAPED)
			json_name_add(s, s->run, end);
		else
			json_hash_add(&s->hash, s->run, (size_t)(end - s->run));
		l->name = s->run;
		l->name_n = (size_t)(end - s->run);
		if (s->path_levels >= s->depth)
			s->path_levels = s->depth - 1;
	}
	s->streaming = false;
	l->named = true;
	push(s, JSON_NAME, s->token_at, json_here(s), s->flags);
	return name_check(s);
}

static enum json_step string_end(struct json_items *s)
{
	s->p++;
	push(s, JSON_STRING, s->token_at, json_here(s), s->flags);
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
	json_place_fail(s, FAIL_JSON_SYNTAX, json_here(s), string_levels(s),
			what, found);
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
	uint64_t at = json_here(s) - s->stash_n;

	while (s->p < s->end) {
		struct json_unit u;

		s->stash[s->stash_n++] = *s->p++;
		u = json_unit_look(s->stash, s->stash_n);
		if (u.bad)
			return refuse_unit(s, at, &u);
		if (!u.n)
			continue;
		if (s->state == IN_NAME)
			json_name_add(s, s->stash, s->stash + s->stash_n);
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
		return refuse_unit(s, json_here(s), &u);
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
	s->token_at = json_here(s);
	s->state = state;
	s->flags = 0;
	s->run = ++s->p;
	return in_string(s);
}

static enum json_step number_end(struct json_items *s)
{
	if (NUMBER_WANTS[s->number])
		return refuse_value(s, NUMBER_WANTS[s->number]);
	push(s, JSON_NUMBER, s->token_at, json_here(s), s->flags);
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
	s->token_at = json_here(s);
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
	push(s, s->kind, s->token_at, json_here(s), 0);
	return value_end(s);
}

static enum json_step word_begin(struct json_items *s)
{
	s->token_at = json_here(s);
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
		json_item_begin(s);
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
	s->line_at = json_here(s);
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
	json_place_fail(s, FAIL_BODY_TOO_LARGE, json_here(s), s->depth, what,
			false);
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

enum json_step json_step_once(struct json_items *s)
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
