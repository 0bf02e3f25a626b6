"""Rows of items and quarantine, put there by SQL: reads can be tried without
the writes."""
# SPDX-License-Identifier: Apache-2.0
import hashlib

UOMS, SKUS = 0, 3
HEX = {name: f"{i:032x}" for i, name in enumerate(
    ("none", "first", "second", "third", "held", "other"), 1)}
RECENT = "'2026-11-18 02:30:00.123'"


def quote(text):
    return "X'" + text.encode().hex() + "'"


def item_row(source_id, partner=1, collection=SKUS, rev=1, version="NULL",
             state=1, internal=None, payload='{"n":1}'):
    internal = internal or hashlib.sha256(
        f"{partner} {collection} {source_id}".encode()).hexdigest()[:32]
    return (f"({partner},{collection},{quote(source_id)},{rev},{version},"
            f"{state},X'{'00' * 16}',X'{internal}',{quote(payload)},"
            f"{rev},X'{HEX['second']}',{RECENT},"
            f"X'{HEX['first']}',X'{HEX['second']}',{RECENT},{RECENT})")


def insert_items(s, rows):
    for i in range(0, len(rows), 500):
        s.sql("INSERT INTO item (partner_id, collection, source_id, rev, "
              "source_version, state, content_hash, internal_id, payload, "
              "content_rev, content_batch, content_at, "
              "created_batch, last_batch, created_at, updated_at) VALUES " +
              ",".join(rows[i:i + 500]))


def insert_history(s, source_id, entries):
    """entries: (rev, sub, version, state, payload)"""
    s.sql("INSERT INTO item_history (partner_id, collection, source_id, rev, "
          "sub, source_version, state, payload, batch_id, accepted_at) VALUES "
          + ",".join(
              f"(1,{SKUS},{quote(source_id)},{rev},{sub},{version},{state},"
              f"{quote(payload)},X'{HEX['first']}',{RECENT})"
              for rev, sub, version, state, payload in entries))


def quarantine_row(no, source_id, partner=1, collection=SKUS, state=1, code=1,
                   missing='[{"collection":"uoms","source_id":"EA"}]'):
    return (f"({partner},X'{no:032x}',1,{collection},{quote(source_id)},"
            f"{1 if state == 1 else 'NULL'},{state},7,{code},"
            f"{quote('it waits')},{quote(missing)},2,0,"
            f"{quote('{' + chr(34) + 'q' + chr(34) + ':1.10}')},"
            f"X'{HEX['first']}',{RECENT},{RECENT})")


def insert_quarantine(s, rows):
    for i in range(0, len(rows), 1000):
        s.sql("INSERT INTO quarantine (partner_id, quarantine_id, rev, "
              "collection, source_id, is_open, state, source_version, code, "
              "reason, missing, attempts, seen_rev, payload, batch_id, "
              "first_seen, last_seen) VALUES " + ",".join(rows[i:i + 1000]))
