#!/usr/bin/env python3
"""Jobs and waybill-worker: every item once, whoever dies; refreshes; releases.

The laws that are tested stand in include/job/queue.h (Q), include/job/run.h
(N) and the contract, sections 4 and 5.
"""
# SPDX-License-Identifier: Apache-2.0
# check: slow
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "lib"))
from jobs import (JobService, REFRESH, SKUS, UOMS,  # noqa: E402
                  uom)
from rows import insert_items, item_row  # noqa: E402
from service import MARIADB  # noqa: E402
from stack import proc_text  # noqa: E402

CHUNKS, EACH = 10, 3
LONG = bool(os.environ.get("WAYBILL_TEST_LONG"))


def chunks(name, count=CHUNKS, each=EACH, version=1):
    return [[uom(f"{name}-{c:03}-{i:04}", version) for i in range(each)]
            for c in range(count)]


class Case(unittest.TestCase):
    conf = {}

    @classmethod
    def setUpClass(cls):
        cls.s = JobService(**cls.conf).__enter__()
        cls.addClassCleanup(cls.s.close)
        cls.s.waybill("partner", "add", "ACME")
        cls.s.waybill("partner", "add", "OTHER")

    def tearDown(self):
        for worker in self.s.workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGCONT)
                worker.kill()
                worker.wait()

    def stopped(self, point):
        """A worker that stands still there."""
        w = self.s.worker(WAYBILL_TEST_FAULT=point + ":stop")
        self.s.wait(lambda: "T (stopped)" in open(
            f"/proc/{w.pid}/status").read(), what="the stop")
        return w

    def cancel_at(self, job, look):
        """Cancels a job while its worker is about to look at it, between two
        steps, for the so manieth time; gives the worker."""
        w = self.stopped(f"db.before.job_get:{look}")
        self.s.waybill("job", "cancel", f"job-{job}")
        w.send_signal(signal.SIGCONT)
        self.s.wait(lambda: not self.s.unfinished())
        return w

    def check_all_once(self, job, name, total, revs=1):
        """Counters, results and items say the same: each was created once."""
        s = self.s
        got = s.job(job)
        self.assertEqual(
            {k: got[k] for k in ("state", "total", "processed", "accepted",
                                 "replay", "quarantined", "rejected")},
            {"state": "COMPLETED", "total": total, "processed": total,
             "accepted": total, "replay": 0, "quarantined": 0, "rejected": 0})
        self.assertEqual(s.sql(
            "SELECT b.accepted, b.replay, COUNT(*), MIN(t.position), "
            "MAX(t.position), MIN(t.status), MAX(t.status) FROM batch b "
            "JOIN batch_item t ON t.batch_id = b.batch_id "
            f"WHERE b.job_id = X'{job}' GROUP BY b.batch_id"),
            [[str(total), "0", str(total), "0", str(total - 1), "1", "1"]])
        self.assertEqual(s.sql(
            "SELECT COUNT(*), MIN(rev), MAX(rev) FROM item "
            f"WHERE partner_id = 1 AND collection = {UOMS} "
            f"AND source_id LIKE '{name}-%'"),
            [[str(total), str(revs), str(revs)]])
        self.assertEqual(s.sql("SELECT SUM(open_jobs) FROM lane"), [["0"]])


class Crash(Case):
    def passings(self):
        """The names of the fault points a whole job passes, in order."""
        path = os.path.join(self.s.dir, "points")
        job = self.s.enqueue(chunks("list"))
        w = self.s.worker(WAYBILL_TEST_FAULT_LIST=path)
        self.s.wait(lambda: not self.s.unfinished())
        self.s.end(w)
        self.check_all_once(job, "list", CHUNKS * EACH)
        with open(path, encoding="utf-8") as f:
            return f.read().split()

    def one_kill(self, at):
        name = f"k{at}"
        job = self.s.enqueue(chunks(name))
        w = self.s.worker(WAYBILL_TEST_FAULT=f"*:{at}:kill")
        self.s.wait(lambda: w.poll() is not None, what=f"kill at {at}")
        self.assertEqual(w.returncode, -signal.SIGKILL)
        self.s.let_leases_end()
        self.s.work()
        self.check_all_once(job, name, CHUNKS * EACH)

    def test_a_worker_killed_anywhere_leaves_every_item_applied_once(self):
        points = self.passings()
        last = max(i for i, n in enumerate(points, 1) if "job_finish" in n)
        seen, wanted = {}, []
        for i, name in enumerate(points[:last], 1):
            seen[name] = seen.get(name, 0) + 1
            # The first, one in the middle, and all of them at full size.
            if LONG or seen[name] in (1, 4):
                wanted.append(i)
        self.assertGreater(len(wanted), 40)
        for at in wanted:
            with self.subTest(at=at, point=points[at - 1]):
                self.one_kill(at)

    def test_a_late_owner_writes_nothing(self):
        """Q2: stopped inside a chunk, past its lease, and let on again."""
        for point in ("db.before.job_checkpoint:3", "db.before.job_lock:4",
                      "db.before.commit:6"):
            with self.subTest(point=point):
                name = "late" + point[-1]
                job = self.s.enqueue(chunks(name))
                late = self.stopped(point)
                other = self.s.worker()
                self.s.wait(lambda: not self.s.unfinished(), 40)
                late.send_signal(signal.SIGCONT)
                time.sleep(1)
                self.s.end(late)
                self.s.end(other)
                self.check_all_once(job, name, CHUNKS * EACH)

    def test_a_job_that_kills_three_workers_is_failed(self):
        """Q3"""
        job = self.s.enqueue(chunks("fatal"))
        for _ in range(3):
            w = self.s.worker(
                WAYBILL_TEST_FAULT="db.before.item_upsert:1:kill")
            self.s.wait(lambda w=w: w.poll() is not None)
            self.s.let_leases_end()
        self.s.work()
        got = self.s.job(job)
        self.assertEqual((got["state"], got["error_slug"], got["processed"]),
                         ("FAILED", "worker-lost", 0))
        self.assertIn("chunk 0", got["error_detail"])
        self.assertEqual(self.s.sql("SELECT SUM(open_jobs) FROM lane"),
                         [["0"]])

    def test_sigterm_ends_the_chunk_and_gives_the_job_back(self):
        """N4"""
        job = self.s.enqueue(chunks("term"))
        w = self.s.worker(
            WAYBILL_TEST_FAULT="db.before.item_upsert:3:delay=1500")
        self.s.wait(lambda: self.s.job(job)["next_chunk"] == 2)
        self.s.end(w)
        got = self.s.job(job)
        self.assertEqual((got["state"], got["next_chunk"], got["attempt"]),
                         ("QUEUED", 3, 0))
        self.s.work()
        self.check_all_once(job, "term", CHUNKS * EACH)

    def test_a_restart_of_the_database_is_no_lost_worker(self):
        """N2"""
        job = self.s.enqueue(chunks("restart", 60))
        w = self.s.worker(
            WAYBILL_TEST_FAULT="db.before.job_checkpoint:20:delay=1000")
        self.s.wait(lambda: self.s.job(job)["next_chunk"] > 5)
        for verb in ("kill", "start"):
            subprocess.run(["sh", MARIADB, verb, self.s.db], check=True,
                           stdout=subprocess.DEVNULL)
            time.sleep(1.5)  # longer than the delay: it finds nobody there
        self.s.wait(lambda: not self.s.unfinished(), 40)
        self.s.end(w)
        self.check_all_once(job, "restart", 60 * EACH)
        with open(self.s.log, encoding="utf-8") as f:
            logged = [json.loads(line) for line in f]
        self.assertEqual([e for e in logged if e["pid"] == w.pid
                          and e["level"] == "error"], [])

    def test_two_workers_do_many_jobs_once_and_in_order(self):
        """Q1, Q2"""
        jobs = [self.s.enqueue([[uom("same", v), uom(f"two-{v:03}-0", 1)]])
                for v in range(1, 21)]
        self.s.work(workers=2)
        self.assertEqual({self.s.job(j)["accepted"] for j in jobs}, {2})
        self.assertEqual(self.s.sql(
            "SELECT source_version, rev FROM item WHERE source_id = 'same'"),
            [["20", "20"]])


class Turns(Case):
    conf = {"run_slice": "50ms"}

    def test_a_slow_job_does_not_hold_up_another_partner(self):
        """N1"""
        slow = self.s.enqueue(chunks("slow", 200, 50))
        w = self.s.worker()
        self.s.wait(lambda: self.s.job(slow)["next_chunk"] > 5)
        quick = self.s.enqueue(chunks("quick", 1), partner=2)
        self.s.wait(lambda: self.s.job(quick)["state"] == "COMPLETED")
        self.assertLess(self.s.job(slow)["next_chunk"], 200)
        self.s.wait(lambda: not self.s.unfinished(), 60)
        self.s.end(w)
        self.check_all_once(slow, "slow", 200 * 50)

    def many_slow_jobs(self, workers):
        """A partner has more jobs than there are workers, and all workers
        are at them, when another one's comes."""
        lanes = range(5)
        for lane in lanes:
            self.s.enqueue(chunks(f"many{workers}-{lane}", 150, 50),
                           collection=lane)
        started = [self.s.worker() for _ in range(workers)]
        self.s.wait(lambda: self.s.sql(
            "SELECT COUNT(*) FROM job WHERE partner_id = 1 AND open_as IS NOT "
            "NULL AND lease_until > NOW(6)") == [[str(workers)]])
        quick = self.s.enqueue(chunks(f"quick{workers}", 1), partner=2)
        self.s.wait(lambda: self.s.job(quick)["state"] == "COMPLETED")
        self.assertEqual(self.s.unfinished(), len(lanes),
                         "it waited, or the others were too quick")
        for w in started:
            self.s.end(w)
        self.s.sql("UPDATE job SET cancel_requested = 1 "
                   "WHERE open_as IS NOT NULL")
        self.s.work()

    def test_many_slow_jobs_leave_the_only_worker_to_another_partner(self):
        """N1, Q5"""
        self.many_slow_jobs(1)

    def test_many_slow_jobs_leave_one_of_two_workers_to_another_partner(self):
        """N1, Q5"""
        self.many_slow_jobs(2)

    def test_a_cancelled_job_stops_between_chunks(self):
        job = self.s.enqueue(chunks("stop", 100, 20))
        w = self.s.worker()
        self.s.wait(lambda: self.s.job(job)["next_chunk"] > 2)
        # By hand, and so without the retry a deadlock with the worker's
        # checkpoint asks for.
        self.s.wait(lambda: not self.s.sql(
            "UPDATE job SET cancel_requested = 1 "
            f"WHERE partner_id = 1 AND job_id = X'{job}'", ok=False))
        self.s.wait(lambda: not self.s.unfinished())
        self.s.end(w)
        got = self.s.job(job)
        self.assertEqual(got["state"], "CANCELLED")
        self.assertLess(got["next_chunk"], 100)
        self.assertEqual(got["accepted"], got["next_chunk"] * 20)
        self.assertEqual(self.s.sql(
            "SELECT COUNT(*) FROM item WHERE source_id LIKE 'stop-%'"),
            [[str(got["accepted"])]])

    def test_a_job_may_be_written_by_others_while_it_runs(self):
        """Everybody locks the row first and by one index: no deadlocks."""
        job = self.s.enqueue(chunks("shared", 150, 20))
        w = self.s.worker()
        self.s.wait(lambda: self.s.job(job)["next_chunk"] > 2)
        said = [self.s.sql("UPDATE job SET bytes = bytes + 1 "
                           f"WHERE partner_id = 1 AND job_id = X'{job}'",
                           ok=False) for _ in range(15)]
        self.assertGreater(self.s.unfinished(), 0, "it was too quick")
        self.s.wait(lambda: not self.s.unfinished())
        self.s.end(w)
        self.assertEqual(set(said), {""})
        self.check_all_once(job, "shared", 150 * 20)

    def test_a_malformed_item_fails_alone(self):
        job = self.s.enqueue([[uom("good", 1), {"source_id": "bad"}, 7],
                              [uom("good", 1)]])
        self.s.work()
        got = self.s.job(job)
        self.assertEqual([got[k] for k in (
            "state", "processed", "accepted", "replay", "rejected")],
            ["COMPLETED", 4, 1, 1, 2])


class Refresh(Case):
    def state(self, prefix):
        return {r[0]: r[1] for r in self.s.sql(
            "SELECT state, COUNT(*) FROM item WHERE partner_id = 1 "
            f"AND source_id LIKE '{prefix}%' GROUP BY state")}

    def setUp(self):
        self.s.sql("DELETE FROM item; DELETE FROM item_history; "
                   "DELETE FROM refresh_name; DELETE FROM job; UPDATE lane SET open_jobs = 0, "
                   "open_refreshes = 0")

    def held(self, count, name="r"):
        job = self.s.enqueue([[uom(f"{name}{i:05}", 1)
                               for i in range(at, min(at + 1000, count))]
                              for at in range(0, count, 1000)])
        self.s.work()
        self.assertEqual(self.s.job(job)["accepted"], count)
        time.sleep(0.01)

    def test_what_is_not_named_is_tombstoned_and_can_be_undone(self):
        self.held(2500)
        job = self.s.enqueue([[uom(f"r{i:05}", 2) for i in range(1000)],
                              [uom("new", 1)]], REFRESH, confirmed=1)
        self.s.work()
        got = self.s.job(job)
        self.assertEqual([got[k] for k in ("state", "accepted", "tombstoned")],
                         ["COMPLETED", 1001, 1500])
        self.assertEqual(self.state("r"), {"1": "1000", "2": "1500"})
        self.assertEqual(self.s.sql(
            "SELECT b.tombstoned, COUNT(*), MIN(t.position), MAX(t.position) "
            "FROM batch b JOIN batch_item t ON t.batch_id = b.batch_id AND "
            f"t.status = 5 WHERE b.job_id = X'{job}' GROUP BY b.batch_id"),
            [["1500", "1500", "1001", "2500"]])
        w = self.s.worker()
        self.s.wait(lambda: self.s.sql(
            "SELECT COUNT(*) FROM refresh_name") == [["0"]])
        self.s.end(w)

    def test_too_destructive_applies_nothing(self):
        self.held(300)
        job = self.s.enqueue([[uom("r00000", 2), uom("new", 1)]], REFRESH)
        self.s.work()
        got = self.s.job(job)
        self.assertEqual(
            [got[k] for k in ("state", "error_slug", "processed")],
            ["FAILED", "refresh-too-destructive", 0])
        self.assertEqual(self.state("r"), {"1": "300"})

    def test_the_second_guard_keeps_tombstones_away(self):
        """500 more are there by the time all is applied."""
        self.held(300)
        job = self.s.enqueue([[uom(f"r{i:05}", 2)] for i in range(200)],
                             REFRESH)
        w = self.s.worker(
            WAYBILL_TEST_FAULT="db.after.item_upsert:150:delay=1500")
        self.s.wait(lambda: self.s.job(job)["next_chunk"] >= 149)
        insert_items(self.s, [item_row(f"old{i:05}", collection=UOMS)
                              for i in range(500)])
        self.s.wait(lambda: not self.s.unfinished())
        self.s.end(w)
        got = self.s.job(job)
        self.assertEqual([got[k] for k in ("state", "error_slug", "accepted",
                                           "tombstoned")],
                         ["FAILED", "refresh-too-destructive", 200, 0])
        self.assertIn("600 of 800", got["error_detail"])
        self.assertEqual(self.state("r"), {"1": "300"})

    def test_what_was_touched_meanwhile_is_not_tombstoned(self):
        self.held(50)
        job = self.s.enqueue([[uom("r00000", 2)]], REFRESH)
        self.s.sql("UPDATE item SET updated_at = NOW(3) + INTERVAL 1 SECOND "
                   "WHERE source_id = 'r00007'")
        self.s.work()
        self.assertEqual(self.s.job(job)["tombstoned"], 48)
        self.assertEqual(self.s.sql(
            "SELECT source_id FROM item WHERE state = 1 ORDER BY 1"),
            [["r00000"], ["r00007"]])

    def test_a_cancelled_one_keeps_its_names_and_goes_on(self):
        """Queued again, it does not tombstone what it names."""
        self.held(2500)
        named = [[uom(f"r{i:05}", 2) for i in range(0, 2500, 10)]]
        job = self.s.enqueue(named, REFRESH, confirmed=1)
        # Claimed, guarded, applied, guarded, 1,000 tombstones: six looks.
        w = self.cancel_at(job, 6)
        got = self.s.job(job)
        self.assertEqual((got["state"], got["tombstoned"]),
                         ("CANCELLED", 1000))
        # A completed one's names go, and so the worker has looked.
        other = self.s.enqueue([[uom("x", 1)]], REFRESH, partner=2)
        self.s.wait(lambda: self.s.sql(
            "SELECT COUNT(*) FROM refresh_name WHERE job_id = "
            f"X'{other}'") == [["0"]])
        self.s.end(w)
        self.assertEqual(self.s.sql("SELECT COUNT(*) FROM refresh_name"),
                         [["250"]])
        self.s.waybill("job", "requeue", f"job-{job}")
        self.s.work()
        self.assertEqual(self.s.job(job)["tombstoned"], 2250)
        self.assertEqual(self.s.sql(
            "SELECT state, COUNT(*), MIN(rev), MAX(rev) FROM item "
            "WHERE partner_id = 1 GROUP BY state"),
            [["1", "250", "2", "2"], ["2", "2250", "2", "2"]])

    def test_a_worker_killed_while_tombstoning_leaves_each_done_once(self):
        for at in range(1, 8):
            for point in ("db.before.job_checkpoint", "db.sent.commit",
                          "db.after.item_set_state"):
                with self.subTest(point=point, at=at):
                    self.setUp()
                    self.held(2500)
                    job = self.s.enqueue([[uom("r00000", 2)]], REFRESH,
                                         confirmed=1)
                    w = self.s.worker(
                        WAYBILL_TEST_FAULT=f"{point}:{at}:kill")
                    self.s.wait(lambda w=w: w.poll() is not None
                                or not self.s.unfinished())
                    if w.poll() is None:
                        self.s.end(w)
                    self.s.let_leases_end()
                    self.s.work()
                    self.assertEqual(self.s.job(job)["tombstoned"], 2499)
                    self.assertEqual(self.s.sql(
                        "SELECT MAX(rev), SUM(state = 2) FROM item"),
                        [["2", "2499"]])


class Poison(Case):
    """An item that kills whoever touches it."""
    # No lease ends by itself while the test looks.
    conf = {"lease": "120s"}
    KILL = {"WAYBILL_TEST_FAULT": "apply.item=bad-002-0001:1:kill"}

    def results(self, job):
        """How many rows of each status the job has, and where they end."""
        return self.s.sql(
            "SELECT t.status, COUNT(*), MAX(position) FROM batch_item t JOIN "
            f"job j ON j.batch_id = t.batch_id WHERE job_id = X'{job}' "
            "GROUP BY t.status")

    def one_death(self, job, n):
        """A worker dies of the job; the next goes on with another
        partner's."""
        w = self.s.worker(**self.KILL)
        self.s.wait(lambda: w.poll() is not None, what="a death")
        self.assertEqual(w.returncode, -signal.SIGKILL)
        other = self.s.enqueue(chunks(f"other{n}", 2), partner=2)
        w = self.s.worker(**self.KILL)
        self.s.wait(lambda: self.s.job(other)["state"] == "COMPLETED",
                    what="another partner's job")
        self.s.end(w)
        self.assertEqual(self.s.job(job)["state"], "RUNNING")
        self.s.let_leases_end()

    def test_it_fails_its_job_alone_and_a_requeue_mends_it(self):
        s = self.s
        bad = s.enqueue(chunks("bad", 5))
        behind = s.enqueue(chunks("behind", 1))  # in the same lane
        for n in range(3):
            self.one_death(bad, n)
        w = s.worker(**self.KILL)
        s.wait(lambda: s.job(behind)["state"] == "COMPLETED",
               what="the next job of the lane")
        s.end(w)
        got = s.job(bad)
        self.assertEqual([got[k] for k in (
            "state", "error_slug", "next_chunk", "processed", "accepted",
            "replay", "quarantined", "rejected")],
            ["FAILED", "worker-lost", 2, 6, 6, 0, 0, 0])
        self.assertEqual(got["error_detail"], "3 workers were lost at chunk 2 "
                         "of 5, after 6 of 15 items")
        self.assertEqual(self.results(bad), [["1", "6", "5"]])
        self.assertEqual(s.sql("SELECT COUNT(*), MAX(source_id) FROM item "
                               "WHERE source_id LIKE 'bad-%'"),
                         [["6", "bad-001-0002"]])
        # Mended: workers that do not die of it.
        s.waybill("job", "requeue", f"job-{bad}")
        s.work(workers=2)
        self.check_all_once(bad, "bad", 15)
        self.assertEqual(self.results(bad), [["1", "15", "14"]])


class Undo(Case):
    """Undoing a refresh that tombstoned more than a request may touch."""
    conf = {"bulk_async_threshold": "100"}
    COUNT = 2500  # three parts

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.s.serve()
        cls.key = cls.s.key("ACME")
        cls.s.enqueue([[uom(f"u{i:05}", 1) for i in range(at, at + 500)]
                       for at in range(0, cls.COUNT, 500)])
        cls.s.work()

    def refresh(self):
        """All but one are INACTIVE then; gives its batch."""
        job = self.s.enqueue([[uom("u00000", 1)]], REFRESH, confirmed=1)
        self.s.work()
        self.assertEqual(self.s.job(job)["tombstoned"], self.COUNT - 1)
        return self.s.sql("SELECT LOWER(HEX(batch_id)) FROM job "
                          f"WHERE job_id = X'{job}'")[0][0]

    def undo(self, batch):
        got = self.s.request(
            "POST", f"/wms-ingest/v1/batches/bat-{batch}/undo-refresh",
            self.key, b"", [("X-Correlation-Id", str(uuid.uuid4()))])
        self.assertEqual(got.status, 202, got.body)
        return got.json()["job_id"][4:]

    def revs(self):
        return self.s.sql("SELECT MIN(rev), MAX(rev), SUM(state = 1) FROM item"
                          " WHERE source_id <> 'u00000'")[0]

    def check_restored_once(self, job, before):
        got, count = self.s.job(job), self.COUNT - 1
        self.assertEqual([got[k] for k in ("state", "total", "processed",
                                           "restored")],
                         ["COMPLETED", count, count, count])
        rev = str(int(before[1]) + 1)
        self.assertEqual(self.revs(), [rev, rev, str(count)])
        self.assertEqual(self.s.sql(
            "SELECT COUNT(*), MIN(position), MAX(position), MIN(status), "
            "MAX(status), COUNT(DISTINCT source_id) FROM batch_item t "
            f"JOIN job j ON j.batch_id = t.batch_id WHERE job_id = X'{job}'"),
            [[str(count), "0", str(count - 1), "6", "6", str(count)]])
        self.assertEqual(self.s.sql("SELECT SUM(open_jobs), "
                                    "SUM(open_refreshes) FROM lane"),
                         [["0", "0"]])

    def points(self):
        path = os.path.join(self.s.dir, "points")
        batch = self.refresh()
        job, before = self.undo(batch), self.revs()
        w = self.s.worker(WAYBILL_TEST_FAULT_LIST=path)
        self.s.wait(lambda: not self.s.unfinished())
        self.s.end(w)
        self.check_restored_once(job, before)
        with open(path, encoding="utf-8") as f:
            return f.read().split()

    def one_kill(self, at):
        batch = self.refresh()
        job, before = self.undo(batch), self.revs()
        w = self.s.worker(WAYBILL_TEST_FAULT=f"*:{at}:kill")
        self.s.wait(lambda: w.poll() is not None, what=f"kill at {at}")
        self.assertEqual(w.returncode, -signal.SIGKILL)
        self.s.let_leases_end()
        self.s.work()
        self.check_restored_once(job, before)

    def test_a_worker_killed_anywhere_restores_every_item_once(self):
        points = self.points()
        first = points.index("db.before.job_claim")
        last = max(i for i, n in enumerate(points, 1) if "job_finish" in n)
        seen, wanted = {}, []
        for i, name in enumerate(points[:last], 1):
            seen[name] = seen.get(name, 0) + 1
            if i > first and (LONG or seen[name] == 2
                              or "job_finish" in name):
                wanted.append(i)
        self.assertGreater(len(wanted), 15)
        for at in wanted:
            with self.subTest(at=at, point=points[at - 1]):
                self.one_kill(at)

    def test_a_late_owner_restores_nothing(self):
        batch = self.refresh()
        job, before = self.undo(batch), self.revs()
        late = self.stopped("db.before.job_checkpoint:2")
        other = self.s.worker()
        self.s.wait(lambda: not self.s.unfinished(), 40)
        late.send_signal(signal.SIGCONT)
        self.s.end(late)
        self.s.end(other)
        self.check_restored_once(job, before)

    def test_it_can_be_cancelled_and_queued_again(self):
        batch = self.refresh()
        job, before = self.undo(batch), self.revs()
        self.s.end(self.cancel_at(job, 3))
        got = self.s.job(job)
        self.assertEqual((got["state"], got["restored"]), ("CANCELLED", 1000))
        self.assertEqual(self.revs()[2], "1000")
        self.s.waybill("job", "requeue", f"job-{job}")
        self.s.work()
        self.check_restored_once(job, before)


class UndoRace(Case):
    """A refresh that ends while somebody asks to undo it."""

    def stopped_server(self):
        """The FastCGI worker that stands still."""
        parent = self.s.fcgi.pid
        with open(f"/proc/{parent}/task/{parent}/children",
                  encoding="utf-8") as f:
            for pid in f.read().split():
                if "T (stopped)" in proc_text(pid, "status"):
                    return int(pid)
        return None

    def test_all_of_it_is_undone_or_nothing(self):
        s = self.s
        s.enqueue([[uom(f"u{i:05}", 1) for i in range(at, at + 500)]
                   for at in range(0, 2500, 500)])
        s.work()
        job = s.enqueue([[uom("u00000", 1)]], REFRESH, confirmed=1)
        worker = self.stopped("db.before.job_get:6")
        self.assertEqual(s.job(job)["tombstoned"], 1000)
        batch = s.sql("SELECT LOWER(HEX(batch_id)) FROM job WHERE job_id = "
                      f"X'{job}'")[0][0]
        s.env["WAYBILL_TEST_FAULT"] = "db.after.batch_find:1:stop"
        s.serve()
        del s.env["WAYBILL_TEST_FAULT"]
        key, got = s.key("ACME"), []
        asking = threading.Thread(target=lambda: got.append(s.request(
            "POST", f"/wms-ingest/v1/batches/bat-{batch}/undo-refresh", key,
            b"", [("X-Correlation-Id", str(uuid.uuid4()))])))
        asking.start()
        s.wait(self.stopped_server, what="the look at the batch")
        worker.send_signal(signal.SIGCONT)
        s.wait(lambda: not s.unfinished())
        s.end(worker)
        os.kill(self.stopped_server(), signal.SIGCONT)
        asking.join()
        self.assertEqual(got[0].status, 200, got[0].body)
        self.assertEqual((got[0].json()["restored"],
                          got[0].json()["skipped"]), (2499, 0))
        self.assertEqual(s.sql("SELECT COUNT(*) FROM item WHERE state = 2"),
                         [["0"]])


class Release(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.s.serve()
        cls.key = cls.s.key("ACME")

    def be(self, name):
        """A partner of the test's own."""
        self.s.waybill("partner", "add", name)
        key, self.key = self.key, self.s.key(name)
        self.addCleanup(setattr, self, "key", key)
        return int(self.s.sql("SELECT partner_id FROM partner "
                              f"WHERE name = '{name}'")[0][0])

    def post(self, path, body):
        data = json.dumps(body).encode()
        return self.s.request(
            "POST", "/wms-ingest/v1/" + path, self.key, data,
            [("Content-Type", "application/json"),
             ("X-Correlation-Id", str(uuid.uuid4()))])

    def items(self, path, *items):
        got = self.post(path, {"items": list(items)})
        self.assertIn(got.status, (200, 207), got.body)
        return [r["status"] for r in got.json()["results"]]

    def chain(self, n):
        """A bin and its zone, whose warehouse has not come."""
        at = "master/locations"
        return (self.items(at, {"source_id": f"B{n}", "name": "b",
                                "kind": "BIN", "parent_source_id": f"Z{n}"}) +
                self.items(at, {"source_id": f"Z{n}", "name": "z",
                                "kind": "ZONE",
                                "parent_source_id": f"W{n}"}))

    def warehouse(self, n, kind="WAREHOUSE"):
        more = {} if kind == "WAREHOUSE" else {"parent_source_id": f"W{n}x"}
        return self.items("master/locations",
                          {"source_id": f"W{n}", "name": "w", "kind": kind,
                           **more})

    def active(self, *names):
        listed = ",".join(f"'{n}'" for n in names)
        return int(self.s.sql(
            "SELECT COUNT(*) FROM item WHERE state = 1 AND source_id IN "
            f"({listed})")[0][0])

    def test_a_chain_heals_when_its_end_comes(self):
        self.s.waybill("partner", "set", "ACME", "--auto-release")
        w = self.s.worker()
        self.assertEqual(self.chain(1), ["QUARANTINED"] * 2)
        time.sleep(0.3)
        self.assertEqual(self.active("B1", "Z1"), 0)
        self.assertEqual(self.warehouse(1), ["ACCEPTED"])
        self.s.wait(lambda: self.active("B1", "Z1", "W1") == 3, 10,
                    "the chain")
        self.s.end(w)
        self.assertEqual(self.s.sql(
            "SELECT DISTINCT state FROM quarantine WHERE source_id IN "
            "('B1', 'Z1')"), [["2"]])

    def test_a_thing_of_the_wrong_kind_is_looked_at_once(self):
        self.s.waybill("partner", "set", "ACME", "--auto-release")
        self.items("master/locations", {"source_id": "W3x", "name": "w",
                                        "kind": "WAREHOUSE"})
        self.chain(3)
        self.assertEqual(self.warehouse(3, "ZONE"), ["ACCEPTED"])
        w = self.s.worker()
        self.s.wait(lambda: self.s.sql(
            "SELECT code FROM quarantine WHERE source_id = 'Z3'") == [["3"]])
        time.sleep(2.5)
        self.s.end(w)
        self.assertEqual(self.s.sql(
            "SELECT attempts, state FROM quarantine WHERE source_id = 'Z3'"),
            [["2", "1"]])

    def test_many_workers_let_each_go_once(self):
        self.s.waybill("partner", "set", "ACME", "--auto-release")
        skus = [{"source_id": f"S{i:04}", "name": "s", "base_uom": "EA"}
                for i in range(1500)]
        self.assertEqual(set(self.items("master/skus", *skus)),
                         {"QUARANTINED"})
        self.items("master/uoms", uom("EA", 1))
        workers = [self.s.worker() for _ in range(3)]
        self.s.wait(lambda: self.s.sql(
            "SELECT COUNT(*) FROM quarantine_wait WHERE source_id = 'EA'") ==
            [["0"]], 40, "all let go")
        for w in workers:
            self.s.end(w)
        self.assertEqual(self.s.sql(
            "SELECT COUNT(*), MAX(rev) FROM item WHERE source_id LIKE 'S%' "
            f"AND collection = {SKUS} AND state = 1"), [["1500", "1"]])

    def test_all_that_match_are_released_as_a_job(self):
        self.be("HAND")
        skus = [{"source_id": f"H{i:03}", "name": "s",
                 "base_uom": "BOX" if i % 2 else "PAL"} for i in range(250)]
        self.items("master/skus", *skus)
        self.items("master/uoms", uom("BOX", 1))
        got = self.post("quarantine/release?collection=skus&missing=BOX", {})
        self.assertEqual(got.status, 202, got.body)
        answer = got.json()
        self.assertEqual(answer["received"]["items"], 125)
        self.assertEqual(got.header("Location"), answer["status_url"])
        everything = self.post("quarantine/release", {}).json()
        self.s.work()
        first = self.s.job(answer["job_id"][4:])
        self.assertEqual([first[k] for k in (
            "state", "processed", "accepted", "quarantined")],
            ["COMPLETED", 125, 125, 0])
        second = self.s.job(everything["job_id"][4:])
        self.assertEqual(second["state"], "COMPLETED")
        self.assertEqual(second["quarantined"], 125)
        self.assertEqual(self.post(
            "quarantine/release?collection=nope", {}).status, 400)

    def test_a_refresh_waits_for_the_jobs_of_its_collection(self):
        self.s.enqueue([[uom("lane", 1)]], partner=self.be("LANE"))
        body = {"items": [uom("lane", 2)]}
        got = self.post("master/uoms?mode=full-refresh&confirm=true", body)
        self.assertEqual(got.status, 409, got.body)
        self.assertTrue(got.json()["type"].endswith("#job-in-flight"))
        got = self.post("master/uoms?mode=full-refresh&dry_run=true", body)
        self.assertEqual(got.status, 409, got.body)
        self.assertEqual(self.items("master/uoms", uom("other", 1)),
                         ["ACCEPTED"])
        self.s.work()
        got = self.post("master/uoms?mode=full-refresh&confirm=true", body)
        self.assertEqual(got.status, 200, got.body)

    def test_a_bulk_of_the_api_is_worked_off(self):
        lines = "".join(json.dumps(uom(f"api-{i:05}", 1)) + "\n"
                        for i in range(6000))
        got = self.s.request(
            "POST", "/wms-ingest/v1/master/uoms?mode=bulk", self.key,
            lines.encode(), [("Content-Type", "application/x-ndjson"),
                             ("X-Correlation-Id", str(uuid.uuid4()))])
        self.assertEqual(got.status, 202, got.body)
        job = got.json()["job_id"][4:]
        self.s.work()
        self.check_all_once(job, "api", 6000)
        self.assertEqual(self.s.sql(
            "SELECT position, line FROM batch_item t JOIN batch b ON "
            f"b.batch_id = t.batch_id WHERE b.job_id = X'{job}' AND "
            "position IN (0, 1000, 5999)"),
            [["0", "1"], ["1000", "1001"], ["5999", "6000"]])

    def test_a_refresh_of_the_api_becomes_a_job_and_can_be_undone(self):
        number = self.be("LARGE")
        body = {"items": [uom(f"L{i:05}", 1) for i in range(4000)]}
        self.items("master/uoms", *body["items"])
        for item in body["items"]:
            item["source_id"] = "M" + item["source_id"]
        got = self.post("master/uoms?mode=full-refresh&confirm=true", body)
        self.assertEqual(got.status, 202, got.body)
        self.s.work()
        job = self.s.job(got.json()["job_id"][4:])
        self.assertEqual([job[k] for k in ("state", "accepted", "tombstoned")],
                         ["COMPLETED", 4000, 4000])
        batch = self.s.sql("SELECT LOWER(HEX(batch_id)) FROM job WHERE job_id "
                           f"= X'{got.json()['job_id'][4:]}'")[0][0]
        got = self.post(f"batches/bat-{batch}/undo-refresh", {})
        self.assertEqual(got.status, 200, got.body)
        self.assertEqual(got.json()["restored"], 4000)
        self.assertEqual(self.s.sql(
            "SELECT COUNT(*) FROM item WHERE state = 1 AND partner_id = "
            f"{number}"), [["8000"]])


if __name__ == "__main__":
    unittest.main(verbosity=1)
