/* What the files of the JSON reader share; for nobody else.
 *
 * json.c reads tapes, json_items.c takes pieces and gives items, json_scan.c
 * is the grammar between them, json_names.c and json_string.c are its helpers,
 * json_place.c says where a fault is.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_JSON_INTERNAL_H
#define WAYBILL_JSON_INTERNAL_H

#include "wire/json.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* The longest unit of a string: a surrogate pair in \u escapes. A unit is an
 * escape, or a character of more than one byte. */
enum { JSON_UNIT_MAX = 12 };

/* What the scanner waits for, or is in the middle of. */
enum json_state {
	AT_VALUE,      /* a value must come */
	AT_ELEMENT,    /* after '[': a value or ']' */
	AT_FIRST_NAME, /* after '{': a name or '}' */
	AT_NAME,       /* after ',' in an object */
	AT_COLON,
	AT_COMMA, /* after a value in a container: ',' or its end */
	AT_END,   /* after the outermost value */
	IN_STRING,
	IN_NAME,
	IN_NUMBER,
	IN_WORD, /* true, false, null */
};

enum json_number {
	NUMBER_NONE, /* this byte does not belong to it */
	NUMBER_START,
	NUMBER_MINUS,
	NUMBER_ZERO,
	NUMBER_DIGITS,
	NUMBER_DOT,
	NUMBER_FRACTION,
	NUMBER_E,
	NUMBER_SIGN,
	NUMBER_EXPONENT,
	NUMBER_STATES
};

/* SipHash-1-3 under way. */
struct json_hash {
	uint64_t v[4];
	uint64_t tail; /* the last count % 8 bytes */
	uint64_t count;
};

/* path_n of a level whose step, or one before it, does not fit. */
enum { JSON_PATH_LOST = UINT16_MAX };

/* An open array or object. The name is of the member that is being read; it
 * points into the present piece unless the level's step is saved. */
struct json_level {
	const char *name;
	size_t name_n;
	uint64_t count; /* array: index of the element; object: names */
	size_t names_from;
	uint32_t token;
	uint16_t path_n; /* end of its step in path, if saved */
	bool object, named;
};

struct json_items {
	/* the present piece; piece_at is the place of its first byte */
	const char *p, *end, *base;
	uint64_t piece_at;
	bool last;

	enum json_state state;
	uint32_t depth, item_depth;
	struct json_level *levels;
	uint64_t *names; /* hashes of the names of all open objects */
	size_t names_n, names_cap;

	/* the string, number or word that is being read */
	uint64_t token_at;
	uint8_t flags;
	uint8_t stash_n;           /* a unit cut off by the end of a piece */
	bool streaming;            /* the name began in an earlier piece */
	const char *run, *run_end; /* bytes of the name not yet in `hash` */
	const char *word;          /* what is left of it */
	enum json_kind kind;
	enum json_number number;
	char stash[JSON_UNIT_MAX];
	struct json_hash hash;

	/* the item */
	uint64_t item_at, index;
	bool in_item, skip, spaced, crowded;
	struct json_token *tokens;
	uint32_t tokens_n, tokens_room, tokens_cap;
	char *carry;
	size_t carry_n, carry_cap;

	/* places */
	uint64_t line, line_at;
	uint32_t path_levels; /* how many levels' steps stand in path */
	char path[sizeof(((struct fail *)NULL)->pointer)];

	enum json_format format;
	struct json_limits limits;
	size_t item_max;
	struct arena *arena;
	struct fail failure;
};

/* Where the run of bytes ends that mean themselves: before a quote, a
 * backslash, a control character or a byte over 0x7f. */
static inline const char *json_plain(const char *p, const char *end)
{
#ifdef __SSE2__
	while (end - p >= 16) {
		__m128i v = _mm_loadu_si128((const void *)p);
		__m128i odd =
			_mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')),
				     _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
		/* As signed bytes, those over 0x7f are below 0x20 too. */
		__m128i low = _mm_cmplt_epi8(v, _mm_set1_epi8(0x20));
		int mask = _mm_movemask_epi8(_mm_or_si128(odd, low));

		if (mask)
			return p + __builtin_ctz((unsigned)mask);
		p += 16;
	}
#else
	const uint64_t ones = 0x0101010101010101, tops = ones << 7;

	while (end - p >= 8) {
		uint64_t v, quote, slash;

		memcpy(&v, p, 8);
		quote = v ^ ones * '"';
		slash = v ^ ones * '\\';
		if (((v - ones * 0x20) | (quote - ones) | (slash - ones) | v) &
		    tops)
			break;
		p += 8;
	}
#endif
	while (p < end && *p >= 0x20 && *p != '"' && *p != '\\' &&
	       !((unsigned char)*p & 0x80))
		p++;
	return p;
}

/* What a unit is like that begins at p, of which n > 0 bytes are there. */
struct json_unit {
	size_t n;     /* its length; 0: it needs more bytes, or is bad */
	size_t bad_n; /* where it is bad, counted from p */
	enum fail_code bad;
	const char *why;
};
struct json_unit json_unit_look(const char *p, size_t n);
/* The character of a right one, as UTF-8; both lengths are returned. */
size_t json_unit_decode(const char *p, char out[4], size_t *out_n);

void json_hash_init(struct json_hash *h);
void json_hash_add(struct json_hash *h, const char *p, size_t n);
uint64_t json_hash_end(struct json_hash *h);

/* Write the steps of the first `levels` levels into path, where they stay
 * valid when the piece is gone. */
void json_place_save(struct json_items *s, uint32_t levels);
/* A name that comes in parts: begin, then bytes of it, unescaped. */
void json_place_begin(struct json_items *s);
void json_place_add(struct json_items *s, const char *p, size_t n);

/* Fill s->failure; the pointer has the steps of `levels` levels. `found`
 * says that the byte at s->p, or the end, is not what was expected. */
void json_place_fail(struct json_items *s, enum fail_code code, uint64_t at,
		     uint32_t levels, const char *what, bool found);

/* One step of the scanner, in s->state. */
enum json_step {
	STEP_ON,   /* go on in s->state */
	STEP_MORE, /* the piece is used up */
	STEP_ITEM,
	STEP_END,
	STEP_FAIL,
};

enum json_step json_step_once(struct json_items *s);

/* The place of s->p in the body. */
static inline uint64_t json_here(const struct json_items *s)
{
	return s->piece_at + (uint64_t)(s->p - s->base);
}

/* A value begins at s->p that is an item. */
void json_item_begin(struct json_items *s);
/* Room for a token; false: the tape of this item is given up. */
bool json_tape_grow(struct json_items *s);

void json_name_add(struct json_items *s, const char *p, const char *end);
bool json_name_known(const struct json_items *s, size_t from, uint64_t hash);
void json_name_keep(struct json_items *s, uint64_t hash);

#endif
