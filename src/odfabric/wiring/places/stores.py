"""Where a node keeps what it must not lose: the database and the objects.

Owns the choice between the embedded stores and servers. Invariant: all processes of a node make the same choice, from the same
settings. Locks come from what all who share the objects share too: the database if that is a server, else a folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from odfabric.adapters.cached.object_store import CachedObjectStore
from odfabric.adapters.local_fs.folder_cache import FolderCache
from odfabric.adapters.local_fs.folder_locks import FolderLocks
from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.locks import SqlLocks
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.datasets.part_uploads import PartUploads
from odfabric.settings import Settings
from odfabric.wiring.places.database_place import database_place

if TYPE_CHECKING:
    from odfabric.adapters.s3.client import S3Access
    from odfabric.adapters.s3.object_store import Exclusive, S3ObjectStore

OBJECTS_FOLDER = "objects"
LOCKS_FOLDER = "locks"
CACHE_FOLDER = "cache"


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of one process.

    `objects` is what work uses; `stored`, if there is one, the same without copies nearby: what is verified. `folder` is the folder
    in which either objects or their copies lie, which has leftovers to be swept. `part_uploads` are those
    of a bucket that clients reach.
    """

    database: Database
    objects: ObjectStore
    stored: ObjectStore | None = None
    folder: FolderObjectStore | None = None
    part_uploads: PartUploads | None = None


def open_stores(
    settings: Settings,
    closing: ExitStack,
    *,
    private_folders: Sequence[Path],
    part_uploads: PartUploads | None = None,
) -> Stores:
    """Connections are closed with `closing`.

    Files of private folders may be linked into a folder of objects. `part_uploads` stand in for those of a bucket where there is none.
    """
    database = Database(
        database_place(settings),
        busy_s_max=settings.database_busy_s_max,
        connections_max=settings.database_connections_max,
    )
    closing.callback(database.close)
    if settings.objects_url is None:
        folder = FolderObjectStore(settings.workspace / OBJECTS_FOLDER, private_folders=private_folders)
        return Stores(database, folder, folder=folder, part_uploads=part_uploads)
    bucket = open_bucket(settings, exclusive=_locks(settings, closing))
    closing.callback(bucket.close)
    if settings.object_cache_bytes_max == 0:
        return Stores(database, bucket, part_uploads=bucket.part_uploads())
    cache = FolderCache(
        settings.workspace / CACHE_FOLDER,
        bytes_max=settings.object_cache_bytes_max,
        private_folders=tuple(private_folders),
    )
    return Stores(
        database,
        CachedObjectStore(bucket, cache),
        stored=bucket,
        folder=cache,
        part_uploads=bucket.part_uploads(),
    )


def bucket_and_prefix(settings: Settings) -> tuple[str, str]:
    """Of `objects_url`; the prefix is empty or ends with a slash."""
    place = urlsplit(settings.objects_url or "")
    prefix = place.path.strip("/")
    return place.netloc, f"{prefix}/" if prefix else ""


def s3_keys(settings: Settings) -> tuple[str | None, str | None]:
    """Key and secret, None to let the SDK find them."""
    access_key, secret_key = settings.s3_access_key, settings.s3_secret_key
    return (
        access_key.get_secret_value() if access_key else None,
        secret_key.get_secret_value() if secret_key else None,
    )


def database_server(settings: Settings) -> str | None:
    """URL of the database if that is a server."""
    url = settings.database_url
    return None if url is None or url.startswith("sqlite") else url


def open_bucket(settings: Settings, *, exclusive: Exclusive) -> S3ObjectStore:
    """The bucket of `objects_url`."""
    # Imported when needed: the client of S3 takes longer to load than most commands run.
    from odfabric.adapters.s3.object_store import S3ObjectStore

    bucket, prefix = bucket_and_prefix(settings)
    return S3ObjectStore(
        _access(settings, settings.s3_endpoint_url),
        bucket,
        prefix=prefix,
        exclusive=exclusive,
        public=_access(settings, settings.s3_public_endpoint_url) if settings.s3_public_endpoint_url else None,
    )


def check_objects(settings: Settings) -> None:
    """Raises Determinate, with a remedy, for an unusable bucket; it may be made."""
    if settings.objects_url is not None:
        bucket = open_bucket(settings, exclusive=unshared_locks(settings))
        try:
            bucket.check(create=settings.s3_create_bucket)
        finally:
            bucket.close()


def unshared_locks(settings: Settings) -> Exclusive:
    """Locks of this machine alone, for a bucket of which none is wanted from others."""
    return FolderLocks(settings.workspace.absolute() / LOCKS_FOLDER).exclusive


def _locks(settings: Settings, closing: ExitStack) -> Exclusive:
    server = database_server(settings)
    if server is None:
        return unshared_locks(settings)
    # Connections of their own: anyone who holds a lock asks the database for other things meanwhile.
    held = Database(server, busy_s_max=settings.database_busy_s_max, connections_max=settings.database_locks_max)
    closing.callback(held.close)
    return SqlLocks(held).exclusive


def _access(settings: Settings, endpoint_url: str | None) -> S3Access:
    from odfabric.adapters.s3.client import S3Access

    access_key, secret_key = s3_keys(settings)
    return S3Access(
        endpoint_url=endpoint_url,
        region=settings.s3_region,
        access_key=access_key,
        secret_key=secret_key,
        connect_s_max=settings.s3_connect_s_max,
        read_s_max=settings.s3_read_s_max,
        attempts_max=settings.s3_attempts_max,
    )
