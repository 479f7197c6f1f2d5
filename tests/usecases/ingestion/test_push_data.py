"""Pushing: accepted is durable, committed is exactly once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from odfabric.errors import (
    HeadMoved,
    IdempotencyKeyReused,
    InvalidInput,
    InvalidRequest,
    NotFound,
    SourceNotFound,
    UnsupportedMediaType,
)
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.metadata import AddData, SetDataSchema
from odfabric.model.multihash import Multihash
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.reading.read_tail import ReadTail
from tests.usecases.manifests import DERIVED, ROOT

ROWS = b'{"event_time":"2026-01-01T00:00:00Z","city":"A","value":1}\n{"event_time":"2026-01-02T00:00:00Z","city":"B"}\n'


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


@pytest.fixture
def readings(memory: MemoryNode) -> CatalogEntry:
    return memory.add(ROOT)


def push(entry: CatalogEntry, body: bytes = ROWS, **other: object) -> PushData:
    return PushData(dataset=entry.id, body=iter([body]), **other)  # type: ignore[arg-type]


def accept(memory: MemoryNode, request: PushData) -> Job:
    found = memory.node.requests.push(request)
    assert isinstance(found, Job)
    return found


def result(job: Job) -> dict[str, object]:
    assert job.status is JobStatus.SUCCEEDED, job.error
    value: dict[str, object] = json.loads(job.result or "")
    return value


def rows(memory: MemoryNode, entry: CatalogEntry) -> list[object]:
    answer = memory.node.rows.tail(entry, ReadTail(skip=0, limit=100, data_format="JsonAoS", schema_format=None))
    data = answer["data"]
    assert isinstance(data, list)
    return data


def test_a_push_commits_schema_and_data_and_says_what_it_did(memory: MemoryNode, readings: CatalogEntry) -> None:
    done = result(memory.finish(accept(memory, push(readings))))
    assert done["rows"] == 2
    assert done["offsets"] == {"start": 0, "end": 1}
    links = list(memory.node.datasets.log(readings, limit=10))
    assert [type(link.block.event) for link in links[:2]] == [AddData, SetDataSchema]
    assert done["blocks"] == [str(links[1].hash), str(links[0].hash)]
    assert done["head"] == str(memory.node.datasets.head(readings).hash)


def test_nothing_staged_is_left_after_the_job(memory: MemoryNode, readings: CatalogEntry) -> None:
    memory.finish(accept(memory, push(readings)))
    assert list(memory.objects.keys("staging/")) == []


def test_the_published_ref_is_the_head_of_record(memory: MemoryNode, readings: CatalogEntry) -> None:
    memory.finish(accept(memory, push(readings)))
    head = memory.node.datasets.head(readings).hash
    assert memory.objects.read_ref(f"{readings.id.multibase}/refs/head") == str(head)


def test_a_repeated_key_answers_what_it_answered_first(memory: MemoryNode, readings: CatalogEntry) -> None:
    first = result(memory.finish(accept(memory, push(readings, idempotency_key="k"))))
    memory.finish(accept(memory, push(readings)))
    again = memory.node.requests.push(push(readings, idempotency_key="k"))
    assert isinstance(again, CommitResult)
    assert again.to_value() == first
    assert len(rows(memory, readings)) == 4


def test_a_key_in_flight_is_the_same_job(memory: MemoryNode, readings: CatalogEntry) -> None:
    first = accept(memory, push(readings, idempotency_key="k"))
    assert accept(memory, push(readings, idempotency_key="k")).id == first.id
    memory.finish(first)
    assert len(rows(memory, readings)) == 2


@pytest.mark.parametrize("committed", [False, True], ids=["in-flight", "committed"])
def test_a_key_with_another_body_is_refused(memory: MemoryNode, readings: CatalogEntry, committed: bool) -> None:
    job = accept(memory, push(readings, idempotency_key="k"))
    if committed:
        memory.finish(job)
    with pytest.raises(IdempotencyKeyReused):
        memory.node.requests.push(push(readings, ROWS + ROWS, idempotency_key="k"))


def test_a_key_of_a_failed_push_is_free(memory: MemoryNode, readings: CatalogEntry) -> None:
    failed = memory.finish(accept(memory, push(readings, b"no json\n", idempotency_key="k")))
    assert failed.status is JobStatus.FAILED
    assert result(memory.finish(accept(memory, push(readings, idempotency_key="k"))))["rows"] == 2


def test_a_keyed_push_without_rows_is_sealed_all_the_same(memory: MemoryNode, readings: CatalogEntry) -> None:
    memory.finish(accept(memory, push(readings)))
    done = result(memory.finish(accept(memory, push(readings, b"", idempotency_key="k"))))
    assert (done["rows"], len(done["blocks"])) == (0, 1)  # type: ignore[arg-type]


def test_bad_data_fails_the_job_with_its_place_and_writes_nothing(memory: MemoryNode, readings: CatalogEntry) -> None:
    head = memory.node.datasets.head(readings)
    bad = ROWS + b'{"event_time":"yesterday","city":"C"}\n'
    failed = memory.finish(accept(memory, push(readings, bad, file_name="bad.ndjson")))
    problem = json.loads(failed.error or "")
    assert (problem["code"], problem["file"], problem["line"], problem["field"]) == (
        "invalid-data",
        "bad.ndjson",
        3,
        "event_time",
    )
    assert memory.node.datasets.head(readings) == head


def test_an_expected_head_that_moved_fails_at_once(memory: MemoryNode, readings: CatalogEntry) -> None:
    old = memory.node.datasets.head(readings).hash
    memory.finish(accept(memory, push(readings)))
    failed = memory.finish(accept(memory, push(readings, if_match=old)))
    assert json.loads(failed.error or "")["code"] == HeadMoved.code
    assert failed.attempts == 1


def test_what_cannot_be_accepted_is_refused_before_the_body_is_read(memory: MemoryNode, readings: CatalogEntry) -> None:
    derived = memory.add(DERIVED)

    def untouched() -> Iterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    def refused(entry: CatalogEntry, **other: object) -> PushData:
        return PushData(dataset=entry.id, body=untouched(), **other)  # type: ignore[arg-type]

    with pytest.raises(SourceNotFound):
        memory.node.requests.push(refused(readings, source_name="other"))
    with pytest.raises(UnsupportedMediaType):
        memory.node.requests.push(refused(readings, media_type="image/png"))
    with pytest.raises(InvalidRequest):
        memory.node.requests.push(refused(derived))
    with pytest.raises(InvalidRequest):
        memory.node.requests.push(refused(readings, idempotency_key=""))
    with pytest.raises(NotFound):
        memory.node.requests.push(PushData(dataset=parse_dataset_alias("nobody"), body=untouched()))


def test_a_body_that_breaks_leaves_nothing(memory: MemoryNode, readings: CatalogEntry) -> None:
    def broken() -> Iterator[bytes]:
        yield ROWS
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        memory.node.requests.push(PushData(dataset=readings.id, body=broken()))
    assert list(memory.objects.keys("staging/")) == []


def test_a_stale_worker_cannot_commit_a_job_twice(memory: MemoryNode, readings: CatalogEntry) -> None:
    """Two leases of one job, the first one expired: exactly one commit."""
    job = accept(memory, push(readings))
    stale = memory.node.jobs.lease("first")
    memory.clock.advance(31_000)
    fresh = memory.node.jobs.lease("second")
    assert stale is not None
    assert fresh is not None
    memory.node.jobs.run(fresh)
    memory.node.jobs.run(stale)
    assert memory.node.jobs.get(job.id).status is JobStatus.SUCCEEDED
    assert len(rows(memory, readings)) == 2


def test_every_head_of_the_log_is_reachable(memory: MemoryNode, readings: CatalogEntry) -> None:
    for _ in range(3):
        memory.finish(accept(memory, push(readings)))
    hashes: list[Multihash] = [link.hash for link in memory.node.datasets.log(readings, limit=100)]
    assert len(hashes) == len(set(hashes)) == 6


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "{kind: Option, inner: Int64}",
            "{kind: List, itemType: {kind: Struct, fields: [{name: a, type: Int8}]}}",
            "Struct inside a List",
        ),
        (
            "{kind: Option, inner: Int64}",
            "{kind: Option, inner: {kind: Struct, fields: [{name: a, type: {kind: Option, inner: Int8}}]}}",
            "declare the member or the struct as required",
        ),
        ("merge: {kind: Append}", "merge: {kind: UpsertStream, primaryKey: [town]}", "the column `town`"),
    ],
)
def test_a_source_that_no_push_could_fill_is_not_created(tmp_path: Path, old: str, new: str, message: str) -> None:
    memory = MemoryNode(tmp_path)
    with pytest.raises(InvalidInput) as caught:
        memory.add(ROOT.replace(old, new))
    assert message in str(caught.value)


def test_a_key_may_be_the_event_time_or_come_from_a_query(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    memory.add(ROOT.replace("merge: {kind: Append}", "merge: {kind: Ledger, primaryKey: [event_time, city]}"))
    made = "preprocess: {kind: Sql, engine: spark, query: 'select *, city as town from input'}\n    merge: {kind: Ledger, primaryKey: [town]}"
    memory.add(ROOT.replace("name: readings", "name: others").replace("merge: {kind: Append}", made))
