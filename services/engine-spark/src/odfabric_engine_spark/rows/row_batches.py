"""Row-wise computations in batches whose results Spark collects.

Owns dividing rows of which a query makes more than may be in memory at once. Invariant: what comes of the pieces, one after the other, is
what would come of all rows, for each is mapped alone; of what could not be collected nothing is given. Not here: parts of keys
(`operators.keyed_recompute.parallel_parts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, Self, TypeVar

from odfabric.errors import LimitExceeded
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.result_rows import ResultTooLarge


class Rows(Protocol):
    """Rows of a scan."""

    def __len__(self) -> int:
        """How many there are."""

    def slice(self, begin: int, count: int, /) -> Self:
        """Consecutive ones."""


RowsT = TypeVar("RowsT", bound=Rows)
ResultT = TypeVar("ResultT")


def in_pieces(
    scans: Sequence[RowsT], compute: Callable[[Sequence[RowsT]], ResultT], call: EngineCall, *, rows_max: int
) -> Iterator[ResultT]:
    """Compute over the rows of all scans in pieces; yields at least one result.

    A piece has at most `rows_max` rows; pieces follow scan by scan.

    Raises LimitExceeded for one row of which too much comes, and what `compute` raises but ResultTooLarge.
    """
    waiting = [list(scans)]
    most = rows_max = max(rows_max, 1)
    while waiting:
        call.check()
        piece = waiting.pop()
        halves = _halves(piece)
        if halves and sum(map(len, piece)) > rows_max:
            waiting += reversed(halves)
            continue
        try:
            found = compute(piece)
        except ResultTooLarge:
            if not halves:
                raise result_too_large(call) from None
            waiting += reversed(halves)
            rows_max = min(rows_max, sum(map(len, halves[0])))  # those beside it mostly make as many rows
        else:
            rows_max = min(2 * rows_max, most)
            yield found


def result_too_large(call: EngineCall) -> LimitExceeded:
    """What cannot be divided any more is larger than may be in memory."""
    maximum = 2 * call.settings.collected_bytes_max
    return LimitExceeded("one row or one key makes too many rows", limit="collected_bytes_max", maximum=maximum)


def _halves(scans: Sequence[RowsT]) -> list[list[RowsT]]:
    """The rows of all scans in two lists; none if there is one row at most."""
    total = sum(map(len, scans))
    if total <= 1:
        return []
    first: list[RowsT] = []
    second: list[RowsT] = []
    left = total // 2
    for rows in scans:
        taken = min(left, len(rows))
        left -= taken
        first.append(rows.slice(0, taken))
        second.append(rows.slice(taken, len(rows) - taken))
    return [first, second]
