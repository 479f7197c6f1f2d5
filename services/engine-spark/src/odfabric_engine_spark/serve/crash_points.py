"""Crash points of the engine process, where drills kill it.

Owns their names. `ODF_CRASH_AT` (or `--crash-at`) names the one that is armed; without it passing one costs a comparison.
"""

from __future__ import annotations

import os
import signal

INGEST_BEFORE_RESULT = "engine-process.ingest:before-result"
TRANSFORM_BEFORE_RESULT = "engine-process.transform:before-result"

CRASH_POINTS = (INGEST_BEFORE_RESULT, TRANSFORM_BEFORE_RESULT)


def crash_point(name: str, *, armed: str | None) -> None:
    """Kills this process with SIGKILL if `name` is the armed one."""
    if name == armed:
        os.kill(os.getpid(), signal.SIGKILL)
