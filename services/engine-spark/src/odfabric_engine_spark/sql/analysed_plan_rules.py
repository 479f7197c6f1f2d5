"""Second gate: what a resolved plan may do, judged on the analysed plan.

Owns the allow-list of plan nodes and expression classes, and what arguments decide: constants that name today, options of
readers. Invariant: nothing that can give two results for one input passes in a transform. Not here: what depends on the
order of rows (`row_order_dependence`), which operators can run incrementally (`compile`). Source: docs/engine.md#what-sql-may-run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from odfabric.errors import InvalidQuery, LimitExceeded
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    OWN_PREFIX,
    Catalyst,
    Expression,
    Plan,
    children,
    children_of,
    class_name,
    expr_id,
    expressions_of,
    inner_plan,
    is_expression_class,
    items,
    simple_name,
    type_text,
    walk_plan,
)
from odfabric_engine_spark.spark.settings import EngineSettings
from odfabric_engine_spark.sql.allowed_functions import REASONS, Verdict, expression_classes
from odfabric_engine_spark.sql.constants.constant_sizes import SIZE_MAKERS, SIZE_MAX, size_of
from odfabric_engine_spark.sql.constants.current_time_texts import special_time, unguarded_times
from odfabric_engine_spark.sql.parsed_plan_rules import ON_TOP, Mode
from odfabric_engine_spark.sql.refusal import COLLATIONS, PLAIN_FORMS, Refused, in_order, refusal, shown, text_of
from odfabric_engine_spark.sql.row_order_dependence import (
    Place,
    columns_looked_at,
    holds_floats,
    order_problems,
    places_below,
)

_NODES = frozenset(
    [
        "Project",
        "Filter",
        "Aggregate",
        "Join",
        "LateralJoin",
        "Union",
        "Distinct",
        "Except",
        "Intersect",
        "SubqueryAlias",
        "View",
        "WithCTE",
        "CTERelationDef",
        "CTERelationRef",
        "LocalRelation",
        "OneRowRelation",
        "Range",
        "Generate",
        "Expand",
        "Window",
        "Pivot",
        "Unpivot",
        "PipeOperator",
    ]
)
_SLICES_MAX = 1000
"""Partitions that a query may ask for: each is a task."""
_COPIES_MANY = 50
"""Of so many windows or grouping sets of a row a query that is too large is reported."""
_ORDERING_NODES = frozenset({"Sort", "GlobalLimit", "LocalLimit", "Offset"})
_LISTING_NODES = frozenset({"Aggregate", "Window"})
_DATA_NODES = frozenset({"LogicalRDD", "LogicalRelation"})
_SPARKS_OWN = frozenset({"code", "unknown"})
"""Reasons that do not count within what Spark itself puts in the place of an allowed function."""
_OPTION_READERS = frozenset(
    {"JsonToStructs", "StructsToJson", "CsvToStructs", "StructsToCsv", "SchemaOfJson", "SchemaOfCsv"}
)
_TYPE_MAKERS = frozenset({"Cast", "VariantGet"}) | _OPTION_READERS
"""Expressions for which the query chooses a type."""
_OPTIONS = frozenset(
    [
        "mode",
        "dateformat",
        "timestampformat",
        "timestampntzformat",
        "primitivesasstring",
        "prefersdecimal",
        "allowcomments",
        "allowunquotedfieldnames",
        "allowsinglequotes",
        "allownumericleadingzeros",
        "allownonnumericnumbers",
        "allowbackslashescapinganycharacter",
        "dropfieldifallnull",
        "ignorenullfields",
        "sep",
        "delimiter",
        "quote",
        "escape",
        "nullvalue",
        "nanvalue",
        "positiveinf",
        "negativeinf",
        "ignoreleadingwhitespace",
        "ignoretrailingwhitespace",
        "emptyvalue",
        "pretty",
    ]
)


class AnalysedGate:
    """Judges analysed plans of one mode.

    A transform may order rows in FROM and in subqueries.
    """

    def __init__(self, catalyst: Catalyst, *, mode: Mode, settings: EngineSettings) -> None:
        self._catalyst = catalyst
        self._mode = mode
        self._settings = settings

    def check(self, plan: Plan, *, with_data: bool = False) -> None:
        """Raises Refused with all that is refused, LimitExceeded.

        `with_data` admits scans that hold rows.
        """
        problems = self._problems(plan, with_data=with_data)
        if problems:
            raise Refused(problems)

    def _problems(self, plan: Plan, *, with_data: bool) -> list[InvalidQuery]:
        found: list[InvalidQuery] = []
        looks_at = _LooksAt(self._catalyst, plan)
        stack: list[tuple[Plan | Expression, Place | None, bool]] = [(plan, None, False)]
        may_order = self._mode is Mode.TRANSFORM
        count = made = 0
        while stack:
            node, place, within = stack.pop()
            count += 1
            if count > self._settings.plan_nodes_max:
                raise self._too_many_nodes(plan)
            full_name = class_name(node)
            name = full_name.rsplit(".", 1)[-1]
            if place is None:
                if not (within and name in _ORDERING_NODES):
                    found.extend(self._judge_plan(node, name, with_data=with_data))
                # An expression is deterministic only if all below it are, so one question is enough for most.
                for each in expressions_of(node):
                    settled = name in _LISTING_NODES and looks_at.settles(each, of_group=name == "Aggregate")
                    stack.append((each, Place(certain=each.deterministic(), settled=settled), False))
                below = within or (may_order and name not in ON_TOP)
                stack.extend((child, None, below) for child in children(node))
            else:
                problems = list(self._judge_expression(node, full_name, name, place))
                if name in SIZE_MAKERS and made <= SIZE_MAX:
                    made += size_of(node)
                    if made > SIZE_MAX:
                        problems.append(_too_large(node))
                if name == "Alias" and not with_data:
                    problems += _judge_name(node)
                found.extend(problems)
                inside = inner_plan(node, name)
                if inside is not None:
                    stack.append((inside, None, may_order))
                below_it = children_of(node, name)
                places = places_below(self._catalyst, node, name, place, len(below_it))
                stack.extend((child, at, False) for child, at in zip(below_it, places, strict=True))
                if not problems and self._catalyst.is_replaceable(node):  # what takes its place is judged too
                    stack.append((node.replacement(), replace(place, made=True), False))
        return in_order(found)

    def _too_many_nodes(self, plan: Plan) -> LimitExceeded:
        """What Spark has made of few words is recognised by these."""
        copies = max(
            (len(items(node.projections())) for node in walk_plan(plan) if simple_name(node) == "Expand"), default=1
        )
        message = "the query is too large"
        if copies > _COPIES_MANY:
            message += f": each row is in {copies:,} windows or grouping sets; let windows overlap less (size / slide), or group less"
        return LimitExceeded(message, limit="plan_nodes_max", maximum=self._settings.plan_nodes_max)

    def _judge_plan(self, node: Plan, name: str, *, with_data: bool) -> Iterator[InvalidQuery]:
        if name in _NODES or (with_data and name in _DATA_NODES):
            if name == "Range" and not node.numSlices().isEmpty() and int(node.numSlices().get()) > _SLICES_MAX:
                yield refusal("operator", "range(..) of so many partitions", at=node, hint="leave its last number out")
            return
        if name in _ORDERING_NODES:
            if self._mode is not Mode.QUERY:
                rule = "order-by" if name == "Sort" else "limit"
                yield refusal(rule, "the result is a relation without order", at=node, hint="leave it out")
            return
        yield refusal("operator", f"this operator is not allowed: {name}", at=node, hint=PLAIN_FORMS)

    def _judge_expression(self, node: Expression, full_name: str, name: str, place: Place) -> Iterator[InvalidQuery]:
        verdict, reason = expression_classes().verdict(name)
        if place.made and reason in _SPARKS_OWN:
            return
        if not is_expression_class(full_name) or verdict is Verdict.REFUSED:
            why, hint = REASONS[reason or "unknown"]
            if reason != "order" or self._mode is not Mode.QUERY:
                yield refusal(f"function-{reason}", f"{text_of(node)} is not allowed: {why}", at=node, hint=hint)
        elif not place.certain and name != "RaiseError" and _is_random(node, name):
            why, hint = REASONS["random"]
            yield refusal("non-deterministic", f"{text_of(node)} is not allowed: {why}", at=node, hint=hint)
        elif name in _TYPE_MAKERS:
            yield from _judge_made_type(node)
            if name in _OPTION_READERS:
                yield from _judge_options(node)
            elif name == "Cast" and (problem := special_time(self._catalyst, node)) is not None:
                yield problem
            yield from unguarded_times(node, name)
        elif self._mode is not Mode.QUERY:
            yield from order_problems(self._catalyst, node, name, place, in_transform=self._mode is Mode.TRANSFORM)


def _too_large(maker: Expression) -> InvalidQuery:
    return refusal(
        "constant-size",
        f"constants make more than {SIZE_MAX} characters, members or rows by {text_of(maker)}",
        at=maker,
        hint="write a smaller number there, or explode rows of an input instead",
    )


class _LooksAt:
    """Which lists' order a plan reads; readers may be in other nodes than makers."""

    def __init__(self, catalyst: Catalyst, plan: Plan) -> None:
        self._catalyst = catalyst
        self._plan = plan
        self._columns: frozenset[int] | None = None

    def settles(self, named: Expression, *, of_group: bool) -> bool:
        """Whether nothing of the plan looks at the order of members of what is made.

        Those of groups are sorted then (`normalise.sorted_lists`), so they must have an order. Those of windows keep floats as
        they are, which may be zeros of both signs.
        """
        if simple_name(named) != "Alias" or str(named.dataType().typeName()) != "array":
            return False
        if holds_floats(named) if not of_group else not self._catalyst.is_orderable(named.dataType()):
            return False
        if self._columns is None:
            self._columns = columns_looked_at(self._catalyst, self._plan)
        return expr_id(named) not in self._columns


def _is_random(node: Expression, name: str) -> bool:
    """Whether a node is not deterministic by itself."""
    return not node.deterministic() and all(child.deterministic() for child in children_of(node, name))


def _judge_name(alias: Expression) -> Iterator[InvalidQuery]:
    if str(alias.name()).startswith(OWN_PREFIX):
        message = f"names that begin with {OWN_PREFIX} are those of the engine's own columns"
        yield refusal("column-name", message, at=alias, hint="choose another name")


def _judge_made_type(node: Expression) -> Iterator[InvalidQuery]:
    if "collat" in type_text(node).lower():  # members of a struct have theirs in their metadata
        message = f"{text_of(node)} is not allowed: collations are not allowed"
        yield refusal("function-type", message, at=node, hint=COLLATIONS)


def _judge_options(node: Expression) -> Iterator[InvalidQuery]:
    for option in items(node.options().keys().toSeq()):
        if str(option).lower() not in _OPTIONS:
            yield refusal(
                "function-option",
                f"the option {shown(str(option))} is not allowed in {text_of(node)}",
                at=node,
                hint=f"allowed: {', '.join(sorted(_OPTIONS))}",
            )
