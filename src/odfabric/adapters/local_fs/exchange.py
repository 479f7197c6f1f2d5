"""The exchange folder: one private folder for each engine call.

Owns the life of session folders. Invariant: a session folder belongs to a process that holds a lock, so what a dead process left
behind is known and removed, and what a living one uses is never touched, no matter who cleans up. A session that an engine still wrote to
when it ended is removed by its own process later. Not here: what lies in sessions.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odfabric.adapters.local_fs.file_lock import try_lock, unlock
from odfabric.errors import Determinate

OWNER = ".owner-"
_CLAIMS_MAX = 8
_SESSION = re.compile(r"([0-9a-f]{16})-\d+", re.ASCII)


class FolderExchange:
    """An Exchange shared by processes.

    `leftovers_max` bounds what one clean-up removes.
    """

    def __init__(self, root: Path, *, leftovers_max: int = 10_000) -> None:
        self._root = Path(os.path.abspath(root))
        self._leftovers_max = leftovers_max
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._owner: tuple[str, int] | None = None
        self._open: set[Path] = set()
        self._ended: set[Path] = set()
        """Sessions that could not be removed at their end: the engine of a call that was cancelled may write for some seconds."""

    @property
    def root(self) -> Path:
        """See the port."""
        return self._root

    @contextmanager
    def session(self) -> Iterator[Path]:
        """See the port.

        The first one also removes what dead processes left. Raises Determinate.
        """
        try:
            with self._lock:
                self._remove_ended()
                folder = self._root / f"{self._claimed()}-{next(self._numbers)}"
                folder.mkdir(mode=0o700)
                self._open.add(folder)
        except OSError as error:
            raise Determinate(f"the exchange folder cannot be used: {error.strerror or error}") from error
        try:
            yield folder
        finally:
            # Others begin meanwhile: a large session takes a while.
            shutil.rmtree(folder, ignore_errors=True)
            with self._lock:
                self._open.discard(folder)
                if folder.exists():
                    self._ended.add(folder)

    def remove_leftovers(self) -> int:
        """Remove sessions of processes that are gone; returns how many.

        Raises OSError if the folder cannot be read.
        """
        with self._lock:
            self._remove_ended()
        return self._remove_of_others()

    def _remove_of_others(self) -> int:
        removed = 0
        names = sorted(os.listdir(self._root)) if self._root.exists() else []
        for owner in names:
            if not owner.startswith(OWNER) or removed >= self._leftovers_max:
                continue
            lock = self._root / owner
            opened = try_lock(lock)
            if opened is None:
                continue
            for name in names:
                if name.startswith(owner.removeprefix(OWNER) + "-"):
                    shutil.rmtree(self._root / name, ignore_errors=True)
                    removed += 1
            unlock(lock, opened)
        for folder in [self._root / name for name in names if self._is_without_owner(name)]:
            if removed < self._leftovers_max and folder.is_dir():
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
        return removed

    def _is_without_owner(self, name: str) -> bool:
        """Whether no process of the session is left.

        The file of an owner is there before its sessions are.
        """
        session = _SESSION.fullmatch(name)
        return session is not None and not (self._root / f"{OWNER}{session[1]}").exists()

    def _remove_ended(self) -> None:
        for folder in self._ended:
            shutil.rmtree(folder, ignore_errors=True)
        self._ended = {folder for folder in self._ended if folder.exists()}

    def close(self) -> None:
        """Give up the claim. That of sessions which have not ended ends with the process."""
        with self._lock:
            self._remove_ended()
            if self._owner is not None and not self._open:
                name, opened = self._owner
                unlock(self._root / f"{OWNER}{name}", opened)
                self._owner = None

    def _claimed(self) -> str:
        if self._owner is None:
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._remove_of_others()
            self._owner = self._claim()
        return self._owner[0]

    def _claim(self) -> tuple[str, int]:
        # Somebody who cleans up may take the new file for a dead owner's before it is locked: then another name is tried.
        for _ in range(_CLAIMS_MAX):
            name = secrets.token_hex(8)
            opened = try_lock(self._root / f"{OWNER}{name}")
            if opened is not None:
                return name, opened
        raise Determinate("no name could be claimed in the exchange folder")
