"""First gate: what SQL text may say, judged on the parsed plan.

Owns the allow-list of the grammar. It comes first because resolving already acts: it opens files, loads classes, evaluates
constants. Invariant: nothing that the parser accepts passes without its class or name being on a list; text is looked at
only where the parser folds it away (special times, IDENTIFIER). Source: docs/engine.md#what-sql-may-run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.errors import InvalidQuery, LimitExceeded, Place
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    TreeNode,
    children_of,
    class_name,
    expressions_of,
    inner_plan,
    is_expression_class,
    items,
    simple_name,
    walk_expression,
)
from odfabric_engine_spark.spark.settings import EngineSettings
from odfabric_engine_spark.sql.allowed_functions import NONE_OF_USERS, REASONS, Verdict, expression_classes, functions
from odfabric_engine_spark.sql.constants.current_time_texts import names_no_day
from odfabric_engine_spark.sql.corrections.functions_of_other_engines import TABLES_ELSEWHERE
from odfabric_engine_spark.sql.corrections.unknown_names import unknown_table
from odfabric_engine_spark.sql.lateness_hint import LATENESS_HINT, Lateness, parse_lateness
from odfabric_engine_spark.sql.nesting_depth import too_deep
from odfabric_engine_spark.sql.refusal import (
    COLLATIONS,
    Refused,
    in_order,
    refusal,
    shown,
    source_text,
)
from odfabric_engine_spark.sql.source_positions import line_and_column, second_statement, without_last_semicolon
from odfabric_engine_spark.sql.spark_errors import parser_refused


class Mode(Enum):
    """What the SQL is for: it decides what may be asked of it."""

    TRANSFORM = "transform"
    PREPROCESS = "preprocess"
    QUERY = "query"


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query that passed the first gate.

    `lateness` is the least limit that a hint asks for, None for no limit.

    `aliases` are the names that its SELECTs give, `tables` those by which it calls what it reads.
    """

    sql: str
    plan: Plan
    lateness: Lateness | None
    aliases: frozenset[str]
    tables: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Standing:
    """Where a node of a parsed plan stands."""

    within: bool = False
    """In FROM, in WITH or in a subquery, where it may take the first of ordered rows."""
    asked_whether: bool = False
    """EXISTS asks for its rows, no matter which of them."""
    limited: bool = False
    """A LIMIT of the whole result takes rows in its order, which need not be reported twice."""


@dataclass(frozen=True)
class _Node:
    """A plan or an expression that the parser made."""

    node: TreeNode
    is_plan: bool
    standing: _Standing = _Standing()
    within: str = ""
    """The class of the expression that it is a part of, if it is of one."""

    @cached_property
    def full_name(self) -> str:
        """The class."""
        return class_name(self.node)

    @property
    def name(self) -> str:
        """The class without its package."""
        return self.full_name.rsplit(".", 1)[-1]

    @cached_property
    def with_relations(self) -> list[tuple[str, Plan]]:
        """The relations that WITH defines here."""
        if not self.is_plan or self.name != "UnresolvedWith":
            return []
        return [(str(relation._1()), relation._2()) for relation in items(self.node.cteRelations())]

    @property
    def names(self) -> list[str]:
        """Names that it gives to relations of its own."""
        return [name for name, _ in self.with_relations]


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
        "Generate",
        "OneRowRelation",
        "Pivot",
        "Unpivot",
        "WithWindowDefinition",
        "UnresolvedWith",
        "UnresolvedRelation",
        "UnresolvedHaving",
        "UnresolvedQualify",
        "UnresolvedInlineTable",
        "UnresolvedSubqueryColumnAliases",
        "UnresolvedTableValuedFunction",
        "UnresolvedTVFAliases",
        "UnresolvedHint",
        "PipeOperator",
    ]
)
_ORDERING_NODES = frozenset({"Sort", "GlobalLimit", "LocalLimit", "LimitAll", "Offset"})
_LIMITS = frozenset({"GlobalLimit", "LocalLimit"})
_FIRST_ROWS = _LIMITS | {"Offset", "LimitAll"}
_BETWEEN_LIMIT_AND_ORDER = _FIRST_ROWS | {"PipeOperator"}
ON_TOP = _ORDERING_NODES | {"UnresolvedWith", "WithWindowDefinition", "UnresolvedHint", "PipeOperator"}
"""Nodes below which a query is still the whole one: its result is a relation, which has no order and no first rows."""
_REFUSED_NODES = {
    "ScriptTransformation": ("script", "TRANSFORM .. USING runs a program", "use functions of SQL"),
    "Sample": ("sample", "TABLESAMPLE takes rows by chance", "take those of a hash: where pmod(xxhash64(..), 10) = 0"),
    "RelationTimeTravel": ("time-travel", "an input cannot be read as of another version", "compare its event_time"),
    "NamedStreamingRelation": ("stream", "STREAM tables do not exist here", "leave out STREAM"),
    "RepartitionByExpression": (
        "distribution",
        "DISTRIBUTE BY and CLUSTER BY do not change what rows there are",
        "leave it out",
    ),
    "PlanWithUnresolvedIdentifier": ("identifier-clause", "IDENTIFIER() is not allowed", "write the name itself"),
}
_UNRESOLVED_EXPRESSIONS = frozenset(
    [
        "UnresolvedAttribute",
        "UnresolvedAlias",
        "UnresolvedStar",
        "UnresolvedStarExceptOrReplace",
        "UnresolvedExtractValue",
        "UnresolvedFunction",
        "UnresolvedGenerator",
        "UnresolvedOrdinal",
        "SemiStructuredExtract",
        "MultiAlias",
    ]
)
_SYNTAX_EXPRESSIONS = frozenset(
    [
        "UnresolvedWindowExpression",
        "UnresolvedNamedLambdaVariable",
        "GroupingSets",
        "Cube",
        "Rollup",
        "NamedArgumentExpression",
        "PipeExpression",
        "UnresolvedCollation",
        "UnspecifiedFrame",
        "Overlay",
        "NamePlaceholder",
    ]
)
_REFUSED_EXPRESSIONS = {
    "NamedParameter": ("parameter", "parameter markers are not allowed", "write the value itself"),
    "PosParameter": ("parameter", "parameter markers are not allowed", "write the value itself"),
    "ExpressionWithUnresolvedIdentifier": (
        "identifier-clause",
        "IDENTIFIER() is not allowed",
        "write the name itself",
    ),
    "Collate": ("function-type", "collations are not allowed", COLLATIONS),
    "Unnest": ("table-function", "UNNEST is not allowed", TABLES_ELSEWHERE["unnest"]),
}
_TAKING_LAMBDAS = frozenset({"UnresolvedFunction", "NamedArgumentExpression"})
_ARROW = "a member of a text that holds JSON is get_json_object(text, '$.member'), one of a struct s.member"
_TABLE_FUNCTIONS = frozenset(
    [
        "range",
        "explode",
        "explode_outer",
        "posexplode",
        "posexplode_outer",
        "inline",
        "inline_outer",
        "stack",
        "json_tuple",
    ]
)
_HINTS_OF_PLANS = frozenset(
    [
        "broadcast",
        "broadcastjoin",
        "mapjoin",
        "merge",
        "mergejoin",
        "shuffle_merge",
        "shuffle_hash",
        "shuffle_replicate_nl",
        "coalesce",
        "rebalance",
        "repartition",
        "repartition_by_range",
    ]
)
"""Hints that say how to compute, not what: they may stand in a query, and the gate's session leaves them out of its plan."""
_TIME_LITERAL = re.compile(
    r"(?:date|timestamp(?:_ltz|_ntz)?)\s*(?P<quote>['\"])(?P<text>\s*(?:[+-]?\d[^\\]*|epoch\s*))(?P=quote)",
    re.IGNORECASE | re.DOTALL,
)
_TIME_TYPES = frozenset({"date", "timestamp", "timestamp_ntz"})
_IDENTIFIER_CLAUSE = re.compile(r"identifier\b(?!\s*$)", re.IGNORECASE)


class ParsedGate:
    """Judges texts of one mode against the relations that they may name.

    Only in FROM, WITH and subqueries may rows be ordered and the first be taken.
    """

    def __init__(
        self,
        catalyst: Catalyst,
        *,
        mode: Mode,
        settings: EngineSettings,
        temporal_tables: Collection[str] = (),
    ) -> None:
        self._catalyst = catalyst
        self._mode = mode
        self._settings = settings
        self._temporal_tables = frozenset(temporal_tables)

    def parse(self, sql: str, *, relations: Collection[str]) -> ParsedQuery:
        """The query of a text that passes.

        Raises Refused with all that does not, LimitExceeded.
        """
        plan = self._parse(sql, relations)
        nodes = list(self._nodes(plan))
        names = set(relations) | {name for node in nodes for name in node.names}
        found = [problem for node in nodes for problem in self._judge(node, names)]
        if found:
            raise Refused(in_order(found))
        stated = [node.node for node in nodes if node.name == "UnresolvedHint" and _is_lateness(node.node)]
        hints = [(parse_lateness(_hint_parameters(hint)), hint) for hint in stated]
        asked = [Lateness(us, hint) for us, hint in hints if us is not None]
        aliases = frozenset(str(node.node.name()) for node in nodes if node.name == "Alias")
        least = min(asked, key=lambda each: each.us, default=None)
        return ParsedQuery(sql=sql, plan=plan, lateness=least, aliases=aliases, tables=_tables(nodes))

    def _nodes(self, plan: Plan) -> Iterator[_Node]:
        for count, node in enumerate(parsed_nodes(plan)):
            if count >= self._settings.plan_nodes_max:
                raise LimitExceeded(
                    "the query is too large", limit="plan_nodes_max", maximum=self._settings.plan_nodes_max
                )
            yield node

    def _judge(self, node: _Node, names: set[str]) -> Iterator[InvalidQuery]:
        if node.is_plan:
            yield from self._judge_plan(node, names)
            for name in sorted(self._temporal_tables.intersection(node.names)):
                yield refusal(
                    "relation", f"WITH hides the temporal table {shown(name)}", at=node.node, hint="rename it in WITH"
                )
        else:
            yield from self._judge_expression(node)

    def _parse(self, sql: str, relations: Collection[str]) -> Plan:
        if len(sql.encode()) > self._settings.query_bytes_max:
            raise LimitExceeded(
                "the query text is too long", limit="query_bytes_max", maximum=self._settings.query_bytes_max
            )
        sql, whole = without_last_semicolon(sql), sql
        if not sql.strip():
            raise Refused([refusal("empty", "the query is empty", hint="write SELECT ..")])
        deep = too_deep(sql, self._settings.query_levels_max)
        if deep is not None:
            raise Refused([deep])
        try:
            return self._catalyst.parse(sql)
        except (PySparkException, Py4JError) as error:
            # What the parser takes is one statement, whatever it looks like here: its comments are nested.
            another = second_statement(whole)
            if another is not None:
                raise Refused([_another(whole, another)]) from error
            raise parser_refused(error, sql, relations=relations) from error

    def _judge_plan(self, found: _Node, names: set[str]) -> Iterator[InvalidQuery]:
        node, name = found.node, found.name
        if name in _REFUSED_NODES:
            rule, message, hint = _REFUSED_NODES[name]
            yield refusal(rule, message, at=node, hint=hint)
        elif name in _ORDERING_NODES:
            refused = self._mode is Mode.PREPROCESS or (self._mode is Mode.TRANSFORM and not _is_certain(found))
            if refused and not found.standing.limited:
                yield _ordering(found)
        elif name not in _NODES:
            message = f"this form of SQL is not allowed: {shown(source_text(node) or name)}"
            yield refusal("statement", message, at=node, hint="one query: SELECT .. or WITH .. SELECT ..")
        elif name == "UnresolvedRelation":
            yield from _judge_relation(node, names)
        elif name == "UnresolvedTableValuedFunction":
            yield from _judge_table_function(node)
        elif name == "UnresolvedHint":
            yield from self._judge_hint(node)
        elif name == "UnresolvedInlineTable":
            yield from _judge_inline_table(node)
        elif name == "Pivot":
            yield from _judge_pivot(node)
        elif name == "UnresolvedWith" and node.allowRecursion():
            hint = "take explode(sequence(1, 10)) for a series, and for the levels of a tree a join or a step each"
            why = "what a result adds to itself cannot be followed change by change"
            yield refusal("recursion", f"WITH RECURSIVE is not allowed: {why}", at=node, hint=hint)

    def _judge_hint(self, node: Plan) -> Iterator[InvalidQuery]:
        name = str(node.name())
        if name.lower() in _HINTS_OF_PLANS:
            return
        if not _is_lateness(node) or self._mode is not Mode.TRANSFORM:
            lateness = f"{LATENESS_HINT}('1 day') and " if self._mode is Mode.TRANSFORM else ""
            hint = f"leave it out: there are {lateness}{', '.join(sorted(_HINTS_OF_PLANS))}"
            yield refusal("hint", f"the hint {name} is not allowed", at=node, hint=hint)
        elif parse_lateness(_hint_parameters(node)) is None:
            message = f"this is no lateness: {shown(source_text(node))}"
            yield refusal("hint", message, at=node, hint=f"write one text: {LATENESS_HINT}('1 day') or ('90 minutes')")

    def _judge_expression(self, found: _Node) -> Iterator[InvalidQuery]:
        node, name = found.node, found.name
        if name in _REFUSED_EXPRESSIONS:
            rule, message, hint = _REFUSED_EXPRESSIONS[name]
            yield refusal(rule, message, at=node, hint=hint)
        elif name in ("UnresolvedFunction", "UnresolvedGenerator"):
            yield from self._judge_function(node, name)
        elif name == "Literal":
            yield from _judge_literal(node)
        elif name == "LambdaFunction" and found.within not in _TAKING_LAMBDAS:
            message = f"only functions take {shown(source_text(node))}, which stands for a function itself"
            yield refusal("expression", message, at=node, hint=_ARROW)
        elif name in _UNRESOLVED_EXPRESSIONS | _SYNTAX_EXPRESSIONS:
            return
        elif not is_expression_class(found.full_name) or expression_classes().verdict(name)[0] is Verdict.REFUSED:
            message = f"not allowed: {shown(source_text(node) or name)}"
            yield refusal("expression", message, at=node, hint="use functions and operators of Spark SQL")

    def _judge_function(self, node: Expression, class_of: str) -> Iterator[InvalidQuery]:
        if class_of == "UnresolvedFunction":
            parts = [str(part) for part in items(node.nameParts())]
        else:
            parts = [str(part) for part in items(node.name().nameParts())]
        name = parts[-1].lower()
        if len(parts) != 1:
            message = f"functions have plain names, not {shown('.'.join(parts))}"
            yield refusal("function-name", message, at=node, hint=f"write {shown(parts[-1])}(..)")
            return
        verdict, reason = functions().verdict(name)
        if verdict is Verdict.REFUSED and not (reason == "order" and self._mode is Mode.QUERY):
            why, _ = REASONS[reason]
            known = functions().elsewhere(name) if reason == "unknown" else None
            similar = functions().similar(name) if reason == "unknown" else None
            yield refusal(
                f"function-{reason}",
                f"the function {shown(name)} is not allowed: {why}",
                at=node,
                hint=known
                or (f"did you mean {similar}? Else {NONE_OF_USERS}" if similar else functions().instead(name, reason)),
            )


def parsed_nodes(plan: Plan) -> Iterator[_Node]:
    """All that the parser made: plans, expressions, bodies of WITH, windows.

    Plans within expressions, named windows.
    """
    stack = [_Node(plan, is_plan=True)]
    while stack:
        found = stack.pop()
        stack.extend(_beside(found))
        yield found
        below = _below(found)
        within = "" if found.is_plan else found.name
        stack.extend(_Node(child, found.is_plan, below, within) for child in children_of(found.node, found.name))


def _beside(found: _Node) -> Iterator[_Node]:
    """What a node holds that is not one of its children."""
    if not found.is_plan:
        inside = inner_plan(found.node, found.name)
        if inside is not None:
            yield _Node(inside, True, _Standing(within=True, asked_whether=found.name == "Exists"))
        return
    yield from (_Node(expression, is_plan=False) for expression in expressions_of(found.node))
    yield from (_Node(relation, True, _Standing(within=True)) for _, relation in found.with_relations)
    if found.name == "WithWindowDefinition":
        windows = items(found.node.windowDefinitions().values().toSeq())
        yield from (_Node(window, is_plan=False) for window in windows)


def _below(found: _Node) -> _Standing:
    """Where the children of a node stand."""
    standing = found.standing
    return _Standing(
        within=standing.within or found.name not in ON_TOP,
        asked_whether=standing.asked_whether and found.name in _LIMITS,
        limited=(standing.limited or _limits_order(found)) and found.name in _BETWEEN_LIMIT_AND_ORDER,
    )


def _limits_order(found: _Node) -> bool:
    """Whether a node takes the first rows of an order that stands right there."""
    return found.is_plan and found.name in _FIRST_ROWS and _has_order(_below_limits(found.node))


def _has_order(node: Plan) -> bool:
    """Whether rows have an order all together; SORT BY gives one to each partition."""
    return simple_name(node) == "Sort" and bool(getattr(node, "global")())


def _below_limits(node: Plan) -> Plan:
    while simple_name(node) in _BETWEEN_LIMIT_AND_ORDER:
        (node,) = children_of(node, simple_name(node))
    return node


def _is_certain(found: _Node) -> bool:
    """Whether an order or limit node is unambiguous: its rows have an order there."""
    if not found.standing.within:
        return False
    if found.name in ("Sort", "LimitAll") or (found.standing.asked_whether and found.name in _LIMITS):
        return True
    return _has_order(_below_limits(found.node))


def _ordering(found: _Node) -> InvalidQuery:
    if found.name == "Sort":
        return refusal("order-by", "the result is a relation without order", at=found.node, hint="leave out ORDER BY")
    if _limits_order(found):
        return refusal(
            "limit",
            "the result is a relation, which has no first rows",
            at=found.node,
            hint="take them in FROM: select * from (select .. order by .. limit 10)",
        )
    return refusal(
        "limit",
        "which rows LIMIT or OFFSET keep depends on their order",
        at=found.node,
        hint="take them in FROM: select .. from (select .. order by .. limit 10), or number them by row_number() over "
        "(partition by .. order by ..)",
    )


def _tables(nodes: Sequence[_Node]) -> frozenset[str]:
    """Names that may stand before the dot of a column."""
    found = {str(each.node.alias()) for each in nodes if each.name == "SubqueryAlias"}
    read = (each.node.multipartIdentifier() for each in nodes if each.name == "UnresolvedRelation")
    return frozenset(found.union(str(name.last()) for name in read))


def _another(sql: str, at: int) -> InvalidQuery:
    """The refusal of a text with several statements."""
    line, column = line_and_column(sql, at)
    place = Place(line=line, column=column, rule="statement")
    return InvalidQuery("another statement begins here", place=place, hint="write one, or a step for each: `queries`")


def _judge_relation(node: Plan, names: set[str]) -> Iterator[InvalidQuery]:
    parts = [str(part) for part in items(node.multipartIdentifier())]
    text = source_text(node)
    if _IDENTIFIER_CLAUSE.match(text):
        yield refusal("identifier-clause", "IDENTIFIER() is not allowed", at=node, hint="write the name itself")
    elif len(parts) != 1 or parts[0] not in names:
        told = unknown_table(tuple(parts), names)
        unknown = refusal("relation", shown(told.message), at=node, hint=told.hint)
        unknown.instead = told.instead
        yield unknown
    elif node.isStreaming() or not node.options().isEmpty():
        yield refusal("relation-options", "an input takes no options", at=node, hint="write its alias alone")


def _judge_table_function(node: Plan) -> Iterator[InvalidQuery]:
    parts = [str(part) for part in items(node.name())]
    if len(parts) != 1 or parts[0].lower() not in _TABLE_FUNCTIONS:
        allowed = f"allowed: {', '.join(sorted(_TABLE_FUNCTIONS))}"
        hint = TABLES_ELSEWHERE.get(parts[-1].lower(), allowed)
        message = f"the table function {shown('.'.join(parts))} is not allowed"
        yield refusal("table-function", message, at=node, hint=hint)


def _judge_inline_table(node: Plan) -> Iterator[InvalidQuery]:
    """Judge VALUES, which is evaluated while it is resolved.

    A name in it can only be a function without parentheses, a time needs its day.
    """
    for row in expressions_of(node):
        if simple_name(row) == "UnresolvedAttribute":
            message = f"VALUES holds constants only, not {shown(source_text(row))}"
            yield refusal("values", message, at=row, hint="quote a text: 'text'")
    for column in zip(*(items(row) for row in items(node.rows())), strict=False):
        are_texts = all(_is_literal(value, "string", "void") for value in column)
        for value in column:
            within = [part for part in walk_expression(value) if _is_literal(part, "string")]
            # A text in a column of texts stays one; else it may become a time while VALUES are evaluated.
            for literal in within[1:] if are_texts else within:
                yield from _judge_text_of_values(literal)


def _judge_text_of_values(literal: Expression) -> Iterator[InvalidQuery]:
    if names_no_day(str(literal.value().toString())):
        message = f"{shown(source_text(literal))} may be taken for a time of the day on which the query runs"
        yield refusal("special-time", message, at=literal, hint="write the day too: '2020-01-31 12:00:00'")


def _is_literal(expression: Expression, *types: str) -> bool:
    return simple_name(expression) == "Literal" and str(expression.dataType().typeName()) in types


def _judge_pivot(node: Plan) -> Iterator[InvalidQuery]:
    """Spark 4.3 fails while it resolves LISTAGG .. WITHIN GROUP of a PIVOT."""
    for call in (part for each in expressions_of(node) for part in walk_expression(each)):
        if simple_name(call) != "UnresolvedFunction" or call.orderingWithinGroup().isEmpty():
            continue
        if str(items(call.nameParts())[-1]).lower() in ("listagg", "string_agg"):
            hint = "write array_join(sort_array(collect_list(..)), ..), or group by with FILTER (WHERE ..)"
            yield refusal("pivot", f"Spark cannot pivot {shown(source_text(call))}", at=call, hint=hint)


def _judge_literal(node: Expression) -> Iterator[InvalidQuery]:
    """Judge literals by text: the parser replaces DATE 'today' by a date."""
    type_name = str(node.dataType().typeName())
    if type_name.startswith("time("):
        yield refusal("function-type", "the type TIME is not supported", at=node, hint="use a timestamp or a string")
    if type_name not in _TIME_TYPES:
        return
    text = source_text(node)
    written = _TIME_LITERAL.fullmatch(text)
    if written is None or names_no_day(written["text"]):
        yield refusal(
            "special-time",
            f"{shown(text)} depends on the time at which the query runs",
            at=node,
            hint="write the time as in DATE '2020-01-31' or TIMESTAMP '2020-01-31 12:00:00'",
        )


def _is_lateness(hint: Plan) -> bool:
    return str(hint.name()).lower() == LATENESS_HINT


def _hint_parameters(node: Plan) -> list[object]:
    values: list[object] = []
    for parameter in items(node.parameters()):
        literal: Any = parameter
        value = literal.value() if isinstance(literal, JavaObject) and simple_name(literal) == "Literal" else literal
        values.append(value.toString() if isinstance(value, JavaObject) else value)
    return values
