"""LIMIT within LATERAL and other subqueries as a condition on the numbers of rows.

Owns what `order by .. limit n` means for a row: what it asks for is numbered in that order, and the first n are taken. Invariant: the
condition stands where LIMIT stood, so whatever is left out there, what is selected above it is not computed for more rows. Ties are
broken where all windows get their order (`window_functions`). Not here: LIMIT over all rows, which no query may have (`validate`),
and look-ups in temporal tables (`lookups`).
"""

from __future__ import annotations

from odfabric_engine_spark.catalyst import Catalyst, Plan, children, expr_id, is_attribute, items, simple_name
from odfabric_engine_spark.normalise.rebuild import with_children
from odfabric_engine_spark.normalise.window_functions import over_rows, tie_problems, window
from odfabric_engine_spark.validate.refusal import Refused, refusal

_FORM = "(select .. from .. order by .. limit 1)"


def without_limit(plan: Plan) -> Plan:
    """What EXISTS asks for: whether there is a row does not depend on how many are taken, as long as one is."""
    while simple_name(plan) in ("GlobalLimit", "LocalLimit") and int(plan.limitExpr().eval(None)) > 0:
        (plan,) = children(plan)
    return children(plan)[0] if simple_name(plan) == "Sort" else plan


def takes_one(plan: Plan) -> bool:
    """Whether a normal plan is the first row of another."""
    while simple_name(plan) == "Project":
        (plan,) = children(plan)
    if simple_name(plan) != "Filter" or simple_name(plan.condition()) != "LessThanOrEqual":
        return False
    number, most = plan.condition().left(), plan.condition().right()
    (below,) = children(plan)
    if not is_attribute(number) or simple_name(below) != "Window" or not below.partitionSpec().isEmpty():
        return False
    functions = {expr_id(each): each.child() for each in items(below.windowExpressions())}
    function = functions.get(expr_id(number))
    return function is not None and str(function.windowFunction().sql()) == "row_number()" and str(most.sql()) == "1"


def with_numbers(catalyst: Catalyst, plan: Plan) -> Plan:
    """What stands within a subquery without LIMIT and ORDER BY. Raises Refused."""
    if simple_name(plan) == "GlobalLimit":
        return _first(catalyst, plan)
    if simple_name(plan) == "Sort":
        raise Refused([refusal("order-by", "ORDER BY without LIMIT says nothing here", at=plan, hint="leave it out")])
    if simple_name(plan) in ("LocalLimit", "LimitAll", "Offset"):
        raise Refused([refusal("limit", "only LIMIT behind ORDER BY takes the first rows here", at=plan, hint=_FORM)])
    return with_children(catalyst, plan, [with_numbers(catalyst, child) for child in children(plan)])


def _first(catalyst: Catalyst, limit: Plan) -> Plan:
    (plan,) = children(limit)
    projects: list[Plan] = []
    while simple_name(plan) in ("LocalLimit", "Project"):
        projects += [plan] if simple_name(plan) == "Project" else []
        (plan,) = children(plan)
    if simple_name(plan) != "Sort":
        message = "which rows LIMIT keeps depends on their order"
        raise Refused([refusal("limit", message, at=limit, hint=_FORM)])
    source = with_numbers(catalyst, children(plan)[0])
    problems = list(tie_problems(catalyst, source, at=plan))
    if problems:
        raise Refused(problems)
    order = items(plan.order())
    number = catalyst.named(over_rows(catalyst, catalyst.expressions.RowNumber(), [], order), "number")
    taken = catalyst.expressions.LessThanOrEqual(number.toAttribute(), limit.limitExpr())
    plan = catalyst.logical.Filter(taken, window(catalyst, [number], [], order, source))
    plan = catalyst.logical.Project(source.output(), plan)
    for project in reversed(projects):
        plan = project.withNewChildren(catalyst.seq([plan]))
    return plan
