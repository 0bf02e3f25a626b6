"""Jobs for tests: put into the queue by SQL, worked off by real workers.

    with JobService() as s:
        job = s.enqueue([[item, ...], ...])      a chunk a list
        s.work()                                 until nothing is unfinished
        s.job(job)["state"]
"""
# SPDX-License-Identifier: Apache-2.0
import gzip
import json
import os
import signal
import subprocess
import time
import uuid

from service import PROGRAMS, Service

UOMS, LOCATIONS, SKUS = 0, 2, 3
ITEMS, REFRESH, RELEASE = 1, 2, 3
MODES = {ITEMS: 3, REFRESH: 2, RELEASE: 4}
STATES = ["", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]
COLUMNS = ("state", "phase", "attempt", "next_chunk", "total", "processed",
           "accepted", "replay", "quarantined", "rejected", "tombstoned",
           "restored", "error_slug", "error_detail", "step")


def uom(name, version=None, **more):
    item = {"source_id": name, "name": name, **more}
    if version is not None:
        item["source_version"] = version
    return item


def new_id():
    """A v7 id as 32 hex digits."""
    return f"{int(time.time() * 1000):012x}7" + uuid.uuid4().hex[13:]


def hexed(text):
    return "X'" + text.encode().hex() + "'"


class JobService(Service):
    def __init__(self, **conf):
        super().__init__(**{"lease": "6s", "db_idle_timeout": "5s",
                            "worker_poll": "20ms", **conf})
        self.workers = []

    def close(self):
        for worker in self.workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGCONT)
                worker.kill()
                worker.wait()
        super().close()

    def enqueue(self, chunks, kind=ITEMS, partner=1, collection=UOMS,
                confirmed=0):
        """A job of these chunks; gives its id as 32 hex digits."""
        job, batch = new_id(), new_id()
        day = int(job[:12], 16) // 86400000
        batch_day = int(batch[:12], 16) // 86400000
        total, sql = 0, []
        for no, items in enumerate(chunks):
            text = "".join(json.dumps(i, separators=(",", ":")) + "\n"
                           for i in items) + f"items {len(items)}\n"
            sql.append(
                "INSERT INTO job_chunk (job_id, chunk_no, day, first_index, "
                f"items, body) VALUES (X'{job}', {no}, {day}, {total}, "
                f"{len(items)}, X'{gzip.compress(text.encode()).hex()}');")
            total += len(items)
            if kind == REFRESH:
                sql += [f"INSERT IGNORE INTO refresh_name VALUES (X'{job}', "
                        f"{hexed(i['source_id'])});" for i in items]
        refresh = int(kind == REFRESH)
        sql += [
            "BEGIN;",
            "INSERT INTO lane VALUES "
            f"({partner}, {collection}, 2, 1, {refresh}) ON DUPLICATE KEY "
            "UPDATE next_seq = next_seq + 1, open_jobs = open_jobs + 1, "
            f"open_refreshes = open_refreshes + {refresh};",
            "INSERT INTO batch (batch_id, day, partner_id, collection, mode, "
            "total, accepted, replay, quarantined, rejected, tombstoned, "
            f"job_id, received_at) VALUES (X'{batch}', {batch_day}, "
            f"{partner}, {collection}, {MODES[kind]}, {total}, 0, 0, 0, 0, 0, "
            f"X'{job}', NOW(3));",
            "INSERT INTO job (partner_id, job_id, batch_id, collection, kind, "
            "mode, seq, open_as, state, phase, attempt, token, step, "
            "next_chunk, chunk_count, total, bytes, processed, accepted, "
            "replay, quarantined, rejected, tombstoned, restored, confirmed, "
            f"cancel_requested, created_at) SELECT {partner}, X'{job}', "
            f"X'{batch}', {collection}, {kind}, {MODES[kind]}, next_seq - 1, "
            f"1, 1, {2 - refresh}, 0, 0, 0, 0, {len(chunks)}, {total}, 0, 0, "
            f"0, 0, 0, 0, 0, 0, {confirmed}, 0, NOW(3) FROM lane WHERE "
            f"partner_id = {partner} AND collection = {collection};",
            "COMMIT;"]
        self.sql("\n".join(sql))
        return job

    def job(self, job):
        row = self.sql(f"SELECT {', '.join(COLUMNS)} FROM job "
                       f"WHERE job_id = X'{job}'")[0]
        got = {c: int(v) if v.isdigit() else v for c, v in zip(COLUMNS, row)}
        got["state"] = STATES[got["state"]]
        return got

    def worker(self, **env):
        """Starts a waybill-worker."""
        with open(self.log, "ab") as err:
            worker = subprocess.Popen(
                [os.path.join(PROGRAMS, "waybill-worker"), "--conf",
                 self.conf_path], env={**self.env, **env},
                stdin=subprocess.DEVNULL, stderr=err)
        self.workers.append(worker)
        return worker

    def wait(self, check, seconds=30, what="it"):
        end = time.monotonic() + seconds
        while not check():
            if time.monotonic() > end:
                with open(self.log, encoding="utf-8") as f:
                    print(*f.read().splitlines()[-20:], sep="\n")
                raise AssertionError(f"{what} did not happen in {seconds} s")
            time.sleep(0.02)

    def unfinished(self):
        return int(self.sql("SELECT COUNT(*) FROM job "
                            "WHERE open_as IS NOT NULL")[0][0])

    def end(self, worker, want=0):
        worker.send_signal(signal.SIGTERM)
        got = worker.wait(20)
        assert got == want, got

    def work(self, workers=1, seconds=30):
        """Workers until no job is unfinished; then they are told to leave."""
        started = [self.worker() for _ in range(workers)]
        self.wait(lambda: not self.unfinished(), seconds, "the end of jobs")
        for w in started:
            self.end(w)

    def let_leases_end(self):
        self.sql("UPDATE job SET lease_until = NOW(6) - INTERVAL 1 SECOND "
                 "WHERE lease_until IS NOT NULL")
