"""States of groups' values through files, and a model that counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from odfabric.formats.slices.canonical_rows import row_bytes
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import Multiset, Values
from odfabric_engine_spark.operators.aggregate.value_state import ValueState
from odfabric_engine_spark.state import checkpoint, compaction_tiers, run_file
from odfabric_engine_spark.state.checkpoint import Checkpoint, StoredCheckpoint, read_checkpoint, write_checkpoint
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.stored_runs import StateWork

BOTH = Multiset("values0", 0, pa.int32(), least=True, greatest=True)
GROUPS = 4


def with_small_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few values make many runs, batches, merges and deltas."""
    monkeypatch.setattr(compaction_tiers, "FIRST_TIER_ROWS", 4)
    monkeypatch.setattr(compaction_tiers, "FAN_OUT", 3)
    monkeypatch.setattr(run_file, "BATCH_ROWS", 5)
    monkeypatch.setattr(checkpoint, "SMALL_BYTES", 0)


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
    """A state after some changes, saved where there is none, and what it should have.

    `collide`: so many keys share a hash.
    """
    if collide:
        hashes = {key.as_py(): number // collide for number, key in enumerate(keys_of(range(GROUPS)))}
        colliding = lambda keys: np.array([hashes[key.as_py()] for key in keys], dtype=np.uint64)  # noqa: E731
        patch.setattr("odfabric_engine_spark.operators.aggregate.value_state.byte_hashes", colliding)
    kept, model = Kept(folder), Counter[tuple[int, int]]()
    for each in steps:
        if each is None:
            kept.save()
            continue
        added = counted(each)
        kept.add(keys_of(range(GROUPS)), values_of(added))
        model.update(added)
    return kept, model


weighted = st.tuples(st.integers(0, GROUPS - 1), st.integers(-6, 6), st.sampled_from((-2, -1, -1, 1, 1, 2)))
change = st.lists(weighted, max_size=12)
step = st.one_of(change, change, st.none())


def counted(rows: list[tuple[int, int, int]]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for group, value, count in rows:
        found[group, value] += count
    return found
