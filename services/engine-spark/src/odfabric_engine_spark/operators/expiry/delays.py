"""How much later than its event time an instant of a row can be.

Owns bounds of such delays. Invariant: they hold for every event time, so they are taken from the form of an expression, never
from rows; an expression of another form has none. Not here: which instants matter (`finality`), what follows (`state_expiry`).
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric_engine_spark.operators.expiry.open_windows import bounds_us
from odfabric_engine_spark.plan.time.event_times import WINDOW_END, WINDOW_START, end_of_window_time, time_of_window
from odfabric_engine_spark.plan.time.time_shifts import keeps_instant
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Expression, is_attribute, simple_name

_PROBES_US = (0, 11_047_000_001, 34_567_890_123_457)
"""Instants that no window but a session begins at."""
_PASSING = frozenset({"Alias", "MicrosToTimestamp", "TryEval", "UnixMicros"})


@dataclass(frozen=True, slots=True)
class Delay:
    """Microseconds from event time to an instant, at least and at most."""

    least_us: int
    most_us: int

    def later(self, least_us: int, most_us: int) -> Delay:
        """Of an instant that is so much later still."""
        return Delay(self.least_us + least_us, self.most_us + most_us)


def delay_of(catalyst: Catalyst, instant: Expression) -> Delay | None:
    """The delay of an instant over a row of an input; None if its form says nothing."""
    if is_attribute(instant):
        return Delay(0, 0)
    name = simple_name(instant)
    if name in _PASSING or (name == "Cast" and keeps_instant(instant)):
        return delay_of(catalyst, instant.child())
    if name == "Add" and simple_name(instant.right()) == "Literal":
        below = delay_of(catalyst, instant.left())
        shift_us = int(instant.right().value())
        return None if below is None else below.later(shift_us, shift_us)
    if name == "PreciseTimestampConversion":
        end = end_of_window_time(instant)
        return None if end is None else delay_of(catalyst, end)
    if name == "GetStructField" and instant.ordinal() in (WINDOW_START, WINDOW_END):
        return _of_window(catalyst, instant.child(), instant.ordinal())
    return None


def _of_window(catalyst: Catalyst, window: Expression, ordinal: int) -> Delay | None:
    """Delay of a window's start or end: it holds its time; sessions begin with it."""
    time = time_of_window(window)
    below = None if time is None else delay_of(catalyst, time)
    if below is None:
        return None
    bounds = [bounds_us(catalyst, window, probe) for probe in _PROBES_US]
    size_us = bounds[0][1] - bounds[0][0]
    if all(start == probe for (start, _), probe in zip(bounds, _PROBES_US, strict=True)):
        return below if ordinal == WINDOW_START else below.later(size_us, size_us)
    return below.later(-size_us, 0) if ordinal == WINDOW_START else below.later(0, size_us)
