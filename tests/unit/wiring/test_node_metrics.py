"""What a node in memory and an embedded one measure of their own work."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Metric

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.model.subscriptions.subscription import SubscriptionState, WebhookResponse
from odfabric.settings import Settings
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.wiring import Node, open_node, prepare_workspace
from odfabric.wiring.monitoring.metrics import DiskCollector, SubscriptionsCollector
from odfabric.wiring.monitoring.overview import Disk
from tests.usecases.manifests import ROOT

ROWS = b'{"event_time": "2026-01-01T00:00:00Z", "city": "Delft", "value": 1}\n'


def samples(registry: CollectorRegistry | list[Metric]) -> dict[tuple[str, ...], float]:
    found = registry if isinstance(registry, list) else list(registry.collect())
    return {(one.name, *one.labels.values()): one.value for metric in found for one in metric.samples}


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    memory = MemoryNode(tmp_path)
    memory.add(ROOT)
    return memory


def push(node: Node) -> None:
    entry = node.datasets.resolve(parse_dataset_alias("local/readings"))
    node.requests.push(PushData(dataset=entry.id, media_type="application/x-ndjson", body=iter([ROWS])))
    run = node.jobs.lease("w")
    assert run is not None
    node.jobs.run(run)


def test_a_delivery_is_measured_from_its_event_to_the_answer(memory: MemoryNode) -> None:
    node = memory.node
    entry = node.datasets.resolve(parse_dataset_alias("local/readings"))
    node.background.relay_outbox()
    node.webhooks.subscribe(entry, url="https://example.org/hook", secret=None, by=node.operator)
    push(node)
    node.background.relay_outbox()
    memory.webhooks.script.append(WebhookResponse(500))
    for _ in range(2):
        memory.clock.advance(3_600_000)
        (due,) = node.background.due_deliveries("w", limit=10)
        node.background.deliver(due)
    found = samples(node.status.registry)
    assert found["odf_webhook_attempts_total", "failed"] == found["odf_webhook_attempts_total", "delivered"] == 1.0
    assert found["odf_webhook_delivery_seconds_count",] == 1.0
    assert found["odf_webhook_delivery_seconds_sum",] >= 7200
    assert found["odf_job_run_seconds_count", "push"] == found["odf_job_wait_seconds_count", "push"] == 1.0


def test_subscriptions_are_counted_by_state(memory: MemoryNode) -> None:
    node = memory.node
    entry = node.datasets.resolve(parse_dataset_alias("local/readings"))
    made = node.webhooks.subscribe(entry, url="https://example.org/hook", secret=None, by=node.operator)
    collector = SubscriptionsCollector(node.ports.subscriptions)
    counted = {("odf_subscriptions", state.value): 0.0 for state in SubscriptionState}
    assert samples(list(collector.collect())) == counted | {("odf_subscriptions", "active"): 1.0}
    node.ports.subscriptions.set_state(made.subscription.id, SubscriptionState.DISABLED, now=node.ports.clock.now())
    assert samples(list(collector.collect())) == counted | {("odf_subscriptions", "disabled"): 1.0}


def test_the_oldest_job_that_waits_is_told(memory: MemoryNode) -> None:
    node = memory.node
    entry = node.datasets.resolve(parse_dataset_alias("local/readings"))
    node.requests.push(PushData(dataset=entry.id, media_type="application/x-ndjson", body=iter([ROWS])))
    memory.clock.advance(100_000)
    assert 100 <= samples(node.status.registry)["odf_jobs_oldest_waiting_seconds", "push"] < 101


def test_a_disk_tells_its_room() -> None:
    told = samples(list(DiskCollector(lambda: Disk(1, 2, 3, 4)).collect()))
    assert sorted(told.items()) == [
        (("odf_disk_bytes",), 2.0),
        (("odf_disk_free_bytes",), 1.0),
        (("odf_disk_free_inodes",), 3.0),
        (("odf_disk_inodes",), 4.0),
    ]
    assert len(samples(list(DiskCollector(lambda: Disk(1, 2, 0, 0)).collect()))) == 2
    assert list(DiskCollector(lambda: None).collect()) == []


def test_an_embedded_node_measures_calls_of_its_engine(tmp_path: Path) -> None:
    settings = Settings(workspace=tmp_path / "workspace")
    prepare_workspace(settings)
    with open_node(settings, engine=MemoryEngine(settings.workspace / "exchange")) as node:
        for snapshot in parse_snapshots(ROOT, file=""):
            node.datasets.create(snapshot, node.operator)
        push(node)
        found = samples(node.status.registry)
    assert found["odf_engine_call_seconds_count", "ingest", "done"] == 1.0
    assert found["odf_engine_phase_seconds_count", "ingest", "ingest"] == 1.0
    assert found["odf_disk_bytes",] > 0
