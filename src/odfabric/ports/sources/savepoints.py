"""Fetched bodies kept after a failed ingest, so a repeat need not fetch again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """A kept body at `path`, and the validators that came with it."""

    path: Path
    etag: str | None
    last_modified: str | None
    kept_at: Instant


class Savepoints(Protocol):
    """At most one body a dataset, bounded in bytes and age.

    May forget at any time, so nothing depends on it.

    `step` names what was fetched and after which source state: a body is found only by the same text. Raises Determinate if the store
    cannot be written or read.
    """

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
        """Keep a copy of the body in place of the dataset's earlier one.

        False if it is larger than all that may be kept.

        The oldest bodies of other datasets make room.
        """

    def find(self, dataset: DatasetId, step: str, *, now: Instant) -> Savepoint | None:
        """The body that was kept for this step, None if there is none or it is too old."""

    def drop(self, dataset: DatasetId) -> None:
        """Forget the dataset's body; without one nothing happens."""
