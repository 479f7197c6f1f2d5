"""What an answer may cost, and what it did cost."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.errors import LimitExceeded
from odfabric.model.provenance import ProvenanceCost, ProvenanceRequest, RowsRead
from odfabric_engine_spark.provenance.evaluation import Budget
from odfabric_engine_spark.spark.calls.call import EngineCall

_ORDER = (RowsRead.ROW_WISE, RowsRead.KEYS, RowsRead.TOUCHED, RowsRead.WHOLE)


@dataclass(slots=True)
class Work:
    """Limits of one call, and counts of what it did."""

    rows_max: int
    bytes_max: int
    budget: Budget
    read: RowsRead = RowsRead.ROW_WISE
    rows_read: int = 0
    rows_bound: int = 0
    jobs: int = 0

    @classmethod
    def of(cls, request: ProvenanceRequest, call: EngineCall) -> Work:
        """The limits of a request, the engine's where it has none."""
        settings = call.settings
        evaluations = request.evaluations_max or settings.provenance_evaluations_max
        return cls(
            rows_max=request.rows_max or settings.provenance_rows_max,
            bytes_max=request.bytes_in_hand_max,
            budget=Budget(min(evaluations, settings.provenance_evaluations_max)),
        )

    def note(self, read: RowsRead) -> None:
        """How rows were found; the costliest way counts."""
        self.read = max(self.read, read, key=_ORDER.index)

    def bind(self, rows: int, size: int) -> None:
        """Rows that are handed to a query, and their bytes. Raises LimitExceeded."""
        self.rows_bound += rows
        if 0 < self.bytes_max < size:
            raise LimitExceeded(
                f"explaining the records has {size} bytes of rows in hand at once",
                limit="provenance_bytes_max",
                maximum=self.bytes_max,
            )

    def cost(self) -> ProvenanceCost:
        """What it was."""
        return ProvenanceCost(
            read=self.read,
            rows_read=self.rows_read,
            rows_bound=self.rows_bound,
            jobs=self.jobs,
            evaluations=self.budget.spent,
        )
