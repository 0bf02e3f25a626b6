/* Counters of all processes of the host, in one shared file.
 *
 *	metric_open(conf->metrics_file, f)	once a process, before fork
 *	metric_add(METRIC_REQUESTS, 1, "readyz", "200");
 *	metric_observe(METRIC_REQUEST_SECONDS, usec, "readyz");
 *	metric_write(&buf);			Prometheus text
 *
 * The file is a table of slots, a slot being one metric with one set of label
 * values, claimed by compare-and-swap and never given back. Adding is one
 * atomic add, without a lock: a process killed at any point harms nothing.
 * Before metric_open(), and with an empty path, the table is private memory.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_METRIC_H
#define WAYBILL_METRIC_H

#include "base/buf.h"
#include "base/fail.h"

enum metric {
#define METRIC(id, kind, name, labels, help) METRIC_##id,
#include "base/metric.def"
#undef METRIC
	METRIC_COUNT
};

MUST_CHECK bool metric_open(const char *path, struct fail *f);

/* As many values (char pointers) as the metric has labels. */
void metric_add(enum metric m, uint64_t by, ...);
void metric_observe(enum metric m, uint64_t usec, ...);

/* The counter's present value, for tests and for gauges made of counters. */
uint64_t metric_get(enum metric m, ...);

void metric_write(struct buf *b);

struct metric_info {
	const char *name, *kind, *labels, *help;
};
struct metric_info metric_info(enum metric m);

#endif
