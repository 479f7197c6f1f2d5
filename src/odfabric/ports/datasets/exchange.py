"""The exchange folder of coordinator and engine: files hold rows, messages paths."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol


class Exchange(Protocol):
    """Private folders for single engine calls."""

    def session(self) -> AbstractContextManager[Path]:
        """A fresh empty folder, removed with all it holds when the context ends.

        Engine paths are below `root`.
        """

    @property
    def root(self) -> Path:
        """The exchange folder itself."""
