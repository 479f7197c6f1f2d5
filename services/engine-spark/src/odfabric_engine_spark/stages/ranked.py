"""Leaves whose rows are ranked, and of which only those up to some rank are taken.

Owns finding them in a plan: a filter of ranks over a window over rows of one leaf. Invariant: what stands between leaf and filter fails on
no row, and maps each row alone, so rows that are not looked at change nothing (`outermost`). Ranks of which the same is true are
`row_number`, `rank` and `dense_rank`: those of the first rows do not depend on the others. Not here: how a query comes to have such a filter
(`first_rows` of `normalise`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from odfabric_engine_spark.catalyst import (
    Attribute,
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
from odfabric_engine_spark.incremental.classify import arrow_type
from odfabric_engine_spark.incremental.input_table import leaf_alias
from odfabric_engine_spark.stages.outermost import OrderColumn, Outermost, is_ordered_here
from odfabric_engine_spark.stages.query import RowsStage
from odfabric_engine_spark.validate.never_failing import never_fails

_RANKS = frozenset({"RowNumber", "Rank", "DenseRank"})
_RANK_MAX = 100_000
"""Ranks above which all rows of a key may as well be looked at."""
_ORDER_MAX = 3
"""Columns of an order that are stored once more; rows that tie in them are looked at together."""
_AT_MOST = {"LessThanOrEqual": 0, "LessThan": -1, "EqualTo": 0, "EqualNullSafe": 0}
"""Comparisons of a rank with a number, and how far the last rank is from it."""
_TURNED = {"GreaterThanOrEqual": "LessThanOrEqual", "GreaterThan": "LessThan"}


def outermost_of(catalyst: Catalyst, stage: RowsStage) -> Outermost | None:
    """The first rows of a stage's only leaf, if it takes no others."""
    if len(stage.leaves) != 1 or len(stage.islands) != 1 or stage.leaves[0].ends:
        return None
    (leaf,), (island,) = stage.leaves, stage.islands
    if island.always or island.wholes or island.components is None:
        return None
    above = _chain(stage.plan)
    # The lowest window decides: others see nothing but what its filter lets pass.
    at = max((at for at, each in enumerate(above) if simple_name(each) == "Window"), default=None)
    last = None if at is None else _last_rank(catalyst, above[at], above[:at])
    if at is None or last is None:
        return None
    places = places_below(catalyst, above[at + 1 :], leaf.columns)
    if places is None:
        return None
    keys = _positions(items(above[at].partitionSpec()), places)
    hashed = _positions([each[leaf] for each in island.components], places_of(leaf.columns))
    order = _order_columns(items(above[at].orderSpec()), places)
    # Where other windows have fewer keys, rows of several keys of this one are found together.
    if keys is None or hashed is None or set(keys) != set(hashed) or order is None:
        return None
    return Outermost(last, tuple(keys), *order, dense="DenseRank" in _functions(above[at]))


def takes_first_rows(catalyst: Catalyst, window: Plan, above: Sequence[Plan]) -> bool:
    """Whether only the first rows of a window's keys pass what stands above it, highest first, once what it reads are a leaf's columns."""
    columns = [*items(window.partitionSpec()), *(each.child() for each in items(window.orderSpec()))]
    places = places_of([each for each in columns if is_attribute(each)])
    return reads(window, places) and _last_rank(catalyst, window, above) is not None


def reads(window: Plan, places: Mapping[int, int]) -> bool:
    """Whether a window's keys, and by what it orders rows first, are columns at known places."""
    keys = _positions(items(window.partitionSpec()), places)
    return keys is not None and _order_columns(items(window.orderSpec()), places) is not None


def places_of(columns: Sequence[Attribute]) -> dict[int, int]:
    """The positions of columns by id."""
    return {expr_id(column): position for position, column in enumerate(columns)}


def places_below(catalyst: Catalyst, projects: Sequence[Plan], columns: Sequence[Attribute]) -> dict[int, int] | None:
    """The positions of a leaf's columns by the ids that they have above some selections, highest first.

    None if a row may fail there, or is dropped, or becomes several.
    """
    places = places_of(columns)
    for project in reversed(projects):
        if simple_name(project) != "Project":
            return None
        found: dict[int, int] = {}
        for named in items(project.projectList()):
            value = without_alias(named)
            if not never_fails(catalyst, value):
                return None
            if is_attribute(value) and expr_id(value) in places:
                found[expr_id(named)] = places[expr_id(value)]
        places = found
    return places


def _chain(plan: Plan) -> list[Plan]:
    """A plan of one leaf from the top to the node above it."""
    found: list[Plan] = []
    while leaf_alias(plan) is None and len(children(plan)) == 1:
        found.append(plan)
        (plan,) = children(plan)
    return found


def _positions(columns: Sequence[Expression], places: Mapping[int, int]) -> list[int] | None:
    """Of the columns among the parts of a key; None if one is computed. Constants tell nothing apart."""
    columns = [each for each in columns if simple_name(each) != "Literal"]
    found = [places.get(expr_id(each)) if is_attribute(each) else None for each in columns]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else None


def _order_columns(
    order: Sequence[Expression], places: Mapping[int, int]
) -> tuple[tuple[OrderColumn, ...], bool] | None:
    """The first columns of an order as they are stored, and whether what comes first is the greatest."""
    found: list[OrderColumn] = []
    greatest = bool(order) and _descends(order[0])
    for each in order[:_ORDER_MAX]:
        column, inverted = each.child(), _descends(each) != greatest
        if not is_attribute(column) or expr_id(column) not in places or not _is_ordered(column, inverted=inverted):
            break
        nulls_come_first = simple_name(each.nullOrdering()) == "NullsFirst"
        marks_nulls = bool(column.nullable()) and nulls_come_first == greatest
        found.append(OrderColumn(places[expr_id(column)], inverted, marks_nulls))
    return (tuple(found), greatest) if found else None


def _descends(order: Expression) -> bool:
    return simple_name(order.direction()) == "Descending"


def _is_ordered(column: Attribute, *, inverted: bool) -> bool:
    if "collat" in str(column.dataType().json()).lower():
        return False
    return is_ordered_here(arrow_type(column), inverted=inverted)


def _last_rank(catalyst: Catalyst, window: Plan, above: Sequence[Plan]) -> int | None:
    """The last rank that passes a filter above a window, if what stands between them fails on no row."""
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
