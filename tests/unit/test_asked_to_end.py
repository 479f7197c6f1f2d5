"""Being asked to end while waiting for it, at whatever moment the signal comes."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from odfabric.asked_to_end import AskedToEnd

WAITING = """
import os, signal, sys, threading
from odfabric.asked_to_end import AskedToEnd
ended, line = {kind}(), 0

def now(frame, event, argument):
    global line
    if event == "line" and frame.f_code.co_name in ("wait", "__enter__", "__exit__"):
        line += 1
        if line == {at}:
            sys.settrace(None)
            os.kill(os.getpid(), signal.SIGTERM)
    return now

signal.signal(signal.SIGTERM, lambda *_: ended.set())
sys.settrace(now)
while not ended.wait(0.001):
    if line > 200:
        break
"""
"""A signal at the n-th line that waiting takes."""


def ends(kind: str, at: int, *, within_s: float) -> bool:
    code = WAITING.format(kind=kind, at=at)
    try:
        return subprocess.run([sys.executable, "-c", code], timeout=within_s, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@pytest.mark.parametrize("at", range(1, 9))
def test_a_signal_ends_the_wait_at_every_moment(at: int) -> None:
    assert ends("AskedToEnd", at, within_s=60)


def test_an_event_would_not_be_enough() -> None:
    """The test's own test: the handler may wait for a lock of its own thread.

    An event would not be enough.
    """
    assert not all(ends("threading.Event", at, within_s=2) for at in range(1, 13))


def test_it_is_seen_by_all_who_wait_and_by_those_who_come_later() -> None:
    asked, seen = AskedToEnd(), []
    threads = [threading.Thread(target=lambda: seen.append(asked.wait())) for _ in range(3)]
    assert not asked.wait(0.001)
    for thread in threads:
        thread.start()
    for _ in range(100_000):
        asked.set()
    for thread in threads:
        thread.join(timeout=10)
    assert seen == [True] * 3
    assert asked.is_set()
    assert asked.wait()
