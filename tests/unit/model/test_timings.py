"""Histograms of a process: which labels they have, and that no user can add one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from odfabric.errors import Determinate, InvalidQuery, LimitExceeded
from odfabric.model.engine import EngineProgress
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.job import Job, JobKind, JobStatus
from odfabric.wiring.monitoring.timings import Timings

NOW = Instant.parse("2026-01-01T00:00:00Z")


class Measured:
    """Timings in a registry; counts of a histogram by its labels."""

    def __init__(self) -> None:
        self.timings = Timings()
        self.registry = CollectorRegistry()
        for collector in self.timings.collectors:
            self.registry.register(collector)

    def counts(self, name: str) -> dict[tuple[str, ...], float]:
        return {
            tuple(sample.labels.values()): sample.value
            for metric in self.registry.collect()
            for sample in metric.samples
            if sample.name == f"{name}_count"
        }

    def sum(self, name: str) -> float:
        (found,) = [
            one.value for metric in self.registry.collect() for one in metric.samples if one.name == f"{name}_sum"
        ]
        return found


@pytest.fixture
def measured() -> Measured:
    return Measured()


def test_requests_have_templates_and_classes_of_status(measured: Measured) -> None:
    for route, method, status in [("/a/{b}", "GET", 204), ("/a/{b}", "GET", 200), ("", "BREW", 418)]:
        measured.timings.request(route=route, method=method, status=status, seconds=0.1)
    assert measured.counts("odf_http_request_seconds") == {
        ("/a/{b}", "GET", "2xx"): 2.0,
        ("other", "other", "4xx"): 1.0,
    }


def test_jobs_wait_until_their_first_attempt(measured: Measured) -> None:
    job = Job(
        id="j",
        kind=JobKind.PULL,
        account="a",
        dataset_id=None,
        request="{}",
        dedup_key=None,
        status=JobStatus.RUNNING,
        progress=None,
        result=None,
        error=None,
        attempts=1,
        created_at=NOW,
        updated_at=NOW,
    )
    measured.timings.job_leased(job, Instant(NOW.epoch_ns + 3 * NANOS_PER_SECOND))
    measured.timings.job_leased(replace(job, attempts=2), Instant(NOW.epoch_ns + 9 * NANOS_PER_SECOND))
    assert (measured.counts("odf_job_wait_seconds"), measured.sum("odf_job_wait_seconds")) == ({("pull",): 1.0}, 3.0)
    with pytest.raises(Determinate), measured.timings.job_run(job):
        raise Determinate("away")
    assert measured.counts("odf_job_run_seconds") == {("pull",): 1.0}


def test_calls_of_the_engine_have_phases_and_an_outcome(measured: Measured) -> None:
    told: list[EngineProgress] = []
    with measured.timings.engine_call("ingest", told.append) as listen:
        for stage in ("read", "read", "merge", "stage of local/secret", "write"):
            listen(EngineProgress(stage=stage, done=0, total=0))
    assert [one.stage for one in told][3] == "stage of local/secret"
    phases = {("ingest", phase): 1.0 for phase in ("read", "merge", "other", "write")}
    assert measured.counts("odf_engine_phase_seconds") == phases
    for error in (Determinate("away"), LimitExceeded("late", limit="l", maximum=1), InvalidQuery("wrong")):
        with pytest.raises(type(error)), measured.timings.engine_call("query"):
            raise error
    assert measured.counts("odf_engine_call_seconds") == {
        ("ingest", "done"): 1.0,
        ("query", "failed"): 2.0,
        ("query", "refused"): 1.0,
    }
