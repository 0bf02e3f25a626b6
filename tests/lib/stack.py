"""A whole Waybill of its own for a test: nginx, workers, job worker, MariaDB.

    with Stack(conf=["max_requests = 20"]) as s:
        answer = s.post("/wms-ingest/v1/...", {"items": []})
        assert answer.status == 200, answer
        s.sql("SELECT COUNT(*) FROM item")

It is started by ./run in a temporary folder on free ports, from programs that
are built already (WAYBILL_TEST_PROGRAMS), and ends with the `with`. Without
`with`: start(), stop(), remove(). Arguments:

    conf       lines for local.conf
    env        NAME: value, for the environment of waybill-fcgi and
               waybill-worker (fault points)
    workers    FastCGI workers in total over the two parents
    database   lines for the private MariaDB server
    name       of the folder, within the test's temporary one

A stack that stops is searched for secrets (leaks.py): what its logs, its
arguments or environments hold of one fails the test that stops it.

Answers have status, headers (an email.message.Message: get, get_all), body
(bytes), json(). A failed start raises with what ./run said.
"""
# SPDX-License-Identifier: Apache-2.0
import http.client
import json
import os
import random
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.parse
import uuid

import leaks

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
PROGRAMS = os.environ.get("WAYBILL_TEST_PROGRAMS",
                          os.path.join(ROOT, "var", "check", "plain"))
LONG = bool(os.environ.get("WAYBILL_TEST_LONG"))
SMALL_DATABASE = ["innodb-log-file-size = 32M",
                  "innodb-buffer-pool-size = 64M"]


def temp_dir(name="t"):
    return tempfile.mkdtemp(prefix=name + ".",
                            dir=os.environ.get("WAYBILL_TEST_TMP", "/tmp"))


PORTS = range(20000, 32000)
reserved = {}  # port: the socket whose name keeps other tests from it


def free_port():
    """A port nobody listens on, and that no other test is given for as long
    as this process lives. Below the range the kernel gives to clients, so
    that no outgoing connection takes it before nginx does."""
    while True:
        port = random.choice(PORTS)
        name = socket.socket(socket.AF_UNIX)
        with socket.socket() as s:
            try:
                name.bind(f"\0waybill-test-port-{port}")
                s.bind(("127.0.0.1", port))
            except OSError:
                name.close()
                continue
        reserved[port] = name
        return port


def wait_for(check, seconds=20, what="it"):
    """Calls check() until it gives something true, and returns that."""
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen in {seconds} s")
        time.sleep(0.05)


def proc_text(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as f:
            return f.read().decode("utf-8", "replace")
    except OSError:
        return ""


def alive(pid):
    stat = proc_text(pid, "stat")
    return bool(stat) and stat.rsplit(")", 1)[1].split()[0] != "Z"


def parent_of(pid):
    stat = proc_text(pid, "stat")
    return int(stat.rsplit(")", 1)[1].split()[1]) if stat else 0


def read_env(path):
    """The assignments of a demo.env, as a shell reads them."""
    values = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            word = shlex.split(line)
            name, value = word[1].split("=", 1)
            values[name] = value
    return values


def whole(data):
    """Whether these bytes are an answer with all of its Content-Length."""
    head, mark, body = data.partition(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if mark and line.startswith(b"content-length:"):
            return len(body) >= int(line.split(b":")[1])
    return False


class Answer:
    def __init__(self, response, body):
        self.status = response.status
        self.reason = response.reason
        self.headers = response.msg
        self.body = body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {dict(self.headers)} {self.body[:600]!r}>"


class Session:
    """One keep-alive connection. Reconnects only when the server closed it
    between two requests; a failure during a request is the caller's."""

    def __init__(self, stack, admin=False, timeout=60, cert=None):
        url = urllib.parse.urlsplit(stack.admin_url if admin else stack.url)
        if admin:
            self.http = http.client.HTTPConnection(url.hostname, url.port,
                                                   timeout=timeout)
        else:
            self.http = http.client.HTTPSConnection(
                url.hostname, url.port, timeout=timeout,
                context=stack.tls(cert))
        self.key = stack.key

    def request(self, method, path, headers=None, body=None, key=True):
        headers = dict(headers or {})
        if key and "Authorization" not in headers:
            headers["Authorization"] = f"Bearer {self.key}"
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        self.http.request(method, path, body=body, headers=headers)
        response = self.http.getresponse()
        answer = Answer(response, response.read())
        if response.will_close:
            self.http.close()
        return answer

    def close(self):
        self.http.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Stack:
    def __init__(self, conf=(), env=None, workers=4, database=(),
                 name="stack", programs=PROGRAMS, run=None, user=None):
        self.base = temp_dir("s")
        self.var = os.path.join(self.base, name)
        self.programs = programs
        self.run_path = run or os.path.join(ROOT, "run")
        self.port = free_port()
        self.admin_port = free_port()
        self.workers = workers
        self.user = user
        os.mkdir(self.var, 0o700)
        self.write("mariadb-local.cnf", [*SMALL_DATABASE, *database])
        if conf:
            self.write("local.conf", conf)
        if env:
            self.write("test.env", [f"{k}={v}" for k, v in env.items()])
        if user is not None:
            for path in (self.base, self.var, *(os.path.join(self.var, f)
                                                for f in os.listdir(self.var))):
                os.chown(path, user, user)
        self.demo = {}
        self.url = f"https://127.0.0.1:{self.port}"
        self.admin_url = f"http://127.0.0.1:{self.admin_port}"
        self.key = None
        self.keys = set()  # that were made by waybill()

    def write(self, name, lines):
        with open(os.path.join(self.var, name), "w", encoding="utf-8") as f:
            f.write("".join(line + "\n" for line in lines))

    # Starting and stopping.

    def environment(self, **more):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("WAYBILL_")}
        env.update(WAYBILL_VAR=self.var, WAYBILL_PORT=str(self.port),
                   WAYBILL_ADMIN_PORT=str(self.admin_port),
                   WAYBILL_WORKERS=str(self.workers))
        env.update(more)
        return env

    def command(self, *words):
        command = [self.run_path, "--programs", self.programs, *words]
        if self.user is not None:
            command = ["setpriv", f"--reuid={self.user}",
                       f"--regid={self.user}", "--clear-groups", *command]
        return command

    def run(self, *words, timeout=180, **more):
        """./run WORDS...: a CompletedProcess with text."""
        return subprocess.run(self.command(*words), text=True,
                              stdin=subprocess.DEVNULL, timeout=timeout,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=self.environment(**more))

    def start(self, **more):
        done = self.run("start", **more)
        if done.returncode:
            raise AssertionError(
                f"./run start: {done.returncode}\n{done.stdout}{done.stderr}")
        self.load_demo()
        return done

    def load_demo(self):
        self.demo = read_env(os.path.join(self.var, "demo.env"))
        self.url = self.demo["WAYBILL_URL"]
        self.admin_url = self.demo["WAYBILL_ADMIN_URL"]
        self.key = self.demo["WAYBILL_KEY"]
        self.keys.add(self.key)

    def stop(self):
        told = self.secrets().in_processes(
            self.all_pids() + self.pids("waybill"))
        done = self.run("stop")
        if done.returncode:
            raise AssertionError(f"./run stop: {done.stdout}{done.stderr}")
        self.wants_no_leak(told)

    def secrets(self):
        files = leaks.files_in(os.path.join(self.var, "secret"))
        files += [path for path in leaks.files_in(os.path.join(
            self.var, "tls")) if path.endswith(".key")]
        return leaks.Secrets(self.keys, files)

    def wants_no_leak(self, told=()):
        """That nothing secret stands in the logs, nor in what was told."""
        told = [*told, *leaks.cores(self.var), *self.secrets().in_logs(
            leaks.files_in(os.path.join(self.var, "log")))]
        if told:
            raise AssertionError("a secret can be read:\n" +
                                 "\n".join(told[:20]))

    def remove(self):
        shutil.rmtree(self.base, ignore_errors=True)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.show_logs()
        try:
            self.stop()
        finally:
            self.remove()

    def show_logs(self, lines=15):
        """The ends of the logs; for a test that fails."""
        for name in sorted(os.listdir(os.path.join(self.var, "log"))):
            text = self.log(name).splitlines()[-lines:]
            if text:
                print(f"--- {name}", *text, sep="\n", flush=True)

    def log(self, name):
        with open(os.path.join(self.var, "log", name), encoding="utf-8",
                  errors="replace") as f:
            return f.read()

    # Requests.

    def tls(self, cert=None):
        context = ssl.create_default_context(
            cafile=os.path.join(self.var, "tls", "ca.pem"))
        if cert:
            context.load_cert_chain(*cert)
        return context

    def session(self, **options):
        return Session(self, **options)

    def request(self, method, path, headers=None, body=None, key=True,
                **options):
        with Session(self, **options) as session:
            return session.request(method, path, headers, body, key)

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body, correlation_id=None, headers=None, **options):
        headers = {"X-Correlation-Id": correlation_id or str(uuid.uuid4()),
                   **(headers or {})}
        return self.request("POST", path, headers, body, **options)

    def admin(self, path, method="GET"):
        return self.request(method, path, key=False, admin=True)

    def raw(self, data, admin=False, tls=True, timeout=20, finish=False):
        """Sends bytes as they are and returns the answer: what comes until
        it is whole or the connection ends."""
        port = self.admin_port if admin else self.port
        sock = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        with sock:
            if tls and not admin:
                sock = self.tls().wrap_socket(sock,
                                              server_hostname="localhost")
            with sock:
                try:
                    sock.sendall(data)
                    if finish:  # of the socket: TLS goes on the other way
                        socket.socket.shutdown(sock, socket.SHUT_WR)
                except (ConnectionError, ssl.SSLError):
                    pass  # it may have answered already
                got = b""
                try:
                    while not whole(got):
                        more = sock.recv(65536)
                        if not more:
                            break
                        got += more
                except (ConnectionError, ssl.SSLError):
                    pass
                return got

    # The operator's side.

    def supervisorctl(self, *words):
        done = subprocess.run(
            ["supervisorctl", "-c",
             os.path.join(self.var, "supervisord.conf"), *words],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False)
        return done.stdout

    def waybill(self, *words, check=True):
        """The operator's command: a CompletedProcess with text."""
        done = subprocess.run(
            [os.path.join(self.programs, "waybill"), "--conf",
             os.path.join(self.var, "waybill.conf"), *words], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
            env=self.environment())
        self.keys.update(leaks.keys_in(done.stdout))
        if check and done.returncode:
            raise AssertionError(f"waybill {words}: {done.stderr}")
        return done

    def sql(self, query, user="root", database="waybill"):
        """Rows as lists of text, NULL as 'NULL'."""
        done = subprocess.run(
            ["mariadb", "--no-defaults", "-S", self.demo["WAYBILL_DB_SOCKET"],
             "-u", user, "--batch", "--skip-column-names", database],
            input=query, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, check=False)
        if done.returncode:
            raise AssertionError(f"{query}: {done.stderr}")
        return [line.split("\t") for line in done.stdout.splitlines()]

    def metric(self, name):
        """The sum of a counter over its labels, or None."""
        total = None
        for line in self.admin("/metrics").body.decode().splitlines():
            if line.split("{")[0].split(" ")[0] == name:
                total = (total or 0) + float(line.rsplit(" ", 1)[1])
        return total

    # Processes.

    def pids(self, name):
        """Our processes of that name (comm), oldest first."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            if proc_text(pid, "comm").strip() != name or not alive(pid):
                continue
            try:
                cwd = os.readlink(f"/proc/{pid}/cwd")
            except OSError:  # one that keeps secrets, and we are not root
                words = proc_text(pid, "cmdline").split("\0")
                conf = os.path.join(self.var, "waybill.conf")
                cwd = self.var if conf in words else ""
            if cwd == self.var or cwd.startswith(self.var + "/"):
                found.append(int(pid))
        return sorted(found)

    def parents(self):
        """The two waybill-fcgi that keep the workers."""
        ours = self.pids("waybill-fcgi")
        return [p for p in ours if parent_of(p) not in ours]

    def worker_pids(self):
        ours = self.pids("waybill-fcgi")
        return [p for p in ours if parent_of(p) in ours]

    def all_pids(self):
        supervisor = proc_text("self", "stat") and self.supervisor_pid()
        names = ("waybill-fcgi", "waybill-worker", "nginx", "mariadbd")
        return ([supervisor] if supervisor else []) + [
            p for name in names for p in self.pids(name)]

    def supervisor_pid(self):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            words = proc_text(pid, "cmdline").split("\0")
            if os.path.join(self.var, "supervisord.conf") in words and any(
                    w.endswith("supervisord") for w in words):
                return int(pid)
        return None

    def kill(self, pids, sig=signal.SIGKILL):
        for pid in pids if isinstance(pids, (list, tuple)) else [pids]:
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass
