"""A worker that dies at any database call, or whose COMMIT is in doubt: the
same key brings the same end as one undisturbed run.

The worker that dies is one of the test's own, on a socket of its own, beside
a whole stack that takes the repetition. Each run is a partner of its own, so
that what the tables hold of it can be compared.
"""
# SPDX-License-Identifier: Apache-2.0
# check: sanitized
# check: slow
import concurrent.futures
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import unittest

import fcgi_client as fcgi
from items import API, Partner, bom, new_key, orphans, path_of, place, sku, \
    uom
from stack import Stack, temp_dir, wait_for

CLIENTS = 3  # runs side by side


class Worker:
    """A waybill-fcgi with one worker; as a `with` it is up."""

    def __init__(self, stack, env=None, **conf):
        self.dir = temp_dir("w")
        self.socket = os.path.join(self.dir, "s")
        path = os.path.join(self.dir, "waybill.conf")
        with open(os.path.join(stack.var, "waybill.conf"),
                  encoding="utf-8") as f:
            lines = dict(re.findall(r"^(\w+) = (.*)$", f.read(), re.M))
        lines.update(workers="1", metrics_file="", inflight_file="", **conf)
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(f"{k} = {v}\n" for k, v in lines.items())
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [os.path.join(stack.programs, "waybill-fcgi"), "--conf", path,
                 "--listen", self.socket], stdin=subprocess.DEVNULL,
                stderr=log, env={**stack.environment(), **(env or {})})

    def __enter__(self):
        wait_for(lambda: os.path.exists(self.socket), what="the socket")
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def log(self):
        with open(os.path.join(self.dir, "log"), encoding="utf-8") as f:
            return f.read()

    def send(self, partner, request):
        """The answer, or None if the worker died."""
        path, body, key = request
        while True:
            try:
                return fcgi.request(
                    self.socket, body, method="POST", uri=path,
                    content_type="application/json",
                    headers=[("Authorization", f"Bearer {partner.key}"),
                             ("X-Correlation-Id", key)])
            except ConnectionRefusedError:
                time.sleep(0.01)  # bound, but not listening yet
            except fcgi.Lost:
                return None


# What is done, once everything that must be there is there. Each gives the
# path and the body of the one request that is disturbed.

def upsert(p):
    """Creates, updates, leaves, overtakes, holds back, holds back again,
    supersedes, rejects: all there is, in one batch."""
    p.post("uoms", [uom("EA"), uom("KG")])
    p.post("skus", [sku("B", 1), sku("C", 5), sku("D"), sku("F", 1, "NO"),
                    sku("G", 1, "NO"), sku("H", 9, "NO")])
    return path_of("skus"), {"items": [
        sku("A", 1), sku("B", 2), sku("C", 4), sku("D"), sku("A", 2),
        sku("A", 3, "NO"), sku("E", 1, "NO"), sku("F", 2),
        sku("G", 2, "NONE"), sku("H", 8), {"source_id": "X"}]}


def charged(p):
    """Far from the end of its quota: in a slot of its own."""
    p.stack.waybill("partner", "set", p.name, "--quota", "1000000")
    return upsert(p)


def nearly_used(p):
    """Close to it: every slot is taken. Seven of the batch count."""
    p.stack.waybill("partner", "set", p.name, "--quota", "15")
    return upsert(p)


def boms(p):
    p.post("uoms", [uom("EA")])
    p.post("skus", [sku("A"), sku("B"), sku("C")])
    p.post("boms", [bom("AB", 1, "A", ["B"])])
    return path_of("boms"), {"items": [
        bom("AB", 2, "A", ["B", "C"]), bom("BA", 1, "B", ["A"])]}


def refresh(p):
    p.post("locations", [place(f"W{i}", 1) for i in range(6)])
    p.deactivate("locations", ["W0", "W1", "W2", "W3", "W4"])
    return path_of("locations", mode="full-refresh"), {"items": [
        place("W0", 2), place("W5", 1), place("N"),
        place("Z", 1, "ZONE", "NO")]}


def release(p):
    record = p.results("skus", [sku("S", 1)])[0]["quarantine_id"]
    p.post("uoms", [uom("EA")])
    return f"{API}/quarantine/{record}/release", None


def discard(p):
    record = p.results("skus", [sku("S", 1)])[0]["quarantine_id"]
    return f"{API}/quarantine/{record}/discard", None


def undo(p):
    p.post("uoms", [uom(f"U{i}", 1) for i in range(5)])
    batch = p.refresh("uoms", [uom("U0", 1)]).json()["batch_id"]
    p.post("uoms", [uom("U1", 2)])
    return f"{API}/batches/{batch}/undo-refresh", None


def request_of(made):
    path, body = made
    return path, b"" if body is None else json.dumps(body).encode(), new_key()


ID = re.compile(r"\b(?!content)([a-z]+)-([0-9a-f]{32})\b")


def plain(text):
    """Ids replaced by their order of appearance."""
    names = {}
    return ID.sub(lambda m: f"{m[1]}#{names.setdefault(m[0], len(names))}",
                  text)


def tables(partner):
    """All that is stored of a partner, without ids and times, as one reader
    sees it at one moment."""
    of = f"WHERE partner_id = {partner.no}"
    join = "JOIN batch b USING (batch_id, day)"
    selects = [
        "'item', collection, source_id, rev, source_version, state, trait, "
        f"HEX(content_hash), payload FROM item {of}",
        "'item_history', collection, source_id, rev, sub, source_version, "
        f"state, payload FROM item_history {of}",
        "'quarantine', collection, source_id, rev, is_open, state, "
        "source_version, code, reason, missing, attempts, seen_rev, payload "
        f"FROM quarantine {of}",
        "'quarantine_wait', w.collection, w.source_id, q.source_id FROM "
        "quarantine_wait w JOIN quarantine q USING (partner_id, "
        f"quarantine_id) {of}",
        f"'bom_edge', sku, component, bom FROM bom_edge {of}",
        "'batch', collection, mode, total, accepted, replay, quarantined, "
        f"rejected, tombstoned FROM batch {of}",
        "'batch_item', position, status, change_kind, flags, source_id, "
        "source_version, held_version, line, rev, REGEXP_REPLACE(detail, "
        f"'qua-[0-9a-f]*', 'qua') FROM batch_item i {join} {of}",
        f"'request_key', collection, mode FROM request_key {of}",
        f"'response', r.status FROM response r {join} {of}",
        f"'quota', SUM(used) FROM quota_use {of}",
    ]
    rows = partner.sql("START TRANSACTION WITH CONSISTENT SNAPSHOT;\n" +
                       "".join(f"SELECT {s};\n" for s in selects) +
                       "COMMIT;")
    return sorted("\t".join(r) for r in rows)


class CrashTest(unittest.TestCase):
    stack = None
    maxDiff = None

    def resend(self, partner, request):
        path, body, key = request
        return partner.request("POST", path, {
            "X-Correlation-Id": key, "Content-Type": "application/json"},
            body)

    def clean_run(self, make):
        """(before, after, status and body) of an undisturbed run."""
        p = Partner(self.stack)
        request = request_of(make(p))
        before = tables(p)
        answer = self.resend(p, request)
        self.assertIn(answer.status, (200, 207), answer)
        p.close()
        return before, tables(p), (answer.status, plain(answer.body.decode()))


def setUpModule():
    CrashTest.stack = Stack(workers=4)
    CrashTest.stack.start()


def tearDownModule():
    CrashTest.stack.stop()
    CrashTest.stack.remove()


class Killed(CrashTest):
    def points(self, make):
        """The fault points that one such request passes, in order."""
        p = Partner(self.stack)
        path = os.path.join(temp_dir("f"), "points")
        with Worker(self.stack, {"WAYBILL_TEST_FAULT_LIST": path}) as w:
            answer = w.send(p, request_of(make(p)))
            self.assertIn(answer.status, (200, 207), answer.body)
        p.close()
        with open(path, encoding="utf-8") as f:
            return f.read().split()

    def kill_at(self, make, n, point, clean, sent):
        """Dies at the nth point. What comes after `sent` comes after the
        answer, which must then have arrived."""
        before, after, answer = clean
        p = Partner(self.stack)
        request = request_of(make(p))
        with Worker(self.stack,
                    {"WAYBILL_TEST_FAULT": f"*:{n}:kill"}) as w:
            got = w.send(p, request)
        if got is not None and n <= sent:
            return f"{n} {point}: it was not killed, {got.status}"
        if n > sent and (got is None or answer != (
                got.status, plain(got.body.decode()))):
            return f"{n} {point}: the answer did not come before"
        between = tables(p)
        again = self.resend(p, request)
        told = (again.status, plain(again.body.decode()))
        third = self.resend(p, request)
        p.close()
        if between not in (before, after):
            return f"{n} {point}: torn\n" + "\n".join(between)
        if told != answer:
            return f"{n} {point}: {told} instead of {answer}"
        if tables(p) != after:
            return f"{n} {point}: not as one run\n" + "\n".join(tables(p))
        if third.body != again.body or \
                "Idempotent-Replayed" not in third.headers:
            return f"{n} {point}: the third answer is another"
        return None

    def check(self, make):
        clean = self.clean_run(make)
        points = self.points(make)
        # Before the request itself nothing can be in doubt.
        first = next(i for i, p in enumerate(points)
                     if p.endswith("reqkey_look"))
        todo = list(enumerate(points, 1))[first:]
        # Dying while idle again is no death of this request.
        todo = [(n, p) for n, p in todo if p != "accept.before"]
        self.assertGreater(len(todo), 10, points)
        sent = points.index("pipeline.before_send") + 1
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            wrong = [w for w in pool.map(
                lambda np: self.kill_at(make, *np, clean, sent), todo) if w]
        print(f"{make.__name__}: killed at {len(todo)} points", flush=True)
        self.assertEqual(wrong, [])
        self.assertEqual(orphans(self.stack), {})

    def test_an_upsert_killed_anywhere_ends_as_one_run(self):
        self.check(upsert)

    def test_an_upsert_killed_anywhere_is_charged_once(self):
        self.check(charged)
        self.check(nearly_used)

    def test_without_a_quota_none_of_its_statements_runs(self):
        self.assertEqual([n for n in self.points(upsert) if "quota" in n], [])
        # Two at the beginning, one that gives back, and none for the header.
        for make, names in (
                (charged, ["quota_add", "quota_sum", "quota_give_back"]),
                (nearly_used, ["quota_take_all", "quota_sum", "quota_add"])):
            self.assertEqual(
                [n for n in self.points(make) if ".before.quota" in n],
                ["db.before." + n for n in names])

    def test_an_upsert_of_boms_killed_anywhere_ends_as_one_run(self):
        self.check(boms)

    def test_a_refresh_killed_anywhere_ends_as_one_run(self):
        self.check(refresh)

    def test_a_release_killed_anywhere_ends_as_one_run(self):
        self.check(release)

    def test_a_discard_killed_anywhere_ends_as_one_run(self):
        self.check(discard)

    def test_an_undo_killed_anywhere_ends_as_one_run(self):
        self.check(undo)


class Proxy:
    """Between a worker and MariaDB; cuts the first `cuts` COMMITs:

    before    it is not passed on: the change was not made
    after     it is made and answered, but the answer is not passed on
    sent      passed on and cut at once: made or not
    """

    def __init__(self, stack, how, cuts):
        self.path = os.path.join(temp_dir("x"), "db")
        self.target = stack.demo["WAYBILL_DB_SOCKET"]
        self.how, self.left, self.seen = how, cuts, 0
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.target)
            held = threading.Event()
            for target in (self.to_server, self.to_client):
                threading.Thread(target=target, daemon=True,
                                 args=(client, server, held)).start()

    @staticmethod
    def cut(*sockets):
        for s in sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def to_server(self, client, server, held):
        data = b""
        while True:
            try:
                piece = client.recv(65536)
                data += piece
                while piece and len(data) >= 4:
                    n = 4 + int.from_bytes(data[:3], "little")
                    if len(data) < n:
                        break
                    self.packet(data[:n], client, server, held)
                    data = data[n:]
            except OSError:
                piece = b""
            if not piece:
                self.cut(client, server)
                return

    def packet(self, packet, client, server, held):
        cut = False
        if packet[4:] == b"\x03COMMIT":
            with self.lock:
                self.seen += 1
                cut = self.left > 0
                self.left -= cut
        if not cut:
            server.sendall(packet)
        elif self.how == "before":
            self.cut(client, server)
        elif self.how == "sent":
            server.sendall(packet)
            self.cut(client, server)
        else:
            held.set()
            server.sendall(packet)

    def to_client(self, client, server, held):
        while True:
            try:
                piece = server.recv(65536)
                if held.is_set():
                    piece = b""
                if piece:
                    client.sendall(piece)
            except OSError:
                piece = b""
            if not piece:
                self.cut(client, server)
                return

    def close(self):
        self.cut(self.listener)
        self.listener.close()


class CommitInDoubt(CrashTest):
    def run_with(self, make, how, cuts):
        clean = self.clean_run(make)
        p = Partner(self.stack)
        request = request_of(make(p))
        proxy = Proxy(self.stack, how, cuts)
        self.addCleanup(proxy.close)
        with Worker(self.stack, db_socket=proxy.path) as w:
            got = w.send(p, request)
        self.assertIsNotNone(got, "the worker died")
        self.assertGreaterEqual(proxy.seen, 1)
        return p, request, clean, got

    def finish(self, p, request, clean, got):
        _, after, answer = clean
        again = self.resend(p, request)
        p.close()
        self.assertEqual((again.status, plain(again.body.decode())), answer)
        self.assertEqual(tables(p), after)
        self.assertEqual(again.headers["Idempotent-Replayed"], "true")
        if got.status < 300:
            self.assertEqual((got.status, got.body),
                             (again.status, again.body))
        self.assertEqual(orphans(self.stack), {})

    def check_one_cut(self, make):
        for how in ("before", "after", "sent"):
            with self.subTest(how):
                p, request, clean, got = self.run_with(make, how, 1)
                self.assertEqual((got.status, plain(got.body.decode())),
                                 clean[2])
                self.assertIsNone(got.header("Idempotent-Replayed"))
                self.finish(p, request, clean, got)

    def test_the_workers_own_retry_finds_what_it_committed(self):
        self.check_one_cut(upsert)

    def test_a_refresh_release_and_undo_are_retried_alike(self):
        for make in (refresh, release, undo, boms):
            self.check_one_cut(make)

    def test_what_was_committed_is_charged_once(self):
        for make in (charged, nearly_used):
            self.check_one_cut(make)

    def test_after_cuts_without_end_the_resend_finds_out(self):
        for how in ("before", "after", "sent"):
            with self.subTest(how):
                p, request, clean, got = self.run_with(upsert, how, 99)
                if how == "before":
                    self.assertEqual(got.status, 503, got.body)
                    self.assertEqual(tables(p), clean[0])
                    self.assertTrue(got.header("Retry-After"))
                    got = self.resend(p, request)
                    self.assertNotIn("Idempotent-Replayed", got.headers)
                else:
                    self.assertIn(got.status, (207, 503), got.body)
                self.finish(p, request, clean, got)


if __name__ == "__main__":
    unittest.main()
