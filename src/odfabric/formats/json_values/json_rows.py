"""Rows as JSON values, in the three shapes of the node API.

Owns how every Arrow type looks in JSON: numbers as numbers (64-bit integers too), decimals as text, times as RFC 3339 with
`Z` and the shortest exact fraction, dates as `YYYY-MM-DD`, binary as hexadecimal digits, NaN and infinities as null (which a document of
rows gives), lists, structs and maps as JSON. The values are plain Python ones that `json.dumps` takes as they are.
Source: docs/openapi.json; maps and durations, which the reference does not encode, are ours.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.errors import IncompatibleSchema, InvalidData, InvalidRequest, Place
from odfabric.formats.json_values.canonical_json import JsonValue
from odfabric.model.instant import NANOS_PER_MILLI, NANOS_PER_SECOND, SECONDS_PER_DAY, Instant

_NANOS_OF_UNIT = {"s": NANOS_PER_SECOND, "ms": NANOS_PER_MILLI, "us": 1_000, "ns": 1}
_NANOS_OF_DAY = SECONDS_PER_DAY * NANOS_PER_SECOND

_Item = TypeVar("_Item")


class DataFormat(Enum):
    """Shape of rows: an array of objects, an object of arrays, an array of arrays."""

    JSON_AOS = "JsonAoS"
    JSON_SOA = "JsonSoA"
    JSON_AOA = "JsonAoA"


_DATA_FORMATS = {
    spelling: data_format
    for data_format in DataFormat
    for spelling in (data_format.value, data_format.value.lower(), f"json-{data_format.value[4:].lower()}")
}


def parse_data_format(text: str, *, field: str = "dataFormat") -> DataFormat:
    """From `JsonAoS`, `jsonaos` or `json-aos`, and so on.

    Raises InvalidRequest naming `field`.
    """
    if text not in _DATA_FORMATS:
        known = ", ".join(data_format.value for data_format in DataFormat)
        raise InvalidRequest(f"Unknown data format '{text}'", place=Place(field=field), hint=f"one of {known}")
    return _DATA_FORMATS[text]


def rows_to_json(table: pa.Table, data_format: DataFormat) -> JsonValue:
    """All rows in the given shape.

    Raises IncompatibleSchema naming a column whose type has no JSON form, InvalidData for text that is not UTF-8,
    InvalidRequest if two columns share a name and the shape needs names.
    """
    columns = [_column(column, field.name) for column, field in zip(table.columns, table.schema, strict=True)]
    match data_format:
        case DataFormat.JSON_AOA:
            return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(table.num_rows)]
        case DataFormat.JSON_SOA:
            _check_names(table.column_names)
            return dict(zip(table.column_names, columns, strict=True))
        case DataFormat.JSON_AOS:
            _check_names(table.column_names)
            names = table.column_names
            if not names:
                return [{} for _ in range(table.num_rows)]
            return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def rows_document(table: pa.Table, data_format: DataFormat) -> dict[str, JsonValue]:
    """`{data, dataFormat, nonFiniteColumns?}`. Raises like `rows_to_json`.

    Rows, and the columns in which some null stands for NaN or an infinity.
    """
    document: dict[str, JsonValue] = {"data": rows_to_json(table, data_format), "dataFormat": data_format.value}
    columns: list[JsonValue] = [
        field.name
        for column, field in zip(table.columns, table.schema, strict=True)
        if any(_has_non_finite(chunk) for chunk in column.chunks)
    ]
    return document | ({"nonFiniteColumns": columns} if columns else {})


def _has_non_finite(array: pa.Array) -> bool:
    """Whether a value of an array, or within one, is NaN or an infinity."""
    data_type = array.type
    if isinstance(data_type, pa.BaseExtensionType):
        return _has_non_finite(array.storage)
    if types.is_dictionary(data_type):
        return _has_non_finite(array.dictionary_decode())
    if types.is_floating(data_type):
        return bool(pc.all(pc.is_finite(array.cast(pa.float64()))).as_py() is False)
    if types.is_struct(data_type):
        return any(_has_non_finite(member) for member in array.flatten())
    if types.is_map(data_type):
        return _has_non_finite(array.cast(pa.list_(pa.struct([data_type.key_field, data_type.item_field]))))
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        return _has_non_finite(array.flatten())
    return False


def _check_names(names: list[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidRequest(
                f"Two columns are named `{name}`", hint="give one an alias, or ask for the data format JsonAoA"
            )


def _column(column: pa.ChunkedArray, name: str) -> list[JsonValue]:
    try:
        return [value for chunk in column.chunks for value in _values(chunk)]
    except NotImplementedError as error:
        raise IncompatibleSchema(f"Column `{name}` {error}", place=Place(field=name)) from None
    except UnicodeDecodeError as error:
        raise InvalidData(f"Column `{name}` has text that is not UTF-8: {error}", place=Place(field=name)) from None


def _values(array: pa.Array) -> Iterable[JsonValue]:
    """The values of an array. Raises NotImplementedError for a type without JSON form."""
    data_type = array.type
    if isinstance(data_type, pa.BaseExtensionType):
        return _values(array.storage)
    if types.is_dictionary(data_type):
        return _values(array.dictionary_decode())
    if _as_they_are(data_type):
        plain: list[JsonValue] = array.to_pylist()
        return plain
    if types.is_temporal(data_type):
        return _temporal(array)
    if types.is_struct(data_type):
        return _structs(array)
    if types.is_map(data_type):
        return _maps(array)
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        return _cut(list(_values(array.flatten())), array.value_lengths().to_pylist())
    return _mapped(array.to_pylist(), _writer(data_type))


def _as_they_are(data_type: pa.DataType) -> bool:
    return bool(
        types.is_integer(data_type)
        or types.is_boolean(data_type)
        or types.is_null(data_type)
        or types.is_string(data_type)
        or types.is_large_string(data_type)
        or types.is_string_view(data_type)
    )


def _writer(data_type: pa.DataType) -> Callable[[Any], JsonValue]:
    if types.is_float64(data_type):
        return _finite
    if types.is_floating(data_type):
        width: type[np.floating[Any]] = np.float32 if data_type.bit_width == 32 else np.float16
        # Through the shortest digits of the narrow type: 0.1 and not 0.10000000149011612.
        return lambda value: _finite(float(str(width(value))))
    if types.is_decimal(data_type):
        return _decimal_text
    if types.is_binary(data_type) or types.is_large_binary(data_type):
        return bytes.hex
    if types.is_binary_view(data_type) or types.is_fixed_size_binary(data_type):
        return bytes.hex
    raise NotImplementedError(f"is {data_type}, which has no JSON form")


def _mapped(values: Iterable[Any], write: Callable[[Any], JsonValue]) -> Iterator[JsonValue]:
    return (None if value is None else write(value) for value in values)


def _finite(value: float) -> JsonValue:
    return value if math.isfinite(value) else None


def _decimal_text(value: Decimal) -> str:
    return format(value, "f")


def _temporal(array: pa.Array) -> Iterator[JsonValue]:
    data_type = array.type
    if types.is_date32(data_type):
        return _mapped(array.view(pa.int32()).to_pylist(), lambda days: _date_text(days * _NANOS_OF_DAY))
    if types.is_date64(data_type):
        return _mapped(array.view(pa.int64()).to_pylist(), lambda millis: _date_text(millis * NANOS_PER_MILLI))
    if types.is_interval(data_type):
        raise NotImplementedError(f"is {data_type}, which has no JSON form")
    nanos = _NANOS_OF_UNIT[data_type.unit]
    numbers = array.view(pa.int32() if data_type.bit_width == 32 else pa.int64()).to_pylist()
    if types.is_timestamp(data_type):
        return _mapped(numbers, lambda count: str(Instant(count * nanos)))
    if types.is_time(data_type):
        return _mapped(numbers, lambda count: _time_text(count * nanos))
    return _mapped(numbers, lambda count: _duration_text(count * nanos))


def _date_text(epoch_ns: int) -> str:
    return str(Instant(epoch_ns)).partition("T")[0]


def _time_text(nanos: int) -> str:
    return str(Instant(nanos)).partition("T")[2].removesuffix("Z")


def _duration_text(nanos: int) -> str:
    """ISO 8601 in seconds, e.g. `PT1.5S`, `-PT60S`."""
    seconds, rest = divmod(abs(nanos), NANOS_PER_SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if nanos < 0 else ''}PT{seconds}{fraction}S"


def _cut(items: Sequence[_Item], lengths: Iterable[int | None]) -> Iterator[list[_Item] | None]:
    """Items of consecutive rows; a row without length is null and has none."""
    start = 0
    for length in lengths:
        if length is None:
            yield None
        else:
            yield list(items[start : start + length])
            start += length


def _structs(array: pa.Array) -> Iterator[JsonValue]:
    names = array.type.names
    members = [_values(array.field(index)) for index in range(len(names))]
    rows = zip(*members, strict=True) if members else (() for _ in range(len(array)))
    for valid, row in zip(array.is_valid().to_pylist(), rows, strict=True):
        yield dict(zip(names, row, strict=True)) if valid else None


def _maps(array: pa.Array) -> Iterator[JsonValue]:
    """Maps as objects; a key that is no text becomes its JSON text."""
    lists = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
    entries = lists.flatten()
    keys = [key if isinstance(key, str) else json.dumps(key) for key in _values(entries.field(0))]
    pairs = list(zip(keys, _values(entries.field(1)), strict=True))
    for row in _cut(pairs, lists.value_lengths().to_pylist()):
        yield None if row is None else dict(row)
