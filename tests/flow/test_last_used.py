#!/usr/bin/env python3
"""When a credential was last used: written down now and then, after the
answer, and never at the cost of a request."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "lib"))
import fcgi_client as fcgi  # noqa: E402
from certs import Maker  # noqa: E402
from service import Service  # noqa: E402
from stack import wait_for  # noqa: E402

CAPABILITIES = "/wms-ingest/v1/capabilities"
# One worker: whatever holds it holds the next request. Others wait for a lock
# for longer than get() waits for an answer, and nobody ends the worker, so that
# a wait would be seen.
CONF = {"workers": 1, "db_lock_wait": "60s", "db_io_timeout": "5min",
        "request_deadline": "10min", "last_used_every": "1s"}


class Locked:
    """Somebody has the row of a credential, until the `with` ends."""

    def __init__(self, service, credential):
        self.service, self.credential = service, credential

    def __enter__(self):
        self.client = subprocess.Popen(
            ["mariadb", "--no-defaults", "--batch", "--skip-column-names",
             "--unbuffered", "--user", "root", "--socket",
             self.service.conf["db_socket"], "waybill"], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.client.stdin.write(
            "BEGIN; SELECT 'locked' FROM credential WHERE credential_id = "
            f"'{self.credential}' FOR UPDATE;\n")
        self.client.stdin.flush()
        assert self.client.stdout.readline() == "locked\n"
        return self

    def __exit__(self, *_):
        self.client.stdin.close()
        self.client.wait(30)
        self.client.stdout.close()


class LastUsed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Service(**CONF).__enter__()
        cls.addClassCleanup(cls.s.close)
        cls.s.waybill("partner", "add", "ACME")
        cls.s.serve()
        cls.made = Maker(os.path.join(cls.s.dir, "certs"))

    def used(self, credential):
        at = self.s.sql("SELECT last_used_at FROM credential WHERE "
                        f"credential_id = '{credential}'")[0][0]
        return None if at == "NULL" else at

    def get(self, key=None, cert=None):
        headers = [("Authorization", f"Bearer {key}")] if key else []
        extra = [("WAYBILL_CLIENT_CERT", cert.escaped)] if cert else []
        return fcgi.request(self.s.socket, uri=CAPABILITIES, headers=headers,
                            extra=extra, timeout=30).status

    def test_it_is_written_when_a_key_is_used(self):
        key = self.s.key("ACME")
        self.assertIsNone(self.used(key[4:20]))
        self.assertEqual(self.get(key), 200)
        wait_for(lambda: self.used(key[4:20]), what="the time")
        shown = [r for r in self.s.waybill_json("key", "list")
                 if r["id"] == key[4:20]][0]["last_used_at"]
        self.assertRegex(shown, r"^20\d\d-.*T.*Z$")

    def test_it_is_written_again_when_it_is_old(self):
        key = self.s.key("ACME")
        self.assertEqual(self.get(key), 200)
        first = wait_for(lambda: self.used(key[4:20]), what="the time")
        wait_for(lambda: self.get(key) == 200 and
                 self.used(key[4:20]) > first, 60, "a later time")

    def test_a_refused_key_leaves_no_time(self):
        key = self.s.key("ACME")
        wrong = key[:-1] + ("a" if key[-1] != "a" else "b")
        self.s.waybill("key", "revoke", key[4:20])
        for bad in (key, wrong):
            self.assertEqual(self.get(bad), 401)
        # Another one's time is written after these would have been.
        good = self.s.key("ACME")
        self.assertEqual(self.get(good), 200)
        wait_for(lambda: self.used(good[4:20]), what="the time")
        self.assertIsNone(self.used(key[4:20]))

    def test_both_are_written_where_both_are_needed(self):
        self.s.waybill("partner", "add", "BOTH", "--mtls-only")
        key, cert = self.s.key("BOTH"), self.made.cert("both")
        cert.id = self.s.waybill("cert", "add", "BOTH", cert.pem).strip()
        self.assertEqual(self.get(key), 401)
        self.assertEqual(self.get(key, cert), 200)
        for credential in (key[4:20], cert.id):
            wait_for(lambda c=credential: self.used(c), what="the time")

    def test_a_locked_row_holds_no_request(self):
        """Neither its own nor the next ones of the one worker there is."""
        key, other = self.s.key("ACME"), self.s.key("ACME")
        with Locked(self.s, key[4:20]):
            for _ in range(5):
                self.assertEqual(self.get(key), 200)
                self.assertEqual(self.get(other), 200)
            wait_for(lambda: self.used(other[4:20]), what="the time")
            self.assertIsNone(self.used(key[4:20]))
        wait_for(lambda: self.get(key) == 200 and self.used(key[4:20]), 60,
                 "the time, when the lock is gone")

    def test_a_database_that_refuses_it_refuses_no_request(self):
        key = self.s.key("ACME")
        self.s.sql("REVOKE UPDATE (last_used_at) ON credential FROM "
                   "'waybill'@'localhost'")
        try:
            for _ in range(3):
                self.assertEqual(self.get(key), 200)
            self.assertIsNone(self.used(key[4:20]))
        finally:
            self.s.waybill("migrate")
        wait_for(lambda: self.get(key) == 200 and self.used(key[4:20]), 60,
                 "the time")


class Seldom(unittest.TestCase):
    """With a time that does not pass during the test."""

    def use(self, s, key):
        self.assertEqual(s.get(CAPABILITIES, key).status, 200)
        return wait_for(lambda: s.sql(
            "SELECT last_used_at FROM credential WHERE "
            "last_used_at IS NOT NULL"), what="the time")

    def start(self, **conf):
        s = Service(last_used_every="24h", **conf).__enter__()
        self.addCleanup(s.close)
        s.waybill("partner", "add", "ACME")
        return s.serve(), s.key("ACME")

    def test_it_is_written_once_by_all_workers_together(self):
        s, key = self.start(workers=3)
        first = self.use(s, key)
        wait_for(lambda: self.use(s, key) and len(self.workers(s)) == 3, 120,
                 "a request for each worker")
        # What a worker writes, it has written when its next answer is out.
        for _ in range(20):
            self.assertEqual(self.use(s, key), first)

    def workers(self, s):
        with open(s.log, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        return {line["pid"] for line in lines if line["event"] == "request"}

    def test_a_process_tries_once(self):
        """Though by the table alone it would be due again."""
        s, key = self.start(workers=1)
        self.use(s, key)
        s.sql("UPDATE credential SET last_used_at = last_used_at - "
              "INTERVAL 2 DAY")
        old = s.sql("SELECT last_used_at FROM credential")
        for _ in range(5):
            self.assertEqual(self.use(s, key), old)


if __name__ == "__main__":
    unittest.main()
