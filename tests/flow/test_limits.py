"""Every limit that has an effect, on both sides, lowered by settings."""
# check: slow
# SPDX-License-Identifier: Apache-2.0
import gzip
import os
import random
import time
import unittest

from problem import wants_problem
from stack import PROGRAMS, Stack, temp_dir, wait_for

CAPABILITIES = "/wms-ingest/v1/capabilities"
ECHO = "/wms-ingest/v1/test/echo"
MIB = 1 << 20
JSON = {"Content-Type": "application/json"}
PACKED = {**JSON, "Content-Encoding": "gzip"}


def padded(size):
    return b'{"items":[' + b" " * (size - 12) + b"]}"


def noisy(size, noise):
    """A body of that size; the noise is what does not pack."""
    text = random.Random(noise).randbytes(noise // 2).hex().encode()
    return b'{"items":["' + text + b'"' + b" " * (size - len(text) - 14) + \
        b"]}"


class Lowered(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack(conf=[
            "sync_body_max = 3MiB", "item_max = 1KiB", "json_depth_max = 5",
            "json_names_max = 8", "gzip_ratio_max = 20",
            "gzip_bomb_floor = 1MiB"])
        cls.stack.start()

    @classmethod
    def tearDownClass(cls):
        cls.stack.stop()
        cls.stack.remove()

    def post(self, body, headers=None):
        return self.stack.post(ECHO, body, headers=headers or JSON)

    def test_capabilities_tell_the_limits_that_hold(self):
        self.assertEqual(self.stack.get(CAPABILITIES).json()["limits"], {
            "sync_body_bytes": 3 * MIB, "bulk_body_bytes": 1024 * MIB,
            "item_bytes": 1024, "bulk_async_threshold": 5000,
            "json_depth": 5, "json_names": 8, "gzip_ratio": 20})

    def test_sync_body_max(self):
        self.assertEqual(self.post(padded(3 * MIB)).status, 200)
        document = wants_problem(self, self.post(padded(3 * MIB + 1)), 413,
                                 "body-too-large")
        self.assertIn(str(3 * MIB), document["detail"])

    def test_sync_body_max_unpacked(self):
        for size, status in ((3 * MIB, 200), (3 * MIB + 1, 413)):
            packed = gzip.compress(noisy(size, 500_000))
            self.assertGreater(len(packed) * 20, size)
            got = self.post(packed, PACKED)
            self.assertEqual(got.status, status, got)
        wants_problem(self, got, 413, "body-too-large")

    def test_item_max(self):
        """A larger item is no error of the request: it is told apart."""
        for size, oversized in ((1024, 0), (1025, 1)):
            item = b'{"a":"' + b"x" * (size - 8) + b'"}'
            self.assertEqual(len(item), size)
            got = self.post(b'{"items":[' + item + b",{}]}").json()
            self.assertEqual((got["items"], got["oversized"]), (2, oversized))

    def test_json_depth_max(self):
        self.assertEqual(self.post(b'{"items":[[[[]]]]}').status, 200)
        wants_problem(self, self.post(b'{"items":[[[[[]]]]]}'), 400,
                      "too-deep")

    def test_json_names_max(self):
        def named(n):
            return b'{"items":[{' + b",".join(
                b'"%d":0' % i for i in range(n)) + b"}]}"
        self.assertEqual(self.post(named(8)).status, 200)
        wants_problem(self, self.post(named(9)), 400, "too-many-names")

    def test_gzip_ratio_max(self):
        size = 2 * MIB
        for noise, bomb in ((230_000, False), (170_000, True)):
            packed = gzip.compress(noisy(size, noise))
            ratio = size / len(packed)
            self.assertEqual(ratio > 20, bomb, ratio)
            self.assertLess(abs(ratio - 20), 5, ratio)
            got = self.post(packed, PACKED)
            if bomb:
                wants_problem(self, got, 413, "gzip-bomb")
            else:
                self.assertEqual(got.status, 200, got)

    def test_gzip_bomb_floor(self):
        """Up to it the ratio is not looked at."""
        self.assertEqual(self.post(gzip.compress(padded(MIB)),
                                   PACKED).status, 200)
        wants_problem(self, self.post(gzip.compress(padded(MIB + 1)), PACKED),
                      413, "gzip-bomb")


class Settings(unittest.TestCase):
    def test_request_deadline_ends_a_request_and_its_caller_is_told(self):
        """max_requests, too: the worker that is late is another one."""
        with Stack(conf=["request_deadline = 1s"], workers=2, env={
                "WAYBILL_TEST_FAULT":
                "pipeline.before_handler:3:delay=20000"}) as stack:
            statuses, longest = [], 0
            for _ in range(12):
                begun = time.monotonic()
                got = stack.get("/healthz")
                longest = max(longest, time.monotonic() - begun)
                statuses.append(got.status)
                if got.status != 200:
                    wants_problem(self, got, 503, "unavailable")
            print(f"  {statuses.count(503)} of 12 past the deadline of 1 s; "
                  f"longest {longest:.2f} s")
            self.assertIn(503, statuses)
            self.assertLess(longest, 3)

    def test_max_requests_is_the_life_of_a_worker(self):
        with Stack(conf=["max_requests = 8"], workers=2) as stack:
            for _ in range(100):
                self.assertEqual(stack.get("/healthz").status, 200)
            wait_for(lambda: stack.metric("waybill_worker_exits_total") >= 8)
            self.assertLessEqual(stack.metric("waybill_worker_exits_total"),
                                 16)

    def test_auth_cache_of_0_looks_every_key_up(self):
        with Stack(conf=["auth_cache = 0ms"]) as stack:
            self.assertEqual(stack.get(CAPABILITIES).status, 200)
            stack.waybill("key", "revoke", stack.key[4:20])
            self.assertEqual(stack.get(CAPABILITIES).status, 401)

    def test_clock_skew_max_makes_it_not_ready(self):
        """The database's clock is set by the session's own variable."""
        with Stack(conf=["clock_skew_max = 2s"],
                   database=["init-connect = "
                             "'SET timestamp = UNIX_TIMESTAMP() + 0'"],
                   ) as stack:
            self.assertEqual(stack.admin("/readyz").status, 200)
            stack.sql("SET GLOBAL init_connect = "
                      "'SET timestamp = UNIX_TIMESTAMP() + 60'")
            stack.sql("SELECT 1; DO 0")
            self.reconnect(stack)
            got = wait_for(lambda: next(
                (a for a in [stack.admin("/readyz")] if a.status != 200),
                None), 10, "not ready")
            document = wants_problem(self, got, 503, "not-ready")
            self.assertIn("clock", document["detail"])

    def reconnect(self, stack):
        for row in stack.sql("SELECT id FROM information_schema.processlist "
                             "WHERE user = 'waybill'"):
            stack.sql(f"KILL {row[0]}")

    def test_a_value_out_of_range_is_refused_with_its_line(self):
        folder = temp_dir("limits")
        path = os.path.join(folder, "waybill.conf")
        for line in ("sync_body_max = 1023", "sync_body_max = 65MiB",
                     "item_max = 2MiB", "json_depth_max = 1",
                     "json_names_max = 4097", "gzip_ratio_max = 1",
                     "gzip_bomb_floor = 2GiB", "max_requests = 0",
                     "request_deadline = 999ms", "auth_cache = 6s",
                     "retry_after = 0s", "sync_body_max = many",
                     "json_depth_max = 5 5", "no_such_key = 1"):
            with open(path, "w", encoding="utf-8") as f:
                f.write(f"# a comment\n{line}\n")
            with self.subTest(line):
                done = os.popen(f"{PROGRAMS}/waybill-fcgi --conf {path} 2>&1 "
                                "</dev/null; echo $?").read()
                self.assertIn(f"{path}:2:", done)
                self.assertIn(line.split()[0], done)
                self.assertEqual(done.split()[-1], "1", done)
        os.unlink(path)
        os.rmdir(folder)


if __name__ == "__main__":
    unittest.main()
