"""Where the shards of a node are kept.

Versions in SQLite or PostgreSQL, blobs in a folder or a bucket.

Owns opening them, when they are first asked for: most commands never look at a shard. Invariant: all processes of a node come to the
same place, from the same settings.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from odfabric_persist.client import PersistClient
from odfabric_persist.location.blob import Blob
from odfabric_persist.location.consensus import Consensus
from odfabric_persist.location.folder_blob import FolderBlob
from odfabric_persist.location.metered import Meter, MeteredBlob, MeteredConsensus
from odfabric_persist.location.sqlite_consensus import SqliteConsensus

OpenBlob = Callable[[ExitStack], Blob]
OpenConsensus = Callable[[ExitStack], Consensus]


def blobs_in_folder(folder: Path) -> OpenBlob:
    """Blobs in a folder, which is made if missing."""
    return lambda _: FolderBlob(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlace:
    """A part of a bucket.

    `prefix` ends with a slash, or is empty; without keys the usual ways to credentials apply.
    """

    bucket: str
    prefix: str
    endpoint_url: str | None
    region: str
    access_key: str | None
    secret_key: str | None = field(default=None, repr=False)
    connect_s_max: float = 5.0
    read_s_max: float = 30.0


def blobs_in_bucket(place: BucketPlace) -> OpenBlob:
    """Blobs in a bucket."""

    def opened(closing: ExitStack) -> Blob:
        # Imported when needed: the client of S3 takes longer to load than most commands run.
        from odfabric_persist.location.s3_access import S3Place
        from odfabric_persist.location.s3_blob import S3Blob

        blob = S3Blob(
            S3Place(
                bucket=place.bucket,
                prefix=place.prefix,
                endpoint=place.endpoint_url,
                region=place.region,
                access_key=place.access_key,
                secret_key=place.secret_key,
                connect_s_max=place.connect_s_max,
                answer_s_max=place.read_s_max,
            )
        )
        closing.callback(blob.close)
        return blob

    return opened


def versions_in_file(path: Path) -> OpenConsensus:
    """Versions in a SQLite file, which is made if missing."""

    def opened(closing: ExitStack) -> Consensus:
        path.parent.mkdir(parents=True, exist_ok=True)
        consensus = SqliteConsensus(path)
        closing.callback(consensus.close)
        return consensus

    return opened


def versions_in_postgres(url: str) -> OpenConsensus:
    """Versions in a PostgreSQL database."""

    def opened(closing: ExitStack) -> Consensus:
        from odfabric_persist.location.postgres_consensus import PostgresConsensus

        consensus = PostgresConsensus(url)
        closing.callback(consensus.close)
        return consensus

    return opened


class PersistLocation:
    """One location of a process; safe for threads."""

    def __init__(self, blobs: OpenBlob, versions: OpenConsensus) -> None:
        self._open_blob, self._open_consensus = blobs, versions
        self._lock = threading.Lock()
        self._closing = ExitStack()
        self._client: PersistClient | None = None
        self.meter = Meter()
        """What the stores were asked for so far."""

    def client(self) -> PersistClient:
        """The client, opened the first time. Raises errors of the library."""
        with self._lock:
            if self._client is None:
                with ExitStack() as closing:
                    blob = MeteredBlob(self._open_blob(closing), self.meter)
                    consensus = MeteredConsensus(self._open_consensus(closing), self.meter)
                    self._client = PersistClient(blob, consensus)
                    self._closing = closing.pop_all()
            return self._client

    def close(self) -> None:
        """Close what was opened."""
        with self._lock:
            self._closing.close()
