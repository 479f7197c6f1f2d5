"""A derivative dataset is brought up to date by transactions of bounded size."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.errors import Determinate, LimitExceeded
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.model.commit import CatalogEntry
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import (
    TRANSACTION_SIZE_LIMIT,
    MigrateRequest,
    TransformRequest,
    TransformResult,
    ValidateRequest,
    ValidateResult,
)
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import ExecuteTransform
from odfabric.ports.engine import ProgressListener
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.reading.read_tail import ReadTail
from tests.usecases.manifests import DERIVED, ROOT
from tests.usecases.transform.test_pull_dataset import pull, push, row, verify

VALUE = "- {name: value, type: {kind: Option, inner: Int64}}"
NOTE = "- {name: note, type: {kind: Option, inner: String}}"
WITH_NOTES = ROOT.replace("name: readings", "name: noted").replace(VALUE, f"{VALUE}\n        {NOTE}")
BOTH = """
kind: DatasetSnapshot
version: 1
content:
  name: chosen
  kind: Derivative
  metadata:
  - kind: SetTransform
    inputs: [{datasetRef: readings, alias: a}, {datasetRef: noted, alias: b}]
    transform: {kind: Sql, engine: spark, query: SELECT * FROM a}
"""


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return bounded(MemoryNode(tmp_path), rows_max=2)


def bounded(memory: MemoryNode, *, rows_max: int) -> MemoryNode:
    memory.settings = memory.settings.model_copy(update={"transform_rows_max": rows_max})
    memory.restart()
    return memory


def history(memory: MemoryNode, manifest: str = ROOT, *, pushes: int = 5) -> CatalogEntry:
    """A root dataset of blocks of one record."""
    root = memory.add(manifest)
    for day in range(1, pushes + 1):
        push(memory, root, row(day, f"city {day}"))
    return root


def cities(memory: MemoryNode, entry: CatalogEntry) -> list[str]:
    asked = ReadTail(skip=0, limit=1000, data_format="JsonAoS", schema_format=None)
    return [each["city"] for each in memory.node.rows.tail(entry, asked)["data"]]  # type: ignore[attr-defined]


def transactions(memory: MemoryNode, entry: CatalogEntry) -> list[ExecuteTransform]:
    found = [link.block.event for link in memory.node.datasets.log(entry, limit=1000)][::-1]
    return [event for event in found if isinstance(event, ExecuteTransform)]


def rows_of(events: list[ExecuteTransform]) -> list[int]:
    slices = [event.new_data for event in events]
    return [0 if each is None else each.offset_interval.end - each.offset_interval.start + 1 for each in slices]


def started(memory: MemoryNode, entry: CatalogEntry) -> Job:
    return memory.node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias))


def test_a_long_history_is_taken_in_several_transactions_of_one_job(memory: MemoryNode) -> None:
    root, derived = history(memory), memory.add(DERIVED)
    told: list[object] = []
    job = memory.finish(started(memory, derived), listener=lambda document: told.append(dict(document)))  # type: ignore[call-overload]
    answer = json.loads(job.result or "")
    events = transactions(memory, derived)
    assert rows_of(events) == [2, 2, 1]
    assert (answer["rows"], answer["offsets"], answer["upToDate"]) == (5, {"start": 0, "end": 4}, False)
    assert len(answer["blocks"]) == 4  # the schema and three transactions
    assert answer["head"] == str(memory.node.datasets.head(derived).hash) == answer["blocks"][-1]
    assert cities(memory, derived) == cities(memory, root)
    assert [event.query_inputs[0].prev_block_hash for event in events[1:]] == [
        event.query_inputs[0].new_block_hash for event in events[:-1]
    ]
    assert {(one["done"], one["total"]) for one in told if one.get("stage") == "transform"} == {(0, 5), (2, 5), (4, 5)}  # type: ignore[attr-defined]
    assert pull(memory, derived)["upToDate"] is True
    assert verify(memory, derived) == {"ok": True, "errors": []}


def test_what_is_small_is_one_transaction(memory: MemoryNode) -> None:
    root, derived = history(memory, pushes=2), memory.add(DERIVED)
    pull(memory, derived)
    push(memory, root, row(8, "later"))
    pull(memory, derived)
    assert rows_of(transactions(memory, derived)) == [2, 1]


def test_blocks_with_data_are_bounded_too(memory: MemoryNode) -> None:
    memory.settings = memory.settings.model_copy(update={"transform_rows_max": 100, "transform_blocks_max": 4})
    memory.restart()
    history(memory)
    derived = memory.add(DERIVED)
    pull(memory, derived)
    assert rows_of(transactions(memory, derived)) == [4, 1]


class Interrupted(MemoryEngine):
    """Runs `before` ahead of the transaction of that number, once."""

    def __init__(self, memory: MemoryNode, number: int) -> None:
        super().__init__(memory.folder / "exchange")
        self.memory = memory
        self.number = number
        self.transactions = 0

    def before(self) -> None:
        """What happens."""
        raise Determinate("the engine died")

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        self.transactions += 1
        if self.transactions == self.number:
            self.before()
        return super().execute_transform(request, progress=progress)


def test_an_interrupted_job_goes_on_with_the_next_transaction_and_tells_of_all(memory: MemoryNode) -> None:
    engine = Interrupted(memory, 2)
    memory.use_engine(engine)
    history(memory)
    derived = memory.add(DERIVED)
    answer = pull(memory, derived)
    assert (answer["rows"], len(answer["blocks"])) == (5, 4)  # type: ignore[arg-type]
    assert rows_of(transactions(memory, derived)) == [2, 2, 1]
    assert engine.transactions == 4  # one of them was tried twice
    assert verify(memory, derived)["ok"] is True


class Cancelled(Interrupted):
    job: Job

    def before(self) -> None:
        self.memory.node.jobs.cancel(self.job.id)


def test_a_cancelled_job_keeps_what_it_has_committed(memory: MemoryNode) -> None:
    engine = Cancelled(memory, 3)
    memory.use_engine(engine)
    history(memory)
    derived = memory.add(DERIVED)
    engine.job = started(memory, derived)
    assert memory.finish(engine.job).status is JobStatus.CANCELLED
    assert rows_of(transactions(memory, derived)) == [2, 2]
    assert pull(memory, derived)["offsets"] == {"start": 4, "end": 4}


class Pushing(Interrupted):
    root: CatalogEntry

    def before(self) -> None:
        push(self.memory, self.root, row(20, "meanwhile"))


def test_what_comes_during_a_run_waits_for_the_next_one(memory: MemoryNode) -> None:
    engine = Pushing(memory, 2)
    memory.use_engine(engine)
    engine.root, derived = history(memory), memory.add(DERIVED)
    assert pull(memory, derived)["rows"] == 5
    assert pull(memory, derived)["rows"] == 1


class Unassuming(MemoryEngine):
    """A stateless engine without watermarks that keeps the rows of one city."""

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        result = super().execute_transform(request, progress=progress)
        (self._root / request.new_checkpoint_path).unlink()
        (entry,) = request.inputs
        has_it = any(each.offsets.begin <= 4 < each.offsets.end for each in entry.slices)
        return replace(result, watermark=None, offsets=result.offsets if has_it else None)


def test_an_engine_that_leaves_nothing_to_record_is_given_more(memory: MemoryNode) -> None:
    """An engine that leaves nothing to record gets more.

    Such a transaction would consume nothing, so the next one would be the same again.
    """
    memory.use_engine(Unassuming(memory.folder / "exchange"))
    history(memory)
    derived = memory.add(DERIVED)
    pull(memory, derived)
    (event,) = transactions(memory, derived)
    assert event.query_inputs[0].new_offset == 4


def test_a_changed_query_reads_everything_in_one_transaction(memory: MemoryNode) -> None:
    root, noted = history(memory), history(memory, WITH_NOTES)
    chosen = memory.add(BOTH)
    pull(memory, chosen)
    for entry in (root, noted):
        push(memory, entry, row(8, "new") + row(9, "newer"))
    before = len(transactions(memory, chosen))
    change(memory, "SELECT * FROM b")
    assert pull(memory, chosen)["rows"] == 5 + 7
    assert len(transactions(memory, chosen)) == before + 1
    assert verify(memory, chosen)["ok"] is True


class Changing(Interrupted):
    def before(self) -> None:
        change(self.memory, "SELECT * FROM b")


def test_a_query_that_is_changed_during_a_run_is_the_one_that_goes_on(memory: MemoryNode) -> None:
    history(memory)
    noted = history(memory, ROOT.replace("name: readings", "name: noted"), pushes=1)
    push(memory, noted, row(2, "other city"))
    chosen = memory.add(BOTH)
    memory.use_engine(Changing(memory, 2))
    assert pull(memory, chosen)["rows"] == 2 + 2 + 2
    assert cities(memory, chosen)[2:] == ["city 1", "city 2", "city 1", "other city"]
    assert rows_of(transactions(memory, chosen)) == [2, 4]
    assert verify(memory, chosen)["ok"] is True


class Remembering(MemoryEngine):
    """Keeps which transforms it was asked to continue from."""

    def __init__(self, memory: MemoryNode) -> None:
        super().__init__(memory.folder / "exchange")
        self.continued: list[bool] = []

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        self.continued.append(request.previous is not None)
        return super().execute_transform(request, progress=progress)


def test_only_the_first_transaction_after_a_change_of_words_continues_from_the_old_ones(memory: MemoryNode) -> None:
    root, _ = history(memory, pushes=1), history(memory, WITH_NOTES, pushes=1)
    chosen = memory.add(BOTH)
    pull(memory, chosen)
    change(memory, "SELECT  *  FROM a")
    for day in range(2, 6):
        push(memory, root, row(day, "later"))
    engine = Remembering(memory)
    memory.use_engine(engine)
    pull(memory, chosen)
    assert rows_of(transactions(memory, chosen)) == [1, 2, 2]
    assert engine.continued == [True, False]
    assert verify(memory, chosen)["ok"] is True


def change(memory: MemoryNode, query: str) -> None:
    (snapshot,) = parse_snapshots(BOTH.replace("SELECT * FROM a", query), file="test.yaml")
    memory.node.editing.set_transform(snapshot, memory.node.operator)


class Choosy(MemoryEngine):
    """Takes every transform as naming all columns but `note`.

    Whether its input has that makes no difference.
    """

    def validate_query(self, request: ValidateRequest) -> ValidateResult:
        result = super().validate_query(request)
        return replace(result, data_schema=result.data_schema and without_note(result.data_schema))

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        inputs = tuple(replace(each, data_schema=without_note(each.data_schema)) for each in request.inputs)
        return super().execute_transform(replace(request, inputs=inputs), progress=progress)


def without_note(schema: DataSchema) -> DataSchema:
    return replace(schema, fields=tuple(field for field in schema.fields if field.name != "note"))


@pytest.mark.parametrize(("engine", "rows"), [(MemoryEngine, [5, 8]), (Choosy, [2, 2, 1, 8])])
def test_columns_that_a_query_needs_are_there_in_its_first_transaction(
    memory: MemoryNode, engine: type[MemoryEngine], rows: list[int]
) -> None:
    """Columns that a query needs are there in its first transaction.

    What a query gives over the first schema of an input may be other than what it was accepted for.
    """
    history(memory)
    history(memory, WITH_NOTES, pushes=3)
    chosen, derived = memory.add(BOTH), memory.add(DERIVED.replace("readings", "chosen"))
    pull(memory, chosen)
    change(memory, "SELECT * FROM b")  # which adds a column
    pull(memory, chosen)
    memory.use_engine(engine(memory.folder / "exchange"))
    pull(memory, derived)
    assert rows_of(transactions(memory, derived)) == rows


def test_a_change_of_words_is_judged_by_the_newest_schemas_too(memory: MemoryNode) -> None:
    memory.use_engine(Choosy(memory.folder / "exchange"))
    root, _ = history(memory, pushes=1), history(memory, WITH_NOTES, pushes=1)
    chosen, text = memory.add(BOTH), DERIVED.replace("readings", "chosen")
    derived = memory.add(text)
    for entry in (chosen, derived):
        pull(memory, entry)
    for day in (2, 3, 4):
        push(memory, root, row(day, "later"))
    pull(memory, chosen)
    memory.use_engine(MemoryEngine(memory.folder / "exchange"))
    change(memory, "SELECT * FROM b")  # which adds a column
    pull(memory, chosen)
    memory.use_engine(Choosy(memory.folder / "exchange"))
    (snapshot,) = parse_snapshots(text.replace("SELECT *", "SELECT  *"), file="test.yaml")
    memory.node.editing.set_transform(snapshot, memory.node.operator)
    pull(memory, derived)
    assert rows_of(transactions(memory, derived)) == [1, 3, 5]
    assert verify(memory, derived)["ok"] is True


LARGE = "a city with a name that is so long that two of them are more than the engine may have in hand" * 2


class Telling(MemoryEngine):
    """Keeps how many records it was asked to take, and how many bytes of them at once."""

    def __init__(self, memory: MemoryNode) -> None:
        super().__init__(memory.folder / "exchange")
        self.asked: list[tuple[int, int]] = []

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        self._tell(request)
        return super().execute_transform(request, progress=progress)

    def migrate_query(self, request: MigrateRequest, *, progress: ProgressListener) -> TransformResult:
        self._tell(request.next)
        return super().migrate_query(request, progress=progress)

    def _tell(self, request: TransformRequest) -> None:
        self.asked.append((sum(len(one.offsets) for one in request.inputs), request.bytes_in_hand_max))


def by_bytes(memory: MemoryNode, bytes_max: int) -> Telling:
    memory.settings = memory.settings.model_copy(update={"transform_rows_max": 100, "transform_bytes_max": bytes_max})
    memory.restart()
    engine = Telling(memory)
    memory.use_engine(engine)
    return engine


def test_what_is_more_than_may_be_in_hand_is_divided(memory: MemoryNode) -> None:
    engine = by_bytes(memory, 500)
    root = memory.add(ROOT)
    for day in range(1, 6):
        push(memory, root, row(day, LARGE))
    derived = memory.add(DERIVED)
    assert pull(memory, derived)["rows"] == 5
    # Halves until they fit; larger ones are tried again, each time after twice as many that fit.
    refused, fitting = [(5, 500), (2, 500)], (1, 500)
    assert engine.asked == [*refused, fitting, (2, 500), fitting, fitting, (2, 500), fitting, fitting]
    assert rows_of(transactions(memory, derived)) == [1] * 5
    assert cities(memory, derived) == [LARGE] * 5
    assert verify(memory, derived) == {"ok": True, "errors": []}


def test_a_block_that_is_too_much_by_itself_is_taken_as_it_is(memory: MemoryNode) -> None:
    engine = by_bytes(memory, 500)
    root = memory.add(ROOT)
    push(memory, root, row(1, "small"))
    push(memory, root, row(2, LARGE) + row(3, LARGE) + row(4, LARGE))
    push(memory, root, row(5, "small"))
    derived = memory.add(DERIVED)
    assert pull(memory, derived)["rows"] == 5
    assert engine.asked == [(5, 500), (1, 500), (4, 500), (3, 500), (3, 0), (1, 0)]
    assert rows_of(transactions(memory, derived)) == [1, 3, 1]


def test_one_large_block_does_not_make_all_that_follow_small(memory: MemoryNode) -> None:
    engine = by_bytes(memory, 1_200)
    root = memory.add(ROOT)
    push(memory, root, "".join(row(1, f"{number}{LARGE * 4}") for number in range(3)))
    for day in range(2, 32):
        push(memory, root, row(day, "small"))
    derived = memory.add(DERIVED)
    assert pull(memory, derived)["rows"] == 33
    sizes = rows_of(transactions(memory, derived))
    assert sizes[0] == 3
    assert len(sizes) < 12
    assert len(engine.asked) < 20
    assert verify(memory, derived) == {"ok": True, "errors": []}


def test_a_need_that_does_not_shrink_with_the_records_ends_the_division(memory: MemoryNode) -> None:
    """A need that does not shrink with the records ends the division.

    Such as a table that every record meets: then smaller transactions only read it more often.
    """
    root = memory.add(ROOT)
    push(memory, root, "".join(row(1, f"city {number}") for number in range(200)))
    for day in range(2, 6):
        push(memory, root, "".join(row(day, f"city {number}") for number in range(200)))
    for number in range(150):
        push(memory, root, row(7, f"city {number}"))

    class Needy(Telling):
        def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
            result = super().execute_transform(replace(request, bytes_in_hand_max=0), progress=progress)
            self.asked[-1] = (self.asked[-1][0], request.bytes_in_hand_max)
            if request.bytes_in_hand_max:
                raise LimitExceeded("all of it", limit=TRANSACTION_SIZE_LIMIT, maximum=request.bytes_in_hand_max)
            return result

    by_bytes(memory, 1_000)
    memory.settings = memory.settings.model_copy(update={"transform_rows_max": 10_000})
    memory.restart()
    engine = Needy(memory)
    memory.use_engine(engine)
    derived = memory.add(DERIVED)
    assert pull(memory, derived)["rows"] == 1_150
    recorded = len(transactions(memory, derived))
    assert recorded <= 64
    assert len(engine.asked) - recorded <= 30


def test_a_divided_run_goes_on_where_it_was_interrupted(memory: MemoryNode) -> None:
    by_bytes(memory, 500)
    memory.use_engine(Interrupted(memory, 5))
    root = memory.add(ROOT)
    for day in range(1, 6):
        push(memory, root, row(day, LARGE))
    derived = memory.add(DERIVED)
    answer = pull(memory, derived)
    assert (answer["rows"], len(answer["blocks"])) == (5, 6)  # type: ignore[arg-type]
    assert rows_of(transactions(memory, derived)) == [1] * 5
    assert verify(memory, derived) == {"ok": True, "errors": []}


def test_another_limit_is_no_reason_to_divide(memory: MemoryNode) -> None:
    class Full(Telling):
        def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
            super().execute_transform(request, progress=progress)
            raise LimitExceeded("one key has too many rows", limit="bound_bytes_max", maximum=1)

    by_bytes(memory, 100_000)
    engine = Full(memory)
    memory.use_engine(engine)
    history(memory)
    derived = memory.add(DERIVED)
    job = memory.finish(started(memory, derived))
    assert job.status is JobStatus.FAILED
    assert "bound_bytes_max" in (job.error or "")
    assert {rows for rows, _ in engine.asked} == {5}


def test_a_changed_query_is_not_divided(memory: MemoryNode) -> None:
    history(memory)
    history(memory, WITH_NOTES)
    chosen = memory.add(BOTH)
    pull(memory, chosen)
    engine = by_bytes(memory, 1)
    change(memory, "SELECT * FROM b")
    assert pull(memory, chosen)["rows"] == 5 + 5
    assert engine.asked == [(10, 0)]
