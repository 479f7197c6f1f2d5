"""Which batches of an index are merged: sizes grow by a factor with age.

Owns the choice, as a pure function. Not here: doing it, and which batches may not be touched (`state_index`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odfabric_persist.state import Batch, Part

TIER_FACTOR = 4
"""A batch is taken along unless it is this many times as large as all newer ones together.

Reading adds up at most a third more rows than the largest batch has, and the tail; for that a row is rewritten about twice for each time
that the index grows fourfold.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLimits:
    """Limits beyond which references become parts of the index.

    More than `tail_slices_max` of them, or `tail_share_max` of its rows.

    A state of more than `rows_at_once_max` rows is read and compacted in pieces, sorted runs lying in files meanwhile. After `rollup_versions` versions of a shard a rollup is made and what nobody can read any more is removed.
    """

    tail_slices_max: int = 16
    tail_share_max: float = 0.25
    rollup_versions: int = 32
    rows_at_once_max: int = 2_000_000


def chosen(batches: Sequence[Batch], limits: IndexLimits) -> Sequence[Batch]:
    """The newest batches, to be made one, oldest first; none if the tail is short."""
    references = [part for batch in batches for part in batch.parts if refers(part)]
    kept = sum(part.rows for batch in batches for part in batch.parts if not refers(part))
    referred = sum(part.rows for part in references)
    if len(references) <= limits.tail_slices_max and referred <= limits.tail_share_max * kept:
        return ()
    start, taken = len(batches), 0
    while start and (_is_small(batches[start - 1]) or batches[start - 1].rows < TIER_FACTOR * taken):
        start -= 1
        taken += batches[start].rows
    return batches[start:]


def refers(part: Part) -> bool:
    """Whether a part stands for rows of a slice.

    One without rows is a mark: it only says how far the index is.
    """
    return part.external is not None and part.rows > 0


def _is_small(batch: Batch) -> bool:
    return not batch.rows or any(map(refers, batch.parts))
