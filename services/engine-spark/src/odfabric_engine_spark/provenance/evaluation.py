"""Run a query over chosen rows and count a record in its result.

Owns the number of such runs, which is bounded. Nothing of the circuit is used here: a record that is found comes from the query alone, so an
answer is checked by something that did not make it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count as counted

import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Mask
from odfabric_engine_spark.plan.input_tables import scan_alias
from odfabric_engine_spark.plan.time.timed_filters import at_watermark, timed_filter
from odfabric_engine_spark.provenance.equal_rows import places_of
from odfabric_engine_spark.provenance.explained_query import ExplainedQuery
from odfabric_engine_spark.provenance.states import Pool
from odfabric_engine_spark.rows.output_shape import OutputShape, as_output
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Plan, analysed, children, items, output_of, simple_name
from odfabric_engine_spark.spark.catalyst.plan_rebuild import with_children
from odfabric_engine_spark.spark.frames.local_rows import local_rows
from odfabric_engine_spark.spark.frames.result_rows import whole


class EvaluationsSpent(Exception):
    """No more runs are allowed."""


@dataclass(slots=True)
class Budget:
    """How many runs are allowed, and how many there were."""

    allowed: int
    spent: int = 0

    def spend(self) -> None:
        """One more. Raises EvaluationsSpent."""
        if self.spent >= self.allowed:
            raise EvaluationsSpent
        self.spent += 1


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A query over rows of a pool."""

    query: ExplainedQuery
    shape: OutputShape
    pool: Pool
    budget: Budget
    call: EngineCall

    def count(self, taken: Mask, record: pa.Table, watermark_us: int | None) -> int:
        """How often the query gives the row, if the taken records are all that came.

        Raises EvaluationsSpent.
        """
        self.budget.spend()
        self.call.check()
        catalyst = self.query.catalyst
        plan = self._bound(self.query.plan, taken, watermark_us, counted())
        found = whole(self.call, catalyst.data_frame(plan))
        rows = pa.table([one_array(column) for column in found.columns], names=found.column_names)
        return len(places_of(record, as_output(rows, self.shape.rows))[0])

    def _bound(self, plan: Plan, taken: Mask, watermark_us: int | None, positions: Iterator[int]) -> Plan:
        catalyst = self.query.catalyst
        if scan_alias(plan) is not None:
            columns = output_of(plan)
            relation = analysed(local_rows(catalyst.session, self.pool.rows(taken, next(positions), columns)))
            named = items(catalyst.as_columns(output_of(relation), columns))
            return catalyst.logical.Project(catalyst.seq(named), relation)
        below = [self._bound(child, taken, watermark_us, positions) for child in children(plan)]
        if simple_name(plan) == "Filter" and timed_filter(plan) is not None:
            return catalyst.logical.Filter(at_watermark(catalyst, plan, watermark_us).condition(), below[0])
        return with_children(catalyst, plan, below) if below else plan
