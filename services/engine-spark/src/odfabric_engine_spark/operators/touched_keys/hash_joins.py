"""Joins of a stage that hash their small side instead of sorting both.

Owns that choice, for Spark knows nothing of the size of rows that it is handed. Invariant: it changes how a join is computed, never what it
gives; a table of hashes, which Spark cannot spill, is made of a small side only. Not here: how many rows are bound at once (`parallel_parts`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from odfabric_engine_spark.plan.join_keys import LEFT_KEPT, MATCHED, join_kind
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Plan

_BYTES_MAX = 16 << 20
_ROWS_MAX = 250_000
"""A side of at most so many bytes and rows, each of which takes some 100 bytes more in a table, is hashed .."""
_TIMES_MIN = 3
""".. where the other has so many times as many rows .."""
ROWS_MIN = 20_000
""".. and so many that sorting them takes longer than telling Spark not to."""
_LEFT_HASHED = MATCHED | {"LeftOuter", "RightOuter", "FullOuter"}
_RIGHT_HASHED = LEFT_KEPT | {"FullOuter"}
"""The kinds of joins that can hash a side. Given another one Spark sorts, or fails while it words its warning."""
_HINTS = "org.apache.spark.sql.catalyst.plans.logical."


@dataclass(frozen=True, slots=True)
class Size:
    """Rows, and their bytes."""

    rows: int
    bytes: int

    def is_small_beside(self, other: Size) -> bool:
        """Whether it pays to hash these rows and to look up those of the other side."""
        is_small = self.bytes <= _BYTES_MAX and self.rows <= _ROWS_MAX
        return is_small and other.rows >= max(_TIMES_MIN * self.rows, ROWS_MIN)


class HashedJoins:
    """Instructs Spark which side of a join to hash."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst
        self._hints: dict[bool, Any] = {}

    def chosen(self, join: Plan, left: Size | None, right: Size | None) -> Plan:
        """The join, perhaps with one side to be hashed."""
        if left is None or right is None:
            return join
        kind = join_kind(join)
        for of_left, kinds, one, other in ((False, _RIGHT_HASHED, right, left), (True, _LEFT_HASHED, left, right)):
            if kind in kinds and one.is_small_beside(other):
                hint = self._hint(of_left=of_left)
                return self._catalyst.logical.Join(join.left(), join.right(), join.joinType(), join.condition(), hint)
        return join

    def _hint(self, *, of_left: bool) -> Any:
        if of_left not in self._hints:
            some, none = self._catalyst.jvm.scala.Some, self._catalyst.companion("scala.None")
            hashed = some(self._catalyst.logical.HintInfo(some(self._catalyst.companion(f"{_HINTS}SHUFFLE_HASH"))))
            sides = (hashed, none) if of_left else (none, hashed)
            self._hints[of_left] = self._catalyst.logical.JoinHint(*sides)
        return self._hints[of_left]
