"""Commits, jobs, objects on embedded adapters, beside their bare fsync.

    PYTHONPATH=src .odf/venv/bin/python tests/perf/node/bench_storage.py [--commits 500] [--folder DIR]

Prints p50 and p95 of: one fdatasync of 16 KiB; the commit of one block (head, index, job mark, outbox); queueing, leasing and
finishing a job; a look at an empty job table; writing an object of 4 KiB; publishing a ref under its lock. The folder decides
which disk is measured.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.jobs.jobs import SqlJobs
from odfabric.adapters.sql.upgrade import upgrade
from odfabric.testing.conformance.examples import NOW, new_chain
from odfabric.testing.conformance.jobs.jobs import new_job


def measure(name: str, act: Callable[[int], object], *, times: int) -> None:
    """Print percentiles of `act(0)` ... `act(times - 1)`."""
    taken = []
    for number in range(times):
        start = time.perf_counter()
        act(number)
        taken.append(time.perf_counter() - start)
    taken.sort()
    print(f"{name:32} p50 {taken[times // 2] * 1e3:7.2f} ms   p95 {taken[times * 95 // 100] * 1e3:7.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=500)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure_all(Path(folder), options.commits)


def measure_all(folder: Path, commits: int) -> None:
    opened = os.open(folder / "bare", os.O_RDWR | os.O_CREAT)
    measure("fdatasync of 16 KiB", lambda _: (os.write(opened, bytes(16384)), os.fdatasync(opened)), times=commits)
    url = f"sqlite:///{folder}/node.db"
    upgrade(url)
    database = Database(url)
    chain, jobs = new_chain(SqlChains(database)), SqlJobs(database)

    def commit(number: int) -> None:
        blocks = chain.next_blocks()
        chain.chains.append(
            chain.id, expected=chain.head, blocks=blocks, message=chain.message(blocks), job_ids=(f"job-{number}",)
        )
        chain.blocks += blocks

    def work(number: int) -> None:
        jobs.enqueue(new_job(f"job-{number}"), now=NOW)
        lease = jobs.lease("w", now=NOW, lease_ms=1000)
        assert lease is not None
        jobs.succeed(lease, now=NOW, result="{}")

    measure("commit of one block", commit, times=commits)
    measure("job: queue, lease, finish", work, times=commits // 2)
    measure("look at an empty job table", lambda _: jobs.lease("w", now=NOW, lease_ms=1000), times=commits)
    objects = FolderObjectStore(folder / "objects")
    measure("object of 4 KiB", lambda n: objects.put_bytes(f"fed01/data/{n}", bytes(4096)), times=commits)

    def publish(number: int) -> None:
        with objects.exclusive("fed01/refs/head"):
            objects.write_ref("fed01/refs/head", str(number))

    measure("ref under its lock", publish, times=commits)
    database.close()


if __name__ == "__main__":
    main()
