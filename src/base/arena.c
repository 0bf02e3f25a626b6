/* Arenas: a list of blocks; the newest one is handed out from. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdalign.h>

struct arena_block {
	struct arena_block *older;
	size_t cap, used;
	alignas(max_align_t) char bytes[];
};

static const size_t ALIGN = alignof(max_align_t);

static struct arena_block *block_new(size_t cap, struct arena_block *older)
{
	struct arena_block *b;

	if (cap > SIZE_MAX / 2)
		bug("arena block of %zu bytes", cap);
	b = malloc(sizeof(*b) + cap);
	if (!b)
		bug("out of memory for %zu bytes", cap);
	b->older = older;
	b->cap = cap;
	b->used = 0;
	return b;
}

void arena_init(struct arena *a, size_t block_bytes)
{
	a->head = NULL;
	a->block_bytes = block_bytes;
	a->used_bytes = 0;
}

void arena_release(struct arena *a)
{
	while (a->head) {
		struct arena_block *older = a->head->older;

		free(a->head);
		a->head = older;
	}
	a->used_bytes = 0;
}

void arena_reset(struct arena *a)
{
	struct arena_block *keep = a->head;

	/* The oldest block has the normal size unless the very first request
	 * was larger than one; such a one is not worth keeping. */
	while (keep && keep->older) {
		a->head = keep->older;
		free(keep);
		keep = a->head;
	}
	if (keep && keep->cap > a->block_bytes)
		arena_release(a);
	else if (keep)
		keep->used = 0;
	a->used_bytes = 0;
}

void *arena_reserve(struct arena *a, size_t n)
{
	struct arena_block *b = a->head;
	void *p;

	if (n > SIZE_MAX / 2)
		bug("arena request of %zu bytes", n);
	n = (n + ALIGN - 1) & ~(ALIGN - 1);
	if (!b || n > b->cap - b->used) {
		size_t cap = n > a->block_bytes ? n : a->block_bytes;

		b = a->head = block_new(cap, b);
	}
	p = b->bytes + b->used;
	b->used += n;
	a->used_bytes += n;
	return p;
}

void *arena_alloc(struct arena *a, size_t n)
{
	return memset(arena_reserve(a, n), 0, n);
}

void *arena_array(struct arena *a, size_t count, size_t each)
{
	if (each && count > SIZE_MAX / 2 / each)
		bug("array of %zu x %zu bytes", count, each);
	return arena_alloc(a, count * each);
}

char *arena_dup(struct arena *a, struct sv s)
{
	char *p = arena_reserve(a, s.n + 1);

	if (s.n)
		memcpy(p, s.p, s.n);
	p[s.n] = '\0';
	return p;
}

struct sv arena_sv(struct arena *a, struct sv s)
{
	return (struct sv){arena_dup(a, s), s.n};
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap, again;
	char *p;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		bug("arena_printf(\"%s\")", fmt);
	p = arena_reserve(a, (size_t)n + 1);
	vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	return p;
}
