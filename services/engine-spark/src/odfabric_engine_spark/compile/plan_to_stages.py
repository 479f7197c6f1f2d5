"""Compile a normal plan to a staged query.

Owns the order of things: columns that nobody needs go, identities come in, keys are inferred, and what each stage needs to run is
made once. Invariant: a plan that passes here has a rule for every node. Source: docs/engine.md#before-and-after.
"""

from __future__ import annotations

from odfabric_engine_spark.compile.key_inference import Inference
from odfabric_engine_spark.compile.row_identity import identified
from odfabric_engine_spark.compile.staged_query import StagedQuery
from odfabric_engine_spark.operators.aggregate.aggregate_plan import GroupPlan
from odfabric_engine_spark.operators.expiry.earliest_open_time import columns_to_follow
from odfabric_engine_spark.operators.expiry.finality import final_instants
from odfabric_engine_spark.operators.expiry.late_data import Lateness
from odfabric_engine_spark.operators.expiry.open_windows import check_session_gaps, longest_wait_us
from odfabric_engine_spark.operators.keyed_recompute.recompute_plan import RowsPlan
from odfabric_engine_spark.operators.row_wise.weighted_mapping import linear_mapping
from odfabric_engine_spark.plan.normal_plan import NormalQuery
from odfabric_engine_spark.plan.partitioning.stages import GroupStage, LinearStage, RowsStage
from odfabric_engine_spark.plan.partitioning.storable_types import check_kept_types
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    column_names,
    output_of,
    simple_name,
)


def staged_query(query: NormalQuery) -> StagedQuery:
    """The stages of a normal plan. Raises Refused."""
    catalyst, plan, times = query.catalyst, query.plan, query.times
    # A side of a join that is handed round is a job of its own, and few rows lie in one task already.
    catalyst.session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    # Rows of this process have no size for Spark: taken for endless ones they would be shuffled though they lie in one task.
    catalyst.session.conf.set("spark.sql.defaultSizeInBytes", "1")
    check_session_gaps(catalyst, plan)
    pruned = without_unread(catalyst, plan)
    found = identified(catalyst, pruned)
    inference = Inference(catalyst, times, limited=query.lateness_us is not None, copied=query.duplicates.numbers)
    stages = inference.run(found.plan)
    check_kept_types(stages)
    last = stages[-1]
    if isinstance(last, GroupStage):
        # Groups know by their keys which row takes the place of which.
        last.output = last.output[: len(output_of(plan))]
    groups = {
        index: GroupPlan(catalyst, stage, times.tables)
        for index, stage in enumerate(stages)
        if isinstance(stage, GroupStage)
    }
    rows = {index: RowsPlan(catalyst, stage) for index, stage in enumerate(stages) if isinstance(stage, RowsStage)}
    linear = {
        index: linear_mapping(catalyst, stage) for index, stage in enumerate(stages) if isinstance(stage, LinearStage)
    }
    lateness = None
    if query.lateness_us is not None:
        ends = final_instants(catalyst, found.plan, times, inference.inputs, query.duplicates)
        lateness = Lateness.of(catalyst, times, ends, stages=stages, limit_us=query.lateness_us)
    columns = tuple(output_of(plan))
    return StagedQuery(
        catalyst=catalyst,
        plan=plan,
        stages=stages,
        groups=groups,
        rows=rows,
        linear=linear,
        columns=columns,
        column_names=column_names(columns),
        has_identity=found.identity is not None and not isinstance(last, GroupStage),
        timed=query.timed,
        longest_wait_us=longest_wait_us(catalyst, plan),
        followed=columns_to_follow(catalyst, plan, times) if query.timed else frozenset(),
        times=times,
        lateness=lateness,
    )


def without_unread(catalyst: Catalyst, plan: Plan) -> Plan:
    """A plan without columns that do not reach the result, by Spark's own rule.

    The result keeps its columns.
    """
    return _with_columns(catalyst, catalyst.settled(catalyst.logical.Project(plan.output(), plan), "ColumnPruning"))


def _with_columns(catalyst: Catalyst, plan: Plan) -> Plan:
    """Give a pruned relation a column: relations without columns lose their count."""
    node = plan.withNewChildren(catalyst.seq([_with_columns(catalyst, child) for child in children(plan)]))
    if simple_name(node) == "Project" and node.projectList().isEmpty():
        return catalyst.logical.Project(catalyst.seq([_nothing(catalyst)]), node.child())
    if simple_name(node) == "Aggregate" and node.aggregateExpressions().isEmpty():
        return catalyst.logical.Aggregate(
            node.groupingExpressions(), catalyst.seq([_nothing(catalyst)]), node.child(), node.hint()
        )
    return node


def _nothing(catalyst: Catalyst) -> Expression:
    return catalyst.named(catalyst.parse_expression("0"), "nothing")
