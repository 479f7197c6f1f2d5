"""Rows of text files: true lines, faults reported and skipped, bounded memory."""

from __future__ import annotations

import csv
import io
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidData, LimitExceeded
from odfabric.formats.files.csv_grammar import CsvDialect, CsvRecords
from odfabric.formats.files.file_rows import BrokenRow, FileRows, RowBatch, RowLimits
from odfabric.model.file_shape import FileFormat, FileShape

LIMITS = RowLimits(columns_max=3, line_characters_max=100)
CSV, NDJSON, JSON = (FileShape(format=each) for each in (FileFormat.CSV, FileFormat.NDJSON, FileFormat.JSON))


def read(path: Path, data: str | bytes, shape: FileShape, **sizes: int) -> list[tuple[int, object]]:
    """Line and values of each row, or its message."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    found: list[tuple[int, object]] = []
    for one in FileRows(path, shape, LIMITS, **sizes).batches():
        if isinstance(one, RowBatch):
            found += zip(one.lines, zip(*one.columns.values(), strict=True), strict=True)
        else:
            found.append((one.line, one.message))
    return found


@given(
    st.lists(st.lists(st.text('ab",\\\n é', max_size=4), min_size=2, max_size=2), min_size=1, max_size=6),
    st.integers(1, 3),
)
def test_both_parsers_of_csv_give_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], batch_rows: int
) -> None:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    text = written.getvalue()
    shape = FileShape(format=FileFormat.CSV, header=False)
    dialect = CsvDialect(separator=",", quote='"', escape="\\")
    try:
        records = CsvRecords(io.StringIO(text, newline=""), dialect, file=None, value_characters_max=1000)
        expected = [(cells[0].line, tuple(cell.text for cell in cells)) for cells in records]
    except InvalidData:
        with pytest.raises(InvalidData):
            read(tmp_path_factory.mktemp("csv") / "f", text, shape)
        return
    if all(len(cells) == 2 for _, cells in expected):
        assert read(tmp_path_factory.mktemp("csv") / "f", text, shape, batch_rows=batch_rows) == expected


def test_rows_of_another_width_are_told_and_read_over(tmp_path: Path) -> None:
    found = read(tmp_path / "f", '\ufeffa,b\n1,"x\ny"\n1,2,3\n\n4,5\n', CSV)
    assert sorted(found, key=lambda each: each[0]) == [
        (2, ("1", "x\ny")),
        (4, "3 cells where the first row has 2"),
        (6, ("4", "5")),
    ]


def test_lines_that_are_no_objects_are_told_and_read_over(tmp_path: Path) -> None:
    found = read(tmp_path / "f", '{"a": 1}\n\n{"a": \n[1]\n{"a": 1, "a": 2}\n{"a": NaN}\n{"a": 2}', NDJSON)
    assert [line for line, message in found if isinstance(message, str)] == [3, 4, 5, 6]
    assert [row for row in found if not isinstance(row[1], str)] == [(1, (1,)), (7, (2,))]


@given(st.integers(1, 30))
def test_a_document_is_read_piece_by_piece(tmp_path_factory: pytest.TempPathFactory, piece: int) -> None:
    text = ' [ {"a": "é]"},\n\n{"a": 12} , {"a": [1,\n2]}\n, {"a": null}] \n'
    found = read(tmp_path_factory.mktemp("json") / "f", text, JSON, piece_characters=piece)
    assert found == [(1, ("é]",)), (3, (12,)), (3, ([1, 2],)), (5, (None,))]


@pytest.mark.parametrize(
    ("text", "shape", "line"),
    [
        ('a,b\n1,"x', CSV, 2),
        ('a\n"x"y\n', CSV, 2),
        ("a,\n1,2", CSV, 1),
        ("a,a\n1,2", CSV, 1),
        (b"a\n1\n2\xff", CSV, 3),
        (b'{"a": 1}\n{"a": "\xff"}', NDJSON, 2),
        ('{"a": 1}', JSON, 1),
        ('[{"a": 1}\n{"a": 2}]', JSON, 2),
        ('[{"a": 1}\n] 1', JSON, 2),
        ('[{"a": 1},\n', JSON, 2),
        ('[{"a": 1},\n' + "[" * 90, JSON, 2),
    ],
)
def test_what_ends_the_reading_is_told_with_its_line(
    tmp_path: Path, text: str | bytes, shape: FileShape, line: int
) -> None:
    with pytest.raises(InvalidData) as caught:
        read(tmp_path / "f", text, shape)
    assert caught.value.place.line == line
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "shape", "limit"),
    [
        ("a,b,c,d\n", CSV, "judged_columns_max"),
        ('{"a":1,"b":1,"c":1,"d":1}', NDJSON, "judged_columns_max"),
        ('{"a":"' + "x" * 100 + '"}', NDJSON, "judged_line_characters_max"),
        ('[{"a":"' + "x" * 100, JSON, "judged_line_characters_max"),
    ],
)
def test_limits_are_named(tmp_path: Path, text: str, shape: FileShape, limit: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        read(tmp_path / "f", text, shape, piece_characters=10)
    assert caught.value.limit == limit


@pytest.mark.parametrize(("shape", "row"), [(CSV, "1,2\n"), (NDJSON, '{"a": 1}\n'), (JSON, '{"a": 1},\n')])
def test_a_large_file_takes_no_more_memory_than_a_small_one(tmp_path: Path, shape: FileShape, row: str) -> None:
    path = tmp_path / "f"
    with path.open("w") as file:
        file.write("[" if shape is JSON else "a,b\n" if shape is CSV else "")
        for _ in range(5):
            file.write(row * 20_000)
        file.write('{"a": 1}]' if shape is JSON else "")
    tracemalloc.start()
    rows = 0
    for one in FileRows(path, shape, LIMITS, batch_rows=1000, piece_characters=10_000).batches():
        assert not isinstance(one, BrokenRow)
        rows += len(one.lines)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 100_000 + (shape is JSON)
    assert peak < 6_000_000
