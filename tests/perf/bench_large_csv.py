"""A large CSV by REST: seconds to commit, and peak memory of each process.

The greatest resident sets of api, worker, engine and its JVM.

    PYTHONPATH=. .odf/venv/bin/python tests/perf/bench_large_csv.py [--mb 300] [--memory-mib 1024]

The script starts a node of its own, makes the file as a stream and pushes it as one body. It prints how far it is: bytes sent, then the
progress of the job. Memory is bounded if the sets do not grow
with `--mb`: run it with two sizes and compare.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import httpx

from tests.support.node_process import node_process
from tests.support.process_tree import descendants

MANIFEST = """
kind: DatasetSnapshot
version: 1
content:
  name: large
  kind: Root
  metadata:
  - kind: AddPushSource
    sourceName: default
    read:
      kind: Csv
      header: true
      schema:
        fields:
        - {name: event_time, type: Timestamp}
        - {name: id, type: Int64}
        - {name: city, type: String}
        - {name: value, type: Float64}
        - {name: price, type: {kind: Decimal, precision: 12, scale: 2}}
    merge: {kind: Append}
"""
ROWS_OF_PIECE = 10_000
SAMPLE_S = 0.2
SHOW_S = 10.0
WAIT_S_MAX = 7200.0
KINDS = {
    "odfabric_api": "api",
    "odfabric_worker": "worker",
    "odfabric_engine_spark": "engine",
    "java": "JVM of the engine",
}


def pieces(size: int) -> Iterator[bytes]:
    """A CSV of about `size` bytes.

    Its rows differ, and it is never in memory as a whole.
    """
    chance, row, sent = random.Random(1), 0, 0
    head = b"event_time,id,city,value,price\n"
    yield head
    while sent < size:
        lines = []
        for _ in range(ROWS_OF_PIECE):
            second = row % 86_400
            clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
            lines.append(
                f'2024-01-{row // 86_400 % 28 + 1:02d} {clock},{row},"city {row % 977}",{chance.random():.9f},{row % 9999}.25'
            )
            row += 1
        piece = ("\n".join(lines) + "\n").encode()
        sent += len(piece)
        yield piece


@contextmanager
def resident_sets(root: int) -> Iterator[dict[str, int]]:
    """Greatest resident set per kind of process below `root` in the block, in bytes."""
    greatest: dict[str, int] = defaultdict(int)
    ended = Event()

    def watch() -> None:
        while not ended.wait(SAMPLE_S):
            now: dict[str, int] = defaultdict(int)
            for process in descendants(root):
                kind = next((kind for word, kind in KINDS.items() if word in process.command), None)
                if kind is not None:
                    now[kind] += resident(process.pid)
            for kind, size in now.items():
                greatest[kind] = max(greatest[kind], size)

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield greatest
    finally:
        ended.set()
        watcher.join()


def resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class Progress:
    """Prints a line now and then."""

    def __init__(self) -> None:
        self._began = self._shown = time.perf_counter()

    def show(self, text: str) -> None:
        now = time.perf_counter()
        if now - self._shown >= SHOW_S:
            self._shown = now
            print(f"{now - self._began:6.0f} s  {text}", flush=True)


def sending(size: int, progress: Progress) -> Iterator[bytes]:
    """The file, with the bytes that have been sent."""
    sent = 0
    for piece in pieces(size):
        yield piece
        sent += len(piece)
        progress.show(f"sent {sent / 1e6:.0f} of {size / 1e6:.0f} MB")


def push(client: httpx.Client, size: int) -> dict[str, object]:
    """Pushes the file and waits for its commit.

    The answer, or the document of the job.
    """
    progress = Progress()
    answer = client.post("/local/large/ingest", content=sending(size, progress), headers={"content-type": "text/csv"})
    found = answer.json()
    while answer.status_code == httpx.codes.ACCEPTED or found.get("status") in ("queued", "running"):
        time.sleep(SAMPLE_S)
        job = found["job"]["id"] if "job" in found else found["id"]
        answer = client.get(f"/jobs/{job}")
        found = answer.json()
        progress.show(f"job {found.get('status')} {json.dumps(found.get('progress'))}")
    return dict(found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=300)
    parser.add_argument("--memory-mib", type=int, default=1024)
    arguments = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    limits = {"ODF_ENGINE_MEMORY_MIB": str(arguments.memory_mib), "ODF_PUSH_WAIT_S_MAX": "1"}
    with tempfile.TemporaryDirectory() as folder, node_process(Path(folder) / "node", **limits) as node:
        node.create(MANIFEST)
        node.http.timeout = httpx.Timeout(WAIT_S_MAX)
        with resident_sets(node.process.pid) as greatest:
            began = time.perf_counter()
            answer = push(node.http, arguments.mb * 1_000_000)
            took = time.perf_counter() - began
    print(f"{arguments.mb} MB in {took:.0f} s: {str(answer)[:200]}")
    for kind, size in sorted(greatest.items()):
        print(f"{kind:<18} {size / 2**20:6.0f} MiB")
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
