"""The commands of README.md, items.md and collections.md work, and are
answered as printed.

A page's blocks of code run in their order in one shell each, on a fresh
service. A block that holds curl, or an alias for it, is run; the lines of JSON
behind a command are its answer, in which … stands for anything. A command with
… of its own is an illustration and is not run.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import unittest

from stack import ROOT, Stack

PAGES = ("README.md", "docs/items.md", "docs/collections.md")
MASKS = ((r"\b([a-z]{2,3})-[0-9a-f]{32}\b", r"\1-ID"),
         (r"\b[0-9a-f]{32}\b", "HEX"),
         (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"))
# What the shell is prepared with, beside what is sent or asked.
SETTING = re.compile(r"^(\. |alias |\w+\(\)|\w+=|export )")


def blocks(text):
    """The blocks of code, indented or fenced, each a list of lines."""
    found, lines, fenced = [], [], False
    for line in [*text.split("\n"), ""]:
        fence = line.startswith("```")
        if fence and not fenced:
            fenced, lines = True, []
        elif fence:
            fenced = False
            found.append(lines)
            lines = []
        elif fenced:
            lines.append(line)
        elif line.startswith("    "):
            lines.append(line[4:])
        elif lines:
            found.append(lines)
            lines = []
    return found


def steps(text):
    """[command, printed answer or None] of a page, in order."""
    made = []
    for lines in blocks(text):
        if lines[0].startswith(("{", "[")) and made and not made[-1][1]:
            made[-1][1] = "\n".join(lines)
            continue
        command, answer = [], []
        for line in lines + ["$ "]:
            starts = line.startswith("$ ") or SETTING.match(line) or \
                re.match(r"(curl|wb)\b", line)
            if starts and command and not command[-1].endswith("\\"):
                made.append(["\n".join(command), "\n".join(answer) or None])
                command, answer = [], []
            if command and line.startswith("{") and \
                    not command[-1].endswith("\\"):
                answer.append(line)
            elif answer:
                answer.append(line)
            elif line.strip() not in ("", "$"):
                command.append(line.removeprefix("$ "))
    return made


def squeezed(text):
    """Without white space outside strings, ids and times masked."""
    text = re.sub(r'("(?:[^"\\]|\\.)*")|\s+', lambda m: m[1] or "", text)
    for pattern, word in MASKS:
        text = re.sub(pattern, word, text)
    return text


def matches(printed, got):
    pattern = re.escape(squeezed(printed)).replace("…", ".*")
    return re.fullmatch(pattern, squeezed(got), re.S)


def runs(command):
    return bool(SETTING.match(command) or
                re.search(r"\b(curl|wb)\b", command)) and "…" not in command


class Examples(unittest.TestCase):
    maxDiff = None

    def shell(self, stack):
        link = os.path.join(stack.base, "var")
        if not os.path.exists(link):
            os.symlink(stack.var, link)
        with open(os.path.join(stack.base, "skus.ndjson"), "w",
                  encoding="utf-8") as f:
            f.write('{"source_id":"N1","name":"n","base_uom":"EA"}\n')
        return subprocess.Popen(
            ["bash", "--norc"], cwd=stack.base, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env=stack.environment())

    def run_page(self, stack, page):
        """[(command, printed, got)] of what is sent or asked."""
        with open(os.path.join(ROOT, page), encoding="utf-8") as f:
            todo = [s for s in steps(f.read()) if runs(s[0])]
        script = ["shopt -s expand_aliases"]
        for command, _ in todo:
            script += [command, "echo; echo ---end-of-step---"]
        shell = self.shell(stack)
        said, _ = shell.communicate("\n".join(script) + "\n", timeout=120)
        got = said.split("---end-of-step---\n")
        self.assertEqual(len(got), len(todo) + 1, said[-2000:])
        return [(c, p, g.strip()) for (c, p), g in zip(todo, got)
                if not SETTING.match(c) or re.search(r"\b(curl|wb) -", g)]

    def test_every_command_is_answered_as_printed(self):
        printed_count = 0
        for page in PAGES:
            with Stack() as stack:
                for command, printed, got in self.run_page(stack, page):
                    with self.subTest(f"{page}: {command[:300]}"):
                        got = got[got.find("{"):]
                        if printed:
                            printed_count += 1
                            self.assertTrue(matches(printed, got),
                                            f"{got}\nnot {printed}")
                        else:
                            self.assertNotIn("title", json.loads(got), got)
        self.assertGreater(printed_count, 13)

    def test_an_answer_that_is_not_as_printed_is_noticed(self):
        printed = '{"a":"sku-…", "b":{"total":1,…}}'
        good = '{"a":"sku-1","b":{"total":1,"c":2}}'
        self.assertTrue(matches(printed, good))
        for bad in (good.replace("1,", "2,"), good.replace('"a"', '"x"'),
                    good[:-1], good + "x"):
            self.assertFalse(matches(printed, bad), bad)


if __name__ == "__main__":
    unittest.main()
