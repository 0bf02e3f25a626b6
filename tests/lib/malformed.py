"""Malformed requests, made up from a seed.

    for odd in requests(rng, count, key): odd.name, odd.data, odd.statuses
    for name, data in fastcgi(rng, count, key):

`data` goes to a socket as it is. `statuses` are those the answer may have;
None: any below 500. What a request would store, if it were taken, is told
apart by its correlation id, of which each has its own. A request that hides a
second one (`hidden`: its correlation id) must never have that one carried out.
"""
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import gzip
import json
import struct
import uuid

import fcgi_client as fcgi
from leaks import CANARY

API = b"/wms-ingest/v1"
UOMS = API + b"/master/uoms"
REFUSED = frozenset((400, 401, 403, 404, 405, 409, 413, 414, 415, 422, 431))
OK = frozenset((200, 202, 207))
BITS = (b"\0", b"\r\n", b"\n", b" ", b":", b"%", b"%00", b"\xff", b"\xc0\xaf",
        b"/", b"/../", b"?", b"&", b"=", b"{", b"[", b"]", b'"', b"\\", b",",
        b"\\ud800", b"9" * 30, b"-", b"null", b"1e999", b"HTTP/1.1",
        b"Content-Length: 5\r\n", b"A" * 3000, b"\r\n\r\n", b"X: y\r\n",
        b"Transfer-Encoding: chunked\r\n", b"Content-Encoding: gzip\r\n",
        b"\xe2\x82\xac", b"Host: x\r\n", b"\t", b"\x1f\x8b\x08")


@dataclasses.dataclass
class Odd:
    name: str
    data: bytes
    statuses: frozenset = None
    hidden: str = None


def mutate(rng, data, most=4):
    """A few bytes changed, cut out, doubled or put in."""
    data = bytearray(data)
    for _ in range(rng.randint(1, most)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            data[at:at + 1] = bytes([rng.randrange(256)])
        elif kind == 1 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            data[at:at] = rng.choice(BITS)
        elif kind == 3:
            del data[at:at + rng.choice((1, 2, 10))]
        elif kind == 4:
            data[at:at] = data[at:at + rng.randint(1, 40)]
        else:
            del data[at:]
        if not data:
            data = bytearray(b" ")
    return bytes(data)


def splice(rng, one, other):
    """The beginning of one and the end of another."""
    return one[:rng.randrange(len(one) + 1)] + \
        other[rng.randrange(len(other) + 1):]


class Maker:
    def __init__(self, rng, key):
        self.rng = rng
        self.key = key.encode()
        self.made = 0

    # What is right.

    def new_id(self):
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def items(self):
        self.made += 1
        return [{"source_id": f"M{self.made}-{i}",
                 "source_version": self.rng.randrange(1 << 40),
                 "name": CANARY, "x": [1.10, True, None, "\u00e9\u20ac"]}
                for i in range(self.rng.randint(1, 3))]

    def json(self):
        return json.dumps({"items": self.items()}).encode()

    def ndjson(self):
        return b"".join(json.dumps(item).encode() + b"\n"
                        for item in self.items())

    def request(self, body=None, method=b"POST", target=UOMS, headers=(),
                without=()):
        """Headers of the same name replace those there are; `without` leaves
        some out."""
        ours = {b"Host": b"localhost", b"Connection": b"close",
                b"Authorization": b"Bearer " + self.key,
                b"X-Correlation-Id": self.new_id().encode()}
        if method == b"POST":
            body = self.json() if body is None else body
            ours[b"Content-Type"] = b"application/json"
            ours[b"Content-Length"] = b"%d" % len(body)
        named = {name for name, _ in headers} | set(without)
        lines = [method + b" " + target + b" HTTP/1.1"]
        lines += [n + b": " + v for n, v in ours.items() if n not in named]
        lines += [n + b": " + v for n, v in headers]
        return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")

    def get(self, target, headers=()):
        return self.request(method=b"GET", target=target, headers=headers)

    # What is not: each gives (bytes, statuses) or (bytes, statuses, hidden).

    def request_line(self):
        line = self.rng.choice((
            b"", b"GET", b"GET ", b"GET  /healthz HTTP/1.1x",
            b"GET /healthz HTTP/3.0", b"GET /healthz HTTP/", b"\0\0\0\0",
            b"GET\t/healthz\tHTTP/1.1", b"get /healthz HTTP/1.1",
            b"P\xd6ST " + UOMS + b" HTTP/1.1", b"POST\r" + UOMS,
            b"TRACE /healthz HTTP/1.1", b"CONNECT a:1 HTTP/1.1",
            b"PUT " + UOMS + b" HTTP/1.1", b"M-SEARCH * HTTP/1.1",
            b"OPTIONS * HTTP/1.1", b"GET ftp://x/ HTTP/1.1",
            b"POST " + UOMS + b"\x01 HTTP/1.1", b"GET //// HTTP/1.1",
            b"A" * 9000 + b" / HTTP/1.1", b"GET " + b"/a" * 5000,
            b"GET /" + b"a" * 9000 + b" HTTP/1.1", b"PRI * HTTP/2.0"))
        rest = self.request().split(b"\r\n", 1)[1]
        return line + b"\r\n" + rest, REFUSED

    def smuggled(self):
        hidden = self.new_id()
        second = self.request(headers=[(b"X-Correlation-Id",
                                        hidden.encode())])
        body, head = self.rng.choice((
            (b"0\r\n\r\n", [(b"Transfer-Encoding", b"chunked"),
                            (b"Content-Length", b"4")]),
            (b"0\r\n\r\n", [(b"Transfer-Encoding", b"gzip, chunked")]),
            (b"0\r\n\r\n", [(b"Transfer-Encoding", b"\x0bchunked")]),
            (b"0\r\n\r\n", [(b"Transfer-Encoding", b"identity")]),
            (b"", [(b"Content-Length", b"0"),
                   (b"Content-Length", b"%d" % len(second))]),
            (b"", [(b"Content-Length", b"0, %d" % len(second))]),
            (b"", [(b"Content-Length", b"+0")]),
            (b"", [(b"Content-Length", b"0x0")]),
            (b"", [(b"Content-Length", b"-1")]),
            (b"", [(b"Content-Length", b"0\r\n Transfer-Encoding: chunked")]),
            (b"", [(b"Content-Length ", b"7")]),
            (b"", [(b"Content-Length", b"0"), (b"X", b"a\r\n\tb")]),
            (b"5;x=\"\r\n\"\r\nab", [(b"Transfer-Encoding", b"chunked")]),
            (b"fffffffffffffffff\r\n", [(b"Transfer-Encoding", b"chunked")]),
        ))
        without = (b"Content-Length",)
        data = self.request(body, headers=head, without=without)
        return data + second, REFUSED, hidden

    def odd_header(self):
        name, value = self.rng.choice((
            (b"X-A", b"a\0b"), (b"X\0A", b"b"), (b"X A", b"b"), (b"", b"b"),
            (b"X-A", b"\x01"), (b"X-\xff", b"b"), (b"Host", b"a/b"),
            (b"Host", b"a\r\nHost: b"), (b"X-A", b"a" * 9000),
            (b"A" * 9000, b"b"), (b"X-A", b"b\r\nno-colon"),
            (b"X-A", b"b" + b"".join(b"\r\nY%d: z" % i
                                     for i in range(200))),
            (b"X-A", b"b" + b"".join(b"\r\nY%d: %s" % (i, b"z" * 7000)
                                     for i in range(6))),
            (b"Content-Type", b"application/json\r\nContent-Type: text/csv"),
            (b"Authorization", b"x\r\nAuthorization: Bearer " + self.key),
            (b"X-A", b"b\r\n" + CANARY.encode() + b": \x02")))
        # nginx drops a line whose name is none; the rest is a good request.
        return self.request(headers=[(name, value)]), REFUSED | OK

    def odd_path(self):
        path = self.rng.choice((
            b"/../uoms", b"/%2e%2e", b"/%2e%2e/%2e%2e/etc/passwd", b"/%",
            b"/%zz", b"/%4", b"/a%00b", b"/%c0%af", b"/%ed%a0%80", b"/%ff",
            b"/%f5%80%80%80", b"/a%2Fb", b"/a%5Cb", b"//", b"/./a", b"/a/b/c",
            b"/%0d%0aX:y", b"/\xc3\xa9", b"/\xff", b"/" + b"a" * 129,
            b"/" + b"%41" * 129, b"/%25252e", b"/a;b=c", b"/\x7f",
            b"%2f..%2f..", b"/a%u0041", b"/" + b"a/" * 500))
        return self.get(UOMS + path), REFUSED

    def odd_path_of_a_post(self):
        path = self.rng.choice((
            b"/wms-ingest/v1/master/uoms/", b"//wms-ingest/v1/master/uoms",
            b"/wms-ingest/v1/master/../master/uoms",
            b"/wms-ingest/v1/./master/uoms", b"/wms-ingest/v1/master%2Fuoms",
            b"/wms-ingest/v1/master/UOMS", b"/wms-ingest/v2/master/uoms",
            b"/wms-ingest/v1/documents/uoms", b"/wms-ingest/v1/master/u%00ms",
            b"/wms-ingest/v1/master/%c1%b5oms", b"/.auth", b"/.problem/400",
            b"/internal/auth", b"/wms-ingest/v1/master/uoms%00",
            b"/wms-ingest/v1/jobs/job-" + b"0" * 32 + b"/cancel/x"))
        return self.request(target=path), REFUSED

    def odd_type(self):
        kind = self.rng.choice((
            b"", b"text/plain", b"application/xml", b"application",
            b"application/json5", b"application/x-ndjson+json", b"*/*",
            b"application/json, text/plain", b"multipart/form-data",
            b"\xff", b";", b"application/json/", b"a" * 5000))
        return self.request(headers=[(b"Content-Type", kind)]), \
            frozenset((415,))

    def odd_encoding(self):
        coding = self.rng.choice((
            b"br", b"deflate", b"gzip, gzip", b"x-gzip", b"gzip;q=1",
            b"identity, gzip", b"\xff", b"gzi", b"a" * 3000))
        return self.request(headers=[(b"Content-Encoding", coding)]), \
            frozenset((415,))

    def packed(self, body):
        return self.request(body, headers=[(b"Content-Encoding", b"gzip")])

    def cut_gzip(self):
        whole = gzip.compress(self.json())
        return self.packed(whole[:self.rng.randrange(len(whole))]), \
            frozenset((400,))

    def mutated_gzip(self):
        whole = gzip.compress(self.json())
        return self.packed(mutate(self.rng, whole)), REFUSED | OK

    def gzip_bomb(self):
        body = b'{"items":[' + b" " * (5 << 20) + b"]}"
        return self.packed(gzip.compress(body, 9) * self.rng.randint(1, 3)), \
            frozenset((413,))

    def gzip_of_garbage(self):
        return self.packed(gzip.compress(mutate(self.rng, self.json()) +
                                         b"x")), frozenset((400,))

    def mutated_json(self):
        body = mutate(self.rng, self.json())
        return self.request(body), REFUSED | OK

    def spliced_json(self):
        body = splice(self.rng, self.json(), self.json())
        return self.request(body), REFUSED | OK

    def lines(self, body):
        return self.request(body, headers=[(b"Content-Type",
                                            b"application/x-ndjson")])

    def mutated_ndjson(self):
        return self.lines(mutate(self.rng, self.ndjson())), REFUSED | OK

    def spliced_ndjson(self):
        body = splice(self.rng, self.ndjson(), self.json())
        return self.lines(body), REFUSED | OK

    def deep(self):
        n = self.rng.choice((31, 40, 1000, 20_000))
        opened = self.rng.choice((b"[", b'{"a":'))
        body = b'{"items":[' + opened * n + b"]" * self.rng.choice((0, n))
        return self.request(body), frozenset((400,))

    def wide(self):
        names = b",".join(b'"n%d":1' % i
                          for i in range(self.rng.choice((257, 5000))))
        return self.request(b'{"items":[{' + names + b"}]}"), \
            frozenset((400,))

    def odd_items(self):
        """Right as JSON, wrong as items: each is REJECTED alone."""
        one = self.rng.choice((
            "null", "1", '"x"', "[]", "{}", '{"source_id":null}',
            '{"source_id":""}', '{"source_id":"\\u0000"}',
            '{"source_id":"' + "x" * 129 + '"}', '{"source_id":{}}',
            '{"source_id":"a","source_version":-1,"name":"n"}',
            '{"source_id":"a","source_version":1e3,"name":"n"}',
            '{"source_id":"a","source_version":"9223372036854775808"}',
            '{"source_id":"a","name":[]}',
            '{"source_id":"a","name":"' + "n" * 70_000 + '"}'))
        return self.request(b'{"items":[' + one.encode() + b"]}"), \
            frozenset((207,))

    def odd_query(self):
        query = self.rng.choice((
            b"mode=", b"mode=UPSERT", b"mode=upsert&mode=bulk", b"mod%65",
            b"mode=up%00sert", b"dry_run=1", b"dry_run=TRUE", b"x=1",
            b"return=some", b"confirm=yes", b"%", b"mode=%zz", b"&", b"=",
            b"mode=%ff", b"mode=%c0%af", b"a" * 4000, CANARY.encode() + b"=%",
            CANARY.encode() + b"=1", b"mode=bulk%20", b"+mode=bulk",
            b"mode=bulk;return=all", b"?mode=bulk", b"mode[]=bulk",
            b"&".join(b"p%d=1" % i for i in range(100))))
        return self.request(target=UOMS + b"?" + query), frozenset((400,))

    def odd_correlation(self):
        value = self.rng.choice((
            b"", b" ", b"1", b"null", b"0" * 25, b"0" * 27, b"8" + b"Z" * 25,
            b"01ARZ3NDEKTSV4RRFFQ69G5FAU", b"{" + b"0" * 34 + b"}",
            self.new_id().encode().replace(b"-", b""),
            self.new_id().encode()[:-1], self.new_id().encode() + b"0",
            self.new_id().encode().replace(b"-", b"_"), b"\xff" * 36,
            b"urn:uuid:" + self.new_id().encode(), b"g" * 36, b"-" * 36,
            b'"' + self.new_id().encode() + b'"', b"x" * 5000,
            self.new_id().encode() + b"\r\nX-Correlation-Id: " +
            self.new_id().encode(),
            self.new_id().encode() + b"\r\nIdempotency-Key: " +
            self.new_id().encode(),
            self.new_id().encode() + b"\r\nIdempotency-Key: x"))
        return self.request(headers=[(b"X-Correlation-Id", value)]), \
            frozenset((400,))

    def odd_idempotency_key(self):
        value = self.rng.choice((
            b'"', b'""', b'"x', b"'" + self.new_id().encode() + b"'",
            b'"' + self.new_id().encode(), self.new_id().encode() + b'"',
            b'""' + self.new_id().encode() + b'""'))
        return self.request(headers=[(b"Idempotency-Key", value)],
                            without=(b"X-Correlation-Id",)), frozenset((400,))

    def odd_prefer(self):
        value = self.rng.choice((
            b"wait=-1", b"wait=31", b"wait=", b"wait", b"wait=1.5",
            b"wait=99999999999999999999", b'wait="', b"wait=a", b"WAIT = x",
            b'a="b", wait="31"', b"wait=1 2", b"wait=0x1"))
        return self.request(headers=[(b"Prefer", value)]), frozenset((400,))

    def ignored_header(self):
        """None of these is a reason to refuse."""
        name, value = self.rng.choice((
            (b"Prefer", b"=;,="), (b"Prefer", b'"' * 99), (b"Prefer", b""),
            (b"Prefer", b"waits=99"), (b"Prefer", b'x="wait=99"'),
            (b"traceparent", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-00"),
            (b"traceparent", b"x" * 55), (b"traceparent", b"ff-"),
            (b"traceparent", b""), (b"traceparent", b"\xff" * 200),
            (b"Accept", b"text/html;q=x"), (b"Accept", b"\xff"),
            (b"Accept", b"," * 999), (b"Accept-Encoding", b"gzip;q=9"),
            (b"Range", b"bytes=9-1"), (b"If-Match", b"*"),
            (b"Upgrade", b"h2c"), (b"Cookie", b"a=b;" * 99),
            (b"X-Forwarded-For", b"::1"), (b"Forwarded", b"for=_x")))
        return self.request(headers=[(name, value)]), OK

    def odd_page(self):
        query = self.rng.choice((
            b"limit=0", b"limit=1001", b"limit=-1", b"limit=", b"limit=1e2",
            b"limit=99999999999999999999999", b"limit=%31%00", b"after=",
            b"after=a", b"after=" + b"a" * 3000, b"after=%ff",
            b"after=aaaaaaaaaaaaaaaaaaaaaaaa", b"state=active", b"state=",
            b"limit=1&limit=2", b"limit=10&after=\xc3\xa9", b"after='or'1"))
        path = self.rng.choice((UOMS, API + b"/jobs", API + b"/quarantine"))
        return self.get(path + b"?" + query), frozenset((400,))

    def odd_thing(self):
        path = self.rng.choice((
            b"/jobs/x", b"/jobs/job-" + b"0" * 31, b"/jobs/job-" + b"g" * 32,
            b"/jobs/JOB-" + b"0" * 32, b"/quarantine/qua-", b"/requests/x",
            b"/requests/" + b"0" * 36, b"/requests/%00", b"/jobs/%2e%2e",
            b"/quarantine/" + b"a" * 500, b"/jobs/job-%30/results?limit=x",
            b"/mappings?internal_id=x", b"/mappings", b"/mappings?"
            b"collection=skus&source_id=", b"/mappings?collection=x"))
        return self.get(API + path), frozenset((400, 404))

    def odd_control(self):
        path = self.rng.choice((
            b"/jobs/job-" + b"0" * 32 + b"/cancel", b"/jobs//cancel",
            b"/quarantine/x/release", b"/quarantine/qua-0/discard",
            b"/batches/bat-" + b"f" * 32 + b"/undo-refresh"))
        body = self.rng.choice((b"", b"{}", b"[]", b"{", b'{"a":1}',
                                b" " * 2000, b"\xff", b"null"))
        return self.request(body, target=API + path), REFUSED

    def odd_credential(self):
        value = self.rng.choice((
            b"", b"Bearer", b"Bearer ", b"Basic " + self.key, self.key,
            b"Bearer " + self.key[:-1], b"Bearer " + self.key + b"x",
            b"Bearer  " + self.key[4:], b"Bearer " + self.key.upper(),
            b"Bearer wbk_", b"Bearer " + b"_" * 80, b"Bearer \xff",
            b"Bearer " + self.key[:30] + b"a" + self.key[31:] + b"b",
            b"Bearer " + b"w" * 5000, b'Bearer "' + self.key + b'"'))
        return self.request(headers=[(b"Authorization", value)]), \
            frozenset((400, 401))

    def odd_length(self):
        body = self.json()
        length = self.rng.choice((len(body) - 1, 0, 1, len(body) // 2))
        return self.request(body, headers=[(b"Content-Length",
                                            b"%d" % length)]), \
            frozenset((400,))

    def body_of_a_get(self):
        return self.request(b"{}", method=b"GET", target=UOMS,
                            headers=[(b"Content-Length", b"2")]), \
            frozenset((400,))

    def mutated_whole(self):
        return mutate(self.rng, self.request(), 12), None


KINDS = [name for name in vars(Maker) if not name.startswith("_") and
         name not in ("new_id", "items", "json", "ndjson", "request", "get",
                      "packed", "lines")]


def requests(rng, count, key):
    """Every kind as often as the others, in an order of chance; mutations of
    whole requests and of bodies more often."""
    maker = Maker(rng, key)
    often = ["mutated_whole", "mutated_json", "mutated_ndjson",
             "spliced_json", "mutated_gzip"]
    kinds = KINDS + often * 3
    for i in range(count):
        name = kinds[i % len(kinds)]
        yield Odd(name, *getattr(maker, name)())


# Records to a worker's socket: what nginx never sends.

def pairs(params):
    return b"".join(fcgi.pair(n, v) for n, v in params)


def begin(role=1, keep=0):
    return fcgi.record(fcgi.BEGIN, struct.pack(">HB5x", role, keep))


def record(rng, kind, content, request_id=1):
    """With padding, and sometimes a length that is not the content's."""
    pad = rng.choice((0, 0, 1, 255))
    n = rng.choice((len(content),) * 6 + (0, len(content) + 1, 65535))
    return struct.pack(">BBHHBB", 1, kind, request_id, n, pad, 0) + content + \
        b"\0" * pad


class Records:
    def __init__(self, rng, key):
        self.rng = rng
        self.maker = Maker(rng, key)

    def params(self, body, extra=(), **how):
        headers = [("Authorization", "Bearer " + self.maker.key.decode()),
                   ("X-Correlation-Id", self.maker.new_id())]
        how = {"method": "POST", "uri": UOMS.decode(), "body": body,
               "content_type": "application/json", "headers": headers,
               "extra": extra, **how}
        return fcgi.params_of(**how)

    def whole(self):
        body = self.maker.json()
        return fcgi.encode(self.params(body), body)

    def mutated(self):
        return mutate(self.rng, self.whole(), 12)

    def cut(self):
        whole = self.whole()
        return whole[:self.rng.randrange(len(whole))]

    def noise(self):
        return self.rng.randbytes(self.rng.randint(1, 2000))

    def odd_lengths(self):
        """A pair whose lengths are made up."""
        lengths = [self.rng.choice((
            b"\0", b"\x7f", b"\x80\0\0\0", b"\x80\0\0\x05",
            b"\xff\xff\xff\xff", b"\x80\xff\xff\xff", b"\x80\x01\0\0"))
            for _ in range(2)]
        text = pairs(self.params(b"")) + b"".join(lengths) + \
            b"A" * self.rng.choice((0, 3, 40_000))
        end = fcgi.record(fcgi.PARAMS, b"") + fcgi.records(fcgi.STDIN, b"")
        return begin() + b"".join(
            fcgi.record(fcgi.PARAMS, text[i:i + 60_000])
            for i in range(0, len(text), 60_000)) + \
            end * self.rng.randint(0, 1)

    def unknown_types(self):
        odd = b"".join(record(self.rng, self.rng.randrange(256),
                              self.rng.randbytes(20),
                              self.rng.choice((0, 1, 2, 65535)))
                       for _ in range(self.rng.randint(1, 5)))
        whole = self.whole()
        at = self.rng.choice((0, 16, len(whole)))
        return whole[:at] + odd + whole[at:]

    def management(self):
        return fcgi.record(9, pairs([("FCGI_MAX_CONNS", ""),
                                     ("X" * 300, "y")]), 0) + self.whole()

    def aborted(self):
        body = self.maker.json()
        head = begin() + fcgi.records(fcgi.PARAMS, pairs(self.params(body)))
        some = fcgi.record(fcgi.STDIN, body[:self.rng.randrange(len(body))])
        return head + some * self.rng.randint(0, 1) + \
            fcgi.record(fcgi.ABORT, b"")

    def params_without_end(self):
        return begin() + fcgi.record(fcgi.PARAMS, pairs(self.params(b"")))

    def stdin_without_end(self):
        body = self.maker.json()
        return begin() + fcgi.records(
            fcgi.PARAMS, pairs(self.params(body))) + \
            fcgi.record(fcgi.STDIN, body[:-1])

    def doubled(self):
        body = self.maker.json()
        extra = [self.rng.choice((
            ("CONTENT_LENGTH", "1"), ("CONTENT_LENGTH", ""),
            ("REQUEST_URI", "/healthz"), ("REQUEST_METHOD", "GET"),
            ("HTTP_X_CORRELATION_ID", self.maker.new_id()),
            ("HTTP_AUTHORIZATION", "Bearer x"), ("HTTP_HOST", "a"),
            ("HTTP_CONTENT_ENCODING", "gzip"), ("WAYBILL_LISTENER", "admin"),
            ("WAYBILL_REQUEST_ID", "0" * 32)))] * 2
        return fcgi.encode(self.params(body, extra), body)

    def odd_params(self):
        body = self.maker.json()
        extra = [self.rng.choice((
            ("", ""), ("", "x"), ("HTTP_", "x"), ("HTTP_A=B", "x"),
            ("HTTP_\xff", "x"), ("HTTP_A", "a\r\nX: y"), ("HTTP_A", "a\0b"),
            ("HTTP_" + "A" * 9000, "x"), ("A" * 70_000, "x"),
            ("HTTP_A", "x" * 70_000), ("WAYBILL_REQUEST_ID", "zz"),
            ("WAYBILL_CLIENT_CERT", "%zz%00" * 50), ("REMOTE_ADDR", "\n"),
            ("FCGI_ROLE", "FILTER")))]
        return fcgi.encode(self.params(body, extra), body)

    def odd_known(self):
        how = self.rng.choice((
            {"uri": ""}, {"uri": "x"}, {"uri": "?"}, {"uri": "/\r\n"},
            {"uri": "/" + "a" * 20_000}, {"method": ""},
            {"method": "A" * 9000}, {"method": "GET\n"},
            {"content_length": "-1"}, {"content_length": "9" * 30},
            {"content_length": "1 "}, {"content_length": "9223372036854775807"},
            {"content_length": "3"}, {"content_length": "100000"},
            {"content_type": "\n"}))
        body = self.maker.json()
        return fcgi.encode(self.params(body, **how), body)

    def odd_role(self):
        body = self.maker.json()
        return fcgi.encode(self.params(body), body,
                           role=self.rng.choice((0, 2, 3, 99)),
                           keep=self.rng.choice((0, 1, 255)))

    def two_at_once(self):
        """A second request inside the first, as multiplexing has it."""
        whole = bytearray(self.whole())
        other = bytearray(self.whole())
        at = 0
        while at < len(other):
            n = struct.unpack(">H", other[at + 4:at + 6])[0]
            other[at + 3] = 2
            at += 8 + n + other[at + 6]
        return bytes(whole[:16] + other + whole[16:])


RECORD_KINDS = [name for name in vars(Records) if not name.startswith("_") and
                name not in ("params", "whole")]


def fastcgi(rng, count, key):
    records = Records(rng, key)
    for i in range(count):
        name = (RECORD_KINDS + ["mutated"] * 8)[i % (len(RECORD_KINDS) + 8)]
        yield name, getattr(records, name)()
