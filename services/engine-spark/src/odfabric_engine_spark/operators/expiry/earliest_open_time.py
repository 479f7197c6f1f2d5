"""The least event time with which output rows can still come.

Owns following the watermark of the inputs up a plan in which one thing waits for another: a window over rows that wait for partners,
partners of partners, an event time that is computed of a window. Invariant: what comes in time later than the watermark changes
nothing of a row before this instant, where event times are made of others by adding constants, or by functions that rise with them. Where
a plan does not say, nothing is reported. Not here: plans in which one thing waits (`open_windows`). Source: docs/engine.md#output-watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric_engine_spark.operators.expiry.open_windows import bounds_us, wait_us
from odfabric_engine_spark.plan.input_tables import scan_alias
from odfabric_engine_spark.plan.joins.outer_interval_join import bound_of_side
from odfabric_engine_spark.plan.time.event_times import WINDOW_START, EventTimes, sources_of, time_of_window
from odfabric_engine_spark.plan.time.timed_filters import timed_filter
from odfabric_engine_spark.plan.time.tumbling_and_hopping_windows import is_session_window, is_window_column
from odfabric_engine_spark.plan.time.wait_for_watermark import is_timed_filter
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    conjuncts,
    constant_us,
    expr_id,
    is_attribute,
    is_time,
    items,
    output_of,
    references,
    simple_name,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expression

_NEVER = (1 << 63) - 1
"""Of a value that no row has which comes later."""
_CHOICES = frozenset({"Coalesce", "CaseWhen", "If", "Nvl", "Nvl2", "IfNull", "Least", "Greatest"})
"""What gives one of several times: the least of them may come."""
Path = tuple[int, ...]
"""Where a node stands in a plan: which child of which."""


def columns_to_follow(catalyst: Catalyst, plan: Plan, times: EventTimes) -> frozenset[int]:
    """Ids of columns whose least open time has to be followed.

    It is more than the start of an open window, or the longest wait before the watermark.
    """
    chained = _ends(catalyst, plan, times) > 1
    return frozenset(expr_id(each) for each in output_of(plan) if chained or not times.is_event_time(each, plan))


def _ends(catalyst: Catalyst, plan: Plan, times: EventTimes) -> int:
    bounded = simple_name(plan) == "Join" and any(bound_of_side(catalyst, plan, side, times) for side in (0, 1))
    waits = is_timed_filter(plan) and simple_name(plan.condition()) != "Or"
    return bounded + waits + sum(_ends(catalyst, child, times) for child in children(plan))


@dataclass(frozen=True, slots=True)
class _Found:
    """What is known of an expression's part: its least instant, None if unknown."""

    us: int | None


@dataclass(slots=True)
class OpenTimes:
    """Of a plan at a watermark.

    `open_sessions` gives the start of the first session with a gap that is open at an instant.
    """

    catalyst: Catalyst
    times: EventTimes
    watermark_us: int
    open_sessions: Callable[[int, int], int | None]
    _known: dict[tuple[Path, int, int | None], int | None] = field(default_factory=dict)

    def least_us(self, column: Attribute, plan: Plan) -> int | None:
        """In microseconds; None where the plan does not say."""
        try:
            found = self._least(column, None, plan, ())
        except (Py4JError, PySparkException):
            return None  # a time beyond all that there are
        return None if found is None else min(found, self.watermark_us)

    def _least(self, column: Attribute, member: int | None, plan: Plan, path: Path) -> int | None:
        """Of a column, or of a member of the window that it is."""
        key = (path, expr_id(column), member)
        if key not in self._known:
            self._known[key] = self._found(column, member, plan, path)
        return self._known[key]

    def _found(self, column: Attribute, member: int | None, plan: Plan, path: Path) -> int | None:
        if scan_alias(plan) is not None:
            return self.watermark_us if self.times.is_event_time(column, plan) else None
        if member is None and not is_time(column):
            return None
        found = [self._from(column, value, member, plan, at, path) for value, at in sources_of(column, plan)]
        known = [each for each in found if each is not None]
        if not known or len(known) < len(found):
            return None
        return self._earlier(min(known), column, plan, path)

    def _from(
        self, column: Attribute, value: Expression, member: int | None, plan: Plan, at: int, path: Path
    ) -> int | None:
        """Of a column by what it is over a child of its plan."""
        child, below = children(plan)[at], (*path, at)
        if member is None:
            back_us = self._since_start(plan, child, below) if simple_name(plan) == "Aggregate" else 0
            return self._of(value, child, below, back_us=back_us)
        if is_attribute(value):
            return self._least(value, member, child, below)
        return self._of_window(column, value, member, child, below)

    def _of(self, expression: Expression, plan: Plan, path: Path, *, back_us: int = 0) -> int | None:
        """Of a time over a plan: what it is of the least times.

        Aggregates take times from when the watermark was `back_us` earlier.
        """
        if not is_time(expression):
            return None
        marks: list[int | None] = []

        def put(part: Expression) -> Expression | None:
            found = self._part(part, plan, path, back_us)
            if found is None:
                return None
            marks.append(found.us)
            return self.catalyst.instant(min(found.us or 0, self.watermark_us), like=part)

        value = map_expression(self.catalyst, expression, put)
        if None in marks:
            return None
        if all(each == _NEVER for each in marks):
            return _NEVER
        return constant_us(value)

    def _part(self, part: Expression, plan: Plan, path: Path, back_us: int) -> _Found | None:
        """What is known of a part of an expression, None if its own parts say it."""
        name = simple_name(part)
        if name == "GetStructField" and _is_window(part.child()):
            return _Found(self._least(part.child(), int(part.ordinal()), plan, path))
        if is_attribute(part):
            return _Found(self._least(part, None, plan, path) if is_time(part) else None)
        if name in _CHOICES and is_time(part):
            chosen = [self._of(each, plan, path, back_us=back_us) for each in _chosen(part)]
            return _Found(None if None in chosen else min((each for each in chosen if each is not None), default=None))
        if name == "AggregateExpression":
            argument = children(part.aggregateFunction())[:1]
            earlier = OpenTimes(self.catalyst, self.times, self.watermark_us - back_us, self.open_sessions)
            return _Found(earlier._of(argument[0], plan, path) if argument else None)
        return None

    def _since_start(self, aggregate: Plan, plan: Plan, path: Path) -> int:
        """How much before the watermark a coming group's times may be: its window start."""
        windows = [each for each in items(aggregate.groupingExpressions()) if is_attribute(each) and _is_window(each)]
        starts = [self._least(each, WINDOW_START, plan, path) for each in windows]
        return max([0, *(self.watermark_us - each for each in starts if each is not None)])

    def _of_window(self, window: Attribute, definition: Expression, member: int, plan: Plan, path: Path) -> int | None:
        """Of the window that a row to come lies in.

        A session that it goes on with began earlier than that row.
        """
        time = time_of_window(definition)
        least_us = None if time is None else self._of(time, plan, path)
        if least_us is None or least_us == _NEVER:
            return least_us
        bounds = bounds_us(self.catalyst, definition, least_us)
        start_us, end_us = bounds
        if not is_session_window(window) or member != WINDOW_START:
            return bounds[member]
        # A row at the very end of a session still belongs to it.
        first_us = self.open_sessions(end_us - start_us, min(start_us, self.watermark_us) - 1)
        return start_us if first_us is None else min(start_us, first_us)

    def _earlier(self, least_us: int, column: Attribute, plan: Plan, path: Path) -> int | None:
        """The least time of rows that are later than their inputs by a common delay."""
        if simple_name(plan) == "Join":
            return self._of_pairs(least_us, column, plan, path)
        timed = timed_filter(plan) if simple_name(plan) == "Filter" else None
        if timed is None or simple_name(plan.condition()) != "Or":
            return least_us
        (own,) = references(timed.instant)
        if not _same_side(plan, own, column):
            return least_us
        return self._back(least_us, own, self.watermark_us - wait_us(self.catalyst, timed), plan.child(), (*path, 0))

    def _of_pairs(self, least_us: int, column: Attribute, join: Plan, path: Path) -> int | None:
        """A row meets partners until the last instant at which one can be."""
        below = children(join)
        at = next(number for number, child in enumerate(below) if _shows(child, column))
        for own, other in self._equal_times(join, at):
            other_us = self._least(other, None, below[1 - at], (*path, 1 - at))
            found = None if other_us is None else self._back(least_us, own, other_us, below[at], (*path, at))
            least_us = least_us if found is None else min(least_us, found)
        bound = bound_of_side(self.catalyst, join, at, self.times)
        if bound is None:
            return least_us
        (own,) = references(bound.instant)
        partner_us = self._least(bound.partner, None, below[1 - at], (*path, 1 - at))
        if partner_us is None:
            return None
        return self._back(least_us, own, min(partner_us, self.watermark_us) - bound.wait_us, below[at], (*path, at))

    def _equal_times(self, join: Plan, at: int) -> Iterator[tuple[Attribute, Attribute]]:
        """Event times of one side that a pair has in common with the other."""
        own, other = children(join)[at], children(join)[1 - at]
        for part in conjuncts(join.condition().get()) if join.condition().isDefined() else ():
            if simple_name(part) not in ("EqualTo", "EqualNullSafe"):
                continue
            for one, another in (children(part), children(part)[::-1]):
                are_times = is_attribute(one) and is_attribute(another) and is_time(one)
                if are_times and _shows(own, one) and _shows(other, another):
                    yield one, another

    def _back(self, least_us: int, own: Attribute, open_us: int, plan: Plan, path: Path) -> int | None:
        """A least time, back by as much as that of `own` goes back to `open_us`."""
        own_us = self._least(own, None, plan, path)
        return None if own_us is None else least_us - max(min(own_us, self.watermark_us) - open_us, 0)


def _is_window(column: Expression) -> bool:
    return is_window_column(column) or is_session_window(column)


def _chosen(choice: Expression) -> list[Expression]:
    """What an expression gives one of: times, not the conditions by which it chooses."""
    return [part for part in children(choice) if is_time(part)]


def _shows(plan: Plan, column: Attribute) -> bool:
    return any(expr_id(each) == expr_id(column) for each in output_of(plan))


def _same_side(waiting: Plan, own: Attribute, column: Attribute) -> bool:
    """Whether two columns of rows that wait are of the same side of the join."""
    plan = waiting
    while simple_name(plan) == "Filter":
        plan = plan.child()
    return any(_shows(child, own) and _shows(child, column) for child in children(plan))
