"""Kept bodies of a process, as files of a folder of the test."""

from __future__ import annotations

import shutil
from pathlib import Path

from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.ports.sources.savepoints import Savepoint


class MemorySavepoints:
    """A Savepoints with its bodies in `folder`.

    Of all datasets at most `bytes_max` and none older than `age_s_max`.
    """

    def __init__(self, folder: Path, *, bytes_max: int = 1 << 20, age_s_max: float = 3600.0) -> None:
        self._folder = folder
        self._bytes_max = bytes_max
        self._age_ns_max = int(age_s_max * NANOS_PER_SECOND)
        self._kept: dict[DatasetId, tuple[str, Savepoint]] = {}

    def keep(
        self,
        dataset: DatasetId,
        step: str,
        body: Path,
        *,
        etag: str | None,
        last_modified: str | None,
        now: Instant,
    ) -> bool:
        """See the port."""
        self.drop(dataset)
        size = body.stat().st_size
        if size > self._bytes_max:
            return False
        while sum(self._size(other) for other in self._kept) + size > self._bytes_max:
            self.drop(min(self._kept, key=lambda other: self._kept[other][1].kept_at))
        path = self._folder / f"kept-{dataset.multibase}"
        shutil.copyfile(body, path)
        self._kept[dataset] = step, Savepoint(path=path, etag=etag, last_modified=last_modified, kept_at=now)
        return True

    def find(self, dataset: DatasetId, step: str, *, now: Instant) -> Savepoint | None:
        """See the port."""
        kept_step, savepoint = self._kept.get(dataset, ("", None))
        if savepoint is None or kept_step != step or now.epoch_ns - savepoint.kept_at.epoch_ns > self._age_ns_max:
            return None
        return savepoint

    def drop(self, dataset: DatasetId) -> None:
        """See the port."""
        if self._kept.pop(dataset, None) is not None:
            (self._folder / f"kept-{dataset.multibase}").unlink(missing_ok=True)

    def _size(self, dataset: DatasetId) -> int:
        return self._kept[dataset][1].path.stat().st_size
