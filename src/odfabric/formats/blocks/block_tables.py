"""Tables of a metadata block: each noun's fields in order of binary slots.

Owns the one description from which the binary codec, the YAML and JSON forms, and the JSON Schema of manifests are made.
Invariant: `proto/odf.fbs` says the same; a test compares them. Not here: how any of the forms is read or written.
Source: specification, "Metadata reference"; slot numbers and storage from the reference's schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from odfabric.model import data_schema as schemas
from odfabric.model import metadata as events
from odfabric.model import source as sources


class Kind(Enum):
    """What a slot holds. The value is its type in FlatBuffers terms."""

    BOOL = "bool"
    INT32 = "int"
    UINT32 = "uint"
    INT64 = "long"
    UINT64 = "ulong"
    ENUM = "enum"
    INSTANT = "Timestamp"
    TEXT = "string"
    DATASET_REF = "string (reference)"
    JSON_OBJECT = "string (JSON object)"
    BYTES = "[ubyte]"
    HASH = "[ubyte] (multihash)"
    DATASET_ID = "[ubyte] (binary DID)"
    TABLE = "table"
    UNION = "union"
    TEXTS = "[string]"
    TABLES = "[table]"
    UNIONS = "[wrapper table of a union]"


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    """A tagged union.

    The tag of a member is its place in `members`, counted from 1; 0 is no value.
    """

    name: str
    members: tuple[type, ...]
    tags: tuple[str, ...]
    short_form: bool = False
    """Whether a manifest may write a member without required fields as its bare tag."""


@dataclass(frozen=True, slots=True, eq=False)
class EnumStorage:
    """An enum whose values are stored in so many bytes, signed."""

    type: type[Enum]
    fbs_type: str


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """One field.

    Optional scalars are written even if they are 0, required ones are left out if they are.
    """

    name: str
    kind: Kind
    required: bool
    table: type | None = None
    union: Union | None = None
    enum: EnumStorage | None = None

    @property
    def camel_name(self) -> str:
        """The name in manifests."""
        first, *rest = self.name.split("_")
        return first + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A noun of the model and its slots in order."""

    type: type
    slots: tuple[Slot, ...]

    @property
    def name(self) -> str:
        """The name of the table, which is the name of the class."""
        return self.type.__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The envelope of a stored block.

    `content` is a second, complete FlatBuffer with the MetadataBlock at its root.
    """

    kind: int
    version: int
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepStepWrapper:
    """What a vector of unions holds in FlatBuffers: a table around each member.

    Manifests do not show it.
    """

    value: sources.PrepStep


METADATA_BLOCK_KIND = 0x400000
"""`Manifest.kind` of a metadata block: the multicodec `odf-metadata-block`."""


def _union(name: str, *members: type, prefix: str | None = None, short_form: bool = False) -> Union:
    stem = name if prefix is None else prefix
    return Union(name, members, tuple(member.__name__.removeprefix(stem) for member in members), short_form)


METADATA_EVENT = _union(
    "MetadataEvent",
    events.AddData,
    events.ExecuteTransform,
    events.Seed,
    events.SetPollingSource,
    events.SetTransform,
    events.SetVocab,
    events.SetAttachments,
    events.SetInfo,
    events.SetLicense,
    events.SetDataSchema,
    events.AddPushSource,
    events.DisablePushSource,
    events.DisablePollingSource,
    prefix="",
)
READ_STEP = _union(
    "ReadStep",
    sources.ReadStepCsv,
    sources.ReadStepGeoJson,
    sources.ReadStepEsriShapefile,
    sources.ReadStepParquet,
    sources.ReadStepJson,
    sources.ReadStepNdJson,
    sources.ReadStepNdGeoJson,
)
FETCH_STEP = _union(
    "FetchStep",
    sources.FetchStepUrl,
    sources.FetchStepFilesGlob,
    sources.FetchStepContainer,
    sources.FetchStepMqtt,
    sources.FetchStepEthereumLogs,
)
PREP_STEP = _union("PrepStep", sources.PrepStepDecompress, sources.PrepStepPipe)
TRANSFORM = _union("Transform", events.TransformSql)
MERGE_STRATEGY = _union(
    "MergeStrategy",
    sources.MergeStrategyAppend,
    sources.MergeStrategyLedger,
    sources.MergeStrategySnapshot,
    sources.MergeStrategyChangelogStream,
    sources.MergeStrategyUpsertStream,
)
EVENT_TIME_SOURCE = _union(
    "EventTimeSource",
    sources.EventTimeSourceFromMetadata,
    sources.EventTimeSourceFromPath,
    sources.EventTimeSourceFromSystemTime,
    short_form=True,
)
SOURCE_CACHING = _union("SourceCaching", sources.SourceCachingForever, short_form=True)
ATTACHMENTS = _union("Attachments", events.AttachmentsEmbedded)
DATA_TYPE = _union(
    "DataType",
    schemas.DataTypeBinary,
    schemas.DataTypeBool,
    schemas.DataTypeDate,
    schemas.DataTypeDecimal,
    schemas.DataTypeDuration,
    schemas.DataTypeFloat16,
    schemas.DataTypeFloat32,
    schemas.DataTypeFloat64,
    schemas.DataTypeInt8,
    schemas.DataTypeInt16,
    schemas.DataTypeInt32,
    schemas.DataTypeInt64,
    schemas.DataTypeUInt8,
    schemas.DataTypeUInt16,
    schemas.DataTypeUInt32,
    schemas.DataTypeUInt64,
    schemas.DataTypeList,
    schemas.DataTypeMap,
    schemas.DataTypeNull,
    schemas.DataTypeOption,
    schemas.DataTypeStruct,
    schemas.DataTypeTime,
    schemas.DataTypeTimestamp,
    schemas.DataTypeString,
    short_form=True,
)

UNIONS = (
    METADATA_EVENT,
    READ_STEP,
    FETCH_STEP,
    PREP_STEP,
    TRANSFORM,
    MERGE_STRATEGY,
    EVENT_TIME_SOURCE,
    SOURCE_CACHING,
    ATTACHMENTS,
    DATA_TYPE,
)

DATASET_KIND = EnumStorage(events.DatasetKind, "int")
COMPRESSION_FORMAT = EnumStorage(sources.CompressionFormat, "int")
SOURCE_ORDERING = EnumStorage(sources.SourceOrdering, "int")
MQTT_QOS = EnumStorage(sources.MqttQos, "int")
TIME_UNIT = EnumStorage(schemas.TimeUnit, "short")

ENUMS = (DATASET_KIND, COMPRESSION_FORMAT, SOURCE_ORDERING, MQTT_QOS, TIME_UNIT)


def _slot(name: str, holds: Kind | type | Union | EnumStorage | tuple[type | Union], *, required: bool) -> Slot:
    match holds:
        case Kind():
            return Slot(name, holds, required)
        case Union():
            return Slot(name, Kind.UNION, required, union=holds)
        case EnumStorage():
            return Slot(name, Kind.ENUM, required, enum=holds)
        case (Union() as union,):
            return Slot(name, Kind.UNIONS, required, table=PrepStepWrapper, union=union)
        case (type() as table,):
            return Slot(name, Kind.TABLES, required, table=table)
        case _:
            return Slot(name, Kind.TABLE, required, table=holds)


def _req(name: str, holds: Kind | type | Union | EnumStorage | tuple[type | Union]) -> Slot:
    return _slot(name, holds, required=True)


def _opt(name: str, holds: Kind | type | Union | EnumStorage | tuple[type | Union]) -> Slot:
    return _slot(name, holds, required=False)


MANIFEST = Table(
    Manifest,
    (_req("kind", Kind.INT64), _req("version", Kind.INT32), _req("content", Kind.BYTES)),
)
METADATA_BLOCK = Table(
    events.MetadataBlock,
    (
        _req("system_time", Kind.INSTANT),
        _opt("prev_block_hash", Kind.HASH),
        _req("sequence_number", Kind.UINT64),
        _req("event", METADATA_EVENT),
    ),
)

_EVENT_TABLES = (
    Table(
        events.AddData,
        (
            _opt("prev_checkpoint", Kind.HASH),
            _opt("prev_offset", Kind.UINT64),
            _opt("new_data", events.DataSlice),
            _opt("new_checkpoint", events.Checkpoint),
            _opt("new_watermark", Kind.INSTANT),
            _opt("new_source_state", events.SourceState),
            _opt("extra", schemas.ExtraAttributes),
        ),
    ),
    Table(
        events.ExecuteTransform,
        (
            _req("query_inputs", (events.ExecuteTransformInput,)),
            _opt("prev_checkpoint", Kind.HASH),
            _opt("prev_offset", Kind.UINT64),
            _opt("new_data", events.DataSlice),
            _opt("new_checkpoint", events.Checkpoint),
            _opt("new_watermark", Kind.INSTANT),
        ),
    ),
    Table(
        events.ExecuteTransformInput,
        (
            _req("dataset_id", Kind.DATASET_ID),
            _opt("prev_block_hash", Kind.HASH),
            _opt("new_block_hash", Kind.HASH),
            _opt("prev_offset", Kind.UINT64),
            _opt("new_offset", Kind.UINT64),
        ),
    ),
    Table(events.Seed, (_req("dataset_id", Kind.DATASET_ID), _req("dataset_kind", DATASET_KIND))),
    Table(
        events.SetPollingSource,
        (
            _req("fetch", FETCH_STEP),
            _opt("prepare", (PREP_STEP,)),
            _req("read", READ_STEP),
            _opt("preprocess", TRANSFORM),
            _req("merge", MERGE_STRATEGY),
        ),
    ),
    Table(events.SetTransform, (_req("inputs", (events.TransformInput,)), _req("transform", TRANSFORM))),
    Table(
        events.SetVocab,
        (
            _opt("offset_column", Kind.TEXT),
            _opt("operation_type_column", Kind.TEXT),
            _opt("system_time_column", Kind.TEXT),
            _opt("event_time_column", Kind.TEXT),
        ),
    ),
    Table(events.SetAttachments, (_req("attachments", ATTACHMENTS),)),
    Table(events.SetInfo, (_opt("description", Kind.TEXT), _opt("keywords", Kind.TEXTS))),
    Table(
        events.SetLicense,
        (
            _req("short_name", Kind.TEXT),
            _req("name", Kind.TEXT),
            _opt("spdx_id", Kind.TEXT),
            _req("website_url", Kind.TEXT),
        ),
    ),
    Table(events.SetDataSchema, (_opt("raw_arrow_schema", Kind.BYTES), _opt("schema", schemas.DataSchema))),
    Table(
        events.AddPushSource,
        (
            _req("source_name", Kind.TEXT),
            _req("read", READ_STEP),
            _opt("preprocess", TRANSFORM),
            _req("merge", MERGE_STRATEGY),
        ),
    ),
    Table(events.DisablePushSource, (_req("source_name", Kind.TEXT),)),
    Table(events.DisablePollingSource, ()),
    Table(events.OffsetInterval, (_req("start", Kind.UINT64), _req("end", Kind.UINT64))),
    Table(
        events.DataSlice,
        (
            _req("logical_hash", Kind.HASH),
            _req("physical_hash", Kind.HASH),
            _req("offset_interval", events.OffsetInterval),
            _req("size", Kind.UINT64),
        ),
    ),
    Table(events.Checkpoint, (_req("physical_hash", Kind.HASH), _req("size", Kind.UINT64))),
    Table(
        events.SourceState,
        (_req("source_name", Kind.TEXT), _req("kind", Kind.TEXT), _req("value", Kind.TEXT)),
    ),
    Table(events.TransformInput, (_req("dataset_ref", Kind.DATASET_REF), _opt("alias", Kind.TEXT))),
    Table(
        events.TransformSql,
        (
            _req("engine", Kind.TEXT),
            _opt("version", Kind.TEXT),
            _opt("query", Kind.TEXT),
            _opt("queries", (events.SqlQueryStep,)),
            _opt("temporal_tables", (events.TemporalTable,)),
        ),
    ),
    Table(events.SqlQueryStep, (_opt("alias", Kind.TEXT), _req("query", Kind.TEXT))),
    Table(events.TemporalTable, (_req("name", Kind.TEXT), _req("primary_key", Kind.TEXTS))),
    Table(events.AttachmentEmbedded, (_req("path", Kind.TEXT), _req("content", Kind.TEXT))),
    Table(events.AttachmentsEmbedded, (_req("items", (events.AttachmentEmbedded,)),)),
)

_SOURCE_TABLES = (
    Table(
        sources.FetchStepUrl,
        (
            _req("url", Kind.TEXT),
            _opt("event_time", EVENT_TIME_SOURCE),
            _opt("cache", SOURCE_CACHING),
            _opt("headers", (sources.RequestHeader,)),
        ),
    ),
    Table(
        sources.FetchStepFilesGlob,
        (
            _req("path", Kind.TEXT),
            _opt("event_time", EVENT_TIME_SOURCE),
            _opt("cache", SOURCE_CACHING),
            _opt("order", SOURCE_ORDERING),
        ),
    ),
    Table(
        sources.FetchStepContainer,
        (
            _req("image", Kind.TEXT),
            _opt("command", Kind.TEXTS),
            _opt("args", Kind.TEXTS),
            _opt("env", (sources.EnvVar,)),
        ),
    ),
    Table(
        sources.FetchStepMqtt,
        (
            _req("host", Kind.TEXT),
            _req("port", Kind.INT32),
            _opt("username", Kind.TEXT),
            _opt("password", Kind.TEXT),
            _req("topics", (sources.MqttTopicSubscription,)),
        ),
    ),
    Table(
        sources.FetchStepEthereumLogs,
        (
            _opt("chain_id", Kind.UINT64),
            _opt("node_url", Kind.TEXT),
            _opt("filter", Kind.TEXT),
            _opt("signature", Kind.TEXT),
        ),
    ),
    Table(sources.EventTimeSourceFromMetadata, ()),
    Table(
        sources.EventTimeSourceFromPath,
        (_req("pattern", Kind.TEXT), _opt("timestamp_format", Kind.TEXT)),
    ),
    Table(sources.EventTimeSourceFromSystemTime, ()),
    Table(sources.SourceCachingForever, ()),
    Table(sources.RequestHeader, (_req("name", Kind.TEXT), _req("value", Kind.TEXT))),
    Table(sources.EnvVar, (_req("name", Kind.TEXT), _opt("value", Kind.TEXT))),
    Table(sources.MqttTopicSubscription, (_req("path", Kind.TEXT), _opt("qos", MQTT_QOS))),
    Table(PrepStepWrapper, (_req("value", PREP_STEP),)),
    Table(sources.PrepStepDecompress, (_req("format", COMPRESSION_FORMAT), _opt("sub_path", Kind.TEXT))),
    Table(sources.PrepStepPipe, (_req("command", Kind.TEXTS),)),
    Table(
        sources.ReadStepCsv,
        (
            _opt("ddl_schema", Kind.TEXTS),
            _opt("separator", Kind.TEXT),
            _opt("encoding", Kind.TEXT),
            _opt("quote", Kind.TEXT),
            _opt("escape", Kind.TEXT),
            _opt("header", Kind.BOOL),
            _opt("infer_schema", Kind.BOOL),
            _opt("null_value", Kind.TEXT),
            _opt("date_format", Kind.TEXT),
            _opt("timestamp_format", Kind.TEXT),
            _opt("schema", schemas.DataSchema),
        ),
    ),
    Table(sources.ReadStepGeoJson, (_opt("ddl_schema", Kind.TEXTS), _opt("schema", schemas.DataSchema))),
    Table(
        sources.ReadStepEsriShapefile,
        (
            _opt("ddl_schema", Kind.TEXTS),
            _opt("sub_path", Kind.TEXT),
            _opt("schema", schemas.DataSchema),
        ),
    ),
    Table(sources.ReadStepParquet, (_opt("ddl_schema", Kind.TEXTS), _opt("schema", schemas.DataSchema))),
    Table(
        sources.ReadStepJson,
        (
            _opt("sub_path", Kind.TEXT),
            _opt("ddl_schema", Kind.TEXTS),
            _opt("date_format", Kind.TEXT),
            _opt("encoding", Kind.TEXT),
            _opt("timestamp_format", Kind.TEXT),
            _opt("schema", schemas.DataSchema),
        ),
    ),
    Table(
        sources.ReadStepNdJson,
        (
            _opt("ddl_schema", Kind.TEXTS),
            _opt("date_format", Kind.TEXT),
            _opt("encoding", Kind.TEXT),
            _opt("timestamp_format", Kind.TEXT),
            _opt("schema", schemas.DataSchema),
        ),
    ),
    Table(sources.ReadStepNdGeoJson, (_opt("ddl_schema", Kind.TEXTS), _opt("schema", schemas.DataSchema))),
    Table(sources.MergeStrategyAppend, ()),
    Table(sources.MergeStrategyLedger, (_req("primary_key", Kind.TEXTS),)),
    Table(
        sources.MergeStrategySnapshot,
        (_req("primary_key", Kind.TEXTS), _opt("compare_columns", Kind.TEXTS)),
    ),
    Table(sources.MergeStrategyChangelogStream, (_req("primary_key", Kind.TEXTS),)),
    Table(sources.MergeStrategyUpsertStream, (_req("primary_key", Kind.TEXTS),)),
)

_UNIT = _opt("unit", TIME_UNIT)

_SCHEMA_TABLES = (
    Table(schemas.ExtraAttributes, (_req("entries", Kind.JSON_OBJECT),)),
    Table(
        schemas.DataSchema,
        (_req("fields", (schemas.DataField,)), _opt("extra", schemas.ExtraAttributes)),
    ),
    Table(
        schemas.DataField,
        (_req("name", Kind.TEXT), _req("type", DATA_TYPE), _opt("extra", schemas.ExtraAttributes)),
    ),
    Table(schemas.DataTypeBinary, (_opt("fixed_length", Kind.UINT64),)),
    Table(schemas.DataTypeBool, ()),
    Table(schemas.DataTypeDate, ()),
    Table(schemas.DataTypeDecimal, (_req("precision", Kind.UINT32), _req("scale", Kind.INT32))),
    Table(schemas.DataTypeDuration, (_UNIT,)),
    Table(schemas.DataTypeFloat16, ()),
    Table(schemas.DataTypeFloat32, ()),
    Table(schemas.DataTypeFloat64, ()),
    Table(schemas.DataTypeInt8, ()),
    Table(schemas.DataTypeInt16, ()),
    Table(schemas.DataTypeInt32, ()),
    Table(schemas.DataTypeInt64, ()),
    Table(schemas.DataTypeUInt8, ()),
    Table(schemas.DataTypeUInt16, ()),
    Table(schemas.DataTypeUInt32, ()),
    Table(schemas.DataTypeUInt64, ()),
    Table(schemas.DataTypeList, (_req("item_type", DATA_TYPE), _opt("fixed_length", Kind.UINT64))),
    Table(
        schemas.DataTypeMap,
        (_req("key_type", DATA_TYPE), _req("value_type", DATA_TYPE), _opt("keys_sorted", Kind.BOOL)),
    ),
    Table(schemas.DataTypeNull, ()),
    Table(schemas.DataTypeOption, (_req("inner", DATA_TYPE),)),
    Table(schemas.DataTypeStruct, (_req("fields", (schemas.DataField,)),)),
    Table(schemas.DataTypeTime, (_UNIT,)),
    Table(schemas.DataTypeTimestamp, (_UNIT, _opt("timezone", Kind.TEXT))),
    Table(schemas.DataTypeString, ()),
)

TABLES: dict[type, Table] = {
    table.type: table for table in (MANIFEST, METADATA_BLOCK, *_EVENT_TABLES, *_SOURCE_TABLES, *_SCHEMA_TABLES)
}
