"""Many clients at once: one effect a key, and every answer is true."""
# SPDX-License-Identifier: Apache-2.0
# check: slow
import collections
import concurrent.futures
import json
import multiprocessing
import random
import socket
import threading
import time
import unittest

from items import NUMBER, Partner, bom, new_key, orphans, path_of, sku, uom
from stack import LONG, Stack, wait_for

ROUNDS = 200
SECONDS = 20 if LONG else 6
PROCESSES = 2


class Wire:
    """A connection on which a request is one write and nothing more, so that
    many of them leave within a few milliseconds."""

    def __init__(self, stack):
        sock = socket.create_connection(("127.0.0.1", stack.port), timeout=60)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = stack.tls().wrap_socket(sock, server_hostname="localhost")

    def send(self, data):
        self.sock.sendall(data)

    def answer(self):
        """(status, headers in lower case, body)"""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.more()
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in
                   (line.partition(":") for line in lines[1:])}
        while len(body) < int(headers["content-length"]):
            body += self.more()
        return int(lines[0].split()[1]), headers, body

    def more(self):
        data = self.sock.recv(65536)
        if not data:
            raise AssertionError("the connection ended before the answer")
        return data

    def close(self):
        self.sock.close()


def bytes_of(partner, collection, items, key, prefer=None, **params):
    body = json.dumps({"items": items}).encode()
    head = [f"POST {path_of(collection, **params)} HTTP/1.1",
            "Host: localhost", f"Authorization: Bearer {partner.key}",
            "Content-Type: application/json", f"X-Correlation-Id: {key}",
            f"Content-Length: {len(body)}"]
    if prefer:
        head.append(f"Prefer: {prefer}")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


class RaceTest(unittest.TestCase):
    stack = None
    def retries(self):
        counts = {}
        for line in self.stack.admin("/metrics").body.decode().splitlines():
            if line.startswith("waybill_db_retries_total{"):
                counts[line.split('"')[1]] = int(float(line.split()[-1]))
        return counts


def setUpModule():
    RaceTest.stack = Stack(workers=12)
    RaceTest.stack.start()


def tearDownModule():
    RaceTest.stack.stop()
    RaceTest.stack.remove()


class OneKey(RaceTest):
    def wires(self, n):
        made = [Wire(self.stack) for _ in range(n)]
        self.addCleanup(lambda: [w.close() for w in made])
        return made

    def at_once(self, wires, data):
        for w in wires:
            w.send(data)
        return [w.answer() for w in wires]

    def test_64_clients_with_one_key_have_one_effect_and_one_answer(self):
        partner, wires = Partner(self.stack), self.wires(64)
        partner.post("uoms", [uom("EA")])
        seen = collections.Counter()
        begun = time.monotonic()
        for n in range(ROUNDS):
            items = [sku(f"S{i}", name=f"round {n}",
                         base_uom="NO" if i == 7 and n % 2 else "EA")
                     for i in range(20)]
            data = bytes_of(partner, "skus", items, new_key(),
                            prefer="wait=0" if n % 3 == 0 else None)
            answers = self.at_once(wires, data)
            self.check_round(n, answers, seen, data, wires[0])
        print(f"{ROUNDS} rounds of 64 in {time.monotonic() - begun:.0f} s: "
              f"{dict(seen)}", flush=True)
        self.assertGreater(seen["replayed"], ROUNDS)
        self.assertEqual(orphans(self.stack), {})
        self.check_effects(partner)

    def check_round(self, n, answers, seen, data, wire):
        bodies = {(s, b) for s, _, b in answers if s < 300}
        self.assertEqual(len(bodies), 1, f"round {n}: {bodies}")
        firsts = [h for s, h, _ in answers
                  if s < 300 and "idempotent-replayed" not in h]
        self.assertEqual(len(firsts), 1, f"round {n}")
        for status, headers, body in answers:
            if status >= 300:
                self.assertEqual(status, 409, (headers, body))
                self.assertIn("retry-after", headers)
                self.assertIn("request-in-progress",
                              json.loads(body)["type"])
                seen["409"] += 1
            elif "idempotent-replayed" in headers:
                seen["replayed"] += 1
        wire.send(data)
        status, headers, body = wire.answer()
        self.assertEqual({(status, body)}, bodies)
        self.assertEqual(headers["idempotent-replayed"], "true")

    def check_effects(self, partner):
        rows = self.stack.sql("SELECT COUNT(*) FROM batch WHERE "
                              f"partner_id = {partner.no}")
        self.assertEqual(int(rows[0][0]), ROUNDS + 1)
        for source_id, held in partner.held("skus").items():
            quarantined = ROUNDS // 2 if source_id == "S7" else 0
            self.assertEqual(held.rev, ROUNDS - quarantined, source_id)


class Log:
    """What one client was told: (source_id, version, mark, result)."""

    def __init__(self):
        self.told = []
        self.statuses = collections.Counter()
        self.problems = []

    def add(self, items, answer):
        self.statuses[answer.status] += 1
        if answer.status not in (200, 207):
            self.problems.append(f"{answer.status} {answer.body[:300]!r}")
            return
        for one, result in zip(items, answer.json()["results"]):
            self.told.append((one["source_id"], one.get("source_version"),
                              one["mark"], result))


def client(partner, number, until, log, make, collection, **params):
    """Sends what make() gives until it is time."""
    partner, rng = partner.fork(), random.Random(number)
    n = 0
    while time.time() < until:
        items = make(rng, until - time.time())
        for one in items:
            one["mark"] = f"{number}.{n}"
            n += 1
        log.add(items, partner.post(collection, items, **params))
    partner.close()


def clients(partner, numbers, until, make, collection, **params):
    logs = [Log() for _ in numbers]
    threads = [threading.Thread(target=client, args=(
        partner, i, until, log, make, collection), kwargs=params)
        for i, log in zip(numbers, logs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return logs


def run_clients(partner, count, seconds, make, collection, **params):
    """Logs of `count` clients in a few processes."""
    partner.close()
    until = time.time() + seconds
    with concurrent.futures.ProcessPoolExecutor(
            PROCESSES, mp_context=multiprocessing.get_context("fork")) as ps:
        parts = [ps.submit(clients, partner, range(i, count, PROCESSES),
                           until, make, collection, **params)
                 for i in range(PROCESSES)]
        return [log for part in parts for log in part.result()]


def versioned(rng, left):
    """Mostly rising versions of few ids, in random order."""
    top = int((SECONDS - left) * 20) + 10
    return [uom(f"U{rng.randrange(30)}", rng.randint(max(0, top - 15), top),
                rng.choice("ab")) for _ in range(rng.randint(1, 10))]


def mixed(rng, left):
    items = versioned(rng, left)
    for one in items:
        if rng.random() < 0.3:
            del one["source_version"]
    return items


def maybe_held(rng, left):
    """SKUs of which about half refer to nothing."""
    top = int((SECONDS - left) * 10) + 10
    return [sku(f"S{rng.randrange(12)}", rng.randint(top - 9, top),
                rng.choice(["EA", "NONE"]))
            for _ in range(rng.randint(1, 6))]


class ManyUpserts(RaceTest):
    def good(self, logs, what):
        statuses = sum((log.statuses for log in logs), collections.Counter())
        problems = [p for log in logs for p in log.problems]
        print(f"{what}: {dict(statuses)}, retries so far {self.retries()}",
              flush=True)
        self.assertEqual(problems, [])
        self.assertGreater(sum(statuses.values()), 100)
        return [t for log in logs for t in log.told]

    def stored(self, partner, collection):
        """{source_id: [(version, mark), ...]}, oldest first, the row last."""
        found = collections.defaultdict(list)
        rows = self.stack.sql(
            "SELECT source_id, rev, sub, source_version, payload FROM "
            "item_history WHERE partner_id = {0} AND collection = {1} UNION "
            "ALL SELECT source_id, rev, 4000000000, source_version, payload "
            "FROM item WHERE partner_id = {0} AND collection = {1} "
            "ORDER BY 1, 2, 3".format(partner.no, NUMBER[collection]))
        for source_id, _, _, version, payload in rows:
            found[source_id].append((int(version) if version != "NULL"
                                     else None, json.loads(payload)["mark"]))
        return found

    def check_truth(self, told, stored):
        marks = collections.Counter(m for past in stored.values()
                                    for _, m in past)
        accepted = {mark for _, _, mark, r in told
                    if r["status"] == "ACCEPTED"}
        self.assertEqual([m for m, n in marks.items() if n > 1], [],
                         "stored twice")
        self.assertEqual(accepted - set(marks), set(), "accepted and lost")
        self.assertEqual(set(marks) - accepted, set(), "stored, never told")
        for past in stored.values():
            versions = [v for v, _ in past if v is not None]
            self.assertEqual(versions, sorted(versions))
        held = {(s, v) for s, past in stored.items() for v, _ in past}
        for source_id, version, _, r in told:
            if r["status"] == "REPLAY":
                self.assertIn((source_id, r["held_version"]), held)
                self.assertGreaterEqual(r["held_version"], version)

    def test_32_clients_on_few_ids_are_told_the_truth(self):
        partner = Partner(self.stack)
        told = self.good(run_clients(partner, 32, SECONDS, versioned, "uoms"),
                         "versions")
        self.assertGreater(sum(r["status"] == "REPLAY"
                               for _, _, _, r in told), 20)
        self.check_truth(told, self.stored(partner, "uoms"))
        top = {}
        for source_id, version, _, _ in told:
            top[source_id] = max(version, top.get(source_id, 0))
        self.assertEqual({k: h.version for k, h in
                          partner.held("uoms").items()}, top)
        self.assertEqual(orphans(self.stack), {})

    def test_versions_and_none_mixed_lose_nothing(self):
        partner = Partner(self.stack)
        told = self.good(run_clients(partner, 16, SECONDS / 2, mixed, "uoms"),
                         "mixed")
        self.check_truth(told, self.stored(partner, "uoms"))
        self.assertEqual(orphans(self.stack), {})

    def test_an_item_held_back_by_many_has_one_open_record(self):
        partner = Partner(self.stack)
        partner.post("uoms", [uom("EA")])
        told = self.good(run_clients(partner, 24, SECONDS, maybe_held,
                                     "skus"), "held back")
        self.check_truth([t for t in told if t[3]["status"] != "QUARANTINED"],
                         self.stored(partner, "skus"))
        self.assertEqual(orphans(self.stack), {})
        records = partner.records("skus")
        ids = {r.id for r in records}
        for _, _, _, r in told:
            if r["status"] == "QUARANTINED":
                self.assertIn(r["quarantine_id"], ids)
        opened = [r.source_id for r in records if r.state == "OPEN"]
        self.assertEqual(len(opened), len(set(opened)))
        self.check_records(partner, records, told)

    def check_records(self, partner, records, told):
        """An open record is newer than what is held, and the newest that was
        held back since."""
        held = partner.held("skus")
        for r in records:
            if r.state == "OPEN" and r.source_id in held:
                self.assertGreater(r.version, held[r.source_id].version,
                                   f"{r.source_id} was overtaken")

    def test_a_refresh_among_upserts_touches_only_what_it_saw(self):
        partner = Partner(self.stack)
        named = [uom(f"U{i}", 0) for i in range(15)]
        stop = threading.Event()
        undone, problems = [], []

        def refresher():
            p = partner.fork()
            while not stop.is_set():
                answer = p.refresh("uoms", named)
                if answer.status != 200:
                    problems.append(str(answer))
                    continue
                batch = answer.json()["batch_id"]
                answer = p.control(f"/batches/{batch}/undo-refresh")
                if answer.status != 200:
                    problems.append(str(answer))
                else:
                    undone.append(answer.json())
            p.close()

        for one in named:
            one["mark"] = "first"
        partner.post("uoms", named)
        thread = threading.Thread(target=refresher)
        thread.start()
        try:
            logs = run_clients(partner, 8, SECONDS / 2, mixed, "uoms")
        finally:
            stop.set()
            thread.join()
        told = self.good(logs, "refresh")
        print(f"{len(undone)} refreshes, "
              f"{sum(u['restored'] for u in undone)} restored, "
              f"{sum(u['skipped'] for u in undone)} touched in between",
              flush=True)
        self.assertEqual(problems, [])
        self.assertGreater(len(undone), 3)
        stored = self.stored(partner, "uoms")
        told = [t for t in told if t[3].get("change") != "unchanged"]
        marks = {m for past in stored.values() for _, m in past} - {"first"}
        accepted = {m for _, _, m, r in told if r["status"] == "ACCEPTED"}
        self.assertEqual(accepted, marks)
        self.assertEqual(orphans(self.stack), {})


class HeldOrTaken(RaceTest):
    def run_rounds(self, others):
        """Keys of a round lie together: with many others in the batch the
        open records near them are looked at as one stretch."""
        partner = Partner(self.stack)
        partner.post("uoms", [uom("EA")])
        wires = [Wire(self.stack) for _ in range(6)]
        self.addCleanup(lambda: [w.close() for w in wires])
        rounds = 200 if LONG else 40
        for n in range(rounds):
            for i, w in enumerate(wires):
                w.send(bytes_of(partner, "skus", [
                    sku(f"{n}-S", 5 + i // 3, ("NONE", "EA")[i // 3], n=i),
                    sku(f"{n}-T", 2 - i % 2, ("EA", "NONE")[i % 2], n=i)] + [
                    sku(f"{n}-O{i}-{o}", 1) for o in range(others)],
                    new_key()))
            for w in wires:
                status, _, body = w.answer()
                self.assertIn(status, (200, 207), body)
        held = partner.held("skus")
        waiting = {r.source_id: r.version for r in partner.records("skus")
                   if r.state == "OPEN"}
        self.assertEqual({s: v for s, v in waiting.items()
                          if s in held and held[s].version >= v}, {})

    def test_what_is_held_back_while_a_newer_one_is_taken_does_not_wait(self):
        self.run_rounds(others=0)

    def test_the_same_among_many_others(self):
        self.run_rounds(others=10)


class HeldMeanwhile(unittest.TestCase):
    def test_what_is_held_back_after_the_look_is_still_seen(self):
        """A batch is held up just after it saw no open record near its keys;
        then an older version of one of them is held back."""
        fault = "db.after.quarantine_stretch:1:delay=4000"
        with Stack(workers=4, env={"WAYBILL_TEST_FAULT": fault}) as stack:
            partner = Partner(stack)
            partner.post("uoms", [uom("EA")])
            slow = Wire(stack)
            slow.send(bytes_of(partner, "skus", [sku("S", 6)] + [
                sku(f"S{i}", 1) for i in range(20)], new_key()))
            wait_for(lambda: time.sleep(0.15) or stack.sql(
                "SELECT 1 FROM information_schema.innodb_trx "
                "WHERE trx_rows_modified > 0"), what="the claim")
            time.sleep(0.5)
            early = partner.post("skus", [sku("S", 5, "NONE")])
            self.assertEqual(early.json()["summary"]["quarantined"], 1)
            status, _, body = slow.answer()
            slow.close()
            self.assertEqual(status, 200, body)
            self.assertEqual([r.state for r in partner.records("skus")],
                             ["SUPERSEDED"])


class Rings(RaceTest):
    def test_two_boms_at_once_never_close_a_ring(self):
        partner = Partner(self.stack)
        wires = [Wire(self.stack) for _ in range(4)]
        self.addCleanup(lambda: [w.close() for w in wires])
        rounds = 100 if LONG else 40
        skus = [f"{n}.{i}" for n in range(rounds) for i in range(4)]
        partner.post("uoms", [uom("EA")])
        partner.post("skus", [sku(s) for s in skus])
        for n in range(rounds):
            for i, w in enumerate(wires):
                w.send(bytes_of(partner, "boms", [
                    bom(f"{n}.b{i}", 1, f"{n}.{i}", [f"{n}.{(i + 1) % 4}"])],
                    new_key()))
            got = sorted(json.loads(w.answer()[2])["results"][0]["status"]
                         for w in wires)
            self.assertEqual(got, ["ACCEPTED"] * 3 + ["QUARANTINED"],
                             f"round {n}")


class Refreshes(RaceTest):
    def test_two_at_once_never_take_down_what_both_say_is_live(self):
        """Neither writes what it names: each must see the other's tombstone."""
        partner = Partner(self.stack)
        both = [uom("A", 1), uom("B", 1)]
        wires = [Wire(self.stack) for _ in both]
        self.addCleanup(lambda: [w.close() for w in wires])
        for n in range(200 if LONG else 60):
            partner.refresh("uoms", both)
            for w, one in zip(wires, both):
                w.send(bytes_of(partner, "uoms", [one], new_key(),
                                mode="full-refresh"))
            for w in wires:
                self.assertEqual(w.answer()[0], 200)
            states = [h.state for h in partner.held("uoms").values()]
            self.assertIn("ACTIVE", states, f"round {n}")


if __name__ == "__main__":
    unittest.main()
