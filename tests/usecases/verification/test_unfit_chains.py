"""Chains with unusable rows, names, times or schemas: refused or reported.

Refused by a pull, named by verification if they came in before.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.errors import OdfError
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE
from odfabric.model.data_schema import DataField, DataSchema, DataTypeInt64, DataTypeOption
from odfabric.model.engine import IngestRequest, IngestResult, TransformRequest, TransformResult
from odfabric.model.instant import FIRST_INSTANT, LAST_INSTANT, Instant
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import (
    AddData,
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    SetDataSchema,
    SetVocab,
)
from odfabric.model.offsets import OffsetRange
from odfabric.ports.engine import ProgressListener
from odfabric.testing.chains import INPUT_IDS, START, example_transform, physical_hash
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.reading.read_tail import ReadTail
from tests.support.real_chains import COLUMNS, RealChain, plant
from tests.usecases.manifests import DERIVED, ROOT
from tests.usecases.transform.test_pull_dataset import push, row
from tests.usecases.verification.test_tampered_chains import copied, problems, pull

SCHEMA = SetDataSchema(schema=arrow_to_data_schema(COLUMNS))
WITHOUT_CITY = pa.schema([one for one in COLUMNS if one.name != "city"])
FAR_PAST, FAR_FUTURE = (Instant.parse(f"{sign}2147483647-01-01T00:00:00Z") for sign in "-+")

Build = Callable[[RealChain], None]


@dataclass(frozen=True)
class Case:
    """A chain that breaks the rule, a neighbour that does not, a word of the refusal."""

    word: str
    bad: Build
    good: Build
    kind: DatasetKind = DatasetKind.ROOT


def with_rows(*operations: int, **changed: Any) -> Build:
    def build(chain: RealChain) -> None:
        chain.add(SCHEMA)
        chain.add(AddData(new_data=chain.next_slice(*operations, **changed), new_watermark=START))

    return build


def transformed(sql: str, *operations: int) -> Build:
    def build(chain: RealChain) -> None:
        chain.add(example_transform(sql=sql), SCHEMA)
        progress = ExecuteTransformInput(dataset_id=INPUT_IDS[0], new_block_hash=physical_hash("1"), new_offset=4)
        data = chain.next_slice(*operations)
        chain.add(ExecuteTransform(query_inputs=(progress,), new_data=data, new_checkpoint=chain.checkpoint("state")))

    return build


def events(*found: Any) -> Build:
    return lambda chain: chain.add(*found)


def at(moment: Instant) -> Build:
    def build(chain: RealChain) -> None:
        seed = chain.blocks[0].block.event
        chain.blocks, chain.state = [], type(chain.state).empty()
        chain.add(seed, system_time=moment)

    return build


def of_event_times(*millis: int | None) -> Build:
    return with_rows(*[0] * len(millis), event_time=pa.array(millis, pa.int64()).cast(TIMESTAMP_TYPE))


def nullable_event_times(millis: int | None) -> Build:
    """A schema that admits what a root dataset never has."""

    def build(chain: RealChain) -> None:
        columns = pa.schema([one.with_nullable(one.name == "event_time" or one.nullable) for one in COLUMNS])
        chain.add(SetDataSchema(schema=arrow_to_data_schema(columns)))
        times = pa.array([millis], pa.int64()).cast(TIMESTAMP_TYPE)
        chain.add(AddData(new_data=chain.next_slice(0, columns=columns, event_time=times), new_watermark=START))

    return build


TWICE = DataSchema(fields=tuple(DataField(name="x", type=DataTypeInt64()) for _ in range(2)))
OPTIONAL = DataSchema(fields=(DataField(name="x", type=DataTypeOption(inner=DataTypeOption(inner=DataTypeInt64()))),))
SELECTS_NOTHING = "select event_time, city, a * 2, count(*) from input0"

CASES = {
    "correct-from alone": Case("correct-from (2)", with_rows(0, 2), with_rows(0, 2, 3)),
    "correct-to alone": Case("correct-to (3)", with_rows(3, 0), with_rows(2, 3, 0)),
    "correct-from without its correct-to next": Case("correct-from (2)", with_rows(2, 0, 3), with_rows(0, 2, 3)),
    "half a correction of a query that cannot say it": Case(
        "correct-to (3)",
        transformed(SELECTS_NOTHING, 0, 3),
        transformed(SELECTS_NOTHING, 2, 3),
        DatasetKind.DERIVATIVE,
    ),
    "optional column missing": Case("no column `city`", with_rows(0, columns=WITHOUT_CITY), with_rows(0)),
    "two roles of one column": Case(
        "rule X12", events(SetVocab(offset_column="x", event_time_column="x")), events(SetVocab(offset_column="x"))
    ),
    "a role that is a default of another": Case(
        "rule X12", events(SetVocab(system_time_column="OP")), events(SetVocab(system_time_column="ops"))
    ),
    "an empty name": Case("rule X12", events(SetVocab(offset_column="")), events(SetVocab())),
    "a watermark of long ago": Case(
        "rule X11", events(AddData(new_watermark=FAR_PAST)), events(AddData(new_watermark=FIRST_INSTANT))
    ),
    "a watermark of the far future": Case(
        "rule X11", events(AddData(new_watermark=FAR_FUTURE)), events(AddData(new_watermark=LAST_INSTANT))
    ),
    "a seed of the year 0": Case("rule X11", at(Instant(FIRST_INSTANT.epoch_ns - 1)), at(FIRST_INSTANT)),
    "an event time after all calendars": Case(
        "has the event_time", of_event_times(0, 2**62), of_event_times(0, 253_402_300_799_999)
    ),
    "no event time": Case("row 1 has no event_time", nullable_event_times(None), nullable_event_times(0)),
    "a schema of one byte": Case("rule X13", events(SetDataSchema(raw_arrow_schema=b"\x07")), events(SCHEMA)),
    "a schema of no bytes": Case("rule X13", events(SetDataSchema(raw_arrow_schema=b"")), events(SCHEMA)),
    "a schema with two fields of one name": Case("rule X13", events(SetDataSchema(schema=TWICE)), events(SCHEMA)),
    "a schema that Arrow cannot hold": Case("rule X13", events(SetDataSchema(schema=OPTIONAL)), events(SCHEMA)),
}


def built(folder: Path, build: Build, kind: DatasetKind) -> RealChain:
    folder.mkdir()
    chain = RealChain(folder, kind)
    build(chain)
    return chain


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_it_is_refused_by_a_pull_and_its_neighbour_is_not(case: Case, tmp_path: Path) -> None:
    good, bad = built(tmp_path / "good", case.good, case.kind), built(tmp_path / "bad", case.bad, case.kind)
    memory, entry = copied(tmp_path / "copy", good.blocks, good.files)
    assert problems(memory, entry) == []
    memory = MemoryNode(tmp_path / "node")
    outcome = pull(memory, bad.blocks, bad.files)
    assert outcome["code"] in ("invalid-block", "corrupted-source")
    assert case.word in f"rule {outcome.get('rule')}: {outcome['message']}"
    assert str(bad.blocks[-1].hash) in outcome["message"]
    assert memory.node.datasets.page(after=None, limit=10) == []


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_it_is_named_by_verification_and_no_reader_falls_over_it(case: Case, tmp_path: Path) -> None:
    bad = built(tmp_path / "bad", case.bad, case.kind)
    memory = MemoryNode(tmp_path / "node")
    entry = plant(memory, bad.blocks, bad.files)
    (problem,) = problems(memory, entry)
    assert (problem["block"], case.word in problem["message"]) == (str(bad.blocks[-1].hash), True)
    for read in (
        lambda: memory.node.rows.tail(entry, ReadTail(skip=0, limit=5, data_format="JsonAoS", schema_format="OdfJson")),
        lambda: memory.node.datasets.metadata(entry, frozenset({"schema", "seed", "vocab", "info"}), "OdfJson"),
        lambda: list(memory.node.datasets.log(entry, limit=10)),
    ):
        # Whatever is wrong with it, what comes is an answer or an error with a name.
        with suppress(OdfError):
            read()


# --- what the reference writes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "select op, event_time, city from input0 where city > 'a'",
        "select *, 1 as one from input0 where city > 'a'",
        "select i.* from input0 i where city > 'a'",
        "SELECT DISTINCT* from input0",
        "table input0",
        "from input0 |> where city > 'a'",
    ],
)
def test_a_query_that_may_select_the_operation_is_taken_literally(sql: str, tmp_path: Path) -> None:
    chain = built(tmp_path / "chain", transformed(sql, 0, 3), DatasetKind.DERIVATIVE)
    memory, entry = copied(tmp_path / "node", chain.blocks, chain.files)
    assert problems(memory, entry) == []


def test_a_chain_that_was_compacted_has_rows_older_than_its_blocks(tmp_path: Path) -> None:
    times = pa.array([START.millis, START.millis, START.millis + 1000], pa.int64()).cast(TIMESTAMP_TYPE)
    compacted_at = Instant.from_millis(START.millis + 86_400_000)

    def compacted(chain: RealChain) -> None:
        rows = AddData(new_data=chain.next_slice(0, 0, 0, system_time=times), new_watermark=START)
        chain.add(SCHEMA, rows, system_time=compacted_at)

    def claimed(chain: RealChain) -> None:
        chain.add(SCHEMA)
        rows = AddData(new_data=chain.next_slice(0, 0, 0, system_time=times), new_watermark=START)
        chain.add(rows, system_time=compacted_at)

    chain = built(tmp_path / "chain", compacted, DatasetKind.ROOT)
    memory, entry = copied(tmp_path / "node", chain.blocks, chain.files)
    assert problems(memory, entry) == []
    other = built(tmp_path / "other", claimed, DatasetKind.ROOT)
    assert "is expected" in pull(MemoryNode(tmp_path / "refusing"), other.blocks, other.files)["message"]


def test_a_column_that_was_added_later_is_null_in_older_rows(tmp_path: Path) -> None:
    wider = COLUMNS.append(pa.field("added", pa.list_(pa.int64(), 2**31 - 1)))

    def evolved(chain: RealChain) -> None:
        with_rows(0, 0)(chain)
        chain.add(SetDataSchema(schema=arrow_to_data_schema(wider)))

    chain = built(tmp_path / "chain", evolved, DatasetKind.ROOT)
    memory, entry = copied(tmp_path / "node", chain.blocks, chain.files)
    answer = memory.node.rows.tail(entry, ReadTail(skip=0, limit=5, data_format="JsonAoS", schema_format=None))
    rows = answer["data"]
    assert isinstance(rows, list)
    assert [(row["city"], row["added"]) for row in rows] == [("city 0", None), ("city 1", None)]
    assert problems(memory, entry) == []


def test_a_later_slice_has_the_columns_of_the_later_schema(tmp_path: Path) -> None:
    wider = COLUMNS.append(pa.field("added", pa.int64()))

    def following(columns: pa.Schema, **changed: Any) -> Build:
        def build(chain: RealChain) -> None:
            with_rows(0, 0)(chain)
            chain.add(SetDataSchema(schema=arrow_to_data_schema(wider)))
            data = chain.next_slice(0, columns=columns, **changed)
            chain.add(AddData(prev_offset=1, new_data=data, new_watermark=START))

        return build

    good = built(tmp_path / "good", following(wider, added=[7]), DatasetKind.ROOT)
    memory, entry = copied(tmp_path / "node", good.blocks, good.files)
    assert problems(memory, entry) == []
    bad = built(tmp_path / "bad", following(COLUMNS), DatasetKind.ROOT)
    assert "no column `added`" in pull(MemoryNode(tmp_path / "other"), bad.blocks, bad.files)["message"]


class CountingOneMore(MemoryEngine):
    """An engine that says it wrote a row more than it did."""

    def ingest(self, request: IngestRequest, *, progress: ProgressListener) -> IngestResult:
        result = super().ingest(request, progress=progress)
        assert result.offsets is not None
        return replace(result, offsets=OffsetRange(result.offsets.begin, result.offsets.end + 1))

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        result = super().execute_transform(request, progress=progress)
        assert result.offsets is not None
        return replace(result, offsets=OffsetRange(result.offsets.begin, result.offsets.end + 1))


def test_what_an_engine_writes_is_judged_as_what_a_peer_sends(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    root, derived = memory.add(ROOT), memory.add(DERIVED)
    push(memory, root, row(1, "A"))
    memory.use_engine(CountingOneMore(tmp_path / "exchange"))
    job = memory.node.requests.push(PushData(dataset=root.id, body=iter([row(2, "B").encode()])))
    assert isinstance(job, Job)
    for outcome in (job, memory.node.requests.pull(PullRequest(dataset=derived.id, alias=derived.alias))):
        ended = memory.finish(outcome)
        assert ended.status is JobStatus.FAILED
        assert "the slice has 1 rows" in (ended.error or "")
    assert (problems(memory, root), problems(memory, derived)) == ([], [])
