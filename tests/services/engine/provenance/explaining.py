"""Requests for provenance of records, and answers as tests read them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from odfabric.model.engine import SliceFile
from odfabric.model.offsets import OffsetRange
from odfabric.model.provenance import (
    CellRole,
    ConsumedInterval,
    ProvenanceEffort,
    ProvenanceKind,
    ProvenanceRequest,
    ProvenanceResult,
    RecordProvenance,
)
from odfabric_engine_spark.provenance.derive import derive_provenance
from tests.services.engine.transforming import Derivative, Requests

_NUMBERS = itertools.count()
ALL_KINDS = frozenset(ProvenanceKind)

Witness = tuple[str, int]
"""An input by alias, and an offset of it."""


@dataclass(frozen=True)
class Answer:
    """An answer with the rows of its file."""

    result: ProvenanceResult
    rows: pa.Table
    aliases: tuple[str, ...]

    def record(self, offset: int) -> RecordProvenance:
        """What is said of one record."""
        return next(each for each in self.result.records if each.offset == offset)

    def witnesses(self, offset: int, *, term: int = 0) -> set[Witness]:
        """Witnesses of a derivation of a record."""
        return {
            (self.aliases[row["input"]], row["offset"])
            for row in self._of(offset, ProvenanceKind.WITNESSES)
            if row["term"] == term
        }

    def trigger(self, offset: int) -> set[Witness]:
        """New records that made the block write it."""
        return {(self.aliases[row["input"]], row["offset"]) for row in self._of(offset, ProvenanceKind.TRIGGER)}

    def cells(self, offset: int, output_column: str | None) -> dict[tuple[str, int, str], CellRole]:
        """Cells behind a cell; without a column those that decided that the row is there."""
        return {
            (self.aliases[row["input"]], row["offset"], row["column"]): CellRole(row["role"])
            for row in self._of(offset, ProvenanceKind.CELLS)
            if row["output_column"] == output_column
        }

    def _of(self, offset: int, kind: ProvenanceKind) -> Iterable[dict[str, int]]:
        found = self.record(offset).answer_rows
        rows = self.rows.slice(found.begin, found.end - found.begin).to_pylist()
        assert all(row["record"] == offset for row in rows)
        return [row for row in rows if row["kind"] == kind]


def request_for(
    derivative: Requests,
    number: int,
    offsets: Sequence[int] | None = None,
    *,
    kinds: frozenset[ProvenanceKind] = ALL_KINDS,
    effort: ProvenanceEffort = ProvenanceEffort.VERIFIED,
    **more: object,
) -> ProvenanceRequest:
    """A request about records of a transaction, by default all of them."""
    done = derivative.transactions[number]
    own = done.request
    inputs, intervals = [], []
    for one, taken in zip(derivative.inputs, own.inputs, strict=True):
        end = taken.offsets.end
        before = one.steps.index(taken.steps[0]) if taken.steps else len(one.steps)
        before = (
            before
            if taken.steps
            else sum(len(t.request.inputs[len(inputs)].steps) for t in derivative.transactions[:number])
        )
        inputs.append(
            replace(
                taken,
                offsets=OffsetRange(0, end),
                slices=tuple(each for each in one.slices if each.offsets.begin < end),
                steps=tuple(one.steps[: before + len(taken.steps)]),
            )
        )
        intervals.append(ConsumedInterval(offsets=taken.offsets, steps_before=before))
    written = done.table.column("offset").to_pylist()
    begin, end = (written[0], written[-1] + 1) if written else (0, 0)
    return ProvenanceRequest(
        transaction=replace(own, inputs=tuple(inputs), checkpoint_paths=(), checkpoint_hashes=()),
        intervals=tuple(intervals),
        output=(SliceFile(path=own.new_data_path, offsets=OffsetRange(begin, end)),),
        offsets=tuple(written if offsets is None else offsets),
        answer_path=f"answer-{next(_NUMBERS)}",
        kinds=kinds,
        effort=effort,
        **more,  # type: ignore[arg-type]
    )


def explained(derivative: Derivative, number: int, offsets: Sequence[int] | None = None, **more: object) -> Answer:
    """The answer about records of a transaction."""
    request = request_for(derivative, number, offsets, **more)  # type: ignore[arg-type]
    result = derive_provenance(request, derivative.call)
    rows = pq.read_table(derivative.call.exchange.root / request.answer_path)
    return Answer(result, rows, tuple(one.alias for one in derivative.inputs))
