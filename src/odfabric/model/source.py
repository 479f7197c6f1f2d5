"""Ingest sources as the specification has them: fetch, prepare, read, merge.

Owns the nouns only; which of them this node can execute is decided by the use cases and the engine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from odfabric.model.data_schema import DataSchema


class CompressionFormat(Enum):
    """How a fetched file is packed."""

    GZIP = 0
    ZIP = 1


class SourceOrdering(Enum):
    """In which order files of a glob are taken."""

    BY_EVENT_TIME = 0
    BY_NAME = 1


class MqttQos(Enum):
    """Delivery promise of an MQTT topic."""

    AT_MOST_ONCE = 0
    AT_LEAST_ONCE = 1
    EXACTLY_ONCE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStepUrl:
    """Fetches by `Url`."""

    url: str
    event_time: EventTimeSource | None = None
    cache: SourceCaching | None = None
    headers: tuple[RequestHeader, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStepFilesGlob:
    """Fetches by `FilesGlob`."""

    path: str
    event_time: EventTimeSource | None = None
    cache: SourceCaching | None = None
    order: SourceOrdering | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStepContainer:
    """Fetches by `Container`."""

    image: str
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvVar, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStepMqtt:
    """Fetches by `Mqtt`."""

    host: str
    port: int
    username: str | None = None
    password: str | None = None
    topics: tuple[MqttTopicSubscription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStepEthereumLogs:
    """Fetches by `EthereumLogs`."""

    chain_id: int | None = None
    node_url: str | None = None
    filter: str | None = None
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimeSourceFromMetadata:
    """Event time `FromMetadata`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimeSourceFromPath:
    """Event time `FromPath`."""

    pattern: str
    timestamp_format: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimeSourceFromSystemTime:
    """Event time `FromSystemTime`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCachingForever:
    """Caching `Forever`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    """`RequestHeader` of the specification."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVar:
    """`EnvVar` of the specification."""

    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttTopicSubscription:
    """`MqttTopicSubscription` of the specification."""

    path: str
    qos: MqttQos | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepStepDecompress:
    """Prepares by `Decompress`."""

    format: CompressionFormat
    sub_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepStepPipe:
    """Prepares by `Pipe`."""

    command: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStepCsv:
    """Reads `Csv` files."""

    ddl_schema: tuple[str, ...] | None = None
    separator: str | None = None
    encoding: str | None = None
    quote: str | None = None
    escape: str | None = None
    header: bool | None = None
    infer_schema: bool | None = None
    null_value: str | None = None
    date_format: str | None = None
    timestamp_format: str | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStepGeoJson:
    """Reads `GeoJson` files."""

    ddl_schema: tuple[str, ...] | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStepEsriShapefile:
    """Reads `EsriShapefile` files."""

    ddl_schema: tuple[str, ...] | None = None
    sub_path: str | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStepParquet:
    """Reads `Parquet` files."""

    ddl_schema: tuple[str, ...] | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStepJson:
    """Reads `Json` files."""

    sub_path: str | None = None
    ddl_schema: tuple[str, ...] | None = None
    date_format: str | None = None
    encoding: str | None = None
    timestamp_format: str | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStepNdJson:
    """Reads `NdJson` files."""

    ddl_schema: tuple[str, ...] | None = None
    date_format: str | None = None
    encoding: str | None = None
    timestamp_format: str | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStepNdGeoJson:
    """Reads `NdGeoJson` files."""

    ddl_schema: tuple[str, ...] | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStrategyAppend:
    """Merge strategy `Append`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStrategyLedger:
    """Merge strategy `Ledger`."""

    primary_key: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStrategySnapshot:
    """Merge strategy `Snapshot`."""

    primary_key: tuple[str, ...]
    compare_columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStrategyChangelogStream:
    """Merge strategy `ChangelogStream`."""

    primary_key: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStrategyUpsertStream:
    """Merge strategy `UpsertStream`."""

    primary_key: tuple[str, ...]


FetchStep: TypeAlias = FetchStepUrl | FetchStepFilesGlob | FetchStepContainer | FetchStepMqtt | FetchStepEthereumLogs

EventTimeSource: TypeAlias = EventTimeSourceFromMetadata | EventTimeSourceFromPath | EventTimeSourceFromSystemTime

SourceCaching: TypeAlias = SourceCachingForever

PrepStep: TypeAlias = PrepStepDecompress | PrepStepPipe

ReadStep: TypeAlias = (
    ReadStepCsv
    | ReadStepGeoJson
    | ReadStepEsriShapefile
    | ReadStepParquet
    | ReadStepJson
    | ReadStepNdJson
    | ReadStepNdGeoJson
)

MergeStrategy: TypeAlias = (
    MergeStrategyAppend
    | MergeStrategyLedger
    | MergeStrategySnapshot
    | MergeStrategyChangelogStream
    | MergeStrategyUpsertStream
)
