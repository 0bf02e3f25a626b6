"""Nothing secret can be read: what is quoted to a caller is in no log, and the
search that every stack goes through when it stops finds what it is for."""
# SPDX-License-Identifier: Apache-2.0
import os
import random
import shutil
import signal
import subprocess
import unittest

import malformed
from items import Partner, sku
from leaks import CANARY
from problem import parsed
from stack import Stack, temp_dir, wait_for


class Secrets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack(workers=2)
        cls.stack.start()
        cls.partner = Partner(cls.stack)

    @classmethod
    def tearDownClass(cls):
        cls.partner.close()
        try:
            cls.stack.stop()
        finally:
            cls.stack.remove()

    def test_what_an_answer_quotes_is_in_no_log(self):
        canary = CANARY.encode()
        maker = malformed.Maker(random.Random(1), self.partner.key)
        quoting = {
            "an unknown parameter": maker.request(
                target=malformed.UOMS + b"?" + canary + b"=1"),
            "a broken parameter": maker.request(
                target=malformed.UOMS + b"?" + canary + b"=%"),
            "a doubled parameter": maker.request(
                target=malformed.UOMS + b"?" + canary + b"&" + canary),
            "a header": maker.request(headers=[(canary, b"\x1b")])}
        for name, data in quoting.items():
            with self.subTest(name):
                answer = parsed(self.stack.raw(data))
                self.assertEqual(answer.status, 400, answer)
                self.assertIn(CANARY, answer.json()["detail"])
        silent = [maker.request(body) for body in (
            b'{"items":[{"%b":1,"%b":2}]}' % (canary, canary),
            b'{"%b":[]}' % canary, b'{"items":["%b"' % canary,
            b'{"items":[{"source_id":["%b"]}]}' % canary,
            b'{"items":[{"source_id":"%b\\u0000"}]}' % canary, canary)]
        for data in silent:
            self.assertIn(parsed(self.stack.raw(data)).status, (207, 400))
        held = self.partner.results("skus", [sku("A", base_uom=CANARY)])[0]
        self.assertIn(CANARY, held["reason"])
        answer = self.partner.control(
            f"/quarantine/{held['quarantine_id']}/release")
        self.assertEqual(answer.status, 409)
        self.assertIn(CANARY, answer.json()["detail"])
        self.stack.wants_no_leak()

    def test_the_search_finds_a_secret_of_each_kind(self):
        secrets = self.stack.secrets()
        folder = temp_dir("leaks")
        path = os.path.join(folder, "a.log")
        texts = {"an API key": [self.partner.key, self.stack.key.split("_")[2],
                                "Bearer wbk_" + "a" * 16 + "_" + "b" * 59],
                 "a payload": [f'{{"detail":"{CANARY}"}}'],
                 "a private key": ["-----BEGIN EC PRIVATE KEY-----"]}
        for name in ("db_owner", "db_service", "key_pepper"):
            texts[f"the file {name}"] = [self.file("secret", name)]
        texts["the file server.key"] = \
            self.file("tls", "server.key").splitlines()[1:2]
        try:
            for what, each in texts.items():
                for text in each:
                    with open(path, "w", encoding="utf-8") as f:
                        f.write(f"one line\nx {text} y\n")
                    self.assertEqual(secrets.in_logs([path]),
                                     [f"a.log:2: {what}"])
            with open(path, "w", encoding="utf-8") as f:
                f.write("the name of a key: " + self.stack.key[:20])
            self.assertEqual(secrets.in_logs([path]), [])
        finally:
            shutil.rmtree(folder)

    def test_the_search_finds_a_key_that_ps_shows(self):
        secrets = self.stack.secrets()
        quiet = {"PATH": os.environ["PATH"]}
        for words, env, where in (
                ([self.stack.key], quiet, "argv"),
                ([], {**quiet, "K": self.stack.key}, "environ")):
            # The shell has a word that it does not look at.
            done = subprocess.Popen(["sh", "-c", "sleep 60; :", *words],
                                    env=env, start_new_session=True)
            try:
                told = wait_for(lambda: secrets.in_processes([done.pid]))
                # For a moment it still has the name of who started it.
                self.assertEqual(len(told), 1)
                self.assertRegex(told[0], rf"^pid {done.pid} \(\w+\), {where}:"
                                          " an API key$")
            finally:
                os.killpg(done.pid, signal.SIGKILL)
                done.wait()

    def file(self, *names):
        with open(os.path.join(self.stack.var, *names),
                  encoding="utf-8") as f:
            return f.read().strip()


if __name__ == "__main__":
    unittest.main()
