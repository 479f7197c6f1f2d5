"""A source that says less than before must mean it.

Owns the limits of an ingest, and when one into a Snapshot is refused because it would withdraw too much: a source that answers with an empty
body, or with half of its rows, has more often failed than changed its mind. Invariant: nothing is refused that the one who asked has
confirmed, but for a body without a byte, which says nothing in any format. Other strategies never withdraw what a file does not name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from odfabric.errors import InvalidData, Place
from odfabric.model.engine import RowChanges
from odfabric.model.intake import IntakeRules
from odfabric.model.source import MergeStrategy, MergeStrategySnapshot

SAID_WHEN_EMPTY = "a table without rows is said by a header alone (Csv), by [] (Json), by one line end (NdJson) or by a file without rows (Parquet)"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeLimits:
    """Limits of one ingest: lost rows, rejected rows, column names.

    `shrink_max`: the largest share of its rows that a Snapshot of `snapshot_rows_min` rows or more may lose by one
    ingest, 1 is all; `confirmed`: the one who asked for it knows. `rejected_rows_max`: most rows of one ingest that a
    quarantine takes; `column_name_bytes_max`: longest name of a column that comes with the data.
    """

    shrink_max: float = 1.0
    snapshot_rows_min: int = 1
    rejected_rows_max: int = 10_000
    column_name_bytes_max: int = 1024
    confirmed: bool = False

    def under(self, rules: IntakeRules) -> IntakeLimits:
        """The limits of a source, whose own share comes before that of the node."""
        return self if rules.shrink_max is None else replace(self, shrink_max=rules.shrink_max)

    @property
    def confirming(self) -> IntakeLimits:
        """The same for anyone who has confirmed that a Snapshot may lose its rows."""
        return replace(self, confirmed=True)

    def check(self, changes: RowChanges, merge: MergeStrategy, *, name: str) -> None:
        """Raises InvalidData for an ingest of the file `name` that withdraws more."""
        if self.confirmed or not isinstance(merge, MergeStrategySnapshot) or changes.unchanged is None:
            return
        before = changes.retracted + changes.corrected + changes.unchanged
        if before < self.snapshot_rows_min or changes.retracted <= self.shrink_max * before:
            return
        raise InvalidData(
            f"The file has {before - changes.retracted} of the {before} rows that the dataset has: {changes.retracted} would be withdrawn",
            place=Place(file=name, rule="snapshot-shrink"),
            hint="if they are gone for good, send it again with --allow-shrink (`Odf-Allow-Shrink: true`, `allowShrink` of a pull); otherwise see what the source has sent",
        )


UNLIMITED = IntakeLimits(confirmed=True)
"""A Snapshot may lose all."""


def check_has_bytes(sizes: dict[str, int], merge: MergeStrategy, *, has_rows: bool) -> None:
    """Refuse files without a byte, by name and size, where they would empty a dataset.

    Raises InvalidData.
    """
    if isinstance(merge, MergeStrategySnapshot) and has_rows and not any(sizes.values()):
        name = next(iter(sizes))
        raise InvalidData("The file is empty", place=Place(file=name, rule="empty-file"), hint=SAID_WHEN_EMPTY)
