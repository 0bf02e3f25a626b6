/* What the fuzz targets share. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

enum { PIECE_MAX = 40 };

void fuzz_broken(const char *file, int line, const char *promise)
{
	fprintf(stderr, "%s:%d: broken: %s\n", file, line, promise);
	abort();
}

/* FNV-1a. */
uint64_t fuzz_hash(struct sv bytes)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < bytes.n; i++)
		h = (h ^ (unsigned char)bytes.p[i]) * UINT64_C(0x100000001b3);
	return h;
}

struct fuzz_cutter fuzz_cutter(struct sv input, enum fuzz_cut how)
{
	return (struct fuzz_cutter){
		.rest = input, .how = how, .state = fuzz_hash(input)};
}

void fuzz_cutter_end(struct fuzz_cutter *c)
{
	free(c->piece);
	c->piece = NULL;
}

static size_t next_size(struct fuzz_cutter *c)
{
	switch (c->how) {
	case FUZZ_WHOLE:
		return c->rest.n;
	case FUZZ_BYTES:
		return 1;
	case FUZZ_PIECES:
	case FUZZ_CUTS:
		break;
	}
	c->state = c->state * UINT64_C(6364136223846793005) +
		   UINT64_C(1442695040888963407);
	return (size_t)(c->state >> 33) % PIECE_MAX;
}

struct sv fuzz_next(struct fuzz_cutter *c, bool *last_r)
{
	size_t n = next_size(c);

	*last_r = c->how == FUZZ_WHOLE || c->rest.n == 0;
	n = n < c->rest.n ? n : c->rest.n;
	fuzz_cutter_end(c);
	/* A size of 0 still is a place of its own. */
	c->piece = malloc(n ? n : 1);
	MUST(c->piece);
	if (n)
		memcpy(c->piece, c->rest.p, n);
	c->rest = sv_tail(c->rest, n);
	return sv_from(c->piece, n);
}
