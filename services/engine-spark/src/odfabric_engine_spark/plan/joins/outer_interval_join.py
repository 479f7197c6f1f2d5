"""Outer interval joins: unmatched rows wait until no partner can come.

Owns reading from the condition of a join by when a partner of a row must have come, and the filter that lets rows without one
wait; also by when each row of a join has met all its partners, where both event times bound each other. Invariant: pairs are given at once; a row that waits is given when the watermark has reached the last instant at which a
partner in time could be. Joins whose condition does not bound one event time by the other give all rows at once and correct
them; an equality of event times is a key like any other. Not here: the filter's place in time (`wait_for_watermark`).
Source: docs/engine.md#late-data-and-finality.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from odfabric_engine_spark.plan.time.event_times import EventTimes
from odfabric_engine_spark.plan.time.time_shifts import shift_us
from odfabric_engine_spark.plan.time.wait_for_watermark import wait_for
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    conjuncts,
    is_date,
    items,
    simple_name,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expression, with_children
from odfabric_engine_spark.sql.lateness_hint import SPAN_US_MAX

WAITING_SIDES = {"LeftOuter": (0,), "LeftAnti": (0,), "RightOuter": (1,), "FullOuter": (0, 1)}
"""Which sides of a join are shown without a partner."""


def with_waiting_joins(catalyst: Catalyst, plan: Plan, times: EventTimes) -> Plan:
    """The plan in which rows of outer and anti joins wait for their partners."""
    node = with_children(catalyst, plan, [with_waiting_joins(catalyst, child, times) for child in children(plan)])
    if simple_name(node) != "Join" or not node.condition().isDefined():
        return node
    kind = str(node.joinType().toString())
    found = node
    for side in WAITING_SIDES.get(kind, ()):
        bound = bound_of_side(catalyst, node, side, times)
        if bound is not None:
            found = wait_for(catalyst, bound.instant, found, unless=_decided(catalyst, bound, kind))
    return found


@dataclass(frozen=True, slots=True)
class Bound:
    """A partner's time `partner` is at most `instant`: the row's time plus `wait_us`."""

    instant: Expression
    partner: Attribute
    wait_us: int


def bounds_of_join(catalyst: Catalyst, join: Plan, times: EventTimes) -> tuple[Bound, Bound] | None:
    """By when rows of a join's sides have had all partners; None if unbounded."""
    left, right = (bound_of_side(catalyst, join, side, times) for side in (0, 1))
    return None if left is None or right is None else (left, right)


def bound_of_side(catalyst: Catalyst, join: Plan, side: int, times: EventTimes) -> Bound | None:
    """By when rows of one side of a join have had all their partners.

    None if the condition does not say.
    """
    return _Reader(catalyst, join, side, times).bound() if join.condition().isDefined() else None


def has_bounded_join(catalyst: Catalyst, plan: Plan, times: EventTimes) -> bool:
    """Whether both sides of some join know by when their partners have come."""
    if simple_name(plan) == "Join" and bounds_of_join(catalyst, plan, times) is not None:
        return True
    return any(has_bounded_join(catalyst, child, times) for child in children(plan))


def _decided(catalyst: Catalyst, bound: Bound, kind: str) -> Expression:
    """Rows that do not wait: they have a partner, or no time at which one could come."""
    timeless = catalyst.expressions.IsNull(bound.instant)
    if kind == "LeftAnti":
        return timeless
    return catalyst.expressions.Or(catalyst.expressions.IsNotNull(bound.partner), timeless)


class _Reader:
    """Reads the condition of a join for the rows of one of its sides."""

    def __init__(self, catalyst: Catalyst, join: Plan, side: int, times: EventTimes) -> None:
        self._catalyst = catalyst
        self._condition = join.condition().get()
        self._own, self._other = children(join)[side], children(join)[1 - side]
        self._times = times

    def bound(self) -> Bound | None:
        """By when a partner must have come; None if the condition does not say."""
        for lesser, greater in _comparisons(self._catalyst, self._condition):
            partner, own = self._time_of(lesser, self._other), self._time_of(greater, self._own)
            if partner is None or own is None:
                continue
            early, late = shift_us(self._catalyst, lesser, partner), shift_us(self._catalyst, greater, own)
            if early is not None and late is not None and abs(late - early) <= SPAN_US_MAX:
                return Bound(self._shifted(own, late - early), partner, late - early)
        return None

    def _time_of(self, expression: Expression, side: Plan) -> Attribute | None:
        """The event time of a side which is all that an expression reads."""
        read = items(expression.references().toSeq())
        if len(read) != 1 or not expression.references().subsetOf(side.outputSet()):
            return None
        return read[0] if self._times.is_event_time(read[0], side) else None

    def _shifted(self, time: Attribute, shift_us: int) -> Expression:
        make = self._catalyst.expressions
        instant = time
        if is_date(time):
            to = self._catalyst.companion("org.apache.spark.sql.types.TimestampType")
            cast = self._catalyst.companion("org.apache.spark.sql.catalyst.expressions.Cast")
            instant = cast.apply(time, to, True).withTimeZone("UTC")
        later = make.Add(make.UnixMicros(instant), self._catalyst.parse_expression(f"{shift_us}L"))
        # Of a time so late that nothing can be later: no partner is waited for.
        return make.TryEval(make.MicrosToTimestamp(later))


def _comparisons(catalyst: Catalyst, condition: Expression) -> Iterator[tuple[Expression, Expression]]:
    """What must not be later than what, for a pair to match."""
    for part in conjuncts(_plain(catalyst, condition)):
        match simple_name(part):
            case "LessThan" | "LessThanOrEqual":
                yield part.left(), part.right()
            case "GreaterThan" | "GreaterThanOrEqual":
                yield part.right(), part.left()
            case _:
                pass


def _plain(catalyst: Catalyst, expression: Expression) -> Expression:
    """The expression without what Spark puts around differences of times."""

    def bare(part: Expression) -> Expression | None:
        return _plain(catalyst, children(part)[0]) if simple_name(part) == "DatetimeSub" else None

    return map_expression(catalyst, expression, bare)
