"""Values of groups against a model that counts them: whatever is withdrawn next, what was given has the right extreme."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric.formats.canonical_rows import row_bytes
from odfabric_engine_spark.incremental.slots import Multiset, Values
from odfabric_engine_spark.incremental.value_state import ValueState
from odfabric_engine_spark.state import checkpoint as checkpoints
from odfabric_engine_spark.state import run_file, tiers
from odfabric_engine_spark.state.byte_hash import byte_hashes
from odfabric_engine_spark.state.checkpoint import Checkpoint, StoredCheckpoint, read_checkpoint, write_checkpoint
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.sealing import StateWork

BOTH = Multiset("values0", 0, pa.int32(), least=True, greatest=True)
GROUPS = 4


@pytest.fixture(autouse=True)
def _small_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few values make many runs, batches, merges and deltas."""
    monkeypatch.setattr(tiers, "FIRST_TIER_ROWS", 4)
    monkeypatch.setattr(tiers, "FAN_OUT", 3)
    monkeypatch.setattr(run_file, "BATCH_ROWS", 5)
    monkeypatch.setattr(checkpoints, "SMALL_BYTES", 0)


class Kept:
    """A state that passes through files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = StateWork(scratch=folder, piece_rows=7, added_bytes_max=1 << 20, check=lambda: None)
        self.files: dict[str, Path] = {}
        self.stored: StoredCheckpoint | None = None
        self.state = self.opened()

    def opened(self) -> ValueState:
        schema = ValueState.schema(BOTH)
        if self.stored is None:
            return ValueState(BOTH, RowState(schema, timed=False, work=self.work))
        return ValueState(BOTH, self.stored.rows("values", schema, timed=False, work=self.work))

    def add(self, keys: pa.Array, change: Values) -> None:
        self.state.rows.add_run(self.state.as_run(keys, None, change))

    def save(self) -> None:
        name = f"h{len(self.files)}"
        path = self.folder / name
        written = Checkpoint(fingerprint="f", inputs=(), watermark=None, states={"values": self.state.rows})
        write_checkpoint(path, written, after=self.stored)
        self.files[name] = path
        self.stored = read_checkpoint(path, name=name, own_hash=name, bases=self.files)
        self.state = self.opened()


def keys_of(groups: Sequence[int]) -> pa.Array:
    return row_bytes([pa.array(groups, pa.int64())])


def values_of(change: Counter[tuple[int, int]]) -> Values:
    """A change of groups 0 to 3 as a run makes it."""
    told = sorted((group, value, count) for (group, value), count in change.items() if count)
    groups, values, counts = zip(*told, strict=True) if told else ((), (), ())
    return Values(GROUPS, np.array(groups, np.int64), pa.array(values, pa.int32()), np.array(counts, np.int64))


Steps = list[list[tuple[int, int, int]] | None]


def after(steps: Steps, collide: int, patch: pytest.MonkeyPatch, folder: Path) -> tuple[Kept, Counter[tuple[int, int]]]:
    """A state after some changes, saved where there is none, and what it should have. `collide`: so many keys share a hash."""
    if collide:
        hashes = {key.as_py(): number // collide for number, key in enumerate(keys_of(range(GROUPS)))}
        colliding = lambda keys: np.array([hashes[key.as_py()] for key in keys], dtype=np.uint64)  # noqa: E731
        patch.setattr("odfabric_engine_spark.incremental.value_state.byte_hashes", colliding)
    kept, model = Kept(folder), Counter[tuple[int, int]]()
    for each in steps:
        if each is None:
            kept.save()
            continue
        added = _counted(each)
        kept.add(keys_of(range(GROUPS)), values_of(added))
        model.update(added)
    return kept, model


weighted = st.tuples(st.integers(0, GROUPS - 1), st.integers(-6, 6), st.sampled_from((-2, -1, -1, 1, 1, 2)))
change = st.lists(weighted, max_size=12)
step = st.one_of(change, change, st.none())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(step, max_size=12), last=change, collide=st.sampled_from((0, 1, 2)))
def test_extremes_stay_right_whatever_is_withdrawn(
    tmp_path_factory: pytest.TempPathFactory,
    steps: Steps,
    last: list[tuple[int, int, int]],
    collide: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        kept, model = after(steps, collide, patch, tmp_path_factory.mktemp("values"))
        change = values_of(_counted(last))
        found = kept.state.extremes(keys_of(range(GROUPS)), 1 + change.withdrawn())
        found.add_at(np.arange(GROUPS), change)
        model.update(_counted(last))
        assert _extremes(found) == _expected(model)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def _counted(rows: list[tuple[int, int, int]]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for group, value, count in rows:
        found[group, value] += count
    return found


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
    read = []
    plain = kept.state.rows._stored[0].take

    def take(positions: np.ndarray, names: Sequence[str] | None = None) -> pa.Table:
        read.append(len(positions))
        return plain(positions, names)

    for run in kept.state.rows._stored:
        monkeypatch.setattr(type(run), "take", lambda self, positions, names=None: take(positions, names))
    found = kept.state.extremes(keys_of([0]), np.array([3]))
    assert (found.values.to_pylist(), sum(read)) == ([0, 1, 2, 1997, 1998, 1999], 6)


def test_what_is_dropped_is_not_taken_for_what_is_asked_for(tmp_path: Path) -> None:
    """Two keys with one hash, of which one is closed: the texts of Thue and Morse collide whatever the multiplier is."""
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
        state.rows.drop_closed(10)
        found = state.extremes(keys.slice(1 - closed, 1), np.array([1]))
        assert found.values.to_pylist() == [5]
