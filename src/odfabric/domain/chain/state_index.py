"""Decisions about current-state indexes: which dataset has one, of what, when.

Owns the choice by merge strategy and the epoch, which ties an index to everything that it depends on. Invariant: two chain states
of one epoch give indexes with the same rows. Not here: rows (`formats.slices.state_rows`), where an index lies (`ports.datasets.state_index`).
Source: ADR 0015.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state import ChainState
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeBinary,
    DataTypeBool,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeFloat32,
    DataTypeFloat64,
    DataTypeInt8,
    DataTypeInt16,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTimestamp,
    DataTypeUInt8,
    DataTypeUInt16,
    DataTypeUInt32,
    DataTypeUInt64,
)
from odfabric.model.source import MergeStrategy, MergeStrategyAppend, MergeStrategyLedger
from odfabric.model.state_index import IndexDefinition, IndexFrontier, IndexMode

_NESTED_DIGITS_MAX = 38
"""Digits of decimals that have canonical bytes."""

FORMAT = 1
"""Part of every epoch: a number for what rows of an index are. Anyone who changes that counts it up."""

_INDEXED_TYPES = (
    DataTypeBinary,
    DataTypeBool,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeFloat32,
    DataTypeFloat64,
    DataTypeInt8,
    DataTypeInt16,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeString,
    DataTypeTimestamp,
    DataTypeUInt8,
    DataTypeUInt16,
    DataTypeUInt32,
    DataTypeUInt64,
)
"""Types that an index can hold. Rows with others are added up from their slices."""


@dataclass(frozen=True, slots=True)
class NoIndex:
    """Why a dataset has no index, for people."""

    reason: str


def index_definition(state: ChainState) -> IndexDefinition | NoIndex:
    """The index that a dataset should have.

    Its merges say which: a Ledger needs the keys ever seen, what knows states net rows.
    """
    found = {(mode, keys_of(source)) for source in _strategies(state) if (mode := _mode(source)) is not None}
    if not found:
        return NoIndex("no source merges by key")
    if len(found) > 1:
        return NoIndex("its sources merge by different keys or strategies")
    ((mode, keys),) = found
    schema = current_schema(state)
    if schema is None:
        return NoIndex("it has no data yet")
    return _definition(state, mode, keys, schema)


def row_columns(state: ChainState, schema: DataSchema) -> tuple[DataField, ...]:
    """The columns that identify a row: all but offset, op and system time.

    Each is optional in older slices.
    """
    vocabulary = state.vocabulary
    apart = (vocabulary.offset, vocabulary.operation_type, vocabulary.system_time)
    return tuple(DataField(name=one.name, type=_optional(one.type)) for one in schema.fields if one.name not in apart)


def not_addable(columns: tuple[DataField, ...]) -> DataField | None:
    """The first column with values that cannot be compared; None if all can.

    Values within lists and structs count too.
    """
    return next((one for one in columns if not _is_addable(one.type, nested=False)), None)


def _is_addable(data_type: DataType, *, nested: bool) -> bool:
    match _inner(data_type):
        case DataTypeList(item_type=item):
            return _is_addable(item, nested=True)
        case DataTypeStruct(fields=fields):
            return all(_is_addable(one.type, nested=True) for one in fields)
        case DataTypeDecimal(precision=precision) if nested:
            return precision <= _NESTED_DIGITS_MAX
        case plain:
            return isinstance(plain, _INDEXED_TYPES)


def _not_indexable(columns: tuple[DataField, ...]) -> DataField | None:
    """The first column that an index cannot hold, None if it can hold all."""
    return next((one for one in columns if not isinstance(_inner(one.type), _INDEXED_TYPES)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPace:
    """When an index is brought forward, and how far back it can tell states.

    Once it is more than `tail_blocks_max` blocks behind, or more rows than the `tail_share_max`-th part of what it
    keeps and than `tail_rows_min`. It can tell states of the last `history_blocks` blocks."""

    tail_blocks_max: int
    tail_rows_min: int
    tail_share_max: float
    history_blocks: int


def is_due(state: ChainState, frontier: IndexFrontier | None, pace: IndexPace) -> bool:
    """Whether to bring an index forward; not each commit, never a stopped one."""
    if state.last_data is None:
        return False
    upper, next_offset, rows = 0, 0, 0
    if frontier is not None:
        if frontier.violation is not None:
            return False
        upper, next_offset, rows = frontier.upper, frontier.next_offset, frontier.rows
    blocks_behind = state.last_data.sequence_number + 1 - upper
    rows_behind = state.next_offset - next_offset
    return blocks_behind > pace.tail_blocks_max or rows_behind > max(pace.tail_rows_min, pace.tail_share_max * rows)


def serves(definition: IndexDefinition, strategy: MergeStrategy) -> bool:
    """Whether a merge can read this index in the place of what it stands for."""
    return _mode(strategy) is definition.mode and keys_of(strategy) == definition.keys


def _mode(strategy: MergeStrategy) -> IndexMode | None:
    """What a strategy asks of the history; None if it asks nothing."""
    match strategy:
        case MergeStrategyAppend():
            return None
        case MergeStrategyLedger():
            return IndexMode.KEYS
        case _:
            return IndexMode.STATE


def _definition(
    state: ChainState, mode: IndexMode, keys: tuple[str, ...], schema: DataSchema
) -> IndexDefinition | NoIndex:
    columns = row_columns(state, schema)
    missing = sorted(set(keys) - {one.name for one in columns})
    if missing:
        return NoIndex(f"its key column `{missing[0]}` is not there")
    if mode is IndexMode.KEYS:
        columns = tuple(one for one in columns if one.name in keys)
    refused = _not_indexable(columns)
    if refused is not None:
        kind = type(_inner(refused.type)).__name__.removeprefix("DataType")
        return NoIndex(f"column `{refused.name}` is of type {kind}, which an index cannot hold")
    return IndexDefinition(
        dataset=state.dataset_id,
        epoch=_epoch(state, mode, keys, columns),
        mode=mode,
        keys=keys,
        columns=DataSchema(fields=columns),
        vocabulary=state.vocabulary,
    )


def _epoch(state: ChainState, mode: IndexMode, keys: tuple[str, ...], columns: tuple[DataField, ...]) -> str:
    """The epoch, without columns that are no keys.

    A chain admits no change of those but further ones that may be null.
    """
    assert state.seed is not None
    vocabulary = state.vocabulary
    document = [
        FORMAT,
        str(state.seed.block_hash),
        mode.value,
        [[one.name, repr(one.type)] for one in columns if one.name in keys],
        list(keys),
        [vocabulary.offset, vocabulary.operation_type],
    ]
    return hashlib.sha3_256(json.dumps(document).encode()).hexdigest()[:32]


def _strategies(state: ChainState) -> Iterator[MergeStrategy]:
    if state.polling_source is not None:
        yield state.polling_source.event.merge
    for source in state.push_sources:
        yield source.event.merge


def keys_of(strategy: MergeStrategy) -> tuple[str, ...]:
    """The primary key, none of Append."""
    return () if isinstance(strategy, MergeStrategyAppend) else strategy.primary_key


def _inner(data_type: DataType) -> DataType:
    return data_type.inner if isinstance(data_type, DataTypeOption) else data_type


def _optional(data_type: DataType) -> DataType:
    return data_type if isinstance(data_type, DataTypeOption) else DataTypeOption(inner=data_type)
