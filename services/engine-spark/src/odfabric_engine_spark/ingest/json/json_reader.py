"""Reading JSON, line by line or as one document.

Owns the way from texts to typed columns: every value is parsed and checked in this process (`json_values`, a column at a time by
`json_arrays`), because Spark's readers take the last of two equal keys and turn large numbers into floats without a word; the rows are
staged. Invariant: a row is exact or the error names file, line and field. Without a schema the first rows decide the types;
keys are then sorted, as the reference has it. Source: specification, "Data Ingestion"; docs/threat-model.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

import pyarrow as pa

from odfabric.errors import InvalidData, LimitExceeded, OdfError, Place
from odfabric.formats.json_values.json_columns import JsonMembers
from odfabric.formats.slices.column_names import shown_name
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE
from odfabric.model.intake import FieldContract
from odfabric_engine_spark.ingest.dataset_columns import DECLARE_HINT, FREEZE_HINT, DatasetColumns
from odfabric_engine_spark.ingest.encodings import Utf8File
from odfabric_engine_spark.ingest.json.geojson import row_of_feature
from odfabric_engine_spark.ingest.json.json_arrays import ToArray, array_maker
from odfabric_engine_spark.ingest.json.json_document import JsonDocument
from odfabric_engine_spark.ingest.json.json_forms import bad_line, no_declared_field, no_row
from odfabric_engine_spark.ingest.json.json_type_inference import infer_json_schema
from odfabric_engine_spark.ingest.json.json_values import (
    Convert,
    JsonParser,
    JsonValue,
    Misfit,
    member_converter,
    needs_exact_numbers,
)
from odfabric_engine_spark.ingest.staging import StagingWriter
from odfabric_engine_spark.ingest.undeclared_fields import UndeclaredFields
from odfabric_engine_spark.ingest.values.text_values import TextFormats
from odfabric_engine_spark.ingest.wrong_row import WrongRow
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.null_counts import NULLS_HINT, NullCounts, unexpected_nulls
from odfabric_engine_spark.spark.frames.read_rows import InputRows, check_names
from odfabric_engine_spark.spark.settings import MIB

_SPACE = " \t\r\n"
_PARSED_ROWS = 8_192
_PARSED_BYTES = 4 * MIB
"""Rows that are in memory as Python has them, which takes about ten times the length of their text."""


class JsonRow(NamedTuple):
    """One object: text or row, file and line where it begins, and its length.

    Its row if it is no text; the length of what it was made of.
    """

    members: dict[str, JsonValue]
    file: str
    line: int | None
    length: int
    row: int | None = None


@dataclass(frozen=True, slots=True)
class GivenObjects:
    """Objects of another format that become rows as those of JSON do.

    `rows` gives them from the beginning each time.
    """

    columns: pa.Schema
    rows: Callable[[], Iterator[JsonRow]]


@dataclass(slots=True)
class JsonReader:
    """Reads the files of one ingest.

    `sub_path` None means one object a line; "" means a document that is an array.

    `marked` are columns that keep JSON values as text. `geo`: the objects are features of GeoJSON, the document a collection.
    `given` are objects that stand in no text, with the columns that they have where no schema is declared.
    """

    call: EngineCall
    formats: TextFormats
    schema: pa.Schema | None
    sub_path: str | None
    columns: DatasetColumns | None = None
    marked: JsonMembers = field(default_factory=dict)
    geo: bool = False
    contract: FieldContract | None = None
    given: GivenObjects | None = None
    _first_rows: list[tuple[int, Utf8File]] = field(default_factory=list)

    def read(self, files: Sequence[Utf8File]) -> InputRows | None:
        """The rows of all files in order; None if there is neither schema nor row.

        Raises InvalidData with the place of what is wrong, LimitExceeded, IncompatibleSchema.
        """
        parser = JsonParser(exact_numbers=self._is_exact(), depth_max=self.call.settings.depth_max)
        rows = self._rows(files, parser)
        schema = self.schema
        if schema is None:
            sample = list(islice(rows, self.call.settings.infer_rows))
            if not sample and self.columns is None:
                return None
            schema = self._found_schema(sample)
            rows = chain(sample, rows)
        check_names(schema, settings=self.call.settings, file=files[0].name if files else None)
        staged_rows = _StagedRows(self.call, schema, self._conversion(schema))
        staged_rows.add_all(rows)
        staged_rows.nulls.refuse(lambda row, index: self._place(files, parser, row, schema.names[index]))
        staged = staged_rows.writer.finish()
        return InputRows(
            make_frame=staged.make_frame,
            plain=staged.plain,
            schema=schema,
            declared=self.schema is not None,
            bytes=staged.bytes,
            count=staged.rows,
            undeclared=staged_rows.undeclared.listed(),
            found=self._needed(staged_rows.undeclared, files),
            locate=lambda row: self._place(files, parser, row, None),
        )

    def _conversion(self, schema: pa.Schema) -> _Conversion:
        sampled = self.call.settings.infer_rows if self.contract is FieldContract.EVOLVE else 0
        return _Conversion(schema, self.formats, self.marked, hint=self._hint(), sampled=sampled)

    def _needed(self, undeclared: UndeclaredFields, files: Sequence[Utf8File]) -> pa.Schema | None:
        """Columns for fields that have none.

        Raises InvalidData for one whose values are of several kinds.
        """
        fields = [
            item
            for name, values in undeclared.samples.items()
            for item in infer_json_schema([{name: value} for value in values], file=files[0].name)  # type: ignore[dict-item]
        ]
        return pa.schema(fields) if fields else None

    def wrong_lines(self, files: Sequence[Utf8File], *, limit: int) -> list[WrongRow]:
        """The first lines that are no row of the declared schema.

        Raises LimitExceeded for a line that is too long.
        """
        if self.schema is None:
            return []
        parser = JsonParser(exact_numbers=self._is_exact(), depth_max=self.call.settings.depth_max)
        conversion, found = self._conversion(self.schema), list[WrongRow]()
        for file in files:
            for text, line in _texts_of_lines(file, self.call):
                try:
                    conversion.check(_row_of(_parsed(text, line, file, parser), file, line, len(text)))
                except InvalidData as wrong:
                    found.append(WrongRow(file.path, line, line + 1, wrong))
                    if len(found) >= limit:
                        return found
        return found

    def _is_exact(self) -> bool:
        """Whether a column keeps more of a number than a float does."""
        schema = self.schema
        if schema is None and self.columns is not None:
            schema = pa.schema(list(self.columns.types.items()))
        return self.geo or bool(self.marked) or (schema is not None and needs_exact_numbers(schema))

    def _hint(self) -> str | None:
        """What to do about a row that does not fit, where nobody has declared columns."""
        if self.schema is not None:
            return FREEZE_HINT if self.contract is FieldContract.FREEZE else None
        if self.columns is not None:
            return DECLARE_HINT
        if self.given is not None:
            return "declare a schema with another type"
        return f"the first {self.call.settings.infer_rows} rows looked like it; declare a schema"

    def _found_schema(self, sample: Sequence[JsonRow]) -> pa.Schema:
        """A sample's columns where the dataset has none: all at first, then event times."""
        rows, file = [row.members for row in sample], sample[0].file if sample else None
        if self.columns is None and self.given is not None:
            return self.given.columns
        if self.columns is None:
            return infer_json_schema(rows, file=sample[0].file)
        # What no column is declared for is refused with its line, row by row.
        names = dict.fromkeys(name for members in rows for name in members if self.columns.type_of(name) is not None)
        event_time = self.columns.event_time
        times = [{event_time: row[event_time]} for row in rows if row.get(event_time) is not None]
        inferred = infer_json_schema(times, file=sample[0].file) if times else pa.schema([])
        known = {item.name: item.type for item in inferred} or {event_time: TIMESTAMP_TYPE}
        fields = [pa.field(name, known.get(name, pa.string())) for name in names]
        return self.columns.schema(pa.schema(fields), place=Place(file=file), partial=True)

    def _place(self, files: Sequence[Utf8File], parser: JsonParser, row: int, name: str | None) -> Place:
        found = next(islice(self._rows(files, parser), row, None))
        return Place(file=found.file, line=found.line, row=found.row or row + 1, field=name)

    def _rows(self, files: Sequence[Utf8File], parser: JsonParser) -> Iterator[JsonRow]:
        if self.given is not None:
            yield from self.given.rows()
        for file in files:
            if self.sub_path is None and not self.geo:
                yield from _rows_of_lines(file, parser, self.call)
                continue
            values = (
                _lines(file, parser, self.call) if self.sub_path is None else self._items(file, parser, self.sub_path)
            )
            for value, line, length in values:
                if self.geo:
                    value = row_of_feature(value, Place(file=file.name, line=line))
                yield _row_of(value, file, line, length, is_line=self.sub_path is None)

    def _items(self, file: Utf8File, parser: JsonParser, sub_path: str) -> Iterator[tuple[JsonValue, int, int]]:
        maximum = self.call.settings.document_bytes_max
        if file.size > maximum:
            raise LimitExceeded(
                "The JSON document is too large",
                limit="document_bytes_max",
                maximum=maximum,
                place=Place(file=file.name),
            )
        with file.text() as stream:
            document = JsonDocument(stream.read(), parser, file=file.name)
            yield from document.features() if self.geo else document.items(sub_path)


def _row_of(value: JsonValue, file: Utf8File, line: int, length: int, *, is_line: bool = True) -> JsonRow:
    if not isinstance(value, dict):
        raise no_row(value, Place(file=file.name, line=line), line=is_line)
    return JsonRow(value, file.name, line, length)


def _rows_of_lines(file: Utf8File, parser: JsonParser, call: EngineCall) -> Iterator[JsonRow]:
    """What `_row_of` makes of `_lines`, without a call for each."""
    name, parse = file.name, parser.parse
    for text, line in _texts_of_lines(file, call):
        try:
            value = parse(text)
        except ValueError as error:
            raise bad_line(error, text, Place(file=name, line=line)) from None
        if type(value) is not dict:
            raise no_row(value, Place(file=name, line=line), line=True)
        yield JsonRow(value, name, line, len(text))


def _lines(file: Utf8File, parser: JsonParser, call: EngineCall) -> Iterator[tuple[JsonValue, int, int]]:
    for text, line in _texts_of_lines(file, call):
        yield _parsed(text, line, file, parser), line, len(text)


def _parsed(text: str, line: int, file: Utf8File, parser: JsonParser) -> JsonValue:
    try:
        return parser.parse(text)
    except ValueError as error:
        raise bad_line(error, text, Place(file=file.name, line=line)) from None


def _texts_of_lines(file: Utf8File, call: EngineCall) -> Iterator[tuple[str, int]]:
    """Lines that are not blank, with their numbers."""
    maximum = call.settings.line_bytes_max
    with file.text() as stream:
        line = 0
        while text := stream.readline(maximum + 1):
            line += 1
            if len(text) > maximum:
                place = Place(file=file.name, line=line)
                raise LimitExceeded("A line is too long", limit="line_bytes_max", maximum=maximum, place=place)
            if stripped := text.strip(_SPACE):
                yield stripped, line


class _Conversion:
    """From the members of rows to the values of columns.

    `hint` is what to do about a field without a column; None: it is left out.
    """

    def __init__(
        self, schema: pa.Schema, formats: TextFormats, marked: JsonMembers, *, hint: str | None, sampled: int
    ) -> None:
        self._hint = hint
        self._required = [not item.nullable for item in schema]
        self._names = frozenset(schema.names)
        self._converts: list[tuple[str, Convert]] = [
            (item.name, member_converter(item, formats, path=item.name, marked=marked)) for item in schema
        ]
        self._makers: list[tuple[str, ToArray]] = [
            (name, array_maker(item.type, convert, formats, marked=name in marked))
            for item, (name, convert) in zip(schema, self._converts, strict=True)
        ]
        self.undeclared = UndeclaredFields(schema.names, sampled=sampled)

    def arrays(self, rows: Sequence[JsonRow]) -> list[pa.Array]:
        """One array for each column.

        Raises InvalidData naming the field of the first row that is wrong.
        """
        made = self._made(rows)
        if made is None:
            for row in rows:
                self.values(row)
            raise AssertionError("rows that fit one by one fit together")
        return made

    def _made(self, rows: Sequence[JsonRow]) -> list[pa.Array] | None:
        """One array for each column; None if a row is wrong."""
        members, names = [row.members for row in rows], self._names
        with_others = [item for item in members if not item.keys() <= names]
        if self._hint is not None and any(
            value is not None for item in with_others for name, value in item.items() if name not in names
        ):
            return None
        made = []
        for name, make in self._makers:
            array = make([item.get(name) for item in members])
            if array is None:
                return None
            made.append(array)
        has_gaps = any(array.null_count for array, is_required in zip(made, self._required, strict=True) if is_required)
        if has_gaps and any(item and names.isdisjoint(item) for item in members):
            return None
        for item in with_others:
            self.undeclared.add(item)
        return made

    def values(self, row: JsonRow) -> list[object]:
        """One value for each column. Raises InvalidData naming the field."""
        undeclared = self.undeclared.add(row.members)
        if undeclared is not None and self._hint is not None:
            place = Place(file=row.file, line=row.line, field=undeclared)
            raise InvalidData(
                f"There is no column for the field `{shown_name(undeclared)}`", place=place, hint=self._hint
            )
        if any(self._required) and row.members and self._names.isdisjoint(row.members):
            raise no_declared_field(row.members, Place(file=row.file, line=row.line))
        values: list[object] = []
        for name, convert in self._converts:
            value = row.members.get(name)
            try:
                values.append(None if value is None else convert(value))
            except Misfit as misfit:
                place = Place(file=row.file, line=row.line, field=name + misfit.path, row=row.row)
                hint = "; or: ".join(filter(None, (self._hint, misfit.hint)))
                raise InvalidData(misfit.message, place=place, hint=hint or None) from None
        return values

    def check(self, row: JsonRow) -> None:
        """Raises InvalidData also for a null where none may be."""
        for value, is_required, (name, _) in zip(self.values(row), self._required, self._converts, strict=True):
            if value is None and is_required:
                place = Place(file=row.file, line=row.line, field=name)
                raise InvalidData(unexpected_nulls(name, 1), place=place, hint=NULLS_HINT)


class _StagedRows:
    """Rows on their way into the staging file, a batch at a time."""

    def __init__(self, call: EngineCall, schema: pa.Schema, conversion: _Conversion) -> None:
        self._batch_rows = min(call.settings.batch_rows, _PARSED_ROWS)
        self._batch_bytes = min(call.settings.batch_bytes, _PARSED_BYTES)
        self._conversion = conversion
        self._waiting: list[JsonRow] = []
        self._length = 0
        self.nulls = NullCounts(schema)
        self.writer = StagingWriter(call, schema, "json")

    @property
    def undeclared(self) -> UndeclaredFields:
        """Fields of the rows without a column."""
        return self._conversion.undeclared

    def add_all(self, rows: Iterable[JsonRow]) -> None:
        """Writes rows.

        Raises InvalidData for the first that is wrong, be it no JSON or no value of its column.
        """
        try:
            for row in rows:
                self._waiting.append(row)
                self._length += row.length
                if len(self._waiting) >= self._batch_rows or self._length >= self._batch_bytes:
                    self._flush()
        except OdfError:
            self._flush()  # what is wrong with a row before comes first
            raise
        self._flush()

    def _flush(self) -> None:
        rows, self._waiting, self._length = self._waiting, [], 0
        if rows:
            columns = self._conversion.arrays(rows)
            self.nulls.add(columns, self.writer.rows)
            self.writer.write(columns)
