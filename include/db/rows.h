/* One statement for many rows, or for many keys.
 *
 * db_rows_exec(): a statement whose text has `{row}`, which stands for the
 * row template named beside it (`-- row: (?, ?, ?)`). Where server and client
 * library can bind arrays it is sent once with all rows; elsewhere as a
 * ladder of multi-row texts (1000, 100, 10, 1). Cuts itself so that one
 * statement stays under half of max_allowed_packet.
 *
 * db_keys_query(): a statement whose text has `{list}` in an IN: the list is
 * padded to the next step of 1, 10, 100, 1000 by repeating the last key.
 * `fixed` are the arguments before the list. Results of all cuts are joined,
 * so the keys must differ from each other.
 *
 * The values of one column are of one kind, or DB_NULL.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_ROWS_H
#define WAYBILL_ROWS_H

#include "db/stmt.h"

/* cells: rows x cols, row by row. affected_r: the sum over all cuts. */
MUST_CHECK bool db_rows_exec(struct db *db, enum stmt id,
			     const struct db_val *cells, size_t rows,
			     size_t cols, uint64_t *affected_r, struct fail *f);

MUST_CHECK bool db_keys_query(struct db *db, enum stmt id, struct db_args fixed,
			      const struct db_val *keys, size_t count,
			      struct arena *a, struct db_table *t_r,
			      struct fail *f);

/* The same for a statement that writes, inside a transaction. */
MUST_CHECK bool db_keys_exec(struct db *db, enum stmt id, struct db_args fixed,
			     const struct db_val *keys, size_t count,
			     uint64_t *affected_r, struct fail *f);

#endif
