"""Schemas of rows as the node API shows them, in five forms.

Owns `ArrowJson` (the JSON of Arrow's integration tests), `OdfJson` and `OdfYaml` (the manifest form), `Parquet` (the message
type as text) and `ParquetJson` (the same tree as JSON). Lists and maps are shown with the three levels that the slice writer
gives them. Source: docs/openapi.json; Arrow columnar format, "Integration testing".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

import pyarrow as pa
from pyarrow import types

from odfabric.errors import InvalidRequest, Place
from odfabric.formats.json_values.canonical_json import JsonValue
from odfabric.formats.manifests.manifest_events import noun_to_value
from odfabric.formats.manifests.yaml_writer import dump_yaml
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.model.data_schema import DataSchema


class SchemaFormat(Enum):
    """Form of a schema; `Parquet` and `OdfYaml` are texts, the others JSON objects."""

    ARROW_JSON = "ArrowJson"
    ODF_JSON = "OdfJson"
    ODF_YAML = "OdfYaml"
    PARQUET = "Parquet"
    PARQUET_JSON = "ParquetJson"


_KEBAB = {
    SchemaFormat.ARROW_JSON: "arrow-json",
    SchemaFormat.ODF_JSON: "odf-json",
    SchemaFormat.ODF_YAML: "odf-yaml",
    SchemaFormat.PARQUET: "parquet",
    SchemaFormat.PARQUET_JSON: "parquet-json",
}
_SCHEMA_FORMATS = {
    spelling: schema_format
    for schema_format, kebab in _KEBAB.items()
    for spelling in (schema_format.value, schema_format.value.lower(), kebab)
}

_ROOT: Final = "arrow_schema"
_INDENT: Final = "  "


def parse_schema_format(text: str, *, field: str = "schemaFormat") -> SchemaFormat:
    """From `ArrowJson`, `arrowjson` or `arrow-json`, and so on.

    Raises InvalidRequest naming `field`.
    """
    if text not in _SCHEMA_FORMATS:
        known = ", ".join(schema_format.value for schema_format in SchemaFormat)
        raise InvalidRequest(f"Unknown schema format '{text}'", place=Place(field=field), hint=f"one of {known}")
    return _SCHEMA_FORMATS[text]


def render_schema(schema: DataSchema, schema_format: SchemaFormat) -> JsonValue:
    """The schema in the given form.

    Raises IncompatibleSchema for a field that Arrow cannot hold.
    """
    match schema_format:
        case SchemaFormat.ODF_JSON:
            return noun_to_value(schema)
        case SchemaFormat.ODF_YAML:
            return dump_yaml(noun_to_value(schema))
        case SchemaFormat.ARROW_JSON:
            return {"fields": [_arrow_field(field) for field in data_schema_to_arrow(schema, encodings=False)]}
        case SchemaFormat.PARQUET:
            nodes = [_parquet_node(field) for field in data_schema_to_arrow(schema, encodings=False)]
            return "\n".join([f"message {_ROOT} {{", *_parquet_lines(nodes, _INDENT), "}"]) + "\n"
        case SchemaFormat.PARQUET_JSON:
            nodes = [_parquet_node(field) for field in data_schema_to_arrow(schema, encodings=False)]
            return {"name": _ROOT, "type": "MESSAGE", "fields": [_parquet_value(node) for node in nodes]}


def _arrow_field(field: pa.Field) -> dict[str, JsonValue]:
    return {
        "name": field.name,
        "nullable": field.nullable,
        "type": _arrow_type(field.type),
        "children": [_arrow_field(child) for child in _children(field.type)],
    }


def _children(data_type: pa.DataType) -> list[pa.Field]:
    if types.is_struct(data_type):
        return list(data_type)
    if types.is_map(data_type):
        entries = pa.struct([data_type.key_field, data_type.item_field])
        return [pa.field("entries", entries, nullable=False)]
    return [data_type.value_field] if types.is_list(data_type) or types.is_fixed_size_list(data_type) else []


_LONG_UNIT = {"s": "SECOND", "ms": "MILLISECOND", "us": "MICROSECOND", "ns": "NANOSECOND"}
_PRECISION = {16: "HALF", 32: "SINGLE", 64: "DOUBLE"}

_ARROW_TYPES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], dict[str, JsonValue]]], ...] = (
    (types.is_null, lambda _: {"name": "null"}),
    (types.is_boolean, lambda _: {"name": "bool"}),
    (types.is_string, lambda _: {"name": "utf8"}),
    (types.is_binary, lambda _: {"name": "binary"}),
    (types.is_struct, lambda _: {"name": "struct"}),
    (types.is_list, lambda _: {"name": "list"}),
    (types.is_integer, lambda t: {"name": "int", "bitWidth": t.bit_width, "isSigned": types.is_signed_integer(t)}),
    (types.is_floating, lambda t: {"name": "floatingpoint", "precision": _PRECISION[t.bit_width]}),
    (types.is_fixed_size_binary, lambda t: {"name": "fixedsizebinary", "byteWidth": t.byte_width}),
    (types.is_fixed_size_list, lambda t: {"name": "fixedsizelist", "listSize": t.list_size}),
    (types.is_map, lambda t: {"name": "map", "keysSorted": t.keys_sorted}),
    (types.is_date, lambda t: {"name": "date", "unit": "DAY"}),
    (types.is_time, lambda t: {"name": "time", "unit": _LONG_UNIT[t.unit], "bitWidth": t.bit_width}),
    (types.is_duration, lambda t: {"name": "duration", "unit": _LONG_UNIT[t.unit]}),
    (types.is_timestamp, lambda t: {"name": "timestamp", "unit": _LONG_UNIT[t.unit], "timezone": t.tz}),
    (
        types.is_decimal,
        lambda t: {"name": "decimal", "precision": t.precision, "scale": t.scale, "bitWidth": t.bit_width},
    ),
)
"""The types that `data_schema_to_arrow` gives without encodings."""


def _arrow_type(data_type: pa.DataType) -> dict[str, JsonValue]:
    return next(write(data_type) for fits, write in _ARROW_TYPES if fits(data_type))


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of a Parquet message type; `physical` is None for groups."""

    repetition: str
    name: str
    physical: str | None
    logical: str | None
    children: tuple[_Node, ...] = ()
    length: int | None = None
    """Bytes of a FIXED_LEN_BYTE_ARRAY."""


def _parquet_node(field: pa.Field) -> _Node:
    return _node("OPTIONAL" if field.nullable else "REQUIRED", field.name, field.type)


def _node(repetition: str, name: str, data_type: pa.DataType) -> _Node:
    if types.is_struct(data_type):
        return _Node(repetition, name, None, None, tuple(_parquet_node(member) for member in data_type))
    if types.is_map(data_type):
        key = _node("REQUIRED", "key", data_type.key_type)
        entries = (key, _parquet_node(data_type.item_field.with_name("value")))
        return _Node(repetition, name, None, "MAP", (_Node("REPEATED", "key_value", None, None, entries),))
    if types.is_list(data_type) or types.is_fixed_size_list(data_type):
        element = _parquet_node(data_type.value_field.with_name("element"))
        return _Node(repetition, name, None, "LIST", (_Node("REPEATED", "list", None, None, (element,)),))
    physical, length, logical = _parquet_leaf(data_type)
    return _Node(repetition, name, physical, logical, length=length)


def _parquet_leaf(data_type: pa.DataType) -> tuple[str, int | None, str | None]:
    """Physical type, its length in bytes if fixed, logical type."""
    if types.is_integer(data_type):
        return _parquet_integer(data_type)
    if types.is_temporal(data_type):
        return _parquet_temporal(data_type)
    if types.is_decimal(data_type):
        return "FIXED_LEN_BYTE_ARRAY", _decimal_bytes(data_type), f"DECIMAL({data_type.precision},{data_type.scale})"
    if types.is_float16(data_type):
        return "FIXED_LEN_BYTE_ARRAY", 2, "FLOAT16"
    if types.is_floating(data_type):
        return "FLOAT" if data_type.bit_width == 32 else "DOUBLE", None, None
    if types.is_boolean(data_type):
        return "BOOLEAN", None, None
    if types.is_fixed_size_binary(data_type):
        return "FIXED_LEN_BYTE_ARRAY", data_type.byte_width, None
    if types.is_null(data_type):
        return "INT32", None, "UNKNOWN"
    return "BYTE_ARRAY", None, "STRING" if types.is_string(data_type) else None


def _parquet_integer(data_type: pa.DataType) -> tuple[str, int | None, str | None]:
    signed = types.is_signed_integer(data_type)
    physical = "INT64" if data_type.bit_width == 64 else "INT32"
    if signed and data_type.bit_width >= 32:
        return physical, None, None
    return physical, None, f"INTEGER({data_type.bit_width},{str(signed).lower()})"


_SHORT_UNIT = {"ms": "MILLIS", "us": "MICROS", "ns": "NANOS"}


def _parquet_temporal(data_type: pa.DataType) -> tuple[str, int | None, str | None]:
    if types.is_date(data_type):
        return "INT32", None, "DATE"
    if types.is_duration(data_type):
        return "INT64", None, None
    # Parquet has no seconds: writers store milliseconds.
    unit = "ms" if data_type.unit == "s" else data_type.unit
    if types.is_time(data_type):
        return "INT32" if unit == "ms" else "INT64", None, f"TIME({_SHORT_UNIT[unit]},false)"
    return "INT64", None, f"TIMESTAMP({_SHORT_UNIT[unit]},{str(data_type.tz is not None).lower()})"


def _decimal_bytes(data_type: pa.DataType) -> int:
    """The fewest bytes that hold a signed integer of that many decimal digits."""
    return int((10**data_type.precision - 1).bit_length()) // 8 + 1


def _parquet_lines(nodes: list[_Node], indent: str) -> Iterator[str]:
    for node in nodes:
        logical = f" ({node.logical})" if node.logical else ""
        if node.physical is None:
            yield f"{indent}{node.repetition} group {node.name}{logical} {{"
            yield from _parquet_lines(list(node.children), indent + _INDENT)
            yield f"{indent}}}"
        else:
            length = "" if node.length is None else f" ({node.length})"
            yield f"{indent}{node.repetition} {node.physical}{length} {node.name}{logical};"


def _parquet_value(node: _Node) -> dict[str, JsonValue]:
    value: dict[str, JsonValue] = {
        "name": node.name,
        "repetition": node.repetition,
        "type": node.physical or "GROUP",
    }
    if node.length is not None:
        value["length"] = node.length
    if node.logical is not None:
        value["logicalType"] = node.logical
    if node.physical is None:
        value["fields"] = [_parquet_value(child) for child in node.children]
    return value
