"""Late data: rows that come after the allowed lateness are dropped.

Owns by when the rows of each input are final, and which of them are dropped. A row is dropped if all windows it belongs to,
and all it may meet, closed longer ago than the lateness, by what its own input had announced before. Invariant: whether a row
is dropped depends on the row and on the earlier blocks of its input, never on where transactions begin. A scan of which nothing
ends drops nothing. Not here: what is removed (`state_expiry`), rows of a single GROUP BY (`operators.aggregate.streamed_aggregate`). Source: docs/engine.md#lateness-and-state-expiry;
docs/engine.md#steps-and-slicing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric_engine_spark.arrays.array_types import ALWAYS, NEVER, Longs, Mask
from odfabric_engine_spark.operators.expiry.state_expiry import StageExpiry, state_expiry
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan
from odfabric_engine_spark.plan.partitioning.stages import Stage
from odfabric_engine_spark.plan.time.event_times import EventTimes
from odfabric_engine_spark.rows.row_expressions import RowExpressions, micros_of
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Expression


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late rows may come.

    `closes`: for each scan of an input that drops rows, the instants at which its rows are final.

    `expires` says by the number of a stage what nothing can need again.
    """

    limit_us: int
    closes: Mapping[StageScan, RowExpressions]
    expires: Mapping[int, StageExpiry]

    @classmethod
    def of(
        cls,
        catalyst: Catalyst,
        times: EventTimes,
        ends: Mapping[StageScan, Sequence[Expression]],
        *,
        stages: Sequence[Stage],
        limit_us: int,
    ) -> Lateness:
        """Of a query whose uses of inputs have the given instants."""
        closes = {scan: RowExpressions.of(catalyst, scan.columns, instants) for scan, instants in ends.items()}
        return cls(limit_us, closes, state_expiry(catalyst, times, stages, ends))

    def bound_us(self, announced_us: int | None) -> int:
        """Rows that close then or before are late, once an input announced an instant."""
        return ALWAYS if announced_us is None else announced_us - self.limit_us

    def late(self, scan: StageScan, rows: pa.Table, bounds_us: Longs) -> Mask:
        """Which rows of a scan are dropped.

        `bounds_us` has for each row the bound that its input had when it came.
        """
        values = self.closes.get(scan)
        if values is None:
            return np.zeros(rows.num_rows, dtype=bool)
        ends = [micros_of(column).fill_null(NEVER).to_numpy() for column in values.evaluate(rows)]
        dropped: Mask = np.max(ends, axis=0) <= bounds_us
        return dropped
