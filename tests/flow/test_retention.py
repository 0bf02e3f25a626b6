#!/usr/bin/env python3
"""waybill retention run: day partitions, and what is dropped and swept; and
what doctor says of them. Those in brackets are guarantees of
include/db/partition.h."""
# SPDX-License-Identifier: Apache-2.0
# check: slow
import json
import os
import signal
import subprocess
import sys
import time
import unittest
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "lib"))
from service import Service  # noqa: E402

TABLES = ("response", "batch", "batch_item", "job_chunk")
MAX = "MAXVALUE"


class Days(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Service().__enter__()
        cls.addClassCleanup(cls.s.close)

    def setUp(self):
        self.today = int(time.time()) // 86400
        self.lay()

    def lay(self, *days, tables=TABLES):
        """Partitions of these days, and no row."""
        for table in tables:
            parts = "".join(f"PARTITION p{d} VALUES LESS THAN ({d + 1}), "
                            for d in days)
            self.s.sql(f"TRUNCATE {table}; ALTER TABLE {table} "
                       f"PARTITION BY RANGE (day) ({parts} "
                       f"PARTITION pmax VALUES LESS THAN MAXVALUE)")

    def partitions(self, table):
        """{name: bound} in order."""
        return dict(self.s.sql(
            "SELECT partition_name, partition_description FROM "
            "information_schema.partitions WHERE table_schema = 'waybill' "
            f"AND table_name = '{table}' ORDER BY "
            "partition_ordinal_position"))

    def want(self, first, last):
        return {**{f"p{d}": str(d + 1) for d in range(first, last + 1)},
                "pmax": MAX}

    def add_rows(self, *days):
        for day in days:
            self.s.sql(f"INSERT INTO response (batch_id, day, status, "
                       f"encoding, body) VALUES (X'{day:032x}', {day}, 200, 0, 'x')")

    def days_in(self, partition):
        return [int(r[0]) for r in self.s.sql(
            f"SELECT day FROM response PARTITION ({partition}) ORDER BY day")]

    def retention(self):
        return self.s.waybill_json("retention", "run")


class Ahead(Days):
    """Partitions of the days to come."""

    def doctor(self):
        rows = json.loads(self.s.run("--json", "doctor").stdout)
        return next(r for r in rows if r["check"] == "partitions are ahead")

    def test_today_and_a_week_ahead_are_made(self):
        """[1]"""
        got = self.retention()
        for table in TABLES:
            self.assertEqual(self.partitions(table),
                             self.want(self.today, self.today + 7))
        until = time.strftime("%Y-%m-%d",
                              time.gmtime((self.today + 7) * 86400))
        self.assertEqual(got, [{"table": t, "made": 8, "dropped": 0,
                                "until": until, "catch_all": "empty"}
                               for t in TABLES])

    def test_a_second_run_changes_nothing(self):
        """[2]"""
        self.retention()
        before = [self.partitions(t) for t in TABLES]
        self.assertEqual([r["made"] for r in self.retention()], [0] * 4)
        self.assertEqual([self.partitions(t) for t in TABLES], before)

    def test_only_what_is_missing_is_made(self):
        """[1, 3]"""
        self.lay(self.today - 9, self.today - 1, self.today,
                 self.today + 1)
        self.add_rows(self.today - 9, self.today)
        self.assertEqual([r["made"] for r in self.retention()], [6] * 4)
        self.assertEqual(self.partitions("batch"), {
            f"p{self.today - 9}": str(self.today - 8),
            **self.want(self.today - 1, self.today + 7)})
        self.assertEqual(self.days_in(f"p{self.today - 9}"),
                         [self.today - 9])

    def test_rows_of_the_catch_all_move_to_their_days(self):
        """[1, 3]"""
        days = [self.today - 20, self.today - 1, self.today, self.today + 3,
                self.today + 8]
        self.add_rows(*days)
        self.assertEqual([r["catch_all"] for r in self.retention()],
                         ["HOLDS ROWS", "empty", "empty", "empty"])
        self.assertEqual(self.days_in(f"p{self.today}"), days[:3])
        self.assertEqual(self.days_in(f"p{self.today + 3}"), days[3:4])
        self.assertEqual(self.days_in("pmax"), days[4:])

    def test_a_gap_of_weeks_is_closed(self):
        """[1]"""
        self.lay(self.today - 30)
        self.add_rows(self.today - 30, self.today - 10)
        self.retention()
        self.assertEqual(self.days_in(f"p{self.today - 30}"),
                         [self.today - 30])
        self.assertEqual(self.days_in(f"p{self.today}"), [self.today - 10])

    def test_several_at_once_end_as_one(self):
        """[2]"""
        for _ in range(3):
            self.lay(self.today - 1)
            self.add_rows(self.today - 1, self.today)
            runs = [subprocess.Popen(
                self.s.command("retention", "run", "--once"), env=self.s.env,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                for _ in range(4)]
            self.assertEqual([(p.communicate()[1], p.returncode)
                              for p in runs], [("", 0)] * 4)
            for table in TABLES:
                self.assertEqual(self.partitions(table),
                                 self.want(self.today - 1, self.today + 7))
            self.assertEqual(self.days_in(f"p{self.today}"), [self.today])

    def test_killed_anywhere_the_next_run_finishes(self):
        """[2, 3]"""
        for point in ("partition.before_make", "partition.after_make"):
            for n in (1, 2, 3):
                with self.subTest(point, n=n):
                    self.lay()
                    self.add_rows(self.today)
                    got = self.s.run("retention", "run",
                                     WAYBILL_TEST_FAULT=f"{point}:{n}:kill")
                    if got.returncode == 0:
                        self.skipTest("built without --enable-faults")
                    self.assertEqual(got.returncode, -signal.SIGKILL)
                    self.retention()
                    for table in TABLES:
                        self.assertEqual(
                            self.partitions(table),
                            self.want(self.today, self.today + 7))
                    self.assertEqual(self.days_in(f"p{self.today}"),
                                     [self.today])

    def test_doctor_looks_whether_they_are_ahead(self):
        self.assertEqual(self.doctor()["result"], "BAD")
        self.lay(self.today, self.today + 1)
        got = self.doctor()
        self.assertEqual(got["result"], "BAD")
        self.assertIn("retention run", got["advice"])
        self.retention()
        self.assertEqual(self.doctor()["result"], "ok")
        self.add_rows(self.today + 30)
        got = self.doctor()
        self.assertEqual(got["result"], "BAD")
        self.assertIn("catch-all", got["advice"])

    def test_migrate_makes_them_too(self):
        self.s.waybill("migrate")
        self.assertEqual(self.partitions("batch"),
                         self.want(self.today, self.today + 7))

    def test_every_runs_until_it_is_told_to_leave(self):
        p = subprocess.Popen(
            self.s.command("retention", "run", "--every", "1s"),
            env=self.s.env, stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.stderr.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        first = [json.loads(p.stderr.readline()) for _ in TABLES]
        self.assertEqual([(r["event"], r["table"], r["made"]) for r in first],
                         [("retention", t, 8) for t in TABLES])
        self.lay()
        again = [json.loads(p.stderr.readline()) for _ in TABLES]
        self.assertEqual([r["made"] for r in again], [8] * 4)
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(10), 0)

    def test_every_outlives_a_database_that_is_away(self):
        env = {**self.s.env, "WAYBILL_CONF_DB_SOCKET": "/nonexistent"}
        p = subprocess.Popen(
            self.s.command("retention", "run", "--every", "1s"), env=env,
            stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.stderr.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        for _ in range(2):
            line = json.loads(p.stderr.readline())
            self.assertEqual((line["event"], line["level"]),
                             ("retention", "error"))
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(10), 0)

    def test_wrong_usage_exits_2(self):
        for words in (("--every", "0"), ("--every", "2d"), ("--every", "x"),
                      ("--once", "--every", "1h"), ("now",)):
            self.assertEqual(self.s.run("retention", "run",
                                        *words).returncode, 2, words)


KEPT = 32  # days: the retention and two more


def id_of(day, last=1):
    """An id of that day, as 32 hex digits."""
    return f"{day * 86400000:012x}7{last:019x}"


class Past(Days):
    """What is past the retention. Rows are put into old days by hand."""

    def setUp(self):
        super().setUp()
        for table in ("job", "lane", "refresh_name", "request_key"):
            self.s.sql(f"DELETE FROM {table}")

    def lay_filled(self, *ages):
        """Partitions of days so long ago, with a row each."""
        self.lay(*sorted(self.today - a for a in ages))
        self.add_rows(*(self.today - a for a in ages))

    def ages(self, table="response"):
        """How old the days are that have a partition and are past."""
        days = [int(n[1:]) for n in self.partitions(table) if n != "pmax"]
        return [self.today - d for d in days if d < self.today]

    def add_job(self, age, state, names=3, chunks=1, undoes=None,
                batch_age=None):
        """A full-refresh of that day, with its chunk and names."""
        day = self.today - age
        job = id_of(day, age)
        batch = id_of(self.today - (age if batch_age is None else batch_age),
                      age + 1000)
        undone = f"X'{id_of(self.today - undoes)}'" if undoes else "NULL"
        self.s.sql(
            "INSERT INTO job (partner_id, job_id, batch_id, collection, kind, "
            "mode, seq, open_as, state, phase, attempt, token, step, "
            "next_chunk, chunk_count, total, bytes, processed, accepted, "
            "replay, quarantined, rejected, tombstoned, restored, confirmed, "
            f"cancel_requested, undoes, created_at) VALUES (1, X'{job}', "
            f"X'{batch}', 0, {4 if undoes else 2}, 2, {1000 - age}, "
            f"{1 if state < 3 else 'NULL'}, {state}, 1, 0, 0, 0, 0, {chunks}, "
            f"3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {undone}, NOW(3));" +
            (f"INSERT INTO job_chunk VALUES (X'{job}', 0, {day}, 0, 3, 'x');"
             if chunks else "") +
            "".join(f"INSERT INTO refresh_name VALUES (X'{job}', 'n{i}');"
                    for i in range(names)))
        return job

    def names_of(self, job):
        return int(self.s.sql("SELECT COUNT(*) FROM refresh_name WHERE "
                              f"job_id = X'{job}'")[0][0])

    def test_days_past_the_retention_are_dropped_and_no_others(self):
        """[4]"""
        self.lay_filled(60, KEPT + 2, KEPT + 1, KEPT, KEPT - 1, 1, 0)
        self.assertEqual([r["dropped"] for r in self.retention()], [3] * 4)
        for table in TABLES:
            self.assertEqual(self.ages(table), [KEPT, KEPT - 1, 1])
        self.assertEqual([self.today - int(d[0]) for d in self.s.sql(
            "SELECT day FROM response ORDER BY day")],
            [KEPT, KEPT - 1, 1, 0])
        self.assertEqual([r["dropped"] for r in self.retention()], [0] * 4)

    def test_an_unfinished_job_keeps_its_days(self):
        """Its chunks, its batch, the refresh it undoes; also while it
        runs."""
        for what in ({"age": 40}, {"age": 1, "undoes": 40},
                     {"age": 1, "batch_age": 40}):
            for state in (1, 2):
                with self.subTest(what, state=state):
                    self.setUp()
                    self.lay_filled(50, 41, 40, 39, 1, 0)
                    job = self.add_job(state=state, **what)
                    self.retention()
                    for table in TABLES:
                        self.assertEqual(self.ages(table), [40, 39, 1])
                    self.assertEqual(self.names_of(job), 3)
                    self.s.sql("UPDATE job SET open_as = NULL, state = 4")
                    self.retention()
                    self.assertEqual(self.ages("job_chunk"), [1])

    def test_names_go_with_the_chunks_of_their_job(self):
        """A FAILED or CANCELLED job may be queued again as long as it is
        whole."""
        self.lay_filled(40, 5, 0)
        old = [self.add_job(40, 4, names=2500), self.add_job(41, 5)]
        young = [self.add_job(5, 4), self.add_job(4, 5)]
        done = self.s.run("retention", "run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("swept 2503 names", done.stderr)
        self.assertEqual([self.names_of(j) for j in old + young],
                         [0, 0, 3, 3])

    def test_a_job_past_the_retention_is_not_queued_again(self):
        """Whether or not its day is dropped yet."""
        self.lay_filled(31, 29, 0)
        self.retention()
        old, young = self.add_job(31, 4), self.add_job(29, 5)
        done = self.s.run("job", "requeue", f"job-{old}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("older than the retention", done.stderr)
        self.s.sql("INSERT INTO lane VALUES (1, 0, 972, 0, 0)")
        done = self.s.run("job", "requeue", f"job-{young}")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_several_at_once_drop_as_one(self):
        """[4]"""
        for _ in range(3):
            self.lay_filled(*range(KEPT - 1, KEPT + 8), 0)
            runs = [subprocess.Popen(
                self.s.command("retention", "run"), env=self.s.env,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                for _ in range(4)]
            self.assertEqual([(p.communicate()[1], p.returncode)
                              for p in runs], [("", 0)] * 4)
            for table in TABLES:
                self.assertEqual(self.ages(table), [KEPT, KEPT - 1])

    def test_killed_anywhere_the_next_run_drops_the_rest(self):
        """[4]"""
        for point in ("partition.before_drop", "partition.after_drop"):
            for n in (1, 2, 4):
                with self.subTest(point, n=n):
                    self.lay_filled(35, 34, 33, 32, 0)
                    got = self.s.run("retention", "run",
                                     WAYBILL_TEST_FAULT=f"{point}:{n}:kill")
                    self.assertEqual(got.returncode, -signal.SIGKILL)
                    self.retention()
                    for table in TABLES:
                        self.assertEqual(self.ages(table), [KEPT])

    def add_keys(self, count, expires, first=0):
        rows = ",".join(
            f"(1, 1, X'{first + i:032x}', X'{id_of(self.today)}', "
            f"X'{'00' * 32}', NULL, 1, NOW(3), {expires})"
            for i in range(count))
        self.s.sql("INSERT INTO request_key (partner_id, surface, "
                   "correlation_id, batch_id, fingerprint, collection, mode, "
                   f"created_at, expires_at) VALUES {rows}")

    def test_expired_keys_are_swept_and_no_others(self):
        self.add_keys(2500, "NOW(3) - INTERVAL 1 SECOND")
        self.add_keys(10, "NOW(3) + INTERVAL 1 HOUR", first=10000)
        done = self.s.run("retention", "run")
        self.assertIn("swept 2500 expired request keys", done.stderr)
        self.assertEqual(self.s.sql(
            "SELECT COUNT(*), MIN(HEX(correlation_id)) FROM request_key"),
            [["10", f"{10000:032X}"]])

    def test_a_key_taken_over_while_it_is_swept_is_one_request(self):
        s = self.s
        s.run("partner", "add", "SWEPT")
        key = s.key("SWEPT")
        s.serve()
        ids = [str(uuid.uuid4()) for _ in range(40)]

        def post(i):
            got = s.request(
                "POST", "/wms-ingest/v1/master/uoms", key,
                b'{"items":[{"source_id":"U%d","name":"u"}]}' % i,
                [("Content-Type", "application/json"),
                 ("X-Correlation-Id", ids[i])])
            self.assertEqual(got.status, 200, got.body)
            return got
        first = [post(i) for i in range(len(ids))]
        s.sql("UPDATE request_key SET expires_at = NOW(3)")
        runs = [subprocess.Popen(s.command("retention", "run"), env=s.env,
                                 stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
                for _ in range(2)]
        fresh = [post(i) for i in range(len(ids))]
        self.assertEqual([p.wait(60) for p in runs], [0, 0])
        again = [post(i) for i in range(len(ids))]
        for a, b, c in zip(first, fresh, again):
            self.assertIsNone(b.header("Idempotent-Replayed"))
            self.assertNotEqual(a.body, b.body)
            self.assertEqual((c.body, c.header("Idempotent-Replayed")),
                             (b.body, "true"))


if __name__ == "__main__":
    unittest.main(verbosity=1)
