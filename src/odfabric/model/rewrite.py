"""How a head moves other than forwards: the kinds of rewritten history.

Owns the values; who moves a head is `usecases.chain.commit`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash


class RewriteKind(Enum):
    """Why a head is no descendant of the one before it.

    RESET: it went back to an ancestor. COMPACTED: the same rows in fewer, larger slices. CLEARED: the rows went, sources, transform and
    schema stayed. REPLACED: another copy of the dataset took its place, by `--force`.
    """

    RESET = "reset"
    COMPACTED = "compacted"
    CLEARED = "cleared"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """One move of a head other than forwards.

    `rows_kept`: so many of the first records are, at the same offsets, those of the history before; None is not known.
    """

    kind: RewriteKind
    old_head: Multihash
    new_head: Multihash
    at: Instant
    rows_kept: int | None = None

    def keeps(self, rows: int) -> bool:
        """Whether the first `rows` records are certainly still the same."""
        return (
            rows == 0 or self.kind is RewriteKind.COMPACTED or (self.rows_kept is not None and rows <= self.rows_kept)
        )

    def to_value(self) -> dict[str, str | int | None]:
        """As JSON."""
        return {
            "kind": self.kind.value,
            "oldHead": str(self.old_head),
            "newHead": str(self.new_head),
            "at": str(self.at),
            "rowsKept": self.rows_kept,
        }
