"""Partners that send items, and what the tables hold of them.

    p = Partner(stack)                    a partner of its own, with a key
    p.post("uoms", [uom("EA")])           an Answer
    p.outcomes("skus", [...])             ["ACCEPTED created", "REPLAY", ...]
    p.held("skus")                        {source_id: Held(...)}
    p.history("skus", "A"), p.records("skus")

A partner has one keep-alive connection; fork() gives the same partner with
another one, for another thread or process. Partners without a key argument
get the collections of the whole contract from include/item/collection.def.
"""
# SPDX-License-Identifier: Apache-2.0
import collections
import itertools
import json
import os
import re
import threading
import urllib.parse
import uuid

from leaks import CANARY
from stack import ROOT

API = "/wms-ingest/v1"
STATES = {"1": "ACTIVE", "2": "INACTIVE"}
RECORD_STATES = {"1": "OPEN", "2": "RELEASED", "3": "SUPERSEDED",
                 "4": "DISCARDED"}
CODES = {"1": "reference-missing", "2": "reference-inactive",
         "3": "reference-wrong-kind", "4": "lot-of-other-sku",
         "5": "same-warehouse", "6": "bom-cycle",
         "7": "cross-warehouse-credential"}
# Whatever a request may write.
TABLES = ("request_key", "response", "batch", "batch_item", "item",
          "item_history", "quarantine", "quarantine_wait", "bom_edge",
          "quota_use")
# Text that a table holds of a row whose partner is known by its batch.
OF_BATCH = ("response", "batch_item")

Held = collections.namedtuple("Held", "version state payload rev internal")
Past = collections.namedtuple("Past", "version state payload")
Record = collections.namedtuple(
    "Record", "id source_id state version code payload attempts missing")


def read_collections():
    """[(area, name, prefix of ids)], by number."""
    path = os.path.join(ROOT, "include", "item", "collection.def")
    with open(path, encoding="utf-8") as f:
        return re.findall(r'^COLLECTION\(\w+, "(.*?)", "(.*?)", "(.*?)"\)',
                          f.read(), re.M)


COLLECTIONS = read_collections()
NUMBER = {name: i for i, (_, name, _) in enumerate(COLLECTIONS)}
PREFIX = {name: prefix for _, name, prefix in COLLECTIONS}


def path_of(collection, **params):
    path = f"{API}/{COLLECTIONS[NUMBER[collection]][0]}/{collection}"
    return path + ("?" + urllib.parse.urlencode(params) if params else "")


def new_key():
    return str(uuid.uuid4())


# Items. A version of None is left out. Their names hold the CANARY, which no
# log may show.

def item(source_id, version=None, **fields):
    made = {"source_id": source_id}
    if version is not None:
        made["source_version"] = version
    made.update(fields)
    return made


def uom(source_id, version=None, name=f"unit {CANARY}", **fields):
    return item(source_id, version, name=name, **fields)


def sku(source_id, version=None, base_uom="EA", name=f"thing {CANARY}",
        **fields):
    return item(source_id, version, name=name, base_uom=base_uom, **fields)


def place(source_id, version=None, kind="WAREHOUSE", parent=None, **fields):
    made = item(source_id, version, kind=kind, name=f"place {CANARY}", **fields)
    if parent is not None:
        made["parent_source_id"] = parent
    return made


def bom(source_id, version=None, of="A", parts=("B",), uom="EA", **fields):
    return item(source_id, version, sku_source_id=of, components=[
        {"sku_source_id": p, "qty": 1, "uom": uom} for p in parts], **fields)


def line(sku_id="A", uom="EA", number=1, qty=1):
    return {"line_no": number, "sku_source_id": sku_id, "qty": qty,
            "uom": uom}


def compact(value):
    """As the service stores what json.dumps() sent."""
    return json.dumps(value, separators=(",", ":")).encode()


def brief(result):
    """A result in a few words: "ACCEPTED created", "QUARANTINED code"."""
    words = [result["status"]]
    for name in ("change", "code", "state"):
        if name in result:
            words.append(result[name])
    if result.get("conflict"):
        words.append("conflict")
    return " ".join(words)


def unhex(text):
    return None if text == "NULL" else bytes.fromhex(text)


def number(text):
    return None if text == "NULL" else int(text)


class Partner:
    counter = itertools.count(1)
    lock = threading.Lock()

    def __init__(self, stack, *options, name=None, scope=None):
        with Partner.lock:
            self.name = name or f"P-{os.getpid()}-{next(Partner.counter)}"
        self.stack = stack
        stack.waybill("partner", "add", self.name, *options)
        self.key = self.new_credential(scope)
        self.no = int(stack.sql("SELECT partner_id FROM partner "
                                f"WHERE name = '{self.name}'")[0][0])
        self.session = None

    def new_credential(self, scope=None, warehouses=None):
        words = ["--scope", scope] if scope else []
        words += ["--warehouse", warehouses] if warehouses else []
        said = self.stack.waybill("key", "create", self.name, *words).stdout
        return re.search(r"\bwbk_\w+", said).group()

    def fork(self):
        other = object.__new__(Partner)
        other.__dict__.update(self.__dict__)
        other.session = None
        return other

    def limited(self, warehouses, scope=None):
        """The same partner with a credential for these alone: "W1,W2"."""
        other = self.fork()
        other.key = self.new_credential(scope, warehouses)
        return other

    def close(self):
        if self.session:
            self.session.close()
        self.session = None

    # Requests.

    def request(self, method, path, headers=None, body=None):
        if not self.session:
            self.session = self.stack.session()
            self.session.key = self.key
        try:
            return self.session.request(method, path, headers, body)
        except BaseException:
            self.close()
            raise

    def get(self, path):
        return self.request("GET", API + path)

    def send(self, path, body=None, key=None, headers=None):
        """POST to a path below the API's; `key` of "" sends none."""
        headers = dict(headers or {})
        if key != "":
            headers.setdefault("X-Correlation-Id", key or new_key())
        return self.request("POST", path, headers, body)

    def post(self, collection, items, key=None, headers=None, **params):
        """`items`: a list, or the body as bytes (JSON unless headers say
        otherwise)."""
        headers = dict(headers or {})
        if isinstance(items, bytes):
            headers.setdefault("Content-Type", "application/json")
            body = items
        else:
            body = {"items": list(items)}
        return self.send(path_of(collection, **params), body, key, headers)

    def results(self, collection, items, **how):
        answer = self.post(collection, items, **how)
        if answer.status not in (200, 207):
            raise AssertionError(f"{collection}: {answer}")
        return answer.json()["results"]

    def outcomes(self, collection, items, **how):
        return [brief(r) for r in self.results(collection, items, **how)]

    def outcome(self, collection, one, **how):
        return self.outcomes(collection, [one], **how)[0]

    def refresh(self, collection, items, **how):
        return self.post(collection, items, mode="full-refresh", **how)

    def control(self, path, key=None):
        return self.send(API + path, key=key)

    # Tables.

    def sql(self, query):
        return self.stack.sql(query)

    def held(self, collection):
        rows = self.sql(
            "SELECT HEX(source_id), source_version, state, HEX(payload), rev,"
            f" HEX(internal_id) FROM item WHERE partner_id = {self.no} AND "
            f"collection = {NUMBER[collection]} ORDER BY source_id")
        return {unhex(r[0]).decode(): Held(number(r[1]), STATES[r[2]],
                                           unhex(r[3]), int(r[4]),
                                           f"{PREFIX[collection]}-"
                                           f"{r[5].lower()}")
                for r in rows}

    def history(self, collection, source_id):
        """What was held before, oldest first."""
        rows = self.sql(
            "SELECT source_version, state, HEX(payload) FROM item_history "
            f"WHERE partner_id = {self.no} AND "
            f"collection = {NUMBER[collection]} AND "
            f"source_id = x'{source_id.encode().hex()}' ORDER BY rev, sub")
        return [Past(number(r[0]), STATES[r[1]], unhex(r[2])) for r in rows]

    def records(self, collection, source_id=None):
        """Quarantine records, in the order they were made."""
        where = "" if source_id is None else \
            f"AND source_id = x'{source_id.encode().hex()}'"
        rows = self.sql(
            "SELECT HEX(quarantine_id), HEX(source_id), state, "
            "source_version, code, HEX(payload), attempts, HEX(missing) "
            f"FROM quarantine WHERE partner_id = {self.no} AND "
            f"collection = {NUMBER[collection]} {where} "
            "ORDER BY quarantine_id")
        return [Record("qua-" + r[0].lower(), unhex(r[1]).decode(),
                       RECORD_STATES[r[2]], number(r[3]), CODES[r[4]],
                       unhex(r[5]), int(r[6]), json.loads(unhex(r[7])))
                for r in rows]

    def waits(self):
        """{(collection, source_id, quarantine id)} of what is waited for."""
        rows = self.sql(
            "SELECT collection, HEX(source_id), HEX(quarantine_id) FROM "
            f"quarantine_wait WHERE partner_id = {self.no}")
        return {(COLLECTIONS[int(r[0])][1], unhex(r[1]).decode(),
                 "qua-" + r[2].lower()) for r in rows}

    def deactivate(self, collection, keep=()):
        """All that is there but `keep` becomes INACTIVE, as by a refresh of
        exactly those; the items that stay are not written."""
        held = self.held(collection)
        items = [json.loads(held[k].payload) for k in keep]
        answer = self.refresh(collection, items, confirm="true",
                              confirm_empty="true")
        if answer.status != 200:
            raise AssertionError(str(answer))
        return answer.json()


def checksums(stack):
    """A number a table: equal if nothing was stored meanwhile."""
    return dict(stack.sql("CHECKSUM TABLE " + ", ".join(TABLES) +
                          " EXTENDED"))


def orphans(stack):
    """Rows that lack the row they belong to: {what: how many}, if any."""
    queries = {
        "batch_item without batch":
            "batch_item i LEFT JOIN batch b USING (batch_id, day) "
            "WHERE b.batch_id IS NULL",
        "batch with fewer or more items than it says":
            "batch b WHERE mode IN (1, 2) AND total + tombstoned <> (SELECT "
            "COUNT(*) FROM batch_item i WHERE i.batch_id = b.batch_id) "
            # A job's batch fills up chunk by chunk.
            "AND NOT EXISTS (SELECT 1 FROM job j WHERE "
            "j.batch_id = b.batch_id AND j.state IN (1, 2))",
        "response without key":
            "response r LEFT JOIN request_key k USING (batch_id) "
            "WHERE k.batch_id IS NULL",
        "key without response":
            "request_key k LEFT JOIN response r USING (batch_id) "
            "WHERE r.batch_id IS NULL",
        "key without batch":
            "request_key k LEFT JOIN batch b USING (batch_id) "
            "WHERE b.batch_id IS NULL",
        "batch without key":
            "batch b LEFT JOIN request_key k USING (batch_id) "
            "WHERE k.batch_id IS NULL",
        "quarantine_wait without open record":
            "quarantine_wait w LEFT JOIN quarantine q ON q.partner_id = "
            "w.partner_id AND q.quarantine_id = w.quarantine_id AND "
            "q.is_open = 1 WHERE q.quarantine_id IS NULL",
        "open record of reference without wait":
            "quarantine q LEFT JOIN quarantine_wait w USING (partner_id, "
            "quarantine_id) WHERE q.is_open = 1 AND q.code <= 3 AND "
            "w.quarantine_id IS NULL",
        "is_open that contradicts state":
            "quarantine WHERE (state = 1) <> (is_open IS NOT NULL)",
        "item of an unknown batch":
            "item i LEFT JOIN batch b ON b.batch_id = i.last_batch "
            "WHERE b.batch_id IS NULL",
        "history that misses a rev":
            "item i LEFT JOIN item_history h ON h.partner_id = i.partner_id "
            "AND h.collection = i.collection AND h.source_id = i.source_id "
            "AND h.rev = i.rev - 1 AND h.sub = 0 LEFT JOIN batch b ON "
            "b.batch_id = i.last_batch WHERE i.rev > 1 AND i.state = 1 AND "
            "b.mode <> 6 AND h.rev IS NULL",
        "edge of no BOM":
            "bom_edge e LEFT JOIN item i ON i.partner_id = e.partner_id AND "
            "i.collection = 4 AND i.source_id = e.bom "
            "WHERE i.source_id IS NULL AND e.bom <> ''",
    }
    # Hash joins: not all of these columns have an index.
    rows = stack.sql("SET join_cache_level = 8;\n" + "".join(
        f"SELECT '{what}', COUNT(*) FROM {rest};\n"
        for what, rest in queries.items()))
    return {what: int(n) for what, n in rows if n != "0"}
