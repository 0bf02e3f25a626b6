/* The pages of docgen that have a file of their own. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_DOCGEN_H
#define WAYBILL_DOCGEN_H

#include "base/base.h"

/* Each prints to stdout. */
void docgen_openapi_schemas(void);

#endif
