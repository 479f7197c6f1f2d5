"""What a stage of rows needs to run, made once per query.

Owns by what rows of each leaf are found, and whether they have to be kept. Invariant: nothing here depends on rows. Not here: what
keys are (`key_inference`), what is done with them (`recompute_run`).
"""

from __future__ import annotations

import pyarrow as pa

from odfabric_engine_spark.operators.bounded_window.bounded_frames import nearby_of
from odfabric_engine_spark.operators.cumulative_window.cumulative_frames import running_of
from odfabric_engine_spark.operators.temporal_join.as_of_state import VersionOrder
from odfabric_engine_spark.operators.top_n.top_n_scan import outermost_of
from odfabric_engine_spark.operators.touched_keys.before_and_after import BoundPlan
from odfabric_engine_spark.operators.touched_keys.partial_read import Excerpt
from odfabric_engine_spark.operators.touched_keys.scan_keys import LeafKeys
from odfabric_engine_spark.operators.touched_keys.semi_join_pruning import partners_of
from odfabric_engine_spark.plan.group_keys import can_be_key
from odfabric_engine_spark.plan.partitioning.partition_keys import Island, StageLeaf, stage_schema
from odfabric_engine_spark.plan.partitioning.stages import RowsStage
from odfabric_engine_spark.rows.failing_rows import Described
from odfabric_engine_spark.rows.row_expressions import RowExpressions
from odfabric_engine_spark.spark.catalyst.plan_nodes import Attribute, Catalyst


class RowsPlan:
    """Of one stage. `kept` are the leaves whose rows are needed again, `partners` those without which rows of a key give nothing.

    `excerpt` says which rows of a key are looked at, None for all, and `bound_excerpt` is the plan over these; `times` when rows are that others look up, `versions` how
    these lie in their state.
    """

    def __init__(self, catalyst: Catalyst, stage: RowsStage) -> None:
        self.catalyst = catalyst
        self.stage = stage
        self.bound = BoundPlan(catalyst, stage.plan, stage.output)
        self.keys = {leaf: _keys_of(catalyst, leaf, island) for island in stage.islands for leaf in island.leaves}
        self.keys |= {leaf: LeafKeys.of(catalyst, leaf, ()) for island in stage.islands for leaf in island.wholes}
        self.kept = frozenset(leaf for leaf in stage.leaves if _is_needed_again(stage, leaf))
        self.partners = partners_of(catalyst, stage)
        self.excerpt: Excerpt | None = outermost_of(catalyst, stage) or nearby_of(catalyst, stage)
        self.bound_excerpt = self.bound
        running = None if self.excerpt is not None else running_of(catalyst, stage)
        if running is not None:
            self.excerpt, self.bound_excerpt = running
        self.times = {
            version: RowExpressions.of(catalyst, version.columns, (time,))
            for leaf in stage.leaves
            for version, time in leaf.looks_up.items()
        }
        orders = {leaf: VersionOrder.of(leaf, island) for island in stage.islands for leaf in island.leaves}
        self.versions = {leaf: order for leaf, order in orders.items() if order is not None}
        self.output_schema: pa.Schema = stage_schema(stage.output)
        self.described = [Described(_source(leaf), tuple(map(_name, leaf.columns))) for leaf in stage.leaves]

    def kept_schema(self, leaf: StageLeaf) -> pa.Schema:
        """Columns of a leaf's state."""
        order = self.order_of(leaf)
        return leaf.schema if order is None else order.stored_schema(leaf.schema)

    def order_of(self, leaf: StageLeaf) -> Excerpt | VersionOrder | None:
        """How rows of a leaf lie in their state, None for the order of their columns."""
        return self.versions.get(leaf) if self.excerpt is None else self.excerpt

    @property
    def always(self) -> bool:
        """Whether there is a row over nothing."""
        return any(island.always for island in self.stage.islands)


def _source(leaf: StageLeaf) -> str:
    return str(leaf.source) if leaf.kind == "input" else ""


def _name(column: Attribute) -> str:
    return str(column.name())


def _keys_of(catalyst: Catalyst, leaf: StageLeaf, island: Island) -> LeafKeys:
    """A leaf that could have any key is kept by the whole row."""
    if island.components is None:
        keys = [column for column in leaf.columns if can_be_key(column)]
        return LeafKeys.of(catalyst, leaf, keys)
    keys = [component[leaf] for component in island.components]
    return LeafKeys.of(catalyst, leaf, keys, matched=[at for at in island.matched if keys[at].nullable()])


def _is_needed_again(stage: RowsStage, leaf: StageLeaf) -> bool:
    """Not if each row is mapped alone, at once and for ever."""
    for island in stage.islands:
        if leaf in island.leaves:
            waits = any(each.closes for each in island.leaves)
            return island.components is not None or bool(island.wholes) or waits
    return True
