"""Faults on purpose: a call that did not happen, or one that did unreported.

Owns when a fault strikes. Invariant: Determinate is raised without the call, Indeterminate only after a call with an effect has
succeeded, so both tell the truth; where the port says that a call may simply be repeated, a lost answer is Determinate too.
Plans with equal seeds strike alike if the calls come in the same order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import TypeVar

from odfabric.adapters.unreliable.interception import Interceptor
from odfabric.errors import Determinate, Indeterminate

T = TypeVar("T")

REPEATABLE = ("engine.", "keys.")
"""Calls whose results are pure or of no use to anybody else."""


class Fault(Enum):
    """Before the effect, or after it with the answer lost."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A call that went through a plan, by its number from 0."""

    name: str
    effect: bool

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Faults that such a call can have."""
        return (Fault.BEFORE, Fault.AFTER) if self.effect else (Fault.BEFORE,)


class FaultPlan(Interceptor):
    """Decides for each call whether it fails, and remembers all calls.

    A plan without rules only watches.

    A drill runs its scenario once under a plan that watches, then once for every call and each of its faults.
    """

    def __init__(self, decide: Callable[[int, SeenCall], Fault | None] = lambda number, call: None) -> None:
        self._decide = decide
        self._lock = threading.Lock()
        self.calls: list[SeenCall] = []

    @classmethod
    def single(cls, number: int, fault: Fault) -> FaultPlan:
        """One fault, at the call of that number."""
        return cls(lambda at, call: fault if at == number else None)

    @classmethod
    def seeded(cls, seed: int, *, rate: float) -> FaultPlan:
        """Each call fails with the probability `rate`, in any way that it can."""
        random = Random(seed)

        def decide(number: int, call: SeenCall) -> Fault | None:
            return random.choice(call.faults) if random.random() < rate else None

        return cls(decide)

    def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
        """See the base."""
        with self._lock:
            seen = SeenCall(call, effect)
            number = len(self.calls)
            self.calls.append(seen)
            fault = self._decide(number, seen)
        if fault is Fault.BEFORE:
            raise Determinate(f"fault on purpose before call {number}, {call}")
        result = act()
        if fault is Fault.AFTER and effect:
            outcome = Determinate if call.startswith(REPEATABLE) else Indeterminate
            raise outcome(f"fault on purpose after call {number}, {call}")
        return result
