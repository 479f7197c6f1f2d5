"""Groups' values against a counting model: right extremes after any withdrawal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric.formats.slices.canonical_rows import row_bytes
from odfabric_engine_spark.arrays.byte_hash import byte_hashes
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import Values
from odfabric_engine_spark.operators.aggregate.value_state import ValueState
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import Run
from odfabric_engine_spark.state.stored_runs import StateWork
from tests.support.turns import examples
from tests.unit.engine_spark.state.kept_values import (
    BOTH,
    GROUPS,
    Kept,
    Steps,
    after,
    change,
    counted,
    keys_of,
    step,
    values_of,
    with_small_tiers,
)


@pytest.fixture(autouse=True)
def _small_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    with_small_tiers(monkeypatch)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(step, max_size=12), last=change, collide=st.sampled_from((0, 1, 2)))
def test_extremes_stay_right_whatever_is_withdrawn(
    tmp_path_factory: pytest.TempPathFactory,
    steps: Steps,
    last: list[tuple[int, int, int]],
    collide: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        kept, model = after(steps, collide, patch, tmp_path_factory.mktemp("values"))
        change = values_of(counted(last))
        found = kept.state.extremes(keys_of(range(GROUPS)), 1 + change.withdrawn())
        found.add_at(np.arange(GROUPS), change)
        model.update(counted(last))
        assert _extremes(found) == _expected(model)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(step, max_size=12), asked=change, collide=st.sampled_from((0, 1, 2)))
def test_values_are_counted_one_by_one(
    tmp_path_factory: pytest.TempPathFactory,
    steps: Steps,
    asked: list[tuple[int, int, int]],
    collide: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        kept, model = after(steps, collide, patch, tmp_path_factory.mktemp("values"))
        pairs = Counter({(group, value): 1 for group, value, _ in asked})
        found = kept.state.counted(keys_of(range(GROUPS)), values_of(pairs))
        told = zip(found.groups.tolist(), found.values.to_pylist(), found.counts.tolist(), strict=True)
        assert list(told) == [(*pair, model[pair]) for pair in sorted(pairs) if model[pair]]


def _extremes(values: Values) -> list[tuple[object, object]]:
    least, greatest = (values.extreme(greatest=end)[0].to_pylist() for end in (False, True))
    return list(zip(least, greatest, strict=True))


def _expected(model: Counter[tuple[int, int]]) -> list[tuple[object, object]]:
    found: list[tuple[object, object]] = []
    for group in range(GROUPS):
        present = [value for (owner, value), count in model.items() if owner == group and count > 0]
        found.append((min(present, default=None), max(present, default=None)))
    return found


def test_few_values_are_read_of_a_group_that_has_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(tmp_path)
    kept.add(keys_of([0]), values_of(Counter({(0, value): 1 for value in range(2_000)})))
    kept.save()
    read: list[int] = []
    plain = Run.take

    def take(self: Run, positions: np.ndarray, names: Sequence[str] | None = None) -> pa.Table:
        read.append(len(positions))
        return plain(self, positions, names)

    monkeypatch.setattr(Run, "take", take)
    found = kept.state.extremes(keys_of([0]), np.array([3]))
    assert (found.values.to_pylist(), sum(read)) == ([0, 1, 2, 1997, 1998, 1999], 6)


def test_what_is_dropped_is_not_taken_for_what_is_asked_for(tmp_path: Path) -> None:
    """A dropped key is not taken for another with the same hash.

    Two keys with one hash, of which one is closed: the texts of Thue and Morse collide whatever the multiplier is.
    """
    text = "".join("ab"[number.bit_count() % 2] for number in range(2048))
    keys = row_bytes([pa.array([text, text.translate(str.maketrans("ab", "ba"))])])
    hashes = byte_hashes(keys)
    assert hashes[0] == hashes[1]
    work = StateWork(scratch=tmp_path, piece_rows=7, added_bytes_max=1 << 20, check=lambda: None)
    for closed in (0, 1):
        state = ValueState(BOTH, RowState(ValueState.schema(BOTH), timed=True, work=work))
        ends = np.where(np.arange(2) == closed, 10, 100)
        five = Values(2, np.arange(2), pa.array([5, 5], pa.int32()), np.ones(2, dtype=np.int64))
        state.rows.add_run(state.as_run(keys, ends, five))
        state.rows.expire_closed(10)
        found = state.extremes(keys.slice(1 - closed, 1), np.array([1]))
        assert found.values.to_pylist() == [5]
