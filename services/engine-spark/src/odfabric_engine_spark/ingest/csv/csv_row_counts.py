"""Rows of a CSV with too few or too many cells.

Owns the refusal and the way out: a separator at the end of rows, a title instead of a header, another separator, values that need
quotes, rows that are no data.
"""

from __future__ import annotations

from collections.abc import Sequence

from odfabric.errors import InvalidData, Place
from odfabric.formats.files.csv_grammar import Cell, CsvDialect
from odfabric_engine_spark.ingest.csv.csv_header import OR_WHOLE_LINES, names_of, other_kind
from odfabric_engine_spark.ingest.encodings import Utf8File

_SEPARATORS = ",;\t|"


def wrong_count(
    file: Utf8File, cells: Sequence[Cell], columns: int, dialect: CsvDialect, *, header: bool
) -> InvalidData:
    """The refusal of a row that has not `columns` cells.

    With `header` their number is that of the first record.
    """
    if problem := other_kind(file):
        return problem
    at = cells[columns] if len(cells) > columns else cells[-1]
    return InvalidData(
        f"The row has {_count(len(cells))} instead of {_count(columns)}",
        place=Place(file=file.name, line=cells[0].line, column=at.column),
        hint=_hint(cells, columns, dialect, header=header),
    )


def _hint(cells: Sequence[Cell], columns: int, dialect: CsvDialect, *, header: bool) -> str:
    last = cells[-1]
    if len(cells) == 1 and last.text == "\\.":
        return "this line ends what COPY of Postgres writes into a dump: remove it, or export by `\\copy t TO 't.csv' CSV HEADER`"
    if len(cells) == columns + 1 and not last.text and not last.quoted:
        return (
            "the row ends with a separator, which makes one more column, an empty one: write rows without a separator at the "
            f"end, {OR_WHOLE_LINES}"
        )
    if header and columns == 1 and len(cells) > 1:
        return (
            "the header has one column: if the first line is a title, remove it, and if the header has another separator, "
            "write it as the rows do"
        )
    if len(cells) == 1 and (separator := _other_separator(last.text, columns, dialect)):
        return f"the row seems to be separated by {separator!r}: write it as `separator` in the read step"
    if len(cells) > columns:
        quote = f"in {dialect.quote}" if dialect.quote is not None else "in quotes (`quote` in the read step)"
        return (
            f"a value with a separator within is written {quote}; a column that is new is declared by `odf set-source`"
        )
    return (
        "write every column in every row, an empty one as nothing between separators; if the row is no data (a title, a total, "
        f"a remark), leave it out, {OR_WHOLE_LINES}"
    )


def _other_separator(text: str, columns: int, dialect: CsvDialect) -> str | None:
    for separator in _SEPARATORS:
        other = CsvDialect(separator=separator, quote=dialect.quote, escape=dialect.escape)
        if separator != dialect.separator and columns > 1 and len(names_of(text, other)) == columns:
            return separator
    return None


def _count(columns: int) -> str:
    return "1 column" if columns == 1 else f"{columns} columns"
