#!/usr/bin/env python3
"""Bulk intake: bodies of any size into jobs, through nginx. Those in brackets
are guarantees of include/api/intake.h and job/chunks.h.

WAYBILL_TEST_LONG makes bodies as large as the contract allows.
"""
# check: slow
# SPDX-License-Identifier: Apache-2.0
import gzip
import http.client
import itertools
import json
import os
import re
import signal
import socket
import sys
import threading
import time
import unittest
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "lib"))
from stack import LONG, Stack, proc_text, wait_for  # noqa: E402

BASE = "/wms-ingest/v1/master/"
UOMS = BASE + "uoms"
JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
GZIP = {"Content-Encoding": "gzip"}
MIB = 1 << 20
RSS_MAX_KIB = 64 * 1024


def items(count, size=0, first=0):
    return [{"source_id": f"U{i}", "name": "n" + "x" * size}
            for i in range(first, first + count)]


def envelope(things):
    return json.dumps({"items": things}).encode()


def lines(things):
    return b"".join(json.dumps(t).encode() + b"\n" for t in things)


def sanitized(programs):
    with open(os.path.join(programs, "waybill-fcgi"), "rb") as f:
        return b"__asan_init" in f.read()


class Base(unittest.TestCase):
    CONF = []
    WORKERS = 4
    ENV = None

    @classmethod
    def setUpClass(cls):
        cls.s = Stack(conf=["worker_poll = 60s", *cls.CONF],
                      workers=cls.WORKERS, env=cls.ENV)
        cls.s.start()
        cls.addClassCleanup(cls.s.remove)
        cls.addClassCleanup(cls.s.stop)
        # Jobs stay as they were taken in.
        cls.s.supervisorctl("stop", "worker:*")

    def setUp(self):
        for table in ("job", "lane", "job_chunk", "refresh_name", "batch",
                      "request_key", "response", "item"):
            self.s.sql(f"TRUNCATE {table}")

    def number(self, query):
        return int(self.s.sql(query)[0][0])

    def count(self, table):
        return self.number(f"SELECT COUNT(*) FROM {table}")

    def want_nothing(self):
        """[I2]"""
        for table in ("job", "job_chunk", "refresh_name", "request_key",
                      "batch"):
            self.assertEqual(self.count(table), 0, table)

    def want_job(self, answer, body, number, mode):
        """[I1] One job, and all that was said of it."""
        self.assertEqual(answer.status, 202, answer)
        told = answer.json()
        job = told["job_id"]
        self.assertRegex(job, "^job-[0-9a-f]{32}$")
        url = "/wms-ingest/v1/jobs/" + job
        self.assertEqual(told, {
            "job_id": job, "status": "QUEUED", "status_url": url,
            "results_url": url + "/results",
            "received": {"items": number, "bytes": len(body)}})
        self.assertEqual(answer.headers.get_all("Location"), [url])
        self.assertEqual(answer.headers["Retry-After"], "1")
        rows = self.s.sql(
            "SELECT LOWER(HEX(j.job_id)), j.total, j.bytes, j.mode, b.mode, "
            "b.total, j.chunk_count, COUNT(c.job_id), "
            "COALESCE(SUM(c.items), 0) FROM job j "
            "LEFT JOIN batch b ON b.batch_id = j.batch_id "
            "AND b.job_id = j.job_id "
            "LEFT JOIN job_chunk c ON c.job_id = j.job_id GROUP BY j.job_id")
        self.assertEqual(len(rows), 1, rows)
        chunks = rows[0][6]
        self.assertEqual(rows[0], [
            job[4:], str(number), str(len(body)), str(mode), str(mode),
            str(number), chunks, chunks, str(number)])
        self.assertEqual(self.count("job_chunk"), int(chunks))
        return job

    def problem(self, answer, status, slug):
        self.assertEqual(answer.status, status, answer)
        self.assertTrue(answer.json()["type"].endswith("#" + slug), answer)
        return answer.json()


class Taking(Base):
    def test_bulk_in_every_format(self):
        things = items(10000)
        for text, headers in ((envelope(things), JSON),
                              (lines(things), NDJSON)):
            for packed in (False, True):
                with self.subTest(headers=headers, packed=packed):
                    self.setUp()
                    sent = gzip.compress(text) if packed else text
                    more = {**headers, **(GZIP if packed else {})}
                    answer = self.s.post(UOMS + "?mode=bulk", sent,
                                         headers=more)
                    self.want_job(answer, text, 10000, 3)

    def test_the_same_key_again_is_the_same_202(self):
        """Replayed with its headers, and with another body as a mismatch."""
        key, body = str(uuid.uuid4()), lines(
            {"source_id": f"U{i}", "name": os.urandom(1000).hex()}
            for i in range(3000))
        path = UOMS + "?mode=bulk"
        first = self.s.post(path, body, key, NDJSON)
        self.want_job(first, body, 3000, 3)
        again = self.s.post(path, gzip.compress(body), key,
                            {**NDJSON, **GZIP})
        self.assertEqual((again.status, again.body), (202, first.body))
        self.assertEqual(again.headers["Location"], first.headers["Location"])
        self.assertEqual(again.headers["Idempotent-Replayed"], "true")
        self.assertIsNone(again.headers["X-Correlation-Mismatch"])
        other = self.s.post(path, body + b"{}\n", key, NDJSON)
        self.assertEqual((other.status, other.body), (202, first.body))
        self.assertEqual(other.headers["X-Correlation-Mismatch"], "true")
        self.want_job(first, body, 3000, 3)

    def test_an_empty_bulk_is_a_job_of_no_items(self):
        answer = self.s.post(UOMS + "?mode=bulk", b'{"items":[]}',
                             headers=JSON)
        self.want_job(answer, b'{"items":[]}', 0, 3)

    def test_one_item_more_than_the_threshold_is_a_job(self):
        body = envelope(items(5000))
        answer = self.s.post(UOMS, body, headers=JSON)
        self.assertEqual(answer.status, 200, answer)
        self.setUp()
        body = envelope(items(5001))
        answer = self.s.post(UOMS, body, headers=JSON)
        self.want_job(answer, body, 5001, 1)

    def test_one_byte_more_than_the_limit_is_a_job(self):
        body = envelope(items(100))
        answer = self.s.post(UOMS, body + b" " * (4 * MIB - len(body)),
                             headers=JSON)
        self.assertEqual(answer.status, 200, answer)
        self.setUp()
        body += b" " * (4 * MIB + 1 - len(body))
        answer = self.s.post(UOMS, body, headers=JSON)
        self.want_job(answer, body, 100, 1)

    def test_a_dry_run_is_never_a_job(self):
        path = UOMS + "?dry_run=true"
        for body in (envelope(items(5001)),
                     envelope(items(10)) + b" " * (4 * MIB)):
            self.problem(self.s.post(path, body, headers=JSON), 413,
                         "body-too-large")
        self.problem(self.s.post(path + "&mode=bulk", b'{"items":[]}',
                                 headers=JSON), 400, "bad-parameter")
        self.want_nothing()

    def test_a_refresh_of_many_is_a_job_with_its_names(self):
        """Twice the same name, and a rejected item, which counts as named."""
        things = items(5000) + items(1) + [{"source_id": "R", "name": 5}, 7]
        body = envelope(things)
        answer = self.s.post(UOMS + "?mode=full-refresh", body, headers=JSON)
        self.want_job(answer, body, 5003, 2)
        self.assertEqual(self.count("refresh_name"), 5001)
        self.assertEqual(self.s.sql("SELECT kind, phase, confirmed FROM job"),
                         [["2", "1", "0"]])

    def test_a_refresh_of_few_where_many_are_active_is_a_job(self):
        answer = self.s.post(UOMS, envelope(items(4000)), headers=JSON)
        self.assertEqual(answer.status, 200, answer)
        self.s.sql("TRUNCATE batch")
        body = envelope(items(1001))
        self.problem(self.s.post(UOMS + "?mode=full-refresh&dry_run=true",
                                 body, headers=JSON), 413, "body-too-large")
        answer = self.s.post(UOMS + "?mode=full-refresh&confirm=true", body,
                             headers=JSON)
        self.want_job(answer, body, 1001, 2)
        self.assertEqual(self.count("refresh_name"), 1001)
        self.assertEqual(self.s.sql("SELECT confirmed FROM job"), [["1"]])

    def test_an_empty_refresh_must_be_meant(self):
        body = b'{"items":[]}' + b" " * (5 * MIB)
        path = UOMS + "?mode=full-refresh"
        self.problem(self.s.post(path, body, headers=JSON), 422,
                     "refresh-empty")
        self.want_nothing()
        answer = self.s.post(path + "&confirm_empty=true", body, headers=JSON)
        self.want_job(answer, body, 0, 2)

    def test_a_job_in_the_way_is_409_and_leaves_nothing(self):
        body = envelope(items(10))
        answer = self.s.post(UOMS + "?mode=bulk", body, headers=JSON)
        self.want_job(answer, body, 10, 3)
        many = envelope(items(5001))
        key = str(uuid.uuid4())
        again = self.s.post(UOMS + "?mode=full-refresh", many, key, JSON)
        self.problem(again, 409, "job-in-flight")
        self.assertIsNotNone(again.headers["Retry-After"])
        self.want_job(answer, body, 10, 3)
        self.assertEqual(self.count("refresh_name"), 0)
        # The key is free: it works when the way is.
        self.s.sql("UPDATE lane SET open_jobs = 0")
        self.assertEqual(self.s.post(UOMS + "?mode=full-refresh", many, key,
                                     JSON).status, 202)

    def test_an_oversized_item_is_left_for_the_job_to_reject(self):
        body = lines([*items(2), {"source_id": "BIG", "x": "y" * 70000},
                      *items(1)])
        answer = self.s.post(UOMS + "?mode=bulk", body, headers=NDJSON)
        self.want_job(answer, body, 4, 3)


class Refusing(Base):
    """A clear answer, nothing queued, nothing left."""

    def test_what_stops_being_json_late(self):
        good = lines(items(20000, 300))
        bad = self.s.post(UOMS + "?mode=bulk", good + b'{"a":}\n',
                          headers=NDJSON)
        self.assertEqual(self.problem(bad, 400, "bad-json")["line"], 20001)
        self.want_nothing()
        text = envelope(items(20000, 300))[:-2] + b',{"a":1,"a":2}]}'
        bad = self.s.post(UOMS + "?mode=full-refresh", text, headers=JSON)
        self.assertEqual(self.problem(bad, 400, "duplicate-name")["pointer"],
                         "/items/20000/a")
        self.want_nothing()

    def test_what_ends_in_the_middle(self):
        text = envelope(items(20000, 300))
        self.problem(self.s.post(UOMS + "?mode=bulk", text[:-40],
                                 headers=JSON), 400, "bad-json")
        packed = gzip.compress(text)
        self.problem(self.s.post(UOMS + "?mode=bulk", packed[:-20],
                                 headers={**JSON, **GZIP}), 400, "bad-gzip")
        self.want_nothing()

    def test_an_upload_that_is_cut(self):
        body = lines(items(10000, 300))
        for tail in (b"", b"0\r\n"):
            head = (f"POST {UOMS}?mode=bulk HTTP/1.1\r\nHost: localhost\r\n"
                    f"Authorization: Bearer {self.s.key}\r\n"
                    f"X-Correlation-Id: {uuid.uuid4()}\r\n"
                    "Content-Type: application/x-ndjson\r\n" +
                    ("Transfer-Encoding: chunked\r\n\r\n" if tail else
                     f"Content-Length: {len(body)}\r\n\r\n")).encode()
            part = body[:2 * MIB]
            if tail:
                part = b"%x\r\n" % len(body) + part
            self.s.raw(head + part, finish=True)
        time.sleep(0.5)
        self.want_nothing()

    def test_encodings_and_types_that_are_not_known(self):
        body = lines(items(10000, 300))
        answer = self.s.post(UOMS + "?mode=bulk", body,
                             headers={**NDJSON, "Content-Encoding": "br"})
        self.problem(answer, 415, "unsupported-encoding")
        answer = self.s.post(UOMS + "?mode=bulk", body,
                             headers={"Content-Type": "text/csv"})
        self.problem(answer, 415, "unsupported-media-type")
        answer = self.s.post(UOMS + "?mode=bulk", body,
                             headers={**NDJSON, **GZIP})
        self.problem(answer, 400, "bad-gzip")
        answer = self.s.post(UOMS + "?mode=bulk2", body, headers=NDJSON)
        self.problem(answer, 400, "bad-parameter")
        self.want_nothing()

    def test_a_bomb(self):
        packed = gzip.compress(b'{"items":[' + b" " * (40 * MIB) + b"]}")
        answer = self.s.post(UOMS + "?mode=bulk", packed,
                             headers={**JSON, **GZIP})
        self.problem(answer, 413, "gzip-bomb")
        self.want_nothing()


class Limits(Base):
    CONF = ["bulk_body_max = 6MiB", "intake_deadline = 1h"]

    def test_the_largest_body_and_one_byte_more(self):
        body = lines(items(10))
        body += b"\n" * (6 * MIB - len(body))
        self.want_job(self.s.post(UOMS + "?mode=bulk", body, headers=NDJSON),
                      body, 10, 3)
        self.setUp()
        for mode in ("bulk", "upsert"):
            answer = self.s.post(UOMS + "?mode=" + mode, body + b"\n",
                                 headers=NDJSON)
            self.problem(answer, 413, "body-too-large")
        # Unpacked, and well under the ratio of a bomb.
        row = b"".join(b'"%s"\n' % os.urandom(30).hex().encode()
                       for _ in range(110000))
        answer = self.s.post(UOMS + "?mode=bulk", gzip.compress(row),
                             headers={**NDJSON, **GZIP})
        self.problem(answer, 413, "body-too-large")
        self.want_nothing()


def hard(size):
    """Items that gzip can only halve."""
    return b"".join(b'{"source_id":"U%d","name":"%s"}\n' %
                    (i, os.urandom(25000).hex().encode())
                    for i in range(size // 50040))


class Slow(Base):
    CONF = ["request_deadline = 1s"]
    ENV = {"WAYBILL_TEST_FAULT": "chunks.after_flush:3:delay=800"}

    def test_an_intake_may_outlast_a_request(self):
        """[B4]"""
        body = hard(96 * MIB)
        started = time.monotonic()
        answer = self.s.post(UOMS + "?mode=bulk", body, headers=NDJSON)
        print(f"{time.monotonic() - started:.1f} s, and a request has 1 s")
        self.want_job(answer, body, body.count(b"\n"), 3)
        logged = [json.loads(line) for n in (0, 1)
                  for line in self.s.log(f"fcgi_{n}.log").splitlines()
                  if line.startswith("{")]
        took = max(r["duration_us"] for r in logged
                   if r.get("route") == "items_post")
        self.assertGreater(took, 1000000)


class Late(Base):
    CONF = ["request_deadline = 1s", "intake_deadline = 1s"]
    ENV = {"WAYBILL_TEST_FAULT": "chunks.after_flush:3:delay=800"}

    def test_an_intake_has_a_deadline_of_its_own(self):
        """[B4]"""
        answer = self.s.post(UOMS + "?mode=bulk", hard(96 * MIB),
                             headers=NDJSON)
        self.problem(answer, 408, "request-timeout")
        self.want_nothing()


class Hung(Base):
    CONF = ["request_deadline = 1s"]
    ENV = {"WAYBILL_TEST_FAULT": "chunks.after_flush:3:stop"}

    def test_an_intake_that_does_not_get_on_is_ended(self):
        """[B4, I2]"""
        answer = self.s.post(UOMS + "?mode=bulk", hard(8 * MIB),
                             headers=NDJSON)
        self.problem(answer, 503, "unavailable")
        self.assertEqual(self.count("job_chunk"), 3)
        self.assertEqual(self.count("job") + self.count("request_key"), 0)


class Credentials(Base):
    """Nobody without a credential makes nginx spool a large body."""

    def upload(self, key, size=64 * MIB, chunked=False, method="POST"):
        """How many bytes nginx took before it answered, and the answer."""
        auth = f"Authorization: Bearer {key}\r\n" if key else ""
        length = ("Transfer-Encoding: chunked" if chunked
                  else f"Content-Length: {size}")
        head = (f"{method} {UOMS}?mode=bulk HTTP/1.1\r\n"
                f"Host: localhost\r\n{auth}"
                f"X-Correlation-Id: {uuid.uuid4()}\r\n{length}\r\n"
                "Content-Type: application/x-ndjson\r\n\r\n").encode()
        piece = b"\n" * 65536
        frame = b"10000\r\n" + piece + b"\r\n" if chunked else piece
        sock = socket.create_connection(("127.0.0.1", self.s.port), 20)
        with self.s.tls().wrap_socket(sock, server_hostname="localhost") as t:
            t.sendall(head)
            t.settimeout(0.5)
            sent, got = 0, b""
            while sent < size and not got:
                try:
                    t.sendall(frame)
                    sent += len(piece)
                except (TimeoutError, OSError):
                    break
                if sent % (4 * MIB) == 0:
                    t.settimeout(0.01)
                    try:
                        got = t.recv(65536)
                    except TimeoutError:
                        pass
                    t.settimeout(0.5)
            t.settimeout(10)
            try:
                got = got or t.recv(65536)
            except OSError:
                pass
        return sent, got

    def spooled(self, pids):
        """The bytes of bodies that these nginx hold on disk now. The files
        have no name any more: only their descriptors tell."""
        total = 0
        for pid in pids:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                path = f"/proc/{pid}/fd/{fd}"
                try:
                    if "/tmp/body/" in os.readlink(path):
                        total += os.stat(path).st_size
                except OSError:
                    pass
        return total

    def test_a_large_body_without_a_credential_is_not_spooled(self):
        most = [0]
        done = threading.Event()
        pids = self.s.pids("nginx")

        def watch():
            while not done.is_set():
                most[0] = max(most[0], self.spooled(pids))
                time.sleep(0.005)
        thread = threading.Thread(target=watch)
        thread.start()
        try:
            for key in (None, "wbk_nonsense", self.s.key[:-4] + "aaaa"):
                for method, chunked in itertools.product(
                        ("POST", "GET", "HEAD"), (False, True)):
                    with self.subTest(key=key, method=method,
                                      chunked=chunked):
                        sent, got = self.upload(key, chunked=chunked,
                                                method=method)
                        self.assertIn(b"401 Unauthorized", got)
                        print(f"401 after {sent / MIB:.1f} MiB were sent")
        finally:
            done.set()
            thread.join()
        print(f"spooled at most: {most[0]} bytes")
        self.assertEqual(most[0], 0)

    def test_the_problem_is_that_of_a_small_body(self):
        small = self.s.request("POST", UOMS + "?mode=bulk", NDJSON, b"{}\n",
                               key=False)
        large = self.s.request("POST", UOMS + "?mode=bulk", NDJSON,
                               b"\n" * 1000000, key=False)
        for answer in (small, large):
            self.problem(answer, 401, "unauthenticated")
            self.assertEqual(answer.headers["Content-Type"],
                             "application/problem+json")
            self.assertEqual(answer.headers.get_all("WWW-Authenticate"),
                             ['Bearer realm="waybill"'])
            self.assertEqual(len(answer.headers.get_all("X-Request-Id")), 1)
        self.assertEqual(small.json()["title"], large.json()["title"])
        reader = self.s.waybill("key", "create", "DEMO", "--scope",
                                "read").stdout.strip()
        answer = self.s.request(
            "POST", UOMS + "?mode=bulk",
            {**NDJSON, "Authorization": f"Bearer {reader}"}, b"\n" * 1000000)
        self.problem(answer, 403, "forbidden")

    def test_nobody_outside_can_ask(self):
        for path in ("/internal/auth", "/.auth"):
            self.assertEqual(self.s.get(path).status, 404)
            self.assertEqual(self.s.admin(path).status, 404)

    def test_a_database_or_worker_that_is_away_is_503(self):
        self.s.supervisorctl("stop", "fcgi:*")
        try:
            answer = self.s.post(UOMS + "?mode=bulk", b"\n" * 1000000,
                                 headers=NDJSON)
            self.problem(answer, 503, "unavailable")
            self.assertEqual(answer.headers["Retry-After"], "1")
        finally:
            self.s.supervisorctl("start", "fcgi:*")
        wait_for(lambda: self.s.admin("/readyz").status == 200)


class Together(Base):
    WORKERS = 8

    def send(self, key, body, answers):
        for _ in range(600):
            answer = self.s.post(UOMS + "?mode=bulk", body, key, NDJSON,
                                 timeout=300)
            if answer.status == 202:
                answers.append(answer.body)
                return
            if answer.status not in (409, 503):
                answers.append(repr(answer))
                return
            time.sleep(0.2)

    def dropped(self):
        return self.number("SELECT variable_value FROM information_schema."
                           "global_status WHERE variable_name = "
                           "'Handler_delete'")

    def send_at_once(self, times, body):
        key, answers = str(uuid.uuid4()), []
        threads = [threading.Thread(target=self.send,
                                    args=(key, body, answers))
                   for _ in range(times)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(answers), times)
        self.assertEqual(len(set(answers)), 1, set(answers))
        self.assertEqual(self.count("job"), 1)
        chunks = self.number("SELECT chunk_count FROM job")
        self.assertEqual(self.count("job_chunk"), chunks)
        self.assertEqual(self.count("request_key"), 1)
        return chunks

    def test_the_same_key_fifty_times_at_once_is_one_job(self):
        """[I1, I4]"""
        size = 50 * MIB if LONG else 4 * MIB
        body = lines(items(size // 1000, 960))
        before = self.dropped()
        chunks = self.send_at_once(50, body)
        # Hardly any duplicate was stored: a race at the door may let one in.
        self.assertLessEqual(self.dropped() - before, chunks)

    def test_intakes_of_different_keys_do_not_mix(self):
        bodies = [lines(items(3000, 500, first=n * 3000)) for n in range(6)]
        answers = []
        threads = [threading.Thread(target=self.send, args=(
            str(uuid.uuid4()), body, answers)) for body in bodies]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(set(answers)), 6)
        self.assertEqual(self.count("job"), 6)
        self.assertEqual(
            self.s.sql("SELECT DISTINCT j.chunk_count = (SELECT COUNT(*) FROM "
                       "job_chunk c WHERE c.job_id = j.job_id) FROM job j"),
            [["1"]])


class TwoHosts(Together):
    """Parents that do not see each other's workers, as on two hosts; the
    winner of a key takes its time."""
    CONF = ["inflight_file ="]
    ENV = {"WAYBILL_TEST_FAULT": "intake.before_queue:1:delay=700"}

    def test_the_same_key_fifty_times_at_once_is_one_job(self):
        """[I2] The loser deletes what it stored, and replays."""
        before = self.dropped()
        chunks = self.send_at_once(8, lines(items(4000, 960)))
        self.assertGreaterEqual(self.dropped() - before, chunks)


class Memory(Base):
    def test_a_body_of_any_size_in_bounded_memory(self):
        """[I3]"""
        size = 1024 * MIB if LONG else 64 * MIB
        row = os.urandom(450).hex()

        def body():
            sent, i = 0, 0
            while True:
                part = b"".join(
                    b'{"source_id":"U%d","name":"%s"}\n' %
                    (i + n, row[n % 50:].encode()) for n in range(1000))
                if sent + len(part) > size:
                    return
                i, sent = i + 1000, sent + len(part)
                self.sent = sent
                yield part

        started = time.monotonic()
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.s.port, timeout=600, context=self.s.tls())
        connection.request("POST", UOMS + "?mode=full-refresh", body=body(),
                           headers={"Authorization": f"Bearer {self.s.key}",
                                    "X-Correlation-Id": str(uuid.uuid4()),
                                    **NDJSON}, encode_chunked=True)
        response = connection.getresponse()
        told = json.loads(response.read())
        took = time.monotonic() - started
        self.assertEqual(response.status, 202, told)
        self.assertEqual(told["received"]["bytes"], self.sent)
        peaks = [int(re.search(r"VmHWM:\s+(\d+)",
                               proc_text(p, "status")).group(1))
                 for p in self.s.worker_pids()]
        print(f"{self.sent / MIB:.0f} MiB in {took:.1f} s; peak RSS of the "
              f"workers, KiB: {peaks}")
        if not sanitized(self.s.programs):
            self.assertLessEqual(max(peaks), RSS_MAX_KIB)

    def test_one_item_as_large_as_a_body(self):
        """[I3] It is a mark in a chunk."""
        size = 256 * MIB if LONG else 32 * MIB
        body = b'"' + b"x" * size + b'"\n'
        answer = self.s.post(UOMS + "?mode=bulk", body, headers=NDJSON)
        self.want_job(answer, body, 1, 3)
        peaks = [int(re.search(r"VmHWM:\s+(\d+)",
                               proc_text(p, "status")).group(1))
                 for p in self.s.worker_pids()]
        if not sanitized(self.s.programs):
            self.assertLessEqual(max(peaks), RSS_MAX_KIB)


class Killed(Base):
    def post_in_background(self, key, body):
        answers = []

        def send():
            answers.append(self.s.post(UOMS + "?mode=full-refresh", body, key,
                                       NDJSON, timeout=120))
        thread = threading.Thread(target=send)
        thread.start()
        return thread, answers

    def test_a_worker_killed_in_the_middle_leaves_nothing_visible(self):
        """[I2] The same key works again, and is one job."""
        body = b"".join(b'{"source_id":"U%d","name":"%s"}\n' %
                        (i, os.urandom(400).hex().encode())
                        for i in range(40000))
        key = str(uuid.uuid4())
        thread, answers = self.post_in_background(key, body)
        wait_for(lambda: self.count("job_chunk") > 3)
        self.s.kill(self.s.worker_pids())
        thread.join()
        self.problem(answers[0], 503, "unavailable")
        left = self.count("job_chunk")
        self.assertGreater(left, 0)
        self.assertEqual(self.count("job") + self.count("request_key"), 0)
        wait_for(lambda: self.s.get("/healthz").status == 200)
        answer = self.s.post(UOMS + "?mode=full-refresh", body, key, NDJSON)
        self.assertEqual(answer.status, 202, answer)
        self.assertEqual(self.count("job"), 1)
        # A day later what was left is swept, and what the job has is not.
        self.s.sql("UPDATE job_chunk SET day = day - 2, job_id = UNHEX(CONCAT("
                   "LPAD(HEX(CONV(HEX(LEFT(job_id, 6)), 16, 10) - 172800000), "
                   "12, '0'), HEX(SUBSTR(job_id, 7)))) "
                   "WHERE job_id NOT IN (SELECT job_id FROM job)")
        self.s.waybill("retention", "run", "--once")
        chunks = self.number("SELECT chunk_count FROM job")
        self.assertEqual(self.count("job_chunk"), chunks)

    def test_sigterm_lets_an_intake_finish(self):
        body = lines(items(40000, 900))
        thread, answers = self.post_in_background(str(uuid.uuid4()), body)
        wait_for(lambda: self.count("job_chunk") > 0)
        self.s.kill(self.s.worker_pids(), signal.SIGTERM)
        thread.join()
        self.assertEqual(answers[0].status, 202, answers[0])


if __name__ == "__main__":
    unittest.main()
