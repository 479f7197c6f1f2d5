"""Texts as typed values, in Arrow.

Owns the forms of numbers, truth values and times in cells of CSV. Invariant: a text is one exact value of its type, or it is null
here and refused by the reader: nothing is rounded, wrapped, or read as something near. The one exception are floats, where a
decimal text means the nearest float; it must not be infinite unless it says so. Values are made a column at a time: a round trip to
Spark for each expression costs seconds where there are thousands of columns. Not here: which text means null (`csv_reader`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.errors import IncompatibleSchema, Place
from odfabric.formats.files.time_formats import MILLIS_PER_SECOND, RFC3339, TimeFormat, offset_seconds, rfc3339_groups
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE

_UINT64_MAX = 2**63 - 1
_FLOAT = r"\A[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\z"
_PLAIN_WHOLE = r"\A[0-9]+\z"
_WHOLE = r"\A[+-]?[0-9]+(?:\.0+)?\z"
# Writers with gaps in a column of integers, such as pandas, write 5 as 5.0; a plus is no part of Arrow's integers.
_NOT_DIGITS = r"\A\+|\.0+\z"
_SPECIAL_FLOATS = {
    "nan": float("nan"),
    **{f"{sign}{word}": float(f"{sign}inf") for sign in ("", "+", "-") for word in ("inf", "infinity")},
}

TYPE_WORDS = {
    pa.bool_(): "`true` or `false`",
    pa.uint64(): "an integer of UInt64 up to 2^63-1",
}


@dataclass(frozen=True, slots=True)
class TextFormats:
    """How dates and timestamps look in one input."""

    date: TimeFormat
    timestamp: TimeFormat


def check_text_type(arrow: pa.DataType, *, path: str) -> None:
    """Raises IncompatibleSchema naming `path` if a type has no form as text."""
    known = (types.is_string, types.is_boolean, types.is_integer, types.is_decimal, types.is_floating)
    if not any(is_so(arrow) for is_so in (*known, types.is_date32, types.is_timestamp)):
        raise IncompatibleSchema(
            f"Column `{path}`: {arrow} has no form as text", place=Place(field=path), hint=_made_of_text(arrow)
        )


def typed(texts: pa.Array, arrow: pa.DataType, formats: TextFormats) -> pa.Array:
    """Typed values of texts; null for null and for invalid texts.

    The reader distinguishes them.

    The type is one that `check_text_type` lets pass.
    """
    if types.is_string(arrow):
        return texts
    if types.is_boolean(arrow):
        lower = pc.ascii_lower(texts)
        is_true = pc.equal(lower, "true")
        return pc.if_else(pc.or_(is_true, pc.equal(lower, "false")), is_true, None)
    if types.is_integer(arrow):
        return _integers(texts, arrow)
    if types.is_decimal(arrow):
        return _cast(_matching(texts, _decimal_pattern(arrow)), arrow)
    if types.is_floating(arrow):
        return _floats(texts, arrow)
    if types.is_date(arrow):
        return _of_each(texts, formats.date.days, pa.int32()).cast(arrow)
    millis = _rfc3339_millis(texts) if formats.timestamp.text == RFC3339 else None
    if millis is None:
        millis = _of_each(texts, formats.timestamp.millis, pa.int64())
    return millis.cast(TIMESTAMP_TYPE).cast(arrow)


def _made_of_text(arrow: pa.DataType) -> str:
    if types.is_binary(arrow):
        way = "unhex(name) where it is hexadecimal, unhex(substring(name, 3)) after \\x, unbase64(name) where it is base64"
    elif types.is_list(arrow):
        way = "from_json(name, 'ARRAY<BIGINT>') for [1,2], split(name, ';') for 1;2"
    else:
        way = "from_json(name, 'STRUCT<a: BIGINT>')"
    return f"declare the column as String, and make the value in the preprocess query: {way}"


def type_word(arrow: pa.DataType, formats: TextFormats) -> str:
    """What a text should have been, for messages."""
    if types.is_date(arrow):
        return f"a date ({formats.date.text})"
    if types.is_timestamp(arrow):
        return f"a timestamp ({formats.timestamp.text})"
    if types.is_decimal(arrow):
        return f"a decimal of {arrow.precision} digits, {arrow.scale} of them after the point"
    if types.is_floating(arrow):
        return f"a number of Float{arrow.bit_width}"
    sign = "UInt" if types.is_unsigned_integer(arrow) else "Int"
    return TYPE_WORDS.get(arrow) or f"an integer of {sign}{arrow.bit_width}"


# Arrow's casts of texts are exact but for what the patterns keep out: hexadecimal digits, words, and years before 1.


def _matching(texts: pa.Array, pattern: str) -> pa.Array:
    """The texts that fit a pattern, null for others."""
    fits = pc.match_substring_regex(texts, pattern)
    return texts if pc.all(fits, min_count=0).as_py() else pc.if_else(fits, texts, None)


def _cast(texts: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Texts as values, null for those that the type cannot hold."""
    try:
        return texts.cast(arrow)
    except pa.ArrowInvalid:
        return pa.concat_arrays([_cast_one(texts.slice(at, 1), arrow) for at in range(len(texts))])


def _cast_one(text: pa.Array, arrow: pa.DataType) -> pa.Array:
    try:
        return text.cast(arrow)
    except pa.ArrowInvalid:
        return pa.nulls(1, arrow)


def _integers(texts: pa.Array, arrow: pa.DataType) -> pa.Array:
    digits = texts
    if not pc.all(pc.match_substring_regex(texts, _PLAIN_WHOLE), min_count=0).as_py():
        digits = pc.replace_substring_regex(_matching(texts, _WHOLE), _NOT_DIGITS, "")
        if types.is_unsigned_integer(arrow):
            digits = pc.replace_substring_regex(digits, r"\A-(0+)\z", r"\1")
    numbers = _cast(digits, arrow)
    if arrow != pa.uint64():
        return numbers
    return pc.if_else(pc.less_equal(numbers, pa.scalar(_UINT64_MAX, arrow)), numbers, None)


def _floats(texts: pa.Array, arrow: pa.DataType) -> pa.Array:
    plain = _matching(texts, _FLOAT)
    numbers = plain.cast(arrow)
    numbers = pc.if_else(pc.is_finite(numbers), numbers, None)
    if numbers.null_count == texts.null_count:
        return numbers
    words = pc.ascii_lower(texts)
    for word, value in _SPECIAL_FLOATS.items():
        # A null among the words keeps what is there.
        numbers = pc.if_else(pc.fill_null(pc.equal(words, word), False), pa.scalar(value, arrow), numbers)
    return numbers


def _decimal_pattern(arrow: pa.DataType) -> str:
    """Texts of at most the type's digits.

    More zeros in front and behind change nothing.
    """
    whole, scale = arrow.precision - arrow.scale, arrow.scale
    fraction = rf"\.[0-9]{{0,{scale}}}0*"
    some = rf"\.[0-9]{{1,{scale}}}0*" if scale else r"\.0+"
    return (
        rf"\A[+-]?(?:(?:0+|0*[0-9]{{1,{max(whole, 1)}}})(?:{fraction})?|{some})\z"
        if whole
        else (rf"\A[+-]?(?:0+(?:{fraction})?|{some})\z")
    )


def _of_each(texts: pa.Array, parse: Callable[[str], int | None], arrow: pa.DataType) -> pa.Array:
    """What Python makes of each text; of equal texts once."""
    coded = texts.dictionary_encode()
    return pa.array(map(parse, coded.dictionary.to_pylist()), arrow).take(coded.indices)


def _rfc3339_millis(texts: pa.Array) -> pa.Array | None:
    """Milliseconds since 1970 of texts with a day and a clock.

    None where there are days that do not exist.
    """
    found = pc.extract_regex(texts, rfc3339_groups())
    day, clock, fraction, offset = (pc.struct_field(found, name) for name in ("day", "clock", "fraction", "offset"))
    clock = pc.if_else(pc.equal(clock, ""), "00:00:00", clock)
    try:
        seconds = pc.binary_join_element_wise(day, clock, " ").cast(pa.timestamp("s")).cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    if not pc.all(pc.is_in(offset, pa.array(["", "Z", "z"])), min_count=0).as_py():
        seconds = pc.subtract(seconds, _of_each(offset, lambda text: offset_seconds(text or "Z"), pa.int64()))
    millis = pc.utf8_rpad(pc.utf8_slice_codeunits(fraction, 0, 3), 3, "0").cast(pa.int64())
    return pc.add(pc.multiply(seconds, pa.scalar(MILLIS_PER_SECOND, pa.int64())), millis)
