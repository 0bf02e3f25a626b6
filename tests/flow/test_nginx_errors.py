"""nginx's own errors are problem documents with the slugs of fail.def."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import unittest

from stack import ROOT, Stack, wait_for

HOST = b"Host: localhost\r\n"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def fail_rows():
    """(status, slug): title, of every row of fail.def."""
    path = os.path.join(ROOT, "include", "base", "fail.def")
    with open(path, encoding="utf-8") as f:
        rows = re.findall(
            r'^FAIL\(\w+, (\d+), \d+, "([^"]+)",\s*"([^"]+)"', f.read(), re.M)
    return {(int(status), slug): title for status, slug, title in rows}


def split(data):
    """Status, headers (lower-case names, lists) and body of raw bytes."""
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines[1:]:
        name, value = line.split(":", 1)
        headers.setdefault(name.lower(), []).append(value.strip())
    return int(lines[0].split()[1]), headers, body


class Problems(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack(conf=["request_deadline = 5s"])
        cls.stack.start()
        cls.rows = fail_rows()

    @classmethod
    def tearDownClass(cls):
        cls.stack.stop()
        cls.stack.remove()

    def problem(self, data, status, slug, **how):
        """Sends raw bytes; wants a problem document of that slug."""
        got = self.stack.raw(data, **how)
        self.assertTrue(got, "no answer at all")
        code, headers, body = split(got)
        self.assertEqual(code, status, got)
        self.assertEqual(headers["content-type"],
                         ["application/problem+json"], got)
        self.assertEqual(len(headers["x-request-id"]), 1, got)
        document = json.loads(body)
        self.assertEqual(document["type"], "/docs/errors.md#" + slug)
        self.assertEqual(document["status"], status)
        self.assertEqual(document["title"], self.rows[status, slug])
        for name in ("detail", "instance", "trace_id"):
            self.assertTrue(document[name], name)
        self.assertRegex(document["trace_id"], "^[0-9a-f]{32}$")
        return headers, document

    def test_every_page_agrees_with_the_table(self):
        path = os.path.join(ROOT, "nginx", "problems.conf")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        pages = re.findall(r"location = (\S+) {(.*?)^}", text, re.S | re.M)
        used = [(status or page[-3:], page) for status, page in re.findall(
            r"^error_page [\d ]+ =(\d*) (\S+);", text, re.M)]
        # Some are where /.problem/500 leads; those stand for themselves.
        led = {p for p in re.findall(r"rewrite \^ (\S+) last;", text)
               if p not in dict(map(reversed, used))}
        self.assertEqual(sorted(p for p, _ in pages),
                         sorted([p for _, p in used] + list(led)))
        for page, block in pages:
            status, body = re.search(r"return (\d+) '(.*)';", block).groups()
            document = json.loads(body)
            slug = document["type"].split("#")[1]
            with self.subTest(page):
                self.assertEqual(document["status"], int(status))
                self.assertTrue((status, page) in used or page in led)
                self.assertEqual(document["title"],
                                 self.rows[int(status), slug])
                self.assertIn("internal;", block)
                self.assertIn("X-Request-Id", block)

    def test_a_request_line_that_is_no_http(self):
        for line in (b"NONSENSE\x01\r\n\r\n", b"get / HTTP/1.1\r\n\r\n",
                     b"GET / HTTP/9.9\r\n" + HOST + b"\r\n",
                     b"GET /\x00 HTTP/1.1\r\n" + HOST + b"\r\n",
                     b"GET /%zz HTTP/1.1\r\n" + HOST + b"\r\n",
                     b"GET /../../etc HTTP/1.1\r\n" + HOST + b"\r\n"):
            with self.subTest(line):
                self.problem(line, 400, "bad-request")

    def test_a_host_that_is_missing_doubled_or_bad(self):
        for hosts in (b"", HOST + HOST, b"Host: a/b\r\n"):
            with self.subTest(hosts):
                self.problem(b"GET /healthz HTTP/1.1\r\n" + hosts + b"\r\n",
                             400, "bad-request")

    def test_a_body_of_two_lengths_is_refused(self):
        for headers in (b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
                        b"Content-Length: 3\r\nContent-Length: 4\r\n",
                        b"Content-Length: -3\r\n",
                        b"Transfer-Encoding: chunked, chunked\r\n",
                        b"Transfer-Encoding: gzip\r\n"):
            with self.subTest(headers):
                self.problem(b"POST /healthz HTTP/1.1\r\n" + HOST + headers +
                             b"Connection: close\r\n\r\n0\r\n\r\n",
                             400, "bad-request")

    def test_chunks_that_are_no_chunks(self):
        self.problem(b"POST /wms-ingest/v1/x HTTP/1.1\r\n" + HOST +
                     b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
                     400, "bad-request")

    def test_plain_http_to_the_https_port(self):
        _, document = self.problem(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n",
                                   400, "bad-request", tls=False)
        self.assertIn("HTTPS", document["detail"])

    def test_headers_that_are_too_large(self):
        self.problem(b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 9000 +
                     b"\r\n\r\n", 431, "headers-too-large")
        many = b"".join(b"X%d: %s\r\n" % (i, b"a" * 1000) for i in range(50))
        self.problem(b"GET / HTTP/1.1\r\n" + HOST + many + b"\r\n",
                     431, "headers-too-large")

    def test_what_stops_the_question_about_a_credential_is_told(self):
        """A body of unknown size is let in only with a credential, and what
        is wrong with the request is found while that is looked at."""
        head = (b"POST /wms-ingest/v1/master/uoms HTTP/1.1\r\n" + HOST +
                b"Connection: close\r\n")
        key = b"Authorization: Bearer " + self.stack.key.encode() + b"\r\n"
        self.problem(head + key + b"X-A: \x1b\r\n\r\n", 400, "bad-header")
        many = b"".join(b"X-%d: a\r\n" % i for i in range(130))
        self.problem(head + key + many + b"\r\n", 431, "headers-too-large")
        self.problem(head + b"\r\n", 401, "unauthenticated")

    def test_a_request_line_that_is_too_long(self):
        self.problem(b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST +
                     b"\r\n", 414, "uri-too-long")

    def test_a_body_that_is_too_large(self):
        self.problem(b"POST /wms-ingest/v1/x HTTP/1.1\r\n" + HOST +
                     b"Content-Length: 999999999\r\n\r\n",
                     413, "body-too-large")

    def test_methods_nginx_does_not_take(self):
        for method in (b"TRACE", b"CONNECT"):
            with self.subTest(method):
                path = b"/" if method == b"TRACE" else b"localhost:1"
                got = self.stack.raw(method + b" " + path + b" HTTP/1.1\r\n" +
                                     HOST + b"Connection: close\r\n\r\n")
                code, headers, body = split(got)
                self.assertIn(code, (400, 405), got)
                self.assertEqual(headers["content-type"],
                                 ["application/problem+json"])
                self.assertEqual(json.loads(body)["status"], code)
                if code == 405:
                    self.assertIn("allow", headers)

    def test_the_path_cannot_write_json(self):
        evil = b'/"},{"x":"\\' + b"a" * 9000
        _, document = self.problem(b"GET " + evil + b" HTTP/1.1\r\n" + HOST +
                                   b"\r\n", 414, "uri-too-long")
        self.assertEqual(document["instance"], "/")
        _, document = self.problem(
            b'POST /a"b HTTP/1.1\r\n' + HOST +
            b"Content-Length: 999999999\r\n\r\n", 413, "body-too-large")
        self.assertEqual(document["instance"], "/")

    def test_the_trace_id_is_that_of_a_valid_traceparent(self):
        too_large = (b"POST /p?q=1 HTTP/1.1\r\n" + HOST +
                     b"Content-Length: 999999999\r\ntraceparent: ")
        tail = b"-00f067aa0ba902b7-01\r\n\r\n"
        _, document = self.problem(too_large + b"00-" + TRACE.encode() + tail,
                                   413, "body-too-large")
        self.assertEqual(document["trace_id"], TRACE)
        self.assertEqual(document["instance"], "/p?q=1")
        for bad in (b"00-" + b"0" * 32, b"ff-" + TRACE.encode(), b"00-xyz"):
            with self.subTest(bad):
                headers, document = self.problem(too_large + bad + tail, 413,
                                                 "body-too-large")
                self.assertEqual(document["trace_id"],
                                 headers["x-request-id"][0])

    def test_the_pages_themselves_are_not_there(self):
        answer = self.stack.get("/.problem/503")
        self.assertEqual(answer.status, 404)
        self.assertTrue(answer.json()["type"].endswith("#not-found"))

    def test_the_workers_own_errors_pass_unchanged(self):
        answer = self.stack.get("/no/such/path")
        self.assertEqual(answer.status, 404)
        self.assertEqual(answer.headers["Content-Type"],
                         "application/problem+json")
        self.assertEqual(len(answer.headers.get_all("X-Request-Id")), 1)
        self.assertEqual(answer.json()["instance"], "/no/such/path")

    def test_health_and_metrics_are_where_they_belong(self):
        for path, public, admin in (("/healthz", 200, 200),
                                    ("/readyz", 404, 200),
                                    ("/metrics", 404, 200),
                                    ("/wms-ingest/v1/capabilities", 200, 404)):
            with self.subTest(path):
                self.assertEqual(self.stack.get(path).status, public)
                self.assertEqual(self.stack.admin(path).status, admin)

    def test_the_type_of_a_problem_leads_to_its_page(self):
        answer = self.stack.get("/docs/errors.md", key=False)
        self.assertEqual(answer.status, 200)
        self.assertIn("text/markdown", answer.headers["Content-Type"])
        text = answer.body.decode()
        for _, slug in self.rows:
            self.assertIn(slug, text)
        self.assertEqual(self.stack.get("/docs/openapi.yaml",
                                        key=False).status, 200)
        self.assertEqual(self.stack.request("POST", "/docs/errors.md",
                                            body=b"x").status, 405)

    def test_no_worker_at_all_is_503_with_retry_after(self):
        self.stack.supervisorctl("stop", "fcgi:*")
        try:
            headers, _ = self.problem(
                b"GET /healthz HTTP/1.1\r\n" + HOST +
                b"Connection: close\r\n\r\n", 503, "unavailable")
            self.assertEqual(headers["retry-after"], ["1"])
        finally:
            self.stack.supervisorctl("start", "fcgi:*")
        wait_for(lambda: self.stack.admin("/readyz").status == 200)


if __name__ == "__main__":
    unittest.main()
