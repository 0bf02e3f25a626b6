"""Every route with every way a credential can be wrong. A row of ROWS says how
a route is called; a route of include/api/route.def without one fails."""
# check: slow
# SPDX-License-Identifier: Apache-2.0
import base64
import hashlib
import os
import re
import unittest
import uuid

from items import API, TABLES, Partner, place, sku, uom
from problem import parsed, wants_problem
from stack import ROOT, Stack, wait_for

SCOPES = {"INGEST", "READ", "ADMIN"}
CHALLENGE = ['Bearer realm="waybill"']
CHECKED = len("wbk_") + 16 + 1 + 52
ALL_TABLES = TABLES + ("job", "job_chunk", "lane", "refresh_name", "partner")
ITEMS = {"items": [uom("NEW")]}


class Row:
    """How to call a route. {names} of the path are things of the owner.

    ok      what the owner's own key gets, so that a refusal is one of the
            credential and not of the call
    theirs  what another partner's key gets: 404, or 200 or 202 where the
            route is about the caller's own things; then nothing of the
            owner's is in the answer, and nothing of the owner's is changed
    """

    def __init__(self, path, ok=200, theirs=404, body=None):
        self.path, self.ok, self.theirs, self.body = path, ok, theirs, body


# In this order: what ends a thing comes after what shows it.
ROWS = {
    "healthz": Row("/healthz"),
    "readyz": Row("/readyz"),
    "metrics": Row("/metrics"),
    "internal_auth": Row("/internal/auth", ok=404),
    "capabilities": Row(API + "/capabilities", theirs=200),
    "limits": Row(API + "/limits", theirs=200),
    "mapping_find": Row(API + "/mappings?internal_id={item}"),
    "job_list": Row(API + "/jobs", theirs=200),
    "job_show": Row(API + "/jobs/{job}"),
    "job_results": Row(API + "/jobs/{job}/results"),
    "job_cancel": Row(API + "/jobs/{job}/cancel", ok=409, body={}),
    "quarantine_list": Row(API + "/quarantine", theirs=200),
    "quarantine_show": Row(API + "/quarantine/{held}"),
    "requests": Row(API + "/requests/{request}"),
    "items_post": Row(API + "/master/uoms", theirs=200, body=ITEMS),
    "item_list": Row(API + "/master/uoms", theirs=200),
    "item_show": Row(API + "/master/uoms/{source}"),
    "quarantine_release": Row(API + "/quarantine/{held}/release", ok=409,
                              body={}),
    "quarantine_discard": Row(API + "/quarantine/{held}/discard", body={}),
    "quarantine_release_all": Row(
        API + "/quarantine/release?collection=skus", ok=202, theirs=202,
        body={}),
    "undo_refresh": Row(API + "/batches/{refresh}/undo-refresh", body={}),
    "test_echo": Row(API + "/test/echo", theirs=200, body={"items": []}),
}


class Route:
    def __init__(self, name, method, listener, scope):
        self.name, self.listener, self.scope = name, listener, scope
        self.method = method.removeprefix("HTTP_")


def read_routes():
    with open(os.path.join(ROOT, "include", "api", "route.def"),
              encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    rows = re.findall(r'^ROUTE\((\w+),\s*(HTTP_\w+),\s*(\w+),\s*'
                      r'"[^"]*"(?:\s*"[^"]*")*,\s*(\w+),', text, re.M)
    assert len(rows) == len(re.findall(r"^ROUTE\(", text, re.M)), rows
    return {row[0]: Route(*row) for row in rows}


ROUTES = read_routes()


def checksum(text):
    return base64.b32encode(hashlib.sha256(
        text.encode()).digest()[:4]).decode().lower().rstrip("=")


def forged(key, at, to):
    """The key with other characters, and a checksum that fits them."""
    text = key[:at] + to + key[at + len(to):CHECKED]
    return text + checksum(text)


class Matrix(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.s = Stack(workers=2)
        cls.s.start()
        cls.addClassCleanup(cls.s.remove)
        cls.addClassCleanup(cls.s.stop)
        cls.owner, cls.other = Partner(cls.s), Partner(cls.s)
        cls.things = cls.make_things(cls.owner)
        cls.line = cls.s.session()
        cls.admin_line = cls.s.session(admin=True)
        cls.bad = cls.bad_headers()

    @classmethod
    def make_things(cls, p):
        first = p.post("uoms", [uom("EA"), uom("SECRET-ID")])
        request = str(uuid.uuid4())
        p.post("locations", [place("W")], key=request)
        batch = p.post("addresses", [{
            "source_id": "A", "country": "DE", "city": "x",
            "lines": ["y"]}]).json()["batch_id"]
        refresh = p.refresh("addresses", [], confirm_empty="true").json()
        assert refresh["summary"]["tombstoned"] == 1 and batch, refresh
        job = p.post("uoms", [uom("JOB")], mode="bulk").json()["job_id"]
        wait_for(lambda: p.get(f"/jobs/{job}").json()["status"] ==
                 "COMPLETED", 60, "the job")
        held = p.results("skus", [sku("S", base_uom="NONE")])[0]
        return {"item": first.json()["results"][1]["internal_id"],
                "source": "SECRET-ID", "request": request, "job": job,
                "held": held["quarantine_id"],
                "refresh": refresh["batch_id"]}

    @classmethod
    def bad_headers(cls):
        """{what is wrong: an Authorization header, or None}"""
        s, key = cls.s, cls.owner.key

        def fresh(partner=cls.owner.name):
            return s.waybill("key", "create", partner).stdout.strip()
        revoked, expired = fresh(), fresh()
        s.waybill("key", "revoke", revoked[4:20])
        s.sql("UPDATE credential SET expires_at = UTC_TIMESTAMP(3) WHERE "
              f"credential_id = '{expired[4:20]}'")
        s.waybill("partner", "add", "GONE")
        disabled = fresh("GONE")
        s.waybill("partner", "disable", "GONE")
        s.waybill("partner", "add", "CERTS", "--mtls-only")
        other = "a" if key[25] != "a" else "b"
        last = "a" if key[-1] != "a" else "b"
        return {
            "none": None,
            "empty": "",
            "malformed": "Bearer x",
            "no scheme": key,
            "another scheme": "Basic " + base64.b64encode(
                f"x:{key}".encode()).decode(),
            "cut": f"Bearer {key[:-1]}",
            "two keys": f"Bearer {key}, Bearer {key}",
            "a wrong checksum": f"Bearer {key[:-1]}{last}",
            "4 KiB": "Bearer " + key[:21] + "a" * 4096,
            "unknown": "Bearer " + forged(key, 4, "a" * 16),
            "a wrong secret": "Bearer " + forged(key, 25, other),
            "revoked": f"Bearer {revoked}",
            "expired": f"Bearer {expired}",
            "of a disabled partner": f"Bearer {disabled}",
            "without its certificate": f"Bearer {fresh('CERTS')}",
        }

    def call(self, route, header, method=None):
        """Calls a route with this Authorization (None: without)."""
        row = ROWS[route.name]
        headers = {"X-Correlation-Id": str(uuid.uuid4())}
        if header is not None:
            headers["Authorization"] = header
        admin = route.listener == "ADMIN"
        return (self.admin_line if admin else self.line).request(
            method or route.method, row.path.format(**self.things), headers,
            None if method == "HEAD" else row.body, key=False)

    def tables(self):
        return dict(self.s.sql("CHECKSUM TABLE " + ", ".join(ALL_TABLES) +
                               " EXTENDED"))

    def routes(self, *, closed):
        """Those that ask for a credential, or those that do not."""
        return [ROUTES[n] for n in ROWS if n in ROUTES and
                ROUTES[n].listener != "INTERNAL" and
                (ROUTES[n].scope != "NONE") == closed]

    def of_the_owner(self):
        """What the owner sees of the own things."""
        p = self.owner
        return [p.held("uoms"), p.held("addresses"), p.records("skus"),
                p.get(f"/jobs/{self.things['job']}").json()["status"]]

    def test_1_every_route_has_a_row(self):
        self.assertEqual(set(ROUTES) - set(ROWS), set(),
                         "say in ROWS how these are called")
        self.assertEqual(set(ROWS) - set(ROUTES), set())
        for route in ROUTES.values():
            self.assertIn(route.scope, SCOPES | {"NONE"}, route.name)
            self.assertEqual(route.method == "POST",
                             ROWS[route.name].body is not None, route.name)

    def test_2_a_bad_credential_is_401_everywhere_and_changes_nothing(self):
        before = self.tables()
        for route in self.routes(closed=True):
            for what, header in self.bad.items():
                with self.subTest(route=route.name, credential=what):
                    got = self.call(route, header)
                    wants_problem(self, got, 401, "unauthenticated")
                    self.assertEqual(
                        got.headers.get_all("WWW-Authenticate"), CHALLENGE)
                    for thing in self.things.values():
                        self.assertNotIn(
                            thing, re.sub('"instance":"[^"]*"', "",
                                          got.body.decode()))
            if route.method == "GET":
                got = self.call(route, None, "HEAD")
                self.assertEqual((got.status, got.body), (401, b""))
            self.assertEqual(self.tables(), before, route.name)

    def test_2_a_route_without_a_scope_asks_for_none(self):
        for route in self.routes(closed=False):
            for what, header in self.bad.items():
                with self.subTest(route=route.name, credential=what):
                    self.assertEqual(self.call(route, header).status, 200)

    def test_2_what_nginx_asks_for_is_404_to_all(self):
        inner = [r for r in ROUTES.values() if r.listener == "INTERNAL"]
        self.assertEqual(len(inner), 1)
        for header in (*self.bad.values(), f"Bearer {self.owner.key}"):
            for admin in (False, True):
                headers = {} if header is None else {"Authorization": header}
                got = self.s.request(
                    "GET", ROWS[inner[0].name].path, headers, key=False,
                    admin=admin)
                wants_problem(self, got, 404, "not-found")

    def test_3_a_credential_without_the_scope_is_403(self):
        before = self.tables()
        keys = {scope: self.owner.new_credential(
            ",".join(sorted(SCOPES - {scope})).lower()) for scope in SCOPES}
        for route in self.routes(closed=True):
            with self.subTest(route.name):
                got = self.call(route, f"Bearer {keys[route.scope]}")
                document = wants_problem(self, got, 403, "forbidden")
                self.assertIn(f'"{route.scope.lower()}"', document["detail"])
                self.assertIsNone(got.headers["WWW-Authenticate"])
        self.assertEqual(self.tables(), before)

    def test_3_a_doubled_header_is_400(self):
        before = self.tables()
        good, bad = f"Bearer {self.owner.key}", "Bearer x"
        for route in self.routes(closed=True):
            for two in ((good, good), (good, bad), (bad, good)):
                with self.subTest(route.name):
                    wants_problem(self, self.doubled(route, two), 400,
                                  "bad-header", "bad-request")
        self.assertEqual(self.tables(), before)

    def doubled(self, route, values):
        """Two Authorization headers, on a connection of their own."""
        path = ROWS[route.name].path.format(**self.things)
        body = b"{}" if route.method == "POST" else b""
        lines = [f"{route.method} {path} HTTP/1.1", "Host: localhost",
                 f"X-Correlation-Id: {uuid.uuid4()}",
                 "Content-Type: application/json",
                 f"Content-Length: {len(body)}",
                 f"Authorization: {values[0]}",
                 f"authorization: {values[1]}", "", ""]
        return parsed(self.s.raw("\r\n".join(lines).encode() + body))

    def test_4_names_and_schemes_are_read_in_any_case(self):
        key = self.owner.key
        path = API + "/capabilities"
        for name in ("Authorization", "authorization", "AUTHORIZATION",
                     "aUTHORIZATIOn"):
            for scheme in ("Bearer", "bearer", "BEARER", "bEaReR"):
                got = self.line.request("GET", path,
                                        {name: f"{scheme} {key}"}, key=False)
                self.assertEqual(got.status, 200, (name, scheme, got))
        got = self.line.request("GET", path, {
            "Authorization": f"Bearer {key.upper()}"}, key=False)
        wants_problem(self, got, 401, "unauthenticated")

    def test_5_another_partner_sees_and_changes_nothing_of_it(self):
        before = self.of_the_owner()
        header = f"Bearer {self.other.key}"
        for route in self.routes(closed=True):
            with self.subTest(route.name):
                row = ROWS[route.name]
                got = self.call(route, header)
                self.assertEqual(got.status, row.theirs, got)
                if row.theirs == 404:
                    wants_problem(self, got, 404, "not-found")
                else:
                    for thing in (*self.things.values(), self.owner.name):
                        self.assertNotIn(thing, got.body.decode())
                self.assertEqual(self.of_the_owner(), before)

    def test_6_the_owner_gets_what_the_row_says(self):
        """The calls themselves are right: last, for they change things."""
        header = f"Bearer {self.owner.key}"
        for name, row in ROWS.items():
            with self.subTest(name):
                got = self.call(ROUTES[name], header)
                self.assertEqual(got.status, row.ok, got)


if __name__ == "__main__":
    unittest.main()
