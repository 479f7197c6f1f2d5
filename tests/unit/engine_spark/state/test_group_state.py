"""Groups of a state against a dictionary, through files at random points."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric.formats.slices.canonical_rows import row_bytes
from odfabric_engine_spark.operators.aggregate.accumulators.aggregate_functions import Accumulators
from odfabric_engine_spark.operators.aggregate.group_state import GroupState, stored_groups
from odfabric_engine_spark.plan.aggregates.aggregate_calls import AggregateCall, AggregateFunction
from odfabric_engine_spark.state import checkpoint, compaction_tiers, latest_rows, run_file
from odfabric_engine_spark.state.checkpoint import Checkpoint, StoredCheckpoint, read_checkpoint, write_checkpoint
from odfabric_engine_spark.state.stored_runs import StateWork

CALL = AggregateCall(function=AggregateFunction.COUNT, input=0, result="long", lenient=False, text="count(v)")
ACCUMULATORS = Accumulators.of([CALL], [pa.string()])
KEYS = [pa.field("k", pa.int64()), pa.field("window_end", pa.timestamp("us", tz="UTC"))]
SCHEMA = GroupState.schema(KEYS, ACCUMULATORS)
NAMES = ("k", "window_end")

Group = tuple[int, int]
"""Number of rows, and how many of them have a value."""


@pytest.fixture(autouse=True)
def _small_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few groups make many runs, batches, merges and deltas."""
    monkeypatch.setattr(compaction_tiers, "FIRST_TIER_ROWS", 4)
    monkeypatch.setattr(compaction_tiers, "FAN_OUT", 3)
    monkeypatch.setattr(run_file, "BATCH_ROWS", 5)
    monkeypatch.setattr(checkpoint, "SMALL_BYTES", 0)


class Kept:
    """A state that passes through files."""

    def __init__(self, folder: Path, *, timed: bool, added_bytes_max: int = 1 << 20) -> None:
        self.folder, self.timed = folder, timed
        self.work = StateWork(scratch=folder, piece_rows=7, added_bytes_max=added_bytes_max, check=lambda: None)
        self.files: dict[str, Path] = {}
        self.stored: StoredCheckpoint | None = None
        self.state = self.opened()

    def opened(self) -> GroupState:
        end_column = "window_end" if self.timed else None
        if self.stored is None:
            return GroupState(SCHEMA, NAMES, end_column=end_column, work=self.work)
        return stored_groups(self.stored, "groups", SCHEMA, NAMES, end_column=end_column, work=self.work)

    def save(self) -> None:
        name = f"h{len(self.files)}"
        path = self.folder / name
        written = Checkpoint(fingerprint="f", inputs=(), watermark=None, states={"groups": self.state})
        write_checkpoint(path, written, after=self.stored)
        self.files[name] = path
        self.stored = read_checkpoint(path, name=name, own_hash=name, bases=self.files)
        self.state = self.opened()


def key_columns(keys: Sequence[int]) -> dict[str, pa.Array]:
    return {"k": pa.array(keys, pa.int64()), "window_end": pa.array([key * 10 for key in keys], KEYS[1].type)}


def key_bytes(keys: Sequence[int]) -> pa.Array:
    return row_bytes(list(key_columns(keys).values()))


def statistics(groups: Sequence[tuple[int, Group]]) -> list[pa.Array]:
    return [pa.array([group[place] for _, group in groups], pa.int64()) for place in (0, 1)]


def replaced(state: GroupState, groups: dict[int, Group]) -> GroupState:
    keys = list(groups)
    if not keys:
        return state
    values = ACCUMULATORS.load(statistics(list(groups.items())), len(keys))
    known = state.find(key_bytes(keys)) >= 0
    return state.with_run(state.as_run(key_bytes(keys), key_columns(keys), values, known=known))


def found(state: GroupState, keys: Sequence[int]) -> dict[int, Group]:
    """What the state says of some keys, by position."""
    positions = state.find(key_bytes(keys))
    known = positions[positions >= 0][::-1]
    _, columns = state.keys(known)
    rows, counts = state.values(known, ACCUMULATORS).arrays()
    told = zip(columns["k"].to_pylist(), rows.to_pylist(), counts.to_pylist(), strict=True)
    return {key: (rows, counts) for key, rows, counts in told}


groups = st.dictionaries(
    st.integers(0, 12), st.sampled_from(((0, 0), (0, 0), (1, 1), (2, 1), (-1, -1), (3, 0))), max_size=8
)
step = st.one_of(
    groups.map(lambda each: ("replace", each)),
    st.just(("save", None)),
    st.integers(0, 100).map(lambda to: ("drop", to)),
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(step, max_size=20), timed=st.booleans(), collide=st.booleans(), spilled=st.booleans())
def test_a_state_is_its_groups(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, object]],
    timed: bool,
    collide: bool,
    spilled: bool,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if collide:
            colliding = lambda keys: np.full(len(keys), 7, dtype=np.uint64)  # noqa: E731
            patch.setattr("odfabric_engine_spark.operators.aggregate.group_state.byte_hashes", colliding)
        folder = tmp_path_factory.mktemp("state")
        kept, model = Kept(folder, timed=timed, added_bytes_max=1 if spilled else 1 << 20), {}
        dropped_to = -1
        for what, argument in steps:
            if what == "replace":
                told = {key: group for key, group in argument.items() if key * 10 > dropped_to}
                kept.state = replaced(kept.state, told)
                model = {key: group for key, group in {**model, **told}.items() if group != (0, 0)}
            elif what == "drop" and timed:
                dropped_to = max(dropped_to, argument)
                kept.state = kept.state.without("window_end", to_us=argument)
                model = {key: group for key, group in model.items() if key * 10 > dropped_to}
            elif what == "save":
                kept.save()
            assert found(kept.state, range(14)) == model
        _check_everything(kept, model)


def _check_everything(kept: Kept, model: dict[int, Group]) -> None:
    pieces = list(kept.state.everything(5))
    assert sorted(key for piece in pieces for key in piece.column("k").to_pylist()) == sorted(model)
    if kept.timed:
        for above, to in ((None, 55), (20, 90), (70, 70)):
            at = kept.state.between("window_end", above_us=above, to_us=to)
            inside = [key for key in model if (above is None or key * 10 > above) and key * 10 <= to]
            assert sorted(kept.state.keys(at)[1]["k"].to_pylist()) == sorted(inside)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=groups, changes=st.lists(groups, min_size=1, max_size=5))
def test_bytes_do_not_depend_on_how_groups_were_replaced(
    tmp_path_factory: pytest.TempPathFactory, before: dict[int, Group], changes: list[dict[int, Group]]
) -> None:
    def bytes_after(parts: Sequence[dict[int, Group]], added_bytes_max: int = 1 << 20) -> bytes:
        kept = Kept(tmp_path_factory.mktemp("state"), timed=True, added_bytes_max=added_bytes_max)
        kept.state = replaced(kept.state, before)
        kept.save()
        for part in parts:
            kept.state = replaced(kept.state, part)
        kept.save()
        return kept.files["h1"].read_bytes()

    together: dict[int, Group] = {}
    for change in changes:
        together |= change
    assert bytes_after(changes) == bytes_after([together]) == bytes_after(changes, added_bytes_max=1)


def test_what_is_gone_is_removed_when_all_runs_are_one(tmp_path: Path) -> None:
    kept = Kept(tmp_path, timed=False)
    kept.state = replaced(kept.state, {1: (1, 1), 2: (1, 1)})
    kept.save()
    kept.state = replaced(kept.state, {1: (0, 0)})
    kept.save()
    assert kept.stored is not None
    kept.state = replaced(kept.state, {3: (1, 1)})
    (whole,) = kept.state.to_store(whole=True)
    assert isinstance(whole, run_file.WrittenRun)
    assert whole.rows == 2
    assert latest_rows.KEY in kept.state.stored_schema.names
