"""Verification: a long chain by metadata, and replays on one core and on two.

    PYTHONPATH=src:. .odf/venv/bin/python tests/perf/bench_verify.py [--blocks 100000] [--transactions 24] [--rows 20000] [--rounds 5] [--kept FOLDER]

Prints blocks/s of `verify --metadata-only` over a chain in a folder, then seconds of a verification with replay by a warm engine: on one core
with one replay at a time, and on two with two, by turns, with medians and the ratio of each turn. Each engine is started with the cores that
it is measured with. The command starts, opens the workspace and checks chain and objects on one thread whatever the cores, so each turn times
the same command with --no-replay, too: the second ratio is that of the replays alone. Processor seconds are those of the whole machine, so they say what else it did.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.model.jobs.job import JobStatus
from odfabric.settings import Settings
from odfabric.usecases.verification.verification_run import VerifyOptions
from odfabric.wiring import engine_launcher, open_node, prepare_workspace
from tests.perf.chains.bench_rebuild import write_chain

MANIFESTS = """
kind: DatasetSnapshot
version: 1
content:
  name: readings
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read:
        kind: NdJson
        schema:
          fields:
            - { name: event_time, type: Timestamp }
            - { name: city, type: String }
            - { name: value, type: Int64 }
      merge: { kind: Append }
---
kind: DatasetSnapshot
version: 1
content:
  name: high
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{ datasetRef: readings }]
      transform:
        kind: Sql
        engine: spark
        query: SELECT event_time, upper(city) AS city, value * 2 AS doubled FROM readings WHERE value > 500
"""


def metadata_only(blocks: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        write_chain(workspace, blocks)
        settings = Settings(workspace=workspace)
        prepare_workspace(settings)
        with open_node(settings, engine=MemoryEngine(workspace / "exchange")) as node:
            list(node.objects.rebuild(adopt=False))
            entry = node.datasets.resolve(parse_dataset_ref("long"))
            started = time.perf_counter()
            job = node.requests.verify(entry, VerifyOptions(data=False, replay=False))
            ended = node.jobs.work_until_ended(job, worker="bench", listener=lambda _: None)
            seconds = time.perf_counter() - started
        assert ended.status is JobStatus.SUCCEEDED, ended.error
        assert json.loads(ended.result or "{}")["ok"]
    print(f"metadata alone: {blocks:,} blocks in {seconds:.1f} s: {blocks / seconds:,.0f} blocks/s")


def replays(transactions: int, rows: int, rounds: int, kept: Path | None) -> None:
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        place = kept or Path(folder)
        place.mkdir(parents=True, exist_ok=True)

        def odf(*arguments: str, **environment: str) -> None:
            command = [sys.executable, "-P", "-m", "odfabric.cli", *arguments]
            found = subprocess.run(
                command, cwd=place, env={**os.environ, **environment}, capture_output=True, text=True
            )
            assert found.returncode == 0, found.stderr

        if not (place / "filled").exists():
            (place / "manifests.yaml").write_text(MANIFESTS)
            odf("init")
            odf("add", "manifests.yaml")
            for number in range(transactions):
                lines = (
                    f'{{"event_time":"2026-01-01T00:{number % 60:02}:00Z","city":"c{n % 97}","value":{chance.randrange(1000)}}}'
                    for n in range(rows)
                )
                (place / "rows.ndjson").write_text("\n".join(lines))
                odf("ingest", "readings", "rows.ndjson")
                odf("pull", "high")
            (place / "filled").touch()
        taken = _in_turns(odf, place, rounds)
    for cores, measures in taken.items():
        wall, processor, without = (statistics.median(column) for column in zip(*measures, strict=True))
        walls = ", ".join(f"{each[0]:.2f}" for each in measures)
        print(
            f"replay of {transactions} transactions of {rows:,} rows on {cores} cores, {cores} at a time: "
            f"{wall:.2f} s wall, of which {without:.2f} s without the replays, {processor:.2f} s of processors (medians; wall {walls})"
        )
    turns = list(zip(taken[1], taken[2], strict=True))
    ratios = [one[0] / two[0] for one, two in turns]
    alone = [(one[0] - one[2]) / max(two[0] - two[2], 0.001) for one, two in turns]
    print(
        f"ratio of the replays alone: {statistics.median(alone):.2f}, median of turns ({', '.join(f'{each:.2f}' for each in alone)})"
    )
    print(
        f"ratio: {statistics.median(ratios):.2f}, median of turns ({', '.join(f'{each:.2f}' for each in ratios)}); "
        f"load {os.getloadavg()[0]:.1f} at the end"
    )


def _in_turns(odf: Callable[..., None], place: Path, rounds: int) -> dict[int, list[tuple[float, float, float]]]:
    """Wall and processor seconds of verifications on one core and on two, by turns.

    So what else the machine does is shared by both.
    """
    taken: dict[int, list[tuple[float, float, float]]] = {1: [], 2: []}
    for number in range(rounds):
        for cores in (1, 2) if number % 2 == 0 else (2, 1):
            print(f"turn {number + 1} of {rounds}, {cores} cores, load {os.getloadavg()[0]:.1f}", flush=True)
            taken[cores].append(_verified(odf, place, cores))
    return taken


def _verified(odf: Callable[..., None], place: Path, cores: int) -> tuple[float, float, float]:
    """Seconds of a verification by a warm engine: wall, processor, without replays.

    The engine has so many cores.

    The engine is a child of the first command, so both have the cores of this process.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < cores:
        raise SystemExit(f"{cores} cores are needed, this process may use {len(allowed)}")
    os.sched_setaffinity(0, allowed[:cores])
    try:
        odf("verify", "high", ODF_REPLAYS_AT_ONCE=str(cores))  # it starts the engine and warms it up
        before, started = _processor_s(), time.perf_counter()
        odf("verify", "high", ODF_REPLAYS_AT_ONCE=str(cores))
        wall, processor = time.perf_counter() - started, _processor_s() - before
        started = time.perf_counter()
        odf("verify", "high", "--no-replay")
        return wall, processor, time.perf_counter() - started
    finally:
        os.sched_setaffinity(0, allowed)
        engine_launcher(Settings(workspace=place / ".odf-workspace")).stop()


def _processor_s() -> float:
    """Seconds that processors have worked so far, for whatever process of the machine."""
    numbers = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _, _, interrupts, soft, _ = map(int, numbers)
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=100_000)
    parser.add_argument("--transactions", type=int, default=24)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kept", type=Path, help="folder of a workspace that is filled once, for one number of rows")
    given = parser.parse_args()
    if given.blocks:
        metadata_only(given.blocks)
    if given.transactions:
        replays(given.transactions, given.rows, given.rounds, given.kept)


if __name__ == "__main__":
    main()
