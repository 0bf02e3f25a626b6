"""The item quota: what counts, what is refused, and that it is exact whoever
comes at once or dies (contract, section 6; U1 to U3 of include/gate/quota.h).

A day is not waited for: what was used is moved to yesterday.
"""
# SPDX-License-Identifier: Apache-2.0
# check: slow
import collections
import concurrent.futures
import json
import multiprocessing
import random
import signal
import subprocess
import threading
import time
import unittest

from items import (Partner, bom, checksums, new_key, orphans, path_of, sku,
                   uom)
from jobs import JobService
from jobs import uom as job_uom
from stack import LONG, Stack, wait_for

CLIENTS, PROCESSES = 64, 2
LIMIT = 10000
LARGEST = 50  # of a batch
DAY = "TIMESTAMPDIFF(DAY, '1970-01-01', UTC_TIMESTAMP())"


def seconds_left(s):
    return int(s.sql("SELECT 86400 - TIME_TO_SEC(TIME(UTC_TIMESTAMP()))")
               [0][0])


class QuotaTest(unittest.TestCase):
    stack = None
    maxDiff = None

    def setUp(self):
        # A test that begins today ends today.
        left = seconds_left(self.stack)
        if left < 240:
            time.sleep(left + 1)

    def partner(self, quota, *options):
        p = Partner(self.stack, "--quota", str(quota), *options)
        self.addCleanup(p.close)
        return p

    def set_quota(self, p, quota):
        self.stack.waybill("partner", "set", p.name, "--quota", str(quota))

    def used(self, p):
        """As a script sees it."""
        rows = self.stack.sql("SELECT used_items FROM v_quota WHERE "
                              f"partner_id = '{p.name}' AND day = UTC_DATE()",
                              user="waybill_ro")
        return int(rows[0][0]) if rows else 0

    def next_day(self, p):
        """What was used was used yesterday, and jobs may be looked at."""
        self.stack.sql(f"UPDATE quota_use SET day = {DAY} - 1 WHERE "
                       f"partner_id = {p.no} AND day = {DAY}; "
                       "UPDATE job SET not_before = NOW(6) WHERE "
                       f"partner_id = {p.no} AND waiting_for = 'quota'")

    def refused(self, answer):
        self.assertEqual(answer.status, 429, answer)
        problem = answer.json()
        self.assertEqual(problem["type"], "/docs/errors.md#quota-exhausted")
        left = seconds_left(self.stack)
        self.assertGreaterEqual(int(answer.headers["Retry-After"]), left)
        self.assertLess(int(answer.headers["Retry-After"]), left + 200)
        return problem["detail"]


def setUpModule():
    QuotaTest.stack = Stack(workers=8, conf=[
        "auth_cache = 0ms", "worker_poll = 50ms"])
    QuotaTest.stack.start()


def tearDownModule():
    QuotaTest.stack.stop()
    QuotaTest.stack.remove()


class Counting(QuotaTest):
    """Every step is done with a quota that is far away and with one that is
    near: fast and strict transactions count alike."""

    def check(self, steps):
        for quota in (1000000, 200):
            p = self.partner(quota)
            for n, (what, charged, act) in enumerate(steps):
                with self.subTest(f"{n} {what}", quota=quota):
                    before = self.used(p)
                    answer = act(p)
                    self.assertIn(answer.status, (200, 207), answer)
                    self.assertEqual(self.used(p) - before, charged, answer)

    def test_what_changes_is_counted_and_nothing_else(self):
        key = new_key()
        self.check([
            ("created", 3, lambda p: p.post(
                "uoms", [uom("A", 1), uom("B"), uom("EA")])),
            ("replay and unchanged", 0, lambda p: p.post(
                "uoms", [uom("A", 1), uom("A", 0), uom("B")])),
            ("rejected", 0, lambda p: p.post(
                "uoms", [{"source_id": "X"}, {}])),
            ("updated, of a few that are free", 2, lambda p: p.post(
                "uoms", [uom("A", 2), uom("B"), {}, uom("B", name="other"),
                         uom("EA")])),
            ("one id again and again", 4, lambda p: p.post(
                "uoms", [uom("C", 1), uom("C", 2), uom("C", 2), uom("C", 1),
                         uom("C", name="x"), uom("C", name="x"),
                         uom("C", name="y")])),
            ("an empty batch", 0, lambda p: p.post("uoms", [])),
            ("dry run", 0, lambda p: p.post(
                "uoms", [uom("D", 1)], key="", dry_run="true")),
            ("with a key", 1, lambda p: p.post(
                "uoms", [uom("E", 1)], key=key)),
            ("replayed request", 0, lambda p: p.post(
                "uoms", [uom("E", 1)], key=key)),
        ])

    def test_a_record_is_counted_once_and_its_release_is_free(self):
        def release(p, source_id):
            record = [r for r in p.records("skus", source_id)
                      if r.state == "OPEN"][0]
            return p.control(f"/quarantine/{record.id}/release")

        self.check([
            ("newly held back", 2, lambda p: p.post(
                "skus", [sku("S", 5, "U"), sku("T", 1, "V")])),
            ("replaced", 0, lambda p: p.post("skus", [sku("S", 6, "U")])),
            ("an older one", 0, lambda p: p.post("skus", [sku("S", 1, "U")])),
            ("twice in a batch", 1, lambda p: p.post(
                "skus", [sku("R", 1, "U"), sku("R", 2, "U")])),
            ("what it waits for", 1, lambda p: p.post("uoms", [uom("U")])),
            ("release", 0, lambda p: release(p, "S")),
            ("superseded", 1, lambda p: p.post("skus", [sku("R", 3, "U")])),
            ("held back, taken and held back again", 3, lambda p: p.post(
                "skus", [sku("Q", 1, "V"), sku("Q", 2, "U"),
                         sku("Q", 3, "V")])),
        ])

    def test_tombstones_and_an_undo_are_free_and_a_revival_is_not(self):
        def undo(p):
            return p.control(f"/batches/{p.refreshed}/undo-refresh")

        def refresh(p, items):
            answer = p.refresh("uoms", items)
            p.refreshed = answer.json()["batch_id"]
            return answer

        four = [uom(f"U{i}", 1) for i in range(4)]
        self.check([
            ("created", 4, lambda p: refresh(p, four)),
            ("tombstoned", 0, lambda p: refresh(p, four[:2])),
            ("revived", 2, lambda p: refresh(p, four)),
            ("tombstoned, one updated", 1, lambda p: refresh(
                p, [uom("U0", 2)])),
            ("undone", 0, undo),
        ])

    def test_boms_count_as_others_do(self):
        self.check([
            ("parts", 3, lambda p: p.post("skus", [
                sku("A", 1), sku("B", 1), sku("C", 1)])),
            ("boms", 2, lambda p: p.post("boms", [
                bom("AB", 1, "A", ["B"]), bom("BC", 1, "B", ["C"])])),
        ])

    def test_what_is_released_by_itself_is_free(self):
        p = self.partner(10, "--auto-release")
        p.post("skus", [sku("S", 1, "LATE")])
        p.post("uoms", [uom("LATE", 1)])
        wait_for(lambda: "S" in p.held("skus"), 30, "the release")
        self.assertEqual(self.used(p), 2)


class Refusing(QuotaTest):
    def stored(self):
        return {t: n for t, n in checksums(self.stack).items()}

    def test_a_batch_that_would_pass_is_refused_whole(self):
        p = self.partner(10)
        p.post("uoms", [uom(f"U{i}", 1) for i in range(8)])
        before, key = self.stored(), new_key()
        items = [uom(f"N{i}", 1) for i in range(3)] + [uom("U1", 1)]
        detail = self.refused(p.post("uoms", items, key=key))
        self.assertIn("3 items", detail)
        self.assertIn("2 of 10", detail)
        self.assertEqual(self.stored(), before)
        self.assertEqual(p.get(f"/requests/{key}").status, 404)
        # What fits goes on, to the last one.
        self.assertEqual(p.post("uoms", items[1:]).status, 200)
        self.refused(p.post("uoms", items, key=key))
        self.assertEqual(self.used(p), 10)
        self.assertEqual(len(p.held("uoms")), 10)

    def test_the_same_key_works_tomorrow(self):
        p = self.partner(2)
        p.post("uoms", [uom("A", 1), uom("B", 1)])
        key, items = new_key(), [uom("C", 1), uom("D", 1)]
        self.refused(p.post("uoms", items, key=key))
        self.next_day(p)
        answer = p.post("uoms", items, key=key)
        self.assertEqual(answer.status, 200)
        self.assertNotIn("Idempotent-Replayed", answer.headers)
        self.assertEqual(self.used(p), 2)
        again = p.post("uoms", items, key=key)
        self.assertEqual((again.status, again.body),
                         (200, answer.body))
        self.assertEqual(again.headers["Idempotent-Replayed"], "true")

    def test_the_same_key_works_when_the_quota_is_raised_or_gone(self):
        for quota in (3, "none"):
            p = self.partner(2)
            p.post("uoms", [uom("A", 1), uom("B", 1)])
            key = new_key()
            self.refused(p.post("uoms", [uom("C", 1)], key=key))
            self.set_quota(p, quota)
            answer = p.post("uoms", [uom("C", 1)], key=key)
            self.assertEqual(answer.status, 200)

    def test_what_is_free_goes_on_when_nothing_is_left(self):
        p = self.partner(2)
        key = new_key()
        first = p.post("uoms", [uom("A", 1), uom("B")], key=key)
        self.refused(p.post("uoms", [uom("C", 1)]))
        self.assertEqual(p.outcomes("uoms", [uom("A", 1), uom("B"), {}]),
                         ["REPLAY", "ACCEPTED unchanged", "REJECTED"])
        self.assertEqual(p.post("uoms", [uom("A", 1), uom("B")],
                                key=key).body, first.body)
        self.assertEqual(p.outcomes("uoms", [uom("C", 1)], key="",
                                    dry_run="true"), ["ACCEPTED created"])
        self.assertEqual(self.used(p), 2)

    def test_a_batch_larger_than_a_day_is_told_so(self):
        p = self.partner(5)
        detail = self.refused(p.post("uoms", [uom(f"U{i}", 1)
                                              for i in range(6)]))
        self.assertIn("whole day", detail)
        self.assertEqual(self.used(p), 0)

    def test_a_refresh_is_refused_with_its_tombstones(self):
        p = self.partner(4)
        p.refresh("uoms", [uom("A", 1), uom("B", 1), uom("C", 1)])
        self.refused(p.refresh("uoms", [uom("A", 2), uom("B", 2)]))
        self.assertEqual({k: (h.version, h.state) for k, h in
                          p.held("uoms").items()},
                         {k: (1, "ACTIVE") for k in "ABC"})

    def test_one_partners_end_is_not_anothers(self):
        p, q, free = self.partner(1), self.partner(1), Partner(self.stack)
        p.post("uoms", [uom("A", 1)])
        self.refused(p.post("uoms", [uom("B", 1)]))
        for other in (q, free):
            self.assertEqual(other.post("uoms", [uom("A", 1)]).status, 200)
        free.post("uoms", [uom("B", 1)])
        self.assertEqual([self.used(x) for x in (p, q, free)], [1, 1, 0])
        self.assertEqual(self.stack.sql(
            "SELECT COUNT(*) FROM quota_use WHERE "
            f"partner_id = {free.no}"), [["0"]])

    def test_refusals_and_items_are_counted(self):
        items = self.stack.metric("waybill_quota_items_total") or 0
        refusals = self.stack.metric("waybill_quota_refusals_total") or 0
        p = self.partner(3)
        p.post("uoms", [uom("A", 1), uom("B", 1)])
        self.refused(p.post("uoms", [uom("C", 1), uom("D", 1)]))
        self.assertEqual(self.stack.metric("waybill_quota_items_total"),
                         items + 2)
        self.assertEqual(self.stack.metric("waybill_quota_refusals_total"),
                         refusals + 1)


class Headers(QuotaTest):
    NAMES = ("X-Quota-Items-Limit", "X-Quota-Items-Remaining")

    def said(self, answer):
        return tuple(answer.headers.get(n) for n in self.NAMES)

    def test_every_answer_to_a_partner_with_a_quota_says_what_is_left(self):
        p, key = self.partner(10), new_key()
        first = p.post("uoms", [uom(f"U{i}", 1) for i in range(4)], key=key)
        self.assertEqual(self.said(first), ("10", "6"))
        for what, answer in (
                ("replay", p.post("uoms", [uom(f"U{i}", 1)
                                           for i in range(4)], key=key)),
                ("read", p.get("/master/uoms")),
                ("not found", p.get("/master/uoms/NONE")),
                ("bad body", p.post("uoms", b"{")),
                ("dry run", p.post("uoms", [uom("N", 1)], key="",
                                   dry_run="true")),
                ("free", p.post("uoms", [uom("U1", 1), {}])),
                ("empty", p.post("uoms", [])),
                ("job", p.post("uoms", [], mode="bulk")),
                ("refused", p.post("uoms", [uom(f"N{i}", 1)
                                            for i in range(7)]))):
            with self.subTest(what):
                self.assertEqual(self.said(answer), ("10", "6"), answer)
        self.assertEqual(self.said(p.post("uoms", [uom("N", 1), uom("U1")])),
                         ("10", "4"))
        # Whoever looked before looks again; a new limit counts at once.
        wait_for(lambda: {self.said(p.get("/master/uoms"))
                          for _ in range(20)} == {("10", "4")})
        self.set_quota(p, 3)
        self.assertEqual(self.said(p.get("/master/uoms")), ("3", "0"))

    def test_the_ietf_fields_name_it_as_a_policy(self):
        p = self.partner(10)
        answer = p.post("uoms", [uom("A", 1)])
        self.assertIn('"items";q=10;w=86400',
                      answer.headers.get_all("RateLimit-Policy"))
        field, = [v for v in answer.headers.get_all("RateLimit")
                  if v.startswith('"items"')]
        self.assertRegex(field, r'^"items";r=9;t=\d+$')
        left = seconds_left(self.stack)
        self.assertLess(abs(int(field.rsplit("=", 1)[1]) - left), 200)

    def test_limits_tell_what_is_used_now(self):
        partner = self.partner(10)
        partner.post("uoms", [uom(f"U{i}") for i in range(4)])
        answer = partner.get("/limits")
        told = answer.json()["quota"]
        self.assertEqual({k: told[k] for k in told if k != "resets_at"},
                         {"items_per_day": 10, "used": 4, "remaining": 6})
        self.assertRegex(told["resets_at"], "T00:00:00")
        self.assertEqual(answer.headers["X-Quota-Items-Remaining"], "6")

    def test_nobody_else_is_told_anything(self):
        free = Partner(self.stack)
        bad = self.stack.request("GET", path_of("uoms"), key=False)
        for answer in (free.post("uoms", [uom("A", 1)]),
                       free.get("/master/uoms"), bad):
            self.assertEqual(self.said(answer), (None, None))
        self.assertEqual(bad.status, 401)


# Many at once.

class Client:
    """Sends what it likes until one new item alone is refused. A request
    without an answer is sent again with its key, until it has one."""

    def __init__(self, partner, number):
        self.p, self.number = partner.fork(), number
        self.rng = random.Random(number)
        self.accepted, self.records = 0, set()
        self.statuses = collections.Counter()
        self.problems = []
        self.n = 0

    def new(self):
        self.n += 1
        return f"N{self.number}.{self.n}"

    def uoms(self):
        r = self.rng
        return [r.choice((
            lambda: uom(self.new(), 1),
            lambda: uom(self.new()),
            lambda: uom(f"U{r.randrange(30)}", r.randrange(1000)),
            lambda: uom(f"V{r.randrange(5)}", name=r.choice("abc")),
            lambda: uom("SAME"),
            lambda: {"source_id": "X"}))()
            for _ in range(r.randint(1, LARGEST))]

    def skus(self):
        r = self.rng
        return [sku(f"S{r.randrange(200)}", r.randrange(1000),
                    r.choice(("SAME", "NONE")))
                for _ in range(r.randint(1, LARGEST // 2))]

    def send(self, collection, items):
        key = new_key()
        answer = None
        while answer is None or answer.status in (503, 409):
            try:
                answer = self.p.post(collection, items, key=key)
            except OSError:
                self.statuses["broken"] += 1
                continue
            self.statuses[answer.status] += 1
        if answer.status in (200, 207):
            self.told(answer)
            self.maybe_replay(collection, items, key, answer)
        elif answer.status != 429:
            self.problems.append(str(answer))
        return answer.status

    def told(self, answer):
        for r in answer.json()["results"]:
            if r["status"] == "ACCEPTED":
                self.accepted += r["change"] != "unchanged"
            elif r["status"] == "QUARANTINED":
                self.records.add(r["quarantine_id"])

    def maybe_replay(self, collection, items, key, answer):
        if self.rng.random() > 0.1:
            return
        try:
            again = self.p.post(collection, items, key=key)
        except OSError:
            return
        if again.status != 503 and again.body != answer.body:
            self.problems.append(f"another answer: {again}")

    def run(self):
        status = 200
        while status != 429 and not self.problems:
            collection = self.rng.choice(("uoms", "uoms", "skus"))
            status = self.send(collection, getattr(self, collection)())
        status = 200
        while status != 429 and not self.problems:
            status = self.send("uoms", [uom(self.new(), 1)])
        self.p.close()
        return (self.accepted, self.records, self.statuses, self.problems)


def clients(partner, numbers):
    """One process of them."""
    with concurrent.futures.ThreadPoolExecutor(len(numbers)) as pool:
        return list(pool.map(lambda n: Client(partner, n).run(), numbers))


class Watcher:
    """Reads what scripts read, all the while, on one connection."""

    def __init__(self, stack, partner):
        self.query = ("SELECT COALESCE(SUM(used_items), 0) FROM v_quota "
                      f"WHERE partner_id = '{partner.name}';\n")
        self.client = [
            "mariadb", "--no-defaults", "--unbuffered", "--batch",
            "--skip-column-names", "--user=waybill_ro",
            "--socket=" + stack.demo["WAYBILL_DB_SOCKET"], "waybill"]
        self.seen, self.highest = 0, 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        with subprocess.Popen(self.client, text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as client:
            while not self.over.is_set():
                client.stdin.write(self.query)
                client.stdin.flush()
                self.highest = max(self.highest,
                                   int(client.stdout.readline()))
                self.seen += 1
            client.stdin.close()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class AtOnce(QuotaTest):
    def killer(self, over):
        killed = 0
        while not over.is_set():
            pids = self.stack.worker_pids()
            if pids:
                self.stack.kill(random.choice(pids))
                killed += 1
            over.wait(0.3)
        return killed

    def stored(self, p):
        """By the contract's rule: what was accepted with a change is a row of
        item or of its history, what was newly held back is a record."""
        return int(self.stack.sql(
            "SELECT (SELECT COUNT(*) FROM item WHERE partner_id = {0}) + "
            "(SELECT COUNT(*) FROM item_history WHERE partner_id = {0}) + "
            "(SELECT COUNT(*) FROM quarantine WHERE partner_id = {0})"
            .format(p.no))[0][0])

    def run_all(self, p, kill=False):
        """What the clients were told, how many workers were killed, and the
        watcher, who begins after the fork: a child must not have his
        pipes."""
        over = threading.Event()
        fork = multiprocessing.get_context("fork")
        watcher = Watcher(self.stack, p)
        p.close()
        with concurrent.futures.ProcessPoolExecutor(
                PROCESSES, mp_context=fork) as ps, \
                concurrent.futures.ThreadPoolExecutor(1) as threads:
            parts = [ps.submit(clients, p, range(i, CLIENTS, PROCESSES))
                     for i in range(PROCESSES)]
            killed = threads.submit(self.killer, over) if kill else None
            try:
                with watcher:
                    got = [c for part in parts for c in part.result()]
            finally:
                over.set()
            return got, killed.result() if kill else 0, watcher

    def check_watched(self, watcher):
        self.assertGreater(watcher.seen, 3)
        self.assertLessEqual(watcher.highest, LIMIT)

    def check(self, kill):
        p = self.partner(LIMIT)
        got, killed, watcher = self.run_all(p, kill)
        statuses = sum((s for _, _, s, _ in got), collections.Counter())
        print(f"{dict(statuses)}, {killed} workers killed, "
              f"{watcher.seen} looks", flush=True)
        self.assertEqual([x for *_, problems in got for x in problems], [])
        self.assertEqual(self.used(p), LIMIT)
        self.assertEqual(self.stored(p), LIMIT)
        self.check_watched(watcher)
        told = sum(a for a, *_ in got) + \
            len(set().union(*(r for _, r, *_ in got)))
        self.assertEqual(told, LIMIT)
        self.assertEqual(orphans(self.stack), {})

    def test_64_clients_charge_the_quota_to_the_last_item_and_no_more(self):
        self.check(kill=False)

    def test_so_they_do_while_workers_are_killed(self):
        self.check(kill=True)

    def test_a_job_and_clients_share_one_quota(self):
        p = self.partner(LIMIT)
        bodies = [json.dumps(uom(f"J{i}", 1)) for i in range(4500)]
        answer = p.post("uoms", "\n".join(bodies).encode(), mode="bulk",
                        headers={"Content-Type": "application/x-ndjson"})
        self.assertEqual(answer.status, 202, answer)
        url = answer.json()["status_url"]
        got, _, watcher = self.run_all(p)
        self.assertEqual([x for *_, problems in got for x in problems], [])
        wait_for(lambda: p.request("GET", url).json()["status"] == "COMPLETED"
                 or p.request("GET", url).json().get("waiting_for") ==
                 "quota", 60, "the end of the job")
        self.assertEqual((self.used(p), self.stored(p)), (LIMIT, LIMIT))
        self.check_watched(watcher)
        self.set_quota(p, "none")
        wait_for(lambda: p.request("GET", url).json()["status"] ==
                 "COMPLETED", 60, "the job's end")


class Jobs(QuotaTest):
    def bulk(self, p, name, count, collection="uoms"):
        lines = [json.dumps(uom(f"{name}{i:05}", 1)) for i in range(count)]
        answer = p.post(collection, "\n".join(lines).encode(), mode="bulk",
                        headers={"Content-Type": "application/x-ndjson"})
        self.assertEqual(answer.status, 202, answer)
        return answer.json()["status_url"]

    def job(self, p, url):
        return p.request("GET", url).json()

    def wait_state(self, p, url, state):
        wait_for(lambda: self.job(p, url)["status"] == state, 60, state)
        return self.job(p, url)

    def wait_waiting(self, p, url):
        wait_for(lambda: self.job(p, url).get("waiting_for") == "quota", 60,
                 "waiting")
        return self.job(p, url)

    def test_a_job_waits_where_a_chunk_would_pass(self):
        p, other = self.partner(2200), Partner(self.stack)
        url = self.bulk(p, "U", 2500)
        got = self.wait_waiting(p, url)
        self.assertEqual((got["status"], got["progress"]["processed"],
                          got["summary"]["accepted"], got["attempt"]),
                         ("QUEUED", 2000, 2000, 0))
        self.assertEqual((self.used(p), len(p.held("uoms"))), (2000, 2000))
        self.assertEqual(self.stack.sql(
            "SELECT token, lease_until, DATE(not_before) = UTC_DATE() + "
            f"INTERVAL 1 DAY FROM job WHERE partner_id = {p.no}"),
            [["0", "NULL", "1"]])
        # Nobody else waits: another partner, or another lane with less.
        self.wait_state(other, self.bulk(other, "U", 10), "COMPLETED")
        answer = p.post("addresses", json.dumps({
            "source_id": "A", "country": "DE", "city": "Ulm",
            "lines": ["x"]}).encode(), mode="bulk",
            headers={"Content-Type": "application/x-ndjson"})
        self.wait_state(p, answer.json()["status_url"], "COMPLETED")
        self.assertEqual(p.post("uoms", [uom("one more", 1)]).status, 200)
        self.assertEqual(self.job(p, url)["waiting_for"], "quota")
        self.assertEqual(self.used(p), 2002)
        # What comes behind it in its lane does wait.
        behind = self.bulk(p, "W", 1)
        self.assertEqual(self.job(p, behind)["status"], "QUEUED")
        self.next_day(p)
        got = self.wait_state(p, url, "COMPLETED")
        self.assertEqual(got["summary"]["accepted"], 2500)
        self.wait_state(p, behind, "COMPLETED")
        self.assertEqual(self.used(p), 501)

    def test_a_raised_quota_wakes_it(self):
        for quota in (3000, "none"):
            p = self.partner(1500)
            url = self.bulk(p, "U", 2500)
            self.wait_waiting(p, url)
            self.set_quota(p, 1600)  # not enough: it waits again
            self.wait_waiting(p, url)
            self.assertEqual(self.used(p), 1000)
            self.set_quota(p, quota)
            got = self.wait_state(p, url, "COMPLETED")
            self.assertEqual(got["summary"]["accepted"], 2500)
            self.assertNotIn("quota", str(got.get("waiting_for")))

    def test_what_no_day_has_room_for_fails_and_can_be_queued_again(self):
        p = self.partner(500)
        url = self.bulk(p, "U", 600)
        got = self.wait_state(p, url, "FAILED")
        self.assertTrue(got["error"]["type"].endswith("#quota-exhausted"),
                        got)
        self.assertIn("whole day", got["error"]["detail"])
        self.assertEqual((self.used(p), p.held("uoms")), (0, {}))
        self.set_quota(p, 600)
        self.stack.waybill("job", "requeue", got["job_id"])
        self.wait_state(p, url, "COMPLETED")
        self.assertEqual(self.used(p), 600)

    def test_what_is_free_does_not_wait(self):
        p = self.partner(1000)
        self.wait_state(p, self.bulk(p, "U", 1000), "COMPLETED")
        got = self.wait_state(p, self.bulk(p, "U", 1000), "COMPLETED")
        self.assertEqual(got["summary"]["replay"], 1000)
        self.assertEqual(self.used(p), 1000)

    def test_one_that_waits_can_be_cancelled(self):
        p = self.partner(1)
        p.post("uoms", [uom("A", 1)])
        url = self.bulk(p, "U", 1)
        self.wait_waiting(p, url)
        path = url.removeprefix("/wms-ingest/v1")
        self.assertEqual(p.control(path + "/cancel").status, 200)
        self.assertEqual(self.job(p, url)["status"], "CANCELLED")

    def test_a_refresh_job_charges_its_chunks_and_not_its_tombstones(self):
        p = self.partner(7000)
        p.post("uoms", [uom("gone", 1)])
        lines = "\n".join(json.dumps(uom(f"U{i:05}", 1)) for i in range(5500))
        answer = p.post("uoms", lines.encode(), mode="full-refresh",
                        headers={"Content-Type": "application/x-ndjson"})
        self.assertEqual(answer.status, 202, answer)
        got = self.wait_state(p, answer.json()["status_url"], "COMPLETED")
        self.assertEqual(got["summary"]["tombstoned"], 1)
        self.assertEqual(self.used(p), 5501)


class KilledJobs(unittest.TestCase):
    """A worker dies around each statement of the quota, fast and strict."""

    def test_a_chunk_is_charged_once_whoever_dies(self):
        points = ["quota_add", "quota_sum", "quota_give_back"]
        with JobService() as s:
            s.waybill("partner", "add", "ACME", "--quota", "1000000")
            for name in points:
                self.kill_around(s, name, f"f-{name}")
            s.waybill("partner", "set", "ACME", "--quota", "200")
            for name in ["quota_take_all", "quota_sum", "quota_add"]:
                self.kill_around(s, name, f"s-{name}")

    def kill_around(self, s, statement, prefix):
        for when in ("before", "after"):
            for no in ((1, 2, 3) if LONG else (2,)):
                with self.subTest(prefix, when=when, no=no):
                    self.one(s, f"db.{when}.{statement}:{no}:kill",
                             f"{prefix}-{when}-{no}")

    def one(self, s, point, name):
        s.sql("DELETE FROM quota_use")
        # One of each three is free: something is given back.
        chunks = [[job_uom(f"{name}-{c}-{i}", 1) for i in (0, 1, 0)]
                  for c in range(4)]
        job = s.enqueue(chunks)
        w = s.worker(WAYBILL_TEST_FAULT=point)
        s.wait(lambda: w.poll() is not None, what=point)
        self.assertEqual(w.returncode, -signal.SIGKILL)
        processed = s.job(job)["processed"]
        self.assertEqual(self.used(s), processed // 3 * 2)
        s.let_leases_end()
        s.work()
        got = s.job(job)
        self.assertEqual((got["state"], got["accepted"], got["replay"]),
                         ("COMPLETED", 8, 4))
        self.assertEqual(self.used(s), 8)

    @staticmethod
    def used(s):
        return int(s.sql("SELECT COALESCE(SUM(used), 0) FROM quota_use")
                   [0][0])


class Retention(QuotaTest):
    def test_old_days_go_and_recent_ones_stay(self):
        p = self.partner(10)
        p.post("uoms", [uom("A", 1)])
        for days in (1, 31, 40, 400):
            self.stack.sql("INSERT INTO quota_use VALUES "
                           f"({p.no}, {DAY} - {days}, 3, {days}, 1)")
        self.stack.waybill("retention", "run", "--once")
        self.assertEqual(self.stack.sql(
            f"SELECT {DAY} - CAST(day AS SIGNED) FROM quota_use WHERE "
            f"partner_id = {p.no} AND used > 0 ORDER BY day DESC"),
            [["0"], ["1"], ["31"]])

    def test_the_service_may_not_delete_them(self):
        with self.assertRaises(AssertionError) as e:
            self.stack.sql("DELETE FROM quota_use", user="waybill")
        self.assertIn("denied", str(e.exception))


if __name__ == "__main__":
    unittest.main()
