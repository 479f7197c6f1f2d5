"""What came of a download that broke off, kept for the next attempt.

Owns names, number and age of the files. Invariants: a file is of one URL and one entity tag, and whoever takes it has it alone; what it
holds is not believed: the whole object is hashed by the one who asked for it, and a wrong one is not kept.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

FILES_MAX = 32
AGE_S_MAX = 24 * 3600.0
MARK_BYTES_MAX = 1024


class PartialDownloads:
    """A folder of partial files; None: nothing is kept. Several processes may use it."""

    def __init__(self, folder: Path | None, *, files_max: int = FILES_MAX, age_s_max: float = AGE_S_MAX) -> None:
        """With `files_max` 0 nothing is kept.

        A file goes when it is older than `age_s_max` seconds and another one comes.
        """
        self._folder = folder if files_max else None
        self._files_max = files_max
        self._age_s_max = age_s_max

    def take(self, url: str, into: Path) -> str | None:
        """Move what was kept of `url` to `into`, and give its entity tag.

        None if there is nothing."""
        if self._folder is None:
            return None
        part, tag = self._paths(self._folder, url)
        try:
            with tag.open("rb") as file:
                mark = file.read(MARK_BYTES_MAX).decode()
            os.link(part, into)  # unlike a rename it does not replace what is there
            os.unlink(part)
        except (OSError, UnicodeDecodeError):
            return None
        return mark

    def keep(self, url: str, partial: Path, mark: str) -> None:
        """Keep a file with the first bytes of the object of `mark`."""
        if self._folder is None:
            return
        part, tag = self._paths(self._folder, url)
        with suppress(OSError):
            self._folder.mkdir(exist_ok=True)
            self._make_room(self._folder)
            tag.write_text(mark)
            os.replace(partial, part)

    def _make_room(self, folder: Path) -> None:
        """Remove the oldest, until one more may come, and those that are too old."""
        parts = sorted(folder.glob("*.part"), key=lambda each: each.stat().st_mtime)
        oldest = time.time() - self._age_s_max
        for number, each in enumerate(parts):
            if number <= len(parts) - self._files_max or each.stat().st_mtime < oldest:
                each.unlink(missing_ok=True)
                each.with_suffix(".tag").unlink(missing_ok=True)

    def _paths(self, folder: Path, url: str) -> tuple[Path, Path]:
        name = hashlib.sha256(url.encode()).hexdigest()
        return folder / f"{name}.part", folder / f"{name}.tag"
