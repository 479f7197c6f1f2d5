"""What a process of the node tells about itself, as Prometheus reads it.

Owns the registry of a process: jobs that wait, calls of the stores of shards, the walls around the engine, the process itself. Nothing is counted here that is not
counted where it happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    Metric,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from odfabric.errors import OdfError
from odfabric.model.engine import EngineInfo
from odfabric.ports.jobs import Jobs

JOBS_COUNTED_MAX = 1000


class JobsCollector(Collector):
    """Unfinished jobs by kind and status, the newest `JOBS_COUNTED_MAX` of them."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def collect(self) -> Iterator[Metric]:
        """See prometheus-client. A database that does not answer tells no jobs, which is not the same as none."""
        gauge = GaugeMetricFamily("odf_jobs_unfinished", "Jobs that wait or are done", labels=["kind", "status"])
        try:
            found = self._jobs.page(unfinished_only=True, limit=JOBS_COUNTED_MAX)
        except OdfError:
            return
        for (kind, status), count in sorted(Counter((job.kind.value, job.status.value) for job in found).items()):
            gauge.add_metric([kind, status], count)
        yield gauge


class EngineCollector(Collector):
    """The walls of the operating system around the engine, as it sees them, and its executors. An engine that does not run tells nothing."""

    def __init__(self, ask: Callable[[], EngineInfo | None]) -> None:
        self._ask = ask

    def collect(self) -> Iterator[Metric]:
        """See prometheus-client."""
        gauge = GaugeMetricFamily("odf_engine_sandbox", "Walls around the engine", labels=["layer"])
        try:
            found = self._ask()
        except OdfError:
            return
        if found is not None:
            for layer in found.sandbox:
                gauge.add_metric([layer], 1)
            yield gauge
            if found.executors is not None:
                yield GaugeMetricFamily("odf_engine_executors", "Executors of the cluster", value=found.executors)


def registry_of(jobs: Jobs, *others: Collector) -> CollectorRegistry:
    """The registry of one process, with collectors of its adapters."""
    registry = CollectorRegistry()
    for collector in (JobsCollector(jobs), *others):
        registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def metrics_text(registry: CollectorRegistry) -> bytes:
    """The metrics in the text format."""
    return generate_latest(registry)
