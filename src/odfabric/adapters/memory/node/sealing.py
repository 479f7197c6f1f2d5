"""Sealing with keys in memory, and a store of sealed rows, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from odfabric.errors import Determinate
from odfabric.formats.secrets.sealed_form import KEY_BYTES, NONCE_BYTES, key_id, mark_of, open_sealed, seal
from odfabric.ports.node.clock import Entropy
from odfabric.ports.node.sealing import SealedRow


class MemoryKeys:
    """The keys of a node, current one first; they outlive its processes."""

    def __init__(self, *keys: bytes) -> None:
        self.keys = keys
        self.changed = threading.Condition()
        self.within = 0
        self.is_alone = False


class MemorySealing:
    """A Sealing and a KeyRotation of one process, with chance that is given."""

    def __init__(self, entropy: Entropy, *, keys: MemoryKeys | None = None, wait_s_max: float = 30.0) -> None:
        self.keys = keys or MemoryKeys(entropy.random_bytes(KEY_BYTES))
        self._entropy = entropy
        self._wait_s_max = wait_s_max
        self._known: dict[bytes, bytes] = {}

    def seal(self, secret: bytes, *, context: bytes) -> bytes:
        """See the port."""
        return seal(self._current(), secret, context=context, nonce=self._entropy.random_bytes(NONCE_BYTES))

    def open(self, sealed: bytes, *, context: bytes) -> bytes:
        """See the port."""
        self._current()
        return open_sealed(sealed, context=context, find_key=self._known.get)

    def mark(self) -> bytes:
        """See the port."""
        return mark_of(self._current())

    @contextmanager
    def kept(self) -> Iterator[None]:
        """See the port."""
        with self.keys.changed:
            self._wait(lambda: not self.keys.is_alone)
            self.keys.within += 1
        try:
            self._current()
            yield
        finally:
            with self.keys.changed:
                self.keys.within -= 1
                self.keys.changed.notify_all()

    def begin(self) -> bool:
        """See the port."""
        with self._alone():
            if len(self.keys.keys) > 1:
                return False
            self.keys.keys = (self._entropy.random_bytes(KEY_BYTES), *self.keys.keys)
            return True

    def drop_old(self, last_look: Callable[[], None]) -> int:
        """See the port."""
        with self._alone():
            last_look()
            old = len(self.keys.keys) - 1
            self.keys.keys = self.keys.keys[:1]
            return old

    def _current(self) -> bytes:
        keys = self.keys.keys
        self._known |= {key_id(key): key for key in keys}
        return keys[0]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self.keys.changed:
            self._wait(lambda: not self.keys.is_alone and not self.keys.within)
            self.keys.is_alone = True
        try:
            self._current()
            yield
        finally:
            with self.keys.changed:
                self.keys.is_alone = False
                self.keys.changed.notify_all()

    def _wait(self, until: Callable[[], bool]) -> None:
        if not self.keys.changed.wait_for(until, timeout=self._wait_s_max):
            raise Determinate(f"the keys are in use for {self._wait_s_max} s", hint="do it again")


class MemorySealedStore:
    """A SealedStore over a dictionary.

    `context` maps the key of a row to its context; secrets up to `plain_bytes_max` bytes count as plain.
    """

    def __init__(self, name: str, *, context: Callable[[str], bytes], plain_bytes_max: int = -1) -> None:
        self.name = name
        self._context = context
        self.may_be_plain = plain_bytes_max >= 0
        self._plain_bytes_max = plain_bytes_max
        self._lock = threading.Lock()
        self._data: dict[str, bytes] = {}

    @property
    def data(self) -> dict[str, bytes]:
        """A copy of all there is."""
        with self._lock:
            return dict(self._data)

    def put(self, data: Mapping[str, bytes]) -> None:
        """Store these."""
        with self._lock:
            self._data.update(data)

    def is_plain(self, data: bytes) -> bool:
        """See the port."""
        return len(data) <= self._plain_bytes_max

    def rows(self, *, unlike: bytes, after: str | None, limit: int) -> Sequence[SealedRow]:
        """See the port."""
        found = sorted(item for item in self.data.items() if not item[1].startswith(unlike) and item[0] > (after or ""))
        return [SealedRow(key, self._context(key), data) for key, data in found[:limit]]

    def replace(self, changes: Sequence[tuple[SealedRow, bytes]]) -> int:
        """See the port."""
        with self._lock:
            fitting = {row.key: data for row, data in changes if self._data.get(row.key) == row.data}
            self._data.update(fitting)
        return len(fitting)
