"""Garbage collection of our processes, which begin with modules by the thousand.

Owns how often a process that starts is searched for garbage, and what is left out later. Modules stay until the end: to search them
again and again took a sixth of each start, and a search of all of them stops every request for a quarter of a second.
"""

from __future__ import annotations

import gc

STARTING_OBJECTS = 50_000
"""New objects between two collections of a process that starts or runs one command; Python's own value is 700."""

_USUAL = gc.get_threshold()


def collect_rarely() -> None:
    """For a process that starts, or that ends after one command."""
    gc.set_threshold(STARTING_OBJECTS, *_USUAL[1:])


def keep_for_good() -> None:
    """Keep what the process has now out of later garbage collections.

    They are as frequent as usual from here on.

    Measured by `tests.perf.node.bench_console`.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_USUAL)
