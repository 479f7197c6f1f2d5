"""The one hint of a transform: how late a row may be before it is dropped.

Owns the reading of `lateness('1 day')`, and its refusal. Not here: what late means (`compile`). Source:
docs/engine.md#lateness-and-state-expiry; docs/engine.md#steps-and-slicing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from odfabric_engine_spark.spark.catalyst.plan_nodes import TreeNode
from odfabric_engine_spark.sql.refusal import Refused, refusal

LATENESS_HINT = "lateness"

_UNITS_US = {
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
SPAN_US_MAX = 10_000 * 366 * _UNITS_US["day"]
"""Longer than all years that times have. What is added to a time beyond that does not fit into it."""
_PART = r"(\d{1,9})\s*(second|minute|hour|day|week)s?"
_WHOLE = re.compile(rf"\s*{_PART}(?:\s+{_PART})*\s*", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Lateness:
    """What a hint asks for: `us` microseconds, `at` its node, in the statement `step`."""

    us: int
    at: TreeNode
    step: int = 0


def parse_lateness(parameters: list[object]) -> int | None:
    """Microseconds that the parameters of the hint mean, None if they mean nothing."""
    if len(parameters) != 1 or not isinstance(parameters[0], str) or not _WHOLE.fullmatch(parameters[0]):
        return None
    parts = re.findall(_PART, parameters[0], re.IGNORECASE | re.ASCII)
    span_us = sum(int(number) * _UNITS_US[unit.lower()] for number, unit in parts)
    return span_us if span_us <= SPAN_US_MAX else None


def no_lateness(lateness: Lateness) -> Refused:
    """A lateness of a query in which nothing is ever final."""
    message = "a lateness needs something that ends: a window over the event time, a temporal join, or a join within a span of event times"
    hint = "leave it out, or bound both times by constant intervals: b.t BETWEEN a.t AND a.t + INTERVAL '1' HOUR"
    return Refused([refusal("hint", message, at=lateness.at, hint=hint)], step=lateness.step)
