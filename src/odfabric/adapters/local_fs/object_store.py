"""Objects and refs as files below one folder; a key is the path.

Owns the atomic write: bytes go to `.pending-<random>` in the folder of the object, reach the disk, get their name by a hard
link, which never replaces a name that is there, and then the folder reaches the disk. Invariant: a name without a leading dot is
a whole object. Files of private folders (the exchange) are linked instead of copied: nobody writes to them once they are
finished. Not here: what the keys mean (`formats.identifiers.dataset_layout`). Source: specification, "Dataset layout".
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from odfabric.adapters.local_fs.beneath import NO_LINK, Beneath, LinkLeadsOut
from odfabric.adapters.local_fs.folder_locks import FolderLocks, OneFolderLock
from odfabric.adapters.local_fs.new_file import regular_file
from odfabric.adapters.local_fs.small_file import read_at_most
from odfabric.errors import (
    AccessDenied,
    AlreadyExists,
    Determinate,
    External,
    Indeterminate,
    InvalidName,
    LimitExceeded,
    NotFound,
)
from odfabric.model.instant import Instant
from odfabric.ports.datasets.object_store import (
    REF_BYTES_MAX,
    ObjectStat,
    ReadableBytes,
    check_key,
    check_prefix,
    ref_bytes,
    ref_text,
)
from odfabric_persist.location.durable import DurableFolders, sync_file, sync_folder

PENDING = ".pending-"
LOCKS = ".locks"

_PIECE_BYTES = 1024 * 1024
_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
# What hard links fail with where they cannot be had: another file system, none at all, too many of one file.
_NO_LINKS = frozenset({errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


FolderOf = Callable[[str], AbstractContextManager[Path]]
"""The folder of keys with a beginning, to be read while the context is open."""


class FolderObjectStore:
    """An ObjectStore.

    Files below `private_folders` may be linked; `lock_wait_s_max` is how long `exclusive` waits.
    """

    def __init__(
        self,
        root: Path,
        *,
        private_folders: Sequence[Path] = (),
        lock_wait_s_max: float = 30.0,
        locks: OneFolderLock | None = None,
        inside: Path | None = None,
    ) -> None:
        """`locks`: those of a folder shared with strangers, which holds only objects.

        `inside`: a folder, links followed, that no link in this one may lead out of.
        """
        self._beneath = Beneath(inside) if inside is not None else None
        self._no_link = NO_LINK if inside is not None else 0
        self._root = Path(os.path.abspath(root))
        self._private = tuple(Path(os.path.abspath(folder)) for folder in private_folders)
        self._locks = locks or FolderLocks(self._root / LOCKS, wait_s_max=lock_wait_s_max)
        self._folders = DurableFolders(self._root)

    def put_bytes(self, key: str, data: bytes) -> None:
        """See the port."""
        if self._exists_durably(key):
            return

        def write(file: BinaryIO) -> int:
            with _failing(Determinate, key):
                return file.write(data)

        self._put(key, write)

    def put_file(self, key: str, path: Path) -> None:
        """See the port.

        Raises InvalidData for anything but a regular file, links included.
        """
        if self._exists_durably(key):
            return
        with _failing(Determinate, key), regular_file(path) as source:
            if not (self._is_private(path) and self._put_link(key, path)):
                self._put(key, lambda file: _copy(source, file, key))

    def put_stream(self, key: str, stream: ReadableBytes) -> int:
        """See the port. What `stream` raises passes through."""
        return self._put(key, lambda file: _copy(stream, file, key))

    def read_bytes(self, key: str, *, size_max: int) -> bytes:
        """See the port."""
        with self.open(key) as file, _failing(Determinate, key):
            data = read_at_most(file, size_max)
        if len(data) > size_max:
            raise LimitExceeded(f"object {key} is larger than {size_max} bytes", limit="size_max", maximum=size_max)
        return data

    def read_end(self, key: str, *, bytes_max: int) -> bytes:
        """See the port."""
        with self.open(key) as stream:
            try:
                size = stream.seek(0, io.SEEK_END)
                stream.seek(max(0, size - bytes_max))
                return stream.read(bytes_max)
            except OSError as error:
                raise _failure(Determinate, key, error) from error

    def open(self, key: str) -> BinaryIO:
        """See the port."""
        try:
            with self._at(key, follow=True) as path:
                # A pipe in the place of the file would hold us up for ever without O_NONBLOCK.
                opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | self._no_link)
        except _ABSENT:
            raise NotFound("object", key) from None
        except OSError as error:
            raise _failure(Determinate, key, error) from error
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise NotFound("object", key)
        return os.fdopen(opened, "rb")

    def stat(self, key: str) -> ObjectStat | None:
        """See the port."""
        try:
            with self._at(key, follow=True) as path:
                found = path.stat(follow_symlinks=not self._no_link)
        except _ABSENT:
            return None
        except OSError as error:
            raise _failure(Determinate, key, error) from error
        return ObjectStat(found.st_size, Instant(found.st_mtime_ns)) if stat.S_ISREG(found.st_mode) else None

    def materialize(self, key: str, path: Path) -> None:
        """See the port."""
        if self.stat(key) is None:
            raise NotFound("object", key)
        try:
            with self._at(key) as source:
                is_linked = self._is_private(path) and _link(source, path)
            if not is_linked:
                with self.open(key) as stored, path.open("xb") as copy:
                    shutil.copyfileobj(stored, copy, _PIECE_BYTES)
        except FileExistsError as error:
            raise AlreadyExists(f"a file of the name {path.name} exists already") from error
        except OSError as error:
            raise _failure(Determinate, key, error) from error

    def keys(self, prefix: str) -> Iterator[str]:
        """See the port. Files that are not keys are left out."""
        check_prefix(prefix)
        folder, _, _ = prefix.rpartition("/")
        return _keys_below(self._folder_at, folder + "/" if folder else "", prefix)

    def delete(self, key: str) -> None:
        """See the port."""
        with ExitStack() as held:
            try:
                path = held.enter_context(self._at(key))
                path.unlink()
            except _ABSENT:
                return
            except OSError as error:
                raise _failure(Determinate, key, error) from error
            with _failing(Indeterminate, key):
                sync_folder(path.parent)

    def write_ref(self, key: str, text: str) -> None:
        """See the port."""
        check_key(key)
        data = ref_bytes(key, text)
        with self._target(key) as target:
            with self._pending_file(key, target) as (pending, file), _failing(Determinate, key):
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                pending.replace(target)
            with _failing(Indeterminate, key):
                sync_folder(target.parent)

    def replace_ref(self, key: str, text: str, *, expected: str | None) -> bool:
        """See the port."""
        check_key(key)
        with self._lock(f"{key} is replaced"):
            if self.read_ref(key) != expected:
                return False
            self.write_ref(key, text)
            return True

    def exclusive(self, key: str) -> AbstractContextManager[None]:
        """See the port."""
        check_key(key)
        return self._lock(key)

    def read_ref(self, key: str) -> str | None:
        """See the port."""
        try:
            return ref_text(key, self.read_bytes(key, size_max=REF_BYTES_MAX))
        except NotFound:
            return None

    def link(self, key: str, *, lifetime_s: int) -> str | None:
        """See the port: a path of this machine is no address for others."""
        check_key(key)
        return None

    def remove_leftovers(self, *, older_than: Instant, entries_max: int) -> int:
        """Remove files of writes that died before `older_than`; returns how many.

        Looks at `entries_max` names at most.
        """
        removed = seen = 0
        for folder, _, names in os.walk(self._root):
            for name in names:
                seen += 1
                if seen > entries_max:
                    return removed
                path = Path(folder, name)
                with suppress(OSError):
                    if name.startswith(PENDING) and path.lstat().st_mtime_ns < older_than.epoch_ns:
                        path.unlink()
                        removed += 1
        return removed

    @contextmanager
    def _at(self, key: str, *, follow: bool = False, make: bool = False) -> Iterator[Path]:
        """The path of a key; below `inside` it stays what was checked in this context.

        `follow` links in the place of the file; `make` the folders above it there.
        """
        check_key(key)
        with self._held(self._root / key, key, follow=follow, make=make) as path:
            yield path

    @contextmanager
    def _held(self, path: Path, shown: str, *, follow: bool = False, make: bool = False) -> Iterator[Path]:
        if self._beneath is None:
            yield path
            return
        with ExitStack() as held:
            try:
                found = held.enter_context(self._beneath.held(path, follow=follow, make=make))
            except LinkLeadsOut:
                raise AccessDenied(
                    f"a link at {shown} leads outside of the folder that is allowed",
                    hint="remove the link, or push to another place",
                ) from None
            except RuntimeError:
                raise Determinate(f"object {shown}: its links form a loop") from None
            yield found

    @contextmanager
    def _target(self, key: str) -> Iterator[Path]:
        """Where a key is written; its folder is there."""
        with ExitStack() as held:
            with _failing(Determinate, key):
                target = held.enter_context(self._at(key, make=True))
                if self._beneath is None:
                    self._folders.ensure(target.parent)
            yield target

    @contextmanager
    def _folder_at(self, base: str) -> Iterator[Path]:
        """The folder of keys that begin with `base`, which is empty or ends with a slash."""
        with self._held(self._root / base / PENDING, base, follow=False) as path:
            yield path.parent

    @contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        if self._beneath is None:
            with self._locks.exclusive(name):
                yield
            return
        with ExitStack() as held:
            with _failing(Determinate, name):
                within = held.enter_context(self._held(self._root / LOCKS, name, make=True))
            held.enter_context(OneFolderLock(within.parent).exclusive(name))
            yield

    def _is_private(self, path: Path) -> bool:
        normal = Path(os.path.abspath(path))
        return any(normal.is_relative_to(folder) for folder in self._private)

    def _exists_durably(self, key: str) -> bool:
        # Its writer may not have synced the folder yet, and this call may not promise more than the disk holds.
        if self.stat(key) is None:
            return False
        with _failing(Indeterminate, key), self._at(key) as target:
            sync_folder(target.parent)
        return True

    def _put(self, key: str, write: Callable[[BinaryIO], int]) -> int:
        with self._target(key) as target:
            with self._pending_file(key, target) as (pending, file):
                size = write(file)
                with _failing(Determinate, key):
                    file.flush()
                    os.fsync(file.fileno())
                    if not self._named(pending, target):
                        self._name_without_links(key, pending, target)
            with _failing(Indeterminate, key):
                sync_folder(target.parent)
        return size

    def _put_link(self, key: str, source: Path) -> bool:
        with self._target(key) as target:
            with _failing(Determinate, key):
                sync_file(source)
                if not self._named(source, target):
                    return False
            with _failing(Indeterminate, key):
                sync_folder(target.parent)
        return True

    def _named(self, source: Path, target: Path) -> bool:
        """Give a finished file its name unless it is taken already.

        False if links cannot be had.
        """
        try:
            return _link(source, target)
        except FileExistsError:
            if not target.is_file():
                raise InvalidName(f"{target.name} is the folder of other keys") from None
            return True

    def _name_without_links(self, key: str, pending: Path, target: Path) -> None:
        with self.exclusive(key):
            if not target.exists():
                pending.rename(target)

    @contextmanager
    def _pending_file(self, key: str, target: Path) -> Iterator[tuple[Path, BinaryIO]]:
        pending = target.parent / f"{PENDING}{secrets.token_hex(8)}"
        with _failing(Determinate, key):
            try:
                file = pending.open("xb")
            except FileNotFoundError:
                if self._beneath is not None:
                    raise
                self._folders.forget(target.parent)
                self._folders.ensure(target.parent)
                file = pending.open("xb")
        try:
            yield pending, file
        finally:
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                pending.unlink(missing_ok=True)


def _link(source: Path, target: Path) -> bool:
    """Whether a hard link could be made. Raises FileExistsError and other OSErrors."""
    try:
        target.hardlink_to(source)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True


def _copy(source: ReadableBytes, file: BinaryIO, key: str) -> int:
    size = 0
    while piece := source.read(_PIECE_BYTES):
        with _failing(Determinate, key):
            file.write(piece)
        size += len(piece)
    return size


def _keys_below(opened: FolderOf, base: str, prefix: str) -> Iterator[str]:
    try:
        with opened(base) as folder, os.scandir(folder) as entries:
            # A folder sorts with its slash, as its keys do: "a-b" comes before "a/b", which comes before "a0". Links to
            # folders are not ours; they might lead round in circles.
            folders = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries if _is_ours(entry)}
    except _ABSENT:
        return
    except OSError as error:
        raise _failure(Determinate, prefix, error) from error
    for name in sorted(name + "/" if is_folder else name for name, is_folder in folders.items()):
        key = base + name
        if not _is_key(key.removesuffix("/")):
            continue
        if name.endswith("/"):
            if key.startswith(prefix) or prefix.startswith(key):
                yield from _keys_below(opened, key, prefix)
        elif key.startswith(prefix):
            yield key


def _is_ours(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) or entry.is_file()


def _is_key(key: str) -> bool:
    try:
        check_key(key)
    except InvalidName:
        return False
    return True


@contextmanager
def _failing(outcome: type[External], key: str) -> Iterator[None]:
    """Turn failures of the operating system into what they mean for the caller."""
    try:
        yield
    except OSError as error:
        raise _failure(outcome, key, error) from error


def _failure(outcome: type[External], key: str, error: OSError) -> External:
    return outcome(f"object {key}: {error.strerror or error}")
