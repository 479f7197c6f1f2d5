"""Backups of a node: which stores they are read from and written to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from odfabric import __version__
from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.adapters.sql.copying import SqlDatabaseCopy
from odfabric.adapters.system.clock import SystemClock, SystemEntropy
from odfabric.errors import InvalidRequest, NotFound, Place
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.settings import Settings
from odfabric.usecases.maintenance.backup import FOLDERS, Backup, BackupPorts, Listener, back_up, backups, restore
from odfabric.wiring.places.database_place import database_place, is_workspace
from odfabric.wiring.places.identity import private_files, put_private_files
from odfabric.wiring.places.stores import open_bucket, open_stores, unshared_locks


def make_backup(settings: Settings, place: str, *, listener: Listener) -> Backup:
    """Of the node of these settings, which may run meanwhile.

    Raises NotFound, InvalidRequest, Determinate, Indeterminate.
    """
    if not is_workspace(settings):
        raise NotFound("workspace", str(settings.workspace), hint="name it with --workspace")
    with _ports(settings, place) as ports:
        return back_up(
            ports=ports,
            files=private_files(settings),
            release=__version__,
            clock=SystemClock(),
            entropy=SystemEntropy(),
            listener=listener,
        )


def list_backups(settings: Settings, place: str) -> list[Backup]:
    """Finished ones, oldest first. Raises as `usecases.maintenance.backup.backups`."""
    with ExitStack() as closing:
        return backups(_place(settings, place, closing, make=False))


def restore_backup(settings: Settings, place: str, backup_id: str | None, *, listener: Listener) -> Backup:
    """Into the empty stores of these settings.

    Raises as `usecases.maintenance.backup.restore`.
    """
    with _ports(settings, place, make=False) as ports:
        return restore(
            backup_id, ports=ports, put_files=lambda files: put_private_files(settings, files), listener=listener
        )


@contextmanager
def _ports(settings: Settings, place: str, *, make: bool = True) -> Iterator[BackupPorts]:
    with ExitStack() as closing:
        at = _place(settings, place, closing, make=make)
        yield BackupPorts(
            database=SqlDatabaseCopy(database_place(settings), busy_s_max=settings.database_busy_s_max),
            objects=_objects(settings, closing),
            place=at,
        )


def _objects(settings: Settings, closing: ExitStack) -> ObjectStore:
    """Not through copies nearby: what is kept is backed up."""
    stores = open_stores(settings, closing, private_folders=[])
    return stores.stored or stores.objects


def _place(settings: Settings, place: str, closing: ExitStack, *, make: bool) -> ObjectStore:
    """A folder, or `s3://bucket/prefix` by the settings of S3."""
    if place.startswith("s3://"):
        named = settings.model_copy(update={"objects_url": place})
        bucket = open_bucket(named, exclusive=unshared_locks(settings))
        closing.callback(bucket.close)
        bucket.check(create=make and settings.s3_create_bucket)
        return bucket
    folder = Path(place).absolute()
    if folder.is_relative_to(settings.workspace.absolute()):
        raise InvalidRequest(
            "a backup in the workspace would be lost with it",
            place=Place(field="PLACE"),
            hint="name a folder elsewhere",
        )
    if not make and not folder.is_dir():
        raise NotFound("folder", place)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if make:
        # The folder may be one that others read; what is in it has the keys of the node.
        for name in FOLDERS:
            (folder / name).mkdir(exist_ok=True, mode=0o700)
    return FolderObjectStore(folder)
