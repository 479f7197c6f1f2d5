"""Cutting CSV into cells: the fast parser means what our grammar says."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odfabric.errors import InvalidData
from odfabric.formats.files.csv_grammar import CsvDialect, CsvRecords
from odfabric_engine_spark.ingest.csv.csv_cells import CsvCells
from odfabric_engine_spark.ingest.encodings import as_utf8
from tests.support.turns import examples

# The two parsers.

CELL = st.text(alphabet='ab",\\\r\n é', max_size=5)


@settings(max_examples=examples(300))
@example(rows=[["", ""]], text='"""",')
@example(rows=[["", ""]], text='"a","b"\n"x",')
@given(
    rows=st.lists(st.lists(CELL, min_size=2, max_size=2), min_size=1, max_size=6),
    text=st.none() | st.text('ab",\n', max_size=20),
)
def test_both_parsers_give_the_same_cells(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], text: str | None
) -> None:
    if text is None:
        written = io.StringIO()
        csv.writer(written, lineterminator="\n").writerows(rows)
        text = written.getvalue()
    folder = tmp_path_factory.mktemp("csv")
    (folder / "f").write_bytes(text.encode())
    outcomes = []
    for watched in ('"', '"\\'):  # the second one makes believe that an escape occurs
        file = as_utf8(folder / "f", "f", encoding="utf-8", scratch=folder, watched=watched)
        special = file.special if watched == '"' else frozenset('"\\')
        cells = CsvCells(
            file=replace(file, special=special),
            dialect=CsvDialect(
                separator=",", quote='"', escape="\\" if watched == '"\\' and "\\" not in text else None
            ),
            header=False,
            null="",
            value_bytes_max=1000,
            batch_rows=2,
            batch_bytes=100,
        )
        try:
            outcomes.append([row for batch in cells.batches(2) for row in batch.to_pylist()])
        except InvalidData:
            outcomes.append([{"refused": None}])
    assert outcomes[0] == outcomes[1]


@settings(max_examples=examples(200))
@given(
    text=st.text('ab",\\\r\n', max_size=30),
    piece=st.integers(1, 5),
)
def test_pieces_in_which_a_stream_comes_change_nothing(text: str, piece: int) -> None:
    class Slow(io.StringIO):
        def read(self, size: int | None = -1, /) -> str:
            return super().read(piece)

    dialect = CsvDialect(separator=",", quote='"', escape="\\")
    outcomes: list[object] = []
    for stream in (io.StringIO(text, newline=""), Slow(text, newline="")):
        records = CsvRecords(stream, dialect, file="f", value_characters_max=1000)
        try:
            outcomes.append(list(records))
        except InvalidData as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
