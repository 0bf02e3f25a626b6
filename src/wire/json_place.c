/* Where a fault is: the JSON Pointer, the byte, the line and the column.
 *
 * A pointer is only made when something fails, from the names of the open
 * levels. When a piece of the body goes away with such names in it, the steps
 * they make are saved in `path`, and no more of them than a pointer can show.
 * Both ways use the same functions, so that both give the same text (J6).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "json_internal.h"

#include <inttypes.h>

/* Room for the terminator stays. */
static bool put(struct json_items *s, size_t *at, char c)
{
	if (*at >= sizeof(s->path) - 1)
		return false;
	s->path[(*at)++] = c;
	return true;
}

/* Unescaped bytes of a name, as RFC 6901 writes them. */
static bool put_name(struct json_items *s, size_t *at, const char *p, size_t n)
{
	for (; n; n--, p++) {
		if (*p == '\0')
			return false;
		if (*p != '~' && *p != '/') {
			if (!put(s, at, *p))
				return false;
		} else if (!put(s, at, '~') ||
			   !put(s, at, *p == '~' ? '0' : '1')) {
			return false;
		}
	}
	return true;
}

static bool put_raw_name(struct json_items *s, size_t *at,
			 const struct json_level *l)
{
	const char *p = l->name, *end = p + l->name_n;

	while (p < end) {
		char text[4];
		size_t n;

		p += json_unit_decode(p, text, &n);
		if (!put_name(s, at, text, n))
			return false;
	}
	return true;
}

static bool put_index(struct json_items *s, size_t *at, uint64_t index)
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, index);

	return put_name(s, at, digits, (size_t)n);
}

/* Where the step of level `depth` begins, or JSON_PATH_LOST. */
static size_t step_from(const struct json_items *s, uint32_t depth)
{
	return depth ? s->levels[depth - 1].path_n : 0;
}

void json_place_save(struct json_items *s, uint32_t levels)
{
	for (; s->path_levels < levels; s->path_levels++) {
		struct json_level *l = &s->levels[s->path_levels];
		size_t at = step_from(s, s->path_levels);
		bool fits = at != JSON_PATH_LOST && put(s, &at, '/');

		if (fits)
			fits = l->object ? put_raw_name(s, &at, l)
					 : put_index(s, &at, l->count);
		l->path_n = fits ? (uint16_t)at : JSON_PATH_LOST;
	}
}

void json_place_begin(struct json_items *s)
{
	struct json_level *l = &s->levels[s->depth - 1];
	size_t at;

	json_place_save(s, s->depth - 1);
	s->path_levels = s->depth - 1;
	at = step_from(s, s->depth - 1);
	if (at == JSON_PATH_LOST || !put(s, &at, '/'))
		at = JSON_PATH_LOST;
	l->path_n = (uint16_t)at;
}

void json_place_add(struct json_items *s, const char *p, size_t n)
{
	struct json_level *l = &s->levels[s->depth - 1];
	size_t at = l->path_n;

	if (at == JSON_PATH_LOST || !put_name(s, &at, p, n))
		at = JSON_PATH_LOST;
	l->path_n = (uint16_t)at;
}

static void set_pointer(struct json_items *s, uint32_t levels)
{
	size_t n = 0;

	json_place_save(s, levels);
	for (uint32_t d = 0; d < levels; d++)
		if (s->levels[d].path_n != JSON_PATH_LOST)
			n = s->levels[d].path_n;
	memcpy(s->failure.pointer, s->path, n);
	s->failure.pointer[n] = '\0';
	s->failure.has_pointer = true;
}

static void found_text(const struct json_items *s, char *out, size_t n)
{
	unsigned char c = s->p < s->end ? (unsigned char)*s->p : 0;

	if (s->p == s->end)
		snprintf(out, n, ", found the end of the body");
	else if (c == '\n' && s->format == JSON_LINES)
		snprintf(out, n, ", found the end of the line");
	else if (c == 0xef && s->piece_at == 0 && s->p == s->base)
		snprintf(out, n, ", found byte 0xef (a byte order mark?)");
	else if (c > ' ' && c < 0x7f)
		snprintf(out, n, ", found %c", c);
	else
		snprintf(out, n, ", found byte 0x%02x", c);
}

void json_place_fail(struct json_items *s, enum fail_code code, uint64_t at,
		     uint32_t levels, const char *what, bool found)
{
	char but[48] = "";

	if (found)
		found_text(s, but, sizeof(but));
	fail_set(&s->failure, code,
		 "%s%s at byte %" PRIu64 " (line %" PRIu64 ", column %" PRIu64
		 ")",
		 what, but, at, s->line, at - s->line_at + 1);
	set_pointer(s, levels);
	if (s->format == JSON_LINES)
		s->failure.line = s->line;
}
