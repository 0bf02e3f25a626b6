/* base: views, arenas, buffers, texts, ids, settings, counters. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/digest.h"
#include "base/ids.h"
#include "base/metric.h"
#include "base/text.h"

static void cut_takes_the_front_and_leaves_the_rest(void)
{
	struct sv rest = SV("a=b=c");

	WANT_SV(sv_cut(&rest, '='), SV("a"));
	WANT_SV(rest, SV("b=c"));
	WANT_SV(sv_cut(&rest, ';'), SV("b=c"));
	WANT(rest.n == 0);
}

static void views_compare_by_bytes(void)
{
	WANT(sv_cmp(SV("a"), SV("ab")) < 0);
	WANT(sv_cmp(SV("\xff"), SV("a")) > 0);
	WANT(sv_eq_nocase(SV("AbC"), SV("aBc")));
	WANT(!sv_eq_nocase(SV("[bc"), SV("{bc")));
}

static void an_arena_is_zeroed_aligned_and_reusable(void)
{
	struct arena a;
	char *p;

	arena_init(&a, 128);
	for (int round = 0; round < 3; round++) {
		for (size_t n = 1; n < 500; n += 7) {
			p = arena_alloc(&a, n);
			WANT((uintptr_t)p % 16 == 0);
			WANT(p[0] == 0 && p[n - 1] == 0);
			memset(p, 'x', n);
		}
		arena_reset(&a);
		WANT_U64(a.used_bytes, 0);
	}
	arena_release(&a);
}

static void a_buffer_refuses_the_first_write_that_does_not_fit(void)
{
	struct buf b;

	buf_init(&b, 5);
	buf_add_text(&b, "abc");
	buf_add_text(&b, "def");
	buf_add_text(&b, "g");
	WANT(!buf_ok(&b));
	WANT_SV(buf_sv(&b), SV("abc"));
	buf_reset(&b);
	buf_add_text(&b, "12345");
	WANT(buf_ok(&b));
	WANT(strcmp(buf_cstr(&b), "12345") == 0);
	buf_release(&b);
}

static void json_strings_are_valid_whatever_goes_in(void)
{
	struct buf b;

	buf_init(&b, 1000);
	buf_add_json(&b, SV("a\"\\\n\x01\x7f\xc3\xa9\xff\xed\xa0\x80z"));
	WANT_SV(buf_sv(&b), SV("\"a\\\"\\\\\\n\\u0001\\u007f\xc3\xa9"
			       "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
			       "\xef\xbf\xbdz\""));
	buf_release(&b);
}

static void numbers_are_whole_and_in_range(void)
{
	uint64_t v = 7;

	WANT(text_u64(SV("18446744073709551615"), 0, UINT64_MAX, &v));
	WANT_U64(v, UINT64_MAX);
	WANT(!text_u64(SV("18446744073709551616"), 0, UINT64_MAX, &v));
	WANT(!text_u64(SV(""), 0, 9, &v));
	WANT(!text_u64(SV(" 1"), 0, 9, &v));
	WANT(!text_u64(SV("+1"), 0, 9, &v));
	WANT(!text_u64(SV("10"), 0, 9, &v));
	WANT(!text_u64(SV("0"), 1, 9, &v));
	WANT_U64(v, UINT64_MAX);
}

static void sizes_and_durations_have_units(void)
{
	uint64_t v = 0;

	WANT(text_bytes(SV("4MiB"), &v) && v == 4U << 20);
	WANT(text_bytes(SV("17"), &v) && v == 17);
	WANT(!text_bytes(SV("4MB"), &v));
	WANT(!text_bytes(SV("99999999999GiB"), &v));
	WANT(text_duration_ms(SV("5min"), &v) && v == 300000);
	WANT(text_duration_ms(SV("0"), &v) && v == 0);
	WANT(!text_duration_ms(SV("5"), &v));
	WANT(!text_duration_ms(SV("s"), &v));
}

static void utf8_is_strict(void)
{
	WANT(text_is_utf8(SV("\xf0\x9f\x93\xa6 \xc3\xa9 \xef\xbf\xbf")));
	WANT(!text_is_utf8(SV("\xc0\x80")));         /* overlong */
	WANT(!text_is_utf8(SV("\xe0\x9f\xbf")));     /* overlong */
	WANT(!text_is_utf8(SV("\xed\xa0\x80")));     /* surrogate */
	WANT(!text_is_utf8(SV("\xf4\x90\x80\x80"))); /* past U+10FFFF */
	WANT(!text_is_utf8(SV("\xe2\x82")));         /* half */
	WANT(!text_is_utf8(SV("\x80")));
}

static void percent_decoding_is_strict(void)
{
	struct sv out;
	struct arena a;

	arena_init(&a, 256);
	WANT(text_percent_decode(&a, SV("a%2Fb%00"), &out));
	WANT_SV(out, SV("a/b\0"));
	WANT(!text_percent_decode(&a, SV("%"), &out));
	WANT(!text_percent_decode(&a, SV("%2"), &out));
	WANT(!text_percent_decode(&a, SV("%zz"), &out));
	arena_release(&a);
}

static void base32_has_one_text_a_value(void)
{
	uint8_t in[32], out[32];
	char text[64];

	for (size_t n = 0; n <= sizeof(in); n++) {
		digest_random(in, n);
		text_base32_encode(in, n, text);
		WANT_U64(strlen(text), text_base32_len(n));
		WANT(text_base32_decode(sv_of(text), out, n));
		WANT(memcmp(in, out, n) == 0);
	}
	WANT(text_base32_decode(SV("ae"), out, 1));
	WANT(!text_base32_decode(SV("af"), out, 1));
	WANT(!text_base32_decode(SV("AE"), out, 1));
}

static void ids_grow_and_tell_their_time(void)
{
	struct id last = id_new(1700000000000), id;

	for (int i = 0; i < 10000; i++) {
		id = id_new(1700000000000 - (uint64_t)i);
		WANT(memcmp(last.b, id.b, sizeof(id.b)) < 0);
		WANT(id.b[6] >> 4 == 7 && id.b[8] >> 6 == 2);
		last = id;
	}
	id = id_new(1800000000123);
	WANT_U64(id_wall_ms(id), 1800000000123);
}

/* Both go on from the same time and count: only chance keeps them apart. */
static void a_child_makes_other_ids_than_its_parent(void)
{
	struct id ours = id_new(1800000001000), theirs;
	int ends[2];
	pid_t child;

	WANT(pipe(ends) == 0);
	child = fork();
	if (child == 0) {
		theirs = id_new(1800000001000);
		_exit(write(ends[1], theirs.b, sizeof(theirs.b)) !=
		      (ssize_t)sizeof(theirs.b));
	}
	ours = id_new(1800000001000);
	WANT(read(ends[0], theirs.b, sizeof(theirs.b)) ==
	     (ssize_t)sizeof(theirs.b));
	WANT(memcmp(ours.b, theirs.b, 8) == 0);
	WANT(memcmp(ours.b + 8, theirs.b + 8, 8) != 0);
	WANT(waitpid(child, NULL, 0) == child);
	close(ends[0]);
	close(ends[1]);
}

static void a_correlation_id_is_a_uuid_or_a_ulid(void)
{
	struct id a, b;
	char hex[ID_HEX];

	WANT(id_parse_correlation(SV("0195E0F4-7a00-4c5b-8aaa-0123456789ab"),
				  &a));
	id_hex(a, hex);
	WANT_SV(sv_of(hex), SV("0195e0f47a004c5b8aaa0123456789ab"));
	WANT(id_parse_correlation(SV("01ARZ3NDEKTSV4RRFFQ69G5FAV"), &a));
	WANT(id_parse_correlation(SV("01arz3ndektsv4rrffq69g5fav"), &b));
	WANT(id_eq(a, b));
	id_hex(a, hex);
	WANT_SV(sv_of(hex), SV("01563e3ab5d3d6764c61efb99302bd5b"));
	WANT(!id_parse_correlation(SV("81ARZ3NDEKTSV4RRFFQ69G5FAV"), &a));
	WANT(!id_parse_correlation(SV("01ARZ3NDEKTSV4RRFFQ69G5FAU"), &a));
	WANT(!id_parse_correlation(SV("0195e0f47a004c5b8aaa0123456789ab"), &a));
	WANT(!id_parse_correlation(SV("0195e0f4-7a00-4c5b-8aaa-0123456789a"),
				   &a));
	WANT(!id_parse_correlation(SV("g195e0f4-7a00-4c5b-8aaa-0123456789ab"),
				   &a));
	WANT(!id_parse_correlation(SV(""), &a));
}

static void digests_match_published_vectors(void)
{
	uint8_t sum[DIGEST_BYTES], want[DIGEST_BYTES];

	digest_sha256(SV("abc"), sum);
	WANT(text_hex_decode(SV("ba7816bf8f01cfea414140de5dae2223b00361a396177"
				"a9cb410ff61f20015ad"),
			     want, sizeof(want)));
	WANT(digest_equal(sum, want, sizeof(sum)));
	digest_hmac_sha256(SV("Jefe"), SV("what do ya want for nothing?"), sum);
	WANT(text_hex_decode(SV("5bdcc146bf60754e6a042426089575c75a003f089d273"
				"9839dec58b964ec3843"),
			     want, sizeof(want)));
	WANT(digest_equal(sum, want, sizeof(sum)));
}

#define CERT                                                                 \
	"-----BEGIN CERTIFICATE-----\n"                                      \
	"MIIBbjCCARWgAwIBAgIUVNR6FqFJxTY0D2l/SOhr7yUoXFUwCgYIKoZIzj0EAwIw\n" \
	"DDEKMAgGA1UEAwwBYTAgFw0yNjExMTgwNjIyMzlaGA8yMTI2MTAyNTA2MjIzOVow\n" \
	"DDEKMAgGA1UEAwwBYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPIj5qeVs9jX\n" \
	"aaSBW3vcHqoFB2WTqKGGunQ1x3bjfs4VDJSosiHq6o+S0O1izIsHg9ed3Tp7db6+\n" \
	"pQsaL/2C0BWjUzBRMB0GA1UdDgQWBBSQl2bnvQxMSoMl3k0BKISADfFz4zAfBgNV\n" \
	"HSMEGDAWgBSQl2bnvQxMSoMl3k0BKISADfFz4zAPBgNVHRMBAf8EBTADAQH/MAoG\n" \
	"CCqGSM49BAMCA0cAMEQCIAcDMvTxO0oL35h+gQq0xrJVgCBdwca/weaZcGsSm1iD\n" \
	"AiBXOPHpUXfYxUmmQdTY0/yT/05mW5eUxA/RK0jdyw+Eyg==\n"                 \
	"-----END CERTIFICATE-----\n"
#define BLOCK(name) "-----BEGIN " name "-----\nAAAA\n-----END " name "-----\n"

/* Fingerprint and times as openssl x509 prints them. */
static void a_certificate_is_read_with_its_fingerprint_and_times(void)
{
	uint8_t want[DIGEST_BYTES];
	struct digest_pem p;

	WANT(text_hex_decode(SV("c78b4bf283fe4c61ddf516ef02edc276"
				"259a436050639a5ab982f36580c68421"),
			     want, sizeof(want)));
	WANT(digest_pem_read(SV("CN = a\n" CERT), &p));
	WANT_U64(p.certs, 1);
	WANT(!p.has_private_key);
	WANT(digest_equal(p.first.fingerprint, want, sizeof(want)));
	WANT_U64(p.first.not_before_ms, 1794982959000);
	WANT_U64(p.first.not_after_ms, 4948582959000);
}

static void other_blocks_are_told_and_broken_ones_refused(void)
{
	struct digest_pem p;

	WANT(digest_pem_read(SV(CERT CERT BLOCK("EC PRIVATE KEY")), &p));
	WANT_U64(p.certs, 2);
	WANT(p.has_private_key);
	WANT(digest_pem_read(SV(BLOCK("ENCRYPTED PRIVATE KEY")), &p));
	WANT(p.has_private_key && p.certs == 0);
	WANT(digest_pem_read(SV(BLOCK("PUBLIC KEY") "more"), &p));
	WANT(!p.has_private_key && p.certs == 0);
	WANT(digest_pem_read(SV("no block at all"), &p) && p.certs == 0);
	WANT(!digest_pem_read(SV(BLOCK("CERTIFICATE")), &p));
	WANT(!digest_pem_read(SV(""), &p));
	for (size_t n = 40; n < sizeof(CERT) - 2; n += 7)
		WANT(!digest_pem_read(sv_from(CERT, n), &p) || p.certs == 0);
}

static bool load_text(struct conf *c, struct arena *a, const char *text,
		      struct fail *f)
{
	char path[] = "/tmp/waybill-conf-XXXXXX";
	int fd = mkstemp(path);
	bool ok;

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		bug("cannot write %s", path);
	close(fd);
	ok = conf_load(c, a, path, f);
	unlink(path);
	return ok;
}

static void settings_come_from_file_then_environment(void)
{
	struct fail f = FAIL_INIT;
	struct arena a;
	struct conf c;

	arena_init(&a, 4096);
	setenv("WAYBILL_CONF_DB_NAME", "from_env", 1);
	WANT(load_text(&c, &a, "# x\n\n db_name = file\nitem_max=2KiB\n", &f));
	WANT_SV(sv_of(c.db_name), SV("from_env"));
	WANT_U64(c.item_max_bytes, 2048);
	WANT_U64(c.sync_body_max_bytes, 4U << 20);
	unsetenv("WAYBILL_CONF_DB_NAME");
	WANT(load_text(&c, &a, "db_name = my db", &f));
	WANT_SV(sv_of(c.db_name), SV("my db"));
	arena_release(&a);
}

static void a_bad_setting_is_refused_with_its_place(void)
{
	struct fail f = FAIL_INIT;
	struct arena a;
	struct conf c;

	arena_init(&a, 4096);
	WANT(!load_text(&c, &a, "\nnonsense = 1\n", &f));
	WANT_FAIL(&f, FAIL_CONF);
	WANT(strstr(f.detail, ":2: unknown key \"nonsense\"") != NULL);
	WANT(!load_text(&c, &a, "db_port = 70000\n", &f));
	WANT(strstr(f.detail, "must be from 1 to 65535") != NULL);
	WANT(!load_text(&c, &a, "just words\n", &f));
	WANT(!load_text(&c, &a, "lease = 10s\n", &f));
	setenv("WAYBILL_CONF_NO_SUCH", "1", 1);
	WANT(!load_text(&c, &a, "", &f));
	WANT(strstr(f.detail, "WAYBILL_CONF_NO_SUCH") != NULL);
	unsetenv("WAYBILL_CONF_NO_SUCH");
	WANT(!conf_load(&c, &a, "/nonexistent/waybill.conf", &f));
	arena_release(&a);
}

static void counters_add_up_and_read_as_prometheus_text(void)
{
	struct buf b;

	metric_add(METRIC_REQUESTS, 2, "healthz", "200");
	metric_add(METRIC_REQUESTS, 3, "healthz", "200");
	WANT_U64(metric_get(METRIC_REQUESTS, "healthz", "200"), 5);
	WANT_U64(metric_get(METRIC_REQUESTS, "healthz", "404"), 0);
	metric_observe(METRIC_REQUEST_SECONDS, 3000, "healthz");
	metric_observe(METRIC_REQUEST_SECONDS, 2000000, "healthz");
	buf_init(&b, 1 << 20);
	metric_write(&b);
	WANT(strstr(buf_cstr(&b), "waybill_requests_total{route=\"healthz\","
				  "status=\"200\"} 5\n") != NULL);
	WANT(strstr(buf_cstr(&b), "_bucket{route=\"healthz\",le=\"0.0025\"} 0"
				  "\n") != NULL);
	WANT(strstr(buf_cstr(&b), "_bucket{route=\"healthz\",le=\"+Inf\"} 2"
				  "\n") != NULL);
	WANT(strstr(buf_cstr(&b), "_sum{route=\"healthz\"} 2.003000\n") !=
	     NULL);
	buf_release(&b);
}

static void times_read_as_rfc3339(void)
{
	char text[CLOCK_TEXT];

	clock_rfc3339(1700000000123, text);
	WANT_SV(sv_of(text), SV("2023-11-14T22:13:20.123Z"));
	WANT_U64(clock_day(1700000000123), 19675);
}

void suite_base(void)
{
	ADD(cut_takes_the_front_and_leaves_the_rest);
	ADD(views_compare_by_bytes);
	ADD(an_arena_is_zeroed_aligned_and_reusable);
	ADD(a_buffer_refuses_the_first_write_that_does_not_fit);
	ADD(json_strings_are_valid_whatever_goes_in);
	ADD(numbers_are_whole_and_in_range);
	ADD(sizes_and_durations_have_units);
	ADD(utf8_is_strict);
	ADD(percent_decoding_is_strict);
	ADD(base32_has_one_text_a_value);
	ADD(ids_grow_and_tell_their_time);
	ADD(a_child_makes_other_ids_than_its_parent);
	ADD(a_correlation_id_is_a_uuid_or_a_ulid);
	ADD(digests_match_published_vectors);
	ADD(a_certificate_is_read_with_its_fingerprint_and_times);
	ADD(other_blocks_are_told_and_broken_ones_refused);
	ADD(settings_come_from_file_then_environment);
	ADD(a_bad_setting_is_refused_with_its_place);
	ADD(counters_add_up_and_read_as_prometheus_text);
	ADD(times_read_as_rfc3339);
}
