"""Client certificates as credentials: over TLS, through nginx, with and
without a key; resumed sessions, kept connections, and bodies that are not read
from strangers."""
# check: slow
# SPDX-License-Identifier: Apache-2.0
import http.client
import os
import socket
import ssl
import time
import unittest
import uuid

from certs import Maker
from items import uom
from problem import parsed, wants_problem
from stack import Stack, wait_for, whole

CAPABILITIES = "/wms-ingest/v1/capabilities"
UOMS = "/wms-ingest/v1/master/uoms"
FORGOTTEN_S = 3.2  # auth_cache is 3 s
MIB = 1 << 20
SERVER_ONLY = "extendedKeyUsage = serverAuth\n"
MANY_NAMES = "subjectAltName = " + ",".join(
    f"DNS:name-number-{i}.example.com" for i in range(600)) + "\n"
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


class Line:
    """One TLS connection, as bytes; `session` is one to be resumed."""

    def __init__(self, stack, context, session=None):
        sock = socket.create_connection(("127.0.0.1", stack.port), 30)
        self.tls = context.wrap_socket(sock, server_hostname="localhost",
                                       session=session)

    def send(self, method="GET", path=CAPABILITIES, headers=()):
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
        self.tls.sendall("\r\n".join([*lines, "", ""]).encode())

    def answer(self):
        got = b""
        while not whole(got):
            more = self.tls.recv(65536)
            if not more:
                break
            got += more
        return parsed(got)

    def get(self, *headers):
        self.send(headers=headers)
        return self.answer()

    def close(self):
        self.tls.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Case(unittest.TestCase):
    stack = made = None

    @classmethod
    def use(cls, cert, key=None, **headers):
        """An answer to this certificate and key, on a fresh connection."""
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        return Case.stack.request("GET", CAPABILITIES, headers, key=False,
                                  cert=cert and cert.chain)

    def partner(self, *options):
        name = "P-" + uuid.uuid4().hex[:12]
        self.stack.waybill("partner", "add", name, *options)
        return name

    def cert(self, partner=None, *options, **how):
        """A certificate and its id; registered, if there is a partner."""
        cert = self.made.cert("c" + uuid.uuid4().hex[:12], **how)
        cert.id = partner and self.add(partner, cert.pem, *options)
        return cert

    def add(self, partner, what, *options):
        return self.stack.waybill("cert", "add", partner, what,
                                  *options).stdout.strip()

    def key(self, partner, *options):
        return self.stack.waybill("key", "create", partner,
                                  *options).stdout.strip()

    def is_refused(self, got):
        document = wants_problem(self, got, 401, "unauthenticated")
        self.assertEqual(got.headers.get_all("WWW-Authenticate"),
                         ['Bearer realm="waybill"'])
        return document

    def looks_like_nobody(self, got):
        """401, and the same as for no credential at all."""
        document, plain = self.is_refused(got), self.use(None).json()
        for one in (document, plain):
            one.pop("trace_id")
        self.assertEqual(document, plain)

    def is_partner(self, got, name):
        self.assertEqual(got.status, 200, got)
        self.assertEqual(got.json()["partner_id"], name)


def setUpModule():
    Case.stack = Stack(workers=2)
    Case.stack.start()
    Case.made = Maker(os.path.join(Case.stack.base, "certs"))


def tearDownModule():
    Case.stack.stop()
    Case.stack.remove()


class Alone(Case):
    """The certificate is the credential."""

    def test_a_registered_certificate_is_its_partner(self):
        name = self.partner()
        cert = self.cert(name)
        self.is_partner(self.use(cert), name)
        got = self.stack.post(UOMS, {"items": [uom("EA")]}, key=False,
                              cert=cert.chain)
        self.assertEqual(got.status, 200, got)

    def test_a_fingerprint_is_enough_to_register_one(self):
        name = self.partner()
        for form in (lambda t: t, str.upper, lambda t: ":".join(
                t[i:i + 2] for i in range(0, 64, 2)).upper()):
            cert = self.cert()
            self.add(name, form(cert.fingerprint))
            self.is_partner(self.use(cert), name)

    def test_it_has_the_scopes_it_was_given(self):
        reader = self.cert(self.partner(), "--scope", "read")
        self.assertEqual(self.use(reader).status, 200)
        got = self.stack.post(UOMS, {"items": [uom("EA")]}, key=False,
                              cert=reader.chain)
        wants_problem(self, got, 403, "forbidden")

    def test_a_large_certificate_is_read_whole(self):
        name = self.partner()
        cert = self.cert(name, extensions=MANY_NAMES)
        self.assertGreater(len(cert.escaped), 16384)
        self.is_partner(self.use(cert), name)

    def test_who_signed_it_does_not_matter(self):
        """A CA that nobody here knows, sent along or not. Its own
        certificate, and others it signed, are nobody."""
        name = self.partner()
        ca = self.cert(ca=True)
        cert, other = self.cert(name, issuer=ca), self.cert(issuer=ca)
        chain = self.made.write("chain.pem", cert.text + ca.text)
        self.is_partner(self.use(cert), name)
        got = self.stack.request("GET", CAPABILITIES, key=False,
                                 cert=(chain, cert.key))
        self.is_partner(got, name)
        for one in (ca, other):
            self.looks_like_nobody(self.use(one))

    def test_an_unregistered_one_is_nobody(self):
        self.looks_like_nobody(self.use(self.cert()))

    def test_a_revoked_one_is_nobody(self):
        name = self.partner()
        cert, unused = self.cert(name), self.cert(name)
        self.is_partner(self.use(cert), name)
        for one in (cert, unused):
            self.stack.waybill("cert", "revoke", one.id)
        self.looks_like_nobody(self.use(unused))
        time.sleep(FORGOTTEN_S)
        for _ in range(4):
            self.looks_like_nobody(self.use(cert))

    def test_one_whose_registration_is_over_is_nobody(self):
        cert = self.cert(self.partner(), "--expires", "1")
        self.assertEqual(self.use(cert).status, 200)
        self.stack.sql("UPDATE credential SET expires_at = UTC_TIMESTAMP(3) "
                       f"WHERE credential_id = '{cert.id}'")
        time.sleep(FORGOTTEN_S)
        for _ in range(4):
            self.looks_like_nobody(self.use(cert))

    def test_one_of_a_disabled_partner_is_nobody_until_it_is_enabled(self):
        name = self.partner()
        cert = self.cert(name)
        self.stack.waybill("partner", "disable", name)
        self.looks_like_nobody(self.use(cert))
        self.stack.waybill("partner", "enable", name)
        self.is_partner(self.use(cert), name)

    def test_the_hash_of_a_key_is_no_fingerprint(self):
        """A row is used as what it was made for."""
        name = self.partner()
        cert = self.cert()
        key = self.key(name)
        self.stack.sql(f"UPDATE credential SET hash = x'{cert.fingerprint}' "
                       f"WHERE credential_id = '{key[4:20]}'")
        self.looks_like_nobody(self.use(cert))

    def test_a_header_is_no_certificate(self):
        cert = self.cert(self.partner())
        for name in ("WAYBILL-CLIENT-CERT", "X-SSL-Client-Cert",
                     "SSL-Client-Cert"):
            got = self.stack.request("GET", CAPABILITIES,
                                     {name: cert.escaped}, key=False)
            self.looks_like_nobody(got)


class Times(Case):
    """The certificate's own times hold, also if only its fingerprint was
    registered."""

    def test_one_that_is_over_or_not_begun_is_refused(self):
        name = self.partner()
        for times in ({"begins": -86400, "ends": -3600},
                      {"begins": 3600, "ends": 86400}):
            cert = self.cert(**times)
            self.add(name, cert.fingerprint)
            self.is_refused(self.use(cert))

    def test_one_for_servers_alone_is_refused(self):
        cert = self.cert(self.partner(), extensions=SERVER_ONLY)
        self.is_refused(self.use(cert))

    def test_it_ends_in_the_middle_of_a_connection_and_of_a_session(self):
        name = self.partner("--mtls-only")
        key = f"Authorization: Bearer {self.key(name)}"
        cert = self.cert(ends=25)
        self.add(name, cert.fingerprint)
        for version in VERSIONS:
            context = self.stack.tls(cert.chain)
            context.maximum_version = version
            with Line(self.stack, context) as line:
                self.is_partner(line.get(), name)
                self.is_partner(line.get(key), name)
                session = line.tls.session
                wait_for(lambda: line.get().status == 401, 90,
                         "the end of the certificate")
                self.looks_like_nobody(line.get())
                self.looks_like_nobody(line.get(key))
            with Line(self.stack, context, session) as line:
                self.assertTrue(line.tls.session_reused)
                self.looks_like_nobody(line.get())
                self.looks_like_nobody(line.get(key))
            cert = self.cert(ends=25)
            self.add(name, cert.fingerprint)


class WithKey(Case):
    def test_the_key_decides_who_it_is_and_what_it_may(self):
        ours, theirs = self.partner(), self.partner()
        cert = self.cert(theirs)
        self.is_partner(self.use(cert, self.key(ours)), ours)
        got = self.use(cert, self.key(theirs, "--scope", "ingest"))
        wants_problem(self, got, 403, "forbidden")
        reader = self.cert(ours, "--scope", "ingest")
        self.is_partner(self.use(reader, self.key(ours)), ours)

    def test_a_bad_header_is_not_mended_by_a_certificate(self):
        cert = self.cert(self.partner())
        for header in ("", "Bearer", "Bearer x", "Basic eDp5",
                       "Bearer " + self.stack.key[:-1]):
            got = self.use(cert, Authorization=header)
            self.looks_like_nobody(got)

    def test_an_unregistered_certificate_does_not_spoil_a_key(self):
        name = self.partner()
        self.is_partner(self.use(self.cert(), self.key(name)), name)

    def test_mtls_only_needs_a_certificate_of_the_same_partner(self):
        name = self.partner("--mtls-only")
        key = self.key(name, "--scope", "read")
        mine = self.cert(name, "--scope", "ingest")
        gone = self.cert(name)
        self.stack.waybill("cert", "revoke", gone.id)
        others = self.cert(self.partner())
        self.is_partner(self.use(mine, key), name)
        for cert in (None, self.cert(), others, gone):
            for _ in range(3):  # whatever a worker remembers
                self.looks_like_nobody(self.use(cert, key))
            self.is_partner(self.use(mine, key), name)
        # Scopes are those of what decides.
        wants_problem(self, self.use(mine), 403, "forbidden")

    def test_mtls_only_is_effective_within_seconds(self):
        name = self.partner()
        key = self.key(name)
        self.is_partner(self.use(None, key), name)
        self.stack.waybill("partner", "set", name, "--mtls-only")
        time.sleep(FORGOTTEN_S)
        for _ in range(4):
            self.looks_like_nobody(self.use(None, key))


class Sessions(Case):
    """Neither a kept connection nor a resumed session loses or confuses the
    certificate."""

    def test_a_kept_connection_stays_who_it_is(self):
        names = [self.partner() for _ in range(3)]
        certs = [self.cert(n) for n in names]
        lines = [Line(self.stack, self.stack.tls(c.chain)) for c in certs]
        lines.append(Line(self.stack, self.stack.tls()))
        key = f"Authorization: Bearer {self.key(names[0])}"
        for _ in range(5):
            for line, name in zip(lines, names):
                self.is_partner(line.get(), name)
            self.looks_like_nobody(lines[3].get())
            self.is_partner(lines[1].get(key), names[0])
            self.is_partner(lines[3].get(key), names[0])
        for line in lines:
            line.close()

    def test_a_resumed_session_stays_who_it_is(self):
        names = [self.partner(), self.partner()]
        certs = [self.cert(n) for n in names]
        stranger = self.cert()
        for version in VERSIONS:
            with self.subTest(version.name):
                self.resume(version, names, certs, stranger)

    def resume(self, version, names, certs, stranger):
        contexts = [self.stack.tls(c and c.chain)
                    for c in (*certs, stranger, None)]
        sessions = [None] * 4
        for turn in range(4):
            for i, context in enumerate(contexts):
                context.maximum_version = version
                with Line(self.stack, context, sessions[i]) as line:
                    got = line.get()
                    if i < 2:
                        self.is_partner(got, names[i])
                    else:
                        self.looks_like_nobody(got)
                    self.assertEqual(line.tls.session_reused, turn > 0)
                    sessions[i] = line.tls.session

    def test_a_revoked_one_is_nobody_on_both(self):
        for version in VERSIONS:
            name = self.partner()
            cert = self.cert(name)
            context = self.stack.tls(cert.chain)
            context.maximum_version = version
            with Line(self.stack, context) as line:
                self.is_partner(line.get(), name)
                self.stack.waybill("cert", "revoke", cert.id)
                time.sleep(FORGOTTEN_S)
                for _ in range(4):
                    self.looks_like_nobody(line.get())
                session = line.tls.session
            with Line(self.stack, context, session) as line:
                self.assertTrue(line.tls.session_reused)
                self.looks_like_nobody(line.get())


class LargeBodies(Case):
    """A body of some MB is not read from who may not send it."""

    def begin(self, cert=None, key=None):
        """A request whose body is announced and not sent."""
        line = Line(self.stack, self.stack.tls(cert and cert.chain))
        headers = [f"X-Correlation-Id: {uuid.uuid4()}",
                   "Content-Type: application/x-ndjson",
                   f"Content-Length: {8 * MIB}"]
        if key:
            headers.append(f"Authorization: Bearer {key}")
        line.send("POST", UOMS + "?mode=bulk", headers)
        return line

    def is_refused_unread(self, status, slug, **who):
        with self.begin(**who) as line:
            got = line.answer()
            wants_problem(self, got, status, slug)
            if status == 401:
                self.is_refused(got)

    def test_nobody_is_refused_before_the_body(self):
        name = self.partner()
        revoked = self.key(name)
        self.stack.waybill("key", "revoke", revoked[4:20])
        gone = self.cert(name)
        self.stack.waybill("cert", "revoke", gone.id)
        for who in ({}, {"key": revoked}, {"key": "wbk_x"},
                    {"cert": self.cert()}, {"cert": gone},
                    {"cert": self.cert(name), "key": revoked},
                    {"key": self.key(self.partner("--mtls-only"))}):
            with self.subTest(who):
                self.is_refused_unread(401, "unauthenticated", **who)

    def test_the_scope_read_alone_is_refused_before_the_body(self):
        name = self.partner()
        self.is_refused_unread(403, "forbidden",
                               key=self.key(name, "--scope", "read"))
        self.is_refused_unread(403, "forbidden",
                               cert=self.cert(name, "--scope", "read,admin"))

    def test_a_certificate_may_send_one(self):
        name = self.partner("--mtls-only")
        item = b'{"source_id":"%07d","name":"' + b"x" * 4000 + b'"}\n'
        body = b"".join(item % i for i in range(2000))
        body += b"\n" * (8 * MIB - len(body))
        with self.begin(cert=self.cert(name, "--scope", "ingest")) as line:
            line.tls.sendall(body)
            got = line.answer()
        self.assertEqual(got.status, http.client.ACCEPTED, got)
        self.assertEqual(got.json()["received"]["items"], 2000)


if __name__ == "__main__":
    unittest.main()
