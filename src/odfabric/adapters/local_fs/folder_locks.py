"""Locks by name for all processes of one machine, as files of a folder.

Owns which file stands for which name. Invariant: see `file_lock`; the kernel frees what a dead process held.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from odfabric.adapters.local_fs.file_lock import held_folder, held_lock
from odfabric.errors import Determinate


class OneFolderLock:
    """The lock of a shared folder, held on the folder itself: it leaves nothing there."""

    def __init__(self, folder: Path, *, wait_s_max: float = 30.0) -> None:
        self._folder = folder
        self._wait_s_max = wait_s_max

    def exclusive(self, name: str) -> AbstractContextManager[None]:
        """Hold the lock while the context is open, whatever the name.

        Raises Determinate if it is not had in time.
        """
        return _held(name, self._folder, held_folder(self._folder, wait_s_max=self._wait_s_max))


class FolderLocks:
    """Locks in `folder`, which is made when the first one is taken.

    `wait_s_max` is how long one is waited for.
    """

    def __init__(self, folder: Path, *, wait_s_max: float = 30.0) -> None:
        self._folder = folder
        self._wait_s_max = wait_s_max

    def exclusive(self, name: str) -> AbstractContextManager[None]:
        """Hold the lock of `name` while the context is open.

        Raises Determinate if it is not had in time.
        """
        path = self._folder / hashlib.sha3_256(name.encode()).hexdigest()
        return _held(name, self._folder, held_lock(path, wait_s_max=self._wait_s_max))


@contextmanager
def _held(name: str, folder: Path, lock: AbstractContextManager[None]) -> Iterator[None]:
    """Make the folder and hold a lock of it.

    Only failures of these two are the lock's.
    """
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(lock)
        except OSError as error:
            raise Determinate(f"the lock of {name}: {error.strerror or error}") from error
        yield
