"""Keys of groups: their columns and normal form.

Owns the key columns of groups and their normal form. Invariant: two keys have equal bytes (`canonical_rows`) exactly when Spark
groups them together: NULL is a value, NaN equals itself, -0.0 is 0.0. Not here: what is kept per key (`group_state`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Expression,
    type_text,
)

_NO_BYTES = ('"map"', '"variant"', '"void"', '"interval"', '"interval year', '"interval month"')
"""How the text of a type shows that values of it have no canonical bytes."""


def has_bytes(expression: Expression) -> bool:
    """Whether values of an expression's type have canonical bytes, which a key needs."""
    text = type_text(expression)
    return not any(sign in text for sign in _NO_BYTES)


def can_be_key(expression: Expression) -> bool:
    """Whether equal values are equal bytes once floats are normalised.

    One zero and one NaN (nested ones have not).
    """
    text = type_text(expression)
    if not has_bytes(expression) or "collat" in text.lower():
        return False
    return not (text.startswith("{") and ('"float"' in text or '"double"' in text))


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of keys; a window is two physical columns, its start and its end."""

    name: str
    arrow: pa.DataType
    is_window: bool
    label: str
    """What messages call it; nothing for the key of all rows."""

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The physical columns."""
        if not self.is_window:
            return (pa.field(self.name, self.arrow),)
        return tuple(pa.field(f"{self.name}_{member.name}", member.type) for member in self.arrow)

    def shown(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """The key as the query sees it, from physical columns: a window is a struct."""
        arrays = [columns[field.name] for field in self.fields]
        return pa.StructArray.from_arrays(arrays, fields=list(self.arrow)) if self.is_window else arrays[0]


@dataclass(frozen=True, slots=True)
class GroupColumn(KeyColumn):
    """A grouping expression and its column."""

    expression: Expression
    nullable: bool

    @property
    def key(self) -> KeyColumn:
        """The column without what only the planner knows."""
        return KeyColumn(self.name, self.arrow, self.is_window, self.label)


def key_fields(columns: Sequence[KeyColumn]) -> list[pa.Field]:
    """Physical columns of all grouping expressions, in order."""
    return [field for column in columns for field in column.fields]


def normal_key_columns(table: pa.Table, columns: Sequence[KeyColumn]) -> dict[str, pa.Array]:
    """Key columns of rows, with one NaN and one zero."""
    found: dict[str, pa.Array] = {}
    for field in key_fields(columns):
        array = one_array(table.column(field.name)).cast(field.type)
        found[field.name] = normal_floats(array) if types.is_floating(field.type) else array
    return found


def normal_floats(array: pa.Array) -> pa.Array:
    """Floats with one NaN and one zero."""
    one_zero = pc.add(array, pa.scalar(0.0, array.type))
    return pc.if_else(pc.is_nan(one_zero), pa.scalar(float("nan"), array.type), one_zero)
