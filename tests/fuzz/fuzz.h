/* What the fuzz targets share.
 *
 * A target is one function over arbitrary bytes that checks promises, not
 * only that nothing crashes:
 *
 *	int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
 *	{
 *		...
 *		MUST(sv_eq(whole, in_pieces));
 *		return 0;
 *	}
 *
 * The input is the thing itself, without bytes of control: what a target
 * wants beside it (where to cut it) is made from its hash, so that a file of
 * the corpus is readable, and does the same every time.
 *
 * ./check fuzz runs them; docs/quality.md tells how to run one for longer.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_FUZZ_H
#define WAYBILL_FUZZ_H

#include "base/base.h" /* before any other: it has config.h */

#include "base/sv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* A promise that is broken is an abort, which libFuzzer keeps the input of. */
#define MUST(promise) \
	((promise) ? (void)0 : fuzz_broken(__FILE__, __LINE__, #promise))
NO_RETURN void fuzz_broken(const char *file, int line, const char *promise);

/* How to cut an input into pieces. */
enum fuzz_cut {
	FUZZ_WHOLE,  /* one piece, the last */
	FUZZ_BYTES,  /* a byte each, then an empty last one */
	FUZZ_PIECES, /* of sizes that follow from the hash, some empty */
	FUZZ_CUTS
};

/*	struct fuzz_cutter c = fuzz_cutter(input, how);
 *	do
 *		piece = fuzz_next(&c, &last);
 *	while (!last);
 *
 * A piece is a copy of its own, which goes with the next call: a reader that
 * looks past its end, or at the piece before, is caught by the sanitizer. */
struct fuzz_cutter {
	struct sv rest;
	enum fuzz_cut how;
	uint64_t state;
	char *piece;
};
struct fuzz_cutter fuzz_cutter(struct sv input, enum fuzz_cut how);
struct sv fuzz_next(struct fuzz_cutter *c, bool *last_r);
void fuzz_cutter_end(struct fuzz_cutter *c);

uint64_t fuzz_hash(struct sv bytes);

#endif
