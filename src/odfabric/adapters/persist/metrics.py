"""Metrics of the stores of shards: calls, bytes, and costs of an object store.

Owns names and help of the metrics. Counting itself is the library's (`location.metered`), this only shows it when somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from odfabric_persist.location.metered import Meter


class PersistCollector(Collector):
    """A collector for a registry of prometheus-client."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def collect(self) -> Iterator[Metric]:
        """See prometheus-client."""
        calls = CounterMetricFamily(
            "odf_persist_calls", "Calls of the stores of shards, also failed ones", labels=["operation"]
        )
        moved = CounterMetricFamily("odf_persist_bytes", "Bytes that they moved", labels=["operation"])
        counted_calls, counted_bytes = self._meter.counts()
        for operation, count in sorted(counted_calls.items()):
            calls.add_metric([operation], count)
            moved.add_metric([operation], counted_bytes[operation])
        yield calls
        yield moved
        yield CounterMetricFamily(
            "odf_persist_dollars", "What the calls cost at a large provider of object stores", value=self._meter.dollars
        )
