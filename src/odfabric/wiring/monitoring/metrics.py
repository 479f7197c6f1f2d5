"""What a process of the node gives about itself, as Prometheus reads it.

Owns the registry of a process: jobs that wait, calls of the stores of shards, the walls around the engine, the disk, the process itself. Nothing is counted here that is not
counted where it happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    Info,
    Metric,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from odfabric import __version__
from odfabric.errors import OdfError
from odfabric.model.engine import EngineInfo
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.flow import Flow
from odfabric.model.jobs.job import JobStatus
from odfabric.model.subscriptions.subscription import SubscriptionState
from odfabric.ports.jobs.duties import Duties
from odfabric.ports.jobs.flows import Flows
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock
from odfabric.ports.subscriptions.subscriptions import Subscriptions
from odfabric.wiring.monitoring.overview import Disk

_ENGINE_UP = "1 if the engine answers, 0 if it should and does not"
JOBS_COUNTED_MAX = 1000
FLOWS_COUNTED_MAX = 5000


class JobsCollector(Collector):
    """Unfinished jobs by kind and status, and each kind's longest wait.

    Of the newest `JOBS_COUNTED_MAX` of them.
    """

    def __init__(self, jobs: Jobs, clock: Clock) -> None:
        self._jobs = jobs
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """See prometheus-client.

        A database that does not answer gives no jobs, which is not the same as none.
        """
        gauge = GaugeMetricFamily("odf_jobs_unfinished", "Jobs that wait or are done", labels=["kind", "status"])
        try:
            found = self._jobs.page(unfinished_only=True, limit=JOBS_COUNTED_MAX)
        except OdfError:
            return
        for (kind, status), count in sorted(Counter((job.kind.value, job.status.value) for job in found).items()):
            gauge.add_metric([kind, status], count)
        yield gauge
        now = self._clock.now()
        ages: dict[str, float] = {}
        for job in found:
            if job.status is JobStatus.QUEUED:
                ages[job.kind.value] = max(ages.get(job.kind.value, 0.0), _seconds(job.created_at, now))
        yield _gauge("odf_jobs_oldest_waiting_seconds", "Since the oldest job that waits was asked for", ["kind"], ages)


class FlowsCollector(Collector):
    """Flows by kind: states, failures, unfinished runs, lateness.

    Failed runs in a row, how long the oldest unfinished run has been there, how late schedules are.
    """

    def __init__(self, flows: Flows, clock: Clock) -> None:
        self._flows = flows
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """See prometheus-client.

        A database that does not answer gives no flows, which is not the same as none.
        """
        try:
            flows = self._flows.page(limit=FLOWS_COUNTED_MAX)
            runs = self._flows.unfinished(limit=FLOWS_COUNTED_MAX)
        except OdfError:
            return
        now = self._clock.now()
        kinds = {flow.id: flow.kind.value for flow in flows}
        states = Counter((flow.kind.value, _state(flow)) for flow in flows)
        yield _gauge("odf_flows", "Flows", ["kind", "state"], states)
        failures = Counter(dict.fromkeys(kinds.values(), 0))
        late: dict[str, float] = {}
        for flow in flows:
            failures[flow.kind.value] += flow.failures
            if flow.next_at is not None and flow.active:
                late[flow.kind.value] = max(late.get(flow.kind.value, 0.0), _seconds(flow.next_at, now))
        yield _gauge("odf_flow_failures_in_a_row", "Failed runs since the last one that succeeded", ["kind"], failures)
        yield _gauge("odf_flow_late_seconds", "How late the latest schedule is", ["kind"], late)
        known = [(kinds[run.flow_id], run) for run in runs if run.flow_id in kinds]
        waiting = Counter((kind, run.status.value) for kind, run in known)
        yield _gauge("odf_flow_runs_unfinished", "Runs that wait or are at work", ["kind", "status"], waiting)
        ages: dict[str, float] = {}
        for kind, run in known:
            ages[kind] = max(ages.get(kind, 0.0), _seconds(run.created_at, now))
        yield _gauge("odf_flow_lag_seconds", "Since the oldest change that a run has not answered", ["kind"], ages)


class DutiesCollector(Collector):
    """The node's own duties: since when each was last reported, and whether it fails."""

    def __init__(self, duties: Duties, clock: Clock) -> None:
        self._duties = duties
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """See prometheus-client. A database that does not answer says nothing."""
        try:
            reports = self._duties.reports()
        except OdfError:
            return
        now = self._clock.now()
        ages = {report.duty.value: _seconds(report.at, now) for report in reports}
        yield _gauge("odf_duty_reported_seconds", "Since a worker last reported a duty of the node", ["duty"], ages)
        failing = {report.duty.value: float(report.error is not None) for report in reports}
        yield _gauge("odf_duty_failing", "1 if the last round of a duty failed", ["duty"], failing)


class SubscriptionsCollector(Collector):
    """Subscriptions by state.

    Of those that are disabled nothing is delivered until somebody resumes them.
    """

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions

    def collect(self) -> Iterator[Metric]:
        """See prometheus-client. A database that does not answer says nothing."""
        try:
            counted = self._subscriptions.counted()
        except OdfError:
            return
        states = {state.value: float(counted.get(state, 0)) for state in SubscriptionState}
        yield _gauge("odf_subscriptions", "Webhook subscriptions", ["state"], states)


class DiskCollector(Collector):
    """Room on the disk of the workspace."""

    def __init__(self, look: Callable[[], Disk | None]) -> None:
        self._look = look

    def collect(self) -> Iterator[Metric]:
        """See prometheus-client. A disk that does not answer says nothing."""
        disk = self._look()
        if disk is None:
            return
        yield GaugeMetricFamily("odf_disk_free_bytes", "Free on the disk of the workspace", value=disk.free_bytes)
        yield GaugeMetricFamily("odf_disk_bytes", "Size of that disk", value=disk.all_bytes)
        if disk.inodes:
            yield GaugeMetricFamily("odf_disk_free_inodes", "Free inodes on that disk", value=disk.free_inodes)
            yield GaugeMetricFamily("odf_disk_inodes", "All inodes of that disk", value=disk.inodes)


def _state(flow: Flow) -> str:
    return "stopped" if flow.stop is not None else "paused" if flow.paused else "active"


def _seconds(since: Instant, now: Instant) -> float:
    return max(0.0, (now.epoch_ns - since.epoch_ns) / NANOS_PER_SECOND)


def _gauge(name: str, text: str, labels: list[str], values: Mapping[Any, float]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, text, labels=labels)
    for key, value in sorted(values.items()):
        gauge.add_metric([key] if isinstance(key, str) else list(key), value)
    return gauge


class EngineCollector(Collector):
    """The engine's sandbox as it sees it, and its executors.

    Nothing is reported of an engine that nobody needs now, and so does not run.
    """

    def __init__(self, ask: Callable[[], EngineInfo | None]) -> None:
        self._ask = ask

    def collect(self) -> Iterator[Metric]:
        """See prometheus-client."""
        gauge = GaugeMetricFamily("odf_engine_sandbox", "Walls around the engine", labels=["layer"])
        try:
            found = self._ask()
        except OdfError:
            yield GaugeMetricFamily("odf_engine_up", _ENGINE_UP, value=0)
            return
        if found is not None:
            yield GaugeMetricFamily("odf_engine_up", _ENGINE_UP, value=1)
            for layer in found.sandbox:
                gauge.add_metric([layer], 1)
            yield gauge
            if found.executors is not None:
                yield GaugeMetricFamily("odf_engine_executors", "Executors of the cluster", value=found.executors)


def registry_of(jobs: Jobs, clock: Clock, *others: Collector) -> CollectorRegistry:
    """The registry of one process, with collectors of its adapters."""
    registry = CollectorRegistry()
    for collector in (JobsCollector(jobs, clock), *others):
        registry.register(collector)
    Info("odf_build", "Release of the node", registry=registry).info({"version": __version__})
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def metrics_text(registry: CollectorRegistry) -> bytes:
    """The metrics in the text format."""
    return generate_latest(registry)
