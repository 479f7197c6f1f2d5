"""Files of runs: what they say of the times at which rows close."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric_engine_spark.state.run import CLOSES, CloseTimes
from odfabric_engine_spark.state.run_file import RunWriter, open_written

SCHEMA = pa.schema([pa.field(CLOSES, pa.int64())])

closing = st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 3)))
"""The hash of a row, and when it closes."""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@given(rows=st.lists(closing, min_size=1, max_size=30), at_once=st.integers(1, 5), told_max=st.integers(1, 40))
def test_close_times_are_kept_once_however_many_are_held(
    rows: list[tuple[int, int | None]], at_once: int, told_max: int, scratch: Path
) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    hashes = np.array([row[0] for row in rows], dtype=np.uint64)
    table = pa.table({CLOSES: pa.array([row[1] for row in rows], pa.int64())})
    writer = RunWriter(SCHEMA, scratch, _close_times_max=told_max)
    for begin in range(0, len(rows), at_once):
        writer.write(hashes[begin : begin + at_once], table.slice(begin, at_once))
    found = open_written(writer.finish(), SCHEMA).close_times
    wanted = sorted({(closes, number) for number, closes in rows if closes is not None})
    assert list(zip(found.times.tolist(), found.hashes.tolist(), strict=True)) == wanted
    assert found.never == any(closes is None for _, closes in rows)
    assert CloseTimes.of(hashes, table.column(CLOSES).combine_chunks()).never == found.never
