from collections.abc import Iterable as _Iterable
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar

from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from google.protobuf.internal import containers as _containers

DESCRIPTOR: _descriptor.FileDescriptor

class GetInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetInfoResponse(_message.Message):
    __slots__ = ("digest", "executors", "java_version", "name", "sandbox", "spark_version", "version")
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
    def __init__(
        self,
        name: str | None = ...,
        version: str | None = ...,
        digest: str | None = ...,
        spark_version: str | None = ...,
        java_version: str | None = ...,
        sandbox: _Iterable[str] | None = ...,
        executors: int | None = ...,
    ) -> None: ...

class Vocabulary(_message.Message):
    __slots__ = ("event_time", "offset", "operation_type", "system_time")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    OPERATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_TIME_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    offset: str
    operation_type: str
    system_time: str
    event_time: str
    def __init__(
        self,
        offset: str | None = ...,
        operation_type: str | None = ...,
        system_time: str | None = ...,
        event_time: str | None = ...,
    ) -> None: ...

class Instant(_message.Message):
    __slots__ = ("nanos", "seconds")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    NANOS_FIELD_NUMBER: _ClassVar[int]
    seconds: int
    nanos: int
    def __init__(self, seconds: int | None = ..., nanos: int | None = ...) -> None: ...

class OffsetRange(_message.Message):
    __slots__ = ("begin", "end")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    begin: int
    end: int
    def __init__(self, begin: int | None = ..., end: int | None = ...) -> None: ...

class SliceFile(_message.Message):
    __slots__ = ("offsets", "path")
    PATH_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    path: str
    offsets: OffsetRange
    def __init__(self, path: str | None = ..., offsets: OffsetRange | _Mapping | None = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("done", "stage", "total")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    stage: str
    done: int
    total: int
    def __init__(self, stage: str | None = ..., done: int | None = ..., total: int | None = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = (
        "code",
        "column",
        "field",
        "file",
        "hint",
        "limit",
        "line",
        "maximum",
        "message",
        "object_name",
        "row",
        "rule",
    )
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
    def __init__(
        self,
        code: str | None = ...,
        message: str | None = ...,
        hint: str | None = ...,
        file: str | None = ...,
        line: int | None = ...,
        column: int | None = ...,
        field: str | None = ...,
        row: int | None = ...,
        rule: str | None = ...,
        limit: str | None = ...,
        maximum: float | None = ...,
        object_name: str | None = ...,
    ) -> None: ...

class IngestRequest(_message.Message):
    __slots__ = (
        "data_paths",
        "data_schema_json",
        "event_time_fallback",
        "file_names",
        "history",
        "merge_json",
        "new_data_path",
        "next_offset",
        "preprocess_json",
        "read_json",
        "system_time",
        "vocabulary",
    )
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
    def __init__(
        self,
        vocabulary: Vocabulary | _Mapping | None = ...,
        data_paths: _Iterable[str] | None = ...,
        file_names: _Iterable[str] | None = ...,
        read_json: str | None = ...,
        preprocess_json: str | None = ...,
        merge_json: str | None = ...,
        data_schema_json: str | None = ...,
        history: _Iterable[SliceFile | _Mapping] | None = ...,
        system_time: Instant | _Mapping | None = ...,
        event_time_fallback: Instant | _Mapping | None = ...,
        next_offset: int | None = ...,
        new_data_path: str | None = ...,
    ) -> None: ...

class IngestSuccess(_message.Message):
    __slots__ = ("data_schema_json", "max_event_time", "offsets")
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    DATA_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    MAX_EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    offsets: OffsetRange
    data_schema_json: str
    max_event_time: Instant
    def __init__(
        self,
        offsets: OffsetRange | _Mapping | None = ...,
        data_schema_json: str | None = ...,
        max_event_time: Instant | _Mapping | None = ...,
    ) -> None: ...

class IngestResponse(_message.Message):
    __slots__ = ("failure", "progress", "success")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    success: IngestSuccess
    failure: Failure
    def __init__(
        self,
        progress: Progress | _Mapping | None = ...,
        success: IngestSuccess | _Mapping | None = ...,
        failure: Failure | _Mapping | None = ...,
    ) -> None: ...

class TransformStep(_message.Message):
    __slots__ = ("last_offset", "system_time", "watermark")
    SYSTEM_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    system_time: Instant
    last_offset: int
    watermark: Instant
    def __init__(
        self,
        system_time: Instant | _Mapping | None = ...,
        last_offset: int | None = ...,
        watermark: Instant | _Mapping | None = ...,
    ) -> None: ...

class TransformInput(_message.Message):
    __slots__ = ("data_schema_json", "dataset_id", "offsets", "query_alias", "slices", "steps", "vocabulary")
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
    def __init__(
        self,
        dataset_id: str | None = ...,
        query_alias: str | None = ...,
        vocabulary: Vocabulary | _Mapping | None = ...,
        data_schema_json: str | None = ...,
        offsets: OffsetRange | _Mapping | None = ...,
        slices: _Iterable[SliceFile | _Mapping] | None = ...,
        steps: _Iterable[TransformStep | _Mapping] | None = ...,
    ) -> None: ...

class ExecuteTransformRequest(_message.Message):
    __slots__ = (
        "checkpoint_hashes",
        "checkpoint_paths",
        "data_schema_json",
        "dataset_id",
        "inputs",
        "new_checkpoint_path",
        "new_data_path",
        "next_offset",
        "prev_watermark",
        "previous_transform_json",
        "system_time",
        "transform_json",
        "vocabulary",
    )
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
    def __init__(
        self,
        dataset_id: str | None = ...,
        vocabulary: Vocabulary | _Mapping | None = ...,
        transform_json: str | None = ...,
        inputs: _Iterable[TransformInput | _Mapping] | None = ...,
        data_schema_json: str | None = ...,
        prev_watermark: Instant | _Mapping | None = ...,
        system_time: Instant | _Mapping | None = ...,
        next_offset: int | None = ...,
        checkpoint_paths: _Iterable[str] | None = ...,
        new_checkpoint_path: str | None = ...,
        new_data_path: str | None = ...,
        checkpoint_hashes: _Iterable[str] | None = ...,
        previous_transform_json: str | None = ...,
    ) -> None: ...

class EngineIdentity(_message.Message):
    __slots__ = ("digest", "name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    digest: str
    def __init__(self, name: str | None = ..., version: str | None = ..., digest: str | None = ...) -> None: ...

class ExecuteTransformSuccess(_message.Message):
    __slots__ = ("data_schema_json", "late_rows_dropped", "made_by", "offsets", "watermark")
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
    def __init__(
        self,
        offsets: OffsetRange | _Mapping | None = ...,
        watermark: Instant | _Mapping | None = ...,
        data_schema_json: str | None = ...,
        late_rows_dropped: int | None = ...,
        made_by: EngineIdentity | _Mapping | None = ...,
    ) -> None: ...

class ExecuteTransformResponse(_message.Message):
    __slots__ = ("failure", "progress", "success")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    success: ExecuteTransformSuccess
    failure: Failure
    def __init__(
        self,
        progress: Progress | _Mapping | None = ...,
        success: ExecuteTransformSuccess | _Mapping | None = ...,
        failure: Failure | _Mapping | None = ...,
    ) -> None: ...

class QueryInput(_message.Message):
    __slots__ = ("alias", "data_schema_json", "ddl", "slices", "vocabulary")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_FIELD_NUMBER: _ClassVar[int]
    DATA_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    DDL_FIELD_NUMBER: _ClassVar[int]
    alias: str
    vocabulary: Vocabulary
    data_schema_json: str
    slices: _containers.RepeatedCompositeFieldContainer[SliceFile]
    ddl: str
    def __init__(
        self,
        alias: str | None = ...,
        vocabulary: Vocabulary | _Mapping | None = ...,
        data_schema_json: str | None = ...,
        slices: _Iterable[SliceFile | _Mapping] | None = ...,
        ddl: str | None = ...,
    ) -> None: ...

class QueryRequest(_message.Message):
    __slots__ = ("bytes_max", "inputs", "limit", "output_path", "skip", "sql", "wall_ms_max")
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
    def __init__(
        self,
        sql: str | None = ...,
        inputs: _Iterable[QueryInput | _Mapping] | None = ...,
        skip: int | None = ...,
        limit: int | None = ...,
        bytes_max: int | None = ...,
        wall_ms_max: int | None = ...,
        output_path: str | None = ...,
    ) -> None: ...

class QuerySuccess(_message.Message):
    __slots__ = ("data_schema_json", "rows")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    DATA_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    rows: int
    data_schema_json: str
    def __init__(self, rows: int | None = ..., data_schema_json: str | None = ...) -> None: ...

class QueryResponse(_message.Message):
    __slots__ = ("failure", "progress", "success")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    success: QuerySuccess
    failure: Failure
    def __init__(
        self,
        progress: Progress | _Mapping | None = ...,
        success: QuerySuccess | _Mapping | None = ...,
        failure: Failure | _Mapping | None = ...,
    ) -> None: ...

class ValidateQueryRequest(_message.Message):
    __slots__ = ("inputs", "previous_transform_json", "transform_json", "vocabulary")
    VOCABULARY_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_JSON_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_TRANSFORM_JSON_FIELD_NUMBER: _ClassVar[int]
    vocabulary: Vocabulary
    transform_json: str
    inputs: _containers.RepeatedCompositeFieldContainer[QueryInput]
    previous_transform_json: str
    def __init__(
        self,
        vocabulary: Vocabulary | _Mapping | None = ...,
        transform_json: str | None = ...,
        inputs: _Iterable[QueryInput | _Mapping] | None = ...,
        previous_transform_json: str | None = ...,
    ) -> None: ...

class QueryProblem(_message.Message):
    __slots__ = ("column", "hint", "line", "message", "rule", "step", "suggestion")
    RULE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    SUGGESTION_FIELD_NUMBER: _ClassVar[int]
    rule: str
    message: str
    hint: str
    step: int
    line: int
    column: int
    suggestion: str
    def __init__(
        self,
        rule: str | None = ...,
        message: str | None = ...,
        hint: str | None = ...,
        step: int | None = ...,
        line: int | None = ...,
        column: int | None = ...,
        suggestion: str | None = ...,
    ) -> None: ...

class QueryOperator(_message.Message):
    __slots__ = ("column", "detail", "keys", "line", "name", "operator_class", "step")
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
    def __init__(
        self,
        operator_class: str | None = ...,
        name: str | None = ...,
        keys: _Iterable[str] | None = ...,
        detail: str | None = ...,
        step: int | None = ...,
        line: int | None = ...,
        column: int | None = ...,
    ) -> None: ...

class QueryEvolution(_message.Message):
    __slots__ = ("hint", "reason", "verdict")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    verdict: str
    reason: str
    hint: str
    def __init__(self, verdict: str | None = ..., reason: str | None = ..., hint: str | None = ...) -> None: ...

class ValidateQueryResponse(_message.Message):
    __slots__ = ("data_schema_json", "evolution", "failure", "keys", "operator_class", "operators", "problems")
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    DATA_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_CLASS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    OPERATORS_FIELD_NUMBER: _ClassVar[int]
    EVOLUTION_FIELD_NUMBER: _ClassVar[int]
    problems: _containers.RepeatedCompositeFieldContainer[QueryProblem]
    data_schema_json: str
    operator_class: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    failure: Failure
    operators: _containers.RepeatedCompositeFieldContainer[QueryOperator]
    evolution: QueryEvolution
    def __init__(
        self,
        problems: _Iterable[QueryProblem | _Mapping] | None = ...,
        data_schema_json: str | None = ...,
        operator_class: str | None = ...,
        keys: _Iterable[str] | None = ...,
        failure: Failure | _Mapping | None = ...,
        operators: _Iterable[QueryOperator | _Mapping] | None = ...,
        evolution: QueryEvolution | _Mapping | None = ...,
    ) -> None: ...

class MigrateQueryRequest(_message.Message):
    __slots__ = ("next", "output")
    NEXT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    next: ExecuteTransformRequest
    output: _containers.RepeatedCompositeFieldContainer[SliceFile]
    def __init__(
        self,
        next: ExecuteTransformRequest | _Mapping | None = ...,
        output: _Iterable[SliceFile | _Mapping] | None = ...,
    ) -> None: ...

class MigrateQueryResponse(_message.Message):
    __slots__ = ("failure", "progress", "success")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    success: ExecuteTransformSuccess
    failure: Failure
    def __init__(
        self,
        progress: Progress | _Mapping | None = ...,
        success: ExecuteTransformSuccess | _Mapping | None = ...,
        failure: Failure | _Mapping | None = ...,
    ) -> None: ...
