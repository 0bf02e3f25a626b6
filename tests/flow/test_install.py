"""make install, and configure on a machine that lacks something."""
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import unittest

from stack import PROGRAMS, ROOT, temp_dir

PACKAGES = {"mysqlclient": "default-libmysqlclient-dev", "uuid": "uuid-dev",
            "libcrypto": "libssl-dev", "zlib": "zlib1g-dev",
            "cunit": "libcunit1-dev", "fcgi": "libfcgi-dev"}


class Install(unittest.TestCase):
    def setUp(self):
        self.dir = temp_dir("install")
        self.addCleanup(shutil.rmtree, self.dir)

    def configure(self, **env):
        return subprocess.run([os.path.join(ROOT, "configure")], text=True,
                              cwd=self.dir, env={**os.environ, **env},
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)

    def test_programs_and_pages_are_put_in_place(self):
        done = subprocess.run(
            ["make", "-C", PROGRAMS, "install", "DESTDIR=" + self.dir],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        found = {}
        for folder, _, names in os.walk(self.dir):
            for name in names:
                path = os.path.join(folder, name)
                found[os.path.relpath(path, self.dir)] = \
                    os.stat(path).st_mode & 0o777
        programs = ["waybill", "waybill-fcgi", "waybill-worker"]
        pages = ["man1/waybill.1", "man5/waybill.conf.5",
                 "man8/waybill-fcgi.8", "man8/waybill-worker.8"]
        self.assertEqual(found, {
            **{"usr/local/bin/" + p: 0o755 for p in programs},
            **{"usr/local/share/man/" + p: 0o644 for p in pages}})
        for name in programs:
            done = subprocess.run(
                [os.path.join(self.dir, "usr/local/bin", name), "--version"],
                text=True, stdout=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 0)
            self.assertRegex(done.stdout, rf"^{name} [0-9.]+\n$")

    def test_configure_names_all_that_is_missing_and_its_package(self):
        done = self.configure(PKG_CONFIG_LIBDIR="/nonexistent",
                              PKG_CONFIG_PATH="")
        self.assertNotEqual(done.returncode, 0)
        said = done.stdout[done.stdout.index("configure: error:"):]
        for name, package in PACKAGES.items():
            self.assertIn(f"{name}: apt-get install {package}\n", said)

    def test_configure_names_the_one_that_is_missing_and_no_other(self):
        """The .pc files of all but one are in the path."""
        dirs = subprocess.run(
            ["pkg-config", "--variable", "pc_path", "pkg-config"], text=True,
            stdout=subprocess.PIPE, check=True).stdout.strip().split(":")
        only = os.path.join(self.dir, "pc")
        os.mkdir(only)
        for folder in filter(os.path.isdir, dirs):
            for name in os.listdir(folder):
                if name != "uuid.pc" and not os.path.exists(
                        os.path.join(only, name)):
                    os.symlink(os.path.join(folder, name),
                               os.path.join(only, name))
        done = self.configure(PKG_CONFIG_LIBDIR=only, PKG_CONFIG_PATH="")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("uuid: apt-get install uuid-dev", done.stdout)
        for name in set(PACKAGES) - {"uuid"}:
            self.assertNotIn(f"  {name}: apt-get", done.stdout)

    def test_configure_says_how_to_get_parson(self):
        done = self.configure(PKG_CONFIG_LIBDIR="/nonexistent",
                              PKG_CONFIG_PATH="")
        if os.path.exists(os.path.join(ROOT, "var/parson/lib/libparson.a")):
            self.skipTest("parson is in the clone's var")
        self.assertIn("build-aux/get-parson.sh", done.stdout)


if __name__ == "__main__":
    unittest.main()
