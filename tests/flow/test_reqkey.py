#!/usr/bin/env python3
"""Request keys through waybill-fcgi and MariaDB, over a raw FastCGI socket.

WAYBILL_BIN is the folder of the built programs (./configure --enable-faults:
the route of these tests is test/echo, whose answers hold the batch's id, so
that two runs never answer alike). Names in brackets are guarantees of
include/api/keyed.h, gate/reqkey.h and gate/inflight.h.
"""
# SPDX-License-Identifier: Apache-2.0
# check: slow
import email.utils
import gzip
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import fcgi_client as fcgi  # noqa: E402

BIN = os.environ.get("WAYBILL_BIN",
                     os.environ.get("WAYBILL_TEST_PROGRAMS", "."))
ECHO = "/wms-ingest/v1/test/echo"
BODY = b'{"items":[{"source_id":"A"},{"source_id":"B"}]}'


class Database:
    """A private MariaDB with the schema, its accounts and two partners."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="wb-reqkey-db-")
        self.socket = self.script("start").decode().strip()
        with open(os.path.join(ROOT, "sql", "accounts.sql")) as f:
            text = f.read()
        for name in ("OWNER", "SERVICE", "RO"):
            text = text.replace(f"@{name}_PASSWORD@", "")
        self.script("sql", stdin=text.encode())
        self.pepper = os.path.join(self.dir, "pepper")
        with open(self.pepper, "w") as f:
            f.write(secrets.token_hex(32) + "\n")
        self.conf = os.path.join(self.dir, "waybill.conf")
        with open(self.conf, "w") as f:
            f.writelines(f"{k} = {v}\n" for k, v in self.settings().items())
        self.waybill("migrate")
        self.waybill("partner", "add", "ACME")
        self.waybill("partner", "add", "STRICT-ONE", "--strict")
        self.key = self.new_key("ACME")
        self.strict_key = self.new_key("STRICT-ONE")
        self.ingest_key = self.new_key("ACME", "--scope", "ingest")

    def settings(self):
        return {"db_socket": self.socket, "key_pepper_file": self.pepper}

    def script(self, verb, *args, stdin=None):
        return subprocess.run(
            ["sh", os.path.join(HERE, "..", "lib", "mariadb.sh"), verb,
             self.dir, *args], input=stdin, check=True,
            stdout=subprocess.PIPE).stdout

    def sql(self, text):
        """The rows, as lists of texts."""
        out = self.script("sql", "-N", "-B", "waybill",
                          stdin=text.encode()).decode()
        return [line.split("\t") for line in out.splitlines()]

    def number(self, text):
        return int(self.sql(text)[0][0])

    def waybill(self, *args):
        return subprocess.run([os.path.join(BIN, "waybill"), "--conf",
                               self.conf, *args], check=True,
                              stdout=subprocess.PIPE).stdout.decode()

    def new_key(self, partner, *args):
        text = self.waybill("key", "create", partner, *args)
        return next(w for w in text.split() if w.startswith("wbk_") and
                    len(w) == 80)

    def close(self):
        self.script("stop")
        shutil.rmtree(self.dir)


def setUpModule():
    global DB
    DB = Database()


def tearDownModule():
    DB.close()


class Server:
    """waybill-fcgi with its own folder, socket and settings."""

    def __init__(self, fault=None, **conf):
        self.dir = tempfile.mkdtemp(prefix="wb-reqkey-")
        self.socket = os.path.join(self.dir, "s")
        self.log = os.path.join(self.dir, "log")
        # These hold more workers for long than one partner may: who waits
        # for whom is looked at alone.
        conf = {"workers": 4, "metrics_file": os.path.join(self.dir, "m"),
                "partner_share": 100, **DB.settings(), **conf}
        path = os.path.join(self.dir, "waybill.conf")
        with open(path, "w") as f:
            f.writelines(f"{k} = {v}\n" for k, v in conf.items())
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("WAYBILL_")}
        if fault:
            env["WAYBILL_TEST_FAULT"] = fault
        with open(self.log, "ab") as err:
            self.process = subprocess.Popen(
                [os.path.join(BIN, "waybill-fcgi"), "--conf", path,
                 "--listen", self.socket], env=env, stderr=err,
                stdin=subprocess.DEVNULL)
        self.wait_until_up()

    def wait_until_up(self):
        """There is a moment between the socket's name and its listening."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                return fcgi.request(self.socket, uri="/healthz")
            except (OSError, fcgi.Lost):
                time.sleep(0.01)
        raise AssertionError("waybill-fcgi does not answer")

    def post(self, key, body=BODY, uri=ECHO, headers=(), credential=None,
             kind="application/json"):
        headers = [("Authorization", f"Bearer {credential or DB.key}"),
                   *headers]
        if key:
            headers.append(("X-Correlation-Id", key))
        return fcgi.request(self.socket, method="POST", uri=uri, body=body,
                            headers=headers, content_type=kind)

    def get(self, uri, **kw):
        return fcgi.request(
            self.socket, uri=uri,
            headers=[("Authorization", f"Bearer {DB.key}")], **kw)

    def metric(self, name):
        text = fcgi.request(self.socket, uri="/metrics",
                            extra=[("WAYBILL_LISTENER", "admin")]).body
        for line in text.decode().splitlines():
            if line.startswith(name + " "):
                return int(line.split()[1])
        return 0

    def logged(self, key, count):
        """The log lines of a key; they come after the answers."""
        end = time.monotonic() + 10
        while True:
            with open(self.log) as f:
                lines = [json.loads(line) for line in f
                         if line.startswith("{") and line.endswith("\n")]
            found = [x for x in lines if x.get("correlation_id") == key]
            if len(found) >= count or time.monotonic() > end:
                return found
            time.sleep(0.01)

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)
        shutil.rmtree(self.dir)


class Later(threading.Thread):
    """A request in another thread, with the time it took."""

    def __init__(self, server, *args, **kw):
        super().__init__()
        self.call = lambda: server.post(*args, **kw)
        self.start()

    def run(self):
        began = time.monotonic()
        self.answer = self.call()
        self.took = time.monotonic() - began

    def result(self):
        self.join()
        return self.answer


def fresh():
    return str(uuid.uuid4())


def rows_of(key):
    """How many keys and answers there are for it."""
    return DB.number(
        "SELECT COUNT(*) FROM request_key k JOIN response r USING (batch_id) "
        f"WHERE k.correlation_id = UNHEX('{key.replace('-', '')}')")


def expire(key):
    DB.sql("UPDATE request_key SET expires_at = NOW(3) WHERE "
           f"correlation_id = UNHEX('{key.replace('-', '')}')")


class Case(unittest.TestCase):
    def serve(self, **kw):
        server = Server(**kw)
        self.addCleanup(server.close)
        return server

    def want_first(self, answer):
        self.assertEqual(answer.status, 200, answer.body)
        self.assertIsNone(answer.header("idempotent-replayed"))

    def want_replay(self, answer, first, mismatch=False):
        self.assertEqual(answer.status, first.status, answer.body)
        self.assertEqual(answer.body, first.body)
        self.assertEqual(answer.header("idempotent-replayed"), "true")
        self.assertEqual(answer.header("x-correlation-mismatch"),
                         "true" if mismatch else None)

    def want_problem(self, answer, status, slug):
        self.assertEqual(answer.status, status, answer.body)
        self.assertTrue(answer.json()["type"].endswith("#" + slug),
                        answer.body)


class Replays(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def test_a_repeated_request_gets_the_first_answer(self):
        """[R2]"""
        key, before = fresh(), self.server.metric("waybill_replays_total")
        first = self.server.post(key)
        self.want_first(first)
        again = self.server.post(key.upper())
        self.want_replay(again, first)
        self.assertEqual(again.header("content-type"), "application/json")
        expires = email.utils.parsedate_to_datetime(
            again.header("idempotency-expires")).timestamp()
        self.assertAlmostEqual(expires, time.time() + 30 * 86400, delta=60)
        self.assertEqual(self.server.metric("waybill_replays_total"),
                         before + 1)
        self.assertEqual(rows_of(key), 1)

    def test_another_body_gets_it_too_and_is_told(self):
        key = fresh()
        name = "waybill_correlation_mismatches_total"
        before = self.server.metric(name)
        first = self.server.post(key)
        other = self.server.post(key, body=b'{"items":[]}')
        self.want_replay(other, first, mismatch=True)
        self.assertEqual(self.server.metric(name), before + 1)
        self.assertEqual([x.get("correlation_mismatch")
                          for x in self.server.logged(key, 2)],
                         [None, "true"])

    def test_another_query_is_another_fingerprint(self):
        key = fresh()
        first = self.server.post(key)
        self.want_replay(self.server.post(key, uri=ECHO + "?mode=x"), first,
                         mismatch=True)

    def test_the_unpacked_body_counts(self):
        key = fresh()
        first = self.server.post(key)
        packed = self.server.post(key, body=gzip.compress(BODY),
                                  headers=[("Content-Encoding", "gzip")])
        self.want_replay(packed, first)

    def test_what_cannot_be_read_is_another_body(self):
        key = fresh()
        first = self.server.post(key)
        for body, headers in ((b"no gzip", [("Content-Encoding", "gzip")]),
                              (BODY, [("Content-Encoding", "br")]),
                              (b"x" * (5 << 20), [])):
            self.want_replay(self.server.post(key, body=body,
                                              headers=headers),
                             first, mismatch=True)

    def test_what_cannot_be_read_is_not_taken_for_an_empty_body(self):
        key, kind = fresh(), "application/x-ndjson"
        first = self.server.post(key, body=b"", kind=kind)
        self.want_replay(self.server.post(key, body=b"", kind=kind), first)
        self.want_replay(self.server.post(
            key, body=b"no gzip", kind=kind,
            headers=[("Content-Encoding", "gzip")]), first, mismatch=True)

    def test_type_parameters_and_prefer_are_looked_at_after_the_replay(self):
        key = fresh()
        first = self.server.post(key)
        self.want_replay(self.server.post(key, kind="text/plain"), first)
        self.want_replay(self.server.post(key, headers=[("Prefer",
                                                         "wait=99")]), first)
        self.want_replay(self.server.post(key, uri=ECHO + "?no=such"), first,
                         mismatch=True)

    def test_a_strict_partner_gets_422_for_another_body(self):
        key, who = fresh(), {"credential": DB.strict_key}
        first = self.server.post(key, **who)
        self.want_replay(self.server.post(key, **who), first)
        self.want_problem(self.server.post(key, body=b'{"items":[]}', **who),
                          422, "correlation-id-reused")

    def test_keys_of_two_partners_are_two(self):
        key = fresh()
        self.want_first(self.server.post(key))
        self.want_first(self.server.post(key, credential=DB.strict_key))

    def test_a_refused_request_leaves_the_key_free(self):
        """[R1]"""
        key = fresh()
        self.want_problem(self.server.post(key, body=b"{"), 400, "bad-json")
        self.want_problem(self.server.post(key, kind="text/plain"), 415,
                          "unsupported-media-type")
        self.assertEqual(rows_of(key), 0)
        self.want_first(self.server.post(key))

    def test_an_expired_key_is_a_fresh_request(self):
        """[K2]"""
        key = fresh()
        first = self.server.post(key)
        expire(key)
        second = self.server.post(key)
        self.want_first(second)
        self.assertNotEqual(first.body, second.body)
        self.want_replay(self.server.post(key), second)

    def test_an_answer_that_is_gone_is_503_and_not_run_again(self):
        """[K4]"""
        key = fresh()
        batch = self.server.post(key).json()["batch_id"]
        DB.sql(f"DELETE FROM response WHERE batch_id = UNHEX('{batch}')")
        answer = self.server.post(key)
        self.want_problem(answer, 503, "answer-gone")
        self.assertTrue(answer.header("retry-after"))
        report = self.server.get("/wms-ingest/v1/requests/" + key).json()
        self.assertIsNone(report["status"])

    def test_a_replay_needs_the_scope_of_what_was_done(self):
        key = fresh()
        batch = self.server.post(key).json()["batch_id"]
        DB.sql(f"UPDATE request_key SET mode = 4 WHERE batch_id = "
               f"UNHEX('{batch}')")
        self.want_problem(self.server.post(key, credential=DB.ingest_key),
                          403, "forbidden")
        self.assertEqual(self.server.post(key).status, 200)

    def test_a_dry_run_needs_and_keeps_no_key(self):
        before = DB.number("SELECT COUNT(*) FROM request_key")
        dry = ECHO + "?dry_run=true"
        self.want_first(self.server.post(None, uri=dry))
        key = fresh()
        self.want_first(self.server.post(key, uri=dry))
        self.assertEqual(DB.number("SELECT COUNT(*) FROM request_key"),
                         before)
        self.want_problem(self.server.post(None, uri=ECHO + "?dry_run=no"),
                          400, "correlation-id-missing")
        self.want_first(self.server.post(key))
        self.want_first(self.server.post(key, uri=dry))

    def test_prefer_is_read_strictly(self):
        self.want_problem(self.server.post(
            fresh(), headers=[("Prefer", "wait=31")]), 400, "bad-header")
        self.want_first(self.server.post(
            fresh(), headers=[("Prefer", "respond-async"),
                              ("Prefer", "wait=30")]))

    def test_requests_tells_whether_one_landed(self):
        key = fresh()
        path = "/wms-ingest/v1/requests/"
        self.want_problem(self.server.get(path + key), 404, "not-found")
        self.want_problem(self.server.get(path + "x"), 400,
                          "correlation-id-malformed")
        batch = self.server.post(key).json()["batch_id"]
        report = self.server.get(path + key).json()
        self.assertEqual(
            {k: report[k] for k in ("status", "mode", "collection",
                                    "batch_id", "job_id", "summary")},
            {"status": 200, "mode": "upsert", "collection": None,
             "batch_id": "bat-" + batch, "job_id": None, "summary": None})
        day = int(batch[:12], 16) // 86400000
        DB.sql("INSERT INTO batch SELECT batch_id, " + str(day) +
               ", partner_id, 3, 1, 6, 1, 2, 3, 0, 0, NULL, NULL, created_at "
               f"FROM request_key WHERE batch_id = UNHEX('{batch}')")
        DB.sql("UPDATE request_key SET collection = 3 WHERE batch_id = "
               f"UNHEX('{batch}')")
        report = self.server.get(path + key).json()
        self.assertEqual(report["summary"], {
            "total": 6, "accepted": 1, "replay": 2, "quarantined": 3,
            "rejected": 0, "tombstoned": 0})
        self.assertEqual(report["collection"], "skus")
        expire(key)
        self.want_problem(self.server.get(path + key), 404, "not-found")


class Races(Case):
    def test_64_clients_with_one_key_get_one_answer(self):
        """[K1, R1, R2]"""
        server = self.serve(workers=8)
        for _ in range(5):
            key, answers = fresh(), []
            barrier = threading.Barrier(64)

            def client():
                barrier.wait()
                while True:
                    a = server.post(key)
                    if a.status != 409:
                        answers.append(a)
                        return
                    time.sleep(0.05)
            threads = [threading.Thread(target=client) for _ in range(64)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual({(a.status, a.body) for a in answers},
                             {(200, answers[0].body)})
            self.assertEqual(len(answers), 64)
            firsts = [a for a in answers
                      if not a.header("idempotent-replayed")]
            self.assertEqual(len(firsts), 1)
            self.assertEqual(rows_of(key), 1)

    def hold(self, ms, **kw):
        """A server and a request that it works on for so long."""
        server = self.serve(fault=f"echo.work:1:delay={ms}", **kw)
        key = fresh()
        held = Later(server, key)
        time.sleep(0.5)
        return server, key, held

    def test_a_duplicate_waits_for_the_running_one(self):
        server, key, held = self.hold(1500)
        again = server.post(key)
        self.want_first(held.result())
        self.want_replay(again, held.answer)

    def test_after_its_wait_it_gets_409(self):
        server, key, held = self.hold(4000)
        again = Later(server, key)
        short = Later(server, key, headers=[("Prefer", "wait=1")])
        self.want_problem(again.result(), 409, "request-in-progress")
        self.assertEqual(again.answer.header("retry-after"), "1")
        self.assertTrue(1.5 < again.took < 3, again.took)
        self.want_problem(short.result(), 409, "request-in-progress")
        self.assertTrue(0.7 < short.took < 1.6, short.took)
        self.want_first(held.result())
        self.want_replay(server.post(key), held.answer)

    def test_who_will_not_wait_gets_409_at_once(self):
        server, key, held = self.hold(2000)
        again = Later(server, key, headers=[("Prefer", "wait=0")])
        self.want_problem(again.result(), 409, "request-in-progress")
        self.assertLess(again.took, 0.5)
        self.want_first(held.result())

    def test_who_will_not_wait_for_another_host_gets_409_at_once(self):
        """The other one is seen by the database alone."""
        _, key, held = self.hold(2000)
        other = self.serve()
        again = Later(other, key, headers=[("Prefer", "wait=0")])
        self.want_problem(again.result(), 409, "request-in-progress")
        self.assertLess(again.took, 0.7)
        self.want_first(held.result())

    def test_a_wait_may_be_longer_than_one_answer_of_the_server(self):
        server, key, held = self.hold(6000, db_io_timeout="3s")
        again = Later(server, key, headers=[("Prefer", "wait=15")])
        self.want_replay(again.result(), held.result())
        self.assertTrue(4 < again.took < 7, again.took)
        self.assertEqual([x.get("fail") for x in server.logged(key, 2)],
                         [None, None])

    def test_a_wait_ends_before_the_deadline(self):
        server, key, held = self.hold(4500, request_deadline="5s")
        again = Later(server, key, headers=[("Prefer", "wait=30")])
        self.want_problem(again.result(), 409, "request-in-progress")
        self.assertLess(again.took, 4)
        self.want_first(held.result())

    def test_half_of_the_workers_wait_and_no_more(self):
        """[F1]"""
        server, key, held = self.hold(3000, workers=4)
        wait = {"headers": [("Prefer", "wait=10")]}
        waiting = [Later(server, key, **wait) for _ in range(2)]
        time.sleep(0.5)
        third = Later(server, key, **wait)
        self.want_problem(third.result(), 409, "request-in-progress")
        self.assertLess(third.took, 0.5)
        self.want_first(held.result())
        for w in waiting:
            self.want_replay(w.result(), held.answer)

    def test_two_parents_count_together(self):
        """[F1]"""
        shared = tempfile.mkdtemp(prefix="wb-inflight-")
        self.addCleanup(shutil.rmtree, shared)
        conf = {"workers": 2, "inflight_file": os.path.join(shared, "f")}
        server, key, held = self.hold(3000, **conf)
        other = self.serve(**conf)
        wait = {"headers": [("Prefer", "wait=10")]}
        one = Later(server, key, **wait)
        time.sleep(0.5)
        two = Later(other, key, **wait)
        self.want_problem(two.result(), 409, "request-in-progress")
        self.assertLess(two.took, 0.5)
        self.want_replay(one.result(), held.result())


class Deaths(Case):
    """A worker that is killed at any point: the same request again gets the
    one answer [K1, R1]."""

    def die_at(self, point, committed):
        # The second passing: the worker that comes after lives.
        server = self.serve(fault=f"{point}:2:kill", workers=1)
        self.want_first(server.post(fresh()))
        key = fresh()
        with self.assertRaises(fcgi.Lost):
            server.post(key)
        first = server.post(key)
        self.assertEqual(first.header("idempotent-replayed"),
                         "true" if committed else None)
        self.want_replay(server.post(key), first)
        self.assertEqual(rows_of(key), 1)

    def test_after_the_claim(self):
        self.die_at("db.after.reqkey_claim", False)

    def test_in_the_work(self):
        self.die_at("echo.work", False)

    def test_after_the_answer_is_stored(self):
        self.die_at("db.after.reqkey_store", False)

    def test_before_commit(self):
        self.die_at("db.before.commit", False)

    def test_after_commit(self):
        self.die_at("db.after.commit", True)

    def test_a_frozen_owner_blocks_a_key_no_longer_than_its_session(self):
        server = self.serve(fault="echo.work:2:stop", workers=1,
                            db_idle_timeout="5s")
        self.want_first(server.post(fresh()))
        key = fresh()
        frozen = Later(server, key)
        time.sleep(0.5)
        other = self.serve()
        self.want_problem(other.post(key), 409, "request-in-progress")
        answer = other.post(key, headers=[("Prefer", "wait=20")])
        self.want_first(answer)
        with open(f"/proc/{server.process.pid}/task/{server.process.pid}"
                  "/children") as f:
            os.kill(int(f.read().split()[0]), signal.SIGCONT)
        self.want_replay(frozen.result(), answer)


class Proxy:
    """Between the service and the database. Armed, it lets one COMMIT reach
    the server (or not) and then cuts both connections."""

    def __init__(self, path, behind):
        self.behind, self.arm = behind, None
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.behind)
            state = {"cut": False}
            for a, b, up in ((client, server, True), (server, client, False)):
                threading.Thread(target=self.pump, args=(a, b, up, state),
                                 daemon=True).start()

    def pump(self, source, sink, up, state):
        try:
            while data := source.recv(1 << 16):
                if up and data[4:] == b"\x03COMMIT" and self.arm:
                    state["cut"] = True
                    if self.arm == "before":
                        data = b""
                    self.arm = None
                    if not data:
                        break
                elif not up and state["cut"]:
                    break
                sink.sendall(data)
        except OSError:
            pass
        for s in (source, sink):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        source.close()

    def close(self):
        self.listener.close()


class Doubt(Case):
    """The connection breaks while COMMIT is on its way [K3, R3]."""

    def cut(self, when):
        path = os.path.join(tempfile.mkdtemp(prefix="wb-proxy-"), "s")
        self.addCleanup(shutil.rmtree, os.path.dirname(path))
        proxy = Proxy(path, DB.socket)
        self.addCleanup(proxy.close)
        server = self.serve(db_socket=path)
        self.want_first(server.post(fresh()))
        key = fresh()
        proxy.arm = when
        answer = server.post(key)
        self.want_first(answer)
        self.assertIsNone(proxy.arm)
        self.assertEqual(rows_of(key), 1)
        self.assertNotIn("fail", server.logged(key, 1)[0])
        self.want_replay(server.post(key), answer)

    def test_a_commit_that_was_done_is_answered_as_ours(self):
        self.cut("after")

    def test_a_commit_that_was_not_done_is_run_again(self):
        self.cut("before")


if __name__ == "__main__":
    unittest.main()
