"""When a duty of the node is neglected, and when a round of it is worth a report.

Pure.
"""

from __future__ import annotations

from enum import Enum

from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.duty import Duty, DutyReport

REPORT_S = 60
"""A duty that goes on as before is reported this often; a change at once."""

SILENT_S = 300
"""Without a report for this long no worker does a duty."""

ROUND_S = {Duty.COLLECT: 600, Duty.INDEX: 60}
"""Pauses of the duties that rest longer than others, in seconds."""


class DutyState(Enum):
    """`silent`: no worker has reported it for long."""

    WORKS = "works"
    FAILS = "fails"
    SILENT = "silent"


def state_of(report: DutyReport | None, duty: Duty, *, now: Instant) -> DutyState:
    """How a duty fares; `report` is its last one, None if there never was one."""
    if report is None or _seconds(report.at, now) > SILENT_S + 2 * ROUND_S.get(duty, 0):
        return DutyState.SILENT
    return DutyState.FAILS if report.error is not None else DutyState.WORKS


def next_report(before: DutyReport | None, *, duty: Duty, worker: str, error: str | None, now: Instant) -> DutyReport:
    """The report of a round that has just ended.

    `before` is the last one of this process.
    """
    since = before.failing_since if before is not None and before.failing_since is not None else now
    return DutyReport(duty=duty, worker=worker, at=now, error=error, failing_since=since if error is not None else None)


def is_news(before: DutyReport | None, report: DutyReport) -> bool:
    """Whether to store a report: its outcome is another, or the last one is old."""
    return before is None or before.error != report.error or _seconds(before.at, report.at) >= REPORT_S


def _seconds(earlier: Instant, later: Instant) -> float:
    return abs(later.epoch_ns - earlier.epoch_ns) / NANOS_PER_SECOND
