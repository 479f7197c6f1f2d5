"""Logical hash against raw SHA3-256 of the same Arrow bytes, 10 mixed columns.

    PYTHONPATH=src .odf/venv/bin/python tests/perf/chains/bench_logical_hash.py [--rows 1000000] [--memory-rows 5000000]

Prints rows/s of the hash in memory, from a Snappy Parquet file with one and two threads, and the ratio to raw SHA3-256;
then the peak memory of a fresh process that hashes a file of `--memory-rows` rows.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from odfabric.formats.parquet.parquet_reading import BATCH_ROWS
from odfabric.formats.slices.logical_hash import LogicalHasher, logical_hash_of_parquet

_RUNS = 3


def mixed_table(rows: int, *, first: int = 0) -> pa.Table:
    """Datasets' typical columns: integers, times, strings, nulls, flags, decimals."""
    chance = np.random.default_rng(first)
    numbers = np.arange(first, first + rows, dtype=np.int64)
    millis = pa.timestamp("ms", "UTC")
    return pa.table(
        {
            "offset": pa.array(numbers),
            "op": pa.array(np.zeros(rows, np.int32)),
            "system_time": pa.array(np.full(rows, 1_577_880_000_000), pa.int64()).cast(millis),
            "event_time": pa.array(1_577_880_000_000 + numbers * 1000).cast(millis),
            "city": pa.array(np.char.add("city-", (numbers % 1000).astype(str))),
            "id": pa.array(np.char.add("key-", (numbers * 7919 % 10_000_019).astype(str))),
            "temperature": pa.array(chance.normal(size=rows), mask=chance.random(rows) < 0.1),
            "valid": pa.array(chance.random(rows) < 0.5),
            "count": pa.array(chance.integers(0, 1 << 31, rows, np.int32)),
            "price": pa.array(numbers % 100_000).cast(pa.decimal128(21, 2)),
        }
    )


def _arrow_buffers(table: pa.Table) -> list[pa.Buffer]:
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    return [buffer for chunk in chunks for buffer in chunk.buffers() if buffer is not None]


def _best_seconds(measure: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(_RUNS):
        start = time.perf_counter()
        measure()
        best = min(best, time.perf_counter() - start)
    return best


def _raw(table: pa.Table) -> None:
    digest = hashlib.sha3_256()
    for buffer in _arrow_buffers(table):
        digest.update(buffer)


def _hashed(table: pa.Table) -> None:
    hasher = LogicalHasher(table.schema)
    for batch in table.to_batches(BATCH_ROWS):
        hasher.update(batch)
    hasher.finish()


def _throughput(rows: int, folder: Path) -> None:
    table = mixed_table(rows).combine_chunks()
    size = sum(buffer.size for buffer in _arrow_buffers(table))
    path = folder / "mixed"
    pq.write_table(table, path)
    raw = _best_seconds(lambda: _raw(table))
    print(f"{rows} rows, {size / 1e6:.0f} MB of Arrow buffers")
    with ThreadPoolExecutor(2) as pool:
        cases: dict[str, Callable[[], object]] = {
            "raw SHA3-256 of the same bytes": lambda: _raw(table),
            "logical hash, in memory, 1 thread": lambda: _hashed(table),
            "logical hash, Parquet, 1 thread": lambda: logical_hash_of_parquet(path),
            "logical hash, Parquet, 2 threads": lambda: logical_hash_of_parquet(path, column_map=pool.map),
        }
        for name, measure in cases.items():
            took = _best_seconds(measure)
            print(f"  {name:34} {rows / took / 1e6:6.2f} Mrow/s {size / took / 1e6:6.0f} MB/s {took / raw:5.2f} x raw")


def _peak_memory(rows: int, folder: Path) -> None:
    path = folder / "large"
    with pq.ParquetWriter(path, mixed_table(1).schema) as writer:
        for first in range(0, rows, 1_048_576):
            writer.write_table(mixed_table(min(1_048_576, rows - first), first=first))
    for role in ("idle", str(path)):
        subprocess.run([sys.executable, __file__, "--peak-of", role], check=True)


def _print_peak(role: str) -> None:
    name = "imports only"
    if role != "idle":
        digest = logical_hash_of_parquet(Path(role))
        name = f"hash of {digest.rows} rows, file of {Path(role).stat().st_size / 1e6:.0f} MB"
    # Not getrusage: its maximum is inherited from the process that started this one.
    status = Path("/proc/self/status").read_text()
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    print(f"  peak memory, {name}: {int(peak) / 1024:.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--memory-rows", type=int, default=5_000_000)
    parser.add_argument("--peak-of")
    options = parser.parse_args()
    if options.peak_of is not None:
        _print_peak(options.peak_of)
        return
    with tempfile.TemporaryDirectory() as folder:
        _throughput(options.rows, Path(folder))
        _peak_memory(options.memory_rows, Path(folder))


if __name__ == "__main__":
    main()
