"""The engine contract on the wire: `model.engine` as `odfabric.engine.v1`.

Values to messages, and back.

Owns every conversion but those of judgements (`judgement_wire`) and of provenance (`provenance_wire`), used by both sides, so that they cannot differ. Invariant: value -> message -> value is the identity,
and a message that is not the form of a value is refused (InvalidRequest). Failures travel as leaves of the closed tree; what
an engine does not raise has no form. Not here: gRPC. Source: proto/odfabric/engine/v1/engine.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from google.protobuf.message import Message

from odfabric.errors import (
    AccessDenied,
    Corrupt,
    CorruptedSource,
    Determinate,
    IncompatibleSchema,
    Indeterminate,
    InvalidData,
    InvalidManifest,
    InvalidName,
    InvalidQuery,
    InvalidRequest,
    LimitExceeded,
    OdfError,
    Place,
    SourceNotFound,
    Unauthenticated,
    UnsupportedMediaType,
)
from odfabric.formats.engine_messages.table_call_wire import (
    call_of,
    call_to_wire,
    projection_of,
    projection_to_wire,
    refusal_of,
    refusal_to_wire,
)
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.formats.json_values.canonical_json import JsonValue, canonical_json, parse_json_object
from odfabric.formats.manifests.manifest_events import (
    data_schema_from_value,
    merge_strategy_from_value,
    noun_to_value,
    read_step_from_value,
    transform_from_value,
)
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import (
    EngineIdentity,
    EngineInfo,
    EngineProgress,
    IngestRequest,
    IngestResult,
    MigrateRequest,
    QueryInput,
    QueryRequest,
    QueryResult,
    RenamedColumn,
    RowChanges,
    SliceFile,
    TransformRequest,
    TransformRequestInput,
    TransformResult,
    TransformStep,
    UndeclaredField,
    ValidateRequest,
)
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.intake import FieldContract
from odfabric.model.metadata import TransformSql
from odfabric.model.offsets import OffsetRange
from odfabric.model.vocabulary import DatasetVocabulary

ValueT = TypeVar("ValueT")
MessageT = TypeVar("MessageT")

BUG = "the engine failed; its log says why"
"""Details of the status INTERNAL when a bug of the engine ended a call."""
LOST_TO_OTHERS = "the engine ends, but not because of this call"
"""Details of the status UNAVAILABLE for calls that a dying engine takes with it though another call is why it dies."""
BROKE_DOWN = "the engine broke down while it worked on this call"
"""Details of the status UNAVAILABLE for calls of which any may be why the engine dies."""
ENDS = "the engine ends"
"""Details of the status UNAVAILABLE for calls that a dying engine does not take."""
TAKEN = ("odf-call", "taken")
"""Initial metadata of calls that an engine has taken: without them the call has never begun."""

TEXT_CHARACTERS_MAX = 64 * 1024
"""Longest text of a failure: a name of megabytes in it would exceed what a message can hold."""

_PLAIN_FAILURES: dict[str, type[OdfError]] = {
    leaf.code: leaf
    for leaf in (
        InvalidRequest,
        InvalidName,
        InvalidManifest,
        InvalidData,
        IncompatibleSchema,
        InvalidQuery,
        SourceNotFound,
        UnsupportedMediaType,
        CorruptedSource,
        Unauthenticated,
        AccessDenied,
        Determinate,
        Indeterminate,
    )
}
"""Leaves that consist of message, place and hint."""

WIRE_FAILURES = frozenset({*_PLAIN_FAILURES, LimitExceeded.code, Corrupt.code})
"""Codes of the failures that an engine may answer with."""


def failure_to_wire(error: OdfError) -> pb.Failure:
    """A failure as an engine answers it.

    Raises TypeError for a leaf that no engine raises.
    """
    if error.code not in WIRE_FAILURES:
        raise TypeError(f"{type(error).__name__} is not a failure of engines")
    place = error.place
    failure = pb.Failure(
        code=error.code,
        message=_cut(error.message),
        hint="" if isinstance(error, LimitExceeded) else _cut(error.hint or ""),
        file=_cut(place.file or ""),
        line=place.line or 0,
        column=place.column or 0,
        field=_cut(place.field or ""),
        row=place.row or 0,
        rule=place.rule or "",
        query_line=place.query_line or 0,
        query_column=place.query_column or 0,
    )
    if isinstance(error, LimitExceeded):
        failure.limit, failure.maximum = error.limit, error.maximum
    if isinstance(error, Corrupt):
        failure.object_name = error.object_name
    return failure


def _cut(text: str) -> str:
    """A text that a message can hold whatever of a user's it repeats."""
    return text if len(text) <= TEXT_CHARACTERS_MAX else f"{text[: TEXT_CHARACTERS_MAX - 2]}.."


def failure_from_wire(failure: pb.Failure) -> OdfError:
    """The error that a failure stands for.

    An unknown code is Determinate: an engine never commits anything.
    """
    place = Place(
        file=failure.file or None,
        line=failure.line or None,
        column=failure.column or None,
        field=failure.field or None,
        row=failure.row or None,
        rule=failure.rule or None,
        query_line=failure.query_line or None,
        query_column=failure.query_column or None,
    )
    if failure.code == LimitExceeded.code:
        return LimitExceeded(failure.message, limit=failure.limit, maximum=_number(failure.maximum), place=place)
    if failure.code == Corrupt.code:
        return Corrupt(failure.message, object_name=failure.object_name)
    leaf = _PLAIN_FAILURES.get(failure.code, Determinate)
    return leaf(failure.message, place=place, hint=failure.hint or None)


def _number(value: float) -> float:
    return int(value) if value.is_integer() else value


def info_to_wire(info: EngineInfo) -> pb.GetInfoResponse:
    """Who the engine is."""
    return pb.GetInfoResponse(
        name=info.name,
        version=info.version,
        digest=info.digest,
        spark_version=info.spark_version,
        java_version=info.java_version,
        sandbox=info.sandbox,
        executors=info.executors,
    )


def info_from_wire(message: pb.GetInfoResponse) -> EngineInfo:
    """Who the engine is."""
    return EngineInfo(
        name=message.name,
        version=message.version,
        digest=message.digest,
        spark_version=message.spark_version,
        java_version=message.java_version,
        sandbox=tuple(message.sandbox),
        executors=message.executors if message.HasField("executors") else None,
    )


def progress_to_wire(progress: EngineProgress) -> pb.Progress:
    """How far a call is."""
    return pb.Progress(stage=progress.stage, done=progress.done, total=progress.total)


def progress_from_wire(message: pb.Progress) -> EngineProgress:
    """How far a call is."""
    return EngineProgress(stage=message.stage, done=message.done, total=message.total)


def ingest_request_to_wire(request: IngestRequest) -> pb.IngestRequest:
    """An ingest to be done."""
    return pb.IngestRequest(
        vocabulary=_vocabulary_to_wire(request.vocabulary),
        data_paths=request.data_paths,
        file_names=request.file_names,
        read_json=_to_json(request.read),
        preprocess_json=None if request.preprocess is None else _to_json(request.preprocess),
        merge_json=_to_json(request.merge),
        data_schema_json=optional_schema(request.data_schema),
        history=slices_to_wire(request.history),
        system_time=_instant_to_wire(request.system_time),
        event_time_fallback=_instant_to_wire(request.event_time_fallback),
        next_offset=request.next_offset,
        new_data_path=request.new_data_path,
        known_columns=request.known_columns,
        contract=request.contract.value if request.contract else "",
        rejected_path=request.rejected_path,
        rejected_rows_max=request.rejected_rows_max,
    )


def ingest_request_from_wire(message: pb.IngestRequest) -> IngestRequest:
    """An ingest to be done. Raises InvalidRequest, InvalidManifest."""
    if len(message.data_paths) != len(message.file_names):
        raise InvalidRequest("an ingest names every file exactly once", hint="one file name per data path")
    return IngestRequest(
        vocabulary=_vocabulary_from_wire(message.vocabulary),
        data_paths=tuple(message.data_paths),
        file_names=tuple(message.file_names),
        read=read_step_from_value(_json_of(message.read_json)),
        preprocess=transform_in(message, "preprocess_json"),
        merge=merge_strategy_from_value(_json_of(message.merge_json)),
        data_schema=optional_schema_of(message),
        history=slices_from_wire(message.history),
        system_time=_instant_from_wire(message.system_time),
        event_time_fallback=_instant_from_wire(message.event_time_fallback),
        next_offset=message.next_offset,
        new_data_path=message.new_data_path,
        known_columns=tuple(message.known_columns),
        contract=FieldContract(message.contract) if message.contract else None,
        rejected_path=message.rejected_path if message.HasField("rejected_path") else None,
        rejected_rows_max=message.rejected_rows_max,
    )


def ingest_result_to_wire(result: IngestResult) -> pb.IngestSuccess:
    """Outcome of an ingest."""
    return pb.IngestSuccess(
        offsets=_optional(result.offsets, range_to_wire),
        data_schema_json=optional_schema(result.data_schema),
        max_event_time=_optional(result.max_event_time, _instant_to_wire),
        renamed=[pb.RenamedColumn(name=one.name, stored_as=one.stored_as) for one in result.renamed],
        changes=pb.RowChanges(
            added=result.changes.added,
            corrected=result.changes.corrected,
            retracted=result.changes.retracted,
            unchanged=result.changes.unchanged,
            known_keys=result.changes.known_keys,
        ),
        undeclared=[pb.UndeclaredField(name=one.name, rows=one.rows) for one in result.undeclared],
        rejected=result.rejected,
        found_schema_json=optional_schema(result.found),
    )


def ingest_result_from_wire(message: pb.IngestSuccess) -> IngestResult:
    """Outcome of an ingest."""
    return IngestResult(
        offsets=range_from_wire(message.offsets) if message.HasField("offsets") else None,
        data_schema=optional_schema_of(message),
        max_event_time=_instant_from_wire(message.max_event_time) if message.HasField("max_event_time") else None,
        renamed=tuple(RenamedColumn(name=one.name, stored_as=one.stored_as) for one in message.renamed),
        changes=RowChanges(
            added=message.changes.added,
            corrected=message.changes.corrected,
            retracted=message.changes.retracted,
            unchanged=message.changes.unchanged if message.changes.HasField("unchanged") else None,
            known_keys=message.changes.known_keys if message.changes.HasField("known_keys") else None,
        ),
        undeclared=tuple(UndeclaredField(name=one.name, rows=one.rows) for one in message.undeclared),
        rejected=message.rejected,
        found=optional_schema_of(message, "found_schema_json"),
    )


def transform_request_to_wire(request: TransformRequest) -> pb.ExecuteTransformRequest:
    """A transaction to be done."""
    return pb.ExecuteTransformRequest(
        dataset_id=str(request.dataset_id),
        vocabulary=_vocabulary_to_wire(request.vocabulary),
        transform_json=_to_json(request.transform),
        inputs=[_transform_input_to_wire(item) for item in request.inputs],
        data_schema_json=optional_schema(request.data_schema),
        prev_watermark=_optional(request.prev_watermark, _instant_to_wire),
        system_time=_instant_to_wire(request.system_time),
        next_offset=request.next_offset,
        checkpoint_paths=request.checkpoint_paths,
        new_checkpoint_path=request.new_checkpoint_path,
        new_data_path=request.new_data_path,
        previous_transform_json=_optional(request.previous, _to_json),
        checkpoint_hashes=map(str, request.checkpoint_hashes),
        bytes_in_hand_max=request.bytes_in_hand_max,
    )


def transform_request_from_wire(message: pb.ExecuteTransformRequest) -> TransformRequest:
    """A transaction to be done. Raises InvalidRequest, InvalidManifest, InvalidName."""
    return TransformRequest(
        dataset_id=parse_dataset_id(message.dataset_id),
        vocabulary=_vocabulary_from_wire(message.vocabulary),
        transform=transform_from_value(_json_of(message.transform_json)),
        inputs=tuple(_transform_input_from_wire(item) for item in message.inputs),
        data_schema=optional_schema_of(message),
        prev_watermark=_instant_from_wire(message.prev_watermark) if message.HasField("prev_watermark") else None,
        system_time=_instant_from_wire(message.system_time),
        next_offset=message.next_offset,
        checkpoint_paths=tuple(message.checkpoint_paths),
        new_checkpoint_path=message.new_checkpoint_path,
        new_data_path=message.new_data_path,
        previous=transform_in(message, "previous_transform_json"),
        checkpoint_hashes=tuple(parse_multihash(each) for each in message.checkpoint_hashes),
        bytes_in_hand_max=message.bytes_in_hand_max,
    )


def _transform_input_to_wire(item: TransformRequestInput) -> pb.TransformInput:
    return pb.TransformInput(
        dataset_id=str(item.dataset_id),
        query_alias=item.query_alias,
        vocabulary=_vocabulary_to_wire(item.vocabulary),
        data_schema_json=_to_json(item.data_schema),
        offsets=range_to_wire(item.offsets),
        slices=slices_to_wire(item.slices),
        steps=[
            pb.TransformStep(
                system_time=_instant_to_wire(step.system_time),
                last_offset=step.last_offset,
                watermark=_optional(step.watermark, _instant_to_wire),
            )
            for step in item.steps
        ],
    )


def _transform_input_from_wire(message: pb.TransformInput) -> TransformRequestInput:
    return TransformRequestInput(
        dataset_id=parse_dataset_id(message.dataset_id),
        query_alias=message.query_alias,
        vocabulary=_vocabulary_from_wire(message.vocabulary),
        data_schema=data_schema_from_value(_json_of(message.data_schema_json)),
        offsets=range_from_wire(message.offsets),
        slices=slices_from_wire(message.slices),
        steps=tuple(
            TransformStep(
                system_time=_instant_from_wire(step.system_time),
                last_offset=step.last_offset if step.HasField("last_offset") else None,
                watermark=_instant_from_wire(step.watermark) if step.HasField("watermark") else None,
            )
            for step in message.steps
        ),
    )


def transform_result_to_wire(result: TransformResult) -> pb.ExecuteTransformSuccess:
    """Outcome of a transaction."""
    return pb.ExecuteTransformSuccess(
        offsets=_optional(result.offsets, range_to_wire),
        watermark=_optional(result.watermark, _instant_to_wire),
        data_schema_json=_to_json(result.data_schema),
        late_rows_dropped=result.late_rows_dropped,
        made_by=_optional(result.made_by, identity_to_wire),
    )


def transform_result_from_wire(message: pb.ExecuteTransformSuccess) -> TransformResult:
    """Outcome of a transaction."""
    return TransformResult(
        offsets=range_from_wire(message.offsets) if message.HasField("offsets") else None,
        watermark=_instant_from_wire(message.watermark) if message.HasField("watermark") else None,
        data_schema=data_schema_from_value(_json_of(message.data_schema_json)),
        late_rows_dropped=message.late_rows_dropped,
        made_by=identity_from_wire(message.made_by) if message.HasField("made_by") else None,
    )


def identity_to_wire(engine: EngineIdentity) -> pb.EngineIdentity:
    """Which build of an engine."""
    return pb.EngineIdentity(name=engine.name, version=engine.version, digest=engine.digest)


def identity_from_wire(message: pb.EngineIdentity) -> EngineIdentity:
    """Which build of an engine."""
    return EngineIdentity(name=message.name, version=message.version, digest=message.digest)


def query_request_to_wire(request: QueryRequest) -> pb.QueryRequest:
    """A query to be run."""
    return pb.QueryRequest(
        sql=request.sql,
        inputs=[_query_input_to_wire(item) for item in request.inputs],
        skip=request.skip,
        limit=request.limit,
        bytes_max=request.bytes_max,
        wall_ms_max=request.wall_ms_max,
        output_path=request.output_path,
    )


def query_request_from_wire(message: pb.QueryRequest) -> QueryRequest:
    """A query to be run. Raises InvalidRequest, InvalidManifest."""
    return QueryRequest(
        sql=message.sql,
        inputs=tuple(_query_input_from_wire(item) for item in message.inputs),
        skip=message.skip,
        limit=message.limit,
        bytes_max=message.bytes_max,
        wall_ms_max=message.wall_ms_max,
        output_path=message.output_path,
    )


def query_result_to_wire(result: QueryResult) -> pb.QuerySuccess:
    """Outcome of a query."""
    schema, wanted = _to_json(result.data_schema), result.wants_records
    return pb.QuerySuccess(rows=result.rows, data_schema_json=schema, wants_records=wanted)


def query_result_from_wire(message: pb.QuerySuccess) -> QueryResult:
    """Outcome of a query."""
    schema = data_schema_from_value(_json_of(message.data_schema_json))
    return QueryResult(rows=message.rows, data_schema=schema, wants_records=tuple(message.wants_records))


def validate_request_to_wire(request: ValidateRequest) -> pb.ValidateQueryRequest:
    """A transform to be judged."""
    return pb.ValidateQueryRequest(
        vocabulary=_vocabulary_to_wire(request.vocabulary),
        transform_json=_to_json(request.transform),
        inputs=[_query_input_to_wire(item) for item in request.inputs],
        previous_transform_json=_optional(request.previous, _to_json),
        data_schema_json=optional_schema(request.data_schema),
    )


def validate_request_from_wire(message: pb.ValidateQueryRequest) -> ValidateRequest:
    """A transform to be judged. Raises InvalidRequest, InvalidManifest."""
    return ValidateRequest(
        vocabulary=_vocabulary_from_wire(message.vocabulary),
        transform=transform_from_value(_json_of(message.transform_json)),
        inputs=tuple(_query_input_from_wire(item) for item in message.inputs),
        previous=transform_in(message, "previous_transform_json"),
        data_schema=optional_schema_of(message),
    )


def migrate_request_to_wire(request: MigrateRequest) -> pb.MigrateQueryRequest:
    """A migration to be done."""
    return pb.MigrateQueryRequest(next=transform_request_to_wire(request.next), output=slices_to_wire(request.output))


def migrate_request_from_wire(message: pb.MigrateQueryRequest) -> MigrateRequest:
    """A migration to be done. Raises InvalidRequest, InvalidManifest, InvalidName."""
    return MigrateRequest(next=transform_request_from_wire(message.next), output=slices_from_wire(message.output))


def transform_in(message: Message, member: str) -> TransformSql | None:
    """The transform in a member of a message, None for none.

    Raises InvalidRequest, InvalidManifest.
    """
    return transform_from_value(_json_of(getattr(message, member))) if message.HasField(member) else None


def _query_input_to_wire(item: QueryInput) -> pb.QueryInput:
    return pb.QueryInput(
        alias=item.alias,
        vocabulary=_vocabulary_to_wire(item.vocabulary),
        data_schema_json=_to_json(item.data_schema) if item.data_schema is not None else None,
        slices=slices_to_wire(item.slices),
        ddl=item.ddl,
        call=call_to_wire(item.call),
        projection=projection_to_wire(item.projection),
        refusal=refusal_to_wire(item.refusal),
    )


def _query_input_from_wire(message: pb.QueryInput) -> QueryInput:
    return QueryInput(
        alias=message.alias,
        vocabulary=_vocabulary_from_wire(message.vocabulary),
        data_schema=data_schema_from_value(_json_of(message.data_schema_json))
        if message.HasField("data_schema_json")
        else None,
        slices=slices_from_wire(message.slices),
        ddl=message.ddl if message.HasField("ddl") else None,
        call=call_of(message),
        projection=projection_of(message),
        refusal=refusal_of(message),
    )


def _vocabulary_to_wire(vocabulary: DatasetVocabulary) -> pb.Vocabulary:
    return pb.Vocabulary(
        offset=vocabulary.offset,
        operation_type=vocabulary.operation_type,
        system_time=vocabulary.system_time,
        event_time=vocabulary.event_time,
    )


def _vocabulary_from_wire(message: pb.Vocabulary) -> DatasetVocabulary:
    names = (message.offset, message.operation_type, message.system_time, message.event_time)
    if not all(names):
        raise InvalidRequest("a vocabulary names all four system columns")
    return DatasetVocabulary(*names)


def _instant_to_wire(instant: Instant) -> pb.Instant:
    seconds, nanos = divmod(instant.epoch_ns, NANOS_PER_SECOND)
    return pb.Instant(seconds=seconds, nanos=nanos)


def _instant_from_wire(message: pb.Instant) -> Instant:
    if message.nanos >= NANOS_PER_SECOND:
        raise InvalidRequest("an instant has at most 999999999 nanoseconds")
    return Instant(message.seconds * NANOS_PER_SECOND + message.nanos)


def range_to_wire(offsets: OffsetRange) -> pb.OffsetRange:
    """A half-open range of offsets."""
    return pb.OffsetRange(begin=offsets.begin, end=offsets.end)


def range_from_wire(message: pb.OffsetRange) -> OffsetRange:
    """A half-open range of offsets. Raises InvalidRequest."""
    if message.begin > message.end:
        raise InvalidRequest("an offset range does not end before it begins")
    return OffsetRange(message.begin, message.end)


def slices_to_wire(slices: Sequence[SliceFile]) -> list[pb.SliceFile]:
    """Slices in the exchange folder."""
    return [pb.SliceFile(path=item.path, offsets=range_to_wire(item.offsets)) for item in slices]


def slices_from_wire(messages: Sequence[pb.SliceFile]) -> tuple[SliceFile, ...]:
    """Slices in the exchange folder. Raises InvalidRequest."""
    return tuple(SliceFile(path=item.path, offsets=range_from_wire(item.offsets)) for item in messages)


def _to_json(noun: object) -> str:
    return canonical_json(noun_to_value(noun))


def _json_of(text: str) -> JsonValue:
    try:
        return parse_json_object(text)
    except ValueError as error:
        raise InvalidRequest(f"a part of the request is not JSON: {error}") from None


def _optional(value: ValueT | None, convert: Callable[[ValueT], MessageT]) -> MessageT | None:
    return None if value is None else convert(value)


def optional_schema(schema: DataSchema | None) -> str | None:
    """The text of a schema, None for none."""
    return None if schema is None else _to_json(schema)


def optional_schema_of(message: Message, member: str = "data_schema_json") -> DataSchema | None:
    """The schema in a member of a message. Raises InvalidRequest, InvalidManifest."""
    text: str | None = getattr(message, member) if message.HasField(member) else None
    return None if text is None else data_schema_from_value(_json_of(text))
