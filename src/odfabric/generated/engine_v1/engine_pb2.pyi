from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProvenanceKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROVENANCE_KIND_UNSPECIFIED: _ClassVar[ProvenanceKind]
    PROVENANCE_KIND_WITNESSES: _ClassVar[ProvenanceKind]
    PROVENANCE_KIND_TRIGGER: _ClassVar[ProvenanceKind]
    PROVENANCE_KIND_CELLS: _ClassVar[ProvenanceKind]
    PROVENANCE_KIND_HOW: _ClassVar[ProvenanceKind]

class ProvenanceEffort(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROVENANCE_EFFORT_UNSPECIFIED: _ClassVar[ProvenanceEffort]
    PROVENANCE_EFFORT_LINEAGE: _ClassVar[ProvenanceEffort]
    PROVENANCE_EFFORT_VERIFIED: _ClassVar[ProvenanceEffort]
    PROVENANCE_EFFORT_MINIMAL: _ClassVar[ProvenanceEffort]
PROVENANCE_KIND_UNSPECIFIED: ProvenanceKind
PROVENANCE_KIND_WITNESSES: ProvenanceKind
PROVENANCE_KIND_TRIGGER: ProvenanceKind
PROVENANCE_KIND_CELLS: ProvenanceKind
PROVENANCE_KIND_HOW: ProvenanceKind
PROVENANCE_EFFORT_UNSPECIFIED: ProvenanceEffort
PROVENANCE_EFFORT_LINEAGE: ProvenanceEffort
PROVENANCE_EFFORT_VERIFIED: ProvenanceEffort
PROVENANCE_EFFORT_MINIMAL: ProvenanceEffort

class GetInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetInfoResponse(_message.Message):
    __slots__ = ("name", "version", "digest", "spark_version", "java_version", "sandbox", "executors")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SPARK_VERSION_FIELD_NUMBER: _ClassVar[int]
    JAVA_VERSION_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    digest: str
    spark_version: str
    java_version: str
    sandbox: _containers.RepeatedScalarFieldContainer[str]
    executors: int
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., digest: _Optional[str] = ..., spark_version: _Optional[str] = ..., java_version: _Optional[str] = ..., sandbox: _Optional[_Iterable[str]] = ..., executors: _Optional[int] = ...) -> None: ...

class Vocabulary(_message.Message):
    __slots__ = ("offset", "operation_type", "system_time", "event_time")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    OPERATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_TIME_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    offset: str
    operation_type: str
    system_time: str
    event_time: str
    def __init__(self, offset: _Optional[str] = ..., operation_type: _Optional[str] = ..., system_time: _Optional[str] = ..., event_time: _Optional[str] = ...) -> None: ...

class Instant(_message.Message):
    __slots__ = ("seconds", "nanos")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    NANOS_FIELD_NUMBER: _ClassVar[int]
    seconds: int
    nanos: int
    def __init__(self, seconds: _Optional[int] = ..., nanos: _Optional[int] = ...) -> None: ...

class OffsetRange(_message.Message):
    __slots__ = ("begin", "end")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    begin: int
    end: int
    def __init__(self, begin: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class SliceFile(_message.Message):
    __slots__ = ("path", "offsets")
    PATH_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    path: str
    offsets: OffsetRange
    def __init__(self, path: _Optional[str] = ..., offsets: _Optional[_Union[OffsetRange, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("stage", "done", "total")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    stage: str
    done: int
    total: int
    def __init__(self, stage: _Optional[str] = ..., done: _Optional[int] = ..., total: _Optional[int] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("code", "message", "hint", "file", "line", "column", "field", "row", "rule", "limit", "maximum", "object_name", "query_line", "query_column")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    OBJECT_NAME_FIELD_NUMBER: _ClassVar[int]
    QUERY_LINE_FIELD_NUMBER: _ClassVar[int]
    QUERY_COLUMN_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    hint: str
    file: str
    line: int
    column: int
    field: str
    row: int
    rule: str
    limit: str
    maximum: float
    object_name: str
    query_line: int
    query_column: int
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., hint: _Optional[str] = ..., file: _Optional[str] = ..., line: _Optional[int] = ..., column: _Optional[int] = ..., field: _Optional[str] = ..., row: _Optional[int] = ..., rule: _Optional[str] = ..., limit: _Optional[str] = ..., maximum: _Optional[float] = ..., object_name: _Optional[str] = ..., query_line: _Optional[int] = ..., query_column: _Optional[int] = ...) -> None: ...

class IngestRequest(_message.Message):
    __slots__ = ("vocabulary", "data_paths", "file_names", "read_json", "preprocess_json", "merge_json", "data_schema_json", "history", "system_time", "event_time_fallback", "next_offset", "new_data_path", "known_columns", "contract", "rejected_path", "rejected_rows_max")
    VOCABULARY_FIELD_NUMBER: _ClassVar[int]
    DATA_PATHS_FIELD_NUMBER: _ClassVar[int]
    FILE_NAMES_FIELD_NUMBER: _ClassVar[int]
    READ_JSON_FIELD_NUMBER: _ClassVar[int]
    PREPROCESS_JSON_FIELD_NUMBER: _ClassVar[int]
    MERGE_JSON_FIELD_NUMBER: _ClassVar[int]
    DATA_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_TIME_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FALLBACK_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEW_DATA_PATH_FIELD_NUMBER: _ClassVar[int]
    KNOWN_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    REJECTED_PATH_FIELD_NUMBER: _ClassVar[int]
    REJECTED_ROWS_MAX_FIELD_NUMBER: _ClassVar[int]
    vocabulary: Vocabulary
    data_paths: _containers.RepeatedScalarFieldContainer[str]
    file_names: _containers.RepeatedScalarFieldContainer[str]
    read_json: str
    preprocess_json: str
    merge_json: str
    data_schema_json: str
    history: _containers.RepeatedCompositeFieldContainer[SliceFile]
    system_time: Instant
    event_time_fallback: Instant
    next_offset: int
    new_data_path: str
    known_columns: _containers.RepeatedScalarFieldContainer[str]
    contract: str
    rejected_path: str
    rejected_rows_max: int
    def __init__(self, vocabulary: _Optional[_Union[Vocabulary, _Mapping]] = ..., data_paths: _Optional[_Iterable[str]] = ..., file_names: _Optional[_Iterable[str]] = ..., read_json: _Optional[str] = ..., preprocess_json: _Optional[str] = ..., merge_json: _Optional[str] = ..., data_schema_json: _Optional[str] = ..., history: _Optional[_Iterable[_Union[SliceFile, _Mapping]]] = ..., system_time: _Optional[_Union[Instant, _Mapping]] = ..., event_time_fallback: _Optional[_Union[Instant, _Mapping]] = ..., next_offset: _Optional[int] = ..., new_data_path: _Optional[str] = ..., known_columns: _Optional[_Iterable[str]] = ..., contract: _Optional[str] = ..., rejected_path: _Optional[str] = ..., rejected_rows_max: _Optional[int] = ...) -> None: ...

class RenamedColumn(_message.Message):
    __slots__ = ("name", "stored_as")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STORED_AS_FIELD_NUMBER: _ClassVar[int]
    name: str
    stored_as: str
    def __init__(self, name: _Optional[str] = ..., stored_as: _Optional[str] = ...) -> None: ...

class UndeclaredField(_message.Message):
    __slots__ = ("name", "rows")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    name: str
    rows: int
    def __init__(self, name: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...

class RowChanges(_message.Message):
    __slots__ = ("added", "corrected", "retracted", "unchanged", "known_keys")
    ADDED_FIELD_NUMBER: _ClassVar[int]
    CORRECTED_FIELD_NUMBER: _ClassVar[int]
    RETRACTED_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    KNOWN_KEYS_FIELD_NUMBER: _ClassVar[int]
    added: int
    corrected: int
    retracted: int
    unchanged: int
    known_keys: int
    def __init__(self, added: _Optional[int] = ..., corrected: _Optional[int] = ..., retracted: _Optional[int] = ..., unchanged: _Optional[int] = ..., known_keys: _Optional[int] = ...) -> None: ...

class IngestSuccess(_message.Message):
    __slots__ = ("offsets", "data_schema_json", "max_event_time", "renamed", "changes", "undeclared", "rejected", "found_schema_json")
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    DATA_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    MAX_EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    RENAMED_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    UNDECLARED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    FOUND_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    offsets: OffsetRange
    data_schema_json: str
    max_event_time: Instant
    renamed: _containers.RepeatedCompositeFieldContainer[RenamedColumn]
    changes: RowChanges
    undeclared: _containers.RepeatedCompositeFieldContainer[UndeclaredField]
    rejected: int
    found_schema_json: str
    def __init__(self, offsets: _Optional[_Union[OffsetRange, _Mapping]] = ..., data_schema_json: _Optional[str] = ..., max_event_time: _Optional[_Union[Instant, _Mapping]] = ..., renamed: _Optional[_Iterable[_Union[RenamedColumn, _Mapping]]] = ..., changes: _Optional[_Union[RowChanges, _Mapping]] = ..., undeclared: _Optional[_Iterable[_Union[UndeclaredField, _Mapping]]] = ..., rejected: _Optional[int] = ..., found_schema_json: _Optional[str] = ...) -> None: ...

class IngestResponse(_message.Message):
    __slots__ = ("progress", "success", "failure")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    success: IngestSuccess
    failure: Failure
    def __init__(self, progress: _Optional[_Union[Progress, _Mapping]] = ..., success: _Optional[_Union[IngestSuccess, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class TransformStep(_message.Message):
    __slots__ = ("system_time", "last_offset", "watermark")
    SYSTEM_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    system_time: Instant
    last_offset: int
    watermark: Instant
    def __init__(self, system_time: _Optional[_Union[Instant, _Mapping]] = ..., last_offset: _Optional[int] = ..., watermark: _Optional[_Union[Instant, _Mapping]] = ...) -> None: ...

class TransformInput(_message.Message):
    __slots__ = ("dataset_id", "query_alias", "vocabulary", "data_schema_json", "offsets", "slices", "steps")
    DATASET_ID_FIELD_NUMBER: _ClassVar[int]
    QUERY_ALIAS_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_FIELD_NUMBER: _ClassVar[int]
    DATA_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    dataset_id: str
    query_alias: str
    vocabulary: Vocabulary
    data_schema_json: str
    offsets: OffsetRange
    slices: _containers.RepeatedCompositeFieldContainer[SliceFile]
    steps: _containers.RepeatedCompositeFieldContainer[TransformStep]
    def __init__(self, dataset_id: _Optional[str] = ..., query_alias: _Optional[str] = ..., vocabulary: _Optional[_Union[Vocabulary, _Mapping]] = ..., data_schema_json: _Optional[str] = ..., offsets: _Optional[_Union[OffsetRange, _Mapping]] = ..., slices: _Optional[_Iterable[_Union[SliceFile, _Mapping]]] = ..., steps: _Optional[_Iterable[_Union[TransformStep, _Mapping]]] = ...) -> None: ...

class ExecuteTransformRequest(_message.Message):
    __slots__ = ("dataset_id", "vocabulary", "transform_json", "inputs", "data_schema_json", "prev_watermark", "system_time", "next_offset", "checkpoint_paths", "new_checkpoint_path", "new_data_path", "checkpoint_hashes", "previous_transform_json", "bytes_in_hand_max")
    DATASET_ID_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_JSON_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    DATA_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    PREV_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_TIME_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_PATHS_FIELD_NUMBER: _ClassVar[int]
    NEW_CHECKPOINT_PATH_FIELD_NUMBER: _ClassVar[int]
    NEW_DATA_PATH_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_HASHES_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_TRANSFORM_JSON_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_HAND_MAX_FIELD_NUMBER: _ClassVar[int]
    dataset_id: str
    vocabulary: Vocabulary
    transform_json: str
    inputs: _containers.RepeatedCompositeFieldContainer[TransformInput]
    data_schema_json: str
    prev_watermark: Instant
    system_time: Instant
    next_offset: int
    checkpoint_paths: _containers.RepeatedScalarFieldContainer[str]
    new_checkpoint_path: str
    new_data_path: str
    checkpoint_hashes: _containers.RepeatedScalarFieldContainer[str]
    previous_transform_json: str
    bytes_in_hand_max: int
    def __init__(self, dataset_id: _Optional[str] = ..., vocabulary: _Optional[_Union[Vocabulary, _Mapping]] = ..., transform_json: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[TransformInput, _Mapping]]] = ..., data_schema_json: _Optional[str] = ..., prev_watermark: _Optional[_Union[Instant, _Mapping]] = ..., system_time: _Optional[_Union[Instant, _Mapping]] = ..., next_offset: _Optional[int] = ..., checkpoint_paths: _Optional[_Iterable[str]] = ..., new_checkpoint_path: _Optional[str] = ..., new_data_path: _Optional[str] = ..., checkpoint_hashes: _Optional[_Iterable[str]] = ..., previous_transform_json: _Optional[str] = ..., bytes_in_hand_max: _Optional[int] = ...) -> None: ...

class EngineIdentity(_message.Message):
    __slots__ = ("name", "version", "digest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    digest: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class ExecuteTransformSuccess(_message.Message):
    __slots__ = ("offsets", "watermark", "data_schema_json", "late_rows_dropped", "made_by")
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    DATA_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    LATE_ROWS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    MADE_BY_FIELD_NUMBER: _ClassVar[int]
    offsets: OffsetRange
    watermark: Instant
    data_schema_json: str
    late_rows_dropped: int
    made_by: EngineIdentity
    def __init__(self, offsets: _Optional[_Union[OffsetRange, _Mapping]] = ..., watermark: _Optional[_Union[Instant, _Mapping]] = ..., data_schema_json: _Optional[str] = ..., late_rows_dropped: _Optional[int] = ..., made_by: _Optional[_Union[EngineIdentity, _Mapping]] = ...) -> None: ...

class ExecuteTransformResponse(_message.Message):
    __slots__ = ("progress", "success", "failure")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    success: ExecuteTransformSuccess
    failure: Failure
    def __init__(self, progress: _Optional[_Union[Progress, _Mapping]] = ..., success: _Optional[_Union[ExecuteTransformSuccess, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class QueryInput(_message.Message):
    __slots__ = ("alias", "vocabulary", "data_schema_json", "slices", "ddl", "call", "projection", "refusal")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_FIELD_NUMBER: _ClassVar[int]
    DATA_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    DDL_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    PROJECTION_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    alias: str
    vocabulary: Vocabulary
    data_schema_json: str
    slices: _containers.RepeatedCompositeFieldContainer[SliceFile]
    ddl: str
    call: TableCall
    projection: Projection
    refusal: CallRefusal
    def __init__(self, alias: _Optional[str] = ..., vocabulary: _Optional[_Union[Vocabulary, _Mapping]] = ..., data_schema_json: _Optional[str] = ..., slices: _Optional[_Iterable[_Union[SliceFile, _Mapping]]] = ..., ddl: _Optional[str] = ..., call: _Optional[_Union[TableCall, _Mapping]] = ..., projection: _Optional[_Union[Projection, _Mapping]] = ..., refusal: _Optional[_Union[CallRefusal, _Mapping]] = ...) -> None: ...

class TableCall(_message.Message):
    __slots__ = ("name", "arguments")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    arguments: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., arguments: _Optional[_Iterable[str]] = ...) -> None: ...

class Projection(_message.Message):
    __slots__ = ("keys", "as_of_ms", "rows_path")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    AS_OF_MS_FIELD_NUMBER: _ClassVar[int]
    ROWS_PATH_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    as_of_ms: int
    rows_path: str
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., as_of_ms: _Optional[int] = ..., rows_path: _Optional[str] = ...) -> None: ...

class CallRefusal(_message.Message):
    __slots__ = ("message", "hint")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    message: str
    hint: str
    def __init__(self, message: _Optional[str] = ..., hint: _Optional[str] = ...) -> None: ...

class QueryRequest(_message.Message):
    __slots__ = ("sql", "inputs", "skip", "limit", "bytes_max", "wall_ms_max", "output_path")
    SQL_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_MAX_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_PATH_FIELD_NUMBER: _ClassVar[int]
    sql: str
    inputs: _containers.RepeatedCompositeFieldContainer[QueryInput]
    skip: int
    limit: int
    bytes_max: int
    wall_ms_max: int
    output_path: str
    def __init__(self, sql: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[QueryInput, _Mapping]]] = ..., skip: _Optional[int] = ..., limit: _Optional[int] = ..., bytes_max: _Optional[int] = ..., wall_ms_max: _Optional[int] = ..., output_path: _Optional[str] = ...) -> None: ...

class QuerySuccess(_message.Message):
    __slots__ = ("rows", "data_schema_json", "wants_records")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    DATA_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    WANTS_RECORDS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    data_schema_json: str
    wants_records: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, rows: _Optional[int] = ..., data_schema_json: _Optional[str] = ..., wants_records: _Optional[_Iterable[int]] = ...) -> None: ...

class QueryResponse(_message.Message):
    __slots__ = ("progress", "success", "failure")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    success: QuerySuccess
    failure: Failure
    def __init__(self, progress: _Optional[_Union[Progress, _Mapping]] = ..., success: _Optional[_Union[QuerySuccess, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class ValidateQueryRequest(_message.Message):
    __slots__ = ("vocabulary", "transform_json", "inputs", "previous_transform_json", "data_schema_json")
    VOCABULARY_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_JSON_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_TRANSFORM_JSON_FIELD_NUMBER: _ClassVar[int]
    DATA_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    vocabulary: Vocabulary
    transform_json: str
    inputs: _containers.RepeatedCompositeFieldContainer[QueryInput]
    previous_transform_json: str
    data_schema_json: str
    def __init__(self, vocabulary: _Optional[_Union[Vocabulary, _Mapping]] = ..., transform_json: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[QueryInput, _Mapping]]] = ..., previous_transform_json: _Optional[str] = ..., data_schema_json: _Optional[str] = ...) -> None: ...

class QueryProblem(_message.Message):
    __slots__ = ("rule", "message", "hint", "step", "line", "column", "suggestion", "of_input")
    RULE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    SUGGESTION_FIELD_NUMBER: _ClassVar[int]
    OF_INPUT_FIELD_NUMBER: _ClassVar[int]
    rule: str
    message: str
    hint: str
    step: int
    line: int
    column: int
    suggestion: str
    of_input: int
    def __init__(self, rule: _Optional[str] = ..., message: _Optional[str] = ..., hint: _Optional[str] = ..., step: _Optional[int] = ..., line: _Optional[int] = ..., column: _Optional[int] = ..., suggestion: _Optional[str] = ..., of_input: _Optional[int] = ...) -> None: ...

class QueryOperator(_message.Message):
    __slots__ = ("operator_class", "name", "keys", "detail", "step", "line", "column")
    OPERATOR_CLASS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    operator_class: str
    name: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    detail: str
    step: int
    line: int
    column: int
    def __init__(self, operator_class: _Optional[str] = ..., name: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., detail: _Optional[str] = ..., step: _Optional[int] = ..., line: _Optional[int] = ..., column: _Optional[int] = ...) -> None: ...

class QueryEvolution(_message.Message):
    __slots__ = ("verdict", "reason", "hint")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    verdict: str
    reason: str
    hint: str
    def __init__(self, verdict: _Optional[str] = ..., reason: _Optional[str] = ..., hint: _Optional[str] = ...) -> None: ...

class QueryState(_message.Message):
    __slots__ = ("kept", "keys", "relations")
    KEPT_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    RELATIONS_FIELD_NUMBER: _ClassVar[int]
    kept: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    relations: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kept: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., relations: _Optional[_Iterable[str]] = ...) -> None: ...

class ValidateQueryResponse(_message.Message):
    __slots__ = ("problems", "data_schema_json", "operator_class", "keys", "failure", "operators", "evolution", "meaning", "states", "notes", "column_lineage")
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    DATA_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_CLASS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    OPERATORS_FIELD_NUMBER: _ClassVar[int]
    EVOLUTION_FIELD_NUMBER: _ClassVar[int]
    MEANING_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    COLUMN_LINEAGE_FIELD_NUMBER: _ClassVar[int]
    problems: _containers.RepeatedCompositeFieldContainer[QueryProblem]
    data_schema_json: str
    operator_class: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    failure: Failure
    operators: _containers.RepeatedCompositeFieldContainer[QueryOperator]
    evolution: QueryEvolution
    meaning: str
    states: _containers.RepeatedCompositeFieldContainer[QueryState]
    notes: _containers.RepeatedScalarFieldContainer[str]
    column_lineage: _containers.RepeatedCompositeFieldContainer[ColumnLineage]
    def __init__(self, problems: _Optional[_Iterable[_Union[QueryProblem, _Mapping]]] = ..., data_schema_json: _Optional[str] = ..., operator_class: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., operators: _Optional[_Iterable[_Union[QueryOperator, _Mapping]]] = ..., evolution: _Optional[_Union[QueryEvolution, _Mapping]] = ..., meaning: _Optional[str] = ..., states: _Optional[_Iterable[_Union[QueryState, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ..., column_lineage: _Optional[_Iterable[_Union[ColumnLineage, _Mapping]]] = ...) -> None: ...

class ColumnLineage(_message.Message):
    __slots__ = ("output_column", "input", "column", "role", "transformation")
    OUTPUT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TRANSFORMATION_FIELD_NUMBER: _ClassVar[int]
    output_column: str
    input: str
    column: str
    role: str
    transformation: str
    def __init__(self, output_column: _Optional[str] = ..., input: _Optional[str] = ..., column: _Optional[str] = ..., role: _Optional[str] = ..., transformation: _Optional[str] = ...) -> None: ...

class MigrateQueryRequest(_message.Message):
    __slots__ = ("next", "output")
    NEXT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    next: ExecuteTransformRequest
    output: _containers.RepeatedCompositeFieldContainer[SliceFile]
    def __init__(self, next: _Optional[_Union[ExecuteTransformRequest, _Mapping]] = ..., output: _Optional[_Iterable[_Union[SliceFile, _Mapping]]] = ...) -> None: ...

class MigrateQueryResponse(_message.Message):
    __slots__ = ("progress", "success", "failure")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    success: ExecuteTransformSuccess
    failure: Failure
    def __init__(self, progress: _Optional[_Union[Progress, _Mapping]] = ..., success: _Optional[_Union[ExecuteTransformSuccess, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class ConsumedInterval(_message.Message):
    __slots__ = ("offsets", "steps_before")
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    STEPS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    offsets: OffsetRange
    steps_before: int
    def __init__(self, offsets: _Optional[_Union[OffsetRange, _Mapping]] = ..., steps_before: _Optional[int] = ...) -> None: ...

class DeriveProvenanceRequest(_message.Message):
    __slots__ = ("transaction", "intervals", "output", "offsets", "columns", "kinds", "effort", "rows_max", "evaluations_max", "bytes_in_hand_max", "wall_ms_max", "answer_path", "previous_transform_json")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    INTERVALS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    EFFORT_FIELD_NUMBER: _ClassVar[int]
    ROWS_MAX_FIELD_NUMBER: _ClassVar[int]
    EVALUATIONS_MAX_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_HAND_MAX_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_MAX_FIELD_NUMBER: _ClassVar[int]
    ANSWER_PATH_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_TRANSFORM_JSON_FIELD_NUMBER: _ClassVar[int]
    transaction: ExecuteTransformRequest
    intervals: _containers.RepeatedCompositeFieldContainer[ConsumedInterval]
    output: _containers.RepeatedCompositeFieldContainer[SliceFile]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    columns: _containers.RepeatedScalarFieldContainer[str]
    kinds: _containers.RepeatedScalarFieldContainer[ProvenanceKind]
    effort: ProvenanceEffort
    rows_max: int
    evaluations_max: int
    bytes_in_hand_max: int
    wall_ms_max: int
    answer_path: str
    previous_transform_json: str
    def __init__(self, transaction: _Optional[_Union[ExecuteTransformRequest, _Mapping]] = ..., intervals: _Optional[_Iterable[_Union[ConsumedInterval, _Mapping]]] = ..., output: _Optional[_Iterable[_Union[SliceFile, _Mapping]]] = ..., offsets: _Optional[_Iterable[int]] = ..., columns: _Optional[_Iterable[str]] = ..., kinds: _Optional[_Iterable[_Union[ProvenanceKind, str]]] = ..., effort: _Optional[_Union[ProvenanceEffort, str]] = ..., rows_max: _Optional[int] = ..., evaluations_max: _Optional[int] = ..., bytes_in_hand_max: _Optional[int] = ..., wall_ms_max: _Optional[int] = ..., answer_path: _Optional[str] = ..., previous_transform_json: _Optional[str] = ...) -> None: ...

class InputWitnesses(_message.Message):
    __slots__ = ("input", "count", "ranges", "more")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    input: int
    count: int
    ranges: _containers.RepeatedCompositeFieldContainer[OffsetRange]
    more: bool
    def __init__(self, input: _Optional[int] = ..., count: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[OffsetRange, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class RecordProvenance(_message.Message):
    __slots__ = ("offset", "op", "alternatives", "verified", "minimal", "by_watermark", "witnesses", "trigger", "notes", "how_json", "found", "answer_rows")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    ALTERNATIVES_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_FIELD_NUMBER: _ClassVar[int]
    MINIMAL_FIELD_NUMBER: _ClassVar[int]
    BY_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    WITNESSES_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    HOW_JSON_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    ANSWER_ROWS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    op: int
    alternatives: int
    verified: bool
    minimal: bool
    by_watermark: bool
    witnesses: _containers.RepeatedCompositeFieldContainer[InputWitnesses]
    trigger: _containers.RepeatedCompositeFieldContainer[InputWitnesses]
    notes: _containers.RepeatedScalarFieldContainer[str]
    how_json: str
    found: bool
    answer_rows: OffsetRange
    def __init__(self, offset: _Optional[int] = ..., op: _Optional[int] = ..., alternatives: _Optional[int] = ..., verified: _Optional[bool] = ..., minimal: _Optional[bool] = ..., by_watermark: _Optional[bool] = ..., witnesses: _Optional[_Iterable[_Union[InputWitnesses, _Mapping]]] = ..., trigger: _Optional[_Iterable[_Union[InputWitnesses, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ..., how_json: _Optional[str] = ..., found: _Optional[bool] = ..., answer_rows: _Optional[_Union[OffsetRange, _Mapping]] = ...) -> None: ...

class ProvenanceCost(_message.Message):
    __slots__ = ("read", "rows_read", "rows_bound", "jobs", "evaluations")
    READ_FIELD_NUMBER: _ClassVar[int]
    ROWS_READ_FIELD_NUMBER: _ClassVar[int]
    ROWS_BOUND_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    EVALUATIONS_FIELD_NUMBER: _ClassVar[int]
    read: str
    rows_read: int
    rows_bound: int
    jobs: int
    evaluations: int
    def __init__(self, read: _Optional[str] = ..., rows_read: _Optional[int] = ..., rows_bound: _Optional[int] = ..., jobs: _Optional[int] = ..., evaluations: _Optional[int] = ...) -> None: ...

class DeriveProvenanceSuccess(_message.Message):
    __slots__ = ("records", "cost", "made_by", "answer_rows")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    MADE_BY_FIELD_NUMBER: _ClassVar[int]
    ANSWER_ROWS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[RecordProvenance]
    cost: ProvenanceCost
    made_by: EngineIdentity
    answer_rows: int
    def __init__(self, records: _Optional[_Iterable[_Union[RecordProvenance, _Mapping]]] = ..., cost: _Optional[_Union[ProvenanceCost, _Mapping]] = ..., made_by: _Optional[_Union[EngineIdentity, _Mapping]] = ..., answer_rows: _Optional[int] = ...) -> None: ...

class DeriveProvenanceResponse(_message.Message):
    __slots__ = ("progress", "success", "failure")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    success: DeriveProvenanceSuccess
    failure: Failure
    def __init__(self, progress: _Optional[_Union[Progress, _Mapping]] = ..., success: _Optional[_Union[DeriveProvenanceSuccess, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...
