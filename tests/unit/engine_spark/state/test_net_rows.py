"""Rows added to a state in any way: ordered by hash and bytes, equal ones summed."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from odfabric_engine_spark.state.net_rows import bytes_of, gathered, netted
from odfabric_engine_spark.state.run import CLOSES, WEIGHT

SOME = {
    pa.int64(): st.integers(-2, 2) | st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.sampled_from([0.0, -0.0, float("nan"), -1.5, 1e300]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(dt.date(1969, 12, 30), dt.date(1970, 1, 2)),
    pa.string(): st.sampled_from(["", "a", "a\0"]),
}


@st.composite
def added(draw: st.DrawFn) -> pa.Table:
    """Weighted rows of a few columns, some with nulls, some ascending by time."""
    count = draw(st.integers(1, 30))
    kinds = draw(st.lists(st.sampled_from(list(SOME)), max_size=3))
    columns = {WEIGHT: pa.array(draw(st.lists(st.sampled_from([1, 1, 2, -1]), min_size=count, max_size=count)))}
    if draw(st.booleans()):
        columns[CLOSES] = pa.array([None] * count, pa.int64())
    for number, kind in enumerate(kinds):
        value = st.none() | SOME[kind] if draw(st.booleans()) else SOME[kind]
        values = draw(st.lists(value, min_size=count, max_size=count))
        if draw(st.booleans()) and None not in values and kind != pa.float64():
            values.sort()
        columns[f"c{number}"] = pa.array(values, kind)
    return pa.table(columns)


@given(added(), st.integers(0, 2**32 - 1))
def test_rows_that_are_added_are_sorted_and_net(rows: pa.Table, seed: int) -> None:
    hashes = np.random.default_rng(seed).integers(0, 4, rows.num_rows).astype(np.uint64)
    weights: Counter[tuple[int, bytes]] = Counter()
    for key, own, weight in zip(hashes.tolist(), bytes_of(rows).to_pylist(), rows.column(0).to_pylist(), strict=True):
        weights[key, own] += weight
    expected = sorted((key, own, weight) for (key, own), weight in weights.items() if weight)
    found_hashes, found = netted(gathered([(hashes, rows)]), each_netted=False)
    told = zip(found_hashes.tolist(), bytes_of(found).to_pylist(), found.column(0).to_pylist(), strict=True)
    assert list(told) == expected
