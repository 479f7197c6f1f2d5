"""Cells behind a cell, and cells that decided whether a row is there.

Owns the way of a column downwards through a circuit. The role of a cell gets weaker on the way: what a computed value was copied from is
computed from too. A cell with several roles has the strongest one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from odfabric.model.provenance import CellRole
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.provenance.circuit.terms import Circuit, Leaf, Origin, Segment, distinct

_Column = tuple[int, int, CellRole]
"""A source, a column of it, and the role in which it is looked at."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of one leaf (by source number) in one column and role."""

    leaf: int
    column: str
    role: CellRole
    rows: Longs


def cells_behind(circuit: Circuit, row: int, column: int) -> list[Cells]:
    """Cells behind one cell of a row of the result."""
    top = len(circuit.sources) - 1
    return _strongest(circuit, _walked(circuit, {(top, column, CellRole.COPIED): np.array([row], np.int64)}))


def inspected_cells(circuit: Circuit, row: int) -> list[Cells]:
    """Cells that decided whether a row of the result is there."""
    begun: dict[_Column, Longs] = {}
    for number, rows in circuit.reached(row).items():
        segment = circuit.sources[number]
        if isinstance(segment, Segment):
            terms = segment.terms_of(rows)
            for origin in segment.control:
                _add(begun, _inspected(origin), segment.below(terms, origin.source))
    return _strongest(circuit, _walked(circuit, begun))


def _inspected(origin: Origin) -> _Column:
    return origin.source, origin.column, CellRole.INSPECTED


def _walked(circuit: Circuit, begun: dict[_Column, Longs]) -> dict[_Column, Longs]:
    """All columns on the way, with their rows."""
    found = dict(begun)
    for number in range(len(circuit.sources) - 1, -1, -1):
        segment = circuit.sources[number]
        if not isinstance(segment, Segment):
            continue
        for at in [at for at in found if at[0] == number]:
            for below, rows in _below(segment, at, found[at]):
                _add(found, below, rows)
    return found


def _below(segment: Segment, at: _Column, rows: Longs) -> Iterable[tuple[_Column, Longs]]:
    """The columns directly behind a column of some rows of a segment."""
    _, column, role = at
    if segment.own is not None and column in segment.passed:
        parts = [(segment.own[rows], role)]
    else:
        terms = segment.terms_of(rows)
        given = segment.given.get(column)
        if given is None:
            parts = [(terms, role)]
        else:
            parts = [(terms[given[terms]], role), (terms[~given[terms]], max(role, CellRole.COMPARED))]
    for terms, weaker in parts:
        for origin in segment.origins.get(column, ()):
            below = segment.below(terms, origin.source)
            if len(below):
                yield (origin.source, origin.column, max(weaker, origin.role)), below


def _add(found: dict[_Column, Longs], at: _Column, rows: Longs) -> None:
    if len(rows):
        found[at] = distinct(np.concatenate([found[at], rows])) if at in found else rows


def _strongest(circuit: Circuit, found: dict[_Column, Longs]) -> list[Cells]:
    by_cell: dict[tuple[int, str], list[tuple[CellRole, Longs]]] = defaultdict(list)
    for (source, column, role), rows in found.items():
        leaf = circuit.sources[source]
        if isinstance(leaf, Leaf):
            by_cell[source, leaf.names[column]].append((role, rows))
    cells: list[Cells] = []
    for (source, name), parts in sorted(by_cell.items()):
        known = np.zeros(0, np.int64)
        for role, rows in sorted(parts, key=lambda part: part[0]):
            fresh = np.setdiff1d(rows, known, assume_unique=True)
            if len(fresh):
                cells.append(Cells(source, name, role, fresh))
                known = np.union1d(known, fresh)
    return cells
