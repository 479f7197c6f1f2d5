"""Which dataset has which index, and when it is brought forward."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.state_index import IndexPace, NoIndex, index_definition, is_due, not_addable, serves
from odfabric.domain.chain.walk import read_state
from odfabric.model.data_schema import (
    DataField,
    DataType,
    DataTypeDecimal,
    DataTypeInt64,
    DataTypeList,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    TimeUnit,
)
from odfabric.model.metadata import AddPushSource, DatasetKind, SetDataSchema
from odfabric.model.source import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from odfabric.model.state_index import IndexDefinition, IndexFrontier, IndexMode, Violation
from odfabric.testing.chains import ChainBuilder, example_push_source, example_schema, physical_hash

CITY = DataField(name="city", type=DataTypeOption(inner=DataTypeString()))
COUNT = DataField(name="count", type=DataTypeInt64())
TAGS = DataField(name="tags", type=DataTypeList(item_type=DataTypeString()))
SNAPSHOT, LEDGER = MergeStrategySnapshot(primary_key=("city",)), MergeStrategyLedger(primary_key=("city",))
UPSERTS = MergeStrategyUpsertStream(primary_key=("city",))


def source(merge: MergeStrategy, name: str = "default") -> AddPushSource:
    return replace(example_push_source(name), merge=merge)


def chain(*merges: MergeStrategy, fields: tuple[DataField, ...] = (CITY, COUNT)) -> ChainBuilder:
    builder = ChainBuilder(DatasetKind.ROOT)
    for number, merge in enumerate(merges):
        builder.append(source(merge, f"source{number}"))
    builder.append(SetDataSchema(schema=example_schema(*fields)))
    return builder


def state_of(builder: ChainBuilder) -> ChainState:
    return read_state(builder, builder.head)


def definition(builder: ChainBuilder) -> IndexDefinition:
    found = index_definition(state_of(builder))
    assert isinstance(found, IndexDefinition)
    return found


def test_merges_say_what_is_indexed() -> None:
    states = definition(chain(SNAPSHOT))
    assert (states.mode, states.keys) == (IndexMode.STATE, ("city",))
    assert [column.name for column in states.columns.fields] == ["event_time", "city", "count"]
    assert all(isinstance(column.type, DataTypeOption) for column in states.columns.fields)
    keys = definition(chain(LEDGER, MergeStrategyAppend()))
    assert keys.mode is IndexMode.KEYS
    assert [column.name for column in keys.columns.fields] == ["city"]


@pytest.mark.parametrize(
    ("merges", "fields", "reason"),
    [
        ((), (CITY,), "no source"),
        ((MergeStrategyAppend(),), (CITY,), "no source"),
        ((SNAPSHOT, LEDGER), (CITY,), "different"),
        ((SNAPSHOT, MergeStrategySnapshot(primary_key=("count",))), (CITY, COUNT), "different"),
        ((SNAPSHOT,), (CITY, TAGS), "`tags` is of type List"),
        ((SNAPSHOT,), (COUNT,), "`city` is not there"),
        ((UPSERTS, LEDGER), (CITY,), "different"),
    ],
)
def test_others_have_none_and_the_reason_is_said(
    merges: tuple[MergeStrategy, ...], fields: tuple[DataField, ...], reason: str
) -> None:
    found = index_definition(state_of(chain(*merges, fields=fields)))
    assert isinstance(found, NoIndex)
    assert reason in found.reason


def test_streams_of_changes_ask_for_states_as_snapshots_do() -> None:
    changes = MergeStrategyChangelogStream(primary_key=("city",))
    states = definition(chain(SNAPSHOT, UPSERTS, changes))
    assert (states.mode, states.keys) == (IndexMode.STATE, ("city",))
    assert states.epoch == definition(chain(changes)).epoch
    assert serves(states, UPSERTS)
    assert serves(states, changes)
    assert not serves(states, MergeStrategyUpsertStream(primary_key=("count",)))


def test_keys_of_a_ledger_may_stand_beside_nested_columns() -> None:
    assert definition(chain(LEDGER, fields=(CITY, TAGS))).mode is IndexMode.KEYS


def test_a_dataset_without_a_schema_has_none_yet() -> None:
    builder = ChainBuilder(DatasetKind.ROOT)
    builder.append(source(SNAPSHOT))
    assert index_definition(state_of(builder)) == NoIndex("it has no data yet")


def test_an_epoch_is_what_an_index_depends_on() -> None:
    builder = chain(SNAPSHOT)
    first = definition(builder)
    builder.append(builder.next_add_data(rows=3))
    builder.append(source(replace(SNAPSHOT, compare_columns=("count",)), "source0"))
    assert definition(builder) == first
    more = DataField(name="more", type=DataTypeOption(inner=DataTypeInt64()))
    builder.append(SetDataSchema(schema=example_schema(more, CITY, COUNT)))
    assert definition(builder).epoch == first.epoch
    assert [one.name for one in definition(builder).columns.fields] == ["event_time", "more", "city", "count"]
    text = DataField(name="city", type=DataTypeInt64())
    other = chain(SNAPSHOT, fields=(text, COUNT))
    keyed = chain(MergeStrategySnapshot(primary_key=("count",)))
    ledger = chain(LEDGER)
    assert len({one.epoch for one in (first, *map(definition, (other, keyed, ledger)))}) == 4


def test_only_the_merge_that_asks_the_same_is_served() -> None:
    states, keys = definition(chain(SNAPSHOT)), definition(chain(LEDGER))
    assert serves(states, SNAPSHOT)
    assert serves(keys, LEDGER)
    assert not serves(states, LEDGER)
    assert not serves(keys, SNAPSHOT)
    assert not serves(states, MergeStrategySnapshot(primary_key=("count",)))
    assert not serves(keys, MergeStrategyAppend())


PACE = IndexPace(tail_blocks_max=2, tail_rows_min=10, tail_share_max=0.5, history_blocks=1)


def frontier(upper: int, next_offset: int, *, rows: int = 0, violation: Violation | None = None) -> IndexFrontier:
    return IndexFrontier(
        since=0,
        upper=upper,
        block_hash=None,
        next_offset=next_offset,
        rows=rows,
        bytes=0,
        tail_slices=0,
        tail_rows=0,
        violation=violation,
    )


def test_an_index_follows_after_some_blocks_or_many_rows() -> None:
    builder = chain(SNAPSHOT)
    assert not is_due(state_of(builder), None, PACE)
    for _ in range(4):
        builder.append(builder.next_add_data(rows=5))
    state = state_of(builder)
    upper = (state.sequence_number or 0) + 1
    assert is_due(state, None, PACE)
    assert is_due(state, frontier(upper - 3, 20), PACE)
    assert not is_due(state, frontier(upper - 2, 20), PACE)
    assert not is_due(state, frontier(upper, 10), PACE)
    assert is_due(state, frontier(upper, 9), PACE)
    assert not is_due(state, frontier(upper, 9, rows=22), PACE)
    stopped = Violation(sequence_number=1, block_hash=physical_hash("b"), key="k")
    assert not is_due(state, frontier(1, 0, violation=stopped), PACE)


@pytest.mark.parametrize(
    ("data_type", "addable"),
    [
        (DataTypeList(item_type=DataTypeOption(inner=DataTypeString())), True),
        (DataTypeStruct(fields=(DataField(name="a", type=DataTypeDecimal(precision=38, scale=2)),)), True),
        (DataTypeStruct(fields=(DataField(name="a", type=DataTypeDecimal(precision=39, scale=2)),)), False),
        (DataTypeList(item_type=DataTypeTime(unit=TimeUnit.MILLISECOND)), False),
        (DataTypeDecimal(precision=50, scale=2), True),
        (DataTypeTime(unit=TimeUnit.MILLISECOND), False),
    ],
)
def test_rows_are_added_up_where_their_values_can_be_compared(data_type: DataType, addable: bool) -> None:
    columns = (CITY, DataField(name="x", type=DataTypeOption(inner=data_type)))
    assert not_addable(columns) == (None if addable else columns[1])
