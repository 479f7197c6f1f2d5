"""The stages of a query as provenance reads them backwards.

Owns an inference that cuts as few stages as it can (a group is one more key, nothing is accumulated) and remembers of each stage where its
columns come from. Columns that passed a window which they do not partition must not choose rows below it: the window would see another
partition. Source: docs/engine.md#keys-and-stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odfabric_engine_spark.compile.key_inference import Inference
from odfabric_engine_spark.operators.touched_keys.ordered_scan import OrderedRows
from odfabric_engine_spark.plan.partitioning.partition_keys import Node, StageScan, Tracer, Value
from odfabric_engine_spark.plan.time.event_times import EventTimes
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    is_attribute,
    items,
    output_of,
    walk_expression,
    without_alias,
)


@dataclass(frozen=True, slots=True)
class KeyedStages:
    """Stages by their results.

    `values` are the results, the query's last; `inputs` the uses of inputs, from left to right.
    """

    catalyst: Catalyst
    tracer: Tracer
    values: tuple[Value, ...]
    inputs: tuple[StageScan, ...]
    blocked: frozenset[int]

    def is_blocked(self, expression: Expression) -> bool:
        """Whether rows must not be chosen by it below."""
        return _reads(expression, self.blocked)


def keyed_stages(catalyst: Catalyst, plan: Plan, times: EventTimes) -> KeyedStages:
    """Of a normal plan. Raises Refused."""
    inference = _Recording(catalyst, times)
    inference.run(plan)
    return KeyedStages(
        catalyst, Tracer(catalyst), tuple(inference.values), tuple(inference.inputs), frozenset(inference.blocked)
    )


class _Recording(Inference):
    def __init__(self, catalyst: Catalyst, times: EventTimes) -> None:
        super().__init__(catalyst, times, limited=False)
        self.values: list[Value] = []
        self.blocked: set[int] = set()

    def _accumulates(self, plan: Plan) -> bool:
        return False

    def _ordered(self, node: Node, value: Value, rows: OrderedRows | None) -> tuple[Node, Value]:
        return node, value

    def _add_stage(self, node: Node, value: Value, output: tuple[Attribute, ...]) -> None:
        super()._add_stage(node, value, output)
        self.values.append(value)

    def _window(self, plan: Plan) -> tuple[Node, Value]:
        found = super()._window(plan)
        parts = {expr_id(each) for each in items(plan.partitionSpec()) if is_attribute(each)}
        self.blocked |= {expr_id(column) for column in output_of(plan)} - parts
        return found

    def _project(self, plan: Plan) -> tuple[Node, Value]:
        found = super()._project(plan)
        made = (each for each in items(plan.projectList()) if not is_attribute(each))
        self.blocked |= {expr_id(each) for each in made if _reads(each, self.blocked)}
        return found

    def _union(self, plan: Plan, *, mapped: bool = False) -> tuple[Node, Value]:
        found = super()._union(plan, mapped=mapped)
        branches: Sequence[Sequence[Attribute]] = [output_of(child) for child in children(plan)]
        for at, column in enumerate(output_of(plan)):
            if any(expr_id(branch[at]) in self.blocked for branch in branches):
                self.blocked.add(expr_id(column))
        return found


def _reads(expression: Expression, columns: set[int] | frozenset[int]) -> bool:
    parts = walk_expression(without_alias(expression))
    return any(is_attribute(part) and expr_id(part) in columns for part in parts)
