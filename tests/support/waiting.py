"""Waiting in tests: on a condition with a deadline, never for a time."""

import socket
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], *, deadline_s: float = 20.0, what: str = "the condition") -> T:
    """Returns the first true value of `condition`.

    Fails the test by name when the deadline passes.
    """
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true within {deadline_s} s")


def free_port() -> int:
    """A loopback port that was free a moment ago.

    A server that can bind port 0 itself should do that instead.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
