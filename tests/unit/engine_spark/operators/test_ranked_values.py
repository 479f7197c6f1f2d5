"""Percentiles of partly loaded groups equal those of all values, at every step."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric_engine_spark.arrays.percentile_ranks import Rank
from odfabric_engine_spark.operators.aggregate import percentile_values
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import Values
from odfabric_engine_spark.operators.aggregate.accumulators.percentile import PercentileStatistic, Ranked
from odfabric_engine_spark.operators.aggregate.percentile_values import look_up
from odfabric_engine_spark.state.key_ranks import KeyRanks, Window
from tests.support.turns import examples
from tests.unit.engine_spark.state.kept_values import (
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

Model = Counter[tuple[int, int]]
Changes = list[list[tuple[int, int, int]]]
ranks = st.builds(Rank, st.sampled_from((0.0, 0.1, 0.3, 0.5, 0.95, 1.0)), st.booleans(), st.booleans())


@pytest.fixture(autouse=True)
def _small_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    with_small_tiers(monkeypatch)
    monkeypatch.setattr(percentile_values, "WHOLE_ROWS_MAX", 0)


def expected(rank: Rank, model: Model) -> list[float | None]:
    """As SQL has them, of values that are there."""
    found: list[float | None] = []
    for group in range(GROUPS):
        values = sorted(
            (value for (owner, value), count in model.items() if owner == group for _ in range(count)),
            reverse=rank.falling,
        )
        if not values:
            found.append(None)
        elif rank.discrete:
            found.append(float(values[max(math.ceil(len(values) * rank.share), 1) - 1]))
        else:
            position = (len(values) - 1) * rank.share
            first, second = values[math.floor(position)], values[math.ceil(position)]
            found.append(first + (second - first) * (position - math.floor(position)))
    return found


def told(ranked: Ranked, rank: Rank) -> list[float | None]:
    found, there = ranked.percentiles(rank)
    return [float(value) if is_there else None for value, is_there in zip(found, there, strict=True)]


def loaded(statistic: PercentileStatistic, model: Model) -> Ranked:
    counts, owing = np.zeros(GROUPS, dtype=np.int64), np.zeros(GROUPS, dtype=bool)
    for (group, _), count in model.items():
        counts[group] += max(count, 0)
        owing[group] |= count < 0
    return statistic.load([pa.array(counts), pa.array(owing)], GROUPS)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(step, max_size=12),
    last=st.lists(change, min_size=1, max_size=3),
    asked=st.lists(ranks, min_size=1, max_size=3, unique=True),
    collide=st.sampled_from((0, 1, 2)),
)
def test_percentiles_are_those_of_all_values(
    tmp_path_factory: pytest.TempPathFactory, steps: Steps, last: Changes, asked: list[Rank], collide: int
) -> None:
    check(tmp_path_factory.mktemp("values"), steps, last, asked, collide)


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=st.randoms(use_true_random=False), asked=st.lists(ranks, min_size=1, max_size=3, unique=True))
def test_a_little_changes_of_much(tmp_path_factory: pytest.TempPathFactory, chance: Random, asked: list[Rank]) -> None:
    """Else all is in hand."""

    def rows(count: int, weights: tuple[int, ...]) -> list[tuple[int, int, int]]:
        return [(chance.randrange(2), chance.randrange(-25, 25), chance.choice(weights)) for _ in range(count)]

    steps: Steps = [rows(chance.randrange(10, 60), (1, 1, 2)), None, rows(chance.randrange(20), (1,))]
    last = [rows(chance.randrange(4), chance.choice(((1,), (1, -1), (-1,)))) for _ in range(chance.randrange(1, 4))]
    check(tmp_path_factory.mktemp("values"), steps, last, asked, collide=0)


def check(folder: Path, steps: Steps, last: Changes, asked: list[Rank], collide: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        kept, model = after(steps, collide, patch, folder)
        statistic = PercentileStatistic.of(0, pa.int32(), tuple(asked))
        ranked = statistic.zeros(GROUPS)
        ranked.add_at(np.arange(GROUPS), loaded(statistic, model))
        changes = [statistic.in_hand(values_of(counted(each))) for each in last]
        together = statistic.zeros(GROUPS * len(last))
        together.add_all([(np.arange(GROUPS) + GROUPS * at, each) for at, each in enumerate(changes)])
        groups = np.tile(np.arange(GROUPS), len(last))
        look_up(kept.state, ranked, keys_of(range(GROUPS)), groups, together.values)
        assert [told(ranked, rank) for rank in asked] == [expected(rank, model) for rank in asked]
        for each, change in zip(last, changes, strict=True):
            ranked.add_at(np.arange(GROUPS), change)
            model.update(counted(each))
            assert [told(ranked, rank) for rank in asked] == [expected(rank, model) for rank in asked]
            assert told(ranked.take(np.array([2, 0])), asked[0]) == [expected(asked[0], model)[at] for at in (2, 0)]
        after_all = loaded(statistic, model)
        assert [each.to_pylist() for each in ranked.arrays()] == [each.to_pylist() for each in after_all.arrays()]
        left = {group for (group, _), count in model.items() if count}
        assert ranked.is_zero().tolist() == [group not in left for group in range(GROUPS)]


def test_few_values_are_read_of_a_group_that_has_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, statistic = Kept(tmp_path), PercentileStatistic.of(0, pa.int32(), (Rank(0.5, discrete=False, falling=False),))
    model = Model({(0, value): 1 for value in range(2_000)})
    kept.add(keys_of([0]), values_of(model))
    kept.save()
    windows: list[int] = []
    plain = KeyRanks.window

    def window(self: KeyRanks, first: int, last: int) -> Window:
        found = plain(self, first, last)
        windows.append(len(found.rows))
        return found

    monkeypatch.setattr(KeyRanks, "window", window)
    ranked = loaded(statistic, model)
    change = Values(1, np.array([0]), pa.array([5_000], pa.int32()), np.array([1]))
    look_up(kept.state, ranked, keys_of(range(GROUPS)), np.array([0]), change)
    assert told(ranked, statistic.ranks[0])[0] == 999.5
    assert sum(windows) < 12
