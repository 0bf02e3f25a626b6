/* Fault points: places where a test may kill, stop or fail the process.
 *
 *	fault_at("apply.after_write");
 *
 * Compiled in only with --enable-faults. Then WAYBILL_TEST_FAULT names one:
 * `name:N:kill` (SIGKILL at the Nth passing), `name:N:stop` (SIGSTOP),
 * `name:N:delay=MS`; and WAYBILL_TEST_FAULT_LIST names a file to which each
 * point writes its name when passed, so that a test can list them all.
 * `name` may be `*`: then every passing of any point counts.
 *
 *	fault_of("apply.item", source_id);
 *
 * is passed for each of many things: `name=THING:N:kill` means one of them.
 * It is neither listed nor counted by `*`.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_FAULT_H
#define WAYBILL_FAULT_H

#include "base/base.h"
#include "base/sv.h"

#if WAYBILL_FAULTS
void fault_at(const char *name);
void fault_of(const char *name, struct sv thing);
#else
#define fault_at(name)        ((void)0)
#define fault_of(name, thing) ((void)0)
#endif

#endif
