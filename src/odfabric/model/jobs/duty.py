"""Repeated work of workers for the whole node, without a dataset or owner."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from odfabric.model.instant import Instant


class Duty(Enum):
    """The value is its name in the database, in metrics and on the wire."""

    RELAY = "relay"
    DELIVER = "deliver"
    SCHEDULE = "schedule"
    AUDIT = "audit"
    INDEX = "index"
    COLLECT = "collect"


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyReport:
    """How the last round of a duty ended that was reported, whichever worker it was.

    `error` is None if it succeeded; `failing_since` is then None too, otherwise the first failure after the last success.
    """

    duty: Duty
    worker: str
    at: Instant
    error: str | None = None
    failing_since: Instant | None = None
