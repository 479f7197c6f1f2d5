"""The engine contract on the wire: all values and failures survive a round trip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric import errors
from odfabric.errors import Corrupt, Determinate, InvalidData, InvalidRequest, LimitExceeded, OdfError, Place
from odfabric.formats.engine_messages import engine_wire as wire
from odfabric.formats.engine_messages import judgement_wire
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataTypeDecimal,
    DataTypeInt64,
    DataTypeList,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
    TimeUnit,
)
from odfabric.model.engine import (
    EngineIdentity,
    EngineInfo,
    EngineProgress,
    EvolutionVerdict,
    IngestRequest,
    IngestResult,
    KeptBy,
    MigrateRequest,
    QueryEvolution,
    QueryInput,
    QueryOperator,
    QueryProblem,
    QueryRequest,
    QueryResult,
    QueryState,
    RenamedColumn,
    RowChanges,
    SliceFile,
    TransformRequest,
    TransformRequestInput,
    TransformResult,
    TransformStep,
    UndeclaredField,
    ValidateRequest,
    ValidateResult,
)
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import SqlQueryStep, TemporalTable, TransformSql
from odfabric.model.multihash import sha3_256_multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.source import (
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    ReadStepCsv,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odfabric.model.table_function import CallRefusal, Projection, TableCall
from odfabric.model.vocabulary import DatasetVocabulary

SCHEMA = DataSchema(
    fields=(
        DataField(name="żółw `1`", type=DataTypeOption(inner=DataTypeString())),
        DataField(name="n", type=DataTypeInt64()),
        DataField(name="t", type=DataTypeTimestamp(unit=TimeUnit.MILLISECOND, timezone="UTC")),
        DataField(name="d", type=DataTypeList(item_type=DataTypeOption(inner=DataTypeDecimal(precision=9, scale=2)))),
    )
)
INSTANTS = st.integers(-(2**70), 2**70).map(Instant)
RANGES = st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)).map(lambda pair: OffsetRange(pair[0], sum(pair)))
SLICES = st.lists(st.builds(SliceFile, path=st.text(max_size=9), offsets=RANGES), max_size=3).map(tuple)
VOCABULARIES = st.builds(DatasetVocabulary, *(st.sampled_from(["offset", "op", "żółw"]) for _ in range(4)))
SCHEMAS = st.sampled_from([None, SCHEMA, DataSchema(fields=())])
TRANSFORMS = st.sampled_from(
    [
        TransformSql(engine="spark", queries=(SqlQueryStep(query="SELECT 1"),)),
        TransformSql(
            engine="Spark",
            version="4",
            queries=(SqlQueryStep(alias="a", query='SELECT "ż"\n'), SqlQueryStep(query="SELECT * FROM a")),
            temporal_tables=(TemporalTable(name="v", primary_key=("k",)),),
        ),
    ]
)
OFFSETS = st.integers(0, 2**63)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
IDS = st.binary(min_size=32, max_size=32).map(DatasetId)

INGESTS = st.builds(
    IngestRequest,
    vocabulary=VOCABULARIES,
    data_paths=st.just(("a/b", "c")),
    file_names=st.tuples(TEXTS, TEXTS),
    read=st.sampled_from(
        [
            ReadStepCsv(),
            ReadStepCsv(header=True, separator="\t", escape="", null_value="NA", schema=SCHEMA, infer_schema=False),
            ReadStepJson(sub_path="a.b"),
            ReadStepNdJson(timestamp_format="%s", ddl_schema=("a INT", "b STRING NOT NULL")),
            ReadStepParquet(schema=SCHEMA),
        ]
    ),
    preprocess=st.none() | TRANSFORMS,
    merge=st.sampled_from(
        [
            MergeStrategyAppend(),
            MergeStrategyLedger(primary_key=("a", "b")),
            MergeStrategySnapshot(primary_key=("a",), compare_columns=("b",)),
        ]
    ),
    data_schema=SCHEMAS,
    history=SLICES,
    system_time=INSTANTS,
    event_time_fallback=INSTANTS,
    next_offset=OFFSETS,
    new_data_path=TEXTS,
    known_columns=st.lists(TEXTS, max_size=2).map(tuple),
)
STEPS = st.builds(TransformStep, system_time=INSTANTS, last_offset=st.none() | OFFSETS, watermark=st.none() | INSTANTS)
TRANSFORM_INPUTS = st.builds(
    TransformRequestInput,
    dataset_id=IDS,
    query_alias=TEXTS,
    vocabulary=VOCABULARIES,
    data_schema=st.just(SCHEMA),
    offsets=RANGES,
    slices=SLICES,
    steps=st.lists(STEPS, max_size=3).map(tuple),
)
TRANSFORM_REQUESTS = st.builds(
    TransformRequest,
    dataset_id=IDS,
    vocabulary=VOCABULARIES,
    transform=TRANSFORMS,
    inputs=st.lists(TRANSFORM_INPUTS, max_size=2).map(tuple),
    data_schema=SCHEMAS,
    prev_watermark=st.none() | INSTANTS,
    system_time=INSTANTS,
    next_offset=OFFSETS,
    checkpoint_paths=st.lists(TEXTS, max_size=2).map(tuple),
    new_checkpoint_path=TEXTS,
    new_data_path=TEXTS,
    previous=st.none() | TRANSFORMS,
    checkpoint_hashes=st.lists(st.binary(min_size=32, max_size=32).map(sha3_256_multihash), max_size=2).map(tuple),
)
QUERY_INPUTS = st.lists(
    st.builds(
        QueryInput,
        alias=TEXTS,
        vocabulary=VOCABULARIES,
        data_schema=st.just(SCHEMA),
        slices=SLICES,
        ddl=st.none() | TEXTS,
        call=st.none() | st.builds(TableCall, TEXTS, st.lists(TEXTS, max_size=3).map(tuple)),
        projection=st.none()
        | st.builds(
            Projection,
            keys=st.lists(TEXTS, max_size=2).map(tuple),
            as_of=st.none() | st.integers(-(2**52), 2**52).map(Instant.from_millis),
            rows_path=st.none() | TEXTS,
        ),
        refusal=st.none() | st.builds(CallRefusal, TEXTS, TEXTS),
    ),
    max_size=2,
).map(tuple)


@given(request=INGESTS)
def test_ingest_requests(request: IngestRequest) -> None:
    assert wire.ingest_request_from_wire(again(wire.ingest_request_to_wire(request))) == request


@given(request=TRANSFORM_REQUESTS)
def test_transform_requests(request: TransformRequest) -> None:
    assert wire.transform_request_from_wire(again(wire.transform_request_to_wire(request))) == request
    migration = MigrateRequest(next=request, output=(SliceFile(path="s", offsets=OffsetRange(1, 5)),))
    assert wire.migrate_request_from_wire(again(wire.migrate_request_to_wire(migration))) == migration


@given(inputs=QUERY_INPUTS, sql=TEXTS, number=OFFSETS, vocabulary=VOCABULARIES, transform=TRANSFORMS)
def test_queries(
    inputs: tuple[QueryInput, ...], sql: str, number: int, vocabulary: DatasetVocabulary, transform: TransformSql
) -> None:
    query = QueryRequest(
        sql=sql, inputs=inputs, skip=number, limit=number, bytes_max=number, wall_ms_max=number, output_path=sql
    )
    assert wire.query_request_from_wire(again(wire.query_request_to_wire(query))) == query
    judged = ValidateRequest(vocabulary=vocabulary, transform=transform, inputs=inputs)
    assert wire.validate_request_from_wire(again(wire.validate_request_to_wire(judged))) == judged
    change = ValidateRequest(vocabulary=vocabulary, transform=transform, inputs=inputs, previous=transform)
    assert wire.validate_request_from_wire(again(wire.validate_request_to_wire(change))) == change


@given(offsets=st.none() | RANGES, schema=SCHEMAS, instant=st.none() | INSTANTS, count=OFFSETS)
def test_results(offsets: OffsetRange | None, schema: DataSchema | None, instant: Instant | None, count: int) -> None:
    renamed = (RenamedColumn(name="op", stored_as="_op"),) * (count % 3)
    changes = RowChanges(added=count, corrected=1, retracted=2, unchanged=count if count % 2 else None)
    undeclared = (UndeclaredField(name="x", rows=count),) * (count % 2)
    ingested = IngestResult(
        offsets=offsets,
        data_schema=schema,
        max_event_time=instant,
        renamed=renamed,
        changes=changes,
        undeclared=undeclared,
    )
    assert wire.ingest_result_from_wire(again(wire.ingest_result_to_wire(ingested))) == ingested
    made_by = EngineIdentity(name="spark", version="1", digest="d") if count % 2 else None
    transformed = TransformResult(
        offsets=offsets, watermark=instant, data_schema=SCHEMA, late_rows_dropped=count, made_by=made_by
    )
    assert wire.transform_result_from_wire(again(wire.transform_result_to_wire(transformed))) == transformed
    queried = QueryResult(rows=count, data_schema=SCHEMA, wants_records=(0, 2) if count % 2 else ())
    assert wire.query_result_from_wire(again(wire.query_result_to_wire(queried))) == queried
    progress = EngineProgress(stage="read", done=count, total=count)
    assert wire.progress_from_wire(again(wire.progress_to_wire(progress))) == progress


def test_judgements_and_identity() -> None:
    problems = (
        QueryProblem(rule="r", message="m", hint=None, step=1, line=None, column=None),
        QueryProblem(rule="r", message="m", hint="h", step=0, line=3, column=4, suggestion="select 1"),
        QueryProblem(rule="r", message="m", hint=None, step=0, line=1, column=2, of_input=0),
    )
    operators = (
        QueryOperator(operator_class="timed", name="aggregate", keys=("k",), detail="d", step=1, line=2, column=3),
        QueryOperator(operator_class="linear", name="filter", keys=(), detail="", step=0, line=None, column=None),
    )
    for judgement in (
        ValidateResult(problems=problems, data_schema=None, operator_class=None, keys=()),
        ValidateResult(problems=(), data_schema=SCHEMA, operator_class="keyed", keys=("a", "b"), operators=operators),
        ValidateResult(
            problems=(),
            data_schema=SCHEMA,
            operator_class="keyed",
            keys=("k",),
            states=tuple(QueryState(kept=kept, keys=("k",), relations=("a", "b")) for kept in KeptBy),
            notes=("read this", "and that"),
        ),
        *(
            ValidateResult(
                problems=(),
                data_schema=SCHEMA,
                operator_class="linear",
                keys=(),
                evolution=QueryEvolution(verdict=verdict, reason="r", hint=hint),
            )
            for verdict in EvolutionVerdict
            for hint in ("h", None)
        ),
    ):
        assert (
            judgement_wire.validate_result_from_wire(again(judgement_wire.validate_result_to_wire(judgement)))
            == judgement
        )
    with pytest.raises(InvalidData):
        judgement_wire.validate_result_from_wire(
            pb.ValidateQueryResponse(failure=wire.failure_to_wire(InvalidData("x")))
        )
    with pytest.raises(InvalidRequest):
        judgement_wire.validate_result_from_wire(pb.ValidateQueryResponse(evolution=pb.QueryEvolution(verdict="other")))
    with pytest.raises(InvalidRequest):
        judgement_wire.validate_result_from_wire(pb.ValidateQueryResponse(states=[pb.QueryState(kept="other")]))
    info = EngineInfo(name="n", version="1", digest="d", spark_version="4", java_version="17", sandbox=("a", "b"))
    assert wire.info_from_wire(again(wire.info_to_wire(info))) == info
    for count in (0, 3):
        with_cluster = replace(info, executors=count)
        assert wire.info_from_wire(again(wire.info_to_wire(with_cluster))) == with_cluster


def leaves(error: type[OdfError]) -> Iterator[type[OdfError]]:
    below = error.__subclasses__()
    for child in below:
        yield from leaves(child)
    if not below:
        yield error


def test_every_failure_of_an_engine_keeps_what_it_says() -> None:
    place = Place(file="a.csv", line=3, column=4, field="f", row=5, rule="r", query_line=6, query_column=7)
    for leaf in leaves(OdfError):
        if leaf.code not in wire.WIRE_FAILURES:
            continue
        if leaf is LimitExceeded:
            error: OdfError = LimitExceeded("m", limit="line_bytes_max", maximum=16, place=place)
        elif leaf is Corrupt:
            error = Corrupt("m", object_name="f16...")
        else:
            error = leaf("m", place=place, hint="h")
        found = wire.failure_from_wire(again(wire.failure_to_wire(error)))
        assert type(found) is leaf
        assert str(found) == str(error)
        assert vars(found) == vars(error)
    assert wire.failure_from_wire(wire.failure_to_wire(InvalidData("m"))).place == Place()


def test_what_is_no_failure_of_an_engine_has_no_form() -> None:
    with pytest.raises(TypeError, match="NotFound"):
        wire.failure_to_wire(errors.NotFound("dataset", "x"))
    assert isinstance(wire.failure_from_wire(pb.Failure(code="of-a-later-version", message="m")), Determinate)


@pytest.mark.parametrize(
    "message",
    [
        pb.IngestRequest(),
        pb.IngestRequest(data_paths=["a"]),
        pb.IngestRequest(vocabulary=pb.Vocabulary(offset="a", operation_type="b", system_time="c")),
    ],
)
def test_requests_that_are_none_are_refused(message: pb.IngestRequest) -> None:
    with pytest.raises(InvalidRequest):
        wire.ingest_request_from_wire(message)


def test_numbers_that_are_none_are_refused() -> None:
    good = wire.ingest_request_to_wire(
        IngestRequest(
            vocabulary=DatasetVocabulary(),
            data_paths=(),
            file_names=(),
            read=ReadStepParquet(),
            preprocess=None,
            merge=MergeStrategyAppend(),
            data_schema=None,
            history=(SliceFile(path="a", offsets=OffsetRange(1, 2)),),
            system_time=Instant(0),
            event_time_fallback=Instant(0),
            next_offset=0,
            new_data_path="b",
        )
    )
    for spoil in (
        lambda message: setattr(message.system_time, "nanos", 10**9),
        lambda message: setattr(message.history[0].offsets, "begin", 9),
        lambda message: setattr(message, "read_json", "{"),
        lambda message: setattr(message, "merge_json", "[]"),
    ):
        bad = pb.IngestRequest()
        bad.CopyFrom(good)
        spoil(bad)
        with pytest.raises(InvalidRequest):
            wire.ingest_request_from_wire(bad)
    bad.CopyFrom(good)
    bad.merge_json = '{"kind": "Other"}'
    with pytest.raises(errors.InvalidManifest):
        wire.ingest_request_from_wire(bad)


def again(message: Any) -> Any:
    """As it arrives at the other side."""
    return type(message).FromString(message.SerializeToString())


def test_texts_of_failures_fit_into_a_message() -> None:
    long = "x" * (16 << 20)
    error = InvalidData(long, place=Place(file=long, field=long), hint=long)
    failure = wire.failure_to_wire(error)
    assert failure.ByteSize() < 1 << 20
    told = wire.failure_from_wire(failure)
    assert isinstance(told, InvalidData)
    assert told.message == "x" * (wire.TEXT_CHARACTERS_MAX - 2) + ".."
    short = "y" * wire.TEXT_CHARACTERS_MAX
    assert wire.failure_from_wire(wire.failure_to_wire(InvalidData(short))).message == short
