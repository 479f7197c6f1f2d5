"""Every port call of the main verbs fails once, before and after its effect.

Nothing is lost or doubled.

The scenario runs once under a plan that watches, then once for each call and each fault it can have: each day for half of them,
for all if `ODF_TEST_TURNS` is `night`. A verb that was informed of a fault
is called again, as its user or the worker would.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from odfabric.adapters.unreliable.faults import Fault, FaultPlan
from odfabric.errors import AlreadyExists, External
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import AddData, ExecuteTransform
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.reading.read_tail import ReadTail
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.support.turns import todays
from tests.usecases.manifests import DERIVED, ROOT

T = TypeVar("T")

ATTEMPTS_MAX = 6
CHUNKS = 16


def scenario(memory: MemoryNode) -> None:
    """Create two datasets, push twice with keys, derive, deliver."""
    for manifest in (ROOT, DERIVED):
        insist(lambda manifest=manifest: memory.add(manifest), tolerate=AlreadyExists)  # type: ignore[misc]
    root: Any
    derived: Any
    root, derived = (
        insist(lambda name=name: memory.node.datasets.resolve(parse_dataset_alias(name)))  # type: ignore[misc]
        for name in ("readings", "copied")
    )
    insist(memory.node.background.relay_outbox)
    insist(
        lambda: memory.node.webhooks.subscribe(
            root, url="https://hooks.example/x", secret=b"s" * 32, by=memory.node.operator
        )
    )
    for day in (1, 2):
        body = json.dumps({"event_time": f"2026-01-0{day}T00:00:00Z", "city": "A"}).encode() + b"\n"
        insist(lambda day=day, body=body: finish(memory, push(memory, root, f"key-{day}", body)))  # type: ignore[misc]
        insist(lambda: derive(memory, derived))
    insist(memory.node.background.relay_outbox)
    for _ in range(ATTEMPTS_MAX):
        memory.clock.advance(3_600_000)
        insist(
            lambda: [
                memory.node.background.deliver(due) for due in memory.node.background.due_deliveries("drill", limit=8)
            ]
        )


def derive(memory: MemoryNode, derived: CatalogEntry) -> None:
    finish(memory, memory.node.requests.pull(PullRequest(dataset=derived.id, alias=derived.alias)))


def push(memory: MemoryNode, entry: object, key: str, body: bytes) -> Job | None:
    request = PushData(dataset=entry.id, body=iter([body]), idempotency_key=key)  # type: ignore[attr-defined]
    found = memory.node.requests.push(request)
    return found if isinstance(found, Job) else None


def finish(memory: MemoryNode, job: Job | None) -> None:
    if job is not None:
        memory.clock.advance(60_000)
        ended = memory.finish(job)
        assert ended.status is JobStatus.SUCCEEDED, ended.error


def insist(verb: Callable[[], T], *, tolerate: type[Exception] = External) -> T | None:
    """Call again after a fault, as anyone who asked would.

    `tolerate` is what a repeated success may say.
    """
    for _ in range(ATTEMPTS_MAX):
        try:
            return verb()
        except External:
            continue
        except tolerate:
            return None
    raise AssertionError("never came through")


def check(memory: MemoryNode) -> None:
    """Chains verify; rows and transactions are there once, events once in order."""
    memory.restart()
    root, derived = (memory.node.datasets.resolve(parse_dataset_alias(name)) for name in ("readings", "copied"))
    for entry in (root, derived):
        tail = memory.node.rows.tail(entry, ReadTail(skip=0, limit=10, data_format="JsonAoS", schema_format=None))
        assert [row["offset"] for row in tail["data"]] == [0, 1]  # type: ignore[attr-defined]
        events = [link.block.event for link in memory.node.datasets.log(entry, limit=100)]
        assert sum(isinstance(event, AddData | ExecuteTransform) for event in events) == 2
        job = memory.finish(memory.node.requests.verify(entry, VerifyOptions()))
        assert json.loads(job.result or "{}") == {"ok": True, "errors": []}
    subscriptions = memory.node.webhooks.seen(root, by=memory.node.operator)
    for subscription in subscriptions:
        log = memory.node.webhooks.deliveries(root, subscription.id, by=memory.node.operator)
        assert [entry.sequence for entry in log] == list(range(len(log), 0, -1))
        assert len(log) == 2
    sent = {webhook.headers["webhook-id"] for webhook in memory.webhooks.received}
    assert len(sent) >= 2
    assert memory.node.background.relay_outbox() == 0


def watched(folder: Path) -> list[tuple[int, Fault, str]]:
    plan = FaultPlan()
    memory = MemoryNode(folder, interceptor=plan)
    scenario(memory)
    check(memory)
    return [(number, fault, call.name) for number, call in enumerate(plan.calls) for fault in call.faults]


@pytest.mark.parametrize("chunk", todays(range(CHUNKS), parts=4))
def test_one_fault_at_any_call_loses_and_doubles_nothing(tmp_path: Path, chunk: int) -> None:
    faults = watched(tmp_path / "watched")[chunk::CHUNKS]
    assert faults
    for number, fault, name in faults:
        memory = MemoryNode(tmp_path / f"{number}-{fault.value}", interceptor=FaultPlan.single(number, fault))
        try:
            scenario(memory)
            check(memory)
        except BaseException as error:
            error.add_note(f"fault {fault.value} call {number}, {name}")
            raise


@pytest.mark.parametrize("seed", range(20))
def test_many_faults_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    memory = MemoryNode(tmp_path, interceptor=FaultPlan.seeded(seed, rate=0.01))
    scenario(memory)
    check(memory)
