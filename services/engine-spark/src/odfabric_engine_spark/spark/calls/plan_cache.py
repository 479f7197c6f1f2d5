"""Plans kept between calls, so that a query is compiled once.

Owns the bound and the order in which plans are given up. Invariant: a plan is kept under everything that it was made from, so what
comes from here is what would be made again. Not here: what plans are (`compile.compile_query`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

PlanT = TypeVar("PlanT")

PLANS_KEPT_MAX = 64
"""Plans that are kept; each holds a session of Spark and a few thousand small objects."""


class KeptPlans(Generic[PlanT]):
    """Plans by what they were made from, the least used ones are given up first."""

    def __init__(self, *, count_max: int = PLANS_KEPT_MAX) -> None:
        self._count_max = count_max
        self._lock = threading.Lock()
        self._plans: OrderedDict[Hashable, PlanT] = OrderedDict()

    def get(self, made_from: Hashable, make: Callable[[], PlanT]) -> PlanT:
        """The plan made from this.

        What `make` raises passes through, and is not remembered.
        """
        with self._lock:
            if made_from in self._plans:
                self._plans.move_to_end(made_from)
                return self._plans[made_from]
        plan = make()  # two calls may make the same one at once; either is right
        with self._lock:
            self._plans[made_from] = plan
            while len(self._plans) > self._count_max:
                self._plans.popitem(last=False)
        return plan
