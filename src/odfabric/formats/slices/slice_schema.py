"""Rules of a data slice: columns, types, and how rows are brought into shape.

Owns the order and types of the system columns, the types that may be stored at all, and the fitting of new rows to the
schema of their dataset: same names in the same order, equal types, string, binary and list layouts interchangeable, nulls
only where they are allowed. Not here: how schemas evolve (`domain.chain.schema_evolution`), files (`formats.slices.slice_parquet`).
Source: specification, "Data Slice"; specification, "Merge Strategies".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.errors import IncompatibleSchema, InvalidData, Place
from odfabric.formats.slices.arrow_cast import cast_array
from odfabric.formats.slices.arrow_schema import DECIMAL_128_DIGITS_MAX
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeFloat16,
    DataTypeList,
    DataTypeMap,
    DataTypeNull,
    DataTypeOption,
    DataTypeStruct,
    DataTypeTime,
)
from odfabric.model.vocabulary import DatasetVocabulary

OFFSET_TYPE: Final = pa.int64()
OPERATION_TYPE: Final = pa.int32()
TIMESTAMP_TYPE: Final = pa.timestamp("ms", "UTC")

INCOMPATIBLE = "Schema of the new slice is not compatible with the schema defined by SetDataSchema event"


def new_slice_schema(
    columns: Sequence[pa.Field], *, vocabulary: DatasetVocabulary, event_time_type: pa.DataType = TIMESTAMP_TYPE
) -> pa.Schema:
    """First slice schema of a root dataset: four required system columns, then data."""
    system = [
        pa.field(vocabulary.offset, OFFSET_TYPE, nullable=False),
        pa.field(vocabulary.operation_type, OPERATION_TYPE, nullable=False),
        pa.field(vocabulary.system_time, TIMESTAMP_TYPE, nullable=False),
        pa.field(vocabulary.event_time, event_time_type, nullable=False),
    ]
    return pa.schema([*system, *columns])


_UNCLEAR = "is a nullable member of a nullable struct: its hash would depend on who reads it"
_MAP = "is a Map, which has no logical hash; store keys and values as two lists"
_LISTED_STRUCT = (
    "is a Struct inside a List, which has no logical hash; store its members as lists side by side, or its text"
)
_HINTS = {
    _UNCLEAR: "declare the member or the struct as required (without a declared schema everything may be null),"
    " or make columns of the members in a preprocess query",
    _MAP: "a preprocess query makes lists of it: `map_keys(m) AS keys, map_values(m) AS items`",
    _LISTED_STRUCT: "a preprocess query makes rows of the items: `FROM input LATERAL VIEW explode(items) t AS item`;"
    " or lists: `transform(items, i -> i.a) AS a`; or a text: `to_json(items) AS items`",
}


def check_storable(schema: DataSchema) -> None:
    """Refuse types that a slice of this node cannot hold.

    Raises IncompatibleSchema naming the first such field.
    """
    for field in schema.fields:
        for path, reason in _unstorable(field.name, field.type, nullable_above=False):
            raise IncompatibleSchema(f"Column `{path}` {reason}", place=Place(field=path), hint=_HINTS.get(reason))


def check_readable(schema: DataSchema) -> None:
    """Refuse types that not even a preprocess query can take.

    Neither slices nor the engine have their values.

    Raises IncompatibleSchema naming the first such field.
    """
    for field in schema.fields:
        for path, reason in _unreadable(field.name, field.type):
            raise IncompatibleSchema(f"Column `{path}` {reason}", place=Place(field=path))


def check_compatible(new: pa.Schema, dataset: pa.Schema, *, hint: str | None = None) -> None:
    """Refuse columns that do not fit a dataset by name, order or type.

    Nulls are judged by `fit_to_slice`.

    Raises IncompatibleSchema naming the first difference, with the hint where columns are other ones.
    """
    if new.names != dataset.names:
        difference = f"it has the columns {_listed(new.names)} instead of {_listed(dataset.names)}"
        raise _incompatible(difference, None, hint)
    for new_field, field in zip(new, dataset, strict=True):
        if not types_interchangeable(new_field.type, field.type):
            raise _incompatible(f"column `{field.name}` is {new_field.type} instead of {field.type}", field.name)


def types_interchangeable(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types hold the same values, in any layout; nullability apart.

    The layout of strings, binaries and lists.
    """
    if one == other:
        return True
    if _is_text(one) or _is_binary(one):
        return (_is_text(one), _is_binary(one)) == (_is_text(other), _is_binary(other))
    if types.is_struct(one) and types.is_struct(other):
        return one.names == other.names and all(
            types_interchangeable(one.field(index).type, other.field(index).type) for index in range(one.num_fields)
        )
    if types.is_fixed_size_list(one) and types.is_fixed_size_list(other):
        return one.list_size == other.list_size and types_interchangeable(one.value_type, other.value_type)
    if _is_list(one) and _is_list(other):
        return types_interchangeable(one.value_type, other.value_type)
    return bool(types.is_map(one) and types.is_map(other)) and (
        types_interchangeable(one.key_type, other.key_type) and types_interchangeable(one.item_type, other.item_type)
    )


def fit_to_slice(batch: pa.RecordBatch, dataset: pa.Schema) -> pa.RecordBatch:
    """The same rows with exactly the dataset's schema.

    Raises IncompatibleSchema as `check_compatible` does, InvalidData for a null in a required column, member or item.
    """
    check_compatible(batch.schema, dataset)
    columns = [_fit(column, field) for column, field in zip(batch.columns, dataset, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=dataset)


def null_problems(array: pa.Array, field: pa.Field) -> Iterator[str]:
    """A text for every required column, struct member or list item that holds nulls."""
    yield from _null_problems(array, field, field.name)


def _fit(column: pa.Array, field: pa.Field) -> pa.Array:
    for problem in null_problems(column, field):
        raise InvalidData(problem, place=Place(field=field.name))
    return cast_array(column, field.type)


def _null_problems(array: pa.Array, field: pa.Field, path: str) -> Iterator[str]:
    if not field.nullable and array.null_count:
        yield f"Column `{path}` contains {array.null_count} null values while none were expected"
    if types.is_struct(field.type):
        present = array.filter(array.is_valid()) if array.null_count else array
        for index, member in enumerate(field.type):
            yield from _null_problems(present.field(index), member, f"{path}.{member.name}")
    elif types.is_map(field.type):
        yield from _null_problems(_flat(array.items, array), field.type.item_field, f"{path}{{value}}")
    elif _is_list(field.type):
        yield from _null_problems(pc.list_flatten(array), field.type.value_field, f"{path}[]")


def _flat(items: pa.Array, array: pa.Array) -> pa.Array:
    """Items of the rows of a map array that is perhaps a slice of a larger one."""
    offsets = array.offsets
    return items.slice(offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py())


def _unstorable(path: str, data_type: DataType, *, nullable_above: bool) -> Iterator[tuple[str, str]]:
    inner = data_type.inner if isinstance(data_type, DataTypeOption) else data_type
    nullable = isinstance(data_type, DataTypeOption)
    if nullable_above and nullable:
        yield path, _UNCLEAR
    match inner:
        case DataTypeStruct(fields=fields):
            yield from _unstorable_members(path, fields, nullable_above=nullable_above or nullable)
        case DataTypeList(fixed_length=int()) if nullable_above:
            yield path, "is a List of fixed length in a nullable struct, which Parquet readers cannot read back"
        case DataTypeList(item_type=item):
            yield from _unstorable_items(path, item)
        case DataTypeMap():
            yield path, _MAP
        case _:
            yield from _unreadable(path, inner)


def _unreadable(path: str, data_type: DataType) -> Iterator[tuple[str, str]]:
    inner = data_type.inner if isinstance(data_type, DataTypeOption) else data_type
    match inner:
        case DataTypeStruct(fields=fields):
            for member in fields:
                yield from _unreadable(f"{path}.{member.name}", member.type)
        case DataTypeList(item_type=item):
            yield from _unreadable(f"{path}[]", item)
        case DataTypeMap(key_type=key, value_type=value):
            yield from _unreadable(f"{path}{{key}}", key)
            yield from _unreadable(f"{path}{{value}}", value)
        case DataTypeDecimal(precision=precision) if precision > DECIMAL_128_DIGITS_MAX:
            yield path, f"is a Decimal of {precision} digits, at most {DECIMAL_128_DIGITS_MAX} are supported"
        case DataTypeNull() | DataTypeTime() | DataTypeDuration() | DataTypeFloat16():
            yield path, f"is a {type(inner).__name__.removeprefix('DataType')}, which is not supported; cast it"
        case _:
            pass


def _unstorable_members(path: str, fields: Sequence[DataField], *, nullable_above: bool) -> Iterator[tuple[str, str]]:
    for member in fields:
        yield from _unstorable(f"{path}.{member.name}", member.type, nullable_above=nullable_above)


def _unstorable_items(path: str, item: DataType) -> Iterator[tuple[str, str]]:
    inner = item.inner if isinstance(item, DataTypeOption) else item
    if isinstance(inner, DataTypeStruct):
        yield f"{path}[]", _LISTED_STRUCT
    else:
        yield from _unstorable(f"{path}[]", inner, nullable_above=False)


def _incompatible(difference: str, field: str | None, hint: str | None = None) -> IncompatibleSchema:
    return IncompatibleSchema(f"{INCOMPATIBLE}: {difference}", place=Place(field=field), hint=hint)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _is_text(data_type: pa.DataType) -> bool:
    return bool(types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type))


def _is_binary(data_type: pa.DataType) -> bool:
    return bool(types.is_binary(data_type) or types.is_large_binary(data_type) or types.is_binary_view(data_type))


def _is_list(data_type: pa.DataType) -> bool:
    # List views are left out: pyarrow 26 loses items when it casts them, and no Parquet reader gives them.
    return bool(types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type))
