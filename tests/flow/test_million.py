"""One file of 1,000,000 SKUs by `waybill send --bulk` (20,000 without --long):
it ends, no process grows with it, what is told of it never runs backwards, and
counters, results and items are the same figures."""
# SPDX-License-Identifier: Apache-2.0
# check: slow
import collections
import json
import os
import subprocess
import threading
import time
import unittest

from items import NUMBER, Partner, uom
from stack import LONG, Stack, proc_text, wait_for

ITEMS = 1000000 if LONG else 20000
KIB_MAX = 64 * 1024
PROGRAMS = ("waybill-fcgi", "waybill-worker", "nginx")
DATABASE = ["innodb-buffer-pool-size = 512M", "innodb-log-file-size = 256M"]
# One in so many is held back, and one is wrong.
EACH = 1000


def sku(i):
    made = {"source_id": f"S{i:07}", "source_version": 1,
            "name": f"thing {i}", "base_uom": "NO" if i % EACH == 7 else "EA",
            "weight_kg": i / 8}
    if i % EACH == 9:
        del made["name"]
    return made


class Peaks(threading.Thread):
    """The most memory each process ever had, as long as stop() is not
    called: {(program, pid): KiB}."""

    def __init__(self, stack, sender):
        super().__init__(daemon=True)
        self.stack, self.sender = stack, sender
        self.seen = {}
        self.over = threading.Event()

    def look(self):
        pids = [("waybill send", self.sender)] + [
            (name, pid) for name in PROGRAMS for pid in self.stack.pids(name)]
        for key in pids:
            for line in proc_text(key[1], "status").splitlines():
                if line.startswith("VmHWM:"):
                    self.seen[key] = int(line.split()[1])

    def run(self):
        self.look()
        while not self.over.wait(0.2):
            self.look()

    def stop(self):
        self.over.set()
        self.join()

    def by_program(self):
        most = collections.Counter()
        for (name, _), kib in self.seen.items():
            most[name] = max(most[name], kib)
        return dict(most)


class Million(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Stack(database=DATABASE if LONG else ()).__enter__()
        cls.addClassCleanup(cls.s.__exit__, None)

    def setUp(self):
        self.p = Partner(self.s)
        self.addCleanup(self.p.close)
        self.p.outcomes("uoms", [uom("EA")])

    def start_sending(self):
        path = os.path.join(self.s.base, "skus.ndjson")
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(sku(i)) + "\n" for i in range(ITEMS))
        return subprocess.Popen(
            [os.path.join(self.s.programs, "waybill"), "--json", "send",
             "--url", self.s.url, "--ca",
             os.path.join(self.s.var, "tls", "ca.pem"), "--collection",
             "skus", "--bulk", path], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            env={**self.s.environment(), "WAYBILL_KEY": self.p.key})

    def job(self):
        """The partner's one job, or None while it is on its way."""
        listed = self.p.get("/jobs").json()["items"]
        return listed[0] if listed else None

    def follow(self, sender):
        """Every look at the job must be at or behind the one before."""
        wait_for(lambda: self.job() or sender.poll() is not None, 600,
                 "the job")
        path = "/jobs/" + self.job()["job_id"]
        before, looks = None, 0
        while True:
            now = self.p.get(path).json()
            if before:
                self.check_order(before, now)
            before, looks = now, looks + 1
            if now["finished_at"]:
                return now, looks
            time.sleep(0.05)

    def check_order(self, before, now):
        figures = lambda j: [  # noqa: E731
            j["progress"]["processed"], j["progress"]["percent"],
            *(j["summary"][k] for k in ("accepted", "replay", "quarantined",
                                        "rejected"))]
        for a, b in zip(figures(before), figures(now)):
            self.assertLessEqual(a, b, (before, now))
        self.assertEqual(sum(figures(now)[2:]), now["progress"]["processed"])
        self.assertEqual(now["progress"]["total"], ITEMS)

    def check_results(self, job):
        """The stream of results: whole, in order, as the counters say."""
        counts = collections.Counter()
        with self.s.session(timeout=600) as session:
            session.http.request(
                "GET", f"/wms-ingest/v1/jobs/{job['job_id']}/results",
                headers={"Accept": "application/x-ndjson",
                         "Authorization": f"Bearer {self.p.key}"})
            response = session.http.getresponse()
            self.assertEqual(response.headers["X-Results-Count"], str(ITEMS))
            for i, line in enumerate(response):
                result = json.loads(line)
                if result["index"] != i:
                    self.fail(f"{result} stands at {i}")
                counts[result["status"].lower()] += 1
        self.assertEqual(counts, {k: v for k, v in job["summary"].items()
                                  if k != "total" and v})

    def test_a_large_file_is_taken_in_and_worked_off(self):
        sender = self.start_sending()
        self.addCleanup(sender.stdout.close)
        self.addCleanup(sender.stderr.close)
        begun = time.monotonic()
        peaks = Peaks(self.s, sender.pid)
        peaks.start()
        job, looks = self.follow(sender)
        out, err = sender.communicate()
        seconds = time.monotonic() - begun
        wrong = ITEMS // EACH
        self.assertEqual(sender.returncode, 4, err)
        self.assertEqual((job["status"], job["summary"]), ("COMPLETED", {
            "total": ITEMS, "accepted": ITEMS - 2 * wrong, "replay": 0,
            "quarantined": wrong, "rejected": wrong}))
        sent = json.loads(out)
        self.assertEqual({k: sent[k] for k in job["summary"]},
                         job["summary"])
        self.check_results(job)
        peaks.stop()
        self.assertEqual(self.s.sql(
            "SELECT COUNT(*), SUM(state), SUM(rev) FROM item WHERE "
            f"partner_id = {self.p.no} AND collection = {NUMBER['skus']}"),
            [[str(ITEMS - 2 * wrong)] * 3])
        print(f"{ITEMS} items in {seconds:.1f} s, the job itself at "
              f"{job['rate']} items/s, {looks} looks; peak KiB: "
              f"{peaks.by_program()}", flush=True)
        self.assertEqual(set(peaks.by_program()),
                         {"waybill send", *PROGRAMS})
        self.assertLess(max(peaks.seen.values()), KIB_MAX, peaks.seen)


if __name__ == "__main__":
    unittest.main()
