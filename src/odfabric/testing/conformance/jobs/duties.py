"""What every Duties keeps. A subclass gives `duties`, new and empty for each test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odfabric.model.jobs.duty import Duty, DutyReport
from odfabric.ports.jobs.duties import Duties
from odfabric.testing.conformance.examples import NOW, later
from odfabric.testing.conformance.together import THREADS, outcomes_of_threads

REPORT = DutyReport(duty=Duty.RELAY, worker="w/1", at=NOW)


class DutiesContract:
    """One report of each duty."""

    @pytest.fixture
    def duties(self) -> Duties:
        raise NotImplementedError

    def test_the_last_report_of_each_duty_is_there(self, duties: Duties) -> None:
        assert list(duties.reports()) == []
        failed = DutyReport(duty=Duty.COLLECT, worker="ü", at=NOW, error="the disk is full", failing_since=NOW)
        newer = replace(REPORT, worker="w/2", at=later(1000))
        for each in (REPORT, failed, newer):
            duties.report(each)
        assert sorted(duties.reports(), key=lambda each: each.duty.value) == [failed, newer]
        recovered = DutyReport(duty=Duty.COLLECT, worker="w/2", at=later(2000))
        duties.report(recovered)
        assert sorted(duties.reports(), key=lambda each: each.duty.value) == [recovered, newer]

    def test_of_workers_that_report_at_once_one_is_the_last(self, duties: Duties) -> None:
        reports = [replace(REPORT, worker=f"w/{number}") for number in range(THREADS)]
        outcomes = outcomes_of_threads(lambda number: duties.report(reports[number]))
        assert outcomes == [None] * THREADS
        (found,) = duties.reports()
        assert found in reports
