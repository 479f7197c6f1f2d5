"""Refuse plans that have no normal form or cannot be kept up to date.

Owns the table of refused nodes and types. Invariant: everything refused here is reported with its place in the text and with what
to write instead, all of it at once. Not here: what is refused for other reasons (`sql`), sizes (`operators`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from pyspark.sql.types import _parse_datatype_json_string

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.plan.aggregates.aggregate_calls import calls_of
from odfabric_engine_spark.plan.input_tables import InputTable, scan_alias
from odfabric_engine_spark.plan.order_independence.whole_number_sums import adds_longs
from odfabric_engine_spark.plan.order_independence.window_functions import needs_order, tie_problems, window_problems
from odfabric_engine_spark.plan.time.wait_for_watermark import WATERMARK
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    expressions_of,
    inner_plan,
    is_attribute,
    items,
    output_of,
    simple_name,
    type_text,
    walk_expression,
)
from odfabric_engine_spark.sql.output_column_rules import MEMBERS_APART, doubled_member
from odfabric_engine_spark.sql.refusal import OWN_COLUMN, PLAIN_FORMS, Refused, in_order, refusal, shown, text_of

_log = logging.getLogger(__name__)
_NORMAL_NODES = frozenset(
    {
        "LocalRelation",
        "OneRowRelation",
        "Range",
        "Project",
        "Filter",
        "Generate",
        "Expand",
        "Aggregate",
        "Window",
        "Join",
        "Union",
    }
)
_OF_WHOLE_ROWS = frozenset({"Distinct", "Except", "Intersect"})
_JOINS = frozenset({"Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter", "LeftSemi", "LeftAnti", "ExistenceJoin"})


def check_analysed(catalyst: Catalyst, plan: Plan, tables: Mapping[str, InputTable]) -> None:
    """Raises Refused with all that is wrong with an analysed plan."""
    nodes = list(_nodes(plan))
    problems = [problem for node in nodes for problem in _node_problems(catalyst, node)]
    problems += _system_column_problems(nodes, tables)
    if problems:
        raise Refused(in_order(problems))


def check_normal(catalyst: Catalyst, plan: Plan) -> None:
    """Raises Refused for what a normal plan does not have."""
    patterns = catalyst.companion("org.apache.spark.sql.catalyst.trees.TreePattern")
    if plan.containsPattern(patterns.PLAN_EXPRESSION()) or plan.containsPattern(patterns.OUTER_REFERENCE()):
        hint = "write it as a join, or compute it in a step of its own"
        message = "a subquery within LATERAL or a subquery cannot be taken apart"
        raise Refused([refusal("subquery", message, at=plan, hint=hint)])
    problems = []
    for node in _nodes(plan):
        name = simple_name(node)
        if name not in _NORMAL_NODES:
            problems.append(refusal("operator", f"{name} cannot run incrementally", at=node, hint=PLAIN_FORMS))
        elif name == "Join" and str(node.joinType().toString()).split("(")[0] not in _JOINS:
            kind = shown(str(node.joinType().sql()))
            hint = "write it as an inner, left, right, full, semi or anti join"
            problems.append(refusal("join", f"this kind of join cannot run incrementally: {kind}", at=node, hint=hint))
        else:
            problems += _torn(node)
    if problems:
        raise Refused(in_order(problems))


def _torn(node: Plan) -> Iterator[InvalidQuery]:
    """Report a node that reads what no node below gives.

    It would fail when it runs: a bug of ours, or a form that Spark cannot run either.
    """
    lost = [column for column in items(node.missingInput().toSeq()) if str(column.name()) != WATERMARK]
    if lost:
        # Names of columns belong to the query's author, numbers do not.
        _log.error(
            "a normal plan is torn: %s reads the columns %s", simple_name(node), [expr_id(each) for each in lost]
        )
        hint = "write the subqueries as joins, or compute a part of it in a step of its own"
        yield refusal("query-form", "this form of the query is not supported yet", at=node, hint=hint)


def _nodes(plan: Plan) -> Iterator[Plan]:
    """All nodes of a plan, those within expressions too."""
    stack = [plan]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))
        if scan_alias(node) is None:
            parts = (part for expression in expressions_of(node) for part in walk_expression(expression))
            stack.extend(inside for inside in map(inner_plan, parts) if inside is not None)


def _node_problems(catalyst: Catalyst, node: Plan) -> Iterator[InvalidQuery]:
    name = simple_name(node)
    if name in _OF_WHOLE_ROWS:
        yield from _key_types(output_of(children(node)[0]), "compared with that of other rows")
    elif name == "Window":
        yield from window_problems(catalyst, node)
        yield from _key_types(items(node.partitionSpec()), "partitioned by")
        if needs_order(node):
            yield from tie_problems(catalyst, children(node)[0], at=node)
    elif name == "Aggregate":
        yield from _key_types(items(node.groupingExpressions()), "grouped by")
        yield from _lists_beside_distinct(node)


def _lists_beside_distinct(aggregate: Plan) -> Iterator[InvalidQuery]:
    """Refuse an ordered LISTAGG beside DISTINCT, on which Spark 4.3 fails.

    Where it has to take apart a row for DISTINCT aggregates.
    """
    calls = list(calls_of(aggregate))
    distinct = [call for call in calls if call.isDistinct()]
    # A sum of longs takes them as decimals (`whole_numbers`), which are values of their own.
    inputs = {
        (adds_longs(call), *sorted(str(each.sql()) for each in children(call.aggregateFunction()))) for call in distinct
    }
    if len(inputs) < 2 and not any(call.filter().isDefined() for call in distinct):
        return
    for call in calls:
        function = call.aggregateFunction()
        if simple_name(function) == "ListAgg" and not function.orderExpressions().isEmpty():
            yield refusal(
                "distinct-aggregate",
                f"Spark cannot compute {text_of(call)} beside other DISTINCT aggregates",
                at=call,
                hint="compute one of them in a subquery and join it, or use array_join(sort_array(collect_list(..)), ..)",
            )


def _key_types(keys: list[Expression], use: str) -> Iterator[InvalidQuery]:
    for key in keys:
        text = type_text(key)
        if '"map"' in text or '"variant"' in text:
            yield refusal(
                "group-type",
                f"{text_of(key)} holds a map, which cannot be {use}",
                at=key,
                hint="use its members, or map_entries(..) of it",
            )
        elif '"interval"' in text and _may_be_null(key):
            # Bytes of an interval that is null are whatever lay there before, so Spark makes several groups of nulls.
            yield refusal(
                "group-type",
                f"{text_of(key)} is an interval that can be null, which cannot be {use}",
                at=key,
                hint="use its numbers, or coalesce(.., make_interval()) of it",
            )
        elif '"struct"' in text and (doubled := doubled_member(_parse_datatype_json_string(key.dataType().json()))):
            yield refusal(
                "group-type",
                f"{text_of(key)} has two members named {shown(doubled)}, and cannot be {use}",
                at=key,
                hint=MEMBERS_APART,
            )


def _may_be_null(key: Expression) -> bool:
    """Whether it is null for some row, or holds a part that may be."""
    return bool(key.nullable()) or str(key.dataType().typeName()) != "interval"


def _system_column_problems(nodes: list[Plan], tables: Mapping[str, InputTable]) -> Iterator[InvalidQuery]:
    """Refuse offset, op and system time in queries that are not row-wise.

    They say nothing of the relation.
    """
    hidden: dict[int, str] = {}
    for node in nodes:
        alias = scan_alias(node)
        if alias is not None:
            columns = {expr_id(column): str(column.name()) for column in output_of(node)}
            hidden.update((number, name) for number, name in columns.items() if name in tables[alias].hidden)
    found: dict[str, InvalidQuery] = {}
    for node in nodes:
        if scan_alias(node) is not None:
            continue
        for part in (part for expression in expressions_of(node) for part in walk_expression(expression)):
            name = hidden.get(expr_id(part)) if is_attribute(part) else None
            if name is not None and (name not in found or found[name].place.line is None):
                text = f"the system column {name} can be read by row-wise queries only"
                found[name] = refusal("system-column", text, at=part, hint=OWN_COLUMN)
    yield from found.values()
