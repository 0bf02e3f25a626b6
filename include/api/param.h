/* Query parameters and the collection of a path, as values.
 *
 * A parameter that was not sent has its default; one that is not what it may
 * be, empty ones too, is FAIL_BAD_PARAMETER.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_PARAM_H
#define WAYBILL_PARAM_H

#include "api/exchange.h"
#include "item/collection.h"

/* A filter over a small number in the database: one of them, or all. */
struct param_range {
	unsigned low, high;
};
#define PARAM_ALL ((struct param_range){0, 255})
bool param_is_all(struct param_range r);

/* false: it was not sent. */
bool param_find(const struct exchange *x, const char *name, struct sv *value_r);

MUST_CHECK bool param_u64(const struct exchange *x, const char *name,
			  uint64_t min, uint64_t max, uint64_t *v,
			  struct fail *f); /* *v holds the default */
MUST_CHECK bool param_bool(const struct exchange *x, const char *name, bool *v,
			   struct fail *f);

/* ?collection=skus */
MUST_CHECK bool param_collection(const struct exchange *x,
				 struct param_range *range_r, struct fail *f);

/* Of a path that has {area}/{collection}: the route would not have been found
 * without one. */
enum collection param_path_collection(const struct exchange *x);

#endif
