"""Wrong, broken and hostile requests: each gets its right refusal, and none
costs a worker."""
# SPDX-License-Identifier: Apache-2.0
# check: slow
import collections
import concurrent.futures
import gzip
import os
import random
import socket
import ssl
import time
import unittest
import uuid

from problem import parsed, wants_problem
from stack import LONG, Stack

ECHO = "/wms-ingest/v1/test/echo"
HOST = b"Host: localhost\r\n"
MIB = 1 << 20


def padded(size):
    """A body of exactly that size, of one item."""
    head, tail = b'{"items":[{}', b"]}"
    return head + b" " * (size - len(head) - len(tail)) + tail


class Case(unittest.TestCase):
    """One stack; after each test the workers are those there were."""

    stack = workers = starts = None

    def tearDown(self):
        self.assertEqual(self.stack.worker_pids(), self.workers)
        self.assertEqual(self.stack.metric("waybill_worker_starts_total"),
                         self.starts)
        self.assertFalse(self.stack.metric("waybill_worker_exits_total"))
        for n in "01":
            self.assertNotIn("worker-crash", self.stack.log(f"fcgi_{n}.log"))
        self.assertEqual(self.stack.get("/healthz").status, 200)

    def echo_head(self, *headers, path=ECHO, method="POST", length=None):
        lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: localhost",
                 b"Authorization: Bearer " + self.stack.key.encode(),
                 b"X-Correlation-Id: " + str(uuid.uuid4()).encode(),
                 *headers]
        if length is not None:
            lines.append(b"Content-Length: %d" % length)
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def echo(self, body, kind=b"application/json", *headers, **how):
        """POST of the body, over a raw socket."""
        return parsed(self.stack.raw(self.echo_head(
            b"Content-Type: " + kind, *headers, length=len(body)) + body,
            **how))

    def gzipped(self, body):
        return self.echo(body, b"application/json", b"Content-Encoding: gzip")

    def chunked(self, body, *headers):
        chunks = b"".join(
            b"%x\r\n%s\r\n" % (len(body[i:i + 50000]), body[i:i + 50000])
            for i in range(0, len(body), 50000))
        return parsed(self.stack.raw(self.echo_head(
            b"Content-Type: application/json", b"Transfer-Encoding: chunked",
            *headers) + chunks + b"0\r\n\r\n"))

    def raw(self, data, **how):
        return parsed(self.stack.raw(data, **how))


def setUpModule():
    Case.stack = Stack(workers=4)
    Case.stack.start()
    Case.workers = Case.stack.worker_pids()
    Case.starts = Case.stack.metric("waybill_worker_starts_total")


def tearDownModule():
    Case.stack.stop()
    Case.stack.remove()


class Sizes(Case):
    def test_a_body_of_4_mib_is_taken_and_a_byte_more_is_not(self):
        said = self.echo(padded(4 * MIB)).json()
        self.assertEqual((said["items"], said["bytes"]), (1, 4 * MIB))
        wants_problem(self, self.echo(padded(4 * MIB + 1)), 413,
                      "body-too-large")

    def test_a_chunked_body_has_the_same_limit(self):
        self.assertEqual(self.chunked(padded(4 * MIB)).json()["bytes"],
                         4 * MIB)
        wants_problem(self, self.chunked(padded(4 * MIB + 1)), 413,
                      "body-too-large")

    def test_an_unpacked_body_has_the_same_limit(self):
        noise = random.Random(1).randbytes(600_000).hex().encode()
        for size, status in ((4 * MIB, 200), (4 * MIB + 1, 413)):
            body = padded(size - 3 * len(noise) - 14)[:-2]
            body += b',{"a":"' + noise * 3 + b'"}]}'
            body = body[:12] + b" " * (size - len(body)) + body[12:]
            self.assertEqual(len(body), size)
            got = self.gzipped(gzip.compress(body))
            self.assertEqual(got.status, status, got)
        wants_problem(self, got, 413, "body-too-large")

    def test_a_gzip_bomb_is_refused(self):
        bomb = gzip.compress(padded(300 * MIB), 9)
        self.assertLess(len(bomb), MIB)
        begun = time.monotonic()
        wants_problem(self, self.gzipped(bomb), 413, "body-too-large",
                      "gzip-bomb")
        print(f"  300 MiB in {len(bomb)} bytes: refused in "
              f"{time.monotonic() - begun:.2f} s")
        self.assertLess(time.monotonic() - begun, 5)

    def test_a_bomb_of_many_members_is_refused(self):
        wants_problem(self, self.gzipped(gzip.compress(b" " * MIB) * 300),
                      413, "body-too-large", "gzip-bomb")

    def test_what_is_no_gzip_is_refused(self):
        good = gzip.compress(padded(100_000))
        broken = {"text": b'{"items":[]}', "empty": b"",
                  "zlib": b"\x78\x9c" + good[10:], "header": good[:10],
                  "half": good[:len(good) // 2], "no sum": good[:-8],
                  "last byte": good[:-1],
                  "bad sum": good[:-8] + b"\0\0\0\0" + good[-4:],
                  "bad length": good[:-4] + b"\xff\xff\xff\xff",
                  "garbage after": good + b"garbage",
                  "flipped": good[:30] + bytes([good[30] ^ 0xff]) + good[31:]}
        for name, body in broken.items():
            with self.subTest(name):
                wants_problem(self, self.gzipped(body), 400, "bad-gzip",
                              "bad-json")
        self.assertEqual(self.gzipped(good).status, 200)
        two = gzip.compress(b'{"items":[{}') + gzip.compress(b"]}")
        self.assertEqual(self.gzipped(two).json()["items"], 1)

    def test_a_long_uri_is_414(self):
        for length, status in ((7900, 404), (8300, 414), (12_000, 414)):
            got = self.raw(b"GET /" + b"a" * length + b" HTTP/1.1\r\n" +
                           HOST + b"\r\n")
            self.assertEqual(got.status, status, (length, got))
        wants_problem(self, got, 414, "uri-too-long")

    def test_large_or_many_headers_are_431(self):
        def ask(*headers):
            return self.raw(b"GET /healthz HTTP/1.1\r\n" + HOST +
                            b"".join(h + b"\r\n" for h in headers) + b"\r\n")
        self.assertEqual(ask(b"X: " + b"a" * 8000).status, 200)
        for headers in ([b"X: " + b"a" * 8300], [b"X" * 8300 + b": a"],
                        [b"X%d: a" % i for i in range(129)],
                        [b"X: a"] * 129, [b"X%d: a" % i for i in range(3500)],
                        [b"X%d: %s" % (i, b"a" * 7000) for i in range(6)]):
            with self.subTest(headers[0][:20]):
                wants_problem(self, ask(*headers), 431, "headers-too-large")
        # With Host it is 128.
        self.assertEqual(ask(*[b"X%d: a" % i for i in range(127)]).status, 200)


class Lines(Case):
    """The request line and the headers."""

    def test_methods(self):
        for method, status in ((b"TRACE", 405), (b"get", 400),
                               (b"gEt", 400), (b"FOO", 405),
                               (b"A" * 5000, 405), (b"A" * 9000, 414),
                               (b"GET\x00", 400), (b"G=T", 400), (b"", 400),
                               (b"DELETE", 405), (b"LINK", 405)):
            with self.subTest(method[:12]):
                got = self.raw(method + b" /healthz HTTP/1.1\r\n" + HOST +
                               b"\r\n")
                wants_problem(self, got, status, "method-not-allowed",
                              "bad-request", "uri-too-long")
                if status == 405:
                    self.assertIn("GET", got.headers["Allow"])
        got = self.raw(b"CONNECT localhost:443 HTTP/1.1\r\n" + HOST + b"\r\n")
        wants_problem(self, got, got.status, "bad-request",
                      "method-not-allowed")

    def test_versions(self):
        for version, status in ((b"HTTP/1.0", 200), (b"HTTP/1.1", 200),
                                (b"HTTP/2.0", 400), (b"HTTP/9.9", 400),
                                (b"http/1.1", 400), (b"HTTP/1.1x", 400),
                                (b"HTTP/1", 400)):
            with self.subTest(version):
                got = self.raw(b"GET /healthz " + version + b"\r\n" + HOST +
                               b"\r\n")
                self.assertEqual(got.status, status, got)
                if status != 200:
                    wants_problem(self, got, 400, "bad-request")

    def test_http_0_9_gets_no_headers_and_no_harm(self):
        got = self.stack.raw(b"GET /healthz\r\n")
        self.assertTrue(got == b'{"status":"ok"}\n' or b"#bad-request" in got,
                        got)

    def test_an_absolute_uri_is_its_path(self):
        got = self.raw(b"GET https://localhost/healthz HTTP/1.1\r\n" + HOST +
                       b"\r\n")
        self.assertEqual((got.status, got.json()), (200, {"status": "ok"}))
        got = self.raw(b"GET https://localhost/readyz HTTP/1.1\r\n" + HOST +
                       b"\r\n")
        wants_problem(self, got, 404, "not-found")
        for target in (b"*", b"//", b"healthz", b"ftp://x/", b"http:/healthz",
                       b"https://[::1/healthz", b"https://"):
            got = self.raw(b"GET " + target + b" HTTP/1.1\r\n" + HOST +
                           b"\r\n")
            with self.subTest(target):
                self.assertIn(got.status, (400, 404))
                wants_problem(self, got, got.status, "bad-request",
                              "bad-path", "not-found")

    def test_paths(self):
        for path, status in ((b"/%", 400), (b"/%zz", 400), (b"/%4", 400),
                             (b"/a%00b", 400), (b"/%ff", 400),
                             (b"/%c0%af", 400), (b"/%ed%a0%80", 400),
                             (b"/\xff", 400), (b"/\xc3\xa9", 404),
                             (b"/%c3%a9", 404), (b"/a\x00b", 400),
                             (b"/a\x01b", 400), (b"/a\x7fb", 400),
                             (b"/%0a", 400), (b"/healthz/", 400),
                             (b"//healthz", 400), (b"/./healthz", 400),
                             (b"/x/../healthz", 400), (b"/%2e%2e/x", 400),
                             (b"/..", 400), (b"/healthz%2f", 404),
                             (b"/a/b/c/d/e/f/g/h/i/j", 404), (b"/", 404),
                             (b"/HEALTHZ", 404), (b"/healthz;x=1", 404),
                             (b"/healthz#x", 404),
                             (b"/" + b"a/" * 3000 + b"a", 404)):
            with self.subTest(path[:20]):
                got = self.raw(b"GET " + path + b" HTTP/1.1\r\n" + HOST +
                               b"\r\n")
                if path == b"/healthz#x" and got.status == 200:
                    continue  # a fragment is not part of the request
                wants_problem(self, got, status, "bad-request", "bad-path",
                              "not-found")

    def test_an_encoded_path_is_the_same_path(self):
        got = self.raw(b"GET /%68ealthz HTTP/1.1\r\n" + HOST + b"\r\n")
        self.assertEqual(got.status, 200)

    def test_queries(self):
        for query in (b"%", b"a=%zz", b"a=%00", b"a=%ff", b"\xff=1", b"=1",
                      b"&", b"a&&b", b"?", b"a=1&a=2", b"x" * 3000, b"a%0ab",
                      b"&".join(b"p%d=1" % i for i in range(500))):
            with self.subTest(query[:20]):
                got = self.raw(b"GET /healthz?" + query + b" HTTP/1.1\r\n" +
                               HOST + b"\r\n")
                wants_problem(self, got, 400, "bad-parameter", "bad-request")
        got = self.raw(b"GET /healthz? HTTP/1.1\r\n" + HOST + b"\r\n")
        self.assertEqual(got.status, 200)

    def test_headers(self):
        for header in (b"X: a\x00b", b"X\x00: a", b"X : a", b" X: a",
                       b"X a: b", b": a", b"novalue", b"X: \x01",
                       b"X: a\x7f", b"X\xff: a", b"X(: a"):
            with self.subTest(header):
                got = self.raw(b"GET /healthz HTTP/1.1\r\n" + HOST + header +
                               b"\r\n\r\n")
                # nginx drops a line whose name is not one, with its value.
                if got.status != 200:
                    wants_problem(self, got, 400, "bad-request", "bad-header")
                elif b"\x00" in header or b"\x01" in header:
                    self.fail(f"a control character was taken: {got}")

    def test_header_names_with_underscores_are_not_headers(self):
        got = self.raw(b"GET /healthz HTTP/1.1\r\n" + HOST +
                       b"X_Correlation_Id: " + str(uuid.uuid4()).encode() +
                       b"\r\n\r\n")
        self.assertEqual(got.status, 200)
        self.assertIsNone(got.headers["X-Correlation-Id"])

    def test_doubled_headers_are_refused(self):
        one = b"11111111-1111-4111-8111-111111111111"
        for name, value in ((b"X-Correlation-Id", one),
                            (b"Idempotency-Key", one),
                            (b"Content-Type", b"application/json"),
                            (b"Content-Encoding", b"gzip"),
                            (b"Content-Length", b"12"), (b"Host", b"a")):
            head = (f"POST {ECHO} HTTP/1.1\r\nAuthorization: Bearer "
                    f"{self.stack.key}\r\n").encode()
            for given, default in ((b"Host", b"localhost"),
                                   (b"X-Correlation-Id", one),
                                   (b"Content-Type", b"application/json"),
                                   (b"Content-Length", b"12")):
                if given != name:
                    head += given + b": " + default + b"\r\n"
            head += (name + b": " + value + b"\r\n") * 2
            with self.subTest(name):
                wants_problem(self, self.raw(head + b'\r\n{"items":[]}'), 400,
                              "bad-header", "bad-request")

    def test_a_traceparent_sent_twice_counts_as_absent(self):
        line = b"traceparent: 00-" + b"4" * 32 + b"-" + b"1" * 16 + b"-01\r\n"
        got = self.raw(b"GET /nowhere HTTP/1.1\r\n" + HOST + line * 2 +
                       b"\r\n")
        document = wants_problem(self, got, 404, "not-found")
        self.assertEqual(document["trace_id"], got.headers["X-Request-Id"])

    def test_the_proxy_header_goes_nowhere(self):
        got = self.raw(b"GET /healthz HTTP/1.1\r\n" + HOST +
                       b"Proxy: http://evil/\r\n\r\n")
        self.assertEqual(got.status, 200)

    def test_plain_http_to_the_https_port(self):
        got = self.raw(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
                       tls=False)
        wants_problem(self, got, 400, "bad-request")

    def test_noise_to_both_ports(self):
        noise = random.Random(7).randbytes(3000)
        for how in ({"tls": False}, {"admin": True}, {}):
            got = self.stack.raw(noise, timeout=20, finish="admin" in how,
                                 **how)
            if got:
                self.assertEqual(parsed(got).status, 400, got)


class Smuggling(Case):
    """A second request in the body of the first is never answered."""

    def refused(self, head, body, slug="bad-request"):
        hidden = b"GET /hidden HTTP/1.1\r\n" + HOST + b"\r\n"
        got = self.stack.raw(b"POST " + ECHO.encode() + b" HTTP/1.1\r\n" +
                             HOST + head + b"\r\n" + body + hidden)
        wants_problem(self, parsed(got), 400, slug)
        self.assertEqual(got.count(b"HTTP/1.1 "), 1, got)
        self.assertNotIn(b"/hidden", got)

    def test_length_and_transfer_encoding(self):
        for head in (b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                     b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
                     b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n"):
            self.refused(head, b"0\r\n\r\n")

    def test_two_lengths(self):
        self.refused(b"Content-Length: 0\r\nContent-Length: 40\r\n", b"")
        self.refused(b"Content-Length: 3\r\nContent-Length: 3\r\n", b"abc")
        for length in (b"1, 1", b"+1", b"-1", b"0x1", b"1 1", b"", b"1e1",
                       b"99999999999999999999", b"1;", b"\x0b1"):
            self.refused(b"Content-Length: " + length + b"\r\n", b"a")

    def test_strange_transfer_encodings(self):
        for value in (b"chunked, chunked", b"gzip, chunked", b"xchunked",
                      b"chunked;x", b"identity", b"", b"chunked\x0b",
                      b"\x0bchunked", b"gzip"):
            with self.subTest(value):
                self.refused(b"Transfer-Encoding: " + value + b"\r\n",
                             b"0\r\n\r\n")

    def test_transfer_encoding_twice(self):
        self.refused(b"Transfer-Encoding: chunked\r\n" * 2, b"0\r\n\r\n")

    def test_folded_and_spaced_lines(self):
        for head in (b"Content-Length: 1\r\n Transfer-Encoding: chunked\r\n",
                     b"Transfer-Encoding:\r\n chunked\r\n",
                     b"Transfer-Encoding : chunked\r\n",
                     b"Content-Length : 5\r\n",
                     b"X: a\r\n\tb\r\n"):
            with self.subTest(head):
                got = self.stack.raw(
                    b"POST " + ECHO.encode() + b" HTTP/1.1\r\n" + HOST +
                    head + b"Connection: close\r\n\r\n0\r\n\r\n")
                self.assertEqual(got.count(b"HTTP/1.1 "), 1, got)
                answer = parsed(got)
                # Refused, or the line is dropped: there is no body then, and
                # the request without a credential is 401.
                self.assertIn(answer.status, (400, 401), got)

    def test_bare_line_feeds_end_lines_alike(self):
        got = self.stack.raw(b"GET /healthz HTTP/1.1\nHost: a\n\n")
        self.assertIn(parsed(got).status, (200, 400))
        got = self.stack.raw(
            b"POST " + ECHO.encode() + b" HTTP/1.1\r\n" + HOST +
            b"X: a\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n"
            b"\r\n0\r\n\r\n")
        wants_problem(self, parsed(got), 400, "bad-request")

    def test_broken_chunks(self):
        for body in (b"zz\r\n", b"-1\r\n\r\n", b"5\r\nabc\r\n0\r\n\r\n",
                     b"ffffffffffffffffff\r\n", b"1\r\nab\r\n0\r\n\r\n",
                     b" 1\r\na\r\n0\r\n\r\n", b"0x1\r\na\r\n0\r\n\r\n"):
            with self.subTest(body):
                got = self.stack.raw(self.echo_head(
                    b"Content-Type: application/json",
                    b"Transfer-Encoding: chunked") + body + b"\r\n" * 3)
                self.assertEqual(got.count(b"HTTP/1.1 "), 1, got)
                self.assertIn(parsed(got).status, (400, 413), got)

    def test_pipelined_requests_each_get_their_answer(self):
        one = b"GET /a%d HTTP/1.1\r\n" + HOST
        data = b"".join(one % i + (b"" if i < 5 else b"Connection: close\r\n")
                        + b"\r\n" for i in range(6))
        sock = socket.create_connection(("127.0.0.1", self.stack.port), 20)
        with self.stack.tls().wrap_socket(
                sock, server_hostname="localhost") as tls:
            tls.sendall(data)
            got = b""
            while True:
                more = tls.recv(65536)
                if not more:
                    break
                got += more
        for i in range(6):
            self.assertEqual(got.count(b'"instance":"/a%d"' % i), 1)


class Bodies(Case):
    def refused(self, body, *slugs, kind=b"application/json", status=400):
        got = self.echo(body, kind)
        return wants_problem(self, got, status, *slugs)

    def test_what_is_no_json(self):
        for body in (b"", b" ", b"{", b"}", b"[]", b"null", b"1", b'"a"',
                     b'{"items":[]', b'{"items":[],}', b'{"items":[1,]}',
                     b'{"items":{}}', b'{"items":null}', b"{}",
                     b'{"items":[]}x', b'{"items":[]}{"items":[]}',
                     b"\xef\xbb\xbf" + b'{"items":[]}', b"{'items':[]}",
                     b'{"items":[NaN]}', b'{"items":[01]}',
                     b'{"items":[1.]}', b'{"items":[+1]}',
                     b'{"items":["\x01"]}', b'{"items":["\\x"]}',
                     b'{"items":["\\u12"]}', b'{"items":[tru]}',
                     b'{"items":[/**/]}', b'{"other":[]}',
                     b'{"items":[]\x00}', b"\x00" + b'{"items":[]}',
                     b'{"items":["a\x00b"]}', b'{"items":[]}\x00',
                     b'{"items":["', b'{"items":["\\'):
            with self.subTest(body):
                self.refused(body, "bad-json")

    def test_what_is_no_utf_8(self):
        for text in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80",
                     b"\xe2\x82", b"\x80", b"\xf0\x9f\x98", b"\xc3",
                     b"\\ud800", b"\\udc00\\ud800"):
            with self.subTest(text):
                self.refused(b'{"items":["' + text + b'"]}', "bad-utf8",
                             "bad-json")
                self.refused(b'{"a":1}\n{"a":"' + text + b'"}\n', "bad-utf8",
                             "bad-json", kind=b"application/x-ndjson")

    def test_duplicate_names(self):
        for item in (b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}',
                     b'{"x":[{"a":1,"b":2,"a":3}]}'):
            self.refused(b'{"items":[' + item + b"]}", "duplicate-name")
        self.refused(b'{"items":[],"items":[]}', "duplicate-name", "bad-json")

    def test_depth(self):
        """The envelope counts: the items begin at depth 3."""
        def nested(n):
            return b'{"items":[' + b"[" * n + b"]" * n + b"]}"
        self.assertEqual(self.echo(nested(30)).status, 200)
        for n in (31, 100_000):
            self.refused(nested(n), "too-deep")
        self.refused(b"[" * 100_000, "bad-json", "too-deep")
        self.refused(b'{"items":[' + b'{"a":' * 100_000, "too-deep")
        self.refused(b"[" * 100_000, "too-deep", "bad-json",
                     kind=b"application/x-ndjson")

    def test_names(self):
        def named(n):
            return b'{"items":[{' + b",".join(
                b'"n%d":1' % i for i in range(n)) + b"}]}"
        self.assertEqual(self.echo(named(256)).status, 200)
        self.refused(named(257), "too-many-names")
        self.refused(named(200_000), "too-many-names")

    def test_names_made_to_collide_take_no_longer(self):
        begun = time.monotonic()
        items = b",".join(b"{" + b",".join(
            b'"%s":1' % (b"Aa" * (i % 8) + b"BB" * (8 - i % 8) + b"%d" % i)
            for i in range(256)) + b"}" for _ in range(400))
        self.assertEqual(self.echo(b'{"items":[' + items + b"]}").status, 200)
        self.assertLess(time.monotonic() - begun, 5)

    def test_a_long_number_and_many_items(self):
        self.assertEqual(self.echo(b'{"items":[' + b"9" * 60_000 +
                                   b"]}").status, 200)
        got = self.echo(b'{"items":[' + b"1," * 2_000_000 + b"1]}")
        self.assertEqual(got.json()["items"], 2_000_001)

    def test_a_body_that_is_cut_gets_no_answer_and_costs_nothing(self):
        for cut in (0, 1, 500, 999):
            got = self.stack.raw(self.echo_head(
                b"Content-Type: application/json", length=1000) + b" " * cut,
                finish=True)
            self.assertIn(parsed(got).status if got else 0, (0, 400), got)


class Slow(Case):
    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.stack.port), 30)
        return self.stack.tls().wrap_socket(sock, server_hostname="localhost")

    def test_slow_clients_do_not_hold_a_worker(self):
        """200 half requests, and the others are served as if alone."""
        body = self.echo_head(b"Content-Type: application/json", length=1000)
        halves = [b"GET /healthz HTTP/1.1\r\nHost: loc", body + b'{"it', b"G",
                  b""]
        held = [self.connect() for _ in range(200)]
        try:
            for i, s in enumerate(held):
                s.sendall(halves[i % len(halves)])
            longest = 0
            for _ in range(100):
                begun = time.monotonic()
                self.assertEqual(self.stack.get("/healthz").status, 200)
                longest = max(longest, time.monotonic() - begun)
            print(f"  longest of 100 beside 200 slow ones: {longest:.3f} s")
            self.assertLess(longest, 5)
        finally:
            for s in held:
                s.close()

    def test_a_request_that_comes_byte_by_byte_is_answered(self):
        data = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
        with self.connect() as s:
            for i in range(len(data)):
                s.sendall(data[i:i + 1])
                time.sleep(0.002)
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 200"))

    @unittest.skipUnless(LONG, "15 s of waiting: ./check --long")
    def test_a_request_that_never_ends_is_cut_off(self):
        for data in (b"GET / HTTP/1.1\r\nX", self.echo_head(length=100)):
            begun = time.monotonic()
            with self.connect() as s:
                s.sendall(data)
                try:
                    got = s.recv(10_000)
                except (ConnectionError, ssl.SSLError):
                    got = b""
            self.assertLess(time.monotonic() - begun, 20)
            if got:
                wants_problem(self, parsed(got), 408, "request-timeout")

    def test_clients_that_leave_at_once_are_survived(self):
        data = self.echo_head(b"Content-Type: application/json", length=12) \
            + b'{"items":[]}'
        for i in range(100):
            s = self.connect()
            s.sendall(data[:len(data) * i // 100 + 1])
            s.close()


class Fuzz(Case):
    COUNT = 5000 if LONG else 400
    BITS = [b"\x00", b"\r\n", b"\n", b" ", b":", b"%", b"%00", b"\xff", b"\t",
            b"/", b"?", b"&", b"=", b"{", b"[", b'"', b"\\", b"9" * 30, b"-",
            b"HTTP/1.1", b"Content-Length: 5\r\n", b"A" * 3000,
            b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n",
            b"Connection: close\r\n", b"Upgrade: h2c\r\n", b"\xe2\x82\xac",
            b"Range: bytes=0-1\r\n", b"Content-Encoding: gzip\r\n",
            b"If-None-Match: *\r\n", b"Host: x\r\n", b"\r\n\r\n"]

    def mutate(self, rng, data):
        data = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 2, 4, 12))):
            at = rng.randrange(len(data) + 1)
            kind = rng.randrange(6)
            if kind == 0 and at < len(data):
                data[at] = rng.randrange(256)
            elif kind == 1:
                data[at:at] = rng.choice(self.BITS)
            elif kind == 2:
                del data[at:at + rng.choice((1, 1, 2, 10))]
            elif kind == 3:
                end = at + rng.randrange(1, 40)
                data[at:at] = data[at:end]
            elif kind == 4 and at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            else:
                lines = bytes(data).split(b"\r\n")
                rng.shuffle(lines)
                if rng.random() < 0.2:
                    data = bytearray(b"\r\n".join(lines))
        return bytes(data)

    def test_no_mutation_of_a_request_breaks_anything(self):
        seed = int(os.environ.get("WAYBILL_TEST_SEED",
                                  random.randrange(1 << 32)))
        print(f"  WAYBILL_TEST_SEED={seed}")
        rng = random.Random(seed)
        body = b'{"items":[{"a":1,"b":[true,null,"x\\u00e9"]}]}'
        packed = gzip.compress(body)
        head = b"Content-Type: application/json"
        bases = [self.echo_head(head, b"Connection: close",
                                length=len(body)) + body,
                 self.echo_head(head, b"Connection: close",
                                b"Content-Encoding: gzip",
                                length=len(packed)) + packed,
                 b"GET /wms-ingest/v1/capabilities?x=%41 HTTP/1.1\r\n" +
                 HOST + b"Connection: close\r\nAuthorization: Bearer " +
                 self.stack.key.encode() + b"\r\n\r\n"]
        statuses = collections.Counter()

        def one(data):
            # What a longer Content-Length may wait for.
            try:
                return self.stack.raw(data + b"\r\n\r\n" + b" " * 2000,
                                      timeout=1.5)
            except TimeoutError:
                return b""

        data = [self.mutate(rng, rng.choice(bases))
                for _ in range(self.COUNT)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for n, got in enumerate(pool.map(one, data)):
                status = parsed(got).status if got else 0
                statuses[status] += 1
                if status >= 500 or (
                        status >= 400 and
                        b"application/problem+json" not in got):
                    self.fail(f"mutation {n} of seed {seed}: {data[n]!r} "
                              f"got {got!r}")
        self.assertGreater(statuses[200], 10, statuses)
        self.assertGreater(statuses[400], 10, statuses)
        self.assertLess(statuses[0], self.COUNT // 4, statuses)
        print(f"  {self.COUNT} mutations: {dict(sorted(statuses.items()))}")


if __name__ == "__main__":
    unittest.main()
