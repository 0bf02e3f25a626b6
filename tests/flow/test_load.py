"""Under load, only a request in the hands of a killed worker fails."""
# check: slow
# SPDX-License-Identifier: Apache-2.0
# check: alone
import collections
import itertools
import json
import os
import random
import signal
import time
import unittest

from load import Load
from stack import LONG, Stack, alive, proc_text, wait_for

SECONDS = 30 if LONG else 10
PATHS = ("/healthz", "/wms-ingest/v1/capabilities")


class UnderLoad(unittest.TestCase):
    def setUp(self):
        self.stack = Stack(workers=8, conf=["max_requests = 50"])
        self.stack.start()
        self.failed = []  # (when, request id, status)
        self.answered = set()

    def tearDown(self):
        self.stack.stop()
        self.stack.remove()

    def load(self):
        def seen(_, answer):
            ident = answer.headers["X-Request-Id"]
            if answer.status == 200:
                self.answered.add(ident)
            else:
                self.failed.append((time.monotonic(), ident, answer.status))
        return Load(self.stack, lambda n: ("GET", PATHS[n % 2], {}, None),
                    seen=seen)

    def logged(self):
        """Times a request id is in the log, over both parents' files."""
        ids = collections.Counter()
        names = [n for n in os.listdir(os.path.join(self.stack.var, "log"))
                 if n.startswith("fcgi_")]
        for line in itertools.chain(*(self.stack.log(n).splitlines()
                                      for n in names)):
            line = json.loads(line)
            if line["event"] == "request":
                ids[line["request_id"]] += 1
        return ids

    def victim(self):
        """A worker, one that is at work where one is found."""
        workers = []
        for _ in range(50):
            workers = [p for p in self.stack.worker_pids() if alive(p)]
            for pid in workers:
                if ") R " in proc_text(pid, "stat"):
                    return pid
        return random.choice(workers)

    def exits(self, how):
        text = self.stack.admin("/metrics").body.decode()
        name = f'waybill_worker_exits_total{{how="{how}"}} '
        return sum(int(line[len(name):]) for line in text.splitlines()
                   if line.startswith(name))

    def test_recycling_signals_and_parents_cost_nothing(self):
        """Workers leave after 50 requests; meanwhile SIGHUP, a parent killed
        -9, and one stopped and started."""
        def hup():
            self.stack.kill(self.stack.parents(), signal.SIGHUP)

        def kill_parent():
            parent = random.choice(self.stack.parents())
            self.stack.kill(parent)
            wait_for(lambda: len(self.stack.parents()) == 2 and
                     parent not in self.stack.parents(), 10, "a new parent")

        def stop_and_start():
            self.stack.supervisorctl("stop", "fcgi:parent_1")
            # A worker whose parent was killed counts until it has left.
            wait_for(lambda: len(self.stack.parents()) == 1)
            self.stack.supervisorctl("start", "fcgi:parent_1")
            wait_for(lambda: len(self.stack.parents()) == 2)

        acts = collections.Counter()
        with self.load() as load:
            end = time.monotonic() + SECONDS
            for act in itertools.cycle((hup, kill_parent, stop_and_start)):
                time.sleep(0.5)
                act()
                acts[act.__name__] += 1
                if time.monotonic() > end and len(acts) == 3:
                    break
        print(f"  {load.answers} answers, {self.exits('done'):.0f} workers "
              f"recycled, {dict(acts)}, {len(self.failed)} failed, longest "
              f"{load.longest_s:.2f} s")
        self.assertEqual(load.broken, [])
        self.assertEqual(self.failed, [], load)
        self.assertEqual(set(load.statuses), {200})
        # One log line an answer. Only the last request of a worker whose
        # parent is killed may lack it: supervisord closes the parent's pipe.
        time.sleep(0.5)
        logged = self.logged()
        silent = self.answered - set(logged)
        print(f"  {len(silent)} answers without a log line")
        self.assertLessEqual(len(silent), 4 * acts["kill_parent"])
        self.assertEqual([i for i, n in logged.items() if n != 1], [])
        self.assertGreater(self.exits("done"), 20)
        self.assertEqual(self.exits("crash"), 0)
        self.assertEqual(self.exits("deadline"), 0)

    def test_each_killed_worker_costs_at_most_its_own_request(self):
        kills = []
        with self.load() as load:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                time.sleep(1)
                victim = self.victim()
                kills.append(time.monotonic())
                self.stack.kill(victim)
        crashes = self.exits("crash")
        print(f"  {load.answers} answers, {len(kills)} kills, {crashes} "
              f"crashes counted, {len(self.failed)} failed, longest "
              f"{load.longest_s:.2f} s")
        self.assertEqual(load.broken, [])
        self.assertEqual({s for _, _, s in self.failed} - {503}, set())
        # A victim may have been leaving by itself: then it is no crash.
        self.assertLessEqual(crashes, len(kills))
        self.assertGreaterEqual(crashes, len(kills) - 2)
        self.assertLessEqual(len(self.failed), crashes)
        between = collections.Counter(
            sum(kill < when for kill in kills) for when, _, _ in self.failed)
        self.assertNotIn(0, between)
        self.assertTrue(all(n == 1 for n in between.values()), between)
        # The failed ones were in a killed worker's hands: it never got to
        # log them. nginx saw each connection break.
        time.sleep(0.5)
        logged = self.logged()
        self.assertEqual([i for _, i, _ in self.failed if i in logged], [])
        self.assertLessEqual(len(self.answered - set(logged)),
                             crashes - len(self.failed))
        broken = [line for line in self.stack.log("nginx.log").splitlines()
                  if "[error]" in line and "upstream" in line]
        self.assertEqual(len(broken), len(self.failed), broken)


class Held(unittest.TestCase):
    def test_a_worker_killed_with_a_request_in_hand_fails_that_one(self):
        """All eight are held; two are killed: exactly two fail."""
        stack = Stack(workers=8, conf=["partner_share = 100"], env={
            "WAYBILL_TEST_FAULT": "pipeline.before_handler:2:delay=3000"})
        with stack:
            statuses = []
            path = "/wms-ingest/v1/capabilities"
            with Load(stack, lambda n: ("GET", path, {}, None), clients=8,
                      seen=lambda _, a: statuses.append(a.status)):
                time.sleep(2)  # by then every worker is at its second one
                stack.kill(stack.worker_pids()[:2])
                time.sleep(2)
            print(f"  {len(statuses)} answers, {statuses.count(503)} failed")
            self.assertEqual(statuses.count(503), 2)
            self.assertEqual(set(statuses), {200, 503})


if __name__ == "__main__":
    unittest.main()
