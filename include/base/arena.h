/* Arenas: memory that is given back all at once.
 *
 * A request, a chunk, the process have one each. Allocation cannot fail (a
 * machine out of memory is a bug() here: input limits bound what is asked
 * for), and nothing is freed one by one. What must live longer is copied
 * into the longer-lived arena.
 *
 *	struct arena a;
 *	arena_init(&a, 64 * 1024);
 *	char *p = arena_alloc(&a, n);	zeroed, aligned for any type
 *	arena_reset(&a);		empty again, first block kept
 *	arena_release(&a);
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_ARENA_H
#define WAYBILL_ARENA_H

#include "base/sv.h"

struct arena_block;

struct arena {
	struct arena_block *head;
	size_t block_bytes;
	size_t used_bytes; /* handed out since init or reset */
};

void arena_init(struct arena *a, size_t block_bytes);
void arena_reset(struct arena *a);
void arena_release(struct arena *a);

void *arena_alloc(struct arena *a, size_t n);   /* zeroed */
void *arena_reserve(struct arena *a, size_t n); /* not zeroed */
void *arena_array(struct arena *a, size_t count, size_t each);
char *arena_dup(struct arena *a, struct sv s); /* terminated copy */
struct sv arena_sv(struct arena *a, struct sv s);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
