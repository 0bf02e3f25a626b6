"""Problem documents and raw answers, for tests.

    answer = parsed(stack.raw(b"GET / HTTP/1.1..."))   status, headers, body
    document = wants_problem(self, answer, 404, "not-found")
"""
# SPDX-License-Identifier: Apache-2.0
import email.parser
import json
import os
import re

from stack import ROOT

HEX = "^[0-9a-f]{32}$"


def fail_rows():
    """slug: (status, title) of every row of fail.def."""
    path = os.path.join(ROOT, "include", "base", "fail.def")
    with open(path, encoding="utf-8") as f:
        rows = re.findall(
            r'^FAIL\(\w+, (\d+), \d+, "([^"]+)",\s*"([^"]+)"', f.read(), re.M)
    return {slug: (int(status), title) for status, slug, title in rows}


ROWS = fail_rows()


class Raw:
    """An answer as bytes: status 0 where there is none."""

    def __init__(self, data):
        head, _, self.body = data.partition(b"\r\n\r\n")
        line, _, rest = head.decode("latin-1").partition("\r\n")
        match = re.match(r"HTTP/1\.[01] (\d{3})", line)
        self.status = int(match[1]) if match else 0
        self.headers = email.parser.Parser().parsestr(rest, True)

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {dict(self.headers)} {self.body[:600]!r}>"


parsed = Raw


def wants_problem(case, answer, status, *slugs):
    """That the answer is a whole problem document of one of these slugs."""
    case.assertEqual(answer.status, status, answer)
    case.assertEqual(answer.headers.get_all("Content-Type"),
                     ["application/problem+json"], answer)
    case.assertEqual(len(answer.headers.get_all("X-Request-Id", [])), 1,
                     answer)
    case.assertRegex(answer.headers["X-Request-Id"], HEX)
    document = answer.json()
    slug = document["type"].removeprefix("/docs/errors.md#")
    case.assertIn(slug, slugs, answer)
    case.assertEqual((document["status"], document["title"]), ROWS[slug])
    case.assertEqual(document["status"], status)
    case.assertTrue(document["detail"], answer)
    case.assertTrue(document["instance"].startswith("/"), answer)
    case.assertRegex(document["trace_id"], HEX)
    extra = set(document) - {"type", "title", "status", "detail", "instance",
                             "trace_id", "pointer", "line"}
    case.assertFalse(extra, answer)
    if status == 503:
        case.assertRegex(answer.headers.get("Retry-After", ""), "^[1-9]")
    return document
