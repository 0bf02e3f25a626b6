"""./run: starts, keeps, stops; and says what to do when it cannot."""
# SPDX-License-Identifier: Apache-2.0
# check: slow
import os
import re
import shutil
import socket
import stat
import subprocess
import unittest

from stack import ROOT, Stack, free_port, read_env, wait_for

NAMES = ["WAYBILL_URL", "WAYBILL_ADMIN_URL", "WAYBILL_CA", "WAYBILL_PARTNER",
         "WAYBILL_KEY", "WAYBILL_CONF", "WAYBILL_DB_SOCKET", "WAYBILL_DB_NAME",
         "WAYBILL_DB_RO_USER", "WAYBILL_BIN"]
CAPABILITIES = "/wms-ingest/v1/capabilities"


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


class Life(unittest.TestCase):
    """One stack, looked at from start to stop."""

    @classmethod
    def setUpClass(cls):
        cls.stack = Stack(name="a folder")
        cls.said = cls.stack.start(
            WAYBILL_CONF="/nowhere", WAYBILL_CONF_DB_NAME="elsewhere",
            WAYBILL_KEY="x", MYSQL_HOST="192.0.2.1").stdout

    @classmethod
    def tearDownClass(cls):
        cls.stack.stop()
        cls.stack.remove()

    def test_the_printed_curl_command_works(self):
        command = re.search(r"^curl .*$", self.said, re.M).group()
        done = subprocess.run(["bash", "-c", command + " -sSf"], text=True,
                              stdout=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertIn("{", done.stdout)
        self.assertIn(self.stack.url, self.said)

    def test_demo_env_has_its_form(self):
        path = os.path.join(self.stack.var, "demo.env")
        self.assertEqual(mode(path), 0o600)
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
        self.assertEqual(lines.pop(), 'export PATH="$WAYBILL_BIN:$PATH"')
        for line in lines:
            self.assertRegex(line, r"^export WAYBILL_[A-Z_]+='[^']*'$")
        demo = read_env(path)
        self.assertEqual(list(demo), [*NAMES, "PATH"])
        for name in ("CA", "CONF", "DB_SOCKET", "BIN"):
            value = demo["WAYBILL_" + name]
            self.assertTrue(os.path.isabs(value) and os.path.exists(value),
                            value)
        self.assertEqual(demo["WAYBILL_PARTNER"], "DEMO")
        self.assertRegex(demo["WAYBILL_URL"], r"^https://[^/]+:\d+$")

    def test_folders_and_secrets_are_private(self):
        for name in ("", "db", "log", "tls", "secret", "tmp"):
            self.assertEqual(mode(os.path.join(self.stack.var, name)), 0o700)
        for name in ("secret/db_owner", "secret/key_pepper",
                     "secret/demo_key", "tls/ca.key", "tls/server.key"):
            path = os.path.join(self.stack.var, name)
            self.assertEqual(mode(path) & 0o077, 0, path)

    def test_the_certificate_names_localhost_and_the_address(self):
        for host in ("localhost", "127.0.0.1"):
            sock = socket.create_connection(("127.0.0.1", self.stack.port))
            with self.stack.tls().wrap_socket(sock, server_hostname=host) as s:
                self.assertIn(s.version(), ("TLSv1.2", "TLSv1.3"))

    def test_the_database_is_durable_and_has_no_tcp(self):
        rows = dict(self.stack.sql(
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('skip_networking',"
            "'innodb_flush_log_at_trx_commit','innodb_doublewrite')"))
        self.assertEqual(rows["skip_networking"], "ON")
        self.assertEqual(rows["innodb_flush_log_at_trx_commit"], "1")
        self.assertEqual(rows["innodb_doublewrite"], "ON")

    def test_the_read_only_user_reads_views_and_nothing_else(self):
        user = self.stack.demo["WAYBILL_DB_RO_USER"]
        views = [row[0] for row in self.stack.sql(
            "SELECT table_name FROM information_schema.views "
            "WHERE table_schema = 'waybill'")]
        for view in views:
            self.stack.sql(f"SELECT * FROM {view} LIMIT 1", user=user)
        with self.assertRaises(AssertionError):
            self.stack.sql("CREATE TABLE waybill.x (i INT)", user=user)

    def test_status_tells_and_a_second_start_is_harmless(self):
        done = self.stack.run("status")
        self.assertEqual(done.returncode, 0, done)
        for name in ("mariadb", "nginx", "worker:worker_0", "fcgi:parent_0",
                     "fcgi:parent_1"):
            self.assertIn(name, done.stdout)
        before = self.stack.all_pids()
        again = self.stack.run("start")
        self.assertEqual(again.returncode, 0, again)
        self.assertIn("runs already", again.stderr)
        self.assertEqual(self.stack.all_pids(), before)

    def test_logs_shows_the_logs(self):
        done = self.stack.run("logs")
        self.assertEqual(done.returncode, 0)
        self.assertIn("fcgi_0.log", done.stdout)

    def test_workers_are_as_many_as_asked_for(self):
        self.assertEqual(len(self.stack.parents()), 2)
        wait_for(lambda: len(self.stack.worker_pids()) == 4)

    def test_a_dead_database_comes_back(self):
        self.stack.kill(self.stack.pids("mariadbd"))
        wait_for(lambda: self.stack.admin("/readyz").status == 503, 10)
        wait_for(lambda: self.stack.admin("/readyz").status == 200, 30)

    def test_a_second_copy_runs_beside_it(self):
        with Stack() as other:
            self.assertEqual(other.get(CAPABILITIES).status, 200)
            self.assertEqual(self.stack.get(CAPABILITIES).status, 200)
            # Each knows only its own keys.
            other.key = self.stack.key
            self.assertEqual(other.get(CAPABILITIES).status, 401)
        self.assertEqual(self.stack.get(CAPABILITIES).status, 200)


class Sentences(unittest.TestCase):
    """What cannot work is said in a sentence that tells what to do."""

    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.remove)
        self.addCleanup(self.stack.stop)

    def refused(self, *words, **more):
        done = self.stack.run("start", **more)
        self.assertEqual(done.returncode, 1, done)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(self.stack.all_pids(), [])

    def test_a_port_in_use(self):
        for name in ("port", "admin_port"):
            with self.subTest(name), socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                s.listen(1)
                setattr(self.stack, name, s.getsockname()[1])
                self.refused("in use", "WAYBILL_" + name.upper())
                setattr(self.stack, name, free_port())

    def test_settings_that_are_no_numbers(self):
        self.refused("WAYBILL_PORT", WAYBILL_PORT="http")
        self.refused("WAYBILL_WORKERS", WAYBILL_WORKERS="0")
        self.refused("different", WAYBILL_PORT=str(self.stack.admin_port))

    def test_a_path_that_configuration_files_cannot_hold(self):
        self.refused("choose another", WAYBILL_VAR="/tmp/it's")

    def test_a_bad_line_in_local_conf(self):
        self.stack.write("local.conf", ["no_such_key = 1"])
        self.refused("no_such_key")

    def test_wrong_usage(self):
        done = self.stack.run("restart-everything")
        self.assertEqual(done.returncode, 2)
        self.assertIn("usage", done.stderr)

    def test_a_clone_in_a_path_with_a_space(self):
        tree = os.path.join(self.stack.base, "a clone")
        os.mkdir(tree)
        shutil.copy2(os.path.join(ROOT, "run"), tree)
        shutil.copytree(os.path.join(ROOT, "build-aux"),
                        os.path.join(tree, "build-aux"))
        done = subprocess.run([os.path.join(tree, "run"), "start"], text=True,
                              env=self.stack.environment(), check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("space", done.stderr)



if __name__ == "__main__":
    unittest.main()
