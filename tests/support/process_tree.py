"""Processes of a test, found in /proc, to show that none stays.

A process is known by its id together with the time of its start: ids are used again.
"""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

END_S_MAX = 30.0
"""Longest wait for the end of a process that a test asks to end, and once more for one that it kills."""

PROC = Path("/proc")
_PARENT_AT, _STARTED_AT = 1, 19
"""Places in /proc/PID/stat, counted after the command in parentheses, which stands third."""


@dataclass(frozen=True)
class Seen:
    """A process of this moment."""

    pid: int
    started: int
    command: str


def end_at_last(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL.

    Its pipes are not read to their end: a process that it leaves behind would keep them open, and the test waiting.
    """
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_S_MAX)
    process.kill()
    process.wait(END_S_MAX)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def children(parent: int) -> list[int]:
    """The processes that `parent` itself has started."""
    return _by_parent().get(parent, [])


def descendants(root: int) -> set[Seen]:
    """All processes below `root` now, without itself."""
    below = _by_parent()
    found: set[Seen] = set()
    waiting = list(below.get(root, ()))
    while waiting:
        pid = waiting.pop()
        waiting += below.get(pid, ())
        seen = seen_now(pid)
        if seen is not None:
            found.add(seen)
    return found


def _by_parent() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for pid in _pids():
        stat = _stat(pid)
        if stat is not None:
            found.setdefault(int(stat[_PARENT_AT]), []).append(pid)
    return found


def marked(text: str) -> set[Seen]:
    """All processes with `text` in their command line or environment."""
    found = set()
    for pid in _pids():
        seen = seen_now(pid)
        if seen is not None and text.encode() in _read(pid, "cmdline") + _read(pid, "environ"):
            found.add(seen)
    return found


def alive(processes: set[Seen]) -> set[Seen]:
    """Those that still run."""
    return {process for process in processes if seen_now(process.pid) == process}


def seen_now(pid: int) -> Seen | None:
    """The process with this id, unless it has ended (a zombie has)."""
    stat = _stat(pid)
    if stat is None or stat[0] == "Z":
        return None
    # Only the program and its module: what follows may change when a process sets its title.
    words = _read(pid, "cmdline").split(b"\0")[:4]
    return Seen(pid, int(stat[_STARTED_AT]), b" ".join(words).decode(errors="replace"))


def _pids() -> list[int]:
    return [int(path.name) for path in PROC.iterdir() if path.name.isdigit()]


def _stat(pid: int) -> list[str] | None:
    text = _read(pid, "stat").decode(errors="replace")
    return text.rpartition(")")[2].split() if text else None


def _read(pid: int, name: str) -> bytes:
    try:
        return (PROC / str(pid) / name).read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
