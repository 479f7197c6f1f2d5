"""A compiled query: its stages in the order in which they run.

Owns the classes of stages. Invariant: a stage reads inputs and changes of earlier stages only; the last one gives the output.
Not here: how a query is cut (`key_inference`), how stages run (`recompute_run`, `weighted_mapping`, `aggregate_stage`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odfabric_engine_spark.plan.partitioning.stages import LinearStage, Stage, shown_keys
from odfabric_engine_spark.spark.catalyst.plan_nodes import Attribute, Catalyst, Plan

if TYPE_CHECKING:
    from odfabric_engine_spark.operators.aggregate.aggregate_plan import GroupPlan
    from odfabric_engine_spark.operators.expiry.late_data import Lateness
    from odfabric_engine_spark.operators.keyed_recompute.recompute_plan import RowsPlan
    from odfabric_engine_spark.plan.time.event_times import EventTimes
    from odfabric_engine_spark.rows.row_mapping import RowMapping


@dataclass(frozen=True, slots=True)
class StagedQuery:
    """A query as stages, the output last.

    `plan` is the whole query and `columns` are its output, named `column_names`; `groups` and `rows` are what stages of groups and of rows need,
    `linear` what stages without state make of a row, by number. `has_identity`: the
    last stage has one column more, which distinguishes rows that follow each other. `timed`: some of it waits for the watermark,
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
    column_names: tuple[str, ...]
    has_identity: bool
    timed: bool
    longest_wait_us: int
    followed: frozenset[int]
    times: EventTimes
    lateness: Lateness | None

    @property
    def operator_class(self) -> str:
        """`timed` if rows wait for the watermark, `linear` if mapped alone, else `keyed`."""
        if all(isinstance(stage, LinearStage) for stage in self.stages):
            return "linear"
        return "timed" if self.timed else "keyed"

    @property
    def streamed(self) -> GroupPlan | None:
        """Its only stage, if that is a GROUP BY which reads its inputs piece by piece."""
        plan = self.groups.get(0) if len(self.stages) == 1 else None
        return plan if plan is not None and plan.streams else None

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all stages, for people."""
        found: list[str] = []
        for stage in self.stages:
            found += shown_keys(stage)
        return tuple(dict.fromkeys(found))
