"""The answer to why a record is there, as rows of a table.

Invariants: a row for each input record behind a record, once for each record that it is behind; the record asked for comes first. Of
datasets that the caller may not read there is one row with a count. Source: docs/reference/why.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from odfabric.domain.provenance.trace import EndReason, RecordRef
from odfabric.errors import InvalidRequest, LimitExceeded, Place
from odfabric.formats.provenance.why_table import WhyRow
from odfabric.model.commit import BlockRow, CatalogEntry
from odfabric.model.identity import DatasetId
from odfabric.model.provenance import PROVENANCE_ROWS_LIMIT, CellRole
from odfabric.model.why_request import WhyRequest
from odfabric.ports.engine import ProgressListener
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.provenance.ask_why import question_of
from odfabric.usecases.provenance.find_block import block_with
from odfabric.usecases.provenance.trace_records import (
    Cell,
    Explanation,
    RowsOfInput,
    Trace,
    TracePorts,
    Visited,
    WhyAsked,
    trace_records,
)

NOT_READABLE = "you may not read this dataset: only how many records there are is said"
LEFT_OUT = "further records, not followed here: ask why of the record, page by page, with odf why or /why"


def why_rows(
    entry: CatalogEntry, request: WhyRequest, until: BlockRow, *, ports: TracePorts, progress: ProgressListener
) -> Sequence[WhyRow]:
    """Rows of the answer about a record of a dataset, read up to block `until`.

    Raises what `ask_why` raises, and InvalidRequest for a record of a later block. LimitExceeded
    names the ways to ask that have more time.
    """
    # A table has no pages: of each input as many records are followed as an answer may visit.
    asked = question_of(entry, replace(request, limit=ports.limits.records_max), ports=ports)
    for offset in asked.offsets:
        wrote = block_with(RecordRef(entry.id, offset), ports.repository).block
        if wrote.sequence_number > until.sequence_number:
            raise InvalidRequest(
                f"record {offset} of {entry.alias} was written by block {wrote.sequence_number}, "
                f"after block {until.sequence_number}, up to which it is read",
                place=Place(field="offset"),
                hint="ask for an earlier record, or read the dataset up to a later block",
            )
    try:
        trace = trace_records(entry.id, asked, ports=ports, progress=progress)
    except LimitExceeded as error:
        raise _too_long(entry, asked, error.message, limit=error.limit, maximum=error.maximum) from None
    if any(one.depth == 0 and one.end is not None and one.end.reason is EndReason.TIME for one in trace.visited):
        raise _too_long(
            entry, asked, "there is no time left", limit="provenance_wall_s_max", maximum=ports.limits.wall_s_max
        )
    return tuple(_Rows(trace, ports.seen).rows())


def _too_long(entry: CatalogEntry, asked: WhyAsked, message: str, *, limit: str, maximum: float) -> LimitExceeded:
    """The failure that names the ways to ask which are not bound to a query."""
    offset = asked.offsets[0]
    command, path = f"odf why {entry.alias} {offset}", f"/{entry.alias}/why?offset={offset}"
    way = f"`{command}` or GET {path}, which go on as a job"
    if limit == PROVENANCE_ROWS_LIMIT:
        way = f"`{command} --all` or GET {path}&whole=true, which read as many rows as it takes"
    return LimitExceeded(
        f"why('{entry.alias}', {offset}) is too much for a query: {message}. Ask with {way}",
        limit=limit,
        maximum=maximum,
        place=Place(field="sql"),
    )


class _Rows:
    """Rows of one trace."""

    def __init__(self, trace: Trace, seen: Repository) -> None:
        self._trace, self._seen = trace, seen
        self._by_ref = {one.ref: one for one in trace.visited}
        self._names: dict[DatasetId, str] = {}

    def rows(self) -> Iterator[WhyRow]:
        for one in self._trace.visited:
            if one.depth == 0:
                yield self._record(one, kind="asked", depth=0)
        for one in self._trace.visited:
            if one.explanation is not None:
                yield from self._behind(one, one.explanation)

    def _behind(self, one: Visited, why: Explanation) -> Iterator[WhyRow]:
        cells = _cells_by_record(why.cells)
        for kind, found in (("witness", why.witnesses), ("trigger", why.trigger)):
            for rows in found:
                yield from self._of_input(one, rows, kind, cells)

    def _of_input(
        self, one: Visited, rows: RowsOfInput, kind: str, cells: Mapping[tuple[int, int], Sequence[Cell]]
    ) -> Iterator[WhyRow]:
        of_dataset, of_offset = self._name(one.ref.dataset), one.ref.offset
        count = WhyRow(
            depth=one.depth + 1,
            of_dataset=of_dataset,
            of_offset=of_offset,
            kind=kind,
            dataset=self._name(rows.dataset),
            records=rows.count,
        )
        if not rows.readable:
            reason = EndReason.NOT_READABLE.value
            yield replace(count, dataset=str(rows.dataset), reason=reason, message=NOT_READABLE)
            return
        for offset in rows.followed:
            found = self._by_ref.get(RecordRef(rows.dataset, offset))
            if found is not None:
                role, columns = _roles(cells.get((rows.input, offset), ()))
                row = self._record(found, kind=kind, depth=one.depth + 1)
                yield replace(row, of_dataset=of_dataset, of_offset=of_offset, role=role, columns=columns)
        if rows.left_out:
            yield replace(count, records=rows.left_out, reason=EndReason.BUDGET.value, message=LEFT_OUT)

    def _record(self, one: Visited, *, kind: str, depth: int) -> WhyRow:
        block = one.link.block
        return WhyRow(
            depth=depth,
            kind=kind,
            dataset=self._name(one.ref.dataset),
            offset=one.ref.offset,
            op=one.record.op.value,
            system_time=block.system_time.millis,
            block=str(one.link.hash),
            verified=None if one.explanation is None else one.explanation.provenance.verified,
            reason=None if one.end is None else one.end.reason.value,
            message=None if one.end is None else one.end.message if one.end.place is None else one.end.place.message,
        )

    def _name(self, dataset: DatasetId) -> str:
        if dataset not in self._names:
            entry = self._seen.find(dataset)
            self._names[dataset] = str(dataset) if entry is None else str(entry.alias)
        return self._names[dataset]


def _cells_by_record(cells: Sequence[Cell]) -> Mapping[tuple[int, int], Sequence[Cell]]:
    found: dict[tuple[int, int], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.input, cell.offset), []).append(cell)
    return found


def _roles(cells: Sequence[Cell]) -> tuple[str | None, str | None]:
    """The strongest role of a record's cells, and each column with its own."""
    strongest: dict[str, CellRole] = {}
    for cell in cells:
        strongest[cell.column] = min(cell.role, strongest.get(cell.column, cell.role))
    if not strongest:
        return None, None
    columns = ", ".join(f"{name} ({role.name.lower()})" for name, role in strongest.items())
    return min(strongest.values()).name.lower(), columns
