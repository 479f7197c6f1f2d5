"""Sealing with the keys of a file that all processes of a node share.

Owns the file: when it is made, read and replaced. Invariants: it is durable before anything is sealed with a new key, is replaced by
renaming, and may be read by its owner only; a shared lock on it is held within `kept`, an exclusive one while it is replaced, and
anyone who has a lock has it on the file that has the name now. Not here: its bytes (`formats.secrets.key_file`).
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from odfabric.adapters.local_fs.file_lock import held_lock
from odfabric.errors import AccessDenied, Determinate
from odfabric.formats.secrets.key_file import KEY_FILE_BYTES_MAX, decode_keys, encode_keys
from odfabric.formats.secrets.sealed_form import KEY_BYTES, NONCE_BYTES, key_id, mark_of, open_sealed, seal
from odfabric.ports.node.clock import Entropy
from odfabric_persist.location.durable import sync_folder

_PAUSE_S_MIN = 0.0005
_PAUSE_S_MAX = 0.02

Seen = tuple[int, int, int, int, int]
"""What distinguishes one state of the file from another: device, inode, size, times of the last change of content and of rights."""


class KeyFileSealing:
    """A Sealing and a KeyRotation over a key file.

    The first need of a key creates the file. `wait_s_max` bounds waits for its lock, in seconds.
    """

    def __init__(self, path: Path, *, entropy: Entropy, wait_s_max: float = 30.0) -> None:
        self._path = path
        self._entropy = entropy
        self._wait_s_max = wait_s_max
        self._turn = threading.Lock()
        self._seen: Seen | None = None
        self._keys: tuple[bytes, ...] = ()
        self._known: dict[bytes, bytes] = {}

    def seal(self, secret: bytes, *, context: bytes) -> bytes:
        """See the port."""
        return seal(self._current(), secret, context=context, nonce=self._entropy.random_bytes(NONCE_BYTES))

    def open(self, sealed: bytes, *, context: bytes) -> bytes:
        """See the port."""
        return open_sealed(sealed, context=context, find_key=self._find)

    def mark(self) -> bytes:
        """See the port."""
        return mark_of(self._current())

    @contextmanager
    def kept(self) -> Iterator[None]:
        """See the port."""
        with self._locked(fcntl.LOCK_SH):
            yield

    def begin(self) -> bool:
        """See the port."""
        with self._locked(fcntl.LOCK_EX) as keys:
            if len(keys) > 1:
                return False
            self._replace((self._entropy.random_bytes(KEY_BYTES), *keys))
            return True

    def drop_old(self, last_look: Callable[[], None]) -> int:
        """See the port."""
        with self._locked(fcntl.LOCK_EX) as keys:
            last_look()
            if len(keys) > 1:
                self._replace(keys[:1])
            return len(keys) - 1

    def _current(self) -> bytes:
        keys = self._read()
        if not keys:
            self._make()
            keys = self._read()
        return keys[0]

    def _find(self, identity: bytes) -> bytes | None:
        self._read()
        if identity not in self._known:
            self._seen = None  # a file system may tell no change within a second
            self._read()
        return self._known.get(identity)

    def _read(self) -> tuple[bytes, ...]:
        """The keys as they are now, none without a file; read only if it changed."""
        with self._turn, _failures("the key file cannot be read"):
            try:
                if self._seen != _seen(os.stat(self._path)):
                    opened = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
                    try:
                        self._take(opened)
                    finally:
                        os.close(opened)
            except FileNotFoundError:
                self._keys, self._seen = (), None
            return self._keys

    def _take(self, opened: int) -> tuple[bytes, ...]:
        """Remember what an open file says; its keys."""
        found = os.fstat(opened)
        if stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
            raise AccessDenied("others may read the key file", hint=f"chmod 600 {self._path.name}")
        data = os.pread(opened, KEY_FILE_BYTES_MAX + 1, 0)
        self._keys = decode_keys(data, name=self._path.name)
        self._known |= {key_id(key): key for key in self._keys}
        self._seen = _seen(found)
        return self._keys

    @contextmanager
    def _locked(self, kind: int) -> Iterator[tuple[bytes, ...]]:
        """Hold a shared or an exclusive lock on the file; the keys that it has."""
        # Where files come over NFS, anyone who locks out others must be able to write.
        flags = (os.O_RDWR if kind == fcntl.LOCK_EX else os.O_RDONLY) | os.O_CLOEXEC
        deadline, pause_s = time.monotonic() + self._wait_s_max, _PAUSE_S_MIN
        self._current()
        while (locked := self._try_locked(kind, flags)) is None:
            if time.monotonic() >= deadline:
                raise Determinate(f"the key file is in use for {self._wait_s_max} s", hint="do it again")
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSE_S_MAX)
        opened, keys = locked
        try:
            yield keys
        finally:
            os.close(opened)

    def _try_locked(self, kind: int, flags: int) -> tuple[int, tuple[bytes, ...]] | None:
        with _failures("the key file cannot be locked"):
            opened = os.open(self._path, flags)
            try:
                fcntl.flock(opened, kind | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(opened), os.stat(self._path)):
                    with self._turn:
                        return opened, self._take(opened)
            except BlockingIOError:
                pass
            except BaseException:
                os.close(opened)
                raise
            os.close(opened)
            return None

    def _make(self) -> None:
        # Under a lock, so that of several processes one makes the key.
        lock = self._path.with_name(f".{self._path.name}.lock")
        with _failures("the key file cannot be made"), held_lock(lock, wait_s_max=self._wait_s_max):
            if not self._path.exists():
                self._write((self._entropy.random_bytes(KEY_BYTES),), owner=os.geteuid())

    def _replace(self, keys: tuple[bytes, ...]) -> None:
        with _failures("the key file cannot be replaced", hint="its folder must be one that this process may write to"):
            self._write(keys, owner=os.stat(self._path).st_uid)

    def _write(self, keys: tuple[bytes, ...], *, owner: int) -> None:
        """Replace the file by renaming, and lock the new one until it is durable."""
        # A link to the file stays one.
        path = self._path.resolve()
        pending = path.with_name(f".{path.name}.pending")
        pending.unlink(missing_ok=True)
        opened = os.open(pending, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(opened, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if owner != os.geteuid():
                os.fchown(file.fileno(), owner, -1)  # the node goes on reading what its administrator has replaced
            file.write(encode_keys(keys))
            file.flush()
            os.fsync(file.fileno())
            pending.rename(path)
            sync_folder(path.parent)


def _seen(found: os.stat_result) -> Seen:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@contextmanager
def _failures(what: str, *, hint: str | None = None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Determinate(f"{what}: {error.strerror or error}", hint=hint) from error
