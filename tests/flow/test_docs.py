"""What is written agrees with the tables the programs are made of."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import unittest

from problem import ROWS
from stack import PROGRAMS, ROOT

TEST_ONLY = "/wms-ingest/v1/test/"
METHODS = ("get", "post", "put", "delete", "patch", "head", "options")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


def docgen(page):
    return subprocess.run([os.path.join(PROGRAMS, "docgen"), page], text=True,
                          stdout=subprocess.PIPE, check=True).stdout


def openapi_routes():
    """(METHOD, path, listener) of openapi.yaml, read by its indentation: a
    path stands two deep, what belongs to it four deep."""
    text = read("docs", "openapi.yaml")
    paths = re.search(r"^paths:\n((?:  .*\n|\s*\n|#.*\n)*)", text, re.M)[1]
    routes = set()
    for path, block in re.findall(r"^  (/\S*):\n((?:    .*\n|\s*\n)*)",
                                  paths, re.M):
        listener = "admin" if re.search(r"^    servers:.*http://", block,
                                        re.M) else "public"
        routes |= {(m.upper(), path, listener) for m in METHODS
                   if re.search(rf"^    {m}:", block, re.M)}
    return routes


class Docs(unittest.TestCase):
    maxDiff = None

    def test_the_reference_pages_are_what_docgen_says(self):
        for page in ("configuration", "errors", "metrics"):
            with self.subTest(page):
                self.assertEqual(read("docs", page + ".md"), docgen(page),
                                 "run make docs")

    def test_openapi_has_every_route_and_no_other(self):
        table = {tuple(line.split()) for line in docgen("routes").splitlines()}
        table = {row for row in table if not row[1].startswith(TEST_ONLY)}
        self.assertGreater(len(table), 3)
        self.assertEqual(openapi_routes(), table)

    def test_a_route_without_a_credential_says_so_in_openapi(self):
        rows = re.findall(
            r'^ROUTE\(\w+,\s*\w+,\s*(\w+),\s*"([^"]+)",\s*(\w+)',
            read("include", "api", "route.def"), re.M)
        text = read("docs", "openapi.yaml")
        for listener, path, scope in rows:
            if path.startswith(TEST_ONLY) or listener == "INTERNAL":
                continue
            with self.subTest(path):
                block = re.search(rf"^  {re.escape(path)}:\n((?:    .*\n)*)",
                                  text, re.M)[1]
                self.assertEqual("security: []" in block, scope == "NONE")
                if scope != "NONE":
                    self.assertIn(f"scope `{scope.lower()}`", block)

    def test_openapi_tells_the_refusals_every_such_route_has(self):
        rows = re.findall(
            r'^ROUTE\((\w+),\s*\w+,\s*(\w+),\s*"([^"]+)",\s*(\w+),\s*'
            r"\w+,\s*(\w+)", read("include", "api", "route.def"), re.M)
        text = read("docs", "openapi.yaml")
        self.assertGreater(len(rows), 15)
        for name, listener, path, scope, keyed in rows:
            if path.startswith(TEST_ONLY) or listener == "INTERNAL":
                continue
            want = {"401", "403", "429"} if scope != "NONE" else set()
            want |= {"409", "422"} if keyed == "true" else set()
            with self.subTest(name):
                block = re.search(
                    rf"^      operationId: {name}\n((?:      .*\n)*)", text,
                    re.M)[1]
                told = set(re.findall(r"^        '(\d+)':", block, re.M))
                self.assertEqual(want - told, set())

    def test_every_problem_has_its_anchor(self):
        text = read("docs", "errors.md")
        anchors = re.findall(r"^## (\S+)$", text, re.M)
        self.assertEqual(anchors, list(ROWS))
        for slug, (status, title) in ROWS.items():
            self.assertRegex(slug, "^[a-z0-9-]+$")
            self.assertIn(f"## {slug}\n\n{status} {title}. ", text)

    def test_every_problem_of_nginx_is_in_the_table(self):
        used = 0
        for name in sorted(os.listdir(os.path.join(ROOT, "nginx"))):
            for body in re.findall(r"'({.*\"type\".*})'",
                                   read("nginx", name)):
                problem = json.loads(body)
                slug = problem["type"].removeprefix("/docs/errors.md#")
                with self.subTest(slug):
                    self.assertEqual(ROWS.get(slug),
                                     (problem["status"], problem["title"]))
                used += 1
        self.assertGreater(used, 10)

    def test_every_problem_of_openapi_is_in_the_table(self):
        for slug in re.findall(r"errors\.md#([a-z0-9-]+)",
                               read("docs", "openapi.yaml") +
                               read("README.md")):
            self.assertIn(slug, ROWS)

    def test_links_between_the_pages_lead_somewhere(self):
        pages = ["README.md"] + ["docs/" + n for n in os.listdir(
            os.path.join(ROOT, "docs")) if n.endswith(".md")]
        for page in pages:
            text = re.sub(r"`[^`]*`", "", read(page))
            for link in re.findall(r"\]\(([^)#:]+)\)", text):
                with self.subTest(f"{page}: {link}"):
                    self.assertTrue(os.path.exists(os.path.join(
                        ROOT, os.path.dirname(page), link)))


if __name__ == "__main__":
    unittest.main()
