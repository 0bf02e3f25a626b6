#!/usr/bin/env python3
"""Day partitions: waybill retention run, and what doctor says of them. Those
in brackets are guarantees of include/db/partition.h."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "lib"))
from service import Service  # noqa: E402

TABLES = ("response", "batch", "batch_item", "job_chunk")
MAX = "MAXVALUE"


class Retention(unittest.TestCase):
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
            self.s.sql(f"INSERT INTO response VALUES "
                       f"(X'{day:032x}', {day}, 200, 0, 'x')")

    def days_in(self, partition):
        return [int(r[0]) for r in self.s.sql(
            f"SELECT day FROM response PARTITION ({partition}) ORDER BY day")]

    def retention(self):
        return self.s.waybill_json("retention", "run")

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
        self.assertEqual(got, [{"table": t, "made": 8, "until": until,
                                "catch_all": "empty"} for t in TABLES])

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


if __name__ == "__main__":
    unittest.main(verbosity=1)
