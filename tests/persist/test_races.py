"""Of threads and processes that follow one version one wins, on any register.

`ODF_PERSIST_RACES=20000` runs longer; each register has its share of it.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from odfabric_persist.location.consensus import Consensus, Version
from odfabric_persist.location.s3_consensus import S3Consensus
from tests.persist.stores import OpenConsensus, address_of, consensus_at
from tests.support.quick_processes import quick_processes

RACERS = 4
ROUNDS = int(os.environ.get("ODF_PERSIST_RACES", "2000"))
SHARE_OF_THREADS = 4
"""Races of threads are shorter by this factor than races of processes."""
SHARE_OF_S3 = 100
"""Races in a bucket are shorter by one more factor: the server of tests waits a second when two meet."""


def race(consensus: Consensus, racer: int, rounds: int, together: Any) -> list[int]:
    """All follow the same version at the same time, again and again.

    What this racer won. Numbers have gaps.
    """
    won: list[int] = []
    try:
        for number in range(rounds):
            head = consensus.head("race")
            expected = None if head is None else head.seqno
            seqno = (0 if expected is None else expected) + 1 + (racer + number) % 3
            together.wait(60)
            if consensus.compare_and_set("race", expected, Version(seqno, f"{racer}".encode())):
                won.append(seqno)
            together.wait(60)
    except BaseException:
        together.abort()
        raise
    return won


def check_race(consensus: Consensus, wins: list[list[int]], rounds: int) -> None:
    """Each round has one winner, and each version is its winner's."""
    versions = consensus.scan("race", 0, 1 << 20)
    assert sum(map(len, wins)) == len(versions) == rounds, "not exactly one of all who followed a version won"
    for racer, won in enumerate(wins):
        assert [one.seqno for one in versions if one.data == f"{racer}".encode()] == won
    assert sum(map(bool, wins)) > 1, "one racer was alone"


def rounds_for(consensus: Consensus) -> int:
    """How many rounds a register is raced."""
    return ROUNDS // (SHARE_OF_S3 if isinstance(consensus, S3Consensus) else 1)


def test_of_all_threads_that_follow_a_version_one_wins(open_consensus: OpenConsensus) -> None:
    rounds = rounds_for(open_consensus()) // SHARE_OF_THREADS
    handles, together = [open_consensus() for _ in range(RACERS)], threading.Barrier(RACERS)
    with ThreadPoolExecutor(RACERS) as pool:
        wins = list(pool.map(race, handles, range(RACERS), [rounds] * RACERS, [together] * RACERS))
    check_race(handles[0], wins, rounds)


def race_in_process(address: str, racer: int, rounds: int, together: Any, outcomes: Any) -> None:
    consensus = consensus_at(address)
    won: list[int] | None = None
    try:
        won = race(consensus, racer, rounds, together)
    finally:
        outcomes.put((racer, won))
        consensus.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "s3"])
def test_of_all_processes_that_follow_a_version_one_wins(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = address_of(kind, request, tmp_path)
    consensus = consensus_at(address)
    rounds = rounds_for(consensus)
    processes = quick_processes()
    outcomes, together = processes.SimpleQueue(), processes.Barrier(RACERS)
    racers = [
        processes.Process(target=race_in_process, args=(address, racer, rounds, together, outcomes))
        for racer in range(RACERS)
    ]
    for process in racers:
        process.start()
    wins = dict(outcomes.get() for _ in racers)
    for process in racers:
        process.join(60)
        assert process.exitcode == 0
    check_race(consensus, [wins[racer] for racer in range(RACERS)], rounds)
    consensus.close()


def test_a_head_is_never_without_its_version_while_others_truncate(open_consensus: OpenConsensus) -> None:
    writer, *others = (open_consensus() for _ in range(4))
    rounds, done = rounds_for(writer) // 10, threading.Event()
    assert writer.compare_and_set("k", None, Version(0, b""))

    def truncate(consensus: Consensus) -> int:
        removed = 0
        while not done.is_set():
            head = consensus.head("k")
            assert head is not None
            removed += consensus.truncate("k", head.seqno)
        return removed

    def read(consensus: Consensus) -> int:
        known = 0
        while not done.is_set():
            head = consensus.head("k")
            assert head is not None, "the head lost its version"
            assert head.seqno >= known, "the head went back"
            known = head.seqno
            assert consensus.scan("k", 0, 1), "the key lost all its versions"
        return 0

    with ThreadPoolExecutor(3) as pool:
        working = [pool.submit(work, one) for work, one in zip((truncate, truncate, read), others, strict=True)]
        try:
            for seqno in range(1, rounds):
                assert writer.compare_and_set("k", seqno - 1, Version(seqno, b""))
        finally:
            done.set()
        removed = sum(one.result() for one in working)
    left = writer.scan("k", 0, rounds)
    assert left[-1].seqno == rounds - 1
    assert removed + len(left) == rounds, "a version was counted twice, or not at all"
