/* How long decoding and validating a batch takes: bench-decode-run [ROUNDS].
 *
 * 1,000 SKUs with the fields a catalogue has (about 360 bytes each) and 200
 * purchase orders of 10 lines, as the service does it: one arena, emptied
 * after each body. The median is printed, with the best and worst round.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"
#include "item/decode.h"

enum { ROUNDS_MAX = 10000 };

static void add_sku(struct buf *b, unsigned i)
{
	buf_addf(b,
		 "{\"source_id\":\"SKU-%06u\",\"source_version\":%u,"
		 "\"name\":\"Ball bearing, deep groove, %u mm\","
		 "\"description\":\"Single row, sealed on both sides, steel "
		 "cage, for speeds up to 12,000 turns a minute\","
		 "\"base_uom\":\"EA\",\"lot_tracked\":false,"
		 "\"serial_tracked\":false,\"hazmat_class\":\"none\","
		 "\"temperature_class\":\"ambient\",\"weight_kg\":%u.%03u,"
		 "\"barcodes\":[\"40%011u\"],\"colour\":\"grey\"}",
		 i, 100 + i, i % 90, i % 7, i % 1000, i);
}

static void add_order(struct buf *b, unsigned i)
{
	buf_addf(b,
		 "{\"source_id\":\"PO-%06u\",\"source_version\":%u,"
		 "\"warehouse_source_id\":\"WH-%u\",\"lines\":[",
		 i, i, i % 4);
	for (unsigned line = 1; line <= 10; line++)
		buf_addf(b,
			 "%s{\"line_no\":%u,\"sku_source_id\":\"SKU-%06u\","
			 "\"qty\":%u.5,\"uom\":\"EA\"}",
			 line > 1 ? "," : "", line, i * 31 + line, line);
	buf_add_text(b, "]}");
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t one_round(struct arena *a, const struct conf *c,
			  enum collection col, struct sv body)
{
	uint64_t from = clock_mono_us(), took;
	struct decoded d = {.count = 0};
	struct fail f = FAIL_INIT;

	if (!decode_body(a, c, col, body, false, &d, &f))
		bug("%s", f.detail);
	took = clock_mono_us() - from;
	for (size_t i = 0; i < d.count; i++)
		if (d.items[i].rejected)
			bug("%.*s", SV_ARG(d.items[i].errors));
	return took;
}

static void run(const char *what, const struct conf *c, enum collection col,
		void (*add)(struct buf *b, unsigned i), unsigned items,
		size_t rounds)
{
	static uint64_t took[ROUNDS_MAX];
	struct arena a;
	struct buf b;

	arena_init(&a, 1 << 20);
	buf_init(&b, 1 << 26);
	buf_add_text(&b, "{\"items\":[");
	for (unsigned i = 0; i < items; i++) {
		buf_add_text(&b, i ? "," : "");
		add(&b, i);
	}
	buf_add_text(&b, "]}");
	for (size_t r = 0; r < rounds; r++) {
		took[r] = one_round(&a, c, col, buf_sv(&b));
		if (r + 1 < rounds)
			arena_reset(&a);
	}
	qsort(took, rounds, sizeof(took[0]), by_time);
	printf("%-30s %7zu bytes  median %6.3f ms  best %6.3f  worst %6.3f  "
	       "arena %zu KiB\n",
	       what, b.n, (double)took[rounds / 2] / 1000,
	       (double)took[0] / 1000, (double)took[rounds - 1] / 1000,
	       a.used_bytes / 1024);
	buf_release(&b);
	arena_release(&a);
}

int main(int argc, char **argv)
{
	uint64_t rounds = 200;
	struct fail f = FAIL_INIT;
	struct arena a;
	struct conf c;

	if (argc > 2 ||
	    (argc == 2 && !text_u64(sv_of(argv[1]), 1, ROUNDS_MAX, &rounds))) {
		fputs("usage: bench-decode-run [ROUNDS]\n", stderr);
		return 2;
	}
	arena_init(&a, 4096);
	if (!conf_load(&c, &a, NULL, &f))
		bug("%s", f.detail);
	run("1,000 skus", &c, COLLECTION_SKUS, add_sku, 1000, rounds);
	run("200 purchase-orders, 10 lines", &c, COLLECTION_PURCHASE_ORDERS,
	    add_order, 200, rounds);
	arena_release(&a);
	return 0;
}
