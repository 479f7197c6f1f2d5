"""Changes between stages without Spark: key hashes, weights, bounds, records."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from odfabric.formats.slices.canonical_rows import table_bytes
from odfabric_engine_spark.execute.output_records import records
from odfabric_engine_spark.operators.touched_keys.extraction import AFTER, BEFORE, BOTH, counted
from odfabric_engine_spark.rows.delta import Delta, added_up
from odfabric_engine_spark.state.key_hash import key_hashes

INTS = st.none() | st.integers(-3, 3)
FLOATS = st.none() | st.sampled_from([0.0, -0.0, math.nan, math.inf, 0.1, -2.5])
TEXTS = st.none() | st.sampled_from(["", "x", "y", "xy", "\x00"])
STRUCTS = st.none() | st.fixed_dictionaries({"n": INTS, "f": FLOATS})
ROWS = st.lists(st.tuples(INTS, FLOATS, TEXTS, STRUCTS, st.integers(-2, 2)), max_size=25)

SCHEMA = pa.schema(
    [
        pa.field("c0", pa.int32()),
        pa.field("c1", pa.float64()),
        pa.field("c2", pa.string()),
        pa.field("c3", pa.struct([pa.field("n", pa.int32()), pa.field("f", pa.float64())])),
    ]
)


def delta_of(rows: list[tuple[Any, ...]]) -> Delta:
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(SCHEMA)]
    return Delta(pa.Table.from_arrays(columns, schema=SCHEMA), np.array([row[4] for row in rows], dtype=np.int64))


def counts_of(delta: Delta) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    if len(delta):
        for row, weight in zip(table_bytes(delta.rows).to_pylist(), delta.weights.tolist(), strict=True):
            found[row] += weight
    return Counter({row: weight for row, weight in found.items() if weight})


@given(ROWS)
def test_equal_rows_are_added_up_by_their_canonical_bytes(rows: list[tuple[Any, ...]]) -> None:
    given_rows = delta_of(rows)
    found = added_up(given_rows)
    assert counts_of(found) == counts_of(given_rows)
    if (given_rows.weights > 0).all():
        assert found is given_rows, "there is nothing to take away"
    else:
        assert len(found) == len(counts_of(given_rows))


@given(st.lists(st.tuples(INTS, FLOATS, TEXTS), min_size=1, max_size=25))
def test_keys_that_are_equal_to_spark_have_one_hash(keys: list[tuple[Any, ...]]) -> None:
    columns = [pa.array([key[at] for key in keys], SCHEMA.field(at).type) for at in range(3)]
    hashes = key_hashes(columns, len(keys)).tolist()
    normal = [(number, "nan" if f is not None and math.isnan(f) else f, text) for number, f, text in keys]
    by_key: dict[Any, set[int]] = {}
    for key, found in zip(normal, hashes, strict=True):
        by_key.setdefault(key, set()).add(found)  # 0.0 == -0.0 in Python too
    assert all(len(found) == 1 for found in by_key.values())
    assert len(set(hashes)) == len(by_key)


HASHES = ["0xc2c0b333798c690a", "0x8f61471d57b347ed", "0x23774e999458a900"]
"""Of the rows (1, x), (null, empty), (-7, null): states on disk are sorted by them."""


def test_hashes_are_the_same_for_ever() -> None:
    columns = [pa.array([1, None, -7], pa.int32()), pa.array(["x", "", None])]
    assert key_hashes(columns, 3).tolist() == key_hashes([c.slice(0) for c in columns], 3).tolist()
    assert [hex(each) for each in key_hashes(columns, 3).tolist()] == HASHES
    assert key_hashes([], 2).tolist() == [0, 0]


@given(st.lists(st.tuples(st.integers(-2, 4), st.integers(-2, 4)), max_size=20))
def test_rows_are_bound_as_often_as_they_are_there(counts: list[tuple[int, int]]) -> None:
    before, after = (np.array([pair[at] for pair in counts], dtype=np.int64) for at in (0, 1))
    bound = counted(pa.table({"c0": pa.array(range(len(counts)), pa.int64())}), before, after)
    rows = bound.rows.column("c0").to_pylist()
    sides = {
        side: Counter(r for r, tag in zip(rows, bound.tags, strict=True) if tag in (side, BOTH))
        for side in (BEFORE, AFTER)
    }
    assert sides[BEFORE] == Counter({at: pair[0] for at, pair in enumerate(counts) if pair[0] > 0})
    assert sides[AFTER] == Counter({at: pair[1] for at, pair in enumerate(counts) if pair[1] > 0})


CHANGES = st.lists(
    st.tuples(st.integers(0, 3), st.none() | st.integers(0, 4), st.integers(-2, 2), st.none() | st.integers(0, 2)),
    max_size=25,
)


@given(CHANGES)
def test_records_say_the_net_change_and_pair_one_gone_with_one_new(changes: list[tuple[Any, ...]]) -> None:
    rows = pa.table(
        {
            "event_time": pa.array([change[0] for change in changes], pa.timestamp("us", "UTC")),
            "v": pa.array([change[1] for change in changes], pa.int32()),
        }
    )
    weights = np.array([change[2] for change in changes], dtype=np.int64)
    found = records(rows, weights, pa.array([change[3] for change in changes], pa.int64()), "event_time")
    told = list(zip(found.operations.tolist(), map(tuple, zip(*rows_of(found.rows), strict=True)), strict=True))
    net: Counter[tuple[Any, ...]] = Counter()
    for operation, row in told:
        net[row] += 1 if operation in (0, 3) else -1
    wanted: Counter[tuple[Any, ...]] = Counter()
    for row, weight in zip(zip(*rows_of(rows), strict=True), weights.tolist(), strict=True):
        wanted[row] += weight
    assert {row: n for row, n in net.items() if n} == {row: n for row, n in wanted.items() if n}
    assert sum(map(abs, wanted.values())) == len(told)  # nothing is said of what did not change
    for at, (operation, _) in enumerate(told):
        if operation == 2:
            assert told[at + 1][0] == 3
        if operation == 3:
            assert told[at - 1][0] == 2


def test_rows_without_identity_make_no_pair() -> None:
    rows = pa.table({"event_time": pa.array([0, 0], pa.timestamp("us", "UTC")), "v": [1, 2]})
    weights = np.array([-1, 1])
    assert records(rows, weights, None, "event_time").operations.tolist() == [1, 0]
    assert records(rows, weights, pa.array([7, 7], pa.int64()), "event_time").operations.tolist() == [2, 3]
    assert records(rows, weights, pa.array([7, 8], pa.int64()), "event_time").operations.tolist() == [1, 0]


def rows_of(table: pa.Table) -> list[list[Any]]:
    return [column.to_pylist() for column in table.columns]
