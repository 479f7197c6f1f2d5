"""CSV as rows of cells: the grammar, and where each cell stands.

Owns the one definition of our CSV. A record ends with CR, LF or CR LF; empty lines are no records. A cell is either quoted -
everything up to the closing quote, with doubled quotes and escaped quotes standing for one, line ends included - or plain:
everything up to the next separator, as it stands, spaces, quotes and escapes in it too. After a closing quote only a
separator or the end of the record may follow. The escape character means something only inside quotes and only before a
quote: a run of escapes directly before a quote is read in pairs, each pair an escape and an odd last one with the quote a
quote; all other escapes stand for themselves, as in `"\\server\\share"`. Invariant: this parser and the fast one (`csv_cells` of the engine) give the same rows, which a test holds to.
Source: RFC 4180.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from odfabric.errors import InvalidData, LimitExceeded, Place

_CHUNK_CHARACTERS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    """The three characters of a CSV.

    `quote` and `escape` None mean that there is none.
    """

    separator: str
    quote: str | None
    escape: str | None


@dataclass(frozen=True, slots=True)
class Cell:
    """A value, whether it was quoted, and where it begins (from 1)."""

    text: str
    quoted: bool
    line: int
    column: int


class CsvRecords:
    """The records of a text stream, in order.

    Raises InvalidData with line and column, LimitExceeded for a huge cell.
    """

    def __init__(self, stream: IO[str], dialect: CsvDialect, *, file: str | None, value_characters_max: int) -> None:
        self._stream = stream
        self._file = file
        self._max = value_characters_max
        self._quote = dialect.quote
        self._escape = dialect.escape if dialect.escape != dialect.quote else None
        separator = re.escape(dialect.separator)
        self._plain = re.compile(rf"[^{separator}\r\n]*+")
        # The end of a cell: the separator, or the end of the record.
        self._end = re.compile(rf"{separator}|\r\n|\r|\n")
        self._separator = dialect.separator
        self._inside, self._pair = self._patterns_inside()
        self._escaped_quote = "" if self._escape is None or self._quote is None else self._escape + self._quote
        self._text = ""
        self._last_raw = ""
        self._position = 0
        self._dropped = 0
        self._ended = False
        self._line = 1
        self._line_start = 0

    @property
    def consumed(self) -> int:
        """Characters read up to the end of the last record, its line end included."""
        return self._dropped + self._position

    def __iter__(self) -> Iterator[list[Cell]]:
        while self._more():
            cells, end = self._record()
            # A line with nothing in it is no record; one cell that is quoted is.
            if len(cells) > 1 or cells[0].text or cells[0].quoted:
                yield cells
            self._new_line(end)

    def _patterns_inside(self) -> tuple[re.Pattern[str] | None, re.Pattern[str] | None]:
        if self._quote is None:
            return None, None
        quote = re.escape(self._quote)
        if self._escape is None:
            return re.compile(rf"(?:[^{quote}]|{quote}{quote})*+"), re.compile(rf"{quote}({quote})")
        escape = re.escape(self._escape)
        pairs = rf"(?:{escape}{escape})"
        # In this order: an escaped quote, pairs before a quote that closes or is doubled, escapes that stand for themselves.
        runs = rf"{pairs}*+{escape}{quote}|{pairs}++(?={quote})|{escape}++(?!{quote})"
        inside = rf"(?:[^{quote}{escape}]|{quote}{quote}|{runs})*+"
        # A run is looked at from its first escape only, which keeps long ones linear.
        pair = rf"(?<!{escape})({pairs}*+)[{quote}{escape}]({quote})|(?<!{escape})({pairs}++)\Z"
        return re.compile(inside), re.compile(pair)

    def _record(self) -> tuple[list[Cell], str]:
        cells = []
        while True:
            cells.append(self._cell())
            end = self._end_of_cell()
            if end != self._separator:
                return cells, end

    def _cell(self) -> Cell:
        line, column = self._line, self._position - self._line_start + 1
        if self._quote is not None and self._peek(1) == self._quote:
            return Cell(self._quoted(line, column), True, line, column)
        text = ""
        while True:
            match = self._plain.match(self._text, self._position)
            if match is None:
                raise AssertionError("the pattern of a plain cell matches everywhere")
            text += match[0]
            self._position = match.end()
            self._check_length(len(text), line, column)
            if self._position < len(self._text) or not self._refill():
                return Cell(text, False, line, column)

    def _quoted(self, line: int, column: int) -> str:
        start = self._position + 1
        while True:
            match = self._inside.match(self._text, start) if self._inside else None
            end = match.end() if match else start
            self._check_length(end - start, line, column)
            # The last characters of the text at hand may be half of a pair.
            if end + 2 <= len(self._text) or self._ended:
                break
            kept = self._position
            self._refill()
            start -= kept - self._position
        if self._text[end : end + 1] != self._quote:
            raise InvalidData(
                "A quoted value is not closed",
                place=Place(file=self._file, line=line, column=column),
                hint=self._hint(self._text[start:end], "end it with a quote; quotes inside a quoted value are doubled"),
            )
        raw = self._text[start:end]
        self._last_raw = raw
        for newline in re.finditer(r"\r\n|\r|\n", raw):
            self._line += 1
            self._line_start = start + newline.end()
        self._position = end + 1
        return self._pair.sub(self._unescaped, raw) if self._pair else raw

    def _unescaped(self, pair: re.Match[str]) -> str:
        if self._escape is None:
            return pair[1]
        run = pair[1] if pair[2] else pair[3]
        return self._escape * (len(run) // 2) + (pair[2] or "")

    def _hint(self, raw: str, hint: str) -> str:
        """Hint about quotes that do not fit in a raw value.

        An escape may stand before the one that was to close it.
        """
        if not self._escaped_quote or self._escaped_quote not in raw:
            return hint
        return (
            f"{self._escape} before a quote escapes it: if it is an ordinary sign of the file, write escape: '' in the read step; "
            f"else {hint}"
        )

    def _end_of_cell(self) -> str:
        following = self._peek(2)
        if not following:
            return ""
        match = self._end.match(self._text, self._position)
        if match is None:
            column = self._position - self._line_start + 1
            raise InvalidData(
                f"After the closing quote comes {following[0]!r} instead of a separator or the end of the line",
                place=Place(file=self._file, line=self._line, column=column),
                hint=self._hint(self._last_raw, "quotes inside a quoted value are doubled"),
            )
        self._position = match.end()
        return match[0]

    def _new_line(self, end: str) -> None:
        if end:
            self._line += 1
            self._line_start = self._position

    def _check_length(self, length: int, line: int, column: int) -> None:
        if length > self._max:
            place = Place(file=self._file, line=line, column=column)
            raise LimitExceeded("A value is too long", limit="line_bytes_max", maximum=self._max, place=place)

    def _more(self) -> bool:
        return bool(self._peek(1))

    def _peek(self, count: int) -> str:
        while len(self._text) - self._position < count and self._refill():
            continue
        return self._text[self._position : self._position + count]

    def _refill(self) -> bool:
        """Drops what was read and appends the next piece; False at the end of the stream."""
        if self._ended:
            return False
        piece = self._stream.read(_CHUNK_CHARACTERS)
        self._text = self._text[self._position :] + piece
        self._dropped += self._position
        self._line_start -= self._position
        self._position = 0
        self._ended = not piece
        return bool(piece)
