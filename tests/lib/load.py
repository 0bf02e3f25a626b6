"""Load: clients on keep-alive connections, counted.

    with Load(stack, clients=8, make=lambda n: ("GET", "/healthz", {}, None)) as load:
        ...                      kill, restart, wait
    load.statuses                {200: 5100, 503: 2}
    load.broken                  requests that got no answer, with the reason
    load.longest_s               of one request

make(n) gives method, path, headers and body of the n-th request; seen(n,
answer), if given, is called with each answer, in the client's thread.
"""
# SPDX-License-Identifier: Apache-2.0
import collections
import itertools
import threading
import time


class Load:
    def __init__(self, stack, make, clients=8, seconds=None, seen=None,
                 key=True, fresh=False):
        self.stack, self.make, self.seen, self.key = stack, make, seen, key
        self.fresh = fresh  # a connection of its own for each request
        self.end = seconds
        self.numbers = itertools.count()
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.statuses = collections.Counter()
        self.broken = []
        self.longest_s = 0.0
        self.threads = [threading.Thread(target=self.client, daemon=True)
                        for _ in range(clients)]

    def client(self):
        session = self.stack.session()
        while not self.stopping.is_set():
            n = next(self.numbers)
            begun = time.monotonic()
            try:
                answer = session.request(*self.make(n), key=self.key)
            except Exception as e:  # counted, and the test decides
                with self.lock:
                    self.broken.append(f"{type(e).__name__}: {e}")
                session.close()
                session = self.stack.session()
                continue
            with self.lock:
                self.statuses[answer.status] += 1
                self.longest_s = max(self.longest_s,
                                     time.monotonic() - begun)
            if self.seen:
                self.seen(n, answer)
            if self.fresh:
                session.close()
        session.close()

    @property
    def answers(self):
        return sum(self.statuses.values())

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind, *_):
        if self.end and kind is None:
            time.sleep(self.end)
        self.stopping.set()
        for thread in self.threads:
            thread.join(timeout=90)

    def __repr__(self):
        return (f"<{dict(self.statuses)}, {len(self.broken)} broken "
                f"{self.broken[:3]}, longest {self.longest_s:.2f} s>")
