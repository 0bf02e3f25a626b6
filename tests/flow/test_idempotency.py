"""One key: one effect, one answer, byte for byte; and no partner meets
another."""
# SPDX-License-Identifier: Apache-2.0
import datetime
import email.utils
import gzip
import json
import signal
import threading
import time
import unittest
import uuid

from items import API, Partner, checksums, new_key, orphans, path_of, sku, \
    uom
from stack import Stack, wait_for

ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
ULID_UUID = "01563e3a-b5d3-d676-4c61-efb99302bd5b"
DELAY_MS = 1500


def slug(answer):
    return answer.json()["type"].split("#")[1]


class KeyTest(unittest.TestCase):
    stack = None

    def partner(self, *options, **how):
        p = Partner(self.stack, *options, **how)
        self.addCleanup(p.close)
        return p

    def same(self, again, first):
        self.assertEqual((again.status, again.body),
                         (first.status, first.body))

    def replayed(self, again, first):
        self.same(again, first)
        self.assertEqual(again.headers["Idempotent-Replayed"], "true")


def setUpModule():
    KeyTest.stack = Stack(workers=4)
    KeyTest.stack.start()


def tearDownModule():
    KeyTest.stack.stop()
    KeyTest.stack.remove()


class Replay(KeyTest):
    def test_the_first_answer_is_given_again_byte_for_byte(self):
        p, key = self.partner(), new_key()
        items = [uom("A", 1), uom("B"), uom("A", 1), {"source_id": "C"}]
        first = p.post("uoms", items, key=key)
        self.assertEqual(first.status, 207)
        self.assertNotIn("Idempotent-Replayed", first.headers)
        before = checksums(self.stack)
        again = p.post("uoms", items, key=key)
        self.replayed(again, first)
        self.assertNotIn("X-Correlation-Mismatch", again.headers)
        self.assertEqual(again.headers["X-Correlation-Id"], key)
        self.assertEqual(again.headers["Content-Type"],
                         first.headers["Content-Type"])
        self.assertNotEqual(again.headers["X-Request-Id"],
                            first.headers["X-Request-Id"])
        expires = email.utils.parsedate_to_datetime(
            again.headers["Idempotency-Expires"]).timestamp()
        self.assertAlmostEqual(expires, time.time() + 30 * 86400, delta=60)
        self.assertEqual(checksums(self.stack), before)

    def test_a_large_answer_is_given_again_byte_for_byte(self):
        p, key = self.partner(), new_key()
        items = [uom(f"U{i}", name="\u00e9\U0001f600" * 9)
                 for i in range(2000)]
        first = p.post("uoms", items, key=key)
        self.assertEqual(first.status, 200)
        self.assertGreater(len(first.body), 100000)
        self.replayed(p.post("uoms", items, key=key), first)

    def test_another_body_gets_the_first_answer_and_the_header(self):
        p, key = self.partner(), new_key()
        first = p.post("uoms", [uom("A", 1)], key=key)
        before = checksums(self.stack)
        for how in ({"items": [uom("A", 2)]},
                    {"items": [uom("A", 1)], "return": "summary"},
                    {"items": b"not json at all"},
                    {"items": b"\x1f\x8b broken",
                     "headers": {"Content-Encoding": "gzip"}},
                    {"items": [uom("A", 1)],
                     "headers": {"Content-Encoding": "br"}}):
            how = dict(how)
            again = p.post("uoms", how.pop("items"), key=key, **how)
            self.replayed(again, first)
            self.assertEqual(again.headers["X-Correlation-Mismatch"], "true",
                             how)
        self.assertEqual(checksums(self.stack), before)

    def reused(self, answer, path, method="POST"):
        """422, and it tells what the id was used for and when."""
        self.assertEqual((answer.status, slug(answer)),
                         (422, "correlation-id-reused"))
        told = answer.json()
        self.assertEqual((told["first_method"], told["first_path"]),
                         (method, path))
        used = datetime.datetime.fromisoformat(
            told["first_used_at"].replace("Z", "+00:00")).timestamp()
        self.assertAlmostEqual(used, time.time(), delta=60)
        self.assertIn(f"{told['first_used_at']} for {method} {path};",
                      told["detail"])
        self.assertNotIn("Idempotent-Replayed", answer.headers)

    def test_an_id_used_on_another_path_is_refused_for_everybody(self):
        p, key = self.partner(), new_key()
        p.post("uoms", [uom("A", 1)], key=key, **{"return": "summary"})
        before = checksums(self.stack)
        self.reused(p.post("addresses", [uom("A", 1)], key=key),
                    path_of("uoms"))
        self.reused(p.control("/quarantine/qua-" + "0" * 32 + "/release",
                              key=key), path_of("uoms"))
        # The path as it was sent, not as it is understood.
        self.reused(p.send(path_of("uoms").replace("u", "%75", 1), b"",
                           key=key), path_of("uoms"))
        self.assertEqual(checksums(self.stack), before)
        self.assertEqual(p.post("uoms", [uom("A", 1)], key=key,
                                **{"return": "summary"}).status, 200)

    def test_a_strict_partner_is_told_the_first_path_too(self):
        p, key = self.partner("--strict"), new_key()
        p.post("uoms", [uom("A", 1)], key=key)
        self.reused(p.post("uoms", [uom("A", 2)], key=key), path_of("uoms"))
        self.reused(p.post("skus", [uom("A", 1)], key=key), path_of("uoms"))

    def test_an_answer_kept_without_its_path_follows_the_rule_of_bodies(self):
        for options, status in (((), 200), (("--strict",), 422)):
            p, key = self.partner(*options), new_key()
            first = p.post("uoms", [uom("A", 1)], key=key)
            self.stack.sql("UPDATE response SET method = NULL, path = NULL "
                           "WHERE batch_id = (SELECT batch_id FROM "
                           "request_key WHERE correlation_id = UNHEX("
                           f"'{key.replace('-', '')}'))")
            again = p.post("addresses", [uom("A", 1)], key=key)
            self.assertEqual(again.status, status)
            if status == 200:
                self.replayed(again, first)
                self.assertEqual(again.headers["X-Correlation-Mismatch"],
                                 "true")
            else:
                self.assertNotIn("first_path", again.json())

    def test_a_key_taken_over_by_an_earlier_version_has_no_path(self):
        """Its claim and its answer name neither method nor path."""
        p, key = self.partner(), new_key()
        p.post("uoms", [uom("A", 1)], key=key)
        row = f"correlation_id = UNHEX('{key.replace('-', '')}')"
        self.stack.sql(
            "SET @b = UNHEX(MD5(RAND())), @day = (SELECT day FROM response "
            f"JOIN request_key USING (batch_id) WHERE {row}); "
            "SET @b = CONCAT((SELECT LEFT(batch_id, 6) FROM request_key WHERE "
            f"{row}), RIGHT(@b, 10)); "
            f"UPDATE request_key SET batch_id = @b WHERE {row}; "
            "INSERT INTO response (batch_id, day, status, encoding, body) "
            "VALUES (@b, @day, 200, 0, '{}')")
        again = p.post("addresses", [uom("A", 1)], key=key)
        self.assertEqual((again.status, again.body), (200, b"{}"))

    def test_a_packed_body_is_the_same_body(self):
        p, key = self.partner(), new_key()
        body = json.dumps({"items": [uom("A", 1)]}).encode()
        first = p.post("uoms", body, key=key)
        again = p.post("uoms", gzip.compress(body), key=key,
                       headers={"Content-Encoding": "gzip"})
        self.replayed(again, first)
        self.assertNotIn("X-Correlation-Mismatch", again.headers)

    def test_a_strict_partner_is_refused_another_body(self):
        p, key = self.partner("--strict"), new_key()
        first = p.post("uoms", [uom("A", 1)], key=key)
        before = checksums(self.stack)
        again = p.post("uoms", [uom("A", 2)], key=key)
        self.assertEqual((again.status, slug(again)),
                         (422, "correlation-id-reused"))
        self.assertEqual(checksums(self.stack), before)
        self.replayed(p.post("uoms", [uom("A", 1)], key=key), first)

    def test_a_key_has_two_names_and_any_letter_case(self):
        p = self.partner()
        for text, others in (
                ("0b7e2f9c-1111-4222-8333-abcdefabcdef",
                 ("0B7E2F9C-1111-4222-8333-ABCDEFABCDEF",)),
                (ULID, (ULID.lower(), ULID_UUID))):
            first = p.post("uoms", [uom("A")], key=text)
            self.assertEqual(first.status, 200, first)
            for other in (text, *others):
                for headers in ({"X-Correlation-Id": other},
                                {"Idempotency-Key": other},
                                {"Idempotency-Key": f'"{other}"'},
                                {"Idempotency-Key": other,
                                 "X-Correlation-Id": text}):
                    again = p.post("uoms", [uom("A")], key="",
                                   headers=headers)
                    self.replayed(again, first)
                    self.assertEqual(again.headers["X-Correlation-Id"],
                                     headers.get("X-Correlation-Id", other))

    def test_a_bad_key_is_told_and_stores_nothing(self):
        p = self.partner()
        before = checksums(self.stack)
        for headers, want in (
                ({}, "correlation-id-missing"),
                ({"X-Correlation-Id": "1"}, "correlation-id-malformed"),
                ({"X-Correlation-Id": new_key() + "0"},
                 "correlation-id-malformed"),
                ({"Idempotency-Key": '"' + new_key()},
                 "correlation-id-malformed"),
                ({"X-Correlation-Id": ULID[:25] + "U"},
                 "correlation-id-malformed"),
                ({"X-Correlation-Id": new_key(),
                  "Idempotency-Key": new_key()},
                 "correlation-id-ambiguous")):
            answer = p.post("uoms", [uom("A")], key="", headers=headers)
            self.assertEqual((answer.status, slug(answer)), (400, want))
        self.assertEqual(checksums(self.stack), before)

    def test_what_was_refused_is_not_kept(self):
        p, key = self.partner(), new_key()
        refused = [
            p.post("uoms", b'{"items":[', key=key),
            p.post("uoms", [uom("A")], key=key, mode="nonsense"),
            p.post("uoms", [uom("A")], key=key, unknown="1"),
            p.post("uoms", [uom("A")], key=key,
                   headers={"Content-Type": "text/plain"}),
            p.refresh("uoms", [], key=key),
            p.control(f"/batches/bat-{'0' * 32}/undo-refresh", key=key),
            p.post("uoms", [uom("A")], key=key,
                   headers={"Prefer": "wait=99"})]
        self.assertEqual([a.status for a in refused[:6]],
                         [400, 400, 400, 415, 422, 404])
        self.assertEqual(p.get(f"/requests/{key}").status, 404)
        done = p.post("uoms", [uom("A")], key=key)
        if refused[6].status != 200:
            self.assertEqual(done.status, 200)
            self.assertNotIn("Idempotent-Replayed", done.headers)
        self.replayed(p.post("uoms", [uom("A")], key=key), done)

    def test_a_key_of_control_requests_replays_as_well(self):
        p = self.partner()
        held = p.results("skus", [sku("S")])[0]["quarantine_id"]
        key = new_key()
        self.assertEqual(p.control(f"/quarantine/{held}/release",
                                   key=key).status, 409)
        p.post("uoms", [uom("EA")])
        first = p.control(f"/quarantine/{held}/release", key=key)
        self.assertEqual(first.status, 200, first)
        self.replayed(p.control(f"/quarantine/{held}/release", key=key),
                      first)
        again = p.control(f"/quarantine/{held}/release")
        self.assertEqual((again.status, slug(again)),
                         (409, "quarantine-closed"))

    def test_did_my_request_land(self):
        p, key = self.partner(), new_key()
        self.assertEqual(p.get(f"/requests/{key}").status, 404)
        done = p.post("skus", [sku("A"), {"source_id": 5}], key=key)
        for text in (key, key.upper()):
            answer = p.get(f"/requests/{text}")
            self.assertEqual(answer.status, 200)
            told = answer.json()
            self.assertEqual(
                {k: told[k] for k in ("status", "mode", "collection",
                                      "batch_id")},
                {"status": 207, "mode": "upsert", "collection": "skus",
                 "batch_id": done.json()["batch_id"]})
            for name, n in done.json()["summary"].items():
                self.assertEqual(told["summary"][name], n)
            for name in ("received_at", "expires_at"):
                self.assertRegex(told[name], r"^\d{4}-\d\d-\d\dT.*Z$")
        self.assertEqual(p.get("/requests/nonsense").status, 400)


class Expiry(KeyTest):
    def expire(self, key):
        self.stack.sql("UPDATE request_key SET expires_at = NOW(3) - "
                       "INTERVAL 1 SECOND WHERE correlation_id = "
                       f"x'{uuid.UUID(key).hex}'")

    def test_an_expired_key_is_a_fresh_request(self):
        p, key = self.partner(), new_key()
        first = p.post("uoms", [uom("A", 1)], key=key)
        self.expire(key)
        self.assertEqual(p.get(f"/requests/{key}").status, 404)
        second = p.post("uoms", [uom("A", 2)], key=key)
        self.assertNotIn("Idempotent-Replayed", second.headers)
        self.assertNotEqual(second.json()["batch_id"],
                            first.json()["batch_id"])
        self.assertEqual(p.held("uoms")["A"].version, 2)
        again = p.post("uoms", [uom("A", 2)], key=key)
        self.replayed(again, second)
        self.assertNotIn("X-Correlation-Mismatch", again.headers)

    def test_two_who_take_over_at_once_have_one_effect(self):
        p = self.partner()
        for n in range(15):
            key = new_key()
            p.post("uoms", [uom("A", name="old")], key=key)
            rev = p.held("uoms")["A"].rev
            self.expire(key)
            got, go = [], threading.Barrier(4)

            def take(i, key=key, got=got, go=go, n=n):
                mine = p.fork()
                mine.get("/capabilities")
                go.wait()
                got.append(mine.post("uoms", [uom("A", name=f"{n}")],
                                     key=key))
                mine.close()
            threads = [threading.Thread(target=take, args=(i,))
                       for i in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            done = [a for a in got if a.status == 200]
            self.assertEqual(len({a.body for a in done}), 1, got)
            self.assertEqual(sum("Idempotent-Replayed" not in a.headers
                                 for a in done), 1)
            self.assertTrue(all(a.status in (200, 409) for a in got), got)
            self.assertEqual(p.held("uoms")["A"].rev, rev + 1)
        # The answers that keys had before they were taken over stay behind.
        self.assertEqual({k: v for k, v in orphans(self.stack).items()
                          if "without key" not in k}, {})


class Running(KeyTest):
    """Every request is held up after its claim, by a fault."""

    @classmethod
    def setUpClass(cls):
        cls.stack = Stack(workers=4, env={
            "WAYBILL_TEST_FAULT":
                f"db.after.reqkey_claim:1:delay={DELAY_MS}"})
        cls.stack.start()

    @classmethod
    def tearDownClass(cls):
        cls.stack.stop()
        cls.stack.remove()

    def claimed(self):
        # InnoDB shows what it showed before to whoever asks again within
        # 100 ms.
        time.sleep(0.15)
        return self.stack.sql(
            "SELECT 1 FROM information_schema.innodb_trx WHERE "
            "trx_rows_modified > 0")

    def begin(self, p, key):
        """A request that will run for a while, in a thread."""
        got = []
        mine = p.fork()

        def run():
            got.append(mine.post("uoms", [uom("A")], key=key))
            mine.close()
        thread = threading.Thread(target=run)
        thread.start()
        wait_for(self.claimed, what="the claim")
        return thread, got

    def fresh_workers(self):
        """The fault counts once a worker: give every test new ones."""
        old = set(self.stack.worker_pids())
        for pid in self.stack.parents():
            self.stack.kill(pid, signal.SIGHUP)
        wait_for(lambda: len(self.stack.worker_pids()) == 4 and
                 not old & set(self.stack.worker_pids()))

    def setUp(self):
        self.fresh_workers()

    def test_who_does_not_wait_gets_409_at_once(self):
        p, key = self.partner(), new_key()
        thread, got = self.begin(p, key)
        times = []
        for _ in range(6):
            begun = time.monotonic()
            answer = p.post("uoms", [uom("A")], key=key,
                            headers={"Prefer": "wait=0"})
            times.append(time.monotonic() - begun)
            self.assertEqual((answer.status, slug(answer)),
                             (409, "request-in-progress"))
            self.assertGreaterEqual(int(answer.headers["Retry-After"]), 1)
        self.assertEqual(p.get(f"/requests/{key}").status, 404)
        thread.join()
        self.assertLess(max(times), 0.5, times)
        self.replayed(p.post("uoms", [uom("A")], key=key,
                             headers={"Prefer": "wait=0"}), got[0])

    def test_who_waits_long_enough_gets_the_answer(self):
        p, key = self.partner(), new_key()
        thread, got = self.begin(p, key)
        again = p.post("uoms", [uom("A")], key=key,
                       headers={"Prefer": "wait=10"})
        thread.join()
        self.assertEqual(got[0].status, 200)
        self.replayed(again, got[0])

    def test_who_waits_on_another_path_is_refused(self):
        p, key = self.partner(), new_key()
        thread, got = self.begin(p, key)
        other = p.post("addresses", [uom("A")], key=key,
                       headers={"Prefer": "wait=10"})
        thread.join()
        self.assertEqual(got[0].status, 200)
        self.assertEqual((other.status, slug(other)),
                         (422, "correlation-id-reused"))
        self.assertEqual(other.json()["first_path"], path_of("uoms"))

    def test_at_most_half_of_the_workers_wait(self):
        p, key = self.partner(), new_key()
        thread, got = self.begin(p, key)
        answers = []

        def wait():
            mine = p.fork()
            begun = time.monotonic()
            answer = mine.post("uoms", [uom("A")], key=key,
                               headers={"Prefer": "wait=10"})
            answers.append((answer.status, time.monotonic() - begun))
            mine.close()
        threads = [threading.Thread(target=wait) for _ in range(8)]
        for t in threads:
            t.start()
        time.sleep(0.2)
        begun = time.monotonic()
        self.assertEqual(self.partner().get("/capabilities").status, 200)
        self.assertLess(time.monotonic() - begun, 1,
                        "a worker must be left for others")
        for t in (thread, *threads):
            t.join()
        self.assertEqual(got[0].status, 200)
        self.assertEqual({s for s, _ in answers}, {200, 409}, answers)
        self.assertGreaterEqual(sum(s == 409 for s, _ in answers), 6)


class Isolation(KeyTest):
    def test_partners_with_equal_keys_and_ids_do_not_meet(self):
        a, b, key = self.partner(), self.partner(), new_key()
        first = a.post("uoms", [uom("EA", 9)], key=key)
        second = b.post("uoms", [uom("EA", 1)], key=key)
        self.assertNotIn("Idempotent-Replayed", second.headers)
        self.assertEqual(second.json()["results"][0]["change"], "created")
        self.assertNotEqual(first.json()["results"][0]["internal_id"],
                            second.json()["results"][0]["internal_id"])
        self.assertEqual((a.held("uoms")["EA"].version,
                          b.held("uoms")["EA"].version), (9, 1))
        self.replayed(a.post("uoms", [uom("EA", 9)], key=key), first)
        self.replayed(b.post("uoms", [uom("EA", 1)], key=key), second)

    def test_references_of_another_partner_do_not_count(self):
        a, b = self.partner(), self.partner()
        a.post("uoms", [uom("EA")])
        self.assertEqual(b.outcome("skus", sku("S")),
                         "QUARANTINED reference-missing")
        b.deactivate("uoms")
        self.assertEqual(a.held("uoms")["EA"].state, "ACTIVE")

    def test_ids_of_another_partner_are_404_everywhere(self):
        a, b = self.partner(), self.partner()
        key = new_key()
        batch = a.post("skus", [sku("S")], key=key).json()
        record = batch["results"][0]["quarantine_id"]
        a.post("uoms", [uom("EA"), uom("KG")])
        refresh = a.refresh("uoms", [uom("EA")]).json()["batch_id"]
        before = checksums(self.stack)
        for path in (f"/quarantine/{record}/release",
                     f"/quarantine/{record}/discard",
                     f"/batches/{refresh}/undo-refresh"):
            answer = b.control(path)
            self.assertEqual((answer.status, slug(answer)),
                             (404, "not-found"), path)
        internal = a.held("uoms")["EA"].internal
        for path in (f"/requests/{key}", f"/quarantine/{record}",
                     "/master/uoms/EA", "/master/uoms/EA?history=true",
                     f"/mappings?internal_id={internal}",
                     "/mappings?collection=uoms&source_id=EA"):
            self.assertEqual(a.get(path).status, 200, path)
            self.assertEqual(b.get(path).status, 404, path)
        for path in ("/master/uoms", "/quarantine", "/quarantine?missing=EA",
                     "/master/uoms?state=INACTIVE"):
            self.assertTrue(a.get(path).json()["items"], path)
            self.assertEqual(b.get(path).json()["items"], [], path)
        cursor = a.get("/master/uoms?limit=1").json()["next"]
        self.assertIn(b.get(f"/master/uoms?after={cursor}").body[:10],
                      (b'{"items":[', b'{"type":"/'))
        self.assertNotIn(b"KG", b.get(f"/master/uoms?after={cursor}").body)
        self.assertEqual(checksums(self.stack), before)
        self.assertEqual(a.control(f"/batches/{refresh}/undo-refresh")
                         .json()["restored"], 1)

    def test_an_id_of_another_kind_is_404(self):
        p = self.partner()
        batch = p.post("uoms", [uom("EA")]).json()["batch_id"]
        for path in (f"/batches/{batch}/undo-refresh",
                     f"/batches/qua-{batch[4:]}/undo-refresh",
                     f"/batches/{batch.upper()}/undo-refresh",
                     f"/quarantine/{batch}/release",
                     f"/quarantine/qua-{batch[4:]}/release",
                     "/quarantine/qua-1/discard"):
            self.assertEqual(p.control(path).status, 404, path)

    def test_a_kept_answer_is_for_those_who_could_have_asked(self):
        p, key = self.partner(), new_key()
        p.post("uoms", [uom("EA")], key=key)
        admin = p.fork()
        admin.key = p.new_credential("admin")
        answer = admin.control(f"/batches/bat-{'0' * 32}/undo-refresh",
                               key=key)
        self.assertEqual(answer.status, 403, answer)
        answer = admin.send(path_of("uoms"), {"items": []})
        self.assertEqual(answer.status, 403, answer)
        admin.close()

    def test_the_partner_comes_from_the_credential(self):
        a, b = self.partner(), self.partner()
        a.post("uoms", [uom("EA", partner_id=b.name)])
        self.assertEqual(list(a.held("uoms")), ["EA"])
        self.assertEqual(b.held("uoms"), {})
        answer = a.send(API + "/master/uoms?partner_id=" + b.name,
                        {"items": []})
        self.assertEqual(answer.status, 400)


if __name__ == "__main__":
    unittest.main()
