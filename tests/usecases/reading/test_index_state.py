"""Indexes behind verbs: jobs maintain them, merges read them, none waits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from odfabric.adapters.memory.datasets.state_index import MemoryStateIndex
from odfabric.domain.chain.state_index import index_definition
from odfabric.errors import Corrupt, Determinate
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import IngestRequest, IngestResult
from odfabric.model.identity import DatasetId
from odfabric.model.jobs.job import Job, JobKind, JobStatus
from odfabric.model.state_index import IndexDefinition, IndexedSlice, IndexFrontier
from odfabric.ports.engine import ProgressListener
from odfabric.testing.chains import physical_hash as hash_of_text
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.state.indexed_history import STATE_FILE
from odfabric.wiring.node import Node
from tests.usecases.manifests import ROOT

LEDGER = ROOT.replace("merge: {kind: Append}", "merge: {kind: Ledger, primaryKey: [city]}")


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    found = MemoryNode(tmp_path)
    found.settings = found.settings.model_copy(update={"index_tail_blocks_max": 3})
    found.restart()
    return found


@pytest.fixture
def readings(memory: MemoryNode) -> CatalogEntry:
    return memory.add(LEDGER)


def push(memory: MemoryNode, entry: CatalogEntry, *cities: str) -> Job:
    lines = [{"event_time": "2026-01-01T00:00:00Z", "city": city} for city in cities]
    body = "\n".join(map(json.dumps, lines)).encode()
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([body])))
    assert isinstance(job, Job)
    done = memory.finish(job)
    assert done.status is JobStatus.SUCCEEDED, done.error
    memory.node.background.relay_outbox()
    return done


def rows(job: Job) -> object:
    return json.loads(job.result or "{}")["rows"]


def index_jobs(memory: MemoryNode) -> list[Job]:
    return [job for job in memory.node.ports.jobs.page(limit=100) if job.kind is JobKind.INDEX]


def do_jobs(memory: MemoryNode) -> None:
    while (run := memory.node.jobs.lease("test")) is not None:
        memory.node.jobs.run(run)


def frontier(memory: MemoryNode, entry: CatalogEntry) -> IndexFrontier | None:
    return memory.node.indexes.inspect(entry).frontier


@pytest.fixture
def histories(memory: MemoryNode, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Names of the files of each merge, and the check that they hold all keys."""
    seen: list[list[str]] = []
    honest = memory.engine.ingest

    def ingest(request: IngestRequest, *, progress: ProgressListener) -> IngestResult:
        seen.append([Path(item.path).name for item in request.history])
        for item in request.history:
            with open_slice(memory.folder / "exchange" / item.path, request.vocabulary) as reader:
                assert reader.rows == len(item.offsets)
        return honest(request, progress=progress)

    monkeypatch.setattr(memory.engine, "ingest", ingest)
    return seen


def test_an_index_follows_when_it_is_some_blocks_behind(memory: MemoryNode, readings: CatalogEntry) -> None:
    push(memory, readings, "A")
    push(memory, readings, "B")
    assert len(index_jobs(memory)) == 1, "the first blocks of a dataset set it up, too"
    push(memory, readings, "C")
    (job,) = index_jobs(memory)
    assert (job.status, job.dataset_id) == (JobStatus.QUEUED, None)
    do_jobs(memory)
    found = frontier(memory, readings)
    assert found is not None
    assert found.upper == memory.node.datasets.head(readings).sequence_number + 1
    for _ in range(3):
        push(memory, readings, "D")
    assert len(index_jobs(memory)) == 1, "nothing new came"
    for city in "EFGH":
        push(memory, readings, city)
    assert len(index_jobs(memory)) == 2


def test_a_merge_reads_the_index_and_what_came_after_it(
    memory: MemoryNode, readings: CatalogEntry, histories: list[list[str]]
) -> None:
    for city in "ABCD":
        push(memory, readings, city)
    do_jobs(memory)
    push(memory, readings, "E")
    histories.clear()
    assert rows(push(memory, readings, "A", "E", "F")) == 1
    (names,) = histories
    assert names[0] == STATE_FILE
    assert len(names) == 2
    assert memory.node.indexes.verify(readings).problem is None


def test_without_indexes_nothing_is_made_or_read(
    memory: MemoryNode, readings: CatalogEntry, histories: list[list[str]]
) -> None:
    memory.settings = memory.settings.model_copy(update={"index": "off"})
    memory.restart()
    for city in "ABCDE":
        push(memory, readings, city)
    assert index_jobs(memory) == []
    assert rows(push(memory, readings, "A")) == 0
    assert [len(names) for names in histories] == [0, 1, 2, 3, 4, 5]
    assert memory.node.indexes.inspect(readings).mode is None


class Failing(MemoryStateIndex):
    """An index of which reading fails."""

    def __init__(self, inner: MemoryStateIndex, error: Exception, where: str) -> None:
        self._inner, self._error, self._where = inner, error, where
        self.dropped = 0

    def frontier(self, index: IndexDefinition) -> IndexFrontier | None:
        if self._where == "frontier":
            raise self._error
        return self._inner.frontier(index)

    def rows_at(self, index: IndexDefinition, sequence_number: int) -> Iterator[pa.Table]:
        raise self._error

    def drop(self, dataset: DatasetId, *, but: IndexDefinition | None = None) -> int:
        self.dropped += 1
        return self._inner.drop(dataset, but=but)

    def extend(self, index: IndexDefinition, slices: Sequence[IndexedSlice]) -> IndexFrontier:
        return self._inner.extend(index, slices)

    def maintain(self, index: IndexDefinition, *, since: int) -> IndexFrontier:
        return self._inner.maintain(index, since=since)


@pytest.mark.parametrize("where", ["frontier", "rows_at"])
@pytest.mark.parametrize(
    ("error", "dropped"),
    [(Corrupt("damaged", object_name="part"), 1), (Determinate("away"), 0), (RuntimeError("a bug"), 0)],
    ids=["corrupt", "away", "bug"],
)
def test_a_merge_goes_on_without_an_index_that_fails(
    memory: MemoryNode, readings: CatalogEntry, histories: list[list[str]], where: str, error: Exception, dropped: int
) -> None:
    for city in "ABCD":
        push(memory, readings, city)
    do_jobs(memory)
    failing = Failing(memory.state_index, error, where)
    memory.node = Node(replace(memory.node.ports, state_index=failing), memory.settings)
    histories.clear()
    assert rows(push(memory, readings, "A", "E")) == 1
    assert [len(names) for names in histories] == [4]
    assert failing.dropped == dropped


def definition_of(memory: MemoryNode, entry: CatalogEntry) -> IndexDefinition:
    found = index_definition(memory.node.repository.current(entry.id)[1])
    assert isinstance(found, IndexDefinition)
    return found


def of_another_chain(one: IndexedSlice) -> IndexedSlice:
    return replace(one, block_hash=hash_of_text("another chain"))


def test_an_index_of_another_chain_is_not_read_and_made_again(
    memory: MemoryNode, readings: CatalogEntry, histories: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for city in "ABCD":
        push(memory, readings, city)
    with monkeypatch.context() as patched:
        honest: Callable[..., IndexFrontier] = memory.state_index.extend
        patched.setattr(
            memory.state_index, "extend", lambda index, slices: honest(index, [*map(of_another_chain, slices)])
        )
        do_jobs(memory)
    assert memory.node.indexes.verify(readings).problem is not None
    histories.clear()
    assert rows(push(memory, readings, "A", "E")) == 1
    assert STATE_FILE not in histories[0]
    memory.node.indexes.bring_forward(readings, lambda _: None)
    assert memory.node.indexes.verify(readings).problem is None
    assert rows(push(memory, readings, "A", "F")) == 1
    assert histories[-1][0] == STATE_FILE


def test_an_index_that_lies_is_found_and_healed(
    memory: MemoryNode, readings: CatalogEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for city in "ABCD":
        push(memory, readings, city)
    with monkeypatch.context() as patched:
        honest = memory.state_index.rows_at
        patched.setattr(
            memory.state_index, "rows_at", lambda index, at: (table.slice(1) for table in honest(index, at))
        )
        memory.node.indexes.bring_forward(readings, lambda _: None)
        assert "3 rows" in (memory.node.indexes.verify(readings).problem or "")
    memory.node.indexes.rebuild(readings, lambda _: None)
    assert memory.node.indexes.verify(readings).problem is None


def test_the_index_of_a_deleted_dataset_goes(memory: MemoryNode, readings: CatalogEntry) -> None:
    for city in "ABCD":
        push(memory, readings, city)
    do_jobs(memory)
    definition = definition_of(memory, readings)
    assert memory.state_index.frontier(definition) is not None
    jobs = len(index_jobs(memory))
    memory.node.datasets.delete(readings)
    memory.node.background.relay_outbox()
    assert memory.state_index.frontier(definition) is None
    assert len(index_jobs(memory)) == jobs, "nothing is left to be done"


def test_an_index_that_could_not_be_dropped_is_dropped_by_a_job(
    memory: MemoryNode, readings: CatalogEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for city in "ABCD":
        push(memory, readings, city)
    do_jobs(memory)
    definition = definition_of(memory, readings)
    memory.node.datasets.delete(readings)

    def fail(dataset: DatasetId, *, but: IndexDefinition | None = None) -> int:
        raise Determinate("away")

    with monkeypatch.context() as patched:
        patched.setattr(memory.state_index, "drop", fail)
        memory.node.background.relay_outbox()
    assert memory.state_index.frontier(definition) is not None
    do_jobs(memory)
    assert memory.state_index.frontier(definition) is None


def test_pages_are_bounded_by_blocks_and_rows(
    memory: MemoryNode, readings: CatalogEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        push(memory, readings, *(f"{number}-{row}" for row in range(number + 1)))
    memory.settings = memory.settings.model_copy(update={"index_page_blocks_max": 4, "index_page_rows_max": 5})
    memory.restart()
    pages: list[list[int]] = []
    honest: Callable[..., IndexFrontier] = memory.state_index.extend

    def extend(index: IndexDefinition, slices: Sequence[IndexedSlice]) -> IndexFrontier:
        pages.append([len(one.offsets) for one in slices])
        return honest(index, slices)

    monkeypatch.setattr(memory.state_index, "extend", extend)
    memory.node.indexes.bring_forward(readings, lambda _: None)
    assert [rows for page in pages for rows in page] == [1, 2, 3, 4, 5, 6]
    assert max(map(sum, pages)) == 6
    assert [6] in pages
    assert memory.node.indexes.verify(readings).problem is None


def test_datasets_without_an_index_say_why(memory: MemoryNode) -> None:
    entry = memory.add(ROOT.replace("name: readings", "name: appended"))
    report = memory.node.indexes.inspect(entry)
    assert (report.mode, report.reason) == (None, "no source merges by key")
    assert memory.node.indexes.verify(entry).problem is None
