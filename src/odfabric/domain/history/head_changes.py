"""What happened to a history since one of its blocks was the head.

Owns the order: only rewrites after the newest move that led to a block, or away from it, say anything of those who have read up to there. Not
here: where moves are recorded (`usecases.history.past_heads`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from odfabric.model.multihash import Multihash
from odfabric.model.rewrite import Rewrite, RewriteKind


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadChange:
    """One move of a head. `rewrite` is None if it went forwards."""

    old_head: Multihash | None
    new_head: Multihash
    rewrite: Rewrite | None = None


def rewrites_since(read: Multihash, changes: Iterable[HeadChange]) -> Sequence[Rewrite] | None:
    """The rewrites after `read` was the head for the last time, newest first.

    `changes` are all moves, newest first, up to the present head. None if `read` was the head of none of them.
    """
    found: list[Rewrite] = []
    for change in changes:
        if change.new_head == read:
            return found
        if change.rewrite is not None:
            found.append(change.rewrite)
        if change.old_head == read:
            return found
    return None


def rows_stay(rewrites: Sequence[Rewrite], rows: int) -> bool:
    """Whether the first `rows` records are the same after these rewrites.

    Without a rewrite nothing is known: who asks has found that the history is another one.
    """
    return bool(rewrites) and all(one.keeps(rows) for one in rewrites)


def decisive(rewrites: Sequence[Rewrite], rows: int) -> Rewrite | None:
    """Of rewrites, newest first, the one to name.

    The first that took records away; else the newest compaction, since that made the blocks new; else the newest.
    """
    taking = [one for one in rewrites if not one.keeps(rows)]
    if taking:
        return taking[-1]
    compactions = (one for one in rewrites if one.kind is RewriteKind.COMPACTED)
    return next(compactions, next(iter(rewrites), None))
