"""waybill doctor: every check is well on a good installation, and says what is
wrong and how to mend it when the thing is broken."""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import json
import os
import resource
import shutil
import socket
import subprocess
import unittest

from stack import Stack, temp_dir, wait_for

UOMS = "/wms-ingest/v1/master/uoms"


class Doctor(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack(database=["log-bin = bin", "sync-binlog = 1"])
        cls.stack.start()

    @classmethod
    def tearDownClass(cls):
        cls.stack.stop()
        cls.stack.remove()

    def path(self, *words):
        return os.path.join(self.stack.var, *words)

    def run_doctor(self, *words, json_=True, before=None, **env):
        s = self.stack
        done = subprocess.run(
            [os.path.join(s.programs, "waybill"), "--conf",
             self.path("waybill.conf"), *(["--json"] if json_ else []),
             "doctor", "--socket", self.path("run", "fcgi.sock"), "--url",
             s.url, "--ca", self.path("tls", "ca.pem"), *words], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
            preexec_fn=before, env={**s.environment(), **env})
        return done

    def rows(self, *words, **how):
        done = self.run_doctor(*words, **how)
        self.assertIn(done.returncode, (0, 1), done)
        rows = {r["check"]: r for r in json.loads(done.stdout)}
        bad = sorted(n for n, r in rows.items() if r["result"] == "BAD")
        self.assertEqual(done.returncode, 1 if bad else 0, done)
        return rows, bad

    def well(self):
        rows, bad = self.rows()
        self.assertEqual(bad, [], [rows[n] for n in bad])

    def says(self, check, *advice, alone=True, words=(), **how):
        """That check is BAD and its advice holds these words; no other one,
        unless alone is False."""
        rows, bad = self.rows(*words, **how)
        self.assertIn(check, bad, rows[check])
        for word in advice:
            self.assertIn(word, rows[check]["advice"])
        if alone:
            self.assertEqual(bad, [check], [rows[n] for n in bad])

    @contextlib.contextmanager
    def mode(self, path, mode):
        before = os.stat(path).st_mode & 0o7777
        os.chmod(path, mode)
        try:
            yield
        finally:
            os.chmod(path, before)

    def global_is(self, name, value, check, *advice, **how):
        before = self.stack.sql(f"SELECT @@global.{name}")[0][0]
        self.stack.sql(f"SET GLOBAL {name} = {value}")
        try:
            self.says(check, *advice, **how)
        finally:
            self.stack.sql(f"SET GLOBAL {name} = '{before}'"
                           if not before.isdigit() else
                           f"SET GLOBAL {name} = {before}")

    def test_a_good_installation_is_well(self):
        done = self.run_doctor(json_=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0].split(),
                         ["check", "result", "found", "advice"])
        rows, _ = self.rows()
        self.assertEqual(len(lines) - 1, len(rows))
        for row in rows.values():
            self.assertEqual((row["result"], row["advice"]), ("ok", ""), row)

    def test_what_was_not_asked_for_is_not_bad(self):
        done = self.stack.waybill("--json", "doctor")
        rows = {r["check"]: r["result"] for r in json.loads(done.stdout)}
        self.assertEqual({n for n, r in rows.items() if r == "-"},
                         {"TLS certificate", "FastCGI socket"})

    def test_bad_is_exit_status_1_and_a_sentence(self):
        with self.mode(self.path("secret", "key_pepper"), 0o640):
            done = self.run_doctor(json_=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 of ", done.stderr)
        self.assertIn("chmod 600", done.stdout)

    # Files.

    def test_a_secret_that_others_can_read(self):
        for name in ("key_pepper", "db_service", "db_owner"):
            with self.subTest(name), self.mode(self.path("secret", name),
                                               0o604):
                self.says("secret files are private", "chmod 600", name)
        with self.mode(self.path("secret"), 0o777):
            self.says("secret files are private", "chmod go-w")
        self.well()

    def test_a_settings_file_that_others_can_change(self):
        with self.mode(self.path("waybill.conf"), 0o620):
            self.says("settings file cannot be changed by others",
                      "chmod go-w")

    def test_a_pepper_that_is_none(self):
        path = os.path.join(self.folder(), "pepper")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w",
                  encoding="ascii") as f:
            f.write("not hexadecimal\n")
        self.says("pepper of the API keys", "64 hex digits",
                  WAYBILL_CONF_KEY_PEPPER_FILE=path)

    def folder(self):
        folder = temp_dir("doctor")
        self.addCleanup(shutil.rmtree, folder, True)
        return folder

    def test_shared_memory_that_is_none_or_everybodys(self):
        check = "shared memory files"
        self.says(check, "no plain file",
                  WAYBILL_CONF_METRICS_FILE=self.folder())
        self.says(check, "cannot look at",
                  WAYBILL_CONF_INFLIGHT_FILE="/nonexistent/folder/file")
        with self.mode(self.path("run", "inflight"), 0o666):
            self.says(check, "chmod 600")

    def test_too_few_descriptors(self):
        self.says("file descriptors", "LimitNOFILE",
                  before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                                    (256, 256)))

    def test_a_library_older_than_the_one_it_was_built_with(self):
        """Another library of the same name is put before the real one."""
        folder = self.folder()
        source = os.path.join(folder, "old.c")
        with open(source, "w", encoding="ascii") as f:
            f.write("const char *zlibVersion(void);\n"
                    "const char *zlibVersion(void) { return \"1.0.4\"; }\n")
        library = os.path.join(folder, "old.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source],
                       check=True)
        sanitized = subprocess.run(
            ["ldd", os.path.join(self.stack.programs, "waybill")], text=True,
            stdout=subprocess.PIPE, check=True).stdout
        if "libasan" in sanitized:
            self.skipTest("the sanitizer wants to be loaded first")
        self.says("libraries are those it was built with", "zlib is 1.0.4",
                  "build", LD_PRELOAD=library)

    # The parents.

    def test_two_parents_that_do_not_share_a_file(self):
        rows, _ = self.rows()
        row = rows["parents share their files"]
        self.assertEqual((row["result"], row["found"]), ("ok", "2 parents"))
        for name in ("limit_file", "inflight_file", "metrics_file"):
            with self.subTest(name):
                self.says("parents share their files", name + " is not set",
                          "2 waybill-fcgi parents",
                          **{"WAYBILL_CONF_" + name.upper(): ""})

    def test_one_parent_needs_no_shared_file(self):
        self.stack.supervisorctl("stop", "fcgi:parent_1")
        try:
            rows, bad = self.rows(WAYBILL_CONF_LIMIT_FILE="")
            self.assertEqual(bad, [])
            self.assertEqual(rows["parents share their files"]["found"],
                             "1 parents")
        finally:
            self.stack.supervisorctl("start", "fcgi:parent_1")
        wait_for(lambda: len(self.stack.parents()) == 2)

    def test_parents_of_another_installation_are_not_counted(self):
        conf = os.path.join(self.folder(), "waybill.conf")
        shutil.copy(self.path("waybill.conf"), conf)
        done = subprocess.run(
            [os.path.join(self.stack.programs, "waybill"), "--conf", conf,
             "--json", "doctor"], text=True, stdout=subprocess.PIPE,
            check=False, env={**self.stack.environment(),
                              "WAYBILL_CONF_LIMIT_FILE": ""})
        row, = (r for r in json.loads(done.stdout)
                if r["check"] == "parents share their files")
        self.assertEqual((row["result"], row["found"]), ("ok", "0 parents"))

    # The socket and TLS.

    def test_a_socket_that_everybody_may_speak_to(self):
        with self.mode(self.path("run", "fcgi.sock"), 0o666):
            self.says("FastCGI socket", "0660")

    def test_a_socket_that_nobody_listens_on(self):
        path = os.path.join(self.folder(), "s")
        self.says("FastCGI socket", "cannot look at", words=("--socket", path))
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(path)
        os.chmod(path, 0o660)
        self.says("FastCGI socket", "cannot connect",
                  words=("--socket", path))
        self.says("FastCGI socket", "no socket",
                  words=("--socket", self.path("waybill.conf")))

    def openssl(self, *words):
        subprocess.run(["openssl", *words], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @contextlib.contextmanager
    def certificate(self, days, names):
        """nginx serves another certificate of the same CA."""
        server, tls = self.path("tls", "server.pem"), self.path("tls")
        kept = os.path.join(self.folder(), "server.pem")
        shutil.copy(server, kept)
        more = os.path.join(self.folder(), "more")
        with open(more, "w", encoding="ascii") as f:
            f.write(f"subjectAltName={names}\n")
        self.openssl("x509", "-req", "-in", tls + "/server.csr", "-days",
                     str(days), "-extfile", more, "-CA", tls + "/ca.pem",
                     "-CAkey", tls + "/ca.key", "-CAcreateserial", "-out",
                     server)
        try:
            self.reload(server)
            yield
        finally:
            shutil.copy(kept, server)
            self.reload(server)

    def reload(self, server):
        """Until nginx shows the certificate that is in the file."""
        self.stack.supervisorctl("signal", "HUP", "nginx")
        want = subprocess.run(
            ["openssl", "x509", "-in", server, "-noout", "-fingerprint"],
            check=True, stdout=subprocess.PIPE).stdout

        def shown():
            got = subprocess.run(
                f"openssl s_client -connect 127.0.0.1:{self.stack.port} "
                "</dev/null 2>/dev/null | openssl x509 -noout -fingerprint",
                shell=True, check=False, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL).stdout
            return got == want

        wait_for(shown, 60, "the new certificate")

    def test_a_certificate_that_ends_soon(self):
        with self.certificate(20, "IP:127.0.0.1"):
            self.says("TLS certificate", "ends in 19 days", "renew")
        self.well()

    def test_a_certificate_of_another_name(self):
        with self.certificate(300, "DNS:other.example"):
            self.says("TLS certificate", "127.0.0.1")

    def test_a_certificate_of_a_ca_that_is_not_known(self):
        path = os.path.join(self.folder(), "ca.pem")
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                     "ec_paramgen_curve:prime256v1", "-nodes", "-days", "9",
                     "-subj", "/CN=another", "-keyout", path + ".key", "-out",
                     path)
        self.says("TLS certificate", "certificate", words=("--ca", path))

    def test_a_service_without_workers(self):
        self.stack.supervisorctl("stop", "fcgi:*")
        try:
            self.says("TLS certificate", "/healthz answers 503",
                      alone=False)
        finally:
            self.stack.supervisorctl("start", "fcgi:*")
        wait_for(lambda: self.stack.admin("/readyz").status == 200)

    # The database.

    def test_a_database_that_is_away_is_told_and_the_rest_looked_at(self):
        rows, bad = self.rows(WAYBILL_CONF_DB_SOCKET="/nonexistent")
        self.assertIn("database as the service, durable", bad)
        self.assertIn("database as the owner", bad)
        self.assertIn("not looked at", rows["clocks agree"]["advice"])
        self.assertEqual(rows["secret files are private"]["result"], "ok")

    def test_a_password_that_is_wrong(self):
        path = os.path.join(self.folder(), "password")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w",
                  encoding="ascii") as f:
            f.write("wrong-and-secret\n")
        for check, name in (("database as the service, durable",
                             "DB_PASSWORD_FILE"),
                            ("database as the owner",
                             "DB_OWNER_PASSWORD_FILE")):
            with self.subTest(check):
                done = self.run_doctor(**{"WAYBILL_CONF_" + name: path})
                self.assertNotIn("wrong-and-secret",
                                 done.stdout + done.stderr)
                self.says(check, "1045", alone=False,
                          **{"WAYBILL_CONF_" + name: path})

    def test_durability_that_is_relaxed(self):
        name = "innodb_flush_log_at_trx_commit"
        self.global_is(name, 2, "database as the service, durable", name,
                       alone=False)
        self.global_is(name, 2, "log is flushed at every commit", name,
                       WAYBILL_CONF_DB_ALLOW_RELAXED_DURABILITY="true")
        self.well()

    def test_settings_of_the_server(self):
        for name, value, check in (
                ("sync_binlog", 0, "binary log is flushed at every commit"),
                ("max_allowed_packet", 8 << 20, "packets are large enough"),
                ("max_connections", 19, "connections are enough"),
                ("read_only", 1, "database takes writes")):
            with self.subTest(name):
                self.global_is(name, value, check, name)
        self.well()

    def test_clocks_that_differ(self):
        """What a session of the service does first is to set its time."""
        self.stack.sql("SET GLOBAL init_connect = "
                       "'SET timestamp = UNIX_TIMESTAMP() - 3600'")
        try:
            self.says("clocks agree", "chrony", alone=False)
        finally:
            self.stack.sql("SET GLOBAL init_connect = ''")
        self.well()

    def test_a_schema_that_is_behind(self):
        self.stack.sql("CREATE TABLE keep_it AS SELECT version, finished_at "
                       "FROM schema_version; UPDATE schema_version SET "
                       "finished_at = NULL ORDER BY version DESC LIMIT 1")
        try:
            self.says("schema is current", "waybill migrate")
        finally:
            self.stack.sql("UPDATE schema_version s JOIN keep_it k USING "
                           "(version) SET s.finished_at = k.finished_at; "
                           "DROP TABLE keep_it")
        self.well()

    # Rights.

    def test_rights_that_are_not_as_listed(self):
        service, ro = "waybill@localhost", "waybill_ro@localhost"
        for check, broken, word in (
                ("service may do what is listed",
                 f"GRANT DELETE ON item TO {service}", "Delete ON item"),
                ("service may do what is listed",
                 f"REVOKE INSERT ON batch FROM {service}", "INSERT ON batch"),
                ("service may do what is listed",
                 f"GRANT SELECT ON waybill.* TO {service}", "the schema"),
                ("read-only account may do what is listed",
                 f"GRANT SELECT ON credential TO {ro}", "credential"),
                ("read-only account may do what is listed",
                 f"REVOKE SELECT ON v_item FROM {ro}", "v_item")):
            with self.subTest(broken):
                self.stack.sql(broken)
                self.says(check, word, "waybill migrate")
                self.stack.waybill("migrate")
                self.well()

    def test_a_service_that_may_change_the_schema(self):
        self.stack.sql("GRANT CREATE ON partner TO waybill@localhost")
        self.says("service has no DDL", "waybill migrate", alone=False)
        self.stack.waybill("migrate")
        self.well()

    def test_rights_outside_the_schema(self):
        for right in ("PROCESS ON *.*", "SELECT ON mysql.db",
                      "SELECT ON mysql.*"):
            with self.subTest(right):
                self.stack.sql(f"GRANT {right} TO waybill@localhost")
                try:
                    self.says("service has no rights elsewhere",
                              "SHOW GRANTS")
                finally:
                    self.stack.sql(f"REVOKE {right} FROM waybill@localhost")
        self.says("service has no rights elsewhere", "db_service_account",
                  alone=False,
                  WAYBILL_CONF_DB_SERVICE_ACCOUNT="waybill@otherhost")

    def test_an_owner_that_may_not_see_the_rights(self):
        right = "SELECT ON mysql.tables_priv"
        self.stack.sql(f"REVOKE {right} FROM waybill_owner@localhost")
        try:
            self.says("service may do what is listed", "sql/accounts.sql",
                      alone=False)
        finally:
            self.stack.sql(f"GRANT {right} TO waybill_owner@localhost")

    # What must run.

    def last_partitions(self, table, count):
        return [r[0] for r in self.stack.sql(
            "SELECT partition_name FROM information_schema.partitions WHERE "
            f"table_schema = 'waybill' AND table_name = '{table}' AND "
            "partition_name <> 'pmax' ORDER BY partition_ordinal_position "
            f"DESC LIMIT {count}")]

    def test_retention_that_does_not_run(self):
        s = self.stack
        s.supervisorctl("stop", "retention")
        try:
            for count, check, alone in ((2, "retention has run lately", True),
                                        (7, "partitions are ahead", False)):
                with self.subTest(count):
                    names = ", ".join(self.last_partitions("batch", count))
                    s.sql(f"ALTER TABLE batch DROP PARTITION {names}")
                    self.says(check, "retention run", alone=alone)
                    s.waybill("retention", "run")
                    self.well()
        finally:
            s.supervisorctl("start", "retention")

    def test_jobs_that_nobody_takes(self):
        s = self.stack
        s.supervisorctl("stop", "worker:*")
        try:
            answer = s.post(UOMS + "?mode=bulk", {
                "items": [{"source_id": "EA", "name": "each"}]})
            self.assertEqual(answer.status, 202, answer)
            self.well()
            s.sql("UPDATE job SET created_at = NOW(3) - INTERVAL 1 HOUR "
                  "WHERE open_as IS NOT NULL")
            self.says("jobs get on", "waybill-worker", "1 jobs")
        finally:
            s.supervisorctl("start", "worker:*")
        wait_for(lambda: s.sql("SELECT COUNT(*) FROM job WHERE open_as IS "
                               "NOT NULL") == [["0"]], 60, "the job's end")
        self.well()


class Doublewrite(unittest.TestCase):
    def test_pages_that_are_written_once(self):
        """This setting takes a restart of the server."""
        with Stack(database=["innodb-doublewrite = 0"]) as s:
            done = s.waybill("--json", "doctor", check=False)
            rows = [r for r in json.loads(done.stdout)
                    if r["result"] == "BAD"]
            self.assertEqual([r["check"] for r in rows],
                             ["pages are written twice"])
            self.assertIn("innodb_doublewrite", rows[0]["advice"])
            self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
