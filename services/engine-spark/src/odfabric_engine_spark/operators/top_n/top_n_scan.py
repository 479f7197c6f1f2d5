"""Top-N: inputs of which only the rows up to some rank are taken.

Owns finding them in a plan: a filter of ranks over a window over rows of one scan, or groups of which but the rows with the greatest or the
least of one value are asked for (`max_by`). Invariant: what stands between scan and filter fails on
no row, and maps each row alone, so rows that are not looked at change nothing (`top_n_read`). Ranks of which the same is true are
`row_number`, `rank` and `dense_rank`: those of the first rows do not depend on the others. Not here: how a query comes to have such a filter
(`limit_offset` of `plan`).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from odfabric_engine_spark.operators.top_n.top_n_read import TopN
from odfabric_engine_spark.operators.touched_keys.ordered_scan import (
    By,
    OrderedRows,
    only_scan,
    order_of,
    without_normal,
)
from odfabric_engine_spark.plan.aggregates.aggregate_calls import calls_of
from odfabric_engine_spark.plan.partitioning.stages import RowsStage
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    conjuncts,
    expr_id,
    is_attribute,
    items,
    simple_name,
    without_alias,
)
from odfabric_engine_spark.sql.constants.never_failing import never_fails

_RANKING = frozenset({"Window", "Aggregate"})
_EXTREMES = frozenset({"Max", "MaxBy", "Min", "MinBy"})
_RANKS = frozenset({"RowNumber", "Rank", "DenseRank"})
_RANK_MAX = 100_000
"""Ranks above which all rows of a key may as well be looked at."""
_AT_MOST = {"LessThanOrEqual": 0, "LessThan": -1, "EqualTo": 0, "EqualNullSafe": 0}
"""Comparisons of a rank with a number, and how far the last rank is from it."""
_TURNED = {"GreaterThanOrEqual": "LessThanOrEqual", "GreaterThan": "LessThan"}


@dataclass(frozen=True, slots=True)
class Ranking(OrderedRows):
    """Rows are ranked in an order, and those up to the rank `last` are taken.

    `dense`: as `TopN` has it.
    """

    last: int
    dense: bool


def top_n_of(catalyst: Catalyst, stage: RowsStage) -> TopN | None:
    """The first rows of a stage's only scan, if it takes no others."""
    found = only_scan(stage)
    if found is None:
        return None
    scan, subplan, above = found
    # The lowest one decides: others see nothing but what it lets pass.
    at = max((at for at, each in enumerate(above) if simple_name(each) in _RANKING), default=None)
    ranking = None if at is None else ranking_of(catalyst, above[at], above[:at])
    if at is None or ranking is None:
        return None
    rows = ranking.of_scan(catalyst, above[at + 1 :], scan, subplan)
    return None if rows is None else TopN(rows.keys, rows.order, ranking.last, rows.greatest, ranking.dense)


def ranking_of(catalyst: Catalyst, node: Plan, above: Sequence[Plan]) -> Ranking | None:
    """How a window or aggregate ranks rows, if only the first pass the nodes above.

    Those nodes come highest first.
    """
    if simple_name(node) == "Aggregate":
        return _extremes(catalyst, node)
    last = _last_rank(catalyst, node, above)
    if last is None:
        return None
    dense = "DenseRank" in _functions(node)
    return Ranking(items(node.partitionSpec()), order_of(node), hides_rows=True, last=last, dense=dense)


def _extremes(catalyst: Catalyst, aggregate: Plan) -> Ranking | None:
    """The order of aggregates that ask only for a value's greatest or least rows."""
    found: dict[tuple[int, bool], By] = {}
    for call in calls_of(aggregate):
        function = call.aggregateFunction()
        name = simple_name(function)
        if name not in _EXTREMES or call.filter().isDefined() or call.isDistinct():
            return None
        value, *rest = children(function)
        by = without_normal(_ordered_by(rest[0]) if rest else value)
        if not is_attribute(by) or not never_fails(catalyst, value):
            return None
        greatest = name in ("Max", "MaxBy")
        found[expr_id(by), greatest] = By(by, descends=greatest, nulls_first=False)
    if len(found) != 1:
        return None
    keys = items(aggregate.groupingExpressions())
    return Ranking(keys, list(found.values()), hides_rows=True, last=1, dense=True)


def _ordered_by(order: Expression) -> Expression:
    """By what `ties` has rows ordered first."""
    if simple_name(order) == "If" and simple_name(order.predicate()) == "IsNull":
        order = order.falseValue()
    return children(order)[1] if simple_name(order) == "CreateNamedStruct" else order


def _last_rank(catalyst: Catalyst, window: Plan, above: Sequence[Plan]) -> int | None:
    """The last rank that passes a filter above a window, if nothing between fails."""
    if not _functions(window) <= _RANKS:
        return None
    ranks = {expr_id(each) for each in items(window.windowExpressions())}
    for plan in reversed(above):
        match simple_name(plan):
            case "Project":
                named = items(plan.projectList())
                if not all(never_fails(catalyst, without_alias(each)) for each in named):
                    return None
                ranks = {expr_id(each) for each in named if _is_among(without_alias(each), ranks)}
            case "Filter":
                conditions = conjuncts(plan.condition())
                if not all(never_fails(catalyst, each) for each in conditions):
                    return None
                bounds = [bound for each in conditions if (bound := _bound(each, ranks)) is not None]
                if bounds:
                    return max(min(bounds), 1) if min(bounds) <= _RANK_MAX else None
            case _:
                return None
    return None


def _functions(window: Plan) -> set[str]:
    """What a window computes; of an expression that is no call, itself."""
    values = map(without_alias, items(window.windowExpressions()))
    return {simple_name(each.windowFunction() if simple_name(each) == "WindowExpression" else each) for each in values}


def _is_among(expression: Expression, ids: Set[int]) -> bool:
    return is_attribute(expression) and expr_id(expression) in ids


def _bound(condition: Expression, ranks: Set[int]) -> int | None:
    """The last rank that a condition lets pass."""
    name = simple_name(condition)
    if name == "In" and _is_among(condition.value(), ranks):
        numbers = [_number(each) for each in items(condition.list())]
        return (
            None
            if any(each is None for each in numbers)
            else max((each for each in numbers if each is not None), default=1)
        )
    if name not in _AT_MOST and name not in _TURNED:
        return None
    left, right = condition.left(), condition.right()
    if name in _TURNED or not _is_among(left, ranks):
        left, right, name = right, left, _TURNED.get(name, name if name.startswith("Equal") else "")
    number = _number(right) if name in _AT_MOST and _is_among(left, ranks) else None
    return None if number is None else number + _AT_MOST[name]


def _number(literal: Expression) -> int | None:
    value = literal.eval(None) if simple_name(literal) == "Literal" else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
