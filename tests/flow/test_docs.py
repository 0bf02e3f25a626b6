"""What is written agrees with the tables the programs are made of."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import unittest

import spec
from items import COLLECTIONS
from problem import ROWS
from stack import PROGRAMS, ROOT

TEST_ONLY = "/wms-ingest/v1/test/"
# Problems of commands, of logs and of jobs that FAILED.
NOT_OF_REQUESTS = {
    "bad-csv", "conflict", "job-not-requeued", "worker-lost", "lease-lost",
    "usage", "certificate-input", "send-input", "send-refused", "send-later",
    "configuration", "system", "migration"}


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


def docgen(page):
    return subprocess.run([os.path.join(PROGRAMS, "docgen"), page], text=True,
                          stdout=subprocess.PIPE, check=True).stdout


def expanded(path):
    """{area}/{collection} of the route table stands for every collection."""
    return [path.replace("{area}/{collection}", f"{area}/{name}")
            for area, name, _ in COLLECTIONS
            ] if "{area}" in path else [path]


def route_rows():
    """{name: (method, paths, scope, body, keyed, parameters)} of route.def,
    without those for tests and for nginx."""
    rows = re.findall(
        r'^ROUTE\((\w+),\s*HTTP_(\w+),\s*(\w+),\s*"([^"]+)",\s*(\w+),\s*'
        r'(\w+),\s*(\w+),\s*"([^"]*)"\)',
        read("include", "api", "route.def"), re.M)
    return {name: (method, expanded(path), scope, body, keyed == "true",
                   params)
            for name, method, listener, path, scope, body, keyed, params
            in rows
            if listener != "INTERNAL" and not path.startswith(TEST_ONLY)}


class Docs(unittest.TestCase):
    maxDiff = None

    def test_the_reference_pages_are_what_docgen_says(self):
        for page in ("configuration", "errors", "metrics"):
            with self.subTest(page):
                self.assertEqual(read("docs", page + ".md"), docgen(page),
                                 "run make docs")

    def test_openapi_has_every_route_and_no_other(self):
        table = {tuple(line.split()) for line in docgen("routes").splitlines()}
        table = {(method, path, listener) for method, row, listener in table
                 for path in expanded(row) if not row.startswith(TEST_ONLY)}
        self.assertGreater(len(table), 3)
        self.assertEqual({(o.method, o.path, o.listener)
                          for o in spec.load().operations()}, table)

    def each_operation(self):
        """(operation, scope, body, keyed, parameters) by the route table."""
        found = {(o.method, o.path): o for o in spec.load().operations()}
        rows = route_rows()
        self.assertGreater(len(rows), 15)
        for method, paths, *rest in rows.values():
            for path in paths:
                yield (found[method, path], *rest)

    def test_openapi_tells_scope_key_and_parameters_of_every_route(self):
        doc = spec.load()
        for o, scope, _, keyed, params in self.each_operation():
            with self.subTest(o.id):
                self.assertEqual(o.body.get("security") == [],
                                 scope == "NONE")
                if scope != "NONE":
                    self.assertIn(f"scope `{scope.lower()}`",
                                  " ".join(o.body["description"].split()))
                told = [spec.resolve(doc, p)
                        for p in o.body.get("parameters", [])]
                names = {(p["in"], p["name"]) for p in told}
                self.assertEqual(
                    {name for place, name in names if place == "query"},
                    set(filter(None, params.split(","))))
                self.assertEqual({n for p, n in names if p == "path"},
                                 set(re.findall(r"{(\w+)}", o.path)))
                self.assertEqual(("header", "Idempotency-Key") in names,
                                 keyed)
                self.assertEqual(("header", "X-Correlation-Id") in names,
                                 scope != "NONE")

    def test_openapi_tells_the_refusals_every_such_route_has(self):
        for o, scope, body, keyed, _ in self.each_operation():
            want = {"400", "500", "503", "default"}
            want |= {"401", "403", "429"} if scope != "NONE" else set()
            want |= {"409", "422"} if keyed else set()
            want |= {"413", "415", "408"} if body != "NONE" else set()
            want |= {"404"} if "{" in o.path else set()
            with self.subTest(o.id):
                self.assertEqual(want - set(o.body["responses"]), set())

    def test_every_operation_of_openapi_has_a_name_and_a_known_tag(self):
        doc = spec.load()
        operations = doc.operations()
        names = [o.id for o in operations]
        self.assertEqual(len(names), len(set(names)))
        tags = {tag["name"] for tag in doc["tags"]}
        for o in operations:
            with self.subTest(o.path):
                self.assertRegex(o.id, "^[a-z]+[A-Za-z]+$")
                self.assertTrue(set(o.body["tags"]) <= tags)
                self.assertTrue(o.body["summary"])
                self.assertTrue(o.body["description"])

    def test_every_body_and_answer_of_openapi_has_an_example(self):
        doc = spec.load()
        for o in doc.operations():
            bodies = [o.body["requestBody"]] if "requestBody" in o.body else []
            for thing in bodies + list(o.body["responses"].values()):
                for kind, media in spec.resolve(doc, thing)["content"].items():
                    with self.subTest(f"{o.id} {kind}"):
                        self.assertTrue(media.get("examples"))

    def test_every_collection_of_openapi_is_one_of_the_table(self):
        schemas = spec.load()["components"]["schemas"]
        self.assertEqual(schemas["CollectionName"]["enum"],
                         [name for _, name, _ in COLLECTIONS])

    def test_a_key_that_stands_twice_is_refused(self):
        for text in ("a: 1\nb: 2\na: 3\n", "a: {b: 1, b: 2}\n",
                     "a:\n  b: 1\n  'b': 2\n"):
            with self.subTest(text):
                with self.assertRaisesRegex(spec.Bad, "twice"):
                    spec.read_yaml(text)

    def test_every_problem_of_a_request_has_an_example(self):
        responses = spec.load()["components"]["responses"]
        told = {slug for name, response in responses.items()
                if re.fullmatch(r"Problem\d+", name)
                for slug in response["content"]["application/problem+json"]
                ["examples"]}
        others = set(ROWS) - told
        self.assertEqual(others, NOT_OF_REQUESTS)

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
