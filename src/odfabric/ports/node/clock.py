"""Time and chance, so that the core has neither of its own."""

from __future__ import annotations

from typing import Protocol

from odfabric.model.instant import Instant


class Clock(Protocol):
    """Wall time of this process."""

    def now(self) -> Instant:
        """The present instant."""


class Entropy(Protocol):
    """Unpredictable bytes."""

    def random_bytes(self, count: int) -> bytes:
        """`count` bytes fit for secrets and identifiers."""
