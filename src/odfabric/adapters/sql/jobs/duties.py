"""Reports of duties in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select, update

from odfabric.adapters.sql.database import Database, insert_new
from odfabric.adapters.sql.tables.node import duties
from odfabric.model.jobs.duty import Duty, DutyReport

_KNOWN = {duty.value: duty for duty in Duty}


class SqlDuties:
    """A Duties."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def report(self, report: DutyReport) -> None:
        """See the port."""
        values = {
            "worker": report.worker,
            "at": report.at,
            "error": report.error,
            "failing_since": report.failing_since,
        }
        own = duties.c.duty == report.duty.value
        with self._database.write() as connection:
            if connection.execute(update(duties).where(own).values(values)).rowcount == 0 and not insert_new(
                connection, duties, {"duty": report.duty.value, **values}
            ):
                connection.execute(update(duties).where(own).values(values))

    def reports(self) -> Sequence[DutyReport]:
        """See the port."""
        with self._database.read() as connection:
            rows = connection.execute(select(duties)).all()
        return [
            DutyReport(
                duty=_KNOWN[row.duty],
                worker=row.worker,
                at=row.at,
                error=row.error,
                failing_since=row.failing_since,
            )
            for row in rows
            if row.duty in _KNOWN
        ]
