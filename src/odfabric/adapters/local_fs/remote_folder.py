"""Datasets in folders, read as remotes by file:// URLs.

Owns the reading of such URLs and the rule of where they may lead. Invariant: unless everything is allowed, each file that
is opened lies below the allowed folder after all links are followed, and is a regular file. Nothing that comes back is
trusted: hashes are checked by the one who asked. Source: specification, "Dataset layout". A relative path starts at the allowed
folder: on a node its poll folder, on a command line the current one.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from urllib.parse import unquote

from odfabric.adapters.local_fs.beneath import Beneath, LinkLeadsOut
from odfabric.adapters.local_fs.new_file import new_file
from odfabric.adapters.local_fs.small_file import read_at_most
from odfabric.errors import (
    AccessDenied,
    CorruptedSource,
    Determinate,
    InvalidName,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    Place,
)
from odfabric.formats.identifiers.dataset_layout import BLOCKS, HEAD, REF_CHARACTERS_MAX, object_path, parse_ref
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.object_store import REF_BYTES_MAX
from odfabric.ports.sources.egress import RemoteDataset

COPY_BYTES = 256 * 1024
"""Bytes copied at once, by way of one buffer that stays in the processor's cache."""
PATH_CHARACTERS_MAX = 4096

_URL = re.compile(r"file:(?://(?:localhost(?=/))?)?(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)


class FolderRemoteDatasets:
    """`ports.sources.egress.RemoteDatasets` for file://."""

    def __init__(self, folder: Path | None, *, anywhere: bool = False, block_bytes_max: int) -> None:
        """`folder`: start of relative paths and, unless `anywhere`, the limit of all.

        None means the current folder if `anywhere`, else that everything is refused.
        """
        self._folder = Path() if folder is None and anywhere else folder
        self._anywhere = anywhere
        self._block_bytes_max = block_bytes_max

    def open(self, url: str, *, token: str | None = None) -> RemoteDataset:
        """Read the URL; files are looked at by the first read.

        A token has nothing to say to a folder.
        """
        if self._folder is None:
            raise AccessDenied("folders cannot be read as remotes", hint="the operator may allow one (poll_folder)")
        path, allowed = path_below(self._folder, url, anywhere=self._anywhere, setting="poll_folder")
        return FolderRemoteDataset(path, url, allowed=allowed, block_bytes_max=self._block_bytes_max)


class FolderRemoteDataset:
    """One dataset in a folder."""

    def __init__(self, root: Path, url: str, *, allowed: Path | None, block_bytes_max: int) -> None:
        self._root = root
        self._url = url
        self._beneath = Beneath(allowed) if allowed is not None else None
        self._block_bytes_max = block_bytes_max

    def head(self) -> Multihash:
        """Its head."""
        try:
            with self._open(HEAD, "dataset", self._url) as file:
                text = file.read(REF_CHARACTERS_MAX + 1)
        except NotFound as error:
            error.hint = f"there is no {HEAD}: check the place, `odf search REPOSITORY` lists it"
            raise
        try:
            return parse_ref(text.decode("ascii"))
        except (InvalidName, UnicodeDecodeError):
            raise CorruptedSource(f"{HEAD} of {self._url} is not the hash of a block") from None

    def block(self, block_hash: Multihash) -> bytes:
        """Bytes of a block."""
        with self._open(object_path(BLOCKS, block_hash), "block", str(block_hash)) as file:
            data = read_at_most(file, self._block_bytes_max)
        if len(data) > self._block_bytes_max:
            raise _too_large(block_hash, "block_bytes_max", self._block_bytes_max)
        return data

    def blocks(self, block_hash: Multihash, *, count_max: int) -> Sequence[bytes]:
        """The block alone: the next is asked for as soon as its name is known."""
        return [self.block(block_hash)]

    def ref(self, path: str) -> bytes | None:
        """A small file beside the head."""
        try:
            with self._open(path, "ref", path) as file:
                data = read_at_most(file, REF_BYTES_MAX)
        except NotFound:
            return None
        if len(data) > REF_BYTES_MAX:
            raise LimitExceeded(f"{path} is too large", limit="ref_bytes_max", maximum=REF_BYTES_MAX)
        return data

    def download(self, folder: str, object_hash: Multihash, *, size_max: int, into: Path) -> int:
        """An object into a new file."""
        size = 0
        path = object_path(folder, object_hash)
        with self._open(path, "object", str(object_hash)).detach() as file, new_file(into) as copy:
            buffer = memoryview(bytearray(COPY_BYTES))
            while count := file.readinto(buffer):
                size += copy.write(buffer[:count])
                if size > size_max:
                    raise _too_large(object_hash, "object_bytes_max", size_max)
        return size

    def _open(self, path: str, what: str, name: str) -> BufferedReader:
        try:
            with self._held(self._root / path) as found:
                # Links were followed already, and a pipe must not make us wait.
                handle = os.open(found, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except LinkLeadsOut:
            raise AccessDenied(f"a link in {self._url} leads outside of the folder that may be read") from None
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(what, name) from None
        except (OSError, RuntimeError) as error:
            raise Determinate(f"{what} {name} cannot be read: {_reason(error)}") from None
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise NotFound(what, name)
        return os.fdopen(handle, "rb")

    @contextmanager
    def _held(self, path: Path) -> Iterator[Path]:
        """The file with links followed, which stays the same while the context is open."""
        if self._beneath is None:
            yield path.resolve(strict=True)
        else:
            with self._beneath.held(path, follow=True) as found:
                yield found


def path_below(folder: Path, url: str, *, anywhere: bool, setting: str) -> tuple[Path, Path | None]:
    """The path of a URL, links followed, and the folder that it may not leave.

    That folder is None if the path may lead `anywhere`. Raises AccessDenied, InvalidRequest.
    """
    base = folder.resolve()
    try:
        path = (base / _path_of(url)).resolve()
    except RuntimeError:
        raise InvalidRequest("the links of that folder form a loop", place=Place(field="url")) from None
    if not anywhere and not path.is_relative_to(base):
        raise AccessDenied("the folder is outside of the one that is allowed", hint=f"use a path below {setting}")
    return path, None if anywhere else base


def _path_of(url: str) -> Path:
    match = _URL.fullmatch(url)
    text = unquote(match[1]) if match else ""
    if match is None or not text or "\0" in text or len(text) > PATH_CHARACTERS_MAX or set("?#") & set(match[1]):
        raise InvalidRequest("not the URL of a folder", place=Place(field="url"), hint="e.g. file:///data/my-dataset")
    return Path(text)


def _too_large(name: Multihash, limit: str, maximum: int) -> LimitExceeded:
    return LimitExceeded(f"{name} is too large", limit=limit, maximum=maximum)


def _reason(error: OSError | RuntimeError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "its links form a loop"
