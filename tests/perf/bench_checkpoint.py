"""Transform state in checkpoints: an iteration of 1,000 rows by state size.

    PYTHONPATH=src:services/engine-spark/src .odf/venv/bin/python tests/perf/bench_checkpoint.py [--rows 100000 1000000]

For each size: the first checkpoint (rows added, sorted, written), then iterations that each open the last checkpoint with its bases,
look up the keys of 1,000 new rows, add these rows and write a delta. Printed are medians, the slowest iteration (it merges runs)
and the ratio between sizes; CPU time stands beside wall time, for a shared machine has its own ideas of the latter. Files lie in
one folder and were just written, so this measures the format, not the disk.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import row_bytes
from odfabric_engine_spark.operators.aggregate.accumulators.aggregate_functions import Accumulators
from odfabric_engine_spark.operators.aggregate.group_state import GroupState, stored_groups
from odfabric_engine_spark.plan.aggregates.aggregate_calls import AggregateCall, AggregateFunction
from odfabric_engine_spark.state.checkpoint import (
    Checkpoint,
    StoredCheckpoint,
    bases_of,
    read_checkpoint,
    write_checkpoint,
)
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import CLOSES, HASH, WEIGHT
from odfabric_engine_spark.state.stored_runs import StateToStore, StateWork

ROWS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("city", pa.string()),
        pa.field("price", pa.decimal128(18, 2)),
        pa.field("event_time", pa.timestamp("us", tz="UTC")),
        pa.field("value", pa.float64()),
    ]
)
NEW_ROWS = 1_000
PIECE_ROWS = 250_000
ROWS_A_KEY = 4
CALLS = [
    AggregateCall(function=AggregateFunction.COUNT, input=None, result="long", lenient=False, text="count(*)"),
    AggregateCall(function=AggregateFunction.SUM, input=0, result="long", lenient=False, text="sum(v)"),
]
ACCUMULATORS = Accumulators.of(CALLS, [pa.int64()])
GROUPS = GroupState.schema([pa.field("id", pa.int64())], ACCUMULATORS)


class Timings:
    """Wall and CPU milliseconds by what was done."""

    def __init__(self) -> None:
        self.taken: dict[str, list[tuple[float, float]]] = {}

    def of(self, what: str, work: Callable[[], object]) -> object:
        """Does it and takes the time."""
        wall, cpu = time.perf_counter(), time.process_time()
        done = work()
        self.taken.setdefault(what, []).append(((time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3))
        return done

    def median(self, what: str) -> tuple[float, float]:
        """Wall and CPU."""
        walls, cpus = zip(*self.taken[what], strict=True)
        return statistics.median(walls), statistics.median(cpus)


class Folder:
    """Checkpoints of one state, one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = StateWork(scratch=path, piece_rows=PIECE_ROWS, added_bytes_max=256 << 20, check=lambda: None)
        self.files: dict[str, Path] = {}

    def open(self) -> StoredCheckpoint | None:
        """The last one."""
        if not self.files:
            return None
        name = f"h{len(self.files) - 1}"
        return read_checkpoint(self.files[name], name=name, own_hash=name, bases=self.files)

    def save(self, state: StateToStore, after: StoredCheckpoint | None) -> None:
        """The next one."""
        name = f"h{len(self.files)}"
        written = Checkpoint(fingerprint="f", inputs=(), watermark=None, states={"state": state})
        write_checkpoint(self.path / name, written, after=after)
        self.files[name] = self.path / name
        for scratch in self.path.glob("run-*"):
            scratch.unlink()


class RowsBench:
    """Rows by key."""

    name = "rows"

    def __init__(self, size: int) -> None:
        self._random = np.random.default_rng(size)
        self._keys = max(size // ROWS_A_KEY, 1)

    def open(self, kept: StoredCheckpoint | None, work: StateWork) -> RowState:
        """The state."""
        if kept is None:
            return RowState(ROWS, timed=True, work=work)
        return kept.rows("state", ROWS, timed=True, work=work)

    def new(self, count: int) -> pa.Table:
        """New rows of random keys."""
        random = self._random
        hashes = random.integers(0, self._keys, count).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        times = random.integers(0, 10**15, count)
        cities = pa.array([f"city-{each}" for each in range(5_000)]).take(pa.array(random.integers(0, 5_000, count)))
        price = pa.array(random.integers(0, 10**6, count)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(18, 2))
        columns = {
            HASH: hashes,
            WEIGHT: np.ones(count, dtype=np.int64),
            CLOSES: times // 3_600_000_000 * 3_600_000_000,
            "id": random.integers(0, 10**12, count),
            "city": cities,
            "price": price,
            "event_time": pa.array(times, ROWS.field("event_time").type),
            "value": random.random(count),
        }
        return pa.table(columns)

    def look_up(self, state: RowState, new: pa.Table) -> object:
        """Old rows of the keys."""
        return state.of_keys(new.column(HASH))

    def add(self, state: RowState, new: pa.Table) -> RowState:
        """The state with new rows."""
        state.add_run(state.as_run(new))
        return state


class GroupsBench:
    """Accumulators by key."""

    name = "groups"

    def __init__(self, size: int) -> None:
        self._random = np.random.default_rng(size)
        self._size = size
        self._made = 0

    def open(self, kept: StoredCheckpoint | None, work: StateWork) -> GroupState:
        """The state."""
        if kept is None:
            return GroupState(GROUPS, ["id"], end_column=None, work=work)
        return stored_groups(kept, "state", GROUPS, ["id"], end_column=None, work=work)

    def new(self, count: int) -> pa.Array:
        """New keys while the state is filled, known ones later."""
        begin, self._made = self._made, self._made + count
        if begin < self._size:
            return pa.array(np.arange(begin, begin + count))
        return pa.array(np.unique(self._random.integers(0, self._size, count)))

    def look_up(self, state: GroupState, new: pa.Array) -> object:
        """Slots of the groups."""
        positions = state.find(row_bytes([new]))
        return state.values(positions[positions >= 0], ACCUMULATORS)

    def add(self, state: GroupState, new: pa.Array) -> GroupState:
        """The state with these groups replaced."""
        values = ACCUMULATORS.zeros(len(new))
        values.rows[:] = 1 + self._made
        known = state.find(row_bytes([new])) >= 0
        return state.with_run(state.as_run(row_bytes([new]), {"id": new}, values, known=known))


def measure(bench: RowsBench | GroupsBench, size: int, iterations: int) -> Timings:
    """Fills a state and iterates."""
    timings = Timings()
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as name:
        folder = Folder(Path(name))

        def fill() -> None:
            state = bench.open(None, folder.work)
            for begin in range(0, size, PIECE_ROWS):
                state = bench.add(state, bench.new(min(PIECE_ROWS, size - begin)))
            folder.save(state, None)

        timings.of("first", fill)
        print(f"{bench.name:6} {size:>10,}: first file {folder.files['h0'].stat().st_size / 1e6:,.1f} MB")
        for _ in range(iterations):
            new = bench.new(NEW_ROWS)
            kept = timings.of("open", folder.open)
            state = timings.of("load", lambda kept=kept: bench.open(kept, folder.work))
            timings.of("look up", lambda state=state, new=new: bench.look_up(state, new))
            state = timings.of("add", lambda state=state, new=new: bench.add(state, new))
            timings.of("save", lambda state=state, kept=kept: folder.save(state, kept))
        sizes = [path.stat().st_size for path in folder.files.values()][1:]
        bases = max(len(bases_of(path, name=path.name)) for path in folder.files.values())
        print(f"{'':17}  deltas: median {statistics.median(sizes) / 1e3:,.0f} kB, bases at most {bases}")
    return timings


def main() -> None:
    """Prints one line for each size and step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--iterations", type=int, default=30)
    arguments = parser.parse_args()
    for kind in (RowsBench, GroupsBench):
        base: dict[str, float] = {}
        for size in arguments.rows:
            timings = measure(kind(size), size, arguments.iterations)
            for what in ("first", "open", "load", "look up", "add", "save"):
                wall, cpu = timings.median(what)
                slowest = max(taken[0] for taken in timings.taken[what])
                ratio = cpu / base.setdefault(what, cpu)
                print(
                    f"{'':17}  {what:8} {wall:>10,.1f} ms wall, {cpu:>10,.1f} ms CPU,"
                    f" slowest {slowest:>10,.1f} ms, {ratio:.2f} times the smallest"
                )


if __name__ == "__main__":
    main()
