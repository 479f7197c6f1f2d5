"""Enough rows: check witnesses by a run, complete them, reduce them.

Owns the search for small sets by halves (delta debugging). Lineage does not always suffice: something may have to stay absent because of
rows that are there. Such witnesses are completed from the rows of the record's keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.provenance.evaluation import EvaluationsSpent

Holds = Callable[[Longs], bool]
"""Whether a set of records, by number, is enough."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A set of records that was checked.

    `verified`: it is enough. `minimal`: none of it can be left out.
    """

    numbers: Longs
    verified: bool
    minimal: bool
    note: str | None = None


def checked(witnesses: Longs, pool: Longs, holds: Holds, *, minimal: bool) -> Checked:
    """Witnesses that are enough, completed from a pool where they are not."""
    try:
        enough = holds(witnesses)
    except EvaluationsSpent:
        return Checked(witnesses, verified=False, minimal=False, note="not checked: no more evaluations are allowed")
    if not enough:
        completed = _completed(witnesses, pool, holds)
        if not completed.verified:
            return completed
        witnesses = completed.numbers
        if not minimal:
            return completed
    if not minimal:
        return Checked(witnesses, verified=True, minimal=len(witnesses) == 1)
    fewer, done = least_of(witnesses, holds)
    note = None if done else "perhaps not minimal: no more evaluations are allowed"
    return Checked(fewer, verified=True, minimal=done, note=note)


def _completed(witnesses: Longs, pool: Longs, holds: Holds) -> Checked:
    rest = np.setdiff1d(pool, witnesses)
    failed = "the query over the witnesses alone does not give the row: other rows keep something absent"
    try:
        if not holds(np.union1d(witnesses, rest)):
            return Checked(witnesses, verified=False, minimal=False, note=failed)
    except EvaluationsSpent:
        return Checked(witnesses, verified=False, minimal=False, note=failed)
    added, _ = least_of(rest, lambda some: holds(np.union1d(witnesses, some)))
    note = f"{len(added)} witnesses keep something absent that would hide the row"
    return Checked(np.union1d(witnesses, added), verified=True, minimal=False, note=note)


def least_of(numbers: Longs, holds: Holds) -> tuple[Longs, bool]:
    """A subset that holds, of which nothing can be left out.

    False if the allowed runs did not suffice to know that.


    The whole set holds.
    """
    size = max(1, len(numbers) // 2)
    try:
        while len(numbers):
            numbers, changed = _without_pieces(numbers, size, holds)
            if size == 1 and not changed:
                break
            size = max(1, size // 2)
    except _Ended as ended:
        return ended.numbers, False
    return numbers, True


class _Ended(Exception):
    """No more runs are allowed; the set found so far."""

    def __init__(self, numbers: Longs) -> None:
        super().__init__()
        self.numbers = numbers


def _without_pieces(numbers: Longs, size: int, holds: Holds) -> tuple[Longs, bool]:
    """Without each piece of a size that is not needed."""
    begin, changed = 0, False
    while begin < len(numbers):
        trial = np.concatenate([numbers[:begin], numbers[begin + size :]])
        try:
            enough = holds(trial)
        except EvaluationsSpent:
            raise _Ended(numbers) from None
        if enough:
            numbers, changed = trial, True
        else:
            begin += size
    return numbers, changed
