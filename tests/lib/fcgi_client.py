"""A raw FastCGI client over a unix socket, for tests.

Speaks the records itself, so that it can send what nginx never would:
repeated parameters, bodies that break off, garbage.

    answer = request(path, uri="/x", headers=[("X-A", "1"), ("X-A", "2")])
    answer.status, answer.json()
"""
# SPDX-License-Identifier: Apache-2.0
import json
import socket
import struct

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR = 1, 2, 3, 4, 5, 6, 7
RECORD_MAX = 65528


class Lost(Exception):
    """The connection ended before the answer was whole."""


class Answer:
    def __init__(self, raw):
        head, _, self.body = raw.partition(b"\r\n\r\n")
        self.headers = []
        self.status = 200
        for line in head.split(b"\r\n"):
            name, _, value = line.decode("latin-1").partition(":")
            self.headers.append((name.lower(), value.strip()))
            if name.lower() == "status":
                self.status = int(value.split()[0])

    def header(self, name):
        return next((v for n, v in self.headers if n == name.lower()), None)

    def json(self):
        return json.loads(self.body)


def record(kind, content, request_id=1):
    return struct.pack(">BBHHBB", 1, kind, request_id, len(content), 0, 0) + \
        content


def records(kind, content):
    """The content in as many records as it takes, and the empty last one."""
    pieces = [content[i:i + RECORD_MAX]
              for i in range(0, len(content), RECORD_MAX)]
    return b"".join(record(kind, p) for p in pieces) + record(kind, b"")


def length(n):
    return struct.pack(">B", n) if n < 128 else struct.pack(">I", n | 1 << 31)


def pair(name, value):
    name, value = (x if isinstance(x, bytes) else x.encode()
                   for x in (name, value))
    return length(len(name)) + length(len(value)) + name + value


def params_of(method="GET", uri="/", headers=(), body=b"", extra=(),
              content_length=None, content_type=None):
    """A list of pairs, as nginx would send them; names may repeat."""
    if content_length is None:
        content_length = str(len(body)) if body else ""
    params = [("REQUEST_METHOD", method), ("REQUEST_URI", uri),
              ("CONTENT_LENGTH", content_length),
              ("CONTENT_TYPE", content_type or ""),
              ("REMOTE_ADDR", "127.0.0.1")]
    params += [("HTTP_" + n.upper().replace("-", "_"), v) for n, v in headers]
    return params + list(extra)


def encode(params, body=b"", role=1, keep=0):
    return (record(BEGIN, struct.pack(">HB5x", role, keep)) +
            records(PARAMS, b"".join(pair(n, v) for n, v in params)) +
            records(STDIN, body))


def connect(path, timeout=30):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.settimeout(timeout)
    try:
        s.connect(path)
    except OSError:
        s.close()
        raise
    return s


def exactly(s, n):
    got = b""
    while len(got) < n:
        piece = s.recv(n - len(got))
        if not piece:
            raise Lost("the connection closed")
        got += piece
    return got


def read_answer(s):
    out = b""
    while True:
        try:
            _, kind, _, n, pad, _ = struct.unpack(">BBHHBB", exactly(s, 8))
            content = exactly(s, n + pad)[:n]
        except (ConnectionError, socket.timeout) as e:
            raise Lost(repr(e)) from e
        if kind == STDOUT:
            out += content
        elif kind == END:
            return Answer(out)


def send(path, data, timeout=30):
    """Send these bytes and read one answer."""
    with connect(path, timeout) as s:
        try:
            s.sendall(data)
        except (BrokenPipeError, ConnectionError) as e:
            raise Lost(repr(e)) from e
        return read_answer(s)


def request(path, body=b"", timeout=30, **kw):
    return send(path, encode(params_of(body=body, **kw), body), timeout)
