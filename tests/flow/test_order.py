"""Order does not matter, with references: random sets of versioned items that
refer to each other, in any order, repeated, cut into batches in any way, as
upserts and bulk jobs side by side, end in the table that sending them in order
gives, once all that waits has been let go by auto_release.

Cases live beside each other under ids of their own. WAYBILL_TEST_SEED repeats
a run (it is printed), WAYBILL_TEST_CASES sets its size.
"""
# SPDX-License-Identifier: Apache-2.0
# check: sanitized
# check: slow
import concurrent.futures
import json
import os
import random
import time
import unittest

from items import NUMBER, Partner, bom, item, line, orphans, place, sku, uom
from stack import LONG, Stack, wait_for

SEED = int(os.environ.get("WAYBILL_TEST_SEED") or
           random.SystemRandom().randrange(1 << 32))
CASES = int(os.environ.get("WAYBILL_TEST_CASES") or (2000 if LONG else 120))
SLICE = 10    # cases whose items share batches
SENDERS = 3   # at once, a partner
BULK = 0.2    # of the batches
SETTLE_S = 120
# What is referred to stands before what refers to it.
ORDER = ("uoms", "locations", "skus", "boms", "lots", "serials",
         "purchase-orders", "receivers")


def a_case(rng, name):
    """{collection: {source_id: [versions, rising]}}. Whatever is referred to
    is in it, kinds and the SKU of a lot stay, and BOMs make no ring."""
    def one(ids):
        return f"{name}.{rng.choice(ids)}"

    def lines():
        return [line(one(["s0", "s1", "s2"]), one(["u0", "u1"]), n + 1)
                for n in range(rng.randint(1, 2))]

    def parts(i):
        return [f"{name}.s{n}" for n in range(i + 1, 3)
                if n == 2 or rng.random() < 0.5]

    makers = {
        "uoms": {u: lambda k, v: uom(k, v) for u in ("u0", "u1")},
        "locations": {
            "W": lambda k, v: place(k, v),
            "V": lambda k, v: place(k, v),
            "Z": lambda k, v: place(k, v, "ZONE", one(["W", "V"])),
            "B": lambda k, v: place(k, v, "BIN", f"{name}.Z")},
        "skus": {s: lambda k, v: sku(k, v, one(["u0", "u1"]))
                 for s in ("s0", "s1", "s2")},
        "boms": {f"b{i}": lambda k, v, i=i: bom(
            k, v, f"{name}.s{i}", parts(i), one(["u0", "u1"]))
            for i in range(2)},
        "lots": {"l0": lambda k, v: item(k, v, sku_source_id=f"{name}.s0")},
        "serials": {"n0": lambda k, v: item(
            k, v, sku_source_id=f"{name}.s0", lot_source_id=f"{name}.l0")},
        "purchase-orders": {"p0": lambda k, v: item(
            k, v, warehouse_source_id=one(["W", "V"]), lines=lines())},
        "receivers": {"r0": lambda k, v: item(
            k, v, po_source_id=f"{name}.p0", lines=lines())},
    }
    made = {}
    for collection, ids in makers.items():
        for key, make in ids.items():
            versions = sorted(rng.sample(range(1, 9), rng.randint(1, 3)))
            made.setdefault(collection, {})[f"{name}.{key}"] = [
                {**make(f"{name}.{key}", v), "note": rng.randrange(1000)}
                for v in versions]
    return made


def in_order(cases, collection):
    return [one for case in cases for versions in case[collection].values()
            for one in versions]


def arrange(rng, cases):
    """(collection, items, mode) in any order, with any repetition and any cut
    into batches; items of several cases share a batch."""
    batches = []
    for part in (cases[i:i + SLICE] for i in range(0, len(cases), SLICE)):
        for collection in ORDER:
            items = in_order(part, collection)
            items += rng.choices(items, k=len(items) // 2)
            rng.shuffle(items)
            while items:
                n = rng.randint(1, 25)
                mode = "bulk" if rng.random() < BULK else "upsert"
                batches.append((collection, items[:n], mode))
                items = items[n:]
    rng.shuffle(batches)
    return batches


def send(partner, batches):
    partner = partner.fork()
    for collection, items, mode in batches:
        answer = partner.post(collection, items, mode=mode)
        if answer.status not in (200, 202, 207):
            raise AssertionError(f"{collection} {items}: {answer}")
    partner.close()


def send_all(partner, batches):
    """Several at once: requests race with each other and with the jobs."""
    with concurrent.futures.ThreadPoolExecutor(SENDERS) as pool:
        for done in [pool.submit(send, partner, batches[i::SENDERS])
                     for i in range(SENDERS)]:
            done.result()


def table(stack, partner):
    """All that is held, ids and times aside: {(collection, source_id): row}."""
    return {(r[0], r[1]): r[2:] for r in stack.sql(
        "SELECT collection, source_id, source_version, state, HEX(trait), "
        "HEX(content_hash), HEX(payload) FROM item "
        f"WHERE partner_id = {partner.no}")}


def pending(stack, partner):
    """Unfinished jobs, and what is held back."""
    return stack.sql(
        f"SELECT 'job', state FROM job WHERE partner_id = {partner.no} "
        "AND open_as IS NOT NULL UNION ALL "
        "SELECT source_id, reason FROM quarantine "
        f"WHERE partner_id = {partner.no} AND is_open = 1")


class OrderWithReferences(unittest.TestCase):
    def settle(self, stack, partner):
        left = None

        def is_settled():
            nonlocal left
            left = pending(stack, partner)
            return not left
        try:
            wait_for(is_settled, SETTLE_S, "that nothing waits")
        except AssertionError as e:
            self.fail(f"{e} (seed {SEED}): {len(left)} left: {left[:5]}")

    def test_any_order_repetition_and_cut_end_in_one_table(self):
        print(f"seed {SEED}, {CASES} cases", flush=True)
        with Stack(workers=4) as stack:
            self.run_all(stack)

    def run_all(self, stack):
        rng = random.Random(SEED)
        cases = [a_case(rng, f"c{i}") for i in range(CASES)]
        ordered = Partner(stack)
        for part in (cases[i:i + SLICE] for i in range(0, CASES, SLICE)):
            for collection in ORDER:
                results = ordered.results(collection,
                                          in_order(part, collection))
                self.assertEqual({r["status"] for r in results}, {"ACCEPTED"})
        want = table(stack, ordered)
        self.check_highest(cases, want)
        for n in range(2):
            begun = time.monotonic()
            mixed = Partner(stack, "--auto-release")
            send_all(mixed, arrange(random.Random(f"{SEED} {n}"), cases))
            sent_s = time.monotonic() - begun
            self.settle(stack, mixed)
            self.tell(stack, mixed, sent_s, time.monotonic() - begun)
            got = table(stack, mixed)
            wrong = [k for k in want if got.get(k) != want[k]]
            self.assertEqual(
                [(k, want[k], got.get(k)) for k in wrong[:3]], [],
                f"{len(wrong)} items differ (seed {SEED})")
            self.assertEqual(len(got), len(want))
            mixed.close()
        ordered.close()
        known = orphans(stack)
        # Batches of a worker's own releases have no key.
        known.pop("batch without key", None)
        self.assertEqual(known, {})

    def check_highest(self, cases, held):
        """In order, the last version of each is what is held."""
        for case in cases:
            for collection, ids in case.items():
                for key, versions in ids.items():
                    row = held[(str(NUMBER[collection]), key)]
                    self.assertEqual(bytes.fromhex(row[-1]), json.dumps(
                        versions[-1], separators=(",", ":")).encode())

    def tell(self, stack, partner, sent_s, settled_s):
        """A run that holds nothing back, or repeats nothing, proves
        nothing."""
        status = dict(stack.sql(
            "SELECT t.status, COUNT(*) FROM batch_item t JOIN batch b USING "
            f"(batch_id, day) WHERE b.partner_id = {partner.no} "
            "GROUP BY t.status"))
        released = int(stack.sql(
            "SELECT COUNT(*) FROM quarantine WHERE state = 2 AND "
            f"partner_id = {partner.no}")[0][0])
        jobs = int(stack.sql("SELECT COUNT(*) FROM job WHERE "
                             f"partner_id = {partner.no}")[0][0])
        print(f"sent in {sent_s:.0f} s, settled in {settled_s:.0f} s: "
              f"accepted {status.get('1')}, replay {status.get('2')}, "
              f"quarantined {status.get('3')}, {released} released, "
              f"{jobs} jobs", flush=True)
        for count in (int(status.get("2", 0)), int(status.get("3", 0)),
                      released):
            self.assertGreater(count, CASES)
        self.assertGreater(jobs, CASES // SLICE)


if __name__ == "__main__":
    unittest.main()
