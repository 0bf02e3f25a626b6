"""Jobs as they are told: by the API, as pages and as a stream, and by the
operator's command. The jobs are real ones; the worker is stopped where a test
wants to see one that waits."""
# SPDX-License-Identifier: Apache-2.0
# check: slow
import http.client
import json
import os
import subprocess
import unittest

from items import Partner, new_key, sku, uom
from stack import Stack, proc_text, wait_for

JOBS = "/jobs"
NDJSON = {"Accept": "application/x-ndjson"}
STREAMED = 100000
OVER = ("COMPLETED", "FAILED", "CANCELLED")


class JobReads(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.s = Stack().__enter__()
        cls.addClassCleanup(cls.s.__exit__, None)

    def setUp(self):
        self.p = Partner(self.s)
        self.addCleanup(self.p.close)
        self.addCleanup(self.worker, "start")

    def worker(self, verb):
        self.s.supervisorctl(verb, "worker:*")

    def bulk(self, items, collection="uoms", mode="bulk"):
        body = b"".join(json.dumps(i).encode() + b"\n" for i in items)
        answer = self.p.post(collection, body, mode=mode,
                             headers={"Content-Type": "application/x-ndjson"})
        self.assertEqual(answer.status, 202, answer)
        return answer.json()["job_id"]

    def job(self, job):
        answer = self.p.get(f"{JOBS}/{job}")
        self.assertEqual(answer.status, 200, answer)
        return answer.json()

    def over(self, job):
        return wait_for(lambda: (lambda j: j if j["status"] in OVER else None)(
            self.job(job)), 60, "the end of the job")

    def results(self, job, query=""):
        """All of them, by pages."""
        got, after = [], ""
        while True:
            page = self.p.get(f"{JOBS}/{job}/results?{query}{after}").json()
            got += page["results"]
            if not page["next"]:
                return got
            after = f"&after={page['next']}"

    def test_a_job_from_the_queue_to_its_end(self):
        self.worker("stop")
        first = self.bulk([uom(f"A{i}", 1) for i in range(10)] + [{"x": 1}])
        second = self.bulk([uom("B")])
        got = self.job(first)
        self.assertEqual({k: got[k] for k in (
            "job_id", "status", "mode", "collection", "progress", "summary",
            "queue_position", "rate", "eta_seconds", "attempt", "started_at",
            "finished_at", "status_url", "results_url")}, {
                "job_id": first, "status": "QUEUED", "mode": "bulk",
                "collection": "uoms",
                "progress": {"total": 11, "processed": 0, "percent": 0},
                "summary": {"total": 11, "accepted": 0, "replay": 0,
                            "quarantined": 0, "rejected": 0},
                "queue_position": 1, "rate": None, "eta_seconds": None,
                "attempt": 0, "started_at": None, "finished_at": None,
                "status_url": f"/wms-ingest/v1/jobs/{first}",
                "results_url": f"/wms-ingest/v1/jobs/{first}/results"})
        self.assertNotIn("error", got)
        self.assertEqual(self.job(second)["queue_position"], 2)
        self.assertEqual(self.results(first), [])
        self.worker("start")
        got = self.over(first)
        self.assertEqual(got["status"], "COMPLETED")
        self.assertEqual(got["progress"], {"total": 11, "processed": 11,
                                           "percent": 100})
        self.assertEqual(got["summary"], {
            "total": 11, "accepted": 10, "replay": 0, "quarantined": 0,
            "rejected": 1})
        self.assertGreater(got["rate"], 0)
        self.assertIsNone(got["queue_position"])
        self.assertLessEqual(got["created_at"][:19], got["started_at"])
        self.assertLess(got["started_at"], got["finished_at"])

    def test_results_read_as_those_of_a_synchronous_answer(self):
        self.p.outcomes("uoms", [uom("EA", 5)])
        held = self.p.outcomes("skus", [sku("OLD", 3)])
        self.assertEqual(held, ["ACCEPTED created"])
        items = [sku("NEW", 1), sku("OLD", 3, name="other"), sku("OLD", 2),
                 sku("HELD", 1, base_uom="BOX"), {"source_id": "BAD"}, 7]
        job = self.bulk(items, "skus")
        self.over(job)
        got = self.results(job)
        # The same again, as a synchronous request of another partner.
        other = Partner(self.s)
        self.addCleanup(other.close)
        other.outcomes("uoms", [uom("EA", 5)])
        other.outcomes("skus", [sku("OLD", 3)])
        body = b"".join(json.dumps(i).encode() + b"\n" for i in items)
        want = other.results("skus", body, headers={
            "Content-Type": "application/x-ndjson"})
        for mine, theirs in zip(got, want):
            self.assertEqual(list(mine), list(theirs))
            for name in ("internal_id", "quarantine_id"):
                self.assertEqual(mine.pop(name, "-")[:4],
                                 theirs.pop(name, "-")[:4])
            self.assertEqual(mine, theirs)
        self.assertEqual(len(got), len(want))
        self.assertEqual(got[1]["conflict"], True)

    def test_results_are_paged_and_filtered(self):
        job = self.bulk([uom(f"U{i}", 1) if i % 3 else {"source_id": f"U{i}"}
                         for i in range(250)])
        self.over(job)
        got = self.results(job, "limit=7")
        self.assertEqual([r["index"] for r in got], list(range(250)))
        self.assertEqual([r["line"] for r in got], list(range(1, 251)))
        bad = self.results(job, "status=REJECTED&limit=10")
        self.assertEqual([r["index"] for r in bad], list(range(0, 250, 3)))
        self.assertEqual(self.results(job, "status=TOMBSTONED"), [])
        page = self.p.get(f"{JOBS}/{job}/results?limit=1").json()
        for query in ("status=NOPE", "limit=0", "after=x", "limit=1001",
                      f"status=REJECTED&after={page['next']}"):
            self.assertEqual(
                self.p.get(f"{JOBS}/{job}/results?{query}").status, 400, query)

    def test_a_filter_looks_at_10000_rows_a_page(self):
        job = self.bulk([uom(f"U{i}", 1) if i != 24000 else {}
                         for i in range(25000)])
        self.over(job)
        page = self.p.get(f"{JOBS}/{job}/results?status=REJECTED").json()
        self.assertEqual(page["results"], [])
        self.assertIsNotNone(page["next"])
        self.assertEqual([r["index"] for r in self.results(
            job, "status=REJECTED")], [24000])

    def test_tombstones_are_results_too(self):
        self.p.outcomes("uoms", [uom(f"U{i}", 1) for i in range(5000)])
        job = self.bulk([uom(f"U{i}", 1) for i in range(4900)],
                        mode="full-refresh")
        got = self.over(job)
        self.assertEqual(got["mode"], "full-refresh")
        self.assertEqual(got["summary"]["tombstoned"], 100)
        gone = self.results(job, "status=TOMBSTONED")
        self.assertEqual(sorted(r["source_id"] for r in gone),
                         sorted(f"U{i}" for i in range(4900, 5000)))
        self.assertEqual(gone[0]["index"], 4900)
        self.assertEqual(gone[0]["internal_id"][:4], "uom-")

    def stream(self, job, query=""):
        session = self.s.session()
        session.http.request(
            "GET", f"/wms-ingest/v1/jobs/{job}/results{query}",
            headers={**NDJSON, "Authorization": f"Bearer {self.p.key}"})
        response = session.http.getresponse()
        self.addCleanup(session.close)
        return response

    def test_a_stream_has_all_results_in_bounded_memory(self):
        job = self.bulk([uom(f"U{i}", 1) for i in range(STREAMED)])
        # Slow machine, many items.
        wait_for(lambda: self.job(job)["status"] in OVER, 300, "the job")
        before = {p: self.peak(p) for p in self.s.worker_pids()}
        response = self.stream(job)
        self.assertEqual(response.status, 200)
        self.assertEqual(response.headers["Content-Type"],
                         "application/x-ndjson")
        self.assertIsNone(response.headers["Content-Length"])
        count = size = 0
        for line in response:
            self.assertEqual(json.loads(line)["index"], count)
            count += 1
            size += len(line)
        self.assertEqual(count, STREAMED)
        grown = max(self.peak(p) - kb for p, kb in before.items())
        print(f"{size >> 20} MiB streamed, {grown} KiB of memory more, "
              f"peak {max(map(self.peak, before))} KiB", flush=True)
        self.assertGreater(size, 10 << 20)
        self.assertLess(grown, 8 * 1024)
        # From the middle on, and filtered.
        page = self.p.get(f"{JOBS}/{job}/results?limit=1000").json()
        rest = self.stream(job, f"?after={page['next']}").read()
        self.assertEqual(rest.count(b"\n"), STREAMED - 1000)
        after = self.after(job, 1000, "&status=ACCEPTED")
        self.assertEqual(self.counted(job, f"?status=ACCEPTED&{after}"),
                         STREAMED - 1000)
        self.assertEqual(self.stream(job, "?status=REJECTED").read(), b"")
        self.assertEqual(self.stream(job, "?limit=5").status, 400)

    @staticmethod
    def peak(pid):
        for line in proc_text(pid, "status").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
        return 0

    def test_a_stream_tells_how_many_results_it_has(self):
        job = self.bulk([uom(f"U{i}", 1) if i % 4 else {}
                         for i in range(40)])
        self.over(job)
        for query, want in (("", 40), ("?status=REJECTED", 10),
                            ("?status=REPLAY", 0)):
            response = self.stream(job, query)
            self.assertEqual(response.headers["X-Results-Count"], str(want))
            self.assertEqual(response.read().count(b"\n"), want)

    def counted(self, job, query=""):
        """What a stream says it has, which must be what it has."""
        response = self.stream(job, query)
        self.assertEqual(response.status, 200)
        said = int(response.headers["X-Results-Count"])
        self.assertEqual(response.read().count(b"\n"), said, query)
        return said

    def after(self, job, count, query=""):
        """A cursor behind so many."""
        page = self.p.get(f"{JOBS}/{job}/results?limit={count}{query}").json()
        return f"after={page['next']}"

    def test_it_tells_so_from_the_middle_on_too(self):
        job = self.bulk([uom(f"U{i}", 1) if i % 4 else {}
                         for i in range(400)])
        self.over(job)
        for count in (1, 50, 399):
            after = self.after(job, count)
            self.assertEqual(self.counted(job, "?" + after), 400 - count)
        for count in (1, 50, 99):
            after = self.after(job, count, "&status=REJECTED")
            self.assertEqual(self.counted(job, f"?status=REJECTED&{after}"),
                             100 - count)

    def test_it_tells_so_of_every_kind_of_job(self):
        self.p.outcomes("skus", [sku(f"S{i}", base_uom="EA" if i % 2 else "NO")
                                 for i in range(300)])
        self.p.outcomes("uoms", [uom("EA")])
        released = self.p.control("/quarantine/release").json()["job_id"]
        self.over(released)
        self.assertEqual(self.counted(released), 300)
        self.assertEqual(self.counted(released, "?status=ACCEPTED"), 150)
        self.assertEqual(self.counted(
            released, "?" + self.after(released, 120)), 180)
        self.assertEqual(self.counted(
            released, "?status=QUARANTINED&" + self.after(
                released, 20, "&status=QUARANTINED")), 130)
        some = [uom(f"U{i}", 1) for i in range(5000)]
        self.p.outcomes("uoms", some)
        refresh = self.bulk(some[:4900], mode="full-refresh")
        self.over(refresh)
        self.assertEqual(self.counted(refresh), 5001)
        self.assertEqual(self.counted(refresh, "?status=TOMBSTONED"), 101)
        self.assertEqual(self.counted(
            refresh, "?status=TOMBSTONED&" + self.after(
                refresh, 1, "&status=TOMBSTONED")), 100)

    def test_it_is_what_the_job_had_when_it_was_asked_for(self):
        """Before the first chunk, between any two, and at its end."""
        self.worker("stop")
        job = self.bulk([uom(f"U{i}", 1) for i in range(60000)])
        seen = {self.counted(job)}
        self.worker("start")
        while self.job(job)["status"] not in OVER:
            seen.add(self.counted(job))
        seen.add(self.counted(job))
        self.assertLessEqual({0, 60000}, seen)
        self.assertEqual({n % 1000 for n in seen}, {0})

    def test_jobs_are_listed_newest_first(self):
        self.worker("stop")
        jobs = [self.bulk([uom(f"U{i}")]) for i in range(5)]
        skus = self.bulk([sku("A")], "skus")
        listed, after = [], ""
        while True:
            page = self.p.get(f"{JOBS}?limit=2{after}").json()
            listed += [j["job_id"] for j in page["items"]]
            if not page["next"]:
                break
            after = f"&after={page['next']}"
        self.assertEqual(listed, [skus, *reversed(jobs)])

        def ids(query):
            return [j["job_id"] for j in
                    self.p.get(f"{JOBS}?{query}").json()["items"]]
        self.assertEqual(ids("collection=skus"), [skus])
        self.assertEqual(ids("status=COMPLETED"), [])
        self.assertEqual(len(ids("status=QUEUED&collection=uoms")), 5)
        for query in ("status=x", "collection=x", "after=x", "nope=1"):
            self.assertEqual(self.p.get(f"{JOBS}?{query}").status, 400, query)

    def test_what_another_partner_has_is_not_there(self):
        job = self.bulk([uom("A")])
        other = Partner(self.s)
        self.addCleanup(other.close)
        for path in (f"{JOBS}/{job}", f"{JOBS}/{job}/results",
                     f"{JOBS}/job-{0:032x}", f"{JOBS}/x",
                     f"{JOBS}/{job.upper()}/results"):
            self.assertEqual(other.get(path).status, 404, path)
        self.assertEqual(other.get(JOBS).json()["items"], [])
        self.assertEqual(other.control(f"{JOBS}/{job}/cancel").status, 404)
        self.assertEqual(self.p.get(f"{JOBS}/{job}").status, 200)

    def test_cancel_of_a_waiting_job_frees_its_lane(self):
        self.worker("stop")
        job = self.bulk([uom("A")])
        key = new_key()
        answer = self.p.control(f"{JOBS}/{job}/cancel", key)
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(answer.json(), {"job_id": job, "status": "CANCELLED",
                                         "cancel_requested": True})
        again = self.p.control(f"{JOBS}/{job}/cancel", key)
        self.assertEqual((again.status, again.body),
                         (answer.status, answer.body))
        self.assertEqual(again.headers["Idempotent-Replayed"], "true")
        self.assertEqual(self.job(job)["status"], "CANCELLED")
        late = self.p.control(f"{JOBS}/{job}/cancel")
        self.assertEqual(late.status, 409, late)
        self.assertIn("#job-finished", late.json()["type"])
        # The lane is free: a refresh is not in the way of anything.
        self.assertIn(self.p.refresh("uoms", [uom("A")]).status, (200, 202))
        report = self.p.get(f"/requests/{key}").json()
        self.assertEqual((report["mode"], report["status"]), ("cancel", 200))
        reader = Partner.fork(self.p)
        reader.key = self.p.new_credential("ingest,read")
        self.addCleanup(reader.close)
        self.assertEqual(reader.control(f"{JOBS}/{job}/cancel").status, 403)

    def test_requeue_goes_on_from_the_checkpoint(self):
        count = 80000  # enough for a cancel to find it at work
        job = self.bulk([uom(f"U{i}", 1) for i in range(count)])
        wait_for(lambda: self.job(job)["progress"]["processed"] > 0, 60,
                 "a chunk")
        done = self.s.waybill("job", "cancel", job, check=False)
        over = self.over(job)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(over["status"], "CANCELLED")
        processed = over["progress"]["processed"]
        self.assertLess(processed, count)
        self.assertEqual(len(self.results(job, "limit=1000")), processed)
        self.assertEqual(self.s.waybill("job", "requeue", job).stdout,
                         f"{job} QUEUED\n")
        over = self.over(job)
        self.assertEqual((over["status"], over["summary"]["accepted"]),
                         ("COMPLETED", count))
        self.assertEqual([r["index"] for r in self.results(job, "limit=1000")],
                         list(range(count)))
        again = self.s.waybill("job", "requeue", job, check=False)
        self.assertEqual(again.returncode, 1)
        self.assertIn("COMPLETED", again.stderr)

    def requeue(self, job, *words, want=0):
        done = self.s.waybill("job", "requeue", job, *words, check=False)
        self.assertEqual(done.returncode, want, done.stderr)
        return done.stderr

    def failed_refresh(self):
        """Of 5,000 items, by its guard."""
        self.p.outcomes("uoms", [uom(f"U{i}", 1) for i in range(5000)])
        job = self.bulk([uom(f"X{i}", 1) for i in range(100)],
                        mode="full-refresh")
        self.check_destructive(job)
        return job

    def check_destructive(self, job):
        got = self.over(job)
        self.assertEqual(got["status"], "FAILED")
        self.assertEqual({k: got["error"][k] for k in ("type", "status")}, {
            "type": "/docs/errors.md#refresh-too-destructive", "status": 422})
        self.assertTrue(got["error"]["detail"])
        self.assertEqual(got["summary"]["tombstoned"], 0)

    def test_a_failed_refresh_is_queued_again_once_it_is_confirmed(self):
        job = self.failed_refresh()
        self.assertEqual(self.s.waybill("job", "watch", job,
                                        check=False).returncode, 1)
        self.requeue(job)
        self.check_destructive(job)
        # Touched after it was received: it stays.
        self.p.outcomes("uoms", [uom("U7", 2)])
        self.requeue(job, "--confirm")
        got = self.over(job)
        self.assertEqual((got["status"], got["summary"]), ("COMPLETED", {
            "total": 100, "accepted": 100, "replay": 0, "quarantined": 0,
            "rejected": 0, "tombstoned": 4999}))
        self.assertEqual(len(self.results(job, "limit=1000")), 5099)
        self.assertNotIn("error", got)
        held = self.p.held("uoms")
        self.assertEqual(sorted(k for k, h in held.items()
                                if h.state == "ACTIVE"),
                         sorted(["U7", *(f"X{i}" for i in range(100))]))

    def test_a_failed_refresh_stays_so_after_others_came(self):
        job = self.failed_refresh()
        self.over(self.bulk([uom("NEW")]))
        self.assertIn("sent anew", self.requeue(job, "--confirm", want=1))
        self.assertEqual(self.job(job)["status"], "FAILED")
        # The lane is as free as it was.
        self.assertEqual(self.p.refresh("uoms", [uom("A")],
                                        confirm="true").status, 202)

    def test_only_a_refresh_is_confirmed(self):
        self.worker("stop")
        job = self.bulk([uom("A")])
        self.p.control(f"{JOBS}/{job}/cancel")
        self.assertIn("no full-refresh",
                      self.requeue(job, "--confirm", want=1))
        self.assertEqual(self.job(job)["status"], "CANCELLED")

    def test_results_are_kept_for_the_retention(self):
        """Of a finished job; as with keys, it is the time that decides."""
        job = self.bulk([uom("A")])
        batch = self.over(job)["batch_id"][4:]
        old = f"{int(batch[:12], 16) - 31 * 86400000:012x}" + batch[12:]
        self.s.sql(f"UPDATE job SET batch_id = X'{old}' WHERE job_id = "
                   f"X'{job[4:]}'")
        for headers in ({}, NDJSON):
            answer = self.p.request(
                "GET", f"/wms-ingest/v1/jobs/{job}/results", headers)
            self.assertEqual(answer.status, 404, answer)
            self.assertIn("no longer kept", answer.json()["detail"])
        self.assertEqual(self.job(job)["status"], "COMPLETED")

    def test_the_operators_command(self):
        job = self.bulk([uom("A"), {}])
        watched = self.s.waybill("job", "watch", job, check=False)
        self.assertEqual(watched.returncode, 4, watched.stderr)
        self.assertIn("COMPLETED: 2 of 2 items: 1 accepted", watched.stdout)
        self.assertIn("2 of 2 (100%)", watched.stderr)
        shown = json.loads(self.s.waybill("--json", "job", "show", job).stdout)
        self.assertEqual((shown["job_id"], shown["partner_id"], shown["state"],
                          shown["rejected"]),
                         (job, self.p.name, "COMPLETED", 1))
        self.assertIn("state             COMPLETED\n",
                      self.s.waybill("job", "show", job).stdout)
        listed = json.loads(self.s.waybill(
            "--json", "job", "list", "--partner", self.p.name).stdout)
        self.assertEqual([j["job_id"] for j in listed], [job])
        self.assertEqual(self.s.waybill(
            "job", "list", "--partner", self.p.name, "--state",
            "FAILED").stdout.count("\n"), 1)
        for want, words in ((3, ("show", "job-x")), (3, ("watch", "x")),
                            (3, ("cancel", f"job-{9:032x}")),
                            (3, ("requeue", f"job-{9:032x}")),
                            (3, ("list", "--partner", "NOBODY")),
                            (2, ("list", "--state", "x")), (2, ("show",)),
                            (1, ("cancel", job))):
            done = self.s.waybill("job", *words, check=False)
            self.assertEqual(done.returncode, want, words)

    def test_a_bar_is_drawn_on_a_terminal(self):
        job = self.bulk([uom("A")])
        self.over(job)
        done = subprocess.run(
            ["script", "-qec", " ".join([
                os.path.join(self.s.programs, "waybill"), "--conf",
                os.path.join(self.s.var, "waybill.conf"), "job", "watch",
                job]), "/dev/null"], stdout=subprocess.PIPE, check=False,
            env={**self.s.environment(), "TERM": "xterm"})
        self.assertIn(b"[####", done.stdout)

    def test_views_have_jobs_and_their_items(self):
        job = self.bulk([uom("A", 4), {}])
        self.over(job)
        self.assertEqual(self.s.sql(
            "SELECT partner_id, collection, kind, mode, state, total, "
            "processed, accepted, rejected FROM v_job_by_key WHERE "
            f"job_key = UNHEX('{job[4:]}')", user="waybill_ro"),
            [[self.p.name, "uoms", "items", "bulk", "COMPLETED", "2", "2",
              "1", "1"]])
        self.assertEqual(self.s.sql(
            "SELECT job_id, position, line, source_text, source_version, "
            "status, change_kind FROM v_job_item_by_key WHERE "
            f"job_key = UNHEX('{job[4:]}')", user="waybill_ro"),
            [[job, "0", "1", "A", "4", "ACCEPTED", "created"],
             [job, "1", "2", "NULL", "NULL", "REJECTED", "NULL"]])


class Broken(unittest.TestCase):
    """A worker that pauses after its third piece."""

    def test_a_stream_that_breaks_off_is_seen_to(self):
        with Stack(workers=2, env={"WAYBILL_TEST_FAULT":
                                   "respond.streamed:3:delay=4000"}) as s:
            p = Partner(s)
            self.addCleanup(p.close)
            body = b"".join(json.dumps(uom(f"U{i}", 1)).encode() + b"\n"
                            for i in range(20000))
            job = p.post("uoms", body, mode="bulk", headers={
                "Content-Type": "application/x-ndjson"}).json()["job_id"]
            wait_for(lambda: p.get(f"{JOBS}/{job}").json()["status"] in OVER,
                     60, "the job")
            with s.session() as session:
                session.http.request(
                    "GET", f"/wms-ingest/v1/jobs/{job}/results",
                    headers={**NDJSON, "Authorization": f"Bearer {p.key}"})
                response = session.http.getresponse()
                self.assertEqual(response.headers["X-Results-Count"], "20000")
                self.assertTrue(response.readline())
                s.supervisorctl("stop", "mariadb")
                with self.assertRaises((http.client.IncompleteRead,
                                        ConnectionError)):
                    response.read()
            s.supervisorctl("start", "mariadb")
