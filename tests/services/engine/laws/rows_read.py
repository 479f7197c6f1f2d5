"""How many rows a transaction looks at: state rows read, and query rows.

Merging the runs of a state is not counted: it costs what was added before, once in a while. Broken on purpose by `test_boundedness`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from odfabric_engine_spark.operators.aggregate.group_state import GroupState
from odfabric_engine_spark.operators.keyed_recompute import recompute_run
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import Run

_MERGING = ((RowState, "to_store"), (RowState, "_together"), (RowState, "_written"), (GroupState, "to_store"))


@dataclass(frozen=True)
class LookedAt:
    """`bound` to queries, old and new, and `read` of states."""

    bound: int
    read: int


class RowCounter:
    """Counts what all transactions of the process look at, in whichever thread."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._bound = self._read = 0
        self._local = threading.local()
        for owner, name in _MERGING:
            patch.setattr(owner, name, self._uncounted(getattr(owner, name)))
        tagged, take, cut = recompute_run.tagged, Run.take, Run.slice

        def tagging(catalyst: Any, bound: Any) -> Any:
            self._bound += len(bound)
            return tagged(catalyst, bound)

        def taking(run: Run, positions: Any, *names: Any) -> Any:
            self._add(len(positions))
            return take(run, positions, *names)

        def cutting(run: Run, begin: int, end: int, *names: Any) -> Any:
            self._add(end - begin)
            return cut(run, begin, end, *names)

        patch.setattr(recompute_run, "tagged", tagging)
        patch.setattr(Run, "take", taking)
        patch.setattr(Run, "slice", cutting)

    def taken(self) -> LookedAt:
        """What was looked at since the last call."""
        found = LookedAt(self._bound, self._read)
        self._bound = self._read = 0
        return found

    def _add(self, rows: int) -> None:
        if not getattr(self._local, "merging", False):
            self._read += rows

    def _uncounted(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def merging(*args: Any, **named: Any) -> Any:
            before = getattr(self._local, "merging", False)
            self._local.merging = True
            try:
                return plain(*args, **named)
            finally:
                self._local.merging = before

        return merging
