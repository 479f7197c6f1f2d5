"""JSON values as typed values.

Owns strict parsing of one JSON text and the form of every type in JSON. Invariant: a value is exactly what was written, or
ValueError says which member is wrong: duplicate keys and NaN are refused, numbers are never rounded to fit (a decimal text
means the nearest float, but not an infinite one), texts are not taken for numbers nor numbers for texts. Keys that a schema
does not name are ignored, missing ones are null. Source: RFC 8259; specification facts, "Ingestion" 5; security S5.3.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from functools import partial
from typing import NoReturn, TypeAlias

import pyarrow as pa
from pyarrow import types

from odfabric.errors import IncompatibleSchema, Place
from odfabric_engine_spark.read.input_rows import shown
from odfabric_engine_spark.read.text_values import TYPE_WORDS, TextFormats
from odfabric_engine_spark.read.value_hints import json_time_hint

JsonValue: TypeAlias = "bool | int | float | Decimal | str | list[JsonValue] | dict[str, JsonValue] | None"
Convert: TypeAlias = Callable[[object], object]
"""A JSON value that is not null as Arrow takes it. Raises Misfit."""

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_FLOAT_INT_EXACT = 2**53
_UINT64_MAX = 2**63 - 1
_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103
"""The least number that rounds to an infinite Float32."""


class Misfit(ValueError):
    """A value is not of its type; `path` leads from the column to it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.path = ""

    def inside(self, step: str) -> Misfit:
        """The same misfit seen from one level up."""
        self.path = step + self.path
        return self


class JsonParser:
    """Parses texts; `exact_numbers` keeps numbers with a point or exponent as decimals instead of floats."""

    def __init__(self, *, exact_numbers: bool, depth_max: int) -> None:
        self._depth_max = depth_max
        self._decoder = json.JSONDecoder(
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=Decimal if exact_numbers else _finite,
        )

    def parse(self, text: str) -> JsonValue:
        """The one value of a text. Raises ValueError."""
        try:
            value: JsonValue = self._decoder.decode(text)
        except RecursionError:
            raise self._too_deep() from None
        self._check_depth(text, 0, len(text))
        return value

    def parse_at(self, text: str, start: int) -> tuple[JsonValue, int]:
        """The value that begins at `start`, and where it ends. Raises ValueError."""
        try:
            value, end = self._decoder.raw_decode(text, start)
        except RecursionError:
            raise self._too_deep() from None
        self._check_depth(text, start, end)
        return value, end

    def _check_depth(self, text: str, start: int, end: int) -> None:
        # Counting brackets, those in texts too, settles nearly every case without looking closely.
        if text.count("[", start, end) + text.count("{", start, end) <= self._depth_max:
            return
        depth = 0
        for token in _outside_texts(text, start, end):
            depth += 1 if token in "[{" else -1
            if depth > self._depth_max:
                raise self._too_deep()

    def _too_deep(self) -> ValueError:
        return ValueError(f"nested deeper than {self._depth_max}")


def _outside_texts(text: str, start: int, end: int) -> Iterator[str]:
    inside, position = False, start
    while position < end:
        character = text[position]
        if inside and character == "\\":
            position += 1
        elif character == '"':
            inside = not inside
        elif not inside and character in "[]{}":
            yield character
        position += 1


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        keys = [key for key, _ in pairs]
        double = next(key for index, key in enumerate(keys) if key in keys[:index])
        raise ValueError(f"the key {shown(double)} appears twice")
    return members


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{shown(text)} is too large for Float64")
    return value


def needs_exact_numbers(schema: pa.Schema) -> bool:
    """Whether a type of the schema would lose digits of numbers that went through a float."""
    return any(_has_decimal(field.type) for field in schema)


def _has_decimal(arrow: pa.DataType) -> bool:
    inner = [arrow.field(index).type for index in range(arrow.num_fields)]
    return bool(types.is_decimal(arrow)) or any(_has_decimal(item) for item in inner)


def converter(arrow: pa.DataType, formats: TextFormats, *, path: str) -> Convert:
    """What turns JSON values into values of a type. Raises IncompatibleSchema naming `path` if JSON has no form for it."""
    if types.is_boolean(arrow):
        return _boolean
    if types.is_string(arrow) or types.is_large_string(arrow):
        return _string
    if types.is_integer(arrow):
        return _integer(arrow)
    if types.is_floating(arrow):
        return _float(arrow)
    if types.is_decimal(arrow):
        return _decimal(arrow)
    if types.is_date(arrow):
        return _time(formats.date.days, f"a date ({formats.date.text})", partial(json_time_hint, arrow, formats, path))
    if types.is_timestamp(arrow):
        return _timestamp(arrow, formats, path)
    if types.is_binary(arrow) or types.is_fixed_size_binary(arrow):
        return _binary
    return _nested(arrow, formats, path)


def _nested(arrow: pa.DataType, formats: TextFormats, path: str) -> Convert:
    if types.is_list(arrow) or types.is_fixed_size_list(arrow):
        return _list(arrow, converter(arrow.value_type, formats, path=f"{path}[]"))
    if types.is_struct(arrow):
        members = {field.name: (field, converter(field.type, formats, path=f"{path}.{field.name}")) for field in arrow}
        return lambda value: struct_of(value, members)
    if types.is_map(arrow) and types.is_string(arrow.key_type):
        item = arrow.item_field
        return _map(converter(item.type, formats, path=f"{path}{{value}}"), nullable=item.nullable)
    raise IncompatibleSchema(f"Column `{path}`: {arrow} has no form in JSON", place=Place(field=path))


def struct_of(value: object, members: Mapping[str, tuple[pa.Field, Convert]]) -> dict[str, object]:
    """The members of an object. Raises Misfit."""
    if not isinstance(value, dict):
        raise _misfit(value, "an object")
    result = {}
    for name, (field, convert) in members.items():
        try:
            result[name] = _item(value.get(name), convert, nullable=field.nullable)
        except Misfit as misfit:
            raise misfit.inside(f".{name}") from None
    return result


def _item(value: object, convert: Convert, *, nullable: bool) -> object:
    if value is not None:
        return convert(value)
    if not nullable:
        raise Misfit("null where a value is required")
    return None


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise _misfit(value, "true or false")


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise _misfit(value, "a text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misfit(f"{shown(value)} holds half of a surrogate pair") from None
    return value


def _whole(value: object) -> int | None:
    """An integer; 1.0 and 1e3 are some, as some writers put them."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float | Decimal) and -_FLOAT_INT_EXACT <= value <= _FLOAT_INT_EXACT and value == int(value):
        return int(value)
    return None


def _integer(arrow: pa.DataType) -> Convert:
    signed = types.is_signed_integer(arrow)
    bits: int = arrow.bit_width
    low: int = -(2 ** (bits - 1)) if signed else 0
    high: int = 2 ** (bits - 1) - 1 if signed else min(2**bits - 1, _UINT64_MAX)
    word = TYPE_WORDS.get(arrow) or f"an integer of {'Int' if signed else 'UInt'}{arrow.bit_width}"

    def convert(value: object) -> int:
        number = _whole(value)
        if number is None or not low <= number <= high:
            raise _misfit(value, word)
        return number

    return convert


def _float(arrow: pa.DataType) -> Convert:
    word = f"a number of Float{arrow.bit_width}"
    largest = _FLOAT32_OVERFLOW if arrow.bit_width == 32 else math.inf

    def convert(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise _misfit(value, word)
        try:
            number = float(value)
        except OverflowError:
            raise _misfit(value, word) from None
        if not abs(number) < largest or (isinstance(value, int) and int(number) != value):
            raise _misfit(value, word)
        return number

    return convert


def _decimal(arrow: pa.DataType) -> Convert:
    # An Inexact result means that a digit would be lost, InvalidOperation that there are too many.
    context = Context(prec=arrow.precision, traps=[Inexact, InvalidOperation])
    unit = Decimal(1).scaleb(-arrow.scale)
    word = f"a decimal of {arrow.precision} digits, {arrow.scale} of them after the point"

    def convert(value: object) -> Decimal:
        is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
        if not is_number and not (isinstance(value, str) and _DECIMAL.fullmatch(value)):
            raise _misfit(value, word)
        try:
            return Decimal(str(value)).quantize(unit, context=context)
        except DecimalException:
            raise _misfit(value, word) from None

    return convert


def _time(parse: Callable[[str], int | None], word: str, hint: Callable[[object], str | None]) -> Convert:
    def convert(value: object) -> int:
        found = parse(value) if isinstance(value, str) else None
        if found is None:
            raise Misfit(_misfit(value, word).message, hint(value))
        return found

    return convert


def _timestamp(arrow: pa.DataType, formats: TextFormats, path: str) -> Convert:
    factor = {"ms": 1, "us": 1_000}.get(arrow.unit)
    if factor is None:
        raise IncompatibleSchema(f"Column `{path}`: {arrow} has no form in JSON", place=Place(field=path))
    hint = partial(json_time_hint, arrow, formats, path)
    of_text = _time(formats.timestamp.millis, f"a timestamp ({formats.timestamp.text})", hint)
    counts = "epoch" in formats.timestamp.groups

    def convert(value: object) -> int:
        # A format of seconds since 1970 reads a number as it reads a text.
        number = _whole(value) if counts else None
        return int(str(of_text(value if number is None else str(number)))) * factor

    return convert


def _binary(value: object) -> bytes:
    try:
        if isinstance(value, str) and value.isascii() and not any(character.isspace() for character in value):
            return bytes.fromhex(value)
    except ValueError:
        pass
    raise _misfit(value, "bytes in hexadecimal")


def _list(arrow: pa.DataType, convert: Convert) -> Convert:
    nullable = arrow.value_field.nullable

    def convert_all(value: object) -> list[object]:
        if not isinstance(value, list):
            raise _misfit(value, "a list")
        result = []
        for index, item in enumerate(value):
            try:
                result.append(_item(item, convert, nullable=nullable))
            except Misfit as misfit:
                raise misfit.inside(f"[{index}]") from None
        return result

    return convert_all


def _map(convert: Convert, *, nullable: bool) -> Convert:
    def convert_all(value: object) -> list[tuple[str, object]]:
        if not isinstance(value, dict):
            raise _misfit(value, "an object")
        result = []
        for key, item in value.items():
            try:
                result.append((_string(key), _item(item, convert, nullable=nullable)))
            except Misfit as misfit:
                raise misfit.inside(f"[{shown(key)}]") from None
        return result

    return convert_all


def _misfit(value: object, word: str) -> Misfit:
    return Misfit(f"{_kind(value)} is not {word}")


def _kind(value: object) -> str:
    match value:
        case bool():
            return "the value true or false"
        case int() | float() | Decimal():
            return f"the number {shown(str(value))[1:-1]}"
        case str():
            return f"the text {shown(value)}"
        case list():
            return "a list"
        case _:
            return "an object"
