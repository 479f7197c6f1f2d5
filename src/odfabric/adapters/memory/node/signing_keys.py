"""Signing keys in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odfabric.adapters.memory.store import MemoryStore
from odfabric.errors import AlreadyExists
from odfabric.model.instant import Instant
from odfabric.model.people.signing_key import SigningKey


class MemorySigningKeys:
    """A SigningKeys."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def add(self, key: SigningKey, *, private: bytes) -> None:
        """See the port."""
        with self._store.lock:
            known = self._store.signing_keys
            if any(each.id == key.id for each, _ in known):
                raise AlreadyExists(f"signing key {key.id} exists already")
            retired = [(replace(each, retired_at=each.retired_at or key.made_at), None) for each, _ in known]
            self._store.signing_keys = [*retired, (key, private)]

    def current(self) -> tuple[SigningKey, bytes] | None:
        """See the port."""
        with self._store.lock:
            found = [(key, private) for key, private in self._store.signing_keys if private is not None]
        return found[0] if found else None

    def all(self) -> Sequence[SigningKey]:
        """See the port."""
        with self._store.lock:
            return [key for key, _ in reversed(self._store.signing_keys)]

    def forget_retired(self, *, before: Instant) -> int:
        """See the port."""
        with self._store.lock:
            known = self._store.signing_keys
            kept = [(key, half) for key, half in known if key.retired_at is None or key.retired_at >= before]
            self._store.signing_keys = kept
            return len(known) - len(kept)
