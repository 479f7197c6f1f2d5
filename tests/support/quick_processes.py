"""Test processes are forked from one with everything imported, per pytest run.

Owns how that one is started, once, before anybody else starts it without its imports. Without it a process spends some seconds of a
processor on imports before it does what a test wants of it. Not here: what it imports (`tests.drills.preloaded`).
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from functools import cache
from multiprocessing.context import ForkServerContext
from multiprocessing.forkserver import ensure_running

import pytest


@cache
def quick_processes() -> ForkServerContext:
    """The context in which such processes are made."""
    context = multiprocessing.get_context("forkserver")
    # `pytest` is the main module of this process, which each new one imports.
    context.set_forkserver_preload(["pytest", "tests.drills.preloaded"])
    with pytest.MonkeyPatch.context() as environment:
        # It does not know where modules lie, and what it does not find it leaves out without a word.
        environment.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        ensure_running()
    return context
