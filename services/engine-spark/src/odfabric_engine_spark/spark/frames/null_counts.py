"""Nulls in columns that must not have any.

Owns the count and the refusal. Invariant: all rows are counted before the refusal, because the message says how many there
are; the place is that of the first. Source: specification, "Merge Strategies".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from odfabric.errors import InvalidData, Place

NULLS_HINT = "a column that may be null is declared as `type: {kind: Option, inner: String}` (here with its own type)"


def unexpected_nulls(name: str, count: int) -> str:
    """The text in which nulls in a required column are refused."""
    return f"Column `{name}` contains {count} null values while none were expected"


class NullCounts:
    """Counts nulls of the required columns of a schema over batches."""

    def __init__(self, schema: pa.Schema) -> None:
        self._required = [(index, field.name) for index, field in enumerate(schema) if not field.nullable]
        self._counts: dict[int, int] = {}
        self._first_rows: dict[int, int] = {}

    @property
    def found(self) -> bool:
        """Whether there is a null where none may be."""
        return bool(self._counts)

    def add(self, columns: Sequence[pa.Array], first_row: int) -> None:
        """Counts a batch whose first row is at `first_row`."""
        for index, _ in self._required:
            if count := columns[index].null_count:
                self._counts[index] = self._counts.get(index, 0) + count
                if index not in self._first_rows:
                    self._first_rows[index] = first_row + pc.index(pc.is_null(columns[index]), True).as_py()

    def refuse(self, place: Callable[[int, int], Place]) -> None:
        """Raises InvalidData for the first column with nulls.

        `place` gives that of a row and column.
        """
        for index, name in self._required:
            if count := self._counts.get(index):
                at = place(self._first_rows[index], index)
                raise InvalidData(unexpected_nulls(name, count), place=at, hint=NULLS_HINT)
