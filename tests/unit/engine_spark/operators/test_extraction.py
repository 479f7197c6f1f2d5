"""Rows that tasks extract, against those that the engine's process extracts."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric.errors import Determinate, LimitExceeded
from odfabric.formats.engine_messages.engine_wire import failure_from_wire
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric_engine_spark.operators.keyed_recompute.spark_tasks import (
    DifferenceTask,
    ExtractionTask,
    Share,
    TouchedScan,
    shares_of,
)
from odfabric_engine_spark.operators.touched_keys.extraction import TAG, first_rows, old_and_new_rows
from odfabric_engine_spark.operators.touched_keys.new_rows import Incoming
from odfabric_engine_spark.operators.touched_keys.old_rows import NEVER, AskedRows
from odfabric_engine_spark.rows.delta import Delta
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import HASH, WEIGHT, FilePart, distinct
from odfabric_engine_spark.state.stored_runs import StateWork

SCHEMA = pa.schema([pa.field("c0", pa.int64()), pa.field("c1", pa.string())])
TEXTS = ("", "a", None)

weighted = st.lists(st.tuples(st.integers(0, 9), st.sampled_from((-1, 1, 1, 2)), st.integers(0, 2)), max_size=12)
"""Hash, weight, and which text."""


def table(taken: list[tuple[int, int, int]], state: RowState) -> pa.Table:
    columns = {
        HASH: [row[0] for row in taken],
        WEIGHT: [row[1] for row in taken],
        "c0": [row[0] for row in taken],
        "c1": [TEXTS[row[2]] for row in taken],
    }
    return pa.table({name: columns[name] for name in state.schema.names}, schema=state.schema)


def counted(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in rows.to_pylist())


def prepared(
    folder: Path, before: list[list[Any]], new: list[Any], *, alone: bool, narrow: bool = False
) -> tuple[RowState, pa.Table, TouchedScan]:
    work = StateWork(scratch=folder, piece_rows=3, added_bytes_max=1 << 20, check=lambda: None)
    state = RowState(SCHEMA, timed=False, work=work)
    for rows in before:
        state.add_run(state.as_run(table(rows, state)))
    added = state.in_file(state.as_run(table(new, state)))
    assert added.file is not None
    path = folder / "keys"
    keys = distinct(added.hashes)
    path.write_bytes(keys.tobytes())
    never = folder / "never"
    never.write_bytes(np.array([NEVER]).tobytes())
    touched = TouchedScan(
        schema=SCHEMA,
        kept_schema=SCHEMA,
        timed=False,
        dropped_to_us=None,
        old=state.files(),
        new=added.file,
        keys=FilePart(path, 0, keys.nbytes),
        narrow=(FilePart(path, 0, 8), FilePart(never, 0, 8)) if narrow and len(keys) else (FilePart(path, 0, 0),) * 2,
        alone=alone,
    )
    return state, added.slice(0, len(added)), touched


def task_of(touched: TouchedScan, folder: Path, *, rows: int, bytes_max: int = 1 << 20) -> ExtractionTask:
    shares = shares_of((touched,), rows_each=rows, at_least=2, at_most=256)
    return ExtractionTask((touched,), shares, folder, rows, 1 << 20, bytes_max)


def run_task(task: ExtractionTask) -> pa.Table:
    numbers = pa.record_batch({"id": pa.array(range(len(task.shares)), pa.int64())})
    return pa.Table.from_batches(list(task(iter([numbers]))))


@given(st.lists(weighted, max_size=3), weighted, st.integers(1, 8), st.booleans(), st.booleans())
@settings(deadline=None)
def test_shares_together_are_what_one_look_gives(
    before: list[Any], new: list[Any], piece_rows: int, alone: bool, narrow: bool
) -> None:
    """`narrow`: of the first key only rows that are equal to new ones are looked up."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        state, added, touched = prepared(folder, before, new, alone=alone, narrow=narrow)
        delta = Delta(added.select(SCHEMA.names), added.column(WEIGHT).to_numpy())
        keys = np.frombuffer(touched.keys.mapped(), dtype="<u8")
        if touched.old and narrow and len(keys):
            asked = AskedRows(keys[1:], keys[:1], np.array([NEVER]), 0)
            hashes = added.column("c0").to_numpy().astype(np.uint64)
            wanted = counted(asked.bound(state, Incoming(delta, hashes, None), alone=alone).as_table())
        elif touched.old:
            old = state.of_keys(pa.array(keys))
            wanted = counted(old_and_new_rows(old, delta, alone=alone).as_table())
        else:
            wanted = counted(first_rows(delta).as_table())
        task = task_of(touched, folder, rows=piece_rows)
        for _ in range(2):  # a task may run twice
            told = run_task(task)
            files = sorted((folder / "0").glob("*.parquet"))
            found = [pq.read_table(file) for file in files]
            assert sum((counted(each) for each in found), Counter()) == wanted
            assert sum(told.column("rows").to_pylist()) == sum(wanted.values())
        assert all(TAG in each.column_names for each in found)


def test_a_key_that_is_too_large_is_told_and_leaves_no_file(tmp_path: Path) -> None:
    """The first key of its share has been written by then."""
    many = [(2, 1, 0), (2, 1, 1), (2, 1, 2), (2, 2, 1)]
    _, _, touched = prepared(tmp_path, [[(1, 1, 0), *many]], [(1, 1, 1), (2, 1, 1)], alone=False)
    task = task_of(touched, tmp_path, rows=1, bytes_max=60)
    task = replace(task, shares=(Share(0, 0, 2),))
    told = run_task(task)
    (failure,) = told.column("failure").drop_null().to_pylist()
    with pytest.raises(LimitExceeded, match="rows have to be looked at together"):
        raise failure_from_wire(pb.Failure.FromString(failure))
    assert not list((tmp_path / "0").glob("*"))


def test_nothing_touched_has_no_rows(tmp_path: Path) -> None:
    _, _, touched = prepared(tmp_path, [[(1, 1, 0)]], [], alone=False)
    assert run_task(task_of(touched, tmp_path, rows=5)).column("rows").to_pylist() == [0]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from((-1, 1))), max_size=30), st.integers(1, 7)
)
def test_the_difference_counts_each_row_once(rows: list[tuple[int, int, int]], batch_rows: int) -> None:
    rows = [*rows, (9, 0, -1)]  # where nothing is withdrawn rows stay as they are
    given_rows = pa.table(
        {
            "c0": pa.array([row[0] for row in rows], pa.int64()),
            "c1": pa.array([TEXTS[row[1]] for row in rows], pa.string()),
            "sign": pa.array([row[2] for row in rows], pa.int64()),
        }
    )
    batches = given_rows.to_batches(batch_rows)
    found = [row for batch in DifferenceTask(100, 1 << 20)(iter(batches)) for row in batch.to_pylist()]
    wanted: Counter[tuple[int, str | None]] = Counter()
    for c0, text, sign in rows:
        wanted[c0, TEXTS[text]] += sign
    assert sorted(map(repr, found)) == sorted(
        repr({"c0": c0, "c1": text, "sign": count}) for (c0, text), count in wanted.items() if count
    )
    # Piece by piece the same is reported with more rows.
    for piece_rows, piece_bytes in ((3, 1 << 20), (100, 1)):
        told: Counter[tuple[int, str | None]] = Counter()
        for batch in DifferenceTask(piece_rows, piece_bytes)(iter(batches)):
            for row in batch.to_pylist():
                told[row["c0"], row["c1"]] += row["sign"]
        assert {key: count for key, count in told.items() if count} == {k: c for k, c in wanted.items() if c}


def test_shares_follow_rows_and_no_key_is_cut(tmp_path: Path) -> None:
    before = [(key, 1, key % 3) for key in range(10)] + [(0, 1, 1), (0, 1, 2)]
    _, _, touched = prepared(tmp_path, [before], [(key, 1, 0) for key in range(10)], alone=False)
    for rows, at_least in ((1, 1), (4, 1), (1_000, 1), (1_000, 3)):
        shares = shares_of((touched,), rows_each=rows, at_least=at_least, at_most=256)
        assert [share.begin for share in shares] == [0, *(share.end for share in shares[:-1])]
        assert shares[-1].end == 10
        assert len(shares) >= min(at_least, 10)
    assert len(shares_of((touched,), rows_each=1, at_least=1, at_most=256)) == 10
    assert len(shares_of((touched,), rows_each=1_000, at_least=1, at_most=256)) == 1
    assert len(shares_of((touched,), rows_each=1, at_least=6, at_most=4)) == 4


def test_a_file_that_is_too_short_is_no_smaller_share(tmp_path: Path) -> None:
    _, _, touched = prepared(tmp_path, [[(1, 1, 0)]], [(1, 1, 1), (2, 1, 0)], alone=False)
    task = task_of(touched, tmp_path, rows=5)
    touched.keys.path.write_bytes(touched.keys.path.read_bytes()[:8])
    (failure,) = set(run_task(task).column("failure").to_pylist())
    assert isinstance(failure_from_wire(pb.Failure.FromString(failure)), Determinate)
