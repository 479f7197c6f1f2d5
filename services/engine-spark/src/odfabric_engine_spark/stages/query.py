"""A query cut into stages: what each of them is, and in which order they run.

Owns the classes of stages. Invariant: a stage reads inputs and changes of earlier stages only; the last one gives the output.
Not here: how a query is cut (`inference`), how stages run (`rows_run`, `linear_run`, `group_run`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odfabric_engine_spark.catalyst import Attribute, Catalyst, Expression, Plan, items
from odfabric_engine_spark.stages.values import Island, StageLeaf

if TYPE_CHECKING:
    from odfabric_engine_spark.incremental.row_mapping import RowMapping
    from odfabric_engine_spark.normalise.event_times import EventTimes
    from odfabric_engine_spark.stages.cores import Core
    from odfabric_engine_spark.stages.group_run import GroupPlan
    from odfabric_engine_spark.stages.lateness import Lateness
    from odfabric_engine_spark.stages.rows_plan import RowsPlan

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


@dataclass(frozen=True, slots=True)
class StagedQuery:
    """A query as stages, the output last.

    `plan` is the whole query and `columns` are its output; `groups` and `rows` are what stages of groups and of rows need,
    `linear` what stages without state make of a row, by number. `has_identity`: the
    last stage has one column more, which tells rows apart that follow each other. `timed`: some of it waits for the watermark,
    rows of joins at most `longest_wait_us` after their event time; `followed` are columns of the output of which only the plan says, by `times`, how early
    they can still come (`open_times`). `lateness` is None where rows may come however late.
    """

    catalyst: Catalyst
    plan: Plan
    stages: tuple[Stage, ...]
    groups: Mapping[int, GroupPlan]
    rows: Mapping[int, RowsPlan]
    linear: Mapping[int, RowMapping]
    columns: tuple[Attribute, ...]
    has_identity: bool
    timed: bool
    longest_wait_us: int
    followed: frozenset[int]
    times: EventTimes
    lateness: Lateness | None

    @property
    def operator_class(self) -> str:
        """`timed` if rows wait for the watermark, `linear` if each is mapped alone, else `keyed`."""
        if all(isinstance(stage, LinearStage) for stage in self.stages):
            return "linear"
        return "timed" if self.timed else "keyed"

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all stages, for people."""
        found: list[str] = []
        for stage in self.stages:
            found += shown_keys(stage)
        return tuple(dict.fromkeys(found))


def keys_of(part: Stage | Island) -> list[Expression]:
    """One expression for each part of the keys of a stage, or of an island of one."""
    if isinstance(part, GroupStage):
        return items(part.aggregate.groupingExpressions())
    islands = [part] if isinstance(part, Island) else part.islands if isinstance(part, RowsStage) else []
    return [next(iter(each.values())) for island in islands for each in island.components or ()]


def shown_keys(part: Stage | Island) -> tuple[str, ...]:
    """The same as texts, for people."""
    return tuple(str(expression.sql()).replace(_UNNAMED, "") for expression in keys_of(part))
