"""Processes on another day: `libfaketime` in Python and in Spark's JVM.

Invariant: only the time of day is moved; waits, time-outs and the times of files go by the true clock. Not here: what must not
depend on the day (`test_determinism`).
"""

from __future__ import annotations

import platform
import sys
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

from odfabric_engine_spark.spark.jvm.jvm_process import Java

CAN_MOVE_CLOCKS = sys.platform == "linux" and platform.machine() == "x86_64"
"""The package brings its library for these machines only."""


def environment_on_another_day(days: int) -> dict[str, str]:
    """Environment of a process whose clock is so many days ahead."""
    package = find_spec("libfaketime")
    assert package is not None
    assert package.origin is not None
    library = Path(package.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
    assert library.exists()
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{days:+}d",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # with it each wait of a virtual machine ends at once, and it does nothing else
        "NO_FAKE_STAT": "1",
    }


def java_on_another_day(java: Java, folder: Path, days: int) -> Java:
    """The same Java in a new folder, its clock days ahead, with no environment given."""
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    moved = " ".join(f"{name}={quote(value)}" for name, value in environment_on_another_day(days).items())
    launcher.write_text(f'#!/bin/sh\n{moved} exec {quote(str(java.executable))} "$@"\n')
    launcher.chmod(0o755)
    return Java(folder, java.version)
