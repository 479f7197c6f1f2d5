"""The header of a CSV against the names that its columns must have.

Owns every refusal of a header. Invariant: names are compared exactly and in any order; a difference is named, not repaired, and
the message says which one it is: other case or spaces, columns that came or went, lines above the header, another kind of file.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.errors import InvalidData, LimitExceeded, Place
from odfabric.formats.files.csv_grammar import Cell, CsvDialect, CsvRecords
from odfabric.formats.files.csv_options import WHOLE_LINES
from odfabric.formats.slices.column_names import shown_name
from odfabric_engine_spark.ingest.encodings import Utf8File

BOM = "\ufeff"
OR_WHOLE_LINES = f"or {WHOLE_LINES}: SELECT r.* FROM (SELECT from_csv(line, 'id BIGINT, ..', map('sep', ',')) AS r FROM input WHERE ..)"
ABSENT = -1
"""The position of a column that a header does not have."""
_SET_SOURCE = "`odf set-source`"
_LINES_SEARCHED = 100
_COLUMNS_MIN = 2
"""A table of fewer columns may have its name among its values."""
_FIRST_LINE_CHARACTERS = 1 << 16
_NAMES_SHOWN = 10
_SEPARATORS = ",;\t|"
_COMMENTS = ("#", "//", "--", "%", "!", "*")
_PAGE = re.compile(r"\s*<(?:!--|(?:!doctype\s+html|html|head|body)\b)", re.IGNORECASE)
_XML = re.compile(r"\s*<\?xml\b")
_STATEMENT = re.compile(
    r"\s*(?:PRAGMA\s+\w+\s*=|BEGIN(?:\s+TRANSACTION)?;|/\*!\d{5}|(?:CREATE|DROP)\s+TABLE\s"
    r"|INSERT\s+INTO\s.*\sVALUES\b|SET\s+\w+\s*=.*;|COPY\s.*\sFROM\s+stdin;)",
    re.IGNORECASE,
)
_JSON = re.compile(r'\s*(?:\[\s*)?\{\s*"')
_EXCEL_NOTE = re.compile(r"\"?sep=(.)\"?\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Header:
    """Names of the first record, and the wanted ones; None for any.

    Wanted by the schema, or the first file.

    `others_left_out` says that a header may have more names, `optional` which ones it may lack if it has any other.
    """

    file: Utf8File
    cells: Sequence[Cell]
    wanted: Sequence[str] | None
    declared: bool
    dialect: CsvDialect
    line_characters_max: int
    others_left_out: bool = False
    optional: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """The names in the order of the file."""
        return [cell.text for cell in self.cells]

    def order(self) -> list[int]:
        """For each name that is wanted the column in which it stands, or ABSENT.

        Raises InvalidData.
        """
        names = self.names
        if self.wanted is not None and len(set(names)) == len(names) and set(names) == set(self.wanted):
            return [names.index(name) for name in self.wanted]
        if self.wanted is not None and self.others_left_out and self._has_enough(names, self.wanted):
            return [names.index(name) if name in names else ABSENT for name in self.wanted]
        self._refuse_other_files()
        if self.wanted is not None:
            self._refuse_lines_above(self.wanted)
        self._refuse_bad_names()
        if self.wanted is None:
            self._refuse_unsplit()
        else:
            self._refuse_difference(self.wanted)
        return list(range(len(names)))

    def _has_enough(self, names: Sequence[str], wanted: Sequence[str]) -> bool:
        there = [name for name in wanted if name in names]
        absent = set(wanted) - set(there)
        others = [name for name in names if name not in set(wanted)]
        return bool(there) and absent <= self.optional and _has_all(names, there) and not _near(others, sorted(absent))

    def _refused(self, message: str, hint: str, *, at: Cell | None = None) -> InvalidData:
        cell = at or self.cells[0]
        name = shown_name(at.text) if at is not None else None
        place = Place(file=self.file.name, line=cell.line, column=at.column if at else None, field=name or None)
        return InvalidData(message, place=place, hint=hint)

    def _refuse_other_files(self) -> None:
        if problem := other_kind(self.file):
            raise problem
        begin = first_line(self.file)
        if self.wanted is not None and _JSON.match(begin):
            raise self._refused("The file looks like JSON, and is read as CSV", "send it with the media type of JSON")
        if problem := excel_note(self.file):
            raise problem

    def _refuse_lines_above(self, wanted: Sequence[str]) -> None:
        line = self._line_of(wanted)
        if line is None:
            return
        is_comment = self.cells[0].text.lstrip().startswith(_COMMENTS)
        raise self._refused(
            f"Line {self.cells[0].line} is {'a comment' if is_comment else 'no header'}: the header stands in line {line}",
            f"remove the lines above the header, {OR_WHOLE_LINES}",
        )

    def _line_of(self, wanted: Sequence[str]) -> int | None:
        """The line among the next ones that has the names that are wanted."""
        with self.file.text() as stream:
            for line in range(1, _LINES_SEARCHED + self.cells[0].line + 1):
                text = stream.readline(self.line_characters_max)
                if not text:
                    return None
                if line > self.cells[0].line and sorted(names_of(text, self.dialect)) == sorted(wanted):
                    return line
        return None

    def _refuse_bad_names(self) -> None:
        seen: dict[str, int] = {}
        for index, cell in enumerate(self.cells):
            if not cell.text:
                raise self._unnamed(index, cell)
            if cell.text in seen:
                raise self._refused(
                    f"Column {index + 1} `{shown_name(cell.text)}` appears twice: it is also the name of column "
                    f"{seen[cell.text] + 1}",
                    "name each column once: rename it in the file, or write header: false with a schema of String columns, "
                    "and leave out the first row in the preprocess query",
                    at=cell,
                )
            seen[cell.text] = index

    def _unnamed(self, index: int, cell: Cell) -> InvalidData:
        if index == len(self.cells) - 1 and index:
            hint = "the header ends with a separator: remove it, or give the column a name"
        elif not index:
            hint = "pandas writes its index so: leave it out by to_csv(.., index=False), or give the column a name"
        else:
            hint = (
                "give the column a name in the file, or write header: false and a schema, if the first row is no header"
            )
        return self._refused(f"Column {index + 1} `` has no name", hint, at=cell)

    def _refuse_difference(self, wanted: Sequence[str]) -> None:
        names = self.names
        whose = "the schema" if self.declared else "the first file, or the dataset,"
        added = [name for name in names if name not in set(wanted)]
        gone = [name for name in wanted if name not in set(names)]
        self._refuse_other_separator(wanted)
        near = _near(added, gone)
        if near and len(near) == len(added) == len(gone):
            pairs = ", ".join(
                f"`{_visible(one)}` is `{_visible(other)}` in {whose}" for one, other in near[:_NAMES_SHOWN]
            )
            raise self._refused(
                f"The header has other names by {_kinds(near)} only: {pairs}",
                f"write the names alike: in the file, or in the schema by {_SET_SOURCE}, and rename in the preprocess query",
            )
        if len(added) == len(names) and len(names) == len(wanted) and not near:
            raise self._refused(
                f"The header names {_listed(names)}, but {whose} has {_listed(wanted)}",
                "header: false, if the first row is data" if _is_data(names) else _renamed_hint(),
            )
        raise self._refused(_came_and_went(added, gone, whose), _changed_hint(added, gone))

    def _refuse_unsplit(self) -> None:
        """Refuse one column that another separator splits into several.

        It cuts name and first value into as many parts.
        """
        if len(self.cells) > 1 or self.cells[0].quoted:
            return
        with self.file.text() as stream:
            lines = [line for line in islice(_lines(stream), _LINES_SEARCHED) if line.strip()][:2]
        for separator in _SEPARATORS:
            other = CsvDialect(separator=separator, quote=self.dialect.quote, escape=self.dialect.escape)
            names = names_of(lines[0].rstrip("\r\n"), other)
            values = names_of(lines[1].rstrip("\r\n"), other) if len(lines) > 1 else []
            if len(names) > 1 and all(names) and len(values) == len(names):
                raise self._refused(
                    f"The file seems to be separated by {separator!r}, and the read step says {self.dialect.separator!r}",
                    f"write `separator: {_yaml_separator(separator)}` in the read step; if it is one column, declare it in a schema",
                )

    def _refuse_other_separator(self, wanted: Sequence[str]) -> None:
        begin = first_line(self.file)
        for separator in _SEPARATORS:
            other = CsvDialect(separator=separator, quote=self.dialect.quote, escape=self.dialect.escape)
            names = set(names_of(begin, other))
            known = names & set(wanted)
            if separator != self.dialect.separator and len(known) > 1 and (len(known) == len(wanted) or self.optional):
                raise self._refused(
                    f"The header is separated by {separator!r}, and the read step says {self.dialect.separator!r}",
                    f"write `separator: {_yaml_separator(separator)}` in the read step by {_SET_SOURCE}",
                )


def _lines(stream: io.TextIOWrapper) -> Iterator[str]:
    while line := stream.readline(_FIRST_LINE_CHARACTERS):
        yield line


def other_kind(file: Utf8File) -> InvalidData | None:
    """Why a file that begins like a page or another document is no table of text.

    None if it does not.
    """
    begin = first_line(file)
    place = Place(file=file.name, line=1)
    if _PAGE.match(begin):
        return InvalidData(
            "The file is an HTML page, not data",
            place=place,
            hint="servers answer so to sign-ins, errors and moved files: open the address in a browser and look at what it says",
        )
    if _XML.match(begin):
        return InvalidData("The file is XML, which is not read", place=place, hint="convert it to CSV or NDJSON")
    if _is_dump(file):
        return InvalidData(
            "The file is a dump of SQL statements, not data",
            place=place,
            hint="export the rows: `psql -c '\\copy t TO t.csv CSV HEADER'`, `sqlite3 -header -csv FILE 'SELECT * FROM t'`,"
            " or `mysql --batch -e 'SELECT * FROM t'` for values between tabs",
        )
    return None


def _is_dump(file: Utf8File) -> bool:
    """Whether the first line of content begins an SQL statement.

    The first that is neither empty nor a comment of SQL.
    """
    with file.text() as stream:
        for _ in range(_LINES_SEARCHED):
            line = stream.readline(_FIRST_LINE_CHARACTERS)
            if not line or (line.strip() and not line.lstrip().startswith("--")):
                return _STATEMENT.match(line) is not None
    return False


def excel_note(file: Utf8File) -> InvalidData | None:
    """The refusal of a first line `sep=;`, by which spreadsheets know the separator.

    None if there is none.
    """
    begin = first_line(file)
    found = _EXCEL_NOTE.fullmatch(begin)
    if found is None:
        return None
    return InvalidData(
        f"The first line `{shown_name(begin.strip())}` is a note for Excel, and neither header nor data",
        place=Place(file=file.name, line=1),
        hint=f"remove the first line; `separator: {_yaml_separator(found[1])}` in the read step says the same",
    )


def first_line(file: Utf8File) -> str:
    """The first line that is not empty, cut if it is very long."""
    with file.text() as stream:
        for _ in range(_LINES_SEARCHED):
            line = stream.readline(_FIRST_LINE_CHARACTERS)
            if line.strip() or not line:
                return line.rstrip("\r\n")
    return ""


def names_of(line: str, dialect: CsvDialect) -> list[str]:
    """The cells of a line by itself; none if it is no record."""
    stream = io.StringIO(line.removeprefix(BOM), newline="")
    try:
        records = CsvRecords(stream, dialect, file=None, value_characters_max=len(line) + 1)
        return [cell.text for cell in next(iter(records), [])]
    except (InvalidData, LimitExceeded):
        return []


def repeated_row(batch: pa.RecordBatch, names: Sequence[str], *, null: str) -> int | None:
    """The first row of a batch that repeats a header of two or more columns.

    Texts equal to `null` are null.
    """
    if len(names) < _COLUMNS_MIN:
        return None
    first = pc.is_in(batch.column(0), value_set=pa.array([names[0], BOM + names[0]]))
    for at in np.flatnonzero(first.to_numpy(zero_copy_only=False)):
        row = (column[int(at)].as_py() for column in batch.columns[1:])
        if all(text == (None if name == null else name) for text, name in zip(row, names[1:], strict=True)):
            return int(at)
    return None


def _near(added: Sequence[str], gone: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of a new and a missing name that differ only in case, spaces and signs."""
    plain: dict[str, str] = {_plain(name): name for name in reversed(gone)}
    return [(name, plain[_plain(name)]) for name in added if _plain(name) and _plain(name) in plain]


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def _kinds(pairs: Sequence[tuple[str, str]]) -> str:
    kinds = dict[str, None]()
    for one, other in pairs:
        if one.strip().strip(BOM) != one or other.strip() != other:
            kinds["spaces around them"] = None
        if one.strip(BOM).strip() != other.strip():
            is_case = one.strip().casefold() == other.strip().casefold()
            kinds["upper and lower case" if is_case else "spaces or other signs within"] = None
    return " and ".join(kinds)


def _has_all(names: Sequence[str], wanted: Sequence[str]) -> bool:
    return set(wanted) <= set(names) and all(names.count(name) == 1 for name in wanted)


def _visible(name: str) -> str:
    return shown_name(name.replace(BOM, "\\ufeff").replace("\u00a0", "\\u00a0"))


def _is_data(names: Sequence[str]) -> bool:
    """Whether texts look like values more than like names."""
    return any(re.fullmatch(r"[+-]?[\d.,:/ -]+", name) for name in names)


def _renamed_hint() -> str:
    return f"write the names of the file in the schema by {_SET_SOURCE}; header: false reads a file without a header"


def _came_and_went(added: Sequence[str], gone: Sequence[str], whose: str) -> str:
    parts = []
    if added:
        parts.append(f"names {_listed(added)}, which {whose} has not")
    if gone:
        parts.append(f"lacks {_listed(gone)}")
    return f"The header {', and '.join(parts)}"


def _changed_hint(added: Sequence[str], gone: Sequence[str]) -> str:
    if added and gone:
        return f"declare the columns as the file has them by {_SET_SOURCE}, and rename or fill them in the preprocess query"
    if added:
        return f"declare the new column by {_SET_SOURCE}, and leave it out or take it in the preprocess query"
    return (
        f"if it is missing for good, declare the columns without it by {_SET_SOURCE}, and write NULL in its place in the "
        "preprocess query, such as CAST(NULL AS STRING) AS name"
    )


def _yaml_separator(separator: str) -> str:
    return '"\\t"' if separator == "\t" else f"'{separator}'"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(f"`{_visible(name)}`" for name in islice(names, _NAMES_SHOWN)) + more
