/* How fast the reader is: a batch of 1,000 SKUs in one piece, beside parson
 * on the same bytes. Prints the median of the rounds and how far they spread.
 *
 *	make bench-json		(configure with CFLAGS=-O2)
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/buf.h"
#include "wire/json.h"

#include <parson.h>

enum { ITEMS = 1000, ROUNDS = 31, PER_ROUND = 8 };

static void add_sku(struct buf *b, unsigned i)
{
	buf_addf(b, "{\"source_id\":\"SKU-%08u\",\"source_version\":%u,", i,
		 1000000 + i);
	buf_addf(b, "\"name\":\"Hex bolt M%u x %u, galvanised\",", i % 30,
		 i % 200);
	buf_add_text(b, "\"description\":\"Steel bolt with a hexagon head, "
			"DIN 933, full thread, caf\xc3\xa9 grade\",");
	buf_add_text(b, "\"base_uom\":\"EA\",\"lot_tracked\":true,"
			"\"serial_tracked\":false,\"hazmat_class\":\"none\",");
	buf_addf(b, "\"temperature_class\":\"ambient\",\"weight_kg\":0.%03u,",
		 i);
	buf_addf(b, "\"barcodes\":[\"40064%08u\",\"40065%08u\"]}", i, i * 7);
}

static void add_batch(struct buf *b)
{
	buf_add_text(b, "{\"items\":[");
	for (unsigned i = 0; i < ITEMS; i++) {
		if (i)
			buf_add_byte(b, ',');
		add_sku(b, i);
	}
	buf_add_text(b, "]}");
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void read_ours(const struct buf *b)
{
	const struct json_limits limits = {32, 256, 0};
	struct fail f = FAIL_INIT;
	struct json_item item;
	struct json_items *s;
	unsigned items = 0;
	struct arena a;

	arena_init(&a, 64 * 1024);
	s = json_items_new(&a, JSON_ENVELOPE, &limits, 64 * 1024);
	json_items_feed(s, buf_sv(b), true);
	while (json_items_next(s, &item, &f) == JSON_ITEM)
		items++;
	if (items != ITEMS || f.code)
		bug("%u items; %s", items, f.detail);
	arena_release(&a);
}

static void read_parson(const struct buf *b)
{
	JSON_Value *v = json_parse_string(b->p);

	if (!v)
		bug("parson refuses the batch");
	json_value_free(v);
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void measure(const char *what, void (*read)(const struct buf *),
		    const struct buf *b)
{
	double rates[ROUNDS];

	for (unsigned r = 0; r < ROUNDS; r++) {
		double began = now_s();

		for (unsigned i = 0; i < PER_ROUND; i++)
			read(b);
		rates[r] = (double)b->n * PER_ROUND / (now_s() - began) / 1e6;
	}
	qsort(rates, ROUNDS, sizeof(rates[0]), by_size);
	printf("%-8s %7.1f MB/s (%.1f to %.1f in %d rounds)\n", what,
	       rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1], ROUNDS);
}

int main(void)
{
	struct buf b;

	buf_init(&b, 16 << 20);
	add_batch(&b);
	if (!*buf_cstr(&b))
		bug("no batch");
	printf("%d items, %zu bytes\n", ITEMS, b.n);
	measure("wire", read_ours, &b);
	measure("parson", read_parson, &b);
	buf_release(&b);
	return 0;
}
