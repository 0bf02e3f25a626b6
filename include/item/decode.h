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

#endif
