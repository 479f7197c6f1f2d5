"""Reading CSV.

Owns headers, nulls, and the way from bytes to typed columns: cells are cut out in this process (`csv_cells`), made values
(`text_values`) and staged for Spark. Spark's own CSV reader is not used because it replaces malformed characters, drops blank rows, mixes up
line ends and cannot read doubled and escaped quotes in one file, all without an error. Invariant: a cell is one exact value,
null, or the error that names line, column and field.

Headers: their names must be those of the schema, in any order. Nulls: a plain cell equal to `nullValue` (default: empty) is
null, a quoted one is text. In columns of other types than String an empty cell, and `nullValue` in quotes, are null too: they
could mean nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.errors import InvalidData, Place
from odfabric.formats.files.csv_grammar import Cell
from odfabric.model.intake import FieldContract
from odfabric_engine_spark.ingest.csv.csv_cells import CsvCells
from odfabric_engine_spark.ingest.csv.csv_header import ABSENT, BOM, Header, excel_note, repeated_row
from odfabric_engine_spark.ingest.csv.csv_options import CsvOptions
from odfabric_engine_spark.ingest.dataset_columns import DECLARE_HINT, DatasetColumns
from odfabric_engine_spark.ingest.encodings import Utf8File
from odfabric_engine_spark.ingest.staging import Staged, StagingWriter
from odfabric_engine_spark.ingest.undeclared_fields import UndeclaredFields
from odfabric_engine_spark.ingest.values.text_values import check_text_type, type_word, typed
from odfabric_engine_spark.ingest.values.type_inference import infer_column_type, infer_text_type
from odfabric_engine_spark.ingest.values.value_hints import value_hint
from odfabric_engine_spark.ingest.wrong_row import WrongRow
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.null_counts import NULLS_HINT, NullCounts, unexpected_nulls
from odfabric_engine_spark.spark.frames.read_rows import InputRows, check_names, shown


@dataclass(slots=True)
class _Part:
    """One file with content: its place of each column, and rows before it.

    `names` are those of its header in its own order; none without one.
    """

    cells: CsvCells
    order: list[int]
    names: list[str]
    first_row: int = 0
    _begun: list[pa.RecordBatch] = field(default_factory=list)
    _rest: Iterator[pa.RecordBatch] | None = None

    @property
    def width(self) -> int:
        """How many cells a row has."""
        return len(self.names) or len(self.order)

    def texts(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns that are read, nulls for one that the header does not have."""
        nulls = pa.nulls(batch.num_rows, pa.string())
        return [nulls if index == ABSENT else batch.column(index) for index in self.order]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, once. Raises as `CsvCells.batches`."""
        while self._begun:
            yield self._begun.pop(0)
        yield from self._following()

    def begin(self, rows: int) -> list[pa.RecordBatch]:
        """The first batches, with at least so many rows where there are so many.

        `batches` gives them too.
        """
        while sum(batch.num_rows for batch in self._begun) < rows:
            batch = next(self._following(), None)
            if batch is None:
                break
            self._begun.append(batch)
        return self._begun

    def _following(self) -> Iterator[pa.RecordBatch]:
        if self._rest is None:
            self._rest = self.cells.batches(self.width)
        return self._rest

    def cells_in_order(self, cells: list[Cell]) -> list[Cell]:
        """The cells to read, empty for a column that the header does not have."""
        return [replace(cells[-1], text="") if index == ABSENT else cells[index] for index in self.order]

    @property
    def left_out(self) -> list[int]:
        """Columns that are not read."""
        read = set(self.order)
        return [index for index in range(self.width) if index not in read]


@dataclass(slots=True)
class CsvReader:
    """Reads the files of one ingest.

    `schema` None means that `columns` decide, or headers and texts where these are None too.
    """

    call: EngineCall
    options: CsvOptions
    schema: pa.Schema | None
    columns: DatasetColumns | None = None
    contract: FieldContract | None = None
    _parts: list[_Part] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)
    _undeclared: UndeclaredFields = field(default_factory=lambda: UndeclaredFields(()))

    def read(self, files: Sequence[Utf8File]) -> InputRows | None:
        """The rows of all files in order; None if no file says what the columns are.

        Raises InvalidData with the place of what is wrong, LimitExceeded.
        """
        names = self._open(files)
        target = self.schema or (self._found_schema(names) if names else None)
        if names is None or target is None:
            return None
        self._names = names
        sampled = self.call.settings.infer_rows if self.contract is FieldContract.EVOLVE else 0
        self._undeclared = UndeclaredFields(names, sampled=sampled)
        nulls = NullCounts(target)
        staged, flaws = self._staged(target, nulls, limit=1)
        # The message about nulls says how many there are in all rows.
        nulls.refuse(self._place_of_cell)
        for row, index in flaws:
            raise self._misfit(row, index, self._cells_of(row), target)
        return InputRows(
            make_frame=staged.make_frame,
            plain=staged.plain,
            schema=target,
            declared=self.schema is not None,
            bytes=staged.bytes,
            count=staged.rows,
            undeclared=self._undeclared.listed(),
            found=self._needed(),
            locate=self._locate,
        )

    def _staged(self, target: pa.Schema, nulls: NullCounts, *, limit: int) -> tuple[Staged, list[tuple[int, int]]]:
        """The values of all rows, and the first rows with an invalid cell and its column.

        Nulls where none may be are such cells, and are counted. Raises IncompatibleSchema for types without a form as text.
        """
        for item in target:
            check_text_type(item.type, path=item.name)
        writer, flaws = StagingWriter(self.call, target, "csv"), list[tuple[int, int]]()
        for part in self._parts:
            part.first_row = writer.rows
            for batch in part.batches():
                self._refuse_second_header(batch, part, writer.rows)
                texts = part.texts(batch)
                ordered = [self._nulls(text, column_of) for text, column_of in zip(texts, target, strict=True)]
                nulls.add(ordered, writer.rows)
                self._count_left_out(part, batch)
                columns = [
                    typed(text, item.type, self.options.formats) for text, item in zip(ordered, target, strict=True)
                ]
                if len(flaws) < limit:
                    found = _flawed(ordered, columns, target)[: limit - len(flaws)]
                    flaws += [(writer.rows + row, index) for row, index in found]
                writer.write(columns)
        return writer.finish(), flaws

    def _count_left_out(self, part: _Part, batch: pa.RecordBatch) -> None:
        for index in part.left_out:
            values = batch.column(index).drop_null()
            sample = values.slice(0, self.call.settings.infer_rows).to_pylist()
            self._undeclared.count(part.names[index], len(values), sample)

    def _needed(self) -> pa.Schema | None:
        """Columns for the fields of the header that have none."""
        types = {
            name: infer_text_type(map(str, values), self.options.formats) if self.options.infer else pa.string()
            for name, values in self._undeclared.samples.items()
        }
        return pa.schema(list(types.items())) if types else None

    def _open(self, files: Sequence[Utf8File]) -> list[str] | None:
        """Column names in their final order; every file that has a record becomes a part."""
        names = None if self.schema is None else list(self.schema.names)
        settings = self.call.settings
        for file in files:
            cells = CsvCells(
                file=file,
                dialect=self.options.dialect,
                header=self.options.header,
                null=self.options.null,
                value_bytes_max=settings.line_bytes_max,
                batch_rows=settings.batch_rows,
                batch_bytes=settings.batch_bytes,
            )
            first = cells.first_record()
            if first is None:
                continue
            found = [cell.text for cell in first] if self.options.header else _made_up(names, len(first))
            order = self._order(first, names, file)
            check_names([pa.field(name, pa.string()) for name in found], settings=settings, file=file.name)
            names = names or found
            self._parts.append(_Part(cells, order or list(range(len(names))), found if self.options.header else []))
        return names

    def _order(self, first: list[Cell], wanted: list[str] | None, file: Utf8File) -> list[int] | None:
        """Where the columns that are wanted stand in the header.

        None without a header, or if it has too many.
        """
        if not self.options.header:
            note = excel_note(file)
            if note and len(wanted or first) > 1:
                raise note
            return None
        if len(first) > self.call.settings.columns_max:
            return None
        return Header(
            file=file,
            cells=first,
            wanted=wanted,
            declared=self.schema is not None,
            dialect=self.options.dialect,
            line_characters_max=self.call.settings.line_bytes_max,
            others_left_out=self.contract in (FieldContract.DISCARD, FieldContract.EVOLVE),
            optional=self._optional(),
        ).order()

    def _optional(self) -> frozenset[str]:
        """Columns that a header may lack: older files of a grown source lack them."""
        if self.schema is None or self.contract is not FieldContract.EVOLVE:
            return frozenset()
        return frozenset(item.name for item in self.schema if item.nullable)

    def _refuse_second_header(self, batch: pa.RecordBatch, part: _Part, first_row: int) -> None:
        """Raises InvalidData for a row that repeats the header, as in joined files."""
        at = repeated_row(batch, part.names, null=self.options.null)
        if at is None:
            return
        raise _repeated(self._locate(first_row + at))

    def _found_schema(self, names: list[str]) -> pa.Schema | None:
        found = self._inferred(names)
        if self.columns is None:
            return found
        place = Place(file=self._parts[0].cells.file.name, line=1 if self.options.header else None)
        texts = pa.schema([pa.field(name, pa.string()) for name in names])
        return self.columns.schema(found or texts, place=place, partial=False)

    def _inferred(self, names: list[str]) -> pa.Schema | None:
        if not self.options.infer:
            return pa.schema([pa.field(name, pa.string()) for name in names])
        sample = list(self._sample())
        if not sample:
            return None  # a header alone says nothing about types, and a schema is for ever
        types = [
            infer_column_type(pa.chunked_array(texts), self.options.formats) for texts in zip(*sample, strict=True)
        ]
        return pa.schema([pa.field(name, kind) for name, kind in zip(names, types, strict=True)])

    def _sample(self) -> Iterator[list[pa.Array]]:
        """The columns of the first rows."""
        wanted = self.call.settings.infer_rows
        for part in self._parts:
            for batch in part.begin(wanted):
                if wanted and batch.num_rows:
                    first = batch.slice(0, wanted)
                    wanted -= first.num_rows
                    yield part.texts(first)

    def _nulls(self, texts: pa.Array, target: pa.Field) -> pa.Array:
        if pa.types.is_string(target.type):
            return texts
        meaningless = pc.is_in(texts, value_set=pa.array(["", self.options.null]))
        return pc.if_else(meaningless, pa.scalar(None, pa.string()), texts)

    def _misfit(self, row: int, index: int, found: _FoundRow, target: pa.Schema) -> InvalidData:
        text, item = found.row[index].text, target.field(index)
        if text in ("", self.options.null) and not item.nullable:
            return InvalidData(unexpected_nulls(item.name, 1), place=found.place(index), hint=NULLS_HINT)
        return InvalidData(
            f"{shown(text)} is not {type_word(item.type, self.options.formats)}",
            place=found.place(index),
            hint=self._hint(text, item, row),
        )

    def wrong_shapes(self, files: Sequence[Utf8File], *, limit: int) -> list[WrongRow]:
        """The first rows that have too few or too many cells, or repeat the header.

        Raises InvalidData for a file that is wrong as a whole.
        """
        names = self._open(files)
        found: list[WrongRow] = []
        for part in self._parts if names is not None else ():
            file, width = part.cells.file, part.width
            for cells, end in _with_ends(part.cells.rows()):
                if len(found) >= limit:
                    break
                line = cells[0].line
                if len(cells) != width:
                    found.append(WrongRow(file.path, line, end, part.cells.wrong_count(cells, width)))
                elif len(part.names) > 1 and [cell.text.removeprefix(BOM) for cell in cells] == part.names:
                    found.append(WrongRow(file.path, line, end, _repeated(Place(file=file.name, line=line))))
        return found

    def wrong_values(self, files: Sequence[Utf8File], *, limit: int) -> list[WrongRow]:
        """The first rows with a wrongly typed cell, of files with complete rows."""
        names, target = self._open(files), self.schema
        if names is None or target is None:
            return []
        self._names = names
        _, flaws = self._staged(target, NullCounts(target), limit=limit)
        wanted = dict(flaws)
        found: list[WrongRow] = []
        for part in self._parts:
            file = part.cells.file
            for row, (cells, end) in enumerate(_with_ends(part.cells.rows()), start=part.first_row):
                if len(found) == len(wanted):
                    break
                if row in wanted:
                    ordered = _FoundRow(file.name, part.cells_in_order(cells), names)
                    error = self._misfit(row, wanted[row], ordered, target)
                    found.append(WrongRow(file.path, cells[0].line, end, error))
        return found

    def _hint(self, text: str, item: pa.Field, row: int) -> str:
        if not row and not self.options.header and text == item.name:
            return "header: true, if the first row names the columns"
        hint = value_hint(text, item.type, self.options.formats, name=item.name, null=self.options.null)
        if self.schema is not None:
            return hint
        if self.columns is not None:
            return f"{DECLARE_HINT}; or: {hint}"
        return f"the first {self.call.settings.infer_rows} rows looked like it; declare a schema, or: {hint}"

    def _locate(self, row: int) -> Place:
        cells = self._cells_of(row)
        return Place(file=cells.file, line=cells.row[0].line, row=row + 1)

    def _place_of_cell(self, row: int, index: int) -> Place:
        return self._cells_of(row).place(index)

    def _cells_of(self, row: int) -> _FoundRow:
        """A row as our own parser sees it; the file is read again up to it."""
        part = next(part for part in reversed(self._parts) if part.first_row <= row)
        cells = next(islice(part.cells.rows(), row - part.first_row, None))
        return _FoundRow(part.cells.file.name, part.cells_in_order(cells), self._names)


@dataclass(frozen=True, slots=True)
class _FoundRow:
    """The cells of one row in the order of the result."""

    file: str
    row: list[Cell]
    names: list[str]

    def place(self, index: int) -> Place:
        cell = self.row[index]
        return Place(file=self.file, line=cell.line, column=cell.column, field=self.names[index])


def _flawed(texts: Sequence[pa.Array], values: Sequence[pa.Array], target: pa.Schema) -> list[tuple[int, int]]:
    """Rows of a batch with an invalid text or null, each with its first column."""
    found: dict[int, int] = {}
    for index, (text, value, item) in enumerate(zip(texts, values, target, strict=True)):
        if value.null_count == (text.null_count if item.nullable else 0):
            continue
        flaws = pc.is_null(value)
        if item.nullable:
            flaws = pc.and_(flaws, pc.is_valid(text))
        for row in np.flatnonzero(flaws.to_numpy(zero_copy_only=False)):
            found.setdefault(int(row), index)
    return sorted(found.items())


def _with_ends(rows: Iterable[list[Cell]]) -> Iterator[tuple[list[Cell], int | None]]:
    """Rows, each with the line at which the next one begins; None for the last."""
    for cells, following in pairwise(chain(rows, [None])):
        if cells is not None:
            yield cells, None if following is None else following[0].line


def _repeated(place: Place) -> InvalidData:
    return InvalidData(
        "The row repeats the header",
        place=place,
        hint="the file seems to be put together of several: leave the header of each out but the first",
    )


def _made_up(names: list[str] | None, count: int) -> list[str]:
    """Names for a file without header: those of the schema, else numbers."""
    return names or [f"column_{index + 1}" for index in range(count)]
