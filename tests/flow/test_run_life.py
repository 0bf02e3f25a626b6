"""./run: second starts, the foreground, other users, broken data."""
# SPDX-License-Identifier: Apache-2.0
# check: slow
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from stack import (PROGRAMS, ROOT, Stack, alive, free_port, parent_of,
                   wait_for)

CAPABILITIES = "/wms-ingest/v1/capabilities"


class Restart(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.remove)
        self.addCleanup(self.stack.stop)

    def test_a_second_start_is_quick_and_keeps_data_and_key(self):
        s = self.stack
        s.start()
        key = s.key
        s.sql("CREATE TABLE kept (i INT); INSERT INTO kept VALUES (7)")
        pids = s.all_pids()
        s.stop()
        self.assertEqual([p for p in pids if alive(p)], [])
        self.assertEqual(s.run("status").returncode, 3)
        begun = time.monotonic()
        s.start()
        self.assertLess(time.monotonic() - begun, 15)
        self.assertEqual(s.key, key)
        self.assertEqual(s.sql("SELECT i FROM kept"), [["7"]])
        self.assertEqual(s.get(CAPABILITIES).status, 200)

    def test_what_a_killed_supervisord_left_is_found(self):
        s = self.stack
        s.start()
        orphans = s.all_pids()
        s.kill(s.supervisor_pid())
        s.start()
        self.assertEqual([p for p in orphans if alive(p)], [])
        self.assertEqual(s.get(CAPABILITIES).status, 200)
        pids = s.all_pids()
        s.kill(s.supervisor_pid())
        s.stop()
        self.assertEqual([p for p in pids if alive(p)], [])

    def test_other_settings_hold_at_the_next_start(self):
        s = self.stack
        s.start()
        s.stop()
        s.workers, s.port = 6, free_port()
        s.start()
        self.assertEqual(s.get(CAPABILITIES).status, 200)
        wait_for(lambda: len(s.worker_pids()) == 6)

    def test_an_existing_server_is_used_instead_of_a_private_one(self):
        s = self.stack
        s.start()
        with open(os.path.join(s.var, "waybill.conf"), encoding="utf-8") as f:
            lines = [line.strip() for line in f if line.startswith("db_")]
        pepper = os.path.join(s.var, "secret", "key_pepper")
        with Stack(conf=[*lines, f"key_pepper_file = {pepper}"]) as other:
            self.assertEqual(other.pids("mariadbd"), [])
            self.assertEqual(other.get(CAPABILITIES).status, 200)
            self.assertEqual(other.demo["WAYBILL_DB_SOCKET"],
                             s.demo["WAYBILL_DB_SOCKET"])


class KilledNginx(unittest.TestCase):
    """kill -9 of the master leaves workers that hold its ports."""

    def setUp(self):
        self.stack = Stack(workers=2)
        self.addCleanup(self.stack.remove)
        self.addCleanup(self.stack.stop)
        self.stack.start()
        wait_for(self.master)

    def master(self):
        return next((p for p in self.stack.pids("nginx")
                     if parent_of(p) == self.stack.supervisor_pid()), None)

    def kill_master(self):
        master = self.master()
        workers = [p for p in self.stack.pids("nginx") if p != master]
        self.assertGreater(len(workers), 1)
        self.stack.kill(master)
        return master, workers

    def test_its_workers_end_and_a_new_master_takes_over(self):
        s = self.stack
        master, workers = self.kill_master()
        wait_for(lambda: self.master() not in (None, master), 20,
                 "a new master")
        wait_for(lambda: not any(map(alive, workers)), 20,
                 "the end of the orphans")
        wait_for(lambda: len(s.pids("nginx")) == 1 + len(workers), 20)
        wait_for(lambda: "RUNNING" in s.supervisorctl("status", "nginx"))
        done = s.run("status")
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(s.get(CAPABILITIES).status, 200)

    def test_status_does_not_say_ready_for_orphans(self):
        """A master that cannot come back: its workers must not answer on."""
        s = self.stack
        path = os.path.join(s.var, "nginx.conf")
        shutil.copy(path, path + ".kept")
        with open(path, "a", encoding="utf-8") as f:
            f.write("nonsense;\n")
        _, workers = self.kill_master()
        wait_for(lambda: not any(map(alive, workers)), 20,
                 "the end of the orphans")
        done = s.run("status")
        self.assertEqual(done.returncode, 3, done)
        self.assertIn("not ready", done.stdout)
        shutil.copy(path + ".kept", path)
        s.supervisorctl("stop", "nginx")
        s.supervisorctl("start", "nginx")
        wait_for(lambda: s.run("status").returncode == 0, 30, "ready")
        self.assertEqual(s.get(CAPABILITIES).status, 200)


class DemoEnv(unittest.TestCase):
    def test_it_puts_the_operators_command_on_the_path(self):
        with Stack() as s:
            done = subprocess.run(
                ["/bin/sh", "-c", '. "$1" && waybill doctor', "sh",
                 os.path.join(s.var, "demo.env")], text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, done.stdout)


class Foreground(unittest.TestCase):
    def test_ctrl_c_stops_all_of_it_and_nothing_else(self):
        with Stack() as other:
            s = Stack()
            self.addCleanup(s.remove)
            self.addCleanup(s.stop)
            # A session of its own stands for the terminal.
            with subprocess.Popen(s.command(), text=True,
                                  env=s.environment(), start_new_session=True,
                                  stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as run:
                wait_for(lambda: s.run("status").returncode == 0, 60)
                pids = s.all_pids()
                self.assertGreater(len(pids), 8)
                os.killpg(run.pid, signal.SIGINT)
                self.assertEqual(run.wait(60), 130)
            self.assertEqual([p for p in pids if alive(p)], [])
            self.assertEqual(other.get(CAPABILITIES).status, 200)

    def test_a_killed_script_leaves_the_stack_to_run_stop(self):
        s = Stack()
        self.addCleanup(s.remove)
        self.addCleanup(s.stop)
        with subprocess.Popen(s.command(), env=s.environment(),
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as run:
            wait_for(lambda: os.path.exists(
                os.path.join(s.var, "demo.env")), 60)
            run.kill()
        s.load_demo()
        self.assertEqual(s.get(CAPABILITIES).status, 200)
        pids = s.all_pids()
        s.stop()
        self.assertEqual([p for p in pids if alive(p)], [])


class BrokenData(unittest.TestCase):
    def test_it_is_said_with_what_to_do(self):
        s = self.stack = Stack()
        self.addCleanup(s.remove)
        self.addCleanup(s.stop)
        self.stack.start()
        self.stack.stop()
        data = os.path.join(self.stack.var, "db", "data")
        with open(os.path.join(data, "ibdata1"), "r+b") as f:
            f.write(b"broken" * 20000)
        self.refused("does not start", "backup", data)
        shutil.rmtree(data)
        os.mkdir(data)
        self.refused("does not start", "move it away")

    def refused(self, *words):
        done = self.stack.run("start")
        self.assertEqual(done.returncode, 1, done)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(self.stack.all_pids(), [])


def copy_tree(target):
    """What ./run needs of the source tree, readable by everybody."""
    os.mkdir(target)
    for name in ("run", "build-aux", "nginx", "supervisor", "sql", "docs"):
        source = os.path.join(ROOT, name)
        if os.path.isdir(source):
            shutil.copytree(source, os.path.join(target, name))
        else:
            shutil.copy2(source, target)
    subprocess.run(["chmod", "-R", "a+rX", target], check=True)


@unittest.skipUnless(os.getuid() == 0, "only root can become another user")
class OrdinaryUser(unittest.TestCase):
    def setUp(self):
        # Outside the test's folder, which only root may enter.
        self.base = tempfile.mkdtemp(prefix="waybill-user.", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base, True)
        os.chmod(self.base, 0o755)
        tree = os.path.join(self.base, "tree")
        copy_tree(tree)
        programs = os.path.join(self.base, "programs")
        os.mkdir(programs)
        for name in ("waybill", "waybill-fcgi", "waybill-worker"):
            shutil.copy2(os.path.join(PROGRAMS, name), programs)
        subprocess.run(["chmod", "-R", "a+rX", self.base], check=True)
        self.user = pwd.getpwnam("nobody").pw_uid
        os.environ["WAYBILL_TEST_TMP"], before = self.base, os.environ.get(
            "WAYBILL_TEST_TMP", "/tmp")
        self.stack = Stack(user=self.user, programs=programs,
                           run=os.path.join(tree, "run"))
        os.environ["WAYBILL_TEST_TMP"] = before
        self.addCleanup(self.stack.stop)

    def test_the_whole_stack_runs_without_root(self):
        s = self.stack
        s.start()
        self.assertEqual(s.get(CAPABILITIES).status, 200)
        for pid in s.all_pids():
            self.assertEqual(os.stat(f"/proc/{pid}").st_uid, self.user)

    def test_a_folder_of_somebody_else_is_refused(self):
        os.chown(self.stack.var, 0, 0)
        done = self.stack.run("start")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("WAYBILL_VAR", done.stderr)
        os.chown(self.stack.var, self.user, self.user)

    def test_a_low_port_is_refused(self):
        with open("/proc/sys/net/ipv4/ip_unprivileged_port_start",
                  encoding="ascii") as f:
            if int(f.read()) <= 81:
                self.skipTest("this machine gives low ports to everybody")
        self.stack.port = 81
        done = self.stack.run("start")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("root", done.stderr)


if __name__ == "__main__":
    unittest.main()
