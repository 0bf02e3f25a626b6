"""The rate of a partner, its share of the workers, and GET /limits.

The laws stand in include/gate/limit.h (L) and include/gate/inflight.h (F).
"""
# check: slow
# SPDX-License-Identifier: Apache-2.0
# check: alone
import re
import signal
import threading
import time
import unittest

from items import API, Partner, new_key, path_of, uom
from problem import parsed, wants_problem
from service import Service
from stack import Stack, alive, wait_for

CAPABILITIES = API + "/capabilities"
LIMITS = API + "/limits"
ECHO = API + "/test/echo"
HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
           "RateLimit-Policy", "RateLimit")
CLIENTS, SECONDS = 64, 10


class Told:
    """What an answer's headers say of the rate."""

    def __init__(self, case, answer):
        for name in HEADERS:
            case.assertEqual(len(answer.headers.get_all(name, [])), 1, answer)
        self.limit, self.remaining, self.reset = (
            int(answer.headers[name]) for name in HEADERS[:3])
        self.policy, self.ietf = (answer.headers[n] for n in HEADERS[3:])
        match = re.fullmatch(r'"rate";r=(\d+);t=(\d+)', self.ietf)
        self.r, self.t = map(int, match.groups())
        case.assertEqual(self.r, self.remaining)


class Client(threading.Thread):
    """Sends one request after another on a connection of its own, and notes
    when each was sent and answered, and how."""

    def __init__(self, partner, begin, end):
        super().__init__(daemon=True)
        self.partner, self.begin, self.stop = partner.fork(), begin, end
        self.seen, self.broken = [], []

    def run(self):
        self.partner.session = self.partner.stack.session()
        self.partner.session.key = self.partner.key
        self.partner.session.http.connect()
        self.begin.wait()
        while not self.stop.is_set():
            sent = time.monotonic()
            try:
                answer = self.partner.request("GET", CAPABILITIES)
            except Exception as e:  # of a killed worker; the test decides
                self.broken.append(repr(e))
                continue
            self.seen.append((sent, time.monotonic(), answer.status,
                              answer.headers.get("X-RateLimit-Remaining")))
        self.partner.close()


class Crowd:
    """Clients of one partner that begin together."""

    def __init__(self, partner, clients):
        self.begin, self.end = threading.Barrier(clients + 1), \
            threading.Event()
        self.clients = [Client(partner, self.begin, self.end)
                        for _ in range(clients)]

    def __enter__(self):
        for c in self.clients:
            c.start()
        self.begin.wait()
        return self

    def __exit__(self, *_):
        self.end.set()
        for c in self.clients:
            c.join(90)
        self.seen = sorted(s for c in self.clients for s in c.seen)
        self.broken = [b for c in self.clients for b in c.broken]

    def statuses(self):
        return {s[2] for s in self.seen}

    def admitted(self):
        return sum(s[2] == 200 for s in self.seen)


class Case(unittest.TestCase):
    conf, env, workers = [], None, 6

    @classmethod
    def setUpClass(cls):
        cls.stack = Stack(conf=cls.conf, env=cls.env, workers=cls.workers)
        cls.stack.start()

    @classmethod
    def tearDownClass(cls):
        cls.stack.stop()
        cls.stack.remove()

    def partner(self, rate=None, burst=None, **how):
        options = []
        if rate:
            options += ["--rate", str(rate)]
        if burst:
            options += ["--burst", str(burst)]
        made = Partner(self.stack, *options, **how)
        self.addCleanup(made.close)
        return made

    def counted(self, remaining, burst, n, begun):
        """That n requests since `begun` count, at a rate of one a second:
        one less each time, and one more each second that has passed."""
        passed = int(time.monotonic() - begun)
        self.assertGreaterEqual(remaining, burst - n)
        self.assertLessEqual(remaining, burst - n + passed)

    def use_up(self, partner):
        """Requests until one is refused; gives that one."""
        for _ in range(1000):
            answer = partner.get("/capabilities")
            if answer.status == 429:
                return answer
            self.assertEqual(answer.status, 200, answer)
        raise AssertionError("nothing was refused")


class Rate(Case):
    def test_64_clients_are_admitted_burst_plus_rate_times_time(self):
        """[L1] Every admission lies between the sending of its request and
        the answer, so that no more can be admitted than the rate allows from
        the first sending to the last answer. And since there is always a
        request on its way, whatever the rate allowed from the first answer to
        the last sending was taken: both hold however slow the machine is, and
        differ by the time of two requests."""
        rate, burst = 50, 100
        partner, other = self.partner(rate, burst), self.partner()
        busy = self.stack.metric("waybill_partner_busy_total") or 0
        refused = self.stack.metric("waybill_rate_refusals_total") or 0
        statuses = set()
        with Crowd(partner, CLIENTS) as crowd:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                statuses.add(other.get("/capabilities").status)
                time.sleep(0.05)
        seen = crowd.seen
        self.assertEqual((crowd.broken, crowd.statuses()), ([], {200, 429}))
        most = burst + rate * (max(s[1] for s in seen) - seen[0][0])
        least = burst + rate * (seen[-1][0] - min(s[1] for s in seen))
        got = crowd.admitted()
        print(f"{len(seen)} requests, {got} admitted, want {least:.1f} to "
              f"{most:.1f}")
        self.assertLessEqual(got, most * 1.02)
        self.assertGreaterEqual(got, least * 0.98)
        self.assertEqual(statuses, {200}, "the other partner")
        # Nobody is slow here: the share is for those who are.
        self.assertEqual(self.stack.metric("waybill_partner_busy_total") or 0,
                         busy)
        self.assertEqual(self.stack.metric("waybill_rate_refusals_total"),
                         refused + len(seen) - got)

    def test_headers_tell_what_is_left(self):
        partner, burst = self.partner(1, 20), 20
        begun = time.monotonic()
        for n in range(1, burst + 1):
            answer = partner.get("/capabilities")
            self.assertEqual(answer.status, 200, answer)
            told = Told(self, answer)
            self.assertEqual(told.limit, burst)
            self.assertEqual(told.policy, '"rate";q=20;w=20')
            self.counted(told.remaining, burst, n, begun)
            self.assertEqual(told.reset, burst - told.remaining)
            self.assertEqual(told.t, told.reset if told.r else 1)

    def test_a_refusal_says_when_to_come_again(self):
        partner = self.partner(1, 3)
        answer = self.use_up(partner)
        document = wants_problem(self, answer, 429, "rate-limited")
        self.assertIn("1 requests a second, 3 at once", document["detail"])
        told = Told(self, answer)
        self.assertEqual((told.remaining, told.t), (0, 1))
        self.assertEqual(answer.headers["Retry-After"], "1")
        time.sleep(1)
        self.assertEqual(partner.get("/capabilities").status, 200)

    def test_every_answer_with_a_credential_has_the_headers(self):
        partner = self.partner(1, 500)
        reader = Partner.fork(partner)
        reader.key = partner.new_credential("read")
        self.addCleanup(reader.close)
        key, begun = new_key(), time.monotonic()
        for n, (status, ask) in enumerate((
                (200, lambda: partner.post("uoms", [uom("EA")], key)),
                (200, lambda: partner.post("uoms", [uom("EA")], key)),
                (400, lambda: partner.post("uoms", [uom("EA")], "no-key")),
                (400, lambda: partner.post("uoms", b"{")),
                (404, lambda: partner.get("/jobs/job-" + "0" * 32)),
                (403, lambda: reader.post("uoms", [uom("EA")])),
                (415, lambda: partner.post("uoms", b"", headers={
                    "Content-Type": "text/plain"}))), 1):
            answer = ask()
            self.assertEqual(answer.status, status, answer)
            self.counted(Told(self, answer).remaining, 500, n, begun)

    def test_who_has_no_rate_or_no_credential_is_told_nothing(self):
        partner = self.partner(1, 10)
        free = self.partner()
        for status, answer in (
                (200, free.get("/capabilities")),
                (401, self.stack.get(CAPABILITIES, key=False)),
                (404, partner.get("/nothing")),
                (405, partner.request("POST", CAPABILITIES))):
            self.assertEqual(answer.status, status, answer)
            for name in HEADERS:
                self.assertIsNone(answer.headers.get(name), answer)
        # Neither of them counted.
        self.assertEqual(Told(self, partner.get("/limits")).remaining, 9)

    def test_the_scope_comes_before_the_rate_and_the_key_after(self):
        partner = self.partner(1, 2)
        reader = Partner.fork(partner)
        reader.key = partner.new_credential("read")
        self.addCleanup(reader.close)

        def over():
            self.use_up(partner)
            return (reader.post("uoms", [uom("EA")]),
                    partner.post("uoms", [uom("EA")], "no-key"))

        # A second that begins between the two makes room for one.
        forbidden, limited = wait_for(
            lambda: [a for a in [over()] if a[1].status == 429])[0]
        wants_problem(self, forbidden, 403, "forbidden")
        wants_problem(self, limited, 429, "rate-limited")

    def test_a_refused_request_takes_nothing_and_leaves_its_key_free(self):
        """[L2] However many are refused, the one that comes when Retry-After
        is over is admitted, and it is the first with its key."""
        partner, key = self.partner(1, 2), new_key()
        for _ in range(200):
            answer = partner.post("uoms", [uom("EA")], key)
            if answer.status == 429:
                break
            key = new_key()
        wants_problem(self, answer, 429, "rate-limited")
        answers = [partner.post("uoms", [uom("EA")], key) for _ in range(100)]
        refused = [a for a in answers if a.status == 429]
        self.assertGreater(len(refused), 50)
        for a in refused:
            self.assertEqual(a.headers["X-Correlation-Id"], key)
        key = new_key()
        while partner.post("uoms", [uom("EA")], key).status != 429:
            key = new_key()
        time.sleep(1)
        answer = partner.post("uoms", [uom("EA")], key)
        self.assertEqual(answer.status, 200, answer)
        self.assertIsNone(answer.headers.get("Idempotent-Replayed"))

    def test_limits_tell_what_the_headers_say(self):
        partner, begun = self.partner(1, 30), time.monotonic()
        for _ in range(3):
            partner.get("/capabilities")
        answer = partner.get("/limits")
        self.assertEqual(answer.status, 200, answer)
        told = Told(self, answer)
        self.counted(told.remaining, 30, 4, begun)
        self.assertEqual(answer.json(), {
            "rate": {"requests_per_second": 1, "burst": 30,
                     "remaining": told.remaining,
                     "reset_seconds": told.reset},
            "quota": {**answer.json()["quota"], "items_per_day": None},
            "concurrency": {"slow_requests_max": 4, "slow_requests": 0,
                            "slow_after_ms": 1000}})
        self.counted(partner.get("/limits").json()["rate"]["remaining"], 30,
                     5, begun)

    def test_limits_are_null_where_there_are_none(self):
        partner = self.partner()
        self.assertEqual(partner.get("/limits").json()["rate"], {
            "requests_per_second": None, "burst": None, "remaining": None,
            "reset_seconds": None})
        quota = Partner(self.stack, "--quota", "70")
        self.addCleanup(quota.close)
        self.assertEqual(
            quota.get("/limits").json()["quota"]["items_per_day"], 70)

    def test_without_the_scope_read_limits_are_forbidden(self):
        wants_problem(self, self.partner(scope="ingest").get("/limits"), 403,
                      "forbidden")

    def test_a_burst_that_is_not_set_is_a_second_of_the_rate(self):
        told = Told(self, self.partner(7).get("/limits"))
        self.assertEqual((told.limit, told.policy), (7, '"rate";q=7;w=1'))

    def test_a_large_body_counts_once(self):
        partner = self.partner(1, 100)
        body = b'{"items":[' + b" " * 1_500_000 + b"]}"
        answer = partner.post("uoms", body)
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(Told(self, answer).remaining, 99)

    def test_a_large_body_over_the_rate_is_not_taken(self):
        """Nothing of the body is sent: the answer does not wait for it."""
        partner = self.partner(1, 60)
        head = (f"POST {path_of('uoms')} HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {partner.key}\r\n"
                "Content-Type: application/json\r\n"
                f"X-Correlation-Id: {new_key()}\r\n"
                "Content-Length: 900000000\r\n\r\n").encode()

        def refused():
            self.use_up(partner)
            try:
                return parsed(self.stack.raw(head, timeout=4))
            except TimeoutError:  # a second had begun: there was room
                return None

        refusals = self.stack.metric("waybill_rate_refusals_total")
        answer = wait_for(refused, 60)
        wants_problem(self, answer, 429, "rate-limited")
        self.assertRegex(answer.headers["Retry-After"], "^[1-9][0-9]*$")
        self.assertGreaterEqual(
            self.stack.metric("waybill_rate_refusals_total"), refusals + 2)

    def test_a_new_rate_holds_within_auth_cache(self):
        """[L4] And it brings no fresh burst."""
        partner = self.partner(1, 200)
        self.use_up(partner)
        self.stack.waybill("partner", "set", partner.name, "--rate", "2",
                           "--burst", "150")
        begun = time.monotonic()
        answer = wait_for(
            lambda: [a for a in [partner.get("/limits")]
                     if a.headers["X-RateLimit-Limit"] == "150"])[0]
        passed = time.monotonic() - begun
        self.assertLessEqual(Told(self, answer).remaining, 2 * passed + 2)
        # From the first worker that knows it, it holds for all.
        self.assertEqual({partner.get("/limits").headers["X-RateLimit-Limit"]
                          for _ in range(30)}, {"150"})
        self.stack.waybill("partner", "set", partner.name, "--rate", "none")
        wait_for(lambda: all("X-RateLimit-Limit" not in
                             partner.get("/capabilities").headers
                             for _ in range(20)))


class Deaths(Case):
    workers = 4

    def test_no_death_and_no_restart_brings_a_fresh_burst(self):
        """[L3] Workers and parents die under load, and are recycled; all the
        while no more than burst + time is admitted."""
        burst = 150
        partner = self.partner(1, burst)
        begun = time.monotonic()
        with Crowd(partner, 8) as crowd:
            for _ in range(5):
                old = self.stack.worker_pids()
                self.stack.kill(old)
                wait_for(lambda: not any(map(alive, old)) and
                         len(self.stack.worker_pids()) == self.workers)
            old = self.stack.worker_pids()
            self.stack.kill(self.stack.parents(), signal.SIGHUP)
            wait_for(lambda: not set(old) & set(self.stack.worker_pids()),
                     60, "the end of the old workers")
            self.stack.kill(self.stack.parents()[0])
            wait_for(lambda: len(self.stack.parents()) == 2)
            wait_for(lambda: len(self.stack.worker_pids()) == self.workers,
                     60)
            time.sleep(1)
        most = burst + (time.monotonic() - begun) + 1
        self.assertLessEqual(crowd.admitted(), most)
        # A killed worker may have counted a request it did not answer.
        self.assertGreater(crowd.admitted(), burst - 10 * self.workers)
        self.assertLessEqual(crowd.statuses(), {200, 429, 503})
        begun = time.monotonic()
        again = [partner.get("/capabilities").status for _ in range(100)]
        self.assertLessEqual(again.count(200), time.monotonic() - begun + 2)


class Busy(Case):
    """Each worker's first request to the echo stops until it is woken."""
    conf = ["partner_slow = 300ms", "request_deadline = 10min"]
    env = {"WAYBILL_TEST_FAULT": "echo.work:1:stop"}
    workers = 4

    def setUp(self):
        """The fault is to come in all of them."""
        old = self.stack.worker_pids()
        self.stack.kill(old)
        wait_for(lambda: not any(map(alive, old)) and
                 len(self.stack.worker_pids()) == self.workers)

    def wake(self, *threads):
        """They may stop only now, or the next of them may."""
        def ended():
            self.stack.kill(self.stack.worker_pids(), signal.SIGCONT)
            return not any(t.is_alive() for t in threads)
        wait_for(ended, 60, "the end of the slow requests")

    def slow(self, partner, count):
        """Slow requests, as many; each holds a worker of its own."""
        threads, answers = [], []

        def one():
            mine = partner.fork()
            try:
                answers.append(mine.send(ECHO, {"items": []}))
            except Exception as e:  # of a killed worker
                answers.append(e)
            mine.close()

        for _ in range(count):
            threads.append(threading.Thread(target=one, daemon=True))
            threads[-1].start()
        return threads, answers

    def refused(self, partner):
        answer = partner.get("/capabilities")
        return answer if answer.status == 429 else None

    def test_slow_requests_leave_workers_to_the_others(self):
        """[F3] Three of four workers: the fourth is for the others."""
        partner, other = self.partner(), self.partner()
        before = self.stack.metric("waybill_partner_busy_total") or 0
        threads, answers = self.slow(partner, 2)
        # Two are below the share, however long they take.
        wait_for(lambda: other.get("/limits").json() and partner.get(
            "/limits").json()["concurrency"]["slow_requests"] == 2)
        more, their_answers = self.slow(partner, 1)
        answer = wait_for(lambda: self.refused(partner), what="a refusal")
        wants_problem(self, answer, 429, "partner-busy")
        self.assertEqual(answer.headers["Retry-After"], "1")
        self.assertEqual({other.get("/capabilities").status
                          for _ in range(20)}, {200})
        wants_problem(self, partner.post("uoms", [uom("EA")]), 429,
                      "partner-busy")
        self.large_body_is_refused(partner)
        self.assertGreaterEqual(
            self.stack.metric("waybill_partner_busy_total"), before + 3)
        self.assertEqual(answers + their_answers, [])
        self.wake(*threads, *more)
        self.assertEqual([a.status for a in answers + their_answers],
                         [200] * 3)
        self.ended(partner)

    def ended(self, partner):
        """None is slow any more. A worker notes the end after its answer; a
        pause between, so that those that do not would be slow."""
        for _ in range(20):
            time.sleep(1)
            answer = partner.get("/limits")
            self.assertEqual(answer.status, 200, answer)
            if answer.json()["concurrency"]["slow_requests"] == 0:
                return
        raise AssertionError(answer)

    def large_body_is_refused(self, partner):
        head = (f"POST {path_of('uoms')} HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {partner.key}\r\n"
                "Content-Type: application/json\r\n"
                f"X-Correlation-Id: {new_key()}\r\n"
                "Content-Length: 900000000\r\n\r\n").encode()
        answer = parsed(self.stack.raw(head))
        wants_problem(self, answer, 429, "partner-busy")
        self.assertEqual(answer.headers["Retry-After"], "1")

    def test_a_killed_worker_is_not_busy(self):
        """[F2]"""
        partner = self.partner()
        threads, answers = self.slow(partner, 3)
        wait_for(lambda: self.refused(partner), what="a refusal")
        self.stack.kill(self.stack.worker_pids())
        wait_for(lambda: partner.get("/capabilities").status == 200)
        for t in threads:
            t.join(60)
        self.assertNotIn(200, [getattr(a, "status", 0) for a in answers])


class Share(unittest.TestCase):
    def most(self, **conf):
        with Service(**conf) as s:
            s.waybill("partner", "add", "ACME")
            s.serve()
            got = s.get(LIMITS, s.key("ACME")).json()
        return got["concurrency"]["slow_requests_max"]

    def test_one_worker_has_no_cap(self):
        self.assertIsNone(self.most(workers=1))

    def test_a_share_of_all_workers_is_no_cap(self):
        self.assertIsNone(self.most(workers=2, partner_share=100))

    def test_the_share_is_at_least_one_worker(self):
        self.assertEqual(self.most(workers=2, partner_share=1), 1)


if __name__ == "__main__":
    unittest.main()
