"""full-refresh: what is not named becomes INACTIVE; guards; and undoing it."""
# SPDX-License-Identifier: Apache-2.0
import unittest

from items import Partner, bom, brief, checksums, new_key, orphans, sku, uom
from stack import Stack, wait_for

SYNC_MAX = 300


def slug(answer):
    return answer.json()["type"].split("#")[1]


class RefreshTest(unittest.TestCase):
    stack = None
    maxDiff = None

    def setUp(self):
        self.p = Partner(self.stack)
        self.addCleanup(self.p.close)

    def tearDown(self):
        self.assertEqual(orphans(self.stack), {})

    def active(self, collection="uoms"):
        return [k for k, h in self.p.held(collection).items()
                if h.state == "ACTIVE"]

    def fill(self, n, collection="uoms"):
        self.p.post(collection, [uom(f"U{i:03}", 1) for i in range(n)])

    def refused(self, answer, status, want):
        self.assertEqual((answer.status, slug(answer)), (status, want),
                         answer)


def setUpModule():
    RefreshTest.stack = Stack(
        workers=2, conf=[f"bulk_async_threshold = {SYNC_MAX}"])
    RefreshTest.stack.start()


def tearDownModule():
    RefreshTest.stack.stop()
    RefreshTest.stack.remove()


class Tombstones(RefreshTest):
    def test_what_is_not_named_becomes_inactive_and_keeps_everything(self):
        p = self.p
        p.post("uoms", [uom("A", 1), uom("B", 1)])
        p.post("uoms", [uom("B", 2), uom("C")])
        p.post("skus", [sku("B", 1, "A")])
        before = p.held("uoms")
        past = p.history("uoms", "B")
        answer = p.refresh("uoms", [uom("A", 1), uom("D", 1)])
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.json()["summary"], {
            "total": 2, "accepted": 1, "replay": 1, "quarantined": 0,
            "rejected": 0, "tombstoned": 2})
        held = p.held("uoms")
        self.assertEqual({k: h.state for k, h in held.items()},
                         {"A": "ACTIVE", "B": "INACTIVE", "C": "INACTIVE",
                          "D": "ACTIVE"})
        for k in "BC":
            self.assertEqual(held[k]._replace(state="ACTIVE", rev=0),
                             before[k]._replace(rev=0))
        self.assertEqual(p.history("uoms", "B"), past)
        self.assertEqual(self.active("skus"), ["B"])
        # Again: what is INACTIVE is not tombstoned twice.
        answer = p.refresh("uoms", [uom("A", 1), uom("D", 1)])
        self.assertEqual(answer.json()["summary"]["tombstoned"], 0)

    def test_items_in_it_are_treated_as_in_an_upsert(self):
        p = self.p
        p.post("uoms", [uom("A", 5), uom("B", 5)])
        answer = p.refresh("uoms", [uom("A", 5), uom("B", 6), uom("B", 4),
                                    uom("C"), uom("A", 5, "other")])
        self.assertEqual([brief(r) for r in answer.json()["results"]], [
            "REPLAY", "ACCEPTED updated", "REPLAY", "ACCEPTED created",
            "REPLAY conflict"])

    def test_held_back_and_rejected_ones_count_as_named(self):
        p = self.p
        p.post("uoms", [uom("EA")])
        p.post("skus", [sku(k, 1) for k in "ABCD"])
        answer = p.refresh("skus", [sku("A", 2, "NO"),
                                    {"source_id": "B", "name": 5},
                                    sku("C", 1)])
        self.assertEqual(answer.status, 207)
        self.assertEqual(answer.json()["summary"], {
            "total": 3, "accepted": 0, "replay": 1, "quarantined": 1,
            "rejected": 1, "tombstoned": 1})
        self.assertEqual(self.active("skus"), ["A", "B", "C"])

    def test_one_that_is_too_large_counts_as_named(self):
        p = self.p
        p.post("uoms", [uom("A", 1), uom("B", 1)])
        answer = p.refresh("uoms", [uom("A", 2, "x" * 70000), uom("C")])
        self.assertEqual(answer.json()["summary"]["rejected"], 1)
        self.assertEqual(self.active(), ["A", "C"])

    def test_history_names_the_batch_that_accepted(self):
        p = self.p
        first = p.post("uoms", [uom("A", 1), uom("B", 1)]).json()["batch_id"]
        p.refresh("uoms", [uom("B", 1)])
        p.post("uoms", [uom("A", 2)])
        self.assertEqual(self.stack.sql(
            "SELECT CONCAT('bat-', LOWER(HEX(batch_id))) FROM item_history "
            f"WHERE partner_id = {p.no} AND source_id = 'A'"), [[first]])

    def test_a_reference_to_an_inactive_item_is_held_back(self):
        p = self.p
        p.post("uoms", [uom("EA"), uom("KG")])
        p.refresh("uoms", [uom("KG")])
        self.assertEqual(p.outcome("skus", sku("S")),
                         "QUARANTINED reference-inactive")

    def test_other_collections_and_partners_are_left_alone(self):
        p, other = self.p, Partner(self.stack)
        for one in (p, other):
            one.post("uoms", [uom("EA"), uom("KG")])
            one.post("skus", [sku("S")])
        p.refresh("uoms", [uom("EA")])
        self.assertEqual(self.active("skus"), ["S"])
        self.assertEqual({h.state for h in other.held("uoms").values()},
                         {"ACTIVE"})
        other.close()

    def test_a_replayed_refresh_does_nothing_again(self):
        p, key = self.p, new_key()
        p.post("uoms", [uom("A"), uom("B")])
        first = p.refresh("uoms", [uom("A")], key=key)
        p.post("uoms", [uom("B", 2), uom("C")])
        before = checksums(self.stack)
        again = p.refresh("uoms", [uom("A")], key=key)
        self.assertEqual((again.status, again.body),
                         (first.status, first.body))
        self.assertEqual(checksums(self.stack), before)


class Guards(RefreshTest):
    def test_an_empty_one_must_be_confirmed(self):
        p, key = self.p, new_key()
        self.fill(3)
        before = checksums(self.stack)
        self.refused(p.refresh("uoms", [], key=key), 422, "refresh-empty")
        self.refused(p.refresh("uoms", [], key=key, confirm="true"), 422,
                     "refresh-empty")
        self.refused(p.refresh("uoms", b"", key=key, headers={
            "Content-Type": "application/x-ndjson"}), 422, "refresh-empty")
        self.assertEqual(checksums(self.stack), before)
        answer = p.refresh("uoms", [], key=key, confirm_empty="true")
        self.assertEqual(answer.json()["summary"]["tombstoned"], 3)
        self.assertEqual(self.active(), [])

    def test_confirm_empty_confirms_a_large_collection_too(self):
        self.fill(150)
        answer = self.p.refresh("uoms", [], confirm_empty="true")
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(answer.json()["summary"]["tombstoned"], 150)

    def test_more_than_half_of_over_100_must_be_confirmed(self):
        p, key = self.p, new_key()
        self.fill(102)
        some = [uom(f"U{i:03}", 2) for i in range(51)]
        before = checksums(self.stack)
        for params in ({}, {"confirm_empty": "true"}, {"confirm": "false"}):
            self.refused(p.refresh("uoms", some[:50], key=key, **params),
                         422, "refresh-too-destructive")
        self.refused(p.refresh("uoms", some[:50], key="", dry_run="true"),
                     422, "refresh-too-destructive")
        self.assertEqual(checksums(self.stack), before)
        answer = p.refresh("uoms", some[:50], key=key, confirm="true")
        self.assertEqual(answer.json()["summary"]["tombstoned"], 52)

    def test_exactly_half_is_not_more_than_half(self):
        self.fill(102)
        answer = self.p.refresh("uoms", [uom(f"U{i:03}", 2)
                                         for i in range(51)])
        self.assertEqual(answer.json()["summary"]["tombstoned"], 51)

    def test_a_collection_of_100_is_not_guarded(self):
        self.fill(100)
        answer = self.p.refresh("uoms", [uom("U000", 1)])
        self.assertEqual(answer.json()["summary"]["tombstoned"], 99)

    def test_new_items_do_not_make_up_for_tombstones(self):
        self.fill(101)
        self.refused(self.p.refresh("uoms", [uom(f"N{i}")
                                             for i in range(150)]),
                     422, "refresh-too-destructive")

    def test_inactive_items_do_not_count(self):
        p = self.p
        self.fill(150)
        p.refresh("uoms", [uom(f"U{i:03}", 1) for i in range(90)])
        answer = p.refresh("uoms", [uom("U000", 1)])
        self.assertEqual(answer.json()["summary"]["tombstoned"], 89)


class Size(RefreshTest):
    def finished(self, answer):
        """What became of the job."""
        path = "/jobs/" + answer.json()["job_id"]
        wait_for(lambda: self.p.get(path).json()["status"] == "COMPLETED",
                 what="the job's end")
        return self.p.get(path).json()

    def test_named_plus_active_over_the_threshold_needs_a_job(self):
        p, key = self.p, new_key()
        self.fill(200)
        named = [uom(f"U{i:03}", 2) for i in range(SYNC_MAX - 200 + 1)]
        before = checksums(self.stack)
        answer = p.refresh("uoms", named, key="", confirm="true",
                           dry_run="true")
        self.refused(answer, 413, "body-too-large")
        self.assertEqual(checksums(self.stack), before)
        answer = p.refresh("uoms", named[:-1], key=key, confirm="true")
        self.assertEqual(answer.status, 200, answer)
        self.p = p = Partner(self.stack)
        self.fill(200)
        answer = p.refresh("uoms", named, confirm="true")
        self.assertEqual(answer.status, 202, answer)
        self.finished(answer)
        self.assertEqual(self.active(), [u["source_id"] for u in named])

    def test_an_id_named_twice_is_one(self):
        self.fill(200)
        named = [uom(f"U{i:03}", 2) for i in range(SYNC_MAX - 200)]
        answer = self.p.refresh("uoms", named + named, confirm="true")
        self.assertEqual(answer.status, 200, answer)

    def test_more_items_than_the_threshold_are_a_job(self):
        items = [uom(f"U{i}") for i in range(SYNC_MAX + 1)]
        self.refused(self.p.post("uoms", items, key="", dry_run="true"), 413,
                     "body-too-large")
        self.assertEqual(self.p.post("uoms", items[1:]).status, 200)
        answer = self.p.post("uoms", items)
        self.assertEqual(answer.status, 202, answer)
        self.assertEqual(self.finished(answer)["summary"]["accepted"],
                         len(items))


class Undo(RefreshTest):
    def undo(self, batch, partner=None, **how):
        return (partner or self.p).control(f"/batches/{batch}/undo-refresh",
                                           **how)

    def test_a_held_back_item_outlives_tombstone_and_undo(self):
        p = self.p
        p.post("uoms", [uom("EA")])
        p.post("skus", [sku("S"), sku("T")])
        held = p.post("skus", [sku("S", base_uom="NO")]).json()
        batch = p.refresh("skus", [sku("T")]).json()["batch_id"]
        p.control(f"/batches/{batch}/undo-refresh")
        record = held["results"][0]["quarantine_id"]
        self.assertEqual(p.control(f"/quarantine/{record}/release").status, 409)
        p.post("uoms", [uom("NO")])
        self.assertEqual(p.control(f"/quarantine/{record}/release").json()["quarantine_state"],
                         "RELEASED")

    def test_it_closes_no_ring_of_boms(self):
        p = self.p
        p.post("uoms", [uom("EA")])
        p.post("skus", [sku("P"), sku("Q")])
        p.post("boms", [bom("B1", of="P", parts=["Q"])])
        batch = p.refresh("boms", [], confirm_empty="true").json()["batch_id"]
        self.assertEqual(p.outcome("boms", bom("B2", of="Q", parts=["P"])),
                         "ACCEPTED created")
        undone = p.control(f"/batches/{batch}/undo-refresh").json()
        self.assertEqual((undone["restored"], undone["skipped"]), (0, 1))
        self.assertEqual(self.active("boms"), ["B2"])

    def test_it_brings_back_what_nobody_touched(self):
        p = self.p
        p.post("uoms", [uom(k, 2) for k in "ABCDEF"])
        before = p.held("uoms")
        batch = p.refresh("uoms", [uom("A", 2), uom("N")]).json()["batch_id"]
        p.post("uoms", [uom("B", 3), uom("C", 1), uom("D")])
        p.refresh("uoms", [uom("A", 2), uom("N"), uom("B", 3),
                           uom("E", 2)])  # D again, E reactivated
        answer = self.undo(batch)
        self.assertEqual(answer.status, 200, answer)
        told = answer.json()
        self.assertEqual((told["restored"], told["skipped"]), (2, 3))
        self.assertEqual(told["undone_batch_id"], batch)
        held = p.held("uoms")
        # C was only replayed, F not met at all; what came stays.
        self.assertEqual({k: h.state for k, h in held.items()},
                         {"A": "ACTIVE", "B": "ACTIVE", "C": "ACTIVE",
                          "D": "INACTIVE", "E": "ACTIVE", "F": "ACTIVE",
                          "N": "ACTIVE"})
        for k in "CF":
            self.assertEqual(held[k]._replace(rev=0),
                             before[k]._replace(rev=0))
            self.assertEqual(p.history("uoms", k), [])

    def test_twice_with_one_key_is_once_and_with_another_nothing(self):
        p, key = self.p, new_key()
        p.post("uoms", [uom("A"), uom("B")])
        batch = p.refresh("uoms", [uom("A")]).json()["batch_id"]
        first = self.undo(batch, key=key)
        self.assertEqual(first.json()["restored"], 1)
        again = self.undo(batch, key=key)
        self.assertEqual((again.status, again.body),
                         (first.status, first.body))
        answer = self.undo(batch)
        self.assertEqual((answer.json()["restored"],
                          answer.json()["skipped"]), (0, 1))
        self.assertEqual(self.active(), ["A", "B"])

    def test_what_a_later_refresh_tombstoned_again_stays(self):
        p = self.p
        p.post("uoms", [uom("A"), uom("B")])
        one = p.refresh("uoms", [uom("A")]).json()["batch_id"]
        self.undo(one)
        two = p.refresh("uoms", [uom("A")]).json()["batch_id"]
        self.assertEqual(self.undo(one).json()["restored"], 0)
        self.assertEqual(self.active(), ["A"])
        self.assertEqual(self.undo(two).json()["restored"], 1)

    def test_only_the_partner_and_only_a_refresh(self):
        p, other = self.p, Partner(self.stack)
        p.post("uoms", [uom("A"), uom("B")])
        batch = p.refresh("uoms", [uom("A")]).json()["batch_id"]
        upsert = p.post("uoms", [uom("C")]).json()["batch_id"]
        undone = self.undo(batch).json()["batch_id"]
        before = checksums(self.stack)
        self.refused(self.undo(batch, other), 404, "not-found")
        for wrong in (upsert, undone, "bat-" + "0" * 32, "x"):
            self.refused(self.undo(wrong), 404, "not-found")
        self.assertEqual(checksums(self.stack), before)
        other.close()

    def test_a_released_item_waits_no_more_after_the_undo(self):
        p = self.p
        p.post("uoms", [uom("EA"), uom("KG")])
        batch = p.refresh("uoms", [uom("KG")]).json()["batch_id"]
        held = p.results("skus", [sku("S")])[0]
        self.assertEqual(held["code"], "reference-inactive")
        self.undo(batch)
        answer = p.control(f"/quarantine/{held['quarantine_id']}/release")
        self.assertEqual(brief(answer.json()), "ACCEPTED created")

    def test_a_control_request_takes_no_body(self):
        p = self.p
        p.post("uoms", [uom("A"), uom("B")])
        batch = p.refresh("uoms", [uom("A")]).json()["batch_id"]
        path = f"/wms-ingest/v1/batches/{batch}/undo-refresh"
        self.assertEqual(p.send(path, {"x": 1}).status, 400)
        self.assertEqual(p.send(path, {}).status, 200)


class UndoJob(RefreshTest):
    """More tombstones than a request may touch: a job."""
    COUNT = SYNC_MAX + 50

    def worker(self, verb):
        self.stack.supervisorctl(verb, "worker:*")

    def undo(self, batch, **how):
        return self.p.control(f"/batches/{batch}/undo-refresh", **how)

    def job(self, answer):
        got = self.p.get("/jobs/" + answer.json()["job_id"])
        self.assertEqual(got.status, 200, got)
        return got.json()

    def finished(self, answer):
        wait_for(lambda: self.job(answer)["finished_at"], what="the job's end")
        return self.job(answer)

    def refreshed(self, collection="uoms", items=None, keep=None):
        """A large collection of which a refresh leaves one; its batch."""
        items = items or [uom(f"U{i:03}", 1) for i in range(self.COUNT)]
        for at in range(0, len(items), SYNC_MAX):
            self.p.post(collection, items[at:at + SYNC_MAX])
        answer = self.p.refresh(collection, keep or items[:1], confirm="true")
        self.assertEqual(answer.status, 202, answer)
        return self.finished(answer)["batch_id"]

    def test_it_brings_back_what_nobody_touched(self):
        p, batch = self.p, self.refreshed()
        before = p.held("uoms")
        p.post("uoms", [uom("U001", 2), uom("U002", 1), uom("U003"),
                        uom("U005", 2)])
        # U005 again, by another one.
        p.refresh("uoms", [uom("U000", 1), uom("U001", 2), uom("U003")])
        self.worker("stop")
        self.addCleanup(self.worker, "start")
        key = new_key()
        answer = self.undo(batch, key=key)
        self.assertEqual(answer.status, 202, answer)
        told = answer.json()
        self.assertEqual(answer.headers["Location"], told["status_url"])
        self.assertEqual(told["received"], {"items": self.COUNT - 1,
                                            "bytes": 0})
        again = self.undo(batch, key=key)
        self.assertEqual((again.status, again.body), (202, answer.body))
        self.assertEqual(again.headers["Idempotent-Replayed"], "true")
        self.worker("start")
        got = self.finished(answer)
        self.assertEqual({k: got[k] for k in ("status", "mode", "collection",
                                              "summary")}, {
            "status": "COMPLETED", "mode": "undo-refresh",
            "collection": "uoms", "summary": {
                "total": self.COUNT - 1, "accepted": 0, "replay": 0,
                "quarantined": 0, "rejected": 0,
                "restored": self.COUNT - 4, "skipped": 3}})
        held = p.held("uoms")
        self.assertEqual([k for k, h in held.items() if h.state != "ACTIVE"],
                         ["U005"])
        for k in ("U002", "U004"):  # one replayed, one not met at all
            self.assertEqual(held[k]._replace(rev=0), before[k]._replace(
                rev=0, state="ACTIVE"))
        page = p.get(f"/jobs/{told['job_id']}/results?limit=2").json()
        self.assertEqual([(r["index"], r["source_id"], r["status"])
                          for r in page["results"]],
                         [(0, "U002", "RESTORED"), (1, "U004", "RESTORED")])
        self.assertEqual(self.stack.sql(
            "SELECT kind, mode, restored FROM v_job_by_key WHERE job_key = "
            f"X'{told['job_id'][4:]}'", user="waybill_ro"),
            [["undo-refresh", "undo-refresh", str(self.COUNT - 4)]])
        watched = self.stack.waybill("job", "watch", told["job_id"])
        self.assertIn(f", {self.COUNT - 4} restored", watched.stdout)
        # With another key there is nothing left to bring back.
        got = self.finished(self.undo(batch))
        self.assertEqual((got["summary"]["restored"],
                          got["summary"]["skipped"]), (0, self.COUNT - 1))

    def test_it_is_a_job_of_its_collections_lane(self):
        p, batch = self.p, self.refreshed()
        self.worker("stop")
        self.addCleanup(self.worker, "start")
        bulk = p.post("uoms", [uom("NEW")], mode="bulk")
        undo = self.undo(batch)
        self.assertEqual((bulk.status, undo.status), (202, 202))
        self.assertEqual(self.job(undo)["queue_position"], 2)
        self.refused(p.refresh("uoms", [uom("A")], confirm="true"), 409,
                     "job-in-flight")
        after = p.post("uoms", [uom("NEWER")], mode="bulk")
        self.assertEqual(after.status, 202)
        self.worker("start")
        self.assertEqual(self.finished(after)["status"], "COMPLETED")
        self.assertEqual(len(self.active()), self.COUNT + 2)

    def test_it_waits_for_an_unfinished_refresh_however_small_it_is(self):
        large = self.refreshed()
        self.p.post("skus", [sku("S"), sku("T")])
        self.p.post("uoms", [uom("EA")])
        self.p.post("skus", [sku("S"), sku("T")])
        small = self.p.refresh("skus", [sku("S")]).json()["batch_id"]
        self.worker("stop")
        self.addCleanup(self.worker, "start")
        for collection, undone, status in (("uoms", large, 202),
                                           ("skus", small, 200)):
            make = {"uoms": uom, "skus": sku}[collection]
            key = new_key()
            refresh = self.p.refresh(
                collection, [make(f"N{i}") for i in range(SYNC_MAX + 1)],
                confirm="true")
            self.assertEqual(refresh.status, 202, refresh)
            before = checksums(self.stack)
            # Neither an older one, nor this one before it is whole.
            for wrong in (undone, self.job(refresh)["batch_id"]):
                self.refused(self.undo(wrong, key=key), 409, "job-in-flight")
            self.assertEqual(checksums(self.stack), before)
            self.worker("start")
            self.finished(refresh)
            self.assertEqual(self.undo(undone, key=key).status, status)
            self.worker("stop")

    def test_it_closes_no_ring_of_boms(self):
        """Of two that make one with what came since, the first in order."""
        p, count = self.p, self.COUNT
        p.post("uoms", [uom("EA")])
        for at in range(0, count + 1, SYNC_MAX):
            p.post("skus", [sku(f"P{i}") for i in range(at, min(
                at + SYNC_MAX, count + 1))])
        batch = self.refreshed("boms", [
            bom(f"B{i:03}", of=f"P{i}", parts=[f"P{i + 1}"])
            for i in range(count)])
        self.assertEqual(p.outcome("boms", bom(
            "RING", of=f"P{count}", parts=["P200"])), "ACCEPTED created")
        got = self.finished(self.undo(batch))
        # The last one would close P200 -> ... -> Pcount -> P200.
        self.assertEqual((got["summary"]["restored"],
                          got["summary"]["skipped"]), (count - 2, 1))
        self.assertNotIn(f"B{count - 1:03}", self.active("boms"))

    def test_only_the_partner_and_only_a_refresh(self):
        batch = self.refreshed()
        other = Partner(self.stack)
        self.addCleanup(other.close)
        before = checksums(self.stack)
        self.refused(other.control(f"/batches/{batch}/undo-refresh"), 404,
                     "not-found")
        self.assertEqual(checksums(self.stack), before)


if __name__ == "__main__":
    unittest.main()
