"""Who may come in: every way a credential can be wrong, and that all of them
look the same from outside."""
# check: slow
# SPDX-License-Identifier: Apache-2.0
import base64
import hashlib
import time
import unittest

from problem import parsed, wants_problem
from stack import Stack

CAPABILITIES = "/wms-ingest/v1/capabilities"
ECHO = "/wms-ingest/v1/test/echo"
KEY = r"^wbk_[a-z2-7]{16}_[a-z2-7]{59}$"
FORGOTTEN_S = 3.2  # auth_cache is 3 s
CHECKED = len("wbk_") + 16 + 1 + 52


def checksum(text):
    """What a key ends with: 4 bytes of SHA-256 in base 32."""
    data = text if isinstance(text, bytes) else text.encode()
    return base64.b32encode(
        hashlib.sha256(data).digest()[:4]).decode().lower().rstrip("=")


def other(c):
    return "a" if c != "a" else "b"


def with_secret(key, secret):
    text = key[:21] + secret
    return text + checksum(text)


class Auth(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack(workers=2)
        cls.stack.start()
        cls.stack.waybill("partner", "add", "ACME")

    @classmethod
    def tearDownClass(cls):
        cls.stack.stop()
        cls.stack.remove()

    def key(self, *options, partner="ACME"):
        return self.stack.waybill("key", "create", partner,
                                  *options).stdout.strip()

    def use(self, header, path=CAPABILITIES):
        headers = {} if header is None else {"Authorization": header}
        return self.stack.request("GET", path, headers, key=False)

    def refused(self, header):
        """401, and nothing in it tells the reason: it is the answer to no
        credential at all, but for the ids."""
        got, none = self.use(header), self.use(None)
        document = wants_problem(self, got, 401, "unauthenticated")
        self.assertEqual(got.headers.get_all("WWW-Authenticate"),
                         ['Bearer realm="waybill"'])
        plain = none.json()
        self.assertEqual(document.pop("trace_id"),
                         got.headers["X-Request-Id"])
        self.assertEqual(plain.pop("trace_id"), none.headers["X-Request-Id"])
        self.assertEqual(document, plain)
        ours = {"Date", "X-Request-Id"}
        self.assertEqual(
            [h for h in got.headers.items() if h[0] not in ours],
            [h for h in none.headers.items() if h[0] not in ours])

    def test_a_key_has_the_documented_form_and_checksum(self):
        for key in {self.key() for _ in range(5)}:
            self.assertRegex(key, KEY)
            self.assertEqual(key[CHECKED:], checksum(key[:CHECKED]))
            self.assertEqual(self.use(f"Bearer {key}").status, 200)

    def test_the_secret_is_not_in_the_database(self):
        key = self.key()
        dump = repr(self.stack.sql(
            "SELECT credential_id, "
            "HEX(hash), CONCAT_WS(',', kind, warehouses) FROM credential"))
        self.assertIn(key[4:20], dump)
        self.assertNotIn(key[21:41], dump)
        plain = hashlib.sha256(key.encode()).hexdigest()
        self.assertNotIn(plain, dump.lower())

    def test_the_partner_is_that_of_the_key(self):
        got = self.use(f"Bearer {self.key()}").json()
        self.assertEqual(got["partner_id"], "ACME")
        got = self.use(f"Bearer {self.stack.key}").json()
        self.assertEqual(got["partner_id"], "DEMO")

    def test_no_credential_is_refused(self):
        self.refused(None)

    def test_a_malformed_credential_is_refused(self):
        key = self.key()
        for header in ("", "Bearer", "Bearer ", "Bearer x", key,
                       "Bearer " + key[:-1], "Bearer " + key + "a",
                       "Bearer " + key.upper(), "Bearer " + "a" * 80,
                       "Bearer wbk_" + "_" * 76, f"Bearer {key} {key}",
                       f"Bearer {key},", f'Bearer "{key}"',
                       "Bearer " + key.replace("_", "-"),
                       "Bearer é" + key[1:], "Bearer " + "a" * 7000):
            with self.subTest(header[:60]):
                self.refused(header.encode())

    def test_another_scheme_is_refused(self):
        key = self.key()
        basic = base64.b64encode(f"ACME:{key}".encode()).decode()
        for header in (f"Basic {basic}", f"Token {key}", f"Bearerx {key}",
                       f"Bearer\u00a0{key}"):
            self.refused(header.encode())
        self.assertEqual(self.use(f"bearer {key}").status, 200)

    def test_an_unknown_key_is_refused(self):
        key = self.key()
        text = key[:4] + "a" * 16 + key[20:CHECKED]
        self.refused("Bearer " + text + checksum(text))

    def test_an_id_that_none_can_have_is_refused(self):
        """The database cannot even compare some of them."""
        for odd in (b"\xff" * 16, "é".encode() * 8, "😀".encode() * 4,
                    b"A" * 16, b"0" * 16, b"' OR 1=1 -- aaaaa"[:16]):
            text = b"wbk_" + odd + b"_" + b"a" * 52
            with self.subTest(odd):
                self.refused(b"Bearer " + text + checksum(text).encode())

    def test_a_wrong_secret_with_a_right_id_is_refused(self):
        """Also while the right one is remembered."""
        key = self.key()
        secret = key[21:CHECKED]
        for _ in range(3):
            self.assertEqual(self.use(f"Bearer {key}").status, 200)
            for wrong in (other(secret[0]) + secret[1:],
                          secret[:-1] + other(secret[-1]), "a" * 52):
                self.refused("Bearer " + with_secret(key, wrong))

    def test_a_wrong_checksum_is_refused_without_asking_the_database(self):
        key = self.key()
        wrong = key[:-1] + other(key[-1])
        self.refused(f"Bearer {wrong}")
        self.stack.sql("RENAME TABLE credential TO credential_away")
        try:
            self.refused(f"Bearer {wrong}")
            fresh = with_secret(key, "a" * 52)
            self.assertGreaterEqual(self.use(f"Bearer {fresh}").status, 500)
        finally:
            self.stack.sql("RENAME TABLE credential_away TO credential")

    def test_a_revoked_key_is_refused_within_5_seconds(self):
        key = self.key()
        self.assertEqual(self.use(f"Bearer {key}").status, 200)
        self.stack.waybill("key", "revoke", key[4:20])
        begun = time.monotonic()
        last = begun
        while time.monotonic() < begun + 6:
            if self.use(f"Bearer {key}").status == 200:
                last = time.monotonic()
        print(f"  still accepted for {last - begun:.2f} s")
        self.assertLess(last - begun, 5)
        self.refused(f"Bearer {key}")

    def test_an_expired_key_is_refused(self):
        key = self.key("--expires", "1")
        self.assertEqual(self.use(f"Bearer {key}").status, 200)
        self.stack.sql("UPDATE credential SET expires_at = UTC_TIMESTAMP(3) "
                       f"WHERE credential_id = '{key[4:20]}'")
        time.sleep(FORGOTTEN_S)
        for _ in range(4):
            self.refused(f"Bearer {key}")

    def test_a_remembered_key_expires_on_time(self):
        """Not when the memory of it ends."""
        key = self.key()
        self.stack.sql(
            "UPDATE credential SET expires_at = UTC_TIMESTAMP(3) + "
            f"INTERVAL 1500000 MICROSECOND WHERE credential_id = '{key[4:20]}'")
        begun = time.monotonic()
        while time.monotonic() < begun + 1:
            self.assertEqual(self.use(f"Bearer {key}").status, 200)
        time.sleep(begun + 1.9 - time.monotonic())
        self.refused(f"Bearer {key}")

    def test_a_disabled_partner_is_refused(self):
        self.stack.waybill("partner", "add", "GONE")
        key = self.key(partner="GONE")
        self.assertEqual(self.use(f"Bearer {key}").status, 200)
        self.stack.waybill("partner", "disable", "GONE")
        time.sleep(FORGOTTEN_S)
        for _ in range(4):
            self.refused(f"Bearer {key}")

    def test_a_partner_of_certificates_only_is_refused_with_a_key(self):
        self.stack.waybill("partner", "add", "CERTS", "--mtls-only")
        self.refused(f"Bearer {self.key(partner='CERTS')}")

    def test_a_key_without_the_scope_is_403(self):
        read, ingest = self.key("--scope", "read"), self.key("--scope",
                                                             "ingest")
        self.assertEqual(self.use(f"Bearer {read}").status, 200)
        document = wants_problem(self, self.use(f"Bearer {ingest}"), 403,
                                 "forbidden")
        self.assertIn('"read"', document["detail"])
        for key, status in ((ingest, 200), (read, 403)):
            got = self.stack.post(ECHO, {"items": []}, headers={
                "Authorization": f"Bearer {key}"})
            self.assertEqual(got.status, status, got)
        both = self.key("--scope", "read,ingest")
        self.assertEqual(self.use(f"Bearer {both}").status, 200)

    def test_the_credential_is_looked_at_before_the_body(self):
        got = self.stack.post(ECHO, b"{", key=False)
        wants_problem(self, got, 401, "unauthenticated")
        got = self.stack.request("POST", ECHO + "?nope=1", key=False)
        wants_problem(self, got, 401, "unauthenticated")

    def test_a_doubled_authorization_is_refused(self):
        key, bad = self.key(), self.stack.key[:-1]
        for first, second in ((key, key), (key, bad), (bad, key),
                              (key, self.stack.key)):
            got = parsed(self.stack.raw(
                f"GET {CAPABILITIES} HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {first}\r\n"
                f"authorization: Bearer {second}\r\n\r\n".encode()))
            wants_problem(self, got, 400, "bad-header", "bad-request")

    def test_a_header_that_only_looks_like_it_is_none(self):
        key = self.key()
        for name in ("X-Authorization", "Proxy-Authorization",
                     "Authorization_", "HTTP-Authorization"):
            got = self.stack.request("GET", CAPABILITIES,
                                     {name: f"Bearer {key}"}, key=False)
            wants_problem(self, got, 401, "unauthenticated")

    def test_keys_survive_a_restart(self):
        key, gone = self.key(), self.key()
        demo = self.stack.key
        self.stack.waybill("key", "revoke", gone[4:20])
        self.stack.stop()
        self.stack.start()
        self.assertEqual(self.use(f"Bearer {key}").status, 200)
        self.assertEqual(self.stack.key, demo)
        self.assertEqual(self.use(f"Bearer {demo}").status, 200)
        self.refused(f"Bearer {gone}")


if __name__ == "__main__":
    unittest.main()
