"""The processes of waybill-fcgi, tried over a raw FastCGI socket.

The service is the real one, without a database where that can be: /healthz
needs none, and a refusal proves a worker, too. Which worker answered stands in
its log line. Each test names its promise; those in brackets are guarantees of
include/main/prefork.h.
"""
# check: slow
# SPDX-License-Identifier: Apache-2.0
import collections
import datetime
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import uuid

import fcgi_client as fcgi
from stack import PROGRAMS as BIN, Stack

SLOW = float(os.environ.get("WAYBILL_TEST_SLOW", "1"))


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return sorted(int(p) for p in f.read().split())
    except (FileNotFoundError, ProcessLookupError):
        return []


def at(line):
    """The time of a log line, in seconds."""
    return datetime.datetime.fromisoformat(
        line["time"].replace("Z", "+00:00")).timestamp()


def wait_for(what, seconds=10):
    """Wait until what() is true; its last value is returned either way."""
    end = time.monotonic() + seconds * SLOW
    while not (value := what()) and time.monotonic() < end:
        time.sleep(0.01)
    return value


def settings(folder, **conf):
    """A waybill.conf in that folder; there is no database where it says."""
    pepper = os.path.join(folder, "pepper")
    with open(pepper, "w") as f:
        f.write("5a" * 32)
    conf = {"workers": 4, "metrics_file": os.path.join(folder, "m"),
            "key_pepper_file": pepper, "log_level": "debug",
            "db_socket": os.path.join(folder, "no-database"), **conf}
    path = os.path.join(folder, "waybill.conf")
    with open(path, "w") as f:
        f.writelines(f"{k} = {v}\n" for k, v in conf.items())
    return path


class Server:
    """A parent with its own folder, socket and settings."""

    def __init__(self, *args, fault=None, listen=True, **conf):
        self.dir = tempfile.mkdtemp(prefix="wb-prefork-")
        self.socket = os.path.join(self.dir, "s")
        self.log = os.path.join(self.dir, "log")
        path = settings(self.dir, **conf)
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("WAYBILL_")}
        if fault:
            env["WAYBILL_TEST_FAULT"] = fault
        command = [os.path.join(BIN, "waybill-fcgi"), "--conf", path, *args]
        if listen:
            command += ["--listen", self.socket]
        with open(self.log, "ab") as err:
            self.process = subprocess.Popen(command, env=env, stderr=err,
                                            stdin=subprocess.DEVNULL)
        self.pid = self.process.pid
        self.workers = 0 if not listen else int(conf.get("workers", 4))
        self.seen = set()

    def up(self):
        wait_for(lambda: os.path.exists(self.socket) and
                 len(self.children()) == self.workers)
        return self

    def children(self):
        pids = children(self.pid)
        self.seen.update(pids)
        return pids

    def get(self, uri="/healthz", **kw):
        return fcgi.request(self.socket, uri=uri, **kw)

    def pid_of(self, answer):
        """The worker that gave this answer."""
        return wait_for(lambda: [
            line["pid"] for line in self.logged("request")
            if line["request_id"] == answer.header("x-request-id")])[0]

    def logged(self, event):
        with open(self.log) as f:
            lines = [json.loads(line) for line in f if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    def exits(self, how):
        """waybill_worker_exits_total, from the file of counters: a slot
        holds the value before its labels."""
        with open(os.path.join(self.dir, "m"), "rb") as f:
            table = f.read()
        at = table.find(f'how="{how}"\0'.encode())
        return struct.unpack("=Q", table[at - 8:at])[0] if at > 0 else 0

    def signal(self, sig):
        os.kill(self.pid, sig)

    def close(self):
        self.children()
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid in self.seen:
            if alive(pid):
                with open(f"/proc/{pid}/comm") as f:
                    ours = f.read().strip() == "waybill-fcgi"
                if ours:
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.dir)


class Load:
    """Threads that send requests one after the other and keep count."""

    def __init__(self, server, threads=4):
        self.server, self.stop = server, threading.Event()
        self.ids, self.lost = set(), []
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run)
                        for _ in range(threads)]

    def run(self):
        while not self.stop.is_set():
            try:
                answer = self.server.get()
                if answer.json() != {"status": "ok"}:
                    raise AssertionError(answer.body)
            except Exception as e:  # whatever went wrong, it is a lost request
                with self.lock:
                    self.lost.append(repr(e))
                continue
            with self.lock:
                self.ids.add(answer.header("x-request-id"))

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        for t in self.threads:
            t.join()

    def by_worker(self, *servers):
        """How many of the answers each worker gave."""
        def count():
            pids = [line["pid"] for server in servers
                    for line in server.logged("request")
                    if line["request_id"] in self.ids]
            return collections.Counter(pids) if len(pids) == len(
                self.ids) else None
        counts = wait_for(count)
        print(f"  {len(self.ids)} answered by {len(counts)} workers, "
              f"{len(self.lost)} lost")
        return counts


class Held:
    """A request in another thread, to be looked at later."""

    def __init__(self, server, **kw):
        self.answer = self.error = None
        self.thread = threading.Thread(target=self.run, args=(server, kw))
        self.thread.start()

    def run(self, server, kw):
        try:
            self.answer = server.get(**kw)
        except Exception as e:
            self.error = e

    def join(self):
        self.thread.join()
        return self


class Case(unittest.TestCase):
    def serve(self, *args, **kw):
        server = Server(*args, **kw)
        self.addCleanup(server.close)
        return server.up()


class Requests(Case):
    """wire/fcgi over the real socket."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(workers=1).up()

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def refused(self, slug, status=400, **kw):
        answer = self.server.get(**kw)
        self.assertEqual((answer.status, answer.json()["type"]),
                         (status, "/docs/errors.md#" + slug))
        return answer.json()

    def headers_seen(self, **kw):
        """How many headers the worker counts: so many less than 128 may be
        added before it refuses."""
        headers = list(kw.pop("headers", ()))
        for n in range(120, 129):
            more = [(f"X-{i}", "v") for i in range(n)]
            if self.server.get(headers=headers + more, **kw).status == 431:
                return 129 - n
        return 0

    def test_path_and_query_come_from_the_request_uri(self):
        other = [("SCRIPT_NAME", "/other"), ("QUERY_STRING", "a=b")]
        got = self.refused("not-found", 404, uri="/a/b%2Fc?x=1?2",
                           extra=other)
        self.assertEqual(got["instance"], "/a/b%2Fc")
        got = self.refused("bad-parameter", uri="/healthz?x?1=2", extra=other)
        self.assertEqual(got["detail"], 'unknown parameter "x?1"')

    def test_a_doubled_header_is_seen_twice(self):
        one, two = str(uuid.uuid4()), str(uuid.uuid4())
        got = self.server.get(headers=[("X-Correlation-Id", one),
                                       ("Host", "h")])
        self.assertEqual(got.header("x-correlation-id"), one)
        for second in (one, two):
            got = self.refused("bad-header",
                               headers=[("X-Correlation-Id", one),
                                        ("Host", "h"),
                                        ("X-Correlation-Id", second)])
            self.assertIn("x-correlation-id", got["detail"])

    def test_the_content_type_is_a_header(self):
        self.assertEqual(self.headers_seen(), 0)
        self.assertEqual(self.headers_seen(content_type="text/csv"), 1)

    def test_the_content_type_nginx_passes_twice_is_one_header(self):
        self.assertEqual(self.headers_seen(
            content_type="text/csv",
            headers=[("Content-Type", "text/csv")]), 1)

    def test_a_content_type_the_client_doubled_is_seen_twice(self):
        self.assertEqual(self.headers_seen(
            content_type="a/b", headers=[("Content-Type", "a/b"),
                                         ("Content-Type", "c/d")]), 2)

    def test_only_the_admin_listener_is_admin(self):
        for value, status in (("admin", 200), ("public", 404),
                              ("Admin", 404), ("", 404)):
            got = self.server.get(uri="/metrics",
                                  extra=[("WAYBILL_LISTENER", value)])
            self.assertEqual(got.status, status, value)

    def test_a_header_cannot_pose_as_a_parameter(self):
        got = self.server.get(uri="/metrics",
                              headers=[("Waybill-Listener", "admin")])
        self.assertEqual(got.status, 404)

    def test_doubled_parameters_are_refused(self):
        for name, slug in (("CONTENT_LENGTH", "bad-header"),
                           ("REQUEST_METHOD", "bad-request"),
                           ("REQUEST_URI", "bad-request"),
                           ("WAYBILL_LISTENER", "bad-request")):
            self.refused(slug, extra=[("WAYBILL_LISTENER", "public"),
                                      (name, "")])

    def test_a_request_without_method_or_uri_is_refused(self):
        self.refused("bad-request", method="")
        self.refused("bad-request", uri="")

    def test_a_content_length_that_is_no_number_is_refused(self):
        for text in ("-1", "1 ", "0x10", "+1", "9223372036854775808"):
            self.refused("bad-header", content_length=text)

    def test_a_role_other_than_responder_is_refused(self):
        data = fcgi.encode(fcgi.params_of(uri="/healthz"), role=2)
        self.assertEqual(fcgi.send(self.server.socket, data).status, 400)

    def test_a_header_with_a_control_character_is_refused_and_named(self):
        for value in ("a\nb", "a\rb", "a\x01", "\x7f"):
            got = self.refused("bad-header", headers=[("X-A", value)])
            self.assertIn("x-a", got["detail"])
        self.assertEqual(self.server.get(headers=[("X-A", "a\tb")]).status,
                         200)

    def test_there_are_at_most_128_headers(self):
        headers = [(f"X-{i}", "v") for i in range(129)]
        self.assertEqual(self.server.get(headers=headers[:128]).status, 200)
        self.refused("headers-too-large", 431, headers=headers)

    def test_a_header_is_at_most_8_kib(self):
        most = "v" * (8192 - len("x-a"))
        self.assertEqual(self.server.get(headers=[("X-A", most)]).status, 200)
        self.refused("headers-too-large", 431, headers=[("X-A", most + "v")])

    def test_all_headers_are_at_most_32_kib(self):
        each = "v" * (8192 - len("x-0"))
        four = [(f"X-{i}", each) for i in range(4)]
        self.assertEqual(self.server.get(headers=four).status, 200)
        self.refused("headers-too-large", 431, headers=four + [("Y", "")])

    def test_the_uri_is_at_most_8_kib(self):
        most = "/" + "u" * 8191
        self.refused("not-found", 404, uri=most)
        self.refused("uri-too-long", 414, uri=most + "u")

    def test_a_broken_client_does_not_cost_the_worker(self):
        whole = fcgi.encode(fcgi.params_of(method="POST", uri="/healthz"),
                            b"b" * 1000)
        begin = fcgi.record(fcgi.BEGIN, struct.pack(">HB5x", 1, 0))
        broken = {
            "nothing": b"",
            "text": b"GET / HTTP/1.1\r\n\r\n",
            "zeros": b"\0" * 100,
            "half a header": whole[:4],
            "begin alone": begin,
            "half the parameters": whole[:40],
            "parameters without end": whole[:len(begin) + 60],
            "half a body": whole[:-300],
            "length past the record": begin + fcgi.record(
                fcgi.PARAMS, b"\xff\xff\xff\xff\x01ab"),
            "length of 2 GiB": begin + fcgi.records(
                fcgi.PARAMS, struct.pack(">II", 0xffffffff, 0xffffffff)),
            "an unknown type": fcgi.record(77, b"what"),
            "another version": b"\x02" + whole[1:],
        }
        pid = self.server.pid_of(self.server.get())
        for name, data in broken.items():
            with self.subTest(name):
                with fcgi.connect(self.server.socket) as s:
                    s.sendall(data)
                self.assertEqual(self.server.pid_of(self.server.get()), pid)

    def test_a_client_that_leaves_before_the_answer_is_survived(self):
        pid = self.server.pid_of(self.server.get())
        data = fcgi.encode(fcgi.params_of(
            uri="/metrics", extra=[("WAYBILL_LISTENER", "admin")]))
        for _ in range(20):
            with fcgi.connect(self.server.socket) as s:
                s.sendall(data)
        self.assertEqual(self.server.pid_of(self.server.get()), pid)


class Bodies(unittest.TestCase):
    """Bodies need a route that takes one, a key and so a database."""

    @classmethod
    def setUpClass(cls):
        cls.stack = Stack(conf=["sync_body_max = 64MiB"], workers=2)
        cls.stack.start()
        cls.socket = os.path.join(cls.stack.var, "run", "fcgi.sock")

    @classmethod
    def tearDownClass(cls):
        cls.stack.stop()
        cls.stack.remove()

    def params(self, **kw):
        return fcgi.params_of(
            method="POST", uri="/wms-ingest/v1/test/echo",
            content_type="application/json",
            headers=[("Authorization", "Bearer " + self.stack.key),
                     ("X-Correlation-Id", str(uuid.uuid4()))], **kw)

    def test_a_large_body_arrives_whole(self):
        body = b'{"items":[' + b" " * 20_000_000 + b"{}]}"
        for length in (str(len(body)), ""):
            with self.subTest(length):
                params = self.params(content_length=length)
                got = fcgi.send(self.socket, fcgi.encode(params, body))
                self.assertEqual(got.json(), {"items": 1, "oversized": 0,
                                              "bytes": len(body)})

    def test_a_body_that_ends_early_is_seen_short(self):
        params = self.params(content_length="1000")
        got = fcgi.send(self.socket, fcgi.encode(params, b"b" * 10))
        self.assertEqual((got.status, got.json()["type"]),
                         (400, "/docs/errors.md#body-cut"))
        self.assertEqual(got.json()["detail"], "10 of 1000 bytes came")


class Life(Case):
    def test_no_request_is_lost_when_workers_recycle(self):
        """[1]"""
        server = self.serve(max_requests=20)
        with Load(server) as load:
            time.sleep(3)
        self.assertEqual(load.lost, [])
        counts = load.by_worker(server)
        self.assertGreater(len(counts), 20)
        self.assertLessEqual(max(counts.values()), 25)
        self.assertEqual(server.logged("worker-crash"), [])
        self.assertGreater(server.exits("done"), 20)

    def test_a_killed_worker_costs_its_own_request_only(self):
        """[1]"""
        server = self.serve(fault="pipeline.before_handler:1:delay=800")
        held = [Held(server) for _ in range(4)]
        time.sleep(0.3)
        os.kill(server.children()[1], signal.SIGKILL)
        errors = [h.join().error for h in held]
        self.assertEqual(len([e for e in errors if e]), 1, errors)

    def test_a_killed_worker_is_replaced_at_once(self):
        """[1]"""
        server = self.serve()
        with Load(server) as load:
            for _ in range(3):
                time.sleep(0.3)
                before = server.children()
                os.kill(before[-1], signal.SIGKILL)
                self.assertTrue(wait_for(
                    lambda: len(server.children()) == 4 and
                    before[-1] not in server.children(), 1))
            time.sleep(0.3)
        self.assertLessEqual(len(load.lost), 3)
        crashes = server.logged("worker-crash")
        self.assertEqual([c["signal"] for c in crashes], [9, 9, 9])
        self.assertEqual(server.exits("crash"), 3)

    def test_a_slot_that_crashes_on_and_on_is_paused(self):
        """[1]"""
        server = self.serve(workers=1, fault="pipeline.before_handler:1:kill")
        for _ in range(6):
            with self.assertRaises(fcgi.Lost):
                server.get()
        wait_for(lambda: len(server.logged("worker-start")) == 7)
        ended = [at(e) for e in server.logged("worker-crash")]
        started = [at(e) for e in server.logged("worker-start")][1:]
        pauses = [round(s - e, 3) for e, s in zip(ended, started)]
        self.assertEqual(len(pauses), 6)
        self.assertTrue(all(p < 0.1 for p in pauses[:3]), pauses)
        self.assertTrue(all(p >= want for p, want in
                            zip(pauses[3:], (0.1, 0.2, 0.4))), pauses)

    def test_hup_replaces_every_worker_and_loses_no_request(self):
        """[2]"""
        server = self.serve()
        with Load(server) as load:
            for _ in range(3):
                before = server.children()
                server.signal(signal.SIGHUP)
                self.assertTrue(wait_for(
                    lambda: len(server.children()) == 4 and
                    not set(before) & set(server.children())))
                time.sleep(0.1)
        self.assertEqual(load.lost, [])
        self.assertEqual(server.logged("worker-crash"), [])
        self.assertEqual(server.exits("signal"), 12)

    def test_hup_waits_for_each_before_the_next(self):
        """[2]"""
        server = self.serve(workers=3)
        before = server.children()
        held = [half_a_body(server) for _ in range(3)]
        time.sleep(0.3)
        server.signal(signal.SIGHUP)
        wait_for(lambda: server.logged("worker-told"))
        time.sleep(0.6)
        self.assertEqual(len(server.logged("worker-told")), 1)
        for s in held:
            s.sendall(HALVES[1])
            self.assertEqual(fcgi.read_answer(s).status, 200)
            s.close()
        self.assertTrue(wait_for(lambda: len(server.children()) == 3 and
                                 not set(before) & set(server.children())))

    def test_term_answers_the_request_in_hand_and_exits_0(self):
        """[3]"""
        server = self.serve(fault="pipeline.before_handler:1:delay=1000")
        begun = time.monotonic()
        held = [Held(server) for _ in range(4)]
        time.sleep(0.3)
        server.signal(signal.SIGTERM)
        server.signal(signal.SIGTERM)
        time.sleep(0.1)
        try:
            server.signal(signal.SIGTERM)
        except ProcessLookupError:
            pass
        self.assertEqual([h.join().error for h in held], [None] * 4)
        self.assertGreater(time.monotonic() - begun, 1)
        self.assertEqual(server.process.wait(10), 0)
        self.assertEqual([p for p in server.seen if alive(p)], [])

    def test_term_answers_a_request_whose_first_byte_is_yet_to_come(self):
        """[3]: libfcgi would drop it if a signal came through then."""
        server = self.serve(workers=1)
        with fcgi.connect(server.socket) as s:
            time.sleep(0.2)
            server.signal(signal.SIGTERM)
            time.sleep(0.2)
            s.sendall(fcgi.encode(fcgi.params_of(uri="/healthz")))
            self.assertEqual(fcgi.read_answer(s).status, 200)
        self.assertEqual(server.process.wait(10), 0)

    def test_term_under_load_lets_every_accepted_request_finish(self):
        """[3]: with a second parent on the socket nobody notices."""
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "s")
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listening.bind(path)
            listening.listen(1024)
            parents = [Shared(listening, path, i) for i in range(2)]
            for p in parents:
                self.addCleanup(p.close)
            wait_for(lambda: all(len(p.children()) == 2 for p in parents))
            with Load(parents[0]) as load:
                time.sleep(0.5)
                parents[0].signal(signal.SIGTERM)
                self.assertEqual(parents[0].process.wait(10), 0)
                time.sleep(0.5)
            self.assertEqual(load.lost, [])
            self.assertEqual(sum(load.by_worker(*parents).values()),
                             len(load.ids))
            self.assertEqual(parents[0].children(), [])
            listening.close()

    def test_term_kills_what_does_not_leave_in_time(self):
        """[3]"""
        server = self.serve(workers=1, drain_timeout="1s")
        with half_a_request(server):
            time.sleep(0.2)
            server.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(10), 0)
        self.assertEqual(len(server.logged("worker-deadline")), 1)
        self.assertEqual([p for p in server.seen if alive(p)], [])

    def test_a_request_past_its_deadline_is_ended(self):
        """[4]"""
        server = self.serve(workers=2, request_deadline="1s",
                            fault="pipeline.before_handler:1:delay=60000")
        hung = server.children()
        started = time.monotonic()
        held = Held(server).join()
        self.assertIsInstance(held.error, fcgi.Lost)
        self.assertLess(time.monotonic() - started, 2 * SLOW)
        self.assertTrue(wait_for(lambda: len(server.children()) == 2 and
                                 server.children() != hung))
        self.assertEqual(len(server.logged("worker-deadline")), 1)
        self.assertEqual(server.exits("deadline"), 1)

    def test_an_idle_worker_has_no_deadline(self):
        """[4]"""
        server = self.serve(workers=1, request_deadline="1s")
        pid = server.pid_of(server.get())
        time.sleep(2.5)
        self.assertEqual(server.pid_of(server.get()), pid)

    def test_a_worker_that_lost_the_race_for_a_connection_is_idle(self):
        """[4]"""
        server = self.serve(request_deadline="1s",
                            fault="accept.before:1:delay=300")
        self.assertEqual(server.get().status, 200)
        time.sleep(1.8)
        self.assertEqual(server.logged("worker-deadline"), [])

    def test_a_client_that_stops_sending_is_ended_too(self):
        """[4]"""
        server = self.serve(workers=1, request_deadline="1s")
        pid = server.pid_of(server.get())
        with half_a_request(server):
            self.assertNotEqual(server.pid_of(server.get()), pid)

    def test_workers_of_a_killed_parent_finish_and_leave(self):
        """[5]"""
        server = self.serve(fault="pipeline.before_handler:1:delay=1000")
        held = [Held(server) for _ in range(4)]
        time.sleep(0.3)
        workers = server.children()
        server.signal(signal.SIGKILL)
        self.assertEqual([h.join().error for h in held], [None] * 4)
        self.assertTrue(wait_for(lambda: not any(map(alive, workers)), 2))

    def test_a_hung_worker_of_a_killed_parent_ends_itself(self):
        """[5]: in the body after drain_timeout, before it by the deadline."""
        for what, conf in ((half_a_body, {"drain_timeout": "1s"}),
                           (half_a_request, {"request_deadline": "1s"})):
            with self.subTest(what.__name__):
                server = self.serve(workers=1, **conf)
                worker = server.children()[0]
                with what(server):
                    time.sleep(0.2)
                    server.signal(signal.SIGKILL)
                    time.sleep(0.4)
                    self.assertTrue(alive(worker))
                    self.assertTrue(wait_for(lambda: not alive(worker), 3))


def half_a_request(server):
    s = fcgi.connect(server.socket)
    s.sendall(fcgi.encode(fcgi.params_of())[:40])
    return s


# A route without a body waits for the record that says there is none.
NO_BODY = fcgi.record(fcgi.STDIN, b"")
WHOLE = fcgi.encode(fcgi.params_of(uri="/healthz"))
HALVES = WHOLE[:-len(NO_BODY)], NO_BODY


def half_a_body(server):
    s = fcgi.connect(server.socket)
    s.sendall(HALVES[0])
    return s


class Shared(Server):
    """One of two parents on a socket somebody else holds, as supervisord."""

    def __init__(self, listening, path, share):
        self.dir = tempfile.mkdtemp(prefix="wb-prefork-")
        self.socket, self.log = path, os.path.join(self.dir, "log")
        self.seen = set()
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("WAYBILL_")}
        with open(self.log, "ab") as err:
            self.process = subprocess.Popen(
                [os.path.join(BIN, "waybill-fcgi"), "--conf",
                 settings(self.dir), "--share", f"{share}/2"],
                env=env, stdin=listening, stderr=err)
        self.pid = self.process.pid


class Command(unittest.TestCase):
    def run_it(self, *args, program="waybill-fcgi", **kw):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("WAYBILL_")}
        env.update(kw.pop("env", {}))
        return subprocess.run([os.path.join(BIN, program), *args], text=True,
                              capture_output=True, env=env, timeout=20,
                              stdin=subprocess.DEVNULL, **kw)

    def test_wrong_usage_exits_2(self):
        for args in (["--nope"], ["extra"], ["--share", "2/2"],
                     ["--share", "x"], ["--share", "0/0"], ["--conf"]):
            got = self.run_it(*args)
            self.assertEqual((got.returncode, got.stdout), (2, ""), args)
        self.assertEqual(self.run_it("x", program="waybill-worker").returncode,
                         2)

    def test_version_and_help_exit_0(self):
        for program in ("waybill-fcgi", "waybill-worker"):
            got = self.run_it("--version", program=program)
            self.assertRegex(got.stdout, rf"^{program} [0-9.]+\n$")
            self.assertEqual(got.returncode, 0)
            self.assertIn("usage:", self.run_it("--help",
                                                program=program).stdout)

    def test_without_a_socket_it_says_how_to_start_it(self):
        got = self.run_it()
        self.assertEqual(got.returncode, 1)
        self.assertIn("--listen", got.stderr)
        self.assertIn("fcgi-program", got.stderr)

    def test_bad_settings_are_named(self):
        got = self.run_it(env={"WAYBILL_CONF": "/nonexistent/waybill.conf"})
        self.assertEqual(got.returncode, 1)
        self.assertIn("/nonexistent/waybill.conf", got.stderr)

    def test_a_socket_in_use_is_not_taken(self):
        server = Server().up()
        self.addCleanup(server.close)
        self.assertEqual(os.stat(server.socket).st_mode & 0o777, 0o660)
        got = self.run_it("--listen", server.socket)
        self.assertEqual(got.returncode, 1)
        self.assertIn(server.socket, got.stderr)
        self.assertEqual(server.get().status, 200)

    def test_a_socket_left_by_the_dead_is_replaced(self):
        server = Server().up()
        self.addCleanup(server.close)
        workers = server.children()
        server.signal(signal.SIGKILL)
        server.process.wait()
        wait_for(lambda: not any(map(alive, workers)))
        again = subprocess.Popen([os.path.join(BIN, "waybill-fcgi"),
                                  "--conf", settings(server.dir),
                                  "--listen", server.socket],
                                 stdin=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        self.addCleanup(again.wait)
        self.addCleanup(again.terminate)
        wait_for(lambda: children(again.pid))
        self.assertEqual(server.get().status, 200)

    def test_parents_share_the_workers(self):
        for share, want in (("0/3", 2), ("1/3", 2), ("2/3", 1), ("9/10", 0)):
            server = Server("--share", share, workers=5)
            try:
                wait_for(lambda: server.logged("start"))
                wait_for(lambda: len(server.children()) >= max(want, 1), 2)
                self.assertEqual(len(server.children()), want, share)
            finally:
                server.close()

    def test_the_worker_leaves_when_told(self):
        folder = tempfile.mkdtemp(prefix="wb-prefork-")
        self.addCleanup(shutil.rmtree, folder)
        for sig in (signal.SIGTERM, signal.SIGINT):
            p = subprocess.Popen([os.path.join(BIN, "waybill-worker"),
                                  "--conf", settings(folder)],
                                 stderr=subprocess.PIPE, text=True)
            self.assertIn('"event":"start"', p.stderr.readline())
            p.send_signal(sig)
            self.assertEqual(p.wait(10), 0)
            self.assertIn('"event":"stop"', p.stderr.read())
            p.stderr.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
