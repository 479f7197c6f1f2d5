"""Stages: what each of them runs, and over which input scans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan, Subplan
from odfabric_engine_spark.spark.catalyst.plan_nodes import Attribute, Expression, Plan, items

if TYPE_CHECKING:
    from odfabric_engine_spark.plan.partitioning.partition_keys import TimeBoundedPart

_UNNAMED = "__auto_generated_subquery_name."
"""What Spark calls a subquery in FROM that has no name."""


@dataclass(slots=True)
class LinearStage:
    """Rows map to rows: no state.

    Scans of a stage's plan are marked relations, in the order of `scans`.
    """

    plan: Plan
    scans: list[StageScan]
    output: tuple[Attribute, ...]


@dataclass(slots=True)
class RowsStage:
    """Rows by key: the query over a transaction's touched keys, before and after.

    `bounded_parts` are parts that end by times of single rows, known under a finite lateness.
    """

    plan: Plan
    scans: list[StageScan]
    output: tuple[Attribute, ...]
    subplans: list[Subplan]
    bounded_parts: list[TimeBoundedPart]


@dataclass(slots=True)
class GroupStage:
    """One aggregate with exact accumulators.

    `below` maps rows to rows of groups; `above` maps rows of groups to the output.

    `window` is the position of the grouping column that closes groups, None if they are final at once. `always`: there is one
    group, which is there even over nothing.
    """

    below: Plan
    scans: list[StageScan]
    aggregate: Plan
    above: Plan
    output: tuple[Attribute, ...]
    window: int | None
    always: bool


Stage = LinearStage | RowsStage | GroupStage


def keys_of(part: Stage | Subplan) -> list[Expression]:
    """One expression for each part of the keys of a stage, or of a subplan of one."""
    if isinstance(part, GroupStage):
        return items(part.aggregate.groupingExpressions())
    subplans = [part] if isinstance(part, Subplan) else part.subplans if isinstance(part, RowsStage) else []
    return [next(iter(each.values())) for subplan in subplans for each in subplan.components or ()]


def shown_keys(part: Stage | Subplan) -> tuple[str, ...]:
    """The same as texts, for people."""
    return tuple(str(expression.sql()).replace(_UNNAMED, "") for expression in keys_of(part))
