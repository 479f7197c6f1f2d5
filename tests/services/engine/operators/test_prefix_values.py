"""A prefix value is that of the remaining rows, in any order, or is in doubt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric_engine_spark.operators.cumulative_window.prefix_values import Before, Gives, Stretches, prefix_value

OWNERS = 3
Row = tuple[int, int, int | None]
"""Owner, number in the order, value."""

rows = st.tuples(st.integers(0, OWNERS - 1), st.integers(0, 4), st.one_of(st.none(), st.integers(-3, 3)))
changes = st.lists(st.tuples(rows, st.booleans()), max_size=30)


@st.composite
def runs(draw: st.DrawFn) -> list[list[tuple[Row, int]]]:
    """Rows by runs, each with its weight; no more are withdrawn than there are."""
    there: Counter[Row] = Counter()
    found: list[Counter[Row]] = [Counter()]
    for row, cut in draw(changes):
        withdraws = there[row] > 0 and draw(st.booleans())
        there[row] += -1 if withdraws else 1
        found[-1][row] += -1 if withdraws else 1
        if cut:
            found.append(Counter())
    return draw(st.permutations([[(row, weight) for row, weight in run.items() if weight] for run in found]))


def _stretches(run: Sequence[tuple[Row, int]]) -> Stretches:
    in_order = sorted(run, key=lambda each: each[0][:2])
    owners = [row[0] for row, _ in in_order]
    lengths = [len(list(some)) for _, some in groupby(owners)]
    return Stretches(
        owners=np.array(sorted(set(owners)), dtype=np.int64),
        starts=np.cumsum([0, *lengths[:-1]], dtype=np.int64),
        rows=pa.table({"c0": pa.array([row[2] for row, _ in in_order], pa.int64())}),
        weights=np.array([weight for _, weight in in_order], dtype=np.int64),
        in_order=np.array([row[1] for row, _ in in_order], dtype=np.int64),
    )


def _expected(gives: Gives, there: Counter[Row], owner: int) -> set[int | None]:
    """What it may be: several where rows tie."""
    left = [
        (number, value) for (of, number, value), count in there.items() if of == owner and count and value is not None
    ]
    values = [value for _, value in left]
    counts = [there[owner, *each] for each in left]
    match gives:
        case Gives.COUNT:
            return {sum(counts)}
        case Gives.SUM:
            return {sum(value * count for value, count in zip(values, counts, strict=True)) if left else None}
        case Gives.LEAST | Gives.GREATEST:
            return {(min if gives is Gives.LEAST else max)(values, default=None)}
        case Gives.FIRST | Gives.LAST:
            outer = (min if gives is Gives.FIRST else max)((number for number, _ in left), default=None)
            return {value for number, value in left if number == outer} or {None}


@given(runs())
@pytest.mark.parametrize("gives", Gives)
def test_what_is_told_is_what_is_left_gives(gives: Gives, given_runs: list[list[tuple[Row, int]]]) -> None:
    thing = prefix_value(Before(0, gives, pa.int64(), "bigint"), OWNERS)
    there: Counter[Row] = Counter()
    for run in given_runs:
        if run:
            thing.add(_stretches(run))
        for row, weight in run:
            there[row] += weight
    values, in_doubt = thing.settled()
    for owner in range(OWNERS):
        expected = _expected(gives, there, owner)
        if in_doubt[owner]:
            # There is a reason: several have it, or that which was furthest out is gone.
            assert gives not in (Gives.COUNT, Gives.SUM)
            assert len(expected) > 1 or any(weight < 0 for run in given_runs for (of, *_), weight in run if of == owner)
        else:
            assert {values[owner].as_py()} == expected


@pytest.mark.parametrize(("gives", "expected"), [(Gives.LEAST, 0.0), (Gives.GREATEST, float("nan"))])
def test_zeros_are_one_and_no_number_is_the_greatest(gives: Gives, expected: float) -> None:
    thing = prefix_value(Before(0, gives, pa.float64(), "double"), 1)
    floats = pa.array([0.0, -0.0, float("nan"), None, 7.0])
    one = np.ones(5, dtype=np.int64)
    thing.add(Stretches(one[:1] - 1, one[:1] - 1, pa.table({"c0": floats}), one, None))
    values, in_doubt = thing.settled()
    assert not in_doubt.any()
    assert str(values[0].as_py()) == str(expected)
