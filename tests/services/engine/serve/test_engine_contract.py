"""`engine.Engine` on real processes, for the reference's coordinator and ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric.adapters.grpc_engine.contract_engine import ContractChannel, ContractEngine
from odfabric.errors import Determinate, InvalidQuery
from odfabric.formats.blocks.engine_contract import decode_message, encode_message
from odfabric.formats.slices.logical_hash import logical_hash_of_parquet
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric.generated.engine_v1 import engine_pb2_grpc
from odfabric.model import engine_contract as contract
from odfabric.model.engine import (
    EngineIdentity,
    EngineProgress,
    TransformRequest,
    TransformRequestInput,
    TransformResult,
)
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import OffsetInterval, SqlQueryStep, TransformSql
from odfabric.model.offsets import OffsetRange
from odfabric.model.vocabulary import DatasetVocabulary
from tests.services.engine.engine_process import TOKEN, EngineUnderTest
from tests.services.engine.transforming import CF, CT, HOUR, MILLIS, A, Input, R, input_schema

pytestmark = pytest.mark.spark

PLAIN = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int32()))
LINEAR = "select event_time, k, v * 10 as w from a where v > 1"
WINDOWED = (
    "select window(event_time, '1 hour').start as event_time, k, sum(v) as total, count(*) as n"
    " from a group by window(event_time, '1 hour'), k"
)
OUT = DatasetId(b"\x7f" * 32)
EMPTY: dict[str, Any] = {
    "dataset_id": OUT,
    "dataset_alias": "a",
    "system_time": Instant(0),
    "vocab": contract.DatasetVocabulary(),
    "transform": TransformSql(engine="spark", query="select 1"),
    "query_inputs": (),
    "next_offset": 0,
    "prev_checkpoint_path": None,
    "new_checkpoint_path": "/opt/engine/nowhere/c",
    "new_data_path": "/opt/engine/nowhere/d",
}


@pytest.fixture(scope="module")
def engine(compat_engine: EngineUnderTest) -> EngineUnderTest:
    return compat_engine


@pytest.fixture
def compat(engine: EngineUnderTest) -> Iterator[ContractEngine]:
    found = ContractEngine(channel_to(engine, "spark"))
    yield found
    found.close()


def channel_to(engine: EngineUnderTest, name: str, **changes: Any) -> ContractChannel:
    channel = ContractChannel(
        name=name,
        address=engine.compat_address,
        exchange=engine.exchange,
        exchange_seen="/opt/engine",
        call_s_max=60,
    )
    return replace(channel, **changes)


def ignore(progress: EngineProgress) -> None:
    pass


def raw_call(engine: EngineUnderTest, method: str, message: bytes) -> list[bytes]:
    with grpc.insecure_channel(channel_to(engine, "spark").address) as channel:
        return list(channel.unary_stream(f"/engine.Engine/{method}")(message, timeout=60))


def answers(engine: EngineUnderTest, request: contract.TransformRequest) -> list[contract.TransformResponse]:
    found = raw_call(engine, "ExecuteTransform", encode_message(request))
    return [decode_message(contract.TransformResponseRoot, message).value for message in found]


def folder_of(engine: EngineUnderTest, name: str) -> Path:
    folder = engine.exchange / name
    folder.mkdir()
    return folder


def blocks(folder: Path, prefix: str) -> Input:
    """An input of three blocks: new rows, corrections of them, and a watermark alone.

    Paths are those of the exchange.
    """
    one = Input(folder, "a", PLAIN)
    one.add([(A, 0, "x", 1), (A, HOUR, "x", 2), (A, HOUR, "y", 3)], watermark=HOUR, at=1000)
    one.add([(CF, HOUR, "x", 2), (CT, HOUR, "x", 5), (R, HOUR, "y", 3), (A, 0, "z", 4)], watermark=None, at=2000)
    one.add([], watermark=3 * HOUR, at=3000)
    one.slices[:] = [replace(each, path=f"{prefix}/{each.path}") for each in one.slices]
    return one


@pytest.mark.parametrize("query", [LINEAR, WINDOWED], ids=["linear", "windowed"])
def test_both_contracts_give_the_same_transactions(
    engine: EngineUnderTest, compat: ContractEngine, query: str, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    with engine.client() as ours:
        own = pulled(engine, f"{name}-own", query, lambda asked: ours.execute_transform(asked, progress=ignore))
        identity = ours.info().identity
    theirs = pulled(engine, f"{name}-theirs", query, lambda asked: compat.execute_transform(asked, progress=ignore))
    assert {result.made_by for result, _ in own} == {identity}
    assert {result.made_by for result, _ in theirs} == {EngineIdentity(name="spark")}, "this contract names no build"
    assert [(replace(result, made_by=identity), rows) for result, rows in theirs] == own
    assert all(result.offsets is not None for result, _ in own)


def pulled(
    engine: EngineUnderTest, name: str, query: str, run: Callable[[TransformRequest], TransformResult]
) -> list[tuple[TransformResult, object]]:
    """Results and rows of two transactions: over block one, then the other two."""
    one = blocks(folder_of(engine, name), name)
    first = run(asked(one, query, name, 0, 1))
    assert first.offsets is not None
    later = replace(
        asked(one, query, name, 1, 3),
        next_offset=first.offsets.end,
        checkpoint_paths=(f"{name}/checkpoint-1",),
        data_schema=first.data_schema,
        prev_watermark=first.watermark,
    )
    second = run(later)
    hashes = [logical_hash_of_parquet(engine.exchange / name / f"data-{end}") for end in (1, 3)]
    assert not list((engine.exchange / name).glob(".scratch*"))
    return list(zip([first, second], hashes, strict=True))


def asked(one: Input, query: str, name: str, begin: int, end: int) -> TransformRequest:
    """A request for some blocks of an input."""
    begin_offset, end_offset = (
        len([row for row in one.rows if row[2] < 1000 * block + 1000]) for block in (begin, end)
    )
    return TransformRequest(
        dataset_id=OUT,
        vocabulary=DatasetVocabulary(),
        transform=TransformSql(engine="spark", queries=(SqlQueryStep(query=query),)),
        inputs=(
            TransformRequestInput(
                dataset_id=one.id,
                query_alias=one.alias,
                vocabulary=DatasetVocabulary(),
                data_schema=one.data_schema,
                offsets=OffsetRange(begin_offset, end_offset),
                slices=tuple(each for each in one.slices if begin_offset <= each.offsets.begin < end_offset),
                steps=tuple(one.steps[begin:end]),
            ),
        ),
        data_schema=None,
        prev_watermark=None,
        system_time=Instant.parse("2050-01-02T12:00:00.123Z"),
        next_offset=0,
        checkpoint_paths=(),
        new_checkpoint_path=f"{name}/checkpoint-{end}",
        new_data_path=f"{name}/data-{end}",
    )


def test_rows_that_come_too_late_are_told_in_the_log(engine: EngineUnderTest, compat: ContractEngine) -> None:
    """The contract has no place for how many."""
    one = Input(folder_of(engine, "late"), "a", PLAIN)
    one.add([(A, 0, "x", 1)], watermark=3 * HOUR, at=1000).add([(A, 0, "late", 2), (A, 4 * HOUR, "y", 3)], at=2000)
    one.slices[:] = [replace(each, path=f"late/{each.path}") for each in one.slices]
    told = len(engine.log.read_text())
    query = WINDOWED.replace("select", "select /*+ lateness('1 hour') */", 1)
    compat.execute_transform(asked(one, query, "late", 0, 2), progress=ignore)
    assert pq.read_table(engine.exchange / "late/data-2").column("k").to_pylist() == ["x"]
    assert "1 rows came too late" in engine.log.read_text()[told:]


def contract_request(
    engine: EngineUnderTest, name: str, query: str = LINEAR, **changes: Any
) -> contract.TransformRequest:
    """A request of the reference's coordinator, over an input of one block."""
    folder = folder_of(engine, name)
    one = Input(folder, "in", PLAIN).add(
        [(A, 0, "x", 1), (A, HOUR, "y", 3), (A, HOUR, "z", 4)], watermark=HOUR, at=1000
    )
    pq.write_table(PLAIN.empty_table(), folder / "schema")
    seen = f"/opt/engine/{name}"
    request = contract.TransformRequest(
        dataset_id=OUT,
        dataset_alias="someone/out",
        system_time=Instant.parse("2050-01-02T12:00:00.123456789Z"),
        vocab=contract.DatasetVocabulary(),
        transform=TransformSql(engine="spark", query=query),
        query_inputs=(
            contract.TransformRequestInput(
                dataset_id=one.id,
                dataset_alias="someone/in",
                query_alias="a",
                vocab=contract.DatasetVocabulary(),
                offset_interval=OffsetInterval(start=0, end=2),
                data_paths=(f"{seen}/in-0",),
                schema_file=f"{seen}/schema",
                explicit_watermarks=(
                    contract.Watermark(system_time=Instant(1_000_000_123), event_time=Instant.from_millis(HOUR)),
                ),
            ),
        ),
        next_offset=5,
        prev_checkpoint_path=None,
        new_checkpoint_path=f"{seen}/checkpoint",
        new_data_path=f"{seen}/data",
    )
    return replace(request, **changes)


def ending(engine: EngineUnderTest, request: contract.TransformRequest) -> contract.TransformResponse:
    """The one terminal answer, after any number of others."""
    *before, last = answers(engine, request)
    assert all(isinstance(each, contract.TransformResponseProgress) for each in before)
    assert not isinstance(last, contract.TransformResponseProgress)
    return last


def test_a_slice_is_one_of_the_dataset_format(engine: EngineUnderTest) -> None:
    request = contract_request(engine, "plain")
    found = ending(engine, request)
    assert found == contract.TransformResponseSuccess(
        new_offset_interval=OffsetInterval(start=5, end=6), new_watermark=Instant.from_millis(HOUR)
    )
    table = pq.read_table(engine.exchange / "plain/data")
    assert table.schema.names == ["offset", "op", "system_time", "event_time", "k", "w"]
    assert table.schema.types[:4] == [pa.int64(), pa.int32(), MILLIS, MILLIS]
    assert [tuple(row.values())[:2] + tuple(row.values())[4:] for row in table.to_pylist()] == [
        (5, 0, "y", 30),
        (6, 0, "z", 40),
    ]
    assert (engine.exchange / "plain/checkpoint").is_file()


def test_only_rows_of_the_interval_count_and_none_is_a_file_too(engine: EngineUnderTest) -> None:
    request = contract_request(engine, "boundary", "select event_time, k from a")
    one = replace(request.query_inputs[0], offset_interval=OffsetInterval(start=1, end=1))
    found = ending(engine, replace(request, query_inputs=(one,)))
    assert isinstance(found, contract.TransformResponseSuccess)
    assert found.new_offset_interval == OffsetInterval(start=5, end=5)
    assert pq.read_table(engine.exchange / "boundary/data").column("k").to_pylist() == ["y"]
    nothing = contract_request(engine, "nothing", "select event_time, k from a")
    empty = replace(nothing.query_inputs[0], offset_interval=None, data_paths=(), explicit_watermarks=())
    found = ending(engine, replace(nothing, query_inputs=(empty,)))
    assert found == contract.TransformResponseSuccess(new_offset_interval=None, new_watermark=None)
    table = pq.read_table(engine.exchange / "nothing/data")
    assert (table.num_rows, table.schema.names[-1]) == (0, "k")


def test_an_input_without_news_goes_on_where_the_checkpoint_ends(engine: EngineUnderTest) -> None:
    request = contract_request(engine, "resting", WINDOWED)
    first = ending(engine, request)
    assert first == contract.TransformResponseSuccess(
        new_offset_interval=OffsetInterval(start=5, end=5), new_watermark=Instant.from_millis(HOUR)
    )
    later = contract.Watermark(system_time=Instant.from_millis(9000), event_time=Instant.from_millis(2 * HOUR))
    one = replace(request.query_inputs[0], offset_interval=None, data_paths=(), explicit_watermarks=(later,))
    second = replace(
        request,
        query_inputs=(one,),
        next_offset=6,
        prev_checkpoint_path=request.new_checkpoint_path,
        new_checkpoint_path="/opt/engine/resting/checkpoint-2",
        new_data_path="/opt/engine/resting/data-2",
    )
    found = ending(engine, second)
    assert found == contract.TransformResponseSuccess(
        new_offset_interval=OffsetInterval(start=6, end=7), new_watermark=Instant.from_millis(2 * HOUR)
    )


def test_a_wrong_query_is_told_apart_from_what_is_wrong_otherwise(engine: EngineUnderTest) -> None:
    for query, text in (
        ("select event_time, k from", "line 1"),
        ("select event_time, uuid() as u from a", "uuid"),
        ("select event_time, 1 / (v - v) as w from a", "zero"),
        ("select k from a", "event_time"),
    ):
        found = ending(engine, contract_request(engine, f"query-{abs(hash(query))}", query))
        assert isinstance(found, contract.TransformResponseInvalidQuery), found
        assert text in found.message.lower()
    other = replace(contract_request(engine, "other-engine"), transform=TransformSql(engine="flink", query=LINEAR))
    found = ending(engine, other)
    assert isinstance(found, contract.TransformResponseInvalidQuery)
    assert "flink" in found.message


def test_a_checkpoint_of_another_engine_is_refused_with_a_reason(engine: EngineUnderTest) -> None:
    request = contract_request(engine, "foreign")
    (engine.exchange / "foreign/theirs").write_bytes(b"\x1f\x8b a savepoint in a tar file")
    found = ending(engine, replace(request, prev_checkpoint_path="/opt/engine/foreign/theirs"))
    assert isinstance(found, contract.TransformResponseInternalError)
    assert "not written by this engine" in found.message
    assert found.backtrace is None


PATHS = ["/etc/passwd", "/opt/engine/../secret", "/opt/engine/link/in", "/opt/engine/", "", "/opt/engine//x", "missing"]


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_out_of_the_exchange_folder(engine: EngineUnderTest, path: str) -> None:
    link = engine.exchange / "link"
    if not link.is_symlink():
        link.symlink_to(engine.folder)
    (engine.folder / "in").write_bytes(b"x")
    request = contract_request(engine, f"escape-{PATHS.index(path)}")
    one = request.query_inputs[0]
    wrong = [
        replace(request, query_inputs=(replace(one, data_paths=(path,)),)),
        replace(request, query_inputs=(replace(one, schema_file=path),)),
        replace(request, prev_checkpoint_path=path),
    ]
    if path != "missing":
        wrong += [replace(request, new_data_path=path), replace(request, new_checkpoint_path=path)]
    for each in wrong:
        found = ending(engine, each)
        assert isinstance(found, contract.TransformResponseInternalError), found
        assert "/etc" not in found.message
        left = {each.name for each in (engine.exchange / f"escape-{PATHS.index(path)}").iterdir()}
        assert left == {"in-0", "schema"}, "a file without the other is left"


def test_requests_that_contradict_themselves(engine: EngineUnderTest) -> None:
    request = contract_request(engine, "contradiction")
    one = request.query_inputs[0]
    for wrong in (
        replace(one, offset_interval=None),
        replace(one, data_paths=()),
        replace(one, offset_interval=OffsetInterval(start=2, end=0)),
        replace(one, offset_interval=OffsetInterval(start=0, end=7)),
        replace(one, schema_file=one.data_paths[0] + "-not-there"),
    ):
        found = ending(engine, replace(request, query_inputs=(wrong,)))
        assert isinstance(found, contract.TransformResponseInternalError), found


@given(st.binary(max_size=200), st.integers(0, 400), st.binary(min_size=1, max_size=8))
@settings(max_examples=15)
def test_hostile_bytes_are_an_answer(engine: EngineUnderTest, junk: bytes, position: int, patch: bytes) -> None:
    valid = bytearray(encode_message(contract.TransformRequest(**EMPTY)))
    valid[position % len(valid) : position % len(valid) + len(patch)] = patch
    for message in (junk, bytes(valid)):
        for method, root in (
            ("ExecuteTransform", contract.TransformResponseRoot),
            ("ExecuteRawQuery", contract.RawQueryResponseRoot),
        ):
            last = decode_message(root, raw_call(engine, method, message)[-1]).value
            assert type(last).__name__.endswith(("InternalError", "InvalidQuery")), last
    assert engine.process.poll() is None


def test_a_raw_query(engine: EngineUnderTest) -> None:
    folder = folder_of(engine, "raw")
    names = [("t", pa.timestamp("us", "UTC")), ("v", pa.int64())]
    for number, values in enumerate(([3, 1], [2])):
        table = pa.table({"t": [1_500] * len(values), "v": values}, schema=pa.schema(names))
        pq.write_table(table, folder / f"in-{number}")
    request = contract.RawQueryRequest(
        input_data_paths=("/opt/engine/raw/in-0", "/opt/engine/raw/in-1"),
        transform=TransformSql(engine="spark", query="select t, v * 2 as w from input"),
        output_data_path="/opt/engine/raw/out",
    )

    def last(asked_for: contract.RawQueryRequest) -> contract.RawQueryResponse:
        found = raw_call(engine, "ExecuteRawQuery", encode_message(asked_for))
        return decode_message(contract.RawQueryResponseRoot, found[-1]).value

    assert last(request) == contract.RawQueryResponseSuccess(num_records=3)
    table = pq.read_table(folder / "out")
    assert table.schema.field("t").type == MILLIS
    assert table.column("w").to_pylist() == [6, 2, 4]
    wrong = replace(request, transform=TransformSql(engine="spark", query="select nothing from input"))
    (folder / "garbage").write_bytes(b"no Parquet")
    assert isinstance(last(wrong), contract.RawQueryResponseInvalidQuery)
    for spoiled in (
        replace(request, input_data_paths=()),
        replace(request, input_data_paths=("/etc/passwd",)),
        replace(request, output_data_path="/opt/engine/../out"),
        replace(request, input_data_paths=("/opt/engine/raw/garbage",)),
    ):
        assert isinstance(last(spoiled), contract.RawQueryResponseInternalError)


NUMBERS = pa.table({"a": [1, 2]})
OTHER_FILES = {
    "text": pa.table({"a": ["1", "2"]}),
    "list": pa.table({"a": [[1], [2]]}),
    "time": pa.table({"a": pa.array([1, 2], pa.timestamp("ms", "UTC"))}),
    "none": pa.table({}),
    "dictionary": pa.table({"a": pa.array(["x"]).dictionary_encode()}),
    "large": pa.table({"a": pa.array([2**63], pa.uint64())}),
}


@pytest.mark.parametrize("other", OTHER_FILES)
def test_files_that_a_raw_query_cannot_read_are_not_the_fault_of_the_query(engine: EngineUnderTest, other: str) -> None:
    folder, seen = folder_of(engine, f"raw-{other}"), f"/opt/engine/raw-{other}"
    pq.write_table(NUMBERS, folder / "numbers")
    pq.write_table(OTHER_FILES[other], folder / "other")
    asked_for = contract.RawQueryRequest(
        input_data_paths=(f"{seen}/other",),
        transform=TransformSql(engine="spark", query="select * from input"),
        output_data_path=f"{seen}/out",
    )
    read = 1 if other in ("text", "list", "time") else 0
    for paths in [(f"{seen}/numbers", f"{seen}/other"), (f"{seen}/other",)][: 2 - read]:
        message = encode_message(replace(asked_for, input_data_paths=paths))
        last = decode_message(contract.RawQueryResponseRoot, raw_call(engine, "ExecuteRawQuery", message)[-1]).value
        assert isinstance(last, contract.RawQueryResponseInternalError), last
        assert "its log says why" not in last.message
    assert not (folder / "out").exists()


def test_a_raw_query_reads_types_that_spark_does_not(engine: EngineUnderTest) -> None:
    folder, seen = folder_of(engine, "raw-types"), "/opt/engine/raw-types"
    arrays = {"u": pa.array([1, 2**62], pa.uint64()), "t": pa.array([1_500_000_999, None], pa.timestamp("ns", "UTC"))}
    for dictionary in (True, False):
        pq.write_table(pa.table(arrays), folder / f"in-{dictionary}", use_dictionary=dictionary)
    request = contract.RawQueryRequest(
        input_data_paths=(f"{seen}/in-True", f"{seen}/in-False"),
        transform=TransformSql(engine="spark", query="select u, t from input"),
        output_data_path=f"{seen}/out",
    )
    found = raw_call(engine, "ExecuteRawQuery", encode_message(request))
    last = decode_message(contract.RawQueryResponseRoot, found[-1]).value
    assert last == contract.RawQueryResponseSuccess(num_records=4)
    table = pq.read_table(folder / "out")
    assert table.column("u").to_pylist() == [1, 2**62] * 2
    assert table.column("t").cast(pa.int64()).to_pylist() == [1_500, None] * 2
    assert sorted(path.name for path in folder.iterdir()) == ["in-False", "in-True", "out"]


def test_each_port_serves_its_own_contract(engine: EngineUnderTest) -> None:
    message = encode_message(contract_request(engine, "ports"))
    with grpc.insecure_channel(engine.address) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            list(channel.unary_stream("/engine.Engine/ExecuteTransform")(message, timeout=20))
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
        authorised = (("authorization", f"Bearer {TOKEN}"),)
        with pytest.raises(grpc.RpcError) as refused:
            list(channel.unary_stream("/engine.Engine/ExecuteTransform")(message, timeout=20, metadata=authorised))
        assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
    with grpc.insecure_channel(channel_to(engine, "spark").address) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            engine_pb2_grpc.EngineServiceStub(channel).GetInfo(pb.GetInfoRequest(), timeout=20)
        assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
    wrong_port = ContractEngine(channel_to(engine, "x", address=engine.address))
    with pytest.raises(Determinate, match="away"):
        wrong_port.execute_transform(
            asked(blocks(engine.exchange / "ports", "ports"), LINEAR, "ports", 0, 1), progress=ignore
        )
    wrong_port.close()


def test_what_the_engine_says_reaches_our_coordinator(engine: EngineUnderTest, compat: ContractEngine) -> None:
    one = blocks(folder_of(engine, "told"), "told")
    with pytest.raises(InvalidQuery, match="line 1"):
        compat.execute_transform(asked(one, "select event_time from", "told", 0, 1), progress=ignore)
    missing = asked(one, LINEAR, "told", 0, 1)
    gone = replace(missing, checkpoint_paths=("told/not-there",))
    with pytest.raises(Determinate, match="not-there"):
        compat.execute_transform(gone, progress=ignore)
    stages: list[str] = []
    compat.execute_transform(missing, progress=lambda progress: stages.append(progress.stage))
    assert set(stages) == {"transform"}


def test_a_file_is_written_or_read(engine: EngineUnderTest) -> None:
    request = contract_request(engine, "places")
    before = (engine.exchange / "places/in-0").read_bytes()
    for wrong in (
        replace(request, new_checkpoint_path=request.new_data_path),
        replace(request, new_data_path=request.query_inputs[0].data_paths[0]),
        replace(request, new_checkpoint_path=request.query_inputs[0].schema_file),
        replace(request, prev_checkpoint_path=request.new_checkpoint_path),
    ):
        found = ending(engine, wrong)
        assert isinstance(found, contract.TransformResponseInternalError)
        assert "is another file of the request too" in found.message
    assert sorted(path.name for path in (engine.exchange / "places").iterdir()) == ["in-0", "schema"]
    assert (engine.exchange / "places/in-0").read_bytes() == before


def test_odd_requests_are_told_what_is_wrong(engine: EngineUnderTest) -> None:
    request = contract_request(engine, "odd")
    folder, one = engine.exchange / "odd", request.query_inputs[0]
    slim = pq.read_table(folder / "schema").drop_columns(["op"])
    pq.write_table(slim, folder / "schema-without-op")
    rows = pq.read_table(folder / "in-0")
    pq.write_table(rows.set_column(1, rows.field(1), pa.array([0, 7, 0], pa.int32())), folder / "seven")
    seen = "/opt/engine/odd"
    (folder / "garbage").write_bytes(b"PAR1 of nobody PAR1")
    pq.write_table(rows.drop_columns(["offset"]), folder / "without-offset")
    pq.write_table(rows.drop_columns(["event_time"]), folder / "without-event-time")
    pq.write_table(rows.set_column(0, rows.field(0), pa.array([0, 2, 1], pa.int64())), folder / "gap")
    damaged = bytearray((folder / "in-0").read_bytes())
    damaged[4:200] = bytes(196)
    (folder / "damaged").write_bytes(damaged)
    odd = pq.read_table(folder / "schema").append_column("n", pa.array([], pa.dictionary(pa.int32(), pa.string())))
    pq.write_table(odd, folder / "schema-of-another-kind")
    vocabulary = contract.DatasetVocabulary(operation_type_column="system_time")

    def data(name: str) -> contract.TransformRequest:
        return replace(request, query_inputs=(replace(one, data_paths=(f"{seen}/{name}",)),))

    def schema(name: str) -> contract.TransformRequest:
        return replace(request, query_inputs=(replace(one, schema_file=f"{seen}/{name}"),))

    for wrong, text in (
        (replace(request, next_offset=2**63 - 1), "there are no more offsets"),
        (replace(request, next_offset=2**64 - 1), "there are no more offsets"),
        (replace(request, vocab=vocabulary), "system columns have different names"),
        (schema("schema-without-op"), "no column op"),
        (schema("garbage"), "Not a readable Parquet file"),
        (schema("schema-of-another-kind"), "has no counterpart in the specification"),
        (data("seven"), "7 is no operation type"),
        (data("garbage"), "Not a readable Parquet file"),
        (data("damaged"), "Not a readable Parquet file"),
        (data("without-offset"), "lacks rows, offsets, system times or event times"),
        (data("without-event-time"), "lacks rows, offsets, system times or event times"),
        (data("gap"), "has the offset 2 where 1 is expected"),
    ):
        found = ending(engine, wrong)
        assert isinstance(found, contract.TransformResponseInternalError), (text, found)
        assert text in found.message
    failing = TransformSql(engine="spark", query="select event_time, 1 / (v - v) as w from a")
    found = ending(engine, replace(request, transform=failing))
    assert isinstance(found, contract.TransformResponseInvalidQuery), "an expression that fails on a row is the query's"


@pytest.mark.parametrize("empty", [[0], [1], [0, 2], [1, 2]])
def test_row_groups_without_rows_are_no_end_of_a_slice(engine: EngineUnderTest, empty: list[int]) -> None:
    request = contract_request(engine, f"groups-{'-'.join(map(str, empty))}", "select event_time, k from a")
    path = engine.exchange / request.new_data_path.removeprefix("/opt/engine/").replace("data", "in-0")
    rows = pq.read_table(path)
    pieces = iter([rows.slice(0, 1), rows.slice(1)])
    with pq.ParquetWriter(path, rows.schema) as writer:
        for number in range(2 + len(empty)):
            writer.write_table(rows.slice(0, 0) if number in empty else next(pieces, rows.slice(0, 0)))
    found = ending(engine, request)
    assert isinstance(found, contract.TransformResponseSuccess), found
    assert pq.read_table(engine.exchange / path.parent.name / "data").num_rows == 3
