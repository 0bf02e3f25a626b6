"""waybill send against a whole service: every item once, whatever dies."""
# SPDX-License-Identifier: Apache-2.0
# check: slow
import csv
import itertools
import json
import os
import random
import subprocess
import threading
import time
import unittest

from items import Partner, uom
from stack import LONG, Stack, temp_dir, wait_for

ITEMS = 5000


def sku(i):
    return {"source_id": f"S{i:06}", "source_version": 1,
            "name": f'thing, "{i}" \u00e9', "base_uom": "EA",
            "lot_tracked": i % 2 == 0, "weight_kg": i / 8}


def write_ndjson(path, items):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(item) + "\n" for item in items)


def write_json(path, items):
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"items": items}, f, indent=1)


def write_array(path, items):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(items, f)


def write_csv(path, items):
    with open(path, "w", encoding="utf-8-sig", newline="") as f:
        rows = csv.DictWriter(f, list(items[0]))
        rows.writeheader()
        rows.writerows(items)


class Send(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Stack().__enter__()
        cls.addClassCleanup(cls.s.__exit__, None)
        cls.numbers = itertools.count(1)

    def setUp(self):
        self.p = Partner(self.s)
        self.addCleanup(self.p.close)
        self.assertEqual(self.p.outcomes("uoms", [uom("EA")]),
                         ["ACCEPTED created"])
        self.dir = temp_dir("send")

    def path(self, name):
        return os.path.join(self.dir, name)

    def words(self, *words, collection="skus"):
        return [os.path.join(self.s.programs, "waybill"), "send", "--url",
                self.s.url, "--ca", os.path.join(self.s.var, "tls", "ca.pem"),
                "--collection", collection, *words]

    def env(self, key=None, **more):
        return {**self.s.environment(), "WAYBILL_KEY": key or self.p.key,
                **more}

    def send(self, *words, want=0, key=None, collection="skus", **env):
        done = subprocess.run(self.words(*words, collection=collection),
                              text=True, capture_output=True, timeout=300,
                              env=self.env(key, **env), check=False)
        self.assertEqual(done.returncode, want, done.stdout + done.stderr)
        return done

    def sum(self, *words, **how):
        return json.loads(self.send("--json", *words, **how).stdout)

    def batches(self):
        """(count, items) of the batches of skus."""
        row = self.s.sql(
            "SELECT COUNT(*), IFNULL(SUM(total), 0) FROM batch WHERE "
            f"partner_id = {self.p.no} AND collection = 3")[0]
        return int(row[0]), int(row[1])

    def history(self):
        return int(self.s.sql("SELECT COUNT(*) FROM item_history WHERE "
                              f"partner_id = {self.p.no}")[0][0])

    def want_once(self, items, batches):
        """Each is held, at its first rev, and came in so many batches."""
        rows = self.s.sql(
            "SELECT COUNT(*), SUM(rev), SUM(state) FROM item WHERE "
            f"partner_id = {self.p.no} AND collection = 3")[0]
        self.assertEqual([int(n) for n in rows], [items] * 3)
        self.assertEqual(self.history(), 0)
        self.assertEqual(self.batches(), (batches, items))

    def held(self):
        return {k: json.loads(v.payload)
                for k, v in self.p.held("skus").items()}

    def test_every_format_gives_the_same_items(self):
        items = [sku(i) for i in range(ITEMS)]
        want = {i["source_id"]: i for i in items}
        for name, write in (("a.ndjson", write_ndjson), ("b.json", write_json),
                            ("c.json", write_array), ("d.csv", write_csv)):
            with self.subTest(name):
                self.setUp()
                write(self.path(name), items)
                got = self.sum(self.path(name))
                self.assertEqual(got, {
                    "batches": 5, "total": ITEMS, "accepted": ITEMS,
                    "replay": 0, "quarantined": 0, "rejected": 0,
                    "tombstoned": 0})
                self.want_once(ITEMS, 5)
                self.assertEqual(self.held(), want)

    def test_a_file_that_was_sent_is_not_sent_again(self):
        write_ndjson(self.path("a.ndjson"), [sku(i) for i in range(10)])
        first = self.sum(self.path("a.ndjson"))
        before = self.s.metric("waybill_replays_total") or 0
        again = self.send("--json", self.path("a.ndjson"))
        self.assertEqual(self.s.metric("waybill_replays_total") or 0, before)
        self.assertEqual(json.loads(again.stdout), first)
        self.assertIn("sent already", again.stderr)
        self.want_once(10, 1)
        os.unlink(self.path("a.ndjson.waybill-send"))
        self.assertEqual(self.sum(self.path("a.ndjson"))["replay"], 10)

    def test_batches_are_cut_by_items_and_by_bytes(self):
        items = [{**sku(i), "note": "x" * 60000} for i in range(150)]
        write_ndjson(self.path("a.ndjson"), items)
        self.assertEqual(self.sum(self.path("a.ndjson"))["batches"], 3)
        self.want_once(150, 3)
        self.setUp()
        write_ndjson(self.path("a.ndjson"), [sku(i) for i in range(25)])
        self.assertEqual(
            self.sum("--batch", "10", "--gzip",
                     self.path("a.ndjson"))["batches"], 3)
        self.want_once(25, 3)

    def test_killed_at_every_point_it_goes_on_where_it_stopped(self):
        write_csv(self.path("a.csv"), [sku(i) for i in range(40)])
        kills = 0
        for n in range(1, 100):
            done = subprocess.run(
                self.words("--batch", "10", "--json", self.path("a.csv")),
                text=True, capture_output=True, timeout=60, check=False,
                env=self.env(WAYBILL_TEST_FAULT=f"*:{1 + n % 3}:kill"))
            if done.returncode != -9:
                break
            kills += 1
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(kills, 8)
        self.assertEqual(json.loads(done.stdout)["accepted"], 40)
        self.want_once(40, 4)

    def test_killed_at_random_it_sends_everything_once(self):
        items = ITEMS * (4 if LONG else 1)
        write_ndjson(self.path("a.ndjson"), [sku(i) for i in range(items)])
        rounds = 0
        while True:
            rounds += 1
            with subprocess.Popen(
                    self.words("--batch", "50", self.path("a.ndjson")),
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    env=self.env()) as p:
                try:
                    p.wait(random.uniform(0.01, 0.06) if rounds < 60 else 60)
                except subprocess.TimeoutExpired:
                    p.kill()
                    p.wait()
                if p.returncode != -9:
                    break
        self.assertEqual(p.returncode, 0)
        self.assertGreater(rounds, 2)
        self.want_once(items, items // 50)

    def test_a_database_that_goes_away_is_waited_for(self):
        write_ndjson(self.path("a.ndjson"), [sku(i) for i in range(ITEMS)])
        done = []
        runner = threading.Thread(target=lambda: done.append(self.send(
            "--batch", "100", self.path("a.ndjson"))))
        runner.start()
        wait_for(lambda: self.batches()[0] > 3, what="a few batches")
        self.s.supervisorctl("stop", "mariadb")
        time.sleep(2)
        self.s.supervisorctl("start", "mariadb")
        runner.join()
        self.assertIn("503", done[0].stderr)
        self.assertIn("trying again", done[0].stderr)
        self.want_once(ITEMS, ITEMS // 100)

    def test_a_service_that_stays_away_is_left_for_later(self):
        write_ndjson(self.path("a.ndjson"), [sku(0)])
        self.send("--give-up", "1s", "--url", "https://127.0.0.1:1",
                  self.path("a.ndjson"), want=75)

    def test_items_that_are_not_accepted_are_told(self):
        items = [sku(0), {"source_id": "X"}, {**sku(2), "base_uom": "BOX"}]
        write_ndjson(self.path("a.ndjson"), items)
        done = self.send(self.path("a.ndjson"), want=4)
        self.assertEqual(done.stdout, "3 items in 1 requests: 1 accepted, "
                         "0 replay, 1 quarantined, 1 rejected\n")
        self.assertIn("line 2, X: REJECTED: /", done.stderr)
        self.assertIn("line 3, S000002: QUARANTINED: ", done.stderr)

    def test_a_file_that_was_changed_is_refused_until_it_is_finished(self):
        path = self.path("a.ndjson")
        write_ndjson(path, [sku(i) for i in range(20)])
        subprocess.run(self.words("--batch", "10", path), check=False,
                       capture_output=True,
                       env=self.env(WAYBILL_TEST_FAULT="*:3:kill"))
        same_size = [sku(i) for i in range(20)]
        same_size[19]["source_id"] = "T000019"
        for items in ([sku(i) for i in range(21)], same_size):
            write_ndjson(path, items)
            done = self.send(path, want=1)
            self.assertIn("begun with other content", done.stderr)
        write_ndjson(path, [sku(i) for i in range(20)])
        self.send(path)
        write_ndjson(path, [sku(i) for i in range(21)])
        self.assertEqual(self.sum(path)["replay"], 20)

    def test_wrong_key_wrong_usage_and_broken_files(self):
        good, bad = self.path("a.ndjson"), self.path("b.ndjson")
        write_ndjson(good, [sku(0)])
        with open(bad, "w", encoding="utf-8") as f:
            f.write(json.dumps(sku(1)) + "\n{\n")
        said = self.send(good, want=1, key="wbk_nobody").stderr
        self.assertIn("401 unauthenticated", said)
        self.assertNotIn("wbk_nobody", said)
        self.send(good, want=1, key=self.p.new_credential("read"))
        self.assertIn("line 2", self.send(bad, want=1).stderr)
        self.assertEqual(self.batches(), (0, 0))
        self.send(self.path("none.csv"), want=1)
        self.send(self.path("a.txt"), want=2)
        for words in (["--batch", "0", good], ["--mode", "bulk", good],
                      ["--nope", good], [], ["--format", "xml", good],
                      ["--mode", "full-refresh", good, bad],
                      ["--bulk", "--batch", "5", good],
                      ["--state", "x", good, bad],
                      ["--url", "http://127.0.0.1", good]):
            self.send(*words, want=2)
        self.send(good, want=2, collection="nope")
        key_file = self.path("key")
        with open(os.open(key_file, os.O_CREAT | os.O_WRONLY, 0o600),
                  "w") as f:
            f.write(self.p.key + "\n")
        self.send("--key-file", key_file, good, key="wbk_nobody")
        self.want_once(1, 1)

    def test_a_certificate_nobody_knows_is_not_trusted(self):
        write_ndjson(self.path("a.ndjson"), [sku(0)])
        done = subprocess.run(
            [w for w in self.words(self.path("a.ndjson"))
             if w != "--ca" and not w.endswith("ca.pem")],
            text=True, capture_output=True, env=self.env(), check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(self.batches(), (0, 0))

    def test_several_files_each_have_their_state(self):
        for name in "ab":
            write_ndjson(self.path(name + ".ndjson"),
                         [sku(ord(name) * 10 + i) for i in range(5)])
        got = self.sum(self.path("a.ndjson"), self.path("b.ndjson"))
        self.assertEqual((got["batches"], got["accepted"]), (2, 10))
        self.want_once(10, 2)

    def test_a_full_refresh_is_one_request(self):
        path = self.path("a.ndjson")
        write_ndjson(path, [sku(i) for i in range(30)])
        self.send(path)
        write_ndjson(path, [sku(i) for i in range(20)])
        got = self.sum("--mode", "full-refresh", path)
        self.assertEqual((got["batches"], got["replay"], got["tombstoned"]),
                         (1, 20, 10))

    def test_bulk_is_one_request_that_is_followed_to_its_end(self):
        write_csv(self.path("a.csv"), [sku(i) for i in range(ITEMS)])
        got = self.sum("--bulk", "--gzip", self.path("a.csv"))
        self.assertEqual((got["batches"], got["accepted"]), (1, ITEMS))
        self.want_once(ITEMS, 1)
        self.assertEqual(len(self.held()), ITEMS)

    def test_bulk_killed_at_every_point_is_one_job(self):
        write_ndjson(self.path("a.ndjson"), [sku(i) for i in range(3000)])
        kills = 0
        for n in range(1, 50):
            done = subprocess.run(
                self.words("--bulk", "--json", self.path("a.ndjson")),
                text=True, capture_output=True, timeout=60, check=False,
                env=self.env(WAYBILL_TEST_FAULT=f"*:{1 + n % 3}:kill"))
            if done.returncode != -9:
                break
            kills += 1
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(kills, 2)
        self.want_once(3000, 1)
        jobs = self.s.sql("SELECT COUNT(*) FROM job WHERE "
                          f"partner_id = {self.p.no}")
        self.assertEqual(jobs, [["1"]])

    def test_memory_does_not_grow_with_the_file(self):
        peaks = []
        for items in (2000, 60000):
            path = self.path(f"{items}.ndjson")
            write_ndjson(path, [{**sku(i), "note": "x" * 900}
                                for i in range(items)])
            before = os.stat(path).st_size
            with subprocess.Popen(self.words("--bulk", path),
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE,
                                  env=self.env()) as p:
                out, err = p.communicate()
                self.assertEqual(p.returncode, 0, err)
            # The same through time's eyes: Popen has no peak.
            done = subprocess.run(
                ["/usr/bin/python3", "-c",
                 "import resource, subprocess, sys; "
                 "subprocess.run(sys.argv[1:], stdout=-3, stderr=-3); "
                 "print(resource.getrusage(resource.RUSAGE_CHILDREN)"
                 ".ru_maxrss)", *self.words("--state", path + ".2", path)],
                text=True, capture_output=True, check=True, env=self.env())
            peaks.append((before >> 10, int(done.stdout)))
        print(f"file and peak, KiB: {peaks}", flush=True)
        self.assertLess(peaks[1][1] - peaks[0][1], 4096)
