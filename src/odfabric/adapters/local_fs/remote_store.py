"""Folders elsewhere as stores of objects, opened by file:// URLs.

Owns where such URLs may lead: on a node below its push folder, on a command line anywhere. Invariant: files are copied, never linked, since
others may write to what lies there; on a node no link leads out of the allowed folder; nothing but objects is left behind, no lock either.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from odfabric.adapters.local_fs.folder_locks import OneFolderLock
from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.adapters.local_fs.remote_folder import path_below
from odfabric.errors import AccessDenied
from odfabric.formats.identifiers.dataset_layout import HEAD
from odfabric.ports.datasets.object_store import ObjectStore


class FolderRemoteStores:
    """`ports.transfer.destinations.RemoteStores` for file://.

    `reads` and `writes` are the folders that URLs may lead to.
    """

    def __init__(self, *, reads: Path | None, writes: Path | None, anywhere: bool = False) -> None:
        """None means the current folder if `anywhere`, else that everything is refused."""
        self._folders = {False: reads, True: writes}
        self._anywhere = anywhere

    def open(self, url: str, *, writes: bool) -> ObjectStore:
        """See the port."""
        path, allowed = self._path(url, writes=writes)
        return FolderObjectStore(path, locks=OneFolderLock(path), inside=allowed)

    def datasets(self, url: str, *, limit: int) -> Sequence[str]:
        """See the port. Links are not followed."""
        root, _ = self._path(url, writes=False)
        found: list[str] = []
        left = limit
        for name in _folders(root):
            for path in (name, *(f"{name}/{below}" for below in _folders(root / name))):
                if left == 0:
                    return found
                left -= 1
                if (root / path / HEAD).is_file():
                    found.append(path)
        return found

    def _path(self, url: str, *, writes: bool) -> tuple[Path, Path | None]:
        folder, setting = self._folders[writes], "push_folder" if writes else "poll_folder"
        if folder is None:
            if not self._anywhere:
                verb = "written" if writes else "read"
                raise AccessDenied(f"folders cannot be {verb}", hint=f"the operator may allow one ({setting})")
            folder = Path()
        return path_below(folder, url, anywhere=self._anywhere, setting=setting)


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(each.name for each in entries if each.is_dir(follow_symlinks=False) and each.name[:1] != ".")
    except OSError:
        return []
