"""Rows of a text file in batches: CSV, NDJSON and JSON.

Owns the way from bytes to values with the line of each row. Invariant: memory is bounded by one batch and the longest line; a row that cannot
be read is given as a `BrokenRow` and reading goes on behind it, where the format says where that is. CSV is cut by the grammar that the engine
has (`csv_grammar`); the parser of the standard library is used where it means the same. Not here: what values mean.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, NoReturn, TypeAlias

from odfabric.errors import InvalidData, LimitExceeded, Place
from odfabric.formats.files.csv_grammar import CsvDialect, CsvRecords
from odfabric.model.file_shape import FileFormat, FileShape

Value: TypeAlias = object
"""A cell of CSV as text, or a value of JSON; None where there is none."""

BATCH_ROWS = 2000
_PIECE_BYTES = 1 << 20
_QUOTE, _ESCAPE = '"', "\\"
_SPACE = " \t\r\n"
_SPACES = re.compile(r"[ \t\r\n]*")
_WIDTH_HINT = "look at the separator, and at quotes that are not closed"


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows by column: the line where each begins, from 1, and its values."""

    lines: Sequence[int]
    columns: Mapping[str, Sequence[Value]]


@dataclass(frozen=True, slots=True)
class BrokenRow:
    """A row that is none: its line, why, and what to write instead."""

    line: int
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLimits:
    """Most columns, and most characters of one line or value."""

    columns_max: int
    line_characters_max: int


@dataclass(frozen=True, slots=True)
class FileRows:
    """A file to be read in batches of `batch_rows`.

    `progress` gets how many of its bytes were read, after each batch.

    Of a JSON document `piece_characters` are read at once, and more of a record that is longer.
    """

    path: Path
    shape: FileShape
    limits: RowLimits
    progress: Callable[[int], None] = lambda _: None
    batch_rows: int = BATCH_ROWS
    piece_characters: int = _PIECE_BYTES

    def names(self) -> list[str]:
        """Names of the columns of a CSV file, as its first row has or implies them.

        None of an empty file. Raises InvalidData, LimitExceeded.
        """
        try:
            with self._text() as stream:
                first = next(iter(self._parsed(stream)), None)
        except UnicodeDecodeError:
            check_text(self.path)  # says where
            raise
        if first is None:
            return []
        if len(first) > self.limits.columns_max:
            self._too_wide(len(first))
        if not self.shape.header:
            return [f"column_{number}" for number in range(1, len(first) + 1)]
        names = [cell.text for cell in first]
        for cell in first:
            if not cell.text or names.count(cell.text) > 1:
                raise InvalidData(
                    f"two columns are called `{cell.text}`" if cell.text else "a column has no name",
                    place=Place(line=cell.line, column=cell.column),
                    hint="give each column a name of its own, or say that the first row holds values",
                )
        return names

    def batches(self) -> Iterator[RowBatch | BrokenRow]:
        """All rows in order.

        Raises InvalidData with the line for what ends the reading, LimitExceeded.
        """
        match self.shape.format:
            case FileFormat.CSV:
                yield from self._csv(has_escapes=check_text(self.path))
            case FileFormat.NDJSON:
                check_text(self.path)
                yield from self._json(self._json_lines)
            case FileFormat.JSON:
                check_text(self.path)
                yield from self._json(self._json_items)
            case FileFormat.PARQUET:
                raise ValueError("Parquet has columns, not lines")

    def _text(self) -> IO[str]:
        return self.path.open(encoding="utf-8-sig", newline="")

    def _parsed(self, stream: IO[str]) -> CsvRecords:
        dialect = CsvDialect(separator=self.shape.separator, quote=_QUOTE, escape=_ESCAPE)
        return CsvRecords(stream, dialect, file=None, value_characters_max=self.limits.line_characters_max)

    def _csv(self, *, has_escapes: bool) -> Iterator[RowBatch | BrokenRow]:
        names = self.names()
        with self._text() as stream:
            records = self._own_records(stream) if has_escapes else self._quick_records(stream)
            rows = islice(records, 1 if self.shape.header else 0, None)
            while read := list(islice(rows, self.batch_rows)):
                fitting = [record for record in read if len(record[1]) == len(names)]
                for line, cells in read:
                    if len(cells) != len(names):
                        yield BrokenRow(line, f"{len(cells)} cells where the first row has {len(names)}", _WIDTH_HINT)
                if fitting:
                    columns = zip(*(cells for _, cells in fitting), strict=True)
                    yield RowBatch([line for line, _ in fitting], dict(zip(names, columns, strict=True)))
                self.progress(stream.buffer.tell())  # type: ignore[attr-defined]

    def _own_records(self, stream: IO[str]) -> Iterator[tuple[int, list[str]]]:
        for cells in self._parsed(stream):
            yield cells[0].line, [cell.text for cell in cells]

    def _quick_records(self, stream: IO[str]) -> Iterator[tuple[int, list[str]]]:
        csv.field_size_limit(self.limits.line_characters_max)  # a setting of the process, and one that only we use
        reader = csv.reader(stream, delimiter=self.shape.separator, quotechar=_QUOTE, strict=True)
        line = 1
        while True:
            try:
                cells = next(reader, None)
            except csv.Error:
                self._find_flaw()
            if cells is None:
                return
            if cells:
                yield line, cells
            line = reader.line_num + 1

    def _find_flaw(self) -> NoReturn:
        """Raises what our own parser finds wrong first."""
        with self._text() as stream:
            for _ in self._parsed(stream):
                pass
        raise InvalidData("the quotes of this file are wrong", hint=_WIDTH_HINT)

    def _json(
        self, read: Callable[[IO[str]], Iterator[tuple[int, Value] | BrokenRow]]
    ) -> Iterator[RowBatch | BrokenRow]:
        with self._text() as stream:
            found = read(stream)
            while some := list(islice(found, self.batch_rows)):
                rows: list[tuple[int, dict[str, Value]]] = []
                for one in some:
                    if isinstance(one, BrokenRow):
                        yield one
                    elif isinstance(one[1], dict):
                        rows.append((one[0], one[1]))
                    else:
                        yield BrokenRow(one[0], "a row must be an object", 'write one like {"city": "Ulm", "value": 1}')
                if rows:
                    yield self._by_column(rows)
                self.progress(stream.buffer.tell())  # type: ignore[attr-defined]

    def _by_column(self, rows: Sequence[tuple[int, dict[str, Value]]]) -> RowBatch:
        names = dict.fromkeys(chain.from_iterable(members for _, members in rows))
        if len(names) > self.limits.columns_max:
            self._too_wide(len(names))
        return RowBatch(
            [line for line, _ in rows], {name: [members.get(name) for _, members in rows] for name in names}
        )

    def _json_lines(self, stream: IO[str]) -> Iterator[tuple[int, Value] | BrokenRow]:
        maximum, line = self.limits.line_characters_max, 0
        while text := stream.readline(maximum + 1):
            line += 1
            if len(text) > maximum:
                self._too_long(line)
            stripped = text.strip(_SPACE)
            if not stripped:
                continue
            try:
                yield line, _DECODER.decode(stripped)
            except (ValueError, RecursionError) as error:
                yield BrokenRow(line, f"not a JSON value: {_reason(error)}", "write one JSON object on each line")

    def _json_items(self, stream: IO[str]) -> Iterator[tuple[int, Value] | BrokenRow]:
        window = _Window(stream, self.piece_characters)
        if not window.next_sign():
            return
        if window.next_sign() != "[":
            self._no_document(window, "it is not an array")
        window.skip(1)
        while (sign := window.next_sign()) != "]":
            if not sign:
                self._no_document(window, "the array is not closed")
            yield window.line, self._json_item(window)
            sign = window.next_sign()
            if sign not in (",", "]", ""):
                self._no_document(window, "a comma or `]` is missing")
            if sign == ",":
                window.skip(1)
        window.skip(1)
        if window.next_sign():
            self._no_document(window, "there is more after the end of the document")

    def _json_item(self, window: _Window) -> Value:
        """The value that begins here.

        More of the file is read until it is whole, twice as much each time.
        """
        while True:
            try:
                value, end = _DECODER.raw_decode(window.text, window.position)
                length, is_whole = end - window.position, end < len(window.text)
                # A number may go on behind what was read of it.
                if is_whole or not window.read_more():
                    window.skip(length)
                    return value
            except (ValueError, RecursionError) as error:
                if len(window.text) - window.position > self.limits.line_characters_max:
                    self._too_long(window.line)
                if isinstance(error, RecursionError) or not window.read_more():
                    self._no_document(window, _reason(error))

    def _no_document(self, window: _Window, reason: str) -> NoReturn:
        raise InvalidData(
            f"not a JSON document: {reason}",
            place=Place(line=window.line),
            hint="write an array of objects; objects on lines of their own are NDJSON",
        )

    def _too_wide(self, columns: int) -> NoReturn:
        maximum = self.limits.columns_max
        raise LimitExceeded(f"the file has {columns} columns", limit="judged_columns_max", maximum=maximum)

    def _too_long(self, line: int) -> NoReturn:
        raise LimitExceeded(
            "a value is too long",
            limit="judged_line_characters_max",
            maximum=self.limits.line_characters_max,
            place=Place(line=line),
        )


class _Window:
    """The present part of a text, the next sign in it, and the line of that."""

    def __init__(self, stream: IO[str], piece_characters: int) -> None:
        self._stream = stream
        self._first_piece = self._piece = piece_characters
        self.text = ""
        self.position = 0
        self.line = 1

    def next_sign(self) -> str:
        """Skips white space; the sign that follows, empty at the end."""
        while True:
            spaces = _SPACES.match(self.text, self.position)
            self.skip((spaces.end() if spaces else self.position) - self.position)
            if self.position < len(self.text):
                return self.text[self.position]
            self._piece = self._first_piece
            if not self.read_more():
                return ""

    def skip(self, characters: int) -> None:
        """Go on, counting lines."""
        passed = self.text[self.position : self.position + characters]
        self.line += passed.count("\n") + passed.count("\r") - passed.count("\r\n")
        self.position += characters

    def read_more(self) -> bool:
        """Forget what was passed and append the next piece; False at the end of the file."""
        piece = self._stream.read(self._piece)
        self._piece *= 2
        self.text, self.position = self.text[self.position :] + piece, 0
        return bool(piece)


def check_text(path: Path) -> bool:
    """Whether a file has the sign by which quotes are escaped.

    Raises InvalidData with the line unless all of it is UTF-8.
    """
    decoder, lines, has_escapes = codecs.getincrementaldecoder("utf-8")(), 1, False
    with path.open("rb") as file:
        while True:
            piece = file.read(_PIECE_BYTES)
            try:
                decoder.decode(piece, final=not piece)
            except UnicodeDecodeError as error:
                line = lines + error.object[: error.start].count(b"\n")
                raise InvalidData("not UTF-8 text", place=Place(line=line), hint="save the file as UTF-8") from None
            if not piece:
                return has_escapes
            lines += piece.count(b"\n")
            has_escapes = has_escapes or _ESCAPE.encode() in piece


def _unique(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    members = dict(pairs)
    if len(members) != len(pairs):
        keys = [key for key, _ in pairs]
        double = next(key for index, key in enumerate(keys) if key in keys[:index])
        raise ValueError(f"the key {double[:60]!r} appears twice")
    return members


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON value")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deep"
    return str(getattr(error, "msg", error))
