"""Durations as histograms of one process: requests, jobs, engine, webhooks.

Owns names, labels and buckets. Invariant: a label has few values, whatever users do: kinds, templates of routes, phases that are listed here.
Never a dataset, an account or an address.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import Counter, Histogram
from prometheus_client.registry import Collector

from odfabric.errors import External, LimitExceeded, OdfError
from odfabric.model.engine import (
    EngineInfo,
    EngineProgress,
    IngestRequest,
    IngestResult,
    MigrateRequest,
    QueryRequest,
    QueryResult,
    TransformRequest,
    TransformResult,
    ValidateRequest,
    ValidateResult,
)
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.job import Job
from odfabric.model.node.span import SpanKind
from odfabric.model.provenance import ProvenanceRequest, ProvenanceResult
from odfabric.model.subscriptions.subscription import Delivery
from odfabric.ports.engine import Engine, ProgressListener
from odfabric.telemetry import span

REQUEST_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
WORK_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Jobs and calls of the engine: from tens of milliseconds to half an hour."""
WAIT_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0, 21600.0)
"""Waiting in a queue, and the way of an event to its receiver, which may be away for hours."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
PHASES = frozenset(
    {
        *(
            "work",
            "wait for the engine",
            "validate",
            "read",
            "ingest",
            "merge",
            "map",
            "aggregate",
            "stages",
            "compare",
        ),
        *("transform", "query", "sort", "write", "checkpoint"),
    }
)
"""Stages that engines tell; another one counts as `other`."""
OTHER = "other"


class Timings:
    """What one process has measured since it started. Safe for use by many threads."""

    def __init__(self) -> None:
        self._requests = Histogram(
            "odf_http_request_seconds",
            "From a request's head to the head of its answer",
            ["route", "method", "status"],
            registry=None,
            buckets=REQUEST_S,
        )
        self._job_runs = Histogram(
            "odf_job_run_seconds", "One attempt at a job", ["kind"], registry=None, buckets=WORK_S
        )
        self._job_waits = Histogram(
            "odf_job_wait_seconds",
            "From the request for a job to its first attempt",
            ["kind"],
            registry=None,
            buckets=WAIT_S,
        )
        self._engine_calls = Histogram(
            "odf_engine_call_seconds", "One call of an engine", ["call", "outcome"], registry=None, buckets=WORK_S
        )
        self._engine_phases = Histogram(
            "odf_engine_phase_seconds",
            "One phase of a call of an engine",
            ["call", "phase"],
            registry=None,
            buckets=WORK_S,
        )
        self._deliveries = Histogram(
            "odf_webhook_delivery_seconds",
            "From an event to the answer that accepted it; replays are counted from the event, too",
            registry=None,
            buckets=WAIT_S,
        )
        self._attempts = Counter("odf_webhook_attempts", "Attempts to deliver webhooks", ["outcome"], registry=None)

    @property
    def collectors(self) -> Sequence[Collector]:
        """For a registry."""
        jobs, engine = (self._job_runs, self._job_waits), (self._engine_calls, self._engine_phases)
        return (self._requests, *jobs, *engine, self._deliveries, self._attempts)

    def request(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered.

        `route` is a template, empty for a path that no route has.
        """
        known = method if method in METHODS else OTHER
        self._requests.labels(route or OTHER, known, f"{status // 100}xx").observe(seconds)

    def job_leased(self, job: Job, now: Instant) -> None:
        """An attempt at a job begins; the time before later ones is a pause, not a queue."""
        if job.attempts == 1:
            self._job_waits.labels(job.kind.value).observe(_seconds(job.created_at, now))

    @contextmanager
    def job_run(self, job: Job) -> Iterator[None]:
        """Measure an attempt."""
        with self._job_runs.labels(job.kind.value).time():
            yield

    def webhook_attempt(self, delivery: Delivery, *, is_delivered: bool, now: Instant) -> None:
        """An attempt to deliver has ended."""
        self._attempts.labels("delivered" if is_delivered else "failed").inc()
        if is_delivered:
            self._deliveries.observe(_seconds(delivery.occurred_at, now))

    @contextmanager
    def engine_call(self, call: str, progress: ProgressListener | None = None) -> Iterator[ProgressListener]:
        """Measure a call and its phases.

        Gives the listener to be informed instead of `progress`.
        """
        phases = _Phases(call, self._engine_phases, progress)
        began, outcome = time.perf_counter(), "failed"
        try:
            with span(f"engine {call}", kind=SpanKind.CLIENT):
                yield phases.listen
            outcome = "done"
        except (External, LimitExceeded):
            raise
        except OdfError:
            outcome = "refused"
            raise
        finally:
            phases.end()
            self._engine_calls.labels(call, outcome).observe(time.perf_counter() - began)


class _Phases:
    """Phases of one call, reported one after the other."""

    def __init__(self, call: str, histogram: Histogram, progress: ProgressListener | None) -> None:
        self._call = call
        self._histogram = histogram
        self._progress = progress
        self._phase: str | None = None
        self._since = 0.0

    def listen(self, told: EngineProgress) -> None:
        phase = told.stage if told.stage in PHASES else OTHER
        if phase != self._phase:
            self.end()
            self._phase, self._since = phase, time.perf_counter()
        if self._progress is not None:
            self._progress(told)

    def end(self) -> None:
        if self._phase is not None:
            self._histogram.labels(self._call, self._phase).observe(time.perf_counter() - self._since)
            self._phase = None


class TimedEngine:
    """An Engine whose calls are measured."""

    def __init__(self, engine: Engine, timings: Timings) -> None:
        self._engine = engine
        self._timings = timings

    def info(self) -> EngineInfo:
        """See the port. Not measured: it is asked whenever somebody looks."""
        return self._engine.info()

    def ingest(self, request: IngestRequest, *, progress: ProgressListener) -> IngestResult:
        """See the port."""
        with self._timings.engine_call("ingest", progress) as listen:
            return self._engine.ingest(request, progress=listen)

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        """See the port."""
        with self._timings.engine_call("transform", progress) as listen:
            return self._engine.execute_transform(request, progress=listen)

    def validate_query(self, request: ValidateRequest) -> ValidateResult:
        """See the port."""
        with self._timings.engine_call("validate"):
            return self._engine.validate_query(request)

    def migrate_query(self, request: MigrateRequest, *, progress: ProgressListener) -> TransformResult:
        """See the port."""
        with self._timings.engine_call("migrate", progress) as listen:
            return self._engine.migrate_query(request, progress=listen)

    def query(self, request: QueryRequest, *, progress: ProgressListener) -> QueryResult:
        """See the port."""
        with self._timings.engine_call("query", progress) as listen:
            return self._engine.query(request, progress=listen)

    def derive_provenance(self, request: ProvenanceRequest, *, progress: ProgressListener) -> ProvenanceResult:
        """See the port."""
        with self._timings.engine_call("provenance", progress) as listen:
            return self._engine.derive_provenance(request, progress=listen)


def _seconds(since: Instant, now: Instant) -> float:
    return max(0.0, (now.epoch_ns - since.epoch_ns) / NANOS_PER_SECOND)
