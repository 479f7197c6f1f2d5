"""The process that an engine must not outlive. Owns telling whether it lives."""

from __future__ import annotations

import os
from pathlib import Path


def lives(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True  # a system without this file, or it has ended just now: who asks again will hear it
    return status.rpartition(")")[2].split()[0] != "Z"
