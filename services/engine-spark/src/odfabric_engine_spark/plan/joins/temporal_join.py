"""Temporal (as-of) joins as a query states them.

Owns the one form that is understood: `lateral (select .. from versions v where v.key = l.key and v.event_time <= l.event_time
order by v.event_time desc limit 1)`. Invariant: what is read here asks for at most one version per row, by the table's whole
key and by event times on both sides. Not here: how it runs (`lateral_temporal_join`). Source: docs/engine.md#temporal-joins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.plan.order_independence.window_functions import unordered_columns
from odfabric_engine_spark.plan.subqueries.lateral_of_row import own_row
from odfabric_engine_spark.plan.time.event_times import EventTimes
from odfabric_engine_spark.plan.time.time_shifts import keeps_instant
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    conjuncts,
    expr_id,
    is_attribute,
    items,
    output_of,
    simple_name,
    walk_expression,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expression
from odfabric_engine_spark.sql.corrections.unknown_names import in_another_case, quoted
from odfabric_engine_spark.sql.refusal import CASE_BEHIND, Refused, refusal, shown, source_text, text_of

FORM = (
    "join lateral (select .. from versions v where v.key = l.key and v.event_time <= l.event_time "
    "order by v.event_time desc limit 1)"
)
_RULE = "temporal-join"
_COMPARISONS = {"LessThanOrEqual": False, "LessThan": True, "GreaterThanOrEqual": False, "GreaterThan": True}
"""Comparisons of times, and whether equal times are left out."""
_ONE_TABLE = frozenset({"GlobalLimit", "LocalLimit", "Sort", "Project", "Filter", "SubqueryAlias"})
_VERSION_FIRST = frozenset({"LessThanOrEqual", "LessThan"})


@dataclass(slots=True)
class TemporalJoin:
    """A temporal join in terms of the table's columns.

    `keys` and `times` are pairs of the row's expression and the version's.

    `strict`: versions at the very time of a row are too late for it. `results` are what the query selects of a version.
    """

    table: str
    versions: Plan
    order: list[Expression]
    results: list[Expression]
    own: list[Expression] = field(default_factory=list)
    """Conditions on the version alone."""
    keys: list[tuple[Expression, Expression]] = field(default_factory=list)
    times: list[tuple[Expression, Expression]] = field(default_factory=list)
    strict: bool = False


class TemporalJoinReader:
    """Reads temporal joins.

    `primary_keys` are those of the temporal tables, `plain` makes a plan normal.
    """

    def __init__(
        self,
        catalyst: Catalyst,
        times: EventTimes,
        primary_keys: Mapping[str, tuple[str, ...]],
        plain: Callable[[Plan], Plan],
    ) -> None:
        self._catalyst = catalyst
        self._times = times
        self._primary_keys = primary_keys
        self._plain = plain

    def read(self, node: Plan) -> TemporalJoin | None:
        """The temporal join of a LateralJoin with a normal left side. Raises Refused.

        None for any other question.
        """
        table = _table_looked_up(node.right().plan(), self._primary_keys)
        if table is None:
            return None
        found = self._stated(table, node.right().plan())
        if found is None:
            raise Refused([_other_form(node, self._primary_keys)])
        temporal_join, conditions = found
        (left,) = children(node)
        for condition in conditions:
            if not _reads_row(condition):
                temporal_join.own.append(condition)
            elif not self._take(condition, temporal_join, left):
                raise Refused([_other_condition(node, condition)])
        problems = [
            *self._key_problems(node, temporal_join),
            *_time_problems(node, temporal_join),
            *_result_problems(node, temporal_join),
            *self._type_problems(node, temporal_join),
        ]
        if problems:
            raise Refused(problems)
        return temporal_join

    def _stated(self, table: str, plan: Plan) -> tuple[TemporalJoin, list[Expression]] | None:
        """SELECT, FROM, WHERE, ORDER BY and LIMIT 1 of one table; None for any other form."""
        plan = _below(plan, "SubqueryAlias")
        if simple_name(plan) != "GlobalLimit" or str(plan.limitExpr().sql()) != "1":
            return None
        results = output_of(plan)
        (plan,) = children(plan)
        if simple_name(plan) != "LocalLimit":
            return None
        results, plan = self._through_projects(results, children(plan)[0])
        if simple_name(plan) != "Sort":
            return None
        order = items(plan.order())
        both, plan = self._through_projects([*results, *order], children(plan)[0])
        if simple_name(plan) != "Filter":
            return None
        conditions = conjuncts(plan.condition())
        plan = _below(children(plan)[0], "SubqueryAlias")
        count = len(results)
        return TemporalJoin(table, self._plain(plan), both[count:], both[:count]), conditions

    def _through_projects(self, expressions: list[Expression], plan: Plan) -> tuple[list[Expression], Plan]:
        """Expressions in terms of the plan below selections."""
        while simple_name(plan) in ("Project", "SubqueryAlias"):
            if simple_name(plan) == "Project":
                values = {
                    expr_id(named): named.child()
                    for named in items(plan.projectList())
                    if simple_name(named) == "Alias"
                }
                expressions = [_substituted(self._catalyst, each, values) for each in expressions]
            (plan,) = children(plan)
        return expressions, plan

    def _take(self, condition: Expression, temporal_join: TemporalJoin, left: Plan) -> bool:
        """Reads a condition on row and version.

        False if it compares neither a key nor the times. Raises Refused.
        """
        name = simple_name(condition)
        if name != "EqualTo" and name not in _COMPARISONS:
            return False
        one, other = condition.left(), condition.right()
        version, row = (other, one) if _reads_row(one) else (one, other)
        if _reads_row(version) or any(is_attribute(part) for part in walk_expression(row)):
            return False
        row = own_row(self._catalyst, row)
        if name == "EqualTo":
            temporal_join.keys.append((row, version))
            return True
        version_first = version is one
        if version_first is not (name in _VERSION_FIRST):
            return False
        if not self._times.is_event_time(_instant(version), temporal_join.versions):
            return False
        if not self._times.is_event_time(_instant(row), left):
            raise Refused([_computed_time(condition)])
        temporal_join.times.append((row, version))
        temporal_join.strict = _COMPARISONS[name]
        return True

    def _key_problems(self, node: Plan, temporal_join: TemporalJoin) -> Iterator[InvalidQuery]:
        wanted = self._primary_keys[temporal_join.table]
        columns = {expr_id(column): str(column.name()) for column in output_of(temporal_join.versions)}
        used = [
            columns.get(expr_id(each)) if is_attribute(each) else None
            for _, v in temporal_join.keys
            for each in [_uncast(v)]
        ]
        missing = [name for name in wanted if name not in columns.values()]
        if missing:
            same = in_another_case(missing[0], columns.values())
            hint = f"write {quoted(same)} as its primary key: {CASE_BEHIND}" if same else FORM
            message = (
                f"the temporal table {shown(temporal_join.table)} has no column {shown(missing[0])} for its primary key"
            )
            yield refusal(_RULE, message, at=node, hint=hint)
        elif sorted(name or "" for name in used) != sorted(wanted):
            names = ", ".join(wanted)
            yield refusal(
                _RULE,
                f"a look-up in {shown(temporal_join.table)} compares each column of its primary key once: {names}",
                at=node,
                hint=FORM,
            )

    def _type_problems(self, node: Plan, temporal_join: TemporalJoin) -> Iterator[InvalidQuery]:
        for column in unordered_columns(self._catalyst, temporal_join.versions):
            yield refusal(
                _RULE,
                f"the column {shown(str(column.name()))} of {shown(temporal_join.table)} has no order",
                at=node,
                hint="leave it out in a step, and look up in that",
            )


def _time_problems(node: Plan, temporal_join: TemporalJoin) -> Iterator[InvalidQuery]:
    if len(temporal_join.times) != 1:
        yield refusal(_RULE, "a look-up compares the event times of version and row once", at=node, hint=FORM)
        return
    first = temporal_join.order[0] if temporal_join.order else None
    _, version = temporal_join.times[0]
    newest_first = (
        first is not None
        and simple_name(first.direction()) == "Descending"
        and _instant(first.child()).semanticEquals(_instant(version))
    )
    if not newest_first:
        yield refusal(_RULE, "a look-up takes the newest version: order by its event time desc", at=node, hint=FORM)


def _result_problems(node: Plan, temporal_join: TemporalJoin) -> Iterator[InvalidQuery]:
    if any(_reads_row(each) for each in [*temporal_join.results, *temporal_join.order]):
        yield refusal(
            _RULE,
            "a look-up selects columns of the version only",
            at=node,
            hint="compute with columns of the row outside of LATERAL",
        )


def _table_looked_up(plan: Plan, tables: Collection[str]) -> str | None:
    """The one of some tables of which LATERAL takes some rows with LIMIT.

    None for any other form.

    A step that selects rows of a table stands above it, and is the one that is meant where both are declared.
    """
    limited = False
    while simple_name(plan) in _ONE_TABLE:
        limited = limited or simple_name(plan) == "GlobalLimit"
        (below,) = children(plan)
        # Of names one above the other the last is that of the table, the others are what the query calls it.
        is_name = simple_name(plan) == "SubqueryAlias" and simple_name(below) != "SubqueryAlias"
        if limited and is_name and str(plan.identifier().name()) in tables:
            return str(plan.identifier().name())
        plan = below
    return None


def _other_form(node: Plan, tables: Mapping[str, tuple[str, ...]]) -> InvalidQuery:
    return refusal(
        "lateral",
        "a temporal table is looked up for the one version that was valid then",
        at=node,
        hint=f"look up in a temporal table ({', '.join(sorted(tables))}): {FORM}",
    )


def _other_condition(node: Plan, condition: Expression) -> InvalidQuery:
    text = text_of(condition)
    return refusal(
        _RULE,
        f"a look-up compares its key and its event time with the row, not {text}",
        at=condition if source_text(condition) else node,
        hint=f"filter outside of LATERAL; the form is {FORM}",
    )


def _computed_time(condition: Expression) -> InvalidQuery:
    """Refuse a computed row time, not of the inputs: the watermark says nothing of it."""
    return refusal(
        _RULE,
        f"a look-up waits for the watermark to pass the event time of the row, and that of {text_of(condition)} is computed",
        at=condition,
        hint="look up by the event time of an input, or the start or end of a window over it, and compute afterwards",
    )


def _below(plan: Plan, name: str) -> Plan:
    while simple_name(plan) == name:
        (plan,) = children(plan)
    return plan


def _reads_row(expression: Expression) -> bool:
    return any(simple_name(part) == "OuterReference" for part in walk_expression(expression))


def _substituted(catalyst: Catalyst, expression: Expression, values: Mapping[int, Expression]) -> Expression:
    return map_expression(catalyst, expression, lambda part: values.get(expr_id(part)) if is_attribute(part) else None)


def _uncast(expression: Expression) -> Expression:
    while simple_name(expression) == "Cast":
        expression = expression.child()
    return expression


def _instant(time: Expression) -> Expression:
    """A time without casts that leave it the same instant.

    One that is cut to its day is another.
    """
    while simple_name(time) == "Cast" and keeps_instant(time):
        time = time.child()
    return time
