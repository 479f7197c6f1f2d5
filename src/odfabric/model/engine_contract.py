"""Messages of the reference's engine contract, as values.

What coordinators and engines say to each other.

Owns the messages of the service `engine.Engine`. Class and member names are those of the contract, which its tables repeat.
Paths are those that the engine sees; intervals of offsets are closed. Not here: our own, richer contract (`model.engine`),
bytes (`formats.blocks.engine_contract`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import OffsetInterval, Transform


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetVocabulary:
    """Names of system columns; an absent one is the default."""

    offset_column: str | None = None
    operation_type_column: str | None = None
    system_time_column: str | None = None
    event_time_column: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """A watermark that an input's block carries, and that block's system time."""

    system_time: Instant
    event_time: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class RawQueryRequest:
    """A query over files of rows, known to it as the one table `input`."""

    input_data_paths: tuple[str, ...]
    transform: Transform
    output_data_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformRequestInput:
    """What one input has new. `schema_file` is a Parquet file without rows."""

    dataset_id: DatasetId
    dataset_alias: str
    query_alias: str
    vocab: DatasetVocabulary
    offset_interval: OffsetInterval | None
    data_paths: tuple[str, ...]
    schema_file: str
    explicit_watermarks: tuple[Watermark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformRequest:
    """One transaction of a derivative dataset."""

    dataset_id: DatasetId
    dataset_alias: str
    system_time: Instant
    vocab: DatasetVocabulary
    transform: Transform
    query_inputs: tuple[TransformRequestInput, ...]
    next_offset: int
    prev_checkpoint_path: str | None
    new_checkpoint_path: str
    new_data_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RawQueryResponseProgress:
    """The query is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawQueryResponseSuccess:
    """The output file is written."""

    num_records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RawQueryResponseInvalidQuery:
    """The query is wrong."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RawQueryResponseInternalError:
    """Something else is wrong."""

    message: str
    backtrace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformResponseProgress:
    """The transaction is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformResponseSuccess:
    """The slice is written; the interval is absent if it has no rows."""

    new_offset_interval: OffsetInterval | None
    new_watermark: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformResponseInvalidQuery:
    """The query is wrong."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformResponseInternalError:
    """Something else is wrong."""

    message: str
    backtrace: str | None = None


RawQueryResponse: TypeAlias = (
    RawQueryResponseProgress | RawQueryResponseSuccess | RawQueryResponseInvalidQuery | RawQueryResponseInternalError
)
TransformResponse: TypeAlias = (
    TransformResponseProgress
    | TransformResponseSuccess
    | TransformResponseInvalidQuery
    | TransformResponseInternalError
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawQueryResponseRoot:
    """The table around the union, which cannot be the root of a buffer."""

    value: RawQueryResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformResponseRoot:
    """The table around the union, which cannot be the root of a buffer."""

    value: TransformResponse
