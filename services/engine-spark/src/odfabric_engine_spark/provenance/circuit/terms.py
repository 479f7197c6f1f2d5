"""What rows are made of: sources, terms, and reading them backwards.

Owns the circuit of one query over the rows at hand. A source is a leaf (rows of one use of an input) or a segment: rows that an operator
over many rows has made and numbered. Each row of a segment is a sum of terms, and each term a product of rows of earlier sources.
Invariant: a segment refers to sources with lower numbers only, so one pass from the highest to the lowest reads everything back. Sets of
rows are arrays of numbers; nothing here loops over rows in Python. Not here: how segments are made (`builder`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from odfabric.model.provenance import CellRole
from odfabric_engine_spark.arrays.array_types import Longs, Mask

NOTHING = -1
"""The number of no row: the missing side of an outer join, another branch of a union."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A column of a source behind a column of a relation.

    `by` names the operation between the two in the words of OpenLineage, nothing for one that changes nothing.
    """

    source: int
    column: int
    role: CellRole
    by: str = ""


@dataclass(frozen=True, slots=True)
class Absence:
    """A note on rows that have one side of a join and not the other."""

    present: tuple[int, ...]
    absent: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """Rows of one use of an input: their offsets, by number; names of its columns."""

    position: int
    alias: str
    names: Mapping[int, str]
    offsets: Longs


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Numbered rows and their terms.

    Row i has the terms `begins[i]` to `ends[i]`. `ids[t, s]` is the row of `sources[s]` in term t. `own[i]` is the term of a window's
    row itself; columns that the window only passes on (`passed`) come from that term. `given` says by column from which terms the
    value was taken, where not from all. `one_of[i]` counts partners of which one is named.
    """

    kind: str
    label: str
    sources: tuple[int, ...]
    ids: Longs
    begins: Longs
    ends: Longs
    origins: Mapping[int, tuple[Origin, ...]]
    control: tuple[Origin, ...] = ()
    own: Longs | None = None
    passed: frozenset[int] = frozenset()
    given: Mapping[int, Mask] = field(default_factory=dict)
    absences: tuple[Absence, ...] = ()
    one_of: Longs | None = None
    unmatched: Mask | None = None

    def terms_of(self, rows: Longs) -> Longs:
        """The terms of some rows, each once, ascending."""
        return covered(self.begins[rows], self.ends[rows], len(self.ids))

    def below(self, terms: Longs, source: int) -> Longs:
        """Rows of a source within terms, each once, ascending."""
        found = [self.ids[terms, slot] for slot, each in enumerate(self.sources) if each == source]
        return distinct(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def notes(self, rows: Longs) -> list[str]:
        """Where something that is not there decided that rows are."""
        terms, found = self.terms_of(rows), []
        if self.kind == "group" and (self.begins[rows] == self.ends[rows]).any():
            found.append("made of no rows")
        if self.unmatched is not None and self.unmatched[rows].any():
            found.append(f"no row matched: {self.label}")
        if self.one_of is not None and (self.one_of[rows] > 1).any():
            found.append(f"one of {int(self.one_of[rows].max())} rows that match: {self.label}")
        for each in self.absences:
            present = self._some(terms, each.present)
            if (present & ~self._some(terms, each.absent)).any():
                found.append(each.text)
        return found

    def _some(self, terms: Longs, sources: Sequence[int]) -> Mask:
        slots = np.array([slot for slot, each in enumerate(self.sources) if each in sources], np.int64)
        found: Mask = (self.ids[np.ix_(terms, slots)] != NOTHING).any(axis=1)
        return found


def covered(begins: Longs, ends: Longs, count: int) -> Longs:
    """Positions below `count` that lie in some half-open range, ascending."""
    if len(begins) == 1:
        return np.arange(begins[0], ends[0], dtype=np.int64)
    steps = np.zeros(count + 1, np.int64)
    np.add.at(steps, begins, 1)
    np.add.at(steps, ends, -1)
    return np.flatnonzero(np.cumsum(steps[:-1]) > 0)


def distinct(rows: Longs) -> Longs:
    """Numbers of rows, each once, ascending, without those of no row."""
    found = np.unique(rows)
    return found[1:] if len(found) and found[0] == NOTHING else found


class Circuit:
    """All sources of a query over rows; the last one is its result."""

    def __init__(self, sources: Sequence[Leaf | Segment]) -> None:
        self.sources = tuple(sources)

    @property
    def result(self) -> Segment:
        """The rows of the query."""
        last = self.sources[-1]
        assert isinstance(last, Segment)
        return last

    @property
    def leaves(self) -> list[tuple[int, Leaf]]:
        """Leaves with the numbers of their sources."""
        return [(number, each) for number, each in enumerate(self.sources) if isinstance(each, Leaf)]

    def reached(self, row: int) -> dict[int, Longs]:
        """The rows of each source that a row of the result is made of, itself included."""
        top = len(self.sources) - 1
        found: dict[int, Longs] = {top: np.array([row], np.int64)}
        for number in range(top, -1, -1):
            source = self.sources[number]
            if isinstance(source, Leaf) or number not in found:
                continue
            terms = source.terms_of(found[number])
            for below in dict.fromkeys(source.sources):
                rows = source.below(terms, below)
                if len(rows):
                    found[below] = distinct(np.concatenate([found.get(below, rows), rows]))
        return found

    def witnesses(self, row: int) -> dict[int, Longs]:
        """The rows of each leaf (by source number) that a row of the result is made of."""
        return {number: rows for number, rows in self.reached(row).items() if isinstance(self.sources[number], Leaf)}

    def notes(self, row: int) -> list[str]:
        """Where something that is not there decided that the row is."""
        reached = self.reached(row)
        parts = [(self.sources[number], rows) for number, rows in sorted(reached.items(), reverse=True)]
        return list(
            dict.fromkeys(note for part, rows in parts if isinstance(part, Segment) for note in part.notes(rows))
        )
