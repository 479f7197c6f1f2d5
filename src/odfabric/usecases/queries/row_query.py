"""SQL of the node: rows filtered and sorted, and a profile of columns.

Invariant: whatever stands in a name or a value stays a name or a value. Names are quoted with backticks and values are string literals of
Spark SQL, cast to the type of their column. Source: Spark SQL reference, "Identifiers", "Literals".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OPERATORS = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
"""Comparisons by how they are written in addresses."""
UNARY = {"null": "IS NULL", "not-null": "IS NOT NULL"}
CONTAINS = "contains"
COMPARED = (*OPERATORS, CONTAINS, *UNARY)
"""All operators of a filter."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A condition on one column of the SQL type `type`.

    `value` is text as somebody typed it.
    """

    column: str
    type: str
    operator: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class RowOrder:
    """By which column rows are sorted."""

    column: str
    descending: bool = False


def rows_query(dataset: str, filter_: RowFilter | None, order: RowOrder | None) -> str:
    """`SELECT * FROM dataset`, filtered and sorted."""
    lines = [f"SELECT * FROM {quoted(dataset)}"]
    if filter_ is not None:
        lines.append(f"WHERE {_condition(filter_)}")
    if order is not None:
        lines.append(f"ORDER BY {quoted(order.column)}{' DESC' if order.descending else ''}")
    return "\n".join(lines)


HISTOGRAM_BINS = 20

_UNORDERED = ("ARRAY", "MAP", "STRUCT", "BINARY", "VOID", "VARIANT")
_NUMERIC = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")


def profile_query(dataset: str, columns: Sequence[tuple[str, str]]) -> str:
    """One row: the number of records, then statistics of each column.

    How many are null, about how many differ, the least, the greatest, and how numbers are spread: a JSON array of `{x,
    y}`, so many about there.

    `columns` are names and SQL types; what a type cannot have is left out. Results are named by position.
    """
    asked = ["count(*) AS records"]
    for position, (name, sql_type) in enumerate(columns):
        column = quoted(name)
        asked.append(f"count(*) - count({column}) AS nulls_{position}")
        if not sql_type.startswith(_UNORDERED):
            asked.append(f"approx_count_distinct({column}) AS distinct_{position}")
            asked += [f"CAST({each}({column}) AS STRING) AS {each}_{position}" for each in ("min", "max")]
        if sql_type.startswith(_NUMERIC):
            asked.append(f"to_json(histogram_numeric(CAST({column} AS DOUBLE), {HISTOGRAM_BINS})) AS spread_{position}")
    return f"SELECT {', '.join(asked)} FROM {quoted(dataset)}"


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string literal; backslashes are escape signs in Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _condition(filter_: RowFilter) -> str:
    column = quoted(filter_.column)
    if filter_.operator in UNARY:
        return f"{column} {UNARY[filter_.operator]}"
    if filter_.operator == CONTAINS:
        return f"contains(lower(CAST({column} AS STRING)), lower({literal(filter_.value)}))"
    value = literal(filter_.value)
    typed = value if filter_.type == "STRING" else f"CAST({value} AS {filter_.type})"
    return f"{column} {OPERATORS[filter_.operator]} {typed}"
