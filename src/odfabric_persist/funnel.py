"""A funnel: requests of many threads to one shard are done together.

Owns a queue and who works it off: the first who finds nobody at work takes what waits, its own included, and does it; then the
next one that waits goes on. So one alone never waits for another thread, and many together pay for one round trip. Invariants:
one group at a time; every caller gets its own outcome, exactly once, also if the one that worked for it was interrupted. Not here:
what is done with a group (`machine` for commands, `append_next` for rows). Source: ADR 0017; ADR 0018.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from odfabric_persist.errors import Determinate, Indeterminate, PersistError

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class FunnelLimits:
    """`waiting_max`: most that wait, `wait_s_max`: how long for a place.

    `group_max`: most of one version.
    """

    waiting_max: int = 1024
    wait_s_max: float = 30.0
    group_max: int = 256


@dataclass(eq=False, slots=True)
class _Request(Generic[T, R]):
    asked: T
    outcome: R | Exception | None = None
    changed: threading.Event = field(default_factory=threading.Event)


class Funnel(Generic[T, R]):
    """One queue; safe for threads.

    `work` does what a group asked for and says what each came to, or raised.
    """

    def __init__(self, work: Callable[[Sequence[T]], Sequence[R | Exception]], limits: FunnelLimits) -> None:
        self._work = work
        self._limits = limits
        self._places = threading.BoundedSemaphore(limits.waiting_max)
        self._lock = threading.Lock()
        self._waiting: deque[_Request[T, R]] = deque()
        self._at_work = False

    @property
    def waiting(self) -> int:
        """How many wait for their turn now."""
        return len(self._waiting)

    @property
    def at_work(self) -> bool:
        """Whether somebody is at work now."""
        return self._at_work

    def ask(self, asked: T) -> R:
        """What it came to.

        Raises what that raised, what the work raised, Determinate if there is no place in time.
        """
        if not self._places.acquire(timeout=self._limits.wait_s_max):
            raise Determinate("too many wait for this shard")
        try:
            outcome = self._outcome(_Request(asked))
        finally:
            self._places.release()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _outcome(self, request: _Request[T, R]) -> R | Exception:
        with self._lock:
            self._waiting.append(request)
            leads, self._at_work = not self._at_work, True
        if not leads:
            # Until it is done, or its turn to work for the others.
            try:
                request.changed.wait()
            except BaseException:
                self._withdraw(request)
                raise
        if request.outcome is None:
            self._work_off()
        assert request.outcome is not None
        return request.outcome

    def _work_off(self) -> None:
        """Do what waits longest, among it the caller's own, and let the next one go on."""
        with self._lock:
            count = min(self._limits.group_max, len(self._waiting))
            group = [self._waiting.popleft() for _ in range(count)]
        outcomes: Sequence[R | Exception] = [Indeterminate("whoever did this was interrupted") for _ in group]
        try:
            outcomes = self._work([request.asked for request in group])
        except PersistError as error:
            # Each caller raises its own: one exception in several threads would mix their tracebacks.
            outcomes = [_copied(error) for _ in group]
        finally:
            for request, outcome in zip(group, outcomes, strict=True):
                request.outcome = outcome
                request.changed.set()
            with self._lock:
                self._hand_on()

    def _withdraw(self, request: _Request[T, R]) -> None:
        """Nobody waits for it any more. If it was its turn, it is that of the next."""
        with self._lock:
            if request in self._waiting:
                self._waiting.remove(request)
                if request.changed.is_set():
                    self._hand_on()

    def _hand_on(self) -> None:
        self._at_work = bool(self._waiting)
        if self._waiting:
            self._waiting[0].changed.set()


def _copied(error: PersistError) -> PersistError:
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error.__cause__ or error
    return copy
