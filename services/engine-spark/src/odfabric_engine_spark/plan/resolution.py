"""Resolve the statements of a transform to one analysed plan.

Owns resolving: each statement passes both gates, names of inputs become scans, names of earlier statements their plans, so
that the last plan holds everything. Invariant: the plan that was judged is the plan that runs; rows are bound to its scans
later. Not here: which queries are row-wise (`compile.row_wise_query`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from odfabric.model.metadata import SqlQueryStep
from odfabric_engine_spark.plan.input_tables import InputTable, hide_columns
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Plan, analysed, children, output_of, simple_name
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_inner_plans
from odfabric_engine_spark.spark.settings import EngineSettings
from odfabric_engine_spark.sql.analysed_plan_rules import AnalysedGate
from odfabric_engine_spark.sql.constants.times_without_day import with_days
from odfabric_engine_spark.sql.corrections.unknown_names import KnownNames
from odfabric_engine_spark.sql.gate import gated_session
from odfabric_engine_spark.sql.lateness_hint import Lateness
from odfabric_engine_spark.sql.parsed_plan_rules import Mode, ParsedGate, ParsedQuery
from odfabric_engine_spark.sql.refusal import Refused, refusal, same_name, shown
from odfabric_engine_spark.sql.spark_errors import spark_refused


@dataclass(frozen=True, slots=True)
class ResolvedQuery:
    """A transform's analysed plan, and the least lateness that a hint asks for."""

    catalyst: Catalyst
    plan: Plan
    lateness: Lateness | None


def resolve_steps(
    session: SparkSession,
    steps: Sequence[SqlQueryStep],
    tables: Mapping[str, InputTable],
    *,
    settings: EngineSettings,
    temporal_tables: Collection[str] = (),
) -> ResolvedQuery:
    """Resolves the statements in order.

    `temporal_tables` are those in which rows may be looked up.

    Raises Refused naming the statement, LimitExceeded.
    """
    catalyst = Catalyst(gated_session(session, mode=Mode.TRANSFORM))
    parsed_gate = ParsedGate(catalyst, mode=Mode.TRANSFORM, settings=settings, temporal_tables=temporal_tables)
    analysed_gate = AnalysedGate(catalyst, mode=Mode.TRANSFORM, settings=settings)
    done: dict[str, Plan] = {}
    lateness: list[Lateness] = []
    plan: Plan = None
    for number, step in enumerate(steps):
        try:
            parsed = parsed_gate.parse(step.query, relations={*tables, *done})
            plan = _Resolver(catalyst, tables, done).resolve(parsed)
            analysed_gate.check(plan)
            if step.alias is not None and (step.alias in tables or step.alias in done):
                raise Refused([same_name(step.alias)])
        except Refused as refused:
            raise Refused(refused.problems, step=number) from None
        lateness += [] if parsed.lateness is None else [replace(parsed.lateness, step=number)]
        done[step.alias or ""] = plan
    return ResolvedQuery(catalyst, with_days(catalyst, plan), min(lateness, key=lambda each: each.us, default=None))


class _Resolver:
    """Puts plans in the place of names, in FROM as in subqueries of expressions.

    Names in WITH win over those of inputs, as Spark's own rule has it.
    """

    def __init__(self, catalyst: Catalyst, tables: Mapping[str, InputTable], done: Mapping[str, Plan]) -> None:
        self._catalyst = catalyst
        self._tables = tables
        self._done = done
        self._alias = catalyst.companion("org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias")

    def resolve(self, parsed: ParsedQuery) -> Plan:
        """The analysed plan of a parsed query. Raises Refused."""
        named = self._catalyst.companion("org.apache.spark.sql.catalyst.analysis.CTESubstitution").apply(parsed.plan)
        try:
            return analysed(self._catalyst.data_frame(self._substitute(named)))
        except (PySparkException, Py4JError) as error:
            columns = [name for table in self._tables.values() for name in table.spark.names]
            columns += [str(column.name()) for plan in self._done.values() for column in output_of(plan)]
            raise spark_refused(error, KnownNames(tuple(columns), parsed.aliases, parsed.tables, parsed.sql)) from error

    def _substitute(self, node: Plan) -> Plan:
        name = simple_name(node)
        if name == "UnresolvedRelation":
            return self._relation(node, str(node.multipartIdentifier().head()))
        below = children(node)
        if below:
            node = node.withNewChildren(self._catalyst.seq([self._substitute(child) for child in below]))
        node = map_inner_plans(self._catalyst, node, lambda _, plan: self._substitute(plan))
        if name == "Project":
            hide_columns(self._catalyst, node, [])  # what a SELECT does not name ends there
        return node

    def _relation(self, node: Plan, name: str) -> Plan:
        if name in self._tables:
            return self._alias.apply(name, self._tables[name].scan(self._catalyst))
        if name not in self._done:
            raise Refused(
                [refusal("relation", f"unknown table {shown(name)}", at=node, hint="read an input or a step before")]
            )
        return self._alias.apply(name, self._done[name])
