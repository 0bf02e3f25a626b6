"""A batch is a sequence, and order does not matter, by random cases.

Batch = sequence: random batches go as one batch to partner A and item by item
to partner B. Outcomes and tables must be equal, whatever ids, revs and times
are. Order: a set of versioned items, shuffled, doubled and cut into batches in
two ways, must end in one item table.

Cases live beside each other under ids of their own ("@" stands for the case),
so that two partners serve them all. WAYBILL_TEST_SEED repeats a run (it is
printed), WAYBILL_TEST_CASES sets its size. A case that fails is cut down to
the fewest items that still fail.
"""
# SPDX-License-Identifier: Apache-2.0
# check: sanitized
# check: slow
import collections
import concurrent.futures
import json
import multiprocessing
import os
import random
import time
import unittest

from items import NUMBER, Partner, bom, item, new_key, orphans, path_of, \
    place, sku, uom
from stack import LONG, Stack

SEED = int(os.environ.get("WAYBILL_TEST_SEED") or
           random.SystemRandom().randrange(1 << 32))
CASES = int(os.environ.get("WAYBILL_TEST_CASES") or (20000 if LONG else 2000))
ORDER_CASES = max(CASES // 4, 10)
PROCESSES = 3
SLICE = 50  # cases that share their requests for the beginning

# Pools of ids. Those in GONE are INACTIVE when a case begins.
UOMS = ["@u0", "@u1", "@u2", "@gone"]
SKUS = ["@s0", "@s1", "@s2", "@s3", "@gone"]
BEGINNING = [
    ("uoms", [uom("@u0", 5), uom("@u1"), uom("@gone", 3)]),
    ("skus", [sku(s, 4, base_uom="@u0") for s in ("@s0", "@s1", "@s2",
                                                  "@gone")]),
    ("locations", [place("@W", 2), place("@Z", 2, "ZONE", "@W"),
                   place("@gone", 2)]),
    ("boms", [bom("@b9", 2, "@s0", ["@s1"], "@u0"),
              bom("@gone", 2, "@s1", ["@s0"], "@u0")]),
]
BAD = [5, None, [], "x", {}, {"source_id": ""}, {"source_id": 7},
       {"source_id": "@bad\u0001"}, {"source_id": "@u0", "name": None},
       {"source_id": "@s0", "source_version": -1, "name": "a"},
       {"source_id": "@W", "source_version": "7."}]


def version(rng):
    v = rng.choice([None, None, 1, 2, 3, 4, 5, 6])
    return str(v) if v and rng.random() < 0.1 else v


def a_uom(rng):
    return uom(rng.choice(UOMS), version(rng), rng.choice("ab"))


def a_sku(rng):
    return sku(rng.choice(SKUS), version(rng), rng.choice(UOMS),
               rng.choice("ab"))


def a_place(rng):
    ids = ["@W", "@Z", "@B", "@X", "@Y", "@gone"]
    kind = rng.choice(["WAREHOUSE", "ZONE", "ZONE", "BIN", "BIN", "SHELF"]
                      if rng.random() < 0.1 else
                      ["WAREHOUSE", "ZONE", "ZONE", "BIN"])
    has_parent = (kind != "WAREHOUSE") != (rng.random() < 0.05)
    return place(rng.choice(ids), version(rng), kind,
                 rng.choice(ids) if has_parent else None)


def a_bom(rng):
    parts = rng.choices(SKUS[:3] if rng.random() < 0.8 else SKUS,
                        k=rng.randint(1, 2))
    return bom(rng.choice(["@b0", "@b1", "@b2", "@b9", "@gone"]),
               version(rng), rng.choice(SKUS[:3]), parts, "@u0")


MAKERS = {"uoms": a_uom, "skus": a_sku, "locations": a_place, "boms": a_bom}


def a_step(rng, collection, most):
    made = []
    for _ in range(rng.randint(1, most)):
        shape = rng.random()
        if shape < 0.05:
            made.append(rng.choice(BAD))
        elif shape < 0.2 and made:
            made.append(rng.choice(made))
        else:
            made.append(MAKERS[collection](rng))
    return collection, made


def a_case(rng):
    """Steps: a collection and what is sent to it at once."""
    main = rng.choice(["uoms", "skus", "skus", "locations", "locations",
                       "boms", "boms"])
    steps = [a_step(rng, main, 12)]
    while rng.random() < 0.3:
        other = rng.choice([main, main, "uoms", "skus"])
        steps.append(a_step(rng, other, 6))
    return steps


def put(text, name):
    return text.replace("@", name + ".")


def send(partner, collection, items, name):
    """The results of a request; ids are numbered as they appear."""
    body = put(json.dumps({"items": items}), name).encode()
    answer = partner.request("POST", path_of(collection),
                             {"X-Correlation-Id": new_key(),
                              "Content-Type": "application/json"}, body)
    if answer.status not in (200, 207):
        raise AssertionError(f"{collection} {body}: {answer}")
    return answer.json()["results"]


class Names:
    """Ids as the order in which they appear: equal runs have equal names."""

    def __init__(self):
        self.names = {}

    def of(self, text):
        return self.names.setdefault(text, f"#{len(self.names)}")

    def result(self, r):
        r = dict(r)
        del r["index"]
        for name in ("internal_id", "quarantine_id"):
            if name in r:
                r[name] = self.of(r[name])
        return json.dumps(r, sort_keys=True)


def run_batched(partner, steps, name):
    names = Names()
    return [names.result(r) for collection, items in steps
            for r in send(partner, collection, items, name)]


def run_one_by_one(partner, steps, name):
    names = Names()
    return [names.result(r) for collection, items in steps
            for one in items
            for r in send(partner, collection, [one], name)]


def begin(partners, names):
    for collection, items in BEGINNING:
        body = json.dumps(items)[1:-1]
        whole = '{"items":[' + ",".join(put(body, n) for n in names) + "]}"
        for p in partners:
            answer = p.request("POST", path_of(collection),
                               {"X-Correlation-Id": new_key(),
                                "Content-Type": "application/json"},
                               whole.encode())
            if answer.status not in (200, 207):
                raise AssertionError(str(answer))


def end_gone(stack, partners, names):
    """What a refresh does to the row; a real one would meet all cases."""
    ids = ",".join(f"'{n}.gone'" for n in names)
    numbers = ",".join(str(p.no) for p in partners)
    stack.sql("UPDATE item SET state = 2, rev = rev + 1 WHERE state = 1 AND "
              f"partner_id IN ({numbers}) AND source_id IN ({ids})")


QUERIES = {
    "item": "SELECT source_id, collection, source_version, state, "
            "HEX(trait), HEX(content_hash), HEX(payload) FROM item",
    "item_history": "SELECT source_id, collection, source_version, state, "
                    "HEX(payload) FROM item_history",
    "quarantine": "SELECT source_id, collection, state, is_open, "
                  "source_version, code, HEX(reason), HEX(missing), "
                  "HEX(payload) FROM quarantine",
    "quarantine_wait": "SELECT q.source_id, q.collection, w.collection, "
                       "w.source_id FROM quarantine_wait w JOIN quarantine q "
                       "USING (partner_id, quarantine_id)",
    "bom_edge": "SELECT bom, sku, component FROM bom_edge",
    "batch_item": "SELECT i.source_id, i.status, i.change_kind, i.flags, "
                  "i.source_version, i.held_version FROM batch_item i JOIN "
                  "batch b USING (batch_id, day)",
}
ORDERS = {"item_history": "ORDER BY collection, source_id, rev, sub"}


def tables(stack, partner, only=tuple(QUERIES)):
    """{case: {table: rows}}; rows of history stand in order, others not."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for table in only:
        rows = stack.sql(f"{QUERIES[table]} WHERE partner_id = {partner.no} "
                         f"{ORDERS.get(table, '')}")
        for row in rows:
            found[row[0].split(".")[0]][table].append(tuple(row))
    for case in found.values():
        for table, rows in case.items():
            if table not in ORDERS:
                rows.sort()
    return found


def difference(a, b):
    """The first thing that is not equal, in words; None: all is."""
    for table in sorted(set(a) | set(b)):
        for x, y in zip(a.get(table, []) + [None] * 99,
                        b.get(table, []) + [None] * 99):
            if x != y:
                return f"{table}:\n  as a batch {x}\n  one by one {y}"
    return None


def compare(stack, a, b, names, outcomes):
    ta, tb = tables(stack, a), tables(stack, b)
    wrong = {}
    for n in names:
        got = {**ta[n], "outcome": outcomes[n][0]}
        want = {**tb[n], "outcome": outcomes[n][1]}
        text = difference(got, want)
        if text:
            wrong[n] = text
    return wrong


def run_slice(stack, a, b, names, cases):
    a, b = a.fork(), b.fork()
    outcomes = {n: (run_batched(a, c, n), run_one_by_one(b, c, n))
                for n, c in zip(names, cases)}
    a.close()
    b.close()
    return outcomes


def pool():
    return concurrent.futures.ProcessPoolExecutor(
        PROCESSES, mp_context=multiprocessing.get_context("fork"))


def slices(things, size):
    return [things[i:i + size] for i in range(0, len(things), size)]


def run_cases(stack, a, b, names, cases):
    """{name: what differs} of cases that are not equal."""
    for part in slices(names, SLICE):
        begin((a, b), part)
    end_gone(stack, (a, b), names)
    outcomes = {}
    if len(names) == 1:
        outcomes = run_slice(stack, a, b, names, cases)
    else:
        a.close()
        b.close()
        with pool() as workers:
            for done in workers.map(run_slice, *zip(*[
                    (stack, a, b, n, c) for n, c in
                    zip(slices(names, SLICE), slices(cases, SLICE))])):
                outcomes.update(done)
    return compare(stack, a, b, names, outcomes)


def without_one(steps):
    """The same case with one item less, every way there is."""
    for s, (collection, items) in enumerate(steps):
        for i in range(len(items)):
            rest = items[:i] + items[i + 1:]
            yield (steps[:s] + ([(collection, rest)] if rest else []) +
                   steps[s + 1:])


class BatchIsSequence(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack(workers=4)
        cls.stack.start()
        print(f"seed {SEED}, {CASES} cases", flush=True)

    @classmethod
    def tearDownClass(cls):
        cls.stack.stop()
        cls.stack.remove()

    def shrink(self, a, b, case):
        """Fewest items that still fail, and what differs then."""
        text = "(it did not fail a second time)"
        tried = 0
        while True:
            for smaller in without_one(case):
                tried += 1
                name = f"m{tried}"
                wrong = run_cases(self.stack, a, b, [name], [smaller])
                if wrong:
                    case, text = smaller, wrong[name]
                    break
            else:
                return case, text

    def test_a_batch_equals_its_items_one_by_one(self):
        rng = random.Random(SEED)
        a, b = Partner(self.stack), Partner(self.stack)
        names = [f"c{i}" for i in range(CASES)]
        cases = [a_case(rng) for _ in names]
        begun = time.monotonic()
        wrong = run_cases(self.stack, a, b, names, cases)
        spread = collections.Counter(
            int(r[0]) for r in self.stack.sql(
                "SELECT i.status FROM batch_item i JOIN batch b USING "
                f"(batch_id, day) WHERE b.partner_id = {b.no}"))
        print(f"{CASES} cases in {time.monotonic() - begun:.0f} s; items "
              f"accepted {spread[1]}, replay {spread[2]}, quarantined "
              f"{spread[3]}, rejected {spread[4]}", flush=True)
        self.assertEqual(orphans(self.stack), {})
        # A run that never comes to an outcome proves nothing of it.
        for status in (1, 2, 3, 4):
            self.assertGreater(spread[status], CASES // 20)
        if not wrong:
            return
        first = next(n for n in names if n in wrong)
        case, text = self.shrink(a, b, cases[names.index(first)])
        lines = [f"{c} {json.dumps(one)}" for c, items in case
                 for one in items]
        self.fail(f"{len(wrong)} of {CASES} cases differ (seed {SEED}); "
                  f"{first}: {wrong[first]}\nthe least of it:\n  " +
                  "\n  ".join(lines) + "\n" + text)


# Order.

def a_set(rng):
    """(collection, items): one content a version, no reference unknown for
    ever, no kind that changes."""
    collection = rng.choice(["uoms", "skus", "locations"])
    made = {}
    for _ in range(rng.randint(1, 8)):
        v = rng.choice([1, 2, 3, 4, (1 << 53), (1 << 63) - 1])
        text = str(v) if v > 5 else v
        name = rng.choice("abc")
        if collection == "uoms":
            one = uom(rng.choice(UOMS), text, name)
        elif collection == "skus":
            one = sku(rng.choice(SKUS), text, rng.choice(UOMS[:2]), name)
        else:
            source_id, kind, parent = rng.choice(
                [("@W", "WAREHOUSE", None), ("@Z", "ZONE", "@W"),
                 ("@Y", "ZONE", "@V"), ("@V", "WAREHOUSE", None),
                 ("@B", "BIN", "@Z"), ("@A", "BIN", "@Y")])
            one = place(source_id, text, kind, parent, more=name)
        made.setdefault((one["source_id"], v), one)
    return collection, list(made.values())


def arrange(rng, items):
    """Any order, any repetition, any cut into batches."""
    sent = items + rng.choices(items, k=rng.randint(0, len(items)))
    rng.shuffle(sent)
    batches = []
    while sent:
        n = rng.randint(1, 6)
        batches.append(sent[:n])
        sent = sent[n:]
    return batches


def send_arranged(partner, case, batches, name):
    """Then whatever waits is sent again, as the item law says."""
    collection, items = case
    for batch in batches:
        send(partner, collection, batch, name)
    if collection == "locations":
        for _ in range(3):
            send(partner, collection, items, name)


def run_order(stack, partners, names, cases, seed):
    for partner in partners:
        partner = partner.fork()
        for n, case in zip(names, cases):
            rng = random.Random(f"{seed} {n} {partner.no}")
            send_arranged(partner, case, arrange(rng, case[1]), n)
        partner.close()
    return True


def highest(case, name):
    """{source_id: payload} that must be held for a case without waits."""
    best = {}
    for one in case[1]:
        key = put(one["source_id"], name)
        if int(best.get(key, {"source_version": -1})["source_version"]) < \
                int(one["source_version"]):
            best[key] = one
    return {k: put(json.dumps(v, separators=(",", ":")), name)
            for k, v in best.items()}


class OrderDoesNotMatter(unittest.TestCase):
    def test_any_order_repetition_and_cut_end_in_one_table(self):
        with Stack(workers=4) as stack:
            self.run_all(stack)

    def run_all(self, stack):
        rng = random.Random(SEED + 1)
        partners = [Partner(stack) for _ in range(3)]
        names = [f"o{i}" for i in range(ORDER_CASES)]
        cases = [a_set(rng) for _ in names]
        for p in partners:
            for part in slices(names, SLICE):
                send(p, "uoms", [uom(f"{n}.u{i}", 0) for n in part
                                 for i in range(2)], "")
            p.close()
        with pool() as workers:
            self.assertTrue(all(workers.map(run_order, *zip(*[
                (stack, partners, n, c, SEED) for n, c in
                zip(slices(names, SLICE), slices(cases, SLICE))]))))
        found = [tables(stack, p, ["item"]) for p in partners]
        for n, case in zip(names, cases):
            for other in found[1:]:
                self.assertEqual(found[0][n]["item"], other[n]["item"],
                                 f"seed {SEED} {n} {case}")
            if case[0] == "locations":
                continue
            held = {r[0]: bytes.fromhex(r[6]).decode()
                    for r in found[0][n]["item"]
                    if r[1] == str(NUMBER[case[0]])}
            for key, payload in highest(case, n).items():
                self.assertEqual(held[key], payload, f"seed {SEED} {case}")
        self.assertEqual(orphans(stack), {})


if __name__ == "__main__":
    unittest.main()
