/* The collections and their fields as JSON, for GET /capabilities. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_DESCRIBE_H
#define WAYBILL_DESCRIBE_H

#include "base/buf.h"

/* An array, an object a collection: area, collection, path,
 * internal_id_prefix and fields. */
void describe_collections(struct buf *b);

#endif
