"""In which rounds the parts of a transaction's keys are computed.

Owns which parts are bound together, within what may be in memory, and that the next ones are made ready while Spark computes.
Invariant: every part is computed once, whatever is divided, put off or taken back. Not here: what a part is computed to (`rows_run`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.catalyst import Plan
from odfabric_engine_spark.result_rows import ResultTooLarge
from odfabric_engine_spark.stages.delta import Delta
from odfabric_engine_spark.stages.extraction import BoundRows
from odfabric_engine_spark.stages.linear_run import result_too_large
from odfabric_engine_spark.state.key_part import KeyPart

_PLANNED_SHARE = 0.75
"""How much of what may be computed at once is planned for."""
_AHEAD_ROUNDS = 4
"""Rounds into which enough work is cut at least, so that most of it is made ready while Spark computes."""


@dataclass(frozen=True, slots=True)
class Round:
    """Parts with the rows of all leaves, and these rows as Spark has them; none for parts without rows."""

    bound: dict[KeyPart, list[BoundRows]]
    sources: list[list[Plan]]


@dataclass(slots=True)
class Rounds:
    """The rounds of one transaction. `bind` gives the rows of a part, `hand_over` gives rows to Spark; both from any thread.

    `is_divisible`: whether some part may be computed as two. At most `at_once` parts are computed together.
    """

    call: EngineCall
    bind: Callable[[KeyPart], list[BoundRows]]
    hand_over: Callable[[list[list[BoundRows]]], list[list[Plan]]]
    is_divisible: Callable[[KeyPart], bool]
    at_once: int
    _waiting: list[KeyPart]
    _ahead: dict[KeyPart, list[BoundRows]]

    @classmethod
    def of(
        cls,
        call: EngineCall,
        parts: list[KeyPart],
        *,
        bind: Callable[[KeyPart], list[BoundRows]],
        hand_over: Callable[[list[list[BoundRows]]], list[list[Plan]]],
        is_divisible: Callable[[KeyPart], bool],
        at_once: int,
    ) -> Rounds:
        """Over parts in their order."""
        return cls(call, bind, hand_over, is_divisible, at_once, parts[::-1], {})

    def computed(self, compute: Callable[[Round], Delta]) -> Iterator[Delta]:
        """What all rounds give, from the thread that asks. Raises LimitExceeded, and what binding and `compute` raise."""
        beside = ThreadPoolExecutor(1)
        try:
            round_ = self._next()
            while round_ is not None:
                following = beside.submit(self._next) if self._waiting else None
                try:
                    found = compute(round_)
                except ResultTooLarge:
                    self._take_back(following)
                    self._divide(round_)
                    following = None
                else:
                    yield found
                round_ = self._next() if following is None else following.result()
        finally:
            beside.shutdown()

    def _next(self) -> Round | None:
        """Takes parts that fit into memory together with their rows; one that was bound and waits is ahead."""
        settings = self.call.settings
        bound: dict[KeyPart, list[BoundRows]] = {}
        rows_left, bytes_left = 2 * settings.stage_rows_max, settings.stage_bytes_max
        while self._waiting and len(bound) < self.at_once:
            self.call.check()
            part = self._waiting.pop()
            own = self._ahead.pop(part, None) or self.bind(part)
            rows, size = sum(map(len, own)), sum(each.rows.nbytes for each in own)
            fits = rows <= rows_left and size <= bytes_left
            if not fits and bound:
                self._waiting.append(part)
                self._ahead[part] = own
                break
            if not fits and self.is_divisible(part):
                self._waiting += reversed(part.divided(2))
                continue
            bound[part] = own
            rows_left, bytes_left = rows_left - rows, bytes_left - size
        return Round(bound, self.hand_over(list(bound.values()))) if bound else None

    def _take_back(self, following: Future[Round | None] | None) -> None:
        later = None if following is None else following.result()
        if later is not None:
            self._waiting += reversed(list(later.bound))

    def _divide(self, round_: Round) -> None:
        """Of a round whose result is too large the parts come alone, of a part its halves."""
        parts = list(round_.bound)
        if len(parts) == 1 and not self.is_divisible(parts[0]):
            raise result_too_large(self.call) from None
        self._waiting += reversed(parts if len(parts) > 1 else parts[0].divided(2))
        self.at_once = 1


def rounds_of(call: EngineCall, *, rows: int, size: int, at_once: int) -> int:
    """Into how many rounds so many rows and bytes are cut, if `at_once` parts are computed together.

    Parts differ in size: one that does not fit any more would have been bound in vain.
    """
    settings = call.settings
    by_rows = rows // (int(_PLANNED_SHARE * 2 * settings.stage_rows_max) + 1)
    by_bytes = size // (int(_PLANNED_SHARE * settings.stage_bytes_max) + 1)
    by_parts = min(rows // max(at_once * settings.stage_rows_each, 1), _AHEAD_ROUNDS)
    return max(1 + max(by_rows, by_bytes), by_parts)
