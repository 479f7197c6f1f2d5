"""What may change between two schemas of a dataset, and valid slices."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.chain.schema_evolution import (
    FieldChange,
    check_evolution,
    check_slice_schema,
    current_schema,
    schema_differences,
    schema_of_event,
    schema_text,
)
from odfabric.domain.chain.state import ChainState
from odfabric.errors import IncompatibleSchema, InvalidBlock
from odfabric.formats.slices.arrow_schema import with_explicit_defaults
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeBinary,
    DataTypeBool,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    ExtraAttributes,
    TimeUnit,
)
from odfabric.model.metadata import DatasetKind, SetDataSchema
from odfabric.testing.chains import ChainBuilder, example_schema
from tests.support.chains.legacy_schemas import legacy


def column(name: str, data_type: DataType, extra: str | None = None) -> DataField:
    return DataField(name=name, type=data_type, extra=ExtraAttributes(entries=extra) if extra else None)


def optional(data_type: DataType) -> DataType:
    return DataTypeOption(inner=data_type)


def schema(*fields: DataField, extra: str | None = None) -> DataSchema:
    return DataSchema(fields=fields, extra=ExtraAttributes(entries=extra) if extra else None)


def struct(*fields: DataField) -> DataType:
    return DataTypeStruct(fields=fields)


def items(data_type: DataType, length: int | None = None) -> DataType:
    return DataTypeList(item_type=data_type, fixed_length=length)


def mapping(key: DataType, value: DataType, keys_sorted: bool | None = None) -> DataType:
    return DataTypeMap(key_type=key, value_type=value, keys_sorted=keys_sorted)


INT, LONG, TEXT = DataTypeInt32(), DataTypeInt64(), DataTypeString()
A, B = column("a", LONG), column("b", TEXT)
MILLIS_UTC = DataTypeTimestamp(unit=TimeUnit.MILLISECOND, timezone="UTC")

ACCEPTED = {
    "optional field added": (schema(A), schema(A, column("x", optional(LONG)))),
    "optional field added in front": (schema(A), schema(column("x", optional(LONG)), A)),
    "optional field added in a struct": (
        schema(column("s", struct(A))),
        schema(column("s", struct(A, column("x", optional(LONG))))),
    ),
    "optional field added in a list of structs": (
        schema(column("s", optional(items(optional(struct(A)))))),
        schema(column("s", optional(items(optional(struct(A, column("x", optional(LONG)))))))),
    ),
    "optional field added in map values": (
        schema(column("m", mapping(TEXT, struct(A)))),
        schema(column("m", mapping(TEXT, struct(A, column("x", optional(LONG)))))),
    ),
    "reordered": (schema(A, B), schema(B, A)),
    "reordered in a struct": (schema(column("s", struct(A, B))), schema(column("s", struct(B, A)))),
    "reordered, added and described": (
        schema(A, B),
        schema(B, column("x", optional(LONG)), column("a", LONG, '{"example.org/d":"x"}')),
    ),
    "attributes of a field": (schema(A), schema(column("a", LONG, '{"example.org/d":"x"}'))),
    "attributes of a field in a list of structs": (
        schema(column("s", items(struct(A)))),
        schema(column("s", items(struct(column("a", LONG, '{"example.org/d":"x"}'))))),
    ),
    "attributes of the schema": (schema(A), schema(A, extra='{"example.org/d":"x"}')),
    "attributes from 1 to true": (schema(A, extra='{"example.org/d":1}'), schema(A, extra='{"example.org/d":true}')),
}

REJECTED = {
    "required field added": (schema(A), schema(A, B), "field 'b' was added and is not optional"),
    "required field added in a struct": (
        schema(column("s", struct(A))),
        schema(column("s", struct(A, B))),
        "field 's.b' was added and is not optional",
    ),
    "field removed": (schema(A, B), schema(A), "field 'b' was removed"),
    "field renamed": (
        schema(A, column("b", optional(TEXT))),
        schema(A, column("c", optional(TEXT))),
        "'b' was removed",
    ),
    "field renamed in case only": (schema(A), schema(column("A", LONG)), "'a' was removed"),
    "field removed from a list of structs": (
        schema(column("s", items(struct(A, B)))),
        schema(column("s", items(struct(A)))),
        "field 's[].b' was removed",
    ),
    "type changed": (schema(A), schema(column("a", INT)), "field 'a' changed its type (Int64 to Int32)"),
    "type changed beside an added field": (
        schema(A, B),
        schema(column("a", INT), column("x", optional(LONG)), B),
        "field 'a' changed its type",
    ),
    "type changed beside a moved field": (schema(A, B), schema(B, column("a", INT)), "field 'a' changed its type"),
    "type changed under an Option": (
        schema(column("a", optional(LONG))),
        schema(column("a", optional(INT))),
        "field 'a' changed its type",
    ),
    "became optional": (schema(A), schema(column("a", optional(LONG))), "field 'a' became optional"),
    "became required": (schema(column("a", optional(LONG))), schema(A), "field 'a' became required"),
    "items became optional": (
        schema(column("l", items(LONG))),
        schema(column("l", items(optional(LONG)))),
        "field 'l[]' became optional",
    ),
    "member became required": (
        schema(column("s", struct(column("a", optional(LONG))))),
        schema(column("s", struct(A))),
        "field 's.a' became required",
    ),
    "items changed": (
        schema(column("l", items(LONG))),
        schema(column("l", items(INT))),
        "field 'l[]' changed its type",
    ),
    "list got a fixed length": (
        schema(column("l", items(LONG))),
        schema(column("l", items(LONG, 3))),
        "changed its type",
    ),
    "map key changed": (
        schema(column("m", mapping(TEXT, LONG))),
        schema(column("m", mapping(LONG, LONG))),
        "field 'm{key}' changed its type",
    ),
    "map value changed": (
        schema(column("m", mapping(TEXT, LONG))),
        schema(column("m", mapping(TEXT, INT))),
        "field 'm{value}' changed its type",
    ),
    "map became sorted": (
        schema(column("m", mapping(TEXT, LONG))),
        schema(column("m", mapping(TEXT, LONG, True))),
        "(Map<String, Int64> to Map<String, Int64; sorted>)",
    ),
    "struct became a list": (schema(column("s", struct(A))), schema(column("s", items(struct(A)))), "changed its type"),
    "scale changed": (
        schema(column("d", DataTypeDecimal(precision=10, scale=2))),
        schema(column("d", DataTypeDecimal(precision=10, scale=3))),
        "(Decimal(10, 2) to Decimal(10, 3))",
    ),
    "unit changed": (
        schema(column("t", DataTypeTimestamp())),
        schema(column("t", DataTypeTimestamp(unit=TimeUnit.MICROSECOND))),
        "(Timestamp(millisecond, UTC) to Timestamp(microsecond, UTC))",
    ),
    "zone changed": (
        schema(column("t", DataTypeTimestamp())),
        schema(column("t", DataTypeTimestamp(timezone="Europe/Kyiv"))),
        "changed its type",
    ),
    "field twice": (schema(A), schema(A, A), "field 'a' appears more than once"),
}

IDENTICAL = {
    "equal": (schema(A, B), schema(A, B)),
    "timestamp defaults": (schema(column("t", DataTypeTimestamp())), schema(column("t", MILLIS_UTC))),
    "nested timestamp defaults": (
        schema(column("t", optional(items(struct(column("t", MILLIS_UTC)))))),
        schema(column("t", optional(items(struct(column("t", DataTypeTimestamp())))))),
    ),
    "time and duration defaults": (
        schema(column("t", DataTypeTime()), column("d", DataTypeDuration(unit=TimeUnit.MILLISECOND))),
        schema(column("t", DataTypeTime(unit=TimeUnit.MILLISECOND)), column("d", DataTypeDuration())),
    ),
    "unsorted keys": (schema(column("m", mapping(TEXT, LONG))), schema(column("m", mapping(TEXT, LONG, False)))),
    "attributes in another spelling": (schema(A, extra='{"x":1,"y":2}'), schema(A, extra='{ "y": 2, "x": 1 }')),
    "no attributes and none": (schema(A), schema(A, extra="{}")),
}


def evolve(current: DataSchema, new: DataSchema) -> None:
    check_evolution(SetDataSchema(schema=new), SetDataSchema(schema=current))


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_evolution_that_keeps_old_slices_readable_is_accepted(name: str) -> None:
    evolve(*ACCEPTED[name])


@pytest.mark.parametrize("name", REJECTED)
def test_any_other_evolution_is_rejected_with_the_field(name: str) -> None:
    current, new, text = REJECTED[name]
    with pytest.raises(InvalidBlock, match="New schema is not compatible with the current schema") as refusal:
        evolve(current, new)
    assert refusal.value.kind == "InvalidEvent"
    assert text in refusal.value.message
    assert schema_text(current) in refusal.value.message
    assert schema_text(new) in refusal.value.message


@pytest.mark.parametrize("name", IDENTICAL)
def test_a_schema_that_means_the_same_is_no_change(name: str) -> None:
    with pytest.raises(InvalidBlock, match="New schema is identical to the current") as refusal:
        evolve(*IDENTICAL[name])
    assert refusal.value.kind == "NoOpEvent"


def test_the_first_upgrade_from_the_legacy_form_may_change_what_is_optional() -> None:
    old = legacy(pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string(), nullable=True))
    assert schema_of_event(old) == schema(A, column("b", optional(TEXT)))
    check_evolution(SetDataSchema(schema=schema(column("a", optional(LONG)), B)), old)


def test_the_first_upgrade_from_the_legacy_form_may_not_change_types() -> None:
    old = legacy(pa.field("a", pa.int64(), nullable=False))
    with pytest.raises(InvalidBlock, match="changed its type"):
        check_evolution(SetDataSchema(schema=schema(column("a", TEXT))), old)


def test_events_in_legacy_form_are_not_judged() -> None:
    check_evolution(legacy(pa.field("z", pa.int8())), SetDataSchema(schema=schema(A)))


def test_the_schema_in_force_is_the_nearest_one_upgraded() -> None:
    chain = ChainBuilder(DatasetKind.ROOT)
    assert current_schema(ChainState.empty()) is None
    chain.append(legacy(pa.field("a", pa.int64(), nullable=False)))
    assert current_schema(chain.state) == schema(A)
    chain.append(SetDataSchema(schema=schema(A, column("x", optional(TEXT)))))
    assert current_schema(chain.state) == schema(A, column("x", optional(TEXT)))


# --- slices -----------------------------------------------------------------------------------------------------------

FITTING = {
    "equal": (schema(A, B), schema(A, B)),
    "required where optional is allowed": (schema(A, column("b", optional(TEXT))), schema(A, B)),
    "required items where optional ones are allowed": (
        schema(column("l", items(optional(LONG)))),
        schema(column("l", items(LONG))),
    ),
    "described": (schema(column("a", LONG, '{"example.org/d":"x"}')), schema(A)),
}

NOT_FITTING = {
    "column missing": (schema(A, column("b", optional(TEXT))), schema(A), "b"),
    "column too many": (schema(A), schema(A, column("b", optional(TEXT))), "b"),
    "other order": (schema(A, B), schema(B, A), None),
    "nullable where required": (schema(A), schema(column("a", optional(LONG))), "a"),
    "nullable items where required": (
        schema(column("l", items(LONG))),
        schema(column("l", items(optional(LONG)))),
        "l[]",
    ),
    "other type": (schema(A), schema(column("a", INT)), "a"),
    "other order in a struct": (schema(column("s", struct(A, B))), schema(column("s", struct(B, A))), "s"),
}


@pytest.mark.parametrize("name", FITTING)
def test_a_slice_that_promises_at_least_as_much_fits(name: str) -> None:
    check_slice_schema(*FITTING[name])


@pytest.mark.parametrize("name", NOT_FITTING)
def test_any_other_slice_is_refused_with_the_field(name: str) -> None:
    dataset, new, field = NOT_FITTING[name]
    with pytest.raises(IncompatibleSchema, match="Schema of the new slice is not compatible") as refusal:
        check_slice_schema(dataset, new)
    assert refusal.value.place.field == field


# --- laws -------------------------------------------------------------------------------------------------------------

LEAVES: st.SearchStrategy[DataType] = st.sampled_from(
    [INT, LONG, TEXT, DataTypeBool(), DataTypeDate(), DataTypeBinary(), DataTypeTimestamp(), MILLIS_UTC, DataTypeTime()]
)


def fields_of(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[tuple[DataField, ...]]:
    named = st.lists(
        st.tuples(st.sampled_from("abcdef"), types), min_size=1, max_size=4, unique_by=lambda pair: pair[0]
    )
    return named.map(lambda pairs: tuple(column(name, data_type) for name, data_type in pairs))


def deeper(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    return st.one_of(
        types.filter(lambda inner: not isinstance(inner, DataTypeOption)).map(optional),
        types.map(items),
        types.map(lambda value: mapping(TEXT, value)),
        fields_of(types).map(lambda members: struct(*members)),
    )


TYPES: st.SearchStrategy[DataType] = st.recursive(LEAVES, deeper, max_leaves=6)
SCHEMAS: st.SearchStrategy[DataSchema] = fields_of(TYPES).map(lambda fields: schema(*fields))


@given(SCHEMAS, SCHEMAS)
def test_no_differences_means_equal_in_meaning(one: DataSchema, other: DataSchema) -> None:
    assert (not schema_differences(one, other)) == (with_explicit_defaults(one) == with_explicit_defaults(other))


@given(SCHEMAS)
def test_writing_defaults_out_changes_nothing(one: DataSchema) -> None:
    assert schema_differences(one, with_explicit_defaults(one)) == ()
    check_slice_schema(one, with_explicit_defaults(one))


def accepted(current: DataSchema, new: DataSchema) -> bool:
    try:
        evolve(current, new)
    except InvalidBlock:
        return False
    return True


ORDERS = st.permutations(range(5))


@given(SCHEMAS, ORDERS, TYPES)
def test_an_evolution_can_go_back_only_if_nothing_was_added(
    base: DataSchema, order: list[int], data_type: DataType
) -> None:
    fresh = column("new", data_type if isinstance(data_type, DataTypeOption) else optional(data_type))
    moved = replace(base, fields=tuple(base.fields[i] for i in order if i < len(base.fields)))
    grown = replace(moved, fields=(*moved.fields, fresh))
    assert accepted(base, grown)
    assert not accepted(grown, base)
    assert accepted(base, moved) == (moved != base)
    assert accepted(moved, base) == (moved != base)


def evolved(base: DataSchema, order: list[int], data_type: DataType, name: str) -> DataSchema:
    """`base` with its first five fields reordered and perhaps one more nullable."""
    moved = [base.fields[place] for place in order if place < len(base.fields)]
    added = [column(name, data_type)] if isinstance(data_type, DataTypeOption) else []
    return replace(base, fields=(*moved, *base.fields[len(order) :], *added))


@given(SCHEMAS, ORDERS, ORDERS, TYPES, TYPES)
def test_evolutions_compose(
    one: DataSchema, first: list[int], second: list[int], added: DataType, more: DataType
) -> None:
    two = evolved(one, first, added, "new")
    three = evolved(two, second, more, "newer")
    assert accepted(one, two) == (one != two)
    assert accepted(two, three) == (two != three)
    assert accepted(one, three) == (one != three)


@given(SCHEMAS, SCHEMAS)
def test_fields_with_other_types_are_never_accepted(one: DataSchema, other: DataSchema) -> None:
    changes = {difference.change for difference in schema_differences(one, other)}
    if FieldChange.TYPE_CHANGED in changes or FieldChange.REMOVED in changes:
        assert not accepted(one, other)


def test_text_of_a_schema_shows_types_and_what_is_optional() -> None:
    assert schema_text(example_schema()) == (
        "{offset: Int64, op: Int32, system_time: Timestamp(millisecond, UTC), "
        "event_time: Timestamp(millisecond, UTC), city: String?}"
    )
    assert schema_text(schema(column("l", optional(items(struct(A), 3))))) == "{l: List<Struct{a: Int64}; 3>?}"
