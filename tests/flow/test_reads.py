#!/usr/bin/env python3
"""GET of items, mappings and quarantine, over rows that were put there by SQL.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "lib"))
from rows import (HEX, SKUS, UOMS, insert_history, insert_items,  # noqa: E402
                  insert_quarantine, item_row, quarantine_row, quote)
from service import Service  # noqa: E402

BASE = "/wms-ingest/v1"


class Reads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Service().__enter__()
        cls.addClassCleanup(cls.s.close)
        cls.s.waybill("partner", "add", "ACME")
        cls.s.waybill("partner", "add", "OTHER")
        cls.key, cls.other = cls.s.key("ACME"), cls.s.key("OTHER")
        cls.s.serve()

    def setUp(self):
        self.s.sql("".join(f"DELETE FROM {t};" for t in (
            "item", "item_history", "quarantine", "quarantine_wait")))

    def get(self, uri, key=None, status=200):
        answer = self.s.get(BASE + uri, key or self.key)
        self.assertEqual(answer.status, status, answer.body[:500])
        return answer.json()

    def refused(self, uri, problem, status=400, key=None):
        got = self.get(uri, key, status)
        self.assertEqual(got["type"], "/docs/errors.md#" + problem)
        return got

    def pages(self, uri, limit, name="items"):
        """Every page of a listing, to its end."""
        got, after = [], ""
        while after is not None:
            page = self.get(f"{uri}{'&' if '?' in uri else '?'}"
                            f"limit={limit}{after and '&after=' + after}"
                            .replace("?&", "?"))
            self.assertLessEqual(len(page[name]), limit)
            got.append(page[name])
            after = page["next"]
        return got


class Items(Reads):
    def test_an_item_is_shown_with_all_members_and_its_own_bytes(self):
        payload = '{"name":"\u00e9","w":1.10,"n":12345678901234567890}'
        insert_items(self.s, [item_row("A/1 \u00e9", version=12, payload=payload,
                                       internal=HEX["third"])])
        answer = self.s.get(BASE + "/master/skus/A%2F1%20%C3%A9", self.key)
        self.assertEqual(answer.status, 200)
        self.assertIn(b'"payload":' + payload.encode() + b"}", answer.body)
        got = answer.json()
        got.pop("payload")
        self.assertEqual(got, {
            "source_id": "A/1 \u00e9", "source_version": 12,
            "state": "ACTIVE", "internal_id": "sku-" + HEX["third"],
            "created_at": "2026-11-18T02:30:00.123Z",
            "updated_at": "2026-11-18T02:30:00.123Z",
            "batch_id": "bat-" + HEX["second"]})

    def test_versions_are_numbers_strings_or_null(self):
        for version, want in (("NULL", "null"), (0, "0"),
                              (2**53 - 1, "9007199254740991"),
                              (2**53, '"9007199254740992"'),
                              (2**63 - 1, '"9223372036854775807"')):
            with self.subTest(version):
                self.s.sql("DELETE FROM item")
                insert_items(self.s, [item_row("A", version=version)])
                body = self.s.get(BASE + "/master/skus/A", self.key).body
                self.assertIn(f'"source_version":{want},'.encode(), body)

    def test_a_foreign_item_and_an_unknown_one_get_the_same_404(self):
        insert_items(self.s, [item_row("A")])
        foreign = self.refused("/master/skus/A", "not-found", 404, self.other)
        unknown = self.refused("/master/skus/B", "not-found", 404, self.other)
        for problem in (foreign, unknown):
            problem.pop("trace_id"), problem.pop("instance")
        self.assertEqual(foreign, unknown)
        self.refused("/master/uoms/A", "not-found", 404)
        self.refused("/master/skus/a", "not-found", 404)
        self.refused("/master/skus/" + "x" * 200, "not-found", 404)

    def test_no_collection_of_that_name_is_404_before_the_credential(self):
        for path in ("/master/nope", "/documents/skus", "/nope/skus/A",
                     "/documents/skus/A", "/master/skus/A/B", "/master"):
            answer = self.s.get(BASE + path)
            self.assertEqual(answer.status, 404, path)
        self.assertEqual(self.s.get(BASE + "/master/skus").status, 401)

    def test_another_method_is_405(self):
        answer = self.s.request("DELETE", BASE + "/master/skus/A", self.key)
        self.assertEqual(answer.status, 405)
        self.assertIn("GET", answer.header("Allow"))
        answer = self.s.get(BASE + "/test/echo", self.key)
        self.assertEqual((answer.status, answer.header("Allow")),
                         (405, "POST"))

    def test_reading_needs_the_scope_read(self):
        key = self.s.key("ACME", "ingest,admin")
        for path in ("/master/skus", "/master/skus/A", "/mappings",
                     "/quarantine", "/quarantine/x"):
            self.refused(path, "forbidden", 403, key)

    def test_history_is_every_version_oldest_first_and_the_present_last(self):
        insert_items(self.s, [item_row("A", rev=3, version=9, state=2,
                                       payload='{"v":9}')])
        # The last one is of a change after the row was read.
        insert_history(self.s, "A", [
            (2, 0, 7, 1, '{"v":7}'), (1, 0, "NULL", 1, '{"v":null}'),
            (2, 1, 8, 1, '{"v":8}'), (0, 1, 1, 1, '{"v":1}'),
            (3, 0, 9, 1, '{"v":"later"}')])
        insert_history(self.s, "B", [(1, 0, 5, 1, '{"v":"of B"}')])
        got = self.get("/master/skus/A?history=true")
        self.assertEqual([h["payload"]["v"] for h in got["history"]],
                         [1, None, 7, 8, 9])
        self.assertIsNone(got["history_next"])
        self.assertEqual(got["history"][2], {
            "source_version": 7, "state": "ACTIVE",
            "batch_id": "bat-" + HEX["first"],
            "accepted_at": "2026-11-18T02:30:00.123Z", "payload": {"v": 7}})
        self.assertEqual(got["history"][4], {
            "source_version": 9, "state": "INACTIVE",
            "batch_id": "bat-" + HEX["second"],
            "accepted_at": "2026-11-18T02:30:00.123Z", "payload": {"v": 9}})
        self.assertNotIn("history", self.get("/master/skus/A?history=false"))
        self.refused("/master/skus/A?history=1", "bad-parameter")
        self.refused("/master/skus/A?after=x", "bad-parameter")

    def test_a_long_history_comes_in_parts(self):
        insert_items(self.s, [item_row("A", rev=200)])
        fat = "x" * 60000
        insert_history(self.s, "A", [
            (rev, 0, rev, 1, '{"v":%d,"x":"%s"}' % (rev, fat))
            for rev in range(1, 100)])
        seen, after, parts = [], "", 0
        while after is not None:
            answer = self.s.get(BASE + "/master/skus/A?history=true" + after,
                                self.key)
            self.assertLess(len(answer.body), 5 << 20)
            got = answer.json()
            seen += [h["source_version"] for h in got["history"]]
            parts += 1
            after = got["history_next"] and "&after=" + got["history_next"]
        self.assertEqual(seen, [*range(1, 100), None])
        self.assertEqual(parts, 2)

    def test_a_listing_goes_by_bytes_and_each_item_comes_once(self):
        names = ["a", "B", "b", "ab", "\u00e9", "a ", "A", "\U0001f600", "Z/1",
                 "a" * 128]
        insert_items(self.s, [item_row(n) for n in names] +
                     [item_row("foreign", partner=2),
                      item_row("uom", collection=UOMS)])
        for limit in (1, 3, 10, 100):
            pages = self.pages("/master/skus", limit)
            got = [i["source_id"] for page in pages for i in page]
            self.assertEqual(got, sorted(names, key=str.encode))
            self.assertEqual(len(pages), -(-len(names) // limit))
        self.assertEqual(self.pages("/master/boms", 5), [[]])

    def test_a_listing_shows_what_a_get_shows(self):
        insert_items(self.s, [item_row("A", version=3)])
        self.assertEqual(self.get("/master/skus"),
                         {"items": [self.get("/master/skus/A")],
                          "next": None})

    def test_the_default_limit_is_100_and_1000_the_most(self):
        insert_items(self.s, [item_row(f"{i:05}") for i in range(1500)])
        self.assertEqual(len(self.get("/master/skus")["items"]), 100)
        self.assertEqual(len(self.get("/master/skus?limit=1000")["items"]),
                         1000)
        for bad in ("0", "1001", "-1", "x", "", "1.0", "99999999999999999999"):
            self.refused(f"/master/skus?limit={bad}", "bad-parameter")

    def test_a_listing_filters_by_state(self):
        insert_items(self.s, [item_row(f"{i:02}", state=1 + (i % 3 == 0))
                              for i in range(20)])
        got = [i for p in self.pages("/master/skus?state=INACTIVE", 3)
               for i in p]
        self.assertEqual([i["source_id"] for i in got],
                         [f"{i:02}" for i in range(0, 20, 3)])
        self.assertEqual({i["state"] for i in got}, {"INACTIVE"})
        self.assertEqual(len(self.get("/master/skus?state=ACTIVE")["items"]),
                         13)
        for bad in ("", "active", "OPEN"):
            self.refused(f"/master/skus?state={bad}", "bad-parameter")

    def test_a_rare_state_is_found_behind_many_others(self):
        insert_items(self.s, [item_row(f"{i:06}", state=1 + (i in (3, 20999)))
                              for i in range(21000)])
        pages = self.pages("/master/skus?state=INACTIVE", 10)
        self.assertEqual([[i["source_id"] for i in p] for p in pages],
                         [["000003"], [], ["020999"]])

    def test_a_page_of_fat_items_is_cut(self):
        fat = '{"x":"' + "x" * 65000 + '"}'
        insert_items(self.s, [item_row(f"{i:03}", payload=fat)
                              for i in range(100)])
        seen, after, sizes = [], "", []
        while after is not None:
            answer = self.s.get(BASE + "/master/skus?limit=1000" + after,
                                self.key)
            sizes.append(len(answer.body))
            page = answer.json()
            seen += [i["source_id"] for i in page["items"]]
            after = page["next"] and "&after=" + page["next"]
        self.assertEqual(seen, [f"{i:03}" for i in range(100)])
        self.assertEqual(len(sizes), 2)
        self.assertLess(max(sizes), 4.3 * (1 << 20))

    def test_a_cursor_that_is_not_ours_is_400(self):
        insert_items(self.s, [item_row(n) for n in "ABC"] +
                     [item_row(n, partner=2) for n in "ABC"])
        good = self.get("/master/skus?limit=1")["next"]
        self.assertRegex(good, "^[a-z0-9]+$")
        bad = ["", "x", good[:-1], good + "a", good.upper(), "a" + good[1:],
               good[:5] + ("b" if good[5] == "a" else "a") + good[6:]]
        for cursor in bad:
            self.refused(f"/master/skus?after={cursor}", "bad-parameter")
        for path in ("/master/uoms?", "/master/skus?state=ACTIVE&",
                     "/quarantine?"):
            self.refused(f"{path}after={good}", "bad-parameter")
        self.refused(f"/master/skus?after={good}", "bad-parameter",
                     key=self.other)
        self.assertEqual(
            self.get(f"/master/skus?limit=7&after={good}")["items"][0]
            ["source_id"], "B")

    def test_an_unknown_parameter_is_400(self):
        for path in ("/master/skus?stat=ACTIVE", "/master/skus/A?limit=1",
                     "/mappings?id=1", "/quarantine?partner=ACME"):
            self.refused(path, "bad-parameter")


class Mappings(Reads):
    def test_the_identity_is_found_both_ways(self):
        insert_items(self.s, [item_row("EA", internal=HEX["first"]),
                              item_row("EA", collection=UOMS, state=2,
                                       internal=HEX["second"])])
        want = {"area": "master", "collection": "uoms", "source_id": "EA",
                "internal_id": "uom-" + HEX["second"], "state": "INACTIVE"}
        self.assertEqual(
            self.get("/mappings?collection=uoms&source_id=EA"), want)
        self.assertEqual(
            self.get("/mappings?internal_id=uom-" + HEX["second"]), want)

    def test_foreign_and_unknown_identities_are_404(self):
        insert_items(self.s, [item_row("A", internal=HEX["first"])])
        good = "/mappings?internal_id=sku-" + HEX["first"]
        self.get(good)
        self.refused(good, "not-found", 404, self.other)
        self.refused(good.replace("sku-", "uom-"), "not-found", 404)
        self.refused("/mappings?internal_id=sku-" + HEX["other"],
                     "not-found", 404)
        self.refused("/mappings?collection=skus&source_id=B", "not-found", 404)
        self.refused("/mappings?collection=skus&source_id=A", "not-found", 404,
                     self.other)

    def test_half_a_question_is_400(self):
        for query in ("", "?collection=skus", "?source_id=A",
                      "?collection=nope&source_id=A",
                      "?internal_id=sku-1", "?internal_id=",
                      "?internal_id=xyz-" + HEX["first"],
                      "?source_id=A&internal_id=sku-" + HEX["first"]):
            self.refused("/mappings" + query, "bad-parameter")


class Quarantine(Reads):
    def test_a_record_is_shown_with_all_members(self):
        insert_quarantine(self.s, [quarantine_row(77, "A")])
        answer = self.s.get(BASE + f"/quarantine/qua-{77:032x}", self.key)
        self.assertTrue(answer.body.endswith(b',"payload":{"q":1.10}}\n'),
                        answer.body)
        want = {
            "quarantine_id": f"qua-{77:032x}", "partner_id": "ACME",
            "collection": "skus", "source_id": "A", "source_version": 7,
            "state": "OPEN", "code": "reference-missing",
            "reason": "it waits",
            "missing": [{"collection": "uoms", "source_id": "EA"}],
            "attempts": 2, "first_seen": "2026-11-18T02:30:00.123Z",
            "last_seen": "2026-11-18T02:30:00.123Z",
            "batch_id": "bat-" + HEX["first"], "payload": {"q": 1.1}}
        self.assertEqual(answer.json(), want)
        want.pop("payload")
        self.assertEqual(self.get("/quarantine"),
                         {"items": [want], "next": None})

    def test_a_foreign_record_and_an_unknown_one_get_the_same_404(self):
        insert_quarantine(self.s, [quarantine_row(77, "A")])
        for name in (f"qua-{77:032x}", f"qua-{78:032x}", "qua-77", "77",
                     f"bat-{77:032x}"):
            got = self.refused("/quarantine/" + name, "not-found", 404,
                               self.other)
            self.assertEqual(got["detail"],
                             "there is no such quarantine record")
        self.assertEqual(self.get("/quarantine", self.other)["items"], [])

    def test_filters_of_the_listing(self):
        insert_quarantine(self.s, [
            quarantine_row(1, "A"),
            quarantine_row(2, "B", collection=UOMS, code=2),
            quarantine_row(3, "C", state=2),
            quarantine_row(4, "D", state=4, code=6),
            quarantine_row(5, "E", partner=2)])

        def names(query):
            return "".join(i["source_id"] for p in
                           self.pages("/quarantine?" + query, 2) for i in p)
        self.assertEqual(names(""), "ABCD")
        self.assertEqual(names("collection=skus"), "ACD")
        self.assertEqual(names("code=reference-inactive"), "B")
        self.assertEqual(names("state=OPEN"), "AB")
        self.assertEqual(names("state=DISCARDED&code=bom-cycle"), "D")
        self.assertEqual(names("collection=uoms&state=RELEASED"), "")
        for bad in ("collection=nope", "code=nope", "state=ACTIVE", "state=",
                    "missing=", "missing=" + "x" * 129, "limit=0",
                    "collection=", "code="):
            self.refused("/quarantine?" + bad, "bad-parameter")

    def test_missing_finds_who_waits_for_a_source_id(self):
        insert_quarantine(self.s, [quarantine_row(i, f"W{i}", collection=c)
                                   for i, c in ((1, SKUS), (2, UOMS),
                                                (3, SKUS), (4, SKUS))] +
                          [quarantine_row(9, "W9", partner=2)])
        self.s.sql("INSERT INTO quarantine_wait (partner_id, collection, "
                   "source_id, quarantine_id) VALUES " + ",".join(
            f"({p},{c},{quote(s)},X'{q:032x}')" for p, c, s, q in (
                (1, UOMS, "EA", 1), (1, SKUS, "EA", 1), (1, SKUS, "EA", 2),
                (1, UOMS, "KG", 3), (1, UOMS, "EA", 4), (2, UOMS, "EA", 9))))
        for query, want in (("missing=EA", ["W1", "W2", "W4"]),
                            ("missing=KG", ["W3"]),
                            ("missing=EA&collection=skus", ["W1", "W4"]),
                            ("missing=ea", [])):
            for limit in (1, 2, 100):
                pages = self.pages("/quarantine?" + query, limit)
                self.assertEqual([i["source_id"] for p in pages for i in p],
                                 want, (query, limit))
                self.assertEqual(len(pages), max(1, -(-len(want) // limit)))

    def test_a_rare_record_is_found_behind_many_others(self):
        insert_quarantine(self.s, [
            quarantine_row(i, f"{i}", state=1 if i == 15000 else 2)
            for i in range(1, 15001)])
        pages = self.pages("/quarantine?state=OPEN", 10)
        self.assertEqual([[i["source_id"] for i in p] for p in pages],
                         [[], ["15000"]])

    def test_a_page_of_fat_records_is_cut(self):
        fat = json.dumps([{"collection": "uoms", "source_id": "x" * 60000}])
        insert_quarantine(self.s, [quarantine_row(i, f"{i}", missing=fat)
                                   for i in range(1, 101)])
        pages = self.pages("/quarantine", 1000)
        self.assertEqual([len(p) for p in pages], [69, 31])


del Reads

if __name__ == "__main__":
    unittest.main(verbosity=1)
