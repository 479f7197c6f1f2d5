"""What runs today where there is no time for everything.

Owns whose turn it is: another part each day, so that all of them come round, and everything if `ODF_DRILLS` is `all`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TypeVar

from odfabric.model.instant import NANOS_PER_SECOND, SECONDS_PER_DAY

T = TypeVar("T")

ALL = os.environ.get("ODF_DRILLS") == "all"


def today() -> int:
    """Days since 1970."""
    return time.time_ns() // (SECONDS_PER_DAY * NANOS_PER_SECOND)


def todays(things: Sequence[T], *, parts: int) -> Sequence[T]:
    """Every so many-th of them."""
    return things if ALL else things[today() % parts :: parts]
