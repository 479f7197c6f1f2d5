"""Waiting pushes are committed together, visible only by the block."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.ingestion.idempotency import idempotency_records
from odfabric.domain.ingestion.push_group import joined_bodies
from odfabric.errors import IdempotencyKeyReused
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.metadata import AddData
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.reading.read_tail import ReadTail
from tests.usecases.manifests import ROOT

WORKER = "worker"


def row(number: int) -> bytes:
    return json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": f"C{number}", "value": number}).encode()


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


@pytest.fixture
def readings(memory: MemoryNode) -> CatalogEntry:
    return memory.add(ROOT)


def accept(memory: MemoryNode, entry: CatalogEntry, number: int, body: bytes | None = None, **other: object) -> Job:
    content = iter([row(number) if body is None else body])
    found = memory.node.requests.push(PushData(dataset=entry.id, body=content, **other))  # type: ignore[arg-type]
    assert isinstance(found, Job)
    return found


def run_next(memory: MemoryNode) -> Job:
    """One worker takes one job."""
    run = memory.node.jobs.lease(WORKER)
    assert run is not None
    memory.node.jobs.run(run)
    return memory.node.jobs.get(run.job_id)


def cities(memory: MemoryNode, entry: CatalogEntry) -> list[str]:
    found = memory.node.rows.tail(entry, ReadTail(skip=0, limit=1000, data_format="JsonAoS", schema_format=None))[
        "data"
    ]
    assert isinstance(found, list)
    return [item["city"] for item in found]


def commits(memory: MemoryNode, entry: CatalogEntry) -> int:
    return sum(isinstance(link.block.event, AddData) for link in memory.node.datasets.log(entry, limit=1000))


def statuses(memory: MemoryNode, jobs: list[Job]) -> list[JobStatus]:
    return [memory.node.jobs.get(job.id).status for job in jobs]


def test_what_waits_together_is_one_block(memory: MemoryNode, readings: CatalogEntry) -> None:
    jobs = [accept(memory, readings, number, idempotency_key=f"k{number}") for number in range(50)]
    first = run_next(memory)
    assert statuses(memory, jobs) == [JobStatus.SUCCEEDED] * 50
    assert {memory.node.jobs.get(job.id).result for job in jobs} == {first.result}
    assert memory.node.jobs.lease(WORKER) is None
    assert commits(memory, readings) == 1
    assert sorted(cities(memory, readings)) == sorted(f"C{number}" for number in range(50))
    assert list(memory.objects.keys("staging/")) == []


def test_every_key_is_sealed_and_answers_the_same_block(memory: MemoryNode, readings: CatalogEntry) -> None:
    jobs = [accept(memory, readings, number, idempotency_key=f"k{number}") for number in range(3)]
    result = json.loads(run_next(memory).result or "")
    head = next(iter(memory.node.datasets.log(readings, limit=1)))
    assert len(idempotency_records(head.hash, head.block)) == 3
    for number in range(len(jobs)):
        again = memory.node.requests.push(
            PushData(dataset=readings.id, body=iter([row(number)]), idempotency_key=f"k{number}")
        )
        assert isinstance(again, CommitResult)
        assert again.to_value() == result
    with pytest.raises(IdempotencyKeyReused):
        accept(memory, readings, 7, idempotency_key="k1")


def test_one_that_is_wrong_is_told_and_the_others_are_committed(memory: MemoryNode, readings: CatalogEntry) -> None:
    bodies = [row(0), b"{not json", row(2)]
    jobs = [accept(memory, readings, number, body) for number, body in enumerate(bodies)]
    for _ in jobs:
        if memory.node.jobs.get(jobs[-1].id).status is JobStatus.QUEUED:
            run_next(memory)
    assert statuses(memory, jobs) == [JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.SUCCEEDED]
    assert json.loads(memory.node.jobs.get(jobs[1].id).error or "")["code"] == "invalid-data"
    assert cities(memory, readings) == ["C0", "C2"]


def test_one_that_is_wrong_costs_few_attempts(memory: MemoryNode, readings: CatalogEntry) -> None:
    jobs = [accept(memory, readings, number) for number in range(32)] + [accept(memory, readings, 99, b"{not json")]
    attempts = 0
    ingest = memory.engine.ingest

    def counted(request, *, progress):  # type: ignore[no-untyped-def]
        nonlocal attempts
        attempts += 1
        return ingest(request, progress=progress)

    memory.engine.ingest = counted  # type: ignore[method-assign]
    while memory.node.jobs.get(jobs[-1].id).status is JobStatus.QUEUED:
        run_next(memory)
    assert statuses(memory, jobs) == [JobStatus.SUCCEEDED] * 32 + [JobStatus.FAILED]
    assert attempts <= 20


def test_what_a_member_breaks_is_not_told_to_the_others(memory: MemoryNode, readings: CatalogEntry) -> None:
    jobs = [accept(memory, readings, number) for number in range(3)]
    ingest = memory.engine.ingest

    def broken(request, *, progress):  # type: ignore[no-untyped-def]
        (path,) = request.data_paths
        if b"C1" in (memory.node.ports.exchange.root / path).read_bytes():
            raise RuntimeError("a bug")
        return ingest(request, progress=progress)

    memory.engine.ingest = broken  # type: ignore[method-assign]
    for _ in jobs:
        run_next(memory)
    assert statuses(memory, jobs) == [JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.SUCCEEDED]
    assert cities(memory, readings) == ["C0", "C2"]


class PublishesAtSecondTry:
    """Objects of which a bug keeps the first new head from being published."""

    def __init__(self, objects: Any) -> None:
        self._objects = objects
        self.has_failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    def replace_ref(self, key: str, text: str, *, expected: str | None) -> bool:
        if not self.has_failed:
            self.has_failed = True
            raise RuntimeError("a bug")
        replaced: bool = self._objects.replace_ref(key, text, expected=expected)
        return replaced


def test_a_bug_after_the_commit_does_not_hide_it(memory: MemoryNode, readings: CatalogEntry) -> None:
    jobs = [accept(memory, readings, number) for number in range(2)]
    faulty = PublishesAtSecondTry(memory.objects)
    memory.use_ports(objects=faulty)
    run_next(memory)
    assert faulty.has_failed
    if memory.node.jobs.get(jobs[1].id).status is JobStatus.QUEUED:
        run_next(memory)
    assert statuses(memory, jobs) == [JobStatus.SUCCEEDED] * 2
    assert cities(memory, readings) == ["C0", "C1"]


def test_byte_order_marks_stand_at_the_beginning_only(memory: MemoryNode, readings: CatalogEntry) -> None:
    jobs = [accept(memory, readings, number, b"\xef\xbb\xbf" + row(number)) for number in range(3)]
    run_next(memory)
    assert statuses(memory, jobs) == [JobStatus.SUCCEEDED] * 3


def test_what_is_read_otherwise_is_not_taken_along(memory: MemoryNode, readings: CatalogEntry) -> None:
    head = memory.node.datasets.head(readings).hash
    others: list[dict[str, object]] = [
        {"media_type": "application/json", "body": b"[" + row(1) + b"]"},
        {"if_match": head},
    ]
    for other in others:
        first = accept(memory, readings, 0)
        second = accept(memory, readings, 1, **other)
        run_next(memory)
        assert statuses(memory, [first, second]) == [JobStatus.SUCCEEDED, JobStatus.QUEUED]
        run_next(memory)


def test_a_cancelled_push_is_not_committed_with_others(memory: MemoryNode, readings: CatalogEntry) -> None:
    jobs = [accept(memory, readings, number) for number in range(3)]
    memory.node.jobs.cancel(jobs[1].id)
    run_next(memory)
    assert statuses(memory, jobs) == [JobStatus.SUCCEEDED, JobStatus.CANCELLED, JobStatus.SUCCEEDED]
    assert cities(memory, readings) == ["C0", "C2"]


def test_a_push_that_is_cancelled_while_the_group_is_made_is_left_out(
    memory: MemoryNode, readings: CatalogEntry
) -> None:
    jobs = [accept(memory, readings, number) for number in range(3)]
    ingest = memory.engine.ingest

    def cancel_and_ingest(request, *, progress):  # type: ignore[no-untyped-def]
        memory.engine.ingest = ingest  # type: ignore[method-assign]
        memory.node.jobs.cancel(jobs[1].id)
        return ingest(request, progress=progress)

    memory.engine.ingest = cancel_and_ingest  # type: ignore[method-assign]
    first = run_next(memory)
    assert first.status is JobStatus.QUEUED, "the group was committed with the cancelled push"
    memory.clock.advance(60_000)
    run_next(memory)
    run_next(memory)
    assert statuses(memory, jobs) == [JobStatus.SUCCEEDED, JobStatus.CANCELLED, JobStatus.SUCCEEDED]
    assert cities(memory, readings) == ["C0", "C2"]


def test_a_worker_that_dies_after_the_commit_leaves_all_to_be_found_committed(
    memory: MemoryNode, readings: CatalogEntry
) -> None:
    jobs = [accept(memory, readings, number) for number in range(4)]
    run = memory.node.jobs.lease(WORKER)
    assert run is not None
    memory.node.jobs.verbs[run.lease.job.kind](run.lease.job, run)  # and then it is killed
    memory.clock.advance(3_600_000)
    results = [json.loads(run_next(memory).result or "") for _ in jobs]
    assert statuses(memory, jobs) == [JobStatus.SUCCEEDED] * 4
    assert all(result == results[0] for result in results)
    assert commits(memory, readings) == 1
    assert sorted(cities(memory, readings)) == ["C0", "C1", "C2", "C3"]


def test_large_bodies_are_objects_and_stand_alone(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    memory.use_database(memory.store, push_inline_bytes_max=10)
    readings = memory.add(ROOT)
    jobs = [accept(memory, readings, number) for number in range(2)]
    assert len(list(memory.objects.keys("staging/"))) == 2
    run_next(memory)
    assert statuses(memory, jobs) == [JobStatus.SUCCEEDED, JobStatus.QUEUED]
    run_next(memory)
    assert commits(memory, readings) == 2
    assert list(memory.objects.keys("staging/")) == []


@pytest.mark.parametrize(("limits", "together"), [({"push_group_jobs_max": 3}, 3), ({"push_group_bytes_max": 150}, 2)])
def test_groups_are_limited(tmp_path: Path, limits: dict[str, int], together: int) -> None:
    memory = MemoryNode(tmp_path)
    memory.use_database(memory.store, **limits)
    readings = memory.add(ROOT)
    jobs = [accept(memory, readings, number) for number in range(5)]
    run_next(memory)
    assert statuses(memory, jobs).count(JobStatus.SUCCEEDED) == together


@given(st.lists(st.binary(max_size=8)))
def test_joined_bodies_are_the_lines_of_all(bodies: list[bytes]) -> None:
    lines = [line for body in bodies for line in body.split(b"\n") if line]
    assert [line for line in joined_bodies(bodies).split(b"\n") if line] == lines
