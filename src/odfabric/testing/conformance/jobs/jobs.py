"""What Jobs promises, as tests.

A subclass gives `jobs`, new and empty for each test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from odfabric.errors import LeaseLost
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job, JobKind, JobStatus, Lane, Lease, NewJob
from odfabric.ports.jobs.jobs import Jobs
from odfabric.testing.conformance.examples import NOW, entry_of, later
from odfabric.testing.conformance.together import PROCESSES, THREADS, outcomes_of_processes, outcomes_of_threads

FLIGHTS, WEATHER = entry_of("flights").id, entry_of("weather").id
LEASE_MS = 1000


def new_job(
    name: str, *, dataset: DatasetId | None = FLIGHTS, dedup_key: str | None = None, body: bytes | None = None
) -> NewJob:
    """A push."""
    return NewJob(
        id=name,
        kind=JobKind.PUSH,
        account="local",
        dataset_id=dataset,
        request='{"body": "é"}',
        dedup_key=dedup_key,
        body=body,
    )


def take(jobs: Jobs, *, now: Instant = NOW, worker: str = "w") -> Lease | None:
    """The next lease."""
    return jobs.lease(worker, now=now, lease_ms=LEASE_MS)


def taken(jobs: Jobs, *, now: Instant = NOW, worker: str = "w") -> Lease:
    """The next lease, which must be there."""
    lease = take(jobs, now=now, worker=worker)
    assert lease is not None
    return lease


class JobsContract:
    """Queue, order and ends."""

    @pytest.fixture
    def jobs(self) -> Jobs:
        raise NotImplementedError

    def test_a_queued_job_is_there(self, jobs: Jobs) -> None:
        queued = jobs.enqueue(new_job("j1", dedup_key="k"), now=NOW)
        assert queued == Job(
            id="j1",
            kind=JobKind.PUSH,
            account="local",
            dataset_id=FLIGHTS,
            request='{"body": "é"}',
            dedup_key="k",
            status=JobStatus.QUEUED,
            progress=None,
            result=None,
            error=None,
            attempts=0,
            created_at=NOW,
            updated_at=NOW,
        )
        assert jobs.get("j1") == queued
        assert jobs.get("nothing") is None

    def test_queueing_again_by_id_is_success(self, jobs: Jobs) -> None:
        queued = jobs.enqueue(new_job("j1"), now=NOW)
        assert jobs.enqueue(replace(new_job("j1"), request="other"), now=later(1)) == queued
        lease = taken(jobs)
        jobs.succeed(lease, now=later(2), result="{}")
        assert jobs.enqueue(new_job("j1"), now=later(3)).status is JobStatus.SUCCEEDED
        assert len(jobs.page(limit=10)) == 1

    def test_of_unfinished_jobs_with_one_key_there_is_one(self, jobs: Jobs) -> None:
        first = jobs.enqueue(new_job("j1", dedup_key="k"), now=NOW)
        assert jobs.enqueue(new_job("j2", dedup_key="k"), now=later(1)) == first
        assert jobs.enqueue(new_job("j3", dedup_key="other"), now=NOW).id == "j3"
        assert jobs.enqueue(new_job("j4"), now=NOW).id == "j4"
        assert jobs.enqueue(new_job("j5"), now=NOW).id == "j5"
        lease = taken(jobs, now=later(2))
        assert jobs.enqueue(new_job("j6", dedup_key="k"), now=later(3)).id == "j1"
        jobs.fail(lease, now=later(4), error="{}")
        assert jobs.enqueue(new_job("j7", dedup_key="k"), now=later(5)).id == "j7"

    def test_pages_are_newest_first(self, jobs: Jobs) -> None:
        for name, dataset in [("j1", FLIGHTS), ("j2", WEATHER), ("j3", None), ("j4", FLIGHTS)]:
            jobs.enqueue(new_job(name, dataset=dataset), now=NOW)
        jobs.succeed(taken(jobs), now=NOW, result="{}")
        assert [job.id for job in jobs.page(limit=10)] == ["j4", "j3", "j2", "j1"]
        assert [job.id for job in jobs.page(limit=2)] == ["j4", "j3"]
        assert [job.id for job in jobs.page(dataset=FLIGHTS, limit=10)] == ["j4", "j1"]
        assert [job.id for job in jobs.page(unfinished_only=True, limit=10)] == ["j4", "j3", "j2"]
        assert [job.id for job in jobs.page(dataset=FLIGHTS, unfinished_only=True, limit=10)] == ["j4"]

    def test_a_job_about_a_dataset_is_not_in_its_queue(self, jobs: Jobs) -> None:
        send = replace(new_job("j2", dataset=None), kind=JobKind.SEND, about=FLIGHTS)
        for job in (new_job("j1"), send, replace(send, id="j3", about=WEATHER), new_job("j4")):
            assert jobs.enqueue(job, now=NOW).about == job.about
        assert [job.id for job in jobs.page(about=FLIGHTS, limit=10)] == ["j2"]
        assert [job.id for job in jobs.page(dataset=FLIGHTS, limit=10)] == ["j4", "j1"]
        assert [taken(jobs).job.id for _ in range(3)] == ["j1", "j2", "j3"]
        found = jobs.get("j2")
        assert found is not None
        assert (found.dataset_id, found.about, found.concerns) == (None, FLIGHTS, FLIGHTS)
        assert jobs.page(about=FLIGHTS, unfinished_only=True, limit=10) == [found]

    def test_the_oldest_is_leased_first(self, jobs: Jobs) -> None:
        assert take(jobs) is None
        for name, dataset in [("j1", FLIGHTS), ("j2", WEATHER), ("j3", None), ("j4", None)]:
            jobs.enqueue(new_job(name, dataset=dataset), now=NOW)
        lease = taken(jobs, worker="me", now=later(7))
        assert (lease.job.id, lease.worker, lease.fence, lease.until) == ("j1", "me", 1, later(7 + LEASE_MS))
        assert (lease.job.status, lease.job.attempts, lease.job.updated_at) == (JobStatus.RUNNING, 1, later(7))
        assert jobs.get("j1") == lease.job
        assert [taken(jobs).job.id for _ in range(3)] == ["j2", "j3", "j4"]
        assert take(jobs) is None

    def test_a_lane_gives_its_own_jobs_and_keeps_the_order_of_a_dataset(self, jobs: Jobs) -> None:
        jobs.enqueue(new_job("push", dataset=WEATHER), now=NOW)
        jobs.enqueue(replace(new_job("behind", dataset=WEATHER), kind=JobKind.INDEX), now=NOW)
        assert jobs.lease("w", now=NOW, lease_ms=LEASE_MS, lane=Lane.LIGHT) is None
        jobs.enqueue(replace(new_job("judge", dataset=None), kind=JobKind.JUDGE), now=NOW)
        light = jobs.lease("w", now=NOW, lease_ms=LEASE_MS, lane=Lane.LIGHT)
        heavy = jobs.lease("w", now=NOW, lease_ms=LEASE_MS, lane=Lane.HEAVY)
        assert (light and light.job.id, heavy and heavy.job.id) == ("judge", "push")
        assert jobs.lease("w", now=NOW, lease_ms=LEASE_MS, lane=Lane.HEAVY) is None

    def test_jobs_of_a_dataset_run_one_after_the_other(self, jobs: Jobs) -> None:
        for name in ("j1", "j2", "j3"):
            jobs.enqueue(new_job(name), now=NOW)
        first = taken(jobs)
        assert take(jobs) is None
        jobs.succeed(first, now=NOW, result="{}")
        second = taken(jobs)
        assert second.job.id == "j2"
        jobs.fail(second, now=NOW, error="{}")
        assert taken(jobs).job.id == "j3"

    def test_nothing_overtakes_a_job_that_waits_for_its_next_attempt(self, jobs: Jobs) -> None:
        jobs.enqueue(new_job("j1"), now=NOW)
        jobs.enqueue(new_job("j2"), now=NOW)
        jobs.enqueue(new_job("j3", dataset=WEATHER), now=NOW)
        assert jobs.retry(taken(jobs), now=NOW, due_at=later(500), error='{"first": 1}')
        waiting = jobs.get("j1")
        assert waiting is not None
        assert (waiting.status, waiting.error) == (JobStatus.QUEUED, '{"first": 1}')
        assert taken(jobs, now=later(499)).job.id == "j3"
        assert take(jobs, now=later(499)) is None
        assert jobs.lease_one("j2", "w", now=later(499), lease_ms=LEASE_MS) is None
        again = taken(jobs, now=later(500))
        assert (again.job.id, again.job.attempts, again.fence) == ("j1", 2, 2)

    def test_a_job_that_is_given_back_is_as_it_was(self, jobs: Jobs) -> None:
        jobs.enqueue(new_job("j1"), now=NOW)
        jobs.retry(taken(jobs), now=NOW, due_at=NOW, error='{"first": 1}')
        second = taken(jobs)
        assert jobs.retry(second, now=NOW, due_at=NOW, error=None)
        waiting = jobs.get("j1")
        assert waiting is not None
        assert (waiting.status, waiting.attempts, waiting.error) == (JobStatus.QUEUED, 1, '{"first": 1}')
        assert not jobs.succeed(second, now=NOW, result="stale")
        third = taken(jobs)
        assert (third.job.attempts, third.fence > second.fence) == (2, True)

    def test_jobs_of_a_dead_worker_go_back(self, jobs: Jobs) -> None:
        for name, dataset in (("j1", FLIGHTS), ("j2", WEATHER)):
            jobs.enqueue(new_job(name, dataset=dataset), now=NOW)
        dead, other = taken(jobs, worker="host/1%_/jobs-0"), taken(jobs, worker="host/1xy/jobs-0")
        assert jobs.give_back("host/1%_/", now=later(1)) == 1
        assert jobs.give_back("host/1%_/", now=later(1)) == 0
        with pytest.raises(LeaseLost):
            jobs.heartbeat(dead, now=later(2), lease_ms=LEASE_MS)
        assert not jobs.succeed(dead, now=later(2), result="stale")
        again = taken(jobs, now=later(2))
        assert (again.job.id, again.job.attempts, again.fence > dead.fence) == (dead.job.id, 2, True)
        assert jobs.succeed(other, now=later(2), result="{}")

    def test_a_job_is_due_when_it_is_queued(self, jobs: Jobs) -> None:
        jobs.enqueue(new_job("j1"), now=NOW)
        assert take(jobs, now=later(-1)) is None
        assert taken(jobs, now=NOW).job.id == "j1"

    def test_a_job_of_a_clock_that_was_ahead_does_not_wait_for_it(self, jobs: Jobs) -> None:
        ahead = later(10 * LEASE_MS)
        jobs.enqueue(new_job("j1"), now=ahead)
        assert take(jobs, now=later(9 * LEASE_MS)) is None
        jobs.retry(taken(jobs, now=NOW), now=ahead, due_at=later(11 * LEASE_MS), error='{"first": 1}')
        assert taken(jobs, now=NOW, worker="dead").job.id == "j1"
        assert jobs.give_back("dead", now=NOW) == 1
        assert taken(jobs, now=NOW).job.id == "j1"

    def test_exactly_one_named_job_can_be_leased(self, jobs: Jobs) -> None:
        for name, dataset in [("j1", FLIGHTS), ("j2", FLIGHTS), ("j3", WEATHER)]:
            jobs.enqueue(new_job(name, dataset=dataset), now=NOW)
        assert jobs.lease_one("nothing", "w", now=NOW, lease_ms=LEASE_MS) is None
        assert jobs.lease_one("j2", "w", now=NOW, lease_ms=LEASE_MS) is None
        third = jobs.lease_one("j3", "w", now=NOW, lease_ms=LEASE_MS)
        assert third is not None
        assert third.job.id == "j3"
        assert jobs.lease_one("j3", "w", now=NOW, lease_ms=LEASE_MS) is None
        again = jobs.lease_one("j3", "w", now=later(LEASE_MS), lease_ms=LEASE_MS)
        assert again is not None
        assert again.fence == 2
        assert taken(jobs).job.id == "j1"

    def test_ends_are_recorded(self, jobs: Jobs) -> None:
        for name, dataset in [("j1", FLIGHTS), ("j2", WEATHER)]:
            jobs.enqueue(new_job(name, dataset=dataset), now=NOW)
        assert jobs.succeed(taken(jobs), now=later(3), result='{"rows": 1}')
        assert jobs.fail(taken(jobs), now=later(4), error='{"code": "x"}')
        succeeded, failed = jobs.get("j1"), jobs.get("j2")
        assert succeeded is not None
        assert failed is not None
        assert (succeeded.status, succeeded.result, succeeded.error) == (JobStatus.SUCCEEDED, '{"rows": 1}', None)
        assert (failed.status, failed.result, failed.error) == (JobStatus.FAILED, None, '{"code": "x"}')
        assert (succeeded.updated_at, failed.updated_at) == (later(3), later(4))
        assert take(jobs, now=later(10 * LEASE_MS)) is None

    def test_a_body_is_there_until_its_job_has_ended(self, jobs: Jobs) -> None:
        bodies = {"j1": b"one", "j2": b"", "j3": bytes(range(256)) * 256}
        for name, body in bodies.items():
            jobs.enqueue(new_job(name, dataset=None, body=body), now=NOW)
        jobs.enqueue(new_job("j4", dataset=None), now=NOW)
        assert jobs.bodies([*bodies, "j4", "j5"]) == bodies
        jobs.retry(taken(jobs), now=NOW, due_at=later(1), error="{}")
        assert jobs.bodies(["j1"]) == {"j1": b"one"}
        jobs.succeed(taken(jobs), now=NOW, result="{}")
        jobs.fail(taken(jobs), now=NOW, error="{}")
        jobs.cancel("j1", now=NOW)
        assert jobs.bodies([*bodies]) == {}

    def test_a_job_that_is_known_already_keeps_its_body(self, jobs: Jobs) -> None:
        jobs.enqueue(new_job("j1", dedup_key="k", body=b"one"), now=NOW)
        assert jobs.enqueue(new_job("j2", dedup_key="k", body=b"two"), now=NOW).id == "j1"
        assert jobs.bodies(["j1", "j2"]) == {"j1": b"one"}

    def test_what_follows_a_job_are_the_untried_ones_of_its_dataset_in_order(self, jobs: Jobs) -> None:
        for name in ("j1", "j2", "j3", "j4", "j5"):
            jobs.enqueue(new_job(name), now=NOW)
            jobs.enqueue(new_job(f"{name}-other", dataset=WEATHER), now=NOW)
        jobs.cancel("j3", now=NOW)
        first = taken(jobs)
        assert [job.id for job in jobs.following(first, limit=10)] == ["j2", "j4", "j5"]
        assert [job.id for job in jobs.following(first, limit=2)] == ["j2", "j4"]
        assert jobs.queued(["j1", "j2", "j3", "j4", "unknown"]) == {"j2", "j4"}
        assert jobs.queued([]) == frozenset()
        jobs.succeed(first, now=NOW, result="{}")
        second = taken(jobs, now=NOW)
        while second.job.dataset_id != FLIGHTS:
            second = taken(jobs, now=NOW)
        assert [job.id for job in jobs.following(second, limit=10)] == ["j4", "j5"]

    def test_nothing_follows_over_a_job_that_was_tried(self, jobs: Jobs) -> None:
        for name in ("j1", "j2", "j3"):
            jobs.enqueue(new_job(name), now=NOW)
        first = taken(jobs)
        jobs.retry(first, now=NOW, due_at=NOW, error="{}")
        jobs.cancel("j1", now=NOW)
        tried = taken(jobs)
        jobs.retry(tried, now=NOW, due_at=NOW, error="{}")
        again = taken(jobs)
        assert (again.job.id, [job.id for job in jobs.following(again, limit=10)]) == ("j2", ["j3"])

    def test_jobs_that_were_taken_along_end_together(self, jobs: Jobs) -> None:
        for name in ("j1", "j2", "j3", "j4"):
            jobs.enqueue(new_job(name, body=b"body"), now=NOW)
        lease = taken(jobs)
        jobs.cancel("j3", now=NOW)
        assert jobs.succeed(lease, now=later(1), result='{"rows": 1}', together=["j2", "j3"])
        ended = {name: jobs.get(name) for name in ("j1", "j2", "j3", "j4")}
        assert [job.status for job in ended.values() if job] == [
            JobStatus.SUCCEEDED,
            JobStatus.SUCCEEDED,
            JobStatus.CANCELLED,
            JobStatus.QUEUED,
        ]
        assert [job.result for job in ended.values() if job] == ['{"rows": 1}', '{"rows": 1}', None, None]
        assert jobs.bodies(["j1", "j2", "j3", "j4"]) == {"j4": b"body"}
        assert taken(jobs).job.id == "j4"

    def test_a_stale_lease_ends_nothing_that_it_took_along(self, jobs: Jobs) -> None:
        jobs.enqueue(new_job("j1"), now=NOW)
        jobs.enqueue(new_job("j2"), now=NOW)
        stale = taken(jobs)
        taken(jobs, now=later(LEASE_MS + 1))
        assert not jobs.succeed(stale, now=later(LEASE_MS + 2), result="{}", together=["j2"])
        behind = jobs.get("j2")
        assert behind is not None
        assert behind.status is JobStatus.QUEUED

    def test_success_forgets_the_error_of_an_earlier_attempt(self, jobs: Jobs) -> None:
        jobs.enqueue(new_job("j1"), now=NOW)
        jobs.retry(taken(jobs), now=NOW, due_at=NOW, error='{"first": 1}')
        jobs.succeed(taken(jobs), now=NOW, result="{}")
        job = jobs.get("j1")
        assert job is not None
        assert job.error is None


class LeasesContract:
    """Fences, expiry, races."""

    @pytest.fixture
    def jobs(self) -> Jobs:
        raise NotImplementedError

    @pytest.fixture
    def lease(self, jobs: Jobs) -> Lease:
        """A lease of the job j1, behind which j2 waits."""
        jobs.enqueue(new_job("j1"), now=NOW)
        jobs.enqueue(new_job("j2"), now=NOW)
        return taken(jobs)

    def test_an_expired_lease_is_taken_over(self, jobs: Jobs, lease: Lease) -> None:
        assert take(jobs, now=later(LEASE_MS - 1)) is None
        over = taken(jobs, now=later(LEASE_MS), worker="other")
        assert (over.job.id, over.fence, over.job.attempts, over.worker) == ("j1", 2, 2, "other")

    def test_a_lease_of_a_clock_that_was_ahead_has_expired(self, jobs: Jobs, lease: Lease) -> None:
        jobs.heartbeat(lease, now=later(10 * LEASE_MS), lease_ms=LEASE_MS)
        assert take(jobs, now=later(9 * LEASE_MS)) is None
        assert taken(jobs, now=later(9 * LEASE_MS - 1)).fence == 2

    def test_a_heartbeat_prolongs_the_lease(self, jobs: Jobs, lease: Lease) -> None:
        beaten = jobs.heartbeat(lease, now=later(900), lease_ms=LEASE_MS, progress='{"done": 1}')
        assert (beaten.fence, beaten.until, beaten.worker) == (1, later(900 + LEASE_MS), "w")
        assert (beaten.job.progress, beaten.job.updated_at) == ('{"done": 1}', later(900))
        assert take(jobs, now=later(900 + LEASE_MS - 1)) is None
        again = jobs.heartbeat(lease, now=later(950), lease_ms=LEASE_MS)
        assert again.job.progress == '{"done": 1}'
        assert jobs.get("j1") == again.job

    def test_an_expired_lease_that_nobody_took_can_be_prolonged(self, jobs: Jobs, lease: Lease) -> None:
        beaten = jobs.heartbeat(lease, now=later(5 * LEASE_MS), lease_ms=LEASE_MS)
        assert beaten.until == later(6 * LEASE_MS)
        assert take(jobs, now=later(5 * LEASE_MS + 1)) is None

    @pytest.mark.parametrize("how", ["taken over", "cancelled", "retried", "finished"])
    def test_a_stale_lease_changes_nothing(self, jobs: Jobs, lease: Lease, how: str) -> None:
        match how:
            case "taken over":
                taken(jobs, now=later(LEASE_MS))
            case "cancelled":
                jobs.cancel("j1", now=NOW)
            case "retried":
                jobs.retry(lease, now=NOW, due_at=later(9), error="{}")
            case _:
                jobs.succeed(lease, now=NOW, result="{}")
        before = jobs.get("j1")
        with pytest.raises(LeaseLost):
            jobs.heartbeat(lease, now=later(1), lease_ms=LEASE_MS, progress="{}")
        assert not jobs.succeed(lease, now=later(2), result="stale")
        assert not jobs.fail(lease, now=later(3), error="stale")
        assert not jobs.retry(lease, now=later(4), due_at=later(5), error="stale")
        assert jobs.get("j1") == before

    def test_a_zombie_cannot_end_the_work_of_its_successor(self, jobs: Jobs, lease: Lease) -> None:
        over = taken(jobs, now=later(LEASE_MS))
        assert not jobs.succeed(lease, now=later(LEASE_MS), result="zombie")
        assert jobs.succeed(over, now=later(LEASE_MS), result="right")
        job = jobs.get("j1")
        assert job is not None
        assert job.result == "right"

    def test_cancelling(self, jobs: Jobs, lease: Lease) -> None:
        assert jobs.cancel("nothing", now=NOW) is None
        cancelled = jobs.cancel("j2", now=later(3))
        assert cancelled is not None
        assert (cancelled.status, cancelled.updated_at) == (JobStatus.CANCELLED, later(3))
        assert jobs.cancel("j2", now=later(4)) == cancelled
        jobs.succeed(lease, now=NOW, result="{}")
        finished = jobs.get("j1")
        assert jobs.cancel("j1", now=later(5)) == finished
        assert take(jobs, now=later(10 * LEASE_MS)) is None

    def test_a_cancelled_job_makes_way(self, jobs: Jobs, lease: Lease) -> None:
        jobs.cancel("j1", now=NOW)
        assert taken(jobs).job.id == "j2"

    def test_of_racing_workers_one_gets_each_job(self, jobs: Jobs) -> None:
        for number in range(10):
            jobs.enqueue(new_job(f"j{number}", dataset=FLIGHTS if number % 2 else None), now=NOW)
        outcomes = outcomes_of_threads(lambda number: take(jobs, worker=f"w{number}"))
        leases = [outcome for outcome in outcomes if isinstance(outcome, Lease)]
        # The five without a dataset, and one of the five of the same dataset.
        assert sorted(lease.job.id for lease in leases) == ["j0", "j1", "j2", "j4", "j6", "j8"]

    def test_of_racing_workers_one_takes_over(self, jobs: Jobs, lease: Lease) -> None:
        outcomes = outcomes_of_threads(lambda number: take(jobs, worker=f"w{number}", now=later(LEASE_MS)))
        (over,) = [outcome for outcome in outcomes if isinstance(outcome, Lease)]
        assert (over.job.id, over.fence) == ("j1", 2)

    def test_of_racing_ends_one_counts(self, jobs: Jobs, lease: Lease) -> None:
        outcomes = outcomes_of_threads(lambda number: jobs.succeed(lease, now=NOW, result=str(number)))
        assert sorted(map(str, outcomes)) == ["False"] * (THREADS - 1) + ["True"]

    def test_racing_enqueues_with_one_key_make_one_job(self, jobs: Jobs) -> None:
        outcomes = outcomes_of_threads(lambda n: jobs.enqueue(new_job(f"j{n}", dedup_key="k"), now=NOW).id)
        assert len({str(outcome) for outcome in outcomes}) == len(jobs.page(limit=100)) == 1


class JobsProcessContract:
    """Leases between processes.

    A subclass gives `jobs`, and `open_jobs`, which can be pickled and opens the same in another process."""

    @pytest.fixture
    def jobs(self) -> Jobs:
        raise NotImplementedError

    @pytest.fixture
    def open_jobs(self) -> Callable[[], Jobs]:
        raise NotImplementedError

    def test_racing_processes_do_each_job_once(self, jobs: Jobs, open_jobs: Callable[[], Jobs]) -> None:
        for number in range(40):
            jobs.enqueue(new_job(f"j{number}", dataset=FLIGHTS if number % 2 else None), now=NOW)
        done = outcomes_of_processes(open_jobs, _work, count=PROCESSES)
        assert sum(map(int, done)) == 40
        assert {(job.status, job.attempts) for job in jobs.page(limit=100)} == {(JobStatus.SUCCEEDED, 1)}


def _work(jobs: Jobs, number: int) -> str:
    """Do jobs until none is unfinished; returns how many this process has done."""
    done = 0
    while jobs.page(unfinished_only=True, limit=1):
        lease = take(jobs, worker=f"w{number}")
        if lease is not None:
            running = [job for job in jobs.page(dataset=FLIGHTS, limit=100) if job.status is JobStatus.RUNNING]
            assert len(running) <= 1
            done += jobs.succeed(lease, now=NOW, result="{}")
    return str(done)
