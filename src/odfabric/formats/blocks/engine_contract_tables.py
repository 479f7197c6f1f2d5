"""Tables of the engine contract: each message's fields in order of slots.

The contract is `engine.Engine`, the slots are those of its binary form.

Owns the description from which the binary codec is made, beside the tables of blocks, with which it shares intervals and
transforms. Invariant: `proto/odf-engine.fbs` says the same; a test compares them. Not here: reading and writing
(`formats.blocks.engine_contract`). Source: the reference's engine contract.
"""

from __future__ import annotations

from odfabric.formats.blocks.block_tables import TRANSFORM, Kind, Slot, Table, Union
from odfabric.model import engine_contract as contract
from odfabric.model.metadata import OffsetInterval

RAW_QUERY_RESPONSE = Union(
    "RawQueryResponse",
    (
        contract.RawQueryResponseProgress,
        contract.RawQueryResponseSuccess,
        contract.RawQueryResponseInvalidQuery,
        contract.RawQueryResponseInternalError,
    ),
    ("Progress", "Success", "InvalidQuery", "InternalError"),
)
TRANSFORM_RESPONSE = Union(
    "TransformResponse",
    (
        contract.TransformResponseProgress,
        contract.TransformResponseSuccess,
        contract.TransformResponseInvalidQuery,
        contract.TransformResponseInternalError,
    ),
    ("Progress", "Success", "InvalidQuery", "InternalError"),
)
ENGINE_UNIONS = (RAW_QUERY_RESPONSE, TRANSFORM_RESPONSE)


def _req(name: str, kind: Kind, table: type | None = None, union: Union | None = None) -> Slot:
    return Slot(name, kind, True, table=table, union=union)


def _opt(name: str, kind: Kind, table: type | None = None) -> Slot:
    return Slot(name, kind, False, table=table)


_TABLES = (
    Table(
        contract.DatasetVocabulary,
        (
            _opt("offset_column", Kind.TEXT),
            _opt("operation_type_column", Kind.TEXT),
            _opt("system_time_column", Kind.TEXT),
            _opt("event_time_column", Kind.TEXT),
        ),
    ),
    Table(contract.Watermark, (_req("system_time", Kind.INSTANT), _req("event_time", Kind.INSTANT))),
    Table(
        contract.RawQueryRequest,
        (
            _req("input_data_paths", Kind.TEXTS),
            _req("transform", Kind.UNION, union=TRANSFORM),
            _req("output_data_path", Kind.TEXT),
        ),
    ),
    Table(
        contract.TransformRequestInput,
        (
            _req("dataset_id", Kind.DATASET_ID),
            _req("dataset_alias", Kind.TEXT),
            _req("query_alias", Kind.TEXT),
            _req("vocab", Kind.TABLE, contract.DatasetVocabulary),
            _opt("offset_interval", Kind.TABLE, OffsetInterval),
            _req("data_paths", Kind.TEXTS),
            _req("schema_file", Kind.TEXT),
            _req("explicit_watermarks", Kind.TABLES, contract.Watermark),
        ),
    ),
    Table(
        contract.TransformRequest,
        (
            _req("dataset_id", Kind.DATASET_ID),
            _req("dataset_alias", Kind.TEXT),
            _req("system_time", Kind.INSTANT),
            _req("vocab", Kind.TABLE, contract.DatasetVocabulary),
            _req("transform", Kind.UNION, union=TRANSFORM),
            _req("query_inputs", Kind.TABLES, contract.TransformRequestInput),
            _req("next_offset", Kind.UINT64),
            _opt("prev_checkpoint_path", Kind.TEXT),
            _req("new_checkpoint_path", Kind.TEXT),
            _req("new_data_path", Kind.TEXT),
        ),
    ),
    Table(contract.RawQueryResponseProgress, ()),
    Table(contract.RawQueryResponseSuccess, (_req("num_records", Kind.UINT64),)),
    Table(contract.RawQueryResponseInvalidQuery, (_req("message", Kind.TEXT),)),
    Table(contract.RawQueryResponseInternalError, (_req("message", Kind.TEXT), _opt("backtrace", Kind.TEXT))),
    Table(contract.RawQueryResponseRoot, (_req("value", Kind.UNION, union=RAW_QUERY_RESPONSE),)),
    Table(contract.TransformResponseProgress, ()),
    Table(
        contract.TransformResponseSuccess,
        (_opt("new_offset_interval", Kind.TABLE, OffsetInterval), _opt("new_watermark", Kind.INSTANT)),
    ),
    Table(contract.TransformResponseInvalidQuery, (_req("message", Kind.TEXT),)),
    Table(contract.TransformResponseInternalError, (_req("message", Kind.TEXT), _opt("backtrace", Kind.TEXT))),
    Table(contract.TransformResponseRoot, (_req("value", Kind.UNION, union=TRANSFORM_RESPONSE),)),
)

ENGINE_TABLES: dict[type, Table] = {table.type: table for table in _TABLES}
