"""What a keyed recompute needs, compiled once per query.

Owns by what rows of each scan are found, and whether they have to be kept. Invariant: nothing here depends on rows. Not here: what
keys are (`key_inference`), what is done with them (`recompute_run`).
"""

from __future__ import annotations

import pyarrow as pa

from odfabric_engine_spark.operators.bounded_window.bounded_frames import bounded_frames_of
from odfabric_engine_spark.operators.cumulative_window.cumulative_frames import cumulative_windows_of
from odfabric_engine_spark.operators.temporal_join.as_of_state import VersionOrder
from odfabric_engine_spark.operators.top_n.top_n_scan import top_n_of
from odfabric_engine_spark.operators.touched_keys.before_and_after import BoundPlan
from odfabric_engine_spark.operators.touched_keys.partial_read import PartialRead
from odfabric_engine_spark.operators.touched_keys.scan_keys import ScanKeys
from odfabric_engine_spark.operators.touched_keys.semi_join_pruning import semi_joins_of
from odfabric_engine_spark.plan.group_keys import can_be_key
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan, Subplan, stage_schema
from odfabric_engine_spark.plan.partitioning.stages import RowsStage
from odfabric_engine_spark.rows.failing_rows import Described
from odfabric_engine_spark.rows.row_expressions import RowExpressions
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst


class RowsPlan:
    """Of one stage.

    `kept` are the scans whose rows are needed again, `semi_joins` those without which rows of a key give nothing.

    `partial_read` says which rows of a key are looked at, None for all, and `bound_partial_read` is the plan over these; `times` when rows are that others look up, `versions` how
    these lie in their state.
    """

    def __init__(self, catalyst: Catalyst, stage: RowsStage) -> None:
        self.catalyst = catalyst
        self.stage = stage
        self.bound = BoundPlan(catalyst, stage.plan, stage.output)
        self.keys = {scan: _keys_of(catalyst, scan, subplan) for subplan in stage.subplans for scan in subplan.scans}
        self.keys |= {scan: ScanKeys.of(catalyst, scan, ()) for subplan in stage.subplans for scan in subplan.wholes}
        self.kept = frozenset(scan for scan in stage.scans if _is_needed_again(stage, scan))
        self.semi_joins = semi_joins_of(catalyst, stage)
        self.partial_read: PartialRead | None = top_n_of(catalyst, stage) or bounded_frames_of(catalyst, stage)
        self.bound_partial_read = self.bound
        cumulative = None if self.partial_read is not None else cumulative_windows_of(catalyst, stage)
        if cumulative is not None:
            self.partial_read, self.bound_partial_read = cumulative
        self.times = {
            version: RowExpressions.of(catalyst, version.columns, (time,))
            for scan in stage.scans
            for version, time in scan.joins_versions.items()
        }
        orders = {scan: VersionOrder.of(scan, subplan) for subplan in stage.subplans for scan in subplan.scans}
        self.versions = {scan: order for scan, order in orders.items() if order is not None}
        self.output_schema: pa.Schema = stage_schema(stage.output)
        self.described = [Described(_source(scan), scan.column_names) for scan in stage.scans]

    def kept_schema(self, scan: StageScan) -> pa.Schema:
        """Columns of a scan's state."""
        order = self.order_of(scan)
        return scan.schema if order is None else order.stored_schema(scan.schema)

    def order_of(self, scan: StageScan) -> PartialRead | VersionOrder | None:
        """How rows of a scan lie in their state, None for the order of their columns."""
        return self.versions.get(scan) if self.partial_read is None else self.partial_read

    @property
    def always(self) -> bool:
        """Whether there is a row over nothing."""
        return any(subplan.always for subplan in self.stage.subplans)


def _source(scan: StageScan) -> str:
    return str(scan.source) if scan.kind == "input" else ""


def _keys_of(catalyst: Catalyst, scan: StageScan, subplan: Subplan) -> ScanKeys:
    """A scan that could have any key is kept by the whole row."""
    if subplan.components is None:
        keys = [column for column in scan.columns if can_be_key(column)]
        return ScanKeys.of(catalyst, scan, keys)
    keys = [component[scan] for component in subplan.components]
    return ScanKeys.of(catalyst, scan, keys, matched=[at for at in subplan.matched if keys[at].nullable()])


def _is_needed_again(stage: RowsStage, scan: StageScan) -> bool:
    """Not if each row is mapped alone, at once and for ever."""
    for subplan in stage.subplans:
        if scan in subplan.scans:
            waits = any(each.closes for each in subplan.scans)
            return subplan.components is not None or bool(subplan.wholes) or waits
    return True
