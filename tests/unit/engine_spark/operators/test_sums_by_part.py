"""Sums by parts of keys equal the sums of all rows, with bounded memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric_engine_spark.arrays.byte_hash import byte_hashes
from odfabric_engine_spark.operators.aggregate.accumulators.aggregate_functions import Accumulators
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import CountStatistic, SumStatistic
from odfabric_engine_spark.operators.aggregate.group_sums import STEP, WEIGHT, GroupedRows, Marks, PartialSums
from odfabric_engine_spark.operators.aggregate.group_versions import GroupShape
from odfabric_engine_spark.operators.aggregate.partitioned_sums import SumsByPart
from odfabric_engine_spark.plan.group_keys import KeyColumn
from odfabric_engine_spark.spark.calls.memory_limit import TransactionSize

COLUMNS = [
    KeyColumn("k", pa.string(), False, "k"),
    KeyColumn("d", pa.float64(), False, "d"),
    KeyColumn("end", pa.timestamp("us", "UTC"), False, "end"),
]
ACCUMULATORS = Accumulators((CountStatistic("rows", None), SumStatistic("sum0", 0, 0)), (), (pa.int64(),))
SHAPE = GroupShape(tuple(COLUMNS), ACCUMULATORS, "end", ())
MARKS = Marks(None, (10, 20))

row = st.tuples(
    st.sampled_from(("x", "y", "", None)),
    st.sampled_from((0.0, -0.0, float("nan"), 1.5, None)),
    st.sampled_from((5, 15, 25, None)),
    st.integers(-3, 3),
    st.sampled_from((1, 1, -1)),
    st.integers(0, 1),
)
"""Three columns of a key, a value, a weight, and a step."""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sums")


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * 6
    names = ["k", "d", "end", "input0", WEIGHT, STEP]
    types = [pa.string(), pa.float64(), COLUMNS[2].arrow, pa.int64(), pa.int32(), pa.int32()]
    arrays = [pa.array(list(values), kind) for values, kind in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, names=names)


def told(sums: PartialSums) -> dict[tuple[bytes, int], tuple[int, int]]:
    keys = sums.keys.to_pylist()
    assert len(set(keys)) == len(keys)
    assert sums.hashes.tolist() == sorted(byte_hashes(sums.keys).tolist())
    counts, totals = (array.to_pylist() for array in sums.values.arrays())
    entries = [(keys[group], step) for group, step in zip(sums.groups.tolist(), sums.steps.tolist(), strict=True)]
    assert (np.lexsort((sums.steps, sums.groups)) == np.arange(len(entries))).all()
    assert len(set(entries)) == len(entries)
    return dict(zip(entries, zip(counts, map(int, totals), strict=True), strict=True))


def summed(pieces: list[list[tuple[Any, ...]]], scratch: Path, groups_max: int, cores: int = 2) -> list[dict[Any, Any]]:
    limits = SimpleNamespace(groups_max=groups_max, cores=cores, stage_rows_each=6, transform_rows_in_memory_max=5)
    call: Any = SimpleNamespace(scratch=scratch, settings=limits, check=lambda: None)
    rows = sum(map(len, pieces))
    sums = SumsByPart(SHAPE, MARKS, rows=rows, size=TransactionSize(0), call=call)
    try:
        sums.add(map(table, pieces))
        parts = [told(sums.of_part(part)) for part in sums.parts()]
    finally:
        sums.close()
    assert not list(scratch.iterdir()), "files of scratch are left"
    return parts


def alone(rows: list[tuple[Any, ...]]) -> dict[tuple[str, int], tuple[int, int]]:
    """The same by plain Python.

    Keys are reported by their text, with one zero and one NaN.
    """
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for k, d, end, value, weight, step in rows:
        closing = 2 if end is None or end > 20 else int(end > 10)
        at = (repr((k, None if d is None else d + 0.0, end)), max(step, closing))
        count, total = found.get(at, (0, 0))
        found[at] = (count + weight, total + value * weight)
    return found


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.lists(row, max_size=8), min_size=1, max_size=4), groups_max=st.sampled_from((0, 1, 3, 100)))
def test_parts_together_are_the_sums_of_all_rows(
    scratch: Path, pieces: list[list[tuple[Any, ...]]], groups_max: int
) -> None:
    parts = summed(pieces, scratch, groups_max)
    merged = {entry: value for part in parts for entry, value in part.items()}
    assert len(merged) == sum(map(len, parts)), "a key is in two parts"
    (whole,) = summed([[each for piece in pieces for each in piece]], scratch, 1_000, cores=1)
    assert merged == whole
    expected = alone([each for piece in pieces for each in piece])
    assert sorted(whole.values()) == sorted(expected.values())
    assert len({key for key, _ in whole}) == len({key for key, _ in expected})


def test_many_groups_are_taken_in_parts(scratch: Path) -> None:
    rows = [(f"k{number}", None, None, 1, 1, 0) for number in range(200)]
    parts = summed([rows[:100], rows[100:]], scratch, 20)
    assert len(parts) > 5
    assert max(map(len, parts)) < 60
    assert sum(map(len, parts)) == 200
    assert np.all([value == (1, 1) for part in parts for value in part.values()])


def test_sums_that_are_far_fewer_than_their_rows_stay_in_memory(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the groups that may be in hand; a fifth time makes them too many."""
    files: list[int] = []
    plain = SumsByPart.row_files

    def counting(self: SumsByPart, schema: pa.Schema) -> Any:
        files.append(1)
        return plain(self, schema)

    monkeypatch.setattr(SumsByPart, "row_files", counting)
    pieces = [[(f"k{number}-{at}", None, None, 1, 1, 0) for at in range(4)] * 5 for number in range(12)]
    for count, in_files in ((4, 0), (12, 1)):
        parts = summed(pieces[:count], scratch, 4)
        assert sum(map(len, parts)) == 4 * count
        assert len(parts) > 2
        assert {value for part in parts for value in part.values()} == {(5, 5)}
        assert len(files) == in_files


def test_rows_of_one_key_are_summed_up_piece_by_piece(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    plain = GroupedRows.__init__

    def counting(self: GroupedRows, rows: pa.Table, columns: Any) -> None:
        lengths.append(rows.num_rows)
        plain(self, rows, columns)

    monkeypatch.setattr(GroupedRows, "__init__", counting)
    pieces = [[("hot", None, None, 1, 1, 0)] * 4 + [(f"k{number}", None, None, 1, 1, 0)] for number in range(40)]
    parts = summed(pieces, scratch, 1)
    assert max(lengths) <= 10
    assert sorted(value for part in parts for value in part.values())[-1] == (160, 160)
