"""The cells of one CSV file as batches of texts.

Owns the choice between the two parsers. Arrow's is used where it means the same as our grammar: not both quotes and escape
characters occur in the file, and quotes, if any, stand as RFC 4180 has it, which a strict scan proves first (Arrow would glue `"a"b` to `ab`).
Otherwise our own parser reads it, some ten times slower. Invariant: both give the same cells; an error has line and column.
"""

from __future__ import annotations

import collections
import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, NoReturn

import pyarrow as pa
from pyarrow import csv as arrow_csv

from odfabric.errors import InvalidData, LimitExceeded, Place
from odfabric.formats.files.csv_grammar import Cell, CsvDialect, CsvRecords
from odfabric_engine_spark.ingest.csv.csv_row_counts import wrong_count
from odfabric_engine_spark.ingest.encodings import Utf8File


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvCells:
    """A file, how it is cut into cells, and the unquoted text that means null."""

    file: Utf8File
    dialect: CsvDialect
    header: bool
    null: str
    value_bytes_max: int
    batch_rows: int
    batch_bytes: int

    def first_record(self) -> list[Cell] | None:
        """The header, or the first row; None if there is no record. Raises InvalidData."""
        with self._parsed() as records:
            return next(iter(records), None)

    def rows(self) -> Iterator[list[Cell]]:
        """Every record but the header, with places, by our own parser.

        Raises InvalidData, LimitExceeded.
        """
        with self._parsed() as records:
            yield from islice(records, 1 if self.header else 0, None)

    def batches(self, columns: int) -> Iterator[pa.RecordBatch]:
        """All rows, nulls as nulls, columns `c0`, `c1`...

        Raises InvalidData with the place, also for a row that has not `columns` cells; LimitExceeded.
        """
        schema = pa.schema([pa.field(f"c{index}", pa.string()) for index in range(columns)])
        body = self._body_start()
        if self._has_escapes():
            yield from self._own_batches(schema)
        elif body < self.file.start + self.file.size:
            self._check_quotes(columns)
            yield from self._arrow_batches(schema, body)

    @contextmanager
    def _parsed(self) -> Iterator[CsvRecords]:
        with self.file.text() as stream:
            yield CsvRecords(stream, self.dialect, file=self.file.name, value_characters_max=self.value_bytes_max)

    def _body_start(self) -> int:
        if not self.header:
            return self.file.start
        with self._parsed() as records:
            next(iter(records), None)
            consumed = records.consumed
        with self.file.text() as stream:
            return self.file.start + len(stream.read(consumed).encode("utf-8"))

    def _has_escapes(self) -> bool:
        """Whether an escape may mean something, which it does within quotes only."""
        special, dialect = self.file.special, self.dialect
        return {dialect.quote, dialect.escape} <= special and dialect.escape != dialect.quote

    def _check_quotes(self, columns: int) -> None:
        quote = self.dialect.quote
        if quote is None or quote not in self.file.special:
            return
        csv.field_size_limit(self.value_bytes_max)  # a setting of the process, and one that only we use
        with self.file.text() as stream:
            reader = csv.reader(stream, delimiter=self.dialect.separator, quotechar=quote, strict=True)
            try:
                collections.deque(reader, maxlen=0)
            except csv.Error:
                self._find_flaw(columns)

    def _arrow_batches(self, schema: pa.Schema, body: int) -> Iterator[pa.RecordBatch]:
        quote = self.dialect.quote if self.dialect.quote in self.file.special else None
        with self.file.path.open("rb") as file:
            file.seek(body)
            try:
                yield from arrow_csv.open_csv(
                    _WithLastLineEnd(file),
                    read_options=arrow_csv.ReadOptions(
                        column_names=schema.names, block_size=self.value_bytes_max, use_threads=False
                    ),
                    parse_options=arrow_csv.ParseOptions(
                        delimiter=self.dialect.separator,
                        quote_char=quote or False,
                        double_quote=True,
                        escape_char=False,
                        newlines_in_values=quote is not None,
                        ignore_empty_lines=True,
                    ),
                    convert_options=arrow_csv.ConvertOptions(
                        column_types=schema,
                        null_values=[self.null],
                        strings_can_be_null=True,
                        quoted_strings_can_be_null=False,
                        check_utf8=False,  # the whole file has been
                    ),
                )
            except pa.ArrowInvalid:
                self._find_flaw(len(schema))

    def _own_batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        rows = self.rows()
        while batch := self._batch(rows, len(schema)):
            texts = ([self.text(cells[index]) for cells in batch] for index in range(len(schema)))
            yield pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in texts], schema=schema)

    def _batch(self, rows: Iterator[list[Cell]], columns: int) -> list[list[Cell]]:
        batch, length = list[list[Cell]](), 0
        for cells in rows:
            self.check_count(cells, columns)
            batch.append(cells)
            length += sum(len(cell.text) for cell in cells)
            if len(batch) >= self.batch_rows or length >= self.batch_bytes:
                break
        return batch

    def text(self, cell: Cell) -> str | None:
        """The text of a cell, None if it means null."""
        return None if cell.text == self.null and not cell.quoted else cell.text

    def _find_flaw(self, columns: int) -> NoReturn:
        """Raises what our own parser finds wrong first."""
        for cells in self.rows():
            self.check_count(cells, columns)
        raise LimitExceeded(
            "A record is too long",
            limit="line_bytes_max",
            maximum=self.value_bytes_max,
            place=Place(file=self.file.name),
        )

    def check_count(self, cells: list[Cell], columns: int) -> None:
        """Raises InvalidData if a row has too few or too many cells."""
        if len(cells) == columns:
            return
        raise self.wrong_count(cells, columns)

    def wrong_count(self, cells: list[Cell], columns: int) -> InvalidData:
        """The refusal of a row that has not `columns` cells."""
        return wrong_count(self.file, cells, columns, self.dialect, header=self.header)


class _WithLastLineEnd(io.RawIOBase):
    """A file whose last line ends with a line break.

    Without one Arrow takes an empty cell there for a quoted one if one before it was.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._last = b""

    def readable(self) -> bool:
        """As of the file."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """As of the file, then one line end if it has none."""
        found = self._file.read(size)
        if not found and size and self._last not in (b"\r", b"\n"):
            found = b"\n"
        self._last = found[-1:] or self._last
        return found
