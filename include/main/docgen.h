/* The pages of docgen that have a file of their own, and what they share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_DOCGEN_H
#define WAYBILL_DOCGEN_H

#include "item/field.h"

/* Each prints to stdout. */
void docgen_openapi_schemas(void);
void docgen_openapi_paths(void);
void docgen_openapi_responses(void);
void docgen_collections(void);

/* What a collection is called in the documents, and its example: the one place
 * where one stands. Sent in the order of the collections, each as a batch, all
 * of them are ACCEPTED: the items of later ones refer to those of earlier
 * ones. A test sends them. */
enum { EXAMPLE_ITEMS_MAX = 2 };
struct example {
	const char *one;                      /* "PurchaseOrder" */
	const char *many;                     /* "PurchaseOrders" */
	const char *noun;                     /* "purchase order" */
	const char *source_id;                /* of the first item */
	const char *items[EXAMPLE_ITEMS_MAX]; /* JSON; the first shows it */
};
const struct example *docgen_example(enum collection c);

/* {"items":[...]} of the example. */
void docgen_print_batch(enum collection c);

/* A YAML scalar in single quotes. */
void docgen_print_quoted(const char *text);

#endif
