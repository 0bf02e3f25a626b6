"""MariaDB stopped, killed and frozen under load: refusals in time, and work
again as soon as it is back, without a restart of anything."""
# check: slow
# SPDX-License-Identifier: Apache-2.0
import collections
import os
import signal
import threading
import time
import unittest

from load import Load
from problem import wants_problem
from stack import Stack, wait_for

CAPABILITIES = "/wms-ingest/v1/capabilities"


class Away(unittest.TestCase):
    def setUp(self):
        self.stack = Stack(conf=[
            "retry_after = 7s", "db_lock_wait = 1s", "db_io_timeout = 2s",
            "request_deadline = 6s"])
        self.stack.start()
        self.before = self.stack.all_pids()
        self.seen = []  # (begun, ended, what, answer)
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.ask, args=(ask,))
                        for ask in [self.readyz] + [self.capabilities] * 6]

    def tearDown(self):
        self.stopping.set()
        for pid in self.stack.pids("mariadbd"):
            os.kill(pid, signal.SIGCONT)
        for thread in self.threads:
            if thread.is_alive():
                thread.join(30)
        self.stack.stop()
        self.stack.remove()

    def readyz(self):
        return self.stack.admin("/readyz")

    def capabilities(self):
        return self.stack.get(CAPABILITIES)

    def ask(self, what):
        while not self.stopping.is_set():
            begun = time.monotonic()
            answer = what()
            self.seen.append((begun, time.monotonic(), what.__name__, answer))

    def begin(self):
        for thread in self.threads:
            thread.start()
        time.sleep(1)

    def end(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(60)
            self.assertFalse(thread.is_alive(), "a request hangs")

    def returned(self):
        """When the server takes connections again."""
        def answers():
            try:
                return self.stack.sql("SELECT 1")
            except AssertionError:
                return None
        wait_for(answers, 60, "MariaDB's return")
        return time.monotonic()

    def judge(self, gone, back, longest_s):
        """Before and after: 200. Between: 503 with Retry-After, or 200 where
        the request was quicker than the stop. Never anything else."""
        statuses = collections.Counter()
        longest, last = 0, back
        for begun, ended, what, answer in self.seen:
            statuses[what, answer.status] += 1
            if answer.status != 200:
                wants_problem(self, answer, 503, "database-away",
                              "database-busy")
                self.assertEqual(answer.headers["Retry-After"], "7")
                longest = max(longest, ended - begun)
                last = max(last, ended)
            if ended < gone:
                self.assertEqual(answer.status, 200, answer)
        print(f"  {dict(statuses)}; longest refusal {longest:.2f} s; right "
              f"again {last - back:.2f} s after its return")
        self.assertLess(longest, longest_s)
        self.assertLess(last - back, 20)
        after = {(w, a.status) for b, _, w, a in self.seen if b > last}
        self.assertEqual(after, {("readyz", 200), ("capabilities", 200)})
        return statuses

    def nothing_was_restarted(self):
        ours = set(self.before) - set(self.stack.all_pids())
        self.assertLessEqual(len(ours), 1, "more than MariaDB is new")

    def test_stopped(self):
        self.begin()
        gone = time.monotonic()
        self.stack.supervisorctl("stop", "mariadb")
        stopped = time.monotonic()
        for _ in range(30):
            self.assertEqual(self.stack.get("/healthz").status, 200)
            time.sleep(0.1)
        away = time.monotonic()
        self.stack.supervisorctl("start", "mariadb")
        back = self.returned()
        time.sleep(2)
        self.end()
        statuses = self.judge(gone, back, 10)
        between = {a.status for b, e, _, a in self.seen
                   if b > stopped and e < away}
        self.assertEqual(between, {503})
        self.assertGreater(statuses["readyz", 503], 5)
        self.assertGreater(statuses["capabilities", 503], 30)
        self.nothing_was_restarted()

    def test_killed(self):
        self.begin()
        gone = time.monotonic()
        self.stack.kill(self.stack.pids("mariadbd"))
        back = self.returned()
        time.sleep(2)
        self.end()
        statuses = self.judge(gone, back, 10)
        self.assertGreater(statuses["capabilities", 503], 0)
        self.nothing_was_restarted()

    def test_frozen(self):
        """It is there and says nothing: db_io_timeout (2 s) and
        db_connect_timeout (1 s) bound each wait."""
        self.begin()
        server = self.stack.pids("mariadbd")
        gone = time.monotonic()
        self.stack.kill(server, signal.SIGSTOP)
        time.sleep(8)
        self.assertEqual(self.stack.get("/healthz").status, 200)
        self.stack.kill(server, signal.SIGCONT)
        back = self.returned()
        time.sleep(2)
        self.end()
        # request_deadline is 6 s: past it there would be no worker to answer.
        statuses = self.judge(gone, back, 6)
        self.assertGreater(statuses["capabilities", 503], 10)
        self.assertEqual(self.stack.all_pids(), self.before)

    def test_a_load_of_many_is_never_left_without_an_answer(self):
        def refused(_, answer):
            if answer.status not in (200, 503):
                others.append(answer)

        others = []
        with Load(self.stack, lambda n: ("GET", CAPABILITIES, {}, None),
                  clients=16, seen=refused) as load:
            for _ in range(3):
                time.sleep(0.7)
                self.stack.kill(self.stack.pids("mariadbd"))
                self.returned()
        print(f"  {load}")
        self.assertEqual((others, load.broken), ([], []))
        self.assertLess(load.longest_s, 10)
        self.assertFalse(self.stack.metric("waybill_worker_exits_total"))


if __name__ == "__main__":
    unittest.main()
