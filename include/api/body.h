/* The body of a request, piece by piece: unpacked, bounded, digested.
 *
 *	body_open(x, limit, f)			headers are right
 *	while ((got = body_next(x, &piece, f)) == BODY_PIECE)
 *		...
 *	got is BODY_END, or BODY_FAIL and f says why
 *	body_close(x)				also before its end, or twice
 *
 * At the end x->fingerprint is set: whatever else was done with the pieces,
 * all of them are in it. A body may be read by several, one after the other:
 * who goes on finds what is left.
 *
 * Guarantees:
 *  B1  Never more than `limit` bytes, unpacked, are handed out; one more is
 *      BODY_TOO_LARGE. Nothing is read if the length alone says so.
 *  B2  A body that broke off is BODY_CUT and has no fingerprint.
 *  B3  Memory does not depend on the size of the body.
 *  B4  As long as it gets on the request's deadline is moved ahead, but not
 *      by more than intake_deadline altogether: REQUEST_TIMEOUT.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_BODY_H
#define WAYBILL_BODY_H

#include "api/exchange.h"

enum body_got {
	BODY_PIECE, /* some bytes, until the next call */
	BODY_END,
	BODY_FAIL,
};

MUST_CHECK bool body_open(struct exchange *x, uint64_t limit, struct fail *f);
enum body_got body_next(struct exchange *x, struct sv *piece_r, struct fail *f);
void body_close(struct exchange *x);

/* Read what is left of it, for the fingerprint alone. */
MUST_CHECK bool body_skip(struct exchange *x, struct fail *f);

#endif
