"""A lock between threads and processes that the kernel frees when its holder dies.

Owns one pattern: an exclusive `flock` on a file that is removed again by its holder. Invariant: anyone who holds the lock holds it on
the file that has the name now, so removing the file never splits the waiters into two camps.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PAUSE_S_MIN = 0.0005
_PAUSE_S_MAX = 0.02


def try_lock(path: Path) -> int | None:
    """A file descriptor that holds the lock until closed; None if another holds it.

    Raises OSError.
    """
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(opened), os.stat(path)):
            return opened
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(opened)
        raise
    os.close(opened)
    return None


def unlock(path: Path, opened: int) -> None:
    """Remove the file and free the lock, in this order.

    A file that cannot be removed does no harm.
    """
    with suppress(OSError):
        path.unlink()
    os.close(opened)


@contextmanager
def held_folder(folder: Path, *, wait_s_max: float) -> Iterator[None]:
    """Hold the lock on a folder itself while the context is open.

    Raises TimeoutError after `wait_s_max` seconds, OSError.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + wait_s_max
        pause_s = _PAUSE_S_MIN
        while True:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"held by another for {wait_s_max} s") from None
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSE_S_MAX)
        yield
    finally:
        os.close(opened)


@contextmanager
def held_lock(path: Path, *, wait_s_max: float) -> Iterator[None]:
    """Hold the lock while the context is open.

    Raises TimeoutError after `wait_s_max` seconds, OSError.
    """
    deadline = time.monotonic() + wait_s_max
    pause_s = _PAUSE_S_MIN
    while (opened := try_lock(path)) is None:
        if time.monotonic() >= deadline:
            raise TimeoutError(f"held by another for {wait_s_max} s")
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _PAUSE_S_MAX)
    try:
        yield
    finally:
        unlock(path, opened)
