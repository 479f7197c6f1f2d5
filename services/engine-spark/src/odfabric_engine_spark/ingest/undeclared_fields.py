"""Fields of an input that no column is declared for.

Owns counting them in bounded memory: an input may have a new name in each row. Invariant: a field that is in the answer has been counted
from its first row on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from odfabric.model.engine import UNDECLARED_LISTED_MAX, UndeclaredField

_COUNTED_MAX = 1_000
"""Most names that are counted; names that come after so many others are passed over."""


class UndeclaredFields:
    """Counts rows with values in fields outside `declared`, and samples them.

    Keeps the first `sampled` values of each.
    """

    def __init__(self, declared: Iterable[str], *, sampled: int = 0) -> None:
        self._declared = frozenset(declared)
        self._rows: Counter[str] = Counter()
        self._sampled = sampled
        self._values: dict[str, list[object]] = {}

    def add(self, members: Mapping[str, object]) -> str | None:
        """Take in one row; its first field that has a value but no column."""
        found = None
        for name, value in members.items():
            if name in self._declared or value is None:
                continue
            found = name if found is None else found
            self.count(name, 1, [value])
        return found

    def count(self, name: str, rows: int, values: Sequence[object] = ()) -> None:
        """Take in a count of rows with a value in the field, and some values."""
        if rows and (name in self._rows or len(self._rows) < _COUNTED_MAX):
            self._rows[name] += rows
            kept = self._values.setdefault(name, [])
            kept.extend(values[: self._sampled - len(kept)])

    @property
    def samples(self) -> Mapping[str, Sequence[object]]:
        """The kept values of each field, in the order in which the fields came."""
        return self._values if self._sampled else {}

    def listed(self) -> tuple[UndeclaredField, ...]:
        """Those of most rows, each with its rows.

        Of as many rows in the order in which they came.
        """
        most = self._rows.most_common(UNDECLARED_LISTED_MAX)
        return tuple(UndeclaredField(name=name, rows=rows) for name, rows in most)
