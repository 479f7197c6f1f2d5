"""Stages: what each of them runs, and over which input scans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from odfabric_engine_spark.plan.partitioning.partition_keys import Island, StageLeaf
from odfabric_engine_spark.spark.catalyst.plan_nodes import Attribute, Expression, Plan, items

if TYPE_CHECKING:
    from odfabric_engine_spark.plan.partitioning.partition_keys import Core

_UNNAMED = "__auto_generated_subquery_name."
"""What Spark calls a subquery in FROM that has no name."""


@dataclass(slots=True)
class LinearStage:
    """Rows map to rows: no state. Leaves of a stage's plan are marked relations, in the order of `leaves`."""

    plan: Plan
    leaves: list[StageLeaf]
    output: tuple[Attribute, ...]


@dataclass(slots=True)
class RowsStage:
    """Rows by key: the query is run over the rows of the keys that a transaction touches, before and after it.

    `cores` are parts that end by times of single rows, known under a finite lateness.
    """

    plan: Plan
    leaves: list[StageLeaf]
    output: tuple[Attribute, ...]
    islands: list[Island]
    cores: list[Core]


@dataclass(slots=True)
class GroupStage:
    """One aggregate with exact accumulators. `below` maps rows to rows of groups; `above` maps rows of groups to the output.

    `window` is the position of the grouping column that closes groups, None if they are final at once. `always`: there is one
    group, which is there even over nothing.
    """

    below: Plan
    leaves: list[StageLeaf]
    aggregate: Plan
    above: Plan
    output: tuple[Attribute, ...]
    window: int | None
    always: bool


Stage = LinearStage | RowsStage | GroupStage


def keys_of(part: Stage | Island) -> list[Expression]:
    """One expression for each part of the keys of a stage, or of an island of one."""
    if isinstance(part, GroupStage):
        return items(part.aggregate.groupingExpressions())
    islands = [part] if isinstance(part, Island) else part.islands if isinstance(part, RowsStage) else []
    return [next(iter(each.values())) for island in islands for each in island.components or ()]


def shown_keys(part: Stage | Island) -> tuple[str, ...]:
    """The same as texts, for people."""
    return tuple(str(expression.sql()).replace(_UNNAMED, "") for expression in keys_of(part))
