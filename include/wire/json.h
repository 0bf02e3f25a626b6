/* The strict JSON reader: the gate for every JSON body.
 *
 * It reads once, from the first byte to the last, without recursion, and
 * writes a flat tape of tokens over the bytes. Nothing is copied or converted:
 * a number stays the text that was sent.
 *
 * Guarantees, cited by tests/unit/test_json.c:
 *
 *  J1  What it accepts is RFC 8259 and nothing more: no byte order mark, no
 *      comment, no trailing comma, nothing after the end.
 *  J2  Strings are UTF-8; a \u surrogate stands in a pair. "\u0000" is a
 *      character like any other.
 *  J3  No object has a name twice, compared after unescaping. Names are told
 *      apart by a 64-bit hash (SipHash-1-3) under a random key of the process,
 *      so a sender cannot make them collide; two different names do so with a
 *      chance of 2^-64, and then the body is refused.
 *  J4  At most depth_max arrays and objects are open at once, at most
 *      names_max names stand in an object. An envelope counts: the items of
 *      {"items":[...]} begin at depth 3.
 *  J5  Time is linear in the bytes (a name costs at most names_max
 *      comparisons of 8 bytes). Memory is bounded by the limits and item_max,
 *      never by the size of the body.
 *  J6  Fed whole or in pieces of any sizes, the result is the same: the same
 *      items, the same error with the same pointer, line and byte.
 *  J7  An item over item_max bytes is no error: it is handed out without bytes
 *      and tape. J1 to J4 are checked inside it all the same.
 *  J8  A body that is one piece is not copied: items are views into it.
 *
 * A whole document:
 *
 *	struct json_tape t;
 *	if (!json_read(&arena, body, &limits, &t, f))
 *		return false;
 *	uint32_t v = json_find(&t, 0, SV("name"));
 *	if (v && json_kind(&t, v) == JSON_STRING)
 *		name = json_text(&arena, &t, v);
 *
 * Items, from a body that comes in pieces (or is one piece with last = true):
 *
 *	s = json_items_new(&arena, JSON_ENVELOPE, &limits, item_max);
 *	do {
 *		piece = ...
 *		json_items_feed(s, piece, last);
 *		while ((got = json_items_next(s, &item, f)) == JSON_ITEM)
 *			...
 *	} while (got == JSON_MORE);
 *	got is JSON_END, or JSON_FAIL and f says why
 *
 * A failure has one of the codes JSON_SYNTAX, JSON_UTF8, JSON_DUPLICATE,
 * JSON_DEPTH, JSON_NAMES, or BODY_TOO_LARGE for a document of too many
 * tokens. Its detail says what was expected, what was found and where: bytes
 * are counted from 0, lines and columns from 1, a column is a byte. Its
 * pointer (RFC 6901) is of the value that breaks, that is missing, or that has
 * the doubled name; of the object or array where a name, a comma or the end is
 * missing. A pointer too long for the field is cut after the last whole step
 * that fits, and before a name with U+0000. `line` is set for JSON_LINES only,
 * and there the pointer begins at the line's value.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_JSON_H
#define WAYBILL_JSON_H

#include "base/arena.h"
#include "base/fail.h"

/* The tape. Token 0 is the value read. A container is followed by what it
 * holds; a member is its name (JSON_NAME) and then its value. */
enum json_kind {
	JSON_NULL,
	JSON_FALSE,
	JSON_TRUE,
	JSON_NUMBER,
	JSON_STRING,
	JSON_NAME,
	JSON_ARRAY,
	JSON_OBJECT,
};

enum {
	JSON_ESCAPED = 1, /* a string or name with a backslash in it */
	JSON_INTEGER = 2, /* a number of digits only: no minus, '.', 'e' */
};

struct json_token {
	uint32_t start, end; /* of its bytes, quotes and brackets included */
	uint32_t next;       /* the token after it and all it holds */
	uint8_t kind;        /* enum json_kind */
	uint8_t flags;
	uint16_t unused;
};

struct json_tape {
	struct sv bytes; /* what start and end count in */
	const struct json_token *tokens;
	uint32_t count;
	bool spaced; /* white space somewhere between the tokens */
};

/* Zero of tokens_max means JSON_TOKENS_MAX. It holds for whole documents; the
 * tokens of an item are bounded by item_max (at most one for two bytes). */
struct json_limits {
	uint32_t depth_max, names_max, tokens_max;
};

/* 4 MiB of tape: a document of more values and names is BODY_TOO_LARGE. */
enum { JSON_TOKENS_MAX = 256 * 1024 };

/* Read a whole document. The tape is in the arena, over `bytes`, which must
 * stay as long as the tape is used. */
MUST_CHECK bool json_read(struct arena *a, struct sv bytes,
			  const struct json_limits *limits,
			  struct json_tape *tape_r, struct fail *f);

enum json_format {
	JSON_ENVELOPE, /* {"items":[ITEM, ...]} and no other member */
	JSON_LINES,    /* NDJSON: a value a line, ended by LF or CRLF; blank
			  lines are skipped, but counted */
	JSON_ONE,      /* the whole document is the one item */
};

struct json_item {
	uint64_t index;       /* from 0 */
	uint64_t line;        /* JSON_LINES: from 1; else 0 */
	uint64_t at;          /* its first byte in the body */
	uint64_t bytes_count; /* its length, also where it is oversized */
	bool oversized;       /* over item_max: bytes and tape are empty */
	struct sv bytes;
	struct json_tape tape;
};

enum json_got {
	JSON_ITEM, /* *item_r holds until the next call of next or feed */
	JSON_MORE, /* the piece is used up and may be thrown away */
	JSON_END,  /* the body was complete and right */
	JSON_FAIL, /* f says why; asked again, it says the same */
};

/* A reader, its carry (at most item_max bytes of an item that began in an
 * earlier piece) and its tape live in the arena and are reused from item to
 * item: there is nothing to free. item_max is at most 1 GiB. */
struct json_items;
struct json_items *json_items_new(struct arena *a, enum json_format format,
				  const struct json_limits *limits,
				  size_t item_max);

/* The next piece of the body, of any size, also empty; `last`: there is none
 * after it. It must stay until JSON_MORE or JSON_END; with last also as long
 * as an item is used. Only at first and after JSON_MORE. */
void json_items_feed(struct json_items *s, struct sv piece, bool last);
enum json_got json_items_next(struct json_items *s, struct json_item *item_r,
			      struct fail *f);

/* A tape that outlives the next call: the tokens are copied into the arena,
 * and the bytes too if copy_bytes (needed unless the body is one piece). */
struct json_tape json_keep(struct arena *a, const struct json_tape *t,
			   bool copy_bytes);

/* Walking. 0 means none: token 0 is never inside another.
 *
 *	for (uint32_t i = json_first(t, list); i; i = json_after(t, list, i))
 *
 * gives the values of an array; of an object the names, each with its value
 * at i + 1. A value that is no container holds nothing. */
enum json_kind json_kind(const struct json_tape *t, uint32_t i);
uint32_t json_first(const struct json_tape *t, uint32_t parent);
uint32_t json_after(const struct json_tape *t, uint32_t parent, uint32_t i);
uint32_t json_count(const struct json_tape *t, uint32_t parent);

/* The value of the member `name`; 0 if there is none or it is no object. */
uint32_t json_find(const struct json_tape *t, uint32_t object, struct sv name);

/* The bytes as they were sent; a string with its quotes. */
struct sv json_raw(const struct json_tape *t, uint32_t i);

/* A string or name without quotes, unescaped. A view into the bytes where
 * there is nothing to unescape, else in the arena. */
struct sv json_text(struct arena *a, const struct json_tape *t, uint32_t i);
bool json_text_is(const struct json_tape *t, uint32_t i, struct sv text);

/* The bytes without white space outside strings. A view where there is none,
 * else in the arena. */
struct sv json_compact(struct arena *a, const struct json_tape *t, uint32_t i);

/* A number written with digits only, in that range; false leaves *v_r. */
MUST_CHECK bool json_u64(const struct json_tape *t, uint32_t i, uint64_t min,
			 uint64_t max, uint64_t *v_r);

#endif
