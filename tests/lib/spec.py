"""docs/openapi.yaml for tests, without any package.

    doc = load()                      the document, all of it
    doc.operation("sendSkus")         its Operation: method, path, body
    resolve(doc, {"$ref": ...})       what a reference stands for
    read_yaml(text)                   raises Bad with the line

read_yaml() knows the part of YAML the document is written in: block mappings
and lists, flow ones (and so JSON), plain, quoted, folded and literal text. A
key that stands twice in one mapping is refused, as all parsers but PyYAML do.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re

from stack import ROOT

PATH = os.path.join(ROOT, "docs", "openapi.yaml")
METHODS = ("get", "post", "put", "delete", "patch", "head", "options")
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$")
KEY = re.compile(r"""('(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|[^\s#'"{}\[\],][^#]*?)"""
                 r""":(?:\s+(.*))?$""")


class Bad(Exception):
    pass


def scalar(text):
    if text in ("true", "false"):
        return text == "true"
    if text in ("null", "~", ""):
        return None
    if NUMBER.match(text):
        return json.loads(text)
    return text


class Flow:
    """One line's flow value; JSON is one."""

    def __init__(self, text, line):
        self.text, self.at, self.line = text, 0, line

    def bad(self, why):
        raise Bad(f"line {self.line}: {why}: {self.text[self.at:][:40]!r}")

    def blanks(self):
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1

    def take(self, chars):
        self.blanks()
        if self.at < len(self.text) and self.text[self.at] in chars:
            self.at += 1
            return self.text[self.at - 1]
        return None

    def quoted(self):
        if self.text[self.at] == '"':
            value, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
            return value
        match = re.compile(r"'((?:[^']|'')*)'").match(self.text, self.at)
        if not match:
            self.bad("a quote is open")
        self.at = match.end()
        return match[1].replace("''", "'")

    def plain(self):
        match = re.compile(r"(?:[^,:{}\[\]]|:(?=\S))+").match(self.text,
                                                             self.at)
        if not match:
            self.bad("a value is missing")
        self.at = match.end()
        return match[0].strip()

    def text_or_scalar(self, key=False):
        self.blanks()
        if self.at < len(self.text) and self.text[self.at] in "'\"":
            return self.quoted()
        value = self.plain()
        return value if key else scalar(value)

    def value(self):
        if self.take("{"):
            return self.mapping()
        if self.take("["):
            return self.sequence()
        return self.text_or_scalar()

    def mapping(self):
        made = {}
        while not self.take("}"):
            key = self.text_or_scalar(key=True)
            if key in made:
                self.bad(f"the key {key!r} is there twice")
            if not self.take(":"):
                self.bad("a colon is missing")
            made[key] = self.value()
            if not self.take(",") and self.text[self.at:self.at + 1] != "}":
                self.bad("a comma is missing")
        return made

    def sequence(self):
        made = []
        while not self.take("]"):
            made.append(self.value())
            if not self.take(",") and self.text[self.at:self.at + 1] != "]":
                self.bad("a comma is missing")
        return made

    def whole(self):
        value = self.value()
        self.blanks()
        if self.at != len(self.text) and self.text[self.at] != "#":
            self.bad("something follows the value")
        return value


class Reader:
    def __init__(self, text):
        self.lines = text.split("\n")
        self.at = 0

    def indent(self):
        """Of the next line that says something; -1 at the end."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip() and not line.lstrip().startswith("#"):
                return len(line) - len(line.lstrip(" "))
            self.at += 1
        return -1

    def block_text(self, style, deeper_than):
        taken = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip() and len(line) - len(line.lstrip(" ")) <= \
                    deeper_than:
                break
            taken.append(line)
            self.at += 1
        while taken and not taken[-1].strip():
            taken.pop()
        cut = len(taken[0]) - len(taken[0].lstrip(" ")) if taken else 0
        taken = [line[cut:] for line in taken]
        return (" " if style == ">" else "\n").join(taken) + "\n"

    def inline(self, text, indent):
        if text in (">", "|"):
            return self.block_text(text, indent)
        if text and text[0] in "{['\"":
            return Flow(text, self.at).whole()
        return scalar(text)

    def value(self, text, indent):
        """What stands behind a key or dash, or in the lines below it."""
        if text:
            return self.inline(text, indent)
        below = self.indent()
        if below > indent:
            return self.block(below)
        if below == indent and self.lines[self.at].lstrip().startswith("- "):
            return self.block(below)
        return None

    def block(self, indent):
        if self.lines[self.at].lstrip().startswith("- "):
            return self.sequence(indent)
        return self.mapping(indent)

    def sequence(self, indent):
        made = []
        while self.indent() == indent and \
                self.lines[self.at][indent:].startswith("- "):
            rest = self.lines[self.at][indent + 2:].strip()
            if rest[0] not in "{['\"" and KEY.match(rest):
                self.lines[self.at] = " " * (indent + 2) + rest
                made.append(self.mapping(indent + 2))
            else:
                self.at += 1
                made.append(self.value(rest, indent))
        return made

    def mapping(self, indent):
        made = {}
        while self.indent() == indent:
            text = self.lines[self.at].strip()
            match = KEY.match(text)
            if not match or text.startswith("- "):
                raise Bad(f"line {self.at + 1}: not a key: {text[:60]!r}")
            key = match[1]
            if key[0] in "'\"":
                key = Flow(key, self.at + 1).quoted()
            if key in made:
                raise Bad(f"line {self.at + 1}: the key {key!r} is there "
                          "twice")
            self.at += 1
            made[key] = self.value((match[2] or "").strip(), indent)
        if self.indent() > indent:
            raise Bad(f"line {self.at + 1}: indented too far")
        return made


def read_yaml(text):
    reader = Reader(text)
    made = reader.block(max(reader.indent(), 0))
    if reader.indent() != -1:
        raise Bad(f"line {reader.at + 1}: indented too little")
    return made


class Operation:
    def __init__(self, method, path, body, item):
        self.method, self.path, self.body = method.upper(), path, body
        servers = str(item.get("servers", ""))
        self.listener = "admin" if "http://" in servers else "public"
        self.id = body.get("operationId")

    def matches(self, method, path):
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(self.path))
        return self.method == method and re.fullmatch(pattern, path)


class Document(dict):
    def operations(self):
        return [Operation(method, path, item[method], item)
                for path, item in self["paths"].items()
                for method in METHODS if method in item]

    def operation(self, name):
        return next(o for o in self.operations() if o.id == name)

    def find(self, method, path):
        """The operation of a real path; one without a {part} goes first."""
        found = [o for o in self.operations() if o.matches(method, path)]
        return min(found, key=lambda o: o.path.count("{"), default=None)


def resolve(doc, thing):
    while isinstance(thing, dict) and "$ref" in thing:
        at = doc
        for name in thing["$ref"].removeprefix("#/").split("/"):
            at = at[name]
        thing = at
    return thing


def load():
    with open(PATH, encoding="utf-8") as f:
        return Document(read_yaml(f.read()))
