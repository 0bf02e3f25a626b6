"""A credential limited to warehouses touches and sees what is of them alone:
sent, held, held back, refreshed, released, replayed, read."""
# SPDX-License-Identifier: Apache-2.0
import base64
import json
import os
import random
import threading
import unittest
import urllib.parse

from items import (Partner, brief, checksums, item, line, new_key, orphans,
                   path_of, place, sku, uom)
from stack import Stack, wait_for

SLUG = "cross-warehouse-credential"
SYNC_MAX = 40
OWN = "W1,V1,LATER"  # V1 another warehouse, LATER one that never comes

# An item of each collection that has a warehouse, by the digit of W1 or W2.
MAKE = {
    "locations": lambda i, n, v=None, **m: place(i, v, "BIN", f"Z{n}", **m),
    "purchase-orders": lambda i, n, v=None, **m: item(
        i, v, warehouse_source_id=f"W{n}", lines=[line()], **m),
    "sales-orders": lambda i, n, v=None, **m: item(
        i, v, warehouse_source_id=f"W{n}", lines=[line()], **m),
    "receivers": lambda i, n, v=None, **m: item(
        i, v, po_source_id=f"P{n}", lines=[line()], **m),
    "shippers": lambda i, n, v=None, **m: item(
        i, v, so_source_id=f"S{n}", lines=[line()], **m),
    "work-orders": lambda i, n, v=None, **m: item(
        i, v, warehouse_source_id=f"W{n}", sku_source_id="A", qty=1, uom="EA",
        **m),
    "transfer-orders": lambda i, n, v=None, **m: item(
        i, v, from_warehouse_source_id=f"V{n}",
        to_warehouse_source_id=f"W{n}", lines=[line()], **m),
}
FIELD = {
    "locations": "parent_source_id", "purchase-orders": "warehouse_source_id",
    "sales-orders": "warehouse_source_id", "receivers": "po_source_id",
    "shippers": "so_source_id", "work-orders": "warehouse_source_id",
    "transfer-orders": "from_warehouse_source_id",
}
# Whose warehouse is found through another item.
THROUGH = ("locations", "receivers", "shippers")


def slug(answer):
    return answer.json()["type"].split("#")[1]


def fill(p):
    """Two worlds that look alike, W1 and W2, each with a second warehouse."""
    p.post("uoms", [uom("EA")])
    p.post("skus", [sku("A")])
    p.post("locations", [
        place("W1"), place("W2"), place("V1"), place("V2"),
        place("Z1", 1, "ZONE", "W1"), place("Z2", 1, "ZONE", "W2")])
    for n in "12":
        for collection, name in (("purchase-orders", "P"),
                                 ("sales-orders", "S")):
            p.outcomes(collection, [MAKE[collection](name + n, n)])


class WarehouseTest(unittest.TestCase):
    stack = None
    maxDiff = None

    def setUp(self):
        self.p = Partner(self.stack)
        fill(self.p)
        self.one = self.p.limited(OWN)
        self.two = self.p.limited("W2,V2")
        for who in (self.p, self.one, self.two):
            self.addCleanup(who.close)

    def tearDown(self):
        found = orphans(self.stack)
        # A release by itself has no key, and a job that failed is not whole.
        for name in ("batch without key",
                     "batch with fewer or more items than it says"):
            found.pop(name, None)
        self.assertEqual(found, {})

    def refused(self, answer, pointer=None, **more):
        self.assertEqual((answer.status, slug(answer)), (403, SLUG), answer)
        if pointer is not None:
            self.assertEqual(answer.json().get("pointer"), pointer)
        for name, value in more.items():
            self.assertEqual(answer.json().get(name), value)

    def absent(self, answer):
        self.assertEqual((answer.status, slug(answer)), (404, "not-found"),
                         answer)

    def listed(self, who, path, name="source_id", **params):
        """All pages; none may be larger than its limit."""
        found, after = [], None
        limit = params.get("limit", 100)
        while True:
            query = dict(params, **({"after": after} if after else {}))
            answer = who.get(path + ("?" + urllib.parse.urlencode(query)
                                     if query else ""))
            self.assertEqual(answer.status, 200, answer)
            page = answer.json()
            self.assertLessEqual(len(page["items"]), limit)
            found += [i[name] for i in page["items"]]
            after = page["next"]
            if not after:
                return found

    def collection(self, who, collection, **params):
        path = path_of(collection)[len("/wms-ingest/v1"):]
        return self.listed(who, path, **params)

    def one_path(self, collection, source_id):
        return path_of(collection)[len("/wms-ingest/v1"):] + "/" + source_id

    def job(self, who, answer):
        """The finished job of a 202, as this one sees it."""
        self.assertEqual(answer.status, 202, answer)
        path = "/jobs/" + answer.json()["job_id"]

        def finished():
            job = who.get(path).json()
            return job if job["status"] not in ("QUEUED", "RUNNING") else None
        return wait_for(finished, 60, "the end of the job")

    def job_results(self, who, job):
        return who.get(f"/jobs/{job['job_id']}/results").json()["results"]


def setUpModule():
    WarehouseTest.stack = Stack(workers=2, conf=[
        f"bulk_async_threshold = {SYNC_MAX}", "worker_poll = 50ms"])
    WarehouseTest.stack.start()


def tearDownModule():
    WarehouseTest.stack.stop()
    WarehouseTest.stack.remove()


class Sending(WarehouseTest):
    def test_what_is_of_its_warehouses_is_accepted(self):
        for c, make in MAKE.items():
            with self.subTest(c):
                self.assertEqual(
                    self.one.outcomes(c, [make("X", 1, 1), make("X", 1, 2),
                                          make("X", 1, 1)]),
                    ["ACCEPTED created", "ACCEPTED updated", "REPLAY"])

    def test_one_item_of_another_refuses_all_and_claims_no_key(self):
        for c, make in MAKE.items():
            with self.subTest(c):
                items = [make("X", 1), make("Y", 2)]
                key = new_key()
                before = checksums(self.stack)
                self.refused(self.one.post(c, items, key=key),
                             f"/items/1/{FIELD[c]}")
                self.refused(self.one.post(c, items, key="", dry_run="true"),
                             f"/items/1/{FIELD[c]}")
                self.assertEqual(checksums(self.stack), before)
                self.assertEqual(
                    self.one.get(f"/requests/{key}").status, 404)
                answer = self.p.post(c, items, key=key)
                self.assertEqual(answer.status, 200, answer)
                self.assertNotIn("Idempotent-Replayed", answer.headers)

    def test_the_place_is_told_by_line_in_ndjson(self):
        lines = b"\n".join(json.dumps(i).encode() for i in (
            MAKE["work-orders"]("X", 1), MAKE["work-orders"]("Y", 2)))
        self.refused(self.one.post(
            "work-orders", b"\n" + lines,
            headers={"Content-Type": "application/x-ndjson"}),
            "/warehouse_source_id", line=3)

    def test_a_transfer_needs_both_of_its_warehouses(self):
        def transfer(a, b):
            return item("T", None, from_warehouse_source_id=a,
                        to_warehouse_source_id=b, lines=[line()])
        self.refused(self.one.post("transfer-orders", [transfer("W1", "W2")]),
                     "/items/0/to_warehouse_source_id")
        self.refused(self.one.post("transfer-orders", [transfer("W2", "W1")]),
                     "/items/0/from_warehouse_source_id")
        # The order of the fields in the item does not matter.
        swapped = dict(reversed(transfer("W1", "W2").items()))
        self.refused(self.one.post("transfer-orders", [swapped]),
                     "/items/0/to_warehouse_source_id")
        self.assertEqual(self.one.outcome("transfer-orders",
                                          transfer("W1", "V1")),
                         "ACCEPTED created")

    def test_a_warehouse_is_its_own(self):
        self.assertEqual(self.one.outcome("locations", place("LATER")),
                         "ACCEPTED created")
        self.refused(self.one.post("locations", [place("W3")]),
                     "/items/0/source_id")
        self.refused(self.one.post("locations", [place("Z9", 1, "ZONE", "W2")]),
                     "/items/0/parent_source_id")

    def test_a_way_that_ends_nowhere_is_held_back_with_its_senders_scope(self):
        for c in THROUGH:
            with self.subTest(c):
                self.assertEqual(self.one.outcome(c, MAKE[c]("X", 9)),
                                 "QUARANTINED reference-missing")
                self.assertEqual(self.p.records(c)[-1].code,
                                 "reference-missing")
        self.assertEqual(
            {r[0] for r in self.stack.sql(
                "SELECT warehouses FROM quarantine WHERE partner_id = "
                f"{self.p.no}")}, {'["W1","V1","LATER"]'})

    def test_a_warehouse_that_is_named_need_not_exist(self):
        def named(c, w):
            made = MAKE[c]("X", 1)
            made[FIELD[c]] = w
            return made
        for c in MAKE:
            if c in THROUGH:
                continue
            with self.subTest(c):
                self.assertEqual(self.one.outcome(c, named(c, "LATER")),
                                 "QUARANTINED reference-missing")
                self.refused(self.one.post(c, [named(c, "NEVER")]))

    def test_a_parent_in_the_same_batch_counts_in_array_order(self):
        zone, bin_ = place("ZN", 1, "ZONE", "W1"), place("BN", 1, "BIN", "ZN")
        self.assertEqual(self.one.outcomes("locations", [bin_, zone]),
                         ["QUARANTINED reference-missing", "ACCEPTED created"])
        self.assertEqual(
            self.one.outcomes("locations", [
                place("ZM", 1, "ZONE", "W1"), place("BM", 1, "BIN", "ZM")]),
            ["ACCEPTED created"] * 2)
        # The bin alone is at fault: its zone goes from the one to the other.
        both = self.p.limited("W1,W2")
        self.addCleanup(both.close)
        move = [place("ZM", 2, "ZONE", "W2"), place("BM", 2, "BIN", "ZM")]
        self.refused(self.one.post("locations", move),
                     "/items/0/parent_source_id")
        self.assertEqual(both.outcomes("locations", move),
                         ["ACCEPTED updated"] * 2)
        self.refused(self.one.post("locations", [place("BM", 3, "BIN", "Z1")]),
                     "/items/0/source_id")

    def test_what_another_holds_is_neither_taken_nor_told(self):
        for c, make in MAKE.items():
            with self.subTest(c):
                self.p.outcomes(c, [make("H", 2, 5), make("N", 2)])
                before = checksums(self.stack)
                for sent in (make("H", 1, 6), make("H", 1, 5),
                             make("H", 1, 4), make("H", 1), make("N", 1)):
                    self.refused(self.one.post(c, [make("X", 1), sent]),
                                 "/items/1/source_id")
                # Equal to the last byte: not even that is told.
                self.refused(self.one.post(c, [make("N", 2)]))
                self.assertEqual(checksums(self.stack), before)

    def test_what_another_has_held_back_is_not_taken(self):
        for c, make in MAKE.items():
            with self.subTest(c):
                waiting = make("Q", 2, 1)
                if c == "locations":
                    waiting["address_source_id"] = "NONE"
                elif "lines" in waiting:
                    waiting["lines"] = [line("NONE")]
                else:
                    waiting["sku_source_id"] = "NONE"
                self.assertEqual(self.p.outcome(c, waiting),
                                 "QUARANTINED reference-missing")
                before = checksums(self.stack)
                for v in (None, 1, 2):
                    self.refused(self.one.post(c, [make("Q", 1, v)]),
                                 "/items/0/source_id")
                self.assertEqual(checksums(self.stack), before)
                self.assertEqual(self.two.outcome(c, make("Q", 2, 2)),
                                 "ACCEPTED created")

    def test_what_waits_for_another_is_not_taken_before_its_way_is_known(self):
        for c in THROUGH:
            for who in (self.two, self.p):
                with self.subTest(c, who=who is self.p and "all" or "two"):
                    q = "Q" + str(who is self.p)
                    held = who.results(c, [MAKE[c](q, 9, 3)])[0]
                    self.assertEqual(brief(held),
                                     "QUARANTINED reference-missing")
                    before = checksums(self.stack)
                    for sent in (MAKE[c](q, 1, 4), MAKE[c](q, 8, 4),
                                 MAKE[c](q, 8), MAKE[c](q, 8, 2)):
                        self.refused(self.one.post(c, [sent]),
                                     "/items/0/source_id")
                    self.assertEqual(checksums(self.stack), before)

    def test_of_two_at_once_one_takes_the_key(self):
        for c in ("work-orders", "receivers", "locations"):
            for i in range(12):
                got, start = {}, threading.Barrier(2)

                def send(n, who):
                    start.wait()
                    got[n] = who.post(c, [MAKE[c](f"K{i}", n),
                                          MAKE[c](f"L{i}-{n}", n)]).status
                threads = [threading.Thread(target=send, args=a)
                           for a in ((1, self.one), (2, self.two))]
                for t in threads:
                    t.start()
                for t in threads:
                    t.join()
                self.assertEqual(sorted(got.values()), [200, 403], (c, i))
                first = 1 if got[1] == 200 else 2
                held = self.p.held(c)
                self.assertEqual(json.loads(held[f"K{i}"].payload),
                                 MAKE[c](f"K{i}", first))
                self.assertIn(f"L{i}-{first}", held)
                self.assertNotIn(f"L{i}-{3 - first}", held)

    def test_other_collections_are_free(self):
        self.assertEqual(self.one.outcomes("skus", [sku("B"), sku("A", 3)]),
                         ["ACCEPTED created", "ACCEPTED updated"])
        self.assertEqual(self.collection(self.one, "skus"), ["A", "B"])

    def test_no_warehouse_at_all_is_none(self):
        none = self.p.limited("X")
        self.addCleanup(none.close)
        self.stack.sql("UPDATE credential SET warehouses = '[]' WHERE "
                       "warehouses = '[\"X\"]'")
        for c, make in MAKE.items():
            self.p.outcomes(c, [make("X", 1)])
            self.refused(none.post(c, [make("Y", 1)]))
            self.assertEqual(self.collection(none, c), [])
        self.assertEqual(none.outcome("uoms", uom("KG")), "ACCEPTED created")


class Jobs(WarehouseTest):
    def test_items_of_others_are_rejected_alone_with_code_and_pointer(self):
        for c, make in MAKE.items():
            with self.subTest(c):
                self.p.outcomes(c, [make("H", 2, 5)])
                held = self.p.held(c)["H"]
                sent = [make("X", 1), make("Y", 2), make("H", 1, 6),
                        make("Z", 1)]
                job = self.job(self.one, self.one.post(c, sent, mode="bulk"))
                self.assertEqual(job["status"], "COMPLETED")
                results = self.job_results(self.one, job)
                self.assertEqual([brief(r) for r in results],
                                 ["ACCEPTED created", "REJECTED", "REJECTED",
                                  "ACCEPTED created"])
                errors = [r["errors"] for r in results[1:3]]
                self.assertEqual([(len(e), e[0]["code"], e[0]["pointer"])
                                  for e in errors],
                                 [(1, SLUG, "/" + FIELD[c]),
                                  (1, SLUG, "/source_id")])
                self.assertEqual(self.p.held(c)["H"], held)
                self.assertNotIn("Y", self.p.held(c))

    def test_a_zone_of_another_makes_its_bins_so_within_a_job(self):
        job = self.job(self.one, self.one.post("locations", [
            place("ZA", 1, "ZONE", "W1"), place("BA", 1, "BIN", "ZA"),
            place("ZB", 1, "ZONE", "W2"), place("BB", 1, "BIN", "ZB"),
            place("BC", 1, "BIN", "Z2")], mode="bulk"))
        self.assertEqual(
            [brief(r) for r in self.job_results(self.one, job)],
            ["ACCEPTED created", "ACCEPTED created", "REJECTED",
             "QUARANTINED reference-missing", "REJECTED"])

    def test_a_job_is_seen_by_those_who_cover_its_sender(self):
        part = self.p.limited("W1")
        self.addCleanup(part.close)
        of_one = self.job(self.one, self.one.post(
            "work-orders", [MAKE["work-orders"]("X", 1)], mode="bulk"))
        of_part = self.job(part, part.post(
            "work-orders", [MAKE["work-orders"]("Y", 1)], mode="bulk"))
        of_all = self.job(self.p, self.p.post(
            "work-orders", [MAKE["work-orders"]("Z", 1)], mode="bulk"))
        free = self.job(self.p, self.p.post("uoms", [uom("KG")], mode="bulk"))
        ids = [j["job_id"] for j in (free, of_all, of_part, of_one)]
        want = {"p": ids, "one": [ids[0], ids[2], ids[3]],
                "part": [ids[0], ids[2]], "two": [ids[0]]}
        for name, who in (("p", self.p), ("one", self.one), ("part", part),
                          ("two", self.two)):
            for limit in (1, 2, 100):
                self.assertEqual(self.listed(who, "/jobs", "job_id",
                                             limit=limit), want[name], name)
            self.assertEqual(
                self.listed(who, "/jobs", "job_id", collection="work-orders",
                            limit=1), [i for i in want[name] if i != ids[0]])
            for job in ids:
                status = 200 if job in want[name] else 404
                for path in ("", "/results"):
                    self.assertEqual(who.get(f"/jobs/{job}{path}").status,
                                     status, (name, job))
                cancelled = who.control(f"/jobs/{job}/cancel")
                self.assertEqual(cancelled.status,
                                 409 if status == 200 else 404)


class Replays(WarehouseTest):
    def test_an_answer_is_given_again_to_those_who_cover_its_sender(self):
        part = self.p.limited("W1")
        self.addCleanup(part.close)
        c = "work-orders"
        items = [MAKE[c]("X", 1, 1)]

        def sent(by, how):
            key = new_key()
            answer = by.post(c, items, key=key, **how)
            self.assertIn(answer.status, (200, 202))
            return key, answer.body
        for how in ({}, {"mode": "bulk"}):
            for sender, may in ((self.p, "p"), (self.one, "p one"),
                                (part, "p one part")):
                key, body = sent(sender, how)
                for name, who in (("p", self.p), ("one", self.one),
                                  ("part", part), ("two", self.two)):
                    again = who.post(c, items, key=key, **how)
                    asked = who.get(f"/requests/{key}")
                    if name in may.split():
                        self.assertEqual(again.body, body, (name, may))
                        self.assertEqual(
                            again.headers["Idempotent-Replayed"], "true")
                        self.assertEqual(asked.status, 200)
                    else:
                        self.refused(again)
                        self.absent(asked)

    def test_an_answer_about_what_has_no_warehouse_is_for_all(self):
        key = new_key()
        first = self.p.post("uoms", [uom("KG")], key=key)
        self.assertEqual(self.one.post("uoms", [uom("KG")], key=key).body,
                         first.body)
        self.assertEqual(self.one.get(f"/requests/{key}").status, 200)


class Reading(WarehouseTest):
    def test_items_of_others_are_not_there(self):
        for c, make in MAKE.items():
            with self.subTest(c):
                ids = {}
                for n in (1, 2):
                    self.p.outcomes(c, [make(f"X{n}", n, 1),
                                        make(f"X{n}", n, 2)])
                    ids[n] = self.p.held(c)[f"X{n}"].internal
                for who, own, other in ((self.one, 1, 2), (self.two, 2, 1)):
                    for path in (f"{self.one_path(c, f'X{own}')}",
                                 f"{self.one_path(c, f'X{own}')}"
                                 "?history=true",
                                 f"/mappings?collection={c}"
                                 f"&source_id=X{own}",
                                 f"/mappings?internal_id={ids[own]}"):
                        self.assertEqual(who.get(path).status, 200, path)
                        other_path = path.replace(f"X{own}", f"X{other}")
                        other_path = other_path.replace(ids[own], ids[other])
                        self.absent(who.get(other_path))
                    self.assertIn(f"X{own}", self.collection(who, c))
                    self.assertNotIn(f"X{other}", self.collection(who, c))

    def test_pages_are_filled_and_cursors_go_on(self):
        c, make = "work-orders", MAKE["work-orders"]
        mine = []
        for at in (0, 15):
            some = [make(f"{i:03}", 1 + (i % 5 > 0)) for i in
                    range(at, at + 15)]
            mine += [i["source_id"] for i in some
                     if i["warehouse_source_id"] == "W1"]
            self.p.post(c, some)
        for limit in (1, 3, 4, 6, 100):
            self.assertEqual(self.collection(self.one, c, limit=limit), mine)
        page = self.one.get(self.one_path(c, "")[:-1] + "?limit=4").json()
        self.assertEqual([len(page["items"]), bool(page["next"])], [4, True])
        self.p.deactivate(c, keep=mine[:3])
        self.assertEqual(
            self.collection(self.one, c, state="ACTIVE", limit=2), mine[:3])
        self.assertEqual(
            self.collection(self.one, c, state="INACTIVE", limit=2), mine[3:])

    def multiply(self, table, where, **changed):
        """12,000 copies of a row, each with other columns by `n`."""
        columns = [r[0] for r in self.stack.sql(
            "SELECT column_name FROM information_schema.columns WHERE "
            f"table_schema = 'waybill' AND table_name = '{table}'")]
        chosen = ", ".join(changed.get(c, c) for c in columns)
        self.stack.sql(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} "
            f"FROM {table} JOIN (SELECT seq AS n FROM seq_1_to_12000) s "
            f"WHERE {where} AND "
            f"partner_id = {self.p.no}")

    def first_page_is_short(self, path, name, shown):
        page = self.one.get(path).json()
        self.assertEqual([i[name] for i in page["items"]], shown)
        self.assertTrue(page["next"])
        return page["next"]

    def test_more_items_of_others_than_a_page_looks_at(self):
        c = "work-orders"
        self.p.post(c, [MAKE[c]("A", 1), MAKE[c]("Z", 1), MAKE[c]("M", 2)])
        self.multiply("item", "source_id = 'M'",
                      source_id="CONCAT('M', LPAD(n, 5, '0'))",
                      internal_id="UNHEX(LPAD(HEX(n + 99), 32, '0'))")
        after = self.first_page_is_short(self.one_path(c, "")[:-1],
                                         "source_id", ["A"])
        # Nor does the cursor tell whose item it was that it ended at.
        letters = after[1:].upper()
        told = base64.b32decode(letters + "=" * (-len(letters) % 8))
        self.assertNotIn(b"M0", told)
        self.assertEqual(self.collection(self.one, c), ["A", "Z"])

    def test_more_jobs_and_records_of_others_than_a_page_looks_at(self):
        c = "work-orders"
        jobs, records = [], []
        for name, who in (("A", self.one), ("M", self.p), ("Z", self.one)):
            jobs.append(self.job(who, who.post(
                c, [MAKE[c](name, 1)], mode="bulk"))["job_id"])
            records.append(who.results("receivers", [
                MAKE["receivers"](name, 9)])[0]["quarantine_id"])
        later = "CONCAT(LEFT({0}, 6), UNHEX(LPAD(HEX(n), 20, '0')))"
        self.multiply("job", f"job_id = X'{jobs[1][4:]}'",
                      job_id=later.format("job_id"))
        self.multiply("quarantine", f"quarantine_id = X'{records[1][4:]}'",
                      quarantine_id=later.format("quarantine_id"),
                      source_id="CONCAT(source_id, n)", is_open="NULL",
                      state="4")
        self.first_page_is_short("/jobs", "job_id", [jobs[2]])
        self.assertEqual(self.listed(self.one, "/jobs", "job_id"),
                         [jobs[2], jobs[0]])
        self.first_page_is_short("/quarantine", "quarantine_id",
                                 [records[0]])
        self.assertEqual(
            self.listed(self.one, "/quarantine", "quarantine_id"),
            [records[0], records[2]])

    def test_another_parent_of_a_zone_moves_its_bins_at_once(self):
        self.p.outcomes("locations", [MAKE["locations"]("X", 1)])
        path = self.one_path("locations", "X")
        self.assertEqual(self.one.get(path).status, 200)
        self.absent(self.two.get(path))
        self.p.outcomes("locations", [place("Z1", 2, "ZONE", "W2")])
        self.absent(self.one.get(path))
        self.assertEqual(self.two.get(path).status, 200)
        self.assertEqual(self.collection(self.one, "locations"), ["V1", "W1"])
        self.refused(self.one.post("locations", [place("X", 9, "BIN", "Z1")]))
        self.p.outcomes("purchase-orders", [MAKE["purchase-orders"]("P1", 2)])
        self.refused(self.one.post("receivers", [MAKE["receivers"]("R", 1)]))

    def test_capabilities_tell_what_a_credential_is_limited_to(self):
        told = self.one.get("/capabilities").json()
        self.assertEqual(told["warehouses"], OWN.split(","))
        self.assertIsNone(self.p.get("/capabilities").json()["warehouses"])
        self.assertEqual(
            {c["collection"]: [f["name"] for f in c["fields"]
                               if f.get("warehouse")]
             for c in told["collections"]
             if any(f.get("warehouse") for f in c["fields"])},
            {**{c: [f] for c, f in FIELD.items()},
             "transfer-orders": ["from_warehouse_source_id",
                                 "to_warehouse_source_id"]})

    def test_a_page_asks_once_where_its_items_lead(self):
        """And a credential without a limit never does."""
        self.p.outcomes("locations", [
            *(place(f"Y{i}", 1, "ZONE", "W1") for i in range(9)),
            *(place(f"B{i}", 1, "BIN", f"Y{i % 9}") for i in range(27))])

        def steps(call):
            self.stack.sql("SET GLOBAL log_output = 'TABLE', "
                           "GLOBAL general_log = 1")
            call()
            self.stack.sql("SET GLOBAL general_log = 0")
            rows = self.stack.sql(
                "SELECT COUNT(*) FROM mysql.general_log WHERE command_type = "
                "'Execute' AND argument LIKE 'SELECT source_id, trait, home "
                "FROM item WHERE%'")
            self.stack.sql("TRUNCATE mysql.general_log")
            return int(rows[0][0])

        def page(who):
            return who.get(self.one_path("locations", "")[:-1])
        # Once to choose, and once for what is shown.
        self.assertEqual(steps(lambda: page(self.one)), 2)
        self.assertEqual(steps(lambda: page(self.p)), 0)
        bins = [place(f"B{i}", 2, "BIN", f"Y{i % 9}") for i in range(27)]
        self.assertEqual(steps(lambda: self.p.post("locations", bins)), 0)
        # All zones are referred to, and so in the picture already.
        self.assertEqual(steps(lambda: self.one.post("locations", bins)), 0)
        self.assertEqual(steps(lambda: self.one.post("locations", [
            place(f"B{i}", 3, "BIN", "Y0") for i in range(27)])), 1)

    def test_versions_from_another_warehouse_are_left_out_of_the_history(self):
        c, make = "sales-orders", MAKE["sales-orders"]
        self.p.outcomes(c, [make("X", 1, 1)])
        self.p.outcomes(c, [make("X", 2, 2), make("X", 2, 3),
                            make("X", 1, 4)])
        path = self.one_path(c, "X") + "?history=true"

        def versions(who):
            return [h["source_version"] for h in
                    who.get(path).json()["history"]]
        self.assertEqual(versions(self.p), [1, 2, 3, 4])
        self.assertEqual(versions(self.one), [1, 4])
        self.absent(self.two.get(path))

    def test_records_are_seen_by_whose_they_are(self):
        own = self.one.results("receivers", [MAKE["receivers"]("O", 9)])[0]
        resolved = self.p.results("work-orders", [
            dict(MAKE["work-orders"](f"W{n}", n), sku_source_id="NONE")
            for n in (1, 2)])
        lost = self.p.results("receivers", [MAKE["receivers"]("L", 8)])[0]
        free = self.p.results("skus", [sku("F", None, "NONE")])[0]
        name = {r["quarantine_id"]: r["source_id"]
                for r in (own, *resolved, lost, free)}
        want = {self.p: "OW1W2LF", self.one: "OW1F", self.two: "W2F"}
        for who, seen in want.items():
            for limit in (1, 2, 100):
                found = self.listed(who, "/quarantine", limit=limit)
                self.assertEqual("".join(found), seen)
            # A page is filled, though what comes first is not to be seen.
            self.assertEqual(len(who.get("/quarantine?limit=1").json()
                                 ["items"]), 1)
            self.assertEqual(
                "".join(self.listed(who, "/quarantine", missing="NONE",
                                    limit=1)),
                seen.replace("O", "").replace("L", ""))
            for record, source_id in name.items():
                answer = who.get(f"/quarantine/{record}")
                self.assertEqual(answer.status,
                                 200 if source_id in seen else 404)
                if source_id not in seen:
                    self.absent(who.control(f"/quarantine/{record}/release"))
                    self.absent(who.control(f"/quarantine/{record}/discard"))
        self.assertEqual({r.state for r in self.p.records("receivers") +
                          self.p.records("work-orders")}, {"OPEN"})
        self.assertEqual(self.one.control(
            f"/quarantine/{own['quarantine_id']}/discard").status, 200)


class Releasing(WarehouseTest):
    """A record of a bin whose zone has not come; then it comes, elsewhere."""

    def hold(self, who, source_id="X", zone="ZX"):
        result = who.results("locations", [place(source_id, 3, "BIN", zone)])
        self.assertEqual(brief(result[0]), "QUARANTINED reference-missing")
        return result[0]["quarantine_id"]

    def zone(self, warehouse, version=1, zone="ZX"):
        self.p.outcomes("locations", [place(zone, version, "ZONE",
                                            warehouse)])

    def record(self, source_id="X"):
        return self.p.records("locations", source_id)[-1]

    def test_it_is_released_into_its_senders_warehouse(self):
        self.hold(self.one)
        self.zone("W1")
        answer = self.p.control(f"/quarantine/{self.record().id}/release")
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(self.p.held("locations")["X"].version, 3)

    def test_nobody_releases_it_into_another(self):
        record = self.hold(self.one)
        self.zone("W2")
        for who in (self.p, self.one):
            answer = who.control(f"/quarantine/{record}/release")
            self.assertEqual((answer.status, slug(answer)),
                             (409, "still-quarantined"))
            self.assertIn("warehouse", answer.json()["detail"])
        done = self.stack.waybill("quarantine", "release", record,
                                  check=False)
        self.assertNotEqual(done.returncode, 0)
        job = self.job(self.p, self.p.control("/quarantine/release"))
        self.assertEqual(job["summary"]["quarantined"], 1)
        self.assertEqual(
            [r["code"] for r in self.job_results(self.p, job)], [SLUG])
        self.assertNotIn("X", self.p.held("locations"))
        self.assertEqual((self.record().state, self.record().code),
                         ("OPEN", SLUG))
        # Its own sender sees it and can mend it; the other cannot.
        self.assertEqual(self.one.get(f"/quarantine/{record}").json()["code"],
                         SLUG)
        self.assertEqual(
            self.one.outcome("locations", place("X", 4, "BIN", "Z1")),
            "ACCEPTED created")
        self.assertEqual(self.record().state, "SUPERSEDED")

    def test_nor_does_it_release_itself(self):
        self.stack.waybill("partner", "set", self.p.name, "--auto-release")
        self.hold(self.one)
        self.hold(self.p, "FREE")
        self.zone("W2")
        wait_for(lambda: self.record().code == SLUG, 60, "a look at it")
        wait_for(lambda: "FREE" in self.p.held("locations"), 60, "the other")
        self.assertNotIn("X", self.p.held("locations"))
        self.assertEqual(self.record().state, "OPEN")
        # The zone comes home, and the bin with it.
        self.zone("W1", 2)
        wait_for(lambda: "X" in self.p.held("locations"), 60, "its release")
        self.assertEqual(self.record().state, "RELEASED")

    def test_a_release_takes_nothing_that_another_holds(self):
        record = self.hold(self.one)
        self.p.outcomes("locations", [place("X", 1, "BIN", "Z2")])
        self.zone("W1")
        held = self.p.held("locations")["X"]
        answer = self.p.control(f"/quarantine/{record}/release")
        self.assertEqual(answer.status, 409, answer)
        self.assertEqual(self.p.held("locations")["X"], held)

    def test_a_limited_releaser_is_bound_by_its_own_scope_too(self):
        record = self.hold(self.p)
        self.p.outcomes("locations", [place("X", 1, "BIN", "Z2")])
        self.zone("W1")
        held = self.p.held("locations")["X"]
        self.assertEqual(self.one.get(f"/quarantine/{record}").status, 200)
        answer = self.one.control(f"/quarantine/{record}/release")
        self.assertEqual(answer.status, 409, answer)
        self.assertEqual(self.p.held("locations")["X"], held)
        self.assertEqual(self.p.control(
            f"/quarantine/{record}/release").status, 200)

    def test_what_it_waits_for_brings_it_to_nobody_else(self):
        record = self.hold(self.two)
        # Who makes what another's record waits for does not get at it.
        self.assertEqual(self.one.outcome(
            "locations", place("ZX", 1, "ZONE", "W1")), "ACCEPTED created")
        before = checksums(self.stack)
        self.absent(self.one.get(f"/quarantine/{record}"))
        self.assertEqual(self.listed(self.one, "/quarantine"), [])
        self.assertEqual(
            self.listed(self.one, "/quarantine", missing="ZX"), [])
        self.absent(self.one.control(f"/quarantine/{record}/release"))
        self.absent(self.one.control(f"/quarantine/{record}/discard"))
        self.refused(self.one.post("locations", [place("X", 9, "BIN", "Z1")]),
                     "/items/0/source_id")
        self.assertEqual(checksums(self.stack), before)
        # Who has both warehouses does.
        both = self.p.limited("W1,W2,V2")
        self.addCleanup(both.close)
        self.assertEqual(both.get(f"/quarantine/{record}").status, 200)
        self.assertEqual(self.two.get(f"/quarantine/{record}").status, 200)

    def test_a_release_by_who_may_not_leaves_the_record_as_it_is(self):
        self.stack.waybill("partner", "set", self.p.name, "--auto-release")
        self.p.outcomes("locations", [place("X", 1, "BIN", "Z2")])
        self.p.results("locations", [place("X", 3, "BIN", "Z1",
                                           address_source_id="NONE")])
        job = self.job(self.one, self.one.control("/quarantine/release"))
        self.assertEqual(
            [r["code"] for r in self.job_results(self.one, job)], [SLUG])
        self.assertEqual(self.record().code, "reference-missing")
        self.p.outcomes("addresses", [item("NONE", 1, country="DE",
                                           city="X", lines=["1"])])
        wait_for(lambda: self.p.held("locations")["X"].version == 3, 20,
                 "its release")

    def test_who_replaces_the_payload_replaces_the_scope(self):
        record = self.hold(self.one)
        self.assertEqual(self.hold(self.p), record)
        self.absent(self.one.get(f"/quarantine/{record}"))
        self.assertEqual(self.p.control(
            f"/quarantine/{record}/discard").status, 200)
        record = self.hold(self.two)
        self.zone("W2")
        self.assertEqual(self.two.control(
            f"/quarantine/{record}/release").status, 200)

    def test_a_job_releases_what_its_sender_may_see(self):
        self.hold(self.one, "X1", "ZX1")
        self.hold(self.two, "X2", "ZX2")
        for i in range(120):  # more than one look of the job
            self.p.results("receivers", [MAKE["receivers"](f"L{i}", 7)],
                           **{"return": "summary"})
        self.zone("W1", zone="ZX1")
        self.zone("W2", zone="ZX2")
        answer = self.one.control("/quarantine/release")
        self.assertEqual(answer.json()["received"]["items"], 1)
        job = self.job(self.one, answer)
        self.assertEqual([r["source_id"] for r in
                          self.job_results(self.one, job)], ["X1"])
        self.assertEqual(sorted(i for i in self.p.held("locations")
                                if i[0] == "X"), ["X1"])
        self.absent(self.two.get(f"/jobs/{job['job_id']}"))
        self.job(self.two, self.two.control(
            "/quarantine/release?collection=locations&missing=ZX2"))
        self.assertIn("X2", self.p.held("locations"))


class Refreshing(WarehouseTest):
    def active(self, collection):
        return {k for k, h in self.p.held(collection).items()
                if h.state == "ACTIVE"}

    def test_it_concerns_its_own_warehouses_alone(self):
        for c, make in MAKE.items():
            with self.subTest(c):
                self.p.outcomes(c, [make(f"{x}{n}", n) for n in (1, 2)
                                    for x in "ABC"])
                # What is over: the others are still there for the next one.
                others = self.active(c) - set(self.collection(self.one, c))
                keep = [json.loads(self.p.held(c)[k].payload) for k in
                        self.collection(self.one, c)
                        if k not in ("B1", "C1")]
                dry = self.one.refresh(c, keep, key="", dry_run="true")
                self.assertEqual(dry.json()["summary"]["tombstoned"], 2)
                answer = self.one.refresh(c, keep)
                self.assertEqual(answer.json()["summary"]["tombstoned"], 2)
                self.assertEqual(
                    self.active(c),
                    others | {i["source_id"] for i in keep})
                undo = (f"/batches/{answer.json()['batch_id']}/undo-refresh")
                self.absent(self.two.control(undo))
                undone = self.one.control(undo)
                self.assertEqual(undone.json()["restored"], 2, undone)

    def test_an_undo_is_for_those_who_cover_the_refresh(self):
        c, make = "work-orders", MAKE["work-orders"]
        self.p.outcomes(c, [make("A", 1)])
        answer = self.p.refresh(c, [], confirm_empty="true")
        undo = f"/batches/{answer.json()['batch_id']}/undo-refresh"
        self.absent(self.one.control(undo))
        self.assertEqual(self.p.control(undo).json()["restored"], 1)

    def test_an_undo_leaves_what_went_elsewhere(self):
        self.p.outcomes("locations", [
            place("ZN", 1, "ZONE", "W1"), place("B", 1, "BIN", "ZN"),
            place("C", 1, "BIN", "Z1")])
        keep = [json.loads(self.p.held("locations")[k].payload)
                for k in self.collection(self.one, "locations")
                if k not in "BC"]
        batch = self.one.refresh("locations", keep).json()["batch_id"]
        self.p.outcomes("locations", [place("ZN", 2, "ZONE", "W2")])
        undone = self.one.control(f"/batches/{batch}/undo-refresh").json()
        self.assertEqual((undone["restored"], undone["skipped"]), (1, 1))
        self.assertEqual(self.p.held("locations")["B"].state, "INACTIVE")

    def test_the_guard_counts_its_own(self):
        """Half of all is little of its own, or the other way round."""
        c, make = "work-orders", MAKE["work-orders"]

        def fill_up(name, n, count):
            for at in range(0, count, SYNC_MAX):
                self.p.post(c, [make(f"{name}{i:03}", n)
                                for i in range(at, min(at + SYNC_MAX,
                                                       count))])
        fill_up("B", 2, 140)
        fill_up("A", 1, 20)
        # 19 of its 20: not above a hundred, and 121 others do not count.
        job = self.job(self.one, self.one.refresh(c, [make("A000", 1)]))
        self.assertEqual((job["status"], job["summary"]["tombstoned"]),
                         ("COMPLETED", 19))
        self.assertEqual(len(self.active(c)), 141)
        # 99 of its 140 is too much, though not of all.
        fill_up("A", 1, 200)
        keep = [make(f"B{i:03}", 2) for i in range(41)]
        job = self.job(self.two, self.two.refresh(c, keep))
        self.assertEqual((job["status"], job["error"]["type"].split("#")[1]),
                         ("FAILED", "refresh-too-destructive"))
        self.assertIn("99 of 140", job["error"]["detail"])
        job = self.job(self.two, self.two.refresh(c, keep, confirm="true"))
        self.assertEqual((job["status"], job["summary"]["tombstoned"]),
                         ("COMPLETED", 99))
        self.assertEqual(len(self.active(c)), 200 + 41)
        self.absent(self.one.control(
            f"/batches/{job['batch_id']}/undo-refresh"))
        job = self.job(self.two, self.two.control(
            f"/batches/{job['batch_id']}/undo-refresh"))
        self.assertEqual(job["summary"]["restored"], 99)
        self.absent(self.one.get("/jobs/" + job["job_id"]))

    def test_bins_of_others_stay_in_a_refresh_job(self):
        self.p.outcomes("locations", [
            MAKE["locations"](f"B{n}{i}", n) for n in (1, 2)
            for i in range(15)])
        own = set(self.collection(self.one, "locations"))
        others = self.active("locations") - own
        keep = [place("W1"), place("Z1", 1, "ZONE", "W1"),
                *(MAKE["locations"](f"B1{i}", 1) for i in range(5))]
        job = self.job(self.one, self.one.refresh("locations", keep))
        self.assertEqual(job["status"], "COMPLETED")
        self.assertEqual(job["summary"]["tombstoned"], len(own) - 7)
        self.assertEqual(self.active("locations"),
                         others | {i["source_id"] for i in keep})


class Model:
    """What there is and whose it is, in a few lines."""

    def __init__(self):
        self.held = {c: {} for c in MAKE}  # source_id: item

    def warehouses(self, collection, one):
        if collection == "locations":
            if one["kind"] == "WAREHOUSE":
                return {one["source_id"]}
            parent = one["parent_source_id"]
            if one["kind"] == "ZONE":
                return {parent}
            zone = self.held["locations"].get(parent)
            return zone and self.warehouses("locations", zone)
        if collection == "transfer-orders":
            return {one["from_warehouse_source_id"],
                    one["to_warehouse_source_id"]}
        if collection in ("receivers", "shippers"):
            orders, field = (("purchase-orders", "po_source_id")
                             if collection == "receivers" else
                             ("sales-orders", "so_source_id"))
            order = self.held[orders].get(one[field])
            return order and self.warehouses(orders, order)
        return {one["warehouse_source_id"]}

    def own(self, scope, collection, one):
        found = self.warehouses(collection, one)
        return found is not None and found <= scope

    def seen(self, scope, collection):
        return sorted(i for i, one in self.held[collection].items()
                      if self.own(scope, collection, one))

    def allows(self, scope, collection, one):
        there = self.held[collection].get(one["source_id"])
        return (self.own(scope, collection, one) and
                (there is None or self.own(scope, collection, there)))


class Randomly(WarehouseTest):
    SCOPES = {"one": {"W1", "V1"}, "two": {"W2", "W3"}}
    ALL = ("W1", "W2", "W3", "V1")

    def an_item(self, r, c):
        i = f"{c[0].upper()}{r.randrange(8)}"
        w = r.choice(self.ALL)
        if c == "locations":
            if r.random() < 0.4:
                return place(f"Z{r.randrange(4)}", None, "ZONE", w)
            return place(f"B{r.randrange(8)}", None, "BIN",
                         f"Z{r.randrange(4)}")
        if c == "transfer-orders":
            a, b = r.sample(self.ALL, 2)
            return item(i, from_warehouse_source_id=a,
                        to_warehouse_source_id=b, lines=[line()])
        made = MAKE[c](i, 1)
        made[FIELD[c]] = {"receivers": f"P{r.randrange(8)}",
                          "shippers": f"S{r.randrange(8)}"}.get(c, w)
        return made

    def start(self, model):
        """So that every reference there can be is there."""
        filled = [("locations", [place(w) for w in self.ALL] +
                   [place(f"Z{i}", None, "ZONE", "W1") for i in range(4)])]
        for c in ("purchase-orders", "sales-orders"):
            filled.append((c, [MAKE[c](f"{c[0].upper()}{i}", 1)
                               for i in range(8)]))
        for c, items in filled:
            self.p.results(c, items)
            model.held[c].update({i["source_id"]: i for i in items})

    def compare(self, model, creds, what):
        for name, scope in self.SCOPES.items():
            for c in MAKE:
                self.assertEqual(
                    self.collection(creds[name], c, limit=3),
                    model.seen(scope, c), (what, name, c))

    def test_every_listing_and_refusal_is_as_a_small_model_says(self):
        seed = int(os.environ.get("WAREHOUSE_SEED",
                                  random.randrange(1 << 32)))
        print(f"WAREHOUSE_SEED={seed}", flush=True)
        r = random.Random(seed)
        self.p = Partner(self.stack)
        self.p.post("uoms", [uom("EA")])
        self.p.post("skus", [sku("A")])
        creds = {n: self.p.limited(",".join(sorted(s)))
                 for n, s in self.SCOPES.items()}
        for who in (self.p, *creds.values()):
            self.addCleanup(who.close)
        model = Model()
        self.start(model)
        for step in range(150):
            c = r.choice(list(MAKE))
            sent = self.an_item(r, c)
            name = r.choice(["p", "one", "two"])
            who = creds.get(name, self.p)
            allowed = name == "p" or model.allows(self.SCOPES[name], c, sent)
            answer = who.post(c, [sent])
            self.assertEqual(answer.status, 200 if allowed else 403,
                             (seed, step, name, c, sent, answer))
            if allowed:
                model.held[c][sent["source_id"]] = sent
            if step % 15 == 14:
                self.compare(model, creds, (seed, step))
