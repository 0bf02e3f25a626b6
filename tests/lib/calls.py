"""Calls of every route, and the problems that can be had, for the tests of
openapi.yaml: each answer with the operation it belongs to.

    answers = make_calls(stack)     [Call]: name, operation, answer
"""
# SPDX-License-Identifier: Apache-2.0
import collections
import gzip
import json
import urllib.parse

import spec
from items import API, Partner, new_key, sku
from stack import wait_for

Call = collections.namedtuple("Call", "name operation answer")


class Caller:
    def __init__(self, stack):
        self.stack = stack
        self.doc = spec.load()
        self.calls = []
        self.main = Partner(stack)

    def call(self, name, method, path, body=None, headers=None, who=None,
             key="fresh", admin=False):
        headers = dict(headers or {})
        who = self.main if who is None else who
        if key == "fresh":
            key = new_key() if method == "POST" else None
        if key:
            headers["X-Correlation-Id"] = key
        if who and "Authorization" not in headers:
            headers["Authorization"] = "Bearer " + getattr(who, "key", who)
        answer = self.stack.request(method, path, headers, body, key=False,
                                    admin=admin)
        bare = urllib.parse.urlsplit(path).path
        self.calls.append(Call(name, self.doc.find(method, bare), answer))
        return answer

    def items(self, name, collection, items, query="", **options):
        area = "documents" if "order" in collection or collection in (
            "receivers", "shippers") else "master"
        return self.call(name, "POST", f"{API}/{area}/{collection}{query}",
                         {"items": items}, **options)

    def finished(self, job):
        def look():
            answer = self.stack.request(
                "GET", f"{API}/jobs/{job}",
                {"Authorization": f"Bearer {self.main.key}"}, key=False)
            state = answer.json()["status"]
            return state in ("COMPLETED", "FAILED", "CANCELLED")
        wait_for(look, 60, "the job's end")


def examples_of(doc):
    """(operation, batch) of every collection, in the document's order."""
    return [(o, o.body["requestBody"]["content"]["application/json"]
             ["examples"]["batch"]["value"])
            for o in doc.operations() if o.id.startswith("send")]


def operators_calls(c):
    c.call("health", "GET", "/healthz", who="")
    c.call("ready", "GET", "/readyz", who="", admin=True)
    c.call("metrics", "GET", "/metrics", who="", admin=True)


def collection_calls(c):
    for o, batch in examples_of(c.doc):
        c.call(o.id, "POST", o.path, batch)
        c.call(o.id + " again", "POST", o.path, batch)
        c.call("page", "GET", o.path + "?limit=1")
        first = urllib.parse.quote(batch["items"][0]["source_id"], safe="")
        c.call("held", "GET", f"{o.path}/{first}")
        c.call("history", "GET", f"{o.path}/{first}?history=true")


def item_calls(c):
    c.items("batch_done", "skus", [sku("SKU-1002", 1, name="Filter paper")])
    c.items("batch_replay", "skus", [sku("SKU-1002", 1, name="Other")])
    partly = c.items("batch_partly", "skus", [
        sku("SKU-1003", 1, name="Tea 500 g"),
        sku("SKU-1004", 1, base_uom="CS", name="Tea, case"),
        {"source_id": "SKU-1005", "source_version": 1, "name": ""}])
    c.items("dry", "skus", [sku("SKU-9", 1)], "?dry_run=true", key=None)
    c.items("summary", "skus", [sku("SKU-9", 1, base_uom="XX")],
            "?return=summary")
    c.call("ndjson", "POST", f"{API}/master/uoms",
           b'{"source_id":"KG","name":"Kilogram"}\n{"source_id":"G"}\n',
           {"Content-Type": "application/x-ndjson"})
    c.call("gzip", "POST", f"{API}/master/uoms",
           gzip.compress(b'{"items":[{"source_id":"L","name":"Litre"}]}'),
           {"Content-Type": "application/json", "Content-Encoding": "gzip"})
    key = new_key()
    for _ in range(2):
        c.call("replayed", "POST", f"{API}/master/uoms", {"items": []},
               {"Idempotency-Key": f'"{key}"'}, key=None)
    c.call("mismatch", "POST", f"{API}/master/uoms",
           {"items": [{"source_id": "T", "name": "Ton"}]}, key=key)
    c.call("request", "GET", f"{API}/requests/{key}")
    return partly.json()["results"][1]["quarantine_id"]


def quarantine_calls(c, held):
    at = f"{API}/quarantine/{held}"
    c.call("quarantine_list", "GET", f"{API}/quarantine?missing=CS")
    c.call("quarantine", "GET", at)
    c.call("still-quarantined", "POST", at + "/release")
    c.call("body-not-allowed", "POST", at + "/release", {"x": 1})
    c.items("case", "uoms", [{"source_id": "CS", "name": "Case"}])
    c.call("released", "POST", at + "/release", {})
    c.call("quarantine-closed", "POST", at + "/discard")
    c.call("closed", "GET", at)
    other = c.items("again", "skus", [sku("SKU-1006", 1, base_uom="YY")])
    other = other.json()["results"][0]["quarantine_id"]
    taken = c.call("release_all", "POST", f"{API}/quarantine/release")
    c.finished(taken.json()["job_id"])
    c.call("release_job", "GET", taken.json()["status_url"])
    c.call("discarded", "POST", f"{API}/quarantine/{other}/discard")


def job_calls(c):
    taken = c.items("job_taken", "uoms", [
        {"source_id": "PAL", "source_version": 1, "name": "Pallet"},
        {"source_id": "BOX", "source_version": 1, "name": ""}], "?mode=bulk")
    job = taken.json()["job_id"]
    c.finished(job)
    c.call("job", "GET", f"{API}/jobs/{job}")
    c.call("jobs", "GET", f"{API}/jobs?limit=1&collection=uoms")
    c.call("results", "GET", f"{API}/jobs/{job}/results")
    c.call("result_lines", "GET", f"{API}/jobs/{job}/results",
           headers={"Accept": "application/x-ndjson"})
    c.call("job-finished", "POST", f"{API}/jobs/{job}/cancel")
    c.stack.supervisorctl("stop", "worker:*")
    waits = c.items("waits", "uoms", [], "?mode=bulk").json()["job_id"]
    c.call("waiting", "GET", f"{API}/jobs/{waits}")
    c.items("job-in-flight", "uoms", [], "?mode=full-refresh"
            "&confirm_empty=true")
    c.call("cancel", "POST", f"{API}/jobs/{waits}/cancel")
    c.stack.supervisorctl("start", "worker:*")


def refresh_calls(c):
    who = Partner(c.stack)
    many = [{"source_id": f"U{i}", "name": "u"} for i in range(120)]
    c.items("many", "uoms", many, "?return=summary", who=who)
    c.items("refresh-empty", "uoms", [], "?mode=full-refresh", who=who)
    c.items("refresh-too-destructive", "uoms", many[:10],
            "?mode=full-refresh", who=who)
    c.items("dry refresh", "uoms", many[:100], "?mode=full-refresh"
            "&dry_run=true&return=summary", who=who, key=None)
    done = c.items("refresh", "uoms", many[:117], "?mode=full-refresh"
                   "&return=failures", who=who)
    batch = done.json()["batch_id"]
    c.call("undone", "POST", f"{API}/batches/{batch}/undo-refresh", who=who)
    c.call("mapping", "GET", f"{API}/mappings?collection=uoms&source_id=U1",
           who=who)
    c.call("inactive", "GET", f"{API}/master/uoms?state=INACTIVE", who=who)


def limit_calls(c):
    c.call("capabilities", "GET", f"{API}/capabilities")
    c.call("limits", "GET", f"{API}/limits")
    slow = Partner(c.stack, "--rate", "1", "--burst", "1", "--quota", "2")
    c.call("limited", "GET", f"{API}/limits", who=slow)
    c.call("rate-limited", "GET", f"{API}/limits", who=slow)
    small = Partner(c.stack, "--quota", "2")
    two = [{"source_id": s, "name": "u"} for s in "ab"]
    c.items("quota", "uoms", two, who=small)
    c.items("quota-exhausted", "uoms", [{"source_id": "c", "name": "u"}],
            who=small)


def refused_calls(c):
    skus = f"{API}/master/skus"
    post = {"Content-Type": "application/json"}
    reader = c.main.new_credential("read")
    c.call("unauthenticated", "GET", f"{API}/capabilities", who="")
    c.call("forbidden", "POST", skus, {"items": []}, who=reader)
    c.call("not-found", "GET", f"{skus}/SKU-404")
    c.call("no-request", "GET", f"{API}/requests/{new_key()}")
    c.call("no-job", "GET", f"{API}/jobs/job-{'0' * 32}")
    c.call("no-record", "GET", f"{API}/quarantine/qua-{'0' * 32}")
    c.call("no-refresh", "POST",
           f"{API}/batches/bat-{'0' * 32}/undo-refresh")
    c.call("bad-parameter", "POST", skus + "?mode=x", {"items": []})
    c.call("bad-limit", "GET", skus + "?limit=0")
    c.call("correlation-id-missing", "POST", skus, {"items": []}, key=None)
    c.call("correlation-id-malformed", "POST", skus, {"items": []}, key="x")
    c.call("correlation-id-ambiguous", "POST", skus, {"items": []},
           {"Idempotency-Key": new_key()})
    c.call("bad-json", "POST", skus, b'{"items":[{},]}', post)
    c.call("bad-utf8", "POST", skus, b'{"items":[{"name":"\xff"}]}', post)
    c.call("duplicate-name", "POST", skus,
           b'{"items":[{"name":"a","name":"b"}]}', post)
    c.call("too-deep", "POST", skus,
           b'{"items":' + b"[" * 40 + b"]" * 40 + b"}", post)
    c.call("bad-envelope", "POST", skus, {"item": []})
    c.call("bad-gzip", "POST", skus, b"no",
           {**post, "Content-Encoding": "gzip"})
    c.call("unsupported-media-type", "POST", skus, b"a,b",
           {"Content-Type": "text/csv"})
    c.call("unsupported-encoding", "POST", skus, b"{}",
           {**post, "Content-Encoding": "br"})
    c.call("body-too-large", "POST", skus + "?dry_run=true",
           {"items": [sku(f"S{i}", 1) for i in range(5001)]}, key=None)
    strict = Partner(c.stack, "--strict")
    key = new_key()
    c.items("strict", "uoms", [], who=strict, key=key)
    c.items("correlation-id-reused", "uoms", [{"source_id": "E"}],
            who=strict, key=key)


def make_calls(stack):
    c = Caller(stack)
    operators_calls(c)
    collection_calls(c)
    quarantine_calls(c, item_calls(c))
    job_calls(c)
    refresh_calls(c)
    limit_calls(c)
    refused_calls(c)
    return c


def dump(c, path):
    """The answers by name, for whoever writes examples."""
    told = {}
    for call in c.calls:
        if "json" in call.answer.headers.get("Content-Type", "") and \
                "ndjson" not in call.answer.headers["Content-Type"]:
            told[call.name] = call.answer.json()
    with open(path, "w", encoding="utf-8") as f:
        json.dump(told, f, indent=1)
