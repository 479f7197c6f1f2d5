"""What runs today where there is no time for everything.

Owns whose turn it is: another part each day, so that all of them come round, and everything at night. `ODF_TEST_TURNS` is `day`
in a stage of `./odf test`, `night` in one of `./odf test --nightly`, and unset where somebody names tests: then files do not take turns.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TypeVar

from odfabric.cli.run_tests import DAY, TURNS
from odfabric.model.instant import SECONDS_PER_DAY

T = TypeVar("T")

NIGHTLY = os.environ.get(TURNS) == "night"
BY_DAY = os.environ.get(TURNS) == "day"


def today() -> int:
    """Days since 1970, the same for all processes and stages of one `./odf test`."""
    return int(os.environ.get(DAY) or time.time() // SECONDS_PER_DAY)


def todays(things: Sequence[T], *, parts: int) -> Sequence[T]:
    """Every so many-th of them."""
    return things if NIGHTLY else things[today() % parts :: parts]


def examples(count: int) -> int:
    """How many examples of a law: `count` at night, a third by day, which is enough."""
    return count if NIGHTLY else -(-count // 3)
