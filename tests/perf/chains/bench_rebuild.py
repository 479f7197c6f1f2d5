"""Rebuilding one dataset with a long chain: blocks/s, and memory.

    PYTHONPATH=src .odf/venv/bin/python tests/perf/chains/bench_rebuild.py [--blocks 100000]

Blocks lie in a folder, the database is SQLite; AddData blocks whose slices are not there, for a rebuild does not read slices. The
rebuild runs in a process of its own, so that its peak is not that of making the chain.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.formats.identifiers.dataset_layout import alias_key, block_key, head_key
from odfabric.model.metadata import SetDataSchema
from odfabric.settings import Settings
from odfabric.testing.chains import ChainBuilder, example_schema
from odfabric.usecases.maintenance.rebuild import RebuildOutcome
from odfabric.wiring import open_node, prepare_workspace


def write_chain(workspace: Path, blocks: int) -> None:
    """A published chain in the folder of objects."""
    chain = ChainBuilder()
    chain.append(SetDataSchema(schema=example_schema()))
    while len(chain.blocks) < blocks:
        chain.append(chain.next_add_data(3))
    dataset = chain.state.dataset_id
    objects = workspace / "objects"
    (objects / block_key(dataset, chain.head)).parent.mkdir(parents=True)
    for encoded in chain.blocks:
        (objects / block_key(dataset, encoded.hash)).write_bytes(encoded.data)
    for key, text in ((head_key(dataset), str(chain.head)), (alias_key(dataset), "local/long")):
        (objects / key).parent.mkdir()
        (objects / key).write_text(text)


def rebuild(workspace: Path, blocks: int) -> None:
    settings = Settings(workspace=workspace)
    prepare_workspace(settings)
    with open_node(settings, engine=MemoryEngine(workspace / "exchange")) as node:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.perf_counter()
        (found,) = node.objects.rebuild(adopt=False)
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (found.outcome, found.blocks) == (RebuildOutcome.REBUILT, blocks)
    print(f"{blocks:,} blocks in {seconds:.1f} s: {blocks / seconds:,.0f} blocks/s")
    print(f"memory: {before / 1024:.0f} MiB before, {peak / 1024:.0f} MiB at the peak")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=100_000)
    blocks = parser.parse_args().blocks
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"
        context = multiprocessing.get_context("spawn")
        for step in (write_chain, rebuild):
            process = context.Process(target=step, args=(workspace, blocks))
            process.start()
            process.join()
            assert process.exitcode == 0


if __name__ == "__main__":
    main()
