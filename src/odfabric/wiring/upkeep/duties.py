"""The node's own duties: what workers report of them, and what admins see.

Invariant: a report that cannot be stored never stops the duty itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from odfabric.domain.flows.duties import DutyState, is_news, next_report, state_of
from odfabric.errors import OdfError
from odfabric.model.jobs.duty import Duty, DutyReport
from odfabric.ports.jobs.duties import Duties
from odfabric.ports.node.clock import Clock

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SeenDuty:
    """One duty; `report` is None if no worker has ever reported it."""

    duty: Duty
    state: DutyState
    report: DutyReport | None


@dataclass(slots=True)
class DutyVerbs:
    """Reports of one process, and those of all."""

    duties: Duties
    clock: Clock
    _last: dict[Duty, DutyReport] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ended(self, duty: Duty, worker: str, *, error: str | None) -> None:
        """A round has ended, `error` says of what it failed.

        Never raises for what the database does.
        """
        with self._lock:
            before = self._last.get(duty)
            report = next_report(before, duty=duty, worker=worker, error=error, now=self.clock.now())
            if not is_news(before, report):
                return
            try:
                self.duties.report(report)
            except OdfError as problem:
                _log.warning("duty %s: not reported: %s", duty.value, problem)
                return
            self._last[duty] = report

    def seen(self) -> Sequence[SeenDuty]:
        """All duties in their order. Raises Determinate or Indeterminate."""
        found: Mapping[Duty, DutyReport] = {report.duty: report for report in self.duties.reports()}
        now = self.clock.now()
        return [SeenDuty(duty, state_of(found.get(duty), duty, now=now), found.get(duty)) for duty in Duty]
