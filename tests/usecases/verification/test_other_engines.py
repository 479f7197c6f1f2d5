"""Transforms that name their engine run on it and are judged only by it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from odfabric.errors import InvalidQuery
from odfabric.formats.identifiers.dataset_layout import in_dataset
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineIdentity, EngineProgress, MigrateRequest, TransformRequest, TransformResult
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import ExecuteTransform, TransformSql
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.ports.engine import Engine
from odfabric.settings import Settings
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.verification.verification_run import VerifyOptions
from odfabric.wiring.engine.engines import EnginesByName, open_engines
from tests.support.engines.reference_engine import QUERY, ReferenceEngine, reference_engine
from tests.usecases.manifests import DERIVED, ROOT

FOREIGN = DERIVED.replace(
    "engine: spark, query: SELECT * FROM readings", f"engine: DataFusion, query: {QUERY}"
).replace("{datasetRef: readings}", "{datasetRef: readings, alias: everything}")


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


@pytest.fixture
def reference(memory: MemoryNode) -> Iterator[ReferenceEngine]:
    with reference_engine(memory.folder / "exchange") as engine:
        yield engine


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def engines(memory: MemoryNode, closing: ExitStack, own: Engine | None = None, **others: str) -> EnginesByName:
    settings = Settings(workspace=memory.folder, engines=others, engines_folder="/opt/engine", engines_start_s_max=5.0)
    return open_engines(settings, own or memory.engine, exchange=memory.folder / "exchange", closing=closing)


def push(memory: MemoryNode, entry: CatalogEntry, *cities: str) -> None:
    rows = [{"event_time": f"2026-01-{day:02}T00:00:00Z", "city": city} for day, city in enumerate(cities, 1)]
    body = "".join(json.dumps(row) + "\n" for row in rows).encode()
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([body])))
    assert isinstance(job, Job)
    assert memory.finish(job).status is JobStatus.SUCCEEDED


def pulled(memory: MemoryNode, entry: CatalogEntry) -> Job:
    return memory.finish(memory.node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias)))


def verified(memory: MemoryNode, entry: CatalogEntry) -> dict[str, object]:
    job = memory.finish(memory.node.requests.verify(entry, VerifyOptions()))
    assert job.status is JobStatus.SUCCEEDED, job.error
    value: dict[str, object] = json.loads(job.result or "")
    return value


def transactions(memory: MemoryNode, entry: CatalogEntry) -> list[ExecuteTransform]:
    events = [link.block.event for link in memory.node.datasets.log(entry, limit=100)]
    return [event for event in reversed(events) if isinstance(event, ExecuteTransform)]


def test_the_engine_that_the_transform_names_runs_it(
    memory: MemoryNode, reference: ReferenceEngine, closing: ExitStack
) -> None:
    memory.use_engine(engines(memory, closing, datafusion=reference.address))
    root, copy = memory.add(ROOT), memory.add(FOREIGN)
    push(memory, root, "A", "B")
    calls = memory.engine.calls
    assert pulled(memory, copy).status is JobStatus.SUCCEEDED
    push(memory, root, "C")
    assert pulled(memory, copy).status is JobStatus.SUCCEEDED
    assert memory.engine.calls == calls + 1  # the second push
    first, second = transactions(memory, copy)
    assert first.new_data is not None
    assert second.new_data is not None
    assert (first.new_data.offset_interval.end, second.new_data.offset_interval.end) == (1, 2)
    assert first.new_checkpoint is second.new_checkpoint is None
    assert [request.prev_checkpoint_path for request in reference.requests] == [None, None]
    assert [request.next_offset for request in reference.requests] == [0, 2]
    assert [request.query_inputs[0].offset_interval.start for request in reference.requests] == [0, 2]  # type: ignore[union-attr]
    assert verified(memory, copy) == {"ok": True, "errors": []}


def test_an_engine_that_is_not_there_is_named_with_those_that_are(
    memory: MemoryNode, reference: ReferenceEngine, closing: ExitStack
) -> None:
    memory.use_engine(engines(memory, closing, flink=reference.address))
    root, copy = memory.add(ROOT), memory.add(FOREIGN)
    push(memory, root, "A")
    job = pulled(memory, copy)
    assert job.status is JobStatus.FAILED
    error = json.loads(job.error or "")
    assert "no engine `DataFusion`" in json.dumps(error)
    assert "engines here: flink, spark" in json.dumps(error)


def test_without_its_engine_a_derivative_is_not_called_wrong(
    memory: MemoryNode, reference: ReferenceEngine, closing: ExitStack
) -> None:
    memory.use_engine(engines(memory, closing, datafusion=reference.address))
    root, copy = memory.add(ROOT), memory.add(FOREIGN)
    push(memory, root, "A")
    assert pulled(memory, copy).status is JobStatus.SUCCEEDED
    memory.use_engine(engines(memory, closing))
    answer = verified(memory, copy)
    assert (answer["ok"], answer["errors"]) == (True, [])
    [skipped] = answer["skipped"]  # type: ignore[misc]
    assert "needs engine `datafusion`" in skipped


def test_another_engine_cannot_change_a_transform(
    memory: MemoryNode, reference: ReferenceEngine, closing: ExitStack
) -> None:
    known = engines(memory, closing, datafusion=reference.address)
    (memory.folder / "exchange/call").mkdir(parents=True)
    request = TransformRequest(
        dataset_id=DatasetId(b"\x01" * 32),
        vocabulary=DatasetVocabulary(),
        transform=TransformSql(engine="datafusion", query=QUERY),
        inputs=(),
        data_schema=None,
        prev_watermark=None,
        system_time=Instant(0),
        next_offset=0,
        checkpoint_paths=(),
        new_checkpoint_path="call/checkpoint",
        new_data_path="call/data",
    )
    with pytest.raises(InvalidQuery, match="cannot change the transform"):
        known.migrate_query(MigrateRequest(next=request, output=()), progress=_ignore)
    assert reference.requests == []


def test_with_its_engine_a_lie_is_found(memory: MemoryNode, reference: ReferenceEngine, closing: ExitStack) -> None:
    memory.use_engine(engines(memory, closing, datafusion=reference.address))
    root, copy = memory.add(ROOT), memory.add(FOREIGN)
    push(memory, root, "A", "B")
    reference.spoil = lambda table: table.set_column(4, "city", [["A", "X"]])
    assert pulled(memory, copy).status is JobStatus.SUCCEEDED
    reference.spoil = lambda table: table
    [error] = verified(memory, copy)["errors"]  # type: ignore[misc]
    assert error["kind"] == "DataNotReproducible"


THEIRS = EngineIdentity(name="spark", version="9", digest="77" * 32)


class EngineOfAnotherMaking:
    """Our engine as another project's: other rows, another checkpoint or none."""

    def __init__(self, memory: MemoryNode, *, checkpoint: bytes | None) -> None:
        self._memory = memory
        self._checkpoint = checkpoint

    def __getattr__(self, name: str) -> object:
        return getattr(self._memory.engine, name)

    def execute_transform(self, request: TransformRequest, *, progress: object) -> TransformResult:
        """As ours, but one hour of the watermark later."""
        result = self._memory.engine.execute_transform(request, progress=_ignore)
        file = self._memory.folder / "exchange" / request.new_checkpoint_path
        file.unlink()
        if self._checkpoint is not None:
            file.write_bytes(self._checkpoint)
        return replace(result, watermark=request.system_time, made_by=THEIRS)


def _ignore(progress: EngineProgress) -> None:
    pass


@pytest.mark.parametrize("checkpoint", [None, b"\x1f\x8b\x08 of theirs"], ids=["no state", "state of its own"])
def test_what_an_engine_of_the_same_name_made_elsewhere_is_not_called_wrong(
    memory: MemoryNode, checkpoint: bytes | None
) -> None:
    memory.use_engine(EngineOfAnotherMaking(memory, checkpoint=checkpoint))  # type: ignore[arg-type]
    root, copy = memory.add(ROOT), memory.add(DERIVED)
    push(memory, root, "A")
    assert pulled(memory, copy).status is JobStatus.SUCCEEDED
    memory.use_engine(memory.engine)
    answer = verified(memory, copy)
    assert answer["ok"] is True
    [skipped] = answer["skipped"]  # type: ignore[misc]
    assert f"needs engine `spark` 9 {'77' * 8}, the one" in skipped
    for key in list(memory.objects.keys(in_dataset(copy.id, "engines/"))):
        memory.objects.delete(key)
        memory.objects.put_bytes(key, b"?")
    [skipped] = verified(memory, copy)["skipped"]  # type: ignore[misc]
    assert "needs engine `spark`, the one" in skipped


def test_what_our_own_engine_made_is_judged(memory: MemoryNode) -> None:
    made = b'{"format": "memory-engine", "positions": {}}'
    memory.use_engine(EngineOfAnotherMaking(memory, checkpoint=made))  # type: ignore[arg-type]
    root, copy = memory.add(ROOT), memory.add(DERIVED)
    push(memory, root, "A")
    assert pulled(memory, copy).status is JobStatus.SUCCEEDED
    memory.use_engine(memory.engine)
    [error] = verified(memory, copy)["errors"]  # type: ignore[misc]
    assert error["kind"] == "DataNotReproducible", "a record is no excuse"
    assert str(error["message"]).endswith(f"(recorded as made by `spark` 9 {'77' * 8})")
