"""Tools from npm, for the tests that have a use for them: never needed.

    modules()       a folder with node_modules of tests/client/package-lock.json
    run(script, *words, stdin=None)    a script of tests/client, in that folder

Without node, or where npm cannot be reached, they raise SkipTest with the
reason. What was installed once is kept under var/.
"""
# SPDX-License-Identifier: Apache-2.0
import fcntl
import hashlib
import os
import shutil
import subprocess
import unittest

from stack import ROOT

CLIENT = os.path.join(ROOT, "tests", "client")


def install(folder):
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(CLIENT, name), folder)
    try:
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund",
             "--fetch-retries=1", "--fetch-timeout=20000"], cwd=folder,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=120, check=False)
    except subprocess.TimeoutExpired:
        raise unittest.SkipTest("npm did not install in 120 s") from None
    if done.returncode:
        raise unittest.SkipTest("npm cannot install: " +
                                done.stdout.strip()[-200:])
    with open(os.path.join(folder, "installed"), "w", encoding="utf-8"):
        pass


def modules():
    if not shutil.which("node") or not shutil.which("npm"):
        raise unittest.SkipTest("there is no node with npm")
    with open(os.path.join(CLIENT, "package-lock.json"), "rb") as f:
        key = hashlib.sha256(f.read()).hexdigest()[:16]
    folder = os.path.join(ROOT, "var", "cache", f"node-{key}")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(os.path.join(folder, "installed")):
            install(folder)
        for name in os.listdir(CLIENT):
            if name.endswith((".mjs", ".ts")):
                shutil.copy(os.path.join(CLIENT, name), folder)
    return folder


def run(script, *words, stdin=None, env=None, timeout=100):
    """What it printed; it must end well."""
    done = subprocess.run(
        ["node", script, *words], cwd=modules(), text=True, input=stdin,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
        check=False, env={**os.environ, **(env or {})})
    if done.returncode:
        raise AssertionError(f"{script}: {done.stdout}{done.stderr}")
    return done.stdout
