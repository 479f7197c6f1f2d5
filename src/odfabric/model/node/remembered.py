"""What a process remembers to save work, and may forget at any time.

Owns how much that is. Invariant: there is never an error because threads remember and forget at once; what they see of each
other is whole entries. Not here: what must be remembered, which is in a store.
"""

from __future__ import annotations

from typing import Generic, TypeVar

FORGOTTEN_SHARE = 8
"""One part of so many is forgotten at once."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class Remembered(Generic[Key, Value]):
    """At most `entries_max` values by key, give or take one for each thread.

    The oldest are forgotten.
    """

    def __init__(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self._entries: dict[Key, Value] = {}

    def get(self, key: Key) -> Value | None:
        """The value, None if it is not known."""
        return self._entries.get(key)

    def put(self, key: Key, value: Value) -> None:
        """Remember a value instead of the one before."""
        self._entries[key] = value
        if len(self._entries) > self._entries_max:
            # A list is made of the keys in one step, while an iterator fails as soon as another thread puts something. It takes as
            # long as there are entries, so some more are forgotten than must be.
            keys = list(self._entries)
            for oldest in keys[: max(0, len(keys) - self._entries_max + self._entries_max // FORGOTTEN_SHARE)]:
                self._entries.pop(oldest, None)

    def pop(self, key: Key) -> Value | None:
        """Forget a value, and return it if it was known."""
        return self._entries.pop(key, None)
