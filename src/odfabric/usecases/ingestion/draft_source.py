"""Draft a root dataset from a file's description: read step, columns, merge.

Owns the way from the choices of a person to a snapshot. Not here: guessing columns (`domain.ingestion.column_guess`), creating the dataset
(`create_dataset`), which judges names and types.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from odfabric.domain.ingestion.column_guess import GuessedType
from odfabric.errors import InvalidRequest, Place
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeBool,
    DataTypeDate,
    DataTypeFloat64,
    DataTypeInt64,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
)
from odfabric.model.file_shape import FileFormat, FileShape
from odfabric.model.identity import DatasetAlias
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import AddPushSource, DatasetKind, MetadataEvent, SetPollingSource, SetVocab
from odfabric.model.source import (
    FetchStepUrl,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStep,
    ReadStepCsv,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odfabric.model.vocabulary import DatasetVocabulary

SOURCE_NAME = "default"
_TYPES: dict[GuessedType, DataType] = {
    GuessedType.BOOL: DataTypeBool(),
    GuessedType.INT64: DataTypeInt64(),
    GuessedType.FLOAT64: DataTypeFloat64(),
    GuessedType.DATE: DataTypeDate(),
    GuessedType.TIMESTAMP: DataTypeTimestamp(),
    GuessedType.STRING: DataTypeString(),
}
_TIMES = (GuessedType.TIMESTAMP, GuessedType.DATE)


class Merge(Enum):
    """How new rows meet those that are there; all but APPEND need a key."""

    APPEND = "append"
    LEDGER = "ledger"
    SNAPSHOT = "snapshot"
    UPSERT = "upsert"


@dataclass(frozen=True, slots=True)
class DraftColumn:
    """A column as its publisher wants it."""

    name: str
    type: GuessedType
    is_optional: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDraft:
    """The choices.

    `columns` is empty where the file says itself what it has; `event_time` None: rows get the time of their push.

    With a `url` the dataset fetches the file by itself, instead of having it pushed.
    """

    name: DatasetAlias
    shape: FileShape
    url: str | None = None
    columns: tuple[DraftColumn, ...] = ()
    event_time: str | None = None
    key: tuple[str, ...] = ()
    merge: Merge = Merge.APPEND


def draft_source(draft: SourceDraft) -> DatasetSnapshot:
    """The snapshot of the choices.

    Raises InvalidRequest for a key or an event time that is no column, or of another type.
    """
    _check(draft)
    events: list[MetadataEvent] = []
    if draft.event_time is not None and draft.event_time != DatasetVocabulary().event_time:
        events.append(SetVocab(event_time_column=draft.event_time))
    read, merge = _read(draft), _merge(draft)
    if draft.url is not None:
        events.append(SetPollingSource(fetch=FetchStepUrl(url=draft.url), read=read, merge=merge))
    else:
        events.append(AddPushSource(source_name=SOURCE_NAME, read=read, merge=merge))
    return DatasetSnapshot(name=draft.name, kind=DatasetKind.ROOT, metadata=tuple(events))


def _check(draft: SourceDraft) -> None:
    if draft.merge is not Merge.APPEND and not draft.key:
        raise InvalidRequest(
            "this way of merging tells rows apart by a key", place=Place(field="key"), hint="choose its columns"
        )
    if not draft.columns:
        return
    types = {column.name: column.type for column in draft.columns}
    missing = next((name for name in draft.key if name not in types), None)
    if missing is not None:
        raise InvalidRequest(f"the key has `{missing}`, which is no column", place=Place(field="key"))
    if draft.event_time is not None and types.get(draft.event_time) not in _TIMES:
        raise InvalidRequest(
            f"`{draft.event_time}` holds no times",
            place=Place(field="event_time"),
            hint="choose a column of the type Timestamp or Date, or the time of the push",
        )


def _read(draft: SourceDraft) -> ReadStep:
    schema = DataSchema(fields=tuple(map(_field, draft.columns))) if draft.columns else None
    match draft.shape.format:
        case FileFormat.CSV:
            separator = None if draft.shape.separator == "," else draft.shape.separator
            infer = None if schema is not None else True
            return ReadStepCsv(header=draft.shape.header, separator=separator, infer_schema=infer, schema=schema)
        case FileFormat.NDJSON:
            return ReadStepNdJson(schema=schema)
        case FileFormat.JSON:
            return ReadStepJson(schema=schema)
        case FileFormat.PARQUET:
            return ReadStepParquet(schema=schema)


def _field(column: DraftColumn) -> DataField:
    plain = _TYPES[column.type]
    return DataField(name=column.name, type=DataTypeOption(inner=plain) if column.is_optional else plain)


def _merge(draft: SourceDraft) -> MergeStrategy:
    match draft.merge:
        case Merge.APPEND:
            return MergeStrategyAppend()
        case Merge.LEDGER:
            return MergeStrategyLedger(primary_key=draft.key)
        case Merge.SNAPSHOT:
            return MergeStrategySnapshot(primary_key=draft.key)
        case Merge.UPSERT:
            return MergeStrategyUpsertStream(primary_key=draft.key)
