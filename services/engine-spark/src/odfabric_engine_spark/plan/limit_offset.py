"""LIMIT and OFFSET after ORDER BY as a filter on row numbers.

Owns what `order by .. limit n offset m` means for a row, or for all rows that a query takes from a table of FROM: what it asks for
is numbered in that order, and the rows from m + 1 to m + n are taken. ORDER BY without LIMIT says nothing of a relation and goes.
Invariant: the condition stands where LIMIT stood, so whatever is left out there, what is selected above it is not computed for
more rows. Ties are broken where all windows get their order (`window_functions`). Not here: LIMIT on top of a query, which none may
have (`sql`), and temporal (as-of) joins (`temporal_join`).
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric_engine_spark.plan.order_independence.window_functions import over_rows, tie_problems, window
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
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import with_children
from odfabric_engine_spark.sql.refusal import Refused, refusal

_FORM = "(select .. from .. order by .. limit 1)"
_NUMBERS_MAX = 2**31 - 1
_NUMBERED = frozenset({"GlobalLimit", "Offset"})


@dataclass(frozen=True, slots=True)
class _Taken:
    """The rows with numbers above `skipped` up to `last` in the order of a Sort.

    `projects` are the selections above it, top first.
    """

    skipped: int
    last: int
    sort: Plan
    projects: list[Plan]


def without_limit(plan: Plan) -> Plan:
    """EXISTS without LIMIT: it does not matter how many rows are taken, if any."""
    while simple_name(plan) in ("GlobalLimit", "LocalLimit") and _number(plan.limitExpr()) > 0:
        (plan,) = children(plan)
    return plan


def takes_one(plan: Plan) -> bool:
    """Whether a normal plan is one row of another, by its number among all rows."""
    while simple_name(plan) == "Project":
        (plan,) = children(plan)
    if simple_name(plan) != "Filter" or simple_name(children(plan)[0]) != "Window":
        return False
    (below,) = children(plan)
    return bool(below.partitionSpec().isEmpty()) and any(
        _is_row_number(named) and _one_of(conjuncts(plan.condition()), named)
        for named in items(below.windowExpressions())
    )


def _is_row_number(named: Expression) -> bool:
    return simple_name(named) == "Alias" and str(named.child().windowFunction().sql()) == "row_number()"


def _one_of(conditions: list[Expression], number: Expression) -> bool:
    """Whether conditions let one number pass at most."""
    skipped, last = 0, _NUMBERS_MAX
    for each in conditions:
        if simple_name(each) not in ("GreaterThan", "LessThanOrEqual") or simple_name(each.right()) != "Literal":
            continue
        if is_attribute(each.left()) and expr_id(each.left()) == expr_id(number):
            bound = _number(each.right())
            if simple_name(each) == "GreaterThan":
                skipped = max(skipped, bound)
            else:
                last = min(last, bound)
    return last - skipped <= 1


def with_numbers(catalyst: Catalyst, plan: Plan) -> Plan:
    """A plan without LIMIT and ORDER BY. Raises Refused."""
    name = simple_name(plan)
    if name in _NUMBERED:
        return _first(catalyst, plan)
    if name in ("Sort", "LimitAll"):
        return with_numbers(catalyst, children(plan)[0])
    if name == "LocalLimit":
        raise Refused([refusal("limit", "only LIMIT behind ORDER BY takes the first rows here", at=plan, hint=_FORM)])
    return with_children(catalyst, plan, [with_numbers(catalyst, child) for child in children(plan)])


def _first(catalyst: Catalyst, limit: Plan) -> Plan:
    taken = _taken(limit)
    source = with_numbers(catalyst, children(taken.sort)[0])
    problems = list(tie_problems(catalyst, source, at=taken.sort))
    if problems:
        raise Refused(problems)
    order = items(taken.sort.order())
    number = catalyst.named(over_rows(catalyst, catalyst.expressions.RowNumber(), [], order), "number")
    make, column = catalyst.expressions, number.toAttribute()
    literal = catalyst.companion("org.apache.spark.sql.catalyst.expressions.Literal").apply
    among = [make.GreaterThan(column, literal(taken.skipped))] if taken.skipped else []
    among.append(make.LessThanOrEqual(column, literal(taken.last)))
    plan = catalyst.logical.Filter(catalyst.all_of(among), window(catalyst, [number], [], order, source))
    plan = catalyst.logical.Project(source.output(), plan)
    for project in reversed(taken.projects):
        plan = project.withNewChildren(catalyst.seq([plan]))
    return plan


def _taken(limit: Plan) -> _Taken:
    """What LIMIT, OFFSET or both take. Raises Refused without an order right below."""
    skipped, count, projects, plan = 0, _NUMBERS_MAX, [], limit
    asked: set[str] = set()
    while simple_name(plan) in (*_NUMBERED, "LocalLimit", "Project", "PipeOperator") and simple_name(plan) not in asked:
        match simple_name(plan):
            case "GlobalLimit":
                count = _number(plan.limitExpr())
                asked.add("GlobalLimit")
            case "Offset":
                skipped = _number(plan.offsetExpr())
                asked |= _NUMBERED  # a LIMIT below an OFFSET would count other rows
            case "Project":
                projects.append(plan)
            case _:
                pass
        (plan,) = children(plan)
    if simple_name(plan) != "Sort":
        raise Refused(
            [refusal("limit", "which rows LIMIT or OFFSET keep depends on their order", at=limit, hint=_FORM)]
        )
    return _Taken(skipped, min(skipped + count, _NUMBERS_MAX), plan, projects)


def _number(expression: Expression) -> int:
    return int(expression.eval(None))
