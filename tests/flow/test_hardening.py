"""What nginx, the accounts and the programs refuse: TLS, headers, smuggling,
hosts, rights in the database, secrets in memory and in messages."""
# SPDX-License-Identifier: Apache-2.0
# check: slow
import json
import os
import pwd
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest
import uuid

from stack import (PROGRAMS, ROOT, Stack, alive, free_port, proc_text,
                   temp_dir, wait_for)

HOST = b"Host: localhost\r\n"
SKUS = "/wms-ingest/v1/master/skus"
UOMS = "/wms-ingest/v1/master/uoms"
HEADERS = {"X-Content-Type-Options": "nosniff",
           "Content-Security-Policy":
               "default-src 'none'; frame-ancestors 'none'",
           "Strict-Transport-Security": "max-age=31536000",
           "Cache-Control": "no-store"}


def split(data):
    """Status, headers (lower-case names, lists) and body of raw bytes."""
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines[1:]:
        name, value = line.split(":", 1)
        headers.setdefault(name.lower(), []).append(value.strip())
    return int(lines[0].split()[1]), headers, body


class Hardened(unittest.TestCase):
    """One stack for all of a class."""
    options = {}

    @classmethod
    def setUpClass(cls):
        cls.stack = Stack(**cls.options)
        cls.stack.start()

    @classmethod
    def tearDownClass(cls):
        cls.stack.stop()
        cls.stack.remove()

    def raw(self, *lines, body=b"", **how):
        """Sends a request of these lines as they are; (status, headers,
        body)."""
        got = self.stack.raw(b"\r\n".join(lines) + b"\r\n\r\n" + body, **how)
        self.assertTrue(got, "no answer at all")
        return split(got)

    def key(self):
        return b"Authorization: Bearer " + self.stack.key.encode()


class Tls(Hardened):
    def handshake(self, *options):
        """openssl s_client's words: it can offer what Python's ssl will not.
        SECLEVEL 0, so that a refusal is the server's."""
        done = subprocess.run(
            ["openssl", "s_client", "-connect",
             f"127.0.0.1:{self.stack.port}", "-CAfile",
             os.path.join(self.stack.var, "tls", "ca.pem"), *options],
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=60, check=False)
        return done.stdout

    def agreed(self, said):
        found = re.search(r"New, (\S+), Cipher is (\S+)", said)
        return found.groups() if found else (None, None)

    def test_only_tls_1_2_and_1_3_are_spoken(self):
        for version, name in (("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")):
            self.assertEqual(self.agreed(self.handshake(version))[0], name)
        for version in ("-tls1", "-tls1_1"):
            with self.subTest(version):
                said = self.handshake(version, "-cipher",
                                      "ALL:@SECLEVEL=0")
                self.assertIn("Cipher is (NONE)", said)
                self.assertIn("protocol version", said)

    def test_weak_ciphers_are_refused(self):
        """Everything this openssl has beside forward secrecy with AEAD."""
        names = subprocess.run(
            ["openssl", "ciphers", "-s", "-tls1_2", "ALL:eNULL:@SECLEVEL=0"],
            text=True, stdout=subprocess.PIPE, check=True).stdout.strip()
        good = re.compile("^ECDHE-.*(GCM|CHACHA20)")
        weak = [n for n in names.split(":") if not good.match(n)]
        self.assertGreater(len(weak), 10)
        said = self.handshake("-tls1_2", "-cipher",
                              ":".join(weak) + ":@SECLEVEL=0")
        self.assertIn("Cipher is (NONE)", said)
        self.assertIn("handshake failure", said)

    def test_what_is_agreed_is_forward_secret_and_authenticated(self):
        _, cipher = self.agreed(self.handshake(
            "-tls1_2", "-cipher",
            "AES256-SHA:ECDHE-ECDSA-AES128-SHA:"
            "ECDHE-ECDSA-AES128-GCM-SHA256:@SECLEVEL=0"))
        self.assertEqual(cipher, "ECDHE-ECDSA-AES128-GCM-SHA256")

    def test_sessions_resume_without_tickets(self):
        said = self.handshake("-tls1_2")
        self.assertNotIn("TLS session ticket", said)
        self.assertRegex(said, r"Session-ID: [0-9A-F]{64}")
        said = self.handshake("-tls1_2", "-reconnect")
        self.assertIn("Reused, TLSv1.2", said)

    def test_no_early_data_and_no_renegotiation(self):
        said = self.handshake("-tls1_3")
        self.assertIn("Early data was not sent", said)
        self.assertNotRegex(said, r"Max Early Data: [1-9]")

    def test_the_certificate_is_for_this_host_alone(self):
        context = self.stack.tls()
        with socket.create_connection(("127.0.0.1", self.stack.port)) as raw:
            with self.assertRaises(ssl.SSLCertVerificationError):
                context.wrap_socket(raw, server_hostname="example.com")


class Wire(Hardened):
    def until_closed(self, data):
        """All that comes until the server ends the connection: not only the
        first answer, and without telling it that we are done (nginx then
        does not answer at all)."""
        raw = socket.create_connection(("127.0.0.1", self.stack.port),
                                       timeout=60)
        with self.stack.tls().wrap_socket(
                raw, server_hostname="localhost") as sock:
            sock.sendall(data)
            got = b""
            try:
                while more := sock.recv(65536):
                    got += more
            except (ConnectionError, ssl.SSLError):
                pass
            return got

    def answers(self):
        """An answer of every kind: the worker's, nginx's, a page's."""
        s = self.stack
        item = {"items": [{"source_id": "EA", "name": "each"}]}
        key = str(uuid.uuid4())
        yield "first", s.post(UOMS, item, key)
        yield "replayed", s.post(UOMS, item, key)
        yield "read", s.get(UOMS + "/EA")
        yield "refused", s.get(UOMS, key=False)
        yield "health", s.get("/healthz")
        yield "no such path", s.get("/nothing")
        yield "too large", s.request("POST", "/nothing",
                                     {"Content-Length": "9999999"})
        yield "too long", s.get("/" + "a" * 9000)

    def test_every_answer_has_the_protecting_headers_once(self):
        for name, answer in self.answers():
            with self.subTest(name):
                for header, value in HEADERS.items():
                    self.assertEqual(answer.headers.get_all(header), [value],
                                     (header, answer))
                self.assertEqual(answer.headers.get_all("Server"), ["nginx"])

    def test_the_pages_of_docs_are_protected_too(self):
        answer = self.stack.get("/docs/errors.md", key=False)
        for header in set(HEADERS) - {"Cache-Control"}:
            self.assertEqual(answer.headers.get_all(header),
                             [HEADERS[header]], answer)

    def test_localhost_is_not_told_to_be_https_for_ever(self):
        _, headers, _ = self.raw(b"GET /healthz HTTP/1.1", b"Host: localhost")
        self.assertNotIn("strict-transport-security", headers)
        _, headers, _ = self.raw(b"GET /healthz HTTP/1.1", b"Host: w.example")
        self.assertIn("strict-transport-security", headers)

    def test_conditions_and_ranges_of_pages_are_no_html(self):
        for header in (b'If-Match: "x"',
                       b"If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT"):
            with self.subTest(header):
                code, headers, body = self.raw(
                    b"GET /docs/errors.md HTTP/1.1", b"Host: a", header)
                self.assertEqual(code, 400)
                self.assertEqual(headers["content-type"],
                                 ["application/problem+json"])
                self.assertEqual(json.loads(body)["status"], 400)
        code, _, _ = self.raw(b"GET /docs/errors.md HTTP/1.1", b"Host: a",
                              b"Range: bytes=99999999-")
        self.assertEqual(code, 200)

    def test_a_condition_cannot_hide_what_was_done(self):
        """nginx must not turn an answer of ours into its own 412."""
        code, _, body = self.raw(
            b"GET " + UOMS.encode() + b" HTTP/1.1", b"Host: a", self.key(),
            b'If-Match: "x"', b"Range: bytes=0-0")
        self.assertEqual(code, 200)
        self.assertIn("items", json.loads(body))

    def test_a_second_request_cannot_be_smuggled_in(self):
        """Whatever the first part is taken for, the connection gives at most
        one answer, and no second one for the path that was hidden."""
        hidden = b"GET /healthz?hidden HTTP/1.1\r\nHost: a\r\n\r\n"
        post = b"POST " + SKUS.encode() + b" HTTP/1.1"
        for name, headers, body in (
                ("CL.TE", [b"Content-Length: 6",
                           b"Transfer-Encoding: chunked"], b"0\r\n\r\n"),
                ("TE.CL", [b"Transfer-Encoding: chunked",
                           b"Content-Length: 4"], b"5c\r\n"),
                ("TE.TE", [b"Transfer-Encoding: chunked",
                           b"Transfer-Encoding: identity"], b"0\r\n\r\n"),
                ("TE with a blank", [b"Transfer-Encoding : chunked"],
                 b"0\r\n\r\n"),
                ("TE folded", [b"Transfer-Encoding:", b" chunked"],
                 b"0\r\n\r\n"),
                ("TE xchunked", [b"Transfer-Encoding: xchunked"],
                 b"0\r\n\r\n"),
                ("CL twice", [b"Content-Length: 0", b"Content-Length: 5"],
                 b""),
                ("CL with a sign", [b"Content-Length: +0"], b""),
                ("CL list", [b"Content-Length: 0, 5"], b""),
                ("chunk size too long", [b"Transfer-Encoding: chunked"],
                 b"ffffffffffffffff1\r\n"),
                ("chunk not ended", [b"Transfer-Encoding: chunked"],
                 b"1\r\nZZ\r\n0\r\n\r\n")):
            with self.subTest(name):
                got = self.until_closed(
                    b"\r\n".join([post, b"Host: a", self.key(), *headers]) +
                    b"\r\n\r\n" + body + hidden)
                self.assertTrue(got.startswith(b"HTTP/1.1 400 "), got[:200])
                self.assertEqual(got.count(b"HTTP/1.1 "), 1, got)
                self.assertIn(b"application/problem+json", got)

    def test_http_1_0_has_no_chunks(self):
        got = self.until_closed(
            b"POST " + SKUS.encode() + b" HTTP/1.0\r\nHost: a\r\n" +
            self.key() + b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
            b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertEqual(got.count(b"HTTP/1.1 "), 1, got)
        self.assertNotIn(b" 200 ", got.split(b"\r\n")[0])

    def test_a_header_with_underscores_is_nobodys_alias(self):
        """CGI would make X_Correlation_Id and X-Correlation-Id one name."""
        code, _, body = self.raw(
            b"POST " + UOMS.encode() + b" HTTP/1.1", b"Host: a", self.key(),
            b"X_Correlation_Id: " + str(uuid.uuid4()).encode(),
            b"Content-Type: application/json", b"Content-Length: 12",
            body=b'{"items":[]}')
        self.assertEqual(code, 400)
        self.assertIn("correlation-id-missing", json.loads(body)["type"])
        code, _, _ = self.raw(
            b"GET " + UOMS.encode() + b" HTTP/1.1", b"Host: a",
            self.key().replace(b"Authorization", b"Author_ization"))
        self.assertEqual(code, 401)

    def test_headers_are_limited_on_both_sides_of_the_line(self):
        """8 KiB a line, 32 KiB together. Just below: served, both by nginx
        and by the worker behind it."""
        for size, want in ((8000, 200), (8300, 431)):
            with self.subTest(size):
                code, _, _ = self.raw(
                    b"GET " + UOMS.encode() + b" HTTP/1.1", b"Host: a",
                    self.key(), b"X-Long: " + b"a" * (size - 10))
                self.assertEqual(code, want)
        for lines, want in ((25, 200), (40, 431)):
            with self.subTest(lines):
                many = [b"X-%03d: %s" % (i, b"a" * 992) for i in range(lines)]
                code, _, _ = self.raw(
                    b"GET " + UOMS.encode() + b" HTTP/1.1", b"Host: a",
                    self.key(), *many)
                self.assertEqual(code, want)

    def test_methods_that_no_route_has(self):
        for method in (b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"PROPFIND",
                       b"TRACE", b"MOVE", b"FOO"):
            for path in (UOMS.encode(), b"/healthz", b"/docs/errors.md"):
                with self.subTest((method, path)):
                    code, headers, body = self.raw(
                        method + b" " + path + b" HTTP/1.1", b"Host: a",
                        self.key())
                    self.assertEqual(code, 405, body)
                    self.assertEqual(headers["content-type"],
                                     ["application/problem+json"])
                    self.assertIn("GET", headers["allow"][0])

    def test_no_answer_tells_a_path_of_the_machine(self):
        for path in (b"/docs/", b"/docs", b"/docs/errors.md/",
                     b"/docs/errors.md/../../nginx/nginx.conf.in",
                     b"/docs/%2e%2e/run", b"/docs/..%2frun", b"/.git/config",
                     b"/docs/errors.md%00.txt", b"/waybill.conf",
                     b"//docs/errors.md", b"/.problem/500", b"/.auth",
                     b"/internal/auth"):
            with self.subTest(path):
                code, headers, body = self.raw(b"GET " + path + b" HTTP/1.1",
                                               b"Host: a", self.key())
                self.assertIn(code, (400, 404), body)
                self.assertEqual(headers["content-type"],
                                 ["application/problem+json"])
                for secret in (ROOT, self.stack.var, self.stack.base):
                    self.assertNotIn(secret.encode(), body)

    def test_the_admin_side_cannot_be_reached_from_the_public_one(self):
        admin = f"127.0.0.1:{self.stack.admin_port}".encode()
        for lines in (
                [b"GET /metrics HTTP/1.1", b"Host: " + admin],
                [b"GET http://" + admin + b"/metrics HTTP/1.1", b"Host: a"],
                [b"GET /metrics HTTP/1.1", b"Host: a",
                 b"Waybill-Listener: admin", b"X-Forwarded-Host: " + admin],
                [b"GET /metrics HTTP/1.1", b"Host: a",
                 b"WAYBILL_LISTENER: admin", b"X-Original-URL: /metrics"],
                [b"GET /healthz/../metrics HTTP/1.1", b"Host: localhost"],
                [b"GET //metrics HTTP/1.1", b"Host: localhost"],
                [b"GET /readyz HTTP/1.0"]):
            with self.subTest(lines):
                code, _, body = self.raw(*lines)
                self.assertIn(code, (400, 404), body)
                self.assertNotIn(b"waybill_", body)

    def test_the_admin_side_answers_to_loopback_names_alone(self):
        for host, want in ((b"localhost", 200), (b"127.0.0.1", 200),
                           (b"localhost:1", 200), (b"rebound.example", 404),
                           (b"10.0.0.1", 404), (b"localhost.evil", 404)):
            with self.subTest(host):
                code, headers, body = self.raw(
                    b"GET /metrics HTTP/1.1", b"Host: " + host, admin=True)
                self.assertEqual(code, want, body)
                if want == 404:
                    self.assertEqual(headers["content-type"],
                                     ["application/problem+json"])
        code, _, _ = self.raw(b"GET /healthz HTTP/1.0", admin=True)
        self.assertEqual(code, 200)

    def test_everything_listens_on_loopback_or_a_private_socket(self):
        """By the kernel's own list of listening sockets of our nginx."""
        inodes = set()
        for pid in self.stack.all_pids():
            for fd in os.listdir(f"/proc/{pid}/fd"):
                try:
                    inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
                except OSError:
                    pass
        found = set()
        for name in ("tcp", "tcp6"):
            for line in proc_text("self", "net/" + name).splitlines()[1:]:
                word = line.split()
                if word[3] == "0A" and f"socket:[{word[9]}]" in inodes:
                    found.add(word[1])
        self.assertEqual(found, {f"0100007F:{self.stack.port:04X}",
                                 f"0100007F:{self.stack.admin_port:04X}"})
        mode = os.stat(self.stack.demo["WAYBILL_CONF"].replace(
            "waybill.conf", "run/fcgi.sock")).st_mode & 0o777
        self.assertEqual(mode, 0o660)

    def test_strangers_in_a_hurry_are_slowed_and_partners_are_not(self):
        """Pipelined, so that the machine's speed does not matter: far more
        than the burst, and faster than the rate."""
        def flood(*headers):
            one = b"\r\n".join([b"HEAD /docs/errors.md HTTP/1.1", b"Host: a",
                                *headers]) + b"\r\n\r\n"
            raw = socket.create_connection(("127.0.0.1", self.stack.port),
                                           timeout=60)
            with self.stack.tls().wrap_socket(
                    raw, server_hostname="localhost") as sock:
                count = {b"200": 0, b"429": 0}
                for _ in range(100):
                    sock.sendall(one * 100)
                    got = b""
                    while got.count(b"\r\n\r\n") < 100:
                        got += sock.recv(65536)
                    for status in count:
                        count[status] += got.count(b"HTTP/1.1 " + status)
            self.assertEqual(sum(count.values()), 10000)
            return count[b"429"]

        self.assertEqual(flood(self.key()), 0)
        self.assertGreater(flood(), 0)
        code, headers, body = self.raw(b"GET /healthz HTTP/1.1", b"Host: a",
                                       self.key())
        self.assertEqual(code, 200, (headers, body))


class Database(Hardened):
    """The accounts, as a thief of their passwords would use them."""

    def refused(self, user, query):
        with open(os.path.join(self.stack.var, "secret", "db_service"),
                  encoding="ascii") as f:
            password = f.read()
        env = dict(os.environ)
        if user == "waybill":
            env["MYSQL_PWD"] = password
        done = subprocess.run(
            ["mariadb", "--no-defaults", "-S",
             self.stack.demo["WAYBILL_DB_SOCKET"], "-u", user, "waybill"],
            input=query, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=env, check=False)
        return re.findall(r"ERROR (\d+)", done.stderr)

    def tables(self, kind):
        return [row[0] for row in self.stack.sql(
            "SELECT table_name FROM information_schema.tables WHERE "
            f"table_schema = 'waybill' AND table_type = '{kind}'")]

    def granted(self):
        """(account, table): privileges, as sql/grants.sql lists them."""
        with open(os.path.join(ROOT, "sql", "grants.sql"),
                  encoding="utf-8") as f:
            rows = re.findall(r"^GRANT (.*) ON (\w+) TO \{(\w+)\};", f.read(),
                              re.M)
        return {(to, table): what for what, table, to in rows}

    def test_the_service_cannot_change_the_schema(self):
        for query in ("CREATE TABLE x (a INT)", "DROP TABLE item",
                      "ALTER TABLE item ADD x INT", "TRUNCATE item",
                      "CREATE INDEX x ON item (rev)",
                      "CREATE VIEW x AS SELECT 1",
                      "CREATE TRIGGER x BEFORE INSERT ON item FOR EACH ROW "
                      "SET @a = 1", "RENAME TABLE item TO x",
                      "CREATE DATABASE x", "CREATE USER x",
                      "GRANT SELECT ON item TO waybill_ro@localhost",
                      "SET GLOBAL innodb_flush_log_at_trx_commit = 0",
                      "SELECT Host FROM mysql.tables_priv",
                      "SELECT 1 INTO OUTFILE '/tmp/x'",
                      "SELECT LOAD_FILE('/etc/passwd') FROM mysql.db"):
            with self.subTest(query):
                self.assertTrue(self.refused("waybill", query))

    def test_the_service_deletes_only_where_a_line_says_so(self):
        granted = self.granted()
        for table in self.tables("BASE TABLE"):
            may = "DELETE" in granted.get(("service", table), "")
            with self.subTest(table):
                self.assertEqual(
                    self.refused("waybill", f"DELETE FROM {table} LIMIT 0"),
                    [] if may else ["1142"])

    def test_the_service_reads_no_view(self):
        """Views read with their owner's rights: they would be a way around
        the lines of the tables."""
        views = self.tables("VIEW")
        self.assertGreater(len(views), 5)
        for view in views:
            with self.subTest(view):
                self.assertEqual(
                    self.refused("waybill", f"SELECT 1 FROM {view} LIMIT 1"),
                    ["1142"])

    def test_the_read_only_account_sees_views_alone(self):
        granted = self.granted()
        for table in self.tables("BASE TABLE"):
            with self.subTest(table):
                self.assertEqual(
                    self.refused("waybill_ro",
                                 f"SELECT 1 FROM {table} LIMIT 1"), ["1142"])
        for view in self.tables("VIEW"):
            with self.subTest(view):
                self.assertEqual(
                    self.refused("waybill_ro",
                                 f"SELECT 1 FROM {view} LIMIT 1"),
                    [] if ("ro", view) in granted else ["1142"])
                self.assertTrue(self.refused(
                    "waybill_ro", f"DELETE FROM {view} LIMIT 0"))

    def test_no_view_shows_what_keys_are_checked_with(self):
        rows = self.stack.sql(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = 'waybill' AND LEFT(table_name, 2) = 'v_' "
            "AND column_name IN ('hash', 'secret', 'pepper', 'password')")
        self.assertEqual(rows, [])

    def test_a_running_service_is_not_disturbed_by_migrate(self):
        """migrate grants, looks and takes back while requests are served."""
        s = self.stack
        s.sql("GRANT DELETE, DROP ON item TO waybill@localhost; GRANT ALL ON "
              "waybill.* TO waybill@localhost")
        migrate = subprocess.Popen(
            [os.path.join(s.programs, "waybill"), "--conf",
             os.path.join(s.var, "waybill.conf"), "migrate"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        statuses = set()
        with s.session() as session:
            while migrate.poll() is None or len(statuses) == 0:
                answer = session.request(
                    "POST", UOMS,
                    {"X-Correlation-Id": str(uuid.uuid4())},
                    {"items": [{"source_id": "U1", "name": "u"}]})
                statuses.add(answer.status)
        self.assertEqual(migrate.returncode, 0, migrate.communicate())
        self.assertEqual(statuses, {200})
        self.assertEqual(self.refused("waybill", "DELETE FROM item LIMIT 0"),
                         ["1142"])


class Secrets(Hardened):
    def test_programs_that_hold_secrets_leave_no_image(self):
        pids = [*self.stack.pids("waybill-fcgi"),
                *self.stack.pids("waybill-worker"),
                *self.stack.pids("waybill")]
        self.assertGreater(len(pids), 6)
        for pid in pids:
            self.assertRegex(proc_text(pid, "limits"),
                             r"Max core file size +0 +0 ")

    @unittest.skipUnless(os.getuid() == 0, "only root can become another user")
    def test_another_process_of_the_same_user_cannot_read_their_memory(self):
        """The kernel gives the files of one that is not dumpable to root."""
        nobody = pwd.getpwnam("nobody").pw_uid
        self.assertEqual(self.owner_of_memory(nobody), 0)
        self.assertEqual(
            self.owner_of_memory(nobody, "allow_core_dumps = true"), nobody)

    def owner_of_memory(self, user, *lines):
        """Of a worker that runs as `user` and finds no database."""
        folder = tempfile.mkdtemp(prefix="waybill-user.", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder)
        os.chmod(folder, 0o755)
        program = os.path.join(folder, "waybill-worker")
        shutil.copy2(os.path.join(self.stack.programs, "waybill-worker"),
                     program)
        conf = os.path.join(folder, "waybill.conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write("".join(line + "\n" for line in (
                f"db_socket = {folder}/none", *lines)))
        os.chmod(conf, 0o644)
        log = os.path.join(folder, "log")
        with open(log, "wb") as out:
            worker = subprocess.Popen(
                ["setpriv", f"--reuid={user}", "--clear-groups", program,
                 "--conf", conf], stderr=out)
        try:
            wait_for(lambda: os.path.getsize(log), what="its first words")
            self.assertTrue(alive(worker.pid))
            return os.stat(f"/proc/{worker.pid}/mem").st_uid
        finally:
            worker.kill()
            worker.wait()

    def test_a_crash_leaves_no_core_file(self):
        """In a folder of its own; the same crash with allow_core_dumps does
        leave one, where the kernel writes files."""
        with open("/proc/sys/kernel/core_pattern", encoding="ascii") as f:
            pattern = f.read().strip()
        self.assertEqual(self.crash(), [])
        if pattern.startswith("|") or "/" in pattern:
            self.skipTest(f"the kernel puts core files elsewhere: {pattern}")
        if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
            self.skipTest("core files are switched off for all of us")
        if sanitized():
            self.skipTest("the sanitizer leaves none of its own accord")
        self.assertEqual(len(self.crash("allow_core_dumps = true")), 1)

    def crash(self, *lines):
        folder = temp_dir("core")
        self.addCleanup(shutil.rmtree, folder)
        conf = os.path.join(folder, "waybill.conf")
        shutil.copy(os.path.join(self.stack.var, "waybill.conf"), conf)
        with open(conf, "a", encoding="utf-8") as f:
            f.write("".join(line + "\n" for line in lines))

        def unlimited():
            hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
            resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

        worker = subprocess.Popen(
            [os.path.join(self.stack.programs, "waybill-worker"), "--conf",
             conf], cwd=folder, stderr=subprocess.DEVNULL,
            preexec_fn=unlimited)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        limit = "0 " if not lines else ""
        wait_for(lambda: re.search(r"Max core file size +" + limit,
                                   proc_text(worker.pid, "limits")) and
                 "waybill-worker" in proc_text(worker.pid, "comm"))
        wait_for(lambda: "socket:" in str(
            [os.readlink(f"/proc/{worker.pid}/fd/{fd}")
             for fd in os.listdir(f"/proc/{worker.pid}/fd")]),
            what="its connection")
        os.kill(worker.pid, signal.SIGSEGV)
        worker.wait(timeout=60)
        self.assertFalse(alive(worker.pid))
        return [n for n in os.listdir(folder) if n.startswith("core")]

    def run_with(self, lines=(), program="waybill-worker", words=(), **env):
        """Runs a program that ends at once; what it says."""
        folder = temp_dir("conf")
        self.addCleanup(shutil.rmtree, folder)
        conf = os.path.join(folder, "waybill.conf")
        shutil.copy(os.path.join(self.stack.var, "waybill.conf"), conf)
        with open(conf, "a", encoding="utf-8") as f:
            f.write("".join(line + "\n" for line in lines))
        return subprocess.run(
            [os.path.join(self.stack.programs, program), "--conf", conf,
             *words], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=60, check=False,
            env={**self.stack.environment(), **env})

    def test_a_secret_in_the_wrong_place_is_not_repeated(self):
        """A password under a name that is no setting, or under none. (The
        value of a real setting is told: it names a file or a number.)"""
        for lines, env in ((["db_password = hunter2secret"], {}),
                           (["hunter2secret"], {}),
                           ([], {"WAYBILL_CONF_DB_PASSWORD": "hunter2secret"})):
            with self.subTest((lines, env)):
                done = self.run_with(lines, **env)
                self.assertNotEqual(done.returncode, 0)
                self.assertNotIn("hunter2secret", done.stdout)

    def test_a_secrets_file_may_be_named_by_the_environment(self):
        folder = temp_dir("secret")
        self.addCleanup(shutil.rmtree, folder)
        shutil.copy(os.path.join(self.stack.var, "secret", "db_owner"),
                    os.path.join(folder, "owner"))
        wrong = ["db_owner_password_file = /nonexistent"]
        for env in ({"WAYBILL_CONF_DB_OWNER_PASSWORD_FILE":
                     os.path.join(folder, "owner")},
                    {"WAYBILL_CONF_DB_OWNER_PASSWORD_FILE": "owner",
                     "CREDENTIALS_DIRECTORY": folder}):
            with self.subTest(env):
                done = self.run_with(wrong, "waybill", ("partner", "list"),
                                     **env)
                self.assertEqual(done.returncode, 0, done.stdout)
        done = self.run_with(wrong, "waybill", ("partner", "list"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent", done.stdout)

    def test_no_secret_stands_in_a_command_line_or_environment(self):
        secrets = []
        for name in os.listdir(os.path.join(self.stack.var, "secret")):
            with open(os.path.join(self.stack.var, "secret", name),
                      encoding="ascii") as f:
                secrets.append(f.read().strip())
        self.assertGreater(len(secrets), 3)
        for pid in self.stack.all_pids():
            text = proc_text(pid, "cmdline") + proc_text(pid, "environ")
            for secret in secrets:
                self.assertNotIn(secret, text)


def sanitized():
    return "libasan" in subprocess.run(
        ["ldd", os.path.join(PROGRAMS, "waybill-worker")], text=True,
        stdout=subprocess.PIPE, check=True).stdout


EXAMPLES = os.path.join(ROOT, "docs", "examples")
SERVICES = ("waybill-fcgi@.service", "waybill-worker@.service",
            "waybill-retention.service", "waybill-nginx.service")
SANDBOX = ("NoNewPrivileges=yes", "ProtectSystem=strict", "PrivateTmp=yes",
           "ProtectHome=yes", "MemoryDenyWriteExecute=yes",
           "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
           "SystemCallFilter=@system-service", "LimitCORE=0")


class Examples(unittest.TestCase):
    """What docs/examples/ holds can be taken as it is."""

    def setUp(self):
        self.dir = temp_dir("examples")
        self.addCleanup(shutil.rmtree, self.dir)

    def said(self, *command):
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout.strip()

    def units(self):
        """Copies whose programs are there; only systemd's own tool knows
        every word of a unit."""
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not installed")
        folder = os.path.join(EXAMPLES, "systemd")
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                text = f.read().replace("/usr/local/bin/", PROGRAMS + "/")
            with open(os.path.join(self.dir, name), "w",
                      encoding="utf-8") as f:
                f.write(text)
        return sorted(n for n in os.listdir(self.dir)
                      if not n.endswith(".conf"))

    def verify(self, names):
        return self.said("systemd-analyze", "verify", "--man=no", *(
            os.path.join(self.dir, n.replace("@.", "@0.")) for n in names))

    def test_systemd_understands_every_line_of_the_units(self):
        names = self.units()
        self.assertEqual(len(names), 7)
        self.assertEqual(self.verify(names), (0, ""))
        with open(os.path.join(self.dir, SERVICES[0]), "a",
                  encoding="utf-8") as f:
            f.write("ProtectSistem=strict\n")
        self.assertIn("ProtectSistem", self.verify(names)[1])

    def test_systemd_finds_little_exposed(self):
        """2.0 of 10, where 10 is a unit without any sandbox."""
        self.units()
        for name in SERVICES:
            with self.subTest(name):
                code, said = self.said(
                    "systemd-analyze", "security", "--offline=true",
                    "--no-pager", "--threshold=20",
                    os.path.join(self.dir, name))
                self.assertEqual(code, 0, said)

    def test_every_service_is_in_the_sandbox(self):
        for name in SERVICES:
            with open(os.path.join(EXAMPLES, "systemd", name),
                      encoding="utf-8") as f:
                lines = f.read().splitlines()
            for line in SANDBOX:
                with self.subTest((name, line)):
                    self.assertIn(line, lines)

    def test_only_retention_gets_the_owners_password(self):
        for name in os.listdir(os.path.join(EXAMPLES, "systemd")):
            with open(os.path.join(EXAMPLES, "systemd", name),
                      encoding="utf-8") as f:
                self.assertEqual("db_owner_password" in f.read(),
                                 name == "waybill-retention.service", name)

    def test_nginx_takes_the_template_of_a_host(self):
        code, text = self.said("sed", "-f", os.path.join(EXAMPLES,
                                                         "nginx.sed"),
                               os.path.join(ROOT, "nginx", "nginx.conf.in"))
        self.assertEqual(code, 0, text)
        self.assertEqual(re.findall(r"@[A-Z_]+@", text), ["@NAMES@"])
        self.assertIn("listen 443 ssl", text)
        for place in ("tls", "lib", "run"):
            os.mkdir(os.path.join(self.dir, place))
        key = os.path.join(self.dir, "tls", "server.key")
        self.assertEqual(self.said(
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=x",
            "-keyout", key, "-out", key.replace(".key", ".pem"))[0], 0)
        for before, after in (
                ("listen 443", f"listen 127.0.0.1:{free_port()}"),
                (":8444", f":{free_port()}"),
                ("/usr/local/share/waybill", ROOT),
                ("/etc/waybill", self.dir),
                ("/var/lib/waybill-nginx", self.dir + "/lib"),
                ("/run/waybill-nginx", self.dir + "/run")):
            self.assertIn(before, text)
            text = text.replace(before, after)
        conf = os.path.join(self.dir, "nginx.conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write(text)
        code, said = self.said("nginx", "-t", "-q", "-p", self.dir, "-c",
                               conf, "-e", "stderr")
        self.assertEqual((code, said), (0, ""))

    def test_supervisord_takes_its_example(self):
        with open(os.path.join(EXAMPLES, "supervisor", "waybill.conf"),
                  encoding="utf-8") as f:
            text = f.read()
        me = pwd.getpwuid(os.getuid()).pw_name
        for before, after in (("=waybill-owner", "=" + me),
                              ("=waybill:www-data", "=" + me),
                              ("user=waybill\n", f"user={me}\n"),
                              ("/var/log/waybill", self.dir)):
            self.assertIn(before, text)
            text = text.replace(before, after)
        conf = os.path.join(self.dir, "supervisord.conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write("[supervisord]\n" + text)
        code, said = self.said(
            "/usr/bin/python3", "-W", "ignore", "-c",
            "import sys; from supervisor.options import ServerOptions; "
            "o = ServerOptions(); o.realize(['-c', sys.argv[1]]); "
            "print(*sorted(p.name for g in o.process_group_configs "
            "for p in g.process_configs))", conf)
        self.assertEqual((code, said), (
            0, "parent_0 parent_1 waybill-retention worker_0"))


if __name__ == "__main__":
    unittest.main()
