"""What the service answers is what openapi.yaml says; so are its examples; a
client made from it compiles and works."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import unittest

import calls
import node
import spec
from items import Partner
from stack import Stack

# Of HTTP and nginx, not of the API.
COMMON = {"server", "date", "content-type", "content-length", "connection",
          "transfer-encoding", "x-content-type-options",
          "content-security-policy", "strict-transport-security",
          "keep-alive"}
# Named in the contract, but possibly not sent by this version yet.
MAY_LACK = {"retry", "conflicts", "code", "pointer", "first_path",
            "first_used_at"}
IDS = (r"\b[a-z]{2,3}-[0-9a-f]{32}\b", r"\b[0-9a-f]{32}\b",
       r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def masked(value):
    if isinstance(value, dict):
        return {k: masked(v) for k, v in value.items()}
    if isinstance(value, list):
        return [masked(v) for v in value]
    if isinstance(value, str):
        for pattern in IDS:
            value = re.sub(pattern, "*", value)
    return value


def differences(printed, got, place=""):
    """What is not as printed, save MAY_LACK; figures of time are any."""
    if isinstance(printed, dict) and isinstance(got, dict):
        told = []
        for name in {*printed, *got}:
            at = f"{place}/{name}"
            if name not in got:
                told += [] if name in MAY_LACK else [f"{at}: not sent"]
            elif name not in printed:
                told.append(f"{at}: not printed")
            elif name not in ("rate", "clock_skew_ms", "bytes",
                              "schema_version",
                              "partner_id", "name", "next") or isinstance(
                                  printed[name], dict):
                told += differences(printed[name], got[name], at)
        return told
    if isinstance(printed, list) and isinstance(got, list):
        if len(printed) != len(got):
            return [f"{place}: {len(got)} elements"]
        return [d for i, pair in enumerate(zip(printed, got))
                for d in differences(*pair, f"{place}/{i}")]
    return [] if printed == got else [f"{place}: {got!r}, not {printed!r}"]


def violations(doc, checks):
    """Lines that say which value is not of its schema."""
    text = json.dumps({"document": doc, "checks": checks})
    return node.run("validate.mjs", stdin=text).splitlines()


class OpenApi(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.stack = Stack()
        cls.stack.start()
        try:
            cls.calls = calls.make_calls(cls.stack)
        except BaseException:
            cls.tearDownClass()
            raise
        cls.doc = cls.calls.doc

    @classmethod
    def tearDownClass(cls):
        try:
            cls.stack.stop()
        finally:
            cls.stack.remove()

    def told(self, call):
        """What the document says of that answer."""
        responses = call.operation.body["responses"]
        return spec.resolve(self.doc, responses[str(call.answer.status)])

    def media(self, call):
        kind = call.answer.headers["Content-Type"].split(";")[0]
        return kind, self.told(call)["content"][kind]

    def test_every_operation_was_called(self):
        self.assertGreater(len(self.calls.calls), 50)
        self.assertEqual({o.id for o in self.doc.operations()},
                         {c.operation.id for c in self.calls.calls})

    def test_every_status_type_and_header_is_told(self):
        for call in self.calls.calls:
            with self.subTest(call.name):
                self.assertIn(str(call.answer.status),
                              call.operation.body["responses"])
                self.media(call)
                headers = {h.lower() for h in self.told(call)["headers"]}
                sent = {h.lower() for h in call.answer.headers.keys()}
                self.assertEqual(sent - COMMON - headers, set())

    def test_every_header_that_is_told_is_sent_by_some_answer(self):
        sent = {h.lower() for c in self.calls.calls
                for h in c.answer.headers.keys()}
        told = {h.lower() for h in self.doc["components"]["headers"]}
        # 405 belongs to no operation.
        self.assertEqual(told - sent, {"allow"})

    def test_the_examples_of_all_collections_are_accepted(self):
        sent = [c for c in self.calls.calls
                if c.name == c.operation.id]
        self.assertEqual(len(sent), 13)
        for call in sent:
            with self.subTest(call.name):
                results = call.answer.json()["results"]
                self.assertEqual({(r["status"], r["change"])
                                  for r in results},
                                 {("ACCEPTED", "created")})

    def test_every_answer_is_of_its_schema(self):
        checks = []
        for call in self.calls.calls:
            kind, media = self.media(call)
            if kind.endswith("json") and "ndjson" not in kind:
                checks.append({"name": call.name, "schema": media["schema"],
                               "value": call.answer.json()})
        self.assertGreater(len(checks), 50)
        self.assertEqual(violations(self.doc, checks), [])

    def test_an_answer_that_is_not_of_its_schema_is_noticed(self):
        call = next(c for c in self.calls.calls if c.name == "batch_partly")
        _, media = self.media(call)
        for spoil in (lambda v: v.pop("summary"),
                      lambda v: v["results"][0].update(index="0"),
                      lambda v: v["results"][1].update(status="HELD"),
                      lambda v: v.update(batch_id="bat-1"),
                      lambda v: v["results"][2]["errors"][0].pop("code")):
            value = call.answer.json()
            spoil(value)
            self.assertEqual(len(violations(self.doc, [
                {"name": "spoilt", "schema": media["schema"],
                 "value": value}])), 1)

    def test_the_document_and_its_examples_hold_for_redocly(self):
        said = node.run("lint.mjs", spec.PATH).splitlines()
        self.assertEqual([s for s in said if s.startswith("error")], [])

    def test_every_example_of_an_answer_is_answered_so(self):
        """A page or record as printed; a problem with title and detail."""
        answers = {}
        for call in self.calls.calls:
            if "ndjson" in call.answer.headers["Content-Type"] or \
                    "json" not in call.answer.headers["Content-Type"]:
                continue
            answers.setdefault((call.operation.id, call.answer.status),
                               []).append(masked(call.answer.json()))
        seen = 0
        for (name, status), got in answers.items():
            response = spec.resolve(self.doc, self.doc.operation(
                name).body["responses"][str(status)])
            shared = "$ref" in self.doc.operation(
                name).body["responses"][str(status)]
            for kind, media in response["content"].items():
                if not kind.endswith("json") or "ndjson" in kind or (
                        shared and not self.own(name, status)):
                    continue
                for title, example in media["examples"].items():
                    if title == "shortened":
                        continue
                    with self.subTest(f"{name} {status} {title}"):
                        seen += 1
                        told = [differences(masked(example["value"]), g)
                                for g in got]
                        self.assertIn([], told, min(told, key=len))
        self.assertGreater(seen, 30)

    @staticmethod
    def own(name, status):
        """Of what several routes share: the one the examples are of."""
        if status >= 400:
            return False
        if name.startswith("send"):
            return name == ("sendUoms" if status == 202 else "sendSkus")
        return name.startswith(("get", "list"))

    def test_every_problem_that_was_met_is_as_printed(self):
        met = {}
        for call in self.calls.calls:
            if call.answer.status >= 400:
                problem = call.answer.json()
                met.setdefault(problem["type"].split("#")[1],
                               []).append(problem)
        self.assertGreater(len(met), 20)
        for slug, problems in met.items():
            status = problems[0]["status"]
            examples = self.doc["components"]["responses"][
                f"Problem{status}"]["content"]["application/problem+json"][
                    "examples"]
            printed = examples[slug]["value"]
            with self.subTest(slug):
                self.assertIn(masked(printed["detail"]),
                              [masked(p["detail"]) for p in problems])
                self.assertEqual(printed["title"], problems[0]["title"])
                self.assertEqual(printed["retry"],
                                 problems[0].get("retry",
                                                 printed["retry"]))

    def test_a_client_in_typescript_sends_every_collection(self):
        folder = node.modules()
        node.run("node_modules/openapi-typescript/bin/cli.js", spec.PATH,
                 "-o", "api.d.ts")
        with open(os.path.join(folder, "api.d.ts"), encoding="utf-8") as f:
            types = f.read()
        for o, _ in calls.examples_of(self.doc):
            batch = o.body["requestBody"]["content"]["application/json"][
                "schema"]
            item = spec.resolve(self.doc, spec.resolve(
                self.doc, batch)["properties"]["items"]["items"])
            for field in item["properties"]:
                self.assertRegex(types, rf"\b{field}\??: ")
        with open(os.path.join(folder, "client.ts"), "w",
                  encoding="utf-8") as f:
            f.write(client_program(self.doc))
        node.run("node_modules/typescript/bin/tsc", "--strict", "--target",
                 "es2022", "--module", "nodenext", "--lib", "es2022,dom",
                 "--skipLibCheck", "--outDir", "out",
                 "client.ts")
        partner = Partner(self.stack)
        said = node.run("out/client.js", env={
            "WAYBILL_URL": self.stack.url, "WAYBILL_KEY": partner.key,
            "NODE_EXTRA_CA_CERTS": os.path.join(self.stack.var, "tls",
                                                "ca.pem")})
        self.assertEqual(said.splitlines(),
                         [f"{o.id} 200 ACCEPTED"
                          for o, _ in calls.examples_of(self.doc)])


def client_program(doc):
    """TypeScript that sends each example; a wrong field must not compile."""
    lines = ['import createClient from "openapi-fetch";',
             'import type { components, paths } from "./api.js";',
             "declare const process: { env: Record<string, string> };",
             "const client = createClient<paths>({",
             "  baseUrl: process.env.WAYBILL_URL,",
             '  headers: { Authorization: `Bearer ${process.env.WAYBILL_KEY}`'
             " },", "});",
             "function headers() {",
             '  return { "X-Correlation-Id": crypto.randomUUID() };', "}",
             "// @ts-expect-error: a name is a text",
             'const wrong: components["schemas"]["Uom"] = '
             '{ source_id: "EA", name: 5 };',
             "// @ts-expect-error: base_uom is required",
             'const less: components["schemas"]["Sku"] = '
             '{ source_id: "A", name: "a" };', "void wrong, less;"]
    for o, batch in calls.examples_of(doc):
        lines += [
            "{", f"  const {{ data, response }} = await client.POST("
            f"{json.dumps(o.path)}, {{",
            "    params: { header: headers() },",
            f"    body: {json.dumps(batch)},", "  });",
            f'  console.log("{o.id}", response.status,',
            '    data && "results" in data ? data.results[0]?.status : "-");',
            "}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    unittest.main()
