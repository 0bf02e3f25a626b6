#!/usr/bin/env python3
"""The public views, as the read-only account sees them."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "lib"))
from rows import (HEX, insert_items, insert_quarantine, item_row,  # noqa: E402
                  quarantine_row)
from service import ROOT, Service  # noqa: E402

RO = "waybill_ro"
MANY = 3000  # rows: far more than an index has to read


def documented():
    """{view: [column, ...]} of docs/schema.md"""
    views, view = {}, None
    with open(os.path.join(ROOT, "docs", "schema.md")) as f:
        for line in f:
            if line.startswith("#"):
                view = line.strip("# \n")
            cells = [c.strip() for c in line.split("|")]
            if len(cells) != 5 or cells[1] in ("column", "view", "---"):
                continue
            if view == "Finding by id":
                views[cells[1]] = (views[cells[1][:-len("_by_key")]] +
                                   cells[2].split(", "))
            else:
                views.setdefault(view, []).extend(cells[1].split(", "))
    return views


class Views(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Service().__enter__()
        cls.addClassCleanup(cls.s.close)
        cls.s.waybill("partner", "add", "ACME")
        insert_items(cls.s, [item_row(f"{i:06}") for i in range(MANY)] +
                     [item_row("S-\u00e9", version=2**63 - 1, state=2,
                               internal=HEX["third"],
                               payload='{"name":"\u00e9"}')])
        insert_quarantine(cls.s, [quarantine_row(i, f"{i:06}")
                                  for i in range(1, MANY)])
        cls.s.sql(f"""
            INSERT INTO batch SELECT internal_id, 20775, 1, 3, 2, 10, 1, 2, 3,
                4, 5, NULL, '["W1"]', '2026-11-18 02:30:00.123' FROM item;
            INSERT INTO batch_item SELECT internal_id, 0, 20775, 3, NULL, 1,
                source_id, 5, 6, 7, 8, '"x":1' FROM item;
            INSERT INTO request_key SELECT 1, 1, internal_id, internal_id,
                REPEAT('f', 32), 3, 1, NULL, '2026-11-18 02:30:00.123',
                '2099-12-18 02:30:00.123' FROM item;
            INSERT INTO response (batch_id, day, status, encoding,
                body) SELECT internal_id, 20775, 207, 0, 'body'
                FROM item;
            INSERT INTO batch VALUES (X'{HEX["other"]}', 20775, 1, NULL, 4, 0,
                0, 0, 0, 0, 0, X'{HEX["first"]}', NULL,
                '2026-11-18 02:30:00.123');
            INSERT INTO request_key VALUES (1, 1, X'{HEX["other"]}',
                X'{HEX["other"]}', REPEAT('f', 32), NULL, 4, '["W1"]',
                '2020-11-18 02:30:00.123', '2020-12-18 02:30:00.123');
            ANALYZE TABLE item, quarantine, batch, batch_item, request_key,
                response""")

    def row(self, query):
        rows = self.s.sql(query, user=RO)
        self.assertEqual(len(rows), 1, rows)
        return rows[0]

    def test_the_page_names_every_column_and_no_other(self):
        views = {}
        for view, column in self.s.sql(
                "SELECT table_name, column_name FROM "
                "information_schema.columns WHERE table_schema = 'waybill' "
                "ORDER BY table_name, ordinal_position", user=RO):
            views.setdefault(view, []).append(column)
        self.assertGreaterEqual(set(views), {
            "v_item", "v_batch", "v_batch_item", "v_quarantine", "v_request",
            "v_partner", "v_credential"})
        self.assertEqual(views, documented())

    def test_the_read_only_account_reads_views_and_nothing_else(self):
        for table, in self.s.sql("SELECT table_name FROM information_schema."
                                 "tables WHERE table_schema = 'waybill'"):
            said = self.s.sql(f"SELECT 1 FROM {table} LIMIT 1", user=RO,
                              ok=False)
            if table.startswith("v_"):
                self.assertEqual(said, "")
            else:
                self.assertIn("denied", said, table)
        self.assertNotEqual(self.s.sql("DELETE FROM v_item", user=RO,
                                       ok=False), "")

    def test_all_columns_of_a_view_read_as_text(self):
        for view in documented():
            if not view.endswith("_by_key"):
                self.s.sql(f"SELECT * FROM {view} LIMIT 20", user=RO)

    def test_an_item_reads_as_in_the_api(self):
        self.assertEqual(self.row(
            "SELECT partner_id, area, collection, source_text, "
            "source_version, state, internal_id, rev, created_batch_id, "
            "batch_id, created_at, updated_at, payload FROM v_item WHERE "
            "partner_id = 'ACME' AND collection = 'skus' AND "
            "source_id = 'S-\u00e9'"),
            ["ACME", "master", "skus", "S-\u00e9", str(2**63 - 1), "INACTIVE",
             "sku-" + HEX["third"], "1", "bat-" + HEX["first"],
             "bat-" + HEX["second"], "2026-11-18T02:30:00.123Z",
             "2026-11-18T02:30:00.123Z", '{"name":"\u00e9"}'])
        self.assertEqual(self.row(
            "SELECT JSON_VALUE(payload, '$.name') FROM v_item_by_key WHERE "
            f"partner_id = 'ACME' AND internal_key = X'{HEX['third']}'"),
            ["\u00e9"])

    def test_a_batch_and_its_items_read_as_in_the_api(self):
        where = f"WHERE batch_key = X'{HEX['third']}'"
        self.assertEqual(self.row(
            "SELECT batch_id, partner_id, area, collection, mode, total, "
            "accepted, replay, quarantined, rejected, tombstoned, "
            "IFNULL(job_id, '-'), received_at, warehouses FROM "
            "v_batch_by_key " + where),
            ["bat-" + HEX["third"], "ACME", "master", "skus", "full-refresh",
             "10", "1", "2", "3", "4", "5", "-", "2026-11-18T02:30:00.123Z",
             '["W1"]'])
        self.assertEqual(self.row(
            "SELECT batch_id, partner_id, collection, position, line, "
            "source_text, source_version, status, IFNULL(change_kind, '-'), "
            "is_conflict, held_version, rev, detail, received_at "
            "FROM v_batch_item_by_key " + where),
            ["bat-" + HEX["third"], "ACME", "skus", "0", "7", "S-\u00e9", "5",
             "QUARANTINED", "-", "1", "6", "8", '"x":1',
             "2026-11-18T02:30:00.123Z"])
        self.assertEqual(self.row(
            "SELECT IFNULL(collection, '-'), mode, job_id FROM v_batch_by_key "
            f"WHERE batch_key = X'{HEX['other']}'"),
            ["-", "release", "job-" + HEX["first"]])

    def test_a_quarantine_record_reads_as_in_the_api(self):
        self.assertEqual(self.row(
            "SELECT quarantine_id, partner_id, collection, source_text, "
            "source_version, state, code, reason, missing, attempts, "
            "batch_id, first_seen, payload FROM v_quarantine WHERE "
            "partner_id = 'ACME' AND collection = 'skus' AND "
            "source_id = '000077'"),
            [f"qua-{77:032x}", "ACME", "skus", "000077", "7", "OPEN",
             "reference-missing", "it waits",
             '[{"collection":"uoms","source_id":"EA"}]', "2",
             "bat-" + HEX["first"], "2026-11-18T02:30:00.123Z",
             '{"q":1.10}'])

    def test_a_request_reads_as_in_the_api(self):
        uuid = re.sub("(.{8})(.{4})(.{4})(.{4})", r"\1-\2-\3-\4-",
                      HEX["third"])
        self.assertEqual(self.row(
            "SELECT partner_id, surface, correlation_id, collection, mode, "
            "status, batch_id, received_at, expires_at, is_expired FROM "
            "v_request_by_key WHERE partner_id = 'ACME' AND correlation_key = "
            f"UNHEX(REPLACE('{uuid}', '-', ''))"),
            ["ACME", "wms-ingest", uuid, "skus", "upsert", "207",
             "bat-" + HEX["third"], "2026-11-18T02:30:00.123Z",
             "2099-12-18T02:30:00.123Z", "0"])
        self.assertEqual(self.row(
            "SELECT IFNULL(collection, '-'), IFNULL(status, '-'), "
            "is_expired, warehouses FROM v_request_by_key WHERE "
            f"partner_id = 'ACME' AND correlation_key = X'{HEX['other']}'"),
            ["-", "-", "1", '["W1"]'])

    def test_the_columns_for_finding_use_an_index(self):
        third = f"X'{HEX['third']}'"
        for query in (
                "v_item WHERE partner_id = 'ACME' AND collection = 'skus' "
                "AND source_id = '000001'",
                "v_item_by_key WHERE partner_id = 'ACME' AND "
                f"internal_key = {third}",
                f"v_batch_by_key WHERE batch_key = {third}",
                f"v_batch_item_by_key WHERE batch_key = {third}",
                f"v_quarantine_by_key WHERE quarantine_key = X'{77:032x}'",
                "v_quarantine WHERE partner_id = 'ACME' AND "
                "collection = 'skus' AND source_id = '000077'",
                "v_request_by_key WHERE partner_id = 'ACME' AND "
                f"correlation_key = {third}"):
            rows = self.s.sql(
                f"FLUSH STATUS; SELECT 'found' FROM {query}; "
                "SHOW SESSION STATUS LIKE 'Handler_read%'")
            self.assertEqual(rows[0], ["found"], query)
            read = sum(int(r[1]) for r in rows if len(r) == 2)
            self.assertLess(read, 100, query)


if __name__ == "__main__":
    unittest.main(verbosity=1)
