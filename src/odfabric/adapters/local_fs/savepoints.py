"""Bodies of failed pulls in a folder of the workspace.

Owns how many stay: the oldest go when all of them together are larger than allowed, and each goes after its time. Invariant: a body is found
only if its description was written after all of it, and has its size; files are readable by their owner alone, for they are data of users.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from odfabric.adapters.local_fs.new_file import new_file, regular_file
from odfabric.errors import Determinate
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.ports.sources.savepoints import Savepoint

_PIECE_BYTES = 1 << 20
_DESCRIPTION_BYTES_MAX = 64 * 1024
_BODY, _DESCRIPTION, _UNFINISHED = ".body", ".json", ".part"


class FolderSavepoints:
    """A Savepoints in `root`, which is made on first use.

    `bytes_max` for all bodies, `age_s_max` for each; 0 bytes keep none.
    """

    def __init__(self, root: Path, *, bytes_max: int, age_s_max: float) -> None:
        self._root = root
        self._bytes_max = bytes_max
        self._age_ns_max = int(age_s_max * NANOS_PER_SECOND)

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
        with _storing():
            self.drop(dataset)
            size = body.stat().st_size
            if size > self._bytes_max:
                return False
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(size, now)
            self._write_body(dataset, body)
            self._describe(
                dataset,
                {"step": step, "etag": etag, "lastModified": last_modified, "keptAt": now.epoch_ns, "size": size},
            )
        return True

    def find(self, dataset: DatasetId, step: str, *, now: Instant) -> Savepoint | None:
        """See the port."""
        with _storing():
            found = self._described(self._path(dataset, _DESCRIPTION))
            body = self._path(dataset, _BODY)
            kept_at, etag, date = found.get("keptAt"), found.get("etag"), found.get("lastModified")
            if found.get("step") != step or not isinstance(kept_at, int) or _size(body) != found.get("size"):
                return None
            if now.epoch_ns - kept_at > self._age_ns_max:
                return None
            return Savepoint(
                path=body,
                etag=etag if isinstance(etag, str) else None,
                last_modified=date if isinstance(date, str) else None,
                kept_at=Instant(kept_at),
            )

    def drop(self, dataset: DatasetId) -> None:
        """See the port."""
        with _storing():
            for suffix in (_DESCRIPTION, _BODY, _BODY + _UNFINISHED, _DESCRIPTION + _UNFINISHED):
                self._path(dataset, suffix).unlink(missing_ok=True)

    def sweep(self, now: Instant) -> int:
        """Remove bodies whose time is over; how many."""
        removed = 0
        with _storing():
            for kept_at, body in self._bodies():
                if now.epoch_ns - kept_at > self._age_ns_max:
                    self._remove(body)
                    removed += 1
        return removed

    def _path(self, dataset: DatasetId, suffix: str) -> Path:
        return self._root / f"{dataset.multibase}{suffix}"

    def _make_room(self, size: int, now: Instant) -> None:
        self.sweep(now)
        bodies = sorted(self._bodies())
        total = sum(_size(body) or 0 for _, body in bodies)
        for _, body in bodies:
            if total + size <= self._bytes_max:
                break
            total -= _size(body) or 0
            self._remove(body)

    def _bodies(self) -> list[tuple[int, Path]]:
        """When each was kept, and where it lies; what was never finished is the oldest."""
        if not self._root.is_dir():
            return []
        found = []
        for body in self._root.glob(f"*{_BODY}*"):
            kept_at = self._described(body.with_suffix(_DESCRIPTION)).get("keptAt")
            found.append((kept_at if isinstance(kept_at, int) else 0, body))
        return found

    def _described(self, path: Path) -> dict[str, object]:
        try:
            with path.open("rb") as file:
                found = json.loads(file.read(_DESCRIPTION_BYTES_MAX))
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write_body(self, dataset: DatasetId, body: Path) -> None:
        unfinished = self._path(dataset, _BODY + _UNFINISHED)
        with regular_file(body) as source, new_file(unfinished) as sink:
            os.fchmod(sink.fileno(), 0o600)
            while piece := source.read(_PIECE_BYTES):
                sink.write(piece)
        unfinished.replace(self._path(dataset, _BODY))

    def _describe(self, dataset: DatasetId, about: dict[str, object]) -> None:
        unfinished = self._path(dataset, _DESCRIPTION + _UNFINISHED)
        with new_file(unfinished) as sink:
            os.fchmod(sink.fileno(), 0o600)
            sink.write(json.dumps(about).encode())
        unfinished.replace(self._path(dataset, _DESCRIPTION))

    def _remove(self, body: Path) -> None:
        body.with_suffix(_DESCRIPTION).unlink(missing_ok=True)
        body.unlink(missing_ok=True)


def _size(path: Path) -> int | None:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return None


@contextmanager
def _storing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Determinate(f"a fetched body cannot be kept: {error.strerror}") from error
