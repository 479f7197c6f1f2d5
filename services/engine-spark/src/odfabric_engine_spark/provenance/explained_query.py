"""A query as provenance sees it: its normal plan, and what its keys are.

Owns what is compiled once per transform and kept between calls. Invariant: uses of inputs have one order everywhere here: that of the normal
plan from left to right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odfabric.errors import OdfError
from odfabric.model.engine import TransformRequest
from odfabric.model.metadata import TransformSql
from odfabric_engine_spark.compile.compile_query import JudgedTransform, input_tables, judged_transform
from odfabric_engine_spark.compile.plan_to_stages import without_unread
from odfabric_engine_spark.plan.input_tables import InputTable
from odfabric_engine_spark.plan.normal_plan import normal_plan
from odfabric_engine_spark.plan.query_classes import LinearQuery
from odfabric_engine_spark.plan.resolution import resolve_steps
from odfabric_engine_spark.provenance.keyed_stages import KeyedStages, keyed_stages
from odfabric_engine_spark.rows.output_shape import OutputShape
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Attribute, Catalyst, Plan, output_of
from odfabric_engine_spark.sql.gate import GATE_CONF, steps_of, temporal_tables_of
from odfabric_engine_spark.sql.refusal import Refused


@dataclass(frozen=True, slots=True)
class ExplainedQuery:
    """A query over inputs.

    `linear` is the row-wise form where it has one; `stages` say what its keys are, None where they are not known.
    """

    catalyst: Catalyst
    plan: Plan
    columns: tuple[Attribute, ...]
    timed: bool
    limited: bool
    tables: Mapping[str, InputTable]
    linear: LinearQuery | None
    shape: OutputShape
    stages: KeyedStages | None


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


def _schemas(tables: Mapping[str, InputTable]) -> tuple[tuple[str, bytes, str], ...]:
    return tuple(
        (alias, table.arrow.serialize().to_pybytes(), table.spark.json()) for alias, table in sorted(tables.items())
    )


def _compiled(
    judged: JudgedTransform, transform: TransformSql, tables: Mapping[str, InputTable], call: EngineCall
) -> ExplainedQuery:
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
        stages = keyed_stages(catalyst, plan, query.times)
    except (Refused, OdfError):
        stages = None  # keys only bound the work
    return ExplainedQuery(
        catalyst=catalyst,
        plan=plan,
        columns=tuple(output_of(plan)),
        timed=query.timed,
        limited=query.lateness_us is not None,
        tables=tables,
        linear=judged.query if isinstance(judged.query, LinearQuery) else None,
        shape=judged.shape,
        stages=stages,
    )
