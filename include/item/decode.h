/* A body into items: read strictly, each validated, none decided on.
 *
 * A body that is not what it must be as a whole (grammar, UTF-8, envelope)
 * fails with place; an item that is wrong alone is REJECTED alone.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_DECODE_H
#define WAYBILL_DECODE_H

#include "base/conf.h"
#include "item/incoming.h"

struct decoded {
	struct incoming *items;
	size_t count;
	bool too_many; /* after false: that is why */
};

/* More than conf->bulk_async_threshold items: FAIL_BODY_TOO_LARGE. */
MUST_CHECK bool decode_body(struct arena *a, const struct conf *c,
			    enum collection col, struct sv body, bool ndjson,
			    struct decoded *d_r, struct fail *f);

/* How many of them are not REJECTED already. */
size_t decoded_usable(const struct decoded *d);

/* A chunk of a job: its grammar was checked when it was taken in. */
struct decode_lines {
	struct sv text;       /* an item a line; one that is oversized: empty */
	uint64_t first_index; /* of the first of them in the batch */
	size_t count;
	const uint64_t *lines; /* by position, as incoming.line; NULL: none */
	const uint64_t *oversized; /* by position: bytes; 0: it is there */
};
MUST_CHECK bool decode_lines(struct arena *a, const struct conf *c,
			     enum collection col, const struct decode_lines *l,
			     struct decoded *d_r, struct fail *f);

#endif
