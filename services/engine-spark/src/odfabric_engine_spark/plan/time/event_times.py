"""Which columns of a plan are event times, and which windows are over them.

Owns the way of an event time through a query. Invariant: a column is an event time only if each of its values is the event
time of some row of an input, or a bound of a window over one, so that a watermark says which of them can still come. Not
here: what waits for the watermark (`wait_for_watermark`). Source: docs/engine.md#late-data-and-finality.
"""

from __future__ import annotations

from collections.abc import Mapping

from odfabric_engine_spark.plan.input_tables import InputTable, scan_alias
from odfabric_engine_spark.plan.time.tumbling_and_hopping_windows import is_session_window, is_window_column
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Expression,
    Plan,
    children,
    expr_id,
    is_attribute,
    is_date,
    items,
    output_of,
    simple_name,
    without_alias,
)

WINDOW_START, WINDOW_END = 0, 1
"""Members of a window."""
_PASSING = frozenset({"Distinct", "Filter", "Generate", "Window"})
_OF_FIRST_SIDE = frozenset({"Except", "Intersect"})


class EventTimes:
    """Answers for plans over given inputs."""

    def __init__(self, tables: Mapping[str, InputTable]) -> None:
        self.tables = tables

    def is_event_time(self, value: Expression, plan: Plan) -> bool:
        """Whether an expression over the output of a plan is an event time."""
        match simple_name(value):
            case "Alias":
                return self.is_event_time(value.child(), plan)
            case "AttributeReference":
                return self._column(value, plan)
            case "Literal":
                return value.value() is None  # no event time, which nothing waits for
            case "Cast":
                return simple_name(value.child()) == "Literal" and value.child().value() is None
            case "GetStructField":
                return value.ordinal() in (WINDOW_START, WINDOW_END) and self.is_timed_window(value.child(), plan)
            case "PreciseTimestampConversion":
                end = end_of_window_time(value)
                return end is not None and self.is_event_time(end, plan)
            case _:
                return False

    def is_timed_window(self, value: Expression, plan: Plan) -> bool:
        """Whether an expression is a window, also a session, over an event time."""
        if simple_name(value) == "Alias":
            value = value.child()
        if not (is_window_column(value) or is_session_window(value)):
            return False
        sources, below = sources_of(value, plan), children(plan)
        return bool(sources) and all(self._is_window_over_event_time(source, below[at]) for source, at in sources)

    def _is_window_over_event_time(self, value: Expression, plan: Plan) -> bool:
        if is_attribute(value):
            return self.is_timed_window(value, plan)
        time = time_of_window(value)
        return time is not None and self.is_event_time(time, plan)

    def _column(self, column: Expression, plan: Plan) -> bool:
        alias = scan_alias(plan)
        if alias is not None:
            return any(
                expr_id(each) == expr_id(column) and str(each.name()) == self.tables[alias].vocabulary.event_time
                for each in output_of(plan)
            )
        sources, below = sources_of(column, plan), children(plan)
        return bool(sources) and all(self.is_event_time(source, below[at]) for source, at in sources)


def sources_of(column: Expression, plan: Plan) -> list[tuple[Expression, int]]:
    """A column's sources over a plan's children, each way; empty if made here."""
    below = children(plan)
    name = simple_name(plan)
    if name in ("Project", "Aggregate"):
        listed = plan.projectList() if name == "Project" else plan.aggregateExpressions()
        named = next((each for each in items(listed) if expr_id(each) == expr_id(column)), None)
        if named is None:
            return []
        return [(without_alias(named), 0)]
    if name in ("Union", "Expand"):
        output = [expr_id(each) for each in output_of(plan)]
        if expr_id(column) not in output:
            return []
        index = output.index(expr_id(column))
        if name == "Union":
            return [(output_of(child)[index], at) for at, child in enumerate(below)]
        return [(projection.apply(index), 0) for projection in items(plan.projections())]
    if name in _OF_FIRST_SIDE:
        return [(column, 0)] if _shows(below[0], column) else []
    if name in _PASSING or name == "Join":
        return [(column, at) for at, child in enumerate(below) if _shows(child, column)]
    return []


def _shows(plan: Plan, column: Expression) -> bool:
    return any(expr_id(each) == expr_id(column) for each in output_of(plan))


def end_of_window_time(value: Expression) -> Expression | None:
    """The window end of a `window_time`, None for other PreciseTimestampConversions."""
    (moment,) = children(value)
    if simple_name(moment) != "Subtract":
        return None
    converted = moment.left()
    return converted.child() if simple_name(converted) == "PreciseTimestampConversion" else None


def time_of_window(value: Expression) -> Expression | None:
    """The time that a window is made of; None if it is not a window.

    A date counts as its midnight.
    """
    if simple_name(value) != "CreateNamedStruct":
        return None
    node = value
    while True:
        if simple_name(node) == "PreciseTimestampConversion" and str(node.fromType().typeName()) == "timestamp":
            source = node.child()
            is_midnight = simple_name(source) == "Cast" and is_date(source.child())
            return source.child() if is_midnight else source
        below = children(node)
        if not below:
            return None
        # The first member of the struct is the name of its start, the second the start.
        node = below[1] if simple_name(node) == "CreateNamedStruct" else below[0]
