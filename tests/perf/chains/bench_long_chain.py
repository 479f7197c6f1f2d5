"""A long chain without data.

It is pulled from a folder, pushed to another, verified by metadata alone.

    PYTHONPATH=src:. .odf/venv/bin/python tests/perf/chains/bench_long_chain.py [--blocks 100000]

Prints seconds, seconds of processor time and the memory of the process at its highest after each step. Every block is a file that is made
durable by itself, so the seconds are mostly those of the disk. Twice the blocks should take twice of each.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odfabric.model.instant import Instant
from odfabric.model.metadata import AddData, SetDataSchema
from odfabric.testing.chains import START, ChainBuilder, example_schema
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.perf.chains.bench_transfer import finished, pull, push, workspace
from tests.support.real_chains import remote_files


def write_long_chain(folder: Path, blocks: int) -> None:
    """Blocks that move the watermark."""
    chain = ChainBuilder()
    chain.append(SetDataSchema(schema=example_schema()))
    while len(chain.blocks) < blocks:
        chain.append(AddData(new_watermark=Instant.from_millis(START.millis + len(chain.blocks))))
    for area in ("blocks", "refs"):
        (folder / "origin" / area).mkdir(parents=True)
    for path, data in remote_files(chain.blocks, {}).items():
        (folder / "origin" / path).write_bytes(data)


@contextmanager
def measured(what: str) -> Iterator[None]:
    began, cpu = time.perf_counter(), time.process_time()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    taken = time.perf_counter() - began
    print(f"{what}: {taken:.2f} s, {time.process_time() - cpu:.2f} s of processor time, {peak} MiB at the highest")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=100_000)
    blocks = parser.parse_args().blocks
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_long_chain(folder, blocks)
        print(f"{blocks:,} blocks")
        with workspace(folder, "pulling") as node:
            with measured("pull"):
                pull(node, f"file://{folder}/origin")
            with measured("nothing new"):
                pull(node, f"file://{folder}/origin")
            with measured("push"):
                push(node, f"file://{folder}/pushed")
            entry = node.datasets.page(after=None, limit=1)[0]
            with measured("verify, metadata only"):
                finished(node, lambda: node.requests.verify(entry, VerifyOptions(data=False, replay=False)))


if __name__ == "__main__":
    main()
