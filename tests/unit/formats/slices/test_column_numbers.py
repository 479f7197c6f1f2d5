"""Numbers of columns without pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.formats.slices.column_numbers import numbers_of
from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.testing.chains import START
from tests.support.real_chains import COLUMNS, table

EXAMINES = """
import sys
from pathlib import Path
from odfabric.formats.slices.slice_check import SliceRules, examine_slice
from odfabric.model.metadata import OffsetInterval
from odfabric.model.vocabulary import DatasetVocabulary
rules = SliceRules(interval=OffsetInterval(start=0, end=2), vocabulary=DatasetVocabulary(), event_time_required=True)
found = examine_slice(Path(sys.argv[1]), rules)
assert (found.problems, found.digest.rows) == ((), 3), found
print("pandas" in sys.modules)
"""


@given(
    values=st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=20),
    kind=st.sampled_from([pa.int32(), pa.int64()]),
    skip=st.integers(0, 5),
)
def test_values_are_those_of_the_column(values: list[int | None], kind: pa.DataType, skip: int) -> None:
    column = pa.array(values, kind).slice(skip)
    found = numbers_of(column)
    assert len(found) == len(column)
    assert [each for each, value in zip(found, column.to_pylist(), strict=True) if value is not None] == [
        value for value in column.to_pylist() if value is not None
    ]


@pytest.mark.parametrize("kind", [pa.timestamp("ms", "UTC"), pa.date64(), pa.date32(), pa.time64("us")])
def test_moments_are_numbers_of_their_unit(kind: pa.DataType) -> None:
    numbers = [0, 86_400_000] if kind == pa.date64() else [0, 7]
    column = pa.array(numbers, pa.int32() if kind == pa.date32() else pa.int64()).view(kind)
    assert numbers_of(column).tolist() == numbers


def test_other_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="4 or 8"):
        numbers_of(pa.array([1], pa.int16()))


def test_a_slice_is_examined_without_pandas(tmp_path: Path) -> None:
    path = tmp_path / "slice"
    with SliceWriter(path, COLUMNS) as writer:
        for batch in table(0, [0, 0, 1], moment=START).to_batches():
            writer.write(batch)
    command = [sys.executable, "-P", "-c", EXAMINES, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr
