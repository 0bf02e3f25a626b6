"""A MariaDB of its own and, where asked for, waybill-fcgi on a socket: what a
test of one program needs. No nginx, no supervisord.

    with Service() as s:
        s.waybill("partner", "add", "ACME")
        key = s.key("ACME")
        s.sql("INSERT ...")
        s.get("/wms-ingest/v1/...", key).json()

The programs are those of WAYBILL_TEST_PROGRAMS (or WAYBILL_BIN). With
WAYBILL_TEST_FLOW_SOCKET the server behind that socket, where root needs no
password, is used instead, its schema `waybill` being dropped first: for other
servers, such as MySQL.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import fcgi_client as fcgi
import leaks

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
PROGRAMS = (os.environ.get("WAYBILL_TEST_PROGRAMS") or
            os.environ.get("WAYBILL_BIN") or
            os.path.join(ROOT, "var", "check", "plain"))
GIVEN = os.environ.get("WAYBILL_TEST_FLOW_SOCKET")
MARIADB = os.path.join(ROOT, "tests", "lib", "mariadb.sh")


class Service:
    def __init__(self, **conf):
        self.dir = tempfile.mkdtemp(
            prefix="wb.", dir=os.environ.get("WAYBILL_TEST_TMP", "/tmp"))
        self.db = os.path.join(self.dir, "db")
        self.conf_path = os.path.join(self.dir, "waybill.conf")
        self.socket = os.path.join(self.dir, "s")
        self.log = os.path.join(self.dir, "log")
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith("WAYBILL_")}
        self.fcgi = None
        self.keys = set()
        pepper = os.path.join(self.dir, "pepper")
        with open(os.open(pepper, os.O_CREAT | os.O_WRONLY, 0o600),
                  "w") as f:
            f.write("ab" * 32 + "\n")
        self.conf = {"key_pepper_file": pepper, "workers": 2, **conf}

    def __enter__(self):
        try:
            self.conf["db_socket"] = GIVEN or subprocess.run(
                ["sh", MARIADB, "start", self.db], check=True, text=True,
                stdout=subprocess.PIPE).stdout.strip()
            if GIVEN:
                self.sql("DROP DATABASE IF EXISTS waybill", schema="")
            with open(self.conf_path, "w") as f:
                f.writelines(f"{k} = {v}\n" for k, v in self.conf.items())
            with open(os.path.join(ROOT, "sql", "accounts.sql")) as f:
                accounts = f.read()
            for name in ("OWNER", "SERVICE", "RO"):
                accounts = accounts.replace(f"@{name}_PASSWORD@", "")
            self.sql(accounts, schema="")
            self.waybill("migrate")
            return self
        except BaseException:
            self.close()
            raise

    def __exit__(self, *error):
        self.close()

    def close(self):
        told = []
        if self.fcgi:
            told = self.secrets().in_processes([self.fcgi.pid])
            self.fcgi.send_signal(signal.SIGTERM)
            self.fcgi.wait(30)
        if not GIVEN:
            subprocess.run(["sh", MARIADB, "kill", self.db], check=False)
        told += self.secrets().in_logs(
            [self.log, os.path.join(self.db, "error.log")])
        shutil.rmtree(self.dir)
        assert not told, f"a secret can be read: {told[:20]}"

    def secrets(self):
        return leaks.Secrets(self.keys, [self.conf["key_pepper_file"]])

    def sql(self, text, user="root", schema="waybill", ok=True):
        """Rows as lists of texts; with ok=False what the client said."""
        got = subprocess.run(
            ["mariadb", "--no-defaults", "--batch", "--skip-column-names",
             "--default-character-set=utf8mb4", "--user", user, "--socket",
             self.conf["db_socket"], *([schema] if schema else [])],
            input=text.encode(), capture_output=True, env=self.env)
        if not ok:
            return got.stderr.decode()
        assert got.returncode == 0, got.stderr.decode()
        return [line.split("\t") for line in got.stdout.decode().splitlines()]

    def command(self, *words):
        return [os.path.join(PROGRAMS, "waybill"), "--conf", self.conf_path,
                *words]

    def run(self, *words, **env):
        return subprocess.run(self.command(*words), text=True, timeout=120,
                              capture_output=True, env={**self.env, **env})

    def waybill(self, *words):
        got = self.run(*words)
        assert got.returncode == 0, (words, got.returncode, got.stderr)
        self.keys.update(leaks.keys_in(got.stdout))
        return got.stdout

    def waybill_json(self, *words):
        return json.loads(self.waybill("--json", *words))

    def key(self, partner, scope="ingest,read,admin"):
        return self.waybill("key", "create", partner, "--scope",
                            scope).strip()

    def serve(self):
        with open(self.log, "ab") as err:
            self.fcgi = subprocess.Popen(
                [os.path.join(PROGRAMS, "waybill-fcgi"), "--conf",
                 self.conf_path, "--listen", self.socket], env=self.env,
                stdin=subprocess.DEVNULL, stderr=err)
        end = time.monotonic() + 30
        while not os.path.exists(self.socket):
            assert time.monotonic() < end, "waybill-fcgi did not start"
            time.sleep(0.02)
        return self

    def request(self, method, uri, key=None, body=b"", headers=()):
        headers = list(headers)
        if key:
            headers.append(("Authorization", f"Bearer {key}"))
        return fcgi.request(self.socket, method=method, uri=uri,
                            headers=headers, body=body)

    def get(self, uri, key=None):
        return self.request("GET", uri, key)
