"""A CSV of 2,000 columns and 1,000 rows: where the engine's time goes.

Reading, checking and writing.

    PYTHONPATH=.:src:services/engine-spark/src .odf/venv/bin/python tests/perf/bench_wide_csv.py [--columns 2000] [--rows 1000] [--profile]

One warm session, header and declared schema of four types, then header alone (texts), then inferSchema. Nothing of the coordinator
is in the figures: no hashing, no commit. `--profile` prints the functions of the engine's Python process that take longest.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import random
import statistics
from functools import partial
from pathlib import Path

from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataTypeBool,
    DataTypeFloat64,
    DataTypeInt64,
    DataTypeString,
)
from odfabric.model.source import MergeStrategyAppend, ReadStepCsv
from tests.perf.bench_engine_ingest import bench, seconds

TYPES = (DataTypeInt64(), DataTypeFloat64(), DataTypeString(), DataTypeBool())
RUNS = 5


def wide_csv(folder: Path, columns: int, rows: int) -> Path:
    """Integers, decimals, texts and truth values by turns."""
    chance, path = random.Random(1), folder / "wide.csv"
    with path.open("w") as file:
        file.write(",".join(f"c{at}" for at in range(columns)) + "\n")
        for _ in range(rows):
            whole, part = chance.randrange(10**6), f"{chance.random():.6f}"
            values = (str(whole), part, f"text {whole % 1000}", "true")
            file.write(",".join(values[at % len(values)] for at in range(columns)) + "\n")
    return path


def wide_schema(columns: int) -> DataSchema:
    return DataSchema(fields=tuple(DataField(name=f"c{at}", type=TYPES[at % len(TYPES)]) for at in range(columns)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--columns", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    steps = {
        "declared": ReadStepCsv(header=True, schema=wide_schema(arguments.columns)),
        "texts": ReadStepCsv(header=True),
        "inferred": ReadStepCsv(header=True, infer_schema=True),
    }
    with bench() as work:
        content = wide_csv(work.folder, arguments.columns, arguments.rows)
        for name, step in steps.items():
            push = partial(work.ingest, step, content, MergeStrategyAppend())
            (first,) = seconds(push, 1)
            times = seconds(push, RUNS)
            print(f"{name:<9} first {first:.2f} s, then median {statistics.median(times):.2f} s, best {times[0]:.2f} s")
            if arguments.profile:
                with cProfile.Profile() as profile:
                    push()
                pstats.Stats(profile).sort_stats("cumulative").print_stats(45)
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
