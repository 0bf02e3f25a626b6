"""What the routes promise: where they are, headers, problems, metrics, logs."""
# SPDX-License-Identifier: Apache-2.0
# check: slow
import concurrent.futures
import json
import os
import re
import time
import unittest
import uuid

from problem import HEX, ROWS, wants_problem
from stack import Stack, wait_for

CAPABILITIES = "/wms-ingest/v1/capabilities"
ECHO = "/wms-ingest/v1/test/echo"
ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def request_lines(stack):
    """The service's log: every line of it must be JSON."""
    lines = []
    for name in ("fcgi_0.log", "fcgi_1.log"):
        for text in stack.log(name).splitlines():
            line = json.loads(text)
            if line["event"] == "request":
                lines.append(line)
    return lines


def log_of(stack, answer):
    """The one line of the request that got this answer."""
    wanted = answer.headers["X-Request-Id"]
    found = wait_for(lambda: [line for line in request_lines(stack)
                              if line["request_id"] == wanted],
                     what="the log line")
    return found[0] if len(found) == 1 else None


class Case(unittest.TestCase):
    stack = None


def setUpModule():
    Case.stack = Stack()
    Case.stack.start()


def tearDownModule():
    Case.stack.stop()
    Case.stack.remove()


class Routes(Case):
    def test_healthz_is_on_both_listeners(self):
        for answer in (self.stack.get("/healthz", key=False),
                       self.stack.admin("/healthz")):
            self.assertEqual((answer.status, answer.json()),
                             (200, {"status": "ok"}))

    def test_readyz_and_metrics_are_only_on_the_admin_listener(self):
        for path in ("/readyz", "/metrics"):
            self.assertEqual(self.stack.admin(path).status, 200)
            for key in (True, False):
                wants_problem(self, self.stack.get(path, key=key), 404,
                              "not-found")
        ready = self.stack.admin("/readyz").json()
        self.assertEqual(ready["status"], "ready")
        self.assertGreaterEqual(ready["schema_version"], 1)
        self.assertLess(abs(ready["clock_skew_ms"]), 5000)

    def test_capabilities_tell_the_limits_of_this_partner(self):
        got = self.stack.get(CAPABILITIES)
        self.assertEqual(got.status, 200, got)
        self.assertEqual(got.headers["Content-Type"], "application/json")
        document = got.json()
        self.assertEqual(document["partner_id"], "DEMO")
        self.assertEqual(document["limits"]["sync_body_bytes"], 4 << 20)
        self.assertEqual(document["rate"], {"requests_per_second": None,
                                            "burst": None})
        self.stack.waybill("partner", "set", "DEMO", "--rate", "70",
                           "--burst", "90")
        try:
            self.assertEqual(self.stack.get(CAPABILITIES).json()["rate"],
                             {"requests_per_second": 70, "burst": 90})
        finally:
            self.stack.sql("UPDATE partner SET rate_per_s = NULL, "
                           "burst = NULL")
        wants_problem(self, self.stack.admin(CAPABILITIES), 404, "not-found")

    def test_the_test_route_takes_a_body_whole(self):
        got = self.stack.post(ECHO, {"items": [{"a": 1}, {"b": 2}]})
        self.assertEqual((got.status, got.json()["items"]), (200, 2), got)

    def test_head_is_get_without_the_body(self):
        for path in ("/healthz", CAPABILITIES, "/nowhere"):
            get = self.stack.get(path)
            head = self.stack.request("HEAD", path)
            with self.subTest(path):
                self.assertEqual((head.status, head.body),
                                 (get.status, b""))
                for name in ("Content-Type", "Content-Length"):
                    self.assertEqual(head.headers[name], get.headers[name])
        self.assertEqual(self.stack.admin("/metrics", "HEAD").body, b"")

    def test_another_method_is_405_with_allow(self):
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS",
                       "PROPFIND"):
            got = self.stack.request(method, "/healthz")
            wants_problem(self, got, 405, "method-not-allowed")
            self.assertEqual(got.headers.get_all("Allow"), ["GET, HEAD"])
        for method in ("GET", "HEAD", "PUT"):
            got = self.stack.request(method, ECHO)
            self.assertEqual(got.status, 405)
            self.assertEqual(got.headers.get_all("Allow"), ["POST"])

    def test_the_route_is_looked_at_before_the_credential(self):
        wants_problem(self, self.stack.get("/nowhere", key=False), 404,
                      "not-found")
        wants_problem(self, self.stack.request("PUT", CAPABILITIES,
                                               key=False),
                      405, "method-not-allowed")

    def test_an_unknown_parameter_is_refused(self):
        document = wants_problem(self, self.stack.get("/healthz?dry_rum=1"),
                                 400, "bad-parameter")
        self.assertIn("dry_rum", document["detail"])
        document = wants_problem(
            self, self.stack.post(ECHO + "?mode=a&mode=b", {"items": []}),
            400, "bad-parameter")
        self.assertIn("mode", document["detail"])

    def test_a_get_with_a_body_is_refused(self):
        wants_problem(self, self.stack.request("GET", "/healthz", body=b"x"),
                      400, "body-not-allowed")


class Names(Case):
    """Ids of requests, correlation and traces."""

    def test_every_answer_has_a_request_id_of_its_own(self):
        seen = []
        for method, path, key in (("GET", "/healthz", False),
                                  ("GET", CAPABILITIES, True),
                                  ("GET", CAPABILITIES, False),
                                  ("GET", "/nowhere", False),
                                  ("PUT", "/healthz", False),
                                  ("GET", "/docs/errors.md", False),
                                  ("GET", "/%ff", False),
                                  ("POST", ECHO, True)):
            got = self.stack.request(method, path, key=key)
            ids = got.headers.get_all("X-Request-Id")
            self.assertEqual(len(ids or []), 1, got)
            self.assertRegex(ids[0], HEX)
            seen += ids
        self.assertEqual(len(set(seen)), len(seen))

    def sent(self, path=CAPABILITIES, method="GET", **headers):
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        return self.stack.request(method, path, headers)

    def test_a_well_formed_correlation_id_comes_back_as_sent(self):
        lower = str(uuid.uuid4())
        for text in (lower, lower.upper(), ULID, ULID.lower()):
            got = self.sent(X_Correlation_Id=text)
            self.assertEqual(got.status, 200, got)
            self.assertEqual(got.headers.get_all("X-Correlation-Id"), [text])

    def test_idempotency_key_is_another_name_bare_or_quoted(self):
        text = str(uuid.uuid4())
        for key in (text, f'"{text}"'):
            got = self.sent(Idempotency_Key=key)
            self.assertEqual(got.status, 200, got)
            self.assertEqual(got.headers.get_all("X-Correlation-Id"), [text])
        got = self.stack.request(
            "POST", ECHO, {"Idempotency-Key": f'"{text}"'}, {"items": []})
        self.assertEqual(got.status, 200, got)

    def test_both_names_may_say_the_same(self):
        text = str(uuid.uuid4())
        got = self.sent(X_Correlation_Id=text,
                        Idempotency_Key=f'"{text.upper()}"')
        self.assertEqual(got.status, 200, got)
        self.assertEqual(got.headers.get_all("X-Correlation-Id"), [text])

    def test_both_names_that_differ_are_refused(self):
        for path, method in ((CAPABILITIES, "GET"), (ECHO, "POST")):
            got = self.sent(path, method, X_Correlation_Id=str(uuid.uuid4()),
                            Idempotency_Key=str(uuid.uuid4()))
            wants_problem(self, got, 400, "correlation-id-ambiguous")

    def test_a_malformed_one_is_refused_and_not_given_back(self):
        text = str(uuid.uuid4())
        for bad in ("", "1", text[:-1], text + "0", text.replace("-", ""),
                    "{" + text + "}", ULID[:-1], "8" + ULID[1:],
                    ULID[:-1] + "U", "é" * 13, f'"{text}"'):
            with self.subTest(bad):
                got = self.sent(X_Correlation_Id=bad.encode())
                wants_problem(self, got, 400, "correlation-id-malformed")
                self.assertIsNone(got.headers["X-Correlation-Id"])
        wants_problem(self, self.sent(Idempotency_Key=f'"{text}'), 400,
                      "correlation-id-malformed")

    def test_a_post_needs_one(self):
        wants_problem(self, self.sent(ECHO, "POST"), 400,
                      "correlation-id-missing")

    def test_refusals_give_the_correlation_id_back_too(self):
        text = str(uuid.uuid4())
        for method, path, key, status in (
                ("GET", "/nowhere", True, 404), ("PUT", ECHO, True, 405),
                ("POST", ECHO, False, 401), ("POST", ECHO, True, 415)):
            got = self.stack.request(method, path,
                                     {"X-Correlation-Id": text}, key=key)
            self.assertEqual(got.status, status, got)
            self.assertEqual(got.headers.get_all("X-Correlation-Id"), [text],
                             got)
            self.assertEqual(log_of(self.stack, got)["correlation_id"], text)

    def test_refusals_of_nginx_give_the_correlation_id_back_too(self):
        for text, back in ((str(uuid.uuid4()), True), (ULID, True),
                           ("no such id", False)):
            got = self.stack.request("POST", ECHO, {"X-Correlation-Id": text},
                                     b"x" * (5 << 20))
            wants_problem(self, got, 413, "body-too-large")
            self.assertEqual(got.headers.get_all("X-Correlation-Id"),
                             [text] if back else None)

    def test_the_trace_id_is_that_of_traceparent(self):
        got = self.sent("/nowhere", traceparent=PARENT)
        self.assertEqual(got.json()["trace_id"], TRACE)
        self.assertEqual(log_of(self.stack, got)["trace_id"], TRACE)

    def test_a_malformed_traceparent_counts_as_absent(self):
        for bad in ("", "x", PARENT[:-1], PARENT.upper(), "ff" + PARENT[2:],
                    PARENT + "-01", PARENT.replace(TRACE, "0" * 32)):
            got = self.sent("/nowhere", traceparent=bad)
            self.assertEqual(got.status, 404)
            self.assertEqual(got.json()["trace_id"],
                             got.headers["X-Request-Id"], bad)


class Problems(Case):
    def test_the_page_they_point_at_is_served_and_has_the_anchor(self):
        got = self.stack.get("/docs/errors.md", key=False)
        self.assertEqual(got.status, 200)
        anchors = re.findall(r"^## (\S+)$", got.body.decode(), re.M)
        self.assertEqual(sorted(anchors), sorted(ROWS))

    def test_a_place_in_the_body_is_named(self):
        got = self.stack.post(ECHO, b'{"items":[{"a":1},{"b":tru}]}',
                              headers={"Content-Type": "application/json"})
        document = wants_problem(self, got, 400, "bad-json")
        self.assertEqual(document["pointer"], "/items/1/b")
        self.assertNotIn("line", document)
        got = self.stack.post(ECHO, b'{"a":1}\n\n{"b":{"c":[1,2,}}\n',
                              headers={"Content-Type":
                                       "application/x-ndjson"})
        document = wants_problem(self, got, 400, "bad-json")
        self.assertEqual((document["line"], document["pointer"]),
                         (3, "/b/c/2"))

    def test_instance_is_the_path_without_the_query(self):
        got = self.stack.get("/no/such%20path?secret=1")
        self.assertEqual(wants_problem(self, got, 404,
                                       "not-found")["instance"],
                         "/no/such%20path")

    def test_content_type_and_encoding_are_415(self):
        for kind in ("", "text/plain", "application/jsonx", "application/",
                     "json", "application/json+x", "application/json,x",
                     "application/json; charset=iso-8859-1",
                     'application/json;x=y;CHARSET="utf-16"',
                     "application/json; charset="):
            got = self.stack.post(ECHO, b'{"items":[]}',
                                  headers={"Content-Type": kind})
            wants_problem(self, got, 415, "unsupported-media-type")
        for kind in ("application/json; charset=utf-8", "Application/JSON",
                     'application/json;a=b; Charset="UTF-8"'):
            got = self.stack.post(ECHO, b'{"items":[]}',
                                  headers={"Content-Type": kind})
            self.assertEqual(got.status, 200, got)
        for coding in ("br", "deflate", "gzip, gzip", "x-gzip"):
            got = self.stack.post(ECHO, b'{"items":[]}', headers={
                "Content-Type": "application/json",
                "Content-Encoding": coding})
            wants_problem(self, got, 415, "unsupported-encoding")


class Watching(Case):
    def counters(self, stack):
        """"name{labels}": value."""
        lines = stack.admin("/metrics").body.decode().splitlines()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
                for line in lines if line and line[0] != "#"}

    def test_metrics_are_one_set_for_all_workers(self):
        """And they survive the workers."""
        name = 'waybill_requests_total{route="healthz",status="200"}'
        whole = 'waybill_request_duration_seconds_count{route="healthz"}'
        missing = 'waybill_problems_total{problem="not-found"}'
        with Stack(workers=8, conf=["max_requests = 40"]) as stack:
            before = self.counters(stack)

            def client(_):
                with stack.session() as session:
                    for _ in range(100):
                        session.request("GET", "/healthz", key=False)
                    session.request("GET", "/nowhere", key=False)

            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(client, range(8)))
            wait_for(lambda: len(request_lines(stack)) >= 808)
            after = self.counters(stack)
            workers = {line["pid"] for line in request_lines(stack)}
            print(f"  800 requests by {len(workers)} workers")
            self.assertGreaterEqual(len(workers), 16)
            for key, n in ((name, 800), (whole, 800), (missing, 8)):
                self.assertEqual(after[key] - before.get(key, 0), n, key)
            stack.stop()
            stack.start()
            self.assertGreaterEqual(self.counters(stack)[name], after[name])

    def test_the_depth_and_age_of_the_queue_are_read_from_the_database(self):
        with Stack() as stack:
            stack.supervisorctl("stop", "worker:*")
            gauges = [f'waybill_jobs{{state="{s}"}}'
                      for s in ("QUEUED", "RUNNING")]
            gauges += ["waybill_jobs_leased", "waybill_job_oldest_seconds"]

            def read():
                counters = self.counters(stack)
                return [counters.get(name) for name in gauges]

            self.assertEqual(read(), [0, 0, 0, 0])
            for _ in range(2):
                got = stack.post("/wms-ingest/v1/master/uoms?mode=bulk",
                                 {"items": [{"source_id": "A", "name": "a"}]})
                self.assertEqual(got.status, 202, got)
            self.assertEqual(read()[:3], [2, 0, 0])
            wait_for(lambda: read()[3] >= 1)
            stack.supervisorctl("stop", "mariadb")
            got = stack.admin("/metrics")
            self.assertEqual(got.status, 200, got)
            self.assertIn(b"waybill_requests_total{", got.body)
            self.assertNotIn(b"waybill_jobs{", got.body)
            stack.supervisorctl("start", "mariadb", "worker:*")
            wait_for(lambda: read() == [0, 0, 0, 0], 60)

    def test_every_counter_is_documented_and_typed(self):
        stack = self.stack
        text = stack.admin("/metrics")
        self.assertEqual(text.headers["Content-Type"],
                         "text/plain; version=0.0.4")
        lines = text.body.decode().splitlines()
        typed = {line.split()[2] for line in lines
                 if line.startswith("# TYPE ")}
        for line in lines:
            if line.startswith("#"):
                continue
            self.assertRegex(
                line, r'^waybill_\w+(\{(\w+="[^"]*",?)+\})? [0-9.]+$')
            base = re.sub(r"_(bucket|sum|count)$", "",
                          re.split(r"[{ ]", line)[0])
            self.assertIn(base, typed)

    def test_logs_hold_the_promised_fields(self):
        text = str(uuid.uuid4())
        stack = self.stack
        got = stack.post(ECHO, {"items": []}, text,
                         {"traceparent": PARENT})
        line = log_of(stack, got)
        self.assertEqual(
            {k: line[k] for k in ("event", "level", "route", "method",
                                  "status", "partner", "correlation_id",
                                  "trace_id", "program")},
            {"event": "request", "level": "info", "route": "test_echo",
             "method": "POST", "status": 200, "partner": "DEMO",
             "correlation_id": text, "trace_id": TRACE,
             "program": "waybill-fcgi"})
        self.assertRegex(line["time"],
                         r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertGreater(line["duration_us"], 0)
        refused = log_of(stack, stack.get(CAPABILITIES, key=False))
        self.assertEqual((refused["status"], refused["fail"]),
                         (401, "unauthenticated"))
        self.assertNotIn("partner", refused)

    def test_no_log_holds_a_credential_or_a_payload(self):
        canary = "canary" + uuid.uuid4().hex
        bodies = [f'{{"items":[{{"a":"{canary}"}}]}}',
                  f'{{"items":[{{"a":{canary}}}]}}',
                  f'{{"{canary}":1}}', f"{canary}",
                  f'{{"items":[{{"{canary}":1,"{canary}":2}}]}}',
                  f'{{"items":[{{"a":"\\{canary}"}}]}}',
                  f'{{"items":[{{"a":"{canary}\x01"}}]}}']
        with Stack(conf=["log_level = debug"]) as stack:
            ident, secret = stack.key[4:].split("_", 1)
            forged = stack.key[:-8] + ("a" if stack.key[-8] != "a" else "b")
            statuses = set()
            for body in bodies:
                for kind in ("application/json", "application/x-ndjson"):
                    for key in (stack.key, forged, canary):
                        got = stack.post(ECHO, body.encode(), headers={
                            "Content-Type": kind,
                            "Authorization": f"Bearer {key}"})
                        statuses.add(got.status)
            self.assertEqual(statuses, {200, 400, 401})
            # Headers nginx finds wrong, and a worker that dies.
            stack.raw(b"POST " + ECHO.encode() + b" HTTP/1.1\r\nHost: a\r\n"
                      b"Authorization: Bearer " + stack.key.encode() +
                      b"\r\n" + canary.encode() + b" : x\r\n"
                      b"Content-Length: 9999999\r\n\r\n")
            stack.raw(b"GET /healthz HTTP/1.1\r\nHost: a\r\nAuthorization: "
                      + stack.key.encode() * 100 + b"\r\n\r\n")
            stack.supervisorctl("stop", "mariadb")
            self.assertEqual(stack.get(CAPABILITIES).status, 503)
            stack.kill(stack.worker_pids()[0])
            stack.supervisorctl("stop", "fcgi:*")
            stack.post(ECHO, bodies[0].encode(), headers={
                "Content-Type": "application/json"})
            time.sleep(0.3)
            read = 0
            for folder, _, names in os.walk(os.path.join(stack.var, "log")):
                for name in names:
                    with open(os.path.join(folder, name), "rb") as f:
                        text = f.read()
                    read += len(text)
                    with self.subTest(name):
                        for word in (secret, secret[:20], canary):
                            self.assertNotIn(word.encode(), text)
            self.assertGreater(read, 5000)
            self.assertTrue(ident)
            stack.supervisorctl("start", "mariadb")


if __name__ == "__main__":
    unittest.main()
