"""Queries of one step: row-wise, and one aggregate.

Owns the parts in which they run. Not here: which query is of which class (`query_classification`)."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric_engine_spark.plan.aggregates.aggregate_calls import AggregateCall
from odfabric_engine_spark.plan.column_lineage import Scan
from odfabric_engine_spark.plan.group_keys import GroupColumn
from odfabric_engine_spark.plan.time.tumbling_and_hopping_windows import TimedWindow
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
)


@dataclass(frozen=True, slots=True)
class LinearQuery:
    """Rows map to rows: project, filter, explode, union all.

    `op_selected`: the query states the op of its output itself.
    """

    catalyst: Catalyst
    plan: Plan
    scans: tuple[Scan, ...]
    op_selected: bool


@dataclass(frozen=True, slots=True)
class AggregateQuery:
    """`below` gives rows of groups, `aggregate` is the node, `above` uses its rows."""

    catalyst: Catalyst
    below: Plan
    aggregate: Plan
    above: Plan
    scans: tuple[Scan, ...]
    columns: tuple[GroupColumn, ...]
    calls: tuple[AggregateCall, ...]
    inputs: tuple[Expression, ...]
    window: TimedWindow | None
    lateness_us: int | None

    @property
    def operator_class(self) -> str:
        """`timed` if groups wait for the watermark, else `keyed`."""
        return "keyed" if self.window is None else "timed"
