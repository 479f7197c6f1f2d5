"""Objects in memory."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from odfabric.errors import AlreadyExists, Determinate, LimitExceeded, NotFound
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
from odfabric.ports.node.clock import Clock


class MemoryObjectStore:
    """An ObjectStore; its times are those of `clock`.

    `lock_wait_s_max` is how long `exclusive` waits.
    """

    def __init__(self, clock: Clock, *, lock_wait_s_max: float = 30.0) -> None:
        self._clock = clock
        self._lock_wait_s_max = lock_wait_s_max
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, Instant]] = {}
        self._exclusive: dict[str, threading.Lock] = {}

    def put_bytes(self, key: str, data: bytes) -> None:
        """See the port."""
        check_key(key)
        with self._lock:
            self._objects.setdefault(key, (bytes(data), self._clock.now()))

    def put_file(self, key: str, path: Path) -> None:
        """See the port."""
        check_key(key)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise Determinate(f"the file for object {key} cannot be read: {error.strerror}") from error
        self.put_bytes(key, data)

    def put_stream(self, key: str, stream: ReadableBytes) -> int:
        """See the port."""
        check_key(key)
        taken = bytearray()
        while piece := stream.read(64 * 1024):
            taken += piece
        self.put_bytes(key, bytes(taken))
        return len(taken)

    def read_bytes(self, key: str, *, size_max: int) -> bytes:
        """See the port."""
        data = self._get(key)
        if len(data) > size_max:
            raise LimitExceeded(f"object {key} is larger than {size_max} bytes", limit="size_max", maximum=size_max)
        return data

    def read_end(self, key: str, *, bytes_max: int) -> bytes:
        """See the port."""
        return self._get(key)[-bytes_max:]

    def open(self, key: str) -> BinaryIO:
        """See the port."""
        return io.BytesIO(self._get(key))

    def stat(self, key: str) -> ObjectStat | None:
        """See the port."""
        check_key(key)
        with self._lock:
            found = self._objects.get(key)
        return ObjectStat(len(found[0]), found[1]) if found else None

    def materialize(self, key: str, path: Path) -> None:
        """See the port."""
        data = self._get(key)
        try:
            with path.open("xb") as file:
                file.write(data)
        except FileExistsError as error:
            raise AlreadyExists(f"a file of the name {path.name} exists already") from error
        except OSError as error:
            raise Determinate(f"object {key} cannot be made a file: {error.strerror}") from error

    def keys(self, prefix: str) -> Iterator[str]:
        """See the port."""
        check_prefix(prefix)
        with self._lock:
            found = sorted(key for key in self._objects if key.startswith(prefix))
        return iter(found)

    def delete(self, key: str) -> None:
        """See the port."""
        check_key(key)
        with self._lock:
            self._objects.pop(key, None)

    def write_ref(self, key: str, text: str) -> None:
        """See the port."""
        check_key(key)
        data = ref_bytes(key, text)
        with self._lock:
            self._objects[key] = (data, self._clock.now())

    def replace_ref(self, key: str, text: str, *, expected: str | None) -> bool:
        """See the port."""
        check_key(key)
        data = ref_bytes(key, text)
        with self._lock:
            found = self._objects.get(key)
            if (None if found is None else found[0].decode()) != expected:
                return False
            self._objects[key] = (data, self._clock.now())
            return True

    @contextmanager
    def exclusive(self, key: str) -> Iterator[None]:
        """See the port."""
        check_key(key)
        with self._lock:
            lock = self._exclusive.setdefault(key, threading.Lock())
        if not lock.acquire(timeout=self._lock_wait_s_max):
            raise Determinate(f"the lock of {key} is held by another")
        try:
            yield
        finally:
            lock.release()

    def read_ref(self, key: str) -> str | None:
        """See the port."""
        check_key(key)
        with self._lock:
            found = self._objects.get(key)
        if found is None:
            return None
        if len(found[0]) > REF_BYTES_MAX:
            raise LimitExceeded(f"ref {key} is too long", limit="ref_bytes_max", maximum=REF_BYTES_MAX)
        return ref_text(key, found[0])

    def link(self, key: str, *, lifetime_s: int) -> str | None:
        """See the port: memory has no address."""
        check_key(key)
        return None

    def damage(self, key: str) -> None:
        """Flip a bit in the middle of an object, as a bad disk would: for drills."""
        with self._lock:
            data, written_at = self._objects[key]
            middle = len(data) // 2
            flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
            self._objects[key] = (flipped, written_at)

    def _get(self, key: str) -> bytes:
        check_key(key)
        with self._lock:
            found = self._objects.get(key)
        if found is None:
            raise NotFound("object", key)
        return found[0]
