"""How a node is, for those who watch over it: health and metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from odfabric.errors import OdfError
from odfabric.wiring.monitoring.metrics import metrics_text
from odfabric.wiring.node_core import NodeCore


@dataclass(slots=True, kw_only=True)
class StatusVerbs:
    """Health and metrics of this process.

    `embedded` gives a registry that measures its adapters, too.
    """

    core: NodeCore
    registry: CollectorRegistry

    def health(self) -> dict[str, object]:
        """Whether database and objects answer; the engine apart: reads do not need it."""
        ports = self.core.ports
        parts = {"database": _answers(lambda: ports.jobs.page(limit=1))}
        parts["objects"] = _answers(lambda: ports.objects.stat("health"))
        return {"ok": all(parts.values()), "parts": parts}

    def metrics(self) -> bytes:
        """What this process measures, in the text format of Prometheus."""
        return metrics_text(self.registry)


def _answers(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except OdfError:
        return False
    return True
