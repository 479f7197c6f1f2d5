"""Which results of a query depend on the order of rows.

Owns the rules for aggregate and window functions: which of them are functions of the multiset of rows, by themselves, by an order
that they state, or by what is made of their result. Invariant: what passes in a transform has one answer, or gets it from
the normal form (`plan`): floats are folded in ascending order, ties are broken by value. Not here: which functions
exist (`allowed_functions`), order within windows of a transform (`plan.order_independence.window_functions`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    children_of,
    expr_id,
    expressions_of,
    inner_plan,
    is_attribute,
    items,
    output_of,
    simple_name,
    type_text,
)
from odfabric_engine_spark.sql.allowed_functions import REASONS
from odfabric_engine_spark.sql.constants.never_failing import never_fails
from odfabric_engine_spark.sql.refusal import name_of, refusal, shown, text_of

SUMS = frozenset({"Sum", "Average", "TrySum", "TryAverage"})
MOMENTS = frozenset(
    [
        "StddevPop",
        "StddevSamp",
        "VariancePop",
        "VarianceSamp",
        "Skewness",
        "Kurtosis",
        "Corr",
        "CovPopulation",
        "CovSample",
        "RegrAvgX",
        "RegrAvgY",
        "RegrIntercept",
        "RegrR2",
        "RegrSlope",
        "RegrSXX",
        "RegrSXY",
        "RegrSYY",
    ]
)
_PICKS = frozenset({"First", "Last", "AnyValue", "NthValue"})
_BY_POSITION = frozenset({"RowNumber", "NTile", "Lag", "Lead", "NthValue", "CounterDiff", "CounterDiffWithStartTime"})
LISTS = frozenset({"CollectList", "CollectSet", "CollectUnion"})
BY_ANOTHER = frozenset({"MaxBy", "MinBy", "MaxMinByK"})

_SETTLING = frozenset(
    [
        "SortArray",
        "ArraySort",
        "Size",
        "ArraySize",
        "ArrayMax",
        "ArrayMin",
        "ArrayContains",
        "Explode",
        "Inline",
        "IsNull",
        "IsNotNull",
    ]
)
"""Functions of an array, their first argument, to which the order of its members does not matter."""

_STOPPING = frozenset({"ArrayExists", "ArrayForAll"})
"""Functions that look at members only until one decides: the order says which are looked at, and so whether one fails."""
_MEMBER_BY_MEMBER = frozenset(
    ["ArrayTransform", "ArrayFilter", "ArrayDistinct", "ArrayCompact", "ArrayRemove", "Flatten", "KnownNotContainsNull"]
)
"""Functions that give the members of their first argument in its order; what they give matters as much as that."""

_OF_SEVERAL = frozenset({"ArrayUnion", "ArrayIntersect", "ArrayExcept", "Concat"})
"""As those before, but of all their arguments."""

_PASSING = frozenset(
    [
        "Project",
        "Filter",
        "Window",
        "Aggregate",
        "Join",
        "SubqueryAlias",
        "Generate",
        "LateralJoin",
        "Sort",
        "GlobalLimit",
        "LocalLimit",
        "Offset",
        "WithCTE",
        "CTERelationDef",
        "PipeOperator",
    ]
)
"""Nodes whose output has columns of their children only as they are, or as what their expressions make of them."""

_FROM_THE_START = frozenset([("UnboundedPreceding", "UnboundedFollowing"), ("UnboundedPreceding", "CurrentRow")])
"""Frames that end with a row of the window's order: all rows, or those up to the last one that ties."""

_FLOATS = frozenset({"float", "double"})

RULED = SUMS | MOMENTS | _PICKS | _BY_POSITION | LISTS | BY_ANOTHER | {"ListAgg", "Mode"}
"""All classes for which there is a rule here."""


@dataclass(frozen=True, slots=True)
class Place:
    """What surrounds an expression.

    `certain`: it is deterministic with all that is below it. `made`: Spark made it.

    `settled`: whatever reads it does not look at the order of its members.
    """

    certain: bool
    made: bool = False
    settled: bool = False
    window_has_order: bool | None = None
    """Whether the window has an order; None outside of windows."""
    over_values: bool = False
    """Whether a frame of the window is one of values, in which rows that tie have no order."""


def places_below(catalyst: Catalyst, node: Expression, name: str, place: Place, count: int) -> list[Place]:
    """The places of the children of an expression, of which there are `count`."""
    chosen = _values_chosen(name, count)
    return [
        place if position in chosen else _place_below(catalyst, node, name, place, position)
        for position in range(count)
    ]


def _place_below(catalyst: Catalyst, node: Expression, name: str, place: Place, position: int) -> Place:
    if name == "AggregateExpression":
        return place
    if name == "ArraysOverlap":
        return replace(place, settled=True)
    if name in _OF_SEVERAL:
        return place
    settled = position == 0 and _settles(catalyst, node, name, place)
    if name == "Alias":
        return place
    if name == "WindowExpression":
        # Of floats a list may hold zeros of both signs, and those of a window are not made one.
        settled = position == 0 and place.settled and not holds_floats(node)
        has_order = not node.windowSpec().orderSpec().isEmpty()
        return replace(place, settled=settled, window_has_order=has_order, over_values=_is_over_values(node))
    return replace(place, settled=settled)


def _values_chosen(name: str, count: int) -> frozenset[int]:
    """Positions of the children of which an expression may return one unchanged."""
    if name == "If":
        return frozenset({1, 2})
    if name in ("Nvl", "Nvl2"):
        return frozenset({0})  # their only child is what they stand for
    if name not in ("Coalesce", "CaseWhen"):
        return frozenset()
    if name == "Coalesce":
        return frozenset(range(count))
    otherwise = {count - 1} if count % 2 else set()
    return frozenset({*range(1, count, 2), *otherwise})


def columns_looked_at(catalyst: Catalyst, plan: Plan) -> frozenset[int]:
    """Ids of columns whose members' order is visible, also in results and subqueries."""
    found = _ids(plan)
    places_read: set[tuple[int, int]] = set()  # of relations of WITH, by relation and column
    stack: list[tuple[Plan | Expression, Place | None]] = [(plan, None)]
    while stack:
        node, place = stack.pop()
        name = simple_name(node)
        if place is None:
            # What reads a column stands above the node that makes it, or in a subquery: both are seen before it. So are
            # readers of WITH, whose relations come last.
            if name == "CTERelationRef":
                places_read |= {(int(node.cteId()), at) for at, each in enumerate(_id_list(node)) if each in found}
            elif name == "CTERelationDef":
                found |= {each for at, each in enumerate(_id_list(node)) if (int(node.id()), at) in places_read}
            stack += [(child, None) for child in children(node)]
            for child in children(node) if name not in _PASSING else ():
                found |= _ids(child)
            stack += _places(node, name, found)
            continue
        if is_attribute(node) and not place.settled:
            found.add(expr_id(node))
        inside = inner_plan(node, name)
        if inside is not None:
            found |= _ids(inside)
            stack.append((inside, None))
        below = children_of(node, name)
        stack += zip(below, places_below(catalyst, node, name, place, len(below)), strict=True)
    return frozenset(found)


def _places(node: Plan, name: str, found: set[int]) -> Iterator[tuple[Expression, Place]]:
    """The expressions of a plan node but those that pass a column on as it is."""
    for each in expressions_of(node):
        if simple_name(each) == "Alias":
            yield each, Place(certain=True, settled=expr_id(each) not in found)
        elif name not in ("Project", "CTERelationRef"):
            yield each, Place(certain=True)


def _id_list(plan: Plan) -> list[int]:
    return [expr_id(column) for column in output_of(plan)]


def _ids(plan: Plan) -> set[int]:
    return set(_id_list(plan))


def looks_at_order(catalyst: Catalyst, named: Expression) -> bool:
    """Whether a value shows an aggregate's list members in their original order."""
    stack: list[tuple[Expression, Place]] = [(named, Place(certain=True))]
    while stack:
        node, place = stack.pop()
        name = simple_name(node)
        if name in LISTS and not place.settled:
            return True
        below = children_of(node, name)
        stack += zip(below, places_below(catalyst, node, name, place, len(below)), strict=True)
    return False


def order_problems(
    catalyst: Catalyst, node: Expression, name: str, place: Place, *, in_transform: bool
) -> Iterator[InvalidQuery]:
    """What is wrong with a function of rows.

    Only transforms have a normal form that makes floats and ties certain.
    """
    if name in _BY_POSITION and not place.window_has_order:
        hint = "state it: over (partition by .. order by ..)"
        yield refusal("function-order", f"{text_of(node)} needs an ORDER BY in its window", at=node, hint=hint)
    elif name in SUMS:
        if not in_transform and any(str(child.dataType().typeName()) in _FLOATS for child in children(node)):
            yield _float_sum(node)
    elif name in MOMENTS:
        if not in_transform:
            yield _float_sum(node)
    elif name in _PICKS:
        if not place.window_has_order and not _picks_constant(node, name, place):
            hint = "use min(..), max(..), max_by(.., event_time), or first_value(..) over (partition by .. order by ..)"
            yield _by_order(node, hint=hint)
    elif name in LISTS:
        # A list over rows of a window has the window's order.
        over_rows = place.window_has_order and not place.over_values
        if not place.settled and not (name == "CollectList" and in_transform and over_rows):
            yield _by_order(node, hint=_ordered_list(node, place))
    elif name == "ListAgg":
        yield from _list_problems(node, in_transform=in_transform)
    elif name == "Mode":
        if not node.reverseOpt().isDefined():
            yield _by_order(node, hint="say which of several: mode(.., true) or mode() WITHIN GROUP (ORDER BY ..)")
    elif name in BY_ANOTHER:
        yield from _tie_problems(catalyst, node, in_transform=in_transform)


def _picks_constant(node: Expression, name: str, place: Place) -> bool:
    """Whether any row of a group gives the same.

    A frame of a window may also hold no row, depending on the order.
    """
    return name != "NthValue" and place.window_has_order is None and all(part.foldable() for part in children(node))


def holds_floats(expression: Expression) -> bool:
    """Whether values of an expression are or contain floating point numbers."""
    text = type_text(expression)
    return '"double"' in text or '"float"' in text


def _settles(catalyst: Catalyst, node: Expression, name: str, place: Place) -> bool:
    if name == "ArraySort":
        return _by_value(catalyst, node)
    if name == "ArrayTransform" and holds_floats(node):
        return False  # it can make zeros of both signs, which sorting does not tell apart
    if name in ("ArrayTransform", "ArrayFilter") and len(items(node.function().arguments())) > 1:
        return False  # it sees positions
    if name == "Cast":
        # Spark casts a list of integers where longs are looked for in it. Texts tell zeros of both signs apart, and make such.
        return place.settled and _is_list(node) and not holds_floats(children(node)[0]) and not _makes_floats(node)
    if name in _STOPPING:
        return never_fails(catalyst, node.function())
    return name in _SETTLING or (name in _MEMBER_BY_MEMBER and place.settled)


def _makes_floats(cast: Expression) -> bool:
    """Whether floats are read from texts: those of numbers have one zero."""
    source = type_text(children(cast)[0])
    return holds_floats(cast) and any(
        each in source for each in ('"string"', '"binary"', '"variant"', "varchar", "char")
    )


def _is_over_values(call: Expression) -> bool:
    frame = call.windowSpec().frameSpecification()
    ends = (simple_name(frame.lower()), simple_name(frame.upper()))
    return simple_name(frame.frameType()) == "RangeFrame" and ends not in _FROM_THE_START


def _is_list(expression: Expression) -> bool:
    return str(expression.dataType().typeName()) == "array"


def _by_value(catalyst: Catalyst, node: Expression) -> bool:
    """Whether ARRAY_SORT compares whole members; other comparisons allow ties."""
    function = node.function()
    if simple_name(function) != "LambdaFunction":
        return False
    left, right = items(function.arguments())
    comparing = catalyst.companion("org.apache.spark.sql.catalyst.expressions.ArraySort").comparator(left, right)
    return bool(function.function().semanticEquals(comparing))


def _ordered_list(node: Expression, place: Place) -> str:
    if place.window_has_order is None:
        return f"sort it: sort_array({text_of(node)})"
    frame = "over (partition by .. order by .. rows between unbounded preceding and unbounded following)"
    if holds_floats(node):
        return f"use collect_list(..) {frame}"
    return f"sort it: sort_array({shown(str(node.prettyName()))}(..) over (..)), or use collect_list(..) {frame}"


def _list_problems(node: Expression, *, in_transform: bool) -> Iterator[InvalidQuery]:
    ordered = [order.child() for order in items(node.orderExpressions())]
    if not ordered:
        yield _by_order(node, hint=f"say in which order: {text_of(node)} WITHIN GROUP (ORDER BY ..)")
    elif not in_transform and not any(order.semanticEquals(node.child()) for order in ordered):
        yield _by_order(node, hint="order it by its own value too: WITHIN GROUP (ORDER BY .., ..)")


def _tie_problems(catalyst: Catalyst, node: Expression, *, in_transform: bool) -> Iterator[InvalidQuery]:
    value, by, *_ = children(node)
    function = str(node.prettyName())
    if not in_transform:
        parts = children(by) if simple_name(by) == "CreateNamedStruct" else [by]
        if any(part.semanticEquals(value) for part in parts):
            return
        yield _by_order(node, hint=f"break ties by the value: {function}(x, struct(y, x))")
    elif not catalyst.is_orderable(value.dataType()):
        hint = "take a member of it, or number the rows by row_number() over (partition by .. order by ..)"
        message = f"{text_of(node)} is not allowed: of rows that tie it takes any, and {name_of(value)} has no order to choose by"
        yield refusal("function-order", message, at=node, hint=hint)


def _by_order(node: Expression, *, hint: str) -> InvalidQuery:
    why, _ = REASONS["order"]
    return refusal("function-order", f"{text_of(node)} is not allowed: {why}", at=node, hint=hint)


def _float_sum(node: Expression) -> InvalidQuery:
    return refusal(
        "float-order",
        f"{text_of(node)} adds floating point numbers, whose sum depends on the order of rows",
        at=node,
        hint="cast to decimal, or do it in a derivative dataset",
    )
