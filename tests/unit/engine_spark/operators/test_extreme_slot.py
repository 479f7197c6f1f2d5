"""Extremes of groups against a counting model; look-ups only where needed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric.formats.slices.canonical_rows import row_bytes
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import Multiset, Values, merge_values
from odfabric_engine_spark.operators.aggregate.accumulators.min_and_max import Extremes, ExtremeStatistic
from odfabric_engine_spark.operators.aggregate.value_state import ValueState
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.stored_runs import StateWork
from tests.support.turns import examples

GROUPS = 3
KEYS = row_bytes([pa.array(range(GROUPS), pa.int64())])
ENDS = st.sampled_from(((True, False), (False, True), (True, True)))

Change = list[tuple[int, int, int]]


class Groups:
    """Groups that pass through their stored form, and keep nothing else in between.

    They remove all else between changes.
    """

    def __init__(self, folder: Path, *, least: bool, greatest: bool) -> None:
        self.statistic = ExtremeStatistic(Multiset("values0", 0, pa.int32(), least=least, greatest=greatest))
        work = StateWork(scratch=folder, piece_rows=7, added_bytes_max=1 << 20, check=lambda: None)
        self.values = ValueState(
            self.statistic.multiset, RowState(ValueState.schema(self.statistic.multiset), timed=False, work=work)
        )
        self.stored: dict[int, list[pa.Array]] = {}

    def apply(self, steps: list[Change]) -> list[list[tuple[object, object]]]:
        """The extremes of all groups after each of some steps of one change."""
        work = self._known()
        changes = [values_of(each) for each in steps]
        together = np.concatenate([each.groups for each in changes])
        values = pa.concat_arrays([each.values for each in changes])
        counts = np.concatenate([each.counts for each in changes])
        # As a run gives them: entries of one group after the other.
        entries, places = _entries(steps)
        owners = entries[:, 0]
        of_steps = np.repeat(np.arange(len(steps)), [len(each.groups) for each in changes])
        numbers = np.array(
            [places[owner, step] for owner, step in zip(together, of_steps, strict=True)], dtype=np.int64
        )
        order = np.lexsort((values.to_numpy(), numbers))
        change = Values(len(entries), numbers[order], values.take(pa.array(order)), counts[order])
        self.values.look_up(work, KEYS, owners, change)
        found = []
        for each in changes:
            work.add_at(np.arange(GROUPS), self.statistic.in_hand(each))
            found.append(_ends(work))
        zero = work.is_zero()
        self.stored = {at: work.take(np.array([at])).arrays() for at in range(GROUPS) if not zero[at]}
        net = Values(GROUPS, *merge_values(together, values, counts))
        self.values.rows.add_run(self.values.as_run(KEYS, None, net))
        return found

    def _known(self) -> Extremes:
        work = self.statistic.zeros(GROUPS)
        for at, arrays in self.stored.items():
            work.add_at(np.array([at]), self.statistic.load(arrays, 1))
        return work


def values_of(change: Change) -> Values:
    net: Counter[tuple[int, int]] = Counter()
    for group, value, count in change:
        net[group, value] += count
    told = sorted((group, value, count) for (group, value), count in net.items() if count)
    groups, values, counts = zip(*told, strict=True) if told else ((), (), ())
    return Values(GROUPS, np.array(groups, np.int64), pa.array(values, pa.int32()), np.array(counts, np.int64))


def _entries(steps: list[Change]) -> tuple[Longs, dict[tuple[int, int], int]]:
    """(group, step) of all entries in order, and the place of each."""
    found = sorted((group, step) for group in range(GROUPS) for step in range(len(steps)))
    return np.array(found, dtype=np.int64), {pair: at for at, pair in enumerate(found)}


def _ends(work: Extremes) -> list[tuple[object, object]]:
    ends: list[list[object]] = [
        work.values.extreme(greatest=end)[0].to_pylist() if end in work.multiset.ends else [None] * GROUPS
        for end in (False, True)
    ]
    return list(zip(*ends, strict=True))


def _expected(model: Counter[tuple[int, int]], ends: list[bool]) -> list[tuple[object, object]]:
    found: list[tuple[object, object]] = []
    for group in range(GROUPS):
        present = [value for (owner, value), count in model.items() if owner == group and count > 0]
        least = min(present, default=None) if False in ends else None
        found.append((least, max(present, default=None) if True in ends else None))
    return found


weighted = st.tuples(st.integers(0, GROUPS - 1), st.integers(-4, 4), st.sampled_from((-2, -1, -1, 1, 1, 2)))
steps = st.lists(st.lists(weighted, max_size=6), min_size=1, max_size=3)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=st.lists(steps, max_size=8), ends=ENDS)
def test_extremes_are_right_with_unmatched_retractions(
    tmp_path_factory: pytest.TempPathFactory, runs: list[list[Change]], ends: tuple[bool, bool]
) -> None:
    groups = Groups(tmp_path_factory.mktemp("groups"), least=ends[0], greatest=ends[1])
    model: Counter[tuple[int, int]] = Counter()
    for run in runs:
        for found, step in zip(groups.apply(run), run, strict=True):
            for group, value, count in step:
                model[group, value] += count
            assert found == _expected(model, groups.statistic.multiset.ends)


def test_values_are_looked_up_only_when_an_extreme_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = Groups(tmp_path, least=False, greatest=True)
    looked_up: list[list[bytes]] = []
    plain = groups.values.extremes

    def extremes(keys: pa.Array, counts: Longs) -> Values:
        looked_up.append(keys.to_pylist())
        return plain(keys, counts)

    monkeypatch.setattr(groups.values, "extremes", extremes)
    groups.apply([[(0, 5, 1), (0, 3, 1), (1, 2, 1), (1, 1, 1), (2, 1, 1)]])
    groups.apply([[(0, 5, 1), (0, 3, -1), (1, 9, 1), (1, 1, -1)], [(0, 8, 1), (0, 6, 1)]])
    assert looked_up == []
    assert groups.apply([[(0, 8, -1), (1, 4, 1)]])[-1] == [(None, 6), (None, 9), (None, 1)]
    assert looked_up == [[KEYS[0].as_py()]]


def test_an_unmatched_retraction_beyond_an_extreme_is_looked_up_until_its_insert(tmp_path: Path) -> None:
    groups = Groups(tmp_path, least=False, greatest=True)
    assert groups.apply([[(0, 5, 1)]])[-1][0] == (None, 5)
    assert groups.apply([[(0, 9, -1)]])[-1][0] == (None, 5)
    assert groups.stored[0][-1].to_pylist() == [True]
    assert groups.apply([[(0, 9, 1)]])[-1][0] == (None, 5)
    assert groups.stored[0][-1].to_pylist() == [False]
    assert groups.apply([[(0, 9, 1)]])[-1][0] == (None, 9)
