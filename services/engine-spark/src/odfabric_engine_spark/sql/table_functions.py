"""Table functions over datasets in a query: from calls to tables.

Owns how calls become names of tables. Invariant: a call is what the parser takes for a table function, its arguments are literals, and
its table is one that the coordinator gave for exactly these arguments. Names take the places of calls without moving anything else, so
that every position in the text stays as it was written. Not here: what the functions mean (`rows.time_projection`, the coordinator).
Source: docs/reference/time.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from odfabric.errors import InvalidQuery
from odfabric.formats.engine_messages.table_calls import TABLE_FUNCTIONS, PlacedCall, call_at
from odfabric.model.engine import QueryInput
from odfabric.model.table_function import TableCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Plan, items
from odfabric_engine_spark.spark.settings import EngineSettings
from odfabric_engine_spark.sql.gate import gated_session
from odfabric_engine_spark.sql.nesting_depth import too_deep
from odfabric_engine_spark.sql.parsed_plan_rules import Mode, parsed_nodes
from odfabric_engine_spark.sql.refusal import Refused, in_order, refusal, shown


@dataclass(frozen=True, slots=True)
class NamedCalls:
    """A text with names in the places of calls, and the inputs under these names."""

    sql: str
    inputs: tuple[QueryInput, ...]
    texts: Mapping[str, str]
    """The call that stood in the place of each name, as it was written."""
    given: tuple[QueryInput, ...]
    """The same inputs as they were given."""

    def in_words_of_user(self, problem: InvalidQuery) -> InvalidQuery:
        """A refusal that speaks of the calls, not of the names."""
        message, hint = problem.message, problem.hint
        for name, text in self.texts.items():
            message = message.replace(name, shown(text))
            hint = None if hint is None else hint.replace(name, shown(text))
        return InvalidQuery(message, place=problem.place, hint=hint)


def named_calls(
    session: SparkSession, sql: str, inputs: Sequence[QueryInput], *, settings: EngineSettings
) -> NamedCalls:
    """The query with a table for each call.

    Raises InvalidQuery with line and column for a call that has none. A text that is no query stays as it is: the gate refuses it.
    """
    plain = tuple(each for each in inputs if each.call is None)
    if not _may_call(sql) or len(sql.encode()) > settings.query_bytes_max or too_deep(sql, settings.query_levels_max):
        return NamedCalls(sql, plain, {}, plain)
    try:
        plan = Catalyst(gated_session(session, mode=Mode.QUERY)).parse(sql)
    except (PySparkException, Py4JError):
        return NamedCalls(sql, plain, {}, plain)
    given = {each.call: each for each in inputs if each.call is not None}
    problems: list[InvalidQuery] = []
    placed: list[PlacedCall] = []
    for node in _table_functions(plan, settings.plan_nodes_max):
        found = call_at(sql, _begin(node, sql))
        problem = _problem(node, found, given)
        if problem is not None:
            problems.append(problem)
        elif found is not None:
            placed.append(found)
    if problems:
        raise Refused(in_order(problems)).error([sql])
    return _named(sql, placed, given, plain)


def _may_call(sql: str) -> bool:
    lowered = sql.lower()
    return any(name in lowered for name in TABLE_FUNCTIONS)


def _table_functions(plan: Plan, nodes_max: int) -> Iterator[Plan]:
    """Nodes of the parsed plan that call a function of ours."""
    for found in islice(parsed_nodes(plan), nodes_max):
        if found.is_plan and found.name == "UnresolvedTableValuedFunction":
            parts = [str(part) for part in items(found.node.name())]
            if len(parts) == 1 and parts[0].lower() in TABLE_FUNCTIONS:
                yield found.node


def _begin(node: Plan, sql: str) -> int:
    """The character at which a node begins; Spark counts UTF-16 units."""
    units = sql.encode("utf-16-le")
    return len(units[: 2 * int(node.origin().startIndex().get())].decode("utf-16-le", "replace"))


def _problem(node: Plan, found: PlacedCall | None, given: Mapping[TableCall, QueryInput]) -> InvalidQuery | None:
    if found is None or found.call not in given:
        name = str(items(node.name())[-1]).lower()
        return refusal(
            "table-function",
            f"the arguments of {name} are texts in single quotes, written out",
            at=node,
            hint=f"write {TABLE_FUNCTIONS[name]}",
        )
    refused = given[found.call].refusal
    return None if refused is None else refusal("table-function", refused.message, at=node, hint=refused.hint)


def _named(
    sql: str, placed: Sequence[PlacedCall], given: Mapping[TableCall, QueryInput], plain: tuple[QueryInput, ...]
) -> NamedCalls:
    names: dict[TableCall, str] = {}
    texts: dict[str, str] = {}
    free = (name for number in count() if (name := f"_f{number}") not in sql)
    for one in sorted(placed, key=lambda each: each.begin):
        name = names.setdefault(one.call, "") or next(free)
        names[one.call] = name
        texts.setdefault(name, sql[one.begin : one.end])
    named = sql
    for one in placed:
        written = sql[one.begin : one.end]
        # Lines stay lines, and what is behind stays where it is.
        rest = "".join(sign if sign == "\n" else " " for sign in written[len(names[one.call]) :])
        named = named[: one.begin] + names[one.call] + rest + named[one.end :]
    called = tuple(given[call] for call in names)
    tables = tuple(replace(one, alias=name) for one, name in zip(called, names.values(), strict=True))
    return NamedCalls(named, plain + tables, texts, plain + called)
