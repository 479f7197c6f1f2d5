"""Watermarks of data blocks: the coordinator's part.

Owns the rule that a chain's watermark never goes back and, once there, never disappears. Which watermark new rows or a
transaction would give by themselves is found by the engine. Source: specification, "Watermark"; RFC-014.
"""

from __future__ import annotations

from odfabric.model.instant import Instant


def ingest_watermark(
    previous: Instant | None, *, max_event_time: Instant | None, explicit: Instant | None = None
) -> Instant | None:
    """Watermark of an AddData: given, else greatest event time, at least `previous`."""
    return not_before(previous, max_event_time if explicit is None else explicit)


def transform_watermark(previous: Instant | None, *, computed: Instant | None) -> Instant | None:
    """Watermark of an ExecuteTransform from what the engine computed.

    An engine that keeps no state forgets what it saw.
    """
    return not_before(previous, computed)


def not_before(previous: Instant | None, computed: Instant | None) -> Instant | None:
    """The later of the two; None only while neither is known."""
    if previous is None or computed is None:
        return computed if previous is None else previous
    return max(previous, computed)
