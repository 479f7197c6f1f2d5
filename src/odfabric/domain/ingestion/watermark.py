"""Watermarks of data blocks: the coordinator's part.

Owns the rule that a chain's watermark never goes back and, once there, never disappears. Which watermark new rows or a
transaction would give by themselves is found by the engine. Source: specification, "Watermark"; RFC-014.
"""

from __future__ import annotations

from odfabric.errors import InvalidRequest, Place
from odfabric.model.instant import NANOS_PER_SECOND, Instant

FAR_AHEAD_S = 366 * 86_400
"""Rows whose watermark is further ahead of the clock are more likely a mistake (a wrong year, 9999 for "never") than a forecast."""


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


def check_not_far_ahead(watermark: Instant, *, now: Instant, ahead_s_max: float) -> None:
    """Refuse a watermark that says of a time far ahead that all its rows are there.

    It never goes back, so windows of that time would be closed for good before their rows come.

    Raises InvalidRequest.
    """
    latest = Instant(now.epoch_ns + int(ahead_s_max * NANOS_PER_SECOND)).truncated_to_millis()
    if watermark > latest:
        raise InvalidRequest(
            f"the watermark {watermark} is in the future, and a watermark never goes back",
            place=Place(field="watermark"),
            hint=f"give a time before {latest} (watermark_ahead_s_max); --force (`force` over REST) sets it all the same",
        )


def far_ahead(watermark: Instant | None, *, now: Instant) -> Instant | None:
    """The watermark if rows have put it further ahead than `FAR_AHEAD_S`."""
    if watermark is None or watermark.epoch_ns <= now.epoch_ns + FAR_AHEAD_S * NANOS_PER_SECOND:
        return None
    return watermark


def not_before(previous: Instant | None, computed: Instant | None) -> Instant | None:
    """The later of the two; None only while neither is known."""
    if previous is None or computed is None:
        return computed if previous is None else previous
    return max(previous, computed)
