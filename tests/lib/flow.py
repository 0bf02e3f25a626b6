"""Runs one file of flow tests: flow.py tests/flow/test_x.py [Class.test...]

A line a test with its seconds, the traceback of what failed, and as the last
line "N passed, N failed, N skipped".
"""
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import os
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.passed = 0
        self.begun = time.monotonic()

    def line(self, test, word):
        name = test.id().split(".", 1)[-1]
        seconds = time.monotonic() - self.begun
        print(f"{word:8}{name} ({seconds:.1f} s)", flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.begun = time.monotonic()

    def addSuccess(self, test):
        self.passed += 1
        self.line(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.line(test, "FAILED")
        print(self.failures[-1][1], flush=True)

    def addError(self, test, err):
        super().addError(test, err)
        self.line(test, "FAILED")
        print(self.errors[-1][1], flush=True)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            failed = issubclass(err[0], subtest.failureException)
            self.line(subtest, "FAILED")
            print((self.failures if failed else self.errors)[-1][1],
                  flush=True)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"{test.id().split('.', 1)[-1]}: skipped: {reason}", flush=True)


def main():
    path, wanted = sys.argv[1], sys.argv[2:]
    name = os.path.basename(path)[:-len(".py")]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    loader = unittest.defaultTestLoader
    if wanted:
        suite = loader.loadTestsFromNames(wanted, module)
    else:
        suite = loader.loadTestsFromModule(module)
    result = Result()
    suite.run(result)
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"{result.passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0 or result.passed + skipped == 0)


main()
