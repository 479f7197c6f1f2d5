"""Rows of an answer file by ranges, with any row groups and in any order."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidData
from odfabric.formats.parquet.provenance_file import ProvenanceRow, ProvenanceRows, write_provenance_rows
from odfabric.model.provenance import CellRole, ProvenanceKind


def some_rows(count: int) -> list[ProvenanceRow]:
    return [
        ProvenanceRow(
            record=number // 4,
            kind=ProvenanceKind.CELLS,
            input=0,
            offset=number,
            column="city",
            output_column=None if number % 2 else "town",
            role=CellRole.COPIED,
        )
        for number in range(count)
    ]


@given(
    count=st.integers(0, 12),
    group_rows=st.integers(1, 13),
    asked=st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=5),
)
def test_law_ranges_of_row_groups_are_ranges_of_all_rows(
    count: int, group_rows: int, asked: list[tuple[int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "answer"
        rows = some_rows(count)
        assert write_provenance_rows(path, reversed(rows)) == count
        pq.write_table(pq.read_table(path), path, row_group_size=group_rows)
        answer = ProvenanceRows(path)
        for begin, end in asked:
            assert list(answer.between(begin, end)) == rows[begin:end]


def test_a_file_with_other_columns_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"record": [1]}), tmp_path / "answer")
    with pytest.raises(InvalidData, match="other columns"):
        list(ProvenanceRows(tmp_path / "answer").between(0, 1))
