"""Session windows: which rows form sessions, and when a session ends."""

from __future__ import annotations

from odfabric_engine_spark.operators.expiry.open_windows import session_gaps_us
from odfabric_engine_spark.plan.partitioning.partition_keys import (
    SessionRows,
    Value,
)
from odfabric_engine_spark.plan.time.timed_filters import TimedFilter
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
)


def session_rows(catalyst: Catalyst, timed: TimedFilter, value: Value) -> SessionRows | None:
    """The time-bounded part of an aggregate by sessions."""
    gaps = session_gaps_us(catalyst, timed.plan)
    scans = value.all_scans
    if not gaps or any(len(scan.closes) != 1 for scan in scans):
        return None
    return SessionRows(scans, max(gaps))
