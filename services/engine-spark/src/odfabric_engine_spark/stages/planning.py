"""From a normal plan to a staged query.

Owns the order of things: columns that nobody needs go, identities come in, keys are inferred, and what each stage needs to run is
made once. Invariant: a plan that passes here has a rule for every node. Source: incremental method, section 6.
"""

from __future__ import annotations

from odfabric_engine_spark.catalyst import Catalyst, Plan, children, items, simple_name
from odfabric_engine_spark.stages.group_run import GroupPlan
from odfabric_engine_spark.stages.identity import identified
from odfabric_engine_spark.stages.inference import Inference
from odfabric_engine_spark.stages.query import GroupStage, StagedQuery
from odfabric_engine_spark.stages.timed import timed_filter

_PRUNING_ROUNDS_MAX = 100


def staged_query(catalyst: Catalyst, plan: Plan) -> StagedQuery:
    """The stages of a normal plan. Raises Refused."""
    pruned = _pruned(catalyst, plan)
    found = identified(catalyst, pruned)
    stages = Inference(catalyst).run(found.plan)
    groups = {index: GroupPlan(catalyst, stage) for index, stage in enumerate(stages) if isinstance(stage, GroupStage)}
    return StagedQuery(
        catalyst=catalyst,
        plan=plan,
        stages=stages,
        groups=groups,
        columns=tuple(items(plan.output())),
        has_identity=found.identity is not None,
        timed=_has_timed_filter(plan),
    )


def _pruned(catalyst: Catalyst, plan: Plan) -> Plan:
    """Without columns that do not reach the result, by Spark's own rule; the result keeps its columns."""
    pruning = catalyst.companion("org.apache.spark.sql.catalyst.optimizer.ColumnPruning")
    node = catalyst.logical.Project(plan.output(), plan)
    for _ in range(_PRUNING_ROUNDS_MAX):
        pruned = pruning.apply(node)
        if pruned.fastEquals(node):
            break
        node = pruned
    return node


def _has_timed_filter(plan: Plan) -> bool:
    stack = [plan]
    while stack:
        node = stack.pop()
        if simple_name(node) == "Filter" and timed_filter(node) is not None:
            return True
        stack.extend(children(node))
    return False
