"""How the node's own duties fare: one report of each, the last one of any worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.model.jobs.duty import DutyReport


class Duties(Protocol):
    """Reports of duties. Raises Determinate or Indeterminate for outside failures."""

    def report(self, report: DutyReport) -> None:
        """Store a report in the place of the one before."""

    def reports(self) -> Sequence[DutyReport]:
        """The reports that there are, in no order.

        One of a duty that this release does not know is left out.
        """
