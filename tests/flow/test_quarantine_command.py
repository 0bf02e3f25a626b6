#!/usr/bin/env python3
"""waybill quarantine list and show, over rows that were put there by SQL."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "lib"))
from rows import HEX, UOMS, insert_quarantine, quarantine_row  # noqa: E402
from service import Service  # noqa: E402


class Command(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Service().__enter__()
        cls.addClassCleanup(cls.s.close)
        cls.s.waybill("partner", "add", "ACME")
        cls.s.waybill("partner", "add", "OTHER")
        insert_quarantine(cls.s, [
            quarantine_row(1, "A"), quarantine_row(2, "B", collection=UOMS),
            quarantine_row(3, "C", state=2),
            quarantine_row(4, "D", partner=2, code=6)])

    def names(self, *words):
        return "".join(r["source_id"] for r in self.s.waybill_json(
            "quarantine", "list", *words))

    def test_list_shows_all_partners_newest_first(self):
        self.assertEqual(self.names(), "DCBA")
        self.assertEqual(self.names("--limit", "2"), "DC")

    def test_list_filters(self):
        self.assertEqual(self.names("--partner", "ACME"), "CBA")
        self.assertEqual(self.names("--collection", "uoms"), "B")
        self.assertEqual(self.names("--state", "OPEN"), "DBA")
        self.assertEqual(self.names("--state", "OPEN", "--partner", "OTHER",
                                    "--collection", "skus"), "D")

    def test_list_is_a_table_for_people(self):
        lines = self.s.waybill("quarantine", "list").splitlines()
        self.assertEqual(lines[0].split(), [
            "quarantine_id", "partner_id", "collection", "source_id",
            "source_version", "state", "code", "attempts", "first_seen",
            "last_seen"])
        self.assertEqual(lines[1].split()[:7], [
            f"qua-{4:032x}", "OTHER", "skus", "D", "7", "OPEN", "bom-cycle"])

    def test_show_is_what_the_api_shows(self):
        text = self.s.waybill("--json", "quarantine", "show", f"qua-{1:032x}")
        self.assertIn('"payload":{"q":1.10}', text)
        self.assertEqual(json.loads(text), {
            "quarantine_id": f"qua-{1:032x}", "partner_id": "ACME",
            "collection": "skus", "source_id": "A", "source_version": 7,
            "state": "OPEN", "code": "reference-missing",
            "reason": "it waits",
            "missing": [{"collection": "uoms", "source_id": "EA"}],
            "attempts": 2, "first_seen": "2026-11-18T02:30:00.123Z",
            "last_seen": "2026-11-18T02:30:00.123Z",
            "batch_id": "bat-" + HEX["first"], "payload": {"q": 1.1}})
        self.assertIn("reason          it waits\n", self.s.waybill(
            "quarantine", "show", f"qua-{1:032x}"))

    def test_exit_status_tells_what_was_wrong(self):
        for want, words in (
                (3, ("show", f"qua-{9:032x}")), (3, ("show", "x")),
                (3, ("list", "--partner", "NOBODY")),
                (2, ("list", "--collection", "nope")),
                (2, ("list", "--state", "open")),
                (2, ("list", "--limit", "0")), (2, ("show",)),
                (2, ("nope",))):
            got = self.s.run("quarantine", *words)
            self.assertEqual((got.returncode, got.stdout), (want, ""), words)


if __name__ == "__main__":
    unittest.main(verbosity=1)
