"""Our coordinator with reference engines: requests, and distrust of answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from odfabric.adapters.grpc_engine.contract_engine import ContractChannel, ContractEngine
from odfabric.errors import (
    Determinate,
    IncompatibleSchema,
    InvalidData,
    InvalidQuery,
    InvalidRequest,
    LimitExceeded,
    OdfError,
)
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.model import engine_contract as contract
from odfabric.model.engine import (
    EngineProgress,
    SliceFile,
    TransformRequest,
    TransformRequestInput,
    TransformResult,
    TransformStep,
)
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import OffsetInterval, SqlQueryStep, TransformSql
from odfabric.model.offsets import OffsetRange
from odfabric.model.vocabulary import DatasetVocabulary
from tests.support.engines.reference_engine import MILLIS, QUERY, Answers, ReferenceEngine, reference_engine
from tests.support.waiting import wait_until

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("op", pa.int32(), nullable=False),
        pa.field("system_time", MILLIS, nullable=False),
        pa.field("event_time", MILLIS, nullable=False),
        pa.field("city", pa.string()),
    ]
)
IN, OUT = DatasetId(b"\x02" * 32), DatasetId(b"\x01" * 32)
NOW = Instant.parse("2050-01-02T12:00:00.123Z")


@pytest.fixture
def reference(tmp_path: Path) -> Iterator[ReferenceEngine]:
    (tmp_path / "call").mkdir()
    with reference_engine(tmp_path) as engine:
        yield engine


@pytest.fixture
def client(reference: ReferenceEngine) -> Iterator[ContractEngine]:
    found = ContractEngine(channel(reference))
    yield found
    found.close()


def channel(reference: ReferenceEngine, **changes: object) -> ContractChannel:
    found = ContractChannel(
        name="datafusion",
        address=reference.address,
        exchange=reference.folder,
        exchange_seen=reference.seen,
        call_s_max=60,
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def request(folder: Path, *, rows: int = 3, query: str = QUERY) -> TransformRequest:
    if rows:
        with SliceWriter(folder / "call/slice", SCHEMA) as writer:
            columns = [list(range(rows)), [0] * rows, [1] * rows, [2] * rows, ["x"] * rows]
            arrays = [pa.array(values, item.type) for values, item in zip(columns, SCHEMA, strict=True)]
            writer.write(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    return TransformRequest(
        dataset_id=OUT,
        vocabulary=DatasetVocabulary(),
        transform=TransformSql(engine="datafusion", queries=(SqlQueryStep(query=query),)),
        inputs=(
            TransformRequestInput(
                dataset_id=IN,
                query_alias="everything",
                vocabulary=DatasetVocabulary(),
                data_schema=arrow_to_data_schema(SCHEMA),
                offsets=OffsetRange(0, rows),
                slices=(SliceFile(path="call/slice", offsets=OffsetRange(0, rows)),) if rows else (),
                steps=(
                    TransformStep(system_time=Instant(5), last_offset=1, watermark=None),
                    TransformStep(system_time=Instant(6), last_offset=rows - 1, watermark=Instant.from_millis(7)),
                ),
            ),
        ),
        data_schema=None,
        prev_watermark=None,
        system_time=NOW,
        next_offset=4,
        checkpoint_paths=(),
        new_checkpoint_path="call/new-checkpoint",
        new_data_path="call/new-data",
    )


def ignore(progress: EngineProgress) -> None:
    pass


def run(client: ContractEngine, asked: TransformRequest) -> TransformResult:
    return client.execute_transform(asked, progress=ignore)


def test_what_is_asked(reference: ReferenceEngine, client: ContractEngine, tmp_path: Path) -> None:
    seen: list[EngineProgress] = []
    asked = replace(request(tmp_path), checkpoint_paths=("call/old",))
    result = client.execute_transform(asked, progress=seen.append)
    assert len(seen) == 1
    assert (result.offsets, result.watermark) == (OffsetRange(4, 7), Instant.from_millis(7))
    assert [item.name for item in result.data_schema.fields] == SCHEMA.names
    [found] = reference.requests
    vocab = contract.DatasetVocabulary(
        offset_column="offset",
        operation_type_column="op",
        system_time_column="system_time",
        event_time_column="event_time",
    )
    assert found == contract.TransformRequest(
        dataset_id=OUT,
        dataset_alias=OUT.multibase,
        system_time=NOW,
        vocab=vocab,
        transform=asked.transform,
        query_inputs=(
            contract.TransformRequestInput(
                dataset_id=IN,
                dataset_alias=IN.multibase,
                query_alias="everything",
                vocab=vocab,
                offset_interval=OffsetInterval(start=0, end=2),
                data_paths=("/opt/engine/call/slice",),
                schema_file="/opt/engine/call/new-data-schema-0",
                explicit_watermarks=(contract.Watermark(system_time=Instant(6), event_time=Instant.from_millis(7)),),
            ),
        ),
        next_offset=4,
        prev_checkpoint_path="/opt/engine/call/old",
        new_checkpoint_path="/opt/engine/call/new-checkpoint",
        new_data_path="/opt/engine/call/new-data",
    )


def test_no_rows(reference: ReferenceEngine, client: ContractEngine, tmp_path: Path) -> None:
    asked = request(tmp_path, rows=0)
    old = SliceFile(path="call/read-before", offsets=OffsetRange(0, 0))
    result = run(client, replace(asked, inputs=(replace(asked.inputs[0], slices=(old,)),)))
    assert result.offsets is None
    assert [item.name for item in result.data_schema.fields] == SCHEMA.names
    assert reference.requests[0].query_inputs[0].offset_interval is None
    assert reference.requests[0].query_inputs[0].data_paths == ()


def test_several_checkpoints_cannot_be_handed_over(client: ContractEngine, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="one checkpoint"):
        run(client, replace(request(tmp_path), checkpoint_paths=("a", "b")))


def test_another_transform_cannot_go_on_from_a_state(client: ContractEngine, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="cannot change the transform"):
        run(client, replace(request(tmp_path), previous=TransformSql(engine="datafusion", query="select 1")))


def with_column(name: str, values: list[object], arrow: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(table.column_names.index(name), name, pa.array(values, arrow))


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda table: table.slice(1), "has 2 rows"),
        (with_column("offset", [4, 5, 7], pa.int64()), "offset 7"),
        (with_column("op", [0, 0, 4], pa.int32()), "4 as operation type"),
        (with_column("op", [0, None, 0], pa.int32()), "nulls"),
        (with_column("op", ["+A"] * 3, pa.string()), "not as an integer"),
        (with_column("system_time", [1, 1, 1], MILLIS), "system_time"),
        (with_column("event_time", ["now"] * 3, pa.string()), "not as a timestamp in UTC"),
        (with_column("event_time", [1, 2, 3], pa.timestamp("ms")), "not as a timestamp in UTC"),
        (with_column("event_time", [1, 2, 3], pa.timestamp("ms", "Europe/Kyiv")), "not as a timestamp in UTC"),
        (lambda table: table.drop_columns(["system_time"]), "does not begin with"),
        (lambda table: table.drop_columns(["event_time"]), "does not begin with"),
        (lambda table: table.append_column("d", pa.array([1, 2, 3], pa.duration("s"))), "not supported"),
    ],
)
def test_slices_that_break_the_contract(
    reference: ReferenceEngine,
    client: ContractEngine,
    tmp_path: Path,
    spoil: Callable[[pa.Table], pa.Table],
    text: str,
) -> None:
    reference.spoil = spoil
    with pytest.raises((InvalidData, IncompatibleSchema), match=text):
        run(client, request(tmp_path))


def answering(*answers: contract.TransformResponse | bytes) -> Answers:
    return lambda _: iter(answers)


def success(start: int | None, end: int) -> contract.TransformResponseSuccess:
    interval = None if start is None else OffsetInterval(start=start, end=end)
    return contract.TransformResponseSuccess(new_offset_interval=interval, new_watermark=None)


@pytest.mark.parametrize(
    ("answers", "error", "text"),
    [
        ((success(4, 6),), InvalidData, "wrote no slice"),
        ((contract.TransformResponseInvalidQuery(message="bad\x1b[31m \tSQL"),), InvalidQuery, r"bad \[31m  SQL"),
        ((contract.TransformResponseInternalError(message="x", backtrace="at y"),), Determinate, "failed: x"),
        ((b"\x0a\x04junk",), InvalidData, "not a TransformResponseRoot"),
        ((b"",), InvalidData, "not a TransformResponseRoot"),
        ((), Determinate, "without an answer"),
        ((contract.TransformResponseProgress(),), Determinate, "without an answer"),
    ],
)
def test_answers_that_are_no_success(
    reference: ReferenceEngine,
    client: ContractEngine,
    tmp_path: Path,
    answers: tuple[contract.TransformResponse | bytes, ...],
    error: type[OdfError],
    text: str,
) -> None:
    reference.answers = answering(*answers)
    with pytest.raises(error, match=text):
        run(client, request(tmp_path))


@pytest.mark.parametrize(
    ("claimed", "text"),
    [
        (success(0, 2), "begin at 4"),
        (success(4, 3), r"\[4, 3\]"),
        (success(4, 2**64 - 1), "has 3 rows"),
        (success(None, 0), "without an offset interval"),
    ],
)
def test_intervals_that_are_not_those_of_the_slice(
    reference: ReferenceEngine,
    client: ContractEngine,
    tmp_path: Path,
    claimed: contract.TransformResponseSuccess,
    text: str,
) -> None:
    def answers(asked: contract.TransformRequest) -> Iterator[contract.TransformResponse | bytes]:
        for answer in reference.run(asked):
            yield claimed if isinstance(answer, contract.TransformResponseSuccess) else answer

    reference.answers = answers
    with pytest.raises(InvalidData, match=text):
        run(client, request(tmp_path))


@pytest.mark.parametrize("name", ["new-data", "new-checkpoint"])
def test_a_link_is_no_file(reference: ReferenceEngine, client: ContractEngine, tmp_path: Path, name: str) -> None:
    def answers(asked: contract.TransformRequest) -> Iterator[contract.TransformResponse | bytes]:
        found = list(reference.run(asked))
        file = tmp_path / "call" / name
        if file.exists():
            file.rename(tmp_path / "elsewhere")
        else:
            (tmp_path / "elsewhere").write_text("a secret of the node")
        file.symlink_to(tmp_path / "elsewhere")
        yield from found

    reference.answers = answers
    with pytest.raises(InvalidData, match="plain file"):
        run(client, request(tmp_path))


def test_an_engine_that_starts_late_is_waited_for(reference: ReferenceEngine, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    early = ContractEngine(channel(reference, address=address))
    results: list[TransformResult] = []
    thread = threading.Thread(target=lambda: results.append(run(early, request(tmp_path))))
    thread.start()
    wait_until((tmp_path / "call/new-data-schema-0").exists, what="the files of the call")
    with reference_engine(tmp_path, listen=address):
        thread.join(30)
    assert [result.offsets for result in results] == [OffsetRange(4, 7)]
    early.close()


def test_an_engine_that_is_away_is_said_to_be(reference: ReferenceEngine, tmp_path: Path) -> None:
    away = ContractEngine(channel(reference, address="127.0.0.1:1", connect_s_max=0.2))
    with pytest.raises(Determinate, match=r"does not answer at 127\.0\.0\.1:1"):
        run(away, request(tmp_path))
    away.close()


def test_an_engine_that_takes_too_long_is_left(reference: ReferenceEngine, tmp_path: Path) -> None:
    released = threading.Event()

    def never(asked: contract.TransformRequest) -> Iterator[contract.TransformResponse | bytes]:
        yield contract.TransformResponseProgress()
        released.wait(30)

    reference.answers = never
    impatient = ContractEngine(channel(reference, call_s_max=0.5))
    with pytest.raises(LimitExceeded) as caught:
        run(impatient, request(tmp_path))
    assert caught.value.limit == "engine_call_s_max"
    released.set()
    impatient.close()
