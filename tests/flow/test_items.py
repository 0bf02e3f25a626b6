"""What becomes of items: the contract's section 3, row by row."""
# SPDX-License-Identifier: Apache-2.0
import gzip
import json
import unittest
import urllib.parse

from items import COLLECTIONS, PREFIX, Partner, bom, brief, checksums, \
    compact, item, line, new_key, orphans, place, sku, uom
from stack import Stack

TOP = (1 << 63) - 1
NUMBER_TOP = (1 << 53) - 1


def slug(answer):
    return answer.json()["type"].split("#")[1]


class ItemTest(unittest.TestCase):
    stack = None
    maxDiff = None

    def setUp(self):
        self.p = Partner(self.stack)
        self.addCleanup(self.p.close)

    def tearDown(self):
        self.assertEqual(orphans(self.stack), {})


def setUpModule():
    ItemTest.stack = Stack(workers=2)
    ItemTest.stack.start()


def tearDownModule():
    ItemTest.stack.stop()
    ItemTest.stack.remove()


class WorkedExample(ItemTest):
    def test_100_skus_of_which_5_wait_for_their_unit(self):
        p, key = self.p, new_key()
        p.post("uoms", [uom("EA")])
        items = [sku(f"SKU-{i}", 1, "BOX" if i % 20 == 7 else "EA")
                 for i in range(100)]
        first = p.post("skus", items, key=key)
        told = first.json()
        self.assertEqual(first.status, 207)
        self.assertEqual(told["summary"], {
            "total": 100, "accepted": 95, "replay": 0, "quarantined": 5,
            "rejected": 0})
        self.assertEqual([r["index"] for r in told["results"]],
                         list(range(100)))
        held = told["results"][7]
        self.assertEqual(held["missing"],
                         [{"collection": "uoms", "source_id": "BOX"}])
        self.assertEqual(held["code"], "reference-missing")
        self.assertRegex(held["quarantine_id"], "^qua-[0-9a-f]{32}$")
        self.assertIn("BOX", held["reason"])
        self.assertRegex(told["batch_id"], "^bat-[0-9a-f]{32}$")
        p.post("uoms", [uom("BOX")])
        again = p.post("skus", items, key=key)
        self.assertEqual((again.status, again.body),
                         (first.status, first.body))
        fresh = p.post("skus", items)
        self.assertEqual(fresh.status, 200)
        self.assertEqual(fresh.json()["summary"], {
            "total": 100, "accepted": 5, "replay": 95, "quarantined": 0,
            "rejected": 0})
        self.assertEqual(fresh.json()["results"][7]["change"], "created")
        self.assertEqual(len(p.held("skus")), 100)
        self.assertEqual({r.state for r in p.records("skus")},
                         {"SUPERSEDED"})
        self.assertEqual(p.waits(), set())


class Outcomes(ItemTest):
    def test_a_version_is_taken_once_and_never_goes_down(self):
        p = self.p
        for version, want in ((5, "ACCEPTED created"), (5, "REPLAY"),
                              (4, "REPLAY"), (6, "ACCEPTED updated"),
                              (0, "REPLAY"), ("7", "ACCEPTED updated"),
                              (str(NUMBER_TOP + 1), "ACCEPTED updated"),
                              (NUMBER_TOP, "REPLAY"),
                              (str(TOP - 1), "ACCEPTED updated"),
                              (str(TOP), "ACCEPTED updated"),
                              (str(TOP), "REPLAY")):
            self.assertEqual(p.outcome("uoms", uom("A", version)), want,
                             version)
        self.assertEqual(p.held("uoms")["A"].version, TOP)
        self.assertEqual([h.version for h in p.history("uoms", "A")],
                         [5, 6, 7, NUMBER_TOP + 1, TOP - 1])

    def test_versions_are_shown_as_they_can_be_read(self):
        for sent, shown in ((0, 0), (NUMBER_TOP, NUMBER_TOP), ("12", 12),
                            (str(NUMBER_TOP + 1), str(NUMBER_TOP + 1)),
                            (str(TOP), str(TOP)), (None, None)):
            result = self.p.results("uoms", [uom(f"V{sent}", sent)])[0]
            self.assertEqual(result["source_version"], shown)
        result = self.p.results("uoms", [uom(f"V{TOP}", 3)])[0]
        self.assertEqual(result["held_version"], str(TOP))

    def test_an_equal_version_with_other_content_is_a_conflict(self):
        p = self.p
        p.post("uoms", [uom("A", 2, "one")])
        self.assertEqual(p.outcomes("uoms", [
            uom("A", 2, "two"), uom("A", 2, "one"), uom("A", 1, "two")]),
            ["REPLAY conflict", "REPLAY", "REPLAY"])
        self.assertEqual(p.held("uoms")["A"].payload,
                         compact(uom("A", 2, "one")))

    def test_white_space_is_no_content(self):
        p = self.p
        p.post("uoms", b'{"items":[{"source_id":"A","source_version":1,'
                       b'"name":"a  b"}]}')
        got = p.results("uoms", b' { "items" : [ {\n"source_id" : "A" ,\t'
                        b'"source_version":1, "name" : "a  b" } ] } ')
        self.assertEqual(brief(got[0]), "REPLAY")
        got = p.results("uoms", b'{"items":[{"source_id":"A",'
                        b'"source_version":1,"name":"a b"}]}')
        self.assertEqual(brief(got[0]), "REPLAY conflict")

    def test_without_a_version_the_last_wins_below_the_high_water_mark(self):
        p = self.p
        for version, name, want in (
                (None, "a", "ACCEPTED created"),
                (None, "a", "ACCEPTED unchanged"),
                (None, "b", "ACCEPTED updated"), (3, "b", "ACCEPTED updated"),
                (None, "c", "ACCEPTED updated"), (3, "b", "REPLAY conflict"),
                (2, "d", "REPLAY"), (None, "c", "ACCEPTED unchanged"),
                (4, "c", "ACCEPTED updated")):
            self.assertEqual(p.outcome("uoms", uom("A", version, name)),
                             want, (version, name))
        self.assertEqual(p.held("uoms")["A"].version, 4)
        self.assertEqual(
            [(h.version, json.loads(h.payload)["name"])
             for h in p.history("uoms", "A")],
            [(None, "a"), (None, "b"), (3, "b"), (3, "c")])

    def test_unchanged_writes_no_row(self):
        p = self.p
        p.post("uoms", [uom("A")])
        query = ("SELECT HEX(CONCAT_WS(',', rev, last_batch, updated_at, "
                 f"payload)) FROM item WHERE partner_id = {p.no}")
        before = p.sql(query)
        self.assertEqual(p.outcome("uoms", uom("A")), "ACCEPTED unchanged")
        self.assertEqual(p.sql(query), before)
        self.assertEqual(p.history("uoms", "A"), [])

    def test_an_inactive_item_comes_back_with_its_id(self):
        p = self.p
        p.post("uoms", [uom("A", 2), uom("B", 2), uom("C", 2), uom("D", 2),
                        uom("E")])
        ids = {k: h.internal for k, h in p.held("uoms").items()}
        p.deactivate("uoms")
        self.assertEqual(p.outcomes("uoms", [
            uom("A", 2), uom("A", 3), uom("B", 1), uom("B"), uom("E")]), [
            "REPLAY INACTIVE", "ACCEPTED reactivated", "REPLAY INACTIVE",
            "ACCEPTED reactivated", "ACCEPTED reactivated"])
        answer = p.refresh("uoms", [uom("A", 3), uom("B"), uom("C", 2),
                                    uom("D", 1), uom("E")])
        self.assertEqual([brief(r) for r in answer.json()["results"]], [
            "REPLAY", "ACCEPTED unchanged", "ACCEPTED reactivated",
            "REPLAY INACTIVE", "ACCEPTED unchanged"])
        held = p.held("uoms")
        self.assertEqual({k: h.internal for k, h in held.items()}, ids)
        self.assertEqual("".join(k for k, h in held.items()
                                 if h.state == "ACTIVE"), "ABCE")
        self.assertEqual((held["B"].version, held["C"].version), (2, 2))

    def test_several_items_of_one_id_are_taken_one_after_another(self):
        p = self.p
        results = p.results("uoms", [
            uom("A", 1), uom("A", 3), uom("A", 2), uom("A", name="x"),
            uom("A", name="x"), uom("A", 3), uom("A", 4)])
        self.assertEqual([brief(r) for r in results], [
            "ACCEPTED created", "ACCEPTED updated", "REPLAY",
            "ACCEPTED updated", "ACCEPTED unchanged", "REPLAY conflict",
            "ACCEPTED updated"])
        self.assertEqual(len({r["internal_id"] for r in results}), 1)
        held = p.held("uoms")["A"]
        self.assertEqual((held.version, held.rev), (4, 1))
        self.assertEqual([h.version for h in p.history("uoms", "A")],
                         [1, 3, 3])

    def test_the_item_key_includes_the_collection(self):
        p = self.p
        p.post("uoms", [uom("EA", 9)])
        self.assertEqual(p.outcome("skus", sku("EA", 1)), "ACCEPTED created")

    def test_an_empty_upsert_is_200(self):
        answer = self.p.post("uoms", [])
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.json()["summary"]["total"], 0)
        self.assertEqual(answer.json()["results"], [])


class Rejected(ItemTest):
    def faults(self, collection, one):
        result = self.p.results(collection, [one])[0]
        self.assertEqual(result["status"], "REJECTED", result)
        for e in result["errors"]:
            self.assertTrue(e["detail"])
        return [(e["pointer"], e["code"]) for e in result["errors"]]

    def test_every_fault_is_told_with_its_place(self):
        self.assertEqual(self.faults("purchase-orders", {
            "source_id": "", "source_version": -1, "lines": [
                {"line_no": 1.5, "sku_source_id": "A", "qty": 0},
                5, {"line_no": 2, "sku_source_id": None, "qty": "1",
                    "uom": "EA"}]}), [
            ("/source_id", "empty"), ("/source_version", "out-of-range"),
            ("/lines/0/line_no", "wrong-type"),
            ("/lines/0/qty", "out-of-range"), ("/lines/0/uom", "required"),
            ("/lines/1", "wrong-type"),
            ("/lines/2/sku_source_id", "wrong-type"),
            ("/lines/2/qty", "wrong-type"),
            ("/warehouse_source_id", "required")])

    def test_each_shape_that_is_wrong(self):
        for collection, one, want in (
                ("uoms", 5, [("", "wrong-type")]),
                ("uoms", None, [("", "wrong-type")]),
                ("uoms", [1], [("", "wrong-type")]),
                ("uoms", {"name": "x"}, [("/source_id", "required")]),
                ("uoms", {"source_id": 7, "name": "x"},
                 [("/source_id", "wrong-type")]),
                ("uoms", uom("x" * 129), [("/source_id", "too-long")]),
                ("uoms", uom("a\u0000b"),
                 [("/source_id", "control-character")]),
                ("uoms", uom("a\u0085b"),
                 [("/source_id", "control-character")]),
                ("uoms", {"source_id": "A", "name": None},
                 [("/name", "wrong-type")]),
                ("uoms", uom("A", str(TOP + 1)),
                 [("/source_version", "out-of-range")]),
                ("uoms", uom("A", NUMBER_TOP + 1),
                 [("/source_version", "out-of-range")]),
                ("uoms", uom("A", "01"), [("/source_version", "bad-format")]),
                ("uoms", uom("A", 1.0), [("/source_version", "wrong-type")]),
                ("uoms", {"source_id": "A", "source_version": None,
                          "name": "x"}, [("/source_version", "wrong-type")]),
                ("addresses", item("A", country="XX", city="c", lines=["l"]),
                 [("/country", "unknown-value")]),
                ("addresses", item("A", country="de", city="c", lines=["l"]),
                 [("/country", "bad-format")]),
                ("addresses", item("A", country="DE", city="c", lines=[]),
                 [("/lines", "too-few")]),
                ("addresses", item("A", country="DE", city="c",
                                   lines=["l"] * 5), [("/lines", "too-many")]),
                ("locations", place("A", kind="SHELF"),
                 [("/kind", "unknown-value")]),
                ("locations", place("A", kind="ZONE"),
                 [("/parent_source_id", "required")]),
                ("locations", place("A", kind="WAREHOUSE", parent="B"),
                 [("/parent_source_id", "not-allowed")]),
                ("skus", sku("A", lot_tracked="yes"),
                 [("/lot_tracked", "wrong-type")]),
                ("skus", sku("A", weight_kg=-1),
                 [("/weight_kg", "out-of-range")]),
                ("skus", sku("A", barcodes=["x", 5]),
                 [("/barcodes/1", "wrong-type")]),
                ("boms", item("A", sku_source_id="S", components=[]),
                 [("/components", "too-few")]),
                ("lots", item("A", sku_source_id="S",
                              expires_at="2026-02-30T00:00:00Z"),
                 [("/expires_at", "bad-format")])):
            with self.subTest(f"{collection} {one}"):
                self.assertEqual(self.faults(collection, one), want)
        self.assertEqual(self.p.held("uoms"), {})

    def test_an_item_over_64_kib_is_rejected_alone(self):
        big = uom("A", name="x" * 65536)
        self.assertEqual([brief(r) for r in
                          self.p.results("uoms", [big, uom("B")])],
                         ["REJECTED", "ACCEPTED created"])
        self.assertEqual(list(self.p.held("uoms")), ["B"])

    def test_a_rejected_one_changes_nothing(self):
        p = self.p
        p.post("uoms", [uom("A", 1)])
        p.post("skus", [sku("S", 1, "NO")])
        self.assertEqual(p.outcomes("uoms", [{"source_id": "A"}]),
                         ["REJECTED"])
        self.assertEqual(p.outcomes("skus", [{"source_id": "S"}]),
                         ["REJECTED"])
        self.assertEqual(p.held("uoms")["A"].version, 1)
        self.assertEqual([r.state for r in p.records("skus")], ["OPEN"])


class Quarantine(ItemTest):
    def setUp(self):
        super().setUp()
        self.p.post("uoms", [uom("EA")])

    def records(self):
        return [(r.state, r.version, json.loads(r.payload)["base_uom"])
                for r in self.p.records("skus")]

    def hold(self, version=None, base_uom="NO"):
        r = self.p.results("skus", [sku("S", version, base_uom)])[0]
        self.assertEqual(r["status"], "QUARANTINED")
        return r["quarantine_id"]

    def test_a_later_one_that_fails_replaces_the_record(self):
        for first, second in ((None, None), (None, 3), (3, None), (3, 3),
                              (3, 4)):
            with self.subTest((first, second)):
                self.p = Partner(self.stack)
                self.p.post("uoms", [uom("EA")])
                one = self.hold(first)
                self.assertEqual(self.hold(second, "NIX"), one)
                self.assertEqual(self.records(), [("OPEN", second, "NIX")])
                self.assertEqual(self.p.waits(), {("uoms", "NIX", one)})
                self.p.close()

    def test_one_that_is_accepted_supersedes_it(self):
        for first, second in ((None, None), (None, 3), (3, None), (3, 3),
                              (3, 4)):
            with self.subTest((first, second)):
                self.p = Partner(self.stack)
                self.p.post("uoms", [uom("EA")])
                self.hold(first)
                self.assertEqual(self.p.outcome("skus", sku("S", second)),
                                 "ACCEPTED created")
                self.assertEqual(self.records(),
                                 [("SUPERSEDED", first, "NO")])
                self.assertEqual(self.p.waits(), set())
                self.p.close()

    def test_a_lower_version_never_touches_the_record(self):
        one = self.hold(5)
        query = ("SELECT HEX(CONCAT_WS(',', rev, state, attempts, batch_id, "
                 "last_seen, payload)) FROM quarantine WHERE partner_id = "
                 f"{self.p.no}")
        before = self.p.sql(query)
        self.assertEqual(self.hold(4, "NIX"), one)
        self.assertEqual(self.p.outcome("skus", sku("S", 4)),
                         "ACCEPTED created")
        self.assertEqual(self.p.sql(query), before)
        self.assertEqual(self.p.waits(), {("uoms", "NO", one)})

    def test_a_quarantined_version_may_be_sent_again(self):
        self.hold(5)
        self.p.post("uoms", [uom("NO")])
        self.assertEqual(self.p.outcome("skus", sku("S", 5, "NO")),
                         "ACCEPTED created")

    def test_a_new_record_after_a_closed_one(self):
        one = self.hold(5)
        self.p.post("skus", [sku("S", 6)])
        two = self.hold(7)
        self.assertNotEqual(one, two)
        self.assertEqual([r.state for r in self.p.records("skus")],
                         ["SUPERSEDED", "OPEN"])
        self.assertEqual(self.p.outcome("skus", sku("S", 5, "NO")), "REPLAY")

    def test_the_held_item_stays_as_it_is(self):
        self.p.post("skus", [sku("S", 1)])
        self.hold(2)
        held = self.p.held("skus")["S"]
        self.assertEqual((held.version, held.state), (1, "ACTIVE"))

    def test_a_release_looks_again(self):
        p, one = self.p, self.hold(5)
        answer = p.control(f"/quarantine/{one}/release")
        self.assertEqual((answer.status, slug(answer)),
                         (409, "still-quarantined"))
        self.assertIn("NO", answer.json()["detail"])
        p.post("uoms", [uom("NO")])
        answer = p.control(f"/quarantine/{one}/release")
        self.assertEqual(answer.status, 200)
        self.assertEqual((brief(answer.json()),
                          answer.json()["quarantine_state"]),
                         ("ACCEPTED created", "RELEASED"))
        self.assertEqual(p.held("skus")["S"].version, 5)
        self.assertEqual(self.records(), [("RELEASED", 5, "NO")])
        self.assertEqual(p.waits(), set())

    def test_a_release_of_what_was_overtaken_changes_nothing(self):
        for first, then in ((5, [sku("S", 4), sku("S", None, "EA", "new")]),
                            (None, [])):
            self.p = p = Partner(self.stack)
            p.post("uoms", [uom("EA")])
            one = self.hold(first)
            for other in then:
                p.post("skus", [other])
            if first:  # an unversioned one closes the record
                self.assertEqual(self.records()[0][0], "SUPERSEDED")
                answer = p.control(f"/quarantine/{one}/release")
                self.assertEqual((answer.status, slug(answer)),
                                 (409, "quarantine-closed"))
            p.close()

    def test_a_discard_gives_the_item_up(self):
        p, one = self.p, self.hold(5)
        answer = p.control(f"/quarantine/{one}/discard")
        self.assertEqual((answer.status, answer.json()["state"]),
                         (200, "DISCARDED"))
        self.assertEqual(p.waits(), set())
        self.assertEqual(p.held("skus"), {})
        self.assertEqual(p.control(f"/quarantine/{one}/discard").status, 409)
        self.assertNotEqual(self.hold(5), one)


class Answers(ItemTest):
    ITEMS = [uom("A"), {"source_id": "B"}, uom("A", 5), uom("A", 4)]

    def test_return_says_which_entries_there_are(self):
        p = self.p
        for value, want in (("all", [0, 1, 2, 3]), ("failures", [1]),
                            ("summary", [])):
            answer = p.post("uoms", self.ITEMS, **{"return": value})
            self.assertEqual(answer.status, 207)
            told = answer.json()
            self.assertEqual([r["index"] for r in told["results"]], want)
            self.assertEqual(told["summary"]["total"], 4)
        self.assertEqual(p.post("uoms", [], **{"return": "x"}).status, 400)

    def test_a_dry_run_tells_the_same_and_stores_nothing(self):
        p = self.p
        p.post("uoms", [uom("EA"), uom("X")])
        p.post("skus", [sku("S", 1), sku("T", 1, "NO"), sku("U")])
        items = [sku("S", 2), sku("S", 2), sku("T", 2, "NO"), sku("N"),
                 sku("M", 1, "NO"), {"source_id": "B"}, sku("U")]
        before = checksums(self.stack)
        dry = p.post("skus", items, key="", dry_run="true")
        dry_refresh = p.refresh("skus", items, key="", dry_run="true")
        refused = p.refresh("skus", [], key="", dry_run="true")
        self.assertEqual(checksums(self.stack), before)
        self.assertEqual(refused.status, 422)
        real = p.post("skus", items)
        self.assertEqual(dry.status, real.status)
        told, did = dry.json(), real.json()
        self.assertEqual(told["summary"], did["summary"])
        self.assertEqual([brief(r) for r in told["results"]],
                         [brief(r) for r in did["results"]])
        self.assertIsNone(told["batch_id"])
        for t, d in zip(told["results"], did["results"]):
            for name in ("internal_id", "quarantine_id"):
                if name in t:  # one that is there already, not made up
                    self.assertEqual(t[name], d[name])
        self.assertNotIn("internal_id", told["results"][3])
        self.assertEqual(dry_refresh.json()["summary"]["tombstoned"], 0)

    def test_a_dry_run_takes_and_looks_up_no_key(self):
        p, key = self.p, new_key()
        dry = p.post("uoms", [uom("A")], key=key, dry_run="true")
        self.assertEqual(dry.status, 200)
        self.assertEqual(p.get(f"/requests/{key}").status, 404)
        p.post("uoms", [uom("A")], key=key)
        dry = p.post("uoms", [uom("B")], key=key, dry_run="true")
        self.assertEqual(dry.json()["results"][0]["source_id"], "B")
        self.assertNotIn("Idempotent-Replayed", dry.headers)

    def test_ndjson_counts_lines_and_skips_empty_ones(self):
        p = self.p
        body = b"\n".join([compact(uom("A")), b"", b"  ", compact(uom("B")),
                           b"5", compact(uom("C"))])
        nd = {"Content-Type": "application/x-ndjson"}
        answer = p.post("uoms", body, headers=nd)
        self.assertEqual(answer.status, 207, answer)
        self.assertEqual([(r["index"], r["line"], r["status"])
                          for r in answer.json()["results"]],
                         [(0, 1, "ACCEPTED"), (1, 4, "ACCEPTED"),
                          (2, 5, "REJECTED"), (3, 6, "ACCEPTED")])
        answer = p.post("uoms", b"\r\n".join([compact(uom("D")), b""]),
                        headers=nd)
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(sorted(p.held("uoms")), list("ABCD"))

    def test_gzip(self):
        p = self.p
        z = {"Content-Encoding": "gzip"}
        body = gzip.compress(json.dumps({"items": [uom("A")]}).encode())
        self.assertEqual(p.post("uoms", body, headers=z).status, 200)
        lines = gzip.compress(compact(uom("B")) + b"\n" + compact(uom("C")))
        answer = p.post("uoms", lines, headers={
            **z, "Content-Type": "application/x-ndjson"})
        self.assertEqual(answer.status, 200)
        self.assertEqual(sorted(p.held("uoms")), list("ABC"))
        key = new_key()
        for bad, status in ((body[:-3], 400), (b"plain", 400),
                            (gzip.compress(b" " * (6 << 20)), 413)):
            answer = p.post("uoms", bad, key=key, headers=z)
            self.assertEqual(answer.status, status, answer)
        self.assertEqual(p.post("uoms", [uom("A")], key=key).status, 200)


class Bytes(ItemTest):
    def payload(self, text):
        """What is held of an item sent as this text."""
        body = b'{"items":[' + text + b"]}"
        result = self.p.results("uoms", body)[0]
        self.assertEqual(result["status"], "ACCEPTED", result)
        held = self.p.held("uoms")[result["source_id"]].payload
        answer = self.p.get("/master/uoms/" + urllib.parse.quote(
            result["source_id"], safe=""))
        self.assertIn(b'"payload":' + held, answer.body)
        return held

    def test_what_is_sent_is_what_is_held(self):
        for text in (b'{"source_id":"A","name":"n","x":1.10}',
                     b'{"source_id":"A","name":"n","x":12345678901234567890}',
                     b'{"source_id":"A","name":"n","x":-0.0e-9}',
                     b'{"source_id":"A","name":"n","x":1E400}',
                     b'{"source_id":"A","name":"n","x":"\\u0000\\ud83d'
                     b'\\ude00"}',
                     '{"source_id":"A","name":"\U0001f600\u00e9"}'.encode(),
                     b'{"source_id":"A","name":"a\\/\\u0061\\t"}',
                     b'{"name":"first","source_id":"A","":{"":[]}}',
                     b'{"source_id":"A","name":"a","x":[null,true,{"a":{}}]}'):
            with self.subTest(text):
                self.assertEqual(self.payload(text), text)

    def test_white_space_outside_strings_is_left_out(self):
        self.assertEqual(
            self.payload(b' {"source_id" : "A",\r\n\t"name":" a  b ",'
                         b'"x":[ 1 , 2 ]} '),
            b'{"source_id":"A","name":" a  b ","x":[1,2]}')

    def test_ids_are_compared_byte_for_byte(self):
        p = self.p
        ids = ["a", "A", " a", "a ", "a  ", "\u00e4", "a\u0308", "\u00c4",
               "/%2F?#", "\U0001f600", "'\"\\", "x" * 128, "\u00e9" * 64,
               "0", "00", "null"]
        self.assertEqual(p.outcomes("uoms", [uom(i, 1) for i in ids]),
                         ["ACCEPTED created"] * len(ids))
        self.assertEqual(p.outcomes("uoms", [uom(i, 1) for i in ids]),
                         ["REPLAY"] * len(ids))
        self.assertEqual(sorted(p.held("uoms")), sorted(ids))
        self.assertEqual(p.outcome("skus", sku("S", 1, "a ")),
                         "ACCEPTED created")
        self.assertEqual(p.outcome("skus", sku("T", 1, "a   ")),
                         "QUARANTINED reference-missing")

    def test_an_escaped_id_is_the_id(self):
        self.payload(b'{"source_id":"\\u0041\\ud83d\\ude00","name":"n"}')
        self.assertEqual(list(self.p.held("uoms")), ["A\U0001f600"])
        self.assertEqual(self.p.outcome("uoms", uom("A\U0001f600", 1)),
                         "ACCEPTED updated")

    def test_bodies_that_are_refused_as_a_whole(self):
        p, key = self.p, new_key()
        a, z = b'{"source_id":"A","name":"n"', b"}]}"
        before = checksums(self.stack)
        for body, want, pointer in (
                (b"", "bad-json", None),
                (b"{}", None, ""),
                (b"[]", None, ""),
                (b'{"items":{}}', None, "/items"),
                (b'{"items":[' + a + b"},", "bad-json", None),
                (b'{"items":[' + a + b"}]} x", "bad-json", None),
                (b'{"items":[' + a + b',"x":01' + z, "bad-json",
                 "/items/0"),
                (b'{"items":[' + a + b',"x":NaN' + z, "bad-json",
                 "/items/0/x"),
                (b'{"items":[' + a + b',"x":"\xff"' + z, "bad-utf8",
                 "/items/0/x"),
                (b'{"items":[' + a + b',"x":"\\ud800"' + z, None,
                 "/items/0/x"),
                (b'{"items":[' + a + b',"name":"m"' + z, "duplicate-name",
                 "/items/0/name"),
                (b'{"items":[' + a + b',"\\u006eame":"m"' + z,
                 "duplicate-name", "/items/0/name"),
                (b'{"items":[],"items":[]}', "duplicate-name", "/items"),
                (b'{"items":[],"more":1}', None, "/more"),
                (b'{"items":[' + a + b',"x":' + b"[" * 40 + b"]" * 40 + z,
                 "too-deep", None),
                (b'{"items":[' + a + b"," + b",".join(
                    b'"n%d":1' % i for i in range(256)) + z,
                 "too-many-names", None)):
            with self.subTest(body[:60]):
                answer = p.post("uoms", body, key=key)
                self.assertEqual(answer.status, 400, answer)
                told = answer.json()
                if want:
                    self.assertEqual(slug(answer), want, answer)
                self.assertIn("pointer", told)
                if pointer is not None:
                    self.assertEqual(told["pointer"], pointer, answer)
        answer = p.post("uoms", compact(uom("A")) + b"\n\n{\"source_id\"\n",
                        key=key,
                        headers={"Content-Type": "application/x-ndjson"})
        self.assertEqual((answer.status, answer.json()["line"]), (400, 3))
        self.assertEqual(checksums(self.stack), before)
        answer = p.post("uoms", [uom("A")], key=key)
        self.assertEqual(answer.status, 200)
        self.assertNotIn("Idempotent-Replayed", answer.headers)


class References(ItemTest):
    def setUp(self):
        super().setUp()
        p = self.p
        p.post("uoms", [uom("EA"), uom("OFF")])
        p.post("addresses", [item("AD", country="DE", city="c",
                                  lines=["l"])])
        p.post("locations", [place("W"), place("V"),
                             place("Z", kind="ZONE", parent="W")])
        p.post("skus", [sku(s) for s in "ABCD"])
        p.post("lots", [item("LA", sku_source_id="A"),
                        item("LB", sku_source_id="B")])
        order = {"warehouse_source_id": "W", "lines": [line()]}
        p.post("purchase-orders", [item("PO", **order)])
        p.post("sales-orders", [item("SO", **order)])
        p.deactivate("uoms", ["EA"])

    def test_every_collection_takes_what_is_right_and_holds_what_is_not(self):
        w = {"warehouse_source_id": "W"}
        missing, off = "reference-missing", "reference-inactive"
        rows = {
            "uoms": [uom("1")],
            "addresses": [item("1", country="FR", city="c", lines=["l"])],
            "locations": [
                place("1", address_source_id="AD"),
                (place("2", address_source_id="NO"), missing),
                place("3", kind="ZONE", parent="W"),
                place("4", kind="BIN", parent="Z"),
                (place("5", kind="ZONE", parent="NO"), missing),
                (place("6", kind="ZONE", parent="Z"),
                 "reference-wrong-kind"),
                (place("7", kind="BIN", parent="W"),
                 "reference-wrong-kind")],
            "skus": [sku("1"), (sku("2", None, "NO"), missing),
                     (sku("3", None, "OFF"), off)],
            "boms": [bom("1"), (bom("2", None, "NO"), missing),
                     (bom("3", None, "A", ["NO"]), missing),
                     (bom("4", None, "A", ["B"], "OFF"), off),
                     (bom("5", None, "A", ["A"]), "bom-cycle")],
            "lots": [item("1", sku_source_id="A",
                          expires_at="2026-01-01T00:00:00Z"),
                     (item("2", sku_source_id="NO"), missing)],
            "serials": [item("1", sku_source_id="A"),
                        item("2", sku_source_id="A", lot_source_id="LA"),
                        (item("3", sku_source_id="A", lot_source_id="LB"),
                         "lot-of-other-sku"),
                        (item("4", sku_source_id="A", lot_source_id="NO"),
                         missing)],
            "receivers": [item("1", po_source_id="PO", lines=[line()]),
                          (item("2", po_source_id="SO", lines=[line()]),
                           missing),
                          (item("3", po_source_id="PO",
                                lines=[line(), line("NO")]), missing)],
            "shippers": [item("1", so_source_id="SO", lines=[line()]),
                         (item("2", so_source_id="PO", lines=[line()]),
                          missing),
                         (item("3", so_source_id="SO",
                               lines=[line("A", "OFF")]), off)],
            "work-orders": [item("1", sku_source_id="A", qty=2, uom="EA",
                                 **w),
                            (item("2", sku_source_id="NO", qty=2, uom="EA",
                                  **w), missing),
                            (item("3", sku_source_id="A", qty=2, uom="EA",
                                  warehouse_source_id="Z"),
                             "reference-wrong-kind")],
            "transfer-orders": [
                item("1", from_warehouse_source_id="W",
                     to_warehouse_source_id="V", lines=[line()]),
                (item("2", from_warehouse_source_id="W",
                      to_warehouse_source_id="W", lines=[line()]),
                 "same-warehouse"),
                (item("3", from_warehouse_source_id="W",
                      to_warehouse_source_id="NO", lines=[line()]), missing),
                (item("4", from_warehouse_source_id="Z",
                      to_warehouse_source_id="V", lines=[line()]),
                 "reference-wrong-kind")],
        }
        for orders in ("purchase-orders", "sales-orders"):
            rows[orders] = [
                item("1", lines=[line(), line("B", number=2)], **w),
                (item("2", lines=[line("NO")], **w), missing),
                (item("3", lines=[line("A", "NO")], **w), missing),
                (item("4", lines=[line("A", "OFF")], **w), off),
                (item("5", warehouse_source_id="Z", lines=[line()]),
                 "reference-wrong-kind")]
        self.assertEqual(sorted(rows), sorted(n for _, n, _ in COLLECTIONS))
        for collection, these in rows.items():
            with self.subTest(collection):
                sent = [r[0] if isinstance(r, tuple) else r for r in these]
                results = self.p.results(collection, sent)
                self.assertEqual(
                    [brief(r) for r in results],
                    [f"QUARANTINED {r[1]}" if isinstance(r, tuple)
                     else "ACCEPTED created" for r in these])
                self.assertRegex(results[0]["internal_id"],
                                 f"^{PREFIX[collection]}-[0-9a-f]{{32}}$")

    def test_all_that_is_missing_is_told_and_waited_for(self):
        got = self.p.results("purchase-orders", [item(
            "P", warehouse_source_id="NOWHERE",
            lines=[line("NO", "OFF"), line("A", "NONE"), line("NO")])])[0]
        self.assertEqual(got["code"], "reference-missing")
        want = [("locations", "NOWHERE"), ("skus", "NO"), ("uoms", "OFF"),
                ("uoms", "NONE")]
        self.assertEqual([(m["collection"], m["source_id"])
                          for m in got["missing"]], want)
        self.assertEqual(self.p.waits(),
                         {(*w, got["quarantine_id"]) for w in want})

    def test_references_inside_a_batch_count_in_array_order(self):
        self.assertEqual(self.p.outcomes("locations", [
            place("b", kind="BIN", parent="z"),
            place("z", kind="ZONE", parent="w"), place("w"),
            place("z", kind="ZONE", parent="w"),
            place("b", kind="BIN", parent="z")]), [
            "QUARANTINED reference-missing", "QUARANTINED reference-missing",
            "ACCEPTED created", "ACCEPTED created", "ACCEPTED created"])
        self.assertEqual([r.state for r in self.p.records("locations")],
                         ["SUPERSEDED"] * 2)

    def test_a_bom_must_not_lead_back_to_its_sku(self):
        p = self.p
        self.assertEqual(p.outcomes("boms", [
            bom("b1", 1, "A", ["B"]), bom("b2", 1, "B", ["C", "D"])]),
            ["ACCEPTED created"] * 2)
        cycle = "QUARANTINED bom-cycle"
        self.assertEqual(p.outcome("boms", bom("b3", 1, "C", ["A"])), cycle)
        self.assertEqual(p.outcome("boms", bom("b3", 1, "C", ["C"])), cycle)
        self.assertEqual(p.outcome("boms", bom("b3", 1, "C", ["D", "B"])),
                         cycle)
        self.assertEqual(p.outcome("boms", bom("b3", 1, "C", ["D"])),
                         "ACCEPTED created")
        # Two BOMs of one SKU, one of which alone leads back.
        self.assertEqual(p.outcome("boms", bom("b4", 1, "D", ["A"])), cycle)
        self.assertEqual({r.state for r in p.records("boms", "b3")},
                         {"SUPERSEDED"})

    def test_a_ring_is_found_inside_one_batch(self):
        cycle = "QUARANTINED bom-cycle"
        self.assertEqual(self.p.outcomes("boms", [
            bom("b1", 1, "A", ["B"]), bom("b2", 1, "B", ["C"]),
            bom("b3", 1, "C", ["A"]), bom("b2", 2, "B", ["D"]),
            bom("b3", 1, "C", ["A"]), bom("b4", 1, "D", ["C"])]),
            ["ACCEPTED created", "ACCEPTED created", cycle,
             "ACCEPTED updated", "ACCEPTED created", cycle])

    def test_a_replaced_or_inactive_bom_no_longer_counts(self):
        p = self.p
        p.post("boms", [bom("b1", 1, "A", ["B"]), bom("b5", 1, "A", ["D"])])
        self.assertEqual(p.outcome("boms", bom("b2", 1, "B", ["A"])),
                         "QUARANTINED bom-cycle")
        self.assertEqual(p.outcome("boms", bom("b1", 2, "A", ["C"])),
                         "ACCEPTED updated")
        self.assertEqual(p.outcome("boms", bom("b2", 1, "B", ["A"])),
                         "ACCEPTED created")
        self.assertEqual(p.outcome("boms", bom("b3", 1, "D", ["A"])),
                         "QUARANTINED bom-cycle")
        p.deactivate("boms", ["b1", "b2"])
        self.assertEqual(p.outcome("boms", bom("b3", 1, "D", ["A"])),
                         "ACCEPTED created")
        self.assertEqual(p.outcome("boms", bom("b5", 2, "A", ["D"])),
                         "QUARANTINED bom-cycle")


if __name__ == "__main__":
    unittest.main()
