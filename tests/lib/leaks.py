"""Nothing secret where others read it: in the logs of a service, in the
arguments and the environment of its processes, in a core it left.

    secrets = Secrets(keys_in(text), [".../db_owner", ".../server.key"])
    secrets.in_logs(files_in(".../log"))   ["fcgi_0.log:12: an API key", ...]
    secrets.in_processes(pids)       ["pid 7 (nginx), argv: the file db_owner"]

Secret are: every API key (by its form, and the secret end of those that are
known), what stands in the files named (database passwords, pepper, private
keys), and CANARY, which tests put into the payloads they send
(items.py does by itself). Stack and Service look when they stop.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import re

CANARY = "payload-canary-b7q"
KEY_FORM = re.compile(rb"wbk_[a-z0-9]{16}_[a-z0-9]{8,}")
PRIVATE = re.compile(rb"PRIVATE KEY")
SHORTEST = 16  # bytes; a shorter line of a key file is no secret


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def files_in(folder):
    """Every file below it, as [path]."""
    return sorted(os.path.join(at, name)
                  for at, _, names in os.walk(folder) for name in names)


def keys_in(text):
    return [key.decode() for key in KEY_FORM.findall(text.encode())]


def lines_of(path):
    """Each line of a secret file is one: those of a private key, too."""
    lines = [line.strip() for line in read(path).splitlines()]
    return [line for line in lines
            if len(line) >= SHORTEST and not line.startswith(b"-----")]


class Secrets:
    def __init__(self, keys=(), files=()):
        self.known = {CANARY.encode(): "a payload"}
        for key in keys:
            self.known[key.rsplit("_", 1)[-1].encode()] = "an API key"
        for path in files:
            for line in lines_of(path):
                self.known.setdefault(
                    line, f"the file {os.path.basename(path)}")
        self.any = re.compile(b"|".join(
            [re.escape(secret) for secret in self.known] +
            [KEY_FORM.pattern, PRIVATE.pattern]))

    def what(self, text):
        """What of it is secret, in words; None: nothing."""
        found = self.any.search(text)
        if not found:
            return None
        if KEY_FORM.match(found[0]):
            return "an API key"
        return self.known.get(found[0], "a private key")

    def in_logs(self, paths):
        told = []
        for path in paths:
            text = read(path)
            if not self.any.search(text):
                continue
            for number, line in enumerate(text.split(b"\n"), 1):
                what = self.what(line)
                if what:
                    told.append(f"{os.path.basename(path)}:{number}: {what}")
        return told

    def in_processes(self, pids):
        told = []
        for pid in pids:
            name = read(f"/proc/{pid}/comm").decode().strip()
            for file, words in (("cmdline", "argv"), ("environ", "environ")):
                what = self.what(read(f"/proc/{pid}/{file}"))
                if what:
                    told.append(f"pid {pid} ({name}), {words}: {what}")
        return told


def cores(folder):
    return [f"{p}: a core, which holds everything" for p in files_in(folder)
            if re.fullmatch(r"core(\.\d+)?", os.path.basename(p))]
