"""Reports of duties in memory."""

from __future__ import annotations

from collections.abc import Sequence

from odfabric.model.jobs.duty import Duty, DutyReport


class MemoryDuties:
    """A Duties."""

    def __init__(self) -> None:
        self._reports: dict[Duty, DutyReport] = {}

    def report(self, report: DutyReport) -> None:
        """See the port."""
        self._reports[report.duty] = report

    def reports(self) -> Sequence[DutyReport]:
        """See the port."""
        return list(self._reports.values())
