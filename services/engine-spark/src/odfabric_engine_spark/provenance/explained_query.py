"""A query as provenance sees it: its normal plan, and what its keys are.

Owns what is compiled once per transform and kept between calls. Invariant: uses of inputs have one order everywhere here: that of the normal
plan from left to right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from odfabric.errors import OdfError
from odfabric.model.engine import TransformRequest
from odfabric.model.metadata import TransformSql
from odfabric_engine_spark.compile.compile_query import JudgedTransform, input_tables, judged_transform
from odfabric_engine_spark.compile.plan_to_stages import without_unread
from odfabric_engine_spark.operators.expiry.finality import final_instants
from odfabric_engine_spark.plan.column_lineage import scans_of
from odfabric_engine_spark.plan.input_tables import InputTable
from odfabric_engine_spark.plan.normal_plan import NormalQuery, normal_plan
from odfabric_engine_spark.plan.query_classes import LinearQuery
from odfabric_engine_spark.plan.resolution import resolve_steps
from odfabric_engine_spark.provenance.keyed_stages import KeyedStages, keyed_stages
from odfabric_engine_spark.provenance.world_plan import world_plan
from odfabric_engine_spark.rows.output_shape import OutputShape
from odfabric_engine_spark.rows.row_expressions import RowExpressions
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Attribute, Catalyst, Plan, output_of
from odfabric_engine_spark.sql.gate import GATE_CONF, steps_of, temporal_tables_of
from odfabric_engine_spark.sql.refusal import Refused


@dataclass(frozen=True, slots=True)
class LatenessOfUses:
    """How late rows may come, and by position of a use when its rows are final."""

    limit_us: int
    finals: Mapping[int, RowExpressions]


@dataclass(frozen=True)
class ExplainedQuery:
    """A query over inputs.

    `uses` are the inputs by alias, from left to right. `linear` is the row-wise form where it has one; `stages` say what its keys are, None
    where they are not known. `lateness` is there where rows may come only so late.
    """

    catalyst: Catalyst
    plan: Plan
    columns: tuple[Attribute, ...]
    uses: tuple[str, ...]
    timed: bool
    lateness: LatenessOfUses | None
    tables: Mapping[str, InputTable]
    stages: KeyedStages | None
    linear: LinearQuery | None = None
    shape: OutputShape | None = None

    @cached_property
    def worlds(self) -> Plan:
        """The plan that runs over many sets of rows at once."""
        return world_plan(self.catalyst, self.plan)


def explained_query(request: TransformRequest, transform: TransformSql, call: EngineCall) -> ExplainedQuery:
    """The query of a transaction, compiled once for all calls.

    Raises InvalidQuery, IncompatibleSchema, LimitExceeded.
    """
    tables = input_tables([(one.query_alias, one.vocabulary, one.data_schema) for one in request.inputs])
    steps = steps_of(transform)
    try:
        judged = judged_transform(call, transform, tables, request.vocabulary)
    except Refused as refused:
        raise refused.error([step.query for step in steps]) from None
    known = (
        "provenance",
        judged.meaning,
        steps,
        _schemas(tables),
        request.vocabulary,
        tuple(sorted(GATE_CONF.items())),
    )
    found: ExplainedQuery = call.plans.get(known, lambda: _compiled(judged, transform, tables, call))
    return found


def lateness_of(query: NormalQuery, plan: Plan, stages: KeyedStages) -> LatenessOfUses:
    """Of a query that drops rows which are later than it allows."""
    ends = final_instants(query.catalyst, plan, query.times, stages.inputs, query.duplicates)
    finals = {
        stages.inputs.index(scan): RowExpressions.of(query.catalyst, output_of(scan.plan), instants)
        for scan, instants in ends.items()
        if instants
    }
    return LatenessOfUses(query.lateness_us or 0, finals)


def _schemas(tables: Mapping[str, InputTable]) -> tuple[tuple[str, bytes, str], ...]:
    return tuple(
        (alias, table.arrow.serialize().to_pybytes(), table.spark.json()) for alias, table in sorted(tables.items())
    )


def _compiled(
    judged: JudgedTransform, transform: TransformSql, tables: Mapping[str, InputTable], call: EngineCall
) -> ExplainedQuery:
    linear = judged.query if isinstance(judged.query, LinearQuery) else None
    return replace(plan_of(transform, tables, call), linear=linear, shape=judged.shape)


def plan_of(
    transform: TransformSql, tables: Mapping[str, InputTable], call: EngineCall, *, keyed: bool = True
) -> ExplainedQuery:
    """The query alone, as if no row-wise form were known, with its keys if `keyed`.

    Raises Refused, LimitExceeded.
    """
    lookups = temporal_tables_of(transform)
    resolved = resolve_steps(call.session, steps_of(transform), tables, settings=call.settings, temporal_tables=lookups)
    query = normal_plan(resolved, tables, lookups)
    catalyst = query.catalyst
    # Few rows lie in one task: nothing is worth a job or a shuffle of its own.
    catalyst.session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    catalyst.session.conf.set("spark.sql.defaultSizeInBytes", "1")
    catalyst.session.conf.set("spark.sql.shuffle.partitions", "1")
    plan = without_unread(catalyst, query.plan)
    try:
        stages = keyed_stages(catalyst, plan, query.times) if keyed else None
    except (Refused, OdfError):
        stages = None  # keys only bound the work
    return ExplainedQuery(
        catalyst=catalyst,
        plan=plan,
        columns=tuple(output_of(plan)),
        uses=tuple(scan.alias for scan in scans_of(plan)),
        timed=query.timed,
        lateness=None if query.lateness_us is None or stages is None else lateness_of(query, plan, stages),
        tables=tables,
        stages=stages,
    )
