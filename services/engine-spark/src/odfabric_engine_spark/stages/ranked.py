"""Leaves whose rows are ranked, and of which only those up to some rank are taken.

Owns finding them in a plan: a filter of ranks over a window over rows of one leaf, or groups of which but the rows with the greatest or the
least of one value are asked for (`max_by`). Invariant: what stands between leaf and filter fails on
no row, and maps each row alone, so rows that are not looked at change nothing (`outermost`). Ranks of which the same is true are
`row_number`, `rank` and `dense_rank`: those of the first rows do not depend on the others. Not here: how a query comes to have such a filter
(`first_rows` of `normalise`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

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
from odfabric_engine_spark.incremental.classify import arrow_type, calls_of
from odfabric_engine_spark.incremental.group_keys import can_be_key
from odfabric_engine_spark.incremental.input_table import leaf_alias
from odfabric_engine_spark.stages.outermost import OrderColumn, Outermost, is_ordered_here
from odfabric_engine_spark.stages.query import RowsStage
from odfabric_engine_spark.validate.never_failing import never_fails

_RANKING = frozenset({"Window", "Aggregate"})
_OF_FLOATS = frozenset({"KnownFloatingPointNormalized", "NormalizeNaNAndZero"})
_EXTREMES = frozenset({"Max", "MaxBy", "Min", "MinBy"})
_RANKS = frozenset({"RowNumber", "Rank", "DenseRank"})
_RANK_MAX = 100_000
"""Ranks above which all rows of a key may as well be looked at."""
_ORDER_MAX = 3
"""Columns of an order that are stored once more; rows that tie in them are looked at together."""
_AT_MOST = {"LessThanOrEqual": 0, "LessThan": -1, "EqualTo": 0, "EqualNullSafe": 0}
"""Comparisons of a rank with a number, and how far the last rank is from it."""
_TURNED = {"GreaterThanOrEqual": "LessThanOrEqual", "GreaterThan": "LessThan"}


@dataclass(frozen=True, slots=True)
class _By:
    """A part of an order."""

    column: Expression
    descends: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Ranking:
    """Rows with one value in all `keys` are ranked in an order, and those up to the rank `last` are taken. `dense`: as `Outermost` has it."""

    keys: Sequence[Expression]
    order: Sequence[_By]
    last: int
    dense: bool

    def reads(self, places: Mapping[int, int]) -> bool:
        """Whether keys, and by what rows are ordered first, are columns at known places."""
        return _positions(self.keys, places) is not None and _order_columns(self.order, places) is not None

    @property
    def can_read(self) -> bool:
        """Whether they are columns of what is below."""
        columns = [*self.keys, *(each.column for each in self.order)]
        return self.reads(places_of([each for each in columns if is_attribute(each)]))


def outermost_of(catalyst: Catalyst, stage: RowsStage) -> Outermost | None:
    """The first rows of a stage's only leaf, if it takes no others."""
    if len(stage.leaves) != 1 or len(stage.islands) != 1 or stage.leaves[0].ends:
        return None
    (leaf,), (island,) = stage.leaves, stage.islands
    if island.always or island.wholes or island.components is None:
        return None
    above = _chain(stage.plan)
    # The lowest one decides: others see nothing but what it lets pass.
    at = max((at for at, each in enumerate(above) if simple_name(each) in _RANKING), default=None)
    ranking = None if at is None else ranking_of(catalyst, above[at], above[:at])
    if at is None or ranking is None:
        return None
    places = places_below(catalyst, above[at + 1 :], leaf.columns)
    if places is None:
        return None
    keys = _positions(ranking.keys, places)
    hashed = _positions([each[leaf] for each in island.components], places_of(leaf.columns))
    order = _order_columns(ranking.order, places)
    # Where others have fewer keys, rows of several keys of this one are found together.
    if keys is None or hashed is None or set(keys) != set(hashed) or order is None:
        return None
    return Outermost(ranking.last, tuple(keys), *order, dense=ranking.dense)


def ranking_of(catalyst: Catalyst, node: Plan, above: Sequence[Plan]) -> Ranking | None:
    """How a window or an aggregate ranks rows, if but the first ones pass what stands above it, highest first."""
    if simple_name(node) == "Aggregate":
        return _extremes(catalyst, node)
    last = _last_rank(catalyst, node, above)
    if last is None:
        return None
    order = [
        _By(each.child(), _descends(each), simple_name(each.nullOrdering()) == "NullsFirst")
        for each in items(node.orderSpec())
    ]
    return Ranking(items(node.partitionSpec()), order, last, dense="DenseRank" in _functions(node))


def _extremes(catalyst: Catalyst, aggregate: Plan) -> Ranking | None:
    """Of groups of which but the rows with the greatest, or the least, of one value are asked for."""
    found: dict[tuple[int, bool], _By] = {}
    for call in calls_of(aggregate):
        function = call.aggregateFunction()
        name = simple_name(function)
        if name not in _EXTREMES or call.filter().isDefined() or call.isDistinct():
            return None
        value, *rest = children(function)
        by = _without_normal(_ordered_by(rest[0]) if rest else value)
        if not is_attribute(by) or not never_fails(catalyst, value):
            return None
        greatest = name in ("Max", "MaxBy")
        found[expr_id(by), greatest] = _By(by, descends=greatest, nulls_first=False)
    if len(found) != 1:
        return None
    return Ranking(items(aggregate.groupingExpressions()), list(found.values()), 1, dense=True)


def _without_normal(value: Expression) -> Expression:
    """A float that is brought to one zero and one NaN: states have those anyway."""
    while simple_name(value) in _OF_FLOATS:
        (value,) = children(value)
    return value


def _ordered_by(order: Expression) -> Expression:
    """By what `ties` has rows ordered first."""
    if simple_name(order) == "If" and simple_name(order.predicate()) == "IsNull":
        order = order.falseValue()
    return children(order)[1] if simple_name(order) == "CreateNamedStruct" else order


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


def _order_columns(order: Sequence[_By], places: Mapping[int, int]) -> tuple[tuple[OrderColumn, ...], bool] | None:
    """The first columns of an order as they are stored, and whether what comes first is the greatest."""
    found: list[OrderColumn] = []
    greatest = bool(order) and order[0].descends
    for each in order[:_ORDER_MAX]:
        column, inverted = each.column, each.descends != greatest
        if not is_attribute(column) or expr_id(column) not in places or not _is_ordered(column, inverted=inverted):
            break
        marks_nulls = bool(column.nullable()) and each.nulls_first == greatest
        found.append(OrderColumn(places[expr_id(column)], inverted, marks_nulls))
    return (tuple(found), greatest) if found else None


def _descends(order: Expression) -> bool:
    return simple_name(order.direction()) == "Descending"


def _is_ordered(column: Attribute, *, inverted: bool) -> bool:
    return can_be_key(column) and is_ordered_here(arrow_type(column), inverted=inverted)


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
