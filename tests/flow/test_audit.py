#!/usr/bin/env python3
"""Commands for partners, keys and certificates, and the trail they leave."""
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import getpass
import json
import os
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "lib"))
from certs import Maker  # noqa: E402
from service import Service  # noqa: E402
from stack import wait_for  # noqa: E402

TIME = r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"
SETTINGS = {"state": "ACTIVE", "rate": None, "burst": None, "quota": None,
            "strict": 0, "auto_release": 0, "mtls_only": 0}
FAULT = "WAYBILL_TEST_FAULT"


class Case(unittest.TestCase):
    s = made = None
    number = 0

    def partner(self, *options):
        Case.number += 1
        name = f"P-{Case.number}"
        self.s.waybill("partner", "add", name, *options)
        return name

    def trail(self, partner):
        """Oldest first: (action, subject, detail)."""
        rows = self.s.waybill_json("audit", "list", "--partner", partner)
        return [(r["action"], r["subject"], r["detail"])
                for r in reversed(rows)]

    def count(self):
        return int(self.s.sql("SELECT COUNT(*) FROM audit")[0][0])

    def fails(self, status, error, *words):
        """The command fails with this, and changes nothing."""
        before = self.tables()
        got = self.s.run("--json", *words)
        self.assertEqual((got.returncode, got.stdout), (status, ""),
                         got.stderr)
        said = json.loads(got.stderr)
        self.assertEqual(said["error"], error, said)
        self.assertEqual(self.tables(), before)
        return said["detail"]

    def tables(self):
        return self.s.sql("CHECKSUM TABLE partner, credential, audit EXTENDED")


def setUpModule():
    Case.s = Service().__enter__()
    unittest.addModuleCleanup(Case.s.close)
    Case.made = Maker(os.path.join(Case.s.dir, "certs"))


class Trail(Case):
    def test_every_change_of_a_partner_is_a_row_with_old_and_new(self):
        name = self.partner("--rate", "5", "--strict")
        self.s.waybill("partner", "set", name, "--rate", "none", "--quota",
                       "7", "--no-strict", "--mtls-only")
        self.s.waybill("partner", "disable", name)
        self.s.waybill("partner", "enable", name)
        self.assertEqual(self.trail(name), [
            ("partner.add", name, {"new": {**SETTINGS, "rate": 5,
                                           "strict": 1}}),
            ("partner.set", name, {
                "old": {"rate": 5, "quota": None, "strict": 1,
                        "mtls_only": 0},
                "new": {"rate": None, "quota": 7, "strict": 0,
                        "mtls_only": 1}}),
            ("partner.disable", name, {"old": {"state": "ACTIVE"},
                                       "new": {"state": "DISABLED"}}),
            ("partner.enable", name, {"old": {"state": "DISABLED"},
                                      "new": {"state": "ACTIVE"}})])

    def test_every_change_of_a_credential_is_a_row(self):
        name = self.partner()
        key = self.s.waybill("key", "create", name, "--scope", "read",
                             "--warehouse", 'W1,W"2', "--expires",
                             "3").strip()
        print_ = "0f" * 32
        cert = self.s.waybill_json("cert", "add", name, print_)
        self.assertEqual(cert["fingerprint"], print_)
        self.s.waybill("key", "revoke", key[4:20])
        self.s.waybill("cert", "revoke", cert["id"])
        rows = self.trail(name)[1:]
        self.assertEqual([r[:2] for r in rows], [
            ("key.create", key[4:20]), ("cert.add", cert["id"]),
            ("key.revoke", key[4:20]), ("cert.revoke", cert["id"])])
        made = rows[0][2]["new"]
        self.assertRegex(made.pop("expires_at"), TIME)
        self.assertEqual(rows[0][2], {"new": {
            "kind": "KEY", "fingerprint": None, "scopes": "read",
            "warehouses": ["W1", 'W"2'], "revoked_at": None}})
        self.assertEqual(rows[1][2], {"new": {
            "kind": "CERT", "fingerprint": print_,
            "scopes": "ingest,read,admin", "warehouses": None,
            "expires_at": None, "revoked_at": None}})
        for _, _, detail in rows[2:]:
            self.assertEqual(detail["old"], {"revoked_at": None})
            self.assertEqual(list(detail["new"]), ["revoked_at"])
            self.assertRegex(detail["new"]["revoked_at"], TIME)

    def test_what_changes_nothing_leaves_no_row(self):
        name = self.partner("--rate", "5")
        key = self.s.waybill("key", "create", name).strip()
        cert = self.s.waybill("cert", "add", name, "1f" * 32).strip()
        for words in (("key", "revoke", key[4:20]), ("cert", "revoke", cert)):
            self.s.waybill(*words)
        self.s.waybill("partner", "disable", name)
        before = self.tables()
        for words in (("key", "revoke", key[4:20]), ("cert", "revoke", cert),
                      ("partner", "disable", name), ("partner", "set", name),
                      ("partner", "set", name, "--rate", "5", "--no-strict")):
            self.s.waybill(*words)
            self.assertEqual(self.tables(), before, words)

    def test_what_is_refused_leaves_no_row(self):
        name = self.partner()
        self.s.waybill("cert", "add", name, "2f" * 32)
        for status, error, *words in (
                (1, "conflict", "partner", "add", name),
                (1, "conflict", "cert", "add", name, "2f" * 32),
                (3, "not-found", "partner", "set", "NONE", "--rate", "1"),
                (3, "not-found", "partner", "enable", "NONE"),
                (3, "not-found", "partner", "disable", "NONE"),
                (3, "not-found", "key", "create", "NONE"),
                (3, "not-found", "cert", "add", "NONE", "3f" * 32),
                (3, "not-found", "key", "revoke", "NONE"),
                (3, "not-found", "cert", "revoke", "NONE"),
                (2, "usage", "partner", "set", name, "--rate", "x"),
                (2, "usage", "key", "create", name, "--scope", "all"),
                (2, "usage", "cert", "add", name, "3f" * 32, "--expires",
                 "0"),
                (2, "usage", "cert", "add", name)):
            with self.subTest(words):
                self.fails(status, error, *words)

    def test_no_secret_is_in_it(self):
        name = self.partner()
        key = self.s.waybill("key", "create", name).strip()
        self.s.waybill("key", "revoke", key[4:20])
        hash_ = self.s.sql("SELECT LOWER(HEX(hash)) FROM credential WHERE "
                           f"credential_id = '{key[4:20]}'")[0][0]
        rows = repr(self.s.sql("SELECT actor, account, action, subject, "
                               "detail FROM audit"))
        self.assertIn(key[4:20], rows)
        for secret in (key[21:60], hash_):
            self.assertNotIn(secret, rows.lower())

    def test_the_actor_is_the_user_sudo_and_the_database_account(self):
        user, host = getpass.getuser(), socket.gethostname()
        own = f"{user}@{host}"
        for sudo, actor in ((None, own), ("alice", f"alice as {own}"),
                            ("", own), ("a\x1b[2Jb", own), ("a b", own),
                            ("\xe9", own), ("x" * 65, own)):
            name = self.partner()
            env = {} if sudo is None else {"SUDO_USER": sudo}
            got = self.s.run("partner", "set", name, "--rate", "1", **env)
            self.assertEqual(got.returncode, 0, got.stderr)
            row = self.s.waybill_json("audit", "list", "--limit", "1")[0]
            self.assertEqual((row["actor"], row["account"], row["partner"]),
                             (actor, "waybill_owner@localhost", name))
            self.assertRegex(row["at"], TIME)
            self.assertRegex(row["audit_id"], "^aud-[0-9a-f]{12}7")

    def test_list_is_newest_first_with_a_limit_and_for_one_partner(self):
        names = [self.partner() for _ in range(3)]
        rows = self.s.waybill_json("audit", "list", "--limit", "3")
        self.assertEqual([r["partner"] for r in rows], names[::-1])
        rows = self.s.waybill_json("audit", "list", "--partner", names[1])
        self.assertEqual([r["subject"] for r in rows], [names[1]])
        self.fails(3, "not-found", "audit", "list", "--partner", "NONE")
        for limit in ("0", "x", "100001"):
            self.fails(2, "usage", "audit", "list", "--limit", limit)
        lines = self.s.waybill("audit", "list", "--limit",
                               "1").splitlines()
        self.assertEqual(lines[0].split(), [
            "at", "partner", "action", "subject", "actor", "account",
            "audit_id", "detail"])
        self.assertIn('{"new":{"state":"ACTIVE"', lines[1])

    def test_scripts_read_the_view_and_the_service_nothing(self):
        name = self.partner()
        self.assertEqual(self.s.sql(
            "SELECT action, partner_id, subject, JSON_VALUE(detail, "
            f"'$.new.state') FROM v_audit WHERE subject = '{name}'",
            user="waybill_ro"), [["partner.add", name, name, "ACTIVE"]])
        for table in ("audit", "v_audit"):
            said = self.s.sql(f"SELECT 1 FROM {table}", user="waybill",
                              ok=False)
            self.assertIn("denied", said)


class Together(Case):
    """The row and the change are one."""

    def test_a_command_killed_anywhere_leaves_both_or_neither(self):
        name = self.partner()
        kinds = {"both": 0, "neither": 0}
        for make in (lambda i: ("partner", "set", name, "--rate", str(i)),
                     lambda i: ("key", "create", name),
                     lambda i: ("cert", "add", name, f"{i:064x}")):
            for i in range(1, 200):
                before = self.picture(name)
                got = self.s.run(*make(i), **{FAULT: f"*:{i}:kill"})
                after = self.picture(name)
                changed = after["state"] != before["state"]
                self.assertEqual(after["rows"] - before["rows"], changed, i)
                kinds["both" if changed else "neither"] += 1
                if got.returncode != -9:
                    self.assertEqual(got.returncode, 0, got.stderr)
                    break
            self.assertGreater(i, 5)
        print(f"  {kinds}")
        self.assertGreater(min(kinds.values()), 3)

    def picture(self, name):
        return {"rows": self.count(), "state": self.s.sql(
            "SELECT rate_per_s, (SELECT COUNT(*) FROM credential c WHERE "
            "c.partner_id = p.partner_id) FROM partner p WHERE "
            f"name = '{name}'")}

    def test_a_commit_in_doubt_leaves_one_row(self):
        """The connection is cut when the COMMIT is done and its answer not
        yet read."""
        name = self.partner()
        key = self.s.waybill("key", "create", name).strip()
        for words in (("partner", "set", name, "--rate", "9"),
                      ("partner", "disable", name), ("key", "create", name),
                      ("cert", "add", name, "4f" * 32),
                      ("key", "revoke", key[4:20])):
            with self.subTest(words):
                self.cut_at_commit(words)

    def cut_at_commit(self, words):
        before = self.count()
        run = subprocess.Popen(
            self.s.command(*words), text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**self.s.env, FAULT: "db.sent.commit:1:delay=4000"})
        wait_for(lambda: self.count() == before + 1, 60, "the COMMIT")
        owners = self.s.sql("SELECT id FROM information_schema.processlist "
                            "WHERE user = 'waybill_owner'")
        self.assertEqual(len(owners), 1)
        self.s.sql(f"KILL {owners[0][0]}")
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, err)
        self.assertNotIn("before", out)
        self.assertEqual(self.count(), before + 1)

    def test_two_who_change_one_partner_lose_nothing(self):
        name = self.partner()
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            list(pool.map(
                lambda i: self.s.waybill("partner", "set", name,
                                         ("--rate", "--burst")[i % 2],
                                         str(i)), range(1, 25)))
        held = {"rate": None, "burst": None}
        for action, _, detail in self.trail(name)[1:]:
            self.assertEqual(action, "partner.set")
            self.assertEqual(detail["old"],
                             {k: held[k] for k in detail["new"]})
            self.assertEqual(len(detail["new"]), 1)
            held.update(detail["new"])
        now = [r for r in self.s.waybill_json("partner", "list")
               if r["partner"] == name][0]
        self.assertEqual({k: now[k] for k in held}, held)
        self.assertEqual(len(self.trail(name)), 25)


class Certificates(Case):
    def test_a_file_is_registered_by_the_fingerprint_of_its_certificate(self):
        name = self.partner()
        for begins in (-60, 3600):  # also ahead of its time
            cert = self.made.cert(f"good{begins}", begins=begins)
            got = self.s.waybill_json("cert", "add", name, cert.pem)
            self.assertEqual(got["fingerprint"], cert.fingerprint)

    def test_what_is_no_certificate_is_refused_with_a_sentence(self):
        name, cert = self.partner(), self.made.cert("whole")
        other = self.made.cert("second")
        old = self.made.cert("old", begins=-7200, ends=-3600)
        with open(cert.key, encoding="ascii") as f:
            key = f.read()
        self.made.openssl("rsa", "-in", self.rsa(), "-traditional", "-out",
                          "rsa.key")
        with open(os.path.join(self.made.folder, "rsa.key")) as f:
            rsa = f.read()
        der = os.path.join(self.made.folder, "cert.der")
        with open(der, "wb") as f:
            f.write(cert.der)
        folder = self.made.folder
        cases = [("private key", key), ("private key", cert.text + key),
                 ("private key", rsa), ("no certificate", key[:100] + "\n"),
                 ("2 certificates", cert.text + other.text),
                 ("no certificate", ""), ("no certificate", "garbage\n"),
                 ("no certificate", cert.text[:300]),
                 ("no certificate", cert.text.replace("M", "!")),
                 ("no certificate", cert.text + cert.text[:300]),
                 ("no certificate", "x" * (2 << 20))]
        cases = [(words, self.made.write(f"bad{i}", text))
                 for i, (words, text) in enumerate(cases)]
        cases += [("no certificate", der), ("valid until", old.pem),
                  ("neither", os.path.join(folder, "nothing")),
                  ("cannot read", folder), ("neither", "12" * 31),
                  ("neither", "zz" * 32), ("neither", "12" * 33),
                  ("neither", "-".join(["12"] * 32)),
                  ("neither", ":".join(["12"] * 31) + ":1")]
        for words, path in cases:
            with self.subTest(words=words, path=path):
                said = self.fails(1, "certificate-input", "cert", "add",
                                  name, path)
                self.assertIn(words, said)

    def rsa(self):
        self.made.openssl("genrsa", "-out", "rsa.pem", "2048")
        return "rsa.pem"

    def test_a_doubled_one_is_a_conflict_that_names_the_first(self):
        ours, theirs = self.partner(), self.partner()
        cert = self.made.cert("double")
        first = self.s.waybill("cert", "add", ours, cert.pem).strip()
        for partner in (ours, theirs):
            for form in (cert.pem, cert.fingerprint.upper()):
                said = self.fails(1, "conflict", "cert", "add", partner, form)
                self.assertIn(f"{first} of the partner {ours}", said)
        self.s.waybill("cert", "revoke", first)
        self.assertIn("revoked", self.fails(1, "conflict", "cert", "add",
                                            ours, cert.pem))

    def test_a_command_for_one_kind_leaves_the_other_alone(self):
        name = self.partner()
        key = self.s.waybill("key", "create", name).strip()[4:20]
        cert = self.s.waybill("cert", "add", name, "5f" * 32).strip()
        self.fails(3, "not-found", "cert", "revoke", key)
        self.fails(3, "not-found", "key", "revoke", cert)
        ids = {noun: [r["id"] for r in self.s.waybill_json(noun, "list",
                                                           name)]
               for noun in ("key", "cert")}
        self.assertEqual(ids, {"key": [key], "cert": [cert]})

    def test_lists_show_warehouses_and_times(self):
        name = self.partner()
        self.s.waybill("key", "create", name, "--warehouse", "W1,W2")
        self.s.waybill("cert", "add", name, "6f" * 32, "--scope", "read",
                       "--expires", "9")
        key, = self.s.waybill_json("key", "list", name)
        self.assertEqual((key["kind"], key["warehouses"],
                          key["last_used_at"]), ("KEY", ["W1", "W2"], None))
        cert, = self.s.waybill_json("cert", "list", name)
        self.assertEqual((cert["fingerprint"], cert["scopes"],
                          cert["warehouses"]), ("6f" * 32, "read", None))
        self.assertRegex(cert["expires_at"], TIME)
        self.s.sql("UPDATE credential SET last_used_at = "
                   "'2026-11-18 01:02:03.456'")
        self.assertEqual(
            [r["last_used_at"] for r in self.s.waybill_json("key", "list",
                                                            name)],
            ["2026-11-18T01:02:03.456Z"])


if __name__ == "__main__":
    unittest.main()
