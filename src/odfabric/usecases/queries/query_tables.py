"""The tables that the engine gets for a query: slices, or rows that are known.

Invariant: a table of rows has the same rows either way. Rows near the head come from the index of the dataset where they are found with
less work than by reading the records, and where the text of the query does not seem to read offset, op or system time, which the index
does not keep. The engine has the last word on that: it asks for the records if the query reads them. AS OF leaves out slices of which
all records happen later. Source: docs/reference/time.md; ADR 0091.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state_index import row_columns
from odfabric.domain.chain.walk import data_slices_down
from odfabric.errors import LimitExceeded
from odfabric.formats.identifiers.dataset_layout import DATA
from odfabric.formats.provenance.why_table import WHY_SCHEMA, write_why_rows
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import QueryInput, SliceFile
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import DataSlice
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.table_function import CallRefusal, TableCall
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.usecases.chain.moments import block_at, state_at
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.queries.table_functions import CallTable, ComputedRows, ReadSlices, projection_of
from odfabric.usecases.state.held_rows import TimedSlices, rows_held_indexed, timed_slices
from odfabric.usecases.state.time_travel import TravelPorts, rows_indexed, slices_until

_log = logging.getLogger(__name__)

_ALL_COLUMNS = re.compile(r"(?:\b(?:select|all|distinct)|[,.])\s*\*", re.IGNORECASE | re.ASCII)
"""A star for columns: one that multiplies has a value before it."""
_OF_RECORDS = re.compile(r"\b(?:offset|op|system_time)\b", re.IGNORECASE | re.ASCII)
_ROWS_FILE = {"compression": "snappy", "use_dictionary": False}
"""Read once and soon."""


def names_records(sql: str) -> bool:
    """Whether a text seems to read offset, op or system time of a record.

    A guess that decides what is tried first, not what is right.
    """
    return _OF_RECORDS.search(sql) is not None or _ALL_COLUMNS.search(sql) is not None


def table_of(
    dataset: DatasetId, block_hash: Multihash | None, as_of: Instant | None, repository: Repository
) -> ReadSlices:
    """A dataset under its name: its records, or its rows at the moment of the query."""
    entry = repository.resolve(dataset)
    block = block_at(entry, block_hash, repository=repository)
    state = state_at(entry, block, repository=repository)
    projection = None if as_of is None else projection_of(state, as_of)
    return ReadSlices(entry=entry, block=block, state=state, projection=projection)


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table of a query by its alias, or by the call that it is for."""

    alias: str
    what: CallTable | CallRefusal
    call: TableCall | None = None


@dataclass(frozen=True, slots=True)
class QueryTables:
    """The tables of a query as inputs of the engine.

    Files lie in `folder`, a session of the exchange, each slice once. `rows_suffice`: rows of an index are tried first. `first`: any so many
    rows of each projection suffice.
    """

    travel: TravelPorts
    folder: Path
    tables: tuple[NamedTable, ...]
    rows_suffice: bool
    first: int | None = None

    def inputs(self, *, with_records: frozenset[int] = frozenset()) -> tuple[QueryInput, ...]:
        """An input for each table, in their order.

        `with_records` numbers, from 0, those that must have records, once rows of an index did not suffice. Raises Corrupt.
        """
        return tuple(
            self._input(number, table, rows_suffice=self.rows_suffice and number not in with_records)
            for number, table in enumerate(self.tables)
        )

    def _input(self, number: int, table: NamedTable, *, rows_suffice: bool) -> QueryInput:
        what = table.what
        if isinstance(what, CallRefusal):
            vocabulary = DatasetVocabulary()
            return QueryInput(alias="", vocabulary=vocabulary, data_schema=None, call=table.call, refusal=what)
        if isinstance(what, ComputedRows):
            return QueryInput(
                alias="",
                vocabulary=DatasetVocabulary(),
                data_schema=arrow_to_data_schema(WHY_SCHEMA),
                slices=(self._computed(number, what),),
                call=table.call,
            )
        found = QueryInput(
            alias=table.alias,
            vocabulary=what.state.vocabulary,
            data_schema=current_schema(what.state),
            call=table.call,
            projection=what.projection,
        )
        if what.projection is None:
            slices = data_slices_down(self.travel.repository.blocks(what.entry.id), what.block.hash, tail=what.after)
            return replace(found, slices=self._files(what.entry.id, list(slices)[::-1]))
        return self._rows(number, what, found, rows_suffice=rows_suffice)

    def _rows(self, number: int, what: ReadSlices, found: QueryInput, *, rows_suffice: bool) -> QueryInput:
        """The input of a projection: rows of the index, or the slices."""
        assert what.projection is not None
        entry, block, moment = what.entry, what.block, what.projection.as_of
        timed = None
        if moment is not None and found.data_schema is not None:
            timed = timed_slices(entry, block, what.state, moment, ports=self.travel)
        path = self.folder / f"rows-{number}"
        if rows_suffice and (path.exists() or self._write_rows(path, what, timed)):
            return replace(found, projection=replace(what.projection, rows_path=self._name(path)))
        slices = slices_until(entry, block.hash, self.travel) if timed is None else timed.held
        return replace(found, slices=self._files(entry.id, slices))

    def _write_rows(self, path: Path, what: ReadSlices, timed: TimedSlices | None) -> bool:
        """Writes the rows if the index has them; whether it did."""
        rows = self._rows_of_index(what, timed)
        if rows is not None:
            pq.write_table(rows, path, **_ROWS_FILE)
        return rows is not None

    def _rows_of_index(self, what: ReadSlices, timed: TimedSlices | None) -> pa.Table | None:
        entry, block, state, schema = what.entry, what.block, what.state, current_schema(what.state)
        keys, moment = (what.projection.keys, what.projection.as_of) if what.projection is not None else ((), None)
        if schema is None or not keys:
            return None
        columns = DataSchema(fields=row_columns(state, schema))
        try:
            if moment is None or timed is None:
                return rows_indexed(entry, block, columns, keys, ports=self.travel, first=self.first)
            return rows_held_indexed(entry, block, state, columns, moment, timed, ports=self.travel)
        except LimitExceeded as error:
            _log.info("rows of %s are found by the engine: %s", entry.id, error)
            return None

    def _files(self, dataset: DatasetId, slices: Iterable[DataSlice]) -> tuple[SliceFile, ...]:
        """Slices as local files of the session, each once."""
        files = []
        for data in slices:
            path = self.folder / f"{dataset.multibase}-{data.physical_hash}"
            if not path.exists():
                self.travel.repository.materialize(dataset, DATA, data.physical_hash, path)
            files.append(SliceFile(path=self._name(path), offsets=OffsetRange.from_wire(data.offset_interval)))
        return tuple(files)

    def _computed(self, number: int, what: ComputedRows) -> SliceFile:
        """Computed rows as a file of their own."""
        path = self.folder / f"computed-{number}"
        if not path.exists():
            write_why_rows(path, what.rows)
        return SliceFile(path=self._name(path), offsets=OffsetRange(0, len(what.rows)))

    def _name(self, path: Path) -> str:
        return path.relative_to(self.travel.exchange.root).as_posix()
