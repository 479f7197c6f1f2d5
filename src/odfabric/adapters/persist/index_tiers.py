"""Which batches of an index are made one: sizes grow by a factor from the newest to the oldest.

Owns the choice, as a pure function. Invariant: the newest batch is never chosen, for its reference tells which block of the chain the
index has come to. Not here: doing it (`state_index`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odfabric_persist.state import Batch

TIER_FACTOR = 4
"""A batch is taken along unless it is this many times as large as all newer ones together: rows are rewritten log4(n) times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLimits:
    """References are turned into parts of the index beyond `tail_slices_max` of them, or `tail_share_max` of its rows.

    After `rollup_versions` versions of a shard a rollup is made and what nobody can read any more is removed.
    """

    tail_slices_max: int = 16
    tail_share_max: float = 0.25
    rollup_versions: int = 32


def chosen(batches: Sequence[Batch], limits: IndexLimits) -> Sequence[Batch]:
    """Neighbours to be made one, oldest first; none if the tail is short."""
    older = batches[:-1]
    references = [part for batch in older for part in batch.parts if part.external is not None]
    kept = sum(part.rows for batch in older for part in batch.parts if part.external is None)
    referred = sum(part.rows for part in references)
    if len(references) <= limits.tail_slices_max and referred <= limits.tail_share_max * kept:
        return ()
    start, taken = len(older), 0
    while start and (_refers(older[start - 1]) or older[start - 1].rows < TIER_FACTOR * taken):
        start -= 1
        taken += older[start].rows
    return older[start:]


def _refers(batch: Batch) -> bool:
    return not batch.parts or any(part.external is not None for part in batch.parts)
