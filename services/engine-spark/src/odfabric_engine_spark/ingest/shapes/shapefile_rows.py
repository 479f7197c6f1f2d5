"""Shapes and attributes of a shapefile as rows.

Owns the walk over both files side by side: shapes become GeoJSON by the library, attributes are read here, for the library makes null of
numbers and dates that it does not understand. Invariant: a row has the shape and the attributes that stand at the same place, deleted ones
left out; a value is exact, or InvalidData names its column. Heights stay in geometries, measures do not: GeoJSON has none. Coordinates are
in the reference system of the file. Source: ESRI Shapefile Technical Description (1998); specification, "Data Ingestion".
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import shapefile
from shapefile import FieldType

from odfabric.errors import InvalidData, Place
from odfabric_engine_spark.ingest.json.geojson import GEOMETRY
from odfabric_engine_spark.ingest.json.json_reader import JsonRow
from odfabric_engine_spark.ingest.json.json_values import JsonValue, WrittenDecimal
from odfabric_engine_spark.ingest.shapes.shapefile_archive import ShapefileParts
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.read_rows import shown

_HEADER_BYTES = 100
_SHAPE_HEADER = struct.Struct(">2i")
_SIZE_AT = struct.Struct(">24xi")
_TABLE_HEADER = struct.Struct("<4xLHH17xB2x")
_WORD_BYTES = 2
_KEPT, _DELETED = b" ", b"*"
_INT64_DIGITS = 18
_DECIMAL_DIGITS_MAX = 38
_TRUE, _FALSE, _UNKNOWN = frozenset("YyTt1"), frozenset("NnFf0"), frozenset("? ")
_CODE_PAGES = {
    0x01: "cp437", 0x02: "cp850", 0x03: "cp1252", 0x57: "cp1252", 0x64: "cp852", 0x65: "cp866", 0x6A: "cp737",
    0x6B: "cp857", 0x7B: "cp932", 0x4D: "cp936", 0x4E: "cp949", 0x4F: "cp950", 0xC8: "cp1250", 0xC9: "cp1251",
    0xCA: "cp1254", 0xCB: "cp1253", 0xCC: "cp1257",
}  # fmt: skip
"""Encodings by the language driver in the header of a table."""
_HINT = "write or send the shapefile again"
_DAMAGED = (
    shapefile.ShapefileException,
    struct.error,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What the library raises over damaged files, which it does not expect."""


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    kind: str
    start: int
    size: int
    decimals: int


@dataclass(frozen=True, slots=True)
class _Table:
    """Where the records of a table are, and what each holds."""

    rows: int
    begin: int
    row_bytes: int
    columns: tuple[_Column, ...]
    encoding: str


def columns_of(parts: ShapefileParts) -> pa.Schema:
    """Columns of the table and the geometry. Raises InvalidData.

    All nullable, sorted by name as those of JSON.
    """
    table = _table(parts)
    fields = [pa.field(column.name, _arrow(column)) for column in table.columns]
    return pa.schema(sorted([*fields, pa.field(GEOMETRY, pa.string())], key=lambda field: field.name))


def rows_of(parts: ShapefileParts, call: EngineCall) -> Iterator[JsonRow]:
    """All rows in order. Raises InvalidData naming the row."""
    table = _table(parts)
    with parts.shapes.open("rb") as shapes, parts.table.open("rb") as records:
        reader = _reader(shapes, parts)
        records.seek(table.begin)
        row = 0
        for at, length in _shape_places(shapes, parts, longest=call.settings.line_bytes_max):
            call.check()
            row += 1
            record = records.read(table.row_bytes)
            place = Place(file=parts.name, row=row)
            if row > table.rows or len(record) < table.row_bytes:
                raise InvalidData(f"There are {table.rows} rows of attributes and more shapes", place=place, hint=_HINT)
            if record[:1] == _DELETED:
                continue
            if record[:1] != _KEPT:
                raise _damaged("a row of attributes neither is there nor is deleted", place)
            members = {column.name: _value(record, column, table, place) for column in table.columns}
            members[GEOMETRY] = _geometry(reader, at, length, place)
            yield JsonRow(members, parts.name, None, length + table.row_bytes, row=row)
        if row < table.rows:
            raise InvalidData(
                f"There are {row} shapes and {table.rows} rows of attributes", place=Place(file=parts.name), hint=_HINT
            )


def _table(parts: ShapefileParts) -> _Table:
    place = Place(file=parts.name)
    try:
        with parts.table.open("rb") as file:
            rows, begin, row_bytes, driver = _TABLE_HEADER.unpack(file.read(_TABLE_HEADER.size))
            encoding = parts.encoding or _CODE_PAGES.get(driver, "utf-8")
            fields = shapefile.DbfReader(file, encoding=encoding).data_fields
    except _DAMAGED as error:
        raise _damaged(f"its table of attributes cannot be read ({error})", place) from None
    columns: list[_Column] = []
    start = len(_KEPT)
    for field in fields:
        if field.name == GEOMETRY or any(each.name == field.name for each in columns):
            raise InvalidData(
                f"Column `{field.name}` is there twice; `{GEOMETRY}` is the column of the shapes",
                place=Place(file=parts.name, field=field.name),
                hint="rename it in the table of attributes",
            )
        columns.append(_Column(field.name, field.field_type, start, field.size, field.decimal))
        start += field.size
    if start > row_bytes or begin + rows * row_bytes > parts.table.stat().st_size:
        raise _damaged("its table of attributes is cut off", place)
    return _Table(rows, begin, row_bytes, tuple(columns), encoding)


def _reader(file: BinaryIO, parts: ShapefileParts) -> shapefile.ShpReader:
    place = Place(file=parts.name)
    header = file.read(_HEADER_BYTES)
    there = os.fstat(file.fileno()).st_size
    if len(header) < _HEADER_BYTES or _SIZE_AT.unpack_from(header)[0] * _WORD_BYTES != there:
        raise _damaged(f"its shapes take {there} bytes, which is not what their header says", place)
    try:
        return shapefile.ShpReader(file)
    except _DAMAGED as error:
        raise _damaged(f"its shapes cannot be read ({error})", place) from None


def _shape_places(file: BinaryIO, parts: ShapefileParts, *, longest: int) -> Iterator[tuple[int, int]]:
    """Where each shape is, and its length; the reader moves about in the same file."""
    size = os.fstat(file.fileno()).st_size
    at, row = _HEADER_BYTES, 0
    while at < size:
        row += 1
        file.seek(at)
        header = file.read(_SHAPE_HEADER.size)
        length = _SHAPE_HEADER.unpack(header)[1] * _WORD_BYTES if len(header) == _SHAPE_HEADER.size else -1
        if not 0 <= length <= min(longest, size - at - _SHAPE_HEADER.size):
            raise _damaged(f"a shape of {length} bytes", Place(file=parts.name, row=row))
        yield at, length
        at += _SHAPE_HEADER.size + length


def _geometry(reader: shapefile.ShpReader, at: int, length: int, place: Place) -> str | None:
    try:
        shape = reader.shape(0, offset=at, shape_len_B=length)
        if shape is None or shape.shapeType == shapefile.NULL:
            return None
        heights = getattr(shape, "z", None)
        if heights:
            shape.points = [(x, y, z) for (x, y, *_), z in zip(shape.points, heights, strict=True)]
        return json.dumps(shape.__geo_interface__, separators=(",", ":"), allow_nan=False)
    except _DAMAGED as error:
        raise _damaged(f"its shape cannot be read ({error})", place) from None


def _arrow(column: _Column) -> pa.DataType:
    match column.kind:
        case FieldType.L:
            return pa.bool_()
        case FieldType.D:
            return pa.date32()
        case FieldType.N if not column.decimals and column.size <= _INT64_DIGITS:
            return pa.int64()
        case FieldType.N if not column.decimals and column.size <= _DECIMAL_DIGITS_MAX:
            return pa.decimal128(column.size, 0)
        case FieldType.N | FieldType.F:
            return pa.float64()
        case _:
            return pa.string()


def _value(record: bytes, column: _Column, table: _Table, place: Place) -> JsonValue:
    raw = record[column.start : column.start + column.size]
    try:
        text = raw.partition(b"\0")[0].decode(table.encoding)
    except UnicodeDecodeError:
        raise InvalidData(
            f"{shown(raw.rstrip().decode('ascii', 'backslashreplace'))} is no text of {table.encoding}",
            place=Place(file=place.file, row=place.row, field=column.name),
            hint="put a .cpg file with the name of the encoding into the archive, for example ISO-8859-1",
        ) from None
    try:
        return _typed(text, column.kind)
    except ValueError:
        place = Place(file=place.file, row=place.row, field=column.name)
        raise InvalidData(f"{shown(text)} is no value of a column of type {column.kind}", place=place) from None


def _typed(text: str, kind: str) -> JsonValue:
    """The value of a cell; None for what stands for none. Raises ValueError."""
    bare = text.strip()
    match kind:
        case FieldType.C:
            return text.rstrip() or None
        case FieldType.N | FieldType.F:
            return None if not bare.strip("*") else int(bare) if bare.lstrip("+-").isdecimal() else _number(bare)
        case FieldType.L:
            if text in _UNKNOWN or not text:
                return None
            return text in _TRUE or (text not in _FALSE and _refuse())
        case FieldType.D:
            if not bare.strip("0"):
                return None
            return f"{bare[:4]}-{bare[4:6]}-{bare[6:]}" if len(bare) == 8 and bare.isdecimal() else _refuse()
        case _:
            raise ValueError  # a memo stands in another file


def _number(text: str) -> JsonValue:
    try:
        number = WrittenDecimal(text)
    except ArithmeticError:
        raise ValueError from None
    return number if number.is_finite() else _refuse()


def _refuse() -> bool:
    raise ValueError


def _damaged(reason: str, place: Place) -> InvalidData:
    return InvalidData(f"The shapefile is damaged: {reason}", place=place, hint=_HINT)
