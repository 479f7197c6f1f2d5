"""An exchange folder for tests.

Sessions are numbered, so paths repeat themselves from run to run.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class MemoryExchange:
    """An Exchange below a folder that the test owns.

    Files are what engines read, so memory alone would not do.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._numbers = itertools.count(1)

    @property
    def root(self) -> Path:
        """See the port."""
        return self._root

    @contextmanager
    def session(self) -> Iterator[Path]:
        """See the port."""
        folder = self._root / f"session-{next(self._numbers)}"
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
