"""Enough rows: check witnesses by a run, complete them, reduce them.

Owns the search for small sets by halves (delta debugging). Lineage does not always suffice: something may have to stay absent because of
rows that are there. Such witnesses are completed from the rows of the record's keys. Searches ask for several worlds at once where the
answer to one seldom changes the next question; what is found is the same as with one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.provenance.evaluation import EvaluationsSpent, Search

Holds = Callable[[Sequence[Longs]], Search[list[bool]]]
"""Whether sets of records, by number, are enough: answers for the first few, at least for one. Raises EvaluationsSpent."""

_AHEAD = 8
"""Pieces that are left out in turn in one run: all answers but those after a piece that is not needed count."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A set of records that was checked.

    `verified`: it is enough. `minimal`: none of it can be left out.
    """

    numbers: Longs
    verified: bool
    minimal: bool
    note: str | None = None


def checked(witnesses: Longs, pool: Longs, holds: Holds, *, minimal: bool) -> Search[Checked]:
    """Witnesses that are enough, completed from a pool where they are not."""
    try:
        (enough,) = yield from holds([witnesses])
    except EvaluationsSpent:
        return Checked(witnesses, verified=False, minimal=False, note="not checked: no more evaluations are allowed")
    if not enough:
        completed = yield from _completed(witnesses, pool, holds)
        if not completed.verified:
            return completed
        witnesses = completed.numbers
        if not minimal:
            return completed
    if not minimal:
        return Checked(witnesses, verified=True, minimal=len(witnesses) == 1)
    fewer, done = yield from least_of(witnesses, holds)
    note = None if done else "perhaps not minimal: no more evaluations are allowed"
    return Checked(fewer, verified=True, minimal=done, note=note)


def _completed(witnesses: Longs, pool: Longs, holds: Holds) -> Search[Checked]:
    rest = np.setdiff1d(pool, witnesses)
    failed = "the query over the witnesses alone does not give the row: other rows keep something absent"
    try:
        (enough,) = yield from holds([np.union1d(witnesses, rest)])
        if not enough:
            return Checked(witnesses, verified=False, minimal=False, note=failed)
    except EvaluationsSpent:
        return Checked(witnesses, verified=False, minimal=False, note=failed)
    added, _ = yield from least_of(rest, lambda sets: holds([np.union1d(witnesses, some) for some in sets]))
    note = f"{len(added)} witnesses keep something absent that would hide the row"
    return Checked(np.union1d(witnesses, added), verified=True, minimal=False, note=note)


def least_of(numbers: Longs, holds: Holds) -> Search[tuple[Longs, bool]]:
    """A subset that holds, of which nothing can be left out.

    False if the allowed worlds did not suffice to know that. The whole set holds.
    """
    size = max(1, len(numbers) // 2)
    try:
        while len(numbers):
            numbers, changed = yield from _without_pieces(numbers, size, holds)
            if size == 1 and not changed:
                break
            size = max(1, size // 2)
    except _Ended as ended:
        return ended.numbers, False
    return numbers, True


class _Ended(Exception):
    """No more worlds are allowed; the set found so far."""

    def __init__(self, numbers: Longs) -> None:
        super().__init__()
        self.numbers = numbers


def _without_pieces(numbers: Longs, size: int, holds: Holds) -> Search[tuple[Longs, bool]]:
    """Without each piece of a size that is not needed."""
    begin, changed = 0, False
    while begin < len(numbers):
        begins = range(begin, len(numbers), size)[:_AHEAD]
        worlds = [np.concatenate([numbers[:at], numbers[at + size :]]) for at in begins]
        try:
            answers = yield from holds(worlds)
        except EvaluationsSpent:
            raise _Ended(numbers) from None
        needed = answers.index(True) if True in answers else len(answers)
        begin += needed * size
        if needed < len(answers):
            numbers, changed = worlds[needed], True
    return numbers, changed
