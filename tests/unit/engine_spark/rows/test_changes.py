"""Emitted changes of identities: all of them, and nothing unchanged."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from odfabric.model.operation import OperationType
from odfabric_engine_spark.rows.change_records import Records, changes

A, R, CF, CT = (OperationType.APPEND, OperationType.RETRACT, OperationType.CORRECT_FROM, OperationType.CORRECT_TO)
VALUES = st.none() | st.integers(0, 3)
IDENTITIES = st.lists(st.tuples(VALUES, VALUES, st.integers(0, 1)), max_size=8)
"""The value before, the value after (None: no row), and the step."""


def told(identities: list[tuple[int | None, int | None, int]]) -> Records:
    values = sorted({value for before, after, _ in identities for value in (before, after) if value is not None})
    places = {value: place for place, value in enumerate(values)}
    before, after = (
        np.array([-1 if one[side] is None else places[one[side]] for one in identities], dtype=np.int64)
        for side in (0, 1)
    )
    steps = np.array([step for _, _, step in identities], dtype=np.int64)

    def order(chosen: np.ndarray, leads: np.ndarray) -> pa.Table:
        return pa.table({"step": steps[chosen], "value": leads, "identity": chosen})

    return changes(pa.table({"value": pa.array(values, pa.int64())}), before, after, steps, order)


@given(IDENTITIES)
def test_all_is_told_and_nothing_twice(identities: list[tuple[int | None, int | None, int]]) -> None:
    found = told(identities)
    net: Counter[int] = Counter()
    for operation, value in zip(found.operations, found.rows.column("value").to_pylist(), strict=True):
        net[value] += 1 if operation in (A, CT) else -1
    wanted: Counter[int] = Counter(after for _, after, _ in identities if after is not None)
    wanted.subtract(before for before, _, _ in identities if before is not None)
    assert {value: count for value, count in net.items() if count} == {v: n for v, n in wanted.items() if n}
    for one, other in pairwise([*found.operations, -1]):
        assert (one == CF) == (other == CT)


@given(st.lists(st.tuples(VALUES, VALUES, st.just(0)), max_size=8))
def test_within_a_step_no_row_goes_and_comes(identities: list[tuple[int | None, int | None, int]]) -> None:
    found = told(identities)
    values = found.rows.column("value").to_pylist()
    gone = {value for operation, value in zip(found.operations, values, strict=True) if operation in (R, CF)}
    come = {value for operation, value in zip(found.operations, values, strict=True) if operation in (A, CT)}
    assert not gone & come


def test_a_pair_stays_where_another_identity_can_give_the_row() -> None:
    found = told([(1, 2, 0), (1, None, 0), (None, 1, 0)])
    assert list(found.operations) == [CF, CT]


def test_what_comes_back_in_another_step_is_told() -> None:
    assert list(told([(1, None, 0), (None, 1, 1)]).operations) == [R, A]
