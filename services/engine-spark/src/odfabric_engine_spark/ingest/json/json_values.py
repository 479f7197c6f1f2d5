"""JSON values as typed values.

Owns strict parsing of one JSON text and the form of every type in JSON. Invariant: a value is exactly what was written, or
ValueError says which member is wrong: duplicate keys and the token NaN are refused, numbers are never rounded to fit (a decimal
text means the nearest float, but not an infinite one), texts are not taken for numbers nor numbers for texts. The one exception
are floats that no JSON number is: NaN and the infinities come as texts, as in the JSON of Protocol Buffers. Keys that a schema
does not name are ignored, missing ones are null. Source: RFC 8259; specification, "Data Ingestion"; docs/threat-model.md.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from functools import partial
from typing import NoReturn, Self, TypeAlias

import pyarrow as pa
from pyarrow import types

from odfabric.errors import IncompatibleSchema, Place
from odfabric.formats.json_values.json_columns import HOW_TO_MARK, JsonMembers
from odfabric_engine_spark.ingest.values.text_values import TYPE_WORDS, TextFormats
from odfabric_engine_spark.ingest.values.value_hints import json_time_hint
from odfabric_engine_spark.spark.frames.read_rows import shown

JsonValue: TypeAlias = "bool | int | float | Decimal | str | list[JsonValue] | dict[str, JsonValue] | None"
Convert: TypeAlias = Callable[[object], object]
"""A JSON value that is not null as Arrow takes it. Raises Misfit."""

_UNMARKED: JsonMembers = {}
_HOW_TO_KEEP = (
    f"declare it as Struct or List, or keep its text: String with {HOW_TO_MARK}, for `from_json` and `get_json_object`;"
    " geometries of GeoJSON are kept by `kind: GeoJson`"
)
_NUMBERS_AND_TEXTS = (
    "2138, 2138.0 and 2.138e3 are one number and three texts, so none is chosen: put it in quotes where it is written;"
    f" or keep what was written, String with {HOW_TO_MARK}, and take it by get_json_object(name, '$') in a preprocess query"
)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_NO_NUMBER = re.compile(r"[+-]?(?:nan|inf|infinity)", re.ASCII | re.IGNORECASE)
_FLOAT_INT_EXACT = 2**53
_UINT64_MAX = 2**63 - 1
_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103
"""The least number that rounds to an infinite Float32."""


class NotJson(ValueError):
    """A text is no JSON, for a reason that has a way out."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Misfit(ValueError):
    """A value is not of its type.

    `path` leads from the column to it, `hint` says what to write instead.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.path = ""

    def inside(self, step: str) -> Misfit:
        """The same misfit seen from one level up."""
        self.path = step + self.path
        return self


class WrittenDecimal(Decimal):
    """A number with its text: 2138.0 and 2.1380e3 are equal with different texts."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        """The number of a text. Raises DecimalException."""
        number = super().__new__(cls, text)
        number.text = text
        return number


class JsonParser:
    """Parses texts; `exact_numbers` keeps numbers with point or exponent as written."""

    def __init__(self, *, exact_numbers: bool, depth_max: int) -> None:
        self._depth_max = depth_max
        self._decoder = json.JSONDecoder(
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_decimal_number if exact_numbers else _finite,
        )
        self._scan = self._decoder.scan_once  # type: ignore[attr-defined]

    def parse(self, text: str) -> JsonValue:
        """The one value of a text without space around it. Raises ValueError."""
        value: JsonValue
        try:
            value, end = self._scan(text, 0)
            if end != len(text):
                value = self._decoder.decode(text)  # says what stands after the value
        except StopIteration:
            value = self._decoder.decode(text)  # says where a value is missing
        except RecursionError:
            raise self._too_deep() from None
        if len(text) > self._depth_max:
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


def open_brackets(text: str) -> int:
    """How many arrays and objects of a text have no end."""
    return sum(1 if token in "[{" else -1 for token in _outside_texts(text, 0, len(text)))


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
    text = constant.removeprefix("-")
    raise NotJson(
        f"{constant} is not a JSON value",
        f'write null, or in a column of Float64 or Float32 the text "{constant}" ({text} in quotes)',
    )


def _decimal_number(text: str) -> Decimal:
    try:
        return WrittenDecimal(text)
    except DecimalException:
        raise ValueError(f"{shown(text)} is not a number that can be kept") from None


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{shown(text)} is too large for Float64")
    return value


def needs_exact_numbers(schema: pa.Schema) -> bool:
    """Whether a type of the schema would lose digits of numbers through floats."""
    return any(_has_decimal(field.type) for field in schema)


def _has_decimal(arrow: pa.DataType) -> bool:
    inner = [arrow.field(index).type for index in range(arrow.num_fields)]
    return bool(types.is_decimal(arrow)) or any(_has_decimal(item) for item in inner)


def member_converter(field: pa.Field, formats: TextFormats, *, path: str, marked: JsonMembers) -> Convert:
    """Converter from JSON to a column's or member's values, or to marked JSON text."""
    within = marked.get(field.name, {})
    return json_text if within is None else converter(field.type, formats, path=path, marked=within)


def converter(arrow: pa.DataType, formats: TextFormats, *, path: str, marked: JsonMembers = _UNMARKED) -> Convert:
    """What turns JSON values into values of a type.

    `marked` are members below it that keep JSON.

    Raises IncompatibleSchema naming `path` if JSON has no form for it.
    """
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
    return _nested(arrow, formats, path, marked)


def _nested(arrow: pa.DataType, formats: TextFormats, path: str, marked: JsonMembers) -> Convert:
    if types.is_list(arrow) or types.is_fixed_size_list(arrow):
        return _list(arrow, converter(arrow.value_type, formats, path=f"{path}[]", marked=marked))
    if types.is_struct(arrow):
        members = {
            field.name: (field, member_converter(field, formats, path=f"{path}.{field.name}", marked=marked))
            for field in arrow
        }
        return lambda value: struct_of(value, members)
    if types.is_map(arrow) and types.is_string(arrow.key_type):
        item = arrow.item_field
        return _map(converter(item.type, formats, path=f"{path}{{value}}", marked=marked), nullable=item.nullable)
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
        raise Misfit(
            "null where a value is required", "a member that may be null is declared as {kind: Option, inner: ..}"
        )
    return None


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise _misfit(value, "true or false")


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise _misfit(value, "a text", _HOW_TO_KEEP if isinstance(value, dict | list) else _NUMBERS_AND_TEXTS)
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
        if isinstance(value, str) and _NO_NUMBER.fullmatch(value):
            return float(value)
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
            raise _misfit(value, word, hint(value))
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


def json_text(value: object) -> str:
    """A parsed value's JSON text: no spaces, members in order, numbers as written."""
    match value:
        case str():
            # Half of a surrogate pair is no text of UTF-8, its escape is.
            return json.dumps(value, ensure_ascii=not _is_utf8(value))
        case dict():
            return "{" + ",".join(f"{json_text(name)}:{json_text(item)}" for name, item in value.items()) + "}"
        case list():
            return "[" + ",".join([json_text(item) for item in value]) + "]"
        case Decimal():
            return value.text if isinstance(value, WrittenDecimal) else str(value)
        case _:
            return json.dumps(value)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _misfit(value: object, word: str, hint: str | None = None) -> Misfit:
    if hint is None and isinstance(value, str) and _DECIMAL.fullmatch(value):
        hint = "a number in quotes is a text: declare String, and cast it in a preprocess query"
    if hint is None and isinstance(value, dict) and value:
        hint = _of_object(value)
    if hint is None and "integer" in word and isinstance(value, float | Decimal):
        hint = "declare Float64 or Decimal, and round it in a preprocess query if integers are wanted"
    return Misfit(f"{kind_of(value)} is not {word}", hint)


def _of_object(value: Mapping[str, object]) -> str:
    member = next(iter(value))
    return f"declare it as a Struct with its members, and take the one that holds the value in a preprocess query: name.`{shown(member)[1:-1]}`"


def kind_of(value: object) -> str:
    """A value as messages call it."""
    match value:
        case None:
            return "null"
        case bool():
            return "the value true or false"
        case int() | float() | Decimal():
            return f"the number {shown(str(value))[1:-1]}"
        case str():
            return f"the text {shown(value)}"
        case list():
            return "an array"
        case _:
            return "an object"
