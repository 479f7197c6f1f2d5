"""Row-wise queries, which keep records one to one.

Owns the parts in which they run. Not here: which queries are row-wise (`compile.row_wise_query`)."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric_engine_spark.plan.column_lineage import Scan
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
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
