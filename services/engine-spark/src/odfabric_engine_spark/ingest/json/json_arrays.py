"""Columns of JSON values as Arrow arrays, a batch at a time.

Owns which values need no look at each of them. Invariant: an array is what `json_values` makes of its values one by one, or None where
one of them is wrong: which one, and what is wrong with it, only the way of single values says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric_engine_spark.ingest.json.json_values import Convert, Misfit
from odfabric_engine_spark.ingest.values.text_values import TextFormats, typed

ToArray: TypeAlias = Callable[[Sequence[object]], pa.Array | None]
"""Values of one column as an array; None if one of them does not fit."""

_UINT64_MAX = 2**63 - 1
_REFUSALS = (pa.ArrowException, OverflowError, UnicodeEncodeError)
"""What Arrow raises for values that are not of a type: too large, or half of a surrogate pair."""


def array_maker(arrow: pa.DataType, convert: Convert, formats: TextFormats, *, marked: bool) -> ToArray:
    """What turns the values of a column into an array.

    `convert` turns one of them, and `marked` columns hold JSON texts.
    """
    one_by_one = _one_by_one(arrow, convert)
    if marked:
        return one_by_one
    if types.is_boolean(arrow):
        return _of_kinds({bool}, lambda values: pa.array(values, arrow), one_by_one)
    if types.is_string(arrow):
        return _of_kinds({str}, lambda values: pa.array(values, arrow), one_by_one)
    if types.is_integer(arrow):
        return _of_kinds({int}, lambda values: _integers(values, arrow), one_by_one)
    if types.is_float64(arrow):
        # Arrow refuses integers that a float may not hold, though it can hold some of them.
        return _of_kinds({float, int}, lambda values: pa.array(values, arrow), one_by_one)
    if types.is_timestamp(arrow) or types.is_date(arrow):
        return _of_kinds({str}, lambda values: _times(values, arrow, formats), one_by_one)
    return one_by_one


def _of_kinds(kinds: set[type], at_once: ToArray, one_by_one: ToArray) -> ToArray:
    allowed = frozenset({*kinds, type(None)})

    def make(values: Sequence[object]) -> pa.Array | None:
        if allowed.issuperset(map(type, values)):
            try:
                found = at_once(values)
            except _REFUSALS:
                found = None
            if found is not None:
                return found
        return one_by_one(values)

    return make


def _integers(values: Sequence[object], arrow: pa.DataType) -> pa.Array | None:
    numbers = pa.array(values, arrow)
    if types.is_uint64(arrow) and (pc.max(numbers).as_py() or 0) > _UINT64_MAX:
        return None
    return numbers


def _times(values: Sequence[object], arrow: pa.DataType, formats: TextFormats) -> pa.Array | None:
    texts = pa.array(values, pa.string())
    times = typed(texts, arrow, formats)
    return times if times.null_count == texts.null_count else None


def _one_by_one(arrow: pa.DataType, convert: Convert) -> ToArray:
    def make(values: Sequence[object]) -> pa.Array | None:
        try:
            return pa.array([None if value is None else convert(value) for value in values], arrow)
        except Misfit:
            return None

    return make
