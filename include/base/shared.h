/* Memory that processes of the host share through a file.
 *
 *	struct table { uint8_t layout[DIGEST_BYTES]; ... } *t;
 *	t = shared_map(path, sizeof(*t), layout, f);
 *	if (!t) f says why
 *
 * The memory begins with the digest that tells which layout it has; all the
 * rest is zero at first. A file of another layout or size is replaced: those
 * who have the old one keep it to themselves. With an empty path the memory
 * is shared with children forked later, and with nobody else. It is never
 * given back.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_SHARED_H
#define WAYBILL_SHARED_H

#include "base/digest.h"
#include "base/fail.h"

void *shared_map(const char *path, size_t bytes,
		 const uint8_t layout[DIGEST_BYTES], struct fail *f);

#endif
