"""Metadata blocks and the 13 events of the specification.

Owns the nouns of a chain, field for field in the order of the binary tables. A value of these classes says nothing about
validity: rules of a chain are decided in `domain.chain`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from odfabric.model.data_schema import DataSchema, ExtraAttributes
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.source import FetchStep, MergeStrategy, PrepStep, ReadStep


class DatasetKind(Enum):
    """Root datasets are ingested, derivative ones computed."""

    ROOT = 0
    DERIVATIVE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataBlock:
    """One link of a metadata chain: when, after which block, its number, its event."""

    system_time: Instant
    prev_block_hash: Multihash | None = None
    sequence_number: int
    event: MetadataEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class AddData:
    """New data of a root dataset, or a step of watermark, checkpoint or source state.

    `prev_offset` is the last offset before this event.
    """

    prev_checkpoint: Multihash | None = None
    prev_offset: int | None = None
    new_data: DataSlice | None = None
    new_checkpoint: Checkpoint | None = None
    new_watermark: Instant | None = None
    new_source_state: SourceState | None = None
    extra: ExtraAttributes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteTransform:
    """One transaction of a derivative: consumed input intervals, and the output."""

    query_inputs: tuple[ExecuteTransformInput, ...]
    prev_checkpoint: Multihash | None = None
    prev_offset: int | None = None
    new_data: DataSlice | None = None
    new_checkpoint: Checkpoint | None = None
    new_watermark: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteTransformInput:
    """Half-open intervals `(prev, new]` of blocks and offsets consumed from an input.

    `new_*` absent means no progress.
    """

    dataset_id: DatasetId
    prev_block_hash: Multihash | None = None
    new_block_hash: Multihash | None = None
    prev_offset: int | None = None
    new_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """First event of every chain: the identity and kind of the dataset."""

    dataset_id: DatasetId
    dataset_kind: DatasetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPollingSource:
    """How a root dataset fetches its data by itself."""

    fetch: FetchStep
    prepare: tuple[PrepStep, ...] | None = None
    read: ReadStep
    preprocess: Transform | None = None
    merge: MergeStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTransform:
    """How a derivative dataset is computed from its inputs."""

    inputs: tuple[TransformInput, ...]
    transform: Transform


@dataclass(frozen=True, slots=True, kw_only=True)
class SetVocab:
    """Names of the system columns.

    An absent member means its default, never the previous name.
    """

    offset_column: str | None = None
    operation_type_column: str | None = None
    system_time_column: str | None = None
    event_time_column: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAttachments:
    """Documents that travel with the dataset."""

    attachments: Attachments


@dataclass(frozen=True, slots=True, kw_only=True)
class SetInfo:
    """Human readable description and keywords."""

    description: str | None = None
    keywords: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLicense:
    """Licence of the data."""

    short_name: str
    name: str
    spdx_id: str | None = None
    website_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDataSchema:
    """Schema of the data slices from here on.

    Exactly one of the two forms is present, `raw_arrow_schema` is legacy.
    """

    raw_arrow_schema: bytes | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPushSource:
    """How pushed data of the source named `source_name` is read and merged."""

    source_name: str
    read: ReadStep
    preprocess: Transform | None = None
    merge: MergeStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class DisablePushSource:
    """Ends a push source."""

    source_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DisablePollingSource:
    """Ends the polling source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetInterval:
    """Closed interval of offsets `[start, end]`, as on the wire."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSlice:
    """One Parquet file of the chain; `size` in bytes."""

    logical_hash: Multihash
    physical_hash: Multihash
    offset_interval: OffsetInterval
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One opaque engine state file; `size` in bytes."""

    physical_hash: Multihash
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """Where an ingest source has got to; `kind` says how to read `value`."""

    source_name: str
    kind: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformInput:
    """An upstream dataset and the table name under which the SQL sees it."""

    dataset_ref: str
    alias: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformSql:
    """SQL of a named engine; `query` is input sugar and never stored."""

    engine: str
    version: str | None = None
    query: str | None = None
    queries: tuple[SqlQueryStep, ...] | None = None
    temporal_tables: tuple[TemporalTable, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlQueryStep:
    """One statement; the last step has no alias and is the output."""

    alias: str | None = None
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalTable:
    """An input to be read as versions of rows by primary key."""

    name: str
    primary_key: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentEmbedded:
    """One text document."""

    path: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentsEmbedded:
    """Documents stored in the block itself."""

    items: tuple[AttachmentEmbedded, ...]


Transform: TypeAlias = TransformSql

Attachments: TypeAlias = AttachmentsEmbedded

MetadataEvent: TypeAlias = (
    AddData
    | ExecuteTransform
    | Seed
    | SetPollingSource
    | SetTransform
    | SetVocab
    | SetAttachments
    | SetInfo
    | SetLicense
    | SetDataSchema
    | AddPushSource
    | DisablePushSource
    | DisablePollingSource
)
