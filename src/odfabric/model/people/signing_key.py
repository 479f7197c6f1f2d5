"""The keys with which a node signs its requests."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.model.instant import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A public key.

    `id` is its RFC 7638 thumbprint; a retired key signs no more, and its private half is gone.
    """

    id: str
    public: bytes
    made_at: Instant
    retired_at: Instant | None = None
