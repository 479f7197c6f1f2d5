"""Finality: the instants at which rows of inputs can change nothing more.

Owns finding what ends in a plan (windows, temporal joins, joins within a span of event times), and the way of its instants down to the
inputs. Invariant: a row of an input changes nothing that ended before the least of its instants. Not here: by when a row is
dropped (`late_data`) or removed (`state_expiry`). Source: docs/engine.md#lateness-and-state-expiry; docs/engine.md#steps-and-slicing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from odfabric_engine_spark.plan.column_lineage import scans_of, substitute
from odfabric_engine_spark.plan.duplicated_inputs import DuplicatedInputs
from odfabric_engine_spark.plan.input_tables import scan_alias
from odfabric_engine_spark.plan.joins.lateral_temporal_join import LOOKED_UP
from odfabric_engine_spark.plan.joins.outer_interval_join import bounds_of_join
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan
from odfabric_engine_spark.plan.time.event_times import EventTimes, sources_of
from odfabric_engine_spark.plan.time.timed_filters import timed_filter
from odfabric_engine_spark.plan.time.tumbling_and_hopping_windows import is_session_window
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    is_attribute,
    items,
    references,
    simple_name,
)


def final_instants(
    catalyst: Catalyst, plan: Plan, times: EventTimes, inputs: Sequence[StageScan], duplicates: DuplicatedInputs
) -> dict[StageScan, list[Expression]]:
    """The different instants of each use of an input that has any.

    `inputs` are the uses from left to right.

    What is final for one copy of a use is not for another, so copies have all instants together.
    """
    found: dict[StageScan, list[Expression]] = defaultdict(list)
    for number, instant in _final_instants(catalyst, plan, times, 0):
        _add(found[inputs[number]], instant)
    uses: dict[int, list[StageScan]] = defaultdict(list)
    for scan in inputs:
        for number in {
            duplicates.numbers[expr_id(each)] for each in scan.columns if expr_id(each) in duplicates.numbers
        }:
            uses[number].append(scan)
    for number, scans in uses.items():
        _share(found, scans, always=number not in duplicates.repeated)
    return dict(found)


def _share(found: dict[StageScan, list[Expression]], duplicates: Sequence[StageScan], *, always: bool) -> None:
    """Gives copies the instants of all of them.

    Of one use in the query all copies but one are values that rows of that one have: where these end nowhere, they end with the rows. Of
    a use that stands in several places of it one may be shown where nothing ends, and then nothing is too late for any of them.
    """
    own = {scan: found.pop(scan, []) for scan in duplicates}
    shared: list[Expression] = []
    for instant in (each for instants in own.values() for each in instants):
        _add(shared, instant)
    if shared and (always or all(own.values())):
        found |= dict.fromkeys(duplicates, shared)


def _add(known: list[Expression], instant: Expression) -> None:
    known += [] if any(each.semanticEquals(instant) for each in known) else [instant]


@dataclass(frozen=True, slots=True)
class InputInstant:
    """An instant of a plan's rows, over the input rows that they are made of.

    Or that they meet: the rows of one use of an input.

    Rows of a plan have it, or up to `earlier_us` less: that of partners which are not at the same time.
    """

    number: int
    instant: Expression
    earlier_us: int


def instants_of_inputs(
    catalyst: Catalyst, instant: Expression, plan: Plan, times: EventTimes
) -> Iterator[InputInstant]:
    """An instant over a plan's rows over each use of an input that can tell it.

    Uses are numbered from left to right.
    """

    def met(column: Expression, node: Plan) -> list[_Source]:
        return [*_sources(column, node), *_at_partners(catalyst, column, node, times)]

    return _at_inputs(catalyst, instant, plan, met)


_Source = tuple[Expression, int, int]
"""What a column is over a child, which child that is, and how much earlier than it the column may be."""


def _at_inputs(
    catalyst: Catalyst, instant: Expression, plan: Plan, sources: Callable[[Expression, Plan], list[_Source]]
) -> Iterator[InputInstant]:
    """An instant over the uses of inputs that its columns come from, by sources."""
    if scan_alias(plan) is not None:
        yield InputInstant(0, instant, 0)
        return
    below = list(_numbered(plan, 0))
    # An instant is made of one event time; one without is null.
    for column in references(instant):
        for value, at, earlier_us in sources(column, plan):
            child, first = below[at]
            own = substitute(catalyst, instant, {expr_id(column): value})
            for each in _at_inputs(catalyst, own, child, sources):
                yield InputInstant(first + each.number, each.instant, each.earlier_us + earlier_us)


def _own_sources(column: Expression, plan: Plan) -> list[_Source]:
    return [(value, at, 0) for value, at in sources_of(column, plan)]


def _sources(column: Expression, plan: Plan) -> list[_Source]:
    """As `_own_sources`, where an input row changes only rows of its own instant.

    Rows that look up versions have the time of the union of both, for no version is later than its row. Other window functions change
    rows of their whole partition. A session begins long before its last row, and ends again with each.
    """
    if simple_name(plan) == "Aggregate" and any(map(is_session_window, items(plan.groupingExpressions()))):
        return []
    if is_temporal_join(plan):
        time = time_of_temporal_join(plan)
        own, other = (_of_rows(each, children(plan)[0]) for each in (column, time))
        if own is not None and other is not None and own.semanticEquals(other):
            return [(time, 0, 0)]
    elif simple_name(plan) == "Window" and not any(column.semanticEquals(key) for key in items(plan.partitionSpec())):
        return []
    return _own_sources(column, plan)


def _of_rows(value: Expression, plan: Plan) -> Expression | None:
    """A column of rows and versions' union in the rows' branch, followed down.

    As far down as each row is taken as it is.
    """
    while simple_name(plan) in ("Project", "Union"):
        found = sources_of(value, plan) if is_attribute(value) else []
        if not found:
            break
        value, plan = found[0][0], children(plan)[0]
    return value if is_attribute(value) else None


def _at_partners(catalyst: Catalyst, column: Expression, plan: Plan, times: EventTimes) -> Iterator[_Source]:
    """The time of a join's other side for one side's column, and its lead.

    How much earlier than it the column may be.
    """
    bounds = bounds_of_join(catalyst, plan, times) if simple_name(plan) == "Join" else None
    if bounds is None:
        return
    for at, (own, other) in enumerate((bounds, bounds[::-1])):
        # The partner of a partner is the row itself.
        if expr_id(other.partner) == expr_id(column) and own.partner.dataType().sameType(column.dataType()):
            yield own.partner, 1 - at, max(own.wait_us, 0)


def is_temporal_join(plan: Plan) -> bool:
    """Whether a node gives rows their versions."""
    if simple_name(plan) != "Window":
        return False
    return any(str(named.name()) == LOOKED_UP for named in items(plan.windowExpressions()))


def time_of_temporal_join(plan: Plan) -> Expression:
    """The times of rows and versions, over their union."""
    return items(plan.orderSpec())[0].child()


def _final_instants(catalyst: Catalyst, node: Plan, times: EventTimes, begin: int) -> Iterator[tuple[int, Expression]]:
    """Instants with the numbers of their scans, which are numbered from `begin`."""
    if scan_alias(node) is not None:
        return
    for instant, plan in _ends_at(catalyst, node, times):
        for each in _at_inputs(catalyst, instant, plan, _own_sources):
            yield begin + each.number, each.instant
    for child, first in _numbered(node, begin):
        yield from _final_instants(catalyst, child, times, first)


def _ends_at(catalyst: Catalyst, node: Plan, times: EventTimes) -> Iterator[tuple[Expression, Plan]]:
    """What ends at a node itself: an instant over the rows of a plan."""
    name = simple_name(node)
    timed = timed_filter(node) if name == "Filter" else None
    if timed is not None:
        yield timed.instant, node.child()
    elif name == "Join":
        for bound in bounds_of_join(catalyst, node, times) or ():
            yield bound.instant, node
    elif is_temporal_join(node):
        yield time_of_temporal_join(node), children(node)[0]


def _numbered(node: Plan, begin: int) -> Iterator[tuple[Plan, int]]:
    """The children of a node, each with the number of its first scan."""
    for child in children(node):
        yield child, begin
        begin += len(scans_of(child))
