/* Day partitions, for the commands that make or judge them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_MAIN_PARTITIONS_H
#define WAYBILL_MAIN_PARTITIONS_H

#include "base/clock.h"
#include "db/partition.h"

/* partition_run() for today, by the database's clock. */
MUST_CHECK bool partitions_ahead(struct db *owner,
				 struct partition_state s_r[PARTITION_TABLES],
				 struct fail *f);

/* "2026-11-18" */
void partitions_date(uint32_t day, char out[CLOCK_TEXT]);

#endif
