"""A slightly changed dump into a large Snapshot, with many slices or one.

    PYTHONPATH=. ./.odf/venv/bin/python tests/perf/chains/bench_snapshot_history.py [--rows 1000000] [--changes 1000] [--slices 100]

Each dataset gets its rows by Append, in one push or in `--slices` of them, and then a Snapshot source (`set-source`), as a dataset does whose
owner changes his mind. Timed is a push of the whole dump as Parquet, from the first byte to the answer; the first of each dataset, which
brings its index forward, is printed apart. The ratio is that of the medians. A busy machine says little: its load is printed too.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.node_process import NodeProcess, node_process

PARQUET = "application/vnd.apache.parquet"
MEMORY_MIB = 3072
DUMPS = 4
MANIFEST = """
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read:
        kind: Parquet
        schema:
          fields:
            - {{ name: id, type: Int64 }}
            - {{ name: value, type: Int64 }}
            - {{ name: note, type: String }}
      merge: {merge}
"""


def body_of(first: int, last: int, changed: np.ndarray, version: int) -> bytes:
    """Rows `[first, last)` as a Parquet file; those of `changed` have another value."""
    ids = np.arange(first, last)
    values = ids * 7919 % 100_003 + np.where(np.isin(ids, changed), version, 0)
    notes = pa.DictionaryArray.from_arrays(pa.array(ids % 50, pa.int32()), [f"note {number}" for number in range(50)])
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": ids, "value": values, "note": notes.cast(pa.string())}), sink)
    return sink.getvalue()


def seconds_of_dumps(node: NodeProcess, name: str, rows: int, changes: int, slices: int) -> list[float]:
    """Make the dataset, and push dumps to it."""
    nothing = np.array([], dtype=np.int64)
    node.create(MANIFEST.format(name=name, merge="{ kind: Append }"))
    step = -(-rows // slices)
    for first in range(0, rows, step):
        body = body_of(first, min(first + step, rows), nothing, 0)
        node.finished(node.post(f"/local/{name}/ingest", body, content_type=PARQUET))
    snapshot = MANIFEST.format(name=name, merge="{ kind: Snapshot, primaryKey: [id] }")
    answer = node.http.put(f"/local/{name}/sources", content=snapshot, headers={"content-type": "application/yaml"})
    assert answer.status_code == 200, answer.text
    chance = np.random.default_rng(1)
    taken = []
    for version in range(1, DUMPS + 1):
        body = body_of(0, rows, chance.choice(rows, changes, replace=False), version)
        began = time.perf_counter()
        result = node.finished(node.post(f"/local/{name}/ingest", body, content_type=PARQUET))
        taken.append(time.perf_counter() - began)
        assert result["changes"]["corrected"] >= changes, result["changes"]
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--slices", type=int, default=100)
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="odf-bench-") as folder:
        engine = {"ODF_ENGINE_MEMORY_MIB": str(MEMORY_MIB), "ODF_ENGINE_JVM_OPTIONS": ""}
        with node_process(Path(folder) / "workspace", **engine) as node:
            medians = {}
            for slices in (1, options.slices):
                taken = seconds_of_dumps(node, f"of-{slices}", options.rows, options.changes, slices)
                medians[slices] = statistics.median(taken[1:])
                print(f"{slices} slices: first dump {taken[0]:.2f} s, then {medians[slices]:.2f} s")
    print(f"ratio {medians[options.slices] / medians[1]:.2f}, load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
