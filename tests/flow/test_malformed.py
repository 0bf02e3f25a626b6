"""More than a thousand malformed requests, made up anew each time: over TLS to
nginx, and as FastCGI records to the workers. None gets a 5xx, costs a worker
or memory, stores what it should not, or leaves a trace of a payload or a key
in a log (the stack is searched when it stops)."""
# SPDX-License-Identifier: Apache-2.0
# check: sanitized
# check: slow
import collections
import concurrent.futures
import os
import random
import socket
import ssl
import unittest
import uuid

import fcgi_client as fcgi
import malformed
from items import Partner, uom
from problem import ROWS, parsed, wants_problem
from stack import LONG, PROGRAMS, Stack, proc_text, wait_for, whole

COUNT = 12_000 if LONG else 1_200
RECORDS = 6_000 if LONG else 600
CLIENTS = 8
# A request that is not whole gets no answer: after so long the client says
# that nothing more comes.
QUIET_S = 2
# Of a worker, after every kind of request was there a few times: what malloc
# may keep of the odd large one. 100 KiB were seen.
GROWTH_KIB = 1024
CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


def id_of(text):
    """The 16 bytes of a correlation id, as upper-case hex digits."""
    if len(text) != 26:
        return uuid.UUID(text).hex.upper()
    value = 0
    for c in text.lower():
        value = value << 5 | CROCKFORD.index(c)
    return f"{value:032X}"


def rss_kib(pid):
    for line in proc_text(pid, "status").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def rounds(data, n):
    """The list in n parts, one after the other."""
    step = -(-len(data) // n)
    return [data[i:i + step] for i in range(0, len(data), step)]


class Malformed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack(workers=2, conf=["max_requests = 1000000"])
        cls.stack.start()
        cls.context = cls.stack.tls()
        cls.seed = int(os.environ.get("WAYBILL_TEST_SEED",
                                      random.randrange(1 << 32)))
        print(f"  WAYBILL_TEST_SEED={cls.seed}")

    @classmethod
    def tearDownClass(cls):
        try:
            cls.stack.stop()
        finally:
            cls.stack.remove()

    def setUp(self):
        self.partner = Partner(self.stack)
        self.partner.results("uoms", [uom("EA", 1)])
        self.first = self.keys()
        self.workers = self.stack.worker_pids()
        self.exits = self.stack.metric("waybill_worker_exits_total") or 0
        self.rng = random.Random(self.seed)

    def tearDown(self):
        self.partner.close()

    def talk(self, data):
        """What came back, as bytes; nothing if nothing did."""
        sock = socket.create_connection(("127.0.0.1", self.stack.port), 60)
        got, patient = b"", True
        with sock, self.context.wrap_socket(
                sock, server_hostname="localhost") as tls:
            try:
                tls.sendall(data)
            except (ConnectionError, ssl.SSLError):
                pass  # it may have answered already
            tls.settimeout(QUIET_S)
            while not whole(got):
                try:
                    more = tls.recv(65536)
                    if not more:
                        break
                    got += more
                except TimeoutError:
                    if not patient:
                        raise
                    patient = False
                    socket.socket.shutdown(tls, socket.SHUT_WR)
                    tls.settimeout(60)
                except (ConnectionError, ssl.SSLError):
                    break
        return got

    def asserted(self):
        """How often libfcgi (or the sanitizer before it) ended a worker that
        could not have the memory for a parameter that says it has up to
        2 GiB. Only who may write to the socket can do that, and nginx does
        not."""
        return sum(self.stack.log(f"fcgi_{n}.log").count(words) for n in "01"
                   for words in ("Malloc: Assertion",
                                 "AddressSanitizer: requested allocation"))

    def lost(self):
        exits = self.stack.metric("waybill_worker_exits_total") or 0
        return exits - self.exits

    def wants_no_worker_lost(self, asserted=0):
        """But for those: a parent replaces each."""
        if asserted:
            wait_for(lambda: self.lost() >= asserted, what="their end")
        self.assertEqual(self.lost(), asserted)
        wait_for(lambda: len(self.stack.worker_pids()) == len(self.workers))
        if not asserted:
            self.assertEqual(self.stack.worker_pids(), self.workers)
        self.partner.close()  # nginx has, if it was long ago
        self.assertEqual(self.partner.outcome("uoms", uom("LAST", 1)),
                         "ACCEPTED created")

    def records(self, data):
        """The answer of a worker, or None."""
        path = os.path.join(self.stack.var, "run", "fcgi.sock")
        with fcgi.connect(path, 60) as s:
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                answer = fcgi.read_answer(s)
                # An end without a word is libfcgi's to a second request.
                return answer if answer.header("Status") else None
            except (OSError, fcgi.Lost):
                return None

    def all_of(self, send, data):
        """[(one, what came back)]; and the workers keep their size."""
        got, sizes = [], []
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            for part in rounds(data, 3):
                got += zip(part, pool.map(send, part))
                sizes.append({p: rss_kib(p)
                              for p in self.stack.worker_pids()})
        print(f"  KiB of the workers: {[list(s.values()) for s in sizes]}")
        if "sanitize" not in PROGRAMS:  # it keeps what is freed
            for pid in set(sizes[0]) & set(sizes[-1]):
                self.assertLess(sizes[-1][pid] - sizes[0][pid], GROWTH_KIB)
        return got

    # Judging.

    def keys(self):
        """{correlation id: batch id} that the partner's requests left."""
        return dict(self.partner.sql(
            "SELECT HEX(correlation_id), HEX(batch_id) FROM request_key "
            f"WHERE partner_id = {self.partner.no}"))

    def wants_a_right_answer(self, odd, answer):
        said = f"{odd.name} of seed {self.seed}: {odd.data[:3000]!r}"
        if odd.statuses is not None:
            self.assertIn(answer.status, odd.statuses, f"{said}: {answer}")
        self.assertTrue(200 <= answer.status < 500, f"{said}: {answer}")
        if answer.status < 400 or odd.data.startswith(b"HEAD"):
            return
        try:
            wants_problem(self, answer, answer.status,
                          *(s for s, row in ROWS.items()
                            if row[0] == answer.status))
        except (AssertionError, ValueError, KeyError) as e:
            raise AssertionError(f"{said}: {e}") from e

    def taken(self, answer):
        """Whether the answer says that something was stored."""
        if answer.status not in malformed.OK:
            return False
        try:
            said = answer.json()
        except ValueError:
            return False
        return isinstance(said, dict) and ("batch_id" in said or
                                           "job_id" in said)

    def wants_only_what_was_taken(self, answers, unanswered):
        """Answers that say so have their key, refused ones do not; beyond
        them there may be only requests whose answer did not come."""
        taken, refused = {}, set()
        for answer in answers:
            sent = answer.header("X-Correlation-Id")
            if not sent:
                continue
            if self.taken(answer):
                taken[id_of(sent)] = answer.json()
            else:
                refused.add(id_of(sent))
        held = {k: b for k, b in self.keys().items() if k not in self.first}
        self.assertLessEqual(set(taken), set(held))
        more = set(held) - set(taken)
        self.assertFalse(more & (refused - set(taken)))
        self.assertLessEqual(len(more), unanswered)
        self.wants_the_items_of(held, taken)
        print(f"  {len(taken)} were taken, {len(refused)} with a right "
              f"key were not, {len(more)} were taken unanswered")

    def wants_the_items_of(self, held, taken):
        """Every row of an item and of a batch belongs to a key; and what a
        batch's answer summed up is what the tables have of it."""
        wait_for(lambda: not self.partner.sql(
            "SELECT 1 FROM job WHERE state IN (1, 2) AND "
            f"partner_id = {self.partner.no}"), 120, "the end of all jobs")
        known = set(held.values()) | set(self.first.values())
        batches = {r[0]: r[1:] for r in self.partner.sql(
            "SELECT HEX(batch_id), total, accepted, replay, quarantined, "
            f"rejected FROM batch WHERE partner_id = {self.partner.no}")}
        self.assertLessEqual(set(batches), known)
        self.assertLessEqual({r[0] for r in self.partner.sql(
            "SELECT HEX(last_batch) FROM item "
            f"WHERE partner_id = {self.partner.no}")}, known)
        for key, said in taken.items():
            if "summary" not in said:
                continue
            wants = [str(said["summary"][n]) for n in (
                "total", "accepted", "replay", "quarantined", "rejected")]
            self.assertEqual(batches[held[key]], wants, said)

    # The tests.

    def test_malformed_requests_are_refused_and_change_nothing(self):
        odd = list(malformed.requests(self.rng, COUNT, self.partner.key))
        statuses, answers, unanswered = collections.Counter(), [], 0
        for one, got in self.all_of(lambda o: self.talk(o.data), odd):
            if not got.startswith(b"HTTP/1."):
                # The body of an answer to HTTP 0.9, or nothing at all.
                unanswered += 1
                statuses["none"] += 1
                continue
            answer = parsed(got)
            answer.header = answer.headers.get
            self.wants_a_right_answer(one, answer)
            answers.append(answer)
            statuses[answer.status] += 1
        print(f"  {len(odd)} requests: {dict(statuses)}")
        self.assertLess(unanswered, COUNT // 5)
        self.assertGreater(statuses[200], COUNT // 40)
        self.assertGreater(statuses[400], COUNT // 4)
        self.wants_only_what_was_taken(answers, unanswered)
        hidden = {id_of(o.hidden) for o in odd if o.hidden}
        self.assertTrue(hidden)
        self.assertFalse(hidden & set(self.keys()))
        self.wants_no_worker_lost()

    def test_malformed_records_are_refused_and_change_nothing(self):
        odd = list(malformed.fastcgi(self.rng, RECORDS, self.partner.key))
        asserted = self.asserted()
        statuses, answers, unanswered = collections.Counter(), [], 0
        for (name, data), got in self.all_of(lambda o: self.records(o[1]),
                                             odd):
            if got is None:
                unanswered += 1
                statuses["none"] += 1
                continue
            said = f"{name} of seed {self.seed}: {data[:3000]!r}"
            self.assertTrue(200 <= got.status < 500, f"{said}: {got.body}")
            if got.status >= 400 and got.body:
                self.assertEqual(got.json()["status"], got.status, said)
                self.assertIn(got.json()["type"].split("#")[1], ROWS, said)
            answers.append(got)
            statuses[got.status] += 1
        print(f"  {len(odd)} requests: {dict(statuses)}")
        self.assertGreater(statuses[400], RECORDS // 20)
        self.wants_only_what_was_taken(answers, unanswered)
        self.wants_no_worker_lost(self.asserted() - asserted)


    def test_a_parameter_of_2_gib_costs_one_worker_at_most(self):
        """libfcgi's limit, which no check of ours comes before."""
        huge = b"\xbf\xff\xff\xff"
        asserted = self.asserted()
        self.assertIsNone(self.records(
            malformed.begin() + fcgi.record(fcgi.PARAMS, huge * 2) +
            fcgi.record(fcgi.PARAMS, b"")))
        wait_for(lambda: self.asserted() > asserted, what="the assertion")
        self.wants_no_worker_lost(1)


if __name__ == "__main__":
    unittest.main()
