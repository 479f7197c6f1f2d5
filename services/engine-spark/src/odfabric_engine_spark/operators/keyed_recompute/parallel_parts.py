"""Parts of the touched keys, several at once, each as one Spark job.

Owns which parts are in hand at once, within what may be in memory, and dividing those that are too large. While one part's rows are
bound and its plan is made, another one's tasks run. Invariant: every part is computed once, whatever is divided; jobs of other
threads belong to the call as its own do, so that they end with it. Not here: what a part is computed to (`recompute_run`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

from pyspark.util import inheritable_thread_target

from odfabric_engine_spark.operators.touched_keys.extraction import BoundRows
from odfabric_engine_spark.rows.row_batches import result_too_large
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.result_rows import ResultTooLarge
from odfabric_engine_spark.state.key_range import KeyPart

ResultT = TypeVar("ResultT")

_PLANNED_SHARE = 0.75
"""How much of what may be computed at once is planned for."""
_PARTS_EACH = 2
"""Parts for each core into which enough work is cut at least, so that most of it is made ready while Spark computes."""


@dataclass(frozen=True, slots=True)
class PartWork(Generic[ResultT]):
    """What is done to a part, from any thread: its rows are bound, then computed.

    `is_divisible`: whether it may be two parts.

    `compute` raises ResultTooLarge for a result that is larger than Spark collects.
    """

    bind: Callable[[KeyPart], list[BoundRows]]
    compute: Callable[[KeyPart, list[BoundRows]], ResultT]
    is_divisible: Callable[[KeyPart], bool]


def computed(
    call: EngineCall, parts: Sequence[KeyPart], work: PartWork[ResultT], *, at_once: int
) -> Generator[ResultT]:
    """What the parts give, in no order; closed, it leaves nothing running.

    Raises LimitExceeded, and what binding and computing raise.

    After a result that was too large parts are computed one after the other.
    """
    waiting = list(parts)[::-1]
    alone = Lock()
    if at_once == 1:
        while waiting:
            found = _computed(call, waiting.pop(), work, at_once, alone)
            if isinstance(found, _Halves):
                waiting += reversed(found.parts)
            else:
                yield found
        return
    in_hand: set[Future[ResultT | _Halves]] = set()
    threads = ThreadPoolExecutor(at_once)
    width = at_once
    try:
        while waiting or in_hand:
            while waiting and len(in_hand) < width:
                # Each with properties of its own: threads that share them would overwrite what Spark notes there.
                run = inheritable_thread_target(call.session)(_computed)
                in_hand.add(threads.submit(run, call, waiting.pop(), work, at_once, alone))
            done, in_hand = wait(in_hand, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()
                if isinstance(result, _Halves):
                    waiting += reversed(result.parts)
                    width = 1 if result.after_computing else width
                else:
                    yield result
    finally:
        threads.shutdown(cancel_futures=True)


def count_of(call: EngineCall, *, rows: int, size: int, at_once: int) -> int:
    """Number of parts for so many rows and bytes, if `at_once` are in memory.

    Parts differ in size: one that turns out to be too large has been bound in vain.
    """
    settings = call.settings
    by_rows = rows // (int(_PLANNED_SHARE * 2 * settings.stage_rows_max) + 1)
    by_bytes = size // (int(_PLANNED_SHARE * settings.stage_bytes_max) + 1)
    by_cores = min(rows // max(settings.stage_rows_each, 1), _PARTS_EACH * at_once)
    return max(at_once * (1 + max(by_rows, by_bytes)), by_cores)


@dataclass(frozen=True, slots=True)
class _Halves:
    """What a part is to be computed as. `after_computing`: its result was too large."""

    parts: list[KeyPart]
    after_computing: bool = False


def _computed(call: EngineCall, part: KeyPart, work: PartWork[ResultT], at_once: int, alone: Lock) -> ResultT | _Halves:
    call.check()
    bound = work.bind(part)
    rows, size = sum(map(len, bound)), sum(each.rows.nbytes for each in bound)
    settings = call.settings
    too_large = rows > 2 * settings.stage_rows_max // at_once or size > settings.stage_bytes_max // at_once
    if too_large and work.is_divisible(part):
        return _Halves(part.divided(2))
    try:
        # Of parts that are too large and cannot be divided one is computed at a time.
        with alone if too_large else nullcontext():
            return work.compute(part, bound)
    except ResultTooLarge:
        if not work.is_divisible(part):
            raise result_too_large(call) from None
        return _Halves(part.divided(2), after_computing=True)
